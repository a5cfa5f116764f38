"""Installing takeback into a coding agent's configuration, and taking it out again, byte for byte."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff

from takeback import places
from takeback.coding import settings
from takeback.coding.table import Agent, command
from takeback.errors import BadSettings


@dataclass(frozen=True)
class Record:
    """What is kept of an installation: the file as it was, as we left it, and the folders made for it."""

    original: bytes | None
    written: bytes
    made: list[str]


@dataclass(frozen=True)
class Change:
    """What will be done to one configuration file; None stands for a file that is not there."""

    agent: Agent
    path: str
    before: bytes | None
    after: bytes | None
    notes: list[str] = field(default_factory=list)

    @property
    def is_none(self) -> bool:
        return self.before == self.after

    def diff(self) -> list[str]:
        """The change as a unified diff."""
        old, new = (self.before or b"").decode(), (self.after or b"").decode()
        was, becomes = (self.path if s is not None else "/dev/null" for s in (self.before, self.after))
        return list(unified_diff(old.splitlines(), new.splitlines(), was, becomes, lineterm=""))


def plan_install(agent: Agent, root: str, *, user: bool) -> Change:
    """What installing would do; reads only."""
    path = agent.path(root, user=user)
    before = _read(path)
    return Change(agent, path, before, settings.with_hooks(before, agent, command(agent), path))


def plan_uninstall(agent: Agent, root: str, *, user: bool) -> Change:
    """What taking it out would do: the bytes from before, or, where somebody else has written, ours alone."""
    path = agent.path(root, user=user)
    before, record = _read(path), _recorded(path)
    if before is None or not settings.has_hooks(before, path):
        return Change(agent, path, before, before)
    if record is not None and record.written == before:
        return Change(agent, path, before, record.original)
    if record is None:
        why = "what the file was before is not on record: only takeback's hooks are taken out"
    else:
        why = "the file was changed after the installation: only takeback's hooks are taken out"
    return Change(agent, path, before, settings.without_hooks(before, path), [why])


def installed(path: str) -> bool:
    """Whether a configuration file has hooks of ours."""
    return settings.has_hooks(_read(path), path)


def apply(change: Change) -> None:
    """Do it, if the file is still what the plan saw. The record is written first: a crash between the two
    leaves one whose bytes are not the file's, which is noticed."""
    if change.is_none:
        return
    if _read(change.path) != change.before:
        raise BadSettings(f"{change.path} was changed just now; it was left as it is", hint="Try again")
    if change.after is not None and settings.has_hooks(change.after, change.path):
        _install(change)
    else:
        _uninstall(change)


def _install(change: Change) -> None:
    record = _recorded(change.path)
    if record is not None and record.written == change.before:
        original, made = record.original, record.made  # over an older installation of ours
    elif change.before is None:
        original, made = None, _missing_folders(change.path)
    else:
        original, made = settings.without_hooks(change.before, change.path), []
    assert change.after is not None
    _remember(change.path, original, change.after, made)
    with _explained(change.path):
        os.makedirs(os.path.dirname(change.path), exist_ok=True)
        _write(change.path, change.after)


def _uninstall(change: Change) -> None:
    record = _recorded(change.path)
    with _explained(change.path):
        if change.after is None:
            os.unlink(change.path)
            for folder in reversed(record.made if record else []):
                with contextlib.suppress(OSError):  # somebody put something in it: then it is theirs
                    os.rmdir(folder)
        else:
            _write(change.path, change.after)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_record_path(change.path))


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}") from None


def _write(path: str, raw: bytes) -> None:
    """Whole or not at all, through a link if it is one, with the mode that the file has."""
    real = os.path.realpath(path)
    mode = 0o644
    if os.path.exists(real):
        mode = stat.S_IMODE(os.stat(real).st_mode)
        # A rename would replace a file that its owner has made read-only without asking anybody.
        if not mode & 0o222 or not os.access(real, os.W_OK):
            raise PermissionError(13, "it is read-only", path)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(real), prefix=".takeback-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, real)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadSettings(f"{path} cannot be written: {error.strerror}; it was left as it is") from None


def _missing_folders(path: str) -> list[str]:
    """The folders that will have to be made, outermost first."""
    missing, folder = [], os.path.dirname(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing[::-1]


# --- what the files were before


def _record_path(path: str) -> str:
    return os.path.join(places.data_home(), "installed", f"{places.short_hash(os.path.abspath(path))}.json")


def _remember(path: str, original: bytes | None, written: bytes, made: list[str]) -> None:
    target = _record_path(path)
    said = {
        "path": os.path.abspath(path),
        "original": None if original is None else b64encode(original).decode(),
        "written": b64encode(written).decode(),
        "made": made,
    }
    with _explained(target):
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        _write(target, json.dumps(said).encode())


def _recorded(path: str) -> Record | None:
    """What was written down at the installation; one that cannot be read is none, and taking out says so."""
    raw = _read(_record_path(path))
    if raw is None:
        return None
    try:
        said = json.loads(raw)
        original = said["original"]
        before = None if original is None else b64decode(original)
        return Record(before, b64decode(said["written"]), [str(folder) for folder in said["made"]])
    except (ValueError, KeyError, TypeError):
        return None
