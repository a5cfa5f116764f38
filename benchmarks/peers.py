"""Conversations that grow, with all engines by turns: what a turn costs and what the file takes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.engines import ENGINES, ON_POSTGRES, OURS, POSTGRES, SAVER
from benchmarks.fresh import ROOT
from benchmarks.measure import Measure, Timing, timing
from benchmarks.sizes import Sizes
from takeback.testing.postgres import Server

_POINTS = 25
_NEEDS = {
    "LangGraph PostgresSaver": "langgraph.checkpoint.postgres",
    "LangGraph": "langgraph.checkpoint.sqlite",
    "DBOS": "dbos",
}


class Peer(msgspec.Struct):
    """One engine's run. `turns`, `cost` and `size` are the curves: turn number, median ms, bytes."""

    name: str
    settings: str
    turn: Timing
    late: Timing
    read: Timing | None
    ten: Timing | None
    turns: list[int]
    cost: list[float]
    size: list[int]


class Child:
    """An engine in its own process."""

    def __init__(self, name: str, folder: Path, url: str | None = None) -> None:
        self.name = name
        path = folder / f"peer-{list(ENGINES).index(name)}.db"
        if url is not None:
            path.write_text(url)
        self._errors = (folder / f"{path.stem}.stderr").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.engines", name, str(path)],
            cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        self.settings = str(self._answer())
        self.batches: list[list[float]] = []
        self.sizes: list[int] = []

    def ask(self, do: str, count: int = 1) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "count": count}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def step(self, count: int) -> None:
        self.batches.append(self.ask("turns", count))
        self.sizes.append(self.ask("size"))

    def close(self) -> None:
        self._process.communicate()
        self._errors.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"{self.name} failed:\n{self._errors.read()[-2000:]}")
        return json.loads(line)


def run(folder: Path, server: Server, sizes: Sizes) -> list[Peer]:
    names = [name for name in ENGINES if name in OURS or (sizes.peers and installed(name))]
    children = [Child(name, folder, _database(server, name)) for name in names]
    points = min(_POINTS, sizes.peer_turns)
    for number in range(points):
        turn = number % len(children)
        for child in children[turn:] + children[:turn]:
            child.step(sizes.peer_turns // points)
    reads = {"read": _by_turns(children, "read", sizes), "ten": _by_turns(children, "ten", sizes)}
    for child in children:
        child.close()
    return [_peer(child, reads) for child in children]


def measures(compared: list[Peer]) -> list[Measure]:
    """What there are targets for: ours beside one of the others."""
    held = {peer.name: peer for peer in compared}
    found = []
    for key, title, ours, theirs, number in _COMPARED:
        # What the others repeat in each turn has to grow first.
        if ours in held and theirs in held and (key != "saver_disk" or held[ours].turns[-1] >= 1_000):
            mine, base = number(held[ours]), number(held[theirs])
            if mine is not None and base is not None:
                unit = "MB" if key.endswith("disk") else "ms"
                turns = f" at turn {held[ours].turns[-1]:,}"
                found.append(Measure(key, title + turns, mine, base, theirs, unit))
    return found


def _size(peer: Peer) -> Timing:
    return Timing(peer.size[-1] / 1e6)


_COMPARED: list[tuple[str, str, str, str, Callable[[Peer], Timing | None]]] = [
    ("saver_read", "PostgreSQL: read the head", POSTGRES, SAVER, lambda peer: peer.read),
    ("saver_disk", "PostgreSQL: on disk", POSTGRES, SAVER, _size),
    ("dbos", "append", "takeback, append", "DBOS step, file set to WAL", lambda peer: peer.turn),
    ("pg_dbos", "PostgreSQL: append", POSTGRES, "DBOS step, PostgreSQL", lambda peer: peer.turn),
]


def _database(server: Server, name: str) -> str | None:
    """An engine on PostgreSQL has a database of its own."""
    if name not in ON_POSTGRES:
        return None
    database = f"peer_{list(ENGINES).index(name)}"
    server.sql(f"CREATE DATABASE {database}")
    return server.url(None, database=database)


def installed(name: str) -> bool:
    module = next((module for start, module in _NEEDS.items() if name.startswith(start)), None)
    try:
        return module is None or importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _by_turns(children: list[Child], do: str, sizes: Sizes) -> dict[str, list[float]]:
    able = [child for child in children if child.name.startswith(("takeback", "LangGraph", "a JSON"))]
    times: dict[str, list[float]] = {child.name: [] for child in able}
    for _ in range(sizes.peer_reads):
        for child in able:
            times[child.name] += child.ask(do)
    return times


def _peer(child: Child, reads: dict[str, dict[str, list[float]]]) -> Peer:
    read, ten = (timing(found[child.name]) if child.name in found else None for found in reads.values())
    per_batch = len(child.batches[0])
    late = [each for batch in child.batches[-max(1, len(child.batches) // 5) :] for each in batch]
    return Peer(
        child.name, child.settings, timing([each for batch in child.batches for each in batch]), timing(late),
        read, ten, [per_batch * (number + 1) for number in range(len(child.batches))],
        [timing(batch).p50 for batch in child.batches], child.sizes,
    )  # fmt: skip
