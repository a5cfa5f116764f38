"""`takeback run`: any command, with its terminal, signals and exit code; what it did is taken back."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.coding.conftest import folder_of, tree
from tests.surfaces.cli import Cli

from takeback import places
from takeback.coding import client, running

RUN = [sys.executable, "-m", "takeback", "run"]


def sh(text: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, "sh", "-c", text], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]  # options are those of run


def test_a_command_that_was_never_told_of_takeback(cli: Cli, repository: Path) -> None:
    """Store and thread are made for the directory; what stood there before comes back."""
    before = tree(repository)
    done = sh("echo x > new.txt; rm README.md; chmod 700 auth.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert "+new.txt" in done.stderr
    cli.ok("rollback", "1", "--yes")
    assert tree(repository) == before


def test_a_directory_inside_a_repository_is_the_repository(cli: Cli, repository: Path) -> None:
    (repository / "deep").mkdir()
    assert sh("echo x > ../new.txt", cwd=repository / "deep").returncode == 0
    cli.ok("undo")
    assert not (repository / "new.txt").exists()


def test_a_directory_without_git_works_too(cli: Cli, home: Path, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]  # pytest's own
    plain = tmp_path / "plain"
    plain.mkdir()
    monkeypatch.chdir(plain)
    assert sh("echo x > new.txt").returncode == 0
    cli.ok("undo")
    assert list(plain.iterdir()) == []


@pytest.mark.parametrize(("text", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_commands(repository: Path, text: str, code: int) -> None:
    assert sh(text).returncode == code


def test_its_input_output_and_environment_are_the_commands(repository: Path) -> None:
    done = sh("cat; echo err >&2; echo $TAKEBACK_RUN", input="in\n")
    first, pid, _ = done.stdout.split("\n")
    assert first == "in"
    assert pid.isdigit()
    assert done.stderr.startswith("err\n")


def test_options_of_the_command_are_not_ours(repository: Path) -> None:
    done = subprocess.run(
        [*RUN, "sh", "-c", 'echo "$@"', "x", "--json", "--db", "-m"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "--json --db -m\n"
    done = subprocess.run([*RUN, "--", "printf", "x%s", "--yes"], capture_output=True, text=True, check=False)
    assert done.stdout == "x--yes"


def test_it_has_the_terminal(repository: Path) -> None:
    """A command that asks who is there finds a terminal; an interrupt reaches it, and not us."""
    control, terminal = pty.openpty()
    script = "test -t 0 && test -t 1 && trap 'echo caught; echo x > trapped; exit 5' INT && echo ready; "
    # A shell makes the terminal its own before it runs us: that is what a person's shell does.
    start = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    start += "os.execv(sys.argv[1], sys.argv[1:])"
    child = subprocess.Popen(
        [sys.executable, "-c", start, *RUN, "sh", "-c", script + "while :; do sleep 0.05; done"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    said = b""
    while b"ready" not in said:
        said += os.read(control, 1000)
    os.write(control, b"\x03")
    while True:
        try:
            part = os.read(control, 1000)
        except OSError:
            break
        if not part:
            break
        said += part
    assert child.wait(60) == 5
    os.close(control)
    assert b"caught" in said
    assert (repository / "trapped").exists()


def test_a_signal_to_us_is_passed_on(repository: Path) -> None:
    child = subprocess.Popen(
        [*RUN, "sh", "-c", "trap 'echo x > told; exit 9' TERM; echo ready; while :; do sleep 0.05; done"],
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 9
    child.stdout.close()
    assert (repository / "told").exists()


def test_a_signal_that_comes_early_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the command is there: it gets the signal when it is, and we live on."""
    real = running._start

    def slow(*given: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*given)

    monkeypatch.setattr(running, "_start", slow)
    assert running.run(["sleep", "30"], {}) == 128 + signal.SIGTERM


def test_quiet_moments_make_versions(cli: Cli, repository: Path) -> None:
    """A long session without hooks is more than one version."""
    done = sh("echo 1 > a.txt; sleep 2.5; echo 2 > b.txt; sleep 2.5; echo 3 > c.txt")
    assert done.returncode == 0
    found = [c for c in cli.ok("log", "--json").json["checkpoints"] if c["step"]]
    assert [c["changed_files"] for c in found[::-1]] == [f"+{name}.txt (+1 −0)" for name in "abc"]
    cli.ok("undo")
    assert (repository / "b.txt").exists()
    assert not (repository / "c.txt").exists()


def test_run_itself_is_killed(cli: Cli, repository: Path) -> None:
    """What the command had done is the command's all the same."""
    child = subprocess.Popen(
        [*RUN, "sh", "-c", "echo x > half.txt; echo ready; exec sleep 30"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    command = int(subprocess.run(
        ["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=True
    ).stdout.split()[0]) if _has("pgrep") else None  # fmt: skip
    child.kill()
    child.wait()
    child.stdout.close()
    if command is not None:
        os.kill(command, signal.SIGKILL)
    cli.ok("undo")
    assert not (repository / "half.txt").exists()


def _has(program: str) -> bool:
    import shutil

    return shutil.which(program) is not None


def test_the_watcher_is_killed_meanwhile(cli: Cli, repository: Path) -> None:
    folder = folder_of(repository)
    child = subprocess.Popen(
        [*RUN, "sh", "-c", "echo ready; read line; echo x > late.txt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    os.kill(int(client.ask(str(repository), folder, b"ping\n").splitlines()[1]), signal.SIGKILL)
    child.communicate(b"go\n")
    assert child.returncode == 0
    time.sleep(0)
    cli.ok("undo")
    assert not (repository / "late.txt").exists()


def test_a_command_that_is_not_there(cli: Cli, repository: Path) -> None:
    ran = cli("run", "no-such-command")
    assert ran.code == 2
    assert "no-such-command" in ran.err
    assert cli("run").code == 2


def test_with_a_store_of_its_own_it_is_refused(cli: Cli, repository: Path) -> None:
    ran = cli("--db", "x.db", "run", "true")
    assert ran.code == 2
    assert "--db" in ran.err


def test_the_home_directory_needs_force(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    ran = cli("run", "true")
    assert ran.code == 2
    assert "no project" in ran.err
    assert not Path(places.folder_of(str(home))).exists()
