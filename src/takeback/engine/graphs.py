"""Threads that a graph writes: its checkpoints become versions, and are found by the graph's own ids.

A state holds what every lasting namespace of the thread holds, so that one rollback restores them all, and
what the namespace holds that a version was written in. Writers never wait for one another: who was not the
first tries again on the new head. Where a graph goes on from a checkpoint that is not its newest, the
version opens a line, and says over which head it was written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

import msgspec

from takeback.engine import carrying, items
from takeback.engine.channels import Fill
from takeback.engine.commit import Draft, Identity, Said, create, draft_state, publish
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.items import Ahead, Name, Write
from takeback.errors import Conflict, CorruptObject, ThreadDeleted, ThreadExists
from takeback.model import graphs
from takeback.model.graphs import BESIDE, MARK, SUBGRAPHS, VALUES, GraphWrite, Place
from takeback.model.ids import ThreadUid
from takeback.model.records import Checkpoint
from takeback.model.tree import edit, read
from takeback.model.tree.nodes import Getter, Payload, Writer
from takeback.storage.base import Batch, Buried, Places, PutWrites, Row, ThreadGone, Writes
from takeback.storage.items import PutItems

_REMEMBERED = 2000  # threads, and the graph's ids
_PAGE = 200
_Base = tuple[Checkpoint, Place]
Guess: TypeAlias = tuple[Ahead, list[Name]]
Dress: TypeAlias = Callable[[Tip, Draft], AbstractContextManager[Draft]]
"""What a version takes in beside what the graph says: held until it is recorded."""


class Head(msgspec.Struct, frozen=True):
    """The newest checkpoint of a namespace: where the graph goes on. `whole` is whether the thread's head
    holds what it held."""

    version: int
    place: Place | None
    whole: bool


class Desk:
    """What one handle remembers of the threads that it writes, so that a write need not read first."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._tips: OrderedDict[str, tuple[Tip, dict[str, Head]]] = OrderedDict()
        self._seen: OrderedDict[str, ThreadUid] = OrderedDict()
        self._ahead: OrderedDict[str, list[Guess]] = OrderedDict()

    def tip(self, name: str, *, fresh: bool = False) -> Tip | None:
        held = self._tips.get(name)
        if held is not None and not fresh:
            return held[0]
        tip = self.ctx.tip(name)
        if tip is None:
            self._tips.pop(name, None)
        elif held is None or held[0].head.digest != tip.head.digest:
            self.keep(tip, {})
        return tip

    def head(self, tip: Tip, namespace: str) -> Head:
        """The newest checkpoint of a namespace at this head of the thread."""
        held = self._tips.get(tip.info.name)
        heads = held[1] if held is not None and held[0].head.digest == tip.head.digest else {}
        if namespace not in heads:
            heads[namespace] = self._look(tip, namespace)
        return heads[namespace]

    def keep(self, tip: Tip, heads: dict[str, Head]) -> None:
        _remember(self._tips, tip.info.name, (tip, heads))

    def wrote(self, tip: Tip, before: Tip, place: Place) -> None:
        """A version was written: it is the head of its namespace, the others have those that they had."""
        held = self._tips.get(tip.info.name)
        heads = dict(held[1]) if held is not None and held[0].head.digest == before.head.digest else {}
        heads[place.namespace] = Head(tip.head.version, place, True)
        self.keep(tip, heads)
        self.saw(place.id, tip.info.uid)

    def forget(self, name: str) -> None:
        self._tips.pop(name, None)

    def saw(self, checkpoint: str, uid: ThreadUid) -> None:
        """A graph's id was read or written here: it belongs to this very thread, not to one of its name."""
        _remember(self._seen, checkpoint, uid)

    def thread_of(self, checkpoint: str | None) -> ThreadUid | None:
        return None if checkpoint is None else self._seen.get(checkpoint)

    def wrote_ahead(self, name: str, checkpoint: str, place: Ahead, names: list[Name]) -> None:
        """Items were written ahead of the version that goes on from a checkpoint of the graph."""
        held = self._ahead.get(key := f"{checkpoint} {name}", [])
        _remember(self._ahead, key, [*held, (place, names)])

    def ahead(self, name: str, place: Place) -> list[Guess]:
        """What the superstep put that ends with this checkpoint."""
        return self._ahead.get(f"{place.parent} {name}", []) if _ends_superstep(place) else []

    def arrived(self, name: str, place: Place) -> None:
        if _ends_superstep(place):
            self._ahead.pop(f"{place.parent} {name}", None)

    def _look(self, tip: Tip, namespace: str) -> Head:
        ctx, before = self.ctx, tip.head.version + 1
        query = Places(tip.info.uid, namespace, before=before, hidden=True, limit=1)
        found = ctx.storage.find(ctx.tenant, query)
        if not found:
            return Head(-1, None, whole=True)
        if not found[0].hidden:
            row = found[0].checkpoint
            place = carrying.place_of(row, namespace)
            return Head(row.version, place if place.id else None, whole=True)
        last = carrying.newest(ctx, tip.info.uid, namespace, before)
        return Head(-1, None, whole=False) if last is None else Head(last[0].version, last[1], whole=False)


