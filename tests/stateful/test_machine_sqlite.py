"""The façade on SQLite against the model: the store is closed and opened again on the way."""

from __future__ import annotations

from hypothesis import settings

from takeback.storage.sqlite import SqliteStorage
from takeback.testing.places import FolderPlace
from takeback.testing.stateful import build_machine

# Durability is tested by killing processes; here it would cost a sync of the disk for each step.
TestMachine = build_machine(
    lambda: FolderPlace(lambda folder: SqliteStorage(f"{folder}/store.db", durability="relaxed"))
).TestCase
TestMachine.settings = settings(max_examples=settings.default.max_examples // 4)
