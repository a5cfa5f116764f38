"""What a graph's thread has beside its chain (what tasks wrote, what the graph no longer sees): for whoever
verifies, exports or copies a thread."""

from __future__ import annotations

from collections.abc import Iterator

from takeback.engine.context import Context
from takeback.model import graphs
from takeback.model.graphs import GraphWrite
from takeback.model.ids import ThreadUid
from takeback.model.records import Checkpoint
from takeback.storage.base import Hide, Places, PutWrites, Row, Writes

_ROWS = 500


def writes_of(ctx: Context, uid: bytes) -> list[GraphWrite]:
    """All that tasks wrote in a thread."""
    return ctx.storage.find(ctx.tenant, Writes(uid))


def hidden_of(ctx: Context, uid: bytes) -> list[tuple[int, str]]:
    """(version, namespace) of what the graph no longer sees, oldest first."""
    found = ctx.storage.find(ctx.tenant, Places(uid, hidden=True))
    return sorted((each.checkpoint.version, each.namespace) for each in found if each.hidden)


def rows_of(uid: ThreadUid, writes: list[GraphWrite], hidden: list[tuple[int, str]]) -> Iterator[Row]:
    """What brings it into a store that has the chain."""
    for low in range(0, len(writes), _ROWS):
        yield PutWrites(uid, writes[low : low + _ROWS])
    if hidden:
        yield Hide(uid, hidden)


def missing(source: Context, target: Context, uid: ThreadUid) -> list[Row]:
    """What another store lacks of it."""
    there = {(each.key, each.task, each.number): each.digest for each in writes_of(target, uid)}
    writes = [
        each
        for each in writes_of(source, uid)
        if there.get((each.key, each.task, each.number)) != each.digest
        and (each.number < 0 or (each.key, each.task, each.number) not in there)
    ]
    hidden = set(hidden_of(source, uid)) - set(hidden_of(target, uid))
    return list(rows_of(uid, writes, sorted(hidden)))


def problems(ctx: Context, uid: bytes, rows: list[Checkpoint]) -> Iterator[tuple[str, int | None]]:
    """What does not hold: writes that are not what was written, and checkpoints that a graph would not find,
    or would find where none is. `rows` are those of the thread that speak of a graph."""
    for write in writes_of(ctx, uid):
        if write.digest == write.seal(ctx.key):
            continue
        what = f"what task {write.task} wrote to {write.channel!r}"
        if ctx.key is not None and write.digest == write.seal(None):
            if any(row.mac for row in rows[:1]):
                yield f"{what} is not signed", None
        else:
            yield f"{what} is not what was stored", None
    said = {(row.version, place.namespace) for row in rows for place in graphs.places(row)}
    found = {
        (each.checkpoint.version, each.namespace)
        for each in ctx.storage.find(ctx.tenant, Places(uid, hidden=True))
    }
    for version, namespace in sorted(said - found):
        yield f"the graph does not find its checkpoint in namespace {namespace!r}", version
    for version, namespace in sorted(found - said):
        yield (
            f"the graph finds a checkpoint in namespace {namespace!r}, and the record has none",
            version,
        )
