"""What takeback keeps of a workspace outside of it: a lock, who uses it, and an index of what it looked like.

It lies in the user's state directory. Losing it costs a look at every file, and the knowledge of which
threads use a directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from blake3 import blake3

from takeback.errors import WorkspaceBusy
from takeback.workspace.scan import Index

_FORMAT, _BYTES = b"takeback index 1\n", b"takeback index 1, bytes\n"
V = TypeVar("V")
_POLL = 0.01
_DECODER = msgspec.msgpack.Decoder(Index)


class User(msgspec.Struct, frozen=True, order=True):
    """A thread that uses a directory."""

    store: str
    thread: str
    name: str
    shared: bool = False
    where: str = ""  # the store's file, or the process that holds it in memory

    @property
    def gone(self) -> bool:
        """Whether its store is known to be no more."""
        if self.where.startswith("/"):
            return not os.path.exists(self.where)
        kind, _, number = self.where.partition(":")
        return kind == "pid" and not os.path.exists(f"/proc/{number}") and os.path.exists("/proc/self")


class Users(msgspec.Struct):
    """Who uses a directory."""

    path: str = ""
    users: list[User] = []


def state_directory() -> str:
    """Where takeback keeps what it can lose."""
    if found := os.environ.get("TAKEBACK_STATE"):
        return found
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "takeback")


class Home:
    """The place of one workspace's things. Each `scope`, a store, has an index of its own."""

    def __init__(self, root: str, scope: str = "") -> None:
        self.root = root
        self._index = "index" + ("-" + blake3(scope.encode()).hexdigest()[:8] if scope else "")
        key = blake3(os.fsencode(root)).hexdigest()[:24]
        self.path = os.path.join(state_directory(), "workspaces", key)

    @contextlib.contextmanager
    def lock(self, wait: float = 30.0) -> Iterator[None]:
        """One capture or restore at a time, over all processes. It goes with the process that holds it."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        fd = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + wait
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise WorkspaceBusy(
                            f"another process has been at work on {self.root} for {wait:g} seconds",
                            hint="Try again when it is done",
                        ) from None
                time.sleep(_POLL)
            yield
        finally:
            os.close(fd)

    # --- the index

    def index(self) -> Index:
        """The index as it was last kept; an empty one where it is lost or damaged, which is always safe."""
        try:
            with open(self._file(self._index), "rb") as file:
                data = file.read()
            if data.startswith(_FORMAT):
                return _DECODER.decode(memoryview(data)[len(_FORMAT) :])
            if data.startswith(_BYTES):
                return _renamed(_DECODER.decode(memoryview(data)[len(_BYTES) :]), _with_surrogates)
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            return Index()
        return Index()

    def keep(self, index: Index) -> None:
        """Keep the index."""
        try:
            data = _FORMAT + msgspec.msgpack.encode(index)
        except UnicodeEncodeError:  # a name that is no text
            data = _BYTES + msgspec.msgpack.encode(_renamed(index, _without_surrogates))
        self._write(self._index, data)

    # --- who uses it

    def users(self) -> Users:
        return _users(self._file("users"))

    def set_users(self, users: list[User]) -> None:
        self._write("users", msgspec.json.encode(Users(self.root, sorted(users))))

    def others(self) -> list[Users]:
        """Who uses other directories."""
        above = os.path.dirname(self.path)
        try:
            names = os.listdir(above)
        except FileNotFoundError:
            return []
        found = [_users(os.path.join(above, name, "users")) for name in names]
        return [each for each in found if each.path not in ("", self.root) and each.users]

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _write(self, name: str, data: bytes) -> None:
        """Beside and moved: a reader sees the old or the new. It is not synced, as it can be lost."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        beside = self._file(f"{name}.{os.getpid()}")
        with open(beside, "wb") as file:
            file.write(data)
        os.replace(beside, self._file(name))


def _users(path: str) -> Users:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Users)
    except (OSError, msgspec.MsgspecError):
        return Users()


def _renamed(index: Index, change: Callable[[str], str]) -> Index:
    def held(dirs: dict[str, dict[str, V]]) -> dict[str, dict[str, V]]:
        return {change(d): {change(name): value for name, value in at.items()} for d, at in dirs.items()}

    return msgspec.structs.replace(index, dirs=held(index.dirs), left=held(index.left))


def _without_surrogates(name: str) -> str:
    """A name's bytes as characters: text for any name."""
    return os.fsencode(name).decode("latin-1")


def _with_surrogates(name: str) -> str:
    return os.fsdecode(name.encode("latin-1"))
