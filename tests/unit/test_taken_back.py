"""What an agent is told at its next turn: which of its versions a person took back, and what still stands."""

from __future__ import annotations

import pytest

import takeback


@pytest.fixture
def tb():
    with takeback.open(":memory:", actor="agent") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    thread = tb.thread("trip", initial={"to": None})
    with thread.step("book NYC") as s:
        s.state["to"] = "NYC"
    thread.patch({"nights": 3}, reason="three nights")
    return thread


def test_nothing_was_taken_back(trip):
    """An agent that nobody interfered with hears nothing, nor does one whose thread others only added to."""
    assert trip.taken_back_since() is None
    trip.patch({"x": 1}, actor="another")
    assert trip.taken_back_since(2) is None


def test_a_rollback_is_told_in_plain_words(trip):
    """Who, which versions by what they were for, why, and what that changed."""
    trip.rollback(0, reason="wrong city", actor="ann")
    told = trip.taken_back_since()
    assert str(told) == (
        'ann took back versions 1–2 ("book NYC", "three nights") (wrong city); '
        "this changed nights: removed · to: 'NYC' → None"
    )
    assert told.as_dict()["versions"] == [1, 2]
    assert told.since.version == 2


def test_another_process_is_told_as_well(tb, trip):
    """The agent's handle need not have seen it: the head is read anew."""
    tb.thread("trip").undo(actor="ann")
    assert "version 2" in str(trip.taken_back_since())


def test_what_was_brought_again_is_not_told(trip):
    """An undo that was taken back took nothing."""
    trip.undo(actor="ann")
    trip.redo(actor="ann")
    assert trip.taken_back_since() is None


def test_once_the_agent_went_on_it_is_over(trip):
    """The agent's next version ends it; asked for an older version, it is still known."""
    trip.undo(actor="ann")
    trip.patch({"nights": 1})
    assert trip.taken_back_since() is None
    assert [row.version for row in trip.taken_back_since(2).versions] == [2]


def test_a_revert_names_the_one_version(trip):
    trip.revert(1, reason="no flight", actor="ann")
    told = trip.taken_back_since()
    assert [row.version for row in told.versions] == [1]
    assert 'ann took back version 1 ("book NYC") (no flight)' in str(told)


def test_going_forward_is_told_as_what_it_is(trip):
    """A rollback to a later version takes nothing of the agent's back, and yet the state is another."""
    trip.rollback(1, actor="ann")
    with trip.step("look") as s:
        s.state["seen"] = True
    trip.rollback(2, actor="ann")
    told = trip.taken_back_since()
    assert [row.version for row in told.versions] == [4]
    assert "this changed" in str(told)


def test_without_a_name_it_was_the_user():
    with takeback.open(":memory:") as tb:
        thread = tb.thread("t", initial={"n": 0})
        thread.patch({"n": 1})
        thread.undo()
        assert str(thread.taken_back_since()).startswith("the user took back version 1")


def test_effects_are_told_as_undone_or_standing(tb):
    """The refund is undone with its charge; what could not be undone still stands, and the agent hears it."""

    @takeback.tool(undo=lambda cents: None, describe="charge {cents}", name="telling_charge")
    def charge(cents: int) -> None: ...

    @takeback.tool(describe="mail to {to}", name="telling_mail")
    def mail(to: str) -> None: ...

    thread = tb.thread("t", initial={})
    with thread.step("buy"):
        charge(4200)
        mail("bob")
    thread.plan_rollback(0).apply("no", actor="ann", acknowledge=True)
    told = thread.taken_back_since()
    assert "#1 (charge 4200) was undone" in str(told)
    assert "#2 (mail to bob) still stands" in str(told)
    assert (told.as_dict()["undone"], told.as_dict()["standing"]) == ([1], [2])


async def _awaited() -> str:
    async with await takeback.aopen(":memory:") as tb:
        thread = await tb.thread("t", initial={"n": 0})
        await thread.patch({"n": 1})
        await thread.undo(actor="ann")
        return str(await thread.taken_back_since())


def test_it_is_awaited_too():
    import asyncio

    assert asyncio.run(_awaited()).startswith("ann took back version 1")
