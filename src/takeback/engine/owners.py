"""Who is at work: names of workers, and whether one that holds something is still there."""

from __future__ import annotations

import os
import socket
from functools import lru_cache

LEASE_US = 5 * 60 * 1_000_000
"""How long a worker that says nothing keeps what it holds, unless its process is seen to be gone."""

_living: set[str] = set()


def claim() -> str:
    """A name for one session of this process: host, process, when that began, and the session."""
    owner = f"{_process()}|{os.urandom(6).hex()}"
    _living.add(owner)
    return owner


def release(owner: str) -> None:
    """The session is over; whoever finds its name need not wait for it."""
    _living.discard(owner)


def holds(owner: str, lease_us: int, now_us: int) -> bool:
    """Whether it must be taken for at work: its lease runs, and it is not seen to be gone."""
    if not owner or now_us >= lease_us:
        return False
    host, pid, began, _ = owner.split("|")
    if host != _host():
        return True
    if f"{host}|{pid}|{began}" == _process():
        return owner in _living
    return _began(int(pid)) == began


def ours(owner: str) -> bool:
    """Whether a session of this process had it."""
    return owner.rpartition("|")[0] == _process()


def described(owner: str) -> str:
    """The worker, for people."""
    host, pid, *_ = [*owner.split("|"), "", ""]
    return f"process {pid} on {host}" if host else "a worker"


def _process() -> str:
    return _named(os.getpid())


@lru_cache(maxsize=8)
def _named(pid: int) -> str:
    return f"{_host()}|{pid}|{_began(pid)}"


@lru_cache(maxsize=1)
def _host() -> str:
    """This machine since it was started: process numbers begin anew with it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{socket.gethostname()}/{file.read(8)}".replace("|", "/")
    except OSError:  # not Linux: a host name must do, and a lease decides after a restart
        return socket.gethostname().replace("|", "/")


def _began(pid: int) -> str | None:
    """When a process began, as its system counts; None when there is none. Where that cannot be told, any
    living process counts as the one, and the lease decides."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
    except OSError:
        pass  # not to be read: treated like a system without /proc
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return "?"  # somebody else's, and alive
    return "?"
