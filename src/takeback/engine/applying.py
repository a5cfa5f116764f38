"""Applying a plan that does something to the world: durable, line by line, to be gone on with by anyone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from takeback.engine import approvals, owners
from takeback.engine.book import Book, Change, blob
from takeback.engine.calls import DAY_US, TIMEOUT_US, Hands
from takeback.engine.commit import Draft, LedgerStale, Said, publish
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.plans import EffectsPart, effects_of
from takeback.engine.rollback import Move, apply, stale
from takeback.engine.standing import merging
from takeback.errors import (
    ApprovalRequired,
    HandlerMissing,
    NotDone,
    PlanPaused,
    PlanStale,
    StepLost,
    Unacknowledged,
    Undecided,
)
from takeback.model import canonical
from takeback.model.ids import Bookmark, ThreadUid, bookmark
from takeback.model.ledger import Effect, Entry, PlanCell, PlanLine
from takeback.model.records import Checkpoint
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

    def seen_again(self) -> None:
        """Refuse if effects are not what the plan saw."""
        now = effects_of(self.ctx, self.book, self.tip, self.move, self.part.wish)
        if now.digest != self.part.digest:
            raise PlanStale(
                "effects have changed since the plan was made",
                thread=self.tip.info.name,
                hint="Make a new plan, and look at it",
            )


def run(
    job: Job, hands: Hands, *, acknowledge: bool | Collection[int], wait: float | None
) -> tuple[Tip, Bookmark]:
    """Apply a plan: at once where it only restores, else line by line, to the end or to where it stops."""
    ctx, book, tip, part = job.ctx, job.book, job.tip, job.part
    if tip.head.digest != job.move.head.digest:
        raise stale(tip, job.move)
    _ready(job, hands, acknowledge, wait)
    mark = bookmark(tip.head.id)
    if not (part.undone or part.redone):
        return _at_once(job), mark
    plan = carry_on(ctx, book, begin(job), hands)
    until = time.monotonic() + (wait or 0)
    while plan.state == "applying" and time.monotonic() < until:
        time.sleep(_POLL)
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
    return ", ".join(f"{count} for a worker with {handler}" for handler, count in left.items()) or "nothing"


def _ready(job: Job, hands: Hands, acknowledge: bool | Collection[int], wait: float | None) -> None:
    """Nothing has to be decided, nothing that stays is unsaid, and somebody can do it."""
    part, name = job.part, job.tip.info.name
    if part.unsettled:
        unsettled = ", ".join(f"#{e.number} ({e.shown}) is {e.state}" for e in part.unsettled)
        raise Undecided(
            f"before this can go back: {unsettled}",
            thread=name,
            hint="`takeback effects resolve NUMBER --happened` or --did-not",
        )
    known = set() if isinstance(acknowledge, bool) else set(acknowledge)
    unsaid = [] if acknowledge is True else [e for e in part.standing if e.number not in known]
    if unsaid:
        raise Unacknowledged(
            f"this stays: {', '.join(f'#{e.number} ({e.shown})' for e in unsaid)}",
            thread=name,
            hint="plan.apply(acknowledge=True), or the numbers of those that you know of",
        )
    handlers = [e.undo or "" for e in part.undone] + [f"{e.tool}@{e.version}" for e in part.redone]
    lacking = {handler: handlers.count(handler) for handler in handlers if not hands.has(handler)}
    if lacking and wait is None:
        waits = ", ".join(f"{count} wait for a worker with {handler}" for handler, count in lacking.items())
        raise HandlerMissing(
            f"this process cannot apply it: {waits}",
            thread=name,
            hint="--app module:name brings the tools; with wait= a worker is waited for; or resolve by hand",
        )


def _at_once(job: Job) -> Tip:
    """A plan that does nothing to the world is one transaction."""
    book = job.book
    while True:
        with book.lock:
            beside = _AtOnce(job)
            try:
                after = apply(job.ctx, job.tip, job.move, job.said, beside.rows)
            except LedgerStale:
                book.refresh()
                job.seen_again()
                continue
            if beside.entries:
                book.took(beside.entries)
            return after


class _AtOnce:
    """What the ledger says with a move: steps given up, approvals void, ownership passed on."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.entries: list[Entry] = []

    def rows(self, _: Checkpoint) -> list[Row]:
        job = self.job
        if not job.book.seq:
            return []
        if job.move.kind == "merge":
            other = job.ctx.tip(job.move.target.thread)
            self.entries = [] if other is None else merging(job.ctx, job.book, job.tip, other)
        elif job.move.kind != "revert":
            self.entries = given_up(job.book, job.tip.info.uid)
        return [job.book.row(self.entries)]


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
        created_us=book.clock(),
    )  # fmt: skip

    def decide() -> Change:
        job.seen_again()
        uid = ThreadUid(tip.info.uid)
        rows: list[Row] = [Still(uid, move.head.line, move.head.digest), Lock(uid, plan.id)]
        return Change([plan, *approvals.void(book, uid)], answer=plan, rows=rows)

    try:
        begun: PlanCell = book.change(decide)
    except StepLost:
        raise stale(tip, move) from None
    return begun


