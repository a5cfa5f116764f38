"""doctor: where the store is and why, what it weighs, whether it is sound, and what runs here."""

from __future__ import annotations

import os
import platform
import re
import stat
from typing import TYPE_CHECKING, Any

from takeback._version import __version__
from takeback.cli.parser import Commands

if TYPE_CHECKING:
    from takeback.cli.output import Part
    from takeback.cli.session import Place, Session

_DEPENDENCIES = (
    "apsw", "blake3", "cryptography", "msgspec", "ormsgpack", "psycopg", "rich", "xxhash", "zstandard"
)  # fmt: skip
# The databases' own names for what durability rests on.
_MODES = ("journal_mode", "synchronous", "fsync", "synchronous_commit", "full_page_writes")
_DATABASES = ("sqlite", "postgresql")


def add(to: Commands) -> None:
    to.add(
        "doctor",
        examine,
        "help",
        "Examine the store, and what takeback runs on",
        more="Where the store is and why, sizes, durability, file system, permissions, damage, "
        "versions. Exit code 6 when the store is damaged.",
        example="takeback doctor",
    )


def examine(session: Session) -> int:
    """What can be said is said, also of a store that cannot be opened; the exit code is that of its error."""
    from takeback.errors import TakebackError

    place = session.place()
    found: dict[str, Any] = {"store": _whereabouts(place), "versions": _versions()}
    error = None
    if found["store"]["exists"] or not place.ours:
        try:
            found |= _store(session)
        except TakebackError as caught:
            error = caught
    damage = found.get("damage", [])
    found["ok"] = error is None and not damage
    if session.out.json:
        session.out.document(found | ({"error": error.as_dict()} if error else {}))
    else:
        _show(session, found)
        if error is not None:
            session.out.error(error)
    return error.exit_code if error else 6 if damage else 0


def _whereabouts(place: Place) -> dict[str, Any]:
    path = None if place.url == ":memory:" or "://" in place.url else os.path.abspath(place.url)
    shown = re.sub(r"(?<=://)([^:/@]*):[^@]*@", r"\1@", place.url)  # a password is nobody's business
    found: dict[str, Any] = {"location": path or shown, "why": place.why, "exists": path is None}
    if path is None or not os.path.exists(path):
        return found
    mode = stat.S_IMODE(os.stat(path).st_mode)
    return found | {
        "exists": True,
        "file_system": _file_system(path),
        "free_bytes": _free(path),
        "mode": f"{mode:04o}",
        "writable": os.access(path, os.W_OK),
        "readable_by_others": bool(mode & 0o044),
    }


def _store(session: Session) -> dict[str, Any]:
    repo = session.repo()
    info = repo.info()
    return {
        "kind": info.kind,
        "schema": info.schema,
        "uid": info.uid,
        "durability": info.durability,
        "read_only": info.read_only,
        "details": info.details,
        "damage": repo.damage(),
    }


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {
        "takeback": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }
    for name in _DEPENDENCIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _file_system(path: str) -> str | None:
    """The type of what the file lies on, where the system says; the last mount on the longest prefix wins."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:  # not Linux
        return None
    real = os.path.realpath(path)
    points = [(_plain(point), kind) for point, kind in mounts]
    around = [(len(point), kind) for point, kind in points if os.path.commonpath([real, point]) == point]
    return max(around, key=lambda found: found[0], default=(0, None))[1]


def _plain(point: str) -> str:
    return point.replace("\\040", " ")


def _free(path: str) -> int:
    import shutil

    return shutil.disk_usage(os.path.dirname(path)).free


def _show(session: Session, found: dict[str, Any]) -> None:
    from takeback.cli.words import count

    out, store, details = session.out, found["store"], found.get("details", {})
    where: Part = (store["location"], "bold")
    facts: list[tuple[str, Part | None]] = [("store", where), ("why there", store["why"])]
    if not store["exists"]:
        facts.append(("state", "there is no store yet; the first commit makes it"))
    elif "schema" in found:
        held = [count(details[noun + "s"], noun) for noun in ("thread", "checkpoint", "object")]
        facts += [
            ("kind", f"{found['kind']}, schema {found['schema']}, uid {found['uid']}"),
            ("holds", ", ".join(held)),
            ("size", _sizes(details)),
            ("durability", _durability(found)),
            ("file system", _on_disk(store)),
            ("permissions", _permissions(store)),
            ("damage", _damage(found["damage"])),
        ]
    out.facts(facts)
    out.lines(found.get("damage", []))
    out.line()
    versions = found["versions"] | {name: details[name] for name in _DATABASES if name in details}
    out.facts([(name, version or "not installed") for name, version in versions.items()])


def _sizes(details: dict[str, Any]) -> str | None:
    from takeback.cli.words import size

    if "bytes" not in details:
        return None
    beside = f", and {size(details['wal_bytes'])} in the write-ahead log" if "wal_bytes" in details else ""
    return size(details["bytes"]) + beside


def _durability(found: dict[str, Any]) -> str:
    details = found["details"]
    modes = [f"{name.replace('_', ' ')} {details[name]}" for name in _MODES if name in details]
    said = f"{found['durability']} ({', '.join(modes)})" if modes else str(found["durability"])
    if details.get("fsync") == "off":
        said += ": the server does not wait for its disk, and a power cut may lose commits or the store"
    return said


def _on_disk(store: dict[str, Any]) -> str | None:
    from takeback.cli.words import size

    if "free_bytes" not in store:
        return None
    return f"{store['file_system'] or 'unknown'}, {size(store['free_bytes'])} free"


def _permissions(store: dict[str, Any]) -> tuple[str, str] | None:
    if "mode" not in store:
        return None
    if not store["writable"]:
        return f"{store['mode']}: you can read it and not write it", "yellow"
    if store["readable_by_others"]:
        return f"{store['mode']}: other users of this machine may read it", "yellow"
    return f"{store['mode']}: yours alone", ""


def _damage(damage: list[str]) -> tuple[str, str]:
    return ("none found", "green") if not damage else (f"{len(damage)} found", "bold red")
