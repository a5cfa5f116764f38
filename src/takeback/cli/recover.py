"""The commands for after a crash: what it left, what settles itself, and plans that stopped on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, add_app, add_number, add_reason

if TYPE_CHECKING:
    from takeback import PendingPlan, Recovery
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    family = to.family("recover", "What a crash left, and what stopped on its way")
    family.add(
        "list",
        list_left,
        "world",
        "List what waits for somebody",
        more="Open steps, calls whose outcome nobody knows, plans that have not ended, and what people were "
        "asked: of the whole store, or of one thread if it is named. Reads only.",
        example="takeback recover list",
    )
    settle = family.add(
        "settle",
        settle_left,
        "world",
        "Settle what settles itself, and list the rest",
        more="Calls whose worker is gone become unknown; where a tool has a probe, its provider is asked; "
        "plans go on as far as the tools reach.",
        example="takeback recover settle --app shop.tools",
    )
    add_app(settle)
    retry = family.add(
        "retry",
        retry_line,
        "world",
        "Try again what a plan is paused at",
        more="The plan then goes on, as far as the tools reach. Exit code 4 while it has not ended.",
        example="takeback recover retry 3 --app shop.tools",
    )
    add_number(retry, "the number of the effect")
    add_app(retry)
    accept = family.add(
        "accept",
        accept_line,
        "world",
        "Let a plan go on without what it is paused at",
        more="The effect stays as it is, and is named wherever the world and the history are compared.",
        example="takeback recover accept 3 --app shop.tools",
    )
    add_number(accept, "the number of the effect")
    add_app(accept)
    abort = family.add(
        "abort",
        abort_plan,
        "world",
        "Give up a plan that has begun",
        more="Restores nothing and frees the thread. What the plan undid stays undone, and shows as a "
        "difference; a note in the history says so. Asks first.",
        example="takeback recover abort -m 'the provider is closed'",
    )
    abort.add_argument("--yes", action="store_true", help="do not ask")
    add_reason(abort)


def list_left(session: Session) -> int:
    return _show(session, session.repo().recover(settle=False))


def settle_left(session: Session) -> int:
    session.load_app()
    repo = session.repo()
    with session.out.aside():
        found = repo.recover()
    return _show(session, found)


def retry_line(session: Session) -> int:
    return _gone_on(session, "retry")


def accept_line(session: Session) -> int:
    return _gone_on(session, "accept")


def abort_plan(session: Session) -> int:
    from takeback.cli.ask import confirmed

    plan = _plan(session)
    if not session.args.yes:
        if session.interactive():
            _show_plan(session, plan)
        if not confirmed(session, "Give it up, and restore nothing?", "recover abort"):
            return 1
    return _told(session, plan.abort(session.args.reason))


def _gone_on(session: Session, what: str) -> int:
    session.load_app()
    plan, number = _plan(session), session.args.number
    with session.out.aside():
        after = plan.retry(number) if what == "retry" else plan.accept(number)
    return _told(session, after)


def _plan(session: Session) -> PendingPlan:
    """The plan that has begun on the thread that was named, or the only one of the store."""
    from takeback.errors import BadRequest, NotFound

    plans = _of_thread(session, session.repo().recover(settle=False)).plans
    if not plans:
        raise NotFound("no plan has stopped on its way", thread=session.named, hint="`takeback recover list`")
    if len(plans) > 1:
        threads = ", ".join(repr(plan.thread) for plan in plans)
        raise BadRequest(f"plans of more than one thread have begun: {threads}", hint="Name one: --thread")
    return plans[0]


def _of_thread(session: Session, found: Recovery) -> Recovery:
    """What concerns the thread that was named, if one was."""
    name = session.named
    if name is not None:
        found.steps = [step for step in found.steps if step.thread == name]
        found.effects = [effect for effect in found.effects if found.thread_of(effect) == name]
        found.plans = [plan for plan in found.plans if plan.thread == name]
        found.approvals = [each for each in found.approvals if each.thread == name]
    return found


def _show(session: Session, found: Recovery) -> int:
    out = session.out
    found = _of_thread(session, found)
    if out.json:
        out.document({"clean": found.clean} | found.as_dict())
        return 0
    for text in found.settled:
        out.line(("settled  ", "green"), text)
    for step in found.steps:
        calls = ", ".join(f"#{number}" for number in step.effects)
        at_work = (
            f"{step.worker} is in it" if step.worker else "nobody is in it; enter it again, or roll back"
        )
        out.line(("step     ", "yellow"), f"{step.thread}: {step.label!r} ({calls or 'no calls'}), {at_work}")
    for effect in found.effects:
        name = found.thread_of(effect)
        said = f"{name}: #{effect.number} ({effect.shown}): {effect.state.replace('_', ' ')}"
        out.line(("effect   ", "red"), said + (f": {effect.error}" if effect.error else ""))
        if effect.state in ("unknown", "undo_unknown"):
            words = ("effects", "resolve", str(effect.number), "--happened")
            out.line("         ", (session.again(*words, thread=name) + "   or --did-not", "dim"))
    for plan in found.plans:
        _show_plan(session, plan)
    for approval in found.approvals:
        out.line(("asked    ", "cyan"), f"{approval.thread}: #{approval.number} {approval.shown}")
    if found.clean:
        out.line("nothing waits for anybody")
    return 0


def _show_plan(session: Session, plan: PendingPlan) -> None:
    out = session.out
    out.line(("plan     ", "yellow"), str(plan))
    out.lines(plan.lines(), indent="           ")
    for number in plan.stuck:
        typed = session.again("recover", "retry", str(number), thread=plan.thread)
        out.line("         ", (f"{typed}   or accept, or abort", "dim"))


def _told(session: Session, plan: PendingPlan) -> int:
    if session.out.json:
        session.out.document({"plan": plan.as_dict()})
    else:
        session.out.line(str(plan))
        session.out.lines(plan.lines())
    return 0 if plan.state in ("applied", "aborted") else 4
