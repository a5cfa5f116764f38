"""Memory on its way: exported, imported and copied with its threads, and what collection leaves of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import takeback
from takeback.repo import Repo
from takeback.testing.postgres import fresh_url

ANN = ("users", "ann")
BIG = {"text": "x" * 5_000, "n": list(range(2_000))}
PAIRS = [("memory", "file"), ("file", "postgres"), ("postgres", "memory")]


def embed(texts: list[str]) -> list[list[float]]:
    return [[float(text.count("x")), 1.0] for text in texts]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Repo]]:
    """Opens a new store of a kind."""
    made: list[Repo] = []
    clock = itertools.count(1_800_000_000_000_000)

    def opening(kind: str) -> Repo:
        url = {
            "memory": lambda: ":memory:",
            "file": lambda: str(tmp_path / f"{len(made)}.db"),
            "postgres": fresh_url,
        }[kind]()
        repo = takeback.open(url, durability="relaxed", clock=lambda: next(clock), actor="me", key=b"k" * 32)
        made.append(repo)
        return repo

    yield opening
    for repo in made:
        repo.close()


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, opened: Callable[[str], Repo]) -> tuple[Repo, Repo]:
    """From where to where."""
    one, two = request.param
    return opened(one), opened(two)


@pytest.fixture(params=["memory", "file", "postgres"])
def tb(request: pytest.FixtureRequest, opened: Callable[[str], Repo]) -> Repo:
    return opened(request.param)


def learned(tb: Repo) -> None:
    """A thread that wrote an item over somebody's, one with a large value and vectors, one that is deleted,
    and one that it took back."""
    tb.store.index(embed)
    tb.store.put(ANN, "city", "Bern", reason="long ago")
    thread = tb.thread("t", initial={"n": 0})
    with thread.step("learn", reason="she said so") as step:
        step.state["n"] = 1
        tb.store.put(ANN, "city", "Rome")
        tb.store.put(ANN, "big", BIG, ttl=3_600)
        tb.store.put(ANN, "gone", 1)
    with thread.step("forget"):
        tb.store.delete(ANN, "gone")
    with thread.step("wrong"):
        tb.store.put(ANN, "city", "Oslo")
    thread.undo()


def shown(tb: Repo) -> dict[str, Any]:
    return {item.key: item.value for item in tb.store.search("users", limit=None)}


def told(tb: Repo, key: str, thread: str | None = "t") -> list[tuple[Any, ...]]:
    """An item's history without its numbers, which each store gives itself."""
    return [
        (v.value, v.deleted, v.held, v.time, v.thread, v.checkpoint, v.step, v.reason, v.actor)
        for v in tb.store.history(ANN, key)
        if v.thread == thread
    ]


def whole(tb: Repo) -> None:
    """Nothing that verification finds."""
    assert tb.store.verify() == []
    for name in tb.threads():
        report = tb.thread(name.name).verify()
        assert report.ok, report.problems


# --- export and import


def test_an_export_brings_a_thread_s_memory(pair: tuple[Repo, Repo], tmp_path: Path) -> None:
    """Every version that the thread wrote, also those it took back; no others'. It goes back there too."""
    here, there = pair
    learned(here)
    here.export("t", tmp_path / "t.tbx")
    thread = there.import_(tmp_path / "t.tbx")
    assert shown(there) == {"city": "Rome", "big": BIG}
    for key in ("city", "big", "gone"):
        assert told(there, key) == told(here, key)
    assert told(there, "city", None) == []
    assert there.store.get(ANN, "big").expires == here.store.get(ANN, "big").expires  # type: ignore[union-attr]  # it is there
    there.store.index(embed)
    assert there.store.search("users", query="xx")[0].key == "big"
    whole(there)
    thread.redo()
    assert shown(there)["city"] == "Oslo"
    thread.rollback(0)
    assert shown(there) == {}


