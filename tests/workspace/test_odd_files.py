"""Files that are no ordinary files, names that are no ordinary names, and disks that refuse."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import subprocess
import sys
import time

import pytest
from tests.workspace.trees import snapshot

import takeback
from takeback.errors import WorkspaceFailed
from takeback.workspace import beside, content
from takeback.workspace.tree import Tree


def test_what_cannot_be_kept_is_named(trip, project) -> None:
    """FIFOs, sockets and files above the limit: each is said, none stops the capture."""
    os.mkfifo(project.path / "pipe")
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(project.path / "sock"))
    trip.workspace(project.path, max_file=1_000)
    project.write("big.bin", b"x" * 1_001)
    with trip.step("edit"):
        project.write("auth.py", "broken")
    server.close()
    left = trip.files().left_out
    assert left == {"pipe": "a FIFO", "sock": "a socket", "big.bin": "1,001 bytes; the limit is 1,000"}
    trip.undo()
    assert "True" in project.read("auth.py")
    assert (project.path / "pipe").is_fifo()


def test_an_unreadable_file_is_named_and_not_lost(trip, project, monkeypatch) -> None:
    """What it was when it could be read stays in the manifest; it is never taken for removed."""
    read = content.read_file

    def refused(tree, path, store):
        if path == b"db.py":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(tree, path, store)

    monkeypatch.setattr("takeback.workspace.capture.read_file", refused)
    with trip.step("edit"):
        project.write("db.py", "not to be read")
        project.write("auth.py", "broken")
    assert trip.files().left_out == {"db.py": "cannot be read: Permission denied"}
    assert trip.read_file("head", "db.py") == b"rows = []\n"


def test_a_file_that_keeps_changing_is_named(trip, project, monkeypatch) -> None:
    """It is tried again, and then said: half of one content and half of another is never kept."""
    monkeypatch.setattr(content, "_MOMENT", 0.0)
    small = content._small

    def moving(fd, found, store):
        made = small(fd, found, store)
        with open(project.path / "busy.log", "a") as file:
            file.write("more\n")
        return made

    project.write("busy.log", "start\n")
    monkeypatch.setattr(content, "_small", moving)
    trip.capture()
    assert trip.workspaces()[0].status().left_out["busy.log"] == "kept changing while it was read"
    monkeypatch.undo()
    trip.capture()
    assert "busy.log" in trip.files()


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.bin", b"two\nlines", b"sp ace", b"-rf", b"...", "é".encode(), b"A", b"a"]
)
def test_any_name_comes_back(trip, project, name) -> None:
    path = os.path.join(os.fsencode(project.path), name)
    with trip.step("make"), open(path, "wb") as file:
        file.write(b"content")
    assert trip.read_file("head", name) == b"content"
    assert "\n" not in str(trip.plan_undo())
    trip.undo()
    assert not os.path.lexists(path)
    trip.redo()
    with open(path, "rb") as file:
        assert file.read() == b"content"
    trip.workspaces()[0].directory.home.index()  # it can be kept and read, whatever the names are


def test_a_very_deep_tree(trip, project) -> None:
    """Deeper than a path may be long."""
    depth, name = 260, "directory-of-many"
    here = os.open(project.path, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        goes_and_comes(trip, project, here, b"/".join([name.encode()] * depth))
    finally:
        os.close(here)
        subprocess.run(["rm", "-rf", str(project.path / name)], check=True)


def goes_and_comes(trip, project, here: int, folder: bytes) -> None:
    """A file is made in a directory, taken back, and brought again."""
    with trip.step("deep"):
        file = os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.write(file, b"down here")
        os.close(file)
    assert trip.read_file("head", folder + b"/leaf") == b"down here"
    for act, there in ((trip.undo, False), (trip.redo, True)):
        act()
        with Tree(str(project.path)) as tree:
            assert (tree.lstat(folder + b"/leaf") is not None) == there
            assert tree.lstat(folder) is not None
    assert trip.verify().ok


def test_a_running_program_is_replaced_beside_it(trip, project) -> None:
    """The system refuses to write into it; the process goes on with what it runs."""
    program = project.path / "tool"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    trip.capture()
    version = trip.version
    running = subprocess.Popen([program, "30"])
    try:
        with trip.step("rebuild"):
            os.unlink(program)
            program.write_bytes(b"other")
        program.unlink()
        shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
        other = subprocess.Popen([program, "30"])
        try:
            trip.rollback(version, ours=True)
            trip.undo()
        finally:
            other.kill()
            other.wait()
    finally:
        running.kill()
        running.wait()


def test_no_space_leaves_the_workspace_as_it_was(trip, project, monkeypatch) -> None:
    """New contents are written beside first, so a full disk shows before anything is changed."""
    with trip.step("edit"):
        project.write("auth.py", "broken")
        (project.path / "db.py").unlink()
        project.write("new/file.py", "x")
    was = snapshot(project.path)

    def full(fd, part):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(beside, "_write_all", full)
    with pytest.raises(WorkspaceFailed, match=r"nothing was changed in .*No space left"):
        trip.undo()
    assert snapshot(project.path) == was
    monkeypatch.undo()
    trip.refresh()
    trip.undo()
    assert "True" in project.read("auth.py")
    assert "rows" in project.read("db.py")


def test_a_refusal_in_the_middle_takes_back_what_was_done(trip, project, monkeypatch) -> None:
    with trip.step("edit"):
        project.write("auth.py", "broken")
        project.write("db.py", "broken too")
        (project.path / "README.md").unlink()
    was = snapshot(project.path)
    from takeback.workspace.restore import Restore

    change, calls = Restore._change, []

    def second(self, each):
        calls.append(each)
        if len(calls) == 3:
            raise OSError(errno.EIO, "Input/output error")
        return change(self, each)

    monkeypatch.setattr(Restore, "_change", second)
    with pytest.raises(WorkspaceFailed, match="the workspace is as it was"):
        trip.undo()
    assert snapshot(project.path) == was
    assert tb_is_free(trip)


def tb_is_free(trip) -> bool:
    trip.refresh()
    return trip.commit({"n": 5}).kind == "commit"


def test_untouched_files_keep_their_times(trip, project) -> None:
    os.utime(project.path / "README.md", ns=(10**18, 10**18))
    trip.capture()
    with trip.step("edit"):
        project.write("auth.py", "broken")
    inode = os.stat(project.path / "db.py").st_ino
    trip.undo()
    assert os.stat(project.path / "README.md").st_mtime_ns == 10**18
    assert os.stat(project.path / "db.py").st_ino == inode


def test_a_write_within_the_clocks_grain_is_seen(trip, project) -> None:
    """Same size, same second, times set back: the change is found all the same."""
    trip.workspaces()[0].directory.close()
    for n in range(20):
        path = project.write("same.txt", f"{n:04}")
        os.utime(path, ns=(10**18, 10**18))
        trip.capture()
        assert trip.read_file("head", "same.txt") == f"{n:04}".encode()


def test_what_others_lose_is_kept(trip, project) -> None:
    """An executable bit, a nested repository, an empty directory, an untracked file, a shell's edits."""
    project.write("run.sh", "#!/bin/sh\n", 0o755)
    project.write("vendor/lib/.git/HEAD", "ref: refs/heads/main\n")
    (project.path / "empty").mkdir()
    trip.capture()
    with trip.step("shell"):
        subprocess.run("chmod 644 run.sh; rm -rf vendor empty; sed -i s/True/False/ auth.py", shell=True,
                       cwd=project.path, check=True)  # fmt: skip
    trip.undo()
    assert os.access(project.path / "run.sh", os.X_OK)
    assert project.read("vendor/lib/.git/HEAD").startswith("ref")
    assert (project.path / "empty").is_dir()
    assert "True" in project.read("auth.py")


