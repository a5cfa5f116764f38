"""The commands for other lines: fork, merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, add_reason, add_ref, completes

if TYPE_CHECKING:
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    fork = to.add(
        "fork",
        fork_thread,
        "lines",
        "Begin a new thread at a checkpoint of this one",
        more="The original is untouched, and what both share is stored once. It is merged back with "
        "`takeback merge`. What it may do to the world: nothing (deny), only what does not stand already "
        "for one of the family (guard), or anything (allow).",
        example="takeback fork 3 --name travel/42-boston",
    )
    add_ref(fork, "where it begins (default: head)", default="head")
    fork.add_argument("--name", metavar="NAME", help="the new thread's name (default: a fresh one)")
    fork.add_argument("--agent", metavar="NAME", help="its agent (default: that of the original)")
    fork.add_argument("--user", metavar="NAME", help="its user (default: that of the original)")
    fork.add_argument(
        "--effects",
        metavar="RIGHTS",
        choices=("deny", "guard", "allow"),
        default="deny",
        help="what it may do to the world: deny, guard or allow (default: deny)",
    )
    add_reason(fork)
    merge = to.add(
        "merge",
        merge_thread,
        "lines",
        "Bring in what another thread did",
        more="A fork, or the thread it came from. What both changed differently is a conflict: it is "
        "listed, exit code 4, and nothing is done. It can be undone like any other operation.",
        example="takeback merge travel/42-boston --thread travel/42",
    )
    completes(merge.add_argument("other", metavar="OTHER", help="the thread to bring in"), "thread")
    merge.add_argument("--plan", action="store_true", help="only print what it would do")
    add_reason(merge)


def fork_thread(session: Session) -> int:
    args, out, thread = session.args, session.out, session.thread()
    source = thread.at(args.ref).checkpoint
    made = thread.fork(
        source, args.name, agent=args.agent, user=args.user, reason=args.reason, effects=args.effects
    )
    if out.json:
        out.document({"thread": made.info.as_dict(), "checkpoint": made.head.as_dict()})
    else:
        out.line((made.name, "bold"), f" begins with the state of {thread.name} at version {source.version}")
    return 0


def merge_thread(session: Session) -> int:
    from takeback.cli.back import show_plan, show_receipt

    args, out, thread = session.args, session.out, session.thread()
    plan = thread.plan_merge(args.other)
    if plan is None:
        if out.json:
            out.document({"merged": False, "checkpoint": thread.head.as_dict()})
        else:
            out.line(f"{thread.name} has all that {args.other} did")
    elif args.plan:
        show_plan(session, plan)
    else:
        show_receipt(session, plan, plan.apply(args.reason))
    return 0
