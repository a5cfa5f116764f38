"""The store of an adapter: a URL or an open one, and the way of async code into its threads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeAlias
from urllib.parse import quote

from takeback import repo
from takeback.aio import AsyncRepo
from takeback.engine.telling import TakenBack
from takeback.errors import BadRequest, MissingExtra, StoreUnavailable
from takeback.model import canonical, frozen, refs
from takeback.model.ids import shown
from takeback.repo import Repo
from takeback.thread import Thread

Given: TypeAlias = "str | os.PathLike[str] | Repo | AsyncRepo"


class Adapter:
    """What every adapter has: the store as it was given, closed with the adapter only if opened by it."""

    tb: AsyncRepo
    """The store that it keeps its threads in, awaited."""

    def __init__(self, store: Given, options: dict[str, Any]) -> None:
        if isinstance(store, Repo | AsyncRepo) and options:
            raise BadRequest(
                f"{', '.join(options)} cannot be given with a store that is open",
                hint="Open the store with them, or give its path",
            )
        self._opened = not isinstance(store, Repo | AsyncRepo)
        if isinstance(store, AsyncRepo):
            self.tb = store
        else:
            self.tb = AsyncRepo.over(store if isinstance(store, Repo) else repo.open(store, **options))

    async def close(self) -> None:
        """Let go of the store, if the adapter opened it."""
        if self._opened:
            await self.tb.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def needed(extra: str, error: ImportError) -> MissingExtra:
    """What the import of a framework that is not there comes to."""
    return MissingExtra(f"this adapter needs {error.name or extra}", hint=f"pip install 'takeback[{extra}]'")


def thread_name(*parts: str) -> str:
    """Parts of a framework's key as the name of a thread, no two keys as one; shortened where it is long."""
    name = "/".join(quote(part, safe="") for part in parts)
    if len(name) <= refs.MAX_NAME:
        return name
    return name[:400] + "~" + shown(canonical.digest(name.encode()))[:22]


def plain(value: Any) -> Any:
    """What a thread's read-only view shows, as values of the framework's own."""
    return frozen.thawed(value)


def known(store: Repo, name: str) -> Thread[Any] | None:
    """The thread of this name, if there is one."""
    thread = store.thread(name)
    return thread if thread.exists else None


def told(thread: Thread[Any] | None) -> TakenBack | None:
    """What was taken back since the agent's last version."""
    return None if thread is None or not thread.exists else thread.taken_back_since()


def write_lines(path: str | os.PathLike[str], items: Iterable[Any]) -> int:
    """JSON, a line an item: the way out."""
    lines = [json.dumps(item, ensure_ascii=False) + "\n" for item in items]
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}") from None
    return len(lines)


def read_lines(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The items of such a file."""
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _item(line, f"{path}, line {number}")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreUnavailable(f"{path} cannot be read: {error}") from None


def _item(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise BadRequest(f"{where} is no JSON: {error.msg}") from None
