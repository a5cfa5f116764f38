"""Where threads are kept: one small protocol, and SQLite, PostgreSQL and memory behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.errors import StoreUnavailable

if TYPE_CHECKING:
    from takeback.storage.base import Storage


def connect(url: str, *, create: bool = True, durability: str = "full") -> Storage:
    """The storage that a url names: a file, `sqlite:///file`, `postgresql://…` or `:memory:`."""
    if url == ":memory:":
        from takeback.storage.memory import MemoryStorage

        return MemoryStorage()
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "sqlite":
        from takeback.storage.sqlite import SqliteStorage

        return SqliteStorage(
            rest.removeprefix("/") if separator else url, create=create, durability=durability
        )
    if scheme in ("postgresql", "postgres"):
        from takeback.storage.postgres import PostgresStorage

        return PostgresStorage(url, create=create, durability=durability)
    raise StoreUnavailable(
        f"{scheme}:// is no kind of store that this build knows",
        hint="Give a file's path or a postgresql:// address",
    )
