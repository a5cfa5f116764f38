"""The head of a thread is one register, whoever reads and writes it from whichever process: every recorded
history has an order that explains it. The checker is tried on histories that have none, and on stores that
are broken on purpose."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.linearizable import Operation, explained, pending, read, swap
from tests.crash.stores import together

import takeback
from takeback.errors import Conflict
from takeback.model.records import Checkpoint, ThreadInfo
from takeback.repo import Repo
from takeback.storage import connect
from takeback.storage.base import Storage
from takeback.storage.postgres import PostgresStorage
from takeback.storage.sqlite import SqliteStorage
from takeback.storage.wrappers import Wrapper
from takeback.testing.faults import Child, Kill
from takeback.testing.postgres import fresh_url

# --- the checker


GOOD: dict[str, list[Operation]] = {
    "nothing": [],
    "one after the other": [read(0, 1, "a"), swap(2, 3, "a", "b", True), read(4, 5, "b")],
    "a read beside a swap sees what was": [swap(0, 9, "a", "b", True), read(1, 2, "a"), read(3, 4, "b")],
    "a swap that was refused for one beside it": [swap(0, 5, "a", "b", True), swap(1, 6, "a", "c", False)],
    "a lost swap that happened": [pending(0, "a", "b"), read(5, 6, "a"), read(7, 8, "b")],
    "a lost swap that did not": [pending(0, "a", "b"), swap(5, 6, "a", "c", True), read(7, 8, "c")],
    "a lost swap between two refusals": [
        pending(0, "b", "a"), swap(1, 2, "a", "b", True), swap(3, 9, "a", "c", False), read(10, 11, "a")
    ],
}  # fmt: skip

BAD: dict[str, list[Operation]] = {
    "a value that nobody wrote": [read(0, 1, "z")],
    "a stale read": [swap(0, 1, "a", "b", True), read(2, 3, "a")],
    "a read that goes back": [swap(0, 9, "a", "b", True), read(1, 2, "b"), read(3, 4, "a")],
    "two swaps from one value": [swap(0, 5, "a", "b", True), swap(1, 6, "a", "c", True)],
    "a refusal without a reason": [swap(0, 1, "a", "b", False), read(2, 3, "a")],
    "a read before the swap began": [read(0, 1, "b"), swap(2, 3, "a", "b", True)],
    "two readers who disagree on the order": [
        swap(0, 20, "a", "b", True), swap(0, 20, "b", "c", True), read(1, 2, "c"), read(3, 4, "b")
    ],
    "a lost swap that came and went": [pending(0, "a", "b"), read(1, 2, "b"), read(3, 4, "a")],
    "a lost swap seen before its call": [read(0, 1, "b"), pending(2, "a", "b")],
    "an acknowledged swap that is gone": [
        swap(0, 1, "a", "b", True), swap(2, 3, "a", "c", True), read(4, 5, "c")
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_the_checker_explains(name: str) -> None:
    assert explained(GOOD[name], "a")


@pytest.mark.parametrize("name", BAD)
def test_the_checker_rejects(name: str) -> None:
    assert not explained(BAD[name], "a")


def played(rng: random.Random, length: int) -> list[Operation]:
    """A history of a register that works: each operation happens at some moment between call and return."""
    state, history = "0", []
    for index in range(length):
        at = float(index)
        called, returned = at - rng.random() * 4, at + rng.random() * 4
        expected = rng.choice([state, "0", str(index - 1)])
        if rng.random() < 0.5:
            history.append(read(called, returned, state))
            continue
        done = expected == state
        history.append(swap(called, returned, expected, str(index), done))
        state = str(index) if done else state
    return history


def test_the_checker_explains_what_a_register_does() -> None:
    rng = random.Random(11)
    for _ in range(300):
        assert explained(played(rng, 14), "0")


def test_the_checker_rejects_a_register_that_forgets() -> None:
    """Acknowledged swaps turned into refusals that had no reason, and the other way: most leave no order."""
    rng, rejected = random.Random(12), 0
    for _ in range(200):
        history = played(rng, 14)
        swaps = [index for index, one in enumerate(history) if one.kind == "swap"]
        if swaps:
            index = rng.choice(swaps)
            history[index] = history[index]._replace(done=not history[index].done)
            rejected += not explained(history, "0")
    assert rejected > 150


# --- processes


Opens = Callable[[str], Repo]
Makes = Callable[[int], str]  # where the store of a round may be made


def record(child: Child, repo: Repo, seed: int, turns: int) -> None:
    """Read the head or swap it, by turns; say what was seen, and between which two moments."""
    rng = random.Random(seed)
    thread = repo.thread("t")
    for turn in range(turns):
        called = time.monotonic_ns()
        if rng.random() < 0.4:
            thread.refresh()
            child.say(["read", called, time.monotonic_ns(), thread.head.id])
            continue
        expected, mark = thread.head.id, f"{os.getpid()}/{turn}"
        child.say(["calls", called, expected, mark])
        try:
            made: Checkpoint | None = thread.commit({"by": mark}, reason=mark)
        except Conflict:
            made = None
        returned = time.monotonic_ns()
        child.say(["swap", called, returned, expected, mark, made and made.id])
        if made is None and rng.random() < 0.8:
            called = time.monotonic_ns()
            thread.refresh()
            child.say(["read", called, time.monotonic_ns(), thread.head.id])


def history_of(path: str, opens: Opens, *, seed: int, killed: bool) -> list[Operation]:
    """What four processes saw, one of them perhaps killed on the way; and what is there in the end."""

    def work(child: Child, repo: Repo, number: int) -> None:
        if not (killed and number == 0):
            return record(child, repo, seed * 100 + number, 8)
        storage = repo._ctx.storage
        assert isinstance(storage, (SqliteStorage, PostgresStorage))
        storage.point = child.point
        with child.armed():
            return record(child, repo, seed * 100 + number, 1_000)

    kills = {0: Kill(random.Random(seed).randrange(2, 20))} if killed else {}
    lives = together(4, lambda: opens(path), work, kills)
    assert lives[0].killed == killed
    with takeback.open(path) as repo:
        ids = {row.reason: row.id for row in repo.thread("t").history()}
        last = read(time.monotonic_ns(), time.monotonic_ns(), repo.thread("t").head.id)
    return [*(one for life in lives for one in operations(life.said, ids)), last]


def operations(said: list[Any], ids: dict[str | None, str]) -> list[Operation]:
    """What one process said, as operations; the last call, if it was not heard of again, as a pending one."""
    found, open_call = [], None
    for kind, *what in said:
        if kind == "read":
            found.append(read(*what))
        elif kind == "calls":
            open_call = what
        else:
            called, returned, expected, mark, made = what
            open_call = None
            # Of a refused swap nobody knows what it would have written: a value that is nowhere else.
            found.append(swap(called, returned, expected, made or f"refused {mark}", made is not None))
    if open_call is not None:
        called, expected, mark = open_call
        found.append(pending(called, expected, ids.get(mark, f"lost {mark}")))
    return found


def started(path: str) -> str:
    with takeback.open(path) as repo:
        return repo.thread("t", initial={"by": "nobody"}).head.id


def explained_rounds(
    makes: Makes, opens: Opens, *, rounds: int, seed: int, killed: bool = False
) -> list[bool]:
    answers = []
    for number in range(rounds):
        path = makes(number)
        initial = started(path)
        history = history_of(path, opens, seed=seed + number, killed=killed)
        answers.append(explained(history, initial))
    return answers


@pytest.fixture(params=["file", "postgres"])
def makes(request: pytest.FixtureRequest, tmp_path: Path) -> Makes:
    return makers(tmp_path)[request.param]


def makers(folder: Path) -> dict[str, Makes]:
    return {"file": lambda number: str(folder / f"{number}.db"), "postgres": lambda number: fresh_url()}


@pytest.mark.parametrize("killed", [False, True])
def test_the_head_is_one_register(makes: Makes, killed: bool) -> None:
    assert all(explained_rounds(makes, takeback.open, rounds=15, seed=1, killed=killed))


@pytest.mark.soak
@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("seed", range(1_000, 11_000, 1_000))
def test_the_head_is_one_register_in_many_rounds(makes: Makes, killed: bool, seed: int) -> None:
    assert all(explained_rounds(makes, takeback.open, rounds=100, seed=seed, killed=killed))


# --- stores that are broken on purpose


class Stale(Wrapper):
    """Serves a head that it read a while ago."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.remembered: tuple[ThreadInfo, Checkpoint] | None = None
        self.served = 0

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        self.served += 1
        if self.remembered is None or self.served % 6 == 0:
            self.remembered = super().thread(tenant, name)
        return self.remembered


