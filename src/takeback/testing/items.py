"""The contract's promises about items of memory: versions, their order, guards, holds, and what is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from takeback.model import canonical
from takeback.model.ids import thread_uid
from takeback.model.records import Pointer
from takeback.storage.base import Batch, HeadMoved, NewCheckpoint, Row, Storage, Tombstone
from takeback.storage.items import (
    AllVersions,
    FreeItems,
    ItemMoved,
    ItemRow,
    NewestUnder,
    NewVersion,
    PutItems,
    Seen,
    TouchItems,
    TurnItems,
    VersionsBy,
    VersionsOf,
)
from takeback.testing.handles import A, Handles, ok, refused, together
from takeback.testing.rows import T0, audit, following, new_thread

NS = "users\x1fann"
ALL = "\U0010ffff"


def version(record: bytes = b"r", key: str = "k", namespace: str = NS, **fields: Any) -> NewVersion:
    """A version of an item that was written at T0."""
    fields = {"at_us": T0} | fields
    return NewVersion(namespace, key, digest=canonical.digest(record), record=record, **fields)


def put(store: Storage, *versions: NewVersion) -> None:
    ok(store, PutItems(list(versions)))


def versions(store: Storage, key: str = "k", namespace: str = NS, tenant: str = A) -> list[ItemRow]:
    return store.find(tenant, VersionsOf(namespace, key))


def records(rows: list[ItemRow]) -> list[bytes]:
    return [row.record for row in rows]


def _place(row: ItemRow) -> tuple[str, str, int]:
    return row.namespace, row.key, row.at_us


class Items(Handles):
    """Memory, as a storage keeps it."""

    def test_versions_come_back_as_they_were_written(
        self, store: Storage, again: Callable[[], Storage]
    ) -> None:
        """Newest first, each with its number, and nothing that another tenant or item has."""
        uid = thread_uid()
        put(store, version(b"1", mac=b"m"), version(b"2", at_us=T0 + 9, thread=uid, line=3, version=4))
        put(store, version(b"x", key="other"), version(b"y", namespace="users"))
        assert store.apply(Batch("b", [PutItems([version(b"theirs")])])) is None
        two, one = versions(again())
        assert (one.record, one.number, one.mac, one.thread, one.free) == (b"1", 1, b"m", b"", True)
        assert (two.record, two.number, two.mac, two.at_us) == (b"2", 2, None, T0 + 9)
        assert (two.thread, two.line, two.version, two.free) == (uid, 3, 4, False)
        assert (two.namespace, two.key, two.count, two.turn) == (NS, "k", 2, 0)
        assert two.digest == canonical.digest(b"2")
        assert records(store.find(A, VersionsOf(NS, "k", limit=1))) == [b"2"]
        assert records(versions(store, tenant="b")) == [b"theirs"]
        assert versions(store, "none") == versions(store, tenant="none") == []

    def test_the_order_is_the_store_s(self, store: Storage, again: Callable[[], Storage]) -> None:
        """What is written later is newer, whatever the writer's clock says."""
        put(store, version(b"1"), version(b"2", at_us=T0 - 10_000), version(b"3"))
        assert records(versions(again())) == [b"3", b"2", b"1"]
        assert [row.number for row in versions(again())] == [3, 2, 1]

    def test_what_is_brought_keeps_its_place(self, store: Storage, again: Callable[[], Storage]) -> None:
        """An import is older than what was written after it elsewhere; brought twice, it is there once."""
        put(store, version(b"here"))
        uid = thread_uid()
        old = version(b"old", at_us=T0 - 5, brought=True, thread=uid, line=1, version=2)
        same = version(b"same moment", brought=True, free=True)
        put(store, old, same)
        put(store, old, version(b"late", at_us=T0 + 5, brought=True))
        put(store, version(b"newest"))
        found = versions(again())
        assert records(found) == [b"newest", b"late", b"same moment", b"here", b"old"]
        assert (found[-1].at_us, found[-1].free) == (T0 - 5, False)
        assert {row.number for row in found} == {1, 2, 3, 4, 5}
        assert found[0].count == 5

    def test_a_guard_is_what_was_seen(self, store: Storage) -> None:
        """Written only if nobody wrote and no history went back since; nothing of a refused batch stays."""
        new = Seen(NS, "k", 0, 0)
        put(store, version(b"1", seen=new))
        late = version(b"2", seen=new)
        assert refused(store, audit("x"), PutItems([version(b"y", key="y"), late])) == ItemMoved(NS, "k")
        assert (records(versions(store)), versions(store, "y"), store.audit(A)) == ([b"1"], [], [])
        seen = versions(store)[0].seen
        assert refused(store, PutItems([version(b"z", key="none", seen=seen)])) == ItemMoved(NS, "none")
        ok(store, TurnItems([seen]))
        assert refused(store, PutItems([version(b"2", seen=seen)])) == ItemMoved(NS, "k")
        assert refused(store, TurnItems([seen])) == ItemMoved(NS, "k")
        assert isinstance(refused(store, TurnItems([Seen(NS, "none", 0, 0)])), ItemMoved)
        assert versions(store)[0].turn == 1
        put(store, version(b"2", seen=versions(store)[0].seen))
        assert records(versions(store)) == [b"2", b"1"]

    def test_of_writers_with_one_guard_one_writes(self, store: Storage, again: Callable[[], Storage]) -> None:
        """At one moment, from any handle: compare and swap."""
        put(store, version(b"0"))
        seen = versions(store)[0].seen

        def write(number: int) -> Any:
            return store.apply(Batch(A, [PutItems([version(b"%d" % number, seen=seen)])]))

        answers = together([partial(write, number) for number in range(6)])
        assert sorted(map(str, answers)) == sorted([str(None), *[str(ItemMoved(NS, "k"))] * 5])
        assert len(versions(again())) == 2

    def test_with_a_checkpoint_or_not_at_all(self, store: Storage) -> None:
        """A step's writes share its transaction: where the head moved, nothing is remembered."""
        thread = new_thread("t")
        ok(store, thread)
        one = following(thread.first)
        write = PutItems([version(b"1", thread=thread.uid, version=1)])
        ok(store, NewCheckpoint(one), write)
        late = following(thread.first, time_us=T0 + 5)
        assert isinstance(refused(store, NewCheckpoint(late), write), HeadMoved)
        moved = PutItems([version(b"2", seen=Seen(NS, "k", 0, 0))])
        assert refused(store, NewCheckpoint(following(one)), moved) == ItemMoved(NS, "k")
        assert records(versions(store)) == [b"1"]
        assert store.thread_by_uid(A, thread.uid).head == 1  # type: ignore[union-attr]  # it is there

    def test_a_version_says_where_its_writer_stands(
        self, store: Storage, again: Callable[[], Storage]
    ) -> None:
        """The head at this moment and its line; nothing of a thread that was deleted, or never was."""
        thread = new_thread("t")
        ok(store, thread)
        put(store, version(b"1", thread=thread.uid, line=0, version=0))
        put(store, version(b"2", key="lost", thread=thread_uid(), version=7))
        back = following(thread.first, line=1, origin=Pointer(thread.uid, 0, thread.first.digest))
        ok(store, NewCheckpoint(back))
        row = versions(again())[0]
        assert (row.head, row.head_line) == (Pointer(thread.uid, 1, back.digest), 1)
        assert row.family == thread.uid
        assert versions(again(), "lost")[0].head is None
        ok(store, Tombstone(thread.uid, T0))
        assert versions(again())[0].head is None

    def test_versions_that_stay_for_good(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Freed one by one; what is absent is no error."""
        uid = thread_uid()
        put(store, version(b"1", thread=uid), version(b"2", thread=uid))
        ok(store, FreeItems([(NS, "k", 2), (NS, "k", 9), (NS, "none", 1)]))
        assert [(row.number, row.free) for row in versions(again())] == [(2, True), (1, False)]

    def test_a_touch_never_goes_back(self, store: Storage, again: Callable[[], Storage]) -> None:
        put(store, version())
        ok(store, TouchItems([(NS, "k"), (NS, "none")], T0 + 5), TouchItems([(NS, "k")], T0))
        assert versions(again())[0].touched_us == T0 + 5

    def test_of_items_a_refused_batch_leaves_nothing(self, store: Storage) -> None:
        """Of all that it wrote about items before it was refused."""
        uid = thread_uid()
        put(store, version(b"1", thread=uid))
        before = versions(store)
        stale = version(b"x", key="y", seen=Seen(NS, "y", 5, 5))
        rows: list[Row] = [
            PutItems([version(b"2"), version(b"n", key="new")]), FreeItems([(NS, "k", 1)]),
            TouchItems([(NS, "k")], T0),
        ]  # fmt: skip
        refused(store, *rows, PutItems([stale]))
        assert versions(store) == before
        assert versions(store, "new") == []
        put(store, version(b"2"))
        assert [row.number for row in versions(store)] == [2, 1]

    def test_the_newest_under_a_namespace(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Each item once, in order, in pages; a namespace's run holds what is below it and nothing else."""
        names = ["users", NS, NS + "\x1fprefs", "users\x1fbob", "users ", "users!", "usersann", "üsers"]
        for name in names:
            put(store, *(version(b"old", key, name) for key in "ba"))
            put(store, version(name.encode(), "b", name))
        below = store.find(A, NewestUnder("users", "users\x20"))
        assert [(row.namespace, row.key) for row in below] == [
            (name, key) for name in ["users", NS, NS + "\x1fprefs", "users\x1fbob"] for key in "ab"
        ]
        assert records(below)[:2] == [b"old", b"users"]
        seen: list[tuple[str, str]] = []
        while page := again().find(A, NewestUnder("", ALL, seen[-1] if seen else ("", ""), 3)):
            seen += [(row.namespace, row.key) for row in page]
        assert seen == [(name, key) for name in sorted(names) for key in "ab"]
        assert store.find("b", NewestUnder("", ALL)) == []

    def test_what_a_thread_wrote(self, store: Storage, again: Callable[[], Storage]) -> None:
        """In the order of its checkpoints, in a run of them; what nobody's history wrote is nobody's."""
        one, two = thread_uid(), thread_uid()
        for number in (1, 2, 3):
            put(store, version(b"%d" % number, f"k{number}", thread=one, version=number))
        put(store, version(b"other", thread=two, version=2), version(b"free"))
        assert records(again().find(A, VersionsBy(one))) == [b"1", b"2", b"3"]
        assert records(store.find(A, VersionsBy(one, 2, 3))) == [b"2", b"3"]
        assert records(store.find(A, VersionsBy(one, limit=1))) == [b"1"]
        assert store.find(A, VersionsBy(b"")) == store.find("b", VersionsBy(one)) == []

    def test_all_versions_in_pages(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Each once, old ones too, in the order of items and times."""
        put(store, *(version(b"%d" % n, f"k{n % 3}") for n in range(8)))
        seen: list[ItemRow] = []
        while page := again().find(A, AllVersions(_place(seen[-1]) if seen else ("", "", 0), 3)):
            seen += page
        assert records(seen) == [b"0", b"3", b"6", b"1", b"4", b"7", b"2", b"5"]
        assert store.find("b", AllVersions()) == []
