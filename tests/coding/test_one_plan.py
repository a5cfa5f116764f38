"""What shells may have done and what moved in git are parts of every plan, also of one made in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.coding.conftest import git

import takeback
from takeback.coding.project import Project
from takeback.errors import BadRequest


@pytest.fixture
def work(repository: Path, tmp_path: Path) -> Iterator[Project]:
    """A directory that is looked after, with its repository."""
    folder = tmp_path / "folder"
    folder.mkdir()
    project = Project(str(repository), str(folder))
    yield project
    project.close()


def shell(work: Project, name: str, commands: int = 1) -> None:
    """A step of the agent in which shell commands ended."""
    (Path(work.root) / name).write_text(name)
    work.shells += commands
    assert work.capture("agent", f"makes {name}") is not None


def part(plan: takeback.Plan, name: str) -> dict[str, Any]:
    return next(each for each in plan.as_dict()["parts"] if each["part"] == name)


def test_shell_commands_are_counted_over_what_goes_back(work: Project) -> None:
    """Those of the versions between, and no others: what was taken back before is not counted again."""
    start = work.thread.refresh().version
    shell(work, "a", 2)
    shell(work, "b")
    thread = work.thread.refresh()
    assert part(thread.plan_undo(), "shell")["commands"] == 1
    plan = thread.plan_rollback(start)
    assert part(plan, "shell")["commands"] == 3
    assert "3 shell commands may have reached the network" in str(plan)
    thread.undo()
    assert part(thread.plan_rollback(start), "shell")["commands"] == 2
    assert part(thread.plan_redo(), "shell")["commands"] == 0
    receipt = thread.rollback(start)
    assert any("2 shell commands" in line for line in receipt.done)
    shell(work, "c")
    assert part(work.thread.refresh().plan_rollback(start), "shell")["commands"] == 1


def test_what_moved_in_git_is_in_the_plan(work: Project, repository: Path) -> None:
    """Refs stay, unless they are asked for: then they go back with the files, and what they left is kept."""
    start, was = work.thread.refresh().version, git(repository, "rev-parse", "main")
    (repository / "new.py").write_text("x = 1\n")
    git(repository, "checkout", "-q", "-b", "feature-x")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "new")
    work.capture("agent", "commits")
    thread = work.thread.refresh()

    plan = thread.plan_undo()
    assert part(plan, "git") == {
        "part": "git",
        "moved": ["switched from main to feature-x", "branch feature-x created"],
        "taken_back": False,
    }
    assert plan.apply().kept_refs == []
    assert git(repository, "branch", "--show-current") == "feature-x"
    thread.redo()

    receipt = thread.plan_rollback(start, git=True).apply()
    assert git(repository, "branch", "--show-current") == "main"
    assert git(repository, "rev-parse", "main") == was
    assert [ref.endswith("/heads/feature-x") for ref in receipt.kept_refs] == [True]
    assert receipt.as_dict()["kept_refs"] == receipt.kept_refs
    assert not (repository / "new.py").exists()


def test_git_goes_back_only_where_it_is_known(tmp_path: Path, home: Path) -> None:
    """A thread without a workspace, and a workspace without a repository, are told so before anything."""
    with takeback.open(str(tmp_path / "s.db")) as repo:
        thread = repo.thread("t", initial={})
        thread.commit({"a": 1})
        with pytest.raises(BadRequest, match="one workspace"):
            thread.plan_undo(git=True)
        (tmp_path / "plain").mkdir()
        thread.workspace(tmp_path / "plain", watch=False)
        (tmp_path / "plain" / "f").write_text("x")
        thread.capture(step="s")
        assert [each.name for each in thread.plan_undo().parts] == [
            "state", "effects", "memory", "files", "shell",
        ]  # fmt: skip
        with pytest.raises(BadRequest, match="nothing is known"):
            thread.plan_undo(git=True)
