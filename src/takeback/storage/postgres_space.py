"""Giving space back on PostgreSQL: epochs, objects that go, what is stored, versions whose files are gone.

An epoch is a minute of the server's clock, so that no writer's own matters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.storage.base import (
    Epochs,
    FilesKept,
    Forget,
    NewEpoch,
    Objects,
    Prune,
    Pruned,
    Refusal,
    Sizes,
    Stored,
    files_kept,
)

if TYPE_CHECKING:
    from takeback.storage.postgres import PostgresStorage
    from takeback.storage.postgres_writes import Transaction

_PREFIX, _DIGEST = 7, 32  # bytes of a digest that its place in the listing is told by, and that it has


def _new_epoch(transaction: Transaction, _: NewEpoch) -> None:
    transaction.ask("wait_for_writers", {})
    transaction.ask("new_epoch", {})


def _forget(transaction: Transaction, row: Forget) -> None:
    transaction.ask("forget_objects", {"digests": sorted(row.digests), "epoch": row.epoch})


def _prune(transaction: Transaction, row: Prune) -> Refusal | None:
    gone = transaction.gone(row.uid)
    if gone is None:
        values = {"uid": row.uid, "low": row.low, "high": row.high, "time": row.time_us}
        transaction.ask("prune", values)
    return gone


def _kept(transaction: Transaction, row: FilesKept) -> Refusal | None:
    gone = transaction.gone(row.uid)
    if gone is not None:
        return gone
    runs = transaction.all("pruned", {"uid": row.uid})
    return files_kept(row, [(int(low), int(high), int(at)) for low, high, at in runs])


def _epochs(store: PostgresStorage, tenant: str, _: Epochs) -> list[int]:
    return [int(row[0]) for row in store.ask("epoch", tenant)] or [0]


def _key(digest: bytes) -> int:
    return int.from_bytes(digest[:_PREFIX], "big") + 1


def _objects(store: PostgresStorage, tenant: str, query: Objects) -> list[Stored]:
    after = b""
    if query.after:
        after = (query.after - 1).to_bytes(_PREFIX, "big") + b"\xff" * (_DIGEST - _PREFIX)
    rows = store.ask("objects_page", tenant, after=after, limit=query.limit)
    return [Stored(_key(row[0]), *row) for row in rows]


def _sizes(store: PostgresStorage, tenant: str, query: Sizes) -> list[Stored]:
    rows = store.ask("object_sizes", tenant, digests=list(set(query.digests)))
    return [Stored(0, *row) for row in rows]


def _pruned(store: PostgresStorage, tenant: str, query: Pruned) -> list[tuple[int, int, int]]:
    return [
        (int(low), int(high), int(time)) for low, high, time in store.ask("pruned", tenant, uid=query.uid)
    ]


SPACE_WRITERS: dict[type, Callable[[Transaction, Any], Refusal | None]] = {
    NewEpoch: _new_epoch,
    Forget: _forget,
    Prune: _prune,
    FilesKept: _kept,
}
SPACE_FINDERS: dict[type, Callable[[PostgresStorage, str, Any], list[Any]]] = {
    Epochs: _epochs,
    Objects: _objects,
    Sizes: _sizes,
    Pruned: _pruned,
}
