"""The SQLite backend keeps every promise of a storage, through one handle and through two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.storage.sqlite import SqliteStorage
from takeback.testing.contract import StorageContract

if TYPE_CHECKING:
    from pathlib import Path

    from takeback.storage.base import Storage


class TestSqlite(StorageContract):
    def make(self, folder: Path) -> Storage:
        return SqliteStorage(str(folder / "store.db"))

    def reopen(self, storage: Storage) -> Storage:
        return SqliteStorage(storage.info().location, create=False)
