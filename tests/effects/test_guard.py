"""The guard: before a new call, what stands at its target and this history knows nothing of."""

from __future__ import annotations

import contextvars

import pytest

import takeback
from takeback import errors
from takeback.errors import EffectStands


def failing(thread, call, label="book"):
    """A step that made a call and then failed: it stays open."""

    def attempt():
        with thread.step(label):
            call()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt()


# --- the stories


def test_an_agent_that_words_it_anew_after_a_rollback_is_asked(trip, do, world):
    """A refund, rolled back, and run again in other words: no second one without a question."""
    with trip.step("refund"):
        do.mail("ada", "your refund of $5")
    trip.plan_rollback(0).apply(acknowledge=True)
    with pytest.raises(EffectStands) as caught, trip.step("refund"):
        do.mail("ada", "we refunded you $5")
    assert [effect.number for effect in caught.value.standing] == [1]
    assert "#1 (e-mail to ada, done) may stand, and this history knows nothing of it" in str(caught.value)
    assert len(world.log) == 1


def test_the_same_call_after_a_rollback_is_answered_with_what_stands(trip, do, world):
    """Word for word the same, and one alone: it is taken for this call, and believed in again."""
    with trip.step("mail"):
        do.mail("ada", "hello")
    trip.plan_rollback(0).apply(acknowledge=True)
    assert [effect.number for effect in trip.discrepancies().stays] == [1]
    with trip.step("mail"):
        do.mail("ada", "hello")
    assert (len(world.log), len(trip.effects()), trip.discrepancies().stays) == (1, 1, [])
    assert [use.version for use in trip.effect(1).uses] == [1, 3]


def test_the_same_charge_with_another_amount_is_a_question(trip, do, world):
    """Not answered with the old result: who expects $50 must not be told of $40."""
    failing(trip, lambda: do.charge("ACME", 4000))
    with (
        pytest.raises(
            EffectStands, match=r"before charge \$50.00 to ACME: #1 \(charge \$40.00 to ACME, done"
        ),
        trip.step("book"),
    ):
        do.charge("ACME", 5000)
    with trip.step("book"):
        assert do.charge("OTHER", 5000) == {"id": 2}
        assert do.charge("ACME", 4000) == {"id": 1}
    assert len(world.log) == 2


def test_two_identical_orders_in_one_step_are_both_made(trip, do):
    with trip.step("order"):
        assert [do.order("chair"), do.order("chair")] == ["order 1", "order 2"]
    with trip.step("order"):
        assert do.order("chair") == "order 3"


def test_what_was_taken_back_is_no_obstacle(trip, do, world):
    with trip.step("book"):
        do.charge("ACME", 5)
    trip.plan_undo().apply()
    with trip.step("book"):
        do.charge("ACME", 6)
    assert [each[0] for each in world.log] == ["charge", "refund", "charge"]


def test_a_free_call_is_never_asked_about(trip, do):
    failing(trip, lambda: do.mail("ada"))
    with trip.step("other"):
        assert do.look("ada") == "ADA"


def test_where_no_target_is_named_the_tool_is_the_target(trip, do):
    failing(trip, lambda: do.mail("ada"))
    with pytest.raises(EffectStands), trip.step("book"):
        do.mail("bob")
    with trip.step("book"):  # another tool
        do.order("chair")


