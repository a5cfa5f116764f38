"""What a crash left, and what waits for somebody: open steps, unknown calls, plans that have not ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.asking import Approval
from takeback.calling import Hands, probe
from takeback.engine import lines, owners
from takeback.engine.applying import unfinished, waiting
from takeback.engine.book import Book, Change, book_of, lost
from takeback.engine.commit import Said
from takeback.engine.standing import numbered
from takeback.errors import PlanStale, WorkspaceBusy, WorkspaceFailed, WorkspaceMissing
from takeback.errors.base import naming
from takeback.model.ids import ThreadUid, shown
from takeback.model.ledger import Effect, Entry, StepCell

if TYPE_CHECKING:
    from takeback.engine.context import Context
    from takeback.model.ledger import PlanCell


class PendingPlan:
    """A plan that has begun and not ended: its thread is locked until it is gone on with, or given up."""

    def __init__(self, ctx: Context, book: Book, cell: PlanCell) -> None:
        self._ctx, self._book, self._id = ctx, book, cell.id

    @property
    def thread(self) -> str:
        """The thread that it holds."""
        info = self._ctx.storage.thread_by_uid(self._ctx.tenant, self._cell.thread)
        return info.name if info else shown(self._cell.thread)

    @property
    def state(self) -> str:
        """applying, paused, applied or aborted."""
        return self._cell.state

    @property
    def id(self) -> str:
        """What it is called."""
        return shown(self._id)

    @property
    def stuck(self) -> list[int]:
        """The numbers of the effects that it is paused at."""
        failed = [line for line in self._cell.lines if line.state == "failed"]
        return [self._book.effects[line.effect].number for line in failed]

    def resume(self) -> PendingPlan:
        """Go on with it, as far as the tools of this process reach."""
        self._book.refresh()
        with naming(self.thread):
            lines.carry_on(self._ctx, self._book, self._cell, Hands())
        return self

    def retry(self, number: int) -> PendingPlan:
        """Try the line of this effect again, and go on."""
        return self._decided(number, "retry")

    def accept(self, number: int) -> PendingPlan:
        """Go on without what failed: the effect stays as it is, and is named."""
        return self._decided(number, "accept")

    def abort(self, reason: str | None = None) -> PendingPlan:
        """Restore nothing, and free the thread; what was undone stays undone, and shows as a discrepancy."""
        self._book.refresh()
        with naming(self.thread):
            lines.abort(self._ctx, self._book, self._cell, Said(reason=reason, actor=self._ctx.actor))
        return self

    def lines(self) -> list[str]:
        """What it does, a line each, and how far that is."""
        said = []
        for line in self._cell.lines:
            effect = self._book.effects[line.effect]
            why = f": {line.error}" if line.error else ""
            said.append(f"{line.do} #{effect.number} ({effect.shown}) with {line.handler}: {line.state}{why}")
        return said

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        cell = self._cell
        return {
            "id": self.id, "thread": self.thread, "kind": cell.kind, "state": cell.state,
            "target": cell.target.version, "reason": cell.reason, "lines": self.lines(),
        }  # fmt: skip

    def __str__(self) -> str:
        cell = self._cell
        if cell.state == "paused":
            return unfinished(self._book, cell, self.thread).what
        if cell.state == "applying":
            return f"the {cell.kind} of {self.thread!r} waits: {waiting(cell)}"
        end = "is done" if cell.state == "applied" else "was given up"
        return f"the {cell.kind} of {self.thread!r} {end}: version {cell.version}"

    def _decided(self, number: int, what: str) -> PendingPlan:
        self._book.refresh()
        with naming(self.thread):
            lines.decide_line(self._book, self._cell, numbered(self._book, number), what)
        return self.resume()

    @property
    def _cell(self) -> PlanCell:
        return self._book.plans[self._id]


class OpenStep(msgspec.Struct, frozen=True):
    """A step that was entered and has not closed."""

    thread: str
    label: str
    attempt: int
    worker: str | None
    effects: list[int]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return msgspec.structs.asdict(self)


class Recovery(msgspec.Struct):
    """What is left for somebody to see to, once what settles itself has been settled."""

    steps: list[OpenStep] = []
    effects: list[Effect] = []
    plans: list[PendingPlan] = []
    approvals: list[Approval] = []
    settled: list[str] = []
    names: dict[bytes, str] = {}
    """The names of the threads that began the effects, by uid."""

    @property
    def clean(self) -> bool:
        """Whether nothing is left."""
        return not (self.steps or self.effects or self.plans or self.approvals)

    def thread_of(self, effect: Effect) -> str:
        """The name of the thread that began it."""
        return self.names.get(effect.thread, shown(effect.thread))

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "steps": [step.as_dict() for step in self.steps],
            "effects": [{"thread": self.thread_of(e)} | e.as_dict() for e in self.effects],
            "plans": [plan.as_dict() for plan in self.plans],
            "approvals": [approval.as_dict() for approval in self.approvals],
            "settled": self.settled,
        }


def recover(ctx: Context, *, settle: bool = True) -> Recovery:
    """Settle what can be settled by itself, and list the rest.

    Calls whose worker is gone are unknown, and are asked about where their tool has a probe; plans go on as
    far as the tools of this process reach.
    """
    found = Recovery()
    for family in dict.fromkeys(cell.family for cell in ctx.storage.cells(ctx.tenant, live=True)):
        book = book_of(ctx, family).refresh()
        if settle:
            _settle(ctx, book, found)
        _listed(ctx, book, found)
    return found


def _settle(ctx: Context, book: Book, found: Recovery) -> None:
    lost = _disown(book)
    found.settled += [f"#{e.number} ({e.shown}): its worker is gone, so it is unknown" for e in lost]
    for effect in [e for e in book.effects.values() if e.state in ("unknown", "undo_unknown")]:
        asked = probe(book, effect)
        if asked is not None:
            found.settled.append(f"#{asked.number} ({asked.shown}): its probe says {asked.state}")
    for plan in [plan for plan in book.plans.values() if plan.state == "applying"]:
        # Another worker ended it meanwhile; or its files cannot be put back now, and it stays on the list.
        with contextlib.suppress(PlanStale, WorkspaceFailed, WorkspaceMissing, WorkspaceBusy):
            if lines.carry_on(ctx, book, plan, Hands()).state == "applied":
                found.settled.append(
                    f"the {plan.kind} to version {plan.target.version} was brought to its end"
                )


def _disown(book: Book) -> list[Effect]:
    """Calls in flight of workers that are gone."""

    def decide() -> Change:
        clock = book.clock()
        entries: list[Entry] = []
        for step in book.open_steps():
            if step.owner and not owners.holds(step.owner, step.lease_us, clock):
                entries.append(msgspec.structs.replace(step, owner="", lease_us=0))
                entries += book.in_flight(step)
        seen = {entry.id for entry in entries}
        for effect in book.alone():
            if effect.id not in seen and not owners.holds(effect.executor, effect.deadline_us, clock):
                entries.append(lost(effect))
        return Change(entries, answer=[e for e in entries if isinstance(e, Effect)])

    gone: list[Effect] = book.change(decide)
    return gone


def _listed(ctx: Context, book: Book, found: Recovery) -> None:
    clock = book.clock()
    found.steps += [_open(ctx, book, step, clock) for step in book.open_steps()]
    live = sorted((e for e in book.effects.values() if e.live), key=lambda e: e.number)
    found.effects += live
    for uid in {effect.thread for effect in live}:
        info = ctx.storage.thread_by_uid(ctx.tenant, ThreadUid(uid))
        if info is not None:
            found.names[uid] = info.name
    found.plans += [PendingPlan(ctx, book, plan) for plan in book.plans.values() if plan.live]
    found.approvals += [Approval(ctx, book, each) for each in book.approvals.values() if each.live]


def _open(ctx: Context, book: Book, step: StepCell, clock: int) -> OpenStep:
    info = ctx.storage.thread_by_uid(ctx.tenant, step.thread)
    at_work = owners.holds(step.owner, step.lease_us, clock)
    return OpenStep(
        info.name if info else shown(step.thread),
        step.label,
        step.attempt,
        owners.described(step.owner) if at_work else None,
        [effect.number for effect in book.of_step(step.id)],
    )
