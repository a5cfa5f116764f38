"""Faults on purpose: a process killed at a chosen point, and a disk that fails or loses power."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import apsw
import msgspec

_PATIENCE = 120  # seconds after which a child that hangs is ended, and the test fails
_numbers = itertools.count(1)


# --- a child that is killed


class Kill(msgspec.Struct, frozen=True):
    """Kill the child at its n-th armed point: before what the point announces, or after it."""

    n: int
    after: bool = False


class Life(msgspec.Struct, frozen=True):
    """What a child said until it ended, which points it passed, and whether it was killed at one."""

    said: list[Any]
    points: list[str]
    killed: bool


class ChildFailed(AssertionError):
    """A child ended in a way that nobody planned."""


class Child:
    """What the function in the child process speaks through. What it said before it is killed arrives."""

    def __init__(self, pipe: int, kill: Kill | None) -> None:
        self._pipe, self._kill = pipe, kill
        self._armed = False
        self._due = False
        self._count = 0

    def say(self, what: Any) -> None:
        """Acknowledge; what was said is out of the process when this returns."""
        self._send("said", what)

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """Points inside are counted. A kill after the last comes at the end, before anything is said."""
        self._armed = True
        try:
            yield
        finally:
            self._armed = False
        if self._due:
            self.die()

    def point(self, label: str) -> None:
        """The places where it can be killed: give this to what calls at labelled places."""
        if not self._armed:
            return
        if self._due:
            self.die()
        self._send("point", label)
        if self._kill is not None and self._count == self._kill.n:
            if not self._kill.after:
                self.die()
            self._due = True
        self._count += 1

    def die(self) -> NoReturn:
        """As by a power switch for this process: no handler, no flush, no close."""
        self._send("dies", None)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process outlived SIGKILL")

    def _send(self, kind: str, what: Any) -> None:
        rest = msgspec.json.encode([kind, what]) + b"\n"
        while rest:
            rest = rest[os.write(self._pipe, rest) :]


class Running:
    """A child process that was started, to be waited for; several may run at once."""

    def __init__(self, work: Callable[[Child], None], kill: Kill | None = None) -> None:
        ours, theirs = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads. The child touches no lock of theirs: it opens its own
            # store and ends without running what its parent left to run.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(ours)
            _live(work, Child(theirs, kill))
        os.close(theirs)
        self._pipe = ours

    def wait(self) -> Life:
        """Read what it says until it ends. Ending in any other way than planned is an error."""
        with os.fdopen(self._pipe, "rb") as pipe:
            lines = [msgspec.json.decode(line) for line in pipe if line.endswith(b"\n")]
        _, status = os.waitpid(self.pid, 0)
        by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        failed = [what for kind, what in lines if kind == "failed"]
        if failed:
            raise ChildFailed(f"the child failed:\n{failed[0]}")
        if by not in (0, signal.SIGKILL) or (by == 0 and os.WEXITSTATUS(status) != 0):
            raise ChildFailed(f"the child ended with status {status}")
        return Life(
            said=[what for kind, what in lines if kind == "said"],
            points=[what for kind, what in lines if kind == "point"],
            killed=by == signal.SIGKILL,
        )

    def signal(self, number: int) -> None:
        """Stop it, wake it, kill it."""
        os.kill(self.pid, number)


def in_child(work: Callable[[Child], None], kill: Kill | None = None) -> Life:
    """Run a function in a forked child, and wait. Have no store open that the child opens."""
    return Running(work, kill).wait()


def _live(work: Callable[[Child], None], child: Child) -> NoReturn:
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE)
        work(child)
        code = 0
    except BaseException:
        child._send("failed", traceback.format_exc())
    finally:
        # Neither the exit handlers nor the buffers of the parent are ours.
        os._exit(code)


# --- a disk that remembers, and fails


class Event(msgspec.Struct, frozen=True):
    """One thing that happened to a file: opened, write, truncate, sync, deleted; or a note of the test."""

    kind: str
    file: str = ""
    offset: int = 0
    data: bytes = b""
    what: Any = None


class Disk(apsw.VFS):
    """A VFS over the real one. It records what is written, synced, cut and deleted, in order, and calls
    `hook` with "write wal", "sync main" and so on before each: what the hook raises is what SQLite sees.

    A disk that is not `honest` takes every sync for done. Shared memory is not recorded: no power cut
    keeps it.
    """

    def __init__(self, *, honest: bool = True) -> None:
        self.label = f"takeback-disk-{os.getpid()}-{next(_numbers)}"
        self.honest = honest
        self.events: list[Event] = []
        self.hook: Callable[[str], None] | None = None
        self._known: set[str] = set()
        super().__init__(self.label, "")

    def note(self, what: Any) -> None:
        """Put something between the events: that a commit was acknowledged, for instance."""
        self.events.append(Event("note", what=what))

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None:
            return apsw.VFSFile("", name, flags)
        # SQLite syncs the folder too, once for each time a journal is opened that may have to be made.
        journal = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
        syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & journal)
        if not os.path.exists(path):
            self.at("create", path)
            opened = Event("opened", path, what=False)
        else:
            # Read before it is first opened: closing it later would drop the locks of this process.
            content = b"" if path in self._known else Path(path).read_bytes()
            opened = Event("opened", path, data=content, what=True)
        file = _File(self, path, name, flags, syncs_folder=syncs_folder)
        if path not in self._known:
            self._known.add(path)
            self.events.append(opened)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.at("delete", filename)
        super().xDelete(filename, syncdir)
        self._known.discard(filename)
        self.events.append(Event("deleted", filename, what=syncdir and self.honest))

    def excepthook(self, *_: object) -> bool:
        return True  # what a hook raises where SQLite cannot hand it on, as when it closes a file

    def at(self, operation: str, path: str) -> None:
        if self.hook is not None:
            role = path.rpartition("-")[2]
            self.hook(f"{operation} {role if role in ('wal', 'journal') else 'main'}")


class _File(apsw.VFSFile):
    def __init__(
        self,
        disk: Disk,
        path: str,
        name: str | apsw.URIFilename | None,
        flags: list[int],
        *,
        syncs_folder: bool,
    ) -> None:
        self._disk, self._path, self._syncs_folder = disk, path, syncs_folder
        super().__init__("", name, flags)

    def excepthook(self, *_: object) -> bool:
        return True

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.at("read", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.at("write", self._path)
        super().xWrite(data, offset)
        self._disk.events.append(Event("write", self._path, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        self._disk.at("truncate", self._path)
        super().xTruncate(newsize)
        self._disk.events.append(Event("truncate", self._path, newsize))

    def xSync(self, flags: int) -> None:
        self._disk.at("sync", self._path)
        began = len(self._disk.events)  # what others write during the sync may miss it
        super().xSync(flags)
        if self._disk.honest:
            self._disk.events.append(Event("sync", self._path, began, what=self._syncs_folder))
            self._syncs_folder = False


# --- what a power cut leaves


class Image(msgspec.Struct, frozen=True):
    """The files that are found after a power cut at a moment: when so many events had happened."""

    moment: int
    files: dict[str, bytes]

    def lay(self, folder: Path) -> None:
        """Put the files there, each under its own name."""
        for path, content in self.files.items():
            (folder / os.path.basename(path)).write_bytes(content)


class _Inode:
    """A file's content: what is safe, and what was written since, in order."""

    def __init__(self, content: bytes) -> None:
        self.safe = bytearray(content)
        self.pending: list[tuple[int, Event]] = []

    def sync(self, before: int) -> None:
        for index, event in self.pending:
            if index < before:
                _keep(self.safe, event)
        self.pending = [(index, event) for index, event in self.pending if index >= before]


