"""The rules of effects as stories, one by one, told to the model and to the real engine: what the random
programs meet by chance."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest

from takeback.storage.memory import MemoryStorage
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.effects.engine import Engine
from takeback.testing.effects.model import Model
from takeback.testing.effects.tools import APPROVAL_LIFE, KEY_MEMORY, LEASE, TIMEOUT
from takeback.testing.effects.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from takeback.testing.effects.subject import Answer, EffectSeen, Subject

MAKE: list[Callable[..., Subject]] = []
"""What the stories of this test are told to."""


@pytest.fixture(autouse=True, params=["model", "memory", "sqlite"])
def told_to(request: pytest.FixtureRequest, store_path: Path) -> Iterator[None]:
    """Each story three times: to the rules, and to the engine on both storages."""
    made: list[Subject] = []

    def make(world: World, *, money: int = 1_000, attempts: int = 1_000) -> Subject:
        if request.param == "model":
            made.append(Model(world, money=money, attempts=attempts))
        else:
            on_file = request.param == "sqlite"
            storage = SqliteStorage(str(store_path), durability="relaxed") if on_file else MemoryStorage()
            made.append(Engine(storage, world, money, attempts))
        return made[-1]

    MAKE[:] = [make]
    yield
    for subject in made:
        subject.end()


class Story:
    """A subject with one worker, and a world whose calls go as `fates` say, then well."""

    def __init__(self, *fates: str, **budget: int) -> None:
        self.world = World()
        self.fates = deque(fates)
        self.world.fate = lambda: self.fates.popleft() if self.fates else "ok"
        self.model = MAKE[0](self.world, **budget)
        self.worker = "ada"

    def enter(self, label: str = "a", *, thread: str = "main", take_over: bool = False) -> Answer:
        return self.model.enter(self.worker, thread, label, take_over)

    def call(self, tool: str, args: str = "x", choice: str = "stop") -> Answer:
        return self.model.call(self.worker, tool, args, choice)

    def close(self) -> Answer:
        return self.model.close(self.worker)

    def step(self, *tools: str, label: str = "a") -> int:
        """A step that calls these and closes; the version that it makes."""
        self.enter(label)
        for tool in tools:
            self.approved(tool)
        word, version = self.close()
        assert word == "closed"
        return int(version)

    def approved(self, tool: str, args: str = "x", choice: str = "stop") -> Answer:
        """A call, with the approval that it asks for."""
        answer = self.call(tool, args, choice)
        if answer[1] == "approval_required":
            assert self.model.grant(answer[2], by_asker=False) == ("granted",)
            answer = self.call(tool, args, choice)
        return answer

    def dies(self) -> None:
        self.model.crash(self.worker)
        self.worker += "'"

    def plan(self, target: int, **wishes: Any) -> int:
        asked = {"scope": "all", "shared": False, "orphans": False, "redo": False, **wishes}
        thread = asked.pop("thread", "main")
        return int(self.model.plan(thread, target, **asked)[1])

    def roll_back(self, target: int, **wishes: Any) -> Answer:
        return self.model.apply(self.plan(target, **wishes), acknowledge=True, here=True)

    def group(self, plan: int, name: str) -> tuple[int, ...]:
        return self.model.plans()[plan - 1].groups[name]

    def effect(self, number: int) -> EffectSeen:
        return self.model.effects()[number - 1]

    def stands(self, number: int) -> int:
        return self.world.stands(list(self.effect(number).keys))


# --- what is not done twice


def test_a_call_that_was_recorded_is_not_made_again_after_a_crash() -> None:
    story = Story()
    story.enter()
    assert story.call("pay") == ("called", 1, "done")
    story.dies()
    assert story.enter(take_over=True) == ("resumed",)
    assert story.call("pay") == ("recorded", 1, "done")
    assert story.close() == ("closed", 1)
    assert story.world.executed.total() == 1


def test_an_agent_that_words_it_anew_after_a_rollback_is_asked() -> None:
    """The refund of a line that was left stands still (its compensation was given up); no second one."""
    story = Story()
    story.step("pay")
    story.roll_back(0, scope="state")
    story.enter("other words")
    assert story.call("pay", "y") == ("refused", "effect_stands", 1)
    assert story.call("once") == ("refused", "effect_stands", 1)
    assert story.world.executed.total() == 1


def test_the_same_call_after_a_rollback_is_answered_with_what_stands() -> None:
    story = Story()
    story.step("pay")
    story.roll_back(0, scope="state")
    story.enter()
    assert story.call("pay") == ("reused", 1)
    assert story.close()[0] == "closed"
    assert story.model.discrepancies("main") == {}


def test_a_second_equal_effect_that_stands_is_a_question() -> None:
    """One alone may be meant; of two, nobody knows which."""
    story = Story()
    story.step("pay", "pay")
    story.roll_back(0, scope="state")
    story.enter()
    assert story.call("pay") == ("refused", "effect_stands", 1, 2)
    assert story.call("pay", choice="reuse") == ("reused", 1)
    assert story.call("pay") == ("reused", 2)


def test_two_identical_orders_in_one_step_are_both_made() -> None:
    story = Story()
    story.enter()
    assert story.approved("order")[0] == "called"
    assert story.approved("order")[0] == "called"
    assert story.close() == ("closed", 1)
    assert len({story.effect(number).keys for number in (1, 2)}) == 2
    assert story.world.executed.total() == 2


def test_what_ones_own_history_knows_may_be_done_again() -> None:
    story = Story()
    story.step("pay")
    story.enter()
    assert story.call("pay") == ("called", 2, "done")


def test_another_worker_of_the_thread_is_asked_about_an_open_step() -> None:
    story = Story()
    story.enter()
    story.call("pay", "x")
    assert story.model.enter("bob", "main", "b", False) == ("new",)
    assert story.model.call("bob", "pay", "y", "stop") == ("refused", "effect_stands", 1)
    assert story.model.call("bob", "pay", "y", "beside") == ("called", 2, "done")
    assert story.effect(2).decided


def test_what_another_closed_meanwhile_is_asked_about_too() -> None:
    """It is part of the head by now, and this attempt's agent has never seen it."""
    story = Story()
    story.enter()
    story.model.enter("bob", "main", "b", False)
    story.model.call("bob", "pay", "x", "stop")
    assert story.model.close("bob") == ("closed", 1)
    assert story.call("pay", "y") == ("refused", "effect_stands", 1)
    story.dies()
    story.enter(take_over=True)
    assert story.call("pay", "y") == ("called", 2, "done")


