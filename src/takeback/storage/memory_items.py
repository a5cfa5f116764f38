"""Items of memory in the memory backend, in the same order as the SQLite one."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.model.records import Pointer
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

if TYPE_CHECKING:
    from takeback.storage.memory import MemoryStorage, _Tenant

_replace = msgspec.structs.replace


class Kept(msgspec.Struct):
    """An item: its versions in their order, and what a guard compares."""

    versions: list[ItemRow] = []
    count: int = 0
    turn: int = 0
    touched: int = 0


def _put(_: MemoryStorage, tenant: _Tenant, row: PutItems) -> Refusal | None:
    for new in row.versions:
        kept = tenant.items.get((new.namespace, new.key)) or Kept()
        if new.seen is not None and (kept.count, kept.turn) != (new.seen.count, new.seen.turn):
            return ItemMoved(new.namespace, new.key)
        if new.brought and any(have.digest == new.digest for have in kept.versions):
            continue
        made = _made(new, kept.count + 1, _place(kept, new))
        versions = [*kept.versions]
        insort(versions, made, key=lambda have: have.at_us)
        _set(tenant, new.namespace, new.key, _replace(kept, versions=versions, count=kept.count + 1))
    return None


def _place(kept: Kept, new: NewVersion) -> int:
    taken = [have.at_us for have in kept.versions]
    if not new.brought:
        return max(new.at_us, taken[-1] + 1 if taken else 0)
    at = new.at_us
    while at in taken:
        at += 1  # of one moment: the one that was here first is the older
    return at


def _made(new: NewVersion, number: int, at: int) -> ItemRow:
    return ItemRow(
        namespace=new.namespace, key=new.key, count=0, turn=0, touched_us=0, number=number,
        at_us=at, thread=new.thread, line=new.line, version=new.version, free=new.free or not new.thread,
        digest=new.digest, mac=new.mac, record=new.record,
    )  # fmt: skip


def _turn(_: MemoryStorage, tenant: _Tenant, row: TurnItems) -> Refusal | None:
    for seen in row.items:
        kept = tenant.items.get((seen.namespace, seen.key)) or Kept()
        if not kept.count or (kept.count, kept.turn) != (seen.count, seen.turn):
            return ItemMoved(seen.namespace, seen.key)
        _set(tenant, seen.namespace, seen.key, _replace(kept, turn=kept.turn + 1))
    return None


def _free(_: MemoryStorage, tenant: _Tenant, row: FreeItems) -> None:
    for namespace, key, number in row.versions:
        kept = tenant.items.get((namespace, key))
        if kept is not None:
            versions = [_replace(have, free=have.free or have.number == number) for have in kept.versions]
            _set(tenant, namespace, key, _replace(kept, versions=versions))


def _touch(_: MemoryStorage, tenant: _Tenant, row: TouchItems) -> None:
    for namespace, key in row.items:
        kept = tenant.items.get((namespace, key))
        if kept is not None:
            _set(tenant, namespace, key, _replace(kept, touched=max(kept.touched, row.time_us)))


def _set(tenant: _Tenant, namespace: str, key: str, kept: Kept) -> None:
    named = (namespace, key)
    before = tenant.items.get(named)
    tenant.items[named] = kept
    again = partial(tenant.items.pop, named) if before is None else partial(_back, tenant, named, before)
    tenant.undo.append(again)


def _back(tenant: _Tenant, named: tuple[str, str], before: Kept) -> None:
    tenant.items[named] = before


# --- reading


def _versions_of(tenant: _Tenant, q: VersionsOf) -> list[ItemRow]:
    kept = tenant.items.get((q.namespace, q.key))
    return [] if kept is None else _rows(tenant, reversed(kept.versions))[: q.limit]


def _newest_under(tenant: _Tenant, q: NewestUnder) -> list[ItemRow]:
    named = sorted(name for name in tenant.items if q.low <= name[0] < q.high and name > q.after)
    return _rows(tenant, (tenant.items[name].versions[-1] for name in named[: q.limit]))


def _versions_by(tenant: _Tenant, q: VersionsBy) -> list[ItemRow]:
    found = [
        row
        for kept in tenant.items.values()
        for row in kept.versions
        if q.thread and row.thread == q.thread and q.low <= row.version <= q.high
    ]
    return _rows(tenant, sorted(found, key=lambda row: (row.version, *_place_of(row))))[: q.limit]


def _all_versions(tenant: _Tenant, q: AllVersions) -> list[ItemRow]:
    found = [row for kept in tenant.items.values() for row in kept.versions if _place_of(row) > q.after]
    return _rows(tenant, sorted(found, key=_place_of)[: q.limit])


def _place_of(row: ItemRow) -> tuple[str, str, int]:
    return row.namespace, row.key, row.at_us


def _rows(tenant: _Tenant, versions: Iterable[ItemRow]) -> list[ItemRow]:
    return [_row(tenant, row) for row in versions]


def _row(tenant: _Tenant, row: ItemRow) -> ItemRow:
    kept, info = tenant.items[row.namespace, row.key], tenant.threads.get(row.thread)
    row = _replace(row, count=kept.count, turn=kept.turn, touched_us=kept.touched)
    if info is None or info.deleted_us is not None:
        return row
    head = tenant.checkpoints[row.thread][-1]
    pointer = Pointer(row.thread, info.head, info.head_digest)
    return _replace(row, head=pointer, head_line=head.line, family=info.family)


ITEM_WRITERS: dict[type, Callable[[MemoryStorage, _Tenant, Any], Refusal | None]] = {
    PutItems: _put,
    TurnItems: _turn,
    FreeItems: _free,
    TouchItems: _touch,
}
ITEM_FINDERS: dict[type, Callable[[_Tenant, Any], list[Any]]] = {
    VersionsOf: _versions_of,
    NewestUnder: _newest_under,
    VersionsBy: _versions_by,
    AllVersions: _all_versions,
}