class _Folder:
    """Which names there are, and which of them a power cut cannot take back."""

    def __init__(self) -> None:
        self.live: dict[str, _Inode] = {}
        self.safe: dict[str, _Inode] = {}
        self.pending: list[tuple[str, _Inode | None]] = []

    def happened(self, index: int, event: Event) -> None:
        if event.kind == "opened":
            self._opened(event)
        elif event.kind == "deleted":
            self._link(event.file, None)
            if event.what:
                self._sync()
        elif event.kind == "sync":
            self.live[event.file].sync(event.offset)
            if event.what:
                self._sync()
        elif event.kind != "note" and event.file in self.live:
            self.live[event.file].pending.append((index, event))

    def _opened(self, event: Event) -> None:
        inode = _Inode(event.data)
        self._link(event.file, inode)
        if event.what:  # it was there before anything was recorded
            self._sync()

    def _link(self, name: str, inode: _Inode | None) -> None:
        _name(self.live, name, inode)
        self.pending.append((name, inode))

    def _sync(self) -> None:
        for name, inode in self.pending:
            _name(self.safe, name, inode)
        self.pending = []

    def cut(self, rng: random.Random, sector: int) -> dict[str, bytes]:
        """What is found when power is back. A folder's changes reach the disk in order, a file's in none."""
        names = dict(self.safe)
        for name, inode in self.pending[: rng.randint(0, len(self.pending))]:
            _name(names, name, inode)
        mood = _Mood(rng, sector)
        return {name: mood.torn(inode) for name, inode in names.items()}


