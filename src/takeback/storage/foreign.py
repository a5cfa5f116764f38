"""What LangGraph's own savers left in their databases: read, and never written to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from takeback.errors import BadRequest, NotAStore, StoreUnavailable

Typed = tuple[str, bytes]
"""How a value was serialised, and its bytes."""
KINDS = ("langgraph-sqlite", "langgraph-postgres")


class Foreign(msgspec.Struct, frozen=True):
    """A checkpoint: whole and serialised (`packed`), or its parts."""

    namespace: str
    id: str
    parent: str | None
    metadata: dict[str, Any]
    packed: Typed | None = None
    parts: dict[str, Any] = {}
    channels: dict[str, Typed] = {}


class ForeignWrite(msgspec.Struct, frozen=True):
    """What a task wrote."""

    namespace: str
    checkpoint: str
    task: str
    path: str
    number: int
    channel: str
    typed: Typed


class Source(Protocol):
    """A database of another saver."""

    def threads(self) -> list[str]: ...

    def checkpoints(self, thread: str) -> Iterator[Foreign]:
        """Oldest first, as far as its ids tell."""
        ...

    def writes(self, thread: str) -> list[ForeignWrite]: ...


@contextmanager
def opened(kind: str, where: str) -> Iterator[Source]:
    """The database of a saver of this kind, for reading."""
    if kind == "langgraph-sqlite":
        with _sqlite(where) as ask:
            yield _Sqlite(ask)
    elif kind == "langgraph-postgres":
        with _postgres(where) as ask:
            yield _Postgres(ask)
    else:
        raise BadRequest(f"{kind!r} is none of {', '.join(KINDS)}")


class _Sqlite:
    """SqliteSaver's tables: a checkpoint is one blob."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def threads(self) -> list[str]:
        return [row[0] for row in self._ask("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]

    def checkpoints(self, thread: str) -> Iterator[Foreign]:
        ids = self._ask(
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ?"
            " ORDER BY checkpoint_id, checkpoint_ns",
            (thread,),
        )
        for namespace, id_ in list(ids):
            ((parent, kind, blob, metadata),) = self._ask(
                "SELECT parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints"
                " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
                (thread, namespace, id_),
            )
            said = json.loads(metadata) if metadata else {}
            yield Foreign(namespace, id_, parent or None, said, packed=(kind, bytes(blob)))

    def writes(self, thread: str) -> list[ForeignWrite]:
        columns = {row[1] for row in self._ask("PRAGMA table_info(writes)")}
        path = "task_path" if "task_path" in columns else "''"
        rows = self._ask(
            f"SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, value FROM writes"
            " WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
            (thread,),
        )
        return [_write(row) for row in rows]


class _Postgres:
    """PostgresSaver's tables: a checkpoint's larger channels are blobs by version."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def threads(self) -> list[str]:
        return [row[0] for row in self._ask("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]

    def checkpoints(self, thread: str) -> Iterator[Foreign]:
        blobs = {
            (namespace, channel, version): (kind, bytes(blob or b""))
            for namespace, channel, version, kind, blob in self._ask(
                "SELECT checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs"
                " WHERE thread_id = %s",
                (thread,),
            )
        }
        rows = self._ask(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata FROM checkpoints"
            " WHERE thread_id = %s ORDER BY checkpoint_id, checkpoint_ns",
            (thread,),
        )
        for namespace, id_, parent, parts, metadata in rows:
            versions = parts.get("channel_versions", {})
            found = {name: blobs.get((namespace, name, str(version))) for name, version in versions.items()}
            channels = {name: typed for name, typed in found.items() if typed and typed[0] != "empty"}
            yield Foreign(namespace, id_, parent or None, metadata or {}, parts=parts, channels=channels)

    def writes(self, thread: str) -> list[ForeignWrite]:
        rows = self._ask(
            "SELECT checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob"
            " FROM checkpoint_writes WHERE thread_id = %s ORDER BY checkpoint_id, task_id, idx",
            (thread,),
        )
        return [_write(row) for row in rows]


def _write(row: Any) -> ForeignWrite:
    namespace, checkpoint, task, path, number, channel, kind, data = row
    return ForeignWrite(namespace, checkpoint, task, path, number, channel, (kind, bytes(data or b"")))


@contextmanager
def _sqlite(path: str) -> Iterator[Any]:
    import apsw

    if not os.path.isfile(path):
        raise StoreUnavailable(f"there is no file {path}")
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READONLY)
    try:
        yield lambda sql, values=(): connection.execute(sql, values).fetchall()
    except (apsw.SQLError, apsw.NotADBError) as error:
        raise NotAStore(f"{path} is no database of LangGraph's SqliteSaver: {error}") from None
    finally:
        connection.close()


@contextmanager
def _postgres(dsn: str) -> Iterator[Any]:
    try:
        import psycopg
    except ImportError:
        from takeback.errors import MissingExtra

        raise MissingExtra("PostgreSQL needs psycopg", hint="pip install 'takeback[postgres]'") from None
    try:
        with psycopg.connect(dsn) as connection:
            connection.read_only = True
            yield lambda sql, values=(): connection.execute(sql, values).fetchall()
    except psycopg.errors.UndefinedTable as error:
        raise NotAStore(f"no tables of LangGraph's PostgresSaver are there: {error}") from None
    except psycopg.OperationalError as error:
        raise StoreUnavailable(f"the database cannot be reached: {error}") from None
