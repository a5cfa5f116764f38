"""The connections to one SQLite file: one that writes, one reader per thread, none across a fork."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator

import apsw

from takeback.errors import ForkedProcess, StoreClosed
from takeback.storage.sqlite_file import SqliteFile, WalMover, translated


class Connections:
    """Opens connections when they are needed. Whoever writes holds `lock`."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file
        self.lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        self._mover = WalMover(file)
        self._writer: apsw.Connection | None = None
        self._local = _Reader()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()

    def alive(self) -> None:
        """Refuse what was closed, and what another process opened: its locks are not ours."""
        if self._closed:
            raise StoreClosed(f"{self.file.path} was closed", hint="Open it again")
        if os.getpid() != self._pid:
            raise ForkedProcess(
                f"{self.file.path} was opened before this process was forked",
                hint="Open the store again in each process",
            )

    def writer(self) -> apsw.Connection:
        if self._writer is None:
            self._writer = self.file.connect()
            self._writer.set_wal_hook(self._mover.hook)
        return self._writer

    @contextlib.contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """This thread's reader, with its errors in takeback's words."""
        self.alive()
        with translated(self.file.path):
            if self._local.connection is None:
                self._local.connection = self.file.connect()
                with self.lock:
                    self._readers.add(self._local.connection)
            yield self._local.connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads of this thread inside see one moment; snapshots may nest."""
        local = self._local
        with self.reading() as connection:
            if local.depth == 0:
                connection.execute("BEGIN")
            local.depth += 1
            try:
                yield
            finally:
                local.depth -= 1
                if local.depth == 0 and connection.in_transaction:
                    connection.execute("COMMIT")

    def drop(self) -> None:
        """Let go of every connection; the next use opens anew."""
        with self.lock:
            for connection in [*self._readers, *filter(None, [self._writer])]:
                # Another thread may be inside a read: it keeps its connection, which goes with the thread.
                with contextlib.suppress(apsw.Error):
                    connection.close()
            self._writer = None
            self._readers = weakref.WeakSet()
            self._local = _Reader()

    def close(self) -> None:
        if self._closed:
            return
        if os.getpid() == self._pid:
            self._mover.close()
            self.drop()
        self._closed = True


class _Reader(threading.local):
    """Each thread's own reading connection, and how deep it is in snapshots."""

    def __init__(self) -> None:
        self.connection: apsw.Connection | None = None
        self.depth = 0