def carry_on(ctx: Context, book: Book, plan: PlanCell, hands: Hands) -> PlanCell:
    """Do what is left of a plan, as far as these hands reach; the last one to do something ends it."""
    owner = owners.claim()
    try:
        recover(book, plan)
        while True:
            plan = book.plans[plan.id]
            todo = next((n for n, line in enumerate(plan.lines) if line.state in ("todo", "running")), None)
            if plan.state != "applying":
                return plan
            if todo is None:
                return finish(ctx, book, plan)
            line = plan.lines[todo]
            if line.state == "running" or not hands.has(line.handler):
                return plan  # somebody else's turn
            _line(ctx, book, plan, todo, hands, owner)
            book.refresh()
    finally:
        owners.release(owner)


def recover(book: Book, plan: PlanCell) -> None:
    """Lines whose worker is gone: those safe to repeat are; of the others nobody knows what happened."""

    def decide() -> Change:
        now = book.plans[plan.id]
        changed: list[Entry] = []
        lines = list(now.lines)
        state = now.state
        for place, line in enumerate(lines):
            if line.state != "running" or owners.holds(line.owner, line.lease_us, book.clock()):
                continue
            effect = book.effects[line.effect]
            lines[place], effect, lost = _abandoned(line, effect)
            changed.append(effect)
            state = "paused" if lost else state
        return Change([_replace(now, lines=lines, state=state), *changed] if changed else [])

    book.change(decide)


def decide_line(book: Book, plan: PlanCell, effect: Effect, what: str) -> PlanCell:
    """A person's word on a line that failed: try it again, or go on without it."""

    def decide() -> Change:
        now = book.plans[plan.id]
        place = next((n for n, line in enumerate(now.lines) if line.effect == effect.id), None)
        if now.state != "paused" or place is None or now.lines[place].state != "failed":
            raise Undecided(f"the plan has no failed line for #{effect.number}", hint="`takeback recover`")
        line, current = now.lines[place], book.effects[effect.id]
        stuck = current.state == "unknown" or (current.state == "undo_unknown" and not current.undo_safe)
        if what == "retry" and stuck:
            raise Undecided(
                f"what happened to #{effect.number} has to be resolved before it is tried again",
                hint=f"`takeback effects resolve {effect.number}`",
            )
        lines = list(now.lines)
        lines[place] = _replace(line, state="todo" if what == "retry" else "accepted", error=None)
        state = "paused" if any(each.state == "failed" for each in lines) else "applying"
        accepted = [*now.acknowledged, effect.id] if what == "accept" else now.acknowledged
        decided = _replace(now, lines=lines, state=state, acknowledged=accepted)
        return Change([decided], answer=decided)

    decided: PlanCell = book.change(decide)
    return decided


def abort(ctx: Context, book: Book, plan: PlanCell, said: Said) -> Tip:
    """Restore nothing: a note in the history, the thread is free, and what stands shows as a discrepancy."""
    return _end(ctx, book, plan, "aborted", lambda tip: Draft("note", tip.head.state_root, said))


def finish(ctx: Context, book: Book, plan: PlanCell) -> PlanCell:
    """One transaction: the checkpoint that opens the line, open steps given up, and the thread is free."""
    meta = canonical.decode(plan.meta)
    said = Said(reason=plan.reason, actor=plan.actor, meta=meta)
    stack = None if plan.stack is None else (plan.stack[0], plan.stack[1])

    def draft(_: Tip) -> Draft:
        return Draft(
            plan.kind, plan.root, said, origin=plan.target, undoes=plan.undoes, stack=stack, files=plan.files
        )

    _end(ctx, book, plan, "applied", draft)
    return book.plans[plan.id]


def given_up(book: Book, thread: bytes) -> list[Entry]:
    """Steps that were open on a line that is over, and what was approved for it."""
    steps = [_replace(step, state="abandoned", owner="", lease_us=0) for step in book.open_steps(thread)]
    return [*steps, *approvals.void(book, thread)]


