"""The contract, of what is read: threads, runs of checkpoints, labels, the audit log, and snapshots."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from takeback.model.ids import thread_uid
from takeback.model.records import AuditEntry
from takeback.storage.base import (
    DropLabel,
    History,
    NewCheckpoint,
    PutLabel,
    Row,
    Storage,
    ThreadQuery,
    Tombstone,
)
from takeback.testing.handles import A, Handles, everything, found, labels, ok, together
from takeback.testing.rows import T0, audit, following, merging, new_thread, run


class Reading(Handles):
    """What the reading calls promise."""

    # --- reading

    def test_threads_newest_first(self, store: Storage, again: Callable[[], Storage]) -> None:
        """By when they were made, not by when they were written to; deleted ones are left out."""
        rows = [new_thread(f"t{n}") for n in range(6)]
        for row in rows:
            ok(store, row)
        ok(store, NewCheckpoint(following(rows[0].first, time_us=T0 + 99)), Tombstone(rows[3].uid, T0))
        found = again().threads(A, ThreadQuery())
        assert [info.name for info in found] == ["t5", "t4", "t2", "t1", "t0"]
        assert (found[-1].head, found[-1].updated_us) == (1, T0 + 99)

    def test_threads_in_pages(self, store: Storage) -> None:
        """Pages by `after` and `limit` give each thread once, also while new ones come and old ones go."""
        rows = [new_thread(f"t{n}", meta={"odd": n % 2}) for n in range(7)]
        ok(store, *rows)
        page = store.threads(A, ThreadQuery(limit=3))
        assert [info.name for info in page] == ["t6", "t5", "t4"]
        ok(store, new_thread("later"), Tombstone(rows[3].uid, T0))
        page = store.threads(A, ThreadQuery(limit=2, after=page[-1].key))
        assert [info.name for info in page] == ["t2", "t1"]
        page = store.threads(A, ThreadQuery(limit=2, after=page[-1].key))
        assert [info.name for info in page] == ["t0"]
        assert store.threads(A, ThreadQuery(after=page[-1].key)) == []
        assert store.threads(A, ThreadQuery(limit=0)) == []
        odd = store.threads(A, ThreadQuery(limit=1, meta={"odd": 1}))
        assert [info.name for info in odd] == ["t5"]
        rest = store.threads(A, ThreadQuery(limit=9, after=odd[0].key, meta={"odd": 1}))
        assert [info.name for info in rest] == ["t1"]

    def test_threads_by_what_they_are(self, store: Storage) -> None:
        """Filters hold together; a created time is matched with both ends."""
        ok(
            store,
            new_thread("a", agent="x", user="ada", created_us=T0 + 1),
            new_thread("b", agent="x", user="bob", created_us=T0 + 2),
            new_thread("c", agent="y", user="ada", created_us=T0 + 3),
            new_thread("d", created_us=T0 + 4),
        )

        def names(**query: Any) -> list[str]:
            return [info.name for info in store.threads(A, ThreadQuery(**query))]

        assert names(agent="x") == ["b", "a"]
        assert names(user="ada") == ["c", "a"]
        assert names(agent="x", user="ada") == ["a"]
        assert names(agent="nobody") == []
        assert names(created_after_us=T0 + 2, created_before_us=T0 + 3) == ["c", "b"]
        assert names(created_after_us=T0 + 4) == ["d"]
        assert names(created_before_us=T0) == []

    def test_threads_by_metadata(self, store: Storage) -> None:
        """A thread fits when it has each key with exactly this value: 1, 1.0 and True are three values."""
        ok(
            store,
            new_thread("int", meta={"n": 1, "k": {"x": [1]}, "more": 0}),
            new_thread("none", meta={"n": None}),
        )
        ok(store, new_thread("bool", meta={"n": True, "k": {"x": [True]}}), new_thread("bare"))

        def names(**meta: Any) -> list[str]:
            return [info.name for info in store.threads(A, ThreadQuery(meta=meta))]

        assert names() == ["bare", "bool", "none", "int"]
        assert names(n=1) == ["int"]
        assert (names(n=1.0), names(n=True), names(n=None)) == ([], ["bool"], ["none"])
        assert names(k={"x": [1]}) == ["int"]
        assert (names(n=1, more=0), names(n=1, less=0), names(absent=None)) == (["int"], [], [])

    def test_runs_of_checkpoints(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Both ends belong to a run; a limit counts from the end that comes first."""
        row, other = new_thread("t"), new_thread("other")
        every = [row.first, *run(row.first, 9)]
        ok(store, other, row, History(every[1:]))
        seen = again()
        uid = row.uid
        assert seen.checkpoints(A, uid, 0, 9) == every
        assert seen.checkpoints(A, uid, 3, 5) == every[3:6]
        assert seen.checkpoints(A, uid, -7, 1) == every[:2]
        assert seen.checkpoints(A, uid, 8, 99) == every[8:]
        assert seen.checkpoints(A, uid, 3, 5, newest_first=True) == every[5:2:-1]
        assert seen.checkpoints(A, uid, 0, 9, limit=2) == every[:2]
        assert seen.checkpoints(A, uid, 0, 9, newest_first=True, limit=2) == [every[9], every[8]]
        assert seen.checkpoints(A, uid, 5, 4) == seen.checkpoints(A, uid, 10, 99) == []
        assert seen.checkpoints(A, uid, -9, -1) == seen.checkpoints(A, uid, 0, 9, limit=0) == []
        assert (seen.checkpoint(A, uid, 4), seen.checkpoint(A, uid, 10)) == (every[4], None)
        assert (seen.checkpoint(A, uid, -1), seen.checkpoint(A, thread_uid(), 0)) == (None, None)

    def test_merges_alone(self, store: Storage) -> None:
        """With `merges` a run is the merges in it, in both orders, and a limit counts merges."""
        row, other = new_thread("t"), new_thread("other")
        every = [row.first]
        for number in range(1, 10):
            after = every[-1]
            every.append(merging(after, other.first) if number % 3 == 0 else following(after))
        ok(store, other, row, History(every[1:]))
        uid, merged = row.uid, [every[3], every[6], every[9]]
        assert store.checkpoints(A, uid, 0, 9, merges=True) == merged
        assert store.checkpoints(A, uid, 4, 8, merges=True) == [every[6]]
        assert store.checkpoints(A, uid, 0, 9, merges=True, limit=2) == merged[:2]
        assert store.checkpoints(A, uid, 0, 9, merges=True, newest_first=True, limit=2) == [
            every[9],
            every[6],
        ]
        assert store.checkpoints(A, other.uid, 0, 9, merges=True) == []

    def test_labels(self, store: Storage, again: Callable[[], Storage]) -> None:
        """A label names one version, moves, goes, and the labels are sorted."""
        row = new_thread("t")
        ok(store, row, *map(NewCheckpoint, run(row.first, 2)))
        ok(store, *(PutLabel(row.uid, label, 0) for label in ("b", "a", "é", "B")))
        ok(store, PutLabel(row.uid, "a", 2), DropLabel(row.uid, "b"), DropLabel(row.uid, "absent"))
        assert list(labels(again(), row.uid).items()) == [("B", 0), ("a", 2), ("é", 0)]
        assert labels(store, thread_uid()) == {}

    def test_the_audit_log(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Entries stand in the order in which they were written, are read in pages and by thread, and are
        numbered by the store."""
        one, two = thread_uid(), thread_uid()
        for n in range(6):
            ok(store, audit(f"a{n}", one if n % 2 else two, n=n, at=[n]))
        ok(store, audit("none"), audit("none too"))
        seen = again()
        every = seen.audit(A)
        assert [e.action for e in every] == ["a0", "a1", "a2", "a3", "a4", "a5", "none", "none too"]
        assert [e.key for e in every] == sorted({e.key for e in every})
        written = AuditEntry(
            time_us=T0, action="a3", thread="t", uid=one, actor="tester", detail={"n": 3, "at": [3]}
        )
        assert every[3] == msgspec.structs.replace(written, key=every[3].key)
        assert seen.audit(A, limit=3) == every[:3]
        assert seen.audit(A, after=every[2].key, limit=2) == every[3:5]
        assert seen.audit(A, after=every[-1].key) == []
        assert [e.action for e in seen.audit(A, uid=one)] == ["a1", "a3", "a5"]
        assert [e.action for e in seen.audit(A, uid=one, after=every[1].key, limit=1)] == ["a3"]
        assert seen.audit(A, uid=thread_uid()) == []

    def test_the_audit_log_outlives_the_thread(self, store: Storage) -> None:
        """What was done stays on record after its thread is gone."""
        row = new_thread("t")
        ok(store, row, audit("made", row.uid))
        ok(store, Tombstone(row.uid, T0), audit("deleted", row.uid))
        assert [e.action for e in store.audit(A, uid=row.uid)] == ["made", "deleted"]

    def test_answers_are_the_callers_own(self, store: Storage) -> None:
        """Whoever changes what was given or received changes nothing in the store."""
        given = {"k": ["v"]}
        row = new_thread("t", meta={"k": ["v"]})
        ok(store, row, NewCheckpoint(following(row.first, meta=given)), audit("x", row.uid, k=["v"]))

        def answers() -> list[dict[str, Any]]:
            (info, head), (entry,) = found(store, "t"), store.audit(A)
            listed, (run_,) = store.threads(A, ThreadQuery()), store.checkpoints(A, row.uid, 1, 1)
            by_uid, one = store.thread_by_uid(A, row.uid), store.checkpoint(A, row.uid, 1)
            assert by_uid is not None
            assert one is not None
            return [info.meta, head.meta, entry.detail, listed[0].meta, run_.meta, by_uid.meta, one.meta]

        given["k"].append("changed")
        for meta in answers():
            assert meta == {"k": ["v"]}
            meta["k"].append("changed")
            meta["new"] = 1
        assert answers() == [{"k": ["v"]}] * 7
        assert labels(store, row.uid) == {}

    # --- snapshots

    def test_a_snapshot_is_one_moment(self, store: Storage) -> None:
        """Reads inside see what the first one saw, whatever is written meanwhile; then all is seen."""
        row = new_thread("t")
        ok(store, row)
        rows: list[Row] = [
            NewCheckpoint(following(row.first)),
            PutLabel(row.uid, "x", 1),
            new_thread("u"),
            audit("x"),
        ]
        writer = threading.Thread(target=lambda: ok(store, *rows))
        with store.snapshot():
            before = everything(store, row.uid)
            writer.start()
            writer.join(timeout=0.2)  # a store may let the writer in, or let it wait
            with store.snapshot():
                assert everything(store, row.uid) == before
            assert everything(store, row.uid) == before
        writer.join()
        assert everything(store, row.uid) != before
        assert found(store, "t")[0].head == 1

    def test_a_snapshot_that_fails_is_over(self, store: Storage) -> None:
        """An error inside a snapshot is the caller's, and the next read sees what is there by then."""
        row = new_thread("t")
        ok(store, row)

        def fail() -> None:
            with store.snapshot():
                store.thread(A, "t")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        together([lambda: ok(store, NewCheckpoint(following(row.first)))])
        assert found(store, "t")[0].head == 1

    def test_a_thread_and_its_head_are_of_one_moment(self, store: Storage) -> None:
        """While others write, a thread is never seen with a head that is not its own."""
        row = new_thread("t")
        ok(store, row)
        done = threading.Event()

        def write() -> None:
            for c in run(row.first, 60):
                ok(store, NewCheckpoint(c))
            done.set()

        def read() -> int:
            looks = 0
            while not done.is_set() or not looks:
                info, head = found(store, "t")
                assert (info.head, info.head_digest, info.updated_us) == (
                    head.version,
                    head.digest,
                    head.time_us,
                )
                looks += 1
            return looks

        assert all(together([write, read, read])[1:])
