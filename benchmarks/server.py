"""PostgreSQL: commits and appends beside a raw insert on a connection of the same kind, and eight at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg

import takeback
from benchmarks import data
from benchmarks.measure import Measure, Timing, Work, interleave
from benchmarks.sizes import Sizes
from benchmarks.writes import appending, committing, small, speed
from takeback.model import canonical
from takeback.testing.postgres import Server

_TABLE = """CREATE TABLE raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, data bytea NOT NULL);
ALTER TABLE raw ALTER COLUMN data SET STORAGE EXTERNAL"""


def run(server: Server, sizes: Sizes) -> Iterator[Measure]:
    server.sql(_TABLE)
    wires = [_wire(server) for _ in range(sizes.agents)]
    with takeback.open(server.url()) as repo:
        yield from writes(repo, wires[0], sizes)
        yield from agents(repo, wires, sizes)
    for wire in wires:
        wire.close()


def writes(repo: takeback.Repo, wire: psycopg.Connection[Any], sizes: Sizes) -> Iterator[Measure]:
    """One statement, which is its own transaction, on either side."""
    item = canonical.encode(data.message(0))
    works = {
        "commit": committing(repo),
        "raw": Work(_inserting(wire, small())),
        "append": appending(repo, sizes.items),
        "raw item": Work(_inserting(wire, item)),
    }
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    yield Measure("pg_commit", "PostgreSQL: commit 2 KB", found["commit"], found["raw"])
    title = f"PostgreSQL: append 1 KB at {sizes.items:,} items"
    yield Measure("pg_append", title, found["append"], found["raw item"])


def agents(repo: takeback.Repo, wires: list[psycopg.Connection[Any]], sizes: Sizes) -> Iterator[Measure]:
    """Commits a second of several threads of execution; inserts of as many, each on its own connection."""
    inserters = [Work(_inserting(wire, small())) for wire in wires]
    agents = [committing(repo, f"agent-{number}") for number in range(len(wires))]
    runs: dict[str, Callable[[], float]] = {
        "one": lambda: speed(agents[:1], sizes.agent_commits),
        "raw": lambda: speed(inserters, sizes.agent_commits),
        "all": lambda: speed(agents, sizes.agent_commits),
    }
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for act in runs.values():
        act()  # statements are prepared, connections made
    for _ in range(5):
        for name, act in runs.items():
            speeds[name].append(act())
    half = {name: Timing(sorted(found)[len(found) // 2]) for name, found in speeds.items()}
    title = f"PostgreSQL: commits a second, {len(wires)} agents"
    yield Measure("pg_agents_raw", title, half["all"], half["raw"], f"{len(wires)} raw inserters", "/s")
    yield Measure("pg_agents", title, half["all"], half["one"], "one agent", "/s")


def _wire(server: Server) -> psycopg.Connection[Any]:
    return psycopg.connect(server.url(None), autocommit=True)


def _inserting(wire: psycopg.Connection[Any], payload: bytes) -> Callable[[Any], object]:
    cursor = wire.cursor(binary=True)
    return lambda _: cursor.execute("INSERT INTO raw (data) VALUES (%b)", (payload,), prepare=True)
