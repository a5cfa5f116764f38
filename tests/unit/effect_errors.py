"""How each error about tools, steps, plans and approvals comes about."""

from __future__ import annotations

import contextlib
import contextvars

from tests.unit.error_cases import CASES, World, case

import takeback
from takeback import errors

__all__ = ["CASES"]


def mail_tool(w: World, fate: BaseException | None = None, **said):
    """A tool whose calls cannot be undone, and what becomes of the first."""
    fates = [fate]

    def mail(to: str) -> str:
        if fates and (found := fates.pop()):
            raise found
        return f"sent to {to}"

    return declared(w, mail, None, describe="e-mail to {to}", **said)


def charge_tool(w: World, **said):
    def refund(account: str) -> None:
        """Taken back."""

    def charge(account: str, cents: int) -> int:
        return cents

    return declared(w, charge, None, undo=refund, describe="charge {account}", target="{account}", **said)


def declared(w: World, function, preset, **said):
    """A tool that the registry forgets after the test."""
    from takeback.tools import declare, registry

    w.patch.setattr(registry, "_tools", dict(registry._tools))
    w.patch.setattr(registry, "_undos", dict(registry._undos))
    return declare(function, preset, **said)


def mailed(w: World) -> takeback.Thread:
    """The thread after a step that sent something."""
    mail, trip = mail_tool(w), w.trip
    with trip.step("mail"):
        mail("ada")
    return trip


def unknown(w: World) -> takeback.Thread:
    """The thread with an open step and a call of which nobody knows."""
    mail, trip = mail_tool(w, ConnectionError("cut")), w.trip
    with contextlib.suppress(ConnectionError), trip.step("mail"):
        mail("ada")
    return trip


def waiting(w: World) -> takeback.Thread:
    """The thread with a call that waits for approval."""
    mail, trip = mail_tool(w, requires_approval=True), w.trip
    with contextlib.suppress(errors.ApprovalRequired), trip.step("mail"):
        mail("ada")
    return trip


@case(errors.NotDone, "card declined")
def not_done(w):
    mail = mail_tool(w, takeback.NotDone("card declined"))
    with w.trip.step("mail"):
        mail("ada")


# --- the request is wrong


@case(errors.NoStep, "mail was called where no step is open", "mail.raw(")
def no_step(w):
    mail_tool(w)("ada")


@case(errors.BadTool, "target='{acount}' names 'acount', which is no argument", "Its arguments: account")
def bad_tool(w):
    @takeback.tool(target="{acount}")
    def charge(account):
        """A misspelled template."""


@case(errors.ToolInTool, "mail was called inside another tool", "mail.raw(", thread="t")
def tool_in_tool(w):
    mail = mail_tool(w)
    outer = declared(w, lambda: mail("ada"), None, name="outer")
    with w.trip.step("mail"):
        outer()


@case(errors.EffectsDenied, "without the right to effects", "effects='guard'", thread="alt")
def effects_denied(w):
    mail = mail_tool(w)
    with w.trip.fork(name="alt").step("mail"):
        mail("ada")


@case(errors.NotForAgents, "a asked for #1", "Decide as another", thread="t")
def not_for_agents(w):
    waiting(w).approval(1).grant(actor="a")


@case(errors.BudgetExceeded, "charge ACME would bring money to 9 of 5", "the attempts", thread="t")
def budget_exceeded(w):
    charge, trip = charge_tool(w, cost="cents"), w.trip
    trip.budget({"money": 5})
    with trip.step("book"):
        charge("ACME", 9)


@case(
    errors.ReplayDiverged, "made no call e-mail to bob in its step 'mail'", "another run id",
    thread="t", checkpoint=2,
)  # fmt: skip
def replay_diverged(w):
    mail, trip = mail_tool(w), w.trip
    for to in ("ada", "bob"):
        with trip.run("job"), trip.step("mail"):
            mail(to)


# --- something moved, or somebody must decide


@case(errors.PlanRequired, "#1 (e-mail to ada) stays", "plan_rollback(…), then plan.apply", thread="t")
def plan_required(w):
    mailed(w).rollback(0)


@case(errors.Unacknowledged, "this stays: #1 (e-mail to ada)", "acknowledge=True", thread="t")
def unacknowledged(w):
    mailed(w).plan_rollback(0).apply()


@case(errors.Undecided, "#1 (e-mail to ada) is unknown", "effects resolve", thread="t")
def undecided(w):
    unknown(w).plan_rollback(0).apply(acknowledge=True)


@case(errors.RollbackInProgress, "a plan is being applied", "takeback recover", thread="t")
def rollback_in_progress(w):
    held_by_a_plan(w).patch({"n": 5})


