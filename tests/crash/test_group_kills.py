"""A process of eight threads of execution that is killed in the midst of their common transactions: what any
of them was told is there is there, once, and nothing is half there."""

from __future__ import annotations

import queue
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.stores import sound, writable

import takeback
from takeback.repo import Repo
from takeback.storage.base import Batch, Refusal, Storage
from takeback.storage.sqlite import SqliteStorage
from takeback.storage.wrappers import Wrapper
from takeback.testing.faults import Child, Kill, in_child

THREADS, TURNS = 8, 12


def work(child: Child, repo: Repo, number: int) -> None:
    """By turns a version of its own thread, and an item on a list that all append to."""
    mine, shared = repo.thread(f"t{number}"), repo.thread("shared")
    for turn in range(TURNS):
        made = mine.commit({"turn": turn}, reason=f"{number}/{turn}")
        child.say(["committed", number, made.version, made.id])
        shared.append("items", [number, turn])
        child.say(["appended", number, turn])


def life(child: Child, path: Path, opens: Callable[[Path], Repo]) -> None:
    with opens(path) as repo:
        storage: Storage = repo._ctx.storage
        while isinstance(storage, Wrapper):
            storage = storage.inner
        assert isinstance(storage, SqliteStorage)
        failures: list[BaseException] = []

        def one(number: int) -> None:
            try:
                work(child, repo, number)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(THREADS)]
        storage.point = child.point
        with child.armed():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert failures == []


def started(path: Path) -> None:
    with takeback.open(path) as repo:
        repo.thread("shared", initial={"items": []})
        for number in range(THREADS):
            repo.thread(f"t{number}", initial={"turn": -1})


def lost(path: Path, said: list[list[object]]) -> list[object]:
    """What was acknowledged and is not there; and the store is sound, without anything twice."""
    missing: list[object] = []
    with takeback.open(path) as repo:
        ids = [{row.version: row.id for row in repo.thread(f"t{n}").history()} for n in range(THREADS)]
        items = Counter((number, turn) for number, turn in repo.thread("shared").state["items"])
        assert set(items.values()) <= {1}
        for kind, number, *what in said:
            there = ids[number].get(what[0]) == what[1] if kind == "committed" else items[number, what[0]]  # type: ignore[index]  # a number
            if not there:
                missing.append([kind, number, *what])
        for number in range(THREADS):
            assert repo.thread(f"t{number}").state == {"turn": repo.thread(f"t{number}").version - 1}
        sound(repo)
        writable(repo)
    return missing


def points_of(path: Path) -> list[str]:
    started(path)
    points = in_child(lambda child: life(child, path, takeback.open)).points
    assert points.count("member") > points.count("commit"), "they never shared a transaction"
    return points


def killed(
    folder: Path, n: int, *, after: bool, opens: Callable[[Path], Repo] = takeback.open
) -> list[object]:
    path = folder / f"{n}-{after}.db"
    started(path)
    ended = in_child(lambda child: life(child, path, opens), Kill(n, after=after))
    assert ended.killed
    return lost(path, ended.said)


def sweep(folder: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    passed = len(points_of(folder / "whole.db"))
    for _ in range(count):
        assert killed(folder, rng.randrange(passed // 2), after=rng.random() < 0.5) == []


def test_killed_in_a_common_transaction(tmp_path: Path) -> None:
    sweep(tmp_path, 12, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 22))
def test_killed_in_common_transactions_again_and_again(tmp_path: Path, seed: int) -> None:
    sweep(tmp_path, 60, seed)


class Early(Wrapper):
    """Says that it is written, and writes it a moment later."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.later: queue.Queue[Batch] = queue.Queue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        while True:
            self.inner.apply(self.later.get())

    def apply(self, batch: Batch) -> Refusal | None:
        if batch.tenant == "default" and len(batch.rows) == 1:
            self.later.put(batch)
            return None
        return self.inner.apply(batch)


def test_a_store_that_answers_before_it_commits_is_found_out(store_path: Path) -> None:
    """Else the sweep would show nothing. Killed or not, the process ends before all of it is written."""

    def early(path: Path) -> Repo:
        return Repo(Early(takeback.open(path)._ctx.storage))

    started(store_path)
    ended = in_child(lambda child: life(child, store_path, early), Kill(150))
    assert lost(store_path, ended.said)
