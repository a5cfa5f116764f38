"""Files on the command line: in the directory one stands in, with no store named."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.coding.conftest import Agent, folder_of, git, tree
from tests.surfaces.cli import Cli

import takeback
from takeback import places


@pytest.fixture
def worked(agent: Agent, repository: Path) -> Path:
    """An agent has edited two files, and the user one of them and another."""
    agent.ok("SessionStart")
    agent.edit("auth.py", "def login():\n    return None\n")
    agent.edit("src/db.py", "x = 1\n")
    (repository / "README.md").write_text("# Mine\n")
    return repository


# --- people without an agent


def test_a_directory_becomes_a_workspace_with_its_first_commit(cli: Cli, repository: Path) -> None:
    """Said once; then undo just works, in any directory below."""
    before = tree(repository)
    first = cli.ok("commit", "-m", "before the big change")
    assert "is a workspace from now on" in first.err
    (repository / "auth.py").write_text("broken\n")
    (repository / "README.md").unlink()
    made = cli.ok("commit", "-m", "the big change")
    assert "auth.py: changed" in made.out
    assert made.err == ""
    cli.ok("undo")
    assert tree(repository) == before
    cli.ok("redo")
    assert (repository / "auth.py").read_text() == "broken\n"


def test_a_commit_says_who_why_and_what_else(cli: Cli, repository: Path) -> None:
    made = cli.ok("--actor", "ann", "commit", "-m", "why", "--meta", "ticket=7", "--json").json
    assert (made["actor"], made["reason"], made["meta"]["ticket"]) == ("ann", "why", 7)
    assert made["files"]


def test_without_a_reason_nothing_begins_by_accident(cli: Cli, repository: Path) -> None:
    assert cli("commit").code == 2
    assert places.find(str(repository)) is None


def test_outside_of_workspaces_everything_is_as_it_was(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = cli("status")
    assert ran.code == 5
    cli.ok("commit", "--set", "n=1")
    ran = cli("status")
    assert ran.code == 3
    assert "no workspace is here" in ran.err


def test_a_store_that_is_named_wins(cli: Cli, worked: Path, tmp_path: Path) -> None:
    cli.ok("--db", tmp_path / "other.db", "commit", "--set", "n=1")
    assert cli.ok("--db", tmp_path / "other.db", "log", "--json").json["head"] == 0


# --- looking


def test_status(cli: Cli, worked: Path) -> None:
    (worked / ".env").write_text("SECRET=1\n")
    (worked / ".gitignore").write_text("*.log\n")
    (worked / "x.log").write_text("x")
    said = cli.ok("status").out
    assert "watched" in said
    assert "README.md (+1 −1)" in said
    assert "left out .env" in said
    assert "left out x.log" in said
    document = cli.ok("status", "--json").json
    assert document["workspaces"][0]["path"] == str(worked)
    cli.ok("log")
    assert "every file is as the last version has it" in cli.ok("status").out


def test_the_log_shows_each_step_with_its_files(cli: Cli, worked: Path) -> None:
    lines = cli.ok("log").lines
    at = next(n for n, line in enumerate(lines) if "step 'Edit src/db.py'" in line)
    assert "+src/db.py (+1 −0)" in lines[at + 1]
    assert any("changed by others" in line and "README.md (+1 −1)" in line for line in lines)


def test_the_text_of_changes(cli: Cli, worked: Path) -> None:
    text = cli.ok("diff", "--files", "1").out
    assert "-    return True\n+    return None" in text
    assert "+x = 1" in text
    alone = cli.ok("diff", "--files", "--path", "src/db.py", "1").out
    assert "+x = 1" in alone
    assert "return" not in alone
    assert "auth.py: changed (+1 −1)" in cli.ok("diff", "1").out
    assert {each["path"] for each in cli.ok("diff", "1", "--json").json["files"]} >= {"auth.py", "src/db.py"}
    assert cli("diff", "--path", "x").code == 2


def test_show_has_the_text_and_the_call(cli: Cli, worked: Path) -> None:
    step = next(c for c in cli.ok("log", "--json").json["checkpoints"] if c["step"] == "Edit auth.py")
    said = cli.ok("show", step["version"]).out
    assert "+    return None" in said
    assert '"conversation": "conv-1"' in said
    assert "takeback.git" not in said
    assert cli.ok("show", step["version"], "--json").json["checkpoint"]["changed_files"] == [
        "auth.py: changed (+1 −1)"
    ]


# --- taking back


def test_files_alone_go_back(cli: Cli, worked: Path) -> None:
    cli.ok("rollback", "1", "--files", "--yes")
    assert not (worked / "src" / "db.py").exists()
    assert (worked / "README.md").read_text() == "# Mine\n"
    assert cli("rollback", "1", "--files", "--scope", "state").code == 2


def test_state_alone_leaves_files(cli: Cli, worked: Path) -> None:
    before = tree(worked)
    cli.ok("rollback", "1", "--scope", "state", "--yes")
    assert tree(worked) == before


def test_what_both_changed_is_a_conflict_until_it_is_said_whose_holds(cli: Cli, agent: Agent) -> None:
    root = agent.root
    agent.ok("SessionStart")
    agent.edit("auth.py", "the agent's\n")
    (root / "auth.py").write_text("the user's\n")
    plan = cli.ok("rollback", "1", "--plan")
    assert "conflict" in plan.out
    cli.ok("rollback", "1", "--yes", "--theirs", "auth.py")
    assert (root / "auth.py").read_text() == "the user's\n"
    cli.ok("rollback", "1", "--yes", "--ours")
    assert (root / "auth.py").read_text() == "def login():\n    return True\n"
    cli.ok("undo", "--yes")
    assert (root / "auth.py").read_text() == "the user's\n"


def test_git_that_cannot_be_taken_back_stops_the_plan(
    cli: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    monkeypatch.chdir(plain)
    cli.ok("commit", "-m", "begin")
    (plain / "x").write_text("x")
    cli.ok("commit", "-m", "x")
    ran = cli("undo", "--git")
    assert ran.code == 2
    assert (plain / "x").exists()


def test_a_rollback_over_nothing_says_so(cli: Cli, worked: Path) -> None:
    cli.ok("log")
    assert "does not change" in cli.ok("rollback", "head", "--plan").out


# --- git


def test_a_version_becomes_a_commit(cli: Cli, worked: Path) -> None:
    """On a new branch, after the commit that was checked out then; nothing else moves."""
    before = (git(worked, "rev-parse", "HEAD"), git(worked, "status", "--porcelain"))
    said = cli.ok("export", "--git", "saved", "--ref", "head", "--json").json
    assert said["commit"] == git(worked, "rev-parse", "saved")
    assert (git(worked, "rev-parse", "HEAD"), git(worked, "status", "--porcelain")) == before
    assert git(worked, "rev-parse", "saved^") == before[0]
    assert git(worked, "show", "saved:src/db.py") == "x = 1"
    assert git(worked, "ls-tree", "saved", "run.sh").startswith("100755")
    assert cli("export", "--git", "saved").code == 2
    assert cli("export").code == 2
    assert cli("export", "x.tb", "--git", "y").code == 2


# --- space


def test_files_that_were_given_up_say_so_everywhere(cli: Cli, agent: Agent, repository: Path) -> None:
    agent.ok("SessionStart")
    for number in range(6):
        agent.edit("big.txt", f"{number}\n" * 3000)
    cli.ok("gc", "--budget", "0", "--keep", "2", "--grace", "0", "--yes", "-m", "no space")
    assert "files given up to save space" in cli.ok("log").out
    assert "given up" in cli.ok("diff", "--files", "2", "3").out
    ran = cli("rollback", "2", "--plan")
    assert ran.code == 3
    assert "given up to save space" in ran.err
    cli.ok("rollback", "2", "--scope", "state", "--yes")
    assert cli.ok("verify").code == 0
    assert (repository / "big.txt").read_text() == "5\n" * 3000


def test_what_a_watcher_holds_is_what_a_library_reads(cli: Cli, worked: Path) -> None:
    """The store of a directory is a store like any other."""
    cli.ok("log")
    with takeback.open(Path(folder_of(worked)) / places.STORE, create=False) as repo:
        thread = repo.thread("work")
        assert thread.read_file("head", "src/db.py") == b"x = 1\n"
        assert json.dumps(thread.files().as_dict())
        assert os.path.realpath(thread.workspaces()[0].path) == str(worked)
