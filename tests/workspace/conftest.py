"""A project directory, a store beside it, and a thread that has it attached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import takeback


class Project:
    """A directory with some files, changed by hand as an agent or its user would."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str | bytes, mode: int | None = None) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if mode is not None:
            path.chmod(mode)
        return path

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def names(self) -> list[str]:
        return sorted(
            os.path.relpath(os.path.join(at, name), self.path)
            for at, folders, files in os.walk(self.path)
            for name in [*folders, *files]
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    made.write("auth.py", "def login():\n    return True\n")
    made.write("db.py", "rows = []\n")
    made.write("README.md", "# Project\n")
    return made


@pytest.fixture
def tb(tmp_path: Path) -> Iterator[takeback.Repo]:
    with takeback.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def trip(tb: takeback.Repo, project: Project) -> takeback.Thread:
    thread = tb.thread("code", initial={"n": 0})
    thread.workspace(project.path)
    return thread
