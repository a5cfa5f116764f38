"""Threads of execution that write at one moment share a transaction: who is answered what, and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from takeback.errors import BadRequest, StoreBusy, StoreError, StoreFull, Unstorable
from takeback.model.records import AuditEntry
from takeback.storage import group
from takeback.storage.base import (
    Audit,
    Batch,
    HeadMoved,
    NameTaken,
    NewCheckpoint,
    PutLabel,
    Row,
    ThreadGone,
    Within,
)
from takeback.storage.group import Group, Member
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Disk
from takeback.testing.handles import A, head_of, labels, ok, refused
from takeback.testing.rows import audit, blobs, following, new_thread, run


class Held:
    """A storage whose writer is held just before its commit: those who come meanwhile wait together."""

    def __init__(self, store: SqliteStorage) -> None:
        self.store = store
        self.labels: list[str] = []
        self.answers: dict[int, Any] = {}
        self.order: list[int] = []
        self._threads: list[threading.Thread] = []
        self._there, self._go = threading.Event(), threading.Event()
        self.hook: Callable[[str], None] = lambda label: None
        store.point = self._first

    def _first(self, label: str) -> None:
        if label == "commit" and not self._there.is_set():
            self._there.set()
            assert self._go.wait(30)
            self.store.point = self._later

    def _later(self, label: str) -> None:
        self.labels.append(label)
        self.hook(label)

    def waiting(self, *batches: Batch) -> None:
        """One writes and is held; these wait behind it, in this order."""
        self._start(-1, Batch(A, [audit("held")]))
        assert self._there.wait(30)
        for number, batch in enumerate(batches):
            self._start(number, batch)
            while len(self.store._group._queue) <= number:
                time.sleep(0.0005)

    def _start(self, number: int, batch: Batch) -> None:
        def work() -> None:
            try:
                answer: object = self.store.apply(batch)
            except BaseException as error:
                answer = error
            self.order.append(number)
            self.answers[number] = answer

        thread = threading.Thread(target=work)
        thread.start()
        self._threads.append(thread)

    def answered(self) -> list[Any]:
        """Let go; the answers in the order in which they were asked for."""
        self._go.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "somebody waits for an answer that nobody gives"
        self.store.point = None
        return [self.answers[number] for number in range(len(self._threads) - 1)]


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStorage]:
    store = SqliteStorage(os.fspath(store_path))
    yield store
    store.close()


def commit(row: Any, **fields: Any) -> Batch:
    return Batch(A, [NewCheckpoint(following(row.first, **fields))], blobs(repr(fields).encode()))


def test_those_who_wait_share_one_commit(store: SqliteStorage) -> None:
    rows = [new_thread(f"t{number}") for number in range(6)]
    ok(store, *rows)
    held = Held(store)
    held.waiting(*(commit(row, reason="mine") for row in rows))
    assert held.answered() == [None] * 6
    assert (held.labels.count("commit"), held.labels.count("member")) == (1, 6)
    assert [head_of(store, row.name).reason for row in rows] == ["mine"] * 6


def test_one_by_itself_has_no_savepoint(store: SqliteStorage) -> None:
    passed: list[str] = []
    store.point = passed.append
    ok(store, new_thread("t"))
    assert passed == ["begin", "NewThread", "commit", "committed"]


def test_nobody_is_answered_before_the_commit(store: SqliteStorage) -> None:
    """Not even who was refused: it lost against a row that a power cut could still take away."""
    row = new_thread("t")
    ok(store, row)
    held = Held(store)

    def look(label: str) -> None:
        if label == "commit":
            time.sleep(0.02)
            assert held.order == [-1]

    held.hook = look
    held.waiting(commit(row, reason="first"), commit(row, reason="second"), Batch(A, [audit("x")]))
    first, second, third = held.answered()
    assert (first, third) == (None, None)
    assert second == HeadMoved(1, head_of(store, "t").digest)


def test_a_refused_member_leaves_nothing_and_the_others_all(store: SqliteStorage) -> None:
    """Of eight for one head one is let in; objects, labels and entries of the others are nowhere."""
    row = new_thread("t")
    ok(store, row)
    batches = [
        Batch(
            A,
            [
                audit(f"try {n}"),
                PutLabel(row.uid, f"l{n}", 0),
                NewCheckpoint(following(row.first, actor=f"{n}")),
            ],
            blobs(b"object %d" % n),
        )
        for n in range(8)
    ]
    held = Held(store)
    held.waiting(*batches)
    answers = held.answered()
    head = head_of(store, "t")
    assert answers == [None] + [HeadMoved(1, head.digest)] * 7
    assert (head.actor, labels(store, row.uid)) == ("0", {"l0": 0})
    assert [e.action for e in store.audit(A)] == ["held", "try 0"]
    assert [bool(store.objects(A, list(batch.objects))) for batch in batches] == [True] + [False] * 7


def test_a_thread_that_was_refused_is_not_mistaken_for_the_next(store: SqliteStorage) -> None:
    """What it was numbered is given to the thread that another member brings."""
    row, lost, late = new_thread("t"), new_thread("lost"), new_thread("late")
    ok(store, row)
    stale = NewCheckpoint(following(following(row.first)))
    held = Held(store)
    held.waiting(Batch(A, [lost, stale]), Batch(A, [late]), Batch(A, [NewCheckpoint(following(lost.first))]))
    assert held.answered() == [HeadMoved(0, row.first.digest), None, ThreadGone(None)]
    assert head_of(store, "late") == late.first
    assert refused(store, NewCheckpoint(following(lost.first))) == ThreadGone(None)
    ok(store, NewCheckpoint(following(late.first)))


def test_members_see_those_before_them(store: SqliteStorage) -> None:
    """As if each had its own transaction, one after the other: a name is given once."""
    one, other = new_thread("t"), new_thread("t")
    after = run(one.first, 2)
    held = Held(store)
    held.waiting(Batch(A, [one]), Batch(A, [other]), *(Batch(A, [NewCheckpoint(each)]) for each in after))
    assert held.answered() == [None, NameTaken("t"), None, None]
    assert held.labels.count("commit") == 1
    assert head_of(store, "t") == after[-1]


def test_who_raises_takes_nobody_along(store: SqliteStorage) -> None:
    rows = [new_thread(f"t{number}") for number in range(3)]
    ok(store, *rows)
    bad = Audit(AuditEntry(time_us=1, action="x", thread=None, detail={"what": object()}))
    held = Held(store)
    held.waiting(commit(rows[0]), Batch(A, [NewCheckpoint(following(rows[1].first)), bad]), commit(rows[2]))
    first, second, third = held.answered()
    assert (first, third) == (None, None)
    assert isinstance(second, Unstorable)
    assert [head_of(store, row.name).version for row in rows] == [1, 0, 1]


def test_work_of_a_callers_shares_its_transaction_with_nobody(store: SqliteStorage) -> None:
    row = new_thread("t")
    ok(store, row)

    def work(connection: Any) -> list[Row]:
        connection.execute("ROLLBACK")  # the worst that it can do
        raise ValueError("its own")

    held = Held(store)
    held.waiting(
        Batch(A, [audit("a")]), Batch(A, [audit("lost"), Within(work)]), commit(row), commit(row, step="b")
    )
    first, second, third, fourth = held.answered()
    assert (first, str(second), third) == (None, "its own", None)
    assert isinstance(fourth, HeadMoved)
    assert held.labels.count("member") == 2
    assert [e.action for e in store.audit(A)] == ["held", "a"]


def test_a_write_inside_a_write_is_refused(store: SqliteStorage) -> None:
    """It would wait for itself."""

    def work(_: Any) -> list[Row]:
        store.apply(Batch(A, [audit("inner")]))
        return []

    with pytest.raises(BadRequest, match="inside another write"):
        store.apply(Batch(A, [audit("outer"), Within(work)]))
    ok(store, audit("after"))
    assert [e.action for e in store.audit(A)] == ["after"]


# --- faults


class Fails:
    """A hook of a disk that raises at one operation, once."""

    def __init__(self, what: str, error: Exception) -> None:
        self.what, self.error, self.armed = what, error, False

    def __call__(self, what: str) -> None:
        if self.armed and what == self.what:
            self.armed = False
            raise self.error


def failing(path: Path, what: str, error: Exception) -> tuple[SqliteStorage, Fails]:
    disk = Disk()
    disk.hook = fails = Fails(what, error)
    return SqliteStorage(os.fspath(path), vfs=disk.label), fails


def io_error(kind: int) -> apsw.IOError:
    error = apsw.IOError("the disk failed")
    error.extendedresult = kind
    return error


@pytest.mark.parametrize("what", ["write wal", "sync wal"])
def test_after_an_io_error_each_member_is_told_what_became_of_its_own(store_path: Path, what: str) -> None:
    """Nothing that was acknowledged is missing, nothing that was refused is there, and writing goes on."""
    kind = apsw.SQLITE_IOERR_WRITE if what == "write wal" else apsw.SQLITE_IOERR_FSYNC
    store, fails = failing(store_path, what, io_error(kind))
    rows = [new_thread(f"t{number}") for number in range(4)]
    ok(store, *rows)
    held = Held(store)
    held.hook = lambda label: setattr(fails, "armed", label == "commit")
    held.waiting(*(commit(row) for row in rows), commit(rows[0], reason="too late"))
    answers = held.answered()
    assert not fails.armed, "the disk did not fail"
    for row, answer in zip(rows, answers[:4], strict=True):
        assert answer is None or isinstance(answer, StoreError)
        assert head_of(store, row.name).version == (answer is None)
    assert isinstance(answers[4], StoreError | HeadMoved)
    assert len({type(answer) for answer in answers[:4]}) == 1, "one transaction has one fate"
    for row in rows:
        ok(store, NewCheckpoint(following(head_of(store, row.name))))
    assert store.damage() == []
    store.close()


def test_a_full_disk_refuses_whom_it_has_no_room_for(store_path: Path) -> None:
    """SQLite ends the whole transaction; each is then written by itself."""
    store, fails = failing(store_path, "write wal", apsw.FullError("no room"))
    rows = [new_thread(f"t{number}") for number in range(3)]
    ok(store, *rows)
    held = Held(store)
    begun: list[int] = []

    def arm(label: str) -> None:
        if label == "commit":
            begun.append(1)
            fails.armed = len(begun) < 3  # the common one, and the first that is written by itself

    held.hook = arm
    held.waiting(*(commit(row) for row in rows))
    first, *others = held.answered()
    assert isinstance(first, StoreFull)
    assert others == [None, None]
    assert [head_of(store, row.name).version for row in rows] == [0, 1, 1]
    store.close()


def test_a_file_that_is_held_is_waited_for_once(
    store: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by each member anew."""
    held = Held(store)
    tries: list[int] = []

    def busy(label: str) -> None:
        if label == "begin":
            tries.append(1)
            raise apsw.BusyError("held")

    held.hook = busy
    held.waiting(*(Batch(A, [audit(str(n))]) for n in range(5)))
    assert {type(answer) for answer in held.answered()} == {StoreBusy}
    assert len(tries) == 1