def test_undoing_first_lets_the_call_be_made_anew() -> None:
    story = Story()
    story.step("pay")
    story.roll_back(0, scope="state")
    story.enter()
    assert story.call("pay", "y", "undo") == ("called", 2, "done")
    assert story.effect(2).decided
    assert (story.stands(1), story.stands(2)) == (0, 1)


# --- what nobody knows


@pytest.mark.parametrize("fate", ["lost before", "lost after", "times out"])
def test_any_exception_but_not_done_is_unknown(fate: str) -> None:
    story = Story(fate)
    story.enter()
    assert story.call("pay") == ("called", 1, "unknown")
    assert story.close() == ("refused", "effect_unknown", 1)
    story.enter()
    assert story.call("pay") == ("refused", "effect_unknown", 1)


def test_a_refusal_is_a_failure_and_is_told_again() -> None:
    story = Story("refused")
    story.enter()
    assert story.call("pay") == ("called", 1, "failed")
    story.dies()
    story.enter(take_over=True)
    assert story.call("pay") == ("recorded", 1, "failed")
    assert story.close() == ("closed", 1)
    assert story.model.believed("main", 1) == frozenset()


def test_a_keyed_call_is_tried_again_with_its_key() -> None:
    story = Story("dies after")
    story.enter()
    assert story.call("keyed") == ("died", 1)
    story.dies()
    story.enter(take_over=True)
    assert story.call("keyed") == ("retried", 1, "done")
    assert story.world.executed.total() == 1


def test_a_key_is_not_sent_again_when_the_provider_has_forgotten_it() -> None:
    story = Story("dies after")
    story.enter()
    story.call("keyed")
    story.dies()
    story.world.now += KEY_MEMORY
    story.enter(take_over=True)
    assert story.call("keyed") == ("refused", "effect_unknown", 1)
    assert story.world.executed.total() == 1


def test_a_refused_retry_does_not_say_what_the_first_try_did() -> None:
    story = Story("dies after", "refused")
    story.enter()
    story.call("keyed")
    story.dies()
    story.enter(take_over=True)
    assert story.call("keyed") == ("retried", 1, "unknown")


