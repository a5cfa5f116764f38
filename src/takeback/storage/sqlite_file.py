"""A SQLite file: how it is opened and made, what is refused, and what its errors mean to a caller.

Durability: WAL with full sync, so a commit that has returned survives a power cut. Write-ahead frames are
moved into the file by a thread of their own, off the path of commits.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

import apsw

from takeback.errors import (
    NetworkFilesystem,
    NotAStore,
    ReadOnlyStore,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TakebackError,
)
from takeback.storage.migrate import migrate, refuse_newer, schema_version

APPLICATION_ID = 0x7461_6B62  # "takb"
_NETWORK = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "fuse.sshfs",
        "fuse.s3fs",
        "9p2000.L",
    }
)
BUSY_SECONDS = 30.0
_WAL_PAGES = 1000  # after so many frames they are moved into the file


class SqliteFile:
    """One file, and connections to it that are all set up alike."""

    def __init__(self, path: str, *, create: bool, durability: str, vfs: str | None = None) -> None:
        self.path = os.path.abspath(path)
        self.durability = durability
        self.vfs = vfs
        self.created = False
        if vfs is None:
            _refuse_network(self.path, _mounts())
            self.created = _look(self.path, create=create)
        self.read_only = vfs is None and not self.created and not _writable(self.path)
        self.immutable = False

    def prepare(self) -> None:
        """Make the file what this build needs; a fresh one is marked as ours."""
        with translated(self.path):
            connection = self.connect()
            try:
                if not self._ours(connection) and not self.read_only:
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    _patiently(connection, "PRAGMA journal_mode = WAL")
                if self.read_only:
                    refuse_newer(schema_version(connection), self.path)
                    return
                migrate(connection, self.path)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}") if not self._marked(
                    connection
                ) else None
            finally:
                connection.close()

    def settle(self) -> None:
        """Move all that is committed into the file, sync it, and empty the write-ahead file."""
        with translated(self.path):
            connection = self.connect()
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.close()

    def connect(self) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_URI | (
            apsw.SQLITE_OPEN_READONLY
            if self.read_only
            else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        )
        connection = self._open(flags)
        connection.set_busy_handler(_Patience())
        connection.execute(
            "PRAGMA foreign_keys = OFF; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY"
        )
        connection.execute("PRAGMA cache_size = -8000; PRAGMA wal_autocheckpoint = 0")
        if not self.read_only:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.durability == 'full' else 'NORMAL'}")
            if sys.platform == "darwin":
                connection.execute("PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON")
        return connection

    def _open(self, flags: int) -> apsw.Connection:
        if self.vfs is not None:
            return apsw.Connection(self.path, flags=flags, vfs=self.vfs)
        name = "file:" + quote(self.path)
        if self.immutable:
            return apsw.Connection(name + "?immutable=1", flags=flags)
        connection = apsw.Connection(name, flags=flags)
        if self.read_only:
            try:
                schema_version(connection)
            except (apsw.CantOpenError, apsw.ReadOnlyError):
                # A folder that cannot be written holds no shared memory for WAL. With no frames left over,
                # the file alone is the whole truth.
                connection.close()
                if os.path.exists(self.path + "-wal") and os.path.getsize(self.path + "-wal"):
                    raise
                self.immutable = True
                return self._open(flags)
        return connection

    def _ours(self, connection: apsw.Connection) -> bool:
        if schema_version(connection) and self._marked(connection):
            return True
        tables = {
            str(row[0]) for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
        # Tables and version come together, the mark after them; so the version is looked at after the tables.
        mark = connection.pragma("application_id")
        finished = schema_version(connection) > 0 and mark in (0, APPLICATION_ID)
        if {"checkpoints", "writes"} <= tables and "threads" not in tables:
            raise NotAStore(
                f"{self.path} is the database of LangGraph's SqliteSaver, and is left as it is",
                hint="Choose another file for takeback, and bring the threads over: "
                f"takeback --db NEW.db import langgraph-sqlite {self.path}",
            )
        if tables and not (finished and {"store", "threads", "checkpoints", "objects"} <= tables):
            raise NotAStore(
                f"{self.path} is a SQLite database that takeback did not write",
                hint=f"It has the tables {', '.join(sorted(tables)[:5])}; choose another file",
            )
        if not tables and self.read_only:
            raise NotAStore(f"{self.path} is empty and cannot be written")
        return bool(tables)

    @staticmethod
    def _marked(connection: apsw.Connection) -> bool:
        return bool(connection.pragma("application_id") == APPLICATION_ID)


class _Patience:
    """Waits for another process's transaction, a little longer each time and never in step with others."""

    def __init__(self) -> None:
        self.began = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self.began = now
        if now - self.began > BUSY_SECONDS:
            return False
        time.sleep(random.uniform(0.0001, min(0.0005 * (tries + 1), 0.02)))
        return True


def _patiently(connection: apsw.Connection, sql: str) -> None:
    """For a change of journal SQLite itself does not wait, when others make the same store at this moment."""
    patience, tries = _Patience(), 0
    while True:
        try:
            connection.execute(sql)
            return
        except apsw.BusyError:
            if not patience(tries):
                raise
            tries += 1