def test_the_users_own_repository_is_never_touched(trip, project) -> None:
    project.write(".git/HEAD", "ref: refs/heads/main\n")
    with trip.step("edit"):
        project.write(".git/HEAD", "ref: refs/heads/other\n")
        project.write("auth.py", "broken")
    assert ".git" not in trip.files()
    trip.undo()
    assert project.read(".git/HEAD") == "ref: refs/heads/other\n"


def test_an_ignored_file_comes_in_by_a_rule(trip, project) -> None:
    """`!name` in .takebackignore takes in what .gitignore or the list of secrets leaves out; new rules hold
    at once, also for what was captured before."""
    project.write(".gitignore", "*.log\n")
    project.write("a.log", "log")
    trip.capture()
    assert "a.log" not in trip.files()
    project.write(".takebackignore", "!a.log\ndb.py\n")
    trip.capture()
    assert "a.log" in trip.files()
    assert trip.files().left_out == {"db.py": ".takebackignore"}
    assert (project.path / "db.py").exists()


def test_many_open_directories(trip, project) -> None:
    """A wide tree needs no more descriptors than a process has."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for n in range(600):
        project.write(f"d{n}/e/f.txt", str(n))
    resource.setrlimit(resource.RLIMIT_NOFILE, (420, hard))
    try:
        with trip.step("all"):
            for n in range(600):
                project.write(f"d{n}/e/f.txt", "changed")
        trip.undo()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert project.read("d599/e/f.txt") == "599"


def test_without_the_extra_the_error_names_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pathspec", None)
    with takeback.open(":memory:") as tb, pytest.raises(takeback.errors.MissingExtra, match="workspace"):
        tb.thread("t", initial={}).workspace(tmp_path)


def test_where_nothing_can_watch_it_is_said_and_swept(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "inotify_simple", None)
    (tmp_path / "a").write_text("1")
    with takeback.open(":memory:") as tb:
        thread = tb.thread("t", initial={})
        with pytest.warns(RuntimeWarning, match="is not watched"):
            thread.workspace(tmp_path)
        time.sleep(0.04)
        (tmp_path / "a").write_text("2")
        assert thread.capture().files[0].tier == "sweep"
