"""A process that is killed before or after any labelled place of any kind of write, and between any two
calls to the disk: what was acknowledged is there, what was not is there wholly or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from tests.crash.stores import copy, holds, incompressible, on, sound, writable

import takeback
from takeback import errors
from takeback.adapters.langgraph import TakebackSaver
from takeback.engine import retention
from takeback.repo import Repo
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Child, ChildFailed, Disk, Kill, in_child

AT = "1ef00000-0000-6000-8000-000000000002"  # a checkpoint of the graph that is yet to come
GRAPH: Any = {"configurable": {"thread_id": "graph", "checkpoint_ns": "", "checkpoint_id": AT}}
Act = Callable[[Repo, Path], Any]


def _spill(repo: Repo, _: Path) -> None:
    """More than the page cache holds: frames are in the write-ahead file before the commit begins."""
    storage = repo._ctx.storage
    assert isinstance(storage, SqliteStorage)
    storage._connections.writer().execute("PRAGMA cache_size = 5")
    repo.thread("main").commit({"much": [incompressible(9_000, seed) for seed in range(40)]})


def _step(repo: Repo, _: Path) -> None:
    with repo.thread("main").step("book") as step:
        step.state["to"] = "NYC"


def _broken(receipt: str) -> None:
    raise errors.NotDone(f"{receipt} cannot be cancelled now")


@takeback.tool(name="kill_points_booking", undo=_broken, requires_approval=True)
def _booking(receipt: str) -> str:
    return receipt


@takeback.tool("transactional", name="kill_points_note", undo=lambda text: None)
def _note(text: str) -> str:
    return text


def _fill_a_ledger(repo: Repo) -> None:
    """A call that waits for a yes, a note written in the store's own transaction, and a plan that stopped."""
    asking = repo.thread("asking", agent="agent", initial={})
    with pytest.raises(errors.ApprovalRequired), asking.step("book"):
        _booking("one")
    with repo.thread("noted", initial={}).step("note"):
        _note("hello")
    paused = repo.thread("paused", initial={})
    for _ in range(2):
        try:
            with paused.step("book"):
                _booking("two")
        except errors.ApprovalRequired as asked:
            asked.approval.grant(actor="ada")
    with pytest.raises(errors.PlanPaused):
        paused.plan_undo().apply()


def _remember(repo: Repo, _: Path) -> None:
    with repo.thread("remembers").step("learn") as step:
        step.state["n"] = 2
        repo.store.put("users", "ann", {"text": incompressible(9_000, 2)})
        repo.store.put("users", "cy", "short", expect=None)


def _graph_writes(repo: Repo, _: Path) -> None:
    TakebackSaver(repo).put_writes(GRAPH, [("items", incompressible(9_000, 5)), ("n", 3)], "second")


def _fill_a_graph(repo: Repo) -> None:
    """Two checkpoints of a graph, and what a task wrote at the newest."""
    saver, config = TakebackSaver(repo), GRAPH
    for number in (1, 2):
        checkpoint = empty_checkpoint() | {"channel_values": {"n": number}, "channel_versions": {"n": number}}
        config = saver.put(config, checkpoint, {"source": "loop", "step": number}, {"n": number})
    saver.put_writes(GRAPH, [("n", 2)], "first")


ACTS: dict[str, Act] = {
    "thread": lambda repo, _: repo.thread("new").commit({"a": 1}),
    "initial": lambda repo, _: repo.thread("new", initial={"a": list(range(50))}),
    "commit": lambda repo, _: repo.thread("main").commit({"a": 2}),
    "commit of many objects": lambda repo, _: repo.thread("main").commit(
        {"much": [incompressible(9_000, seed) for seed in range(12)]}
    ),
    "commit larger than the cache": _spill,
    "append": lambda repo, _: repo.thread("full leaf").append(
        "/items", item(len(repo.thread("full leaf").state["items"]))
    ),
    "patch": lambda repo, _: repo.thread("main").patch({"to": "NYC"}),
    "step": _step,
    "rollback": lambda repo, _: repo.thread("main").rollback(1),
    "undo": lambda repo, _: repo.thread("main").undo(),
    "redo": lambda repo, _: repo.thread("undone").redo(),
    "revert": lambda repo, _: repo.thread("main").revert(2),
    "fork": lambda repo, _: repo.thread("main").fork(1, "fork"),
    "merge": lambda repo, _: repo.thread("main").merge("side"),
    "label": lambda repo, _: repo.thread("main").label("good", 1),
    "unlabel": lambda repo, _: repo.thread("main").unlabel("old"),
    "seal": lambda repo, _: repo.thread("main").seal().version,
    "delete": lambda repo, _: repo.thread("main").delete(reason="gone"),
    "import": lambda repo, folder: repo.import_(folder / "brought.tbx", name="brought"),
    "budget": lambda repo, _: repo.thread("noted").budget({"money": 5}),
    "grant": lambda repo, _: repo.thread("asking").approval(1).grant(actor="ada"),
    "undo of a note": lambda repo, _: repo.thread("noted").undo_effect(1),
    "prune": lambda repo, _: retention.prune(
        repo._ctx, repo.thread("main").info, retention.Pruning([(0, 1)], 0, 0), "no space"
    ),
    "remember": _remember,
    "remember at once": lambda repo, _: repo.store.put("users", "bob", incompressible(9_000, 1)),
    "forget": lambda repo, _: repo.thread("remembers").undo(),
    "remember for longer": lambda repo, _: repo.store.get("users", "soon", refresh=True),
    "delete what remembers": lambda repo, _: repo.thread("remembers").delete(),
    "fork with files": lambda repo, _: repo.thread("filed").fork(1, "filed too"),
    "a graph's writes": _graph_writes,
    "a graph is pruned": lambda repo, _: TakebackSaver(repo).prune(["graph"]),
    "abort": lambda repo, _: repo.recover(settle=False).plans[0].abort("enough"),
}

