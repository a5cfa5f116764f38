"""Taking one effect back, or making it again: its states before and after, inside a plan and alone."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.engine import owners
from takeback.engine.book import Book, Change
from takeback.engine.calls import TIMEOUT_US, Hands, forgotten, on_line, with_step
from takeback.engine.plans import relied_on
from takeback.engine.steps import Session
from takeback.errors import (
    NotDone,
    Undecided,
)
from takeback.model.ledger import Effect, Entry

_replace = msgspec.structs.replace


def undoing(effect: Effect, clock: int, owner: str) -> Effect:
    """The effect while its undo is being called."""
    again = effect.state in ("undoing", "undo_unknown")
    at_work = effect.state == "undoing" and effect.executor != owner
    if at_work and owners.holds(effect.executor, effect.deadline_us, clock):
        who = owners.described(effect.executor)
        raise Undecided(f"#{effect.number} ({effect.shown}) is being undone by {who}", hint="Wait for it")
    if not (effect.state in ("done", "undo_failed") or (again and effect.undo_safe)):
        raise Undecided(
            f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be undone",
            hint=f"`takeback effects show {effect.number}` tells what is known of it",
        )
    dirty = effect.dirty or again
    return _replace(effect, state="undoing", dirty=dirty, executor=owner, deadline_us=clock + TIMEOUT_US)


def redoing(effect: Effect, clock: int, owner: str) -> Effect:
    """The effect while it is done again, under a new key: the provider must not answer from its memory of
    what was taken back."""
    deadline = clock + TIMEOUT_US
    if effect.state == "undone":
        effect = _replace(effect, redo=effect.redo + 1, first_us=clock, dirty=False)
    elif remembered(effect, clock):
        effect, deadline = _replace(effect, dirty=True), min(deadline, forgotten(effect) - 1)
    else:
        raise Undecided(
            f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be done again",
            hint=f"`takeback effects show {effect.number}` tells what is known of it",
        )
    return _replace(
        effect, state="begun", attempts=effect.attempts + 1, intent_us=clock, executor=owner,
        deadline_us=deadline,
    )  # fmt: skip


def remembered(effect: Effect, clock: int) -> bool:
    """Whether nobody knows what became of it, and its key may be sent once more."""
    return effect.state == "unknown" and effect.repeat == "keyed" and clock < forgotten(effect)


def settled_undo(effect: Effect, state: str, book: Book, error: str | None) -> Effect:
    """The effect after its undo, or its redo, ended so."""
    dirty = effect.dirty or state in ("unknown", "undo_unknown")
    if dirty:
        state = {"failed": "unknown", "undo_failed": "undo_unknown"}.get(state, state)
    if state in ("done", "undone"):
        dirty = False
    if state == "failed":
        state = "undone"  # a redo that did not happen leaves it undone
    order = book.order + 1 if state == "done" else effect.order
    return _replace(effect, state=state, dirty=dirty, error=error, settled_us=book.clock(), order=order)


def undo_alone(book: Book, effect: Effect, hands: Hands) -> Effect:
    """One effect taken back outside a plan, by the same rules as a plan's line."""
    if effect.within:
        return _undo_alone_within(book, effect, hands)
    owner = owners.claim()

    def start() -> Change:
        begun = undoing(book.effects[effect.id], book.clock(), owner)
        return Change([begun], answer=begun)

    try:
        return _called(book, book.change(start), hands)
    finally:
        owners.release(owner)


def undo_first(session: Session, standing: list[Effect], hands: Hands) -> None:
    """What stands in the way of a call of a step is taken back by that step: its own thread's, and nothing
    that a fork relies on."""
    for effect in standing:
        why = _not_first(session, effect)
        if why:
            raise Undecided(
                f"#{effect.number} ({effect.shown}) cannot be undone first: {why}",
                thread=session.tip.info.name,
                hint="`beside` makes the call all the same",
            )
    for effect in standing:
        if effect.within:
            _undo_alone_within(session.book, effect, hands)
        else:
            _called(session.book, _first_begun(session, effect), hands)


def _not_first(session: Session, effect: Effect) -> str:
    if effect.owner != session.cell.thread:
        return "it belongs to another thread"
    if effect.undo is None:
        return "it has no undo"
    if effect.state not in ("done", "undo_failed") and not (
        effect.state == "undo_unknown" and effect.undo_safe
    ):
        return f"it is {effect.state}"
    return "a fork relies on it" if relied_on(session.ctx, session.book, session.tip, effect) else ""


def _first_begun(session: Session, effect: Effect) -> Effect:
    book = session.book

    def start() -> Change:
        cell = session.still_mine()
        begun = undoing(book.effects[effect.id], book.clock(), cell.owner)
        entries: list[Entry] = [begun, *with_step(session, cell, begun.deadline_us)]
        return Change(entries, answer=begun, rows=[on_line(session)])

    begun: Effect = book.change(start)
    session.took(book.steps[session.cell.id])
    return begun


def _called(book: Book, begun: Effect, hands: Hands) -> Effect:
    state, error = "undone", None
    try:
        hands.undo(begun, book)
    except NotDone as refused:
        state, error = "undo_failed", str(refused)
    except Exception as broken:  # whatever a tool raises: nobody knows whether it happened
        state, error = "undo_unknown", f"{type(broken).__name__}: {broken}"
    done = late(book, begun, state, error)
    if done.state != "undone":
        raise Undecided(
            f"#{done.number} ({done.shown}) is {done.state}: {done.error}",
            hint="Try again"
            if done.state == "undo_failed"
            else f"`takeback effects resolve {done.number} --happened` or --did-not, when you know whether "
            "the undo did",
        )
    return done


def late(book: Book, effect: Effect, state: str, error: str | None = None) -> Effect:
    """What came of an undo: evidence, whoever brings it, and however late."""

    def decide() -> Change:
        now = book.effects[effect.id]
        settled = evidence(now, effect, state, book, error)
        return Change([settled], answer=settled)

    done: Effect = book.change(decide)
    return done


def evidence(now: Effect, tried: Effect, state: str, book: Book, error: str | None) -> Effect:
    """The effect with what is known of a try to undo it, or to do it again. That an earlier try came to
    nothing says nothing of the one that is under way."""
    back = tried.state == "undoing"
    open_ = ("undoing", "undo_unknown") if back else ("begun", "unknown")
    same = (now.executor, now.deadline_us) == (tried.executor, tried.deadline_us)
    if now.redo != tried.redo or now.state not in open_ or not (same or state in ("done", "undone")):
        return _replace(now, late=[*now.late, f"{state} at {book.clock()}"])
    return settled_undo(now, state, book, error)


def _undo_alone_within(book: Book, effect: Effect, hands: Hands) -> Effect:
    work = hands.undo_within(effect, book)

    def decide() -> Change:
        now = book.effects[effect.id]
        undoing(now, book.clock(), "")  # refuses what cannot be undone (any more)

        def run(connection: Any) -> list[Entry]:
            work(connection)
            return [settled_undo(now, "undone", book, None)]

        return Change(within=run)

    book.change(decide)
    return book.effects[effect.id]
