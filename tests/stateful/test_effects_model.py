"""The model of effects under random programs; and that each of its rules is needed, and would be missed.

A rule is taken away, and within a bounded number of programs a promise must be seen broken. Seeds are
fixed: where to begin looking was found by searching from zero, so that the search is quick here.
"""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from takeback.testing.effects.drive import Drive
from takeback.testing.effects.memory import Memory, MemoryRules, drive_memory
from takeback.testing.effects.model import Model
from takeback.testing.effects.mutations import MUTATIONS, broken, drive, mutated, program, shrink
from takeback.testing.effects.rules import Rules
from takeback.testing.effects.witness import Broken, Hand, Witness
from takeback.testing.effects.world import World

RUNS = 1_200
SOAK_RUNS = 40_000
NEAR = 60
"""How many programs from its seed on may pass before a mutation must have been noticed."""

FOUND = {
    "guard only after a rollback": (0, "guard"),
    "guard within one thread": (10, "guard"),
    "guard by what others closed meanwhile": (6, "guard"),
    "another's effect undone first": (10, "owner"),
    "a fork without rights makes effects": (29, "rights"),
    "an exception taken for did not happen": (0, "ledger"),
    "a failed retry settles an earlier unknown": (116, "ledger"),
    "did not happen before the deadline": (20, "ledger"),
    "an undo did not happen before its deadline": (940, "ledger"),
    "a call after its deadline": (556, "ledger"),
    "late evidence refused": (0, "evidence"),
    "a failed redo counts as failed": (6647, "plan"),
    "a retry when the key is forgotten": (20, "twice"),
    "a retry that outlives the key": (4757, "twice"),
    "an undo repeated that is not safe": (25, "undone twice"),
    "a key without occurrence": (0, "keys"),
    "a key without its line": (13, "ledger"),
    "the same key after a compensation": (6, "keys"),
    "a key without its run": (56, "twice"),
    "any commit absorbs": (5, "belief"),
    "a close over an unknown": (2, "close"),
    "an owner that was replaced writes on": (5, "fence"),
    "two open steps of one label": (12, "step"),
    "two owners of one step": (2, "lease"),
    "calls in flight survive a takeover": (1, "lease"),
    "a run replays what was taken back": (27, "run"),
    "a replay commits": (3, "run"),
    "a replay calls": (9, "run"),
    "a replay outlives what it replays": (310, "run"),
    "a run goes on without its past": (1218, "run"),
    "an entry that was left counts": (68, "run"),
    "a plan by version range": (6, "after"),
    "others write during a plan": (0, "history"),
    "an undo that does not ask": (5, "plan"),
    "a stale plan": (6, "lineage"),
    "anybody undoes": (10, "plan"),
    "what a fork relies on is undone": (6, "plan"),
    "orphans are undone": (19, "plan"),
    "what stays is not acknowledged": (21, "after"),
    "any merge inherits": (16, "owner"),
    "a merged fork goes on": (6, "history"),
    "an approval not bound to its line": (0, "approval"),
    "an approval not bound to its call": (5, "approval"),
    "an approval for older code": (47, "approval"),
    "an approval outlives a rollback": (0, "approval"),
    "an undo revives approvals": (0, "approval"),
    "an approval used twice": (17, "approval"),
    "an approval without end": (459, "approval"),
    "the asker grants": (4, "approval"),
    "facts as they were": (142, "facts"),
    "a redo without approval": (120, "approval"),
    "a budget for each thread": (219, "budget"),
    "an unknown costs nothing": (19, "budget"),
    "money spent is gone": (6, "budget"),
    "attempts come back": (105, "budget"),
}
"""Where a mutation is first noticed, counted from zero, and the promise that is broken there."""


def first_broken(rules: Rules, seeds: range) -> Broken | None:
    return next((found for seed in seeds if (found := broken(program(seed), rules)) is not None), None)


# --- the rules hold


def test_no_promise_is_broken_in_random_programs() -> None:
    """Nothing executed or undone twice, every effect in every plan, every state left again."""
    for seed in range(RUNS):
        found = broken(program(seed))
        assert found is None, f"seed {seed}: {found}"


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_no_promise_is_broken_in_many_random_programs(part: int) -> None:
    for seed in range(1_000_000 + part, 1_000_000 + SOAK_RUNS, 8):
        found = broken(program(seed))
        assert found is None, f"seed {seed}: {found}"