class _Mood:
    """How bad one power cut is: from all being there, by luck, to nothing of what was not synced."""

    def __init__(self, rng: random.Random, sector: int) -> None:
        self._rng, self._sector = rng, sector
        self._kept = rng.choice((0.0, 0.1, 0.5, 0.9, 0.98, 1.0))
        self._garbled = rng.choice((0.0, 0.0, 0.1, 0.5))

    def torn(self, inode: _Inode) -> bytes:
        image = bytearray(inode.safe)
        for _, event in inode.pending:
            if event.kind == "truncate":
                if self._rng.random() < self._kept:
                    _keep(image, event)
                continue
            if self._rng.random() < 0.3:  # its size got there, whatever became of the bytes
                image.extend(bytes(max(0, event.offset + len(event.data) - len(image))))
            for piece in _sectors(event, self._sector):
                self._tear(image, piece)
        return bytes(image)

    def _tear(self, image: bytearray, piece: Event) -> None:
        if self._rng.random() < self._kept:
            _keep(image, piece)
        elif self._rng.random() < self._garbled:
            _keep(image, Event("write", offset=piece.offset, data=self._rng.randbytes(len(piece.data))))


def power_cuts(
    events: Iterable[Event], moments: Iterable[int], *, seed: int, sector: int = 512
) -> Iterator[Image]:
    """An image for each moment (a number of events that had happened; a moment may be given repeatedly).

    Bytes beside those that were written are never harmed: disks since 2010 promise as much, and SQLite
    relies on it.
    """
    rng, folder, done = random.Random(seed), _Folder(), 0
    listed = list(events)
    for moment in sorted(moments):
        for index in range(done, moment):
            folder.happened(index, listed[index])
        done = max(done, moment)
        yield Image(moment, folder.cut(rng, sector))


def sync_moments(events: list[Event]) -> list[int]:
    """Just before and just after every sync: where most is at stake, and where nothing may be any more."""
    at = [index for index, event in enumerate(events) if event.kind == "sync"]
    return sorted({moment for index in at for moment in (index, index + 1)})


def _sectors(event: Event, size: int) -> Iterator[Event]:
    at, end = event.offset, event.offset + len(event.data)
    while at < end:
        edge = min((at // size + 1) * size, end)
        yield Event("write", offset=at, data=event.data[at - event.offset : edge - event.offset])
        at = edge


def _keep(content: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del content[event.offset :]
        content.extend(bytes(event.offset - len(content)))
        return
    content.extend(bytes(max(0, event.offset - len(content))))
    content[event.offset : event.offset + len(event.data)] = event.data


def _name(names: dict[str, _Inode], name: str, inode: _Inode | None) -> None:
    if inode is None:
        names.pop(name, None)
    else:
        names[name] = inode
