"""A family's ledger as this process has read it: kept up by reading what came since, written by comparing."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from takeback.engine import history, reach
from takeback.engine.context import Context
from takeback.errors import Conflict, RollbackInProgress, StepLost, ThreadDeleted
from takeback.model import canonical
from takeback.model import ledger as records
from takeback.model.ids import ThreadUid
from takeback.model.ledger import (
    IN_FLIGHT,
    KIND_OF,
    ApprovalCell,
    Blob,
    BudgetCell,
    Effect,
    Entry,
    PlanCell,
    StepCell,
    ThreadCell,
    Use,
    WorkspaceCell,
)
from takeback.model.records import Pointer
from takeback.storage.base import (
    Batch,
    Cell,
    FilesGone,
    HeadMoved,
    Ledger,
    LedgerMoved,
    Refusal,
    Row,
    ThreadGone,
    ThreadLocked,
    Within,
)

Lineage = dict[tuple[bytes, int], int]
"""L(c): for each line of each thread that is in it, up to which version."""
_LINEAGES = 512


class Change(msgspec.Struct, frozen=True):
    """What a decision comes to: entries to write, rows that are written with them, and what is answered."""

    entries: list[Entry] = []
    answer: Any = None
    rows: list[Row] = []
    objects: dict[bytes, bytes] = {}
    within: Callable[[Any], list[Entry]] | None = None  # work in this transaction, and what it writes


class Place:
    """The effects that may stand at one target: loose ones, and those that histories believe in, by line."""

    def __init__(self) -> None:
        self.loose: set[bytes] = set()
        self.used: dict[tuple[bytes, int], dict[bytes, int]] = {}
        self.top: dict[tuple[bytes, int], int] = {}

    def add(self, effect: Effect) -> None:
        if not effect.uses:
            self.loose.add(effect.id)
            return
        use = effect.uses[0]
        line = (use.thread, use.line)
        self.used.setdefault(line, {})[effect.id] = use.version
        self.top[line] = max(self.top.get(line, -1), use.version)

    def drop(self, effect: Effect) -> None:
        self.loose.discard(effect.id)
        if effect.uses:
            use = effect.uses[0]
            self.used.get((use.thread, use.line), {}).pop(effect.id, None)

    def beyond(self, lineage: Lineage) -> list[bytes]:
        """Those that this history may not believe in: whole lines that it holds are passed over."""
        found = list(self.loose)
        for line, held in self.used.items():
            if lineage.get(line, -1) < self.top[line]:
                found += held
        return found


class Book:
    """The ledger of one family. Whoever reads and then writes holds `lock`."""

    def __init__(self, ctx: Context, family: ThreadUid) -> None:
        self._ctx, self.family, self.clock = ctx, family, ctx.shared_clock
        self.lock = threading.RLock()
        self.seq = 0
        self.steps: dict[bytes, StepCell] = {}
        self.effects: dict[bytes, Effect] = {}
        self.plans: dict[bytes, PlanCell] = {}
        self.approvals: dict[bytes, ApprovalCell] = {}
        self.threads: dict[bytes, ThreadCell] = {}
        self.budgets: dict[bytes, BudgetCell] = {}
        self.workspaces: dict[bytes, WorkspaceCell] = {}
        self.numbers = 0
        self.asked = 0
        self.spent: dict[str, int] = defaultdict(int)
        self.tried = 0
        self.order = 0
        self._live_plans: set[bytes] = set()
        self._of_step: dict[bytes, dict[bytes, None]] = defaultdict(dict)
        self._places: dict[str, Place] = defaultdict(Place)
        self._open: dict[tuple[bytes, int, str | None, str], bytes] = {}
        self._closed: dict[tuple[str | None, str], dict[tuple[bytes, int], list[tuple[int, bytes]]]] = {}
        self._abandoned: dict[tuple[str | None, str, bytes, int], int] = defaultdict(int)
        self._lineages: dict[tuple[bytes, int], Lineage] = {}

    # --- reading

    def refresh(self) -> Book:
        """Read what was written since; nothing of it is older than the last call."""
        with self.lock:
            for cell in self._ctx.storage.cells(self._ctx.tenant, family=self.family, after=self.seq):
                entry = records.decode(cell.kind, cell.body)
                if entry is not None:
                    self._take(entry)
                self.seq = max(self.seq, cell.seq)
        return self

    def of_step(self, step: bytes) -> list[Effect]:
        """A step's own effects, in the order of their intents."""
        found = [self.effects[each] for each in self._of_step.get(step, ())]
        return sorted(found, key=lambda effect: effect.number)

    def held(self, thread: bytes) -> bool:
        """Whether a plan is being applied to the thread, as far as is known here."""
        return any(self.plans[plan].thread == thread for plan in self._live_plans)

    def in_flight(self, step: StepCell) -> list[Entry]:
        """What the owner of a step was in the middle of calling, as it is when that owner is gone."""
        found: list[Entry] = [lost(e) for e in self.of_step(step.id) if e.state == "begun"]
        if step.owner:
            undoing = (e for e in self.effects.values() if e.state == "undoing" and e.executor == step.owner)
            found += [lost(e) for e in undoing]
        return found

    def alone(self) -> list[Effect]:
        """Effects in flight that no plan under way is calling for."""
        planned = {line.effect for plan in self._live_plans for line in self.plans[plan].lines}
        return [e for e in self.effects.values() if e.state in IN_FLIGHT and e.id not in planned]

    def open_step(self, thread: bytes, line: int, run: str | None, label: str) -> StepCell | None:
        found = self._open.get((thread, line, run, label))
        return None if found is None else self.steps[found]

    def open_steps(self, thread: bytes | None = None) -> list[StepCell]:
        found = [self.steps[each] for each in self._open.values()]
        return [step for step in found if thread in (None, step.thread)]

    def closed_steps(self, run: str | None, label: str, lineage: Lineage) -> list[bytes]:
        """The recorded steps of this label (and run) in a history, oldest first."""
        lines = self._closed.get((run, label), {})
        found = [
            pair
            for line, up_to in lineage.items()
            if line in lines
            for pair in lines[line][: bisect_right(lines[line], up_to, key=lambda pair: pair[0])]
        ]
        return [step for _, step in sorted(found, key=lambda pair: self.steps[pair[1]].ord)]

    def ordinal(self, run: str | None, label: str, lineage: Lineage, thread: bytes, line: int) -> int:
        """Which of its label a new step is: after those in the history, and those given up on this line."""
        lines = self._closed.get((run, label), {})
        closed = sum(
            bisect_right(lines[each], up_to, key=lambda pair: pair[0])
            for each, up_to in lineage.items()
            if each in lines
        )
        return closed + self._abandoned.get((run, label, thread, line), 0)

    def standing(self, target: str, lineage: Lineage) -> list[Effect]:
        """What may stand at a target and is not believed in by this history, oldest first."""
        place = self._places.get(target)
        if place is None:
            return []
        found = [self.effects[each] for each in place.beyond(lineage)]
        return sorted((e for e in found if not believed(e, lineage)), key=lambda e: e.number)

    def lineage(self, start: Pointer) -> Lineage:
        """L(start); a checkpoint's never changes."""
        found = self._lineages.get((start.uid, start.version))
        if found is not None:
            return found
        found = self._lengthened(start)
        if found is None:
            found = {(uid, line): up_to for uid, line, up_to in history.lineage(self._ctx, start)}
        if len(self._lineages) >= _LINEAGES:
            self._lineages.clear()
        self._lineages[start.uid, start.version] = found
        return found

    def _lengthened(self, start: Pointer) -> Lineage | None:
        """That of the checkpoint before it and this one, where it is known that nothing else came in."""
        known = self._ctx.remembered(start.uid, start.version)
        if known is None or known.before is None or known.origin is not None or known.merged is not None:
            return None
        prior = self._lineages.get((start.uid, known.before))
        if prior is None:
            return None
        return prior | {(start.uid, known.line): start.version}

    def load(self, blob: Blob) -> Any:
        """The value that was kept in the ledger or beside it."""
        return canonical.decode(blob.raw or self._ctx.get(blob.digest))

    # --- writing

    def change(self, decide: Callable[[], Change]) -> Any:
        """Decide on what the ledger says, and write; decide anew when it moved meanwhile."""
        with self.lock:
            while True:
                change = decide()
                if not change.entries and not change.rows and change.within is None:
                    return change.answer
                entries = list(change.entries)
                refusal = self._apply(change, entries)
                if refusal is None:
                    if entries:
                        self.took(entries)
                    return change.answer
                if not isinstance(refusal, LedgerMoved):
                    raise self.refused(refusal)
                self.refresh()

    def row(self, entries: Iterable[Entry]) -> Ledger:
        """Entries as a row, for a batch of somebody else's; `took` them when it was written. Workers wait for
        plans, and agents for approvals."""
        entries = list(entries)
        cells = [Cell(KIND_OF[type(e)], e.id, e.thread, records.encode(e), e.live) for e in entries]
        wakes = any(isinstance(e, (PlanCell, ApprovalCell)) for e in entries)
        return Ledger(self.family, self.seq, cells, wakes)

    def took(self, entries: Iterable[Entry]) -> None:
        """The entries are written, under the next number."""
        self.seq += 1
        for entry in entries:
            self._take(entry)

    def refused(self, refusal: Refusal) -> Exception:
        """Why something beside a thread was not written, in words."""
        if isinstance(refusal, ThreadLocked):
            return RollbackInProgress(
                "a plan is being applied to the thread"
                if refusal.lock
                else "the plan that held the thread is over",
                hint="`takeback recover` shows it; look again when it is done",
            )
        if isinstance(refusal, ThreadGone):
            return ThreadDeleted("the thread was deleted")
        if isinstance(refusal, FilesGone):
            return reach.files_pruned(refusal)
        if isinstance(refusal, HeadMoved):
            return StepLost(
                "the thread went back (or on, on another line) meanwhile: what was under way here is over",
                checkpoint=refusal.head,
                hint="thread.refresh(), look, and enter the step anew",
            )
        return Conflict(f"refused: {refusal}")

    def _apply(self, change: Change, entries: list[Entry]) -> Refusal | None:
        rows: list[Row] = [*change.rows, self.row(entries)]
        if change.within is not None:
            work = change.within

            def run(connection: Any) -> list[Row]:
                entries[:] = work(connection)
                return [self.row(entries)]

            rows.append(Within(run))
        return self._ctx.storage.apply(Batch(self._ctx.tenant, rows, change.objects))

    # --- the indexes

    def _take(self, entry: Entry) -> None:
        if isinstance(entry, Effect):
            self._take_effect(entry)
        elif isinstance(entry, StepCell):
            self._take_step(entry)
        elif isinstance(entry, PlanCell):
            self.plans[entry.id] = entry
            (self._live_plans.add if entry.live else self._live_plans.discard)(entry.id)
        elif isinstance(entry, ApprovalCell):
            self.approvals[entry.id] = entry
            self.asked = max(self.asked, entry.number)
        elif isinstance(entry, ThreadCell):
            self.threads[entry.id] = entry
        elif isinstance(entry, WorkspaceCell):
            self.workspaces[entry.id] = entry
        else:
            self.budgets[entry.id] = entry

    def _take_effect(self, effect: Effect) -> None:
        old = self.effects.get(effect.id)
        if old is None:
            self.numbers = max(self.numbers, effect.number)
            self._of_step[effect.step][effect.id] = None
        place = self._places[effect.target]
        if old is not None and old.may_stand:
            place.drop(old)
            self._count(old, -1)
        if effect.may_stand:
            place.add(effect)
            self._count(effect, 1)
        self.order = max(self.order, effect.order)
        self.tried += effect.redo + 1 - (old.redo + 1 if old else 0)
        self.effects[effect.id] = effect

    def _count(self, effect: Effect, sign: int) -> None:
        for name, amount in effect.cost.items():
            self.spent[name] += sign * amount

    def _take_step(self, step: StepCell) -> None:
        old = self.steps.get(step.id)
        self.steps[step.id] = step
        place = (step.thread, step.line, step.run, step.label)
        if step.state == "open":
            self._open[place] = step.id
            return
        if self._open.get(place) == step.id:
            del self._open[place]
        if old is not None and old.state == step.state:
            return
        if step.state == "abandoned":
            self._abandoned[step.run, step.label, step.thread, step.line] += 1
        elif step.closed is not None:
            lines = self._closed.setdefault((step.run, step.label), {})
            insort(lines.setdefault((step.thread, step.line), []), (step.closed, step.id))


def lost(effect: Effect) -> Effect:
    """Whoever called for it is gone: nobody knows."""
    state = "undo_unknown" if effect.state == "undoing" else "unknown"
    return msgspec.structs.replace(effect, state=state, dirty=True)


def believed(effect: Effect, lineage: Lineage) -> bool:
    """Whether the history believes in the effect: a step in it closed with it."""
    return any(_holds(lineage, use) for use in effect.uses)


def _holds(lineage: Lineage, use: Use) -> bool:
    return lineage.get((use.thread, use.line), -1) >= use.version


def book_of(ctx: Context, family: bytes) -> Book:
    """The family's ledger, one a store handle."""
    held: Book | None = ctx.books.get(family)
    if held is None:
        held = ctx.books.setdefault(family, Book(ctx, ThreadUid(family)))
    return held


def blob(value: bytes) -> tuple[Blob, dict[bytes, bytes]]:
    """Encoded bytes for the ledger, and the object that they become where they are long."""
    if len(value) <= records.INLINE:
        return Blob(raw=value), {}
    digest = canonical.digest(value)
    return Blob(digest=digest), {digest: value}
