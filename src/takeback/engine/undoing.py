"""Taking one effect back, or making it again: its states before and after, inside a plan and alone."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.engine import owners
from takeback.engine.book import Book, Change
from takeback.engine.calls import DAY_US, TIMEOUT_US, Hands, for_people
from takeback.engine.context import Context
from takeback.errors import (
    NotDone,
    Undecided,
)
from takeback.model.ledger import Decision, Effect, Entry

_replace = msgspec.structs.replace


def undoing(effect: Effect, clock: int, owner: str) -> Effect:
    """The effect while its undo is being called."""
    allowed = effect.state in ("done", "undo_failed") or (
        effect.state in ("undoing", "undo_unknown") and effect.undo_safe
    )
    if not allowed:
        raise Undecided(
            f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be undone",
            hint=f"`takeback effects show {effect.number}` tells what is known of it",
        )
    return _replace(effect, state="undoing", executor=owner, deadline_us=clock + TIMEOUT_US)


def redoing(effect: Effect, clock: int, owner: str) -> Effect:
    """The effect while it is done again, under a new key: the provider must not answer from its memory of
    what was taken back."""
    remembered = clock < effect.first_us + (effect.key_ttl_us or DAY_US)
    if effect.state == "undone":
        effect = _replace(effect, redo=effect.redo + 1, first_us=clock, dirty=False)
    elif not (effect.state == "begun" and effect.repeat == "keyed" and remembered):
        raise Undecided(
            f"#{effect.number} ({effect.shown}) is {effect.state} and cannot be done again",
            hint=f"`takeback effects show {effect.number}` tells what is known of it",
        )
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
        raise Undecided(
            f"#{done.number} ({done.shown}) is {done.state}: {done.error}",
            hint="Try again"
            if done.state == "undo_failed"
            else f"`takeback effects resolve {done.number} --happened` or --did-not, when you know whether "
            "the undo did",
        )
    return done


def undone_by_hand(ctx: Context, book: Book, effect: Effect, by: str | None) -> Effect:
    """A person's word that they took it back themselves, where no handler does."""
    for_people(ctx, effect, by)

    def decide() -> Change:
        now = book.effects[effect.id]
        if now.state not in ("done", "undo_failed", "undo_unknown"):
            raise Undecided(
                f"#{now.number} ({now.shown}) is {now.state}: there is nothing to take back",
                hint=f"`takeback effects show {now.number}` tells what is known of it",
            )
        said = Decision(f"resolved {now.state}: undone by hand", by, book.clock())
        clean = _replace(now, dirty=False, decisions=[*now.decisions, said])
        gone = settled_undo(clean, "undone", book, None)
        return Change([gone], answer=gone, rows=[ctx.audit_of("effect.undone_by_hand", gone, by)])

    gone: Effect = book.change(decide)
    return gone


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
