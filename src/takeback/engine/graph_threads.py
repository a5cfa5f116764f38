"""A graph's threads as a whole: listing, the ends of branches, what channels were given, copying, pruning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from takeback.engine import carrying, graphs, threads
from takeback.engine.context import Context
from takeback.errors import BadRequest, ThreadDeleted, ThreadExists, UnknownThread
from takeback.model import canonical
from takeback.model import graphs as model
from takeback.model.graphs import VALUES, GraphWrite, Place
from takeback.model.ids import checkpoint_id, thread_uid
from takeback.model.records import Checkpoint, Pointer, seal_record, sign
from takeback.model.tree import read
from takeback.storage.base import Batch, Hide, History, NewThread, Places, PutWrites, Row, Writes

_PAGE = 200
_EVERY = 500


def listed(
    desk: graphs.Desk,
    seen: Callable[[str, Checkpoint, Place, int], Any],
    thread: str | None,
    namespace: str | None,
    checkpoint: str | None,
    metadata: dict[str, Any],
    before: str | None,
    limit: int | None,
) -> Iterator[Any]:
    """Checkpoints that match, newest first; states are read of those alone that are given out."""
    ctx = desk.ctx
    query = _query(desk, thread, namespace, metadata)
    if query is None or limit == 0:
        return
    query = _before(ctx, query, before)
    if query is None:
        return
    if checkpoint is not None and thread is not None:
        query = msgspec.structs.replace(query, hash=model.index_key(checkpoint))
    count = 0
    for seq, row, place in graphs.walk(ctx, query):
        if checkpoint is not None and place.id != checkpoint:
            continue
        if not _matches(place.metadata, metadata):
            continue
        yield seen(row.thread, row, place, seq)
        count += 1
        if count == limit:
            return


def _query(
    desk: graphs.Desk, thread: str | None, namespace: str | None, metadata: dict[str, Any]
) -> Places | None:
    """With what the store can look for by itself."""
    source, step, run = (metadata.get(name) for name in ("source", "step", "run_id"))
    query = Places(
        namespace=namespace,
        source=source if isinstance(source, str) else None,
        step=step if type(step) is int else None,
    )
    if thread is not None:
        tip = desk.tip(thread, fresh=True)
        return None if tip is None else msgspec.structs.replace(query, uid=tip.info.uid)
    if isinstance(run, str):
        query = msgspec.structs.replace(query, run=model.index_key(run))
    return query


def _before(ctx: Context, query: Places, before: str | None) -> Places | None:
    if before is None:
        return query
    if query.uid is not None:
        row = graphs.anywhere(ctx, query.uid, before)
        return None if row is None else msgspec.structs.replace(query, before=row.version)
    for seq, _, place in graphs.walk(ctx, Places()):
        if place.id == before:
            return msgspec.structs.replace(query, before=seq)
    return None


def _matches(has: dict[str, Any], asked: dict[str, Any]) -> bool:
    return all(key in has and _holds(has[key], value) for key, value in asked.items())


def _holds(has: Any, asked: Any) -> bool:
    """Equality; of nested values, that what is asked for is among what is there."""
    if isinstance(asked, dict):
        return isinstance(has, dict) and _matches(has, asked)
    if isinstance(asked, list):
        return isinstance(has, list) and all(any(_holds(each, one) for each in has) for one in asked)
    return canonical.equal(has, asked)


def deltas(
    ctx: Context, row: Checkpoint, place: Place, channels: list[str]
) -> dict[str, tuple[list[GraphWrite], Any, bool]]:
    """See `GraphThreads.history`. A value at a checkpoint is what was before the writes made at it."""
    writes: dict[str, list[GraphWrite]] = {name: [] for name in channels}
    seeds: dict[str, Any] = {}
    open_ = set(channels)
    page: list[tuple[Checkpoint, Place]] = []

    def settle() -> None:
        made: dict[bytes, dict[str, list[GraphWrite]]] = {}
        for uid in {bytes(of.uid) for of, _ in page}:
            made[uid] = graphs.writes_at(ctx, uid, [each for of, each in page if of.uid == uid])
        for of, each in page:
            for write in reversed(made[bytes(of.uid)][each.id]):
                if write.channel in open_:
                    writes[write.channel].append(write)
            inside = (*model.inside(each.namespace), VALUES)
            state = ctx.get(of.state_root)
            for name in open_ & set(read.keys_at(state, inside, ctx)):
                seeds[name] = read.read_at(state, (*inside, name), ctx)
                open_.discard(name)
        page.clear()

    for step in graphs.ancestors(ctx, row, place):
        page.append(step)
        if len(page) == _PAGE // 4:
            settle()
        if not open_:
            break
    settle()
    return {name: (writes[name][::-1], seeds.get(name), name in seeds) for name in channels}


def ends(desk: graphs.Desk, thread: str, namespace: str | None) -> Iterator[Place]:
    """The newest checkpoint of each branch but the one that the graph goes on with."""
    tip = desk.tip(thread, fresh=True)
    if tip is None:
        return
    parents: set[tuple[str, str]] = set()
    newest: set[str] = set()
    for _, _, place in graphs.walk(desk.ctx, Places(tip.info.uid, namespace)):
        if place.parent is not None:
            parents.add((place.namespace, place.parent))
        if place.namespace not in newest:
            newest.add(place.namespace)
        elif (place.namespace, place.id) not in parents:
            yield place


def delete(ctx: Context, name: str) -> bool:
    tip = ctx.tip(name)
    if tip is None:
        return False
    threads.delete(ctx, tip, None)
    return True


def hide_runs(desk: graphs.Desk, runs: Sequence[str]) -> int:
    """What runs made is seen by the graph no more. The chain keeps its rows: they verify what stays."""
    ctx = desk.ctx
    found: dict[bytes, list[tuple[Checkpoint, Place]]] = {}
    for run in runs:
        for each in ctx.storage.find(ctx.tenant, Places(run=model.index_key(run))):
            place = carrying.place_of(each.checkpoint, each.namespace)
            if place.metadata.get("run_id") == run:
                found.setdefault(bytes(each.checkpoint.uid), []).append((each.checkpoint, place))
    for rows in found.values():
        _hide(desk, rows, "graph.runs_deleted", runs=list(runs))
    return sum(len(rows) for rows in found.values())


def prune(desk: graphs.Desk, name: str) -> int:
    tip = desk.tip(name, fresh=True)
    if tip is None:
        return 0
    newest: set[str] = set()
    old = []
    for _, row, place in graphs.walk(desk.ctx, Places(tip.info.uid)):
        if place.namespace in newest:
            old.append((row, place))
        newest.add(place.namespace)
    if old:
        _hide(desk, old, "graph.pruned")
    return len(old)


def _hide(desk: graphs.Desk, rows: list[tuple[Checkpoint, Place]], action: str, **detail: Any) -> None:
    ctx, uid = desk.ctx, rows[0][0].uid
    info = ctx.storage.thread_by_uid(ctx.tenant, uid)
    if info is None or info.deleted_us is not None:
        return  # deleted meanwhile: nothing is seen of it any more
    entry = ctx.audit(action, info, ctx.actor, checkpoints=len(rows), **detail)
    places = [(row.version, place.namespace) for row, place in rows]
    ctx.storage.apply(Batch(ctx.tenant, [Hide(uid, places), entry]))
    desk.forget(info.name)


def copy(ctx: Context, source: str, target: str) -> int:
    """All versions and writes of a thread under another name: a thread of its own that shares its objects."""
    with ctx.storage.snapshot():
        tip = ctx.tip(source)
        if tip is None:
            raise UnknownThread(f"there is no thread {source!r}", hint="Nothing was copied")
        if source == target:
            raise BadRequest("a thread cannot be copied onto itself", thread=source)
        old = list(_rows(ctx, tip.info.uid, tip.head.version))
        hidden = [
            (found.checkpoint.version, found.namespace)
            for found in ctx.storage.find(ctx.tenant, Places(tip.info.uid, hidden=True))
            if found.hidden
        ]
        writes = ctx.storage.find(ctx.tenant, Writes(tip.info.uid))
    rows = _again(ctx, old, target)
    first, info, uid = rows[0], tip.info, rows[0].uid
    meta = canonical.encode(info.meta)
    batch: list[Row] = [
        NewThread(
            target, uid, info.agent, info.user, meta, first.time_us, first, uid, first.origin, info.uid
        ),
        History(rows[1:]),
    ]
    batch += [PutWrites(uid, writes)] if writes else []
    batch += [Hide(uid, hidden)] if hidden else []
    refusal = ctx.storage.apply(Batch(ctx.tenant, batch))
    if refusal is not None and ctx.tip(source) is None:
        raise ThreadDeleted("the thread was deleted", thread=source)
    if refusal is not None:
        raise ThreadExists(
            f"a thread {target!r} exists already",
            thread=target,
            hint="Delete it first, or choose another name",
        )
    return len(rows)


def _again(ctx: Context, rows: list[Checkpoint], name: str) -> list[Checkpoint]:
    """The rows as those of a thread of their own: chained anew, pointers among them kept among them."""
    uid, made = thread_uid(), list[Checkpoint]()

    def own(pointer: Pointer | None) -> Pointer | None:
        if pointer is None or pointer.uid != rows[0].uid:
            return pointer
        return Pointer(uid, pointer.version, made[pointer.version].digest)

    for row in rows:
        previous = made[-1].digest if made else b""
        replaced = msgspec.structs.replace(
            row, thread=name, uid=uid, id=checkpoint_id(row.version), previous=previous, uses=b"",
            origin=own(row.origin), merged=own(row.merged),
        )  # fmt: skip
        fresh = seal_record(replaced)
        made.append(
            fresh if ctx.key is None else msgspec.structs.replace(fresh, mac=sign(fresh.digest, ctx.key))
        )
    return made


def _rows(ctx: Context, uid: bytes, head: int) -> Iterator[Checkpoint]:
    for low in range(0, head + 1, _EVERY):
        yield from ctx.storage.checkpoints(ctx.tenant, uid, low, min(low + _EVERY - 1, head))
