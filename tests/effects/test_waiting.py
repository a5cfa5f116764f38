"""Whoever waits is told at once where the store can tell, and agrees with others on what time it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback
from takeback.engine import waiting
from takeback.engine.waiting import SharedClock, Waiter
from takeback.storage import connect
from takeback.storage.base import Storage, Told
from takeback.storage.postgres import PostgresStorage
from takeback.testing.handles import A, ok
from takeback.testing.postgres import Server, fresh_url
from takeback.testing.rows import cell, ledger

F = b"f" * 16


@pytest.fixture
def store() -> Iterator[PostgresStorage]:
    store = PostgresStorage(fresh_url())
    yield store
    store.close()


def tells(store: Storage) -> int:
    """The number that it is at, once it listens."""
    for _ in range(1000):
        ((number, works),) = store.find(A, Told(-1, 0.01))
        if works:
            return number
        time.sleep(0.01)
    raise AssertionError("it never began to listen")


def test_another_process_is_told(store: PostgresStorage) -> None:
    """By whatever handle it is written; and only what somebody may wait for, of this tenant."""
    seen = tells(store)
    other = PostgresStorage(store.info().location)
    ok(other, ledger(F, 0, cell(b"a")))
    assert other.apply(takeback.storage.base.Batch("b", [waking(0)])) is None
    assert store.find(A, Told(seen, 0.3)) == [(seen, True)]
    ok(other, waking(1))
    assert store.find(A, Told(seen, 30))[0][0] > seen
    other.close()


def waking(seq: int) -> takeback.storage.base.Ledger:
    row = ledger(F, seq, cell(b"b"))
    return takeback.storage.base.Ledger(row.family, row.seq, row.cells, wakes=True)


def test_nothing_is_told_of_what_was_taken_back(store: PostgresStorage) -> None:
    seen = tells(store)
    refusal = store.apply(takeback.storage.base.Batch(A, [waking(0), ledger(F, 9, cell())]))
    assert refusal is not None
    assert store.find(A, Told(seen, 0.3)) == [(seen, True)]


def test_who_listens_is_found_again() -> None:
    """While the server is away it is looked now and then; afterwards whoever waits is told again."""
    with Server() as server:
        store = PostgresStorage(server.url())
        seen = tells(store)
        server.kill()
        assert store.find(A, Told(seen, 30))[0] != (seen, True)
        server.start()
        assert tells(store) > seen
        store.close()


def test_a_worker_is_woken() -> None:
    """It would look once a minute; the plan is done at once all the same."""
    url = fresh_url()
    done: list[str] = []

    def undo(name: str) -> None:
        done.append(name)

    @takeback.tool(undo=undo)
    def make(name: str) -> None: ...

    stop = threading.Event()
    with takeback.open(url) as repo, takeback.open(url) as hers:
        trip = repo.thread("t", initial={"n": 0})
        with trip.step("one"):
            make("a")
        tells(hers._ctx.storage)
        worker = threading.Thread(target=lambda: hers.work(stop=stop, poll=60))
        worker.start()
        try:
            assert repo.work() == 0
            began = waiting.time.monotonic()
            trip.plan_undo().apply(reason="not this")
            assert done == ["a"]
            assert waiting.time.monotonic() - began < 60
        finally:
            stop.set()
            worker.join()


@pytest.mark.parametrize("where", ["file", "postgres", "memory"])
def test_a_waiter_ends_when_it_is_told_to(where: str, store_path: Path) -> None:
    url = {"file": str(store_path), "postgres": fresh_url(), "memory": ":memory:"}[where]
    storage = connect(url)
    stop = threading.Event()
    waiter = Waiter(storage, A, 600)
    thread = threading.Thread(target=lambda: waiter.wait(stop=stop))
    thread.start()
    stop.set()
    thread.join()
    Waiter(storage, A, 600).wait(until=time.monotonic() + 0.05)
    storage.close()


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_wrong_is_nothing_to_a_lease(
    store: PostgresStorage, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Leases are compared by several machines; the store's clock is what they agree on."""
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3_600_000_000_000)
    clock = SharedClock(store, A)
    assert abs(clock() - right() // 1000) < 60_000_000
    monkeypatch.setattr(time, "time_ns", right)
    assert abs(clock() - right() // 1000) < 60_000_000


def test_on_one_machine_its_clock_counts(store_path: Path) -> None:
    with takeback.open(store_path) as repo:
        assert abs(repo._ctx.shared_clock() - time.time_ns() // 1000) < 60_000_000
