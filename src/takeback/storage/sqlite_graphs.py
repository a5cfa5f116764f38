"""Graph threads in SQLite: which checkpoints a graph sees, and what its tasks wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.model import graphs
from takeback.model.graphs import GraphWrite
from takeback.storage import objects as codec
from takeback.storage.base import Buried, Found, Hide, Places, PutWrites, Refusal, ThreadGone, Writes
from takeback.storage.rows import read_checkpoint, thread_info

if TYPE_CHECKING:
    import apsw

    from takeback.model.records import Checkpoint, ThreadInfo
    from takeback.storage.sqlite import SqliteStorage

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


def drop_graph(connection: apsw.Connection, sql: dict[str, str], thread: int) -> None:
    """A deleted thread leaves none of it."""
    connection.execute(sql["drop_places"], (thread,))
    connection.execute(sql["drop_writes"], (thread,))


def _hide(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: Hide) -> Refusal | None:
    thread = store._living(connection, tenant, row.uid)
    if isinstance(thread, ThreadGone):
        return thread
    places = [(thread, version, namespace) for version, namespace in row.places]
    connection.executemany(store._sql["hide_place"], places)
    return None


def _put_writes(
    store: SqliteStorage, connection: apsw.Connection, tenant: int, row: PutWrites
) -> Refusal | None:
    thread = store._living(connection, tenant, row.uid)
    if isinstance(thread, ThreadGone):
        return thread
    for write in row.writes:
        kind, data = codec.pack(write.data)
        slot = (thread, codec.index_key(write.key), write.key, write.task, write.number)
        if write.number < 0:
            connection.execute(store._sql["drop_write"], slot)
        values = (*slot, write.channel, write.path, kind, len(write.data), data, write.digest)
        connection.execute(store._sql["keep_write"], values)
    return None


def _places(store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Places) -> list[Found]:
    thread = None if query.uid is None else store._known(connection, tenant, query.uid)
    if query.uid is not None and thread is None:
        return []
    values = {
        "tenant": store._tenant(connection, tenant),
        "thread": None if thread is None else thread[0],
        "namespace": query.namespace,
        "hash": query.hash,
        "run": query.run,
        "source": query.source,
        "step": query.step,
        "before": _LAST if query.before is None else query.before,
        "hidden": int(query.hidden),
        "limit": -1 if query.limit is None else query.limit,
    }
    rows = connection.execute(store._sql[_statement(query)], values)
    return [
        Found(seq, namespace, read_checkpoint(name, uid, row), bool(hidden))
        for seq, namespace, hidden, name, uid, *row in rows
    ]


def _writes(
    store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Writes
) -> list[GraphWrite]:
    thread = store._known(connection, tenant, query.uid)
    if thread is None:
        return []
    if query.keys is None:
        rows = connection.execute(store._sql["writes"], thread[:1])
    else:
        keys = [(thread[0], codec.index_key(key), key) for key in query.keys]
        rows = connection.executemany(store._sql["writes_at"], keys)
    return [_write(row) for row in rows]


def _buried(
    store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Buried
) -> list[ThreadInfo]:
    values = (store._tenant(connection, tenant), query.name)
    return [thread_info(row) for row in connection.execute(store._sql["buried"], values)]


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


GRAPH_WRITERS: dict[type, Callable[[SqliteStorage, apsw.Connection, int, Any], Refusal | None]] = {
    PutWrites: _put_writes,
    Hide: _hide,
}
GRAPH_FINDERS: dict[type, Callable[[SqliteStorage, apsw.Connection, str, Any], list[Any]]] = {
    Places: _places,
    Writes: _writes,
    Buried: _buried,
}
