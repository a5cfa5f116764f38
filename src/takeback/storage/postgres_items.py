"""Items of memory on PostgreSQL, in the same order as on SQLite.

Items are locked in the order of their names, after threads, ledgers and objects: transactions that write
several never wait for one another in a circle.
"""

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
    from collections.abc import Iterable

    from takeback.storage.postgres import PostgresStorage
    from takeback.storage.postgres_writes import Transaction


def _put(transaction: Transaction, row: PutItems) -> Refusal | None:
    counts = _held(transaction, ((new.namespace, new.key) for new in row.versions))
    # Of one item in the order in which they are given, of several in that of their names.
    for new in sorted(row.versions, key=_name):
        absent = _name(new) not in counts
        if new.seen is not None and new.seen.count and absent:
            return ItemMoved(*_name(new))
        counts.add(_name(new))
        if not (_brought(transaction, new) if new.brought else _written(transaction, new)):
            return ItemMoved(*_name(new))
    return None


def _written(transaction: Transaction, new: NewVersion) -> bool:
    values = _named(*_name(new)) | {
        "at": new.at_us, "count": new.seen.count if new.seen else None,
        "turn": new.seen.turn if new.seen else None,
    }  # fmt: skip
    found = transaction.one("item_written", values)
    if found is not None:
        _new_version(transaction, new, number=found[0], at=found[1])
    return found is not None


def _brought(transaction: Transaction, new: NewVersion) -> bool:
    named = _named(*_name(new))
    if transaction.one("item_known", named | {"digest": new.digest}) is not None:
        return True
    number = transaction.one("item_brought", named | {"at": new.at_us})[0]
    at = new.at_us
    for (taken,) in transaction.all("item_taken", named | {"at": at}):
        if taken > at:
            break
        at += 1  # of one moment: the one that was here first is the older
    transaction.ask("item_place", named | {"at": at})
    _new_version(transaction, new, number=number, at=at)
    return True


def _new_version(transaction: Transaction, new: NewVersion, *, number: int, at: int) -> None:
    values = _named(*_name(new)) | {
        "at": at, "number": number, "thread": new.thread, "line": new.line, "version": new.version,
        "free": new.free or not new.thread, "digest": new.digest, "mac": new.mac, "record": new.record,
    }  # fmt: skip
    transaction.ask("new_item_version", values)


def _turn(transaction: Transaction, row: TurnItems) -> Refusal | None:
    for seen in sorted(row.items, key=lambda seen: (seen.namespace, seen.key)):
        values = _named(seen.namespace, seen.key) | {"count": seen.count, "turn": seen.turn}
        if transaction.ask("turn_item", values) == 0:
            return ItemMoved(seen.namespace, seen.key)
    return None


def _free(transaction: Transaction, row: FreeItems) -> None:
    _held(transaction, ((namespace, key) for namespace, key, _ in row.versions))
    for namespace, key, number in sorted(row.versions):
        transaction.ask("free_item", _named(namespace, key) | {"number": number})


def _touch(transaction: Transaction, row: TouchItems) -> None:
    for namespace, key in sorted(row.items):
        transaction.ask("touch_item", _named(namespace, key) | {"time": row.time_us})


def _held(transaction: Transaction, names: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the items that are there, locked."""
    ordered = sorted(set(names))
    values = {"namespaces": [name for name, _ in ordered], "keys": [key for _, key in ordered]}
    return {(row[0], row[1]) for row in transaction.all("hold_items", values)}


def _name(new: NewVersion) -> tuple[str, str]:
    return new.namespace, new.key


def _named(namespace: str, key: str) -> dict[str, Any]:
    return {"namespace": namespace, "key": key}


# --- reading


def _versions_of(store: PostgresStorage, tenant: str, q: VersionsOf) -> list[ItemRow]:
    rows = store.ask("versions_of", tenant, namespace=q.namespace, key=q.key, limit=q.limit)
    return [item_row(row) for row in rows]


def _newest_under(store: PostgresStorage, tenant: str, q: NewestUnder) -> list[ItemRow]:
    rows = store.ask(
        "newest_under", tenant, low=q.low, high=q.high, namespace=q.after[0], key=q.after[1], limit=q.limit
    )
    return [item_row(row) for row in rows]


def _versions_by(store: PostgresStorage, tenant: str, q: VersionsBy) -> list[ItemRow]:
    rows = store.ask("versions_by", tenant, thread=q.thread, low=q.low, high=q.high, limit=q.limit)
    return [item_row(row) for row in rows]


def _all_versions(store: PostgresStorage, tenant: str, q: AllVersions) -> list[ItemRow]:
    namespace, key, at = q.after
    rows = store.ask("all_versions", tenant, namespace=namespace, key=key, at=at, limit=q.limit)
    return [item_row(row) for row in rows]


ITEM_WRITERS: dict[type, Callable[[Transaction, Any], Refusal | None]] = {
    PutItems: _put,
    TurnItems: _turn,
    FreeItems: _free,
    TouchItems: _touch,
}
ITEM_FINDERS: dict[type, Callable[[PostgresStorage, str, Any], list[Any]]] = {
    VersionsOf: _versions_of,
    NewestUnder: _newest_under,
    VersionsBy: _versions_by,
    AllVersions: _all_versions,
}