def test_people_say_that_it_did_not_happen_after_the_deadline_only() -> None:
    story = Story("stops before")
    story.enter()
    assert story.call("pay") == ("stopped", 1, "call")
    story.dies()
    story.enter(take_over=True)
    assert story.model.resolve(1, happened=False) == ("refused", "too_early", 1)
    story.world.now += TIMEOUT + 1
    assert story.model.resolve(1, happened=False) == ("resolved", "failed")
    assert story.model.wake(1) == ("woken", 1, "gave up")
    assert story.world.executed.total() == 0


def test_a_late_outcome_is_evidence_and_moves_no_head() -> None:
    """A stopped owner is woken after another took over: what it learned counts, what it wants does not."""
    story = Story("stops after")
    story.enter()
    story.call("pay")
    stopped, story.worker = story.worker, "bob"
    assert story.enter(take_over=True) == ("resumed",)
    assert story.effect(1).state == "unknown"
    assert story.model.wake(1) == ("woken", 1, "done")
    assert story.model.close(stopped) == ("refused", "step_lost")
    assert story.call("pay") == ("recorded", 1, "done")
    assert story.close() == ("closed", 1)


def test_an_undo_that_is_not_safe_is_not_repeated() -> None:
    story = Story()
    story.step("once")
    story.fates.append("dies after")
    assert story.roll_back(0) == ("died", 1)
    assert story.model.go_on(1, "retry") == ("paused",)
    assert story.effect(1).state == "undo_unknown"
    assert story.model.resolve(1, happened=True) == ("resolved", "undone")
    assert story.model.go_on(1, "retry") == ("applied", 2)
    assert story.world.undone.total() == 1


def test_a_safe_undo_is_repeated_after_a_crash() -> None:
    story = Story()
    story.step("pay")
    story.fates.append("dies after")
    assert story.roll_back(0) == ("died", 1)
    assert story.model.go_on(1, "retry") == ("applied", 2)
    assert story.world.undone.total() == 1


# --- steps


def test_a_step_is_one_owners_until_its_lease_ends() -> None:
    story = Story()
    story.enter()
    story.call("pay")
    story.dies()
    assert story.enter() == ("refused", "step_in_progress", "ada")
    story.world.now += LEASE + 1
    assert story.enter() == ("resumed",)


def test_who_was_replaced_writes_nothing() -> None:
    story = Story()
    story.enter()
    story.call("pay")
    assert story.model.enter("bob", "main", "a", True) == ("resumed",)
    assert story.call("pay") == ("refused", "step_lost")
    assert len(story.model.effects()) == 1


def test_two_new_steps_of_one_label_are_one() -> None:
    """Each is recorded with its first effect. Calls of two would share slots, and so their keys."""
    story = Story()
    story.enter()
    assert story.model.enter("bob", "main", "a", False) == ("new",)
    story.call("pay")
    assert story.model.call("bob", "pay", "x", "beside") == ("refused", "step_lost")
    assert story.world.executed.total() == 1


def test_a_step_that_began_before_another_of_its_label_closed_has_keys_of_its_own() -> None:
    story = Story()
    story.model.enter("bob", "main", "a", False)
    story.step("pay", "pay")
    assert story.model.call("bob", "pay", "x", "beside") == ("called", 3, "done")
    assert len({story.effect(number).keys for number in (1, 2, 3)}) == 3


def test_what_two_go_through_in_one_run_is_recorded_once() -> None:
    story = Story()
    story.model.start_run("bob", "main", "nightly")
    assert story.model.enter("bob", "main", "a", False) == ("new",)
    run(story, "pay")
    assert story.model.call("bob", "pay", "x", "beside") == ("refused", "step_lost")
    assert story.world.executed.total() == 1


def test_a_step_that_failed_stays_open_for_what_is_recorded_of_it() -> None:
    """Its effects; and what was asked in it, or the yes would be for a step that is gone."""
    story = Story()
    story.enter()
    assert story.model.leave(story.worker) == ("nothing",)
    story.enter()
    number = asked(story)
    assert story.model.leave(story.worker) == ("open",)
    story.model.grant(number, by_asker=False)
    assert story.enter() == ("resumed",)
    assert story.call("order") == ("called", 1, "done")
    assert story.model.leave(story.worker) == ("open",)
    assert story.enter() == ("resumed",)


def test_whoever_could_not_close_a_step_is_out_of_it() -> None:
    story = Story("lost after")
    story.enter()
    story.call("pay")
    assert story.close() == ("refused", "effect_unknown", 1)
    assert story.call("pay") == ("refused", "no_step")
    assert story.model.enter("bob", "main", "a", False) == ("resumed",)


