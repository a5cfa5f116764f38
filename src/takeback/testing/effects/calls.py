"""A call inside a step: matching, the guard, approvals, the budget, then the intent and the call itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from takeback.testing.effects import approvals
from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.outcomes import again, begin, perform, perform_undo
from takeback.testing.effects.records import STANDING, Effect, Refused, Step
from takeback.testing.effects.steps import (
    Session,
    busy,
    claim,
    claimed,
    held,
    lengthen,
    may_record,
    record,
)
from takeback.testing.effects.tools import TOOLS

Said = tuple[Any, ...]


class Wanted(NamedTuple):
    """A call that is to be made, and what a person says should the guard ask."""

    tool: str
    args: str
    choice: str
    record: Callable[[], None]
    """Records the step, with the first that it does."""


def call(ledger: Ledger, worker: str, session: Session, tool: str, args: str, *, choice: str) -> Said:
    """One call of a tool. `choice` is what a person says should the guard ask: reuse, undo, beside, stop."""
    if TOOLS[tool].repeat == "free":
        return ("free",)
    step = held(ledger, worker, session)
    if session.replays:
        return replay(ledger, session, step, tool, args)
    effect = match(ledger, step, tool, args)
    if effect is not None:
        return once_more(ledger, step, effect)
    may_record(ledger, session, step)
    rights = _rights(ledger, session)
    wanted = Wanted(tool, args, choice, lambda: record(ledger, worker, session, step))
    decisions: list[Said] = []
    if rights == "guard":
        found = guard(ledger, step, TOOLS[tool].target)
        if found:
            answered = answer(step, found, wanted)
            if answered is not None:
                return answered
            if choice == "undo":
                undo_first(ledger, step, found, wanted)
            decisions = [(choice, tuple(effect.number for effect in found))]
    return fresh(ledger, step, wanted, decisions)


def _rights(ledger: Ledger, session: Session) -> str:
    thread = ledger.threads[session.thread]
    if thread.read_only and ledger.rules.merged_is_read_only:
        raise Refused("merged")
    rights = thread.rights if ledger.rules.rights_are_kept else "guard"
    if rights == "deny":
        raise Refused("effects_denied")
    return rights


def match(ledger: Ledger, step: Step, tool: str, args: str) -> Effect | None:
    """By content, not by position: the first such call of this step that this attempt has not claimed."""
    own = [number for number in step.calls if ledger.effects[number].step == step.number]
    for number in own + [number for number in step.calls if number not in own]:
        effect = ledger.effects[number]
        fits = effect.tool == tool and args in (effect.args, step.instead.get(number))
        if fits and not claimed(step, number):
            return effect
    return None


def once_more(ledger: Ledger, step: Step, effect: Effect) -> Said:
    """A call that was made before: its recorded outcome, or the same key again."""
    if effect.state in ("done", "undo_failed", "failed"):
        claim(step, effect)
        return ("recorded", effect.number, "failed" if effect.state == "failed" else "done")
    if effect.state == "undone":
        raise Refused("effect_undone", effect.number)
    if effect.state != "unknown" or effect.step != step.number:
        raise Refused("effect_unknown", effect.number)
    again(ledger, effect, busy(step))
    lengthen(ledger, step)
    claim(step, effect)
    return ("retried", effect.number, perform(ledger, effect))


def replay(ledger: Ledger, session: Session, step: Step, tool: str, args: str) -> Said:
    """Inside a recorded step: what it claimed when it closed, once each, and nothing else."""
    for number in step.calls:
        effect = ledger.effects[number]
        mine = claimed(step, number) and number not in session.claimed
        if mine and effect.tool == tool and args in (effect.args, step.instead.get(number)):
            session.claimed = session.claimed | {number}
            return ("replayed", number)
    if ledger.rules.replay_runs_nothing:
        raise Refused("replay_diverged", tool, args)
    return fresh(ledger, step, Wanted(tool, args, "", lambda: None), [])


def guard(ledger: Ledger, step: Step, target: str) -> list[Effect]:
    """What may stand on this target and this attempt knows nothing of.

    What others closed since it began is part of the head, and not of what its agent has seen.
    """
    rules = ledger.rules
    thread = ledger.threads[step.thread]
    family = ledger.family(step.thread) if rules.guards_family else {step.thread}
    seen = (step.thread, step.base) if rules.guards_by_what_was_seen else ledger.head(step.thread)
    believed = ledger.believed(seen)
    found = [
        effect
        for effect in ledger.effects.values()
        if effect.thread in family
        and effect.target == target
        and effect.state in STANDING
        and effect.number not in believed
        and not claimed(step, effect.number)
    ]
    if rules.guards_everywhere:
        return found
    return [effect for effect in found if (effect.thread, effect.line) != (thread.name, thread.line)]


def answer(step: Step, found: list[Effect], wanted: Wanted) -> Said | None:
    """What a person chose: to make the call (None), to reuse an equal one, or the only one, whatever it was
    called with. Where nobody chose, one alone that is done and equal is reused."""
    if wanted.choice in ("undo", "beside"):
        return None
    done = [effect for effect in found if (effect.tool, effect.state) == (wanted.tool, "done")]
    equal = [effect for effect in done if effect.args == wanted.args]
    if len(found) == len(equal) == 1 or (wanted.choice == "reuse" and equal):
        wanted.record()
        claim(step, equal[0])
        return ("reused", equal[0].number)
    if wanted.choice == "reuse" and len(found) == len(done) == 1:
        wanted.record()
        claim(step, done[0])
        step.instead = {**step.instead, done[0].number: wanted.args}
        done[0].decisions = [*done[0].decisions, ("reuse", (done[0].number,))]
        return ("reused", done[0].number)
    raise Refused("effect_stands", *(effect.number for effect in found))


def undo_first(ledger: Ledger, step: Step, found: list[Effect], wanted: Wanted) -> None:
    """Take back what stands before the call is made anew; for the owner alone, not under a fork's feet."""
    for effect in found:
        undo = TOOLS[effect.tool].undo
        states = {"done", "undo_failed"} | ({"undo_unknown"} if undo == "safe" else set())
        mine = effect.owner == step.thread or not ledger.rules.undoes_first_its_own
        if not mine or effect.state not in states or not undo:
            raise Refused("cannot_undo", effect.number)
        if relied_on(ledger, effect) and ledger.rules.undoes_first_its_own:
            raise Refused("shared", effect.number)
    first = not step.number
    wanted.record()
    for effect in found:
        lengthen(ledger, step, first=first)
        first = False
        if perform_undo(ledger, effect, busy(step)) != "undone":
            raise Refused("not_undone", effect.number)


