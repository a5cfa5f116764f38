"""Trust: recomputing everything that a thread's history rests on, and seals to check it against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3

from takeback.engine import graph_beside, reach, trusting
from takeback.engine.book import book_of
from takeback.engine.context import Context
from takeback.engine.items import MEMORY
from takeback.engine.retention import pruned
from takeback.engine.seals import Seal
from takeback.engine.steps import differences
from takeback.engine.telling import BACK
from takeback.errors import CorruptObject
from takeback.model import canonical, items
from takeback.model.graphs import is_marked
from takeback.model.ids import shown
from takeback.model.records import Checkpoint, Pointer, ThreadInfo, sign
from takeback.storage.items import VersionsBy

_PAGE = 500
_OBJECTS = 100
_LAST = 2**63 - 1  # no version is greater


class Problem(msgspec.Struct, frozen=True):
    """Something that does not hold, and where."""

    kind: str
    message: str
    version: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "version": self.version, "message": self.message}

    def __str__(self) -> str:
        return self.message if self.version is None else f"version {self.version}: {self.message}"


class Report(msgspec.Struct):
    """What `verify` looked at and found."""

    thread: str
    checkpoints: int = 0
    objects: int = 0
    signed: int = 0
    sealed_to: int | None = None
    problems: list[Problem] = []
    notes: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {
            "thread": self.thread,
            "ok": self.ok,
            "checkpoints": self.checkpoints,
            "objects": self.objects,
            "signed": self.signed,
            "sealed_to": self.sealed_to,
            "problems": [problem.as_dict() for problem in self.problems],
            "notes": self.notes,
        }

    def __str__(self) -> str:
        checked = f"{self.checkpoints:,} checkpoints, {self.objects:,} objects"
        if self.ok:
            return f"{self.thread}: sound ({checked})"
        found = "\n".join(f"  {problem}" for problem in self.problems)
        return f"{self.thread}: {len(self.problems)} problems ({checked})\n{found}"


def verify(ctx: Context, info: ThreadInfo, seal: Seal | None = None) -> Report:
    """Walk the chain from version 0 to the head; every digest is computed from the stored bytes."""
    report = Report(info.name)
    check = _Check(ctx, info, report)
    for version, row in _rows(ctx, info):
        if isinstance(row, Checkpoint):
            check.row(row)
        else:
            report.problems.append(Problem("record", row, version))
            check.previous = None
        if seal is not None and version == seal.version:
            _against(report, seal, row)
    check.end()
    check.ledger()
    check.memory()
    check.graph()
    if seal is not None and seal.version > info.head:
        what = f"the seal names version {seal.version}; the head is {info.head}: the end was cut off"
        report.problems.append(Problem("truncated", what))
    return report


def memory_problems(ctx: Context) -> list[Problem]:
    """What does not hold of the versions of all items: their bytes, signatures, and what they rest on."""
    return [
        Problem("memory", said) for row in trusting.all_versions(ctx) for said in trusting.problems(ctx, row)
    ]


class _Check:
    """What is carried from one row to the next."""

    def __init__(self, ctx: Context, info: ThreadInfo, report: Report) -> None:
        self.ctx, self.info, self.report = ctx, info, report
        self.previous: Checkpoint | None = None
        self.next_version = 0
        self.seen: set[bytes] = set()
        self.began_signed = False
        self.closed: list[tuple[int, bytes]] = []
        self.planned: set[int] = set()  # versions that a plan made
        self.placed: list[Checkpoint] = []
        self.pruned = pruned(ctx, info.uid)
        for low, high, _ in self.pruned:
            report.notes.append(f"the files of versions {low} to {high} were given up to save space")

    def row(self, c: Checkpoint) -> None:
        self.report.checkpoints += 1
        self._chain(c)
        self._pointers(c)
        self._signature(c)
        self._objects(c)
        if is_marked(c):
            self.placed.append(c)
        if c.uses:
            self.closed.append((c.version, c.uses))
        if c.kind in BACK:
            self.planned.add(c.version)
        self.previous, self.next_version = c, c.version + 1

    def end(self) -> None:
        info, last = self.info, self.previous
        if last is None or (last.version, last.digest) != (info.head, info.head_digest):
            self._problem(
                "head", f"the thread says its head is version {info.head}, and the chain does not end there"
            )
        if self.ctx.key is not None and not (last and last.mac):
            self._problem("signature", "the head is not signed", last.version if last else None)

    def ledger(self) -> None:
        """What steps closed with, which their checkpoints' digests cover, against what the ledger says."""
        if not self.closed:
            return
        try:
            book = book_of(self.ctx, self.info.family).refresh()
        except CorruptObject as error:
            self._problem("ledger", error.what)
            return
        for version, digest in self.closed:
            payload = self.ctx.storage.objects(self.ctx.tenant, [digest]).get(digest)
            for found in [] if payload is None else differences(book, canonical.decode(payload)):
                self._problem("ledger", found, version)

    def memory(self) -> None:
        """What steps wrote into memory, which their checkpoints' digests cover, against what is there."""
        there: dict[int, list[Any]] = defaultdict(list)
        for row in self.ctx.storage.find(self.ctx.tenant, VersionsBy(self.info.uid)):
            problems = trusting.problems(self.ctx, row)
            self.report.problems += [Problem("memory", said) for said in problems]
            there[row.version] += [] if problems else [trusting.covered(row)]
        for at, digest in self.closed:
            payload = self.ctx.storage.objects(self.ctx.tenant, [digest]).get(digest)
            for said in [] if payload is None else canonical.decode(payload):
                if said[0] != MEMORY:
                    continue
                if said in there[at]:
                    there[at].remove(said)
                else:
                    name = items.shown(said[1], said[2])
                    self._problem("memory", f"what its step wrote to memory as {name} is not there", at)
        self._unwritten(there)

    def _unwritten(self, there: dict[int, list[Any]]) -> None:
        """What claims to be of a checkpoint that says nothing of it.

        What plans write anew is not covered, nor what the nodes of a graph write ahead of a version.
        """
        graphs = {c.version for c in self.placed}
        uncovered = self.planned | graphs | ({max(graphs) + 1} if graphs else set())
        for at, left in sorted(there.items()):
            if at in uncovered:
                continue
            for said in left:
                name = items.shown(said[1], said[2])
                self._problem("memory", f"memory has a version of {name} that its step did not write", at)

    def graph(self) -> None:
        """What a graph's tasks wrote, and where the graph finds its checkpoints, against the chain."""
        try:
            for what, version in graph_beside.problems(self.ctx, self.info.uid, self.placed):
                self._problem("graph", what, version)
        except CorruptObject as error:
            self._problem("graph", error.what)

    def _chain(self, c: Checkpoint) -> None:
        if c.version != self.next_version:
            gap = f"versions {self.next_version} to {c.version - 1} are missing"
            self._problem("gap", gap, c.version)
            self.previous = None
        if c.uid != self.info.uid:
            self._problem("foreign", "the record belongs to another thread", c.version)
        expected = b"" if c.version == 0 else self.previous.digest if self.previous else None
        if expected is not None and c.previous != expected:
            self._problem("chain", "the record does not follow the one before it", c.version)
        if self.previous is not None and c.time_us < self.previous.time_us:
            self._problem("time", "recorded before the version that it follows", c.version)
        opens = c.version == 0 or c.origin is not None
        line = c.version if opens else self.previous.line if self.previous else c.line
        if c.line != line:
            self._problem("line", f"stands on line {c.line}, and should on {line}", c.version)

    def _pointers(self, c: Checkpoint) -> None:
        for what, target in (("origin", c.origin), ("merged checkpoint", c.merged)):
            if target is not None:
                self._pointer(c, what, target)

    def _pointer(self, c: Checkpoint, what: str, target: Pointer) -> None:
        try:
            found = self.ctx.storage.checkpoint(self.ctx.tenant, target.uid, target.version)
        except CorruptObject as error:
            self._problem("pointer", f"its {what} is damaged: {error.what}", c.version)
            return
        if found is not None:
            if found.digest != target.digest:
                self._problem("pointer", f"its {what} is not the checkpoint that it was", c.version)
            return
        info = self.ctx.storage.thread_by_uid(self.ctx.tenant, target.uid)
        if info is not None and info.deleted_us is None:
            self._problem("pointer", f"its {what} is missing from {info.name!r}", c.version)
        else:
            where = f"{info.name!r}, which was deleted" if info else "a thread that is not in this store"
            self.report.notes.append(f"version {c.version}: its {what} is in {where}")

    def _signature(self, c: Checkpoint) -> None:
        if self.ctx.key is None:
            return
        if c.mac is None:
            # Before the first signed version the chain itself protects them: its digest covers theirs.
            if self.began_signed:
                self._problem("signature", "is not signed, and those before it are", c.version)
            return
        self.began_signed = True
        if c.mac == sign(c.digest, self.ctx.key):
            self.report.signed += 1
        else:
            self._problem("signature", "is signed with another key, or forged", c.version)

    def _objects(self, c: Checkpoint) -> None:
        todo = reach.kept(c, self.pruned)
        while todo:
            todo = [digest for digest in dict.fromkeys(todo) if digest not in self.seen]
            self.seen.update(todo)
            todo = self._read(c, todo)

    def _read(self, c: Checkpoint, digests: list[bytes]) -> list[bytes]:
        below: list[bytes] = []
        for low in range(0, len(digests), _OBJECTS):
            for digest, payload in self._payloads(c, digests[low : low + _OBJECTS]):
                if payload is None:
                    self._problem("object", f"object {shown(digest)} is missing", c.version)
                elif blake3(payload).digest() != digest:
                    self._problem("object", f"object {shown(digest)} is not what it was", c.version)
                else:
                    self.report.objects += 1
                    below += self._below(c, payload)
        return below

    def _payloads(self, c: Checkpoint, digests: list[bytes]) -> Iterator[tuple[bytes, bytes | None]]:
        """Many at once, for a store that is far away; one by one where one of them is damaged."""
        try:
            found = self.ctx.storage.objects(self.ctx.tenant, digests)
        except CorruptObject as error:
            if len(digests) == 1:
                self._problem("object", error.what, c.version)
                return
            for digest in digests:
                yield from self._payloads(c, [digest])
            return
        yield from ((digest, found.get(digest)) for digest in digests)

    def _below(self, c: Checkpoint, payload: bytes) -> list[bytes]:
        try:
            return reach.below(payload)
        except CorruptObject as error:
            self._problem("object", error.what, c.version)
            return []

    def _problem(self, kind: str, message: str, version: int | None = None) -> None:
        self.report.problems.append(Problem(kind, message, version))


