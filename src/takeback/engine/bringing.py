"""Versions of items on their way from one store to another: as they were written, in their place by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from takeback.engine import items, reach, trusting
from takeback.engine.context import Context
from takeback.model.items import ItemRecord
from takeback.storage.base import Row
from takeback.storage.items import ItemRow, NewVersion, PutItems, VersionsBy

_ROWS = 200  # of one transaction


def of_thread(ctx: Context, uid: bytes, low: int = 0) -> list[ItemRow]:
    """What a thread wrote into memory, from a version on."""
    return ctx.storage.find(ctx.tenant, VersionsBy(uid, low))


def of_nobody(ctx: Context) -> list[ItemRow]:
    """What belongs to no thread's history, or to one that was deleted."""
    return [row for row in trusting.all_versions(ctx) if row.free]


def batches(ctx: Context, rows: list[ItemRow]) -> Iterator[tuple[list[Row], dict[bytes, bytes]]]:
    """Versions with all that they rest on, as many as one transaction should hold."""
    seen: set[bytes] = set()
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS]
        roots = [digest for row in some for digest in items.roots(items.version(row).record)]
        objects = dict(reach.objects(ctx, roots, seen))
        yield [PutItems([brought(row) for row in some])], objects


def brought(row: ItemRow) -> NewVersion:
    return NewVersion(
        row.namespace, row.key, row.at_us, row.digest, row.record, row.mac, row.thread, row.line, row.version,
        row.free, brought=True,
    )  # fmt: skip


def written(record: ItemRecord, at_us: int, digest: bytes, raw: bytes, mac: bytes | None) -> NewVersion:
    """A version out of a file, which says itself where it belongs."""
    return NewVersion(
        record.namespace, record.key, at_us, digest, raw, mac, record.thread, record.line, record.version,
        brought=True,
    )  # fmt: skip


def objects_of(rows: Iterable[ItemRow]) -> list[bytes]:
    """The objects that versions rest on."""
    return [digest for row in rows for digest in items.roots(items.version(row).record)]