WRITES_OBJECTS = {"thread", "initial", "commit", "commit of many objects", "commit larger than the cache",
                  "append", "patch", "step", "revert", "merge", "import", "remember",
                  "remember at once"}  # fmt: skip


def points_of(name: str, folder: Path) -> list[str]:
    """The labelled places that the act passes when nobody kills it."""
    life = in_child(lambda child: run(child, ACTS[name], copy(folder / "before.db", folder), folder))
    assert life.said == ["done"]
    return life.points


def run(child: Child, act: Act, path: Path, folder: Path) -> None:
    with takeback.open(path, actor="crash") as repo:
        storage = repo._ctx.storage
        assert isinstance(storage, SqliteStorage)
        storage.point = child.point
        with child.armed():
            act(repo, folder)
        child.say("done")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a thread for each kind of write, closed; and a file to import."""
    folder = tmp_path_factory.mktemp("kill")
    with takeback.open(folder / "other.db") as repo:
        brought = repo.thread("brought", initial={"n": 0})
        for number in range(1, 4):
            brought.commit({"n": number, "text": incompressible(6_000, number)})
        brought.label("second", 2)
        repo.export("brought", folder / "brought.tbx")
    with takeback.open(folder / "before.db", actor="setup") as repo:
        main = repo.thread("main", initial={"to": "LON"})
        main.patch({"seat": "1A"})
        side = main.fork("head", "side")
        side.patch({"hotel": "Ritz"})
        main.patch({"meal": "fish"})
        main.label("old", 0)
        repo.thread("undone", initial={"n": 0}).commit({"n": 1})
        repo.thread("undone").undo()
        with repo.thread("remembers", initial={"n": 0}).step("learn") as step:
            step.state["n"] = 1
            repo.store.put("users", "ann", "first")
        repo.store.put("users", "soon", "over", ttl=10**8)
        project = folder / "project"
        project.mkdir()
        (project / "a.txt").write_text("text")
        filed = repo.thread("filed", initial={})
        filed.workspace(project)
        filed.capture()
        filed.commit({"n": 1})
        fill_a_leaf(repo)
        _fill_a_graph(repo)
        _fill_a_ledger(repo)
    return folder


def item(number: int) -> dict[str, str]:
    """Short enough to stand in its leaf: only the append that closes the leaf writes a second object."""
    return {"text": incompressible(200, number)}


def fill_a_leaf(repo: Repo) -> None:
    """Append until the next item closes a leaf: known from a thread that goes one further."""
    probe = repo.thread("probe", initial={"items": []})
    for number in range(400):
        held = repo.info().details["objects"]
        probe.append("/items", item(number))
        if repo.info().details["objects"] - held > 1:
            break
    else:
        raise AssertionError("no append ever closed a leaf")
    repo.thread("full leaf", initial={"items": []}).extend("/items", [item(n) for n in range(number)])


def outcome(folder: Path, name: str, kill: Kill) -> tuple[list[Any], dict[str, Any], Path]:
    path = copy(folder / "before.db", folder)
    life = in_child(lambda child: run(child, ACTS[name], path, folder), kill)
    assert life.killed, f"{name}: the sweep passed point {kill.n} without a kill"
    with takeback.open(path) as repo:
        found = holds(repo)
        sound(repo)
        writable(repo)
    return life.said, found, path


def before_and_after(folder: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    path = copy(folder / "before.db", folder)
    with takeback.open(path, actor="crash") as repo:
        before = holds(repo)
        ACTS[name](repo, folder)
        return before, holds(repo)


def chosen(points: list[str]) -> list[int]:
    """The first and the last place of each label."""
    last = {label: index for index, label in enumerate(points)}
    return sorted({*(points.index(label) for label in last), *last.values()})


def sweep(folder: Path, name: str, indexes: list[int], points: list[str]) -> int:
    before, after = before_and_after(folder, name)
    assert before != after
    kills = 0
    for n in indexes:
        for late in (False, True):
            said, found, _ = outcome(folder, name, Kill(n, after=late))
            assert said == [], "it was acknowledged before the last point"
            # What follows the point "commit" is the COMMIT itself; before it nothing is there, after it all.
            landed = n > points.index("commit") or (late and n == points.index("commit"))
            assert found == (after if landed else before), f"{name} at {points[n]} ({n}), after={late}"
            kills += 1
    return kills


@pytest.mark.parametrize("name", ACTS)
def test_killed_at_each_labelled_point(folder: Path, name: str) -> None:
    points = points_of(name, folder)
    assert points[0] == "begin"
    assert points[-2:] == ["commit", "committed"]
    assert ("object" in points) == (name in WRITES_OBJECTS)
    assert sweep(folder, name, chosen(points), points) >= 8


@pytest.mark.soak
@pytest.mark.parametrize("name", ACTS)
def test_killed_at_every_point_again_and_again(folder: Path, name: str) -> None:
    points = points_of(name, folder)
    for _ in range(5):
        sweep(folder, name, list(range(len(points))), points)


def test_an_append_that_closes_a_leaf_is_among_them(folder: Path) -> None:
    """Else the sweep would not see a spine that is rewritten."""
    assert points_of("append", folder).count("object") >= 2


def test_every_label_that_storage_knows_is_reached(folder: Path) -> None:
    """A label of a new kind of row has to come with a write that passes it."""
    from takeback.storage.sqlite import _WRITERS

    known = {"begin", "object", "head", "commit", "committed"} | {row.__name__ for row in _WRITERS}
    reached = {label for name in ACTS for label in points_of(name, folder)}
    # A collection is many transactions, none of which shows: its sweep is in test_collecting.
    assert reached == known - {"NewEpoch", "Forget"}


def test_a_kill_that_never_comes_fails_the_sweep(folder: Path) -> None:
    with pytest.raises(AssertionError, match="without a kill"):
        outcome(folder, "commit", Kill(10_000))


def test_a_child_that_fails_is_no_kill(folder: Path) -> None:
    def fail(child: Child) -> None:
        raise ValueError("of its own")

    with pytest.raises(ChildFailed, match="of its own"):
        in_child(fail)


def test_said_before_a_kill_is_heard(tmp_path: Path) -> None:
    """The pipe itself loses nothing: else a lost acknowledgement would look like a lost commit's excuse."""

    def work(child: Child) -> None:
        for number in range(1000):
            child.say(number)
        with child.armed():
            child.point("here")
        raise AssertionError("not reached")

    life = in_child(work, Kill(0))
    assert (life.said, life.points, life.killed) == (list(range(1000)), ["here"], True)


