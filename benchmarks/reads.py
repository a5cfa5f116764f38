"""Reading: a state of 1 MB, cold and warm, and the difference of two of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack

import takeback
from benchmarks import data, fresh
from benchmarks.measure import Measure, Work, interleave, timing
from benchmarks.raw import Raw
from benchmarks.sizes import Sizes
from takeback.model import canonical

_PLAIN = "one row, decoded"


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    yield from cold(folder, sizes)
    with takeback.open(folder / "reads.db") as repo:
        thread = repo.thread("big", initial=_state(sizes, "before"))
        thread.commit(_state(sizes, "after"))
        yield warm(thread, folder, sizes)
        yield diff(repo, sizes)


def cold(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    """In processes of their own; the operating system has the file in memory."""
    fresh.prepare(folder, sizes.items)
    found = [fresh.run("read", folder, sizes.items) for _ in range(sizes.fresh)]
    times = {name: timing([each[name] for each in found]) for name in ("open", "ours", "raw")}
    yield Measure("open", "open a store, first in a process", times["open"])
    yield Measure("read_cold", "read 1 MB, first in a process", times["ours"], times["raw"], _PLAIN)


def warm(thread: takeback.Thread[Any], folder: Path, sizes: Sizes) -> Measure:
    """Two versions by turns: a handle keeps the state that it showed last, and that would cost nothing."""
    raw = Raw(folder / "reads-raw.db")
    raw.insert(canonical.encode(_state(sizes, "before")))
    versions = itertools.cycle((0, 1))
    works = {
        "ours": Work(lambda version: thread.at(version).state["messages"][0], lambda: next(versions)),
        "raw": Work(lambda _: ormsgpack.unpackb(raw.last())),
    }
    found = interleave(works, rounds=sizes.big_rounds, batch=sizes.batch, warm=sizes.batch)
    raw.close()
    return Measure("read_warm", "read 1 MB, warm", found["ours"], found["raw"], _PLAIN)


def diff(repo: takeback.Repo, sizes: Sizes) -> Measure:
    """1,000 keys of 1 KB, of which one changed."""
    thread = repo.thread("keys", initial={f"key-{n}": data.text(1000, n) for n in range(sizes.items)})
    thread.patch({"key-7": data.text(1000, sizes.items)})
    assert len(thread.diff(0, 1).changes) == 1
    works = {"ours": Work(lambda _: thread.diff(0, 1).changes)}
    found = interleave(works, rounds=sizes.big_rounds, batch=sizes.batch, warm=sizes.batch)
    return Measure("diff", "diff, one key of 1 MB", found["ours"])


def _state(sizes: Sizes, plan: str) -> dict[str, object]:
    return {"goal": data.text(60, 1), "messages": data.messages(sizes.items), "plan": plan}