def test_commits_of_others_absorb_nothing() -> None:
    story = Story()
    story.enter()
    story.call("pay")
    assert story.model.commit("main") == ("committed", 1)
    assert story.model.believed("main", 1) == frozenset()
    assert story.close() == ("closed", 2)
    assert story.model.believed("main", 2) == {1}


def test_an_effect_that_the_last_attempt_did_not_claim_is_an_orphan() -> None:
    story = Story()
    story.enter()
    story.call("pay", "x")
    story.dies()
    story.enter(take_over=True)
    story.call("pay", "y", "beside")
    story.close()
    assert story.group(story.plan(0), "orphan") == (1,)
    assert story.group(story.plan(0), "compensate") == (2,)
    assert story.group(story.plan(0, orphans=True), "compensate") == (1, 2)


# --- runs


def run(story: Story, *calls: str) -> list[Answer]:
    """A script from its first line: a step for each call."""
    story.model.start_run(story.worker, "main", "nightly")
    answers = []
    for tool in calls:
        story.enter()
        answers += [story.call(tool), story.close()]
    return answers


def test_a_script_can_be_run_again_from_its_first_line() -> None:
    story = Story()
    assert run(story, "pay", "once") == [
        ("called", 1, "done"),
        ("closed", 1),
        ("called", 2, "done"),
        ("closed", 2),
    ]
    assert run(story, "pay", "once", "pay") == [
        ("replayed", 1), ("replayed",), ("replayed", 2), ("replayed",), ("called", 3, "done"), ("closed", 3),
    ]  # fmt: skip
    assert story.world.executed.total() == 3


def test_a_script_that_does_something_else_is_told_so() -> None:
    story = Story()
    run(story, "pay")
    assert run(story, "once")[0] == ("refused", "replay_diverged", "once", "x")
    assert story.world.executed.total() == 1


def test_what_was_taken_back_is_not_replayed() -> None:
    story = Story()
    run(story, "pay")
    story.roll_back(0)
    assert run(story, "pay") == [("called", 2, "done"), ("closed", 3)]
    assert (story.stands(1), story.stands(2)) == (0, 1)


def test_an_entry_that_raised_is_no_entry() -> None:
    """A run counts what was recorded; else a body that raised would shift what follows, and it ran twice."""
    story = Story()
    run(story, "pay")
    story.model.start_run(story.worker, "main", "nightly")
    assert story.enter() == ("replays",)
    assert story.model.leave(story.worker) == ("left",)
    assert story.enter() == ("replays",)


def test_a_replay_ends_with_what_it_replays() -> None:
    """Somebody goes back behind the recorded step while it is gone through again."""
    story = Story()
    run(story, "pay")
    story.model.start_run(story.worker, "main", "nightly")
    story.enter()
    story.roll_back(0)
    assert story.call("pay") == ("refused", "step_lost")


def test_a_run_does_not_go_on_without_its_past() -> None:
    """Somebody goes back behind steps that this run has just been through: it starts again."""
    story = Story()
    run(story, "pay")
    story.roll_back(0)
    assert story.enter() == ("refused", "run_lost", "nightly")
    assert run(story, "pay")[0] == ("called", 2, "done")


# --- plans


def test_every_effect_is_in_one_group_and_the_newest_is_undone_first() -> None:
    story = Story()
    story.step("pay", "mail", "once")
    plan = story.plan(0)
    groups = story.model.plans()[plan - 1].groups
    assert {key: numbers for key, numbers in groups.items() if numbers} == {
        "compensate": (1, 3),
        "stays": (2,),
    }
    assert story.model.apply(plan, acknowledge=False, here=True) == ("refused", "not_acknowledged", 2)
    assert story.model.apply(plan, acknowledge=True, here=True) == ("applied", 2)
    assert story.model.plans()[plan - 1].lines == ((3, "undo", "done"), (1, "undo", "done"))
    assert [story.stands(number) for number in (1, 2, 3)] == [0, 1, 0]


def test_a_plan_that_saw_something_else_is_stale() -> None:
    story = Story()
    story.step("pay")
    plan = story.plan(0)
    story.model.commit("main")
    assert story.model.apply(plan, acknowledge=True, here=True) == ("refused", "plan_stale", plan)
    assert story.stands(1) == 1