def relied_on(ledger: Ledger, effect: Effect) -> bool:
    """Whether another thread that has a right to effects believes it."""
    return any(
        thread.name != effect.owner
        and thread.rights != "deny"
        and not thread.read_only
        and effect.number in ledger.believed(ledger.head(thread.name))
        for thread in ledger.threads.values()
    )


def fresh(ledger: Ledger, step: Step, wanted: Wanted, decisions: list[Said]) -> Said:
    """The intent, in one transaction with the approval and the budget that it uses up; then the call."""
    tool, args = wanted.tool, wanted.args
    first = not step.number and not TOOLS[tool].approval
    if not TOOLS[tool].approval:
        ledger.afford(step.thread, tool, args)
    wanted.record()  # what is asked is asked for this step
    mine = (ledger.effects[number] for number in step.calls)
    occurrence = sum((one.step, one.tool, one.args) == (step.number, tool, args) for one in mine)
    slot = (step.thread, step.line, step.run, step.label, step.ord, tool, args, occurrence)
    version = ledger.world.versions[tool]
    approval = approvals.needed(ledger, slot, 0, step.line, version)
    ledger.afford(step.thread, tool, args)
    number, thread, target = len(ledger.effects) + 1, step.thread, TOOLS[tool].target
    effect = Effect(number, thread, thread, step.line, step.number, slot, tool, args, target, version)
    effect.decisions = decisions
    ledger.effects[effect.number] = effect
    approvals.use(approval, effect)
    begin(ledger, effect, busy(step))
    lengthen(ledger, step, first=first)
    claim(step, effect)
    return ("called", effect.number, perform(ledger, effect))
