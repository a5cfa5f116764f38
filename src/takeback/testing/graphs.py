"""The contract's promises about threads that a graph writes: its names for checkpoints, and its writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from takeback.model import graphs
from takeback.model.graphs import GraphWrite, Place
from takeback.model.ids import ThreadUid, thread_uid
from takeback.model.records import Checkpoint
from takeback.storage.base import (
    Buried,
    Found,
    HeadMoved,
    Hide,
    History,
    NewCheckpoint,
    Places,
    PutWrites,
    Row,
    Storage,
    ThreadGone,
    Tombstone,
    Writes,
)
from takeback.testing.handles import A, Handles, head_of, ok, refused
from takeback.testing.rows import T0, following, new_thread

KEY, OTHER = b"k" * 16, b"o" * 16


def placed(head: Checkpoint, *places: Place) -> Checkpoint:
    """The next version of a graph's thread, which stands for these checkpoints of the graph."""
    return following(head, meta=graphs.marked(list(places)))


def write(task: str = "task", number: int = 0, data: bytes = b"data", **said: Any) -> GraphWrite:
    made = {"key": KEY, "channel": "messages", "path": "", "digest": b"d" * 32} | said
    return GraphWrite(task=task, number=number, data=data, **made)


def ids(found: list[Found]) -> list[str]:
    """The graph's ids of what was found."""
    return [
        place.id
        for each in found
        for place in graphs.places(each.checkpoint)
        if place.namespace == each.namespace
    ]


