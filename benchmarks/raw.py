"""The baseline: `BEGIN IMMEDIATE; INSERT; COMMIT` of the same bytes, with the same promise and disk."""

from __future__ import annotations

from pathlib import Path

import apsw

from benchmarks.measure import Work


class Raw:
    """One table in a file of its own: WAL and full sync, as takeback has them, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, data BLOB NOT NULL)"
        )

    def insert(self, data: bytes) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute("INSERT INTO rows (data) VALUES (?)", (data,))
        self.connection.execute("COMMIT")

    def last(self) -> bytes:
        ((found,),) = self.connection.execute("SELECT data FROM rows ORDER BY id DESC LIMIT 1")
        assert isinstance(found, bytes)
        return found

    def inserting(self, data: bytes) -> Work:
        return Work(lambda _: self.insert(data))

    def close(self) -> None:
        self.connection.close()
