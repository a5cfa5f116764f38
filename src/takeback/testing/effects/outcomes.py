"""The state machine of an effect: intents, calls, outcomes, late evidence, resolution by people."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.records import Effect, Hanging, Refused
from takeback.testing.effects.tools import KEY_MEMORY, TIMEOUT, TOOLS
from takeback.testing.effects.world import Lost, NotDone, Stopped

Line = tuple[int, int, int]
"""Whose call it is, in a plan: the plan, the line, and which start of the line."""


def make_key(ledger: Ledger, effect: Effect) -> str:
    """The provider's key: of the slot and the redo count."""
    thread, line, run, label, ord_, tool, args, occurrence = effect.slot
    rules = ledger.rules
    parts: list[Any] = [thread, label, ord_, tool, args]
    parts += [line] if rules.key_has_line else []
    parts += [run] if rules.key_has_run else []
    parts += ["nth", occurrence] if rules.key_has_occurrence else []
    parts += ["redo", effect.redos] if rules.key_has_redos else []
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def begin(ledger: Ledger, effect: Effect, busy: str) -> None:
    """The intent of a call with a new key."""
    effect.keys = [*effect.keys, make_key(ledger, effect)]
    effect.state, effect.busy, effect.unsure = "begun", busy, False
    effect.tries += 1
    effect.first_try, effect.deadline = ledger.now, ledger.now + TIMEOUT
    effect.order = ledger.tick()


def remembered(ledger: Ledger, effect: Effect) -> bool:
    """Whether the provider still knows the key, if it honours keys at all."""
    keyed = TOOLS[effect.tool].repeat == "keyed"
    return keyed and (ledger.now < effect.first_try + KEY_MEMORY or not ledger.rules.retry_while_remembered)


def again(ledger: Ledger, effect: Effect, busy: str) -> None:
    """The same key once more; it may be sent as long as the provider remembers it."""
    if not remembered(ledger, effect):
        raise Refused("effect_unknown", effect.number)
    effect.state, effect.busy, effect.unsure = "begun", busy, True
    effect.tries += 1
    effect.deadline = ledger.now + TIMEOUT
    if ledger.rules.retry_ends_with_memory:
        # A deadline is passed when the clock stands after it; the key is forgotten at its very hour.
        effect.deadline = min(effect.deadline, effect.first_try + KEY_MEMORY - 1)


def perform(ledger: Ledger, effect: Effect, line: Line | None = None) -> str:
    """Call the provider for what is begun, and record the outcome. `Died` and `Stopped` pass through.

    The answer is the state that the ledger holds afterwards.
    """
    try_ = (effect.redos, effect.tries)
    try:
        result = ledger.world.call(effect.tool, effect.key)
    except NotDone:
        return outcome(ledger, effect, try_, "failed")
    except Lost:
        guess = "unknown" if ledger.rules.exception_is_unknown else "failed"
        return outcome(ledger, effect, try_, guess)
    except Stopped as stopped:
        ledger.hanging.append(Hanging(effect.number, *try_, stopped.call, effect.deadline, line=line))
        if not stopped.times_out:
            raise
        return outcome(ledger, effect, try_, "unknown")
    return outcome(ledger, effect, try_, "done", result)


def perform_undo(ledger: Ledger, effect: Effect, busy: str, line: Line | None = None) -> str:
    """Undo what stands, and record the outcome."""
    if effect.state in ("undoing", "undo_unknown"):
        effect.undo_unsure = True
    effect.state, effect.busy, effect.undo_deadline = "undoing", busy, ledger.now + TIMEOUT
    effect.undo_tries += 1
    try_ = (effect.redos, effect.undo_tries)
    try:
        ledger.world.take_back(effect.tool, effect.key)
    except NotDone:
        return undo_outcome(ledger, effect, try_, "undo_failed")
    except Lost:
        guess = "undo_unknown" if ledger.rules.exception_is_unknown else "undo_failed"
        return undo_outcome(ledger, effect, try_, guess)
    except Stopped as stopped:
        ledger.hanging.append(Hanging(effect.number, *try_, stopped.call, effect.undo_deadline, line=line))
        if not stopped.times_out:
            raise
        return undo_outcome(ledger, effect, try_, "undo_unknown")
    return undo_outcome(ledger, effect, try_, "undone")


