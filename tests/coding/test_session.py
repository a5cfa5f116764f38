"""A coding agent at work, through its hooks: what it did is taken back, and nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.coding.conftest import Agent, folder_of, git, tree
from tests.surfaces.cli import Cli

from takeback import hook, places
from takeback.coding import client


def steps(cli: Cli) -> list[str]:
    """The agent's steps, oldest first, as the log has them."""
    found = cli.ok("log", "--json").json["checkpoints"]
    return [c["step"] for c in found[::-1] if c["step"]]


def test_a_session_over_a_real_repository(cli: Cli, agent: Agent, repository: Path) -> None:
    """Edits by tool and by shell, a commit on a new branch, a wrong turn; the user edits a file meanwhile.
    After it is taken back the tree is as before, but for the user's own edit, and branches are where they
    were."""
    before, head = tree(repository), git(repository, "rev-parse", "HEAD")
    agent.ok("SessionStart", source="startup")
    agent.ok("UserPromptSubmit", prompt="add a database")
    agent.edit("auth.py", "def login():\n    return None\n")
    (repository / "README.md").write_text("# Work\n\nmine\n")
    agent.edit("src/db.py", "x = 1\n")
    agent.shell("git checkout -q -b feature-x && git add -A && git commit -qm 'add db'")
    agent.shell("rm run.sh && mkdir empty && ln -s auth.py link && chmod 600 auth.py")
    agent.ok("Stop")

    assert steps(cli) == [
        "Edit auth.py",
        "Edit src/db.py",
        "Bash rm run.sh && mkdir empty && ln -s auth.py link && chmod 600 auth.py",
    ]
    first = next(c for c in cli.ok("log", "--json").json["checkpoints"] if c["step"] == "Edit auth.py")
    assert first["meta"] | {"conversation": "conv-1", "tool": "Edit", "call": "call-1"} == first["meta"]
    assert first["actor"] == "claude-code"
    assert "auth.py (+1 −1)" in cli.ok("log").out

    plan = cli.ok("rollback", "1", "--git", "--plan").out
    for line in (
        "keeps your edit of README.md", "reverts auth.py (+1 −1)", "removes src/db.py", "brings back run.sh",
        "switched from main to feature-x", "branch feature-x created",
        "2 shell commands may have reached the network",
    ):  # fmt: skip
        assert line in plan
    cli.ok("rollback", "1", "--git", "--yes", "-m", "a wrong turn")

    mine = {"README.md": (before["README.md"][0], b"# Work\n\nmine\n")}
    assert tree(repository) == before | mine
    assert not (repository / "empty").exists()
    assert (git(repository, "rev-parse", "HEAD"), git(repository, "branch", "--show-current")) == (
        head,
        "main",
    )
    assert git(repository, "branch", "--format=%(refname:short)") == "main"
    assert git(repository, "status", "--porcelain") == "M README.md"
    lost = git(repository, "for-each-ref", "refs/takeback", "--format=%(refname) %(subject)")
    assert lost.endswith("/heads/feature-x add db")

    told = agent.ok("UserPromptSubmit", prompt="go on").context
    assert "took back" in told
    assert "a wrong turn" in told
    assert "auth.py" in told
    assert "README.md" not in told
    assert agent.ok("UserPromptSubmit", prompt="go on").context == ""
    cli.ok("undo", "--yes")
    assert (repository / "src" / "db.py").read_text() == "x = 1\n"
    assert cli.ok("verify").code == 0


def test_undo_takes_one_step_at_a_time(cli: Cli, agent: Agent, repository: Path) -> None:
    """What the user changed between and after is kept, captured or not."""
    before = tree(repository)
    agent.ok("SessionStart")
    agent.edit("one.txt", "1\n")
    (repository / "mine.txt").write_text("mine\n")
    agent.edit("two.txt", "2\n")
    (repository / "README.md").write_text("# Mine\n")
    cli.ok("undo")
    assert not (repository / "two.txt").exists()
    assert (repository / "one.txt").exists()
    cli.ok("undo")
    mine = {"mine.txt": (0o644, b"mine\n"), "README.md": (0o644, b"# Mine\n")}
    assert tree(repository) == before | mine
    assert cli("undo").code == 4
    cli.ok("redo")
    cli.ok("redo")
    assert (repository / "two.txt").read_text() == "2\n"