@case(errors.PlanPaused, "the plan waits: 1 for a worker with refund@1", "takeback worker", thread="t")
def plan_paused(w):
    charged_elsewhere(w).plan_rollback(0).apply(wait=0)


@case(errors.HandlerMissing, "1 waits for a worker with refund@1", "--app module:name", thread="t")
def handler_missing(w):
    charged_elsewhere(w).plan_rollback(0).apply()


def charged_elsewhere(w: World) -> takeback.Thread:
    """A charge, in a process that does not know its undo any more."""
    from takeback.tools import registry

    charge, trip = charge_tool(w), w.trip
    with trip.step("book"):
        charge("ACME", 9)
    w.patch.setattr(registry, "_undos", {})
    w.patch.setattr(registry, "_tools", {})
    return trip


def held_by_a_plan(w: World) -> takeback.Thread:
    trip = charged_elsewhere(w)
    with contextlib.suppress(errors.PlanPaused):
        trip.plan_rollback(0).apply(wait=0)
    return trip


@case(errors.StepInProgress, "is in the step 'mail'", "wait=seconds", "take_over=True", thread="t")
def step_in_progress(w):
    with entered_elsewhere(w), w.trip.step("mail"):
        """Nobody gets here."""


@contextlib.contextmanager
def entered_elsewhere(w: World):
    """Another worker is in the step, and has called something."""
    mail, other = mail_tool(w), contextvars.Context()
    step = w.trip.step("mail")
    other.run(step.__enter__)
    other.run(mail, "ada")
    yield step
    other.run(step.__exit__, None, None, None)


@case(errors.StepLost, "the step 'mail' was taken over by", "enter the step again", thread="t")
def step_lost(w):
    with entered_elsewhere(w), contextlib.suppress(ZeroDivisionError), w.trip.step("mail", take_over=True):
        raise ZeroDivisionError


@case(errors.EffectUnknown, "whether #1 (e-mail to ada) happened", "effects resolve 1", thread="t")
def effect_unknown(w):
    mail = mail_tool(w, ConnectionError("cut"))
    for _ in range(2):
        with contextlib.suppress(ConnectionError), w.trip.step("mail"):
            mail("ada")


@case(errors.EffectTimeout, "#1 (e-mail to ada) took too long", "effects resolve 1", thread="t")
def effect_timeout(w):
    import threading

    over = threading.Event()
    slow = declared(w, lambda to: over.wait(60), None, name="mail", describe="e-mail to {to}", timeout=0.5)
    try:
        with w.trip.step("mail"):
            slow("ada")
    finally:
        over.set()


@case(errors.EffectUndone, "#1 (charge ACME) was made in this step and taken back", "redo=", thread="t")
def effect_undone(w):
    charge, trip = charge_tool(w), w.trip
    with contextlib.suppress(ZeroDivisionError), trip.step("book"):
        charge("ACME", 9)
        raise ZeroDivisionError
    trip.undo_effect(1)
    with trip.step("book"):
        charge("ACME", 9)


@case(errors.EffectUnreadable, "#1 (e-mail to ada) happened", "nobody has recorded it", thread="t")
def effect_unreadable(w):
    unknown(w).resolve(1, happened=True, actor="ada")
    mail = mail_tool(w)
    with w.trip.step("mail"):
        mail("ada")


@case(errors.EffectStands, "before e-mail to ada", "#1 (e-mail to ada, unknown)", "beside", thread="t")
def effect_stands(w):
    unknown(w)
    with w.trip.step("other"):
        mail_tool(w)("ada")


@case(errors.ApprovalRequired, "e-mail to ada waits for approval #1", "approvals grant 1", thread="t")
def approval_required(w):
    mail = mail_tool(w, requires_approval=True)
    with w.trip.step("mail"):
        mail("ada")


@case(errors.ApprovalDenied, "ada refused e-mail to ada: not now", "another one it can", thread="t")
def approval_denied(w):
    waiting(w).approval(1).deny("not now", actor="ada")
    mail = mail_tool(w, requires_approval=True)
    with w.trip.step("mail"):
        mail("ada")


@case(errors.ApprovalStale, "the request #1 (e-mail to ada) is denied", "approvals list", thread="t")
def approval_stale(w):
    asked = waiting(w).approval(1)
    asked.deny(actor="ada")
    asked.grant(actor="ada")


@case(errors.Paused, "Which seat? (question #1 waits", "thread.resume(answer)", thread="t")
def paused(w):
    with w.trip.step("seat"):
        w.trip.pause("Which seat?")
