"""The parts of the model of effects, each alone: the world, lineages, and every promise broken once."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from takeback.testing.effects import checks
from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.model import Model, merge
from takeback.testing.effects.records import Refused
from takeback.testing.effects.rules import Rules
from takeback.testing.effects.subject import ApprovalSeen, EffectSeen, PlanSeen, ThreadSeen
from takeback.testing.effects.tools import APPROVAL_LIFE, KEY_MEMORY, LEASE, TIMEOUT, TOOLS
from takeback.testing.effects.witness import Broken, Hand, Opened, Witness
from takeback.testing.effects.world import FATES, Died, Lost, NotDone, Stopped, World

if TYPE_CHECKING:
    from collections.abc import Callable


# --- the world


def test_the_world_counts_what_was_executed_and_undone() -> None:
    world = World()
    assert world.call("pay", "k") == "receipt 1"
    assert world.stands(["k"]) == 1
    world.take_back("pay", "k")
    assert (world.executed["k"], world.undone["k"], world.stands(["k"])) == (1, 1, 0)


def test_a_tool_without_keys_is_executed_each_time() -> None:
    world = World()
    world.call("pay", "k")
    world.call("pay", "k")
    assert world.executed["k"] == 2


def test_a_keyed_tool_is_executed_once_while_the_key_is_remembered() -> None:
    world = World()
    first = world.call("keyed", "k")
    world.now += KEY_MEMORY - 1
    assert world.call("keyed", "k") == first
    assert world.executed["k"] == 1
    world.now += 1
    assert world.call("keyed", "k") != first
    assert world.executed["k"] == 2


def test_a_safe_undo_is_done_once_and_another_each_time() -> None:
    world = World()
    world.call("pay", "safe")
    world.call("once", "not")
    for _ in range(2):
        world.take_back("pay", "safe")
        world.take_back("once", "not")
    assert (world.undone["safe"], world.undone["not"]) == (1, 2)


def test_undoing_what_never_happened_does_nothing() -> None:
    world = World()
    world.take_back("once", "k")
    assert world.undone["k"] == 0


@pytest.mark.parametrize(
    ("fate", "error", "executed"),
    [
        ("refused", NotDone, 0),
        ("lost before", Lost, 0),
        ("lost after", Lost, 1),
        ("dies before", Died, 0),
        ("dies after", Died, 1),
        ("stops before", Stopped, 0),
        ("stops after", Stopped, 1),
        ("times out", Stopped, 1),
    ],
)
def test_every_fate_is_met(fate: str, error: type[Exception], executed: int) -> None:
    world = World()
    world.fate = lambda: fate
    with pytest.raises(error) as caught:
        world.call("pay", "k")
    assert world.executed["k"] == executed
    assert world.tried == {"k"}
    if isinstance(caught.value, Stopped):
        assert caught.value.times_out == (fate == "times out")
        world.finish(caught.value.call)
        assert world.executed["k"] == 1
        assert world.woken == ("k", False)


def test_all_fates_are_named_above() -> None:
    assert set(FATES) == {
        "ok", "refused", "lost before", "lost after", "dies before", "dies after", "stops before",
        "stops after", "times out",
    }  # fmt: skip


def test_an_old_answer_to_a_new_question_is_noticed() -> None:
    """A redo under the key of what was undone: the provider says done, and nothing stands."""
    world = World()
    world.call("keyed", "k")
    world.take_back("keyed", "k")
    world.call("keyed", "k")
    assert world.stale == ["receipt 1"]
    assert world.stands(["k"]) == 0


def test_a_provider_remembers_longer_than_a_call_may_take() -> None:
    """Else the same key would protect nothing; and a lease outlasts a call, or owners were replaced in it."""
    assert KEY_MEMORY > TIMEOUT
    assert LEASE > TIMEOUT
    assert {tool.repeat for tool in TOOLS.values()} == {"free", "keyed", "once"}
    assert {tool.undo for tool in TOOLS.values()} == {"safe", "once", ""}
    assert [TOOLS["pay"].cost(args) for args in "xy"] == [1, 2]
    assert TOOLS["mail"].cost("y") == 0


# --- lineages


def defined(ledger: Ledger, ref: tuple[str, int]) -> set[tuple[str, int]]:
    """L(ref), word by word."""
    found: set[tuple[str, int]] = set()
    todo = [ref]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        found.add(one)
        row = ledger.checkpoints[one]
        if row.origin is not None:
            todo.append(row.origin)
        elif row.parent is not None:
            todo.append((row.thread, row.parent))
        if row.source is not None:
            todo.append(row.source)
    return found


def listed(ledger: Ledger, ref: tuple[str, int]) -> set[tuple[str, int]]:
    return {
        (name, version)
        for (name, line), last in ledger.intervals(ref).items()
        for version in range(line, last + 1)
    }


@pytest.mark.parametrize("seed", range(60))
def test_intervals_are_the_definition(seed: int) -> None:
    """Commits, goings back, forks and merges in any order, on up to four threads."""
    source = random.Random(seed)
    ledger = Ledger(World(), None, 0, 0)
    ledger.make_thread("main")
    for _ in range(source.randrange(5, 40)):
        thread = ledger.threads[source.choice(list(ledger.threads))]
        version = source.randrange(thread.head + 1)
        what = source.random()
        if what < 0.5:
            ledger.append(thread)
        elif what < 0.75:
            ledger.append(thread, origin=(thread.name, version), opens=True)
        elif what < 0.85 and len(ledger.threads) < 4:
            ledger.make_thread(f"fork {len(ledger.threads)}", (thread.name, version))
        elif len(ledger.threads) > 1:
            other = source.choice([name for name in ledger.threads if name != thread.name])
            ledger.append(thread, source=ledger.head(other))
    for ref in ledger.checkpoints:
        assert listed(ledger, ref) == defined(ledger, ref)


def test_a_line_is_named_by_the_version_that_opened_it() -> None:
    ledger = Ledger(World(), None, 0, 0)
    main = ledger.make_thread("main")
    ledger.append(main)
    ledger.append(main, origin=("main", 0), opens=True)
    ledger.append(main)
    assert [row.line for row in ledger.checkpoints.values()] == [0, 0, 2, 2]
    assert ledger.intervals(("main", 3)) == {("main", 2): 3, ("main", 0): 0}


def test_forks_of_forks_descend_from_all_above() -> None:
    ledger = Ledger(World(), None, 0, 0)
    ledger.make_thread("main")
    ledger.make_thread("child", ("main", 0))
    ledger.make_thread("grandchild", ("child", 0))
    ledger.make_thread("other")
    assert ledger.descends("grandchild", "main")
    assert ledger.descends("grandchild", "child")
    assert not ledger.descends("main", "child")
    assert not ledger.descends("other", "main")
    assert ledger.family("child") == {"main", "child", "grandchild"}
    assert ledger.family("other") == {"other"}


def test_a_grandchild_that_comes_home_leaves_its_effects_to_whom_it_is_merged_into() -> None:
    model = Model(World())
    model.fork("main", 0, "guard")
    model.fork("fork 1", 0, "guard")
    model.commit("fork 2")
    model.enter("ada", "fork 2", "a", False)
    model.call("ada", "pay", "x", "stop")
    with pytest.raises(Refused, match="open_step"):
        merge(model.ledger, "main", "fork 2")
    model.close("ada")
    merge(model.ledger, "main", "fork 2")
    assert model.effects()[0].owner == "main"
    assert [one.read_only for one in model.threads()] == [False, False, True]


def test_the_witness_adds_up_the_same_history() -> None:
    seen = Witness()
    seen.append("main", 1)
    seen.fork("main", 0, "fork 1")
    seen.append("fork 1", 1)
    seen.uses |= {(1, ("main", 1)), (2, ("fork 1", 1))}
    assert seen.believed(("main", 1)) == {1}
    seen.owners = {1: "main", 2: "fork 1"}
    seen.merge("main", 2, "fork 1")
    assert seen.believed(("main", 2)) == {1, 2}
    assert seen.owners == {1: "main", 2: "main"}
    assert seen.read_only == {"fork 1"}
    seen.went("main", 3, 0)
    assert seen.believed(("main", 3)) == set()
    assert seen.lines["main"] == 3


def test_a_merge_of_the_parent_into_its_fork_passes_nothing_on() -> None:
    seen = Witness()
    seen.fork("main", 0, "fork 1")
    seen.owners = {1: "main"}
    seen.merge("fork 1", 1, "main")
    assert seen.owners == {1: "main"}
    assert seen.read_only == set()


# --- every promise, broken once


class Told:
    """A subject that says what it was told to say."""

    def __init__(self, **told: Any) -> None:
        self._told: dict[str, Any] = {
            "effects": [],
            "approvals": [],
            "threads": [THREAD],
            "plans": [],
            "believed": frozenset(),
            "lineage": frozenset({("main", 0)}),
            **told,
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: self._told[name]


THREAD = ThreadSeen("main", 0, "guard", held=False, read_only=False)
PAID = EffectSeen(1, "main", "main", "pay", "x", "done", ("k",), decided=False)
USED = ApprovalSeen(1, "main", "mail", "used", None, 1)
PLAN = PlanSeen(1, "main", 0, "all", "open", {"compensate": (1,)}, ())
replace = msgspec.structs.replace


def paid() -> World:
    world = World()
    world.call("pay", "k")
    return world


def broken(promise: str, check: Callable[[], None]) -> None:
    with pytest.raises(Broken) as caught:
        check()
    assert caught.value.promise == promise


def test_what_is_so_breaks_nothing() -> None:
    told: Any = Told(effects=[PAID])
    world, seen = paid(), Witness()
    checks.world_agrees(told, world)
    checks.histories_agree(told, seen)
    checks.budget_holds(told, world, 1, 1)
    checks.approvals_hold(told, seen, world, [])
    checks.plan_is_whole(told, seen, world, PLAN, shared=False, orphans=False)


@pytest.mark.parametrize("state", ["failed", "undone"])
def test_a_ledger_that_denies_what_stands(state: str) -> None:
    told: Any = Told(effects=[replace(PAID, state=state)])
    broken("ledger", lambda: checks.world_agrees(told, paid()))


@pytest.mark.parametrize("state", ["done", "undo_failed"])
def test_a_ledger_that_claims_what_does_not_stand(state: str) -> None:
    told: Any = Told(effects=[replace(PAID, state=state)])
    broken("ledger", lambda: checks.world_agrees(told, World()))


def test_what_was_executed_twice() -> None:
    world = paid()
    world.call("pay", "k")
    told: Any = Told(effects=[replace(PAID, state="unknown")])
    broken("twice", lambda: checks.world_agrees(told, world))


def test_what_was_executed_under_two_keys_and_stands_twice() -> None:
    world = paid()
    world.call("pay", "l")
    told: Any = Told(effects=[replace(PAID, state="unknown", keys=("k", "l"))])
    broken("twice", lambda: checks.world_agrees(told, world))


def test_what_was_undone_twice() -> None:
    world = World()
    world.call("once", "k")
    world.take_back("once", "k")
    world.take_back("once", "k")
    told: Any = Told(effects=[replace(PAID, tool="once", state="undone")])
    broken("undone twice", lambda: checks.world_agrees(told, world))


def test_keys_that_two_effects_share_or_that_come_again() -> None:
    two: Any = Told(effects=[PAID, replace(PAID, number=2)])
    broken("keys", lambda: checks.world_agrees(two, paid()))
    again: Any = Told(effects=[replace(PAID, keys=("k", "k"))])
    broken("keys", lambda: checks.world_agrees(again, paid()))


def test_an_old_answer_that_passed_for_a_success() -> None:
    world = World()
    world.stale.append("receipt 1")
    told: Any = Told()
    broken("stale", lambda: checks.world_agrees(told, world))


def test_a_budget_that_was_passed() -> None:
    told: Any = Told(effects=[replace(PAID, args="y")])
    broken("budget", lambda: checks.budget_holds(told, paid(), 1, 9))
    broken("budget", lambda: checks.budget_holds(told, paid(), 9, 0))


def test_a_budget_that_refuses_what_could_be_paid() -> None:
    told: Any = Told(effects=[PAID, replace(PAID, number=2, state="undone", keys=("l", "m"))])
    checks.budget_refuses(told, "money", 1, 1, 9)
    broken("budget", lambda: checks.budget_refuses(told, "money", 1, 2, 9))
    checks.budget_refuses(told, "attempts", 1, 9, 3)
    broken("budget", lambda: checks.budget_refuses(told, "attempts", 1, 9, 4))


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        ("history", {"threads": [replace(THREAD, head=1)]}),
        ("history", {"threads": [replace(THREAD, held=True)]}),
        ("history", {"threads": [replace(THREAD, read_only=True)]}),
        ("history", {"plans": [replace(PLAN, state="paused")]}),
        ("lineage", {"lineage": frozenset()}),
        ("belief", {"believed": frozenset({1})}),
        ("owner", {"effects": [replace(PAID, owner="fork 1")]}),
    ],
)
def test_a_history_that_is_not_what_was_answered(promise: str, told: dict[str, Any]) -> None:
    subject: Any = Told(**told)
    broken(promise, lambda: checks.histories_agree(subject, Witness()))


def mailed() -> tuple[World, Any]:
    world = World()
    world.call("mail", "k")
    return world, replace(PAID, tool="mail")


def test_an_approval_that_nobody_gave_or_that_was_over() -> None:
    world, mail = mailed()
    told: Any = Told(effects=[mail], approvals=[USED])
    seen = Witness()
    broken("approval", lambda: checks.approvals_hold(told, seen, world, []))
    seen.granted[1] = 0
    checks.approvals_hold(told, seen, world, [])
    world.now = APPROVAL_LIFE + 1
    broken("approval", lambda: checks.approvals_hold(told, seen, world, []))
    checks.approvals_hold(told, seen, world, [USED])  # when it was used, it was in time


def test_an_approval_that_is_missing_or_comes_alive() -> None:
    world, mail = mailed()
    none: Any = Told(effects=[mail])
    broken("approval", lambda: checks.approvals_hold(none, Witness(), world, []))
    again: Any = Told(approvals=[replace(USED, state="granted", used_by=None)])
    for was in ("used", "void"):
        before = [replace(USED, state=was)]
        broken("approval", lambda before=before: checks.approvals_hold(again, Witness(), world, before))


def test_facts_that_were_others() -> None:
    world, mail = mailed()
    told: Any = Told(effects=[mail], approvals=[replace(USED, facts=2)])
    seen = Witness()
    seen.granted[1] = 0
    broken("facts", lambda: checks.approvals_hold(told, seen, world, []))


def test_a_plan_that_leaves_an_effect_out_or_lists_it_twice() -> None:
    told: Any = Told(effects=[PAID])
    world, seen = paid(), Witness()
    seen.owners[1] = "main"
    for groups in ({}, {"compensate": (1,), "same": (1,)}, {"compensate": (1, 1)}):
        plan = replace(PLAN, groups=groups)
        broken(
            "plan",
            lambda plan=plan: checks.plan_is_whole(told, seen, world, plan, shared=False, orphans=False),
        )


def places(seen: Witness, effect: EffectSeen, world: World, **wishes: bool) -> set[str]:
    """The groups that a plan may put this effect into."""
    told: Any = Told(effects=[effect], threads=[THREAD, replace(THREAD, name="fork 1")])
    wanted = {"shared": False, "orphans": False, **wishes}
    right = set()
    for name in ("blocked", "decide", "same", "compensate", "stays", "orphan", "shared", "foreign",
                 "missing", "nothing"):  # fmt: skip
        try:
            checks.plan_is_whole(told, seen, world, replace(PLAN, groups={name: (1,)}), **wanted)
        except Broken as found:
            if found.promise != "plan":
                raise
        else:
            right.add(name)
    return right


def family(*uses: tuple[int, tuple[str, int]]) -> Witness:
    seen = Witness()
    seen.append("main", 1)
    seen.fork("main", 1, "fork 1")
    seen.owners[1] = "main"
    seen.uses = set(uses)
    return seen


def test_each_effect_has_one_place_in_a_plan() -> None:
    """The table of groups, against the truth: what the world says, and what the histories believe."""
    below, above, fork = (1, ("main", 0)), (1, ("main", 1)), (1, ("fork 1", 0))
    assert places(family(), PAID, paid()) == {"compensate"}
    assert places(family(), replace(PAID, tool="mail"), paid()) == {"stays"}
    assert places(family(below), PAID, paid()) == {"same"}
    assert places(family(above), PAID, paid()) == {"shared"}
    assert places(family(fork), PAID, paid()) == {"shared"}
    assert places(family(above), PAID, paid(), shared=True) == {"compensate"}
    assert places(family(), replace(PAID, state="begun"), paid()) == {"blocked"}
    assert places(family(), replace(PAID, state="undo_unknown"), paid()) == {"decide"}
    assert places(family(below), replace(PAID, state="undone"), World()) == {"missing"}
    assert places(family(), replace(PAID, state="undone"), World()) == {"nothing"}


def test_what_is_undone_first_is_ones_own_and_nobody_elses_ground() -> None:
    told: Any = Told(effects=[PAID], threads=[THREAD, replace(THREAD, name="fork 1")])
    seen = family()
    checks.undone_by_its_owner(told, seen, 1, "main")
    broken("owner", lambda: checks.undone_by_its_owner(told, seen, 1, "fork 1"))
    relied = family((1, ("fork 1", 0)))
    broken("owner", lambda: checks.undone_by_its_owner(told, relied, 1, "main"))


def test_orphans_and_what_belongs_to_others_have_their_place() -> None:
    seen = family()
    seen.unclaimed.add(1)
    assert places(seen, PAID, paid()) == {"orphan"}
    assert places(seen, PAID, paid(), orphans=True) == {"compensate"}
    theirs = family((1, ("main", 1)))
    theirs.owners[1] = "fork 1"
    assert places(theirs, replace(PAID, owner="fork 1"), paid()) == {"foreign"}
    assert places(theirs, replace(PAID, owner="fork 1", state="unknown"), paid()) == {"foreign"}


def test_what_a_plan_that_was_applied_did_not_name() -> None:
    seen = Witness()
    seen.owners[1] = "main"
    plan = replace(PLAN, groups=dict.fromkeys(("stays", "shared", "orphan", "foreign", "missing"), ()))
    stands: Any = Told(effects=[PAID])
    broken("after", lambda: checks.plan_was_kept(stands, seen, paid(), plan))
    named = replace(plan, groups={**plan.groups, "stays": (1,)})
    checks.plan_was_kept(stands, seen, paid(), named)
    checks.plan_was_kept(stands, seen, paid(), replace(plan, scope="state"))
    unknown: Any = Told(effects=[replace(PAID, state="unknown")])
    broken("after", lambda: checks.plan_was_kept(unknown, seen, paid(), named))
    checks.plan_was_kept(unknown, seen, paid(), replace(plan, lines=((1, "undo", "accepted"),)))
    seen.uses.add((1, ("main", 0)))
    lacking: Any = Told(effects=[replace(PAID, state="undone")])
    broken("after", lambda: checks.plan_was_kept(lacking, seen, World(), plan))


def opened(seen: Witness) -> Opened:
    seen.hands["ada"] = Hand("main")
    seen.entered("ada", "main", "a", "new", now=0, take_over=False)
    return seen.rightful("ada")


def test_what_stands_is_unknown_to_an_attempt_that_did_not_claim_it() -> None:
    seen = Witness()
    step = opened(seen)
    told: Any = Told(effects=[PAID])
    assert checks.unknown_to(told, seen, paid(), step, "account") == [1]
    assert checks.may_stand(told, seen, step, "account") == [1]
    assert checks.unknown_to(told, seen, paid(), step, "shop") == []
    step.claims = {1: step.attempt}
    assert checks.unknown_to(told, seen, paid(), step, "account") == []
    assert checks.may_stand(told, seen, step, "account") == []


def test_the_witness_knows_whose_step_it_is() -> None:
    seen = Witness()
    opened(seen)
    seen.hands["bob"] = Hand("main")
    broken("lease", lambda: seen.entered("bob", "main", "a", "resumed", now=LEASE, take_over=False))
    broken("step", lambda: seen.entered("bob", "main", "a", "new", now=LEASE + 1, take_over=False))
    seen.entered("bob", "main", "a", "resumed", now=LEASE + 1, take_over=False)
    broken("fence", lambda: seen.rightful("ada"))
    broken("close", lambda: claims_and_closes(seen, "unknown"))
    claims_and_closes(seen, "done")
    assert seen.believed(("main", 1)) == {1}
    broken("fence", lambda: seen.rightful("bob"))


def claims_and_closes(seen: Witness, state: str) -> None:
    step = seen.rightful("bob")
    step.claims = {1: step.attempt}
    heads = dict(seen.heads)
    try:
        seen.closes("bob", 1, {1: state})
    except Broken:
        seen.heads = heads
        raise


def test_the_witness_knows_what_a_run_has_recorded() -> None:
    seen = Witness()
    seen.closed.append((("main", 0), "r", "a"))
    seen.hands["ada"] = Hand("main", "r")
    broken("run", lambda: seen.entered("ada", "main", "a", "new", now=0, take_over=False))
    seen.entered("ada", "main", "a", "replays", now=0, take_over=False)
    seen.hands["bob"] = Hand("main", "r", {"a": 2})
    broken("run", lambda: seen.entered("bob", "main", "a", "new", now=0, take_over=False))


def test_rules_are_values() -> None:
    assert Rules() == Rules()
    with pytest.raises(AttributeError):
        Rules().key_has_line = False  # type: ignore[misc]  # that it cannot be set is what is tested
