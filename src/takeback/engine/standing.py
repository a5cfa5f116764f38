"""What is said of threads and families beside their history: rights, autopilot, budgets, questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from takeback.engine import approvals
from takeback.engine.book import Book, Change, believed
from takeback.engine.context import Context, Tip
from takeback.engine.plans import doing
from takeback.engine.steps import Session
from takeback.errors import BadRequest, NotFound
from takeback.model.ledger import (
    ApprovalCell,
    BudgetCell,
    Effect,
    Entry,
    PlanLine,
    ThreadCell,
    args_hash,
    slot,
)

RIGHTS = ("deny", "guard", "allow")


def effects_of(book: Book, tip: Tip) -> list[Effect]:
    """What the thread began, owns or believes in, in the order of their numbers."""
    if not book.effects:
        return []
    lineage, uid = book.lineage(tip.pointer), tip.info.uid
    found = [e for e in book.effects.values() if uid in (e.thread, e.owner) or believed(e, lineage)]
    return sorted(found, key=lambda e: e.number)


def numbered(book: Book, number: int) -> Effect:
    """The effect that people call by this number."""
    found = next((e for e in book.effects.values() if e.number == number), None)
    if found is None:
        raise NotFound(f"there is no effect #{number}", hint="`takeback effects list`")
    return found


def notes(book: Book, uid: bytes) -> dict[int, list[str]]:
    """Version → what it did to the world: the calls of its step, and what its plan took back or did again."""
    found: dict[int, list[str]] = {}
    for effect in sorted(book.effects.values(), key=lambda e: e.number):
        state = "" if effect.state == "done" else f", {effect.state.replace('_', ' ')}"
        for use in effect.uses:
            if use.thread == uid:
                found.setdefault(use.version, []).append(f"#{effect.number} ({effect.shown}){state}")
    for plan in book.plans.values():
        if plan.thread == uid and plan.version is not None:
            said = [_line_note(book.effects[each.effect], each) for each in plan.lines]
            found.setdefault(plan.version, []).extend(text for text in said if text)
    return found


def _line_note(effect: Effect, line: PlanLine) -> str:
    named = f"#{effect.number} ({effect.shown})"
    if line.state != "done":
        return f"{named} left as it is" if line.state == "accepted" else ""
    return f"{doing(line.handler)} {named}" if line.do == "undo" else f"does {named} again"


def say(book: Book, tip: Tip, **fields: Any) -> None:
    """Something about a thread that holds from now on."""

    def decide() -> Change:
        uid = tip.info.uid
        now = book.threads.get(uid) or ThreadCell(id=uid, thread=uid)
        new = msgspec.structs.replace(now, **fields)
        return Change() if new == now else Change([new])

    book.change(decide)


def rights(given: str) -> str:
    if given not in RIGHTS:
        raise BadRequest(f"effects={given!r} is none of deny, guard, allow")
    return given


def limit(book: Book, tip: Tip, limits: Mapping[str, int]) -> None:
    """Limits for the whole family."""
    for name, amount in limits.items():
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < 0:
            raise BadRequest(
                f"the budget {name}={amount!r} is no limit",
                thread=tip.info.name,
                hint="A whole number, such as cents: budget({'money': 10_000})",
            )

    def decide() -> Change:
        entries: list[Entry] = [
            BudgetCell(id=name.encode(), thread=tip.info.uid, name=name, limit=amount)
            for name, amount in limits.items()
        ]
        return Change(entries)

    book.change(decide)


def budgets(book: Book) -> dict[str, tuple[int, int]]:
    """Name → (spent, limit)."""
    return {
        each.name: (book.tried if each.name == "attempts" else book.spent.get(each.name, 0), each.limit)
        for each in book.budgets.values()
    }


def ask(session: Session, question: str, options: dict[str, Any]) -> ApprovalCell:
    """The question of this step, as it stands; asked if it was not yet."""
    book = session.book

    def decide() -> Change:
        cell = session.still_mine()
        hashed = args_hash("", question.encode())
        about = slot(cell, "", hashed, 0)
        for each in book.approvals.values():
            if each.slot == about and each.state in ("requested", "granted"):
                return Change(answer=each)
        return approvals.ask(session, cell, question, about, options)

    asked: ApprovalCell = book.change(decide)
    if session.cell.id in book.steps:
        session.took(book.steps[session.cell.id])
    return asked


def merging(ctx: Context, book: Book, tip: Tip, other: Tip) -> list[Entry]:
    """A fork that comes home: what it owns is the thread's from now on, and it acts no more."""
    if not _descends(ctx, other, tip.info.uid):
        return []
    uid = other.info.uid
    taken: list[Entry] = [
        msgspec.structs.replace(e, owner=tip.info.uid) for e in book.effects.values() if e.owner == uid
    ]
    if any(book.of_step(step.id) or step.reused for step in book.open_steps(uid)):
        raise BadRequest(
            f"{other.info.name!r} has an open step with effects",
            thread=tip.info.name,
            hint="Close it, or roll it back, and merge again",
        )
    now = book.threads.get(uid) or ThreadCell(id=uid, thread=uid)
    return [*taken, msgspec.structs.replace(now, merged_into=tip.info.uid)]


def _descends(ctx: Context, fork: Tip, ancestor: bytes) -> bool:
    """Whether a thread is a fork, or a fork of a fork, of another."""
    origin = fork.info.origin
    while origin is not None:
        if origin.uid == ancestor:
            return True
        info = ctx.storage.thread_by_uid(ctx.tenant, origin.uid)
        origin = None if info is None else info.origin
    return False
