"""Applying a plan: durable, one line after another, resumable after a crash, paused when a line fails."""

from __future__ import annotations

from takeback.testing.effects import approvals, outcomes, plans
from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.outcomes import again, begin, lose, perform, perform_undo, remembered
from takeback.testing.effects.records import Effect, Hanging, Plan, PlanLine, Ref, Refused
from takeback.testing.effects.tools import TOOLS


def start(ledger: Ledger, plan: Plan, acknowledge: bool) -> None:
    """The first transaction: all as planned; the thread is held, approvals are void, the lines are written.

    Before it nothing has happened; after it, anybody may go on.
    """
    plans.check(ledger, plan, acknowledge)
    thread = ledger.threads[plan.thread]
    plan.state = "applying"
    if ledger.rules.plan_holds_thread:
        thread.plan = plan.number
    approvals.void(ledger, plan.thread)
    if plan.scope == "state":
        return
    newest_first = sorted(plan.groups["compensate"], key=lambda number: -ledger.effects[number].order)
    plan.lines = [PlanLine(number, "undo") for number in newest_first]
    if plan.redo:
        mine = [n for n in plan.groups["missing"] if ledger.effects[n].owner == plan.thread]
        plan.lines += [
            PlanLine(number, "redo") for number in sorted(mine, key=lambda n: ledger.effects[n].order)
        ]


def go(ledger: Ledger, plan: Plan) -> Ref | None:
    """All lines that are left, then the last transaction. None when a line failed: the plan is paused."""
    for place, line in enumerate(plan.lines):
        if line.state == "todo" and not _line(ledger, plan, place):
            plan.state = "paused"
            return None
    return _finish(ledger, plan)


def _line(ledger: Ledger, plan: Plan, place: int) -> bool:
    """Call for one line; without a call where its goal holds already."""
    line = plan.lines[place]
    effect = ledger.effects[line.effect]
    if effect.state != line.goal:
        try:
            _ready(ledger, plan, line, effect)
        except Refused as refused:
            line.state, line.why = "failed", refused.kind
            return False
        line.state, line.starts = "running", line.starts + 1
        busy, at = f"plan {plan.number}", (plan.number, place, line.starts)
        state = perform_undo(ledger, effect, busy, at) if line.do == "undo" else perform(ledger, effect, at)
        line.state, line.why = ("done", "") if state == line.goal else ("failed", state)
    else:
        line.state = "done"
    return line.state == "done"


def _ready(ledger: Ledger, plan: Plan, line: PlanLine, effect: Effect) -> None:
    """Whether the call may be made now; for a redo, its intent."""
    if line.do == "undo":
        safe = TOOLS[effect.tool].undo == "safe"
        if effect.state not in ("done", "undo_failed") and not safe and ledger.rules.undo_once_not_repeated:
            raise Refused("effect_unknown", effect.number)
        return
    busy = f"plan {plan.number}"
    if effect.state == "unknown":
        again(ledger, effect, busy)
        return
    redos = effect.redos + 1
    approval = None
    if ledger.rules.redo_needs_approval:
        line_of = ledger.threads[plan.thread].line
        version = effect.version
        approval = approvals.needed(ledger, effect.slot, redos, line_of, version, plan.number)
    ledger.afford(plan.thread, effect.tool, effect.args)
    approvals.use(approval, effect)
    effect.redos = redos
    effect.decisions = [*effect.decisions, ("redo", plan.number)]
    begin(ledger, effect, busy)


def wake(ledger: Ledger, hanging: Hanging) -> str:
    """A stopped caller goes on, and says how the line ended for which it called, if it is its line yet."""
    word = outcomes.wake(ledger, hanging)
    if hanging.line is None:
        return word
    number, place, start = hanging.line
    plan = ledger.plans[number]
    line = plan.lines[place]
    if plan.state in ("applying", "paused") and (line.state, line.starts) == ("running", start):
        state = ledger.effects[line.effect].state
        line.state, line.why = ("done", "") if state == line.goal else ("failed", state)
        plan.state = plan.state if line.state == "done" else "paused"
    return word


def recover(ledger: Ledger, plan: Plan) -> None:
    """Somebody goes on after a crash: a call that may be repeated is, any other is unknown."""
    for line in plan.lines:
        if line.state != "running":
            continue
        effect = ledger.effects[line.effect]
        if effect.busy == f"plan {plan.number}":
            lose(effect)
        if line.do == "undo":
            repeats = TOOLS[effect.tool].undo == "safe" or not ledger.rules.undo_once_not_repeated
        else:
            repeats = remembered(ledger, effect)
        if effect.state == line.goal or repeats:
            line.state = "todo"
        else:
            line.state, line.why, plan.state = "failed", effect.state, "paused"


def decide(ledger: Ledger, plan: Plan, what: str) -> None:
    """What people say about the lines that failed: retry, accept, or abort the whole."""
    failed = [line for line in plan.lines if line.state == "failed"]
    if what == "abort":
        plan.state = "aborted"
        thread = ledger.threads[plan.thread]
        thread.plan = None
        approvals.void(ledger, plan=plan.number)
        ledger.append(thread)
        return
    for line in failed:
        line.state = "todo" if what == "retry" else "accepted"
    plan.state = "applying"


def _finish(ledger: Ledger, plan: Plan) -> Ref:
    """The last transaction: a new line opens at the target, and the thread is free again."""
    thread = ledger.threads[plan.thread]
    for step in ledger.steps.values():
        if (step.thread, step.line, step.state) == (thread.name, thread.line, "open"):
            step.state, step.owner = "abandoned", ""
    approvals.void(ledger, plan=plan.number)
    if not ledger.rules.void_is_for_good:
        approvals.revive(ledger, plan.thread)
    thread.plan, plan.state = None, "applied"
    # Effects alone: the history stays as it is, and what was undone under it shows as missing.
    target = plan.head if plan.scope == "effects" else plan.target
    return ledger.append(thread, origin=(thread.name, target), opens=True)
