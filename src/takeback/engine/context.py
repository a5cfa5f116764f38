"""What every verb needs: the storage of one tenant, who acts, the clock, and a cache of objects."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from takeback._version import __version__
from takeback.engine import owners
from takeback.engine.waiting import SharedClock, Waiter
from takeback.errors import CorruptObject, ThreadDeleted, UnknownThread
from takeback.model.ids import shown
from takeback.model.records import AuditEntry, Checkpoint, Pointer, ThreadInfo
from takeback.model.tree.read import read
from takeback.storage.base import Audit, Storage
from takeback.storage.objects import ObjectCache

BUILD = __version__
APPROVAL_US = 24 * 3600 * 1_000_000
"""For how long a yes may be used. A request waits for as long as nobody answers it."""
_REMEMBERED = 512  # checkpoints


class Tip(msgspec.Struct, frozen=True):
    """A thread and the head that was read of it: what a write is made for."""

    info: ThreadInfo
    head: Checkpoint

    @property
    def pointer(self) -> Pointer:
        return pointer(self.head)


class Context:
    """One tenant's view of a storage. It is a source of objects for the tree: cached, checked, complete."""

    def __init__(
        self,
        storage: Storage,
        *,
        tenant: str,
        actor: str | None,
        key: bytes | None = None,
        clock: Callable[[], int] | None = None,
        approvers: list[bytes] | None = None,
        cache_bytes: int = 64 << 20,
    ) -> None:
        self.storage, self.tenant, self.actor, self.key = storage, tenant, actor, key
        self.clock = clock or _now
        self.shared_clock = clock or SharedClock(storage, tenant)
        self.approvers = approvers or []  # public keys; with one, a grant counts that it has signed
        self.cache = ObjectCache(cache_bytes)
        self.lease_us, self.approval_us = owners.LEASE_US, APPROVAL_US
        self.books: dict[bytes, Any] = {}  # ledgers of families, see `book.book_of`
        self.held: dict[Any, Any] = {}  # what the façade holds for all its handles, by what it is of
        self._checkpoints: dict[tuple[bytes, int], Checkpoint] = {}

    def get(self, digest: bytes) -> bytes:
        held = self.cache.get(digest)
        return held if held is not None else self.get_many([digest])[0]

    def get_many(self, digests: list[bytes]) -> list[bytes]:
        held = {digest: self.cache.get(digest) for digest in digests}
        absent = [digest for digest, payload in held.items() if payload is None]
        if absent:
            found = self.storage.objects(self.tenant, absent)
            self.cache.put(found.items())
            held.update(found)
        return [_present(digest, held[digest]) for digest in digests]

    def peek(self, digest: bytes) -> bytes | None:
        return self.cache.get(digest)

    def forget_objects(self) -> None:
        """After a collection: what is cached may be gone from the store."""
        self.cache.clear()

    def remember(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint at hand, unless its metadata is a dict that a caller may have changed."""
        if len(self._checkpoints) >= _REMEMBERED:
            self._checkpoints.clear()
        if not checkpoint.meta:
            self._checkpoints[checkpoint.uid, checkpoint.version] = checkpoint

    def remembered(self, uid: bytes, version: int) -> Checkpoint | None:
        """A checkpoint that was written or read here. It never changes; its thread may be deleted since."""
        return self._checkpoints.get((uid, version))

    def state(self, checkpoint: Checkpoint) -> Any:
        """A checkpoint's state, fresh."""
        try:
            return read(self.get(checkpoint.state_root), self)
        except CorruptObject as error:
            raise self.explained(error, checkpoint) from None

    def explained(self, error: CorruptObject, checkpoint: Checkpoint) -> Exception:
        """On a miss look again: what was removed on purpose is not corrupt."""
        info = self.storage.thread_by_uid(self.tenant, checkpoint.uid)
        if info is None or info.deleted_us is not None:
            return ThreadDeleted(
                "the thread was deleted", thread=checkpoint.thread, checkpoint=checkpoint.version
            )
        return CorruptObject(
            error.what, thread=checkpoint.thread, checkpoint=checkpoint.version, hint="Run `takeback verify`"
        )

    def waiter(self, poll: float) -> Waiter:
        """For what others write; made before the first look at it."""
        return Waiter(self.storage, self.tenant, poll)

    def tip(self, name: str) -> Tip | None:
        found = self.storage.thread(self.tenant, name)
        return None if found is None else Tip(*found)

    def audit_of(self, action: str, entry: Any, actor: str | None) -> Audit:
        """An audit entry about an effect or an approval."""
        said = {"number": entry.number, "shown": entry.shown, "state": entry.state}
        about = AuditEntry(
            time_us=self.clock(), action=action, thread=None, uid=entry.thread, actor=actor, detail=said
        )
        return Audit(about)

    def audit(self, action: str, info: ThreadInfo, actor: str | None, **detail: Any) -> Audit:
        """An audit entry, for the batch that does what it tells of."""
        return Audit(
            AuditEntry(
                time_us=self.clock(),
                action=action,
                thread=info.name,
                uid=info.uid,
                actor=actor,
                detail=detail,
            )
        )


def pointer(checkpoint: Checkpoint) -> Pointer:
    return Pointer(checkpoint.uid, checkpoint.version, checkpoint.digest)


def needed(tip: Tip | None, name: str) -> Tip:
    """A thread that must be there."""
    if tip is None:
        raise UnknownThread(f"there is no thread {name!r}", hint="It comes into being with its first commit")
    return tip


def current_trace() -> tuple[str | None, str | None]:
    """The W3C trace and span id of OpenTelemetry's current span, where there is one."""
    module = sys.modules.get("opentelemetry.trace")
    if module is None:
        return None, None
    span = module.get_current_span().get_span_context()
    if not span.is_valid:
        return None, None
    return f"{span.trace_id:032x}", f"{span.span_id:016x}"


def _present(digest: bytes, payload: bytes | None) -> bytes:
    if payload is None:
        raise CorruptObject(f"object {shown(digest)} is missing")
    return payload


def _now() -> int:
    return time.time_ns() // 1000