# --- the queue by itself


def names(members: list[Member]) -> list[str]:
    return [member.batch.tenant for member in members]


class Queue:
    """A group whose writing is the test's own."""

    def __init__(self) -> None:
        self.wrote: list[list[str]] = []
        self.go, self.inside = threading.Event(), threading.Event()
        self.act: Callable[[list[Member]], None] = lambda members: None
        self.group = Group(self._write)
        self.threads: list[threading.Thread] = []
        self.heard: dict[str, Any] = {}

    def _write(self, members: list[Member]) -> None:
        self.wrote.append(names(members))
        self.inside.set()
        assert self.go.wait(30)
        self.act(members)
        for member in members:
            member.answer(None)

    def ask(self, name: str, member: Member | None = None) -> None:
        def work() -> None:
            try:
                self.heard[name] = self.group.apply(member or Member(Batch(name, []), None))
            except BaseException as error:
                self.heard[name] = error

        thread = threading.Thread(target=work)
        queued = len(self.group._queue)
        thread.start()
        self.threads.append(thread)
        if len(self.threads) == 1:
            assert self.inside.wait(30)
        else:
            while len(self.group._queue) == queued:
                time.sleep(0.0005)

    def end(self) -> None:
        self.go.set()
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()


def sized(name: str, size: int) -> Member:
    return Member(Batch(name, [], {b"d": bytes(size)}), None)


