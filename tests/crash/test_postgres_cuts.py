"""A connection that is cut at any message of any write: the write is there once, and the caller knows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import takeback
from takeback.errors import StoreUnavailable, UnknownOutcome
from takeback.model.ids import ThreadUid
from takeback.storage import postgres_connections
from takeback.storage.base import Batch, Lock, NewCheckpoint, PutLabel, Row, Still, Tombstone, Within
from takeback.storage.postgres import PostgresStorage
from takeback.testing.handles import A, everything, head_of, ok
from takeback.testing.postgres import Server, fresh_url, shared
from takeback.testing.proxy import Cut, Proxy
from takeback.testing.rows import T0, audit, blobs, cell, following, ledger, new_thread

CUTS: list[Cut] = ["before", "in", "after", "late"]
F = ThreadUid(b"f" * 16)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy(shared().socket) as proxy:
        yield proxy


@pytest.fixture
def store(proxy: Proxy) -> Iterator[PostgresStorage]:
    schema = fresh_url().rpartition("schema=")[2]
    store = PostgresStorage(proxy.url(schema) + "&pool_size=2")
    yield store
    store.close()


Makes = Callable[[PostgresStorage, int], list[Row]]


def commit(store: PostgresStorage, turn: int) -> list[Row]:
    return [NewCheckpoint(following(head_of(store, "t")))]


def commit_with_effects(store: PostgresStorage, turn: int) -> list[Row]:
    return [NewCheckpoint(following(head_of(store, "t"))), ledger(F, seq(store), cell(b"%d" % turn))]


def effects(store: PostgresStorage, turn: int) -> list[Row]:
    return [Still(head_of(store, "t").uid, 0), ledger(F, seq(store), cell(b"%d" % turn))]


def effects_for_any_number(store: PostgresStorage, turn: int) -> list[Row]:
    return [ledger(F, None, cell(b"%d" % turn)), audit(f"cell {turn}")]


def create(store: PostgresStorage, turn: int) -> list[Row]:
    return [new_thread(f"made {turn}")]


def label(store: PostgresStorage, turn: int) -> list[Row]:
    return [PutLabel(head_of(store, "t").uid, f"l{turn}", 0), audit(f"label {turn}")]


def note(store: PostgresStorage, turn: int) -> list[Row]:
    return [audit(f"note {turn}")]


def bury(store: PostgresStorage, turn: int) -> list[Row]:
    row = new_thread(f"doomed {turn}")
    ok(store, row)
    return [Tombstone(row.uid, T0 + 5), audit(f"buried {turn}")]


def lock(store: PostgresStorage, turn: int) -> list[Row]:
    row = new_thread(f"locked {turn}")
    ok(store, row)
    return [Lock(row.uid, b"plan"), ledger(F, seq(store), cell(b"%d" % turn))]


def seq(store: PostgresStorage) -> int:
    return max((each.seq for each in store.cells(A, family=F)), default=0)


def seen(store: PostgresStorage) -> Any:
    head = head_of(store, "t")
    return everything(store, head.uid), [each.key for each in store.cells(A, family=F)]


ALL: list[Makes] = [
    commit, commit_with_effects, effects, effects_for_any_number, create, label, note, bury, lock
]  # fmt: skip


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("makes", ALL, ids=lambda makes: makes.__name__)
def test_a_write_that_is_cut_is_there_once(
    store: PostgresStorage, proxy: Proxy, makes: Makes, cut: Cut
) -> None:
    """At each message in turn, until the write passes without a cut: no error, and nothing is there twice."""
    ok(store, new_thread("t"))
    ok(store, ledger(F, 0, cell(b"first")))
    for turn in range(30):
        rows, objects = makes(store, turn), blobs(b"object %d" % turn)
        before = seen(store)
        proxy.arm(cut, turn)
        proxy.cuts = 0
        ok(store, *rows, objects=objects)
        proxy.disarm()
        if proxy.cuts == 0:
            assert turn >= 1
            break
        if cut == "late":
            proxy.settle()
        assert store.objects(A, list(objects)) == objects
        after = seen(store)
        assert after != before
        assert_written_once(store, rows)
    else:
        raise AssertionError("the write never came through")


def assert_written_once(store: PostgresStorage, rows: list[Row]) -> None:
    """The chain has no gap and no double; an audit entry is there once; a ledger's number moved by one."""
    for row in rows:
        if isinstance(row, NewCheckpoint):
            found = store.checkpoints(A, row.checkpoint.uid, 0, 999)
            assert found[-1] == row.checkpoint
            assert [c.version for c in found] == list(range(len(found)))
    actions = [entry.action for entry in store.audit(A)]
    assert len(actions) == len(set(actions))
    keys = [each.key for each in store.cells(A, family=F)]
    numbers = [each.seq for each in store.cells(A, family=F)]
    assert len(keys) == len(set(keys))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("makes", [commit, commit_with_effects, effects], ids=lambda makes: makes.__name__)
