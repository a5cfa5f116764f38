"""Watching a directory: which paths the system says have changed. It knows no manifests and no threads.

Reading what is there to be read is a barrier: all that was done to the tree before the read is told by it.
When the queue ran over, or the rules changed, the answer is "everything", and why.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from typing import Any, Protocol

import msgspec

from takeback.errors import MissingExtra
from takeback.workspace.ignore import OWN, RULE_FILES, Ignore
from takeback.workspace.tree import Tree

_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLY_DIR, _EXCL_UNLINK = 0x1000000, 0x4000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_DIR | _EXCL_UNLINK
)  # fmt: skip
_HEADER = struct.Struct("iIII")
_BUFFER = 1 << 18
_PASSING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)


class Changed(msgspec.Struct, frozen=True):
    """What may have changed since the last `settled`. A path that ends with a slash stands for all below it;
    `everything` says why no list is enough. `mark` is what `settled` is told."""

    paths: frozenset[bytes] = frozenset()
    everything: str | None = None
    mark: int = 0


class Watcher(Protocol):
    """Somebody who knows what may have changed: here, or behind a socket."""

    def changed(self) -> Changed:
        """All that was done before this call is in the answer, until it is settled."""
        ...

    def settled(self, mark: int) -> None:
        """What `changed` said with this mark is recorded, and need not be said again."""
        ...

    def close(self) -> None: ...


class Watch:
    """A watch of one directory in this process, by inotify."""

    def __init__(self, path: str, ignore: Ignore) -> None:
        self._root, self._ignore = path, ignore
        self._lock = threading.Lock()
        self._inotify = _inotify()
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._pending: dict[bytes, int] = {}  # path → the mark under which it was last told
        self._everything: tuple[str, int] | None = ("watching has just begun", 0)
        self._mark = 0
        try:
            self._add(b"")
        except BaseException:
            self._inotify.close()
            raise

    @property
    def directories(self) -> int:
        """How many directories are watched."""
        return len(self._watches)

    def follow(self, ignore: Ignore) -> None:
        """Go by other rules from now on: what they let in is watched."""
        with self._lock:
            self._ignore = ignore
            self._add(b"")

    def fileno(self) -> int:
        """What becomes readable when something changes, for `select`."""
        return int(self._inotify.fileno())

    def changed(self) -> Changed:
        with self._lock:
            self._drain()
            self._mark += 1
            everything = None if self._everything is None else self._everything[0]
            return Changed(frozenset(self._pending), everything, self._mark)

    def settled(self, mark: int) -> None:
        with self._lock:
            if self._everything is not None and self._everything[1] < mark:
                self._everything = None
            self._pending = {path: since for path, since in self._pending.items() if since >= mark}

    def close(self) -> None:
        with self._lock:
            self._inotify.close()

    # --- events

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._inotify.fileno(), _BUFFER)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                self._event(watch, mask, name)
            if len(data) < _BUFFER // 2:
                return

    def _event(self, watch: int, mask: int, name: bytes) -> None:
        if mask & _OVERFLOW:
            self._all("more changed at once than the system's queue holds")
            self._rewatch()
            return
        here = self._paths.get(watch)
        if here is None:
            return  # of a watch that was taken away
        if mask & _IGNORED:
            self._forget(watch, here)
        elif mask & (_DELETE_SELF | _MOVE_SELF | _UNMOUNT):
            if not here:
                self._all("the directory itself was moved or removed")
        elif name:
            self._named(here + b"/" + name if here else name, name, mask)
        elif here:
            self._tell(here)

    def _named(self, path: bytes, name: bytes, mask: int) -> None:
        if path.startswith(OWN) or path == b".git":
            return
        if name in RULE_FILES and not mask & _IS_DIR:
            self._all("what is left out has changed")
        if not mask & _IS_DIR:
            self._tell(path)
            return
        if mask & (_MOVED_FROM | _DELETE):
            self._unwatch(path)
            self._tell(path + b"/")
        elif mask & (_CREATE | _MOVED_TO):
            if self._ignore.why(path, is_dir=True) is None:
                self._add(path)
            self._tell(path + b"/")
        else:
            self._tell(path)

    def _tell(self, path: bytes) -> None:
        self._pending[path] = self._mark

    def _all(self, why: str) -> None:
        self._everything = (why, self._mark)

    # --- watches

    def _add(self, path: bytes) -> None:
        """Watch a directory and those below it. One that is made meanwhile is told by the one above it."""
        todo = [path]
        with Tree(self._root) as tree:
            while todo:
                at = todo.pop()
                try:
                    # By descriptor: a path may be too long to be named, and no link is followed on the way.
                    fd = tree.directory(at)
                    watch = self._inotify.add_watch(b"/proc/self/fd/%d" % fd, _MASK)
                except OSError as error:
                    if error.errno in _PASSING and at:
                        continue  # gone again, or named as unreadable by the capture
                    raise
                stale = self._paths.get(watch)
                if stale is not None and stale != at:
                    self._watches.pop(stale, None)
                self._paths[watch], self._watches[at] = at, watch
                todo += self._below(fd, at)

    def _below(self, fd: int, at: bytes) -> list[bytes]:
        try:
            with os.scandir(fd) as found:
                names = [os.fsencode(entry.name) for entry in found if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        below = [at + b"/" + name if at else name for name in names]
        return [path for path in below if self._ignore.why_here(path, is_dir=True) is None]

    def _unwatch(self, path: bytes) -> None:
        below = path + b"/"
        for each in [each for each in self._watches if each == path or each.startswith(below)]:
            watch = self._watches.pop(each)
            self._paths.pop(watch, None)
            try:
                self._inotify.rm_watch(watch)
            except OSError:
                continue  # the system took it away itself, with the directory

    def _forget(self, watch: int, path: bytes) -> None:
        self._paths.pop(watch, None)
        if self._watches.get(path) == watch:
            del self._watches[path]

    def _rewatch(self) -> None:
        """After an overflow some directories may have come unseen."""
        self._add(b"")


def _inotify() -> Any:
    try:
        from inotify_simple import INotify  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise MissingExtra(
            "watching a directory needs the inotify_simple package, and Linux",
            hint="pip install 'takeback[workspace]'; without it every capture looks at all paths",
        ) from None
    return INotify(nonblocking=True)
