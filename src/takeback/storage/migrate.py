"""Numbered SQL files: which there are, what they say, and bringing a SQLite file up to date. For PostgreSQL
`postgres_migrate` does that.

A migration and the number that records it share a transaction. A file that was written by a newer build
is refused before anything is read from it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from takeback.errors import NewerStore

if TYPE_CHECKING:
    import apsw

_SCHEMA = os.path.join(os.path.dirname(__file__), "schema")
_NAME = re.compile(r"-- name: (\w+)\n")


def migrations(engine: str) -> list[tuple[int, str]]:
    """(number, SQL) of an engine's migrations, in order."""
    folder = os.path.join(_SCHEMA, engine)
    files = sorted(name for name in os.listdir(folder) if name[:4].isdigit())
    return [(int(name[:4]), _text(os.path.join(folder, name))) for name in files]


def queries(engine: str) -> dict[str, str]:
    """An engine's named statements, of all its files that hold some."""
    folder = os.path.join(_SCHEMA, engine)
    files = sorted(name for name in os.listdir(folder) if name.startswith("queries"))
    parts = [part for name in files for part in _NAME.split(_text(os.path.join(folder, name)))[1:]]
    return {name: _statement(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def schema_version(connection: apsw.Connection) -> int:
    return int(connection.pragma("user_version"))


def refuse_newer(found: int, location: str, engine: str = "sqlite") -> None:
    newest = migrations(engine)[-1][0]
    if found > newest:
        raise NewerStore(
            f"{location} has schema {found}; this build knows schemas up to {newest}",
            hint="Open it with the newer takeback that wrote it",
        )


def migrate(connection: apsw.Connection, location: str) -> list[int]:
    """Bring the file to the newest schema; what another process has done meanwhile is not done again."""
    done = []
    for number, sql in migrations("sqlite"):
        if schema_version(connection) >= number:
            continue
        connection.execute("BEGIN IMMEDIATE")
        try:
            if schema_version(connection) < number:
                connection.execute(sql)
                connection.execute(f"PRAGMA user_version = {number}")
                done.append(number)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    refuse_newer(schema_version(connection), location)
    return done


def _statement(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
