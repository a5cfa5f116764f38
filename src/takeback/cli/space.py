"""The commands about space: du, gc."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, add_reason, completes

if TYPE_CHECKING:
    from collections.abc import Callable

    from takeback import Pruning
    from takeback.cli.output import Part
    from takeback.cli.session import Session
    from takeback.coding.budget import Budget

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}


def add(to: Commands) -> None:
    to.add(
        "du",
        show_weights,
        "move",
        "Show what takes space",
        more="For each thread, what its state and its files take as they are stored. What threads share is "
        "counted for each of them.",
        example="takeback du",
    )
    gc = to.add(
        "gc",
        collect,
        "move",
        "Remove what no thread needs any more",
        more="The objects of deleted threads, and of files that were given up, go; the space goes back to "
        "the system a piece at a time. May be interrupted, and run while others write.\n\n"
        "With --budget, the files of the oldest versions of the thread are given up first, so that those of "
        "the others fit into it. The versions stay, with their state, and say that their files are gone; "
        "what a label names stays whole. That cannot be undone, so it asks.\n\n"
        "In a directory that takeback looks after, --always keeps to the budget from now on, with the same "
        "--keep and --grace: the watcher applies it, without asking, when it leaves because nobody needs it.",
        example="takeback gc --budget 500MB",
    )
    budget = gc.add_argument(
        "--budget", metavar="SIZE", help="what the files of the thread may take, as 500MB"
    )
    completes(budget, "none")
    keep = gc.add_argument(
        "--keep",
        metavar="N",
        type=int,
        default=20,
        help="whose files stay: the newest N versions (default: 20)",
    )
    completes(keep, "none")
    grace = gc.add_argument(
        "--grace",
        metavar="MINUTES",
        type=int,
        default=60,
        help="leave what was written within so many minutes (default: 60)",
    )
    completes(grace, "none")
    gc.add_argument(
        "--always",
        action="store_true",
        help="in a workspace: keep to this budget from now on, whenever its watcher rests",
    )
    gc.add_argument("--no-budget", action="store_true", help="in a workspace: keep to none any more")
    gc.add_argument("--plan", action="store_true", help="only print whose files would be given up")
    gc.add_argument("--yes", action="store_true", help="do not ask")
    add_reason(gc)


def show_weights(session: Session) -> int:
    from takeback.cli.words import count, runs, size

    out, repo = session.out, session.repo()
    weights, details = repo.du(), repo.info().details
    taken, limit = details.get("bytes"), _budget(session)
    if out.json:
        said = {"store_bytes": taken, "threads": [weight.as_dict() for weight in weights]}
        out.document(said | {"budget": None if limit is None else limit.size})
        return 0
    rows: list[list[Part]] = [
        [(w.thread, "bold"), f"{w.versions:,}", size(w.state), size(w.files), runs(w.pruned)] for w in weights
    ]
    if rows:
        out.table(("thread", "versions", "state", "files", "files given up"), rows, folds=(0, 4))
    else:
        out.line("no threads")
    if taken is not None:
        out.line(f"the store takes {size(taken)}")
    if limit is not None:
        whole = count(limit.keep, "version")
        out.line(f"its watcher keeps files to {size(limit.size)}, and whole those of the newest {whole}")
    return 0


def _budget(session: Session) -> Budget | None:
    """What the watcher of this directory keeps to."""
    around = session.place().workspace
    if around is None:
        return None
    from takeback.coding import budget

    return budget.read(around[1])


def collect(session: Session) -> int:
    """Give up what does not fit into the budget, if one is given; then remove what nothing needs."""
    from takeback.cli.words import count, size
    from takeback.errors import BadRequest

    args, out = session.args, session.out
    for option, number in (("--keep", args.keep - 1), ("--grace", args.grace)):
        if number < 0:
            raise BadRequest(f"{option} is less than it may be", hint="See `takeback gc --help`")
    if (args.always and (args.budget is None or args.plan)) or (args.no_budget and args.budget is not None):
        raise BadRequest("--always keeps to a --budget, and --no-budget to none", hint="Give one of the two")
    if args.no_budget:
        _keep_to(session, None)
    pruning = None
    if args.budget is not None or args.plan:
        pruning = _pruned(session)
        if pruning is None:
            return 1
        if args.plan:
            return 0
    if args.always:
        _keep_to(session, _size(args.budget))
    done = session.repo().gc(grace=args.grace, progress=_progress(session))
    if out.terminal:
        sys.stderr.write("\r\033[K")  # the line of progress
    if out.json:
        said = {"pruned": None if pruning is None else pruning.as_dict()}
        out.document(done.as_dict() | said)
        return 0
    out.line(f"looked at {count(done.objects, 'object')}, removed {done.removed:,}: {size(done.freed)}")
    return 0


def _keep_to(session: Session, size: int | None) -> None:
    """What the watcher of this directory keeps to from now on."""
    from takeback.coding import budget
    from takeback.errors import BadRequest

    args, around = session.args, session.place().workspace
    if around is None:
        raise BadRequest(
            "only a workspace has a watcher that keeps to a budget",
            hint="Run `takeback gc --budget SIZE` by a timer instead",
        )
    budget.write(around[1], None if size is None else budget.Budget(size, args.keep, args.grace))
    if not session.out.json:
        session.out.line("keeps to no budget" if size is None else f"keeps to {args.budget} from now on")


def _pruned(session: Session) -> Pruning | None:
    """Show whose files will go, ask, give them up; None if the answer was no."""
    from takeback.cli.ask import confirmed
    from takeback.cli.words import count, runs, size
    from takeback.errors import BadRequest

    args, out = session.args, session.out
    if args.budget is None:
        raise BadRequest("--plan shows what a budget would give up", hint="Give --budget")
    budget, thread = _size(args.budget), session.thread()
    plan = thread.plan_prune(budget, keep=args.keep)
    told = (
        f"gives up the files of {count(plan.versions, 'version')} of {thread.name}: {runs(plan.runs)}; "
        f"{size(plan.kept)} of files stay"
    )
    if not plan.runs:
        told = f"the files of {thread.name} take {size(plan.kept)}: nothing has to go"
    if args.plan and out.json:
        out.document(plan.as_dict())
    elif not out.json:
        out.line(told)
    if args.plan or not plan.runs:
        return plan
    if not args.yes and not confirmed(session, "Go ahead? This cannot be undone.", "gc --budget"):
        return None
    return thread.prune(budget, keep=args.keep, reason=args.reason)


def _progress(session: Session) -> Callable[[str, int], None] | None:
    """A line that is written over while it goes on, on a terminal."""
    if not session.out.terminal:
        return None

    def tell(what: str, so_far: int) -> None:
        sys.stderr.write(f"\r{what} {so_far:,} objects\033[K")
        sys.stderr.flush()

    return tell


def _size(text: str) -> int:
    """500MB, 2GB, 100000: bytes."""
    from takeback.errors import BadRequest

    bare = text.strip().lower().removesuffix("b")
    unit = bare[-1:] if bare[-1:] in _UNITS else ""
    try:
        number = float(bare.removesuffix(unit)) * _UNITS[unit]
        if not 0 <= number < 2**63:
            raise ValueError
        return int(number)
    except ValueError:
        raise BadRequest(f"{text!r} is no size", hint="For example 500MB or 2GB") from None