def put(
    desk: Desk,
    name: str,
    place: Place,
    fill: Fill,
    said: Said,
    dress: Dress,
    *,
    alone: bool = False,
    ledger: str = "none",
) -> Checkpoint:
    """A graph's checkpoint becomes a version. With `alone` it has to follow the newest of its namespace."""
    fresh = False
    while True:
        tip = desk.tip(name, fresh=fresh) or _born(desk, name, place)
        head = desk.head(tip, place.namespace)
        newest = head.place.id if head.place is not None else None
        told = place if place.parent == newest else msgspec.structs.replace(place, over=newest)
        if alone and told.over is not None:
            if not fresh:  # it may have been remembered from before somebody else's write
                fresh = True
                continue
            raise _not_alone(name, told)
        base = _base(desk, tip, head, told)
        draft = _draft(desk.ctx, tip, head, base, told, fill, said, ledger)
        try:
            with dress(tip, draft) as dressed:
                after = publish(desk.ctx, tip, dressed, partial(_moved_along, desk, name, place, draft))
        except Conflict:
            fresh = True
            continue
        except ThreadDeleted:
            desk.forget(name)
            raise
        desk.arrived(name, place)
        desk.wrote(after, tip, carrying.place_of(after.head, place.namespace))
        return after.head


def _moved_along(desk: Desk, name: str, place: Place, draft: Draft, checkpoint: Checkpoint) -> list[Row]:
    """What was written ahead of a version that opens a line: written anew as part of it. Its place was taken
    by another run's."""
    if draft.origin is None:
        return []
    ctx, again = desk.ctx, dict[Name, Write]()
    for ahead, names in desk.ahead(name, place):
        for each in names:
            mine = (row for row in items.versions(ctx, each) if items.is_at(row, ahead))
            if (found := next(mine, None)) is not None:
                again[each] = items.anew(found)
    return [PutItems([items.version_of(ctx, write, checkpoint) for write in again.values()])] if again else []


def put_writes(desk: Desk, name: str, checkpoint: str, writes: list[GraphWrite]) -> None:
    """Keep what a task wrote. The checkpoint may come later; the thread it belongs to may be gone."""
    ctx = desk.ctx
    sealed = [msgspec.structs.replace(write, digest=write.seal(ctx.key)) for write in writes]
    while True:
        uid = desk.thread_of(checkpoint)
        if uid is None:
            tip = desk.tip(name) or _born(desk, name, None)
            uid = tip.info.uid
        refusal = ctx.storage.apply(Batch(ctx.tenant, [PutWrites(uid, sealed)]))
        if refusal is None:
            return
        desk.forget(name)
        if desk.thread_of(checkpoint) is not None or not isinstance(refusal, ThreadGone):
            raise _late(name)


def standing(desk: Desk, name: str) -> Tip:
    """Where a thread stands; it comes into being if it is not there yet."""
    return desk.tip(name, fresh=True) or _born(desk, name, None)


def find(desk: Desk, name: str, namespace: str, checkpoint: str | None) -> tuple[Checkpoint, Place] | None:
    """A graph's checkpoint by its id, or the newest of a namespace."""
    tip = desk.tip(name, fresh=True)
    if tip is None:
        return None
    found = (
        by_id(desk.ctx, tip.info.uid, namespace, checkpoint) if checkpoint else _newest(desk, tip, namespace)
    )
    if found is not None:
        desk.saw(found[1].id, tip.info.uid)
    return found


def by_id(ctx: Context, uid: bytes, namespace: str, checkpoint: str) -> tuple[Checkpoint, Place] | None:
    for found in ctx.storage.find(ctx.tenant, Places(uid, hash=graphs.index_key(checkpoint))):
        place = carrying.place_of(found.checkpoint, found.namespace)
        if place.id == checkpoint and found.namespace == namespace:
            return found.checkpoint, place
    return None


def anywhere(ctx: Context, uid: bytes, checkpoint: str) -> Checkpoint | None:
    """The version that a graph's id names, in whichever namespace; also one that the graph no longer sees."""
    for found in ctx.storage.find(ctx.tenant, Places(uid, hash=graphs.index_key(checkpoint), hidden=True)):
        if carrying.place_of(found.checkpoint, found.namespace).id == checkpoint:
            return found.checkpoint
    return None


