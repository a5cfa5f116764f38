"""A person's yes to one exact call: asked for, decided, and used once in the transaction of the intent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine.book import Book, Change
from takeback.engine.context import Context
from takeback.errors import (
    ApprovalDenied,
    ApprovalRequired,
    ApprovalStale,
    BadSeal,
    NotForAgents,
)
from takeback.model.canonical import equal
from takeback.model.ids import ThreadUid
from takeback.model.ledger import ApprovalCell, Effect, Entry, StepCell
from takeback.storage.base import Row, Still

if TYPE_CHECKING:
    from takeback.engine.calls import Spec
    from takeback.engine.steps import Session

_replace = msgspec.structs.replace


def needed(session: Session, spec: Spec, effect: Effect, cell: StepCell) -> ApprovalCell | Change | None:
    """None where the call needs none; the grant, as used; or the change that asks for one."""
    why = wanted(session, spec)
    if not why:
        return None
    found = lookup(session.ctx, session.book, effect)
    if isinstance(found, ApprovalCell) and found.state == "granted":
        return _replace(found, state="used")
    return _ask(session, effect, cell, why, found)


def wanted(session: Session, spec: Spec) -> str:
    """Why the call needs a person's yes; empty where it needs none."""
    if spec.approve:
        return "the tool asks for approval"
    said = session.book.threads.get(session.tip.info.uid)
    if said is not None and said.autopilot and spec.undo is None and not spec.within:
        return "it cannot be undone, and the thread is on autopilot"
    return ""


def lookup(ctx: Context, book: Book, effect: Effect, plan: bytes | None = None) -> ApprovalCell | None:
    """The newest request for exactly this call that is not over; a denial is an answer, and raised."""
    for approval in sorted(book.approvals.values(), key=lambda each: -each.number):
        if not _is_for(approval, effect, plan):
            continue
        if approval.state == "denied":
            raise ApprovalDenied(
                f"{approval.decided_by} refused {effect.shown}"
                + (f": {approval.answer.decode()}" if approval.answer else ""),
                hint="The step cannot make this call; another one it can",
            )
        if approval.state == "granted" and ctx.approvers and not verified(approval, ctx.approvers):
            raise BadSeal(
                f"the grant #{approval.number} of {effect.shown} has no signature of an approver",
                hint=f"`takeback approvals grant {approval.number} --private-key FILE`, by who has one",
            )
        current = equal(approval.facts, effect.facts) and not expired(approval, book.clock())
        if approval.state in ("requested", "granted") and current:
            return approval
    return None


def expired(approval: ApprovalCell, clock: int) -> bool:
    """A request waits for as long as nobody answers it; a yes is for a time."""
    return approval.state == "granted" and approval.expires_us is not None and clock > approval.expires_us


def decide(
    ctx: Context,
    book: Book,
    approval: ApprovalCell,
    *,
    granted: bool,
    by: str | None,
    note: str | None = None,
    sign: bytes | None = None,
) -> ApprovalCell:
    """A person grants or denies a request; who asked cannot."""
    if not by or by in (approval.asked_by, _agent(ctx, approval)):
        raise NotForAgents(
            f"{by or 'nobody'} asked for #{approval.number}, and who asks does not decide"
            if by
            else "a decision needs somebody who makes it",
            hint="Decide as another: actor=, or --actor",
        )

    if granted and ctx.approvers and sign is None:
        raise BadSeal(
            f"#{approval.number} has to be granted with the key of an approver",
            hint="grant(private_key=…), or `takeback approvals grant --private-key FILE`",
        )

    def change() -> Change:
        now = book.approvals[approval.id]
        # What somebody wrote who has no key is no decision.
        unsigned = now.state == "granted" and bool(ctx.approvers) and not verified(now, ctx.approvers)
        of_plan = None if now.plan is None else book.plans.get(now.plan)
        if not (unsigned or now.state == "requested") or (of_plan is not None and not of_plan.live):
            raise ApprovalStale(
                f"the request #{now.number} ({now.shown}) is {now.state}", hint="`takeback approvals list`"
            )
        clock = book.clock()
        decided = _replace(
            now, state="granted" if granted else "denied", decided_by=by, decided_us=clock,
            expires_us=clock + ctx.approval_us if granted and now.tool else None,
            answer=note.encode() if note else None,
        )  # fmt: skip
        if sign is not None:
            decided = _replace(decided, signature=_signature(decided, sign))
        if granted and ctx.approvers and not verified(decided, ctx.approvers):
            raise BadSeal(
                f"the key that signs the grant of #{now.number} is none of the approvers'",
                hint="Open the store with the public keys of those who may grant: approvers=[…]",
            )
        rows: list[Row] = [ctx.audit_of(f"approval.{decided.state}", decided, by)]
        # A question outlives the line it was asked on; a yes to a call does not. A plan holds the thread.
        if now.tool and now.plan is None:
            rows.insert(0, Still(ThreadUid(now.thread), now.line))
        return Change([decided], answer=decided, rows=rows)

    done: ApprovalCell = book.change(change)
    return done


