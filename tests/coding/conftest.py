"""What the tests of coding agents share: a home of their own, a repository, the command line, and hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.cli import Cli

from takeback import places
from takeback.coding import client


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory with nothing in it; watchers that were started for it are stopped."""
    made = tmp_path / "home"
    made.mkdir()
    with tempfile.TemporaryDirectory(prefix="tb-", ignore_cleanup_errors=True) as short:
        monkeypatch.setenv("HOME", str(made))
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)  # a socket's path may not be long
        monkeypatch.setenv("TAKEBACK_WATCHER_IDLE", "60")
        for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLAUDE_PROJECT_DIR", "TAKEBACK_STATE"):
            monkeypatch.delenv(name, raising=False)
        for who in ("AUTHOR", "COMMITTER"):
            monkeypatch.setenv(f"GIT_{who}_NAME", "a tester")
            monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.org")
        yield made
        for folder in (tmp_path / "data" / "takeback" / "workspaces").glob("*"):
            client.stop(str(folder))


@pytest.fixture
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository in which one stands."""
    made = tmp_path / "project"
    (made / ".git").mkdir(parents=True)
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(capsys, monkeypatch)


class Said:
    """What a hook printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def context(self) -> str:
        """What the agent is told; empty for nothing."""
        return json.loads(self.out)["hookSpecificOutput"]["additionalContext"] if self.out else ""


class Agent:
    """A coding agent that calls its hooks as the real one does: JSON on stdin, a process each."""

    def __init__(self, root: Path, conversation: str = "conv-1", name: str = "claude-code") -> None:
        self.root, self.conversation, self.name = root, conversation, name
        self._calls = 0

    def hook(self, event: str, **said: Any) -> Said:
        body = {"session_id": self.conversation, "hook_event_name": event, "cwd": str(self.root)} | said
        done = subprocess.run(
            [sys.executable, "-m", "takeback.hook", self.name],
            input=json.dumps(body),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def ok(self, event: str, **said: Any) -> Said:
        found = self.hook(event, **said)
        assert (found.code, found.err) == (0, "")
        return found

    def edit(self, path: str, text: str) -> None:
        """By the agent's own tool."""
        with self.using("Edit", file_path=str(self.root / path)):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def shell(self, command: str) -> None:
        with self.using("Bash", command=command):
            subprocess.run(command, shell=True, cwd=self.root, check=True, capture_output=True)

    def using(self, tool: str, **given: Any) -> Call:
        self._calls += 1
        return Call(self, tool, f"call-{self._calls}", given)


class Call:
    """A tool call, between its two hooks."""

    def __init__(self, agent: Agent, tool: str, call: str, given: dict[str, Any]) -> None:
        self._agent = agent
        self._said = {"tool_name": tool, "tool_use_id": call, "tool_input": given}

    def __enter__(self) -> None:
        self._agent.ok("PreToolUse", **self._said)

    def __exit__(self, *_: object) -> None:
        self._agent.ok("PostToolUse", **self._said)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real git repository with a commit, in which one stands."""
    made = tmp_path / "work"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    (made / "auth.py").write_text("def login():\n    return True\n")
    (made / "README.md").write_text("# Work\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    git(made, "add", "-A")
    git(made, "commit", "-qm", "first")
    monkeypatch.chdir(made)
    return made


@pytest.fixture
def agent(repository: Path) -> Agent:
    return Agent(repository)


def folder_of(root: Path) -> str:
    """Where takeback keeps what belongs to a directory."""
    return places.folder_of(os.path.realpath(root))


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file outside of .git, with its mode."""
    found = {}
    for path in sorted(root.rglob("*")):
        if ".git" not in path.relative_to(root).parts and not path.is_dir():
            found[str(path.relative_to(root))] = (path.stat().st_mode & 0o777, path.read_bytes())
    return found