def test_tools_with_one_target_are_asked_about_each_other(trip, do, world):
    @takeback.tool(target="{account}")
    def close_account(account):
        world.happens("close", account)

    failing(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(EffectStands, match="before close_account"), trip.step("book"):
        close_account("ACME")


def test_an_unknown_effect_stands_in_the_way(trip, do, world):
    """Equal arguments are no answer where nobody knows whether it happened."""
    world.fates["charge"] = [ConnectionError()]
    with pytest.raises(ConnectionError), trip.step("book"):
        do.charge("ACME", 5)
    with pytest.raises(EffectStands, match="unknown"), trip.step("other"):
        do.charge("ACME", 5)


def test_several_that_stand_are_a_question_even_when_one_is_the_same(trip, do):
    def twice():
        do.mail("ada", "one")
        do.mail("ada", "two")

    failing(trip, twice)
    with pytest.raises(EffectStands) as caught, trip.step("other"):
        do.mail("ada", "one")
    assert len(caught.value.standing) == 2


def test_many_that_stand_are_named_in_part(trip, do):
    failing(trip, lambda: [do.mail(f"ada{n}") for n in range(8)])
    with pytest.raises(EffectStands, match="and 3 more may stand") as caught, trip.step("other"):
        do.mail("bob")
    assert len(caught.value.standing) == 8


# --- the three answers


def test_beside_makes_the_call_and_keeps_the_answer(trip, do, world):
    failing(trip, lambda: do.charge("ACME", 5))
    with trip.step("book") as s, s.deciding("beside", by="ada"):
        do.charge("ACME", 6)
    assert [each[2] for each in world.named("charge")] == [5, 6]
    second = trip.effect(2)
    assert [(said.what, said.by, said.about) for said in second.decisions] == [("beside", "ada", [1])]
    first = trip.effect(1)
    assert (first.orphan, first.uses, second.orphan) == (True, [], False)
    assert [effect.number for effect in trip.discrepancies().orphan] == [1]


def test_beside_makes_an_equal_call_a_second_time(trip, do, world):
    with trip.step("book"):
        do.mail("ada")
    trip.plan_rollback(0).apply(acknowledge=True)
    with trip.step("book") as s, s.deciding("beside"):
        do.mail("ada")
    assert len(world.log) == 2
    assert len(set(world.keys)) == 2


def test_undo_takes_back_first(trip, do, world):
    failing(trip, lambda: do.charge("ACME", 5))
    with trip.step("book") as s, s.deciding("undo", by="ada"):
        do.charge("ACME", 6)
    assert world.log == [("charge", "ACME", 5), ("refund", "ACME", 5, 1), ("charge", "ACME", 6)]
    assert [effect.state for effect in trip.effects()] == ["undone", "done"]
    said = [(d.what, d.by, d.about) for effect in trip.effects() for d in effect.decisions]
    assert said == [("undo", "ada", [1])]


def test_undo_of_what_cannot_be_undone_is_refused(trip, do, world):
    failing(trip, lambda: do.mail("ada", "one"))
    with (
        pytest.raises(errors.Undecided, match="cannot be undone"),
        trip.step("book") as s,
        s.deciding("undo"),
    ):
        do.mail("ada", "two")
    assert len(world.log) == 1


def test_undo_that_fails_makes_no_call(trip, do, world):
    failing(trip, lambda: do.charge("ACME", 5))
    world.fates["refund"] = [takeback.NotDone("too late")]
    with (
        pytest.raises(errors.Undecided, match="is undo_failed: too late"),
        trip.step("book") as s,
        s.deciding("undo"),
    ):
        do.charge("ACME", 6)
    assert (len(world.log), trip.effect(1).state) == (1, "undo_failed")


def test_reuse_takes_the_other_one(trip, do, world):
    """Somebody says that what stands is what is wanted, though it is worded otherwise."""
    failing(trip, lambda: do.charge("ACME", 5))
    with trip.step("book") as s, s.deciding("reuse", by="ada"):
        assert do.charge("ACME", 6) == {"id": 1}
    assert len(world.log) == 1
    effect = trip.effect(1)
    assert (effect.state, [use.version for use in effect.uses], effect.orphan) == ("done", [1], False)
    assert [(said.what, said.by) for said in effect.decisions] == [("reuse", "ada")]


def test_what_was_reused_is_found_again_when_the_step_goes_on(trip, do, world):
    """The call that it was taken for gives it again, without a question."""
    failing(trip, lambda: do.charge("ACME", 5))

    def reusing():
        with trip.step("other") as s:
            with s.deciding("reuse"):
                assert do.charge("ACME", 6) == {"id": 1}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        reusing()
    with trip.step("other"):
        assert do.charge("ACME", 6) == {"id": 1}
    assert len(world.log) == 1


def test_reuse_of_many_or_of_another_tool_is_still_a_question(trip, do, world):
    """One result has to be the answer: that of the only one, of the same tool, that was done."""

    @takeback.tool(target="{account}")
    def credit(account):
        return "credited"

    failing(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(EffectStands), trip.step("other") as s, s.deciding("reuse"):
        credit("ACME")
    failing(trip, lambda: [do.mail("ada"), do.mail("bob")], label="mails")
    with pytest.raises(EffectStands), trip.step("other") as s, s.deciding("reuse"):
        do.mail("eve")


def test_an_answer_that_is_none(trip):
    with trip.step("book") as s, pytest.raises(errors.BadRequest, match="none of 'beside', 'reuse', 'undo'"):
        s.deciding("whatever")


def test_an_answer_holds_inside_its_block_alone(trip, do):
    failing(trip, lambda: do.charge("ACME", 5))
    with trip.step("book") as s:
        with s.deciding("beside"):
            pass
        with pytest.raises(EffectStands):
            do.charge("ACME", 6)


def test_an_answer_where_nothing_stands_is_not_kept(trip, do):
    with trip.step("book") as s, s.deciding("beside"):
        do.charge("ACME", 6)
    assert trip.effect(1).decisions == []


def test_another_workers_open_step_is_asked_about(tb, trip, do, world):
    """Two workers on one thread: what one has begun and not closed, the other knows nothing of."""
    other = tb.thread("trip")
    with trip.step("book"):
        do.charge("ACME", 5)
        with pytest.raises(EffectStands):
            elsewhere(other, "rebook", lambda: do.charge("ACME", 6))
        elsewhere(other, "rebook", lambda: do.charge("OTHER", 6))
    assert len(world.log) == 2


def elsewhere(thread, label, call):
    """In another worker's context: without the steps that are open here."""

    def run():
        with thread.step(label):
            call()

    contextvars.Context().run(run)


def test_what_another_closed_meanwhile_is_asked_about_too(tb, trip, do):
    """The step began before it: the agent has not seen it."""
    other = tb.thread("trip")
    with trip.step("book") as s:
        s.state["n"] = 1
        elsewhere(other, "rebook", lambda: do.charge("ACME", 5))
        with pytest.raises(EffectStands):
            do.charge("ACME", 6)
    with trip.step("book"):  # by now it is in the history
        do.charge("ACME", 6)


def test_two_workers_that_begin_the_same_step_at_once(tb, trip, do, world):
    """Both found it new: the one that acts first has it, and the other is told so."""
    other = tb.thread("trip")
    first, second = contextvars.Context(), contextvars.Context()
    one, two = trip.step("order"), other.step("order")
    first.run(one.__enter__)
    second.run(two.__enter__)
    first.run(do.order, "chair")

    def beside():
        with two.deciding("beside"):
            do.order("chair")

    with pytest.raises(errors.StepInProgress, match="has begun the step 'order' meanwhile"):
        second.run(beside)
    first.run(one.__exit__, None, None, None)
    second.run(two.__exit__, None, None, None)
    assert len(world.named("order")) == len(trip.effects()) == 1


def test_effects_made_beside_an_equal_one_of_a_stale_handle_have_their_own_key(tb, trip, do, world):
    """A handle that has not seen the first step counts from the same number: the keys must still differ."""
    stale = tb.thread("trip")
    with trip.step("order"):
        do.order("chair")
    with stale.step("order") as s, s.deciding("beside"):
        do.order("chair")
    assert len(trip.refresh().effects()) == 2
    assert len(set(world.keys)) == 2
