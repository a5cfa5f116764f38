"""The promises: what must hold of any subject after each verb, with the outside world as the judge."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from takeback.testing.effects.records import STANDING, UNSETTLED
from takeback.testing.effects.tools import APPROVAL_LIFE, TOOLS
from takeback.testing.effects.witness import Opened, Witness, need

if TYPE_CHECKING:
    from takeback.testing.effects.subject import ApprovalSeen, EffectSeen, PlanSeen, Subject
    from takeback.testing.effects.world import World

AFTER = {
    "requested": {"requested", "granted", "used", "void"},
    "granted": {"granted", "used", "void"},
    "used": {"used"},
    "void": {"void"},
}
"""What may become of an approval."""
MUST_STAND = {"done": 1, "undo_failed": 1, "failed": 0, "undone": 0}


def world_agrees(subject: Subject, world: World) -> None:
    """Nothing is executed or undone twice, and what the ledger is sure of is so."""
    owners: Counter[str] = Counter()
    for effect in subject.effects():
        owners.update(set(effect.keys))
        need(len(effect.keys) == len(set(effect.keys)), "keys", effect.number, "is redone under an old key")
        for key in effect.keys:
            need(world.executed[key] <= 1, "twice", effect.number, effect.tool, "was executed again")
            need(world.undone[key] <= 1, "undone twice", effect.number, effect.tool)
        stands = world.stands(list(effect.keys))
        need(stands in (0, 1), "twice", effect.number, effect.tool, "stands", stands, "times")
        if effect.state in MUST_STAND:
            need(
                stands == MUST_STAND[effect.state], "ledger", effect.number, "is", effect.state, "but", stands
            )
    need(not owners or max(owners.values()) == 1, "keys", "two effects share a key")
    need(not world.stale, "stale", "an old answer was taken for a new success")


def budget_holds(subject: Subject, world: World, money: int, attempts: int) -> None:
    """What really stands, not what the ledger believes, stays within what the family was given."""
    standing = sum(
        TOOLS[effect.tool].cost(effect.args) * world.stands(list(effect.keys)) for effect in subject.effects()
    )
    need(standing <= money, "budget", standing, "of", money, "stand")
    need(len(world.tried) <= attempts, "budget", len(world.tried), "attempts of", attempts)


def budget_refuses(subject: Subject, what: str, cost: int, money: int, attempts: int) -> None:
    """A refusal for the budget's sake is right: money that stands no more has come back."""
    effects = subject.effects()
    standing = (one for one in effects if one.state not in ("failed", "undone"))
    spent = sum(TOOLS[one.tool].cost(one.args) for one in standing)
    need(what != "money" or spent + cost > money, "budget", spent, "of", money, "and no more can be spent")
    tried = sum(len(one.keys) for one in effects)
    need(what != "attempts" or tried >= attempts, "budget", tried, "attempts of", attempts, "were all")


def histories_agree(subject: Subject, seen: Witness) -> None:
    """Lines and uses are what the answers add up to; nothing else moved a head or passed ownership."""
    held = {one.thread for one in subject.plans() if one.state in ("applying", "paused")}
    for thread in subject.threads():
        need(thread.held == (thread.name in held), "history", thread.name, "and the plan that holds it")
        ref = seen.head(thread.name)
        need(thread.head == ref[1], "history", thread.name, "is at", thread.head, "and should be at", ref[1])
        need(thread.read_only == (thread.name in seen.read_only), "history", thread.name, "and its end")
        need(
            subject.lineage(*ref) == seen.lineage(ref), "lineage", ref, "intervals differ from the definition"
        )
        need(subject.believed(*ref) == seen.believed(ref), "belief", ref, "differs from the uses")
    for effect in subject.effects():
        owner = seen.owners.setdefault(effect.number, effect.thread)
        need(effect.owner == owner, "owner", effect.number, "belongs to", owner, "not to", effect.owner)


def approvals_hold(subject: Subject, seen: Witness, world: World, before: list[ApprovalSeen]) -> None:
    """Each use of an approval is the only one, in time, of what was shown, and for what was asked."""
    was = {one.number: one.state for one in before}
    counts: Counter[int] = Counter()
    for one in subject.approvals():
        moves = AFTER[was.get(one.number, "requested")]
        need(one.state in moves, "approval", one.number, "is", one.state, "and was", was.get(one.number))
        if one.used_by is not None:
            counts[one.used_by] += 1
        if one.state != "used" or was.get(one.number) == "used":
            continue
        given = seen.granted.get(one.number)
        need(given is not None, "approval", one.number, "was used and never granted")
        need(given is not None and world.now <= given + APPROVAL_LIFE, "approval", one.number, "had expired")
        need(
            one.facts in (None, world.price),
            "facts",
            one.number,
            "showed",
            one.facts,
            "and it is",
            world.price,
        )
    for effect in subject.effects():
        wanted = len(effect.keys) if TOOLS[effect.tool].approval else 0
        need(counts[effect.number] == wanted, "approval", effect.number, "has", counts[effect.number])


