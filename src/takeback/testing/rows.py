"""Rows that are valid but made up: threads, checkpoints and objects to try a storage with."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.model import canonical
from takeback.model.ids import ThreadUid, checkpoint_id, thread_uid
from takeback.model.records import AuditEntry, Checkpoint, Pointer, seal_record
from takeback.storage.base import Audit, Cell, Ledger, NewThread

T0 = 1_700_000_000_000_000
"""When made-up threads begin: microseconds since 1970."""


def first(thread: str = "t", uid: ThreadUid | None = None, **fields: Any) -> Checkpoint:
    """The checkpoint that a thread begins with."""
    root = fields.pop("state_root", canonical.digest(b"state 0"))
    return _sealed(
        Checkpoint(
            thread=thread, uid=uid or thread_uid(), version=0, id=checkpoint_id(0), digest=b"", line=0,
            kind=fields.pop("kind", "initial"), state_root=root, time_us=fields.pop("time_us", T0),
            clock_us=T0, **fields,
        )
    )  # fmt: skip


def following(head: Checkpoint, **fields: Any) -> Checkpoint:
    """A checkpoint that may be written after this one."""
    version = head.version + 1
    plain: dict[str, Any] = {
        "thread": head.thread, "uid": head.uid, "version": version, "id": checkpoint_id(version),
        "kind": "commit", "line": head.line, "previous": head.digest, "before": head.version,
        "state_root": canonical.digest(b"state %d" % version), "time_us": head.time_us + 1,
        "clock_us": head.clock_us + 1, "digest": b"",
    }  # fmt: skip
    return _sealed(Checkpoint(**(plain | fields)))


def run(head: Checkpoint, count: int) -> list[Checkpoint]:
    """So many checkpoints, each after the one before it, the first after this one."""
    made: list[Checkpoint] = []
    for _ in range(count):
        made.append(following(made[-1] if made else head))
    return made


def merging(head: Checkpoint, other: Checkpoint) -> Checkpoint:
    """A checkpoint that merges one of another thread."""
    return following(head, kind="merge", merged=Pointer(other.uid, other.version, other.digest))


def new_thread(name: str = "t", uid: ThreadUid | None = None, **fields: Any) -> NewThread:
    """A thread that begins now; what is no field of the thread goes into its first checkpoint."""
    own = {key: fields.pop(key, None) for key in ("agent", "user", "origin", "source")}
    family = fields.pop("family", None)
    meta, created = canonical.encode(fields.pop("meta", {})), fields.pop("created_us", T0)
    begins = first(name, uid, **fields)
    own["family"] = family or begins.uid
    return NewThread(name=name, uid=begins.uid, meta=meta, created_us=created, first=begins, **own)


def audit(action: str = "label.put", uid: bytes | None = None, **detail: Any) -> Audit:
    """An entry of the audit log."""
    return Audit(AuditEntry(time_us=T0, action=action, thread="t", uid=uid, actor="tester", detail=detail))


def cell(key: bytes = b"k", body: bytes = b"body", *, kind: str = "effect", live: bool = False) -> Cell:
    """Something of a ledger that changes."""
    return Cell(kind, key, b"thread", body, live)


def ledger(family: bytes, seq: int | None, *cells: Cell) -> Ledger:
    """A write to a family's ledger."""
    return Ledger(ThreadUid(family), seq, list(cells))


def blobs(*payloads: bytes) -> dict[bytes, bytes]:
    """Objects by their digests."""
    return {canonical.digest(payload): payload for payload in payloads}


def with_record(checkpoint: Checkpoint, **fields: Any) -> Checkpoint:
    """The checkpoint with other fields and a record that says so: another commit in its place."""
    return _sealed(msgspec.structs.replace(checkpoint, **fields))


def _sealed(checkpoint: Checkpoint) -> Checkpoint:
    return msgspec.structs.replace(seal_record(checkpoint), mac=checkpoint.mac)