def test_a_plan_waits_for_what_is_unknown() -> None:
    story = Story("lost after")
    story.enter()
    story.call("pay")
    assert story.group(story.plan(0), "decide") == (1,)
    assert story.roll_back(0) == ("refused", "undecided", 1)
    story.model.resolve(1, happened=True)
    assert story.roll_back(0) == ("applied", 1)
    assert story.stands(1) == 0


def test_a_plan_that_nobody_executes_holds_the_thread_until_somebody_does() -> None:
    story = Story()
    story.step("pay")
    plan = story.plan(0)
    assert story.model.apply(plan, acknowledge=True, here=False) == ("waits",)
    assert story.model.commit("main") == ("refused", "rollback_in_progress", plan)
    assert story.model.go_on(plan, "retry") == ("applied", 2)
    assert story.model.commit("main") == ("committed", 3)


@pytest.mark.parametrize(("decision", "answer", "stands"), [
    ("retry", ("applied", 2), 0),
    ("accept", ("applied", 2), 1),
    ("abort", ("aborted", 2), 1),
])  # fmt: skip
def test_a_paused_plan_is_retried_accepted_or_aborted(decision: str, answer: Answer, stands: int) -> None:
    story = Story()
    story.step("pay")
    story.fates.append("refused")
    assert story.roll_back(0) == ("paused",)
    assert story.model.go_on(1, decision) == answer
    assert story.stands(1) == stands
    assert story.model.discrepancies("main") == ({"compensate": (1,)} if decision == "accept" else {})


def test_an_undo_asks_before_it_takes_anything_back() -> None:
    story = Story()
    story.step("pay")
    assert story.model.undo("main", 0) == ("refused", "plan_required", 1)
    assert story.stands(1) == 1


def test_an_undo_of_a_rollback_lists_what_is_missing_and_redoes_it_on_request() -> None:
    story = Story()
    story.step("pay")
    story.roll_back(0)
    assert story.model.undo("main", 1) == ("applied", 3)
    assert story.model.discrepancies("main") == {"missing": (1,)}
    assert story.roll_back(3, redo=True) == ("applied", 4)
    assert story.model.discrepancies("main") == {}
    assert len(set(story.effect(1).keys)) == 2
    assert story.world.executed.total() == 2


def test_effects_alone_leave_the_history_and_show_as_missing() -> None:
    story = Story()
    story.step("pay")
    story.roll_back(0, scope="effects")
    assert story.model.believed("main", 2) == {1}
    assert story.model.discrepancies("main") == {"missing": (1,)}


# --- forks


def test_a_fork_without_rights_makes_no_effects_but_looks() -> None:
    story = Story()
    story.model.fork("main", 0, "deny")
    story.enter(thread="fork 1")
    assert story.call("look") == ("free",)
    assert story.call("pay") == ("refused", "effects_denied")


def test_a_fork_is_asked_about_its_parents_account() -> None:
    story = Story()
    story.model.fork("main", 0, "guard")
    story.step("pay")
    story.worker = "bob"
    story.enter(thread="fork 1")
    assert story.call("pay", "y") == ("refused", "effect_stands", 1)
    story.model.fork("main", 0, "allow")
    story.worker = "eve"
    story.enter(thread="fork 2")
    assert story.call("pay", "y") == ("called", 2, "done")


def test_a_fork_undoes_nothing_of_its_parent() -> None:
    story = Story()
    story.model.fork("main", 0, "guard")
    story.step("pay")
    story.worker = "bob"
    story.enter(thread="fork 1")
    assert story.call("pay", "y", "undo") == ("refused", "cannot_undo", 1)
    assert story.stands(1) == 1


def test_what_a_fork_relies_on_is_kept_unless_it_is_named() -> None:
    story = Story()
    story.step("pay")
    story.model.fork("main", 1, "guard")
    assert story.group(story.plan(0), "shared") == (1,)
    assert story.group(story.plan(0, shared=True), "compensate") == (1,)
    assert story.group(story.plan(0, thread="fork 1"), "foreign") == ()


def test_a_merge_into_the_parent_passes_ownership_and_the_fork_acts_no_more() -> None:
    story = Story()
    story.model.fork("main", 0, "guard")
    story.enter(thread="fork 1")
    story.call("pay")
    story.close()
    assert story.effect(1).owner == "fork 1"
    assert story.model.merge("main", "fork 1") == ("merged", 1)
    assert story.effect(1).owner == "main"
    story.enter(thread="fork 1")
    assert story.call("pay") == ("refused", "merged")
    assert story.close() == ("closed", 2)
    assert story.roll_back(0) == ("applied", 2)
    assert story.stands(1) == 0


