"""Calls of tools in a step: matching what is recorded, the guard, the intent before and the outcome after."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from takeback.engine import approvals
from takeback.engine.book import Book, Change, blob
from takeback.engine.context import current_trace
from takeback.engine.files import FileHands
from takeback.engine.steps import Session
from takeback.errors import (
    BudgetExceeded,
    EffectsDenied,
    EffectStands,
    EffectUndone,
    EffectUnknown,
    EffectUnreadable,
    NotDone,
    ReplayDiverged,
    RollbackInProgress,
    StepLost,
    TakebackError,
)
from takeback.model.ids import ThreadUid
from takeback.model.ledger import Blob, Decision, Effect, Entry, StepCell, slot
from takeback.storage.base import Still

DAY_US = 24 * 3600 * 1_000_000
TIMEOUT_US = 5 * 60 * 1_000_000
LOST = "Wait for its outcome; where its worker is gone, `takeback recover settle` says so"
_replace = msgspec.structs.replace


class Hands(FileHands, Protocol):
    """The tools of this process: who takes back and makes again what a plan says."""

    def has(self, handler: str) -> bool: ...

    def undo(self, effect: Effect, book: Book) -> None:
        """Take the effect back: `NotDone` when nothing happened, anything else when that is not known."""
        ...

    def undo_within(self, effect: Effect, book: Book) -> Callable[[Any], None]:
        """The same as work inside the store's transaction."""
        ...

    def facts(self, effect: Effect, book: Book) -> dict[str, Any]:
        """What a person is shown who is asked about the call, as it is now."""
        ...

    def redo(self, effect: Effect, book: Book) -> bytes:
        """Make the call again, and give its encoded result."""
        ...


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to be made, as the engine sees it."""

    tool: str
    version: str
    args: bytes
    hashed: bytes
    target: str
    shown: str
    repeat: str
    undo: str | None = None
    undo_safe: bool = True
    within: bool = False
    local: bool = False
    timeout_us: int = TIMEOUT_US
    key_ttl_us: int | None = None
    cost: dict[str, int] = {}
    approve: bool = False
    facts: dict[str, Any] = {}
    before: bytes | None = None
    look: Callable[[], dict[str, Any]] | None = None  # the facts that an approval rests on
    read: Callable[[], bytes] | None = None  # what stands at the target


class Replay(msgspec.Struct, frozen=True):
    """The call was made already: this came back."""

    value: Any


class Execute(msgspec.Struct, frozen=True):
    """The intent is recorded: make the call, and say what came of it."""

    effect: Effect


class Answer(msgspec.Struct, frozen=True):
    """What the caller says to do about what stands at the target."""

    what: str  # beside, reuse, undo
    by: str | None = None
    about: list[int] = []  # numbers of what was undone first


def begin(session: Session, spec: Spec, answer: Answer | None = None) -> Replay | Execute:
    """One call: what is recorded of it, or an intent to make it."""
    with session.lock:
        if session.replays:
            session.still_here()
        else:
            session.still_mine()
        matched = _match(session, spec)
        if session.replays:
            if matched is None:
                raise ReplayDiverged(
                    f"the run made no call {spec.shown} in its step {session.cell.label!r}",
                    thread=session.tip.info.name,
                    checkpoint=session.cell.closed,
                    hint="Replay with the code and input that it ran with, or under another run id",
                )
            return _recorded(session, matched)
        if matched is not None:
            return _again(session, spec, matched)
        made = _said_in_place(session, partial(_prepared, session, spec, answer))
        if isinstance(made, Execute):
            session.claim(made.effect)
        return made


def within(
    session: Session, spec: Spec, work: Callable[[Effect, Any], bytes], answer: Answer | None = None
) -> Replay | Effect:
    """A call in our own transaction: the work, its effect and its outcome are there together, or none is."""
    with session.lock:
        matched = _match(session, spec)
        if matched is not None:
            again = _again(session, spec, matched)
            assert isinstance(again, Replay)
            return again
        made = _said_in_place(session, partial(_prepared, session, spec, answer, work))
        if isinstance(made, Replay):
            return made
        effect = session.book.effects[made.effect.id]
        session.claim(effect)
        return effect


def outcome(
    book: Book,
    effect: Effect,
    state: str,
    *,
    result: bytes | None = None,
    error: str | None = None,
    unreadable: str | None = None,
    after: bytes | None = None,
) -> Effect:
    """What came of a call. It is evidence: never refused, whoever brings it, and however late."""
    objects: dict[bytes, bytes] = {}

    def decide() -> Change:
        now = book.effects[effect.id]
        clock = book.clock()
        # That an earlier try came to nothing says nothing of the one that is under way.
        earlier = state != "done" and now.attempts != effect.attempts
        if now.redo != effect.redo or now.state not in ("begun", "unknown") or earlier:
            late = _replace(now, late=[*now.late, f"{state} at {clock}"])
            return Change([late], answer=late)
        settled = settle(now, state, book, error=error, unreadable=unreadable)
        fields: dict[str, Any] = {}
        for name, value in (("result", result), ("after", after)):
            if value is not None:
                fields[name], held = blob(value)
                objects.update(held)
        settled = _replace(settled, **fields)
        return Change([settled], answer=settled, objects=objects)

    done: Effect = book.change(decide)
    return done


def settle(effect: Effect, state: str, book: Book, **fields: Any) -> Effect:
    """The effect in another state. A failure of a retry settles nothing: an earlier try may stand."""
    dirty = effect.dirty or state == "unknown"
    if state == "failed":
        state = "unknown" if dirty else "undone" if effect.redo else "failed"
    if state == "done":
        dirty = False
    order = book.order + 1 if state == "done" else effect.order
    return _replace(effect, state=state, dirty=dirty, settled_us=book.clock(), order=order, **fields)


# --- one call


def _match(session: Session, spec: Spec) -> Effect | None:
    for effect in session.calls():
        taken_for = session.cell.instead.get(effect.id)
        if spec.hashed in (effect.args_hash, taken_for) and effect.id not in session.claimed:
            return effect
    return None


def _recorded(session: Session, effect: Effect) -> Replay:
    session.claim(effect)
    if effect.state == "failed":
        raise NotDone(effect.error or f"#{effect.number} ({effect.shown}) did not happen")
    if effect.unreadable or effect.result is None:
        raise EffectUnreadable(
            f"#{effect.number} ({effect.shown}) happened, and its result is not known: "
            f"{effect.unreadable or 'nobody has recorded it'}",
            thread=session.tip.info.name,
        )
    return Replay(session.book.load(effect.result))


def _again(session: Session, spec: Spec, effect: Effect) -> Replay | Execute:
    """A call that this step has made before."""
    if effect.state in ("done", "failed", "undo_failed"):
        return _recorded(session, effect)
    name = session.tip.info.name
    if effect.state == "undone":
        raise EffectUndone(
            f"#{effect.number} ({effect.shown}) was made in this step and taken back",
            thread=name,
            hint="`undo` the rollback with redo=, or roll back to the head and enter the step anew",
        )
    remembered = (
        effect.repeat == "keyed"
        and effect.state == "unknown"
        and effect.step == session.cell.id
        and session.book.clock() < forgotten(effect)
    )
    if not remembered:
        raise EffectUnknown(
            f"whether #{effect.number} ({effect.shown}) happened is not known, and it is not made again by "
            "itself",
            thread=name,
            hint=f"`takeback effects resolve {effect.number} --happened` or --did-not, when you know",
        )
    return _retry(session, effect, spec.timeout_us)


def forgotten(effect: Effect) -> int:
    """When the provider may know its key no more."""
    return effect.first_us + (effect.key_ttl_us or DAY_US)


def _retry(session: Session, effect: Effect, timeout_us: int) -> Execute:
    """The same key again: a provider that remembers it does the thing once."""
    book = session.book

    def decide() -> Change:
        cell = session.still_mine()
        now = book.effects[effect.id]
        if now.state != "unknown":
            return Change(answer=now)
        clock = book.clock()
        begun = _replace(
            now, state="begun", attempts=now.attempts + 1, executor=session.cell.owner, intent_us=clock,
            deadline_us=min(clock + timeout_us, forgotten(now) - 1),
        )  # fmt: skip
        entries: list[Entry] = [begun, *with_step(session, cell, clock + timeout_us)]
        return Change(entries, answer=begun, rows=[on_line(session)])

    session.claim(effect)
    made = Execute(book.change(decide))
    session.took(book.steps[session.cell.id])
    return made


def _said_in_place(session: Session, prepared: Callable[[], Replay | Execute]) -> Replay | Execute:
    """What a call is refused for counts on the line of its step alone: if that is over, this is said."""
    try:
        return prepared()
    except (StepLost, RollbackInProgress):
        raise
    except TakebackError:
        session.still_here()
        raise


def _prepared(
    session: Session, spec: Spec, answer: Answer | None, work: Callable[[Effect, Any], bytes] | None = None
) -> Replay | Execute:
    """Nothing is recorded of it: the guard, the approval, the budget; then the intent, in one transaction."""
    book = session.book
    objects: dict[bytes, bytes] = {}
    spec = _looked(session, spec)

    def decide() -> Change:
        cell = session.still_mine()
        rights = _rights(session)
        standing = [] if rights == "allow" else book.standing(spec.target, session.lineage)
        kin = session.kin or (lambda _: False)
        standing = [e for e in standing if e.id not in session.claimed and not kin(e)]
        if standing and (answer is None or answer.what != "beside"):
            return _reuse(session, spec, standing, cell, answer)
        about = (
            [each.number for each in standing] if answer is None or answer.what != "undo" else answer.about
        )
        decisions = []
        if about and answer is not None:
            decisions.append(Decision(answer.what, answer.by, book.clock(), about))
        effect = _intent(session, spec, cell, decisions, objects)
        approved = approvals.needed(session, spec, effect, cell)
        if isinstance(approved, Change):
            return approved
        afford(book, spec.cost, spec.shown)
        entries: list[Entry] = [effect]
        if approved is not None:
            effect = _replace(effect, approval=approved.id)
            entries = [effect, approved]
        entries += with_step(session, cell, effect.deadline_us)
        if work is not None:
            run = partial(_done_within, book, work, effect, entries)
            return Change(answer=Execute(effect), rows=[on_line(session)], objects=objects, within=run)
        return Change(entries, answer=Execute(effect), rows=[on_line(session)], objects=objects)

    made: Replay | Execute | Exception = book.change(decide)
    session.took(book.steps[session.cell.id])
    if isinstance(made, Exception):  # what was written: that it waits for an answer, or what it was taken for
        raise made
    return made


def _looked(session: Session, spec: Spec) -> Spec:
    """The call with what the world says just before its intent; a call that is answered from the record asks
    nobody."""
    if spec.look is not None and approvals.wanted(session, spec):
        spec = _replace(spec, facts=spec.look())
    return spec if spec.read is None else _replace(spec, before=spec.read())


def _done_within(
    book: Book, work: Callable[[Effect, Any], bytes], effect: Effect, entries: list[Entry], connection: Any
) -> list[Entry]:
    result = work(effect, connection)
    done = _replace(settle(effect, "done", book), result=Blob(raw=result))
    return [done, *(entry for entry in entries if not isinstance(entry, Effect))]


def _reuse(
    session: Session, spec: Spec, standing: list[Effect], cell: StepCell, answer: Answer | None
) -> Change:
    """Exactly one that was done with equal arguments is taken for this call; one that was worded otherwise
    where somebody says so. Else somebody decides."""
    said = answer is not None and answer.what == "reuse"
    done = [e for e in standing if e.tool == spec.tool and e.state == "done"]
    equal = [e for e in done if e.args_hash == spec.hashed]
    alone = done if said else [] if answer is not None else equal
    if (said and equal) or len(standing) == len(alone) == 1:
        found = (equal or done)[0]
        session.claim(found)
        taken = _replace(cell, reused=[*cell.reused, found.id])
        entries: list[Entry] = []
        if found.args_hash != spec.hashed and answer is not None:
            taken = _replace(taken, instead=cell.instead | {found.id: spec.hashed})
            told = Decision("reuse", answer.by, session.book.clock(), [found.number])
            entries.append(_replace(found, decisions=[*found.decisions, told]))
        try:
            value: Any = _recorded(session, found)
        except EffectUnreadable as unreadable:  # it is taken all the same, and that it is has to be written
            value = unreadable
        return Change([taken, *entries], answer=value, rows=[on_line(session)])
    listed = ", ".join(f"#{e.number} ({e.shown}, {e.state})" for e in standing[:5])
    more = f" and {len(standing) - 5} more" if len(standing) > 5 else ""
    raise EffectStands(
        f"before {spec.shown}: {listed}{more} may stand, and this history knows nothing of it",
        standing=standing,
        thread=session.tip.info.name,
        hint="Call it inside `with step.deciding('beside')` to make it besides, 'reuse' or 'undo' to take "
        "the other one or take it back first",
    )


def _intent(
    session: Session, spec: Spec, cell: StepCell, decisions: list[Decision], objects: dict[bytes, bytes]
) -> Effect:
    book = session.book
    occurrence = sum(1 for e in book.of_step(cell.id) if e.args_hash == spec.hashed)
    while slot(cell, spec.tool, spec.hashed, occurrence) in book.effects:
        occurrence += 1  # of a step of the same number, which a handle that had not read it made
    args, held = blob(spec.args)
    objects.update(held)
    before: Blob | None = None
    if spec.before is not None:
        before, held = blob(spec.before)
        objects.update(held)
    clock = book.clock()
    trace_id, span_id = current_trace()
    return Effect(
        id=slot(cell, spec.tool, spec.hashed, occurrence), number=book.numbers + 1, thread=cell.thread,
        owner=cell.thread, line=cell.line, run=cell.run, label=cell.label, ord=cell.ord, step=cell.id,
        tool=spec.tool, version=spec.version, args=args, args_hash=spec.hashed, occurrence=occurrence,
        target=spec.target, shown=spec.shown, repeat=spec.repeat, undo=spec.undo, undo_safe=spec.undo_safe,
        within=spec.within, local=spec.local, key_ttl_us=spec.key_ttl_us, cost=spec.cost, before=before,
        intent_us=clock, first_us=clock, deadline_us=clock + spec.timeout_us, facts=spec.facts,
        decisions=decisions, executor=cell.owner, actor=session.ctx.actor, trace_id=trace_id, span_id=span_id,
    )  # fmt: skip


def with_step(session: Session, cell: StepCell, deadline_us: int) -> list[Entry]:
    """The step goes with its first intent; later its lease is only lengthened when a call may outlast it."""
    lease = max(session.book.clock() + session.ctx.lease_us, deadline_us)
    if session.stored and cell.lease_us >= deadline_us:
        return []
    return [_replace(cell, lease_us=lease)]


def _rights(session: Session) -> str:
    """What the thread may do to the world."""
    info = session.tip.info
    said = session.book.threads.get(info.uid)
    if said is not None and said.merged_into is not None:
        raise EffectsDenied(
            "the fork was merged: what it did belongs to the thread it was merged into",
            thread=info.name,
            hint="Go on there, or fork again",
        )
    rights = said.rights if said is not None and said.rights else "deny" if info.origin else "guard"
    if rights == "deny":
        raise EffectsDenied(
            "this fork was made without the right to effects",
            thread=info.name,
            hint="fork(effects='guard') gives it; calls that are free go through",
        )
    return rights


def afford(book: Book, costs: dict[str, int], shown: str) -> None:
    """Refuse what would cost the family more than it may spend."""
    for _, budget in sorted(book.budgets.items()):
        attempts = budget.name == "attempts"
        spent = book.tried if attempts else book.spent.get(budget.name, 0)
        cost = 1 if attempts else costs.get(budget.name, 0)
        if cost and spent + cost > budget.limit:
            raise BudgetExceeded(
                f"{shown} would bring {budget.name} to {spent + cost:,} of {budget.limit:,}",
                hint="thread.budget() shows and sets it; an undo gives back what stood, not the attempts",
            )


def on_line(session: Session) -> Still:
    return Still(ThreadUid(session.cell.thread), session.cell.line)
