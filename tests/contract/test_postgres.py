"""The PostgreSQL backend keeps every promise of a storage, through one handle and through two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.storage.postgres import PostgresStorage
from takeback.testing.contract import StorageContract
from takeback.testing.postgres import fresh_url

if TYPE_CHECKING:
    from pathlib import Path

    from takeback.storage.base import Storage


class TestPostgres(StorageContract):
    def make(self, folder: Path) -> Storage:
        return PostgresStorage(fresh_url())

    def reopen(self, storage: Storage) -> Storage:
        return PostgresStorage(storage.info().location, create=False)