class Graphs(Handles):
    """What a graph names, and what its tasks wrote."""

    def test_a_row_is_found_by_the_graphs_names(self, store: Storage, again: Callable[[], Storage]) -> None:
        """By id, by namespace and by thread, newest first; each with its whole record."""
        row = new_thread("t")
        ok(store, row)
        one = placed(row.first, Place("", "a", metadata={"source": "input", "step": 1, "run_id": "r"}))
        two = placed(one, Place("", "b", "a"), Place("sub", "s", metadata={"step": 2}))
        ok(store, NewCheckpoint(one), NewCheckpoint(two))
        look = again()

        def find(**asked: Any) -> list[str]:
            return ids(look.find(A, Places(**asked)))

        uid = row.uid
        assert find(uid=uid) == ["b", "s", "a"]
        assert find(uid=uid, namespace="") == ["b", "a"]
        assert find(uid=uid, namespace="sub") == ["s"]
        assert find(uid=uid, namespace="none") == []
        assert find(uid=uid, hash=graphs.index_key("a")) == ["a"]
        assert find(uid=uid, hash=graphs.index_key("none")) == []
        assert find(uid=uid, source="input") == ["a"]
        assert find(uid=uid, step=2) == ["s"]
        assert find(uid=uid, before=2) == ["a"]
        assert find(uid=uid, limit=1) == ["b"]
        assert find(run=graphs.index_key("r")) == ["a"]
        assert find(uid=thread_uid()) == []
        assert look.find(A, Places(uid, "sub"))[0].checkpoint == two
        assert look.find("another tenant", Places()) == []

    def test_places_of_all_threads(self, store: Storage) -> None:
        """In the order in which the store got them, whatever the writers' clocks said."""
        ahead, behind = new_thread("ahead", time_us=T0 + 3_600_000_000), new_thread("behind")
        ok(store, ahead, behind)
        first = placed(ahead.first, Place("", "1"))
        ok(store, NewCheckpoint(first))
        ok(store, NewCheckpoint(placed(behind.first, Place("", "2"))))
        ok(store, NewCheckpoint(placed(first, Place("sub", "3"))))
        assert ids(store.find(A, Places())) == ["3", "2", "1"]
        assert ids(store.find(A, Places(namespace=""))) == ["2", "1"]
        seq = store.find(A, Places())[1].seq
        assert ids(store.find(A, Places(before=seq))) == ["1"]

    def test_a_thread_that_comes_whole(self, store: Storage) -> None:
        """An import's rows are found by the graph's names as well."""
        row = new_thread("t")
        one = placed(row.first, Place("", "a"))
        ok(store, row, History([one, placed(one, Place("", "b"))]))
        assert ids(store.find(A, Places(row.uid))) == ["b", "a"]

    def test_hidden(self, store: Storage) -> None:
        """A graph sees no more what was hidden, and the chain keeps it."""
        row = new_thread("t")
        one = placed(row.first, Place("", "a"))
        two = placed(one, Place("", "b"), Place("sub", "s"))
        ok(store, row, History([one, two]), Hide(row.uid, [(1, ""), (2, "sub"), (9, "none")]))
        assert ids(store.find(A, Places(row.uid))) == ["b"]
        assert store.find(A, Places(row.uid, hash=graphs.index_key("a"))) == []
        found = store.find(A, Places(row.uid, hidden=True))
        assert [(each.namespace, each.hidden) for each in found] == [("", False), ("sub", True), ("", True)]
        assert store.checkpoint(A, row.uid, 1) == one

    def test_writes_come_back(self, store: Storage, again: Callable[[], Storage]) -> None:
        """In the order of path, task and number; all that each says, and long data whole."""
        row = new_thread("t")
        ok(store, row)
        long = write("b", 0, b"long " * 1000, path="~1")
        ok(store, PutWrites(row.uid, [write("b", 1), write("a", 1, path="~1"), write("a", 0), long]))
        ok(store, PutWrites(row.uid, [write("z", key=OTHER)]))
        found = again().find(A, Writes(row.uid, [KEY]))
        assert [(each.path, each.task, each.number) for each in found] == [
            ("", "a", 0), ("", "b", 1), ("~1", "a", 1), ("~1", "b", 0),
        ]  # fmt: skip
        assert found[3] == long
        assert [each.key for each in again().find(A, Writes(row.uid, [KEY, OTHER]))] == [KEY] * 4 + [OTHER]
        assert len(again().find(A, Writes(row.uid))) == 5
        assert again().find(A, Writes(row.uid, [b"none" * 4])) == []
        assert again().find("another tenant", Writes(row.uid)) == []

    def test_the_first_write_stays_and_special_ones_replace(self, store: Storage) -> None:
        """A task that is tried again does not change what it wrote; an error or an interrupt is the last."""
        row = new_thread("t")
        ok(store, row, PutWrites(row.uid, [write(data=b"1"), write(number=-3, data=b"1")]))
        ok(store, PutWrites(row.uid, [write(data=b"2"), write(number=-3, data=b"2", channel="other")]))
        found = store.find(A, Writes(row.uid, [KEY]))
        assert [(each.number, each.data, each.channel) for each in found] == [
            (-3, b"2", "other"), (0, b"1", "messages"),
        ]  # fmt: skip

    def test_a_refused_batch_leaves_nothing_of_a_graph(self, store: Storage) -> None:
        """Places, writes and what was hidden are part of the transaction."""
        row = new_thread("t")
        one = placed(row.first, Place("", "a"))
        ok(store, row, NewCheckpoint(one), PutWrites(row.uid, [write(number=-1, data=b"1")]))
        late = placed(row.first, Place("", "late"))
        rows: list[Row] = [
            Hide(row.uid, [(1, "")]),
            PutWrites(row.uid, [write(number=-1, data=b"2"), write()]),
            NewCheckpoint(placed(one, Place("", "b"))),
            NewCheckpoint(late),
        ]
        assert isinstance(refused(store, *rows), HeadMoved)
        assert ids(store.find(A, Places(row.uid))) == ["a"]
        assert [each.data for each in store.find(A, Writes(row.uid))] == [b"1"]

    def test_a_deleted_thread_leaves_nothing_to_a_graph(self, store: Storage) -> None:
        """Nothing is found of it, nothing is written to it, and its name says that it was."""
        row = new_thread("t")
        ok(store, row, NewCheckpoint(placed(row.first, Place("", "a"))), PutWrites(row.uid, [write()]))
        assert store.find(A, Buried("t")) == []
        ok(store, Tombstone(row.uid, T0))
        assert store.find(A, Places(row.uid, hidden=True)) == []
        assert store.find(A, Places()) == []
        assert store.find(A, Writes(row.uid)) == []
        assert isinstance(refused(store, PutWrites(row.uid, [write()])), ThreadGone)
        assert isinstance(refused(store, Hide(row.uid, [(1, "")])), ThreadGone)
        assert isinstance(refused(store, PutWrites(ThreadUid(b"n" * 16), [write()])), ThreadGone)
        assert [info.uid for info in store.find(A, Buried("t"))] == [row.uid]
        ok(store, new_thread("t"))
        assert store.find(A, Places()) == []
        assert head_of(store, "t").version == 0
