"""Conversations that grow, with all engines by turns: what a turn costs and what the file takes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.engines import ENGINES, OURS
from benchmarks.fresh import ROOT
from benchmarks.measure import Timing, timing
from benchmarks.sizes import Sizes

_POINTS = 25
_NEEDS = {"LangGraph": "langgraph.checkpoint.sqlite", "DBOS": "dbos"}


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

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        path = folder / f"peer-{list(ENGINES).index(name)}.db"
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


def run(folder: Path, sizes: Sizes) -> list[Peer]:
    names = [name for name in ENGINES if name in OURS or (sizes.peers and installed(name))]
    children = [Child(name, folder) for name in names]
    points = min(_POINTS, sizes.peer_turns)
    for number in range(points):
        turn = number % len(children)
        for child in children[turn:] + children[:turn]:
            child.step(sizes.peer_turns // points)
    reads = {"read": _by_turns(children, "read", sizes), "ten": _by_turns(children, "ten", sizes)}
    for child in children:
        child.close()
    return [_peer(child, reads) for child in children]


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
