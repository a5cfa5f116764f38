"""Wrappers keep every promise of what they wrap; a fail-point raises before or after a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from takeback.storage.base import Batch
from takeback.storage.memory import MemoryStorage
from takeback.storage.wrappers import FailPoints, Latency
from takeback.testing.contract import StorageContract
from takeback.testing.rows import audit

if TYPE_CHECKING:
    from pathlib import Path

    from takeback.storage.base import Storage


class TestFailPoints(StorageContract):
    def make(self, folder: Path) -> Storage:
        return FailPoints(MemoryStorage(), lambda place: None)

    @pytest.mark.parametrize(("when", "written"), [("before apply", []), ("after apply", ["a"])])
    def test_fails_where_it_is_told(self, when: str, written: list[str]) -> None:
        """An error before a write leaves nothing; one after it leaves all of it: the lost answer."""
        store = FailPoints(MemoryStorage(), lambda place: None if place != when else 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.apply(Batch("a", [audit("x")]))
        assert store.tenants() == written


class TestLatency(StorageContract):
    def make(self, folder: Path) -> Storage:
        return Latency(MemoryStorage(), 0.0001)