def outcome(
    ledger: Ledger, effect: Effect, try_: tuple[int, int], state: str, result: str | None = None
) -> str:
    """Evidence of a call: never refused, whoever brings it. That an earlier try came to nothing says
    nothing of the one that is under way."""
    redos, number = try_
    earlier = state != "done" and effect.tries != number
    if effect.redos != redos or effect.state not in ("begun", "unknown") or earlier:
        ledger.late.append((effect.number, state))
        return effect.state
    settles = not effect.unsure or not ledger.rules.refused_retry_settles_nothing
    if state == "failed":
        # This try did not happen; an earlier one may have. A redo that did not happen leaves it undone.
        undone = effect.redos and ledger.rules.failed_redo_is_undone
        state = ("undone" if undone else "failed") if settles else "unknown"
    effect.unsure = state == "unknown"
    effect.state, effect.busy = state, ""
    effect.order = ledger.tick() if state == "done" else effect.order
    effect.result = result or effect.result
    return state


def undo_outcome(ledger: Ledger, effect: Effect, try_: tuple[int, int], state: str) -> str:
    """Evidence of an undo."""
    redos, number = try_
    earlier = state != "undone" and effect.undo_tries != number
    if effect.redos != redos or effect.state not in ("undoing", "undo_unknown") or earlier:
        ledger.late.append((effect.number, state))
        return effect.state
    if state == "undo_failed" and effect.undo_unsure and ledger.rules.refused_retry_settles_nothing:
        state = "undo_unknown"
    effect.undo_unsure = state == "undo_unknown"
    effect.state, effect.busy = state, ""
    return state


def lose(effect: Effect) -> None:
    """Whoever called for it is gone, or waits no longer: nobody knows."""
    if effect.state == "begun":
        effect.state, effect.unsure = "unknown", True
    elif effect.state == "undoing":
        effect.state, effect.undo_unsure = "undo_unknown", True
    effect.busy = ""


def wake(ledger: Ledger, hanging: Hanging) -> str:
    """A stopped caller goes on: it looks at the deadline just before it calls, and brings what it learns."""
    effect, call = ledger.effects[hanging.effect], hanging.call
    hanging.over = True
    try_ = (hanging.redos, hanging.tries)
    if call.result is None and ledger.now > hanging.deadline and ledger.rules.deadline_before_call:
        # It knows that it has not called.
        if call.back:
            undo_outcome(ledger, effect, try_, "undo_failed")
        else:
            outcome(ledger, effect, try_, "failed")
        return "gave up"
    result = ledger.world.finish(call)
    if not ledger.rules.late_is_evidence:
        return effect.state
    if call.back:
        return undo_outcome(ledger, effect, try_, "undone")
    return outcome(ledger, effect, try_, "done", result)


def resolve(ledger: Ledger, effect: Effect, happened: bool) -> str:
    """A person says what happened. "It did not" is refused as long as the call may be on its way."""
    rules = ledger.rules
    if effect.state == "unknown":
        if not happened and ledger.now <= effect.deadline and rules.deadline_before_did_not:
            raise Refused("too_early", effect.number)
        effect.state = "done" if happened else ("undone" if effect.redos else "failed")
        effect.unsure = False
        effect.order = ledger.tick() if happened else effect.order
    elif effect.state == "undo_unknown":
        if not happened and ledger.now <= effect.undo_deadline and rules.deadline_before_undo_did_not:
            raise Refused("too_early", effect.number)
        effect.state = "undone" if happened else "done"
        effect.undo_unsure = False
    else:
        raise Refused("nothing_to_resolve", effect.number)
    return effect.state
