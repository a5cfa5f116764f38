"""The commands about effects: what was done to the world, what became of it, and one taken back by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_app, add_number

if TYPE_CHECKING:
    from takeback import Effect, Thread
    from takeback.cli.session import Session

_STYLES = {
    "unknown": "red",
    "undo_unknown": "red",
    "undo_failed": "red",
    "begun": "yellow",
    "undoing": "yellow",
}


def add(to: Commands) -> None:
    family = to.family("effects", "What the agent did to the world, and what became of it")
    listed = family.add(
        "list",
        list_effects,
        "world",
        "List what a thread did to the world",
        more="Below the table stands where the world and the history differ, and what the budgets hold.",
        example="takeback effects list --open",
    )
    listed.add_argument("--open", action="store_true", help="only what waits for somebody")
    shown = family.add(
        "show",
        show_effect,
        "world",
        "Show all that is recorded of an effect",
        more="Arguments, result, key, tries, decisions, and the versions whose history believes in it.",
        example="takeback effects show 3",
    )
    add_number(shown, "the number of the effect")
    resolve = family.add(
        "resolve",
        resolve_effect,
        "world",
        "Say what happened to an unknown effect",
        more="For people who have looked, never for the agent: who made the call is refused. That it did "
        "not happen is refused until its deadline, because the call may still be on its way. Of an "
        "unknown undo, --happened means that the undo did.",
        example="takeback effects resolve 3 --happened",
    )
    add_number(resolve, "the number of the effect")
    word = resolve.add_mutually_exclusive_group(required=True)
    word.add_argument("--happened", action="store_true", help="it did")
    word.add_argument("--did-not", action="store_true", help="nothing happened")
    word.add_argument("--undone", action="store_true", help="it happened, and was taken back by hand")
    undo = family.add(
        "undo",
        undo_effect,
        "world",
        "Take one effect back by itself",
        more="The state does not change: the history goes on believing in it, and shows the difference. "
        "To go back with state and effects together, use `takeback rollback`. Asks first.",
        example="takeback effects undo 3 --app shop.tools",
    )
    add_number(undo, "the number of the effect")
    undo.add_argument("--yes", action="store_true", help="do not ask")
    add_app(undo)
    _add_limits(family)


def _add_limits(family: Commands) -> None:
    limits = family.add(
        "limits",
        set_limits,
        "world",
        "Show or set what a thread may do to the world",
        more="Budgets are of a thread and its forks together: on what stands (an undo gives that back), or "
        "attempts, on how often anything was tried. On autopilot, what cannot be undone waits for "
        "approval.",
        example="takeback effects limits --budget money=10000 --autopilot on",
    )
    limits.add_argument(
        "--budget",
        metavar="NAME=LIMIT",
        action="append",
        default=[],
        help="a limit, on money or attempts",
    )
    limits.add_argument("--autopilot", metavar="WHEN", choices=("on", "off"), help="on or off")


def list_effects(session: Session) -> int:
    thread, out = session.thread(), session.out
    found = [e for e in thread.effects() if e.live or not session.args.open]
    differences, budgets = thread.discrepancies(), thread.budget()
    if out.json:
        out.document(
            {
                "thread": thread.name,
                "effects": [effect.as_dict() for effect in found],
                "discrepancies": differences.as_dict(),
                "budgets": _budgets(budgets),
            }
        )
        return 0
    if found:
        out.table(("#", "what", "state", "step", "version", "undo"), [_row(e) for e in found], folds=(1, 3))
    else:
        out.line("nothing waits for anybody" if session.args.open else "no effects are recorded")
    if lines := differences.lines():
        out.line()
        out.line(("the world and this history differ:", "yellow"))
        out.lines(lines)
    for name, (spent, limit) in sorted(budgets.items()):
        out.line(f"budget {name}: {spent:,} of {limit:,}")
    return 0


def show_effect(session: Session) -> int:
    from takeback.cli.output import dumps

    thread, out, number = session.thread(), session.out, session.args.number
    record = thread.effect_record(number)
    if out.json:
        out.document({"thread": thread.name, "effect": record})
        return 0
    effect = thread.effect(number)
    out.line(
        (f"#{effect.number} ", "bold"), effect.shown, "  ", (_state(effect), _STYLES.get(effect.state, ""))
    )
    facts: list[tuple[str, Any]] = [
        ("tool", f"{effect.tool}@{effect.version}"),
        ("arguments", dumps(record["args"], indent=None)),
        ("result", dumps(record["result"], indent=None) if "result" in record else None),
        ("result lost", effect.unreadable),
        ("error", effect.error and (effect.error, "red")),
        ("before", dumps(record["before"], indent=None) if "before" in record else None),
        ("after", dumps(record["after"], indent=None) if "after" in record else None),
        ("target", record["target"]),
        ("key", (effect.key, "cyan")),
        ("repeat", effect.repeat),
        ("undo", effect.undo or "none: it cannot be undone"),
        ("step", effect.label),
        ("run", effect.run),
        ("versions", ", ".join(str(version) for version in record["versions"])),
        ("attempts", str(effect.attempts)),
        ("begun", record["intent"]),
        ("deadline", record["deadline"] if effect.live else None),
        ("settled", record["settled"]),
        ("cost", ", ".join(f"{name} {amount:,}" for name, amount in effect.cost.items())),
        ("actor", effect.actor),
        ("trace", effect.trace_id),
        *[("decision", f"{d.what} ({d.by or 'nobody named'})") for d in effect.decisions],
        *[("came late", text) for text in effect.late],
    ]
    out.facts(facts)
    return 0


def resolve_effect(session: Session) -> int:
    args, thread = session.args, session.thread()
    happened = None if args.undone else bool(args.happened)
    return _settled(session, thread, thread.resolve(args.number, happened=happened, undone=args.undone))


def undo_effect(session: Session) -> int:
    from takeback.cli.ask import confirmed

    session.load_app()
    thread, number = session.thread(), session.args.number
    effect = thread.effect(number)
    if not session.args.yes and not confirmed(
        session, f"Call {effect.undo or 'its undo'} for #{number} ({effect.shown})?", "effects undo"
    ):
        return 1
    with session.out.aside():
        undone = thread.undo_effect(number)
    return _settled(session, thread, undone)


def set_limits(session: Session) -> int:
    from takeback.cli.values import pairs
    from takeback.errors import BadRequest

    args, out, thread = session.args, session.out, session.thread()
    given = pairs(args.budget, "--budget")
    for name, limit in given.items():
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise BadRequest(
                f"--budget {name}={limit} is no limit", hint="A whole number: --budget money=10000"
            )
    if args.autopilot:
        thread.set_autopilot(args.autopilot == "on")
    budgets, autopilot = thread.budget(given), thread.autopilot
    if out.json:
        out.document({"thread": thread.name, "autopilot": autopilot, "budgets": _budgets(budgets)})
        return 0
    out.line("autopilot ", ("on" if autopilot else "off", "bold"))
    for name, (spent, limit) in sorted(budgets.items()):
        out.line(f"budget {name}: {spent:,} of {limit:,}")
    if not budgets:
        out.line("no budgets")
    return 0


def _settled(session: Session, thread: Thread[Any], effect: Effect) -> int:
    if session.out.json:
        session.out.document({"thread": thread.name, "effect": effect.as_dict()})
    else:
        session.out.line((f"#{effect.number} ", "bold"), effect.shown, " is ", (_state(effect), "bold"))
    return 0


def _row(effect: Effect) -> tuple[Any, ...]:
    versions = ", ".join(str(use.version) for use in effect.uses)
    state = (_state(effect), _STYLES.get(effect.state, "dim" if effect.state == "undone" else ""))
    return (
        (str(effect.number), "bold"),
        effect.shown,
        state,
        effect.label,
        versions or "–",
        effect.undo or "–",
    )


def _state(effect: Effect) -> str:
    return effect.state.replace("_", " ") + (
        ", claimed by no step" if effect.orphan and effect.may_stand else ""
    )


def _budgets(budgets: dict[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    return {name: {"spent": spent, "limit": limit} for name, (spent, limit) in budgets.items()}
