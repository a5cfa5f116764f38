"""Applying a plan: at once where it only restores, durably and line by line where it acts on the world."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

import msgspec

from takeback.engine import approvals
from takeback.engine.book import Book, Change
from takeback.engine.calls import LOST, Hands
from takeback.engine.commit import ItemStale, LedgerStale, Said
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.forgetting import MemoryPart, memory_of
from takeback.engine.lines import carry_on, given_up
from takeback.engine.plans import EffectsPart, effects_of, waits
from takeback.engine.rollback import Move, apply, stale, takes_up
from takeback.engine.standing import merging
from takeback.engine.steps import in_progress
from takeback.errors import (
    HandlerMissing,
    PlanPaused,
    PlanStale,
    StepLost,
    Unacknowledged,
    Undecided,
)
from takeback.model import canonical
from takeback.model.ids import Bookmark, ThreadUid, bookmark
from takeback.model.ledger import IN_FLIGHT, Entry, PlanCell, PlanLine
from takeback.model.records import Checkpoint, FileRoot
from takeback.storage.base import Lock, Row, Still

_replace = msgspec.structs.replace
_POLL = 0.1


class Job(msgspec.Struct, frozen=True):
    """A plan that is to be applied: where, to what, and what it is said to be for."""

    ctx: Context
    book: Book
    tip: Tip
    move: Move
    part: EffectsPart
    said: Said
    memory: MemoryPart
    moves: list[FileRoot] = []  # workspaces whose files it puts back, as they are now
    contents: dict[bytes, bytes] = {}  # objects of what they will be

    def seen_again(self) -> None:
        """Refuse if effects or memory are not what the plan saw."""
        now = effects_of(self.ctx, self.book, self.tip, self.move, self.part.wish)
        if now.digest != self.part.digest:
            raise PlanStale(
                "effects have changed since the plan was made",
                thread=self.tip.info.name,
                hint="Make a new plan, and look at it",
            )
        remembered = memory_of(self.ctx, self.book, self.tip, self.move, self.memory.goal)
        if remembered.digest != self.memory.digest:
            raise _memory_moved(self)


def run(
    job: Job, hands: Hands, *, acknowledge: bool | Collection[int], wait: float | None
) -> tuple[Tip, Bookmark]:
    """Apply a plan: at once where it only restores, else line by line, to the end or to where it stops."""
    ctx, book, tip, part = job.ctx, job.book, job.tip, job.part
    if tip.head.digest != job.move.head.digest:
        raise stale(tip, job.move)
    ready(job, hands, acknowledge, wait)
    mark = bookmark(tip.head.id)
    try:
        if not (part.undone or part.redone or job.moves):
            return _at_once(job), mark
        begun = begin(job)
    except PlanStale:
        _looked_again(job)  # where another plan holds the thread, that is what to say
        raise
    told = ctx.waiter(_POLL)
    plan = carry_on(ctx, book, begun, hands)
    until = time.monotonic() + (wait or 0)
    while plan.state == "applying" and time.monotonic() < until:
        told.wait(until=until)
        book.refresh()
        plan = carry_on(ctx, book, book.plans[plan.id], hands)
    if plan.state != "applied":
        raise unfinished(book, plan, tip.info.name)
    after = ctx.tip(tip.info.name)
    assert after is not None
    return after, mark


def unfinished(book: Book, plan: PlanCell, thread: str) -> PlanPaused:
    """What a plan that has begun waits for: a person, or a worker."""
    failed = [line for line in plan.lines if line.state == "failed"]
    if failed:
        effect = book.effects[failed[0].effect]
        return PlanPaused(
            f"the plan is paused at #{effect.number} ({effect.shown}), which is {effect.state}: "
            f"{failed[0].error}",
            plan=plan,
            thread=thread,
            hint="`takeback recover` shows it; retry, accept, or abort",
        )
    return PlanPaused(
        f"the plan waits: {waiting(plan)}",
        plan=plan,
        thread=thread,
        hint="`takeback worker --app module:name` where the tools are",
    )


def waiting(plan: PlanCell) -> str:
    """What is left to do, and by whom."""
    left: dict[str, int] = {}
    for line in plan.lines:
        if line.state in ("todo", "running"):
            left[line.handler] = left.get(line.handler, 0) + 1
    said = [f"{count} for a worker with {handler}" for handler, count in left.items()]
    said += [f"the files of {start.workspace!r}, on the machine where they are" for start in plan.moves]
    return ", ".join(said) or "nothing"


def ready(job: Job, hands: Hands, acknowledge: bool | Collection[int], wait: float | None) -> None:
    """Nothing has to be decided, nothing that stays is unsaid, and somebody can do it."""
    part, name = job.part, job.tip.info.name
    known = set() if isinstance(acknowledge, bool) else set(acknowledge)
    unsaid = [] if acknowledge is True else [e for e in part.standing if e.number not in known]
    if part.unsettled or unsaid:
        _looked_again(job)
    if part.unsettled:
        unsettled = ", ".join(f"#{e.number} ({e.shown}) is {e.state}" for e in part.unsettled)
        flies = all(e.state in IN_FLIGHT for e in part.unsettled)
        raise Undecided(
            f"before this can go back: {unsettled}",
            thread=name,
            hint=LOST if flies else "`takeback effects resolve NUMBER --happened` or --did-not",
        )
    if unsaid:
        raise Unacknowledged(
            f"this stays: {', '.join(f'#{e.number} ({e.shown})' for e in unsaid)}",
            thread=name,
            hint="plan.apply(acknowledge=True), or the numbers of those that you know of",
        )
    handlers = part.handlers
    lacking = {handler: handlers.count(handler) for handler in handlers if not hands.has(handler)}
    if lacking and wait is None:
        raise HandlerMissing(
            f"this process cannot apply it: {', '.join(waits(lacking))}",
            thread=name,
            hint="--app module:name brings the tools; with wait= a worker is waited for; or resolve by hand",
        )


def _looked_again(job: Job) -> None:
    """Before somebody is asked to see to what a plan saw: whether it is still so."""
    job.book.refresh()
    now = job.ctx.tip(job.tip.info.name)
    if now is not None and now.info.lock is not None:
        raise in_progress(job.tip.info.name)
    if now is None or now.head.digest != job.move.head.digest:
        raise stale(now or job.tip, job.move)
    job.seen_again()


def _at_once(job: Job) -> Tip:
    """A plan that does nothing to the world is one transaction."""
    book = job.book
    if book.seq != job.part.seq:
        job.seen_again()
    while True:
        with book.lock:
            beside = _AtOnce(job)
            try:
                after = apply(job.ctx, job.tip, job.move, job.said, beside.rows)
            except LedgerStale:
                book.refresh()
                job.seen_again()
                continue
            except ItemStale:
                raise _memory_moved(job) from None
            if beside.entries:
                book.took(beside.entries)
            return after


def _memory_moved(job: Job) -> PlanStale:
    return PlanStale(
        "memory has changed since the plan was made",
        thread=job.tip.info.name,
        hint="Make a new plan, and look at it",
    )


class _AtOnce:
    """What the ledger says with a move: steps given up, approvals void, ownership passed on."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.entries: list[Entry] = []

    def rows(self, checkpoint: Checkpoint) -> list[Row]:
        job = self.job
        if job.move.kind == "merge":
            return self._merging()
        if job.move.kind != "revert":
            self.entries = given_up(job.book, job.tip.info.uid)
        held = takes_up(job.move, job.tip.head)
        return [*held, job.book.row(self.entries), *job.memory.rows(checkpoint)]

    def _merging(self) -> list[Row]:
        """A fork that comes home must stand where it was seen, and nothing may be under way in it."""
        job = self.job
        other = job.ctx.tip(job.move.target.thread)
        self.entries = [] if other is None else merging(job.ctx, job.book, job.tip, other)
        row = job.book.row(self.entries)
        if other is None or not self.entries:
            return [row]
        if other.info.lock is not None:
            raise in_progress(other.info.name)
        seen = job.move.target
        return [Still(ThreadUid(other.info.uid), seen.line, seen.digest), row]