def may_stand(subject: Subject, seen: Witness, step: Opened, target: str) -> list[int]:
    """What the guard is to ask about, as the ledger knows it."""
    believed = seen.believed((step.place[0], step.base))
    return [
        effect.number
        for effect in subject.effects()
        if TOOLS[effect.tool].target == target
        and effect.state in STANDING
        and effect.number not in believed | step.claimed()
    ]


def unknown_to(subject: Subject, seen: Witness, world: World, step: Opened, target: str) -> list[int]:
    """What stands on a target, unknown to this history and not claimed by this attempt."""
    believed = seen.believed((step.place[0], step.base))
    return [
        effect.number
        for effect in subject.effects()
        if TOOLS[effect.tool].target == target
        and world.stands(list(effect.keys)) > 0
        and effect.number not in believed
        and effect.number not in step.claimed()
    ]


def plan_is_whole(
    subject: Subject, seen: Witness, world: World, plan: PlanSeen, *, shared: bool, orphans: bool
) -> None:
    """Every effect that concerns the thread is in the plan, once, in the group that the truth puts it in."""
    listed = [number for numbers in plan.groups.values() for number in numbers]
    need(len(listed) == len(set(listed)), "plan", "lists an effect twice")
    effects = {effect.number: effect for effect in subject.effects()}
    believed = seen.believed((plan.thread, plan.target))
    mine = {n for n, effect in effects.items() if plan.thread in (effect.thread, seen.owners[n])}
    used = {number for number, (thread, _) in seen.uses if thread == plan.thread}
    need(mine | believed | used <= set(listed), "plan", "leaves out", (mine | believed | used) - set(listed))
    for key, numbers in plan.groups.items():
        for number in numbers:
            right = _places(
                subject, seen, world, effects[number], plan,
                believes=number in believed, shared=shared, orphans=orphans,
            )  # fmt: skip
            need(key in right, "plan", number, effects[number].state, "is in", key, "and not in", right)


def _places(
    subject: Subject, seen: Witness, world: World, effect: EffectSeen, plan: PlanSeen, *,
    believes: bool, shared: bool, orphans: bool,
) -> set[str]:  # fmt: skip
    """The groups in which an effect may stand: one, but for what nobody knows about another's."""
    stands = world.stands(list(effect.keys)) > 0
    mine = seen.owners[effect.number] == plan.thread
    if effect.state in UNSETTLED:
        if mine:
            return {"blocked"} if effect.state in ("begun", "undoing") else {"decide"}
        return {"same"} if believes else {"foreign"}
    if not stands:
        return {"missing" if believes else "nothing"}
    if believes:
        return {"same"}
    if not mine:
        return {"foreign"}
    unused = not any(effect.number == use for use, _ in seen.uses)
    if effect.number in seen.unclaimed and unused and not orphans:
        return {"orphan"}
    if relied_on(subject, seen, effect.number, plan.thread) and not shared:
        return {"shared"}
    return {"compensate" if TOOLS[effect.tool].undo else "stays"}


def relied_on(subject: Subject, seen: Witness, number: int, by_other_than: str) -> bool:
    """Whether another thread that has a right to effects believes it."""
    return any(
        thread.name != by_other_than
        and thread.rights != "deny"
        and not thread.read_only
        and number in seen.believed(seen.head(thread.name))
        for thread in subject.threads()
    )


def undone_by_its_owner(subject: Subject, seen: Witness, number: int, thread: str) -> None:
    """What a step takes back before it calls anew is its thread's own, and nobody else counts on it."""
    need(seen.owners[number] == thread, "owner", thread, "undid", number, "of", seen.owners[number])
    need(not relied_on(subject, seen, number, thread), "owner", thread, "undid", number, "that is relied on")


def plan_was_kept(subject: Subject, seen: Witness, world: World, plan: PlanSeen) -> None:
    """After a plan over all was applied, what stands outside the head, or lacks within it, was named."""
    if plan.scope != "all":
        return
    believed = seen.believed(seen.head(plan.thread))
    accepted = {effect for effect, _, state in plan.lines if state == "accepted"}
    named = {n for key in ("stays", "shared", "orphan", "foreign") for n in plan.groups[key]} | accepted
    lacking = set(plan.groups["missing"]) | accepted
    for effect in subject.effects():
        if seen.owners[effect.number] != plan.thread:
            continue
        stands = world.stands(list(effect.keys)) > 0
        if effect.state in UNSETTLED:
            need(
                effect.number in accepted,
                "after",
                effect.number,
                "is",
                effect.state,
                "and nobody accepted it",
            )
        elif stands and effect.number not in believed:
            need(effect.number in named, "after", effect.number, "stands outside the head, unnamed")
        elif not stands and effect.number in believed:
            need(effect.number in lacking, "after", effect.number, "is missing, unnamed")
