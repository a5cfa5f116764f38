"""The memory backend keeps every promise of a storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.storage.memory import MemoryStorage
from takeback.testing.contract import StorageContract

if TYPE_CHECKING:
    from pathlib import Path

    from takeback.storage.base import Storage


class TestMemory(StorageContract):
    def make(self, folder: Path) -> Storage:
        return MemoryStorage()
