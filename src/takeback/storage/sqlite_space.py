"""Giving space back on SQLite: epochs, objects that go, what is stored, and versions whose files are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.storage import objects as codec
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
    ThreadGone,
    epoch_after,
    files_kept,
)

if TYPE_CHECKING:
    import apsw

    from takeback.storage.sqlite import SqliteStorage

_PAGES = 2000  # given back to the system in one transaction, at most: what it writes stays small


def present_epoch(connection: apsw.Connection, sql: dict[str, str]) -> int:
    """Read inside the transaction that writes: a collection may have begun in another process."""
    return epoch_after(_last_epoch(connection, sql))


def _last_epoch(connection: apsw.Connection, sql: dict[str, str]) -> int:
    row = connection.execute(sql["epoch"]).fetchone()
    return 0 if row is None else int(row[0])


def _new_epoch(store: SqliteStorage, connection: apsw.Connection, _: int, __: NewEpoch) -> None:
    now = epoch_after(_last_epoch(connection, store._sql)) + 1
    connection.execute(store._sql["new_epoch"], (str(now),))


def _forget(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: Forget) -> None:
    keys = [(codec.index_key(digest), tenant, digest, row.epoch) for digest in row.digests]
    connection.executemany(store._sql["forget_object"], keys)
    # The pages that are free now, a piece at a time and in the same transaction: the file never holds two
    # copies of anything, as a VACUUM would.
    connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()


def _prune(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: Prune) -> Refusal | None:
    thread = store._living(connection, tenant, row.uid)
    if isinstance(thread, ThreadGone):
        return thread
    connection.execute(store._sql["prune"], (thread, row.low, row.high, row.time_us))
    return None


def _kept(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: FilesKept) -> Refusal | None:
    thread = store._living(connection, tenant, row.uid)
    if isinstance(thread, ThreadGone):
        return thread
    return files_kept(row, [tuple(run) for run in connection.execute(store._sql["pruned"], (thread,))])


def _epochs(store: SqliteStorage, connection: apsw.Connection, _: str, __: Epochs) -> list[int]:
    return [_last_epoch(connection, store._sql)]


def _objects(store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Objects) -> list[Stored]:
    values = (query.after, store._tenant(connection, tenant), query.limit)
    return [Stored(*row) for row in connection.execute(store._sql["objects_page"], values)]


def _sizes(store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Sizes) -> list[Stored]:
    scope = store._tenant(connection, tenant)
    keys = [(codec.index_key(digest), scope, digest) for digest in query.digests]
    return [Stored(*row) for row in connection.executemany(store._sql["object_size"], keys)]


def _pruned(
    store: SqliteStorage, connection: apsw.Connection, tenant: str, query: Pruned
) -> list[tuple[int, int, int]]:
    thread = store._known(connection, tenant, query.uid)
    return (
        [] if thread is None else [tuple(row) for row in connection.execute(store._sql["pruned"], thread[:1])]
    )


SPACE_WRITERS: dict[type, Callable[[SqliteStorage, apsw.Connection, int, Any], Refusal | None]] = {
    NewEpoch: _new_epoch,
    Forget: _forget,
    Prune: _prune,
    FilesKept: _kept,
}
SPACE_FINDERS: dict[type, Callable[[SqliteStorage, apsw.Connection, str, Any], list[Any]]] = {
    Epochs: _epochs,
    Objects: _objects,
    Sizes: _sizes,
    Pruned: _pruned,
}
