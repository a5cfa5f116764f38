"""A collection beside writers, and one that is killed: nothing that a version needs is ever gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.stores import copy, holds, incompressible, sound, together, writable

import takeback
from takeback.engine import retention
from takeback.repo import Repo
from takeback.storage.base import Objects
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Child, Kill, in_child

BATCH = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with something to keep and something to remove, closed."""
    folder = tmp_path_factory.mktemp("collecting")
    with takeback.open(folder / "before.db", actor="setup") as repo:
        kept = repo.thread("kept", initial={"n": 0})
        for number in range(4):
            kept.commit({"text": incompressible(6_000, number)})
        for number in range(3):
            state = {"texts": [incompressible(9_000, number * 10 + n) for n in range(4)]}
            repo.thread(f"gone{number}", initial=state).delete()
    return folder


def collecting(child: Child, path: Path) -> None:
    with takeback.open(path) as repo:
        storage = repo._ctx.storage
        assert isinstance(storage, SqliteStorage)
        storage.point = child.point
        with child.armed():
            done = retention.collect(repo._ctx, grace=0, batch=BATCH)
        child.say(done.removed)


def test_killed_at_every_labelled_point(folder: Path) -> None:
    """The next collection removes what is left, and no version misses anything in between."""
    path = copy(folder / "before.db", folder)
    with takeback.open(path) as repo:
        before = holds(repo)
    life = in_child(lambda child: collecting(child, path))
    assert {"NewEpoch", "Forget"} <= set(life.points)
    assert life.said[0] >= 12
    with takeback.open(path) as repo:
        alone = len(repo._ctx.storage.find("default", Objects(limit=1000)))
    for n in range(len(life.points)):
        path = copy(folder / "before.db", folder)
        assert in_child(lambda child, path=path: collecting(child, path), Kill(n, after=n % 2 == 1)).killed
        with takeback.open(path) as repo:
            assert holds(repo) == before
            sound(repo)
            retention.collect(repo._ctx, grace=0, batch=BATCH)
            assert len(repo._ctx.storage.find("default", Objects(limit=1000))) == alone
            writable(repo)


def churn(child: Child, repo: Repo, number: int, rounds: int) -> None:
    """Two collect; the others make and delete threads, bring back states that others have just deleted, and
    roll back to what they do not write again."""
    if number < 2:
        for _ in range(rounds * 2):
            retention.collect(repo._ctx, grace=0, batch=3)
        child.say("collected")
        return
    own = repo.thread(f"own{number}", initial={})
    for turn in range(rounds * 4):
        state = {"texts": [incompressible(4_000, n) for n in range(turn % 5)]}
        own.commit(state)
        own.commit({"turn": turn})
        own.rollback(own.version - 1)
        assert own.state == state
        repo.thread(f"t{number}-{turn}", initial=state | {"x": 1}).delete()
    child.say("wrote")


def race(path: Path, rounds: int) -> None:
    with takeback.open(path):
        pass
    lives = together(
        4, lambda: takeback.open(path, durability="relaxed"), lambda c, r, n: churn(c, r, n, rounds)
    )
    assert [life.said for life in lives] == [["collected"], ["collected"], ["wrote"], ["wrote"]]
    with takeback.open(path) as repo:
        sound(repo)
        retention.collect(repo._ctx, grace=0)
        sound(repo)


def test_two_collections_beside_two_writers(tmp_path: Path) -> None:
    race(tmp_path / "store.db", rounds=6)


@pytest.mark.soak
def test_two_collections_beside_two_writers_for_long(tmp_path: Path) -> None:
    for number in range(20):
        race(tmp_path / f"store{number}.db", rounds=20)


def test_a_race_that_ignores_epochs_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep can fail: where objects go whatever epoch they have, a version misses something."""
    path = tmp_path / "store.db"
    state = {"a": incompressible(9_000)}
    with takeback.open(path) as repo:
        repo.thread("gone", initial=state).delete()
        thread = repo.thread("t", initial={})
        sql = repo._ctx.storage._sql  # type: ignore[attr-defined]  # the SQLite backend's own
        monkeypatch.setitem(sql, "forget_object", sql["forget_object"].replace("epoch < ?", "0 < ?"))
        look = retention._marked

        def late(*given: object) -> set[bytes]:
            live = look(*given)  # type: ignore[arg-type]  # passed on as they came
            thread.commit(state)
            return live

        monkeypatch.setattr(retention, "_marked", late)
        retention.collect(repo._ctx, grace=-(2**30))
        assert not repo.thread("t").verify().ok
