"""The façade on PostgreSQL against the model: handles are closed and opened again on the way."""

from __future__ import annotations

from hypothesis import settings

from takeback.storage.base import Storage
from takeback.storage.postgres import PostgresStorage
from takeback.testing.postgres import fresh_url
from takeback.testing.stateful import build_machine


class Schema:
    """A store in a schema of its own; the server goes with the process, and takes it along."""

    def __init__(self) -> None:
        self._url = fresh_url()

    def open(self) -> Storage:
        return PostgresStorage(self._url)

    def discard(self) -> None:
        pass


TestMachine = build_machine(Schema).TestCase
TestMachine.settings = settings(max_examples=settings.default.max_examples // 8)
