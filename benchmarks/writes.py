"""Writing: commits, appends, whole states, rollbacks and forks, each beside a raw insert."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import takeback
from benchmarks import data, fresh
from benchmarks.measure import Measure, Timing, Work, amount, interleave, timing
from benchmarks.raw import Raw
from benchmarks.sizes import Sizes
from takeback.model import canonical

_RECORD = 300  # bytes: about what the record of a rollback takes


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    with takeback.open(folder / "writes.db") as repo:
        raw = Raw(folder / "writes-raw.db")
        yield commit(repo, raw, sizes)
        yield sustained(repo, raw, sizes)
        yield from appends(repo, raw, sizes)
        yield whole_state(repo, raw, sizes)
        yield from moves(repo, raw, sizes)
        raw.close()
    yield first_commit(folder, sizes)
    yield agents(folder, sizes)


def commit(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Measure:
    works = {"ours": committing(repo), "raw": raw.inserting(small())}
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    return Measure("commit", "commit 2 KB", found["ours"], found["raw"])


def sustained(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Measure:
    """Long runs without a pause: what is moved into the file meanwhile competes with the commits."""
    works = {"ours": committing(repo), "raw": raw.inserting(small())}
    found = interleave(works, rounds=6, batch=sizes.sustained // 6, warm=0)
    return Measure("sustained", "commit 2 KB, without pause", found["ours"], found["raw"])


def appends(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Iterator[Measure]:
    works = {
        "few": appending(repo, sizes.items),
        "many": appending(repo, sizes.many_items),
        "raw": raw.inserting(canonical.encode(data.message(0))),
    }
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    few, many = f"{sizes.items:,}", f"{sizes.many_items:,}"
    yield Measure("append", f"append 1 KB at {few} items", found["few"], found["raw"])
    yield Measure("append_many", f"append 1 KB at {many} items", found["many"], found["raw"])
    yield Measure(
        "append_growth", f"append 1 KB at {many} items", found["many"], found["few"], f"at {few} items"
    )


def whole_state(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Measure:
    """A commit of 1 MB of which one message is new. Raw inserts that message alone."""
    held = data.messages(sizes.items)
    thread = repo.thread("whole", initial={"messages": held})
    numbers = itertools.count(sizes.items)

    def longer() -> dict[str, Any]:
        held.append(data.message(next(numbers)))
        return {"messages": held}

    works = {
        "ours": Work(thread.commit, longer),
        "raw": raw.inserting(canonical.encode(data.message(0))),
    }
    found = interleave(works, rounds=sizes.big_rounds, batch=sizes.batch, warm=sizes.batch)
    return Measure("whole", "commit 1 MB, one message more", found["ours"], found["raw"])


def first_commit(folder: Path, sizes: Sizes) -> Measure:
    """The same as the first act of a process."""
    fresh.prepare(folder, sizes.items)
    found = [fresh.run("commit", folder, sizes.items + number) for number in range(sizes.fresh)]
    return Measure(
        "whole_first", "the same, first in a process",
        timing([each["ours"] for each in found]), timing([each["raw"] for each in found]),
    )  # fmt: skip


def moves(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Iterator[Measure]:
    thread = repo.thread("moved", initial=data.small_state(0))
    for step in (1, 2, 3):
        thread.commit(data.small_state(step))
    targets = itertools.cycle((1, 2))
    works = {
        "rollback": Work(thread.rollback, lambda: next(targets)),
        "fork": Work(lambda _: thread.fork(1)),
        "raw": raw.inserting(bytes(_RECORD)),
    }
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    yield Measure("rollback", "rollback", found["rollback"], found["raw"])
    yield Measure("fork", "fork", found["fork"], found["raw"])


def agents(folder: Path, sizes: Sizes) -> Measure:
    """Commits a second of several threads of execution, each on an agent's own thread, against one."""
    with takeback.open(folder / "agents.db") as repo:
        speeds: dict[int, list[float]] = {1: [], sizes.agents: []}
        for _ in range(5):
            for count, found in speeds.items():
                works = [committing(repo, f"agent-{number}") for number in range(count)]
                found.append(speed(works, sizes.agent_commits))
    one, many = (Timing(sorted(found)[len(found) // 2]) for found in speeds.values())
    title = f"commits a second, {sizes.agents} agents"
    return Measure("agents", title, many, one, "one agent", "/s")


def bytes_of_moves(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    for name, move in (("rollback", lambda t, n: t.rollback(n % 2)), ("fork", lambda t, _: t.fork(1))):
        grown = _growth(folder / f"bytes-{name}.db", move, sizes.moves)
        yield amount(f"{name}_bytes", f"{name}, on disk", grown, "B")


def committing(repo: takeback.Repo, name: str = "small") -> Work:
    thread = repo.thread(name)
    steps = itertools.count(thread.version if thread.exists else 0)
    return Work(thread.commit, lambda: data.small_state(next(steps)))


def appending(repo: takeback.Repo, count: int) -> Work:
    thread = repo.thread(f"append-{count}", initial={"messages": data.messages(count)})
    numbers = itertools.count(count)
    return Work(lambda item: thread.append("messages", item), lambda: data.message(next(numbers)))


def small() -> bytes:
    return canonical.encode(data.small_state(0))


def speed(works: list[Work], commits: int) -> float:
    def loop(work: Work, states: list[Any]) -> None:
        for state in states:
            work.act(state)

    states = [[work.prepare() for _ in range(commits)] for work in works]
    threads = [threading.Thread(target=loop, args=each) for each in zip(works, states, strict=True)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(works) * commits / (time.perf_counter() - began)


def _growth(path: Path, move: Callable[[Any, int], object], count: int) -> float:
    """What the closed file grew by for each move."""
    with takeback.open(path) as repo:
        thread = repo.thread("moved", initial=data.small_state(0))
        thread.commit(data.small_state(1))
    before = path.stat().st_size
    with takeback.open(path) as repo:
        thread = repo.thread("moved")
        for number in range(count):
            move(thread, number)
    return (path.stat().st_size - before) / count