def test_in_the_order_in_which_they_came() -> None:
    queue = Queue()
    for name in "abcdef":
        queue.ask(name)
    queue.end()
    assert queue.wrote == [["a"], list("bcdef")]


def test_the_large_keep_few_waiting_and_are_not_passed_over() -> None:
    queue = Queue()
    queue.ask("a")
    for name, size in (("small", 10), ("large", group.BYTES), ("huge", 3 * group.BYTES), ("b", 1), ("c", 1)):
        queue.ask(name, sized(name, size))
    queue.end()
    assert queue.wrote == [["a"], ["small"], ["large"], ["huge"], ["b", "c"]]


def test_no_more_than_so_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MEMBERS", 3)
    queue = Queue()
    for name in "abcdefgh":
        queue.ask(name)
    queue.end()
    assert queue.wrote == [["a"], list("bcd"), list("efg"), ["h"]]


def test_an_interrupted_writer_leaves_the_others_to_the_next() -> None:
    """A signal's exception ends its own call alone; who was not judged is written by the next."""
    queue = Queue()

    def act(members: list[Member]) -> None:
        if names(members)[0] == "b":
            raise KeyboardInterrupt

    queue.act = act
    for name in "abcd":
        queue.ask(name)
    queue.end()
    assert isinstance(queue.heard.pop("b"), KeyboardInterrupt)
    assert queue.heard == {"a": None, "c": None, "d": None}
    assert queue.wrote == [["a"], ["b", "c", "d"], ["c", "d"]]


