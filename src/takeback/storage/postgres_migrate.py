"""Making a store in a PostgreSQL database, or bringing it up to date: by one migrator, while others wait.

A migration and the number that records it share a transaction. What a newer build has written is refused
before anything is read from it; tables that are not ours are left alone.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from blake3 import blake3
from psycopg import errors as pg

from takeback.errors import NotAStore, ReadOnlyStore, StoreUnavailable
from takeback.model.ids import shown, thread_uid
from takeback.storage.migrate import migrations, refuse_newer

if TYPE_CHECKING:
    from takeback.storage.postgres_server import Server, Wire

_OURS = frozenset({"store", "threads", "checkpoints", "objects"})
_TRIES = 20


def prepare(wire: Wire, server: Server, sql: dict[str, str], *, create: bool, read_only: bool) -> str:
    """The store's uid, once the schema is what this build needs."""
    found = settings(wire, server, sql)
    newest = migrations("postgres")[-1][0]
    if found is None and not (create and not read_only):
        _refuse_foreign(wire, server, sql)
        raise StoreUnavailable(
            f"there is no store in {server.location}",
            hint="The first commit makes one, or give another address",
        )
    if found is None or (_version(found) < newest and not read_only):
        found = _patiently(wire, server, sql)
    refuse_newer(_version(found), server.location, "postgres")
    return found["uid"]


def settings(wire: Wire, server: Server, sql: dict[str, str]) -> dict[str, str] | None:
    """The facts about the store; None where there is none."""
    try:
        found = dict(wire.ask(sql["settings"]).fetchall())
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return None
    except pg.UndefinedColumn:
        _refuse_foreign(wire, server, sql)
        raise
    if not found.get("schema", "").isdigit() or "uid" not in found:
        raise _foreign(server, ["store"])
    return found


def _version(found: dict[str, str]) -> int:
    return int(found["schema"])


def _patiently(wire: Wire, server: Server, sql: dict[str, str]) -> dict[str, str]:
    """Where nothing makes migrators wait for one another, the later one fails, and finds it done."""
    for tries in range(_TRIES):
        try:
            return migrate(wire, server, sql)
        except (pg.UniqueViolation, pg.DuplicateTable, pg.DuplicateSchema, pg.SerializationFailure):
            time.sleep(random.uniform(0.01, 0.05 * (tries + 1)))
    return migrate(wire, server, sql)


def migrate(wire: Wire, server: Server, sql: dict[str, str]) -> dict[str, str]:
    """Bring the schema to the newest; what another process has done meanwhile is not done again."""
    with wire.transaction():
        wire.execute("SET LOCAL lock_timeout = '5min'; SET LOCAL statement_timeout = '1h'")
        _only_one(wire, server, sql)
        found = settings_within(wire, server, sql)
        if found is None:
            _refuse_foreign(wire, server, sql)
            found = {"schema": "0", "uid": shown(thread_uid())}
        refuse_newer(_version(found), server.location, "postgres")
        for number, text in migrations("postgres"):
            if number > _version(found):
                # Bytes: a script of several statements, in which no % stands for anything.
                wire.execute(server.placed(text).encode())
                found["schema"] = str(number)
        for key, value in found.items():
            wire.ask(sql["put_setting"], {"key": key, "value": value})
    return found


def settings_within(wire: Wire, server: Server, sql: dict[str, str]) -> dict[str, str] | None:
    """The same inside a transaction, which goes on when there is no table."""
    try:
        with wire.transaction():
            return settings(wire, server, sql) if _there(wire, server, sql) else None
    except pg.UndefinedTable:
        return None


def _there(wire: Wire, server: Server, sql: dict[str, str]) -> bool:
    return any(row[1] == "store" for row in wire.ask(sql["tables"], {"schema": server.schema}))


def _only_one(wire: Wire, server: Server, sql: dict[str, str]) -> None:
    """Wait until nobody else brings this schema up to date."""
    key = int.from_bytes(blake3(f"takeback migrates {server.schema}".encode()).digest(8), "big", signed=True)
    try:
        with wire.transaction():
            wire.ask(sql["one_migrator"], {"key": key})
    except (pg.UndefinedFunction, pg.FeatureNotSupported):
        locks = False
    else:
        locks = True
    _make_schema(wire, server, sql)
    if not locks:
        for name in ("migrators", "new_migrator", "lock_migrator"):
            wire.ask(sql[name])


def _make_schema(wire: Wire, server: Server, sql: dict[str, str]) -> None:
    """Only where there is none: who may not make schemas may have been given one."""
    if wire.ask(sql["tables"], {"schema": server.schema}).fetchone() is not None:
        return
    try:
        wire.execute(f'CREATE SCHEMA "{server.schema}"'.encode())
    except pg.InsufficientPrivilege as error:
        raise ReadOnlyStore(
            f"this user may not make the schema {server.schema} in {server.location}",
            hint=f"Let its owner run: CREATE SCHEMA {server.schema} AUTHORIZATION the user",
        ) from error


def _refuse_foreign(wire: Wire, server: Server, sql: dict[str, str]) -> None:
    """Tables that nobody marked as a store's are somebody else's."""
    rows = wire.ask(sql["tables"], {"schema": server.schema}).fetchall()
    tables = [row[1] for row in rows if row[1] is not None and row[1] != "migrating"]
    if tables:
        raise _foreign(server, tables)


def _foreign(server: Server, tables: list[str]) -> NotAStore:
    return NotAStore(
        f"the schema {server.schema} of {server.location} holds tables that takeback did not make",
        hint=f"It has {', '.join(tables[:5])}; choose another schema with ?schema=… in the address",
    )
