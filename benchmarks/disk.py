"""What a thread takes on disk: the file once the store is closed, and nothing is left beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import takeback
from benchmarks import data
from benchmarks.measure import Measure, amount
from benchmarks.sizes import Sizes
from benchmarks.writes import bytes_of_moves

_MB = 1e6


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    turns = f"{sizes.turns:,} turns × 1 KB"
    yield amount("disk_append", f"{turns}, appended", appended(folder, sizes.turns) / _MB, "MB")
    yield amount("disk_commit", f"{turns}, whole states", committed(folder, sizes.turns) / _MB, "MB")
    yield from bytes_of_moves(folder, sizes)


def appended(folder: Path, turns: int) -> int:
    path = folder / "disk-append.db"
    with takeback.open(path) as repo:
        thread = repo.thread("talk", initial={"messages": []})
        for number in range(turns):
            thread.append("messages", data.message(number))
    return on_disk(path)


def committed(folder: Path, turns: int) -> int:
    path = folder / "disk-commit.db"
    held: list[data.Message] = []
    with takeback.open(path) as repo:
        thread = repo.thread("talk")
        for number in range(turns):
            held.append(data.message(number))
            thread.commit({"messages": held})
    return on_disk(path)


def on_disk(path: Path) -> int:
    """The file and all that lies beside it under its name."""
    return sum(each.stat().st_size for each in path.parent.glob(path.name + "*"))