def walk(ctx: Context, query: Places) -> Iterator[tuple[int, Checkpoint, Place]]:
    """A graph's checkpoints, newest first, a page at a time: (number in the store's order, row, place)."""
    page, before, split = 20, query.before, None
    while True:
        found = ctx.storage.find(ctx.tenant, msgspec.structs.replace(query, before=before, limit=page))
        if query.uid is not None and len(found) == page:
            # A version may stand in several namespaces: the page ends between two versions.
            split = found[-1].checkpoint.version
            whole = [each for each in found if each.checkpoint.version > split]
            if not whole:
                page *= 2
                continue
        else:
            whole = found
        for each in whole:
            place = carrying.place_of(each.checkpoint, each.namespace)
            if place.id:
                yield each.seq, each.checkpoint, place
        if len(found) < page:
            return
        before = whole[-1].checkpoint.version if query.uid is not None else whole[-1].seq
        page = _PAGE


def ancestors(ctx: Context, row: Checkpoint, place: Place) -> Iterator[tuple[Checkpoint, Place]]:
    """What a checkpoint goes back to, nearest first: also what the graph no longer sees, and, from where a
    fork began on, what its origin goes back to."""
    while True:
        if place.parent is None:
            if row.kind != "fork" or row.origin is None:
                return
            source = carrying.newest(ctx, row.origin.uid, place.namespace, row.origin.version + 1)
            if source is None:
                raise CorruptObject(
                    "the thread that this was forked from is gone, and with it what its channels hold",
                    thread=row.thread,
                    checkpoint=row.version,
                )
            row, place = source
            continue
        known = {
            (found.namespace, other.id): (found.checkpoint, other)
            for found in ctx.storage.find(
                ctx.tenant, Places(row.uid, place.namespace, before=row.version, hidden=True, limit=_PAGE)
            )
            for other in [carrying.place_of(found.checkpoint, found.namespace)]
        }
        step = known.get((place.namespace, place.parent)) or _hidden(ctx, row.uid, place)
        while step is not None:
            row, place = step
            yield step
            step = known.get((place.namespace, place.parent)) if place.parent else None
            if step is None:
                break
        else:
            return


def writes_at(ctx: Context, uid: bytes, places: list[Place]) -> dict[str, list[GraphWrite]]:
    """What tasks wrote at these checkpoints, by the graph's ids; refused where it is not what was written."""
    keys = {graphs.write_key(place.namespace, place.id): place.id for place in places}
    found: dict[str, list[GraphWrite]] = {place.id: [] for place in places}
    for write in ctx.storage.find(ctx.tenant, Writes(uid, list(keys))):
        if write.digest != write.seal(ctx.key) and write.digest != write.seal(None):
            raise CorruptObject(f"what task {write.task} wrote to {write.channel!r} is not what was stored")
        found[keys[write.key]].append(write)
    return found


def _hidden(ctx: Context, uid: bytes, place: Place) -> tuple[Checkpoint, Place] | None:
    assert place.parent is not None
    for found in ctx.storage.find(ctx.tenant, Places(uid, hash=graphs.index_key(place.parent), hidden=True)):
        other = carrying.place_of(found.checkpoint, found.namespace)
        if (other.namespace, other.id) == (place.namespace, place.parent):
            return found.checkpoint, other
    return None


def _newest(desk: Desk, tip: Tip, namespace: str) -> tuple[Checkpoint, Place] | None:
    head = desk.head(tip, namespace)
    if head.place is None:
        return None
    if head.version == tip.head.version:
        return tip.head, head.place
    row = desk.ctx.storage.checkpoint(desk.ctx.tenant, tip.info.uid, head.version)
    return None if row is None else (row, head.place)


def _born(desk: Desk, name: str, place: Place | None) -> Tip:
    """A thread comes into being with an empty state, so that its first step can be taken back as well."""
    ctx = desk.ctx
    if place is not None and (place.parent or place.metadata.get("parents")):
        known = desk.thread_of(place.parent)
        if known is not None or ctx.storage.find(ctx.tenant, Buried(name)):
            raise _late(name)
    draft = msgspec.structs.replace(
        draft_state(ctx, None, {}, "initial", Said()), graph={MARK: {}}, ledger="none"
    )
    try:
        tip = create(ctx, Identity(name), draft)
    except ThreadExists:
        found = desk.tip(name, fresh=True)
        return found if found is not None else _born(desk, name, place)
    desk.keep(tip, {})
    return tip


