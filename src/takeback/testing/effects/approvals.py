"""Approvals: asked, granted by another, bound to one slot of one line, used once or void."""

from __future__ import annotations

from typing import Any

from takeback.testing.effects.ledger import Ledger, fact
from takeback.testing.effects.records import Approval, Effect, Refused
from takeback.testing.effects.tools import APPROVAL_LIFE, TOOLS

ASKER = "agent"


def needed(
    ledger: Ledger, slot: tuple[Any, ...], redos: int, line: int, version: int, plan: int | None = None
) -> Approval | None:
    """The approval that this intent may use; None where the tool needs none.

    Without one it is asked for, and the call is refused. The facts are looked up again: when they are
    no longer those that were shown, the approval is void and another is asked for.
    """
    tool = slot[5]
    if not TOOLS[tool].approval:
        return None
    facts = fact(ledger, tool)
    over: list[Approval] = []
    for approval in reversed(ledger.approvals.values()):
        if not fits(ledger, approval, slot, line, version):
            continue
        if (approval.redos, approval.plan) != (redos, plan):
            continue
        moved = approval.facts != facts and ledger.rules.facts_are_recomputed
        if moved or (expired(ledger, approval) and ledger.rules.approval_expires):
            over.append(approval)
        elif approval.state == "granted":
            return approval
        else:
            raise Refused("approval_required", approval.number)
    for approval in over:
        approval.state = "void"
    number = len(ledger.approvals) + 1
    ledger.approvals[number] = Approval(number, slot[0], ASKER, line, slot, redos, version, facts, plan)
    raise Refused("approval_required", number)


def expired(ledger: Ledger, approval: Approval) -> bool:
    """A request waits for as long as nobody answers; a yes is for a time."""
    return approval.state == "granted" and ledger.now > approval.expires


def fits(ledger: Ledger, approval: Approval, slot: tuple[Any, ...], line: int, version: int) -> bool:
    """Whether it is for this slot and alive."""
    rules = ledger.rules
    given, wanted = approval.slot, slot
    if not rules.approval_has_line:  # the same call of whichever step of the thread
        given, wanted = (given[0], *given[5:]), (wanted[0], *wanted[5:])
    elif approval.line != line:
        return False
    if not rules.approval_has_slot:
        given, wanted = given[:-2], wanted[:-2]
    elif not rules.approval_is_used_once:  # nor to one of several equal calls
        given, wanted = given[:-1], wanted[:-1]
    current = approval.tool_version == version or not rules.approval_has_version
    states = ("requested", "granted") if rules.approval_is_used_once else ("requested", "granted", "used")
    if approval.state == "used" and not rules.approval_is_used_once:
        approval.state = "granted"
    return given == wanted and approval.state in states and current


def use(approval: Approval | None, effect: Effect) -> None:
    """In the transaction of the intent."""
    if approval is not None:
        approval.state, approval.used_by = "used", effect.number


def grant(ledger: Ledger, number: int, by: str) -> str:
    """A person says yes, seeing the facts as they were asked for."""
    approval = ledger.approvals[number]
    if approval.state != "requested":
        raise Refused("approval_over", number)
    if by == approval.asker and ledger.rules.asker_never_grants:
        raise Refused("same_person", number)
    thread = ledger.threads[approval.thread]
    if approval.plan is None and thread.plan is not None:
        raise Refused("rollback_in_progress", thread.plan)
    if approval.plan is None and approval.line != thread.line and ledger.rules.approval_has_line:
        raise Refused("approval_over", number)
    approval.state, approval.expires = "granted", ledger.now + APPROVAL_LIFE
    return "granted"


def void(ledger: Ledger, name: str = "", plan: int | None = None) -> None:
    """Going back over a thread voids what was approved on it; ending a plan, what was approved for it."""
    if plan is None and not (ledger.rules.approval_has_line and ledger.rules.rollback_voids):
        return
    for approval in ledger.approvals.values():
        about = approval.plan == plan and (name == approval.thread or plan is not None)
        if about and approval.state in ("requested", "granted"):
            approval.state = "void"


def revive(ledger: Ledger, name: str) -> None:
    """What no undo may do: make good again what going back has voided."""
    for approval in ledger.approvals.values():
        if approval.thread == name and approval.state == "void" and approval.expires:
            approval.state = "granted"
