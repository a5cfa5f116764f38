"""Commits that share a statement on PostgreSQL: each is answered for itself, whatever the others are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from takeback.model.graphs import Place
from takeback.storage.base import (
    Batch,
    HeadMoved,
    Lock,
    NewCheckpoint,
    Places,
    ThreadGone,
    ThreadLocked,
    Tombstone,
)
from takeback.storage.postgres import PostgresStorage
from takeback.storage.postgres_server import Wire
from takeback.testing.graphs import placed
from takeback.testing.handles import A, head_of, ok
from takeback.testing.postgres import Server, fresh_url, shared
from takeback.testing.rows import T0, audit, blobs, following, merging, new_thread

GROUP = "commit_many"


class Held:
    """A storage whose writer is held before it sends, so that those who come meanwhile wait together."""

    def __init__(self, store: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.sent: list[str] = []
        self.answers: dict[int, Any] = {}
        self._threads: list[threading.Thread] = []
        self._there, self._go = threading.Event(), threading.Event()
        self.hook: Callable[[str, Wire], None] = lambda name, wire: None
        names = {sql: name for name, sql in store._sql.items()}
        ask = Wire.ask

        def asked(wire: Wire, sql: str, values: Any = None) -> Any:
            name = names.get(sql, "")
            if self._threads and not self._there.is_set():
                self._there.set()
                assert self._go.wait(30)
            self.sent.append(name)
            self.hook(name, wire)
            found = ask(wire, sql, values)
            self.hook(f"after {name}", wire)
            return found

        monkeypatch.setattr(Wire, "ask", asked)

    def waiting(self, *batches: Batch) -> None:
        held = new_thread("held")
        ok(self.store, held)
        self._start(-1, Batch(A, [NewCheckpoint(following(held.first))]))
        assert self._there.wait(30)
        for number, batch in enumerate(batches):
            self._start(number, batch)
            while len(self.store._writer._group._queue) <= number:
                time.sleep(0.0005)

    def _start(self, number: int, batch: Batch) -> None:
        def work() -> None:
            try:
                self.answers[number] = self.store.apply(batch)
            except BaseException as error:
                self.answers[number] = error

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def go(self) -> None:
        self._go.set()

    def answered(self) -> list[Any]:
        self.go()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "somebody waits for an answer that nobody gives"
        return [self.answers[number] for number in range(len(self._threads) - 1)]


@pytest.fixture
def store() -> Iterator[PostgresStorage]:
    store = PostgresStorage(fresh_url())
    yield store
    store.close()


def commit(row: Any, *payloads: bytes, **fields: Any) -> Batch:
    return Batch(A, [NewCheckpoint(following(row.first, **fields))], blobs(*payloads))


def test_those_who_wait_are_one_statement(store: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that a checkpoint can say, and objects that several bring, or none."""
    rows = [new_thread(f"t{number}") for number in range(5)]
    ok(store, *rows)
    batches = [commit(row, b"shared", b"own %d" % n, reason="r", mac=b"m" * n) for n, row in enumerate(rows)]
    batches.append(Batch(A, [NewCheckpoint(merging(new := new_thread("new").first, rows[0].first))]))
    del new
    plain = new_thread("plain")
    ok(store, plain)
    held = Held(store, monkeypatch)
    held.waiting(*batches[:5], Batch(A, [NewCheckpoint(merging(plain.first, rows[0].first))]))
    assert held.answered() == [None] * 6
    assert held.sent.count(GROUP) == 1
    for row, batch in zip(rows, batches[:5], strict=True):
        made = batch.rows[0]
        assert isinstance(made, NewCheckpoint)
        assert head_of(store, row.name) == made.checkpoint
        assert store.objects(A, list(batch.objects)) == batch.objects
    assert head_of(store, "plain").merged is not None


