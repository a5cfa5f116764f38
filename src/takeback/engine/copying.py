"""Threads copied from one store to another, again and again, until all is there.

What is written is what was read: uids, ids, records, digests and signatures stay as they are, so seals and
providers' keys still hold. A copy that was broken off goes on where it stopped, and one that is run again
adds what has come since. A family that shares a ledger is copied as of one moment, each other thread as of
one of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from takeback.engine import bringing, reach, retention, threads
from takeback.engine.context import Context
from takeback.engine.copy_beside import COPIED, Beside
from takeback.engine.copy_report import CopiedThread, CopyReport
from takeback.engine.verify import verify
from takeback.errors import (
    BadRequest,
    Conflict,
    CorruptObject,
    NotCopied,
    RollbackInProgress,
    StoreError,
    TakebackError,
    ThreadDeleted,
    ThreadExists,
    UnknownThread,
)
from takeback.model import canonical
from takeback.model.ids import ThreadUid, shown
from takeback.model.records import Checkpoint, ThreadInfo
from takeback.storage.base import Cell, History, NewThread, Refusal, Row

_ROWS, _BYTES = 500, 4 << 20  # of one transaction
_TRIES = 5  # when others write to the destination at the same moment

Heard: TypeAlias = Callable[[str, int, int], object]
"""Told of a thread's name, how many checkpoints of all threads are copied, and how many there are."""


def copied(
    source: Context, target: Context, names: Sequence[str] | None, heard: Heard | None = None
) -> CopyReport:
    """Copy these threads, or all, and raise in the end if one of them could not be copied."""
    report = copy(source, target, names, heard)
    if report.ok:
        return report
    problems = [f"{each.thread!r}: {each.problem.what}" for each in report.refused if each.problem]
    more = f"; and {len(problems) - 3:,} more" if len(problems) > 3 else ""
    one = report.refused[0] if len(problems) == 1 else None
    raise NotCopied(
        f"{len(problems):,} of {len(report.threads):,} threads could not be copied: "
        + "; ".join(problems[:3])
        + more,
        report=report,
        hint=one.problem.hint if one is not None and one.problem is not None else None,
    )


def copy(
    source: Context, target: Context, names: Sequence[str] | None, heard: Heard | None = None
) -> CopyReport:
    """What one of them is refused for does not stop the others; the report names it."""
    here, there = source.storage.info(), target.storage.info()
    if (here.uid, source.tenant) == (there.uid, target.tenant):
        raise BadRequest("source and destination are the same store", hint="Name two stores, or two tenants")
    report = CopyReport(here.location, there.location)
    beside = Beside(source, target, report, f"{here.uid}/{source.tenant}")
    copier = _Copier(source, target, beside, heard)
    families = [[copier.item(info) for info in infos] for infos in _selected(source, names)]
    copier.total = sum(item.left for items in families for item in items)
    for items in families:
        copier.family(items)
    if names is None:
        copier.rest()
    return report


class _Item(msgspec.Struct):
    """A thread to be copied: as it is, from which version on it is missing there, and what becomes of it."""

    info: ThreadInfo
    said: CopiedThread
    low: int = 0

    @property
    def left(self) -> int:
        return 0 if self.said.problem is not None else max(self.info.versions - self.low, 0)

    def refuse(self, error: TakebackError) -> None:
        """Unless the store itself cannot go on: then nothing else can be copied either."""
        if isinstance(error, StoreError):
            raise error
        self.said.outcome, self.said.problem = "refused", error


class _Moment(msgspec.Struct):
    """A family as it was in one moment."""

    infos: dict[bytes, ThreadInfo]
    labels: dict[bytes, dict[str, int]]
    cells: list[Cell]


def _selected(source: Context, names: Sequence[str] | None) -> list[list[ThreadInfo]]:
    """Families in the order in which they began, so that a list by age is the same there. A thread that
    shares a ledger with others comes with them."""
    families: dict[bytes, list[ThreadInfo]] = defaultdict(list)
    for info in reversed(threads.listed(source)):
        families[info.family].append(info)
    if names is None:
        return list(families.values())
    known = {info.name for infos in families.values() for info in infos}
    for name in names:
        if name not in known:
            raise UnknownThread(f"there is no thread {name!r}", hint="`takeback threads` lists them")
    chosen = []
    for family, infos in families.items():
        named = [info for info in infos if info.name in names]
        if named:
            shared = len(infos) > len(named) and source.storage.cells(source.tenant, family=family)
            chosen.append(infos if shared else named)
    return chosen


