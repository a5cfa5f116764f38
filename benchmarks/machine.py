"""Where and with what a run was made: what a reader needs to compare it with another."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import apsw

import takeback

_PACKAGES = (
    "psycopg", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langgraph-checkpoint", "dbos"
)  # fmt: skip


def machine(folder: Path) -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "file system": _file_system(folder),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    found = {
        "takeback": takeback.__version__,
        "apsw": apsw.apsw_version(),
        "sqlite (takeback, raw)": apsw.sqlite_lib_version(),
        "sqlite (peers)": _peers_sqlite(),
    }
    return found | {name: _version(name) for name in _PACKAGES}


def load() -> float:
    """Processes that wanted to run in the last minute; a quiet machine has less than one."""
    return round(os.getloadavg()[0], 2)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _peers_sqlite() -> str:
    import sqlite3  # for its version alone: no file is opened with it in this process

    return sqlite3.sqlite_version


def _processor() -> str:
    found = [
        line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")
    ]
    return found[0] if found else platform.processor() or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"


def _file_system(folder: Path) -> str:
    """The type that the longest mount point above the folder has."""
    mounts = [line.split()[1:3] for line in _lines("/proc/mounts")]
    above = [(point, kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
