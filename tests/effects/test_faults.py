"""What goes wrong around effects: undos, facts and handlers that fail, plans and steps that are overtaken."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest

import takeback
from takeback import errors
from takeback.engine import owners, undoing
from takeback.tools import registry

PERSON = "ada"


def book(trip: Any, do: Any, *amounts: int) -> None:
    with trip.step("book") as step:
        for number, amount in enumerate(amounts):
            do.charge(f"account {number}", amount)
        step.state["n"] = len(amounts)


def failing(trip: Any, call: Any) -> None:
    """A step that makes the call, and raises after it."""

    def body() -> None:
        call()
        raise RuntimeError("the body")

    with pytest.raises(RuntimeError, match="the body"), trip.step("book"):
        body()


def test_an_exception_in_an_undo_pauses_the_plan_until_somebody_knows(tb, trip, do, world, clock):
    with trip.step("book"):
        do.order("hotel")
    world.fates["cancel"] = [RuntimeError("the line is dead")]
    with pytest.raises(errors.PlanPaused, match="undo_unknown: RuntimeError: the line is dead"):
        trip.plan_rollback(0).apply()
    (plan,) = tb.recover().plans
    with pytest.raises(errors.Undecided, match="has to be resolved"):
        plan.retry(1)
    with pytest.raises(errors.Undecided, match="may still be on its way"):
        trip.resolve(1, happened=False, actor=PERSON)
    clock.passes(hours=1)
    trip.resolve(1, happened=False, actor=PERSON)
    assert plan.retry(1).state == "applied"
    assert (trip.effect(1).state, len(world.named("cancel"))) == ("undone", 2)


def test_facts_that_cannot_be_looked_up_again_stop_a_redo_before_the_call(tb, trip, world):
    def price(item: str) -> dict[str, int]:
        if world.price < 0:
            raise RuntimeError("no price today")
        return {"price": world.price}

    @takeback.tool(undo=lambda item: None, facts=price, requires_approval=True)
    def buy(item: str) -> int:
        return world.happens("buy", item)

    for _ in range(2):
        try:
            with trip.step("shop"):
                buy("book")
        except errors.ApprovalRequired as asked:
            asked.approval.grant(actor=PERSON)
    trip.plan_rollback(0).apply()
    world.price = -1
    with pytest.raises(errors.PlanPaused, match="no price today"):
        trip.plan_undo(redo=[1]).apply()
    world.price = 200
    (plan,) = tb.recover().plans
    assert plan.retry(1).state == "paused"  # it asks anew, at the price of now
    (asked,) = trip.approvals()
    assert asked.facts == {"price": 200}
    asked.grant(actor=PERSON)
    assert plan.retry(1).state == "applied"
    assert (trip.effect(1).state, len(world.named("buy"))) == ("done", 2)


def test_a_yes_for_a_redo_ends_with_its_plan(tb, trip, world):
    @takeback.tool(undo=lambda item: None, requires_approval=True)
    def buy(item: str) -> int:
        return world.happens("buy", item)

    for _ in range(2):
        try:
            with trip.step("shop"):
                buy("book")
        except errors.ApprovalRequired as asked:
            asked.approval.grant(actor=PERSON)
    trip.plan_rollback(0).apply()
    with pytest.raises(errors.PlanPaused):
        trip.plan_undo(redo=[1]).apply()
    trip.approvals()[0].grant(actor=PERSON)
    tb.recover(settle=False).plans[0].abort("not today")
    assert [each.state for each in trip.refresh().approvals(None)] == ["used", "void"]
    with pytest.raises(errors.PlanPaused):
        trip.plan_rollback(1, redo=[1]).apply()
    assert len(world.named("buy")) == 1


def test_a_handler_that_is_there_no_more(tb, trip, do, world):
    """The plan says so, and by whom it waits; nothing of it is done; a person may undo it by hand."""
    book(trip, do, 5)
    registry._undos.clear()
    plan = trip.plan_rollback(0)
    assert plan.waits == {"refund@1": 1}
    with pytest.raises(errors.HandlerMissing, match="1 waits for a worker with refund@1"):
        plan.apply()
    with pytest.raises(errors.HandlerMissing):
        trip.undo_effect(1)
    assert (trip.version, trip.effect(1).state) == (1, "done")
    trip.resolve(1, undone=True, actor=PERSON)
    assert trip.rollback(0).checkpoint.version == 2
    assert world.named("refund") == []


def test_who_asks_does_not_grant_whatever_name_is_given(tb, trip, do):
    trip.set_autopilot()
    with pytest.raises(errors.ApprovalRequired) as asked, trip.step("tell"):
        do.mail("ada")
    for who in ("bot", "planner"):  # whoever asked, and the thread's agent
        with pytest.raises(errors.NotForAgents):
            asked.value.approval.grant(actor=who)
    assert asked.value.approval.grant(actor=PERSON).state == "granted"


def test_a_request_waits_and_a_yes_does_not(tb, trip, do, world, clock):
    """Somebody who comes back after a week may still say yes; what they said does not last as long."""
    trip.set_autopilot()
    with pytest.raises(errors.ApprovalRequired) as asked, trip.step("tell"):
        do.mail("ada")
    clock.passes(hours=24 * 7)
    asked.value.approval.grant(actor=PERSON)
    clock.passes(hours=25)
    assert asked.value.approval.state == "expired"
    with pytest.raises(errors.ApprovalRequired) as again, trip.step("tell"):
        do.mail("ada")
    assert (again.value.approval.number, world.log) == (2, [])
    again.value.approval.grant(actor=PERSON)
    with trip.step("tell"):
        do.mail("ada")
    assert world.log == [("mail", "ada", "")]


def test_steps_of_one_thread_do_not_nest_and_calls_go_to_the_innermost(tb, trip, do):
    other = tb.thread("other", initial={})
    with trip.step("outer"), pytest.raises(errors.StepOpen), trip.step("inner"):
        pass
    with trip.step("outer"):
        do.charge("ACME", 1)
        with other.step("inner"):
            do.charge("EMCA", 2)
    assert [len(each.effects()) for each in (trip, other)] == [1, 1]


def test_a_person_who_knows_the_result_lets_the_step_go_on(trip, do, world):
    world.fates["charge"] = [ConnectionError("lost")]
    with pytest.raises(ConnectionError), trip.step("book"):
        do.charge("ACME", 5)
    trip.resolve(1, happened=True, result={"id": 7}, actor=PERSON)
    with trip.step("book") as step:
        step.state["charge"] = do.charge("ACME", 5)["id"]
    assert (trip.state["charge"], len(world.log)) == (7, 1)
    trip.plan_rollback(0).apply()
    assert world.named("refund") == [("refund", "ACME", 5, 7)]


def test_an_undo_whose_process_is_gone_is_unknown_and_parked(tb, trip, do):
    book(trip, do, 5)
    held = trip._book()
    effect = held.effects[trip.effect(1).id]
    gone = undoing.undoing(effect, held.clock(), owners.claim())
    held.change(lambda: _written(gone))
    with pytest.raises(errors.Undecided, match="is being undone by process"):
        trip.undo_effect(1)
    assert trip.plan_rollback(0).effects.blocked
    owners.release(gone.executor)
    found = tb.recover()
    assert [each.state for each in found.effects] == ["undo_unknown"]
    assert trip.undo_effect(1).state == "undone"  # it is safe to repeat


def _written(entry: Any) -> Any:
    from takeback.engine.book import Change

    return Change([entry])


def test_a_plan_notices_what_this_very_process_did_since(tb, trip, do):
    """Its own calls have been read here already, so no guard of the store says that the ledger moved."""
    plan = trip.plan_rollback(0)
    failing(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(errors.PlanStale, match="effects have changed"):
        plan.apply()


def test_a_step_that_called_nothing_ends_with_its_line(tb, trip):
    """What it did to the state was done to what was taken back meanwhile."""
    trip.commit({"n": 1})

    def body(step: Any) -> None:
        step.state["n"] = 2
        contextvars.Context().run(tb.thread("trip").rollback, 0)  # somebody who is not in this step

    with pytest.raises(errors.StepLost, match="went back"), trip.step("think") as step:
        body(step)
    assert trip.refresh().state == {"n": 0}


def test_effects_alone_leave_the_history_as_it_was(trip, do):
    book(trip, do, 5)
    trip.plan_rollback(0, scope=["effects"]).apply()
    assert trip.state["n"] == 1
    assert [each.number for each in trip.discrepancies().missing] == [1]


def test_a_run_goes_on_in_a_fork_where_its_parent_was(trip, do, world):
    with trip.run("job"), trip.step("book") as step:
        step.state["n"] = do.charge("ACME", 5)["id"]
    fork = trip.fork(effects="guard")
    with fork.run("job"), fork.step("book") as step:
        assert step.replayed
        assert do.charge("ACME", 5) == {"id": 1}
    assert (step.made.version, len(world.log)) == (1, 1)


def test_a_run_whose_steps_were_taken_back_starts_again(tb, trip, do, world):
    with trip.run("job"):
        with trip.step("book"):
            do.charge("ACME", 5)
        tb.thread("trip").plan_rollback(0).apply()
        trip.refresh()
        with pytest.raises(errors.ReplayDiverged, match="taken back meanwhile"), trip.step("book"):
            do.charge("ACME", 5)
    with trip.run("job"), trip.step("book"):
        do.charge("ACME", 5)
    assert len(world.named("charge")) == 2


def test_calls_are_matched_in_the_order_of_their_intents_in_another_process_too(tb, trip, do, url):
    """A ledger that is read from the store comes in the order in which it was written last."""
    failing(trip, lambda: [do.put("x", 1) for _ in range(3)])
    held = trip._book()
    first = next(each for each in held.effects.values() if each.number == 1)
    held.change(lambda: _written(takeback.calling.msgspec.structs.replace(first, late=["noted"])))
    again = takeback.Repo(tb._ctx.storage, actor="bot", clock=tb._ctx.clock).thread("trip")
    with again.step("book"):
        assert [do.put("x", 1) for _ in range(3)] == [1, 2, 3]