@pytest.mark.parametrize("landed", [True, False])
def test_others_write_before_the_outcome_is_found(
    store: PostgresStorage, proxy: Proxy, makes: Makes, landed: bool
) -> None:
    """They build upon a write whose writer does not know of it yet, or take its place; it is told which."""
    ok(store, new_thread("t"))
    ok(store, ledger(F, 0, cell(b"first")))
    ok(store, *makes(store, 1))  # prepares the statement: the next one is one message
    other = PostgresStorage(shared().url(store._server.schema))
    rows = makes(store, 2)
    tries = []

    def meddle(label: str) -> None:
        tries.extend([label] if label == "begin" else [])
        if len(tries) == 2 and label == "begin":
            ok(other, NewCheckpoint(following(head_of(other, "t"))), ledger(F, None, cell(b"2"), cell(b"o")))

    store.point = meddle
    proxy.arm("after" if landed else "before", 0)
    refusal = store.apply(Batch(A, rows))
    assert (refusal is None) == landed
    assert len(tries) == 2
    mine = [row.checkpoint for row in rows if isinstance(row, NewCheckpoint)]
    assert all((c in store.checkpoints(A, c.uid, 0, 99)) == landed for c in mine)
    other.close()


@pytest.mark.parametrize("cut", CUTS)
def test_work_inside_a_transaction_is_never_done_twice(
    store: PostgresStorage, proxy: Proxy, cut: Cut
) -> None:
    """A transactional tool's rows are there once, with what was written for it, or the caller is told that
    nothing is."""
    ok(store, new_thread("t"))
    table = f"tool_{cut}_{proxy.port}"
    shared().sql(f"CREATE TABLE {table} (turn int)")
    outcomes = set()
    for turn in range(30):
        calls = []

        def work(connection: Any, turn: int = turn, calls: list[int] = calls) -> list[Row]:
            calls.append(turn)
            connection.execute(f"INSERT INTO {table} VALUES (%s)", (turn,))
            return [ledger(F, None, cell(b"%d" % turn)), audit(f"worked {turn}")]

        proxy.arm(cut, turn)
        proxy.cuts = 0
        try:
            assert store.apply(Batch(A, [Within(work)])) is None
            written = True
        except Exception:
            written = False
        proxy.disarm()
        if proxy.cuts == 0:
            assert written
            break
        if cut == "late":
            proxy.settle()
        outcomes.add(written)
        rows = shared().sql(f"SELECT count(*) FROM {table} WHERE turn = {turn}")
        assert rows == [(int(written),)]
        assert [e.action for e in store.audit(A)].count(f"worked {turn}") == written
        assert len(calls) <= 1
    assert outcomes == {True, False}


def test_reads_do_not_notice(store: PostgresStorage, proxy: Proxy) -> None:
    """A read is asked again on another connection."""
    ok(store, new_thread("t"))
    for cut in CUTS:
        proxy.arm(cut, 0)
        assert head_of(store, "t").version == 0


def test_a_snapshot_that_is_cut_says_so(store: PostgresStorage, proxy: Proxy) -> None:
    """Its moment is gone: it is not put together from two. Afterwards all goes on."""
    ok(store, new_thread("t"))
    with store.snapshot():
        proxy.arm("before", 0)
        with pytest.raises(StoreUnavailable):
            head_of(store, "t")
    assert head_of(store, "t").version == 0


def test_an_outcome_that_cannot_be_found_out_is_unknown(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost and the server does not come back: that is said, and never guessed."""
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.3)
    store = PostgresStorage(proxy.url(fresh_url().rpartition("schema=")[2]) + "&pool_size=1")
    row = new_thread("t")
    second = following(row.first)
    ok(store, row)
    ok(store, NewCheckpoint(second))  # now the statement is prepared, and the next one is one message
    proxy.arm("gone", 0)
    with pytest.raises(UnknownOutcome, match="Open the store again and look"):
        ok(store, NewCheckpoint(following(second)))
    proxy.disarm()
    assert head_of(store, "t").version == 2
    store.close()


def test_a_server_that_is_killed_and_started_again() -> None:
    """What was acknowledged is there, and the same handle goes on as soon as the server does."""
    with Server(fsync=True) as server, takeback.open(server.url()) as repo:
        thread = repo.thread("t", initial={"n": 0})
        for round_ in range(2):
            done = thread.commit({"n": round_}).version
            server.kill()
            made: list[int] = []
            waits = threading.Thread(target=lambda made=made: made.append(thread.commit({"n": "on"}).version))
            waits.start()
            server.start()  # here, because a server ends with the thread that started it
            waits.join()
            assert made == [done + 1]
        versions = [c.version for c in thread.history(newest_first=False)]
        assert versions == list(range(len(versions)))
        assert all(report.ok for report in repo.verify())
