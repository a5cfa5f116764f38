"""Where the state machine's stores lie: opened, closed and opened again, and discarded in the end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Protocol

from takeback.storage.base import Storage
from takeback.storage.memory import MemoryStorage
from takeback.storage.wrappers import Wrapper


class StorePlace(Protocol):
    """A place for one store."""

    def open(self) -> Storage:
        """The store; empty at first, and what was written whenever it is opened again."""
        ...

    def discard(self) -> None:
        """Nothing is left of it."""
        ...


class MemoryPlace:
    """A store in memory, which is opened again by not having been closed."""

    def __init__(self, make: Callable[[], Storage] = MemoryStorage) -> None:
        self._storage = _Kept(make())

    def open(self) -> Storage:
        return self._storage

    def discard(self) -> None:
        self._storage.inner.close()


class FolderPlace:
    """A store in a folder of its own."""

    def __init__(self, make: Callable[[str], Storage]) -> None:
        self._make = make
        self._folder = tempfile.TemporaryDirectory(prefix="tb-", ignore_cleanup_errors=True)

    def open(self) -> Storage:
        return self._make(self._folder.name)

    def discard(self) -> None:
        self._folder.cleanup()


class _Kept(Wrapper):
    def close(self) -> None:
        """What is in memory goes when it is closed; the machine only wants another handle."""
