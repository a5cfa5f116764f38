"""What the contract's tests stand on: a store of their own, a second handle to it, and how they ask it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from takeback.model.records import Checkpoint, ThreadInfo
from takeback.storage.base import Batch, Labels, Row, Storage, ThreadQuery

T = TypeVar("T")
A = "tenant a"


class Handles(ABC):
    """Inherit, give `make`, and `reopen` where a second handle to the same store can be had."""

    @abstractmethod
    def make(self, folder: Path) -> Storage:
        """A store that is empty; the folder is this test's own."""

    def reopen(self, storage: Storage) -> Storage | None:  # noqa: ARG002 (for subclasses)
        """A second handle to the same store; None where there is no such thing."""
        return None

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Storage]:
        store = self.make(tmp_path)
        yield store
        store.close()

    @pytest.fixture(params=["same handle", "reopened"])
    def again(self, request: pytest.FixtureRequest, store: Storage) -> Iterator[Callable[[], Storage]]:
        """Gives the handle to look with: the one that wrote, and one that was opened afterwards."""
        opened: list[Storage] = []

        def look() -> Storage:
            other = self.reopen(store) if request.param == "reopened" else None
            opened.extend([other] if other is not None else [])
            return other or store

        yield look
        for handle in opened:
            handle.close()


def ok(store: Storage, *rows: Row, objects: dict[bytes, bytes] | None = None) -> None:
    """Written, or the test ends here."""
    refusal = store.apply(Batch(A, list(rows), objects or {}))
    assert refusal is None


def refused(store: Storage, *rows: Row, tenant: str = A) -> Any:
    refusal = store.apply(Batch(tenant, list(rows)))
    assert refusal is not None
    return refusal


def found(store: Storage, name: str, tenant: str = A) -> tuple[ThreadInfo, Checkpoint]:
    thread = store.thread(tenant, name)
    assert thread is not None
    return thread


def head_of(store: Storage, name: str) -> Checkpoint:
    return found(store, name)[1]


def labels(store: Storage, uid: bytes, tenant: str = A) -> dict[str, int]:
    return dict(store.find(tenant, Labels(uid)))


def everything(store: Storage, *uids: bytes) -> list[Any]:
    """All that can be read of a tenant and these threads, beside objects."""
    per_thread = [
        (store.thread_by_uid(A, uid), store.checkpoints(A, uid, 0, 999), labels(store, uid)) for uid in uids
    ]
    shown = [one for one in per_thread if one != (None, [], {})]
    return [store.threads(A, ThreadQuery()), store.audit(A), shown]


def together(calls: list[Callable[[], T]]) -> list[T]:
    """The answers of calls that begin at one moment, each in a thread; an error in one is raised here."""
    barrier = threading.Barrier(len(calls))
    answers: dict[int, T] = {}
    errors: list[BaseException] = []

    def call(place: int, work: Callable[[], T]) -> None:
        barrier.wait()
        try:
            answers[place] = work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [answers[place] for place in range(len(calls))]