def _rows(ctx: Context, info: ThreadInfo) -> Iterator[tuple[int, Checkpoint | str]]:
    """Every stored row in order, wherever the thread says it ends; a damaged one as what is wrong with it."""
    low = 0
    while low <= _LAST:
        try:
            page = ctx.storage.checkpoints(ctx.tenant, info.uid, low, _LAST, limit=_PAGE)
            found: list[tuple[int, Checkpoint | str]] = [(c.version, c) for c in page]
        except CorruptObject:
            found = _one_by_one(ctx, info, low)
        if not found:
            return
        yield from found
        low = found[-1][0] + 1


def _one_by_one(ctx: Context, info: ThreadInfo, low: int) -> list[tuple[int, Checkpoint | str]]:
    found: list[tuple[int, Checkpoint | str]] = []
    while len(found) < _PAGE and low <= _LAST:
        try:
            page = ctx.storage.checkpoints(ctx.tenant, info.uid, low, _LAST, limit=1)
            if not page:
                break
            found.append((page[0].version, page[0]))
        except CorruptObject as error:
            found.append((error.checkpoint if isinstance(error.checkpoint, int) else low, error.what))
        low = found[-1][0] + 1
    return found


def _against(report: Report, seal: Seal, row: Checkpoint | str) -> None:
    if isinstance(row, Checkpoint) and row.digest == seal.digest:
        report.sealed_to = seal.version
    else:
        report.problems.append(
            Problem("sealed", "is not the checkpoint that was sealed: history was rewritten", seal.version)
        )
