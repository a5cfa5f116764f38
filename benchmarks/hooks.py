"""A coding agent's hook: the whole process that the agent waits for, by turns with one that does nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.measure import Measure, Work, interleave
from benchmarks.sizes import Sizes

_SCRIPT = Path(sys.executable).with_name("takeback-hook")
_MANY = 5  # times as many files, to see whether they matter


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    """Before a tool, when nothing has changed; after one that changed ten files; in a larger tree."""
    with _surroundings():
        small, large = (
            _Tree(folder / f"hooks-{count}", count) for count in (sizes.hook_files, _MANY * sizes.hook_files)
        )
        try:
            works = {
                "pass": Work(partial(_process, [sys.executable, "-c", "pass"])),
                "before": Work(partial(small.hook, "PreToolUse")),
                "after": Work(partial(small.hook, "PostToolUse"), small.edit),
                "large": Work(partial(large.hook, "PostToolUse"), large.edit),
            }
            found = interleave(works, rounds=sizes.hooks, batch=1, warm=2)
        finally:
            small.stop()
            large.stop()
    base, name = found["pass"], "python -c pass"
    files = f"{sizes.hook_files:,} files"
    yield Measure("hook_before", f"hook before a tool, {files}", found["before"], base, name)
    yield Measure("hook_after", f"hook after 10 changed of {files}", found["after"], base, name)
    yield Measure("hook_large", f"… of {_MANY * sizes.hook_files:,}", found["large"], found["after"], files)


class _Tree:
    """A directory with files, and a watcher that has seen it."""

    def __init__(self, root: Path, files: int) -> None:
        self.root, self._turn = root, 0
        for number in range(files):
            path = root / f"d{number // 20}" / f"f{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{number}\n" * 20)
        self.hook("SessionStart", None)

    def edit(self) -> None:
        """The tool's own work, which is not the hook's."""
        self._turn += 1
        for number in range(10):
            (self.root / f"d{number}" / f"new{number}.txt").write_text(f"{self._turn}\n")

    def hook(self, event: str, _: object) -> None:
        said = {
            "session_id": "bench", "hook_event_name": event, "cwd": str(self.root), "tool_name": "Bash",
            "tool_use_id": f"call{self._turn}", "tool_input": {"command": "make"},
        }  # fmt: skip
        command = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "takeback.hook"]
        _process([*command, "bench"], None, self.root, json.dumps(said))

    def stop(self) -> None:
        from takeback import places
        from takeback.coding import client

        client.stop(places.folder_of(os.path.realpath(self.root)))


@contextmanager
def _surroundings() -> Iterator[None]:
    """A data directory of its own; the user's is not touched."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="tb-") as short:
        for name in ("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
            os.environ[name] = short
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def _process(words: list[str], _: object, cwd: Path | None = None, said: str = "") -> None:
    done = subprocess.run(words, cwd=cwd, input=said, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} failed:\n{done.stderr}")
