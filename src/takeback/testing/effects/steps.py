"""Steps: entering, leases and taking over, runs and their replays, closing, leaving."""

from __future__ import annotations

import msgspec

from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.outcomes import lose
from takeback.testing.effects.records import STANDING, UNSETTLED, Effect, Ref, Refused, Step
from takeback.testing.effects.tools import LEASE, TIMEOUT


class Session(msgspec.Struct):
    """What a worker has in hand: the step that it is in, and where it is in its run."""

    thread: str
    run: str = ""
    positions: dict[str, int] = {}
    """How many steps of each label this run has closed or replayed since it was started."""
    step: int | None = None
    pending: Step | None = None
    """A new step, which is recorded with its first effect; before that nobody else knows of it."""
    attempt: int = 0
    replays: bool = False
    line: int = 0
    """Of a replay: the thread's line when it began."""
    claimed: set[int] = set()
    """Of a replay: what was given out already."""


def enter(ledger: Ledger, worker: str, session: Session, label: str, take_over: bool) -> str:
    """Go into a step: a new one, the open one once more, or in a run the recorded one of this position."""
    thread = ledger.writable(session.thread)
    recorded = ledger.recorded(thread.name, session.run, label)
    position = session.positions.get(label, 0)
    if session.run and position < len(recorded):
        session.step, session.replays, session.claimed = recorded[position].number, True, set()
        session.line = thread.line
        return "replays"
    if session.run and position > len(recorded) and ledger.rules.run_needs_its_past:
        raise Refused("run_lost", session.run)
    session.replays = False
    step = find_open(ledger, session, label)
    if step is None:
        session.pending = Step(
            0, thread.name, thread.line, session.run, label, 0, base=thread.head, lease=ledger.now + LEASE
        )
        return "new"
    if (
        step.owner not in ("", worker)
        and ledger.now <= step.lease
        and not take_over
        and ledger.rules.lease_is_exclusive
    ):
        raise Refused("step_in_progress", step.owner)
    if ledger.rules.take_over_loses_calls:
        _lose_calls(ledger, step)
    _own(worker, session, step)
    step.base, step.lease = thread.head, ledger.now + LEASE
    return "resumed"


def record(ledger: Ledger, worker: str, session: Session, step: Step) -> None:
    """A new step becomes the open one of its label, unless somebody else's is, or was, meanwhile."""
    if step is not session.pending:
        return
    may_record(ledger, session, step)
    step.number, step.ord = len(ledger.steps) + 1, _ord(ledger, session, step.label)
    ledger.steps[step.number] = step
    session.pending = None
    _own(worker, session, step)


def may_record(ledger: Ledger, session: Session, step: Step) -> None:
    """Whether a new step may become the open one of its label."""
    if step is not session.pending:
        return
    recorded = ledger.recorded(step.thread, step.run, step.label)
    moved = bool(step.run) and len(recorded) != session.positions.get(step.label, 0)
    if ledger.rules.one_open_step and (moved or find_open(ledger, session, step.label) is not None):
        raise Refused("step_lost")


def lengthen(ledger: Ledger, step: Step, *, first: bool = False) -> None:
    """With an intent: a call must not outlast the lease of its step."""
    if first or step.lease < ledger.now + TIMEOUT:
        step.lease = ledger.now + LEASE


def _own(worker: str, session: Session, step: Step) -> None:
    step.attempt += 1
    step.owner = worker
    session.step, session.attempt = step.number, step.attempt


def find_open(ledger: Ledger, session: Session, label: str) -> Step | None:
    line = ledger.threads[session.thread].line
    wanted = (session.thread, line, session.run, label, "open")
    for step in ledger.steps.values():
        if (step.thread, step.line, step.run, step.label, step.state) == wanted:
            return step
    return None


def _ord(ledger: Ledger, session: Session, label: str) -> int:
    """The closed ones in the head's history, and the abandoned ones of this line."""
    line = ledger.threads[session.thread].line
    abandoned = sum(
        (step.thread, step.line, step.run, step.label, step.state)
        == (session.thread, line, session.run, label, "abandoned")
        for step in ledger.steps.values()
    )
    return len(ledger.recorded(session.thread, session.run, label)) + abandoned


def _lose_calls(ledger: Ledger, step: Step) -> None:
    """Whoever was in it before does not count any more; what it was calling for is unknown."""
    for effect in ledger.effects.values():
        if effect.busy == busy(step):
            lose(effect)


def busy(step: Step) -> str:
    return f"step {step.number}"