def test_each_is_told_its_own(store: PostgresStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved, locked, deleted, never there, second for one head; and those between them are written."""
    rows = {name: new_thread(name) for name in ("a", "moved", "locked", "deleted", "twice", "z")}
    ok(store, *rows.values())
    theirs = following(rows["moved"].first, reason="theirs")
    ok(store, NewCheckpoint(theirs), Lock(rows["locked"].uid, b"plan"))
    ok(store, Tombstone(rows["deleted"].uid, T0 + 5))
    held = Held(store, monkeypatch)
    names = ["a", "moved", "locked", "deleted", "twice", "twice", "z"]
    batches = [commit(rows[name], b"object %d" % n, actor=str(n)) for n, name in enumerate(names)]
    held.waiting(*batches, commit(new_thread("never")))
    answers = held.answered()
    assert answers == [
        None, HeadMoved(1, theirs.digest), ThreadLocked(b"plan"), ThreadGone(T0 + 5), None,
        HeadMoved(1, head_of(store, "twice").digest), None, ThreadGone(None),
    ]  # fmt: skip
    assert head_of(store, "twice").actor == "4"
    there = [bool(store.objects(A, list(batch.objects))) for batch in batches]
    assert there == [answer is None for answer in answers[:7]]


def test_an_object_that_a_refused_one_shares_is_there(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who brings it first may be refused; whoever else needs it still has it."""
    rows = [new_thread("a"), new_thread("b")]
    ok(store, *rows)
    ok(store, NewCheckpoint(following(rows[0].first, reason="theirs")))
    held = Held(store, monkeypatch)
    held.waiting(commit(rows[0], b"shared"), commit(rows[1], b"shared"))
    assert [answer is None for answer in held.answered()] == [False, True]
    assert store.objects(A, list(blobs(b"shared"))) == blobs(b"shared")


def test_what_is_no_plain_commit_does_not_wait(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = new_thread("t")
    ok(store, row)
    held = Held(store, monkeypatch)
    held.waiting(commit(row))
    ok(store, audit("meanwhile"))
    assert held.answered() == [None]


def test_another_tenants_commit_is_written_beside(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = new_thread("t"), new_thread("t")
    ok(store, mine)
    assert store.apply(Batch("b", [theirs])) is None
    held = Held(store, monkeypatch)
    held.waiting(commit(mine), Batch("b", [NewCheckpoint(following(theirs.first))]))
    assert held.answered() == [None, None]
    assert (head_of(store, "t").version, store.thread("b", "t")[1].version) == (1, 1)  # type: ignore[index]  # it is there


@pytest.mark.parametrize("moment", [GROUP, f"after {GROUP}"])
def test_an_answer_that_is_lost_is_found_out_by_each(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before it was sent nothing is there, afterwards all: either way each is written once, and told so."""
    rows = [new_thread(f"t{number}") for number in range(4)]
    ok(store, *rows)
    ok(store, NewCheckpoint(theirs := following(rows[3].first, reason="theirs")))
    held, cut = Held(store, monkeypatch), []

    def hook(name: str, wire: Wire) -> None:
        if name == moment and not cut:
            cut.append(name)
            wire.close()
            raise psycopg.OperationalError("the connection is lost")

    held.hook = hook
    held.waiting(*(commit(row, b"object", reason="mine") for row in rows))
    assert held.answered() == [None, None, None, HeadMoved(1, theirs.digest)]
    assert [head_of(store, row.name).version for row in rows] == [1] * 4
    assert cut == [moment]


def test_a_statement_that_fails_is_nobodys_fault_but_ones(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL cannot hold a NUL in text: who brings one hears of it, the others are written."""
    rows = [new_thread(f"t{number}") for number in range(3)]
    ok(store, *rows)
    held = Held(store, monkeypatch)
    held.waiting(commit(rows[0]), commit(rows[1], kind="no\0text"), commit(rows[2]))
    first, second, third = held.answered()
    assert (first, third) == (None, None)
    assert isinstance(second, Exception)
    assert [head_of(store, row.name).version for row in rows] == [1, 0, 1]


def test_a_server_that_is_killed_under_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back, and each finds its own commit there, or writes it."""
    with Server(fsync=True) as server:
        store = PostgresStorage(server.url())
        rows = [new_thread(f"t{number}") for number in range(4)]
        ok(store, *rows)
        held, killed = Held(store, monkeypatch), threading.Event()

        def hook(name: str, wire: Wire) -> None:
            if name == GROUP and not killed.is_set():
                server.kill()
                killed.set()

        held.hook = hook
        held.waiting(*(commit(row) for row in rows))
        held.go()
        assert killed.wait(30)
        server.start()  # here: it lives as long as the thread of execution that started it
        assert held.answered() == [None] * 4
        assert [head_of(store, row.name).version for row in rows] == [1] * 4
        store.close()


def test_a_refusal_whose_connection_is_lost_is_a_refusal(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to take back that the server would not have taken back."""
    row = new_thread("t")
    ok(store, row, NewCheckpoint(theirs := following(row.first)))
    ask, name = Wire.ask, store._sql["hold_threads"]

    def asked(wire: Wire, sql: str, values: Any = None) -> Any:
        found = ask(wire, sql, values)
        if sql == name:
            shared().sql(f"SELECT pg_terminate_backend({wire.info.backend_pid}, 5000)")
        return found

    monkeypatch.setattr(Wire, "ask", asked)
    late = NewCheckpoint(following(row.first, reason="late"))
    assert store.apply(Batch(A, [late])) == HeadMoved(1, theirs.digest)


def test_groups_and_others_do_not_wait_in_a_circle() -> None:
    """Two handles whose groups lock many threads, in the order in which they were asked for."""
    before = len(shared().log())  # other tests of this server make a deadlock on purpose
    url = fresh_url()
    rows = [new_thread(f"t{number}") for number in range(8)]
    with_rows = PostgresStorage(url)
    ok(with_rows, *rows)
    stores = [with_rows, PostgresStorage(url)]
    heads = {row.uid: row.first for row in rows}
    refused: list[Any] = []

    def work(store: PostgresStorage, row: Any) -> None:
        head = heads[row.uid]
        for _ in range(15):
            made = following(head)
            answer = store.apply(Batch(A, [NewCheckpoint(made)], blobs(b"same for all")))
            refused.append(answer) if answer is not None else None
            head = made if answer is None else head_of(store, row.name)

    threads = [threading.Thread(target=work, args=(store, row)) for store in stores for row in rows[::-1]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert {type(answer) for answer in refused} <= {HeadMoved}
    versions = [head_of(with_rows, row.name).version for row in rows]
    assert sum(versions) == 2 * 8 * 15 - len(refused)
    for store in stores:
        store.close()
    assert "deadlock" not in shared().log()[before:]


def test_a_graphs_checkpoints_are_found_however_many_write(store: PostgresStorage) -> None:
    """They are more than a row each, so they go their own way, at whatever moment they come."""
    rows = [new_thread(f"t{number}") for number in range(6)]
    ok(store, *rows)

    def work(row: Any) -> None:
        head = row.first
        for number in range(10):
            head = placed(head, Place("", f"{row.name}.{number}"))
            assert store.apply(Batch(A, [NewCheckpoint(head)])) is None

    threads = [threading.Thread(target=work, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for row in rows:
        assert len(store.find(A, Places(row.uid))) == 10
