"""Killed anywhere in a capture or a restore: after recovery the directory is the old or the new one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SOAK
from tests.workspace.trees import snapshot

import takeback
from takeback.attached import directory_of

POINTS = 400


def before(place: Path) -> None:
    """One of everything that a restore has to handle."""
    for folder in ("sub/deep", "goes", "locked", "empty"):
        (place / folder).mkdir(parents=True)
    (place / "over.txt").write_text("old\n" * 100)
    (place / "grows.txt").write_text("x" * 9000)
    (place / "run.sh").write_text("#!/bin/sh\n")
    (place / "run.sh").chmod(0o755)
    (place / "goes" / "a.txt").write_text("a")
    (place / "sub" / "deep" / "b.txt").write_text("b")
    (place / "locked" / "c.txt").write_text("c")
    (place / "one.txt").write_text("shared")
    os.link(place / "one.txt", place / "two.txt")
    os.symlink("over.txt", place / "link")
    (place / "kind").write_text("a file")
    (place / "locked").chmod(0o555)


def after(place: Path) -> None:
    """What the agent made of it."""
    (place / "over.txt").write_text("new\n" * 100)
    (place / "grows.txt").write_text("y")
    (place / "run.sh").write_text("#!/bin/sh\necho\n")
    (place / "run.sh").chmod(0o644)
    shutil.rmtree(place / "goes")
    (place / "sub" / "deep" / "new.txt").write_text("new")
    (place / "locked").chmod(0o755)
    (place / "locked" / "c.txt").write_text("changed")
    (place / "locked").chmod(0o555)
    (place / "two.txt").unlink()
    (place / "two.txt").write_text("apart")
    (place / "link").unlink()
    os.symlink("nowhere", place / "link")
    (place / "kind").unlink()
    (place / "kind" / "of").mkdir(parents=True)
    (place / "made").mkdir()
    (place / "made" / "d.txt").write_text("d")


class Killed:
    """Counts labelled points, and kills this process at one of them."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, label: str) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], None]) -> int:
    """Run it in a process of its own; how that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def attach(store: Path, place: Path) -> None:
    with takeback.open(store) as tb:
        thread = tb.thread("code", initial={"n": 0})
        thread.workspace(place, watch=False)
        with thread.step("edit") as s:
            s.state["n"] = 1
            after(place)


def killing(
    at: int, *, store: bool, act: Callable[[takeback.Thread], object], path: Path
) -> Callable[[], None]:
    """Do something to the thread, and be killed at the n-th point of the files or of the store."""

    def work() -> None:
        with takeback.open(path) as tb:
            thread = tb.thread("code")
            killed = Killed(at)
            directory_of(thread._ctx, thread._attached().cells()[0]).point = killed
            if store:
                thread._ctx.storage.point = killed
            act(thread)

    return work


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "replaced"])
def test_killed_at_every_point_of_a_restore(in_place: bool, tmp_path: Path, monkeypatch) -> None:
    """The old tree or the new one, never between; nothing is left behind; every object verifies."""
    from takeback.workspace.directory import Directory

    make = Directory.__init__

    def made(self, *args, **named):
        make(self, *args, **named)
        self.in_place = in_place

    monkeypatch.setattr(Directory, "__init__", made)
    step = 1 if SOAK else 2 if in_place else 4
    seen = set()
    for at in range(1, POINTS, step):
        folder = tmp_path / str(at)
        place = folder / "tree"
        before(place)
        old = snapshot(place)
        assert in_child(lambda: attach(folder / "s.db", place)) == 0  # noqa: B023 (it runs here and now)
        new = snapshot(place)
        ended = in_child(killing(at, store=True, act=lambda t: t.undo(), path=folder / "s.db"))
        with takeback.open(folder / "s.db") as tb:
            found = tb.recover()
            assert found.clean, (at, found.as_dict())
            thread = tb.thread("code")
            went_back = thread.head.kind == "undo"
            assert snapshot(place) == (old if went_back else new), at
            assert thread.state["n"] == (0 if went_back else 1)
            assert thread.verify().ok
            assert thread.changed_files() == []
            seen.add(went_back)
        shutil.rmtree(folder)
        if not os.WIFSIGNALED(ended):
            break
    else:
        pytest.fail("the sweep did not come to its end")
    assert seen == {True, False}
    assert at > 20


def test_killed_at_every_point_of_a_capture(tmp_path: Path) -> None:
    """The version is there or not; the directory is never touched; every object verifies."""
    ends = set()
    for at in range(1, POINTS, 1 if SOAK else 2):
        folder = tmp_path / str(at)
        place = folder / "tree"
        before(place)
        assert in_child(lambda: attach(folder / "s.db", place)) == 0  # noqa: B023 (it runs here and now)
        (place / "over.txt").write_text("mine")
        was = snapshot(place)
        ended = in_child(killing(at, store=True, act=lambda t: t.capture("x"), path=folder / "s.db"))
        with takeback.open(folder / "s.db") as tb:
            thread = tb.thread("code")
            ends.add(thread.head.kind)
            assert snapshot(place) == was
            assert thread.verify().ok
            thread.capture()
            assert thread.read_file("head", "over.txt") == b"mine"
        shutil.rmtree(folder)
        if not os.WIFSIGNALED(ended):
            break
    assert ends == {"step", "capture"}