def test_without_git_branches_stay(cli: Cli, agent: Agent, repository: Path) -> None:
    agent.ok("SessionStart")
    agent.shell("git checkout -q -b side && echo x > x && git add x && git commit -qm x")
    tip = git(repository, "rev-parse", "side")
    said = cli.ok("undo", "--yes").out
    assert "branch side created (stays" in said
    assert git(repository, "rev-parse", "HEAD") == tip
    assert not (repository / "x").exists()


def test_a_commit_that_changes_no_file_is_a_step_too(cli: Cli, agent: Agent, repository: Path) -> None:
    agent.ok("SessionStart")
    agent.edit("auth.py", "x\n")
    head = git(repository, "rev-parse", "HEAD")
    agent.shell("git commit -qam 'only a commit'")
    assert "1 commit on main" in cli.ok("undo", "--plan").out
    cli.ok("undo", "--git", "--yes")
    assert git(repository, "rev-parse", "HEAD") == head
    assert (repository / "auth.py").read_text() == "x\n"


def test_a_failed_command_is_the_agents_too(cli: Cli, agent: Agent, repository: Path) -> None:
    agent.ok("SessionStart")
    said = {"tool_name": "Bash", "tool_use_id": "c", "tool_input": {"command": "make"}}
    agent.ok("PreToolUse", **said)
    (repository / "half.txt").write_text("x")
    agent.ok("PostToolUseFailure", **said, error="exit code 2")
    assert steps(cli) == ["Bash make"]
    cli.ok("undo", "--yes")
    assert not (repository / "half.txt").exists()


def test_a_call_that_is_never_heard_of_again_is_the_agents(cli: Cli, agent: Agent, repository: Path) -> None:
    """The agent was interrupted in the middle of a call: its changes are not the user's."""
    agent.ok("SessionStart")
    agent.ok("PreToolUse", tool_name="Bash", tool_use_id="lost", tool_input={"command": "sleep 100"})
    (repository / "half.txt").write_text("x")
    agent.ok("UserPromptSubmit", prompt="again")
    (repository / "mine.txt").write_text("mine")
    agent.edit("auth.py", "x\n")
    assert steps(cli) == ["Bash sleep 100", "Edit auth.py"]
    cli.ok("rollback", "1", "--yes")
    assert not (repository / "half.txt").exists()
    assert (repository / "mine.txt").exists()


def test_two_conversations_at_once(cli: Cli, agent: Agent, repository: Path) -> None:
    """Each hears what was taken back, once; steps say whose they are."""
    other = Agent(repository, "conv-2", "codex")
    agent.ok("SessionStart")
    other.ok("SessionStart")
    agent.edit("one.txt", "1")
    other.edit("two.txt", "2")
    cli.ok("undo")
    assert "two.txt" in agent.ok("UserPromptSubmit").context
    assert "two.txt" in other.ok("UserPromptSubmit").context
    assert other.ok("UserPromptSubmit").context == ""
    found = cli.ok("log", "--json").json["checkpoints"]
    assert {c["meta"]["conversation"] for c in found if c["step"]} == {"conv-1", "conv-2"}


def test_a_resumed_session_is_told_at_its_start(cli: Cli, agent: Agent) -> None:
    agent.ok("SessionStart")
    agent.edit("one.txt", "1")
    agent.ok("SessionEnd")
    cli.ok("undo")
    assert "one.txt" in agent.ok("SessionStart", source="resume").context


def test_an_undo_that_was_undone_is_not_told(cli: Cli, agent: Agent) -> None:
    agent.ok("SessionStart")
    agent.edit("one.txt", "1")
    cli.ok("undo")
    cli.ok("redo")
    assert agent.ok("UserPromptSubmit").context == ""


def test_tools_that_only_look_make_no_version(cli: Cli, agent: Agent, repository: Path) -> None:
    agent.ok("SessionStart")
    with agent.using("Read", file_path=str(repository / "auth.py")):
        pass
    assert steps(cli) == []


