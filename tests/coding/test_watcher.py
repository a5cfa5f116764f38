"""The watcher process: one for a directory, whoever starts it; it leaves, and it may be killed."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.coding.conftest import Agent, folder_of, tree
from tests.coding.test_session import watcher
from tests.surfaces.cli import Cli

import takeback
from takeback import hook, places
from takeback.coding import client
from takeback.coding import watcher as watching
from takeback.errors import BadRequest, WatcherFailed


@pytest.fixture
def around(repository: Path) -> tuple[str, str]:
    """A directory and its folder, with no watcher yet."""
    return client.enrol(places.project_of(str(repository)))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> None:
    """Waits until a process that was asked to leave has left."""
    for _ in range(2000):
        if not alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} is still there")


def pid_of(around: tuple[str, str]) -> int:
    return int(client.ask(*around, b"ping\n").splitlines()[1])


def test_it_is_started_by_need_and_only_once(around: tuple[str, str]) -> None:
    assert not client.running(around[1])
    pids = {pid_of(around) for _ in range(5)}
    assert len(pids) == 1
    client.start(*around)  # a second one finds the lock taken, and ends
    assert {pid_of(around)} == pids


def test_many_that_start_it_at_once_get_one(around: tuple[str, str]) -> None:
    """Of all that race, one has the lock; everybody is answered by it."""
    found, errors, barrier = set[int](), list[BaseException](), threading.Barrier(6)

    def ask() -> None:
        barrier.wait()
        try:
            found.add(pid_of(around))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(found) == 1


def test_hooks_that_race_to_start_it_all_record(agent: Agent, repository: Path, cli: Cli) -> None:
    """Two agents that begin at one moment in a directory that takeback does not know yet."""
    agents = [Agent(repository, f"conv-{number}") for number in range(4)]
    said: list[int] = []

    def begin(each: Agent) -> None:
        said.append(each.hook("SessionStart").code)

    threads = [threading.Thread(target=begin, args=(each,)) for each in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [0, 0, 0, 0]
    agent.edit("x.txt", "1")
    assert [info["name"] for info in cli.ok("threads", "--json").json["threads"]] == ["work"]
    assert cli.ok("verify").code == 0


def test_killed_and_started_again(around: tuple[str, str]) -> None:
    """Its socket is still there, and its lock is not."""
    for _ in range(3):
        pid = pid_of(around)
        os.kill(pid, signal.SIGKILL)
        gone(pid)
        assert os.path.exists(places.socket_of(around[1]))
        assert pid_of(around) != pid


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.2])
def test_killed_while_it_starts(around: tuple[str, str], seconds: float, repository: Path, cli: Cli) -> None:
    """At whatever moment: the next one does all of it, and the store is sound."""
    with subprocess.Popen([sys.executable, "-m", "takeback.coding.watcher", *around]) as child:
        time.sleep(seconds)
        child.kill()
    answer = hook.ask(places.socket_of(around[1]), b"ping\n") if seconds else None
    if answer is not None:
        os.kill(int(answer.splitlines()[1]), signal.SIGKILL)
    agent = Agent(repository)
    agent.ok("SessionStart")
    agent.edit("x.txt", "1")
    cli.ok("undo")
    assert "x.txt" not in tree(repository)
    assert cli.ok("verify").code == 0


def test_it_leaves_when_nobody_asks(around: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAKEBACK_WATCHER_IDLE", "0.3")
    pid = pid_of(around)
    gone(pid)
    assert not os.path.exists(places.socket_of(around[1]))
    assert pid_of(around) != pid


def test_it_leaves_when_asked_and_by_sigterm(around: tuple[str, str]) -> None:
    pid = pid_of(around)
    assert client.stop(around[1])
    gone(pid)
    assert not client.stop(around[1])
    pid = pid_of(around)
    os.kill(pid, signal.SIGTERM)
    gone(pid)
    assert not os.path.exists(places.socket_of(around[1]))


def test_nobody_else_can_reach_it(around: tuple[str, str]) -> None:
    pid_of(around)
    path = places.socket_of(around[1])
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) & 0o077 == 0
    assert stat.S_IMODE(os.stat(around[1]).st_mode) == 0o700


def test_another_users_process_is_turned_away(
    around: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the permissions of the socket say: the kernel tells whose a process is, at both ends."""
    pid_of(around)
    path = places.socket_of(around[1])
    one, two = socket.socketpair(socket.AF_UNIX)
    with one, two:
        assert hook.is_ours(one)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getuid", lambda: 12345)
            assert not hook.is_ours(one)
            with pytest.raises(PermissionError, match="another user"):
                hook.ask(path, b"ping\n")


