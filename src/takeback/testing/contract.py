"""The contract suite: every promise of `Storage`, as tests that a new backend's own test file inherits.

    class TestMine(StorageContract):
        def make(self, folder: Path) -> Storage:
            return MyStorage(folder / "store")

A test's docstring names the promise. Nothing here knows a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from takeback.errors import StoreClosed
from takeback.storage.base import Batch, Storage, ThreadQuery
from takeback.testing.graphs import Graphs
from takeback.testing.handles import A, labels, ok
from takeback.testing.items import Items
from takeback.testing.ledgers import Ledgers
from takeback.testing.reading import Reading
from takeback.testing.rows import audit, blobs, new_thread
from takeback.testing.space import Space
from takeback.testing.writing import Writing


class StorageContract(Writing, Reading, Ledgers, Space, Items, Graphs):
    """All promises together. See `Handles` for the two methods that a backend gives."""

    # --- the store itself

    def test_info(self, store: Storage) -> None:
        """A store says what it is; `doctor` prints it, and finds a sound store sound."""
        ok(store, new_thread("a"), new_thread("b"), objects=blobs(b"x"))
        info = store.info()
        assert (info.kind, info.location, info.uid, info.durability) == (
            *map(str, [info.kind, info.location]),
            info.uid,
            info.durability,
        )
        assert all([info.kind, info.location, info.uid, info.durability])
        assert info.schema >= 1
        assert info.read_only is False
        assert {"threads": 2, "checkpoints": 2, "objects": 1}.items() <= info.details.items()
        assert store.info().uid == info.uid
        assert store.damage() == []

    def test_a_store_keeps_its_uid(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Seals name the store by it."""
        assert again().info().uid == store.info().uid

    def test_tenants(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Those that have written, each once; to read is not to write."""
        assert store.tenants() == []
        store.thread("reader", "t")
        for tenant in ("b", "a", "b"):
            assert store.apply(Batch(tenant, [audit("x")])) is None
        assert again().tenants() == ["b", "a"]

    def test_close(self, store: Storage) -> None:
        """A second close does nothing; every other call says that the store was closed."""
        row = new_thread("t")
        ok(store, row)
        store.close()
        store.close()

        def snapshot() -> None:
            with store.snapshot():
                pass

        calls: list[Callable[[], Any]] = [
            lambda: store.apply(Batch(A, [])), lambda: store.objects(A, []), lambda: store.thread(A, "t"),
            lambda: store.thread_by_uid(A, row.uid), lambda: store.threads(A, ThreadQuery()),
            lambda: store.checkpoint(A, row.uid, 0), lambda: store.checkpoints(A, row.uid, 0, 1),
            lambda: labels(store, row.uid), lambda: store.audit(A), lambda: store.cells(A),
            snapshot, store.tenants, store.info, store.damage,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(StoreClosed):
                call()
