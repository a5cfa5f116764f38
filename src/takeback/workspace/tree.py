"""A directory as it lies on the disk, reached from its own descriptor: no link is followed on the way.

Every operation opens the directories above a path one by one without following links, so that neither a
link that somebody plants nor a name in a manifest leads out of the root.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from takeback.errors import WorkspaceMissing

_OPEN_DIR = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_HELD = 128  # descriptors of directories that are kept open at a time
GONE = (FileNotFoundError, NotADirectoryError)


class Tree:
    """One workspace's directory, for the length of one operation: `with Tree(path) as tree`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fds: dict[bytes, int] = {}

    def __enter__(self) -> Self:
        try:
            self._fds[b""] = os.open(self.path, _OPEN_DIR)
        except OSError as error:
            raise WorkspaceMissing(
                f"the workspace {self.path} cannot be opened: {error.strerror}",
                hint="Put it back, or attach the directory that it is now: thread.workspace(path, name)",
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    @property
    def root(self) -> int:
        return self._fds[b""]

    def identity(self) -> tuple[int, int]:
        """Device and inode of the root: another directory in its place has others."""
        found = os.fstat(self.root)
        return found.st_dev, found.st_ino

    def directory(self, path: bytes) -> int:
        """A descriptor of a directory below the root. Raises OSError, also where a link stands above it."""
        held = self._fds.get(path)
        if held is not None:
            return held
        parent, _, name = path.rpartition(b"/")
        if parent and parent not in self._fds:
            self._open_above(parent)
        return self._opened(path, self._fds[parent], name)

    def _open_above(self, path: bytes) -> None:
        """Every directory down to this one; one after another, however deep."""
        at, fd = b"", self.root
        for name in path.split(b"/"):
            at = at + b"/" + name if at else name
            fd = self._fds[at] if at in self._fds else self._opened(at, fd, name)

    def _opened(self, path: bytes, above: int, name: bytes) -> int:
        fd = os.open(name, _OPEN_DIR, dir_fd=above)
        if len(self._fds) > _HELD:
            self._let_go(keep=above)
        self._fds[path] = fd
        return fd

    def _let_go(self, keep: int) -> None:
        """Close what was opened first: half of it, so that a walk does not close what it needs next."""
        for path in [each for each, fd in self._fds.items() if each and fd != keep][: _HELD // 2]:
            os.close(self._fds.pop(path))

    def forget(self, path: bytes) -> None:
        """A directory that was moved or removed, and all below it."""
        for each in [p for p in self._fds if p == path or p.startswith(path + b"/")]:
            os.close(self._fds.pop(each))

    def at(self, path: bytes) -> tuple[int, bytes]:
        """The descriptor of the directory that holds a path, and its name in it."""
        parent, _, name = path.rpartition(b"/")
        return self.directory(parent), name

    def lstat(self, path: bytes) -> os.stat_result | None:
        """What stands at a path; None when nothing does, or when what is above it is no directory."""
        try:
            fd, name = self.at(path)
            return os.stat(name, dir_fd=fd, follow_symlinks=False)
        except GONE:
            return None
        except OSError as error:
            if is_link_error(error):
                return None
            raise

    def readlink(self, path: bytes) -> bytes:
        fd, name = self.at(path)
        return os.readlink(name, dir_fd=fd)

    def open_file(self, path: bytes, flags: int = _OPEN_FILE) -> int:
        """A descriptor of a regular file; never waits for the other end of a pipe."""
        fd, name = self.at(path)
        return os.open(name, flags, dir_fd=fd)

    @contextlib.contextmanager
    def listing(self, path: bytes) -> Iterator[Iterator[os.DirEntry[str]]]:
        """The entries of a directory. Their names are text with surrogates: `os.fsencode` gives the bytes."""
        with os.scandir(self.directory(path)) as found:
            yield found


def is_link_error(error: OSError) -> bool:
    """Whether a directory could not be opened because a link stands there."""
    import errno

    return error.errno in (errno.ELOOP, errno.ENOTDIR)


def special(mode: int) -> str | None:
    """What a path is that has no contents to keep; None for what has."""
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return None