def test_another_threads_effect_is_named_and_left_alone() -> None:
    story = Story()
    story.model.fork("main", 0, "guard")
    story.step("pay")
    story.model.merge("fork 1", "main")
    assert story.effect(1).owner == "main"
    assert story.group(story.plan(0, thread="fork 1"), "foreign") == (1,)
    assert story.roll_back(0, thread="fork 1") == ("applied", 2)
    assert story.stands(1) == 1


# --- approvals


def asked(story: Story, tool: str = "order", args: str = "x") -> int:
    word, kind, number = story.call(tool, args)
    assert (word, kind) == ("refused", "approval_required")
    return int(number)


def test_an_approval_outlives_a_message_and_not_a_rollback() -> None:
    story = Story()
    story.enter()
    number = asked(story)
    story.model.grant(number, by_asker=False)
    story.model.commit("main")
    assert story.call("order") == ("called", 1, "done")
    second = asked(story)
    story.model.grant(second, by_asker=False)
    assert story.roll_back(0) == ("applied", 2)
    assert story.model.approvals()[second - 1].state == "void"
    story.dies()
    story.enter()
    assert asked(story) == second + 1


def test_an_approval_is_for_these_arguments_and_this_code() -> None:
    story = Story()
    story.enter()
    story.model.grant(asked(story, "mail"), by_asker=False)
    assert asked(story, "mail", "y") == 2
    story.world.versions["mail"] += 1
    assert asked(story, "mail") == 3


def test_nobody_grants_to_themselves() -> None:
    story = Story()
    story.enter()
    number = asked(story)
    assert story.model.grant(number, by_asker=True) == ("refused", "same_person", number)
    assert story.model.grant(number, by_asker=False) == ("granted",)
    assert story.model.grant(number, by_asker=False) == ("refused", "approval_over", number)


def test_a_price_that_moved_voids_an_approval() -> None:
    story = Story()
    story.enter()
    number = asked(story)
    story.model.grant(number, by_asker=False)
    story.world.price += 1
    assert asked(story) == number + 1
    assert [one.state for one in story.model.approvals()] == ["void", "requested"]


def test_an_approval_ends() -> None:
    story = Story()
    story.enter()
    number = asked(story)
    story.model.grant(number, by_asker=False)
    story.world.now += APPROVAL_LIFE + 1
    assert asked(story) == number + 1
    assert story.world.executed.total() == 0


def test_a_redo_needs_an_approval_of_its_own() -> None:
    story = Story()
    story.step("order")
    story.roll_back(0)
    assert story.roll_back(1, redo=True) == ("paused",)
    assert story.model.go_on(2, "retry") == ("paused",)
    number = story.model.approvals()[-1].number
    story.model.grant(number, by_asker=False)
    assert story.model.go_on(2, "retry") == ("applied", 3)
    assert (story.stands(1), story.world.executed.total()) == (1, 2)


# --- budgets


def test_money_that_stands_no_more_comes_back_and_attempts_do_not() -> None:
    story = Story(money=1, attempts=2)
    story.step("pay")
    story.enter()
    assert story.call("pay") == ("refused", "budget_exceeded", "money")
    story.dies()
    story.roll_back(0)
    story.enter()
    assert story.call("pay") == ("called", 2, "done")
    story.dies()
    story.roll_back(2)
    story.enter()
    assert story.call("pay") == ("refused", "budget_exceeded", "attempts")


def test_an_unknown_counts_as_spent() -> None:
    story = Story("lost before", money=1)
    story.enter()
    assert story.call("pay") == ("called", 1, "unknown")
    assert story.call("pay", choice="beside") == ("refused", "budget_exceeded", "money")


def test_a_fork_spends_of_the_same_budget() -> None:
    story = Story(money=1)
    story.model.fork("main", 0, "allow")
    story.step("pay")
    story.enter(thread="fork 1")
    assert story.call("pay", "y") == ("refused", "budget_exceeded", "money")


def test_a_redo_spends_too() -> None:
    story = Story(attempts=1)
    story.step("pay")
    story.roll_back(0)
    assert story.roll_back(1, redo=True) == ("paused",)
    assert story.model.go_on(2, "accept") == ("applied", 3)
    assert story.stands(1) == 0