def test_the_project_is_the_agents_wherever_it_stands(
    cli: Cli, agent: Agent, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that changed its directory is still at work on its project; so is who stands in a folder."""
    agent.ok("SessionStart")
    (repository / "deep" / "er").mkdir(parents=True)
    inside = Agent(repository / "deep" / "er")
    inside.edit("x.txt", "1")
    monkeypatch.chdir(repository / "deep")
    cli.ok("undo")
    assert not (repository / "deep" / "er" / "x.txt").exists()


# --- the watcher in a session


def test_the_watcher_is_killed_in_the_middle(cli: Cli, agent: Agent, repository: Path) -> None:
    """The next hook starts another, which finds what changed meanwhile."""
    agent.ok("SessionStart")
    agent.edit("one.txt", "1\n")
    pid = int(watcher(repository))
    os.kill(pid, signal.SIGKILL)
    (repository / "mine.txt").write_text("mine\n")
    agent.edit("two.txt", "2\n")
    assert int(watcher(repository)) != pid
    assert steps(cli) == ["Edit one.txt", "Edit two.txt"]
    cli.ok("rollback", "1", "--yes")
    assert sorted(tree(repository)) == ["README.md", "auth.py", "mine.txt", "run.sh"]


def test_the_watcher_is_killed_during_a_call(cli: Cli, agent: Agent, repository: Path) -> None:
    """The one that comes after it knows that a call was under way: what changed is the agent's."""
    agent.ok("SessionStart")
    with agent.using("Bash", command="make"):
        (repository / "made.txt").write_text("x")
        os.kill(int(watcher(repository)), signal.SIGKILL)
    assert steps(cli) == ["Bash make"]
    cli.ok("undo", "--yes")
    assert not (repository / "made.txt").exists()


def test_commands_work_where_no_watcher_can_be_started(
    cli: Cli, agent: Agent, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They look at every file themselves, and say why."""
    agent.ok("SessionStart")
    agent.edit("one.txt", "1")
    client.stop(folder_of(repository))
    monkeypatch.setattr(client, "start", lambda *_: None)
    monkeypatch.setattr(client, "_STARTING", 0.05)
    ran = cli.ok("undo")
    assert "does not answer" in ran.err
    assert not (repository / "one.txt").exists()


def test_a_failure_does_not_hold_the_agent_up_and_the_next_command_says_so(
    cli: Cli, agent: Agent, repository: Path
) -> None:
    """1 blocks no agent; 2 would."""
    agent.ok("SessionStart")
    agent.edit("one.txt", "1")
    client.stop(folder_of(repository))
    store = Path(folder_of(repository)) / places.STORE
    moved = store.rename(store.with_suffix(".moved"))
    store.write_text("no database")
    (repository / "two.txt").write_text("2")
    said = agent.hook("PostToolUse", tool_name="Bash", tool_use_id="c9", tool_input={"command": "x"})
    assert said.code == 1
    assert said.out == ""
    assert "not recorded" in said.err
    while os.path.exists(places.socket_of(folder_of(repository))):
        time.sleep(0.01)  # the one that could not begin is still leaving
    store.unlink()
    moved.rename(store)
    told = cli.ok("log")
    assert "not recorded" in told.err
    assert "not recorded" not in cli.ok("log").err


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"hook_event_name": 5, "tool_input": []}', b"null"]
)
def test_nonsense_holds_no_agent_up(agent: Agent, repository: Path, body: bytes) -> None:
    import subprocess
    import sys

    agent.ok("SessionStart")
    done = subprocess.run(
        [sys.executable, "-m", "takeback.hook", "claude-code"],
        input=body,
        cwd=repository,
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1)
    assert done.stdout == b""


def test_the_home_directory_is_not_captured(home: Path) -> None:
    """An agent that is started there by mistake goes on; everything below would be too much."""
    said = Agent(home).hook("SessionStart")
    assert said.code == 1
    assert "no project" in said.err
    assert not (places_of(home)).exists()


def places_of(root: Path) -> Path:
    return Path(folder_of(root))


def watcher(root: Path) -> str:
    answer = hook.ask(places.socket_of(folder_of(root)), b"ping\n")
    assert answer is not None
    return answer.decode().splitlines()[1]
