"""Plans: the difference between what stands and what a history believes, each effect in one group."""

from __future__ import annotations

from takeback.testing.effects.calls import relied_on
from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.records import Effect, Plan, Refused
from takeback.testing.effects.tools import TOOLS

GROUPS = (
    "blocked",
    "decide",
    "same",
    "compensate",
    "stays",
    "orphan",
    "shared",
    "foreign",
    "missing",
    "nothing",
)
"""`nothing`: neither stands nor is believed; counted, so that every effect is in every plan."""


def make(
    ledger: Ledger, name: str, target: int, scope: str, *, shared: bool, orphans: bool, redo: bool
) -> Plan:
    """What going to this version would mean. Nothing happens."""
    groups = group(ledger, name, target, shared=shared, orphans=orphans)
    number = len(ledger.plans) + 1
    head = ledger.threads[name].head
    plan = Plan(number, name, head, target, scope, shared, orphans, redo, groups, seen(ledger, name, groups))
    ledger.plans[number] = plan
    return plan


def seen(ledger: Ledger, name: str, groups: dict[str, tuple[int, ...]]) -> tuple[object, ...]:
    """The head, and each effect with its group and state."""
    states = [
        (key, number, ledger.effects[number].state, ledger.effects[number].redos)
        for key in GROUPS
        for number in groups[key]
    ]
    return (ledger.threads[name].head, *states)


def group(
    ledger: Ledger, name: str, target: int, *, shared: bool = False, orphans: bool = False
) -> dict[str, tuple[int, ...]]:
    """Every effect that concerns the thread, or that the target believes, in exactly one group."""
    believed = ledger.believed((name, target))
    found: dict[str, list[int]] = {key: [] for key in GROUPS}
    for number in sorted(ledger.concerned(name) | believed):
        effect = ledger.effects[number]
        if ledger.rules.plan_by_belief:
            believes = number in believed
        else:
            believes = _closed_before(ledger, name, target, number)
        place = _place(ledger, name, effect, believes=believes, shared=shared, orphans=orphans)
        found[place].append(number)
    return {key: tuple(numbers) for key, numbers in found.items()}


def _closed_before(ledger: Ledger, name: str, target: int, number: int) -> bool:
    """What a plan by version range takes belief for: a use on this thread up to that version."""
    return any(use == number and at[0] == name and at[1] <= target for use, at in ledger.uses)


def _place(ledger: Ledger, name: str, effect: Effect, *, believes: bool, shared: bool, orphans: bool) -> str:
    """The first row of the table that fits."""
    if effect.owner != name and ledger.rules.owner_alone_undoes:
        return _foreign(effect, believes)
    if effect.state in ("begun", "undoing"):
        return "blocked"
    if effect.state in ("unknown", "undo_unknown"):
        return "decide"
    if effect.state in ("failed", "undone"):
        return "missing" if believes and effect.state == "undone" else "nothing"
    if believes:
        return "same"
    if effect.unclaimed and not ledger.used(effect) and not orphans and ledger.rules.orphans_are_listed:
        return "orphan"
    if not shared and ledger.rules.shared_is_kept and relied_on(ledger, effect):
        return "shared"
    return "compensate" if TOOLS[effect.tool].undo else "stays"


def _foreign(effect: Effect, believes: bool) -> str:
    """Another thread's effect is named and left alone, whatever its state."""
    if effect.state in ("failed", "undone"):
        return "missing" if believes and effect.state == "undone" else "nothing"
    return "same" if believes else "foreign"


def check(ledger: Ledger, plan: Plan, acknowledge: bool) -> None:
    """Whether it may be applied: as seen, nothing in flight or undecided, what stays acknowledged."""
    ledger.writable(plan.thread)
    if plan.state != "open":
        raise Refused("plan_over", plan.number)
    now = group(ledger, plan.thread, plan.target, shared=plan.shared, orphans=plan.orphans)
    if ledger.rules.plan_is_current and seen(ledger, plan.thread, now) != plan.seen:
        raise Refused("plan_stale", plan.number)
    if plan.groups["blocked"] or plan.groups["decide"]:
        raise Refused("undecided", *plan.groups["blocked"], *plan.groups["decide"])
    stays = plan.groups["compensate"] * (plan.scope == "state") + plan.groups["stays"]
    if stays and not acknowledge and ledger.rules.stays_is_acknowledged:
        raise Refused("not_acknowledged", *stays)


def discrepancies(ledger: Ledger, name: str) -> dict[str, tuple[int, ...]]:
    """What stands against what the head believes."""
    groups = group(ledger, name, ledger.threads[name].head)
    return {key: numbers for key, numbers in groups.items() if numbers and key not in ("same", "nothing")}