# --- between two calls to the disk


def run_on_disk(child: Child, name: str, path: Path, folder: Path) -> None:
    disk = Disk()
    with on(disk, path) as repo:
        repo.threads()  # opens the reader
        disk.hook = lambda what: None if what.startswith("read") else child.point(what)
        with child.armed():
            ACTS[name](repo, folder)
        child.say("done")
        with child.armed():  # closing moves what is in the write-ahead file
            repo.close()
        child.say("closed")


def disk_sweep(folder: Path, name: str, step: int) -> int:
    before, after = before_and_after(folder, name)
    path = copy(folder / "before.db", folder)
    points = in_child(lambda child: run_on_disk(child, name, path, folder)).points
    assert {"write wal", "sync wal", "write main", "sync main", "delete wal"} <= set(points)
    edges = {n for n, label in enumerate(points) if not label.startswith("write")}
    for n in sorted(edges | set(range(0, len(points), step))):
        copy(folder / "before.db", folder)
        life = in_child(lambda child: run_on_disk(child, name, path, folder), Kill(n))
        assert life.killed, points[n]
        with takeback.open(path) as repo:
            found = holds(repo)
            assert found in (before, after), f"{name} at {points[n]} ({n})"
            assert "done" not in life.said or found == after
            sound(repo)
            writable(repo)
    return len(points)


@pytest.mark.parametrize("name", ["thread", "commit larger than the cache", "append", "delete", "import"])
def test_killed_between_calls_to_the_disk(folder: Path, name: str) -> None:
    assert disk_sweep(folder, name, step=17) > 10


@pytest.mark.soak
@pytest.mark.parametrize("name", ACTS)
def test_killed_between_any_two_calls_to_the_disk(folder: Path, name: str) -> None:
    disk_sweep(folder, name, step=1)
