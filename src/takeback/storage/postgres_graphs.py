"""Graph threads on PostgreSQL: which checkpoints a graph sees, and what its tasks wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from psycopg.types.numeric import Int8

from takeback.model import graphs
from takeback.model.graphs import GraphWrite
from takeback.storage import objects as codec
from takeback.storage.base import Buried, Found, Hide, Places, PutWrites, Refusal, Writes
from takeback.storage.postgres_rows import name_key
from takeback.storage.rows import read_checkpoint, thread_info

if TYPE_CHECKING:
    from takeback.model.records import Checkpoint, ThreadInfo
    from takeback.storage.postgres import PostgresStorage
    from takeback.storage.postgres_writes import Transaction

_LAST = 2**63 - 1  # no version and no number is greater


def write_places(transaction: Transaction, checkpoint: Checkpoint) -> None:
    """A row of a graph's thread stands for some of the graph's checkpoints, as its record says."""
    for place in graphs.places(checkpoint):
        index = graphs.index_of(place)
        values = {"uid": checkpoint.uid, "version": checkpoint.version, "namespace": place.namespace}
        values |= {"hash": index.hash, "run": index.run, "source": index.source, "step": index.step}
        transaction.ask("new_place", values)


def _put_writes(transaction: Transaction, row: PutWrites) -> Refusal | None:
    gone = transaction.gone(row.uid)
    if gone is not None:
        return gone
    for write in row.writes:
        if write.number < 0:
            slot = {"uid": row.uid, "key": write.key, "task": write.task, "number": write.number}
            transaction.ask("drop_write", slot)
    packed = [codec.pack(write.data) for write in row.writes]
    values = {
        "uid": row.uid,
        "keys": [write.key for write in row.writes],
        "tasks": [write.task for write in row.writes],
        "numbers": [Int8(write.number) for write in row.writes],
        "channels": [write.channel for write in row.writes],
        "paths": [write.path for write in row.writes],
        "codecs": [Int8(kind) for kind, _ in packed],
        "sizes": [Int8(len(write.data)) for write in row.writes],
        "datas": [data for _, data in packed],
        "digests": [write.digest for write in row.writes],
    }
    transaction.ask("keep_writes", values)
    return None


def _hide(transaction: Transaction, row: Hide) -> Refusal | None:
    gone = transaction.gone(row.uid)
    if gone is None:
        versions = [Int8(version) for version, _ in row.places]
        namespaces = [namespace for _, namespace in row.places]
        transaction.ask("hide_places", {"uid": row.uid, "versions": versions, "namespaces": namespaces})
    return gone


def _places(store: PostgresStorage, tenant: str, query: Places) -> list[Found]:
    rows = store.ask(
        _statement(query), tenant, uid=query.uid, namespace=query.namespace, hash=query.hash, run=query.run,
        source=query.source, step=query.step, before=_LAST if query.before is None else query.before,
        hidden=query.hidden, limit=query.limit,
    )  # fmt: skip
    return [
        Found(number, namespace, read_checkpoint(name, uid, row), hidden)
        for number, namespace, hidden, name, uid, *row in rows
    ]


def _statement(query: Places) -> str:
    if query.uid is None:
        return "places_of_all" if query.run is None else "places_of_run"
    if query.hash is not None:
        return "places_by_hash"
    return "places_of_thread" if query.namespace is None else "places_of_namespace"


def _writes(store: PostgresStorage, tenant: str, query: Writes) -> list[GraphWrite]:
    return [_write(row) for row in store.ask("writes_at", tenant, uid=query.uid, keys=query.keys)]


def _write(row: Any) -> GraphWrite:
    key, task, number, channel, path, kind, size, data, digest = row
    return GraphWrite(key, task, number, channel, path, codec.unpacked(kind, size, data), digest)


def _buried(store: PostgresStorage, tenant: str, query: Buried) -> list[ThreadInfo]:
    return [thread_info(row) for row in store.ask("buried", tenant, name_key=name_key(query.name))]


GRAPH_WRITERS: dict[type, Callable[[Transaction, Any], Refusal | None]] = {
    PutWrites: _put_writes,
    Hide: _hide,
}
GRAPH_FINDERS: dict[type, Callable[[PostgresStorage, str, Any], list[Any]]] = {
    Places: _places,
    Writes: _writes,
    Buried: _buried,
}
