"""What the statements of the PostgreSQL backend are given, by the names that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blake3 import blake3
from psycopg.types.numeric import Int8

from takeback.storage.rows import repeated

if TYPE_CHECKING:
    from takeback.model.records import Checkpoint
    from takeback.storage.base import Cell, NewThread

Packed = dict[bytes, tuple[int, bytes, int]]
"""By digest: how an object is encoded, its stored bytes, and its own size."""
_COLUMNS = ("version", "namespace", "kind", "line", "origin_version", "merged_version", "undoes", "time")


def name_key(name: str) -> bytes:
    """A thread's name as an index holds it: a name may be longer than a key."""
    return blake3(name.encode()).digest(16)


def checkpoint_values(tenant: str, c: Checkpoint) -> dict[str, Any]:
    values: dict[str, Any] = dict(zip(_COLUMNS, repeated(c), strict=True))
    values |= {
        "tenant": tenant, "uid": c.uid, "digest": c.digest, "mac": c.mac, "record": c.record,
        "previous": c.previous,
    }  # fmt: skip
    return values


def thread_values(tenant: str, row: NewThread) -> dict[str, Any]:
    origin = row.origin
    return checkpoint_values(tenant, row.first) | {
        "uid": row.uid, "name": row.name, "name_key": name_key(row.name), "agent": row.agent,
        "user": row.user, "thread_meta": row.meta, "created": row.created_us, "family": row.family,
        "source": row.source, "origin_uid": origin.uid if origin else None,
        "from_version": origin.version if origin else None,
        "origin_digest": origin.digest if origin else None,
    }  # fmt: skip


def object_values(packed: Packed) -> dict[str, Any]:
    """Columns rather than rows, in the order in which every writer takes them."""
    digests = sorted(packed)
    held = [packed[digest] for digest in digests]
    return {
        "digests": digests,
        "codecs": [Int8(codec) for codec, _, _ in held],
        "datas": [data for _, data, _ in held],
        "sizes": [Int8(size) for _, _, size in held],
    }


def cell_values(cells: list[Cell]) -> dict[str, Any]:
    """The last of each kind and key."""
    last = list({(cell.key, cell.kind): cell for cell in cells}.values())
    return {
        "keys": [cell.key for cell in last],
        "kinds": [cell.kind for cell in last],
        "threads": [cell.thread for cell in last],
        "lives": [cell.live for cell in last],
        "bodies": [cell.body for cell in last],
    }
