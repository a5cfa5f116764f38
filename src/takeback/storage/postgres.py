"""The PostgreSQL backend: many processes on many machines, one server. Same order as the SQLite one.

What differs: names and uids are the keys, not numbers of the database's own; a pool of connections serves all
threads; and a common batch is one statement (`postgres_writes`), because each costs a way over the network.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from takeback.errors import CorruptObject
from takeback.model import records
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.storage import objects as codec
from takeback.storage.base import (
    Batch,
    Cell,
    Labels,
    Now,
    Query,
    Refusal,
    StoreInfo,
    ThreadQuery,
    Told,
    finder,
    has_meta,
)
from takeback.storage.migrate import queries
from takeback.storage.postgres_connections import Connections
from takeback.storage.postgres_graphs import GRAPH_FINDERS
from takeback.storage.postgres_group import Grouped
from takeback.storage.postgres_items import ITEM_FINDERS
from takeback.storage.postgres_listen import Listener
from takeback.storage.postgres_migrate import prepare
from takeback.storage.postgres_rows import Packed, name_key
from takeback.storage.postgres_server import refuse_server, server, translated
from takeback.storage.postgres_settle import Writer
from takeback.storage.postgres_space import SPACE_FINDERS
from takeback.storage.rows import audit_entry, read_checkpoint, thread_info

T = TypeVar("T")
_MANY = 8  # from so many objects on, it pays to look which are there before compressing
_COUNTED = 1_000_000  # rows up to which a table is counted rather than estimated


class PostgresStorage:
    """See `Storage` for what is promised; `point` is called at every labelled place of a write."""

    def __init__(self, url: str, *, create: bool = True, durability: str = "full") -> None:
        self._server = server(url)
        self._sql = self._server.named(queries("postgres"))
        self._durability = durability
        self.point: Callable[[str], None] | None = None
        self._connections = Connections(self._server, self._sql["session"], relaxed=durability == "relaxed")
        self._listener = Listener(self._server)
        writer = Writer(self._connections, self._sql, self._at)
        self._writer = Grouped(writer, self._connections, self._sql, self._at)
        try:
            self._uid = self._prepared(create)
        except BaseException:
            self._connections.close()
            raise
        codec.prepare()
        records.prepare()

    # --- writing

    def apply(self, batch: Batch) -> Refusal | None:
        self._connections.alive()
        return self._writer.write(batch, self._packed(batch))

    def _packed(self, batch: Batch) -> Packed:
        """Compress before the transaction begins: what is new, where there is much."""
        absent = batch.objects
        if len(absent) >= _MANY:
            there = self.objects_there(batch.tenant, list(absent))
            absent = {digest: payload for digest, payload in absent.items() if digest not in there}
        return {digest: (*codec.pack(payload), len(payload)) for digest, payload in absent.items()}

    # --- reading

    def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
        rows = self.ask("read_objects", tenant, digests=list(set(digests)))
        return {row[0]: codec.unpack(*row) for row in rows}

    def objects_there(self, tenant: str, digests: list[bytes]) -> set[bytes]:
        """Which of these the tenant has; only a hint, since a collection may run."""
        return {row[0] for row in self.ask("find_objects", tenant, digests=digests)}

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        row = self._one("living_thread", tenant, name_key=name_key(name))
        if row is None:
            return None
        info = thread_info(row[:16])
        if row[16] is None:
            raise CorruptObject("the head's checkpoint is missing", thread=name, checkpoint=info.head)
        return info, read_checkpoint(name, info.uid, row[16:])

    def thread_by_uid(self, tenant: str, uid: bytes) -> ThreadInfo | None:
        row = self._one("thread_by_uid", tenant, uid=uid)
        return None if row is None else thread_info(row)

    def threads(self, tenant: str, query: ThreadQuery) -> list[ThreadInfo]:
        # Metadata is looked at here, so then a limit cannot be left to the server.
        limit = None if query.meta else query.limit
        rows = self.ask(
            "threads", tenant, agent=query.agent, user=query.user, low=query.created_after_us,
            high=query.created_before_us, after=query.after, limit=limit,
        )  # fmt: skip
        found = [thread_info(row) for row in rows]
        return [info for info in found if has_meta(info, query)][: query.limit]

    def checkpoint(self, tenant: str, uid: bytes, version: int) -> Checkpoint | None:
        row = self._one("checkpoint", tenant, uid=uid, version=version)
        return None if row is None else read_checkpoint(row[0], uid, row[1:])

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
        kind = "merges" if merges else "checkpoints"
        name = kind + "_newest_first" if newest_first else kind
        rows = self.ask(name, tenant, uid=uid, low=low, high=high, limit=limit)
        return [read_checkpoint(row[0], uid, row[1:]) for row in rows]

    def cells(
        self, tenant: str, *, family: bytes | None = None, after: int = 0, live: bool = False
    ) -> list[Cell]:
        return [
            Cell(*row)
            for row in self.ask("cells_live" if live else "cells", tenant, family=family, after=after)
        ]

    def find(self, tenant: str, query: Query[T]) -> list[T]:
        found: list[T] = finder(_FINDERS, query)(self, tenant, query)
        return found

    def _labels(self, tenant: str, query: Labels) -> list[tuple[str, int]]:
        return [(str(name), int(at)) for name, at in self.ask("labels", tenant, uid=query.uid)]

    def _now(self, tenant: str, _: Now) -> list[int]:
        return [int(row[0]) for row in self.ask("now", tenant)]

    def _told(self, tenant: str, query: Told) -> list[tuple[int, bool]]:
        self._connections.alive()
        return [self._listener.told(tenant, query.seen, query.seconds)]

    def audit(
        self, tenant: str, *, uid: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[AuditEntry]:
        return [audit_entry(row) for row in self.ask("audit", tenant, uid=uid, after=after, limit=limit)]

    def snapshot(self) -> AbstractContextManager[None]:
        return self._connections.snapshot()

    def tenants(self) -> list[str]:
        return [str(row[0]) for row in self.ask("tenants")]

    def info(self) -> StoreInfo:
        with self._connections.wire() as wire, translated(self._server.location):
            ((threads, checkpoints, held, exact),) = wire.ask(self._sql["counts"], {"many": _COUNTED})
            ((*facts,),) = wire.ask(self._sql["server"], {"schema": self._server.schema})
            version = wire.info.parameter_status("server_version")
        fsync, synchronous, pages, connections, read_only, schema, size = facts
        details = {
            "postgresql": version,
            "threads": threads,
            "checkpoints": checkpoints,
            "objects": held,
            "exact": exact,
            "bytes": size,
            "schema": self._server.schema,
            "fsync": fsync,
            "synchronous_commit": synchronous,
            "full_page_writes": pages,
            "max_connections": connections,
            "pool_size": self._server.pool_size,
        }
        return StoreInfo(
            "postgresql", self._server.location, self._uid, int(schema), read_only, self._durability, details
        )

    def damage(self) -> list[str]:
        rows = self._connections.ask(self._sql["damage"], {"schema": self._server.schema})
        return [str(row[0]) for row in rows]

    def close(self) -> None:
        if self._connections.ours:
            self._listener.close()
        self._connections.close()

    def ask(self, name: str, tenant: str | None = None, **values: Any) -> list[Any]:
        return self._connections.ask(self._sql[name], {"tenant": tenant, **values})

    def _one(self, name: str, tenant: str, **values: Any) -> Any:
        """The first row of a statement; None when there is none."""
        rows = self.ask(name, tenant, **values)
        return rows[0] if rows else None

    def _at(self, label: str) -> None:
        if self.point is not None:
            self.point(label)

    def _prepared(self, create: bool) -> str:
        """The store's uid, once server and schema are what this build needs."""
        with self._server.connect() as wire, translated(self._server.location):
            refuse_server(wire, self._server.location)
            self._connections.configure(wire)
            self._connections.open()  # its first connection is made while this one looks at the schema
            ((read_only,),) = wire.ask(self._sql["read_only"])
            return prepare(wire, self._server, self._sql, create=create, read_only=read_only)


_FINDERS: dict[type, Callable[[PostgresStorage, str, Any], list[Any]]] = {
    Labels: PostgresStorage._labels,
    Now: PostgresStorage._now,
    Told: PostgresStorage._told,
    **SPACE_FINDERS,
    **GRAPH_FINDERS,
    **ITEM_FINDERS,
}