WORDS = {
    "new", "resumed", "replays", "called", "recorded", "reused", "retried", "replayed", "free",
    "closed", "nothing", "open", "left", "died", "stopped", "crashed", "woken", "run",
    "committed", "granted", "resolved", "forked", "merged", "planned", "applied", "paused", "waits",
    "aborted",
}  # fmt: skip
REFUSALS = {
    "step_in_progress", "step_lost", "step_open", "effect_unknown", "effect_undone", "effect_stands",
    "effects_denied", "cannot_undo", "not_undone", "shared", "replay_diverged", "run_lost",
    "approval_required", "same_person",
    "budget_exceeded", "rollback_in_progress", "merged", "open_step", "undecided", "plan_stale",
    "plan_required", "not_acknowledged", "too_early",
}  # fmt: skip


def test_random_programs_come_everywhere() -> None:
    """Programs that never met a refusal would pass whatever it protects."""
    met: Counter[str] = Counter()
    for seed in (*range(700), FOUND["a run goes on without its past"][0]):
        met += drive(program(seed)).tally
    assert {word for word in WORDS if not met[word]} == set()
    # Workers of a driver know where they are: whoever is in a step does not go into another.
    assert {kind for kind in REFUSALS if not met[f"refused {kind}"]} == {"step_open"}


def test_a_program_is_the_same_whenever_it_is_run() -> None:
    """A failure can be run again, and two subjects can be compared answer by answer."""
    for seed in range(20):
        once, again = drive(program(seed)), drive(program(seed))
        assert once.answers == again.answers
        assert len(once.answers) > 5


def test_any_list_of_numbers_is_a_program() -> None:
    """What is left of a program when parts are cut out still runs, down to nothing at all."""
    for choices in ([], [0], [1], list(range(40)), [5039] * 60, [1, 2] * 50):
        assert broken(choices) is None


# --- each rule is needed


def test_every_rule_has_one_mutation_and_every_mutation_was_found() -> None:
    assert sorted(MUTATIONS.values()) == sorted(Rules.__struct_fields__)
    assert set(FOUND) == set(MUTATIONS)
    assert Rules() == Rules(**dict.fromkeys(Rules.__struct_fields__, True))


def test_a_mutation_changes_its_rule_alone() -> None:
    for name, rule in MUTATIONS.items():
        rules = mutated(name)
        assert [field for field in Rules.__struct_fields__ if not getattr(rules, field)] == [rule]


@pytest.mark.parametrize("name", ["", "key_has_line", "a key without occurence"])
def test_a_mutation_that_nobody_knows_is_an_error(name: str) -> None:
    """Otherwise a slip of the pen would look like a rule that nothing depends on."""
    with pytest.raises(ValueError, match="no mutation is called"):
        mutated(name)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_rule_that_is_taken_away_is_missed(name: str) -> None:
    seed, promise = FOUND[name]
    found = first_broken(mutated(name), range(seed, seed + NEAR))
    assert found is not None, f"nobody noticed: {name}"
    assert found.promise == promise


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_rule_that_is_taken_away_is_missed_in_other_programs_too(name: str) -> None:
    assert first_broken(mutated(name), range(2_000_000, 2_080_000)) is not None


@pytest.mark.parametrize(
    "name", ["an exception taken for did not happen", "a replay calls", "a stale plan", "any commit absorbs"]
)
def test_a_shrunken_program_still_fails_and_is_short(name: str) -> None:
    rules = mutated(name)
    seed, promise = FOUND[name]
    choices = program(seed)

    def fails(shorter: list[int]) -> bool:
        found = broken(shorter, rules)
        return found is not None and found.promise == promise

    short = shrink(choices, fails)
    assert fails(short)
    assert len(short) <= min(100, len(choices) - 1)
    assert broken(short) is None, "it fails without the mutation too"


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTATIONS)
def test_every_shrunken_program_still_fails(name: str) -> None:
    rules = mutated(name)
    seed, promise = FOUND[name]

    def fails(shorter: list[int]) -> bool:
        found = broken(shorter, rules)
        return found is not None and found.promise == promise

    short = shrink(program(seed), fails)
    assert fails(short)
    assert broken(short) is None


