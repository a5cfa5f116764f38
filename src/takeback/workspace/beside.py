"""The place beside: a directory in the workspace where new contents wait, and old ones are looked at again.

It is on the same file system as what it is for, so that moving in and out is one step. What a crash leaves
in it is told apart: without a mark that all was written it is garbage; with one it is known contents, or
somebody else's, which go back where they were.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from blake3 import blake3

from takeback.errors import WorkspaceFailed
from takeback.model.manifest import read
from takeback.model.manifest.nodes import Entry
from takeback.model.tree.nodes import Getter
from takeback.workspace import system
from takeback.workspace.ignore import OWN
from takeback.workspace.tree import GONE, Tree

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READY = b"ready"
_HELD = 128  # files that wait to be synced
_EACH = 16  # from more files on, the file system is synced once


class Beside:
    """The staging directory of one restore."""

    def __init__(self, tree: Tree, name: str) -> None:
        self.tree = tree
        self.path = OWN + (name.encode() or os.urandom(8).hex().encode())
        self._unsynced: list[int] = []
        self.used = False

    def fd(self) -> int:
        try:
            return self.tree.directory(self.path)
        except FileNotFoundError:
            os.mkdir(self.path, 0o700, dir_fd=self.tree.root)
            self.used = True
            return self.tree.directory(self.path)

    def place(self, path: bytes, end: bytes = b"") -> tuple[int, bytes]:
        """Where what belongs to a path waits: always under the same name."""
        return self.fd(), name_of(path) + end

    def write(self, path: bytes, entry: Entry, source: Getter) -> None:
        """A file's contents, whole under its name, or not there."""
        fd, name = self.place(path)
        partial = name + b".part"
        out = os.open(partial, _NEW, 0o600, dir_fd=fd)
        try:
            for part in read.parts(entry, source):
                _write_all(out, part)
            os.fchmod(out, entry.mode & 0o777)
            os.rename(partial, name, src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            os.close(out)
            raise
        self.later(out)

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """What goes wrong while contents are written beside has changed nothing."""
        try:
            yield
        except OSError as error:
            self.clear()
            raise WorkspaceFailed(
                f"nothing was changed in {self.tree.path}: new contents cannot be written: {error.strerror}",
                hint="Make room, and try again",
            ) from None
        except BaseException:
            self.clear()
            raise

    def ready(self) -> None:
        """All that is needed waits here; from now on what is found here may be somebody else's."""
        if self.used:
            os.close(os.open(_READY, _NEW, 0o600, dir_fd=self.fd()))

    def left_behind(self) -> set[bytes]:
        """The names that a broken run left here, and that may be the only copy of something."""
        if self.tree.lstat(self.path) is None:
            return set()
        self.used = True
        names = set(map(os.fsencode, os.listdir(self.fd())))
        if _READY not in names:
            return set()
        return {name for name in names - {_READY} if not name.endswith(b".part")}

    def clear(self) -> None:
        """What waits here goes, and the directory with it."""
        if not self.used and self.tree.lstat(self.path) is None:
            return
        with contextlib.suppress(*GONE):
            fd = self.tree.directory(self.path)
            names = set(map(os.fsencode, os.listdir(fd)))
            for name in sorted(names, key=lambda each: each == _READY):
                os.unlink(name, dir_fd=fd)
            self.tree.forget(self.path)
            os.rmdir(self.path, dir_fd=self.tree.root)
        self.used = False

    # --- syncing

    def later(self, fd: int) -> None:
        """A file to be synced with the others; it is closed then."""
        self._unsynced.append(fd)
        if len(self._unsynced) > _HELD:
            system.sync_all(self.tree.root)
            self.close()

    def sync(self, directories: set[bytes]) -> None:
        """Contents and names are on the disk."""
        if len(self._unsynced) + len(directories) > _EACH:
            system.sync_all(self.tree.root)
            return
        for fd in self._unsynced:
            system.sync_data(fd)
        for path in directories:
            with contextlib.suppress(*GONE):
                os.fsync(self.tree.directory(path))

    def close(self) -> None:
        for fd in self._unsynced:
            os.close(fd)
        self._unsynced.clear()


def name_of(path: bytes) -> bytes:
    return blake3(path).hexdigest(16).encode()


def _write_all(fd: int, part: memoryview) -> None:
    while part:
        part = part[os.write(fd, part) :]