def undo_alone(book: Book, effect: Effect, hands: Hands) -> Effect:
    """One effect taken back outside a plan, by the same rules as a plan's line."""
    owner = owners.claim()
    try:
        if effect.within:
            return _undo_alone_within(book, effect, hands)

        def start() -> Change:
            begun = undoing(book.effects[effect.id], book.clock(), owner)
            return Change([begun], answer=begun)

        begun: Effect = book.change(start)
        state, error = "undone", None
        try:
            hands.undo(begun, book)
        except NotDone as refused:
            state, error = "undo_failed", str(refused)
        except Exception as broken:  # whatever a tool raises: nobody knows whether it happened
            state, error = "undo_unknown", f"{type(broken).__name__}: {broken}"

        def end() -> Change:
            now = book.effects[effect.id]
            if now.state != "undoing":
                return Change(answer=now)
            gone = settled_undo(now, state, book, error)
            return Change([gone], answer=gone)

        done: Effect = book.change(end)
    finally:
        owners.release(owner)
    if done.state != "undone":
        raise Undecided(f"#{done.number} ({done.shown}) is {done.state}: {done.error}")
    return done


def _undo_alone_within(book: Book, effect: Effect, hands: Hands) -> Effect:
    work = hands.undo_within(effect, book)

    def decide() -> Change:
        now = book.effects[effect.id]

        def run(connection: Any) -> list[Entry]:
            work(connection)
            return [settled_undo(now, "undone", book, None)]

        return Change(within=run)

    book.change(decide)
    return book.effects[effect.id]


# --- one line


def _line(ctx: Context, book: Book, plan: PlanCell, place: int, hands: Hands, owner: str) -> None:
    line = plan.lines[place]
    if line.do == "undo" and book.effects[line.effect].within:
        _undo_within(book, plan, place, hands)
        return
    effect = _begin_line(ctx, book, plan, place, owner)
    if effect is None:
        return
    result, error = None, None
    try:
        if line.do == "undo":
            hands.undo(effect, book)
        else:
            result = hands.redo(effect, book)
        state = "undone" if line.do == "undo" else "done"
    except NotDone as refused:
        state, error = ("undo_failed" if line.do == "undo" else "failed"), str(refused)
    except Exception as broken:  # whatever a tool raises: nobody knows whether it happened
        state = "undo_unknown" if line.do == "undo" else "unknown"
        error = f"{type(broken).__name__}: {broken}"
    _end_line(book, plan, place, effect, state, result=result, error=error)


def _begin_line(ctx: Context, book: Book, plan: PlanCell, place: int, owner: str) -> Effect | None:
    def decide() -> Change:
        now = book.plans[plan.id]
        line = now.lines[place]
        effect = book.effects[line.effect]
        if now.state != "applying" or line.state != "todo":
            return Change()  # somebody else has it
        if effect.state == ("undone" if line.do == "undo" else "done"):
            return Change([_with_line(now, place, state="done")])
        approval: list[Entry] = []
        if line.do == "undo":
            effect = undoing(effect, book.clock(), owner)
        else:
            effect = _redoing(effect, book.clock(), owner)
            found = approvals.lookup(ctx, book, effect)
            if effect.approval is not None and (found is None or found.state != "granted"):
                waits = ApprovalRequired(f"{effect.shown} waits for a new approval")
                failed = _with_line(now, place, state="failed", error=str(waits), paused=True)
                return Change([failed, *approvals.request_redo(ctx, book, effect, found)])
            if found is not None and effect.approval is not None:
                approval = [_replace(found, state="used")]
        held = _with_line(now, place, state="running", owner=owner, lease_us=effect.deadline_us)
        return Change([held, effect, *approval], answer=effect)

    begun: Effect | None = book.change(decide)
    return begun


def _end_line(
    book: Book,
    plan: PlanCell,
    place: int,
    effect: Effect,
    state: str,
    *,
    result: bytes | None,
    error: str | None,
) -> None:
    objects: dict[bytes, bytes] = {}

    def decide() -> Change:
        now = book.plans[plan.id]
        current = book.effects[effect.id]
        if current.redo != effect.redo or current.state not in (
            "undoing",
            "begun",
            "unknown",
            "undo_unknown",
        ):
            return Change([_replace(current, late=[*current.late, state])])
        settled = settled_undo(current, state, book, error)
        if result is not None:
            kept, held = blob(result)
            objects.update(held)
            settled = _replace(settled, result=kept)
        goal = settled.state == ("undone" if now.lines[place].do == "undo" else "done")
        after = _with_line(now, place, state="done" if goal else "failed", error=error, paused=not goal)
        return Change([after, settled], objects=objects)

    book.change(decide)