def test_a_folder_that_others_can_write_holds_no_socket(tmp_path: Path) -> None:
    """Somebody could put another socket in its place."""
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with (
        pytest.raises(PermissionError, match="this user's alone"),
        watching._listening(str(open_to_all / "s")),
    ):
        raise AssertionError("not reached")


def test_one_that_connects_and_says_nothing_holds_up_nobody_for_long(
    around: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_of(around)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(places.socket_of(around[1]))
        silent.close()
        assert pid_of(around)


def test_an_unknown_request_is_an_answer(around: tuple[str, str]) -> None:
    assert client.ask(*around, b"dance\n").startswith(b"1\n")
    with pytest.raises(WatcherFailed, match="dance"):
        client.asked(*around, b"dance\n")


def test_why_it_cannot_begin_is_said(around: tuple[str, str]) -> None:
    """Not only in a log: whoever asked is told."""
    Path(around[1], places.STORE).write_text("no database")
    with pytest.raises(WatcherFailed, match="no takeback store"):
        client.asked(*around, b"status\n")


@pytest.mark.parametrize("place", ["/", "~"])
def test_a_whole_disk_or_home_is_no_project(home: Path, place: str) -> None:
    with pytest.raises(BadRequest, match="no project"):
        client.enrol(os.path.realpath(os.path.expanduser(place)))


def test_a_hook_needs_no_look_at_every_file(agent: Agent, repository: Path, cli: Cli) -> None:
    """Recorded in the version: what the system told was enough."""
    agent.ok("SessionStart")
    agent.edit("x.txt", "1")
    agent.edit("y.txt", "1")
    with takeback.open(Path(folder_of(repository)) / places.STORE, create=False) as repo:
        assert [root.tier for root in repo.thread("work").head.files] == ["watch"]


def test_commands_look_at_what_changed_alone(agent: Agent, repository: Path, cli: Cli) -> None:
    """An undo from another process: the watcher says where to look, and its own next look finds no more."""
    agent.ok("SessionStart")
    agent.edit("x.txt", "1")
    (repository / "mine.txt").write_text("mine")
    cli.ok("undo")
    found = cli.ok("log", "--json").json["checkpoints"]
    assert [c["kind"] for c in found[:2]] == ["undo", "capture"]
    with takeback.open(Path(folder_of(repository)) / places.STORE, create=False) as repo:
        assert [root.tier for root in repo.thread("work").head.files] != ["sweep"]
    agent.edit("z.txt", "1")
    latest = cli.ok("log", "--json").json["checkpoints"][0]
    assert (latest["step"], latest["changed_files"]) == ("Edit z.txt", "+z.txt (+1 −0)")


def test_a_directory_that_was_made_anew_is_attached_again(
    agent: Agent, repository: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted and cloned again in the same place, under a watcher that knew the old one."""
    agent.ok("SessionStart")
    agent.edit("x.txt", "1")
    moved = repository.rename(repository.with_name("old"))
    repository.mkdir()
    (repository / "new.txt").write_text("new")
    monkeypatch.chdir(repository)
    os.kill(int(watcher(repository)), signal.SIGKILL)
    agent.ok("SessionStart")
    agent.edit("y.txt", "1")
    cli.ok("undo")
    assert sorted(tree(repository)) == ["new.txt"]
    assert (moved / "x.txt").exists()
