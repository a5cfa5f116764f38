"""A PostgreSQL server: where a store lies on it, how it is reached, and what its errors mean to a caller.

Durability: the server's own. `synchronous_commit` is never left off unless it was asked for by name, and
what the server itself does not promise (`fsync = off`) is said by `info`.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from blake3 import blake3

from takeback.errors import (
    BadRequest,
    MissingExtra,
    NotAStore,
    ReadOnlyStore,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TakebackError,
    Unstorable,
)

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.types.numeric import Int8BinaryDumper
except ImportError as missing:
    raise MissingExtra(
        "a store on PostgreSQL needs psycopg, which is not installed",
        hint="pip install 'takeback[postgres]'",
    ) from missing

OLDEST = 150_000  # as the server counts: PostgreSQL 15
SCHEMA = "takeback"
POOL_SIZE, POOL_SECONDS = 10, 30.0
_OURS = ("schema", "pool_size", "pool_timeout")
# A network that is gone is noticed in half a minute, not in the quarter of an hour that TCP would take.
_NETWORK = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
# What driver and pool note of connections that they could not make or keep is raised here, with its reason.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Wire(psycopg.Connection[Any]):
    """A connection. What the store itself asks goes through `own`, so that whatever a transactional tool
    changes on cursors of its own is nothing to it."""

    own: psycopg.Cursor[Any]

    def prepared(self) -> Wire:
        """Whole numbers always travel as eight bytes: one prepared statement for all of them."""
        self.own = psycopg.Cursor(self)
        self.own.adapters.register_dumper(int, Int8BinaryDumper)
        return self

    def ask(self, sql: str, values: dict[str, Any] | None = None) -> psycopg.Cursor[Any]:
        return self.own.execute(sql, values, prepare=True, binary=True)


class Server(msgspec.Struct, frozen=True):
    """Where a store lies, from its url: PostgreSQL's own, and `schema`, `pool_size`, `pool_timeout`."""

    location: str
    conninfo: dict[str, Any]
    schema: str = SCHEMA
    pool_size: int = POOL_SIZE
    pool_seconds: float = POOL_SECONDS

    def connect(self) -> Wire:
        """One connection, made now: what is wrong with it is told as it is."""
        with translated(self.location):
            return Wire.connect(**self.conninfo, autocommit=True).prepared()

    @property
    def channel(self) -> str:
        """Where those who wait for something in this store are told."""
        return "takeback_" + blake3(self.schema.encode()).hexdigest(8)

    def named(self, sql: dict[str, str]) -> dict[str, str]:
        """Statements that find the store's schema, whatever a connection's search path is."""
        return {name: self.placed(text) for name, text in sql.items()}

    def placed(self, sql: str) -> str:
        return sql if self.schema == SCHEMA else sql.replace(f"{SCHEMA}.", f'"{self.schema}".')


def server(url: str) -> Server:
    """From `postgresql://user@host/database?schema=…`; the password stays out of what is shown."""
    try:
        parts = urlsplit(url)
        ours = {name: value for name, value, _ in _asked(parts.query) if name in _OURS}
        rest = [part for name, _, part in _asked(parts.query) if name not in _OURS]
        plain = urlunsplit(parts._replace(query="&".join(rest)))
        conninfo = psycopg.conninfo.conninfo_to_dict(plain)
    except (psycopg.ProgrammingError, ValueError) as error:
        raise BadRequest(
            f"this is no address of a PostgreSQL database: {str(error).strip()}",
            hint="For example postgresql://user@host/database",
        ) from None
    schema = ours.get("schema", SCHEMA)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema):
        raise BadRequest(f"schema={schema!r} cannot be a schema's name", hint="Use letters, digits and _")
    return Server(
        _without_password(url),
        _NETWORK | {"application_name": "takeback"} | conninfo,
        schema,
        int(_number(ours, "pool_size", POOL_SIZE)),
        _number(ours, "pool_timeout", POOL_SECONDS),
    )


def _asked(query: str) -> Iterator[tuple[str, str, str]]:
    """(name, value, both as they stand) of each setting. A plus is a plus here, as the driver reads it."""
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        yield unquote(name), unquote(value), part


def _number(ours: dict[str, str], name: str, default: float) -> float:
    text = ours.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) or float(text) <= 0:
        raise BadRequest(f"{name}={text!r} in the store's address is no number above 0")
    return float(text) if name == "pool_timeout" else max(1.0, float(text))


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(part for name, _, part in _asked(parts.query) if name != "password")
    return urlunsplit(parts._replace(netloc=user.partition(":")[0] + at + host, query=query))


