"""The commands that take back: rollback, undo, redo, revert. A plan is shown before it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, Parser, add_app, add_reason, add_ref, completes

if TYPE_CHECKING:
    from takeback import Plan, Receipt, Thread
    from takeback.cli.session import Session

_EFFECTS = (
    "Where effects have to be undone, their tools are needed: --app, or a worker and --wait. What stays in "
    "the world has to be acknowledged: at the terminal by the yes, else with --acknowledge. "
)
_SCOPES = "state,effects,files,memory"
_KEPT = "Nothing is deleted: it makes a new version, and can itself be undone."


def add(to: Commands) -> None:
    rollback = to.add(
        "rollback",
        roll_back,
        "back",
        "Go back to a checkpoint",
        more=f"Prints the plan and asks before it does anything. {_EFFECTS}A rollback to the head takes a "
        f"half-done step back. {_KEPT}",
        example='takeback rollback 5 -m "wrong city" --app shop.tools',
    )
    add_ref(rollback, "the checkpoint whose state comes back")
    _add_habits(rollback)
    _add_files(rollback)
    rollback.add_argument("--files", action="store_true", help="only files go back, as --scope files")
    _add_effects(rollback)
    _add_keep(rollback)
    rollback.add_argument(
        "--scope", metavar="PARTS", help=f"only these go back: some of {_SCOPES} (default: all)"
    )
    rollback.add_argument("--orphans", action="store_true", help="also undo effects that no step claimed")
    rollback.add_argument("--take-shared", metavar="NUMBERS", help="also undo these, which a fork relies on")
    undo = to.add(
        "undo",
        take_last_back,
        "back",
        "Take the last operation back",
        more="One operation per call; a rollback, a merge and a revert are one each. With a bookmark, "
        f"exactly back to what it names. Asks only where it does more than restore. {_EFFECTS}{_KEPT}",
        example="takeback undo",
    )
    mark = undo.add_argument("bookmark", metavar="BOOKMARK", nargs="?", help="what to go back to (b5-…)")
    completes(mark, "none")
    _add_habits(undo)
    _add_files(undo)
    _add_effects(undo)
    _add_keep(undo)
    redo = to.add(
        "redo",
        bring_again,
        "back",
        "Bring again what the last undo took back",
        more="One undo per call; a new operation ends the redo. Asks only where it does more than restore. "
        f"What an undo took back in the world stays undone, but what --redo-effects names. {_KEPT}",
        example="takeback redo",
    )
    _add_habits(redo)
    _add_files(redo)
    _add_effects(redo)
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


def _add_effects(parser: Parser) -> None:
    add_app(parser)
    parser.add_argument(
        "--acknowledge", metavar="NUMBERS", help="what stays in the world is known: all, or numbers (2,5)"
    )
    parser.add_argument("--redo-effects", metavar="NUMBERS", help="do these again, which were undone")
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=float,
        help="how long a worker may take, where tools are missing",
    )


def _add_files(parser: Parser) -> None:
    for side, whose in (("ours", "as the checkpoint has it"), ("theirs", "as others left it")):
        action = parser.add_argument(
            f"--{side}",
            metavar="FILE",
            nargs="?",
            const="",
            action="append",
            help=f"what others changed too comes out {whose}: this file, or all",
        )
        completes(action, "file")
    parser.add_argument(
        "--git", action="store_true", help="take branches, HEAD and index back too; commits are kept"
    )


def _add_keep(parser: Parser) -> None:
    parser.add_argument("--keep", metavar="NUMBERS", help="leave these standing, although they can be undone")


def roll_back(session: Session) -> int:
    from takeback.cli.values import numbers
    from takeback.errors import BadRequest

    args = session.args
    if args.files and args.scope:
        raise BadRequest("--files is --scope files", hint="Give one of the two")
    thread = _prepared(session)
    plan = thread.plan_rollback(
        args.ref,
        scope=["files"] if args.files else args.scope.split(",") if args.scope else None,
        redo=numbers(args.redo_effects, "--redo-effects"),
        keep=numbers(args.keep, "--keep"),
        take_shared=numbers(args.take_shared, "--take-shared"),
        orphans=args.orphans,
        ours=_side(args.ours),
        theirs=_side(args.theirs),
        git=args.git,
    )
    return _carry_out(session, plan, asks=True)


def take_last_back(session: Session) -> int:
    from takeback.cli.values import numbers

    args = session.args
    redo, keep = numbers(args.redo_effects, "--redo-effects"), numbers(args.keep, "--keep")
    thread = _prepared(session)
    plan = thread.plan_undo(
        args.bookmark, redo=redo, keep=keep, ours=_side(args.ours), theirs=_side(args.theirs), git=args.git
    )
    return _carry_out(session, plan, asks=False)


def bring_again(session: Session) -> int:
    from takeback.cli.values import numbers

    args = session.args
    redo = numbers(args.redo_effects, "--redo-effects")
    thread = _prepared(session)
    plan = thread.plan_redo(redo=redo, ours=_side(args.ours), theirs=_side(args.theirs), git=args.git)
    return _carry_out(session, plan, asks=False)


def revert_one(session: Session) -> int:
    return _carry_out(session, session.thread().plan_revert(session.args.ref), asks=True)


def _prepared(session: Session) -> Thread[Any]:
    """The thread, with the tools of the app, which a plan counts on."""
    session.load_app()
    return session.files_thread("before going back")


def _side(given: list[str] | None) -> bool | list[str]:
    """`--ours` alone is for all files, with a name for that one."""
    return False if not given else True if "" in given else given


def _carry_out(session: Session, plan: Plan, *, asks: bool) -> int:
    """Show the plan, ask, do exactly that, and say how it is reversed; or only the first of these."""
    from takeback.cli.ask import confirmed, reason

    if session.args.plan:
        show_plan(session, plan)
        return 0
    why, known = session.args.reason, _acknowledged(session)
    # Where it cannot be applied there is nothing to agree to: applying it says why.
    if (asks or not plan.calm) and not session.args.yes and not _hopeless(session, plan):
        if session.interactive():
            show_plan(session, plan)
        if not confirmed(session, "Go ahead?", plan.kind):
            return 1
        known = True  # what stays was shown, and agreed to
        why = why if why is not None else reason(session)
    wait = getattr(session.args, "wait", None)
    with session.out.aside():
        receipt = plan.apply(why, acknowledge=known, wait=wait)
    show_receipt(session, plan, receipt)
    return 0


def _acknowledged(session: Session) -> bool | list[int]:
    from takeback.cli.values import numbers

    given = getattr(session.args, "acknowledge", None)
    return True if given == "all" else numbers(given, "--acknowledge")


def _hopeless(session: Session, plan: Plan) -> bool:
    """Whether applying it would refuse, whatever is answered."""
    waits = bool(plan.waits) and getattr(session.args, "wait", None) is None
    return bool(plan.conflicts or plan.effects.unsettled or waits)


def show_plan(session: Session, plan: Plan) -> None:
    out = session.out
    if out.json:
        out.document(plan.as_dict())
        return
    out.line((f"plan: {_aim(plan)}", "bold"))
    if not _show_parts(session, plan):
        out.lines(["the state does not change"])
    for text in plan.obstacles:
        out.line("  ", (text, "yellow"))


def show_receipt(session: Session, plan: Plan, receipt: Receipt) -> None:
    out, made = session.out, receipt.checkpoint
    if out.json:
        out.document(receipt.as_dict())
        return
    out.line((f"✓ {_aim(plan)}", "bold green"))
    if not _show_parts(session, plan, 20):
        out.lines(["the state did not change"])
    for ref in receipt.kept_refs:
        out.line("  ", (f"what it was is kept as {ref}", "dim"))
    out.line("now at version ", (str(made.version), "bold"), " (", (made.id, "cyan"), ")")
    reverse = "redo" if made.kind == "undo" else "undo"
    out.line("to reverse: ", (session.again(reverse), "bold"))
    out.line("   or later: ", (session.again("undo", receipt.bookmark), "bold"))


def _show_parts(session: Session, plan: Plan, limit: int | None = None) -> bool:
    """What each part does, under its name where more than one does something; whether any does."""
    found = [(part.name, lines) for part in plan.parts if (lines := part.lines(limit))]
    alone = len(found) == 1 and found[0][0] == "state"
    for name, lines in found:
        if not alone:
            session.out.line("  ", (name, "dim"))
        session.out.lines(lines, indent="  " if alone else "    ")
    return bool(found)


def _aim(plan: Plan) -> str:
    """What a plan is for, in a line."""
    thread, target = plan.thread, plan.target.version
    if plan.kind == "merge":
        return f"merge {plan.target.thread} (version {target}) into {thread}"
    if plan.kind == "revert":
        return f"take version {target} of {thread} back, and keep what came after it"
    if plan.kind == "undo" and plan.undoes is not None:
        what = plan.undoes.step or plan.undoes.kind
        return f"undo version {plan.undoes.version} of {thread} ({what}): back to version {target}"
    if plan.kind == "redo":
        return f"redo on {thread}: forward to version {target}"
    return f"{'roll back' if plan.kind == 'rollback' else plan.kind} {thread} to version {target}"