def answer(ctx: Context, book: Book, asked: ApprovalCell, value: bytes, by: str | None) -> ApprovalCell:
    """A question's answer; it is kept for whenever the question is asked again. Who asked does not give it,
    where that is known."""
    if by and by in (asked.asked_by, _agent(ctx, asked)):
        raise NotForAgents(
            f"{by} asked question #{asked.number}, and who asks does not answer",
            hint="Name who answers: actor=, or --actor",
        )

    def change() -> Change:
        now = book.approvals[asked.id]
        if now.state != "requested":
            raise ApprovalStale(f"question #{now.number} is {now.state}")
        told = _replace(now, state="granted", answer=value, decided_by=by, decided_us=book.clock())
        return Change([told], answer=told)

    told: ApprovalCell = book.change(change)
    return told


def ask(session: Session, cell: StepCell, question: str, slot: bytes, options: dict[str, Any]) -> Change:
    """A question to a person, which a restart does not lose."""
    asked = _request(session, cell, slot, question)
    asked = _replace(asked, facts=options)
    return Change([asked, *_step(session, cell)], answer=asked, rows=[_on_line(cell)])


def request_redo(book: Book, effect: Effect, pending: ApprovalCell | None, plan: bytes) -> list[Entry]:
    """A redo has an approval of its own, for its plan: the one that the call had was for that time. The one
    who asks is the agent still: whoever applies the plan may say yes."""
    if pending is not None:
        return []
    asked = ApprovalCell(
        id=os.urandom(12), number=book.asked + 1, thread=effect.thread, line=effect.line,
        step=effect.step, slot=effect.id, redo=effect.redo, tool=effect.tool, version=effect.version,
        shown=effect.shown, args=effect.args, facts=effect.facts, why="it is to be done again",
        asked_by=effect.actor, asked_us=book.clock(), plan=plan,
    )  # fmt: skip
    return [asked, *_over(book, effect, plan)]


def verified(approval: ApprovalCell, keys: list[bytes]) -> bool:
    """Whether one of these public keys signed the grant."""
    from takeback.engine.seals import signed_by

    return approval.signature is not None and any(
        signed_by(key, approval.signature, approval.signed()) for key in keys
    )


def void(book: Book, thread: bytes | None = None, plan: bytes | None = None) -> list[Entry]:
    """Requests and grants of a thread whose line is over, or of a plan that is: they are never revived."""
    return [
        _replace(approval, state="void")
        for approval in book.approvals.values()
        if approval.tool
        and approval.state in ("requested", "granted")
        and approval.plan == plan
        and thread in (None, approval.thread)
    ]


def _over(book: Book, effect: Effect, plan: bytes | None) -> list[Entry]:
    """What was granted for other facts, or too long ago."""
    return [
        _replace(old, state="void")
        for old in book.approvals.values()
        if _is_for(old, effect, plan) and old.state in ("requested", "granted")
    ]


def _is_for(approval: ApprovalCell, effect: Effect, plan: bytes | None) -> bool:
    return (
        approval.slot == effect.id
        and approval.plan == plan
        and approval.redo == effect.redo
        and approval.step == effect.step
        and approval.line == effect.line
        and approval.version == effect.version
    )


def _ask(session: Session, effect: Effect, cell: StepCell, why: str, pending: ApprovalCell | None) -> Change:
    if pending is not None:
        return Change(answer=_required(session, pending))
    asked = _request(session, cell, effect.id, effect.shown)
    asked = _replace(
        asked, redo=effect.redo, tool=effect.tool, version=effect.version, args=effect.args,
        facts=effect.facts, why=why,
    )  # fmt: skip
    entries: list[Entry] = [asked, *_step(session, cell), *_over(session.book, effect, None)]
    return Change(entries, answer=_required(session, asked), rows=[_on_line(cell)])


def _required(session: Session, approval: ApprovalCell) -> ApprovalRequired:
    return ApprovalRequired(
        f"{approval.shown} waits for approval #{approval.number}: {approval.why}",
        approval=approval,
        thread=session.tip.info.name,
        hint=f"`takeback approvals grant {approval.number}`, then enter the step again",
    )


def _request(session: Session, cell: StepCell, slot: bytes, shown: str) -> ApprovalCell:
    book = session.book
    return ApprovalCell(
        id=os.urandom(12), number=book.asked + 1, thread=cell.thread, line=cell.line, step=cell.id, slot=slot,
        shown=shown, asked_by=session.ctx.actor, asked_us=book.clock(),
    )  # fmt: skip


def _step(session: Session, cell: StepCell) -> list[Entry]:
    return [] if session.stored else [cell]


def _on_line(cell: StepCell) -> Still:
    return Still(ThreadUid(cell.thread), cell.line)


def _signature(approval: ApprovalCell, private_key: bytes) -> bytes:
    from takeback.engine.seals import sign_with

    return sign_with(private_key, approval.signed())


def _agent(ctx: Context, approval: ApprovalCell) -> str | None:
    info = ctx.storage.thread_by_uid(ctx.tenant, approval.thread)
    return None if info is None else info.agent