def _undo_within(book: Book, plan: PlanCell, place: int, hands: Hands) -> None:
    """An undo in our own transaction: it and its record happen together or not at all."""

    def decide() -> Change:
        now = book.plans[plan.id]
        effect = book.effects[now.lines[place].effect]
        if effect.state == "undone":
            return Change([_with_line(now, place, state="done")])
        work = hands.undo_within(effect, book)
        gone = settled_undo(effect, "undone", book, None)

        def within(connection: Any) -> list[Entry]:
            work(connection)
            return [_with_line(now, place, state="done"), gone]

        return Change(within=within)

    try:
        book.change(decide)
    except Exception as broken:  # rolled back: it is known that nothing happened
        text = f"{type(broken).__name__}: {broken}"

        def failed() -> Change:
            return Change([_with_line(book.plans[plan.id], place, state="failed", error=text, paused=True)])

        book.change(failed)


def _with_line(plan: PlanCell, place: int, *, paused: bool = False, **fields: Any) -> PlanCell:
    lines = list(plan.lines)
    lines[place] = _replace(lines[place], **fields)
    return _replace(plan, lines=lines, state="paused" if paused else plan.state)


def undoing(effect: Effect, clock: int, owner: str) -> Effect:
    """The effect while its undo is being called."""
    allowed = effect.state in ("done", "undo_failed") or (
        effect.state in ("undoing", "undo_unknown") and effect.undo_safe
    )
    if not allowed:
        raise Undecided(f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be undone")
    return _replace(effect, state="undoing", executor=owner, deadline_us=clock + TIMEOUT_US)


def _redoing(effect: Effect, clock: int, owner: str) -> Effect:
    """A new key: the provider must not answer from its memory of what was taken back."""
    remembered = clock < effect.first_us + (effect.key_ttl_us or DAY_US)
    if effect.state == "undone":
        effect = _replace(effect, redo=effect.redo + 1, first_us=clock, dirty=False)
    elif not (effect.state == "begun" and effect.repeat == "keyed" and remembered):
        raise Undecided(f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be done again")
    return _replace(
        effect, state="begun", attempts=effect.attempts + 1, intent_us=clock, executor=owner,
        deadline_us=clock + TIMEOUT_US,
    )  # fmt: skip


def settled_undo(effect: Effect, state: str, book: Book, error: str | None) -> Effect:
    """The effect after its undo, or its redo, ended so."""
    dirty = effect.dirty or state in ("unknown", "undo_unknown")
    if dirty:
        state = {"failed": "unknown", "undo_failed": "undo_unknown"}.get(state, state)
    if state in ("done", "undone"):
        dirty = False
    if state == "failed":
        state = "undone"  # a redo that did not happen leaves it undone
    return _replace(
        effect, state=state, dirty=dirty, error=error, settled_us=book.clock(), order=book.order + 1
    )


def _abandoned(line: PlanLine, effect: Effect) -> tuple[PlanLine, Effect, bool]:
    """A line whose worker is gone: (the line, its effect, whether somebody has to decide)."""
    safe = effect.undo_safe if line.do == "undo" else effect.repeat == "keyed"
    effect = _replace(effect, dirty=True)
    if safe:
        return _replace(line, state="todo", owner="", lease_us=0), effect, False
    effect = _replace(effect, state="undo_unknown" if line.do == "undo" else "unknown")
    return _replace(line, state="failed", owner="", lease_us=0, error="its worker is gone"), effect, True


def _end(ctx: Context, book: Book, plan: PlanCell, state: str, draft: Callable[[Tip], Draft]) -> Tip:
    """The plan's last transaction."""
    while True:
        with book.lock:
            book.refresh()
            info = ctx.storage.thread_by_uid(ctx.tenant, plan.thread)
            tip = None if info is None else ctx.tip(info.name)
            now = book.plans[plan.id]
            if tip is None or now.state in ("applied", "aborted"):
                raise PlanStale(f"the plan was {now.state} meanwhile")
            ended = _Ended(book, now, state)
            try:
                after = publish(ctx, tip, draft(tip), ended.beside, lock=plan.id)
            except LedgerStale:
                continue
            book.took(ended.entries)
            return after


class _Ended:
    """What the ledger says with the checkpoint that a plan ends with."""

    def __init__(self, book: Book, plan: PlanCell, state: str) -> None:
        self.book, self.plan, self.state = book, plan, state
        self.entries: list[Entry] = []

    def beside(self, checkpoint: Checkpoint) -> list[Row]:
        gone = given_up(self.book, self.plan.thread) if self.state == "applied" else []
        self.entries = [_replace(self.plan, state=self.state, version=checkpoint.version), *gone]
        return [Lock(ThreadUid(self.plan.thread), None, was=self.plan.id), self.book.row(self.entries)]