def held(ledger: Ledger, worker: str, session: Session) -> Step:
    """The worker's open step, if it is still its own; every write but a late outcome goes through here."""
    thread = ledger.threads[session.thread]
    if session.pending is not None:
        ledger.writable(session.thread)
        if session.pending.line != thread.line:
            raise Refused("step_lost")
        return session.pending
    if session.step is None:
        raise Refused("no_step")
    step = ledger.steps[session.step]
    if session.replays:
        if session.line != thread.line and ledger.rules.replay_is_fenced:
            raise Refused("step_lost")
        return step
    ledger.writable(session.thread)
    fenced = ledger.rules.owner_is_fenced
    if step.line != thread.line or step.state != "open":
        raise Refused("step_lost")
    if fenced and (step.owner, step.attempt) != (worker, session.attempt):
        raise Refused("step_lost")
    return step


def claim(step: Step, effect: Effect) -> None:
    if effect.number not in step.calls:
        step.calls = [*step.calls, effect.number]
    step.claims = {**step.claims, effect.number: step.attempt}


def claimed(step: Step, number: int) -> bool:
    """In this attempt."""
    return step.claims.get(number, -1) == step.attempt


def close(ledger: Ledger, worker: str, session: Session) -> Ref | None:
    """End the step as a checkpoint, with a use for all that its last attempt claimed.

    A replay ends without one. Refused over what nobody knows, and over what was claimed and is undone.
    """
    step = session.pending or ledger.steps.get(session.step or 0)
    if step is None:
        raise Refused("no_step")
    try:
        ref = _ended(ledger, worker, session, step)
    finally:  # its end is over, whatever became of it
        mine = (step.owner, step.attempt) == (worker, session.attempt)
        session.step = session.pending = None
        if mine:
            step.owner, step.lease = "", 0
    session.positions = {**session.positions, step.label: session.positions.get(step.label, 0) + 1}
    return ref


def _ended(ledger: Ledger, worker: str, session: Session, step: Step) -> Ref | None:
    held(ledger, worker, session)
    if session.pending is not None and not session.run:
        return ledger.append(ledger.threads[session.thread])  # nothing was called: a commit like any other
    if not session.replays:
        record(ledger, worker, session, step)
    return _close(ledger, session, step)


def _close(ledger: Ledger, session: Session, step: Step) -> Ref | None:
    thread = ledger.threads[session.thread]
    if session.replays:
        return None if ledger.rules.replay_commits_nothing else ledger.append(thread)
    effects = [ledger.effects[number] for number in step.calls]
    own = [effect for effect in effects if effect.step == step.number]
    concern = own + [one for one in effects if one not in own and claimed(step, one.number)]
    if ledger.rules.close_needs_outcomes:
        flying = [effect.number for effect in ledger.effects.values() if effect.busy == busy(step)]
        if flying:
            raise Refused("effect_unknown", *flying)
        for effect in concern:
            if effect.state in UNSETTLED:
                raise Refused("effect_unknown", effect.number)
            if effect.state == "undone" and claimed(step, effect.number):
                raise Refused("effect_undone", effect.number)
    ref = ledger.append(thread)
    step.state, step.closed, step.owner = "closed", ref[1], ""
    for effect in concern:
        if claimed(step, effect.number):
            if effect.state != "failed":
                ledger.uses.add((effect.number, ref))
        elif effect.state in STANDING:
            effect.unclaimed = True
    return ref


def leave(ledger: Ledger, worker: str, session: Session) -> str:
    """The body raised: a step of which something is recorded (an effect, a request) stays open."""
    step = session.pending or ledger.steps.get(session.step or 0)
    if step is None:
        raise Refused("no_step")
    pending, session.pending, session.step = session.pending, None, None
    if not ledger.rules.position_counts_closed:
        session.positions = {**session.positions, step.label: session.positions.get(step.label, 0) + 1}
    if session.replays:
        return "left"
    if pending is not None:
        return "nothing"
    if step.state != "open" or (step.owner, step.attempt) != (worker, session.attempt):
        return "left"  # it is another's by now
    step.owner, step.lease = "", 0
    return "open"


def commit(ledger: Ledger, name: str) -> Ref:
    """Somebody else's commit: absorbs nothing of any open step."""
    thread = ledger.writable(name)
    ref = ledger.append(thread)
    if not ledger.rules.only_close_uses:
        for step in ledger.steps.values():
            if (step.thread, step.line, step.state) == (name, thread.line, "open"):
                done = (number for number in step.calls if ledger.effects[number].state == "done")
                ledger.uses |= {(number, ref) for number in done}
    return ref
