"""Items of memory in SQLite: versions that are written, turned over, held, and found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.storage.base import Refusal
from takeback.storage.items import (
    AllVersions,
    FreeItems,
    ItemMoved,
    ItemRow,
    NewestUnder,
    NewVersion,
    PutItems,
    TouchItems,
    TurnItems,
    VersionsBy,
    VersionsOf,
)
from takeback.storage.rows import item_row

if TYPE_CHECKING:
    import apsw

    from takeback.storage.sqlite import SqliteStorage

_ALL = -1  # SQLite's LIMIT for no limit


def _put(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: PutItems) -> Refusal | None:
    for new in row.versions:
        if new.seen is not None:
            found: Any = connection.execute(store._sql["item_seen"], (tenant, *_name(new))).fetchone()
            if ((0, 0) if found is None else tuple(found[1:])) != (new.seen.count, new.seen.turn):
                return ItemMoved(*_name(new))
        _write(store, connection, tenant, new)
    return None


def _write(store: SqliteStorage, connection: apsw.Connection, tenant: int, new: NewVersion) -> None:
    sql, named = store._sql, (tenant, *_name(new))
    if not new.brought:
        written: Any = connection.execute(sql["item_written"], (*named, new.at_us)).fetchone()
        item, number, at = written
    else:
        if connection.execute(sql["item_known"], (*named, new.digest)).fetchone() is not None:
            return
        brought: Any = connection.execute(sql["item_brought"], (*named, new.at_us)).fetchone()
        (item, number), at = brought, new.at_us
        while connection.execute(sql["item_taken"], (item, at)).fetchone() is not None:
            at += 1  # of one moment: the one that was here first is the older
        connection.execute(sql["item_place"], (at, item))
    values = (
        tenant, item, at, number, new.thread, new.line, new.version, new.free or not new.thread,
        new.digest, new.mac, new.record,
    )  # fmt: skip
    connection.execute(sql["new_item_version"], values)


def _turn(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: TurnItems) -> Refusal | None:
    for seen in row.items:
        values = (tenant, seen.namespace, seen.key, seen.count, seen.turn)
        connection.execute(store._sql["turn_item"], values)
        if connection.changes() == 0:
            return ItemMoved(seen.namespace, seen.key)
    return None


def _free(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: FreeItems) -> None:
    connection.executemany(store._sql["free_item"], [(tenant, *named) for named in row.versions])


def _touch(store: SqliteStorage, connection: apsw.Connection, tenant: int, row: TouchItems) -> None:
    rows = [(row.time_us, tenant, *named) for named in row.items]
    connection.executemany(store._sql["touch_item"], rows)


def _name(new: NewVersion) -> tuple[str, str]:
    return new.namespace, new.key


# --- reading


def _versions_of(store: SqliteStorage, connection: apsw.Connection, tenant: str, q: VersionsOf) -> Any:
    limit = _ALL if q.limit is None else q.limit
    values = (store._tenant(connection, tenant), q.namespace, q.key, limit)
    return _rows(connection, store._sql["versions_of"], values)


def _newest_under(store: SqliteStorage, connection: apsw.Connection, tenant: str, q: NewestUnder) -> Any:
    values = (store._tenant(connection, tenant), q.low, q.high, *q.after, q.limit)
    return _rows(connection, store._sql["newest_under"], values)


def _versions_by(store: SqliteStorage, connection: apsw.Connection, tenant: str, q: VersionsBy) -> Any:
    limit = _ALL if q.limit is None else q.limit
    values = (store._tenant(connection, tenant), q.thread, q.low, q.high, limit)
    return _rows(connection, store._sql["versions_by"], values)


def _all_versions(store: SqliteStorage, connection: apsw.Connection, tenant: str, q: AllVersions) -> Any:
    values = (store._tenant(connection, tenant), *q.after, q.limit)
    return _rows(connection, store._sql["all_versions"], values)


def _rows(connection: apsw.Connection, sql: str, values: tuple[Any, ...]) -> list[ItemRow]:
    return [item_row(row) for row in connection.execute(sql, values)]


ITEM_WRITERS: dict[type, Callable[[SqliteStorage, apsw.Connection, int, Any], Refusal | None]] = {
    PutItems: _put,
    TurnItems: _turn,
    FreeItems: _free,
    TouchItems: _touch,
}
ITEM_FINDERS: dict[type, Callable[[SqliteStorage, apsw.Connection, str, Any], list[Any]]] = {
    VersionsOf: _versions_of,
    NewestUnder: _newest_under,
    VersionsBy: _versions_by,
    AllVersions: _all_versions,
}
