"""The contract's promises about locks, ledgers and work inside a transaction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from takeback.model.ids import ThreadUid, thread_uid
from takeback.storage.base import (
    Batch,
    Cell,
    HeadMoved,
    Ledger,
    LedgerMoved,
    Lock,
    NewCheckpoint,
    Row,
    Still,
    Storage,
    ThreadGone,
    ThreadLocked,
    ThreadQuery,
    Tombstone,
    Within,
)
from takeback.testing.handles import A, Handles, found, ok, refused, together
from takeback.testing.rows import cell, following, ledger, new_thread

F, G = ThreadUid(b"f" * 16), ThreadUid(b"g" * 16)


class _Broken(Exception):
    """What work inside a transaction raises here."""


class Ledgers(Handles):
    """Locks, cells, and the callers' own work."""

    def test_cells_come_back(self, store: Storage, again: Callable[[], Storage]) -> None:
        """In the order of their numbers, each as it was last written, with the number of that write."""
        ok(store, ledger(F, 0, cell(b"b", b"1"), cell(b"a", b"1", live=True)))
        ok(store, ledger(F, 1, cell(b"b", b"2", kind="step")))
        ok(store, ledger(F, 2, cell(b"b", b"3")))
        assert again().cells(A, family=F) == [
            Cell("effect", b"a", b"thread", b"1", True, 1, F),
            Cell("step", b"b", b"thread", b"2", False, 2, F),
            Cell("effect", b"b", b"thread", b"3", False, 3, F),
        ]

    def test_cells_after_a_number(self, store: Storage) -> None:
        """Whoever has read up to a number reads only what came since."""
        ok(store, ledger(F, 0, cell(b"a")), ledger(F, 1, cell(b"b")))
        ok(store, ledger(F, 2, cell(b"c")))
        assert [c.key for c in store.cells(A, family=F, after=1)] == [b"b", b"c"]
        assert store.cells(A, family=F, after=3) == []
        assert store.cells(A, family=G) == []

    def test_live_cells(self, store: Storage) -> None:
        """Those that somebody has to see to, of one family or of all."""
        ok(store, ledger(F, 0, cell(b"a", live=True), cell(b"b")), ledger(G, 0, cell(b"c", live=True)))
        assert [(c.family, c.key) for c in store.cells(A, live=True)] == [(F, b"a"), (G, b"c")]
        assert [c.key for c in store.cells(A, family=F, live=True)] == [b"a"]
        ok(store, ledger(F, 1, cell(b"a")))
        assert [c.key for c in store.cells(A, live=True)] == [b"c"]

    def test_a_ledger_that_moved(self, store: Storage) -> None:
        """A write that was made for another number is refused, and says what the number is."""
        ok(store, ledger(F, 0, cell(b"a")))
        assert refused(store, ledger(F, 0, cell(b"b"))) == LedgerMoved(1)
        assert refused(store, ledger(F, 2, cell(b"b"))) == LedgerMoved(1)
        assert [c.key for c in store.cells(A, family=F)] == [b"a"]
        ok(store, ledger(F, None, cell(b"b")))
        assert [(c.key, c.seq) for c in store.cells(A, family=F)] == [(b"a", 1), (b"b", 2)]

    def test_a_ledger_goes_with_its_batch(self, store: Storage) -> None:
        """A refusal of a later row takes the cells back; a head that moves brings them."""
        row = new_thread("t")
        ok(store, row)
        late = following(following(row.first))
        before = store.cells(A, family=row.uid)
        rows: list[Row] = [ledger(row.uid, 0, cell()), NewCheckpoint(late)]
        assert store.apply(Batch(A, rows)) is not None
        assert store.cells(A, family=row.uid) == before
        ok(store, ledger(row.uid, 0, cell()), NewCheckpoint(following(row.first)))
        assert len(store.cells(A, family=row.uid)) == 1

    def test_one_winner_of_a_number(self, store: Storage) -> None:
        """Of several that write for one number, one does."""
        batches = [Batch(A, [ledger(F, 0, cell(b"%d" % n))]) for n in range(4)]
        calls = [partial(store.apply, batch) for batch in batches]
        assert sorted(map(str, together([*calls]))) == sorted(["None", *["LedgerMoved(seq=1)"] * 3])
        assert len(store.cells(A, family=F)) == 1

    def test_tenants_have_ledgers_of_their_own(self, store: Storage) -> None:
        """The same family's number and cells are another tenant's own."""
        ok(store, ledger(F, 0, cell(b"a", live=True)))
        assert store.apply(Batch("other", [ledger(F, 0, cell(b"b"))])) is None
        assert [c.key for c in store.cells("other", family=F)] == [b"b"]
        assert store.cells("other", live=True) == []
        assert store.cells("nobody", family=F) == []

    def test_a_locked_thread(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Only what names the lock moves the head of a locked thread; the lock shows, and can be let go."""
        row = new_thread("t")
        ok(store, row)
        ok(store, Lock(row.uid, b"plan"))
        info, head = found(again(), "t")
        assert info.lock == b"plan"
        assert refused(store, NewCheckpoint(following(head))) == ThreadLocked(b"plan")
        assert refused(store, NewCheckpoint(following(head), lock=b"other")) == ThreadLocked(b"plan")
        assert refused(store, Lock(row.uid, b"other")) == ThreadLocked(b"plan")
        assert refused(store, Tombstone(row.uid, 1)) == ThreadLocked(b"plan")
        second = following(head)
        ok(store, NewCheckpoint(second, lock=b"plan"), Lock(row.uid, None, was=b"plan"))
        assert refused(store, NewCheckpoint(following(second), lock=b"plan")) == ThreadLocked(None)
        ok(store, NewCheckpoint(following(second)))

    def test_a_head_that_is_still_there(self, store: Storage) -> None:
        """What is written beside a thread can suppose where its head stands."""
        row = new_thread("t")
        ok(store, row)
        ok(store, Still(row.uid, 0), ledger(F, 0, cell()))
        ok(store, Still(row.uid, 0, row.first.digest))
        second = following(row.first, line=1)
        ok(store, NewCheckpoint(second))
        assert refused(store, Still(row.uid, 0), ledger(F, 1, cell())) == HeadMoved(1, second.digest)
        assert refused(store, Still(row.uid, 1, row.first.digest)) == HeadMoved(1, second.digest)
        ok(store, Lock(row.uid, b"plan"))
        assert refused(store, Still(row.uid, 1)) == ThreadLocked(b"plan")
        assert refused(store, Still(thread_uid(), 0)) == ThreadGone(None)
        assert len(store.cells(A, family=F)) == 1

    def test_no_lock_on_what_is_gone(self, store: Storage) -> None:
        """A thread that never was cannot be locked."""
        assert refused(store, Lock(thread_uid(), b"plan")) == ThreadGone(None)

    def test_families(self, store: Storage, again: Callable[[], Storage]) -> None:
        """A thread keeps the family that it was made in."""
        root = new_thread("root")
        fork = new_thread("fork", family=root.uid)
        ok(store, root, fork)
        assert found(again(), "root")[0].family == root.uid
        assert found(again(), "fork")[0].family == root.uid
        assert {info.family for info in again().threads(A, ThreadQuery())} == {root.uid}

    def test_work_within(self, store: Storage) -> None:
        """The rows that work gives are part of the transaction that it ran in."""
        ran: list[Any] = []

        def work(connection: Any) -> list[Row]:
            ran.append(connection)
            return [ledger(F, 0, cell(b"a"))]

        ok(store, Within(work))
        assert len(ran) == 1
        assert [c.key for c in store.cells(A, family=F)] == [b"a"]

    def test_work_within_that_fails(self, store: Storage) -> None:
        """Nothing of the batch stays, and the caller sees what went wrong; the store goes on."""

        def work(_: Any) -> list[Row]:
            raise _Broken

        with pytest.raises(_Broken):
            store.apply(Batch(A, [ledger(F, 0, cell(b"a")), Within(work)]))
        assert store.cells(A, family=F) == []
        ok(store, ledger(F, 0, cell(b"a")))

    def test_work_within_that_is_refused(self, store: Storage) -> None:
        """A refusal of what work gave is the answer of the batch."""
        ok(store, ledger(F, 0, cell(b"a")))
        rows: list[Row] = [Within(lambda _: [Ledger(F, 0, [cell(b"b")])])]
        assert store.apply(Batch(A, rows)) == LedgerMoved(1)
