"""What is copied beside histories: families' ledgers, labels, the audit log; and the notes of earlier copies,
by which a change here is told from a change there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from takeback.engine import bringing, graph_beside, reach, retention, threads
from takeback.engine.context import Context
from takeback.engine.copy_report import CopiedThread, CopyReport
from takeback.errors import Conflict
from takeback.model import canonical
from takeback.model.ids import ThreadUid
from takeback.model.records import AuditEntry, ThreadInfo
from takeback.storage.base import Audit, Batch, Cell, DropLabel, Ledger, Prune, PutLabel, Refusal, Row
from takeback.storage.items import ItemRow

COPIED, LEDGER = "thread.copied", "ledger.copied"
_ROWS = 500


class Beside:
    """From where to where; `store` is the uid by which the notes name the source."""

    def __init__(self, source: Context, target: Context, report: CopyReport, store: str) -> None:
        self.source, self.target, self.report, self.store = source, target, report, store

    def write(self, rows: list[Row], objects: dict[bytes, bytes]) -> Refusal | None:
        refusal = self.target.storage.apply(Batch(self.target.tenant, rows, objects))
        if refusal is None:
            self.report.objects += len(objects)
            self.report.bytes += sum(map(len, objects.values()))
        return refusal

    def last(self, action: str, uid: bytes) -> dict[str, Any]:
        """What the last copy from this store noted there."""
        found: dict[str, Any] = {}
        for entry in threads.audit(self.target, uid):
            if entry.action == action and entry.detail.get("from") == self.store:
                found = entry.detail
        return found

    def note(self, info: ThreadInfo, labels: dict[str, int], rows: list[Row]) -> Refusal | None:
        """These rows, with the note that all of the thread is there and was read again."""
        said: dict[str, Any] = {"from": self.store, "versions": info.versions, "labels": labels}
        refusal = self.write([*rows, self.target.audit(COPIED, info, self.target.actor, **said)], {})
        if refusal is None:
            self.report.audit += sum(isinstance(row, Audit) for row in rows)
        return refusal

    def pruned(self, uid: ThreadUid) -> list[Row]:
        """That files were given up here, so that nobody looks for them there."""
        there = retention.pruned(self.target, uid)
        return [Prune(uid, *run) for run in retention.pruned(self.source, uid) if run not in there]

    def labels(
        self, said: CopiedThread, uid: ThreadUid, labels: dict[str, int], last: dict[str, int]
    ) -> Iterator[Row]:
        """What was put, moved or dropped since the last copy; what was changed there stays, and is named."""
        there = threads.labels(self.target, uid)
        for name in sorted({*labels, *last}):
            mine, theirs = labels.get(name), there.get(name)
            if mine == theirs:
                continue
            if theirs != last.get(name):
                said.notes.append(f"label {name!r} was changed there, and stays as it is there")
            elif mine is None:
                yield DropLabel(uid, name)
            else:
                yield PutLabel(uid, name, mine)

    def graph(self, uid: ThreadUid) -> list[Row]:
        """What a graph's tasks wrote, and what the graph no longer sees."""
        return graph_beside.missing(self.source, self.target, uid)

    def audit(self, uid: bytes | None) -> Iterator[Row]:
        """Entries that are not there, told by all that they say: each store numbers its own."""
        there = Counter(_said(entry) for entry in threads.audit(self.target, uid))
        for entry in threads.audit(self.source, uid):
            if there[_said(entry)] > 0:
                there[_said(entry)] -= 1
            else:
                yield Audit(entry)

    def ledger(self, family: ThreadUid, cells: list[Cell]) -> Refusal | None:
        """What the family's ledger says now, where it says something else there. What was changed there since
        the last copy is refused: two stores that both see to an effect would see to it twice."""
        there = self.target.storage.cells(self.target.tenant, family=family)
        held = {(cell.kind, cell.key): cell for cell in there}
        differing = [cell for cell in cells if not _same(cell, held.get((cell.kind, cell.key)))]
        last = self.last(LEDGER, family) if differing else {}
        changed = [cell for cell in differing if cell.seq > last.get("here", 0)]
        if not changed:
            return None
        seq = max((cell.seq for cell in there), default=0)
        for cell in changed:
            if (cell.kind, cell.key) in held and held[cell.kind, cell.key].seq > last.get("there", 0):
                what = f"the same {cell.kind} was changed in both"
                raise Conflict(
                    f"the ledger of its effects went on in both stores: {what}",
                    hint="See to its effects in one of the two, and go on there",
                )
        objects = dict(reach.objects(self.source, reach.kept_beside(changed), set()))
        about = AuditEntry(
            time_us=self.target.clock(), action=LEDGER, thread=None, uid=family, actor=self.target.actor,
            detail={"from": self.store, "here": max(cell.seq for cell in cells), "there": seq + 1},
        )  # fmt: skip
        refusal = self.write([Ledger(family, seq, changed), Audit(about)], objects)
        if refusal is None:
            self.report.cells += len(changed)
            self._under_way(cells)
        return refusal

    def memory(self, rows: list[ItemRow]) -> Refusal | None:
        """Versions of items, each in its place by time; what is there already stays as it is there."""
        for some, objects in bringing.batches(self.source, rows):
            refusal = self.write(some, objects)
            if refusal is not None:
                return refusal
        self.report.items += len(rows)
        return None

    def _under_way(self, cells: list[Cell]) -> None:
        live = Counter(cell.kind for cell in cells if cell.live)
        if live:
            kinds = ", ".join(f"{kind} × {count}" for kind, count in sorted(live.items()))
            self.report.notes.append(f"copied before it was finished: {kinds}; see to it in one store only")

    def of_no_thread(self) -> Iterator[ThreadUid]:
        """Families whose threads were all deleted, and that somebody has to see to yet."""
        living = {info.family for info in threads.listed(self.source)}
        live = self.source.storage.cells(self.source.tenant, live=True)
        yield from (ThreadUid(family) for family in sorted({cell.family for cell in live} - living))

    def rest_of_audit(self) -> None:
        """Entries of threads that were deleted, and of none."""
        rows = list(self.audit(None))
        for low in range(0, len(rows), _ROWS):
            if self.write(rows[low : low + _ROWS], {}) is None:
                self.report.audit += len(rows[low : low + _ROWS])


def _same(cell: Cell, other: Cell | None) -> bool:
    return other is not None and (cell.thread, cell.body, cell.live) == (other.thread, other.body, other.live)


def _said(entry: AuditEntry) -> bytes:
    return canonical.encode([entry.time_us, entry.action, entry.thread, entry.uid, entry.actor, entry.detail])