class WalMover:
    """Moves write-ahead frames into the file, in a thread, when there are enough of them."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file
        self._wake = threading.Event()
        self._stop = False
        self._asked = 0
        self._thread: threading.Thread | None = None

    def hook(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """After each commit: asks for a move when enough has come since the last one that was asked for."""
        if pages < self._asked:
            self._asked = 0  # the write-ahead file began anew
        if pages - self._asked >= _WAL_PAGES and not self._stop:
            self._asked = pages
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="takeback-wal", daemon=True)
                self._thread.start()
            self._wake.set()
        return apsw.SQLITE_OK

    def close(self) -> None:
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        connection = self._file.connect()
        try:
            while True:
                self._wake.wait()
                self._wake.clear()
                if self._stop:
                    return
                # First what can be moved without making anybody wait; then, in the moment that is left to do,
                # the rest, so that the next commit begins the write-ahead file anew: a commit that lengthens
                # the file costs about twice as much to sync as one that writes over old frames.
                # A reader may hold frames back: the next commit that wakes this asks again, and a file that
                # stays long costs space, never data. `doctor` shows its size.
                with contextlib.suppress(apsw.Error):
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_RESTART)
        finally:
            connection.close()


@contextlib.contextmanager
def translated(location: str) -> Iterator[None]:
    """SQLite's errors as takeback's: what it means to the caller, and what to do."""
    try:
        yield
    except apsw.Error as error:
        raise meaning(error, location) from error


def meaning(error: apsw.Error, location: str) -> TakebackError:
    for kinds, make in _MEANINGS:
        if isinstance(error, kinds):
            return make(location, error)
    return StoreError(f"{location}: SQLite says: {error}")


_Maker = Callable[[str, apsw.Error], TakebackError]
_MEANINGS: list[tuple[tuple[type[apsw.Error], ...], _Maker]] = [
    (
        (apsw.BusyError, apsw.LockedError),
        lambda at, _: StoreBusy(
            f"{at} is held by another process",
            hint=f"It was waited for {BUSY_SECONDS:.0f} seconds; try again",
        ),
    ),
    (
        (apsw.FullError,),
        lambda at, _: StoreFull(f"no space is left for {at}", hint="Free some, and try again"),
    ),
    (
        (apsw.ReadOnlyError,),
        lambda at, _: ReadOnlyStore(
            f"{at} can be read and not written", hint="Check the permissions of file and folder"
        ),
    ),
    (
        (apsw.CorruptError,),
        lambda at, e: StoreCorrupt(
            f"{at} is damaged: {e}", hint="`takeback doctor` says more; restore a copy"
        ),
    ),
    ((apsw.NotADBError,), lambda at, _: NotAStore(f"{at} is no takeback store", hint="Choose another file")),
    (
        (apsw.CantOpenError, apsw.PermissionsError, apsw.AuthError),
        lambda at, e: StoreUnavailable(
            f"{at} cannot be opened: {e}", hint="Check that the folder is there and yours"
        ),
    ),
    ((apsw.IOError,), lambda at, e: StoreError(f"{at} cannot be read or written: {e}")),
]


def _look(path: str, *, create: bool) -> bool:
    """Whether the file is new; refuses what cannot be a store.

    The file is not opened for it: closing it would drop the locks of this process's other connections to it.
    Nor would its first bytes decide: after a power cut they may be garbage that SQLite knows how to repair.
    """
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a folder", hint="Give the path of a file in it")
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return _may_create(path, create=create)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from None
    if not os.access(path, os.R_OK):
        raise StoreUnavailable(f"{path} cannot be read: it is not yours to read")
    if size == 1:  # SQLite takes such a file for an empty one, and would write over it
        raise NotAStore(f"{path} is no takeback store", hint="Choose another file")
    return size == 0


def _may_create(path: str, *, create: bool) -> bool:
    folder = os.path.dirname(path)
    if not create:
        raise StoreUnavailable(
            f"there is no store at {path}", hint="The first commit makes one, or give another --db"
        )
    if not os.path.isdir(folder):
        raise StoreUnavailable(f"there is no folder {folder}", hint="Make it first")
    if not os.access(folder, os.W_OK):
        raise ReadOnlyStore(f"nothing can be written in {folder}")
    # For its owner alone, as SQLite then makes the files beside it too: states hold what people said.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    return True


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)


def _mounts() -> list[tuple[str, str]]:
    """(mount point, type) of what is mounted here; empty where the system does not say."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.split() for line in file]
    except OSError:
        return []
    return [(parts[4].replace("\\040", " "), parts[parts.index("-") + 1]) for parts in lines if "-" in parts]


def _refuse_network(path: str, mounts: list[tuple[str, str]]) -> None:
    real = os.path.realpath(path)
    inside = [
        (point, kind) for point, kind in mounts if real == point or real.startswith(point.rstrip("/") + "/")
    ]
    point, kind = max(inside, key=lambda mount: len(mount[0]), default=("", ""))
    if kind in _NETWORK:
        raise NetworkFilesystem(
            f"{path} lies on {point}, a network file system ({kind}), whose locks cannot be trusted",
            hint="Keep the store on a local disk",
        )
