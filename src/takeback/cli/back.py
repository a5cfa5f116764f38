"""The commands that take back: rollback, undo, redo, revert. A plan is shown before it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, Parser, add_reason, add_ref, completes

if TYPE_CHECKING:
    from takeback import Plan, Receipt
    from takeback.cli.session import Session

_KEPT = "Nothing is deleted: it makes a new version, and can itself be undone."


def add(to: Commands) -> None:
    rollback = to.add(
        "rollback",
        roll_back,
        "back",
        "Go back to a checkpoint",
        more=f"Prints the plan and asks before it does anything. {_KEPT}",
        example='takeback rollback 5 -m "wrong city"',
    )
    add_ref(rollback, "the checkpoint whose state comes back")
    _add_habits(rollback)
    undo = to.add(
        "undo",
        take_last_back,
        "back",
        "Take the last operation back",
        more="One operation per call; a rollback, a merge and a revert are one each. With a bookmark, "
        f"exactly back to what it names. Does not ask. {_KEPT}",
        example="takeback undo",
    )
    mark = undo.add_argument("bookmark", metavar="BOOKMARK", nargs="?", help="what to go back to (b5-…)")
    completes(mark, "none")
    _add_habits(undo)
    redo = to.add(
        "redo",
        bring_again,
        "back",
        "Bring again what the last undo took back",
        more=f"One undo per call; a new operation ends the redo. Does not ask. {_KEPT}",
        example="takeback redo",
    )
    _add_habits(redo)
    revert = to.add(
        "revert",
        revert_one,
        "back",
        "Take one version alone back",
        more="What came after it stays. If something was built on it, the conflicts are named and "
        f"nothing is done. Prints the plan and asks. {_KEPT}",
        example="takeback revert 5 -m 'the hotel is closed'",
    )
    add_ref(revert, "the version to take back")
    _add_habits(revert)


def _add_habits(parser: Parser) -> None:
    parser.add_argument("--plan", action="store_true", help="only print what it would do")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_reason(parser)


def roll_back(session: Session) -> int:
    return _carry_out(session, session.thread().plan_rollback(session.args.ref), asks=True)


def take_last_back(session: Session) -> int:
    return _carry_out(session, session.thread().plan_undo(session.args.bookmark), asks=False)


def bring_again(session: Session) -> int:
    return _carry_out(session, session.thread().plan_redo(), asks=False)


def revert_one(session: Session) -> int:
    return _carry_out(session, session.thread().plan_revert(session.args.ref), asks=True)


def _carry_out(session: Session, plan: Plan, *, asks: bool) -> int:
    """Show the plan, ask, do exactly that, and say how it is reversed; or only the first of these."""
    from takeback.cli.ask import confirmed, reason

    if session.args.plan:
        show_plan(session, plan)
        return 0
    why = session.args.reason
    # With conflicts there is nothing to agree to: applying it says what they are.
    if asks and not session.args.yes and not plan.conflicts:
        if session.interactive():
            show_plan(session, plan)
        if not confirmed(session, "Go ahead?", plan.kind):
            return 1
        why = why if why is not None else reason(session)
    show_receipt(session, plan, plan.apply(why))
    return 0


def show_plan(session: Session, plan: Plan) -> None:
    out = session.out
    if out.json:
        out.document(plan.as_dict())
        return
    out.line((f"plan: {_aim(plan)}", "bold"))
    out.lines(plan.lines() or ["the state does not change"])


def show_receipt(session: Session, plan: Plan, receipt: Receipt) -> None:
    out, made = session.out, receipt.checkpoint
    if out.json:
        out.document(receipt.as_dict())
        return
    out.line((f"✓ {_aim(plan)}", "bold green"))
    out.lines(plan.lines(20) or ["the state did not change"])
    for standing in receipt.standing:
        out.line("  ", (f"stays: {standing}", "yellow"))
    out.line("now at version ", (str(made.version), "bold"), " (", (made.id, "cyan"), ")")
    reverse = "redo" if made.kind == "undo" else "undo"
    out.line("to reverse: ", (session.again(reverse), "bold"))
    out.line("   or later: ", (session.again("undo", receipt.bookmark), "bold"))


def _aim(plan: Plan) -> str:
    """What a plan is for, in a line."""
    thread, target = plan.thread, plan.target.version
    if plan.kind == "merge":
        return f"merge {plan.target.thread} (version {target}) into {thread}"
    if plan.kind == "revert":
        return f"take version {target} of {thread} back, and keep what came after it"
    if plan.kind == "undo" and plan.undoes is not None:
        return (
            f"undo version {plan.undoes.version} of {thread} ({plan.undoes.kind}): back to version {target}"
        )
    if plan.kind == "redo":
        return f"redo on {thread}: forward to version {target}"
    return f"{'roll back' if plan.kind == 'rollback' else plan.kind} {thread} to version {target}"
