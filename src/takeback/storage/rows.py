"""Rows of a database's tables as records, and back; what both databases share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.errors import CorruptObject
from takeback.model import canonical
from takeback.model.records import AuditEntry, Checkpoint, Pointer, ThreadInfo, read_record, record_digest
from takeback.storage.items import ItemRow

if TYPE_CHECKING:
    from takeback.storage.base import NewThread


def thread_values(tenant: int, row: NewThread) -> tuple[Any, ...]:
    first, origin = row.first, row.origin
    return (
        tenant, row.name, row.uid, row.agent, row.user, row.meta, row.created_us, first.version, first.digest,
        first.time_us, *((origin.uid, origin.version, origin.digest) if origin else (None, None, None)),
        row.family,
    )  # fmt: skip


def checkpoint_values(thread: int, c: Checkpoint) -> tuple[Any, ...]:
    return (thread, *repeated(c), c.digest, c.mac, c.record)


def thread_info(row: Any) -> ThreadInfo:
    origin = None if row[10] is None else Pointer(row[10], row[11], row[12])
    return ThreadInfo(
        key=row[0], name=row[1], uid=row[2], agent=row[3], user=row[4], meta=canonical.decode(row[5]),
        created_us=row[6], head=row[7], head_digest=row[8], updated_us=row[9], origin=origin,
        deleted_us=row[13], family=row[14], lock=row[15],
    )  # fmt: skip


def read_checkpoint(thread: str, uid: bytes, row: Any) -> Checkpoint:
    *columns, digest, mac, record = row
    if record_digest(record) != digest:
        raise CorruptObject("the record does not have its digest", thread=thread, checkpoint=columns[0])
    try:
        c = read_record(thread, record, digest, mac)
    except CorruptObject as error:
        raise CorruptObject(error.what, thread=thread, checkpoint=columns[0]) from None
    if (c.uid, *repeated(c)) != (uid, *columns):
        raise CorruptObject("the row says other than its record", thread=thread, checkpoint=columns[0])
    return c


def audit_entry(row: Any) -> AuditEntry:
    return AuditEntry(
        key=row[0], uid=row[1], thread=row[2], time_us=row[3], action=row[4], actor=row[5],
        detail=canonical.decode(row[6]),
    )  # fmt: skip


def repeated(c: Checkpoint) -> tuple[Any, ...]:
    """What the table repeats of a record, for queries."""
    origin, merged = c.origin, c.merged
    return (
        c.version, c.namespace, c.kind, c.line, origin.version if origin else None,
        merged.version if merged else None, c.undoes, c.time_us,
    )  # fmt: skip


def item_row(row: Any) -> ItemRow:
    """A version of an item, as the statements that find some give it."""
    head = None if row[14] is None else Pointer(row[7], row[14], row[15])
    values = (*row[:10], bool(row[10]), *row[11:14], head, row[17] or 0, row[16] or b"")
    return ItemRow(*values)
