"""The lines of a plan that is being applied: begun, carried out, settled, and gone on with by anyone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from takeback.engine import approvals, owners
from takeback.engine.book import Book, Change, blob, lost
from takeback.engine.calls import Hands, afford
from takeback.engine.commit import Draft, ItemStale, LedgerStale, Said, publish
from takeback.engine.context import Context, Tip
from takeback.engine.forgetting import MemoryPart, memory_of
from takeback.engine.rollback import Move
from takeback.engine.undoing import evidence, redoing, remembered, settled_undo, undoing
from takeback.errors import (
    ApprovalDenied,
    ApprovalRequired,
    BadSeal,
    BudgetExceeded,
    Conflict,
    NotDone,
    PlanStale,
    RollbackInProgress,
    Undecided,
    WorkspaceFailed,
)
from takeback.model import canonical
from takeback.model.ids import ThreadUid
from takeback.model.ledger import Effect, Entry, PlanCell, PlanLine
from takeback.model.records import Checkpoint, FileRoot
from takeback.storage.base import Lock, Row

_replace = msgspec.structs.replace


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
                return finish(ctx, book, plan, hands) if hands.reaches(ctx, plan) else plan
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
        if not now.live:
            return Change()
        changed: list[Entry] = []
        lines = list(now.lines)
        state = now.state
        for place, line in enumerate(lines):
            if line.state != "running" or owners.holds(line.owner, line.lease_us, book.clock()):
                continue
            after, effect = _abandoned(line, book.effects[line.effect], book.clock())
            lines[place] = after
            changed.append(effect)
            state = "paused" if after.state == "failed" else state
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
        stuck = (current.state == "unknown" and not remembered(current, book.clock())) or (
            current.state == "undo_unknown" and not current.undo_safe
        )
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


def finish(ctx: Context, book: Book, plan: PlanCell, hands: Hands) -> PlanCell:
    """Files, then one transaction: the checkpoint that opens the line, steps given up, the thread free."""
    if not plan.moves:
        with contextlib.suppress(PlanStale):  # a worker beside this one was faster: it is ended all the same
            _end(ctx, book, plan, "applied", lambda _: _ending(plan, plan.files))
        return book.plans[plan.id]
    try:
        with hands.put_back(ctx, plan) as filed:
            after = filed.over(plan.files or [])
            _end(ctx, book, plan, "applied", lambda _: _ending(plan, after, filed.objects))
            filed.settle()
    except WorkspaceFailed as failed:
        if not plan.lines:  # nothing was done to the world either: the thread need not wait for a person
            abort(ctx, book, plan, Said(reason=f"given up: {failed.what}", actor=plan.actor))
        raise
    return book.plans[plan.id]


def _ending(
    plan: PlanCell, files: list[FileRoot] | None, contents: dict[bytes, bytes] | None = None
) -> Draft:
    """The checkpoint that a plan ends with."""
    said = Said(reason=plan.reason, actor=plan.actor, meta=canonical.decode(plan.meta))
    stack = None if plan.stack is None else (plan.stack[0], plan.stack[1])
    return Draft(
        plan.kind, plan.root, said, origin=plan.target, undoes=plan.undoes, stack=stack, files=files,
        contents=contents or {},
    )  # fmt: skip


def given_up(book: Book, thread: bytes) -> list[Entry]:
    """Steps that were open on a line that is over, and what was approved for it."""
    steps = [_replace(step, state="abandoned", owner="", lease_us=0) for step in book.open_steps(thread)]
    return [*steps, *approvals.void(book, thread)]


def _line(ctx: Context, book: Book, plan: PlanCell, place: int, hands: Hands, owner: str) -> None:
    line = plan.lines[place]
    if line.do == "undo" and book.effects[line.effect].within:
        _undo_within(book, plan, place, hands)
        return
    try:
        facts = _facts(book.effects[line.effect], book, hands) if line.do == "redo" else {}
        effect = _begin_line(ctx, book, plan, place, owner, facts)
    except (BudgetExceeded, Undecided, ApprovalDenied, BadSeal) as refused:
        _fail_line(book, plan, place, str(refused))
        return
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


def _facts(effect: Effect, book: Book, hands: Hands) -> dict[str, Any]:
    try:
        return hands.facts(effect, book)
    except Exception as broken:  # whatever a tool raises: nothing was done yet
        raise Undecided(f"its facts could not be looked up: {type(broken).__name__}: {broken}") from broken


def _begin_line(
    ctx: Context, book: Book, plan: PlanCell, place: int, owner: str, facts: dict[str, Any]
) -> Effect | None:
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
        elif effect.state != "undone":
            effect = redoing(effect, book.clock(), owner)
        else:
            effect = _replace(redoing(effect, book.clock(), owner), facts=facts)
            if effect.approval is not None:
                found = approvals.lookup(ctx, book, effect, plan.id)
                if found is None or found.state != "granted":
                    waits = ApprovalRequired(f"{effect.shown} waits for a new approval")
                    failed = _with_line(now, place, state="failed", error=str(waits), paused=True)
                    return Change([failed, *approvals.request_redo(book, effect, found, plan.id)])
                approval = [_replace(found, state="used")]
            afford(book, effect.cost, effect.shown)
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
        line = now.lines[place]
        settled = evidence(book.effects[effect.id], effect, state, book, error)
        if result is not None and settled.state == "done":
            kept, held = blob(result)
            objects.update(held)
            settled = _replace(settled, result=kept)
        if not now.live or (line.state, line.owner) != ("running", effect.executor):
            return Change([settled], objects=objects)  # somebody else went on with it meanwhile
        goal = settled.state == ("undone" if line.do == "undo" else "done")
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
        _fail_line(book, plan, place, f"{type(broken).__name__}: {broken}")


def _fail_line(book: Book, plan: PlanCell, place: int, error: str) -> None:
    """Nothing happened, and somebody has to see to it."""

    def failed() -> Change:
        return Change([_with_line(book.plans[plan.id], place, state="failed", error=error, paused=True)])

    book.change(failed)


def _with_line(plan: PlanCell, place: int, *, paused: bool = False, **fields: Any) -> PlanCell:
    lines = list(plan.lines)
    lines[place] = _replace(lines[place], **fields)
    return _replace(plan, lines=lines, state="paused" if paused else plan.state)


def _abandoned(line: PlanLine, effect: Effect, clock: int) -> tuple[PlanLine, Effect]:
    """A line whose worker is gone: to be done again where that is safe, else somebody has to decide."""
    if effect.state in ("begun", "undoing"):
        effect = lost(effect)
    goal = effect.state == ("undone" if line.do == "undo" else "done")
    if goal or (effect.undo_safe if line.do == "undo" else remembered(effect, clock)):
        return _replace(line, state="todo", owner="", lease_us=0), effect
    return _replace(line, state="failed", owner="", lease_us=0, error="its worker is gone"), effect


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
            made = draft(tip)
            ended = _Ended(book, now, state, _memory(ctx, book, tip, now, made))
            try:
                after = publish(ctx, tip, made, ended.beside, lock=plan.id)
            except (LedgerStale, ItemStale, Conflict, RollbackInProgress):
                continue  # only another worker of this plan can have moved the head: it is seen what it did
            book.took(ended.entries)
            return after


def _memory(ctx: Context, book: Book, tip: Tip, plan: PlanCell, draft: Draft) -> MemoryPart:
    """What going there does to memory, as others have left it by now: the thread's own part is locked."""
    if draft.origin is None:
        return MemoryPart(ctx, [])
    move = Move(plan.kind, tip.head, tip.head, draft)
    return memory_of(ctx, book, tip, move, plan.memory)


class _Ended:
    """What the ledger says with the checkpoint that a plan ends with."""

    def __init__(self, book: Book, plan: PlanCell, state: str, memory: MemoryPart) -> None:
        self.book, self.plan, self.state, self.memory = book, plan, state, memory
        self.entries: list[Entry] = []

    def beside(self, checkpoint: Checkpoint) -> list[Row]:
        gone: list[Entry] = approvals.void(self.book, plan=self.plan.id)
        if self.state == "applied":
            gone += given_up(self.book, self.plan.thread)
        self.entries = [_replace(self.plan, state=self.state, version=checkpoint.version), *gone]
        free = Lock(ThreadUid(self.plan.thread), None, was=self.plan.id)
        return [free, self.book.row(self.entries), *self.memory.rows(checkpoint)]