def test_an_import_does_not_cover_what_is_newer(pair: tuple[Repo, Repo], tmp_path: Path) -> None:
    """Versions come into their place by time: what was written here since still shows, what is older not."""
    here, there = pair
    there.store.put(ANN, "big", "older")
    learned(here)
    there.store.put(ANN, "city", "Paris")
    before = there.store.get(ANN, "city")
    here.export("t", tmp_path / "t.tbx")
    there.import_(tmp_path / "t.tbx", name="another")
    assert shown(there) == {"city": "Paris", "big": BIG}
    assert before is not None
    with pytest.raises(takeback.MemoryConflict):  # it was decided on before the import: looked at again
        there.store.put(ANN, "big", "x", expect=1)
    there.thread("another").rollback(0)
    assert shown(there) == {"city": "Paris", "big": "older"}
    whole(there)


def test_a_merged_fork_s_memory_comes_with_the_fork(pair: tuple[Repo, Repo], tmp_path: Path) -> None:
    """An export holds one thread's versions. With both, in either order, it is as it was."""
    here, there = pair
    thread = here.thread("t", initial={})
    fork = thread.fork(name="f")
    with fork.step() as step:
        step.state["x"] = 1
        here.store.put(ANN, "city", "Rome")
    thread.merge(fork)
    for name in ("t", "f"):
        here.export(name, tmp_path / name)
    there.import_(tmp_path / "t")
    assert shown(there) == {}
    there.import_(tmp_path / "f")
    assert shown(there) == shown(here) == {"city": "Rome"}
    whole(there)
    there.thread("t").undo()
    assert shown(there) == {}


# --- copy


def test_a_copy_brings_all_of_memory(pair: tuple[Repo, Repo]) -> None:
    """What threads wrote and what belongs to none; again it brings what came since, and nothing twice."""
    here, there = pair
    learned(here)
    report = here.copy(there)
    assert report.items == 6
    assert shown(there) == shown(here) == {"city": "Rome", "big": BIG}
    for key in ("city", "big", "gone"):
        for thread in ("t", None):
            assert told(there, key, thread) == told(here, key, thread)
    whole(there)
    with here.thread("t").step("more"):
        here.store.put(ANN, "city", "Wien")
    here.store.put(ANN, "loose", 1)
    here.copy(there)
    here.copy(there)
    assert shown(there) == shown(here)
    assert [v.value for v in there.store.history(ANN, "city")] == ["Wien", "Oslo", "Rome", "Bern"]
    whole(there)


def test_a_copied_fork_that_came_home(pair: tuple[Repo, Repo]) -> None:
    """The family comes together, so the ancestor takes back there what the fork wrote here."""
    here, there = pair
    thread = here.thread("t", initial={})
    fork = thread.fork(name="f")
    with fork.step() as step:
        step.state["x"] = 1
        here.store.put(ANN, "city", "Rome")
    thread.merge(fork)
    here.copy(there, threads=["t"])
    assert shown(there) == {"city": "Rome"}
    there.thread("t").undo()
    assert shown(there) == {}
    assert shown(here) == {"city": "Rome"}


def test_a_copy_brings_what_deleted_threads_left(pair: tuple[Repo, Repo]) -> None:
    here, there = pair
    learned(here)
    here.thread("t").delete()
    here.copy(there)
    assert shown(there) == shown(here) == {"city": "Rome", "big": BIG}
    assert there.store.verify() == []


# --- collection


def test_collection_keeps_what_memory_rests_on(tb: Repo) -> None:
    """Also what was taken back, and what a deleted thread left; the thread's own state goes."""
    learned(tb)
    thread = tb.thread("t")
    thread.patch({"scratch": [f"{n} of many" for n in range(5_000)]})
    before = tb.info().details["objects"]
    tb.gc(grace=0)
    assert tb.info().details["objects"] == before
    thread.delete()
    tb.gc(grace=0)
    assert tb.info().details["objects"] < before
    assert shown(tb) == {"city": "Rome", "big": BIG}
    assert [v.value for v in tb.store.history(ANN, "city")] == ["Oslo", "Rome", "Bern"]
    tb.store.index(embed)
    assert tb.store.search("users", query="xx")[0].key == "big"
    assert tb.store.verify() == []
