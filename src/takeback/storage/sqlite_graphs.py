"""Graph threads in SQLite: which checkpoints a graph sees, and what its tasks wrote."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from takeback.model import graphs
from takeback.model.graphs import GraphWrite
from takeback.storage import objects as codec
from takeback.storage.base import Found, Places
from takeback.storage.sqlite_rows import read_checkpoint

if TYPE_CHECKING:
    import apsw

    from takeback.model.records import Checkpoint

_LAST = 2**63 - 1  # no version and no number is greater
_MARK = graphs.MARK


def write_places(
    connection: apsw.Connection, sql: dict[str, str], tenant: int, thread: int, checkpoint: Checkpoint
) -> None:
    """A row of a graph's thread stands for some of the graph's checkpoints, as its record says."""
    if _MARK in checkpoint.meta:
        for place in graphs.places(checkpoint):
            index = graphs.index_of(place)
            values = (tenant, thread, checkpoint.version, place.namespace, index.hash, index.run)
            connection.execute(sql["new_place"], (*values, index.source, index.step))


def hide(
    connection: apsw.Connection, sql: dict[str, str], thread: int, places: list[tuple[int, str]]
) -> None:
    connection.executemany(sql["hide_place"], [(thread, version, namespace) for version, namespace in places])


def put_writes(
    connection: apsw.Connection, sql: dict[str, str], thread: int, writes: list[GraphWrite]
) -> None:
    for write in writes:
        kind, data = codec.pack(write.data)
        slot = (thread, codec.index_key(write.key), write.key, write.task, write.number)
        if write.number < 0:
            connection.execute(sql["drop_write"], slot)
        row = (*slot, write.channel, write.path, kind, len(write.data), data, write.digest)
        connection.execute(sql["keep_write"], row)


def drop(connection: apsw.Connection, sql: dict[str, str], thread: int) -> None:
    """A deleted thread leaves none of it."""
    connection.execute(sql["drop_places"], (thread,))
    connection.execute(sql["drop_writes"], (thread,))


def find_places(
    connection: apsw.Connection, sql: dict[str, str], tenant: int, thread: int | None, query: Places
) -> list[Found]:
    values = {
        "tenant": tenant,
        "thread": thread,
        "namespace": query.namespace,
        "hash": query.hash,
        "run": query.run,
        "source": query.source,
        "step": query.step,
        "before": _LAST if query.before is None else query.before,
        "hidden": int(query.hidden),
        "limit": -1 if query.limit is None else query.limit,
    }
    rows = connection.execute(sql[_statement(query)], values)
    return [
        Found(seq, namespace, read_checkpoint(name, uid, row), bool(hidden))
        for seq, namespace, hidden, name, uid, *row in rows
    ]


def find_writes(
    connection: apsw.Connection, sql: dict[str, str], thread: int, keys: Iterable[bytes] | None
) -> list[GraphWrite]:
    if keys is None:
        rows = connection.execute(sql["writes"], (thread,))
    else:
        rows = connection.executemany(sql["writes_at"], [(thread, codec.index_key(key), key) for key in keys])
    return [_write(row) for row in rows]


def _statement(query: Places) -> str:
    if query.uid is None:
        return "places_of_all" if query.run is None else "places_of_run"
    if query.hash is not None:
        return "places_by_hash"
    if query.namespace is None:
        return "places_of_thread"
    return "places_of_subgraph" if query.namespace else "places_of_root"


def _write(row: Any) -> GraphWrite:
    key, task, number, channel, path, kind, size, data, digest = row
    return GraphWrite(key, task, number, channel, path, codec.unpacked(kind, size, data), digest)
