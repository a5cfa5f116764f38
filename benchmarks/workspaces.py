"""Directories: capturing and restoring a generated tree, beside a shadow repository of git in the same run.

The shadow repository is what tools that take snapshots with git do: `add -A` and `write-tree` with a git
directory of its own; tuned, with git's settings for large trees. Ours is the whole call, with its version.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import takeback
from benchmarks.measure import Measure, Timing, Work, amount, interleave
from benchmarks.sizes import Sizes

FILES_PER_DIRECTORY = 20
BYTES = 4_000
_TUNED = ("core.untrackedCache=true", "core.preloadIndex=true", "index.version=4", "feature.manyFiles=true")


class Tree:
    """A directory of generated source files, and changes to some of them."""

    def __init__(self, path: Path, files: int) -> None:
        self.path, self._random = path, random.Random(7)
        self._words = ["".join(self._random.choices("etaoinshrdlu_", k=6)) for _ in range(4_000)]
        self.names = [
            f"pkg{n // 1_000}/mod{n // FILES_PER_DIRECTORY}/file{n % FILES_PER_DIRECTORY}.py"
            for n in range(files)
        ]
        for name in self.names:
            place = path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self._text())
        self._turn = 0

    def change(self, count: int) -> None:
        """Edit some files, spread over the tree."""
        self._turn += 1
        for name in self._random.sample(self.names, count):
            place = self.path / name
            text = place.read_text()
            place.write_text(f"# turn {self._turn:06}\n" + text[text.index("\n") + 1 :])

    def _text(self) -> str:
        lines, size = ["# turn 000000"], 0
        while size < BYTES:
            line = " ".join(self._random.choices(self._words, k=8))
            lines.append(line)
            size += len(line) + 1
        return "\n".join(lines) + "\n"


class Git:
    """A shadow repository of a directory."""

    def __init__(self, place: Path, tree: Path, tuned: tuple[str, ...] = ()) -> None:
        self._env = os.environ | {"GIT_DIR": str(place), "GIT_WORK_TREE": str(tree)}
        self.place = place
        self("init", "-q")
        self("config", "gc.auto", "0")
        for each in tuned:
            self("config", *each.split("="))

    def __call__(self, *words: str) -> str:
        done = subprocess.run(["git", *words], env=self._env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def capture(self, _: Any = None) -> str:
        self("add", "-A")
        return self("write-tree")

    def restore(self, target: str) -> None:
        """The present first, then only what differs is written."""
        self.capture()
        self("read-tree", "-u", "--reset", target)


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    home = os.environ.get("XDG_STATE_HOME")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        os.environ["XDG_STATE_HOME"] = str(Path(scratch, "state"))
        try:
            yield from _measures(Path(scratch), sizes)
        finally:
            if home is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = home


def _measures(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    tree = Tree(folder / "tree", sizes.files)
    git, tuned = Git(folder / "git", tree.path), Git(folder / "tuned", tree.path, _TUNED)
    with takeback.open(folder / "store.db") as tb, takeback.open(folder / "swept.db") as other:
        thread, swept = tb.thread("watched", initial={}), other.thread("swept", initial={})
        first = _first(thread, swept, git, tuned, tree)
        yield first
        yield from _captures(thread, swept, git, tuned, tree, sizes)
        yield from _restores(thread, git, tree, sizes)
    yield _disk(folder)


def _first(thread: Any, swept: Any, git: Git, tuned: Git, tree: Tree) -> Measure:
    ours = Work(lambda _: thread.workspace(tree.path, shared=True)).timed()
    base = Work(git.capture).timed()
    tuned.capture()
    swept.workspace(tree.path, shared=True, watch=False)
    name = "git add -A, write-tree"
    return Measure("files_first", "first capture of the tree", Timing(ours), Timing(base), name)


def _captures(thread: Any, swept: Any, git: Git, tuned: Git, tree: Tree, sizes: Sizes) -> Iterator[Measure]:
    def edited(count: int) -> Any:
        return lambda: tree.change(count)

    works = {
        "watched": Work(lambda _: thread.capture(), edited(10)),
        "git": Work(git.capture, edited(10)),
        "swept": Work(lambda _: swept.capture(), edited(10)),
        "tuned": Work(tuned.capture, edited(10)),
        "empty": Work(lambda _: thread.capture(), thread.capture),
        "many": Work(lambda _: thread.capture(), edited(min(1_000, sizes.files))),
    }
    found = interleave(works, rounds=sizes.file_rounds, batch=1, warm=2)
    name = "git add -A, write-tree"
    yield Measure("files_capture", "capture, 10 files changed, watched", found["watched"], found["git"], name)
    yield Measure("files_empty", "capture, nothing changed, watched", found["empty"])
    yield Measure(
        "files_sweep", "capture, 10 changed, by sweep", found["swept"], found["tuned"], name + ", tuned"
    )
    yield Measure("files_many", "capture, 1,000 changed, watched", found["many"])


def _restores(thread: Any, git: Git, tree: Tree, sizes: Sizes) -> Iterator[Measure]:
    directory = thread.workspaces()[0].directory

    def work(count: int, *, in_place: bool) -> Work:
        def prepare() -> None:
            thread.capture()
            tree.change(count)
            thread.capture(step="edit")
            directory.in_place = in_place

        return Work(lambda _: thread.undo(), prepare)

    def changed() -> str:
        target = git.capture()
        tree.change(10)
        return target

    works = {
        "in place": work(10, in_place=True),
        "replaced": work(10, in_place=False),
        "many": work(min(1_000, sizes.files), in_place=True),
        "git": Work(git.restore, changed),
    }
    found = interleave(works, rounds=sizes.file_rounds, batch=1, warm=2)
    name = "git add -A, write-tree, read-tree -u"
    yield Measure("files_restore", "restore of 10 files, in place", found["in place"], found["git"], name)
    yield Measure("files_replace", "restore of 10 files, replaced", found["replaced"], found["git"], name)
    yield Measure("files_restore_many", "restore of 1,000 files, in place", found["many"])


def _disk(folder: Path) -> Measure:
    """A tree captured once: our file, and git's objects after a repack."""
    tree = next(folder.glob("tree"))
    fresh = Git(folder / "packed", tree)
    fresh.capture()
    commit = fresh("-c", "user.name=x", "-c", "user.email=x@x", "commit-tree", fresh("write-tree"), "-m", "x")
    fresh("update-ref", "refs/heads/x", commit)
    fresh("repack", "-adq")
    theirs = sum(each.stat().st_size for each in (fresh.place / "objects").rglob("*") if each.is_file())
    with takeback.open(folder / "disk.db") as tb:
        tb.thread("t", initial={}).workspace(tree, shared=True, watch=False)
    ours = (folder / "disk.db").stat().st_size
    found = amount("files_disk", "one capture on disk", ours / 1e6, "MB")
    return Measure(found.key, found.title, found.ours, Timing(theirs / 1e6), "git, repacked", "MB")


if __name__ == "__main__":
    from benchmarks.sizes import DEFAULT

    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as scratch_folder:
        for each in run(Path(scratch_folder), DEFAULT):
            base = (
                ""
                if each.base is None
                else f"  {each.base_name} {each.base.p50:.2f}, ratio 1/{1 / (each.ratio or 1):.1f}"
            )
            print(f"{each.title:40} {each.ours.p50:8.2f} {each.unit}{base}", flush=True)