class Impatient:
    """The gate of one who is interrupted while it waits."""

    def __init__(self) -> None:
        self.gone = threading.Event()

    def acquire(self) -> None:
        assert self.gone.wait(30)
        raise KeyboardInterrupt

    def release(self) -> None:
        """Nobody is there to be let through."""


@pytest.mark.parametrize("moment", ["in the queue", "chosen", "while it is written"])
def test_whoever_is_interrupted_while_it_waits_holds_up_nobody(moment: str) -> None:
    queue = Queue()
    queue.ask("a")
    gate = Impatient()

    def wait(member: Member) -> None:
        if member.batch.tenant == "b":
            member.gate = gate
            queue.group._queue.append(member)
        else:
            Group._wait(queue.group, member)

    queue.group._wait = wait  # type: ignore[method-assign]  # one gate of the test's own
    if moment == "while it is written":
        queue.ask("c")
        queue.act = lambda members: gate.gone.set() if "b" in names(members) else None
    queue.ask("b")
    if moment == "in the queue":
        gate.gone.set()
        while queue.group._queue:
            time.sleep(0.0005)
    queue.ask("d") if moment != "in the queue" else None
    if moment == "chosen":
        queue.go.set()
        while queue.group._leader != 0:
            time.sleep(0.0005)
        gate.gone.set()
    queue.end()
    assert isinstance(queue.heard.pop("b"), KeyboardInterrupt)
    assert set(queue.heard.values()) == {None}
    assert any("b" in wrote for wrote in queue.wrote) == (moment == "while it is written")
