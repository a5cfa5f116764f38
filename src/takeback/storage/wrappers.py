"""Storages around storages, speaking the same protocol: named points to fail at, and slowness."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.storage.base import Batch, Cell, Query, Refusal, Storage, StoreInfo, ThreadQuery

T = TypeVar("T")


class Wrapper:
    """Passes every call on, through `around`, which knows the call's name."""

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    def around(self, call: str) -> AbstractContextManager[None]:  # noqa: ARG002 (for subclasses)
        return contextlib.nullcontext()

    def apply(self, batch: Batch) -> Refusal | None:
        with self.around("apply"):
            return self.inner.apply(batch)

    def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
        with self.around("objects"):
            return self.inner.objects(tenant, digests)

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        with self.around("thread"):
            return self.inner.thread(tenant, name)

    def thread_by_uid(self, tenant: str, uid: bytes) -> ThreadInfo | None:
        with self.around("thread_by_uid"):
            return self.inner.thread_by_uid(tenant, uid)

    def threads(self, tenant: str, query: ThreadQuery) -> list[ThreadInfo]:
        with self.around("threads"):
            return self.inner.threads(tenant, query)

    def checkpoint(self, tenant: str, uid: bytes, version: int) -> Checkpoint | None:
        with self.around("checkpoint"):
            return self.inner.checkpoint(tenant, uid, version)

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
        with self.around("checkpoints"):
            return self.inner.checkpoints(
                tenant, uid, low, high, newest_first=newest_first, limit=limit, merges=merges
            )

    def cells(
        self, tenant: str, *, family: bytes | None = None, after: int = 0, live: bool = False
    ) -> list[Cell]:
        with self.around("cells"):
            return self.inner.cells(tenant, family=family, after=after, live=live)

    def find(self, tenant: str, query: Query[T]) -> list[T]:
        with self.around("find"):
            return self.inner.find(tenant, query)

    def audit(
        self, tenant: str, *, uid: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[AuditEntry]:
        with self.around("audit"):
            return self.inner.audit(tenant, uid=uid, after=after, limit=limit)

    def snapshot(self) -> AbstractContextManager[None]:
        return self.inner.snapshot()

    def tenants(self) -> list[str]:
        with self.around("tenants"):
            return self.inner.tenants()

    def info(self) -> StoreInfo:
        with self.around("info"):
            return self.inner.info()

    def damage(self) -> list[str]:
        with self.around("damage"):
            return self.inner.damage()

    def close(self) -> None:
        self.inner.close()


class FailPoints(Wrapper):
    """Calls `hook` before and after each call; what it raises is what the caller sees."""

    def __init__(self, inner: Storage, hook: Callable[[str], None]) -> None:
        super().__init__(inner)
        self.hook = hook

    @contextlib.contextmanager
    def around(self, call: str) -> Iterator[None]:
        self.hook(f"before {call}")
        yield
        self.hook(f"after {call}")


class Latency(Wrapper):
    """Every call takes at least so long, as over a network."""

    def __init__(self, inner: Storage, seconds: float) -> None:
        super().__init__(inner)
        self.seconds = seconds

    @contextlib.contextmanager
    def around(self, call: str) -> Iterator[None]:  # noqa: ARG002 (all alike)
        time.sleep(self.seconds)
        yield
