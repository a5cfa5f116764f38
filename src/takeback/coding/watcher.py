"""The watcher process: one for a workspace, started by need. It listens on a socket, and leaves when idle.

It holds the store, the thread and the watch of the directory open, so that a hook or a command costs no
start and no scan. It can be killed at any moment: the next one who needs it starts another, which sweeps.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import stat
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Protocol

from takeback import hook, places

IDLE_SECONDS = 900.0
_READ_SECONDS = 10.0
_LONGEST = 64 << 20  # what a tool was given may be a whole file
_QUIET = 1.0


class Station(Protocol):
    """What answers the requests; see `takeback.coding.station`."""

    def answer(self, words: list[str], body: bytes) -> bytes: ...

    def fileno(self) -> int | None:
        """What becomes readable when the directory changes."""
        ...

    def quiet(self) -> None:
        """Nothing has changed for a moment after something did."""
        ...

    def busy(self) -> bool:
        """Whether somebody still needs the watcher who does not ask it anything."""
        ...

    def tidy(self, asked: Callable[[], bool]) -> str | None:
        """What is left for when nobody asks; what was done. Breaks off with any error when somebody does."""
        ...

    def close(self) -> None: ...


def main() -> int:
    """`python -m takeback.coding.watcher ROOT FOLDER`: fork, and return when the child listens."""
    root, folder = sys.argv[1:3]
    lock = _lock(os.path.join(folder, places.LOCK))
    if lock is None:
        return 0  # another one is there, or just starting
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        with open(reading, "rb") as said:
            return 0 if said.read() == b"ready" else 1
    os.close(reading)
    os.setsid()
    try:
        serve(root, folder, ready=lambda: _tell(writing), make=_station)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _station(root: str, folder: str) -> Station:
    from takeback.coding.station import Workshop

    return Workshop(root, folder)


def serve(
    root: str,
    folder: str,
    *,
    ready: Callable[[], None] = lambda: None,
    make: Callable[[str, str], Station],
    idle: float | None = None,
) -> None:
    """Listen until nobody has asked anything for long. Whoever calls holds the lock."""
    seconds = idle if idle is not None else float(os.environ.get("TAKEBACK_WATCHER_IDLE", IDLE_SECONDS))
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal that it was started from
    path = places.socket_of(folder)
    with _listening(path) as listener:
        # First the socket, then the store and the sweep: whoever asks meanwhile is queued, not turned away.
        ready()
        _say(f"watching {root}")
        try:
            station = make(root, folder)
        except Exception as error:
            from takeback.coding.notes import failed

            _refuse(listener, failed(folder, "start", error))
            raise
        try:
            _loop(listener, station, seconds)
        finally:
            station.close()
            _say("left")


def _loop(listener: socket.socket, station: Station, idle: float) -> None:
    last, stirred = time.monotonic(), False
    while True:
        changes = None if stirred else station.fileno()
        waits = [listener.fileno(), *([] if changes is None else [changes])]
        readable, _, _ = select.select(waits, [], [], _QUIET if stirred else min(idle, 5.0))
        if listener.fileno() in readable:
            link, _ = listener.accept()
            with link:
                if not _answer(link, station):
                    return
            last = time.monotonic()
        elif readable:
            stirred = station.busy()  # nobody waits for what changes between two requests
            if not stirred:
                time.sleep(0.05)
        elif stirred:
            stirred = False
            station.quiet()
        if time.monotonic() - last > idle and not station.busy() and _tidied(listener, station):
            return


def _tidied(listener: socket.socket, station: Station) -> bool:
    """Do what is left for when nobody asks; False if somebody asked meanwhile, who is answered first."""

    def asked() -> bool:
        return bool(select.select([listener.fileno()], [], [], 0)[0])

    try:
        if said := station.tidy(asked):
            _say(said)
    except Exception as error:  # it is no reason to stay
        if not asked():
            _say(f"the store was not tidied: {error}")
    return not asked()


def _answer(link: socket.socket, station: Station) -> bool:
    """Answer one request; whether to go on. What goes wrong with it is told to who asked, and logged."""
    try:
        link.settimeout(_READ_SECONDS)
        if not hook.is_ours(link):
            _say("somebody else's process was turned away")
            return True
        line, _, body = _received(link).partition(b"\n")
        words = os.fsdecode(line).split(" ")
        if words == ["stop"]:
            link.sendall(b"0\n")
            return False
        reply = b"0\n" + str(os.getpid()).encode() if words == ["ping"] else station.answer(words, body)
        link.sendall(reply)
    except OSError as error:  # whoever asked has left
        _say(f"a request was not answered: {error}")
    return True


def _refuse(listener: socket.socket, why: bytes) -> None:
    """Those who are queued hear why there is no watcher, rather than start one that fails again."""
    listener.settimeout(0.05)
    with contextlib.suppress(OSError):  # nobody is waiting any more, or they have left
        while True:
            link, _ = listener.accept()
            with link, contextlib.suppress(OSError):
                _received(link)
                link.sendall(b"1\n" + why)


def _received(link: socket.socket) -> bytes:
    parts, size = [], 0
    while part := link.recv(hook.MORE):
        parts.append(part)
        size += len(part)
        if size > _LONGEST:
            raise OSError("the request is too long")
    return b"".join(parts)


@contextlib.contextmanager
def _listening(path: str) -> Iterator[socket.socket]:
    """A socket that only this user can reach, in the place of one that a killed watcher left."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    status = os.lstat(folder)
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
        raise PermissionError(f"{folder} is not this user's alone")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(64)
    try:
        yield listener
    finally:
        # Gone before it is closed: who comes now finds none, and starts another, which waits for the lock.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener.close()


def _lock(path: str) -> int | None:
    """The lock of a workspace's watcher, which goes with its process; None when another has it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _tell(writing: int) -> None:
    os.write(writing, b"ready")
    os.close(writing)


def _leave(*_: object) -> None:
    raise SystemExit(0)


def _say(text: str) -> None:
    """A line of the log, which is where standard error goes."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{os.getpid()}] {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
