"""The memory backend: the same promises for as long as the process lives. Same order as the SQLite one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec

from takeback.errors import CorruptObject, StoreClosed
from takeback.model import canonical
from takeback.model.ids import shown, thread_uid
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.storage.base import (
    Audit,
    Batch,
    Cell,
    DropLabel,
    Epochs,
    FilesKept,
    Forget,
    HeadMoved,
    History,
    Labels,
    Ledger,
    LedgerMoved,
    Lock,
    NameTaken,
    NewCheckpoint,
    NewEpoch,
    NewThread,
    Now,
    Objects,
    Prune,
    Pruned,
    PutLabel,
    Query,
    Refusal,
    Sizes,
    Still,
    Stored,
    StoreInfo,
    ThreadGone,
    ThreadLocked,
    ThreadQuery,
    Told,
    Tombstone,
    Within,
    epoch_after,
    files_kept,
    finder,
    has_meta,
    no_clock,
    untold,
)
from takeback.storage.memory_graphs import GRAPH_FINDERS, GRAPH_WRITERS, Graphs
from takeback.storage.memory_items import ITEM_FINDERS, ITEM_WRITERS, Kept

T = TypeVar("T")
_Record = TypeVar("_Record", Checkpoint, ThreadInfo)


class _Tenant:
    """All that one tenant has. `undo` takes back what a refused batch has written so far."""

    def __init__(self) -> None:
        self.objects: dict[bytes, bytes] = {}
        self.threads: dict[bytes, ThreadInfo] = {}
        self.names: dict[str, bytes] = {}
        self.checkpoints: dict[bytes, list[Checkpoint]] = {}
        self.labels: dict[bytes, dict[str, int]] = {}
        self.audit: list[AuditEntry] = []
        self.cells: dict[bytes, dict[tuple[bytes, str], Cell]] = {}
        self.graphs = Graphs()

        self.epoch = 0
        self.epochs: dict[bytes, int] = {}
        self.pruned: dict[bytes, list[tuple[int, int, int]]] = {}
        self.items: dict[tuple[str, str], Kept] = {}
        self.undo: list[Callable[[], object]] = []


class MemoryStorage:
    """See `Storage` for what is promised, and: nothing outlives the process."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}
        self._lock = threading.RLock()
        self._closed = False
        self._uid = shown(thread_uid())

    # --- writing

    def apply(self, batch: Batch) -> Refusal | None:
        with self._lock:
            self._alive()
            tenant = self._of(batch.tenant)
            tenant.undo = []
            written = False
            try:
                refusal = self._write(tenant, batch)
                written = refusal is None
            finally:
                if not written:
                    for step in reversed(tenant.undo):
                        step()
            if written:
                self._tenants[batch.tenant] = tenant
            return refusal

    def _write(self, tenant: _Tenant, batch: Batch) -> Refusal | None:
        for digest, payload in batch.objects.items():
            if digest not in tenant.objects:
                tenant.objects[digest] = payload
                tenant.undo.append(partial(tenant.objects.pop, digest))
            tenant.epochs[digest] = epoch_after(tenant.epoch)  # after a refusal it stays a little longer
        for row in batch.rows:
            refusal = _WRITERS[type(row)](self, tenant, row)
            if refusal is not None:
                return refusal
        return None

    def _new_thread(self, tenant: _Tenant, row: NewThread) -> Refusal | None:
        gone = None if row.source is None else self._gone(tenant, row.source)
        if gone is not None:
            return gone
        if row.name in tenant.names or row.uid in tenant.threads:
            return NameTaken(row.name)
        tenant.threads[row.uid] = ThreadInfo(
            name=row.name, uid=row.uid, agent=row.agent, user=row.user, meta=canonical.decode(row.meta),
            created_us=row.created_us, head=row.first.version, head_digest=row.first.digest,
            updated_us=row.first.time_us, origin=row.origin, family=row.family, key=len(tenant.threads) + 1,
        )  # fmt: skip
        tenant.names[row.name] = row.uid
        tenant.checkpoints[row.uid] = [_own(row.first)]
        tenant.undo += tenant.graphs.add(row.first)
        tenant.labels[row.uid] = {}
        tenant.undo += [
            partial(tenant.names.pop, row.name),
            *(partial(held.pop, row.uid) for held in (tenant.threads, tenant.checkpoints, tenant.labels)),
        ]
        return None

    def _new_checkpoint(self, tenant: _Tenant, row: NewCheckpoint) -> Refusal | None:
        c = row.checkpoint
        info = tenant.threads.get(c.uid)
        if info is None or info.deleted_us is not None:
            return ThreadGone(info.deleted_us if info else None)
        if (info.head, info.head_digest) == (c.version, c.digest):
            return None  # this very commit, asked for again
        if (info.head, info.head_digest) != (c.version - 1, c.previous):
            return HeadMoved(info.head, info.head_digest)
        if info.lock != row.lock:
            return ThreadLocked(info.lock)
        moved = msgspec.structs.replace(info, head=c.version, head_digest=c.digest, updated_us=c.time_us)
        tenant.threads[c.uid] = moved
        tenant.checkpoints[c.uid].append(_own(c))
        tenant.undo += [partial(tenant.threads.update, {c.uid: info}), tenant.checkpoints[c.uid].pop]
        tenant.undo += tenant.graphs.add(c)
        return None

    def _history(self, tenant: _Tenant, row: History) -> Refusal | None:
        for checkpoint in row.checkpoints:
            refusal = self._new_checkpoint(tenant, NewCheckpoint(checkpoint))
            if refusal is not None:
                return refusal
        return None

    def _gone(self, tenant: _Tenant, uid: bytes) -> ThreadGone | None:
        info = tenant.threads.get(uid)
        if info is None or info.deleted_us is not None:
            return ThreadGone(info.deleted_us if info else None)
        return None

    def _put_label(self, tenant: _Tenant, row: PutLabel) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is None:
            self._set_labels(tenant, row.uid, tenant.labels[row.uid] | {row.label: row.version})
        return gone

    def _drop_label(self, tenant: _Tenant, row: DropLabel) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is None:
            left = {name: version for name, version in tenant.labels[row.uid].items() if name != row.label}
            self._set_labels(tenant, row.uid, left)
        return gone

    def _set_labels(self, tenant: _Tenant, uid: bytes, labels: dict[str, int]) -> None:
        before = tenant.labels[uid]
        tenant.labels[uid] = labels
        tenant.undo.append(partial(tenant.labels.update, {uid: before}))

    def _bury(self, tenant: _Tenant, row: Tombstone) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is not None:
            return gone
        info, held = tenant.threads[row.uid], tenant.checkpoints[row.uid]
        if info.lock is not None:
            return ThreadLocked(info.lock)
        tenant.threads[row.uid] = msgspec.structs.replace(info, deleted_us=row.deleted_us)
        tenant.checkpoints[row.uid] = []
        del tenant.names[info.name]
        self._set_labels(tenant, row.uid, {})
        tenant.undo += tenant.graphs.drop(row.uid)
        tenant.undo += [
            partial(tenant.threads.update, {row.uid: info}),
            partial(tenant.checkpoints.update, {row.uid: held}),
            partial(tenant.names.update, {info.name: row.uid}),
        ]
        return None

    def _lock_thread(self, tenant: _Tenant, row: Lock) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is not None:
            return gone
        info = tenant.threads[row.uid]
        if info.lock != row.was:
            return ThreadLocked(info.lock)
        tenant.threads[row.uid] = msgspec.structs.replace(info, lock=row.lock)
        tenant.undo.append(partial(tenant.threads.update, {row.uid: info}))
        return None

    def _still(self, tenant: _Tenant, row: Still) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is not None:
            return gone
        info, head = tenant.threads[row.uid], tenant.checkpoints[row.uid][-1]
        if info.lock is not None:
            return ThreadLocked(info.lock)
        moved = head.line != row.line or row.digest not in (None, head.digest)
        return HeadMoved(info.head, info.head_digest) if moved else None

    def _ledger(self, tenant: _Tenant, row: Ledger) -> Refusal | None:
        held = tenant.cells.get(row.family, {})
        seq = max((cell.seq for cell in held.values()), default=0)
        if row.seq is not None and seq != row.seq:
            return LedgerMoved(seq)
        made = [msgspec.structs.replace(cell, seq=seq + 1, family=row.family) for cell in row.cells]
        tenant.cells[row.family] = held | {(cell.key, cell.kind): cell for cell in made}
        tenant.undo.append(partial(tenant.cells.update, {row.family: held}))
        return None

    def _within(self, tenant: _Tenant, row: Within) -> Refusal | None:
        for made in row.work(None):
            refusal = _WRITERS[type(made)](self, tenant, made)
            if refusal is not None:
                return refusal
        return None

    def _audit(self, tenant: _Tenant, row: Audit) -> Refusal | None:
        detail = canonical.decode(canonical.encode(row.entry.detail))
        tenant.audit.append(msgspec.structs.replace(row.entry, detail=detail, key=len(tenant.audit) + 1))
        tenant.undo.append(tenant.audit.pop)
        return None

    def _new_epoch(self, tenant: _Tenant, row: NewEpoch) -> Refusal | None:  # noqa: ARG002 (it says nothing)
        tenant.epoch = epoch_after(tenant.epoch) + 1
        return None

    def _forget(self, tenant: _Tenant, row: Forget) -> Refusal | None:
        for digest in row.digests:
            if digest in tenant.objects and tenant.epochs[digest] < row.epoch:
                payload = tenant.objects.pop(digest)
                tenant.undo.append(partial(tenant.objects.update, {digest: payload}))
        return None

    def _prune(self, tenant: _Tenant, row: Prune) -> Refusal | None:
        gone = self._gone(tenant, row.uid)
        if gone is None:
            before = tenant.pruned.get(row.uid, [])
            tenant.pruned[row.uid] = sorted([*before, (row.low, row.high, row.time_us)])
            tenant.undo.append(partial(tenant.pruned.update, {row.uid: before}))
        return gone

    def _kept(self, tenant: _Tenant, row: FilesKept) -> Refusal | None:
        return self._gone(tenant, row.uid) or files_kept(row, tenant.pruned.get(row.uid, []))

    # --- reading

    def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
        with self._lock:
            held = self._of(tenant).objects
            found = {digest: held[digest] for digest in digests if digest in held}
        for digest, payload in found.items():
            if canonical.digest(payload) != digest:
                raise CorruptObject(f"object {shown(digest)} does not hold what it is stored under")
        return found

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        with self._lock:
            of = self._of(tenant)
            uid = of.names.get(name)
            return None if uid is None else (_own(of.threads[uid]), _own(of.checkpoints[uid][-1]))

    def thread_by_uid(self, tenant: str, uid: bytes) -> ThreadInfo | None:
        with self._lock:
            info = self._of(tenant).threads.get(uid)
            return None if info is None else _own(info)

    def threads(self, tenant: str, query: ThreadQuery) -> list[ThreadInfo]:
        with self._lock:
            newest_first = reversed(self._of(tenant).threads.values())
            return [_own(info) for info in newest_first if _matches(info, query)][: query.limit]

    def checkpoint(self, tenant: str, uid: bytes, version: int) -> Checkpoint | None:
        with self._lock:
            held = self._of(tenant).checkpoints.get(uid, [])
            return _own(held[version]) if 0 <= version < len(held) else None

    def checkpoints(
        self,
        tenant: str,
        uid: bytes,
        low: int,
        high: int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        merges: bool = False,
    ) -> list[Checkpoint]:
        with self._lock:
            run = self._of(tenant).checkpoints.get(uid, [])[max(low, 0) : max(high + 1, 0)]
            run = [c for c in run if c.merged is not None] if merges else run
            return [_own(c) for c in (run[::-1] if newest_first else run)[:limit]]

    def cells(
        self, tenant: str, *, family: bytes | None = None, after: int = 0, live: bool = False
    ) -> list[Cell]:
        with self._lock:
            held = self._of(tenant).cells
            found = [held.get(family, {})] if family is not None else list(held.values())
            cells = [cell for of in found for cell in of.values() if cell.seq > after and cell.live >= live]
            return sorted(cells, key=lambda cell: (cell.seq, cell.key))

    def find(self, tenant: str, query: Query[T]) -> list[T]:
        if isinstance(query, Told):  # without the lock: what is waited for is written meanwhile
            self._alive()
            told: list[Any] = untold(query)
            return told
        with self._lock:
            found: list[T] = finder(_FINDERS, query)(self._of(tenant), query)
            return found

    def audit(
        self, tenant: str, *, uid: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[AuditEntry]:
        with self._lock:
            entries = self._of(tenant).audit
            found = [e for e in entries if e.key > after and (uid is None or e.uid == uid)][:limit]
            return [msgspec.structs.replace(e, detail=_copied(e.detail)) for e in found]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._lock:
            self._alive()
            yield

    def tenants(self) -> list[str]:
        with self._lock:
            self._alive()
            return list(self._tenants)

    def info(self) -> StoreInfo:
        with self._lock:
            self._alive()
            details = {
                "threads": sum(len(of.names) for of in self._tenants.values()),
                "checkpoints": sum(
                    len(run) for of in self._tenants.values() for run in of.checkpoints.values()
                ),
                "objects": sum(len(of.objects) for of in self._tenants.values()),
            }
            return StoreInfo("memory", ":memory:", self._uid, 1, False, "none", details)

    def damage(self) -> list[str]:
        self._alive()
        return []

    def close(self) -> None:
        self._closed = True

    def _alive(self) -> None:
        if self._closed:
            raise StoreClosed("this store in memory was closed, and is gone")

    def _of(self, tenant: str) -> _Tenant:
        self._alive()
        return self._tenants.get(tenant) or _Tenant()


_WRITERS: dict[type, Callable[[MemoryStorage, _Tenant, Any], Refusal | None]] = {
    NewThread: MemoryStorage._new_thread,
    NewCheckpoint: MemoryStorage._new_checkpoint,
    History: MemoryStorage._history,
    PutLabel: MemoryStorage._put_label,
    DropLabel: MemoryStorage._drop_label,
    Tombstone: MemoryStorage._bury,
    Lock: MemoryStorage._lock_thread,
    Still: MemoryStorage._still,
    Ledger: MemoryStorage._ledger,
    Within: MemoryStorage._within,
    Audit: MemoryStorage._audit,
    NewEpoch: MemoryStorage._new_epoch,
    Forget: MemoryStorage._forget,
    Prune: MemoryStorage._prune,
    FilesKept: MemoryStorage._kept,
    **GRAPH_WRITERS,
    **ITEM_WRITERS,
}


def _matches(info: ThreadInfo, query: ThreadQuery) -> bool:
    return (
        info.deleted_us is None
        and query.agent in (None, info.agent)
        and query.user in (None, info.user)
        and (query.created_after_us is None or info.created_us >= query.created_after_us)
        and (query.created_before_us is None or info.created_us <= query.created_before_us)
        and (query.after is None or info.key < query.after)
        and has_meta(info, query)
    )


def _own(record: _Record) -> _Record:
    """With metadata of its own: what a caller changes in what it gave or got must not show in the store."""
    return msgspec.structs.replace(record, meta=_copied(record.meta))


def _copied(meta: dict[str, Any]) -> Any:
    return canonical.decode(canonical.pack(meta))


def _labels(tenant: _Tenant, query: Labels) -> list[tuple[str, int]]:
    return sorted(tenant.labels.get(query.uid, {}).items())


def _epochs(tenant: _Tenant, query: Epochs) -> list[int]:  # noqa: ARG001 (it says nothing)
    return [tenant.epoch]


def _stored(tenant: _Tenant, key: int, digest: bytes) -> Stored:
    size = len(tenant.objects[digest])
    return Stored(key, digest, tenant.epochs[digest], size, size)


def _objects(tenant: _Tenant, query: Objects) -> list[Stored]:
    """In the order of their digests: numbers by place would move when one goes."""
    keys = sorted((1 + int.from_bytes(digest[:7], "big"), digest) for digest in tenant.objects)
    return [_stored(tenant, *found) for found in keys if found[0] > query.after][: query.limit]


def _sizes(tenant: _Tenant, query: Sizes) -> list[Stored]:
    return [_stored(tenant, 0, digest) for digest in query.digests if digest in tenant.objects]


def _pruned(tenant: _Tenant, query: Pruned) -> list[tuple[int, int, int]]:
    return list(tenant.pruned.get(query.uid, []))


_FINDERS: dict[type, Callable[[_Tenant, Any], list[Any]]] = {
    Labels: _labels,
    Now: no_clock,
    **GRAPH_FINDERS,
    Epochs: _epochs,
    Objects: _objects,
    Sizes: _sizes,
    Pruned: _pruned,
    **ITEM_FINDERS,
}
