"""What people say became of an effect: whether an unknown one happened, and that one was undone by hand."""

from __future__ import annotations

import msgspec

from takeback.engine.book import Book, Change, blob
from takeback.engine.calls import LOST, settle
from takeback.engine.context import Context
from takeback.engine.undoing import settled_undo
from takeback.errors import NotForAgents, Undecided
from takeback.model.ledger import IN_FLIGHT, Decision, Effect
from takeback.storage.base import Row

_replace = msgspec.structs.replace


def resolve(
    ctx: Context, book: Book, effect: Effect, *, happened: bool, by: str | None, result: bytes | None = None
) -> Effect:
    """A person's word on an unknown effect; not an agent's, and not while the call may be on its way."""
    for_people(ctx, effect, by)
    kept, objects = (None, {}) if result is None else blob(result)

    def decide() -> Change:
        now = book.effects[effect.id]
        clock = book.clock()
        if not happened and now.state in ("unknown", "undo_unknown") and clock <= now.deadline_us:
            left = (now.deadline_us - clock) // 1_000_000 + 1
            raise Undecided(
                f"#{now.number} ({now.shown}) may still be on its way for {left} s",
                hint="Say that it did not happen after its deadline",
            )
        if now.state == "unknown":
            state = "done" if happened else "undone" if now.redo else "failed"
        elif now.state == "undo_unknown":
            state = "undone" if happened else "done"
        else:
            flies = now.state in IN_FLIGHT
            raise Undecided(
                f"#{now.number} ({now.shown}) is "
                + ("in flight" if flies else f"{now.state}: there is nothing to resolve"),
                hint=LOST if flies else f"`takeback effects show {now.number}` tells what is known of it",
            )
        said = Decision(f"resolved {now.state}: {'happened' if happened else 'did not'}", by, clock)
        settled = _replace(settle(_replace(now, dirty=False), state, book), decisions=[*now.decisions, said])
        if now.state == "undo_unknown":
            settled = _replace(settled, order=now.order)  # it has stood since it was done
        elif kept is not None:
            settled = _replace(settled, result=kept)
        rows: list[Row] = [ctx.audit_of("effect.resolved", settled, by)]
        return Change([settled], answer=settled, rows=rows, objects=objects)

    done: Effect = book.change(decide)
    return done


def for_people(ctx: Context, effect: Effect, by: str | None) -> None:
    """Refuse the agent, whoever made the call, and nobody."""
    if not by or by in (effect.actor, _agent(ctx, effect)):
        raise NotForAgents(
            f"what happened to #{effect.number} is for a person to say, not for {by or 'nobody'}",
            hint="Name who says so: actor=, or --actor",
        )


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


def _agent(ctx: Context, effect: Effect) -> str | None:
    info = ctx.storage.thread_by_uid(ctx.tenant, effect.thread)
    return None if info is None else info.agent