def test_shrinking_leaves_what_is_needed() -> None:
    numbers = list(range(100))
    assert shrink(numbers, lambda kept: {7, 50, 51} <= set(kept)) == [7, 50, 51]
    assert shrink(numbers, lambda kept: len(kept) >= 10) == [0] * 10
    assert shrink(numbers, lambda kept: kept == numbers) == numbers


# --- the driver bites by itself


class Liar(Model):
    """A subject that keeps the rules and says otherwise."""

    def __init__(self, world: World, verb: str) -> None:
        super().__init__(world)
        self.verb = verb

    def believed(self, thread: str, version: int) -> frozenset[int]:
        told = super().believed(thread, version)
        return told | {99} if self.verb == "believed" else told

    def lineage(self, thread: str, version: int) -> frozenset[tuple[str, int]]:
        told = super().lineage(thread, version)
        return told - {("main", 0)} if self.verb == "lineage" and version > 0 else told

    def commit(self, thread: str) -> tuple[object, ...]:
        answer = super().commit(thread)
        return (answer[0], answer[1] + 1) if self.verb == "commit" and answer[0] == "committed" else answer

    def enter(self, worker: str, thread: str, label: str, take_over: bool) -> tuple[object, ...]:
        answer = super().enter(worker, thread, label, take_over)
        return ("new",) if self.verb == "enter" and answer == ("resumed",) else answer


@pytest.mark.parametrize(
    ("verb", "promise"),
    [("believed", "belief"), ("lineage", "lineage"), ("commit", "history"), ("enter", "step")],
)
def test_a_subject_that_says_something_else_is_found_out(verb: str, promise: str) -> None:
    """What a subject tells of itself is held against what its own answers add up to."""

    def fails(seed: int) -> str | None:
        try:
            Drive(program(seed), lambda world, money, attempts: Liar(world, verb)).run()
        except Broken as found:
            return found.promise
        return None

    assert promise in map(fails, range(30))


def test_what_was_lost_in_a_program_can_be_read() -> None:
    lines: list[str] = []
    drive(program(1), trace=lines.append)
    assert any("enters" in line and "->" in line for line in lines)


def test_a_broken_promise_is_named() -> None:
    seen = Witness()
    with pytest.raises(Broken, match="history: main moved on behind our back to 2") as caught:
        seen.append("main", 2)
    assert caught.value.promise == "history"
    seen.hands["ada"] = Hand("main")
    with pytest.raises(Broken, match="fence"):
        seen.rightful("ada")


# --- memory


def test_memory_shows_the_newest_that_is_held() -> None:
    """What one agent takes back never destroys what another wrote later, and undo is exact."""
    assert sum(drive_memory(seed) for seed in range(2_000)) > 5_000


@pytest.mark.parametrize(
    ("rules", "promises"),
    [
        (MemoryRules(newest_that_is_held=False), {"clobbered", "undo", "resurrected"}),
        (MemoryRules(holds_by_lineage=False), {"clobbered", "undo", "resurrected"}),
    ],
)
def test_memory_by_another_rule_goes_wrong(rules: MemoryRules, promises: set[str]) -> None:
    met = set()
    for seed in range(300):
        try:
            drive_memory(seed, rules)
        except Broken as found:
            met.add(found.promise)
    assert met == promises


def test_a_value_that_was_taken_back_comes_again_when_that_is_undone() -> None:
    memory = Memory()
    memory.commit("ann", "x", "first")
    memory.commit("bob", "x", "second")
    memory.go_back("ann", 0)
    assert memory.shown() == {"x": "second"}
    memory.go_back("bob", 0)
    assert memory.shown() == {}
    memory.go_back("ann", 1)
    assert memory.shown() == {"x": "first"}


def test_a_removed_item_is_a_version_too() -> None:
    memory = Memory()
    memory.commit("ann", "x", "first")
    memory.commit("bob", "x", None)
    assert memory.shown() == {}
    memory.go_back("bob", 0)
    assert memory.shown() == {"x": "first"}


def test_seeds_give_different_programs() -> None:
    programs = [tuple(program(seed)) for seed in range(50)]
    assert len(set(programs)) == 50
    assert {len(one) for one in programs} == {100, 250, 500}
    assert all(0 <= number < 5040 for number in itertools.chain(*programs))
