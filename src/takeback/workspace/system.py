"""What Python's os module lacks: renames that exchange or never replace, leases, and syncing a file system.

Each falls back where a system has it not, to something that is safe and slower.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import signal
from typing import Any

_EXCHANGE, _NOREPLACE = 2, 1
_LACKING = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_F_SETSIG = 10


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _renameat2(old: int, name: bytes, new: int, to: bytes, flags: int) -> bool:
    """Whether the system could; raises what it said otherwise."""
    call = getattr(_libc(), "renameat2", None)
    if call is None:
        return False
    if call(old, ctypes.c_char_p(name), new, ctypes.c_char_p(to), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _LACKING:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(to))


def exchange(old: int, name: bytes, new: int, to: bytes) -> bool:
    """Both names change places in one step. False where the system cannot: then `to` was replaced, and what
    stood there is gone."""
    if _renameat2(old, name, new, to, _EXCHANGE):
        return True
    os.rename(name, to, src_dir_fd=old, dst_dir_fd=new)
    return False


def move_new(old: int, name: bytes, new: int, to: bytes) -> None:
    """Move to a name that nothing has; FileExistsError where something has."""
    if _renameat2(old, name, new, to, _NOREPLACE):
        return
    os.link(name, to, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
    os.unlink(name, dir_fd=old)


class Lease:
    """While it is held, nobody else has the file open, and who opens it waits until it is let go."""

    def __init__(self, fd: int) -> None:
        self.fd, self.held = fd, False

    def __enter__(self) -> bool:
        if not hasattr(fcntl, "F_SETLEASE"):
            return False
        try:
            # Somebody who waits is told of with a signal; the usual one would end this process.
            fcntl.fcntl(self.fd, _F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            return False  # somebody has it open, or this file system knows no leases: it is replaced instead
        self.held = True
        return True

    def __exit__(self, *_: object) -> None:
        if self.held:
            fcntl.fcntl(self.fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def sync_all(fd: int) -> None:
    """Everything of the file system that holds this descriptor is on the disk."""
    call = getattr(_libc(), "syncfs", None)
    if call is None or call(fd) != 0:
        os.sync()


def sync_data(fd: int) -> None:
    """A file's contents are on the disk."""
    getattr(os, "fdatasync", os.fsync)(fd)
