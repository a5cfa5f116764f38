"""The SQLite schema: a fresh store and one that was brought up to date are the same."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import apsw
import pytest

import takeback.storage
from takeback.errors import NewerStore
from takeback.storage import migrate as module
from takeback.storage.migrate import migrate, migrations, refuse_newer, schema_version
from takeback.storage.sqlite import SqliteStorage

FOLDER = Path(takeback.storage.__file__).parent / "schema" / "sqlite"


def schema(connection: apsw.Connection) -> list[Any]:
    return list(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"))


def test_numbers_have_no_gaps() -> None:
    """A store says by one number what was done to it; a gap or a double would make it lie."""
    numbers = [number for number, _ in migrations("sqlite")]
    assert numbers == list(range(1, len(numbers) + 1))
    files = sorted(path.name for path in FOLDER.iterdir() if not path.name.startswith("queries"))
    assert len(files) == len(numbers)
    assert all(re.fullmatch(r"\d{4}_[a-z0-9_]+\.sql", name) for name in files)


def test_fresh_equals_migrated(store_path: Path) -> None:
    """Each migration by itself, as an old store meets them over the years, ends where a new store begins."""
    SqliteStorage(os.fspath(store_path)).close()
    fresh, old = apsw.Connection(os.fspath(store_path)), apsw.Connection(":memory:")
    for number, sql in migrations("sqlite"):
        assert schema_version(old) == number - 1
        old.execute(sql)
        old.execute(f"PRAGMA user_version = {number}")
    assert schema(fresh) == schema(old)
    assert schema_version(fresh) == schema_version(old) == migrations("sqlite")[-1][0]
    fresh.close()


@pytest.mark.parametrize("since", range(len(migrations("sqlite")) + 1))
def test_from_every_version(since: int) -> None:
    """What is done already is not done again; what is left is done and recorded."""
    connection, whole = apsw.Connection(":memory:"), apsw.Connection(":memory:")
    for number, sql in migrations("sqlite")[:since]:
        connection.execute(sql)
        connection.execute(f"PRAGMA user_version = {number}")
    assert migrate(connection, "here") == [number for number, _ in migrations("sqlite")[since:]]
    assert migrate(connection, "here") == []
    migrate(whole, "there")
    assert schema(connection) == schema(whole)


def test_a_migration_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its changes and its number share a transaction, so the next attempt begins where this one did."""
    connection = apsw.Connection(":memory:")
    migrate(connection, "here")
    before = schema(connection)
    newest = len(migrations("sqlite"))
    good = migrations("sqlite")
    bad = (newest + 1, "CREATE TABLE half (x); CREATE TABLE half (x);")
    monkeypatch.setattr(module, "migrations", lambda engine: [*good, bad])
    with pytest.raises(apsw.SQLError):
        migrate(connection, "here")
    assert (schema(connection), schema_version(connection), connection.in_transaction) == (
        before,
        newest,
        False,
    )
    monkeypatch.setattr(module, "migrations", lambda engine: [*good, (newest + 1, "CREATE TABLE whole (x);")])
    assert migrate(connection, "here") == [newest + 1]


def test_a_migration_that_another_process_has_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking and locking somebody else was faster: nothing is done twice."""
    connection = apsw.Connection(":memory:")
    migrate(connection, "here")
    looks = iter([0, *[len(migrations("sqlite"))] * 9])
    monkeypatch.setattr(module, "schema_version", lambda connection: next(looks))
    assert migrate(connection, "here") == []
    assert not connection.in_transaction


def test_a_newer_schema_is_refused() -> None:
    newest = len(migrations("sqlite"))
    refuse_newer(newest, "here")
    with pytest.raises(NewerStore, match=f"here has schema {newest + 1}"):
        refuse_newer(newest + 1, "here")
    connection = apsw.Connection(":memory:")
    connection.execute(f"PRAGMA user_version = {newest + 1}")
    with pytest.raises(NewerStore):
        migrate(connection, "here")
    assert schema(connection) == []


def test_tables_are_strict_and_checkpoints_clustered() -> None:
    """A column holds what it is declared to hold; a thread's checkpoints lie together."""
    connection = apsw.Connection(":memory:")
    migrate(connection, "here")
    tables = {row[1]: row[3] for row in schema(connection) if row[0] == "table"}
    assert all("STRICT" in sql for sql in tables.values())
    assert "WITHOUT ROWID" in tables["checkpoints"]