def refuse_server(wire: Wire, location: str) -> None:
    """What is no PostgreSQL that this build was tried on, or cannot hold every text."""
    if wire.info.server_version < OLDEST:
        raise StoreUnavailable(
            f"{location} is PostgreSQL {wire.info.parameter_status('server_version')}",
            hint=f"takeback needs PostgreSQL {OLDEST // 10_000} or newer",
        )
    encoding = wire.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"the database of {location} holds text as {encoding}",
            hint="Make one that can hold any text: createdb --encoding=UTF8 --template=template0 …",
        )


# --- what errors mean


@contextlib.contextmanager
def translated(location: str) -> Iterator[None]:
    """PostgreSQL's errors as takeback's: what it means to the caller, and what to do."""
    try:
        yield
    except psycopg.Error as error:
        raise meaning(error, location) from error


def lost(error: BaseException) -> bool:
    """Whether the connection ended, or the server is about to end it or to begin."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate[:3] == "57P"


def away(error: BaseException) -> bool:
    """Whether a connection could not be made, for a reason that may pass."""
    if not isinstance(error, StoreUnavailable):
        return False
    said = str(error.__cause__)
    return isinstance(error.__cause__, psycopg.OperationalError) and not any(part in said for part in _STAYS)


def passing(error: BaseException) -> bool:
    """Whether the transaction is known to be gone, and may go well when it is tried again."""
    return isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected, pg.TooManyConnections))


def meaning(error: psycopg.Error, location: str) -> TakebackError:
    for kinds, make in _MEANINGS:
        if isinstance(error, kinds):
            return make(location, _said(error))
    if isinstance(error, psycopg.OperationalError) and lost(error):
        return _unreachable(location, _said(error))
    return StoreError(f"{location}: PostgreSQL says: {_said(error)}")


def _said(error: psycopg.Error) -> str:
    """The first line of what the server or the driver says, without its own prefix."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    line = text.splitlines()[-1 if "FATAL:" in text else 0].rpartition("FATAL:")[2].strip()
    return line.removeprefix("connection failed: ").removeprefix("connection is bad: ")


def _unreachable(at: str, said: str) -> StoreUnavailable:
    hints = (
        ("password authentication failed", "Check the user's name and password"),
        ("no password supplied", "Give a password: in the address, in PGPASSWORD or in ~/.pgpass"),
        ("does not exist", "Check the names in the address; createdb makes a database"),
        ("too many c", "The server has no connection left: lower pool_size, or raise max_connections"),
        ("remaining connection slots", "The server has no connection left: lower pool_size"),
    )
    found = (hint for part, hint in hints if part in said)
    return StoreUnavailable(
        f"{at} cannot be reached: {said}",
        hint=next(found, "Check that the server runs and the address is right"),
    )


_STAYS = ("authentication failed", "no password", "does not exist", "not permitted", "no pg_hba.conf entry")
_Maker = Callable[[str, str], TakebackError]
_MEANINGS: list[tuple[tuple[type[psycopg.Error], ...], _Maker]] = [
    (
        (pg.LockNotAvailable, pg.DeadlockDetected, pg.SerializationFailure),
        lambda at, said: StoreBusy(
            f"{at} is held by another transaction: {said}", hint="It was waited for; try again"
        ),
    ),
    (
        (pg.QueryCanceled,),
        lambda at, said: StoreBusy(
            f"{at} took too long: {said}",
            hint="Raise the limit with options=-c%20statement_timeout=… in the address, or try again",
        ),
    ),
    (
        (pg.IdleInTransactionSessionTimeout,),
        lambda at, said: StoreBusy(f"{at} ended a transaction that stood still: {said}", hint="Try again"),
    ),
    (
        (pg.DiskFull,),
        lambda at, said: StoreFull(f"no space is left for {at}: {said}", hint="Free some, and try again"),
    ),
    (
        (pg.ReadOnlySqlTransaction,),
        lambda at, _: ReadOnlyStore(
            f"{at} can be read and not written", hint="It may be a standby; give the primary's address"
        ),
    ),
    (
        (pg.InsufficientPrivilege,),
        lambda at, said: ReadOnlyStore(
            f"{at} does not allow this user what is needed: {said}",
            hint="Grant USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables",
        ),
    ),
    (
        (
            pg.InvalidPassword,
            pg.InvalidAuthorizationSpecification,
            pg.InvalidCatalogName,
            pg.CannotConnectNow,
        ),
        _unreachable,
    ),
    (
        (pg.DataCorrupted, pg.IndexCorrupted),
        lambda at, said: StoreCorrupt(f"{at} is damaged: {said}", hint="Restore a backup"),
    ),
    (
        (pg.UndefinedTable, pg.UndefinedColumn, pg.InvalidSchemaName),
        lambda at, said: NotAStore(
            f"{at} lacks tables that takeback made: {said}", hint="Were they dropped or changed by hand?"
        ),
    ),
    (
        (psycopg.DataError,),
        lambda _, said: Unstorable(f"PostgreSQL cannot hold this text or number: {said}"),
    ),
]
