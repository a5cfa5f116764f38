"""The SQLite backend: many processes on one file, one writing connection and one reader per thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import apsw

from takeback.errors import (
    CorruptObject,
    ReadOnlyStore,
    StoreError,
)
from takeback.model import canonical, records
from takeback.model.ids import shown, thread_uid
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.storage import objects as codec
from takeback.storage.base import (
    Audit,
    Batch,
    Cell,
    DropLabel,
    HeadMoved,
    History,
    Labels,
    Ledger,
    Lock,
    NameTaken,
    NewCheckpoint,
    NewThread,
    Now,
    PutLabel,
    Query,
    Refusal,
    Still,
    StoreInfo,
    ThreadGone,
    ThreadLocked,
    ThreadQuery,
    Told,
    Tombstone,
    Within,
    finder,
    has_meta,
    no_clock,
    untold,
)
from takeback.storage.group import Group, Member
from takeback.storage.migrate import queries, schema_version
from takeback.storage.rows import (
    audit_entry,
    checkpoint_values,
    read_checkpoint,
    thread_info,
    thread_values,
)
from takeback.storage.sqlite_connections import Connections
from takeback.storage.sqlite_file import SqliteFile, translated
from takeback.storage.sqlite_graphs import GRAPH_FINDERS, GRAPH_WRITERS, drop_graph, write_places
from takeback.storage.sqlite_group import Packed, Transactions
from takeback.storage.sqlite_items import ITEM_FINDERS, ITEM_WRITERS
from takeback.storage.sqlite_ledger import cell, still, write_ledger
from takeback.storage.sqlite_settle import settle
from takeback.storage.sqlite_space import SPACE_FINDERS, SPACE_WRITERS, present_epoch

T = TypeVar("T")
_ALL = -1  # SQLite's LIMIT for no limit
_MANY = 8  # from so many objects on, it pays to look which are there before compressing


class SqliteStorage:
    """See `Storage` for what is promised; `point` is called at every labelled place of a write."""

    def __init__(
        self, path: str, *, create: bool = True, durability: str = "full", vfs: str | None = None
    ) -> None:
        self._sql = queries("sqlite")
        self.point: Callable[[str], None] | None = None
        self._file = SqliteFile(path, create=create, durability=durability, vfs=vfs)
        self._file.prepare()
        self._connections = Connections(self._file)
        self._reading = self._connections.reading
        self._tenants: dict[str, int] = {}
        self._threads: dict[tuple[int, bytes], tuple[int, str]] = {}
        self._met: dict[tuple[int, bytes], tuple[int, str]] = {}  # by the transaction that is open
        self._epoch = 0  # as the transaction that is open has read it
        self._group = Group(
            Transactions(
                self._connections, self._file, write=self._write, met=self._met, committed=self._committed,
                at=self._at, settle=lambda batch, error: settle(self, self._file, batch, error),
            ).write
        )  # fmt: skip
        self._uid = self._store_uid()
        codec.prepare()
        records.prepare()

    # --- writing

    def apply(self, batch: Batch) -> Refusal | None:
        self._connections.alive()
        if self._file.read_only:
            raise ReadOnlyStore(f"{self._file.path} can be read and not written")
        return self._group.apply(Member(batch, self._packed(batch)))

    def _write(self, connection: apsw.Connection, batch: Batch, packed: Packed) -> Refusal | None:
        """Objects before references, references before the head."""
        tenant = self._tenant(connection, batch.tenant, make=True)
        self._epoch = present_epoch(connection, self._sql) if batch.objects else 0
        for digest, payload in batch.objects.items():
            self._at("object")
            self._write_object(connection, tenant, digest, payload, packed)
        for row in batch.rows:
            self._at(type(row).__name__)
            refusal = _WRITERS[type(row)](self, connection, tenant, row)
            if refusal is not None:
                return refusal
        return None

    def _write_object(
        self,
        connection: apsw.Connection,
        tenant: int,
        digest: bytes,
        payload: bytes,
        packed: Packed,
    ) -> None:
        key = codec.index_key(digest)
        kind, data = packed.get(digest) or codec.pack(payload)
        row = (key, tenant, self._epoch, digest, kind, len(payload), data)
        connection.execute(self._sql["new_object"], row)
        if connection.changes() == 0:
            connection.execute(self._sql["touch_object"], (self._epoch, key, tenant, digest))

    def _new_thread(self, connection: apsw.Connection, tenant: int, row: NewThread) -> Refusal | None:
        source = None if row.source is None else self._living(connection, tenant, row.source)
        if isinstance(source, ThreadGone):
            return source
        connection.execute(self._sql["new_thread"], thread_values(tenant, row))
        if connection.changes() == 0:
            return NameTaken(row.name)
        made = connection.last_insert_rowid()
        connection.execute(self._sql["new_checkpoint"], checkpoint_values(made, row.first))
        write_places(connection, self._sql, tenant, made, row.first)
        self._met[tenant, row.uid] = (made, row.name)
        return None

    def _new_checkpoint(self, connection: apsw.Connection, tenant: int, row: NewCheckpoint) -> Refusal | None:
        checkpoint = row.checkpoint
        thread = self._thread_id(connection, tenant, checkpoint.uid)
        if thread is None:
            return ThreadGone(None)
        moved = (checkpoint.version, checkpoint.digest, checkpoint.time_us)
        guard = (thread, checkpoint.version - 1, checkpoint.previous, row.lock)
        connection.execute(self._sql["move_head"], moved + guard)
        if connection.changes() == 0:
            return self._refused(connection, thread, row)
        self._at("head")
        connection.execute(self._sql["new_checkpoint"], checkpoint_values(thread, checkpoint))
        write_places(connection, self._sql, tenant, thread, checkpoint)
        return None

    def _refused(self, connection: apsw.Connection, thread: int, row: NewCheckpoint) -> Refusal | None:
        head, digest, deleted, lock = self._one(connection, self._sql["head"], (thread,))
        checkpoint = row.checkpoint
        if deleted is not None:
            return ThreadGone(deleted)
        if (head, digest) == (checkpoint.version, checkpoint.digest):
            return None  # this very commit, asked for again
        return HeadMoved(head, digest) if lock == row.lock else ThreadLocked(lock)

    def _history(self, connection: apsw.Connection, tenant: int, row: History) -> Refusal | None:
        for checkpoint in row.checkpoints:
            refusal = self._new_checkpoint(connection, tenant, NewCheckpoint(checkpoint))
            if refusal is not None:
                return refusal
        return None

    def _living(self, connection: apsw.Connection, tenant: int, uid: bytes) -> int | ThreadGone:
        thread = self._thread_id(connection, tenant, uid)
        if thread is None:
            return ThreadGone(None)
        deleted = self._one(connection, self._sql["head"], (thread,))[2]
        return thread if deleted is None else ThreadGone(deleted)

    def _put_label(self, connection: apsw.Connection, tenant: int, row: PutLabel) -> Refusal | None:
        thread = self._living(connection, tenant, row.uid)
        if isinstance(thread, ThreadGone):
            return thread
        connection.execute(self._sql["put_label"], (thread, row.label, row.version))
        return None

    def _drop_label(self, connection: apsw.Connection, tenant: int, row: DropLabel) -> Refusal | None:
        thread = self._living(connection, tenant, row.uid)
        if isinstance(thread, ThreadGone):
            return thread
        connection.execute(self._sql["drop_label"], (thread, row.label))
        return None

    def _bury(self, connection: apsw.Connection, tenant: int, row: Tombstone) -> Refusal | None:
        thread = self._living(connection, tenant, row.uid)
        if isinstance(thread, ThreadGone):
            return thread
        connection.execute(self._sql["bury_thread"], (row.deleted_us, thread))
        if connection.changes() == 0:
            return ThreadLocked(self._one(connection, self._sql["head"], (thread,))[3])
        connection.execute(self._sql["drop_checkpoints"], (thread,))
        connection.execute(self._sql["drop_labels"], (thread,))
        drop_graph(connection, self._sql, thread)
        return None

    def _lock(self, connection: apsw.Connection, tenant: int, row: Lock) -> Refusal | None:
        thread = self._living(connection, tenant, row.uid)
        if isinstance(thread, ThreadGone):
            return thread
        connection.execute(self._sql["lock_thread"], (row.lock, thread, row.was))
        if connection.changes() == 0:
            return ThreadLocked(self._one(connection, self._sql["head"], (thread,))[3])
        return None

    def _still(self, connection: apsw.Connection, tenant: int, row: Still) -> Refusal | None:
        thread = self._thread_id(connection, tenant, row.uid)
        return ThreadGone(None) if thread is None else still(connection, self._sql, thread, row)

    def _ledger(self, connection: apsw.Connection, tenant: int, row: Ledger) -> Refusal | None:
        return write_ledger(connection, self._sql, tenant, row)

    def _within(self, connection: apsw.Connection, tenant: int, row: Within) -> Refusal | None:
        for made in row.work(connection):
            refusal = _WRITERS[type(made)](self, connection, tenant, made)
            if refusal is not None:
                return refusal
        return None

    def _audit(self, connection: apsw.Connection, tenant: int, row: Audit) -> Refusal | None:
        e = row.entry
        values = (tenant, e.uid, e.thread, e.time_us, e.action, e.actor, canonical.encode(e.detail))
        connection.execute(self._sql["new_audit"], values)
        return None

    def _packed(self, batch: Batch) -> Packed:
        """Compress before the transaction begins: what is new, where there is much."""
        absent = batch.objects
        if len(absent) >= _MANY:
            there = self.objects_there(batch.tenant, list(absent))
            absent = {digest: payload for digest, payload in absent.items() if digest not in there}
        return {digest: codec.pack(payload) for digest, payload in absent.items()}

    # --- reading

    def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
        # One transaction for all: each statement by itself would take its locks anew.
        with self.snapshot() if len(digests) > 1 else nullcontext(), self._reading() as connection:
            scope = self._tenant(connection, tenant)
            keys = [(codec.index_key(digest), scope, digest) for digest in digests]
            rows = connection.executemany(self._sql["read_object"], keys)
            return {row[0]: codec.unpack(*row) for row in rows}

    def objects_there(self, tenant: str, digests: list[bytes]) -> set[bytes]:
        """Which of these the tenant has; only a hint, since a collection may run."""
        with self._reading() as connection:
            scope = self._tenant(connection, tenant)
            find = self._sql["find_object"]
            return {
                digest
                for digest in digests
                if self._one(connection, find, (codec.index_key(digest), scope, digest)) is not None
            }

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        with self._reading() as connection:
            values = (self._tenant(connection, tenant), name)
            row = self._one(connection, self._sql["living_thread"], values)
            if row is None:
                return None
            info = thread_info(row[:16])
            self._remember((values[0], info.uid), (info.key, info.name))
            if row[16] is None:
                raise CorruptObject("the head's checkpoint is missing", thread=name, checkpoint=info.head)
            return info, read_checkpoint(name, info.uid, row[16:])

    def thread_by_uid(self, tenant: str, uid: bytes) -> ThreadInfo | None:
        with self._reading() as connection:
            values = (self._tenant(connection, tenant), uid)
            row = self._one(connection, self._sql["thread_by_uid"], values)
            return None if row is None else thread_info(row)

    def threads(self, tenant: str, query: ThreadQuery) -> list[ThreadInfo]:
        # Metadata is looked at here, so then a limit cannot be left to SQLite.
        limit = _ALL if query.limit is None or query.meta else query.limit
        with self._reading() as connection:
            values = (
                self._tenant(connection, tenant), query.agent, query.user, query.created_after_us,
                query.created_before_us, query.after, limit,
            )  # fmt: skip
            found = [thread_info(row) for row in connection.execute(self._sql["threads"], values)]
        return [info for info in found if has_meta(info, query)][: query.limit]

    def checkpoint(self, tenant: str, uid: bytes, version: int) -> Checkpoint | None:
        with self._reading() as connection:
            thread = self._known(connection, tenant, uid)
            if thread is None:
                return None
            row = self._one(connection, self._sql["checkpoint"], (thread[0], version))
            return None if row is None else read_checkpoint(thread[1], uid, row)

    def checkpoints(
        self,
        tenant: str,
        uid: bytes,
        low: int,
        high: int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        merges: bool = False,
    ) -> list[Checkpoint]:
        with self._reading() as connection:
            thread = self._known(connection, tenant, uid)
            if thread is None:
                return []
            kind = "merges" if merges else "checkpoints"
            sql = self._sql[kind + "_newest_first" if newest_first else kind]
            values = (thread[0], low, high, _ALL if limit is None else limit)
            return [read_checkpoint(thread[1], uid, row) for row in connection.execute(sql, values)]

    def cells(
        self, tenant: str, *, family: bytes | None = None, after: int = 0, live: bool = False
    ) -> list[Cell]:
        with self._reading() as connection:
            values = (self._tenant(connection, tenant), family, after)
            sql = self._sql["cells_live" if live else "cells"]
            return [cell(row) for row in connection.execute(sql, values)]

    def find(self, tenant: str, query: Query[T]) -> list[T]:
        look = finder(_FINDERS, query)
        with self._reading() as connection:
            found: list[T] = look(self, connection, tenant, query)
            return found

    def _labels(self, connection: apsw.Connection, tenant: str, query: Labels) -> list[tuple[str, int]]:
        thread = self._known(connection, tenant, query.uid)
        if thread is None:
            return []
        return [(str(name), int(at)) for name, at in connection.execute(self._sql["labels"], thread[:1])]

    def audit(
        self, tenant: str, *, uid: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[AuditEntry]:
        with self._reading() as connection:
            values = (self._tenant(connection, tenant), uid, after, _ALL if limit is None else limit)
            return [audit_entry(row) for row in connection.execute(self._sql["audit"], values)]

    def snapshot(self) -> AbstractContextManager[None]:
        return self._connections.snapshot()

    def tenants(self) -> list[str]:
        with self._reading() as connection:
            return [str(row[0]) for row in connection.execute(self._sql["tenants"])]

    def info(self) -> StoreInfo:
        with self._reading() as connection:
            threads, checkpoints, held = self._one(connection, self._sql["counts"])
            wal = self._file.path + "-wal"
            details = {
                "sqlite": apsw.sqlite_lib_version(),
                "threads": threads,
                "checkpoints": checkpoints,
                "objects": held,
                "bytes": os.path.getsize(self._file.path) if os.path.exists(self._file.path) else 0,
                "wal_bytes": os.path.getsize(wal) if os.path.exists(wal) else 0,
                "journal_mode": connection.pragma("journal_mode"),
                "synchronous": {0: "off", 1: "normal", 2: "full"}.get(connection.pragma("synchronous"), "?"),
            }
            schema = schema_version(connection)
        read_only, durability = self._file.read_only, self._file.durability
        return StoreInfo("sqlite", self._file.path, self._uid, schema, read_only, durability, details)

    def damage(self) -> list[str]:
        said: list[str] = []
        with self._reading() as connection:
            try:
                said.extend(str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)"))
            except apsw.CorruptError as error:  # too damaged to be looked at to the end: that is the answer
                said.append(str(error))
        return [] if said == ["ok"] else said

    def close(self) -> None:
        self._connections.close()

    @staticmethod
    def _one(connection: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:
        """The first row of a statement; None when there is none."""
        return connection.execute(sql, values).fetchone()

    def _at(self, label: str) -> None:
        if self.point is not None:
            self.point(label)

    # --- surrogates

    def _tenant(self, connection: apsw.Connection, name: str, *, make: bool = False) -> int:
        known = self._tenants.get(name)
        if known is not None:
            return known
        row = self._one(connection, self._sql["tenant_id"], (name,))
        if row is None and make:
            # Not remembered: this transaction may yet be taken back.
            return int(self._one(connection, self._sql["new_tenant"], (name,))[0])
        if row is None:
            return -1
        self._tenants[name] = int(row[0])
        return int(row[0])

    def _known(self, connection: apsw.Connection, tenant: str, uid: bytes) -> tuple[int, str] | None:
        return self._lookup(connection, self._tenant(connection, tenant), uid)

    def _thread_id(self, connection: apsw.Connection, tenant: int, uid: bytes) -> int | None:
        """For a write. What is looked up here is remembered once it is committed: until then it may be this
        transaction's own."""
        found = self._threads.get((tenant, uid)) or self._met.get((tenant, uid))
        if found is not None:
            return found[0]
        row = self._one(connection, self._sql["thread_by_uid"], (tenant, uid))
        if row is None:
            return None
        self._met[tenant, uid] = (int(row[0]), str(row[1]))
        return int(row[0])

    def _lookup(self, connection: apsw.Connection, tenant: int, uid: bytes) -> tuple[int, str] | None:
        found = self._threads.get((tenant, uid))
        if found is None:
            row = self._one(connection, self._sql["thread_by_uid"], (tenant, uid))
            found = None if row is None else self._remember((tenant, uid), (int(row[0]), str(row[1])))
        return found

    def _committed(self) -> None:
        for key, thread in self._met.items():
            self._remember(key, thread)

    def _remember(self, key: tuple[int, bytes], thread: tuple[int, str]) -> tuple[int, str]:
        """A thread's number and name never change, so they are looked up once."""
        if len(self._threads) > 10_000:
            self._threads.clear()
        self._threads[key] = thread
        return thread

    def _store_uid(self) -> str:
        """Made with the store; seals name it."""
        with self._reading() as connection:
            row = self._one(connection, self._sql["setting"], ("uid",))
        if row is not None:
            return str(row[0])
        if self._file.read_only:
            raise StoreError(f"{self._file.path} has no uid and cannot be written")
        with self._connections.lock, translated(self._file.path):
            connection = self._connections.writer()
            insert = self._sql["new_setting"] + " ON CONFLICT DO NOTHING"
            connection.execute(insert, ("uid", shown(thread_uid())))
            return str(self._one(connection, self._sql["setting"], ("uid",))[0])


_WRITERS: dict[type, Callable[[SqliteStorage, apsw.Connection, int, Any], Refusal | None]] = {
    NewThread: SqliteStorage._new_thread,
    NewCheckpoint: SqliteStorage._new_checkpoint,
    History: SqliteStorage._history,
    PutLabel: SqliteStorage._put_label,
    DropLabel: SqliteStorage._drop_label,
    Tombstone: SqliteStorage._bury,
    Lock: SqliteStorage._lock,
    Still: SqliteStorage._still,
    Ledger: SqliteStorage._ledger,
    Within: SqliteStorage._within,
    Audit: SqliteStorage._audit,
    **SPACE_WRITERS,
    **GRAPH_WRITERS,
    **ITEM_WRITERS,
}
_FINDERS: dict[type, Callable[[SqliteStorage, apsw.Connection, str, Any], list[Any]]] = {
    Labels: SqliteStorage._labels,
    Now: no_clock,
    Told: untold,
    **SPACE_FINDERS,
    **GRAPH_FINDERS,
    **ITEM_FINDERS,
}