def stale(path: str) -> Repo:
    return Repo(Stale(connect(path)))


def unguarded(path: str) -> Repo:
    """A head that moves wherever it was, over what another process wrote at the same version."""
    storage = connect(path)
    assert isinstance(storage, SqliteStorage)
    guard, anything = "AND head = ? AND head_digest = ?", "AND ? >= 0 AND ? IS NOT NULL"
    assert guard in storage._sql["move_head"]
    storage._sql = storage._sql | {
        "move_head": storage._sql["move_head"].replace(guard, anything),
        "new_checkpoint": storage._sql["new_checkpoint"].replace("INSERT", "INSERT OR REPLACE", 1),
    }
    return Repo(storage)


def unguarded_on_a_server(path: str) -> Repo:
    """The same on PostgreSQL, where the row that was there before stays."""
    storage = connect(path)
    assert isinstance(storage, PostgresStorage)
    guard, anything = "AND head_digest = %(previous)s", "AND %(previous)s::bytea IS NOT NULL"
    commit = storage._sql["commit"]
    assert guard in commit
    assert "AND head = %(version)s - 1" in commit
    commit = commit.replace(guard, anything).replace("AND head = %(version)s - 1", "")
    storage._sql["commit"] = commit + " ON CONFLICT DO NOTHING RETURNING version"
    return Repo(storage)


@pytest.mark.parametrize(
    ("where", "opens"),
    [("file", stale), ("file", unguarded), ("postgres", stale), ("postgres", unguarded_on_a_server)],
)
def test_a_broken_store_is_found_out(tmp_path: Path, where: str, opens: Opens) -> None:
    answers = explained_rounds(makers(tmp_path)[where], opens, rounds=12, seed=50)
    assert False in answers