def _base(desk: Desk, tip: Tip, head: Head, place: Place) -> _Base | None:
    """The checkpoint that is gone on from; None where there is none, or it is not known."""
    ctx = desk.ctx
    if place.parent is None:
        return None
    if head.place is not None and place.parent == head.place.id:
        if head.version == tip.head.version:
            return tip.head, head.place
        row = ctx.storage.checkpoint(ctx.tenant, tip.info.uid, head.version)
        return None if row is None else (row, head.place)
    found = by_id(ctx, tip.info.uid, place.namespace, place.parent)
    if found is None and (desk.thread_of(place.parent) not in (None, tip.info.uid) or _was_buried(ctx, tip)):
        raise _late(tip.info.name)
    return found


def _was_buried(ctx: Context, tip: Tip) -> bool:
    return bool(ctx.storage.find(ctx.tenant, Buried(tip.info.name)))


def _draft(
    ctx: Context,
    tip: Tip,
    head: Head,
    base: _Base | None,
    place: Place,
    fill: Fill,
    said: Said,
    ledger: str,
) -> Draft:
    writer = Writer(ctx)
    writer.known.add(tip.head.state_root)
    row = None if base is None else base[0]
    whole = head.whole and row is not None and row.version == head.version
    there = whole and (graphs.is_stable(place.namespace) or tip.head.namespace == place.namespace)
    payload = _cleared(ctx.get(tip.head.state_root), place, writer)
    payload = payload if there else _planted(payload, row, place, writer)
    before = {} if base is None else beside(payload, base[1], writer)
    payload, kept = fill(payload, before, graphs.inside(place.namespace), writer)
    forked = place.over is not None and row is not None and row.version != tip.head.version
    return Draft(
        "step",
        writer.put(payload),
        said,
        writer.new,
        origin=pointer(row) if forked and row is not None else None,
        stack=_stack(tip.head, place),
        ledger=ledger,
        namespace=place.namespace,
        graph=graphs.marked([msgspec.structs.replace(place, beside=kept)]),
    )


def _ends_superstep(place: Place) -> bool:
    return place.metadata.get("source") == "loop"


def _stack(head: Checkpoint, place: Place) -> tuple[int | None, int | None] | None:
    """One run of a graph is one operation, whichever namespaces it wrote in: what it begins with counts."""
    begins = not place.namespace and not _ends_superstep(place)
    if begins or head.kind != "step" or place.over is not None or head.undo_top is None:
        return None
    return head.undo_top, None


def _cleared(payload: Payload, place: Place, writer: Writer) -> Payload:
    """Without what a single invocation of a subgraph held: nobody goes on from it but that invocation."""
    held = read.keys_at(payload, (SUBGRAPHS,), writer)
    over = [name for name in held if not graphs.is_stable(name) and name != place.namespace]
    if over and len(over) == len(held):
        return edit.remove(payload, (SUBGRAPHS,), writer)
    for name in over:
        payload = edit.remove(payload, (SUBGRAPHS, name), writer)
    return payload


def _planted(payload: Payload, base: Checkpoint | None, place: Place, writer: Writer) -> Payload:
    """With the namespace as it was at `base`, or empty."""
    inside = graphs.inside(place.namespace)
    if inside and not read.keys_at(payload, inside, writer):
        if read.payload_at(payload, (SUBGRAPHS,), writer) is None:
            payload = edit.put(payload, (SUBGRAPHS,), {}, writer)
        payload = edit.put(payload, inside, {}, writer)
    for key in (VALUES, BESIDE):
        part = None if base is None else read.payload_at(writer.get(base.state_root), (*inside, key), writer)
        if part is not None:
            payload = edit.graft(payload, (*inside, key), part, writer)
        elif key == VALUES:
            payload = edit.put(payload, (*inside, key), {}, writer)
        elif key in read.keys_at(payload, inside, writer):
            payload = edit.remove(payload, (*inside, key), writer)
    return payload


def beside(payload: Payload, place: Place, source: Getter) -> dict[str, Any]:
    """What a graph keeps beside the channels of a checkpoint: in its record, or in its state."""
    if place.beside:
        return place.beside
    path = (*graphs.inside(place.namespace), BESIDE)
    packed = read.payload_at(payload, path, source)
    return {} if packed is None else graphs.unpacked(read.read(packed, source))


def _remember(held: OrderedDict[str, Any], key: str, value: Any) -> None:
    held[key] = value
    while len(held) > _REMEMBERED:
        held.popitem(last=False)


def _late(name: str) -> ThreadDeleted:
    return ThreadDeleted(
        "the thread was deleted", thread=name, hint="What is written late does not bring it back"
    )


def _not_alone(name: str, place: Place) -> Conflict:
    return Conflict(
        f"the graph's newest checkpoint is {place.over}, not {place.parent}, which this goes on from",
        expected=place.parent,
        actual=place.over,
        thread=name,
        hint="Run it again from the head, or without takeback_expect, which lets forks be",
    )