class _Copier:
    """One run."""

    def __init__(self, source: Context, target: Context, beside: Beside, heard: Heard | None) -> None:
        self.source, self.target, self.beside, self.heard = source, target, beside, heard
        self.total = self.done = 0

    # --- what is missing there, and what forbids to add it

    def item(self, info: ThreadInfo) -> _Item:
        item = _Item(info, CopiedThread(info.name, info.uid, "same", info.versions))
        self.beside.report.threads.append(item.said)
        try:
            item.low = self._missing_from(info)
        except TakebackError as error:
            item.refuse(error)
        return item

    def _missing_from(self, info: ThreadInfo) -> int:
        """The first version that is missing there; what cannot be continued there is refused."""
        there = self.target.storage.thread_by_uid(self.target.tenant, info.uid)
        _free(info, "")
        if there is None:
            self._name_is_free(info)
            return 0
        if there.deleted_us is not None:
            raise ThreadDeleted("the thread was deleted there, for good", thread=info.name)
        _free(there, " there")
        version = min(info.head, there.head)
        mine, theirs = _digest(self.source, info, version), _digest(self.target, there, version)
        if mine != theirs:
            raise Conflict(
                f"it went on in both stores: version {version} is {shown(mine)[:12]} here and "
                f"{shown(theirs)[:12]} there",
                expected=shown(mine),
                actual=shown(theirs),
                thread=info.name,
                checkpoint=version,
                hint="Go on with one of the two",
            )
        return there.head + 1

    def _name_is_free(self, info: ThreadInfo) -> None:
        taken = self.target.storage.thread(self.target.tenant, info.name)
        if taken is not None:
            raise ThreadExists(
                "the name is taken there by another thread, whose uid is "
                f"{shown(taken[0].uid)}; the uid of this one is {shown(info.uid)}",
                thread=info.name,
                hint="Copy to another tenant, or delete one of the two",
            )

    # --- a family

    def family(self, items: list[_Item]) -> None:
        """First the ledger: a history whose effects nobody knows of would be believed to have none."""
        moment = self._moment(items)
        going = [item for item in items if item.said.problem is None]
        try:
            if len(going) < len(items) and moment.cells:
                raise Conflict("another thread of its family, whose ledger it shares, cannot be copied")
            self._tried(lambda: self.beside.ledger(ThreadUid(items[0].info.family), moment.cells))
        except TakebackError as error:
            for item in going:
                item.refuse(error)
            return
        for item in going:
            try:
                self._tried(lambda item=item: self._thread(item, moment))  # type: ignore[misc]  # a lambda's default
            except TakebackError as error:
                item.refuse(error)

    def _moment(self, items: list[_Item]) -> _Moment:
        """The family as it is now; what has become of a thread since it was planned may forbid its copy."""
        found = _Moment({}, {}, [])
        with self.source.storage.snapshot():
            for item in items:
                now = self.source.storage.thread_by_uid(self.source.tenant, item.info.uid)
                if now is not None and now.deleted_us is None:
                    found.infos[now.uid] = now
                    found.labels[now.uid] = threads.labels(self.source, now.uid)
            family = items[0].info.family
            found.cells = self.source.storage.cells(self.source.tenant, family=family)
        for item in items:
            if item.said.problem is not None:
                continue
            try:
                if item.info.uid not in found.infos:
                    raise ThreadDeleted("the thread was deleted meanwhile")
                item.info = found.infos[item.info.uid]
                item.low = self._missing_from(item.info)
            except TakebackError as error:
                item.refuse(error)
        return found

    def _tried(self, act: Callable[[], Refusal | None]) -> None:
        """Somebody who writes there at the same moment may be another copy: look again, and go on."""
        for _ in range(_TRIES):
            refusal = act()
            if refusal is None:
                return
        raise Conflict("somebody else writes to it there", hint="Copy again when that is over")

    # --- a thread

    def _thread(self, item: _Item, moment: _Moment) -> Refusal | None:
        info = item.info
        low, given_up = self._missing_from(info), self.beside.pruned(info.uid)
        refusal = self.beside.memory(bringing.of_thread(self.source, info.uid, low))
        if refusal is not None:
            return refusal
        for checkpoints, objects in self._batches(info, low):
            rows = _joining(info, checkpoints)
            refusal = self.beside.write([*rows, *given_up] if rows else [], objects)
            if refusal is not None:
                return refusal
            given_up = [] if rows else given_up
            self._count(item, len(checkpoints))
        if low > info.versions:
            item.said.outcome, item.said.versions = "ahead", low
            return None
        return self._finish(item, moment.labels[info.uid], given_up)

    def _batches(self, info: ThreadInfo, low: int) -> Iterator[tuple[list[Checkpoint], dict[bytes, bytes]]]:
        """Checkpoints with all that they rest on, as many as one transaction should hold. What is too much
        for one goes ahead of its checkpoint."""
        checkpoints: list[Checkpoint] = []
        objects: dict[bytes, bytes] = {}
        size, seen = 0, self._there(info, low)
        pruned = retention.pruned(self.source, info.uid)
        for row in reach.rows(self.source, info, low):
            for digest, payload in reach.objects(self.source, reach.kept(row, pruned), seen):
                objects[digest] = payload
                size += len(payload)
                if size >= _BYTES:
                    yield checkpoints, objects
                    checkpoints, objects, size = [], {}, 0
            checkpoints.append(row)
            if len(checkpoints) >= _ROWS:
                yield checkpoints, objects
                checkpoints, objects, size = [], {}, 0
        if checkpoints:
            yield checkpoints, objects

    def _there(self, info: ThreadInfo, low: int) -> set[bytes]:
        """The objects that the version before rests on are there: they are most of the next one's."""
        seen: set[bytes] = set()
        last = self.source.storage.checkpoint(self.source.tenant, info.uid, low - 1)
        if last is not None and low <= info.head:
            roots = reach.kept(last, retention.pruned(self.source, info.uid))
            for _ in reach.objects(self.source, roots, seen):
                pass
        return seen

    def _count(self, item: _Item, written: int) -> None:
        item.said.added += written
        self.beside.report.checkpoints += written
        self.done += written
        if self.heard is not None:
            self.heard(item.info.name, self.done, max(self.total, self.done))

    def _finish(self, item: _Item, labels: dict[str, int], rows: list[Row]) -> Refusal | None:
        """Labels and entries of the log, once all of the thread was read there and is what it was here."""
        info, beside = item.info, self.beside
        last = beside.last(COPIED, info.uid)
        item.said.notes = []
        rows += beside.graph(info.uid)
        rows += [*beside.labels(item.said, info.uid, labels, last.get("labels", {})), *beside.audit(info.uid)]
        if not rows and last.get("versions") == info.versions:
            return None
        if last.get("versions") != info.versions:
            self._verify(item)
        item.said.outcome, item.said.versions = ("grown" if item.low else "copied"), info.versions
        return beside.note(info, labels, rows)

    def _verify(self, item: _Item) -> None:
        info = item.info
        now = self.target.storage.thread_by_uid(self.target.tenant, info.uid)
        assert now is not None
        found = verify(self.target, now)
        if not found.ok:
            raise CorruptObject(f"the copy does not verify: {found.problems[0]}")
        both = zip(reach.rows(self.source, info), reach.rows(self.target, info), strict=True)
        for row, copied in both:
            if (copied.record, copied.digest, copied.mac) != (row.record, row.digest, row.mac):
                raise CorruptObject("the copy differs", checkpoint=row.version)
            for pointer in filter(None, (row.origin, row.merged)):
                if pointer.uid != info.uid and not self._comes(pointer.uid):
                    item.said.notes.append(
                        f"version {row.version} points to a thread that is not in this store"
                    )

    def _comes(self, uid: bytes) -> bool:
        """Whether a thread is there, or is copied in this run."""
        there = self.target.storage.thread_by_uid(self.target.tenant, uid)
        return there is not None or any(each.uid == uid for each in self.beside.report.threads)

    # --- what belongs to no living thread

    def rest(self) -> None:
        for family in self.beside.of_no_thread():
            cells = self.source.storage.cells(self.source.tenant, family=family)
            self._tried(lambda family=family, cells=cells: self.beside.ledger(family, cells))  # type: ignore[misc]  # a lambda's defaults
        self._tried(lambda: self.beside.memory(bringing.of_nobody(self.source)))
        self.beside.rest_of_audit()


def _joining(info: ThreadInfo, checkpoints: list[Checkpoint]) -> list[Row]:
    if not checkpoints:
        return []
    first, *rest = checkpoints
    if first.version > 0:
        return [History(checkpoints)]
    meta = canonical.encode(info.meta)
    family = ThreadUid(info.family)
    begins = NewThread(
        info.name, info.uid, info.agent, info.user, meta, info.created_us, first, family, info.origin
    )
    return [begins, History(rest)]


def _free(info: ThreadInfo, where: str) -> None:
    if info.lock is not None:
        raise RollbackInProgress(
            f"a plan is being applied to the thread{where}",
            thread=info.name,
            hint="Finish it or give it up, then copy again: `takeback recover` shows it",
        )


def _digest(ctx: Context, info: ThreadInfo, version: int) -> bytes:
    if version == info.head:
        return info.head_digest
    found = ctx.storage.checkpoint(ctx.tenant, info.uid, version)
    if found is None:
        raise CorruptObject("a version is missing", thread=info.name, checkpoint=version)
    return found.digest
