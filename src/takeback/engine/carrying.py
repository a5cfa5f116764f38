"""What a version that takeback makes says to the graph whose thread it is.

A graph knows checkpoints by its own ids. A rollback, an undo or a fork restores every lasting namespace of
the thread, so the row stands for a copy of each in the graph's eyes: with an id of its own, the parent of
what it copies, and no writes pending. Anything else that is made here is an update to the graph.
"""

from __future__ import annotations

from typing import Any

from takeback.engine.context import Context, pointer
from takeback.model import graphs
from takeback.model.graphs import SUBGRAPHS, VALUES, Place
from takeback.model.records import Checkpoint, Pointer, instant
from takeback.model.tree import read
from takeback.model.tree.nodes import Getter, Writer
from takeback.storage.base import Places


def carried(
    ctx: Context, head: Checkpoint, root: bytes, fresh: dict[bytes, bytes], origin: Pointer | None, kind: str
) -> dict[str, Any]:
    """What the metadata says to the graph; nothing where the thread is no graph's. `fresh` are objects that
    the version brings and the store does not have yet."""
    if not graphs.is_marked(head):
        return {}
    now = ctx.clock()
    source = Writer(ctx)
    source.new = fresh
    if origin is None:
        return graphs.marked(_updates(ctx, source, head, root, now))
    if root == head.state_root:  # the state stays: only files or effects go back
        origin = pointer(head)
    held = namespaces(source, root)
    copies = [_copy(ctx, origin, namespace, now, kind) for namespace in held]
    # A subgraph that began after the target must not remember: in the graph's eyes nothing is there.
    gone = (
        [] if kind == "fork" else [each for each in namespaces(source, head.state_root) if each not in held]
    )
    return graphs.marked(copies + [Place(namespace, "") for namespace in gone])


def namespaces(source: Getter, root: bytes) -> list[str]:
    """The namespaces that a state holds and a later step goes on from."""
    state = source.get(root)
    found = [""] if VALUES in read.keys_at(state, (), source) else []
    return found + [name for name in read.keys_at(state, (SUBGRAPHS,), source) if graphs.is_stable(name)]


def newest(
    ctx: Context, uid: bytes, namespace: str, before: int | None = None
) -> tuple[Checkpoint, Place] | None:
    """The graph's newest checkpoint of a namespace, before a version; None also where one was taken back."""
    found = ctx.storage.find(ctx.tenant, Places(uid, namespace, before=before, limit=1))
    if not found:
        return None
    row = found[0].checkpoint
    place = place_of(row, namespace)
    return (row, place) if place.id else None


def place_of(row: Checkpoint, namespace: str) -> Place:
    return next(place for place in graphs.places(row) if place.namespace == namespace)


def _copy(ctx: Context, origin: Pointer, namespace: str, now: int, kind: str) -> Place:
    found = newest(ctx, origin.uid, namespace, origin.version + 1)
    copied = Place(namespace, "") if found is None else found[1]
    step = copied.metadata.get("step")
    said = copied.metadata | {"source": "fork", "step": step + 1 if type(step) is int else -1}
    parent = None if kind == "fork" else copied.parent  # another thread's is none of this one's
    stamp = instant(now).isoformat()
    return Place(namespace, graphs.fresh_id(now), parent, stamp, said, beside=copied.beside)


def _updates(ctx: Context, source: Getter, head: Checkpoint, root: bytes, now: int) -> list[Place]:
    """What was changed by hand, or by a merge: in those namespaces whose part is another now."""
    found = []
    before, after = source.get(head.state_root), source.get(root)
    for namespace in namespaces(source, root):
        path = graphs.inside(namespace)
        same = read.payload_at(before, path, source) == read.payload_at(after, path, source)
        if same:
            continue
        last = newest(ctx, head.uid, namespace)
        parent = None if last is None else last[1]
        step = -1 if parent is None else parent.metadata.get("step")
        said = {"source": "update", "step": step + 1 if type(step) is int else -1, "parents": {}}
        stamp = instant(now).isoformat()
        beside = {} if parent is None else parent.beside
        new = Place(
            namespace, graphs.fresh_id(now), parent.id if parent else None, stamp, said, beside=beside
        )
        found.append(new)
    return found
