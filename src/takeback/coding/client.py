"""The way to a workspace's watcher for commands: asking it, and starting one where none answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from takeback import hook, places
from takeback.errors import WatcherFailed

_STARTING = 30.0  # seconds in which a watcher that was started has to answer


def ask_by_need(start: str, request: bytes, found: tuple[str, str] | None = None) -> bytes:
    """Ask the watcher of the workspace around a path; make the workspace, and start the watcher, by need."""
    root, folder = found or enrol(places.project_of(start))
    return ask(root, folder, request)


def ask(root: str, folder: str, request: bytes) -> bytes:
    until = time.monotonic() + _STARTING
    pause = 0.005
    while True:
        answer = hook.ask(places.socket_of(folder), request)
        if answer is not None:
            return answer
        if time.monotonic() > until:
            raise WatcherFailed(
                f"the watcher of {root} does not answer",
                hint=f"Its log is {os.path.join(folder, places.LOG)}",
            )
        start(root, folder)
        time.sleep(pause)  # another may be leaving, or be the one that is starting
        pause = min(2 * pause, 0.2)


def asked(root: str, folder: str, request: bytes) -> bytes:
    """The answer alone; what went wrong is an error."""
    code, _, said = ask(root, folder, request).partition(b"\n")
    if code != b"0":
        raise WatcherFailed(said.decode(errors="replace").strip().removeprefix("takeback: "))
    return said


def enrol(root: str, *, force: bool = False) -> tuple[str, str]:
    """Give a directory its folder, from which it is found again; refuses what nobody means."""
    refuse_wide(root, force=force)
    folder = places.folder_of(root)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    marker = os.path.join(folder, places.ROOT)
    if not os.path.exists(marker):
        with open(f"{marker}.{os.getpid()}", "wb") as file:
            file.write(os.fsencode(root))
        os.replace(file.name, marker)
    return root, folder


def refuse_wide(root: str, *, force: bool = False) -> None:
    """A whole disk or home is never what is meant by the directory of a project."""
    from takeback.errors import BadRequest

    if not force and root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise BadRequest(
            f"{root} is no project: everything below it would be captured",
            hint="Go into a project's directory, or give --force",
        )


def start(root: str, folder: str) -> None:
    """Start a watcher, and return when it listens; where another one has the lock, it does not stay."""
    log = os.path.join(folder, places.LOG)
    with open(log, "ab") as file:
        done = subprocess.run(
            [sys.executable, "-m", "takeback.coding.watcher", root, folder],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd="/",
            check=False,
            timeout=_STARTING,
        )
    if done.returncode:
        with open(log, encoding="utf-8", errors="replace") as said:
            last = (said.read().strip().splitlines() or ["it said nothing"])[-1]
        raise WatcherFailed(f"the watcher of {root} did not start: {last}", hint=f"Its log is {log}")


def running(folder: str) -> bool:
    """Whether a watcher answers."""
    return hook.ask(places.socket_of(folder), b"ping\n", 5) is not None


def stop(folder: str) -> bool:
    """Have the watcher leave; whether there was one."""
    return hook.ask(places.socket_of(folder), b"stop\n", 10) is not None
