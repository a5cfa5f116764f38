"""Memory: items put, got and searched, beside LangGraph's SqliteStore with the same journal and sync."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import takeback
from benchmarks import data, peers
from benchmarks.measure import Measure, Work, interleave
from benchmarks.sizes import Sizes

_PEER = "SqliteStore"
_NAMESPACES, _ITEMS = 10, 10  # a search finds so many items


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    with takeback.open(folder / "memory.db") as repo:
        stores: dict[str, Any] = {"ours": repo.store}
        connection = sqlite3.connect(folder / "memory-peer.db", isolation_level=None)
        if sizes.peers and peers.installed("LangGraph"):
            stores["raw"] = _peer(connection)
        yield _measured("memory_new", "memory: put, a new item", stores, _put_new, sizes)
        for store in stores.values():
            for number in range(_NAMESPACES * _ITEMS):
                store.put(_place(number), _key(number), _value(number))
        yield _measured("memory_over", "memory: put over an item", stores, _put_over, sizes)
        yield _measured("memory_get", "memory: get", stores, _get, sizes)
        yield _measured("memory_search", f"memory: search, {_ITEMS} items", stores, _search, sizes)
        connection.close()


def _peer(connection: sqlite3.Connection) -> Any:
    """As it is recommended to be opened, with WAL, which it does not set; the sync is full on both."""
    from langgraph.store.sqlite import SqliteStore

    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    store = SqliteStore(connection)
    store.setup()
    return store


def _measured(
    key: str, title: str, stores: dict[str, Any], act: Callable[[Any, int, Any], object], sizes: Sizes
) -> Measure:
    works = {name: _work(store, act) for name, store in stores.items()}
    found = interleave(works, rounds=sizes.file_rounds, batch=sizes.batch, warm=sizes.batch)
    return Measure(key, title, found["ours"], found.get("raw"), _PEER)


def _work(store: Any, act: Callable[[Any, int, Any], object]) -> Work:
    """Numbers and values are made beforehand, and not timed."""
    numbers = itertools.count()

    def prepared() -> tuple[int, Any]:
        number = next(numbers)
        return number, _value(number + 1)

    return Work(lambda argument: act(store, *argument), prepared)


def _put_new(store: Any, number: int, value: Any) -> object:
    return store.put(("new", str(number % _NAMESPACES)), str(number), value)


def _put_over(store: Any, number: int, value: Any) -> object:
    return store.put(_place(number), _key(number), value)


def _get(store: Any, number: int, _: Any) -> object:
    return store.get(_place(number), _key(number))


def _search(store: Any, number: int, _: Any) -> object:
    return store.search(_place(number), limit=_ITEMS)


def _place(number: int) -> tuple[str, ...]:
    return ("users", f"{number % _NAMESPACES:02}")


def _key(number: int) -> str:
    return str(number % (_NAMESPACES * _ITEMS))


def _value(number: int) -> dict[str, Any]:
    return {"text": data.text(500, number), "number": number}