def begin(job: Job) -> PlanCell:
    """One transaction: the head is as planned, nothing moved; the thread is locked, the lines are written."""
    book, tip, move, part = job.book, job.tip, job.move, job.part
    lines = [PlanLine(effect=e.id, do="undo", handler=e.undo or "") for e in part.undone]
    lines += [PlanLine(effect=e.id, do="redo", handler=f"{e.tool}@{e.version}") for e in part.redone]
    draft = move.draft
    plan = PlanCell(
        id=os.urandom(12), thread=tip.info.uid, kind=move.kind, head=pointer(move.head),
        target=draft.origin or pointer(move.target), digest=move.digest, root=draft.root, lines=lines,
        acknowledged=[e.id for e in part.standing], undoes=draft.undoes,
        stack=None if draft.stack is None else list(draft.stack), files=draft.files, reason=job.said.reason,
        actor=job.said.actor or job.ctx.actor, meta=canonical.encode(job.said.meta), summary=part.summary(),
        created_us=book.clock(), moves=job.moves, memory=job.memory.goal,
    )  # fmt: skip

    def decide() -> Change:
        job.seen_again()
        uid = ThreadUid(tip.info.uid)
        rows = [Still(uid, move.head.line, move.head.digest), *takes_up(move, tip.head), Lock(uid, plan.id)]
        return Change([plan, *approvals.void(book, uid)], answer=plan, rows=rows, objects=job.contents)

    try:
        begun: PlanCell = book.change(decide)
    except StepLost:
        raise stale(tip, move) from None
    return begun
