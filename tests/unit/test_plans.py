"""Plans: made before anything is done, they only read; applied, they do exactly what they said or refuse."""

from __future__ import annotations

import json

import pytest

import takeback
from takeback import errors
from takeback.storage.memory import MemoryStorage
from takeback.storage.wrappers import Wrapper


class Watched(Wrapper):
    """Refuses to be written to while it is locked."""

    locked = False

    def apply(self, batch):
        assert not self.locked, "a plan wrote"
        return super().apply(batch)


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    thread = tb.thread("t", initial={"messages": [], "to": "BOS"})
    thread.patch({"to": "NYC"})
    thread.extend("messages", ["a", "b"])
    return thread


MAKERS = {
    "rollback": lambda t: t.plan_rollback(0),
    "undo": lambda t: t.plan_undo(),
    "redo": lambda t: t.plan_redo(),
    "revert": lambda t: t.plan_revert(1),
    "merge": lambda t: t.plan_merge("alt"),
}


def with_all_plans(tb):
    trip = tb.thread("t", initial={"messages": [], "to": "BOS"})
    trip.patch({"to": "NYC"})
    trip.extend("messages", ["a", "b"])
    trip.fork(0, "alt").patch({"from": "SFO"})
    trip.patch({"days": 3})
    trip.undo()
    return trip


@pytest.mark.parametrize("kind", MAKERS)
def test_planning_only_reads(kind):
    """A plan can be made, printed, compared and thrown away: nothing in the store knows of it."""
    storage = Watched(MemoryStorage())
    tb = takeback.Repo(storage)
    trip = with_all_plans(tb)
    head, info = trip.head, storage.info().details
    storage.locked = True
    plan = MAKERS[kind](trip)
    assert str(plan)
    assert plan.lines()
    assert json.dumps(plan.as_dict())
    assert repr(plan).startswith(f"<Plan {kind} of 't'")
    assert tb.thread("t").head == head == plan.head
    assert storage.info().details == info
    storage.locked = False
    assert plan.apply().checkpoint.kind == kind


@pytest.mark.parametrize("kind", MAKERS)
def test_apply_does_exactly_what_was_planned(tb, kind):
    """The new version differs from the old head in the changes of the plan, and in nothing else."""
    trip = with_all_plans(tb)
    plan = MAKERS[kind](trip)
    assert (plan.kind, plan.thread, plan.conflicts) == (kind, "t", [])
    receipt = plan.apply("because", actor="ada", meta={"n": 1})
    made = receipt.checkpoint
    assert (made.reason, made.actor, made.meta) == ("because", "ada", {"n": 1})
    assert made.before == plan.head.version
    assert trip.head == made
    assert trip.diff(plan.head, made).summary() == str(plan)
    assert receipt.done == [str(plan)]
    assert receipt.bookmark == plan.head.bookmark
    assert trip.verify().ok


@pytest.mark.parametrize("kind", MAKERS)
def test_a_plan_is_stale_once_anything_moved(tb, kind):
    """The same handle, another one, or the plan itself applied before: PlanStale, and nothing is done."""
    trip = with_all_plans(tb)
    for move in (
        lambda: tb.thread("t").patch({"moved": 1}),
        lambda: trip.refresh().patch({"moved": 2}),
        lambda: tb.thread("t").undo(),
    ):
        plan = with_head(trip, kind)
        move()
        version = tb.thread("t").version
        with pytest.raises(errors.PlanStale) as caught:
            plan.apply()
        error = caught.value
        assert (error.thread, error.checkpoint) == ("t", plan.head.version)
        assert plan.head.id in str(error)
        assert "make a new plan" in str(error).lower()
        assert tb.thread("t").version == version


def with_head(trip, kind):
    trip.refresh()
    trip.patch({"x": 1})
    if kind == "redo":
        trip.undo()
    return MAKERS[kind](trip)


def test_a_plan_is_applied_once(trip):
    """A second apply would do something else than what was looked at."""
    plan = trip.plan_undo()
    plan.apply()
    with pytest.raises(errors.PlanStale):
        plan.apply()
    assert trip.refresh().version == 3


def test_a_plan_of_a_deleted_thread(tb, trip):
    """A plan made before does not bring the thread back."""
    plan = trip.plan_undo()
    tb.thread("t").delete()
    with pytest.raises(errors.ThreadDeleted):
        plan.apply()
    tb.thread("t", initial={"new": 1})
    with pytest.raises((errors.ThreadDeleted, errors.PlanStale)):
        plan.apply()
    assert tb.thread("t").state == {"new": 1}


def test_the_same_situation_gives_the_same_plan(tb, trip):
    """The digest of a plan is that of what it saw: equal for equal plans, another for any other."""
    digests = [plan.digest for plan in (trip.plan_undo(), tb.thread("t").plan_undo())]
    assert digests[0] == digests[1]
    others = [trip.plan_rollback(1).digest, trip.plan_rollback(0).digest, trip.plan_revert(1).digest]
    assert len({*digests, *others}) == 4
    trip.patch({"x": 1})
    trip.undo()
    trip.patch({"x": 1})
    assert trip.plan_undo().digest not in digests


def test_what_a_plan_says_to_people(tb, trip):
    """Removed, added and changed read as such; many changes are counted; no change is said."""
    assert str(trip.plan_undo()) == "messages: −2 items"
    assert str(trip.plan_rollback(0)) == "messages: −2 items · to: 'NYC' → 'BOS'"
    assert str(trip.plan_rollback("head")) == "nothing changes"
    trip.commit({f"k{n}": n for n in range(9)})
    assert str(trip.plan_rollback(0)).endswith("and 7 more")
    assert len(trip.plan_rollback(0).lines()) == 11
    assert trip.plan_rollback(0).lines(2)[-1] == "and 9 more"
    trip.commit({"evil\x1b[31m\n": 1})
    assert "\x1b" not in str(trip.plan_undo())
    assert "\n" not in str(trip.plan_undo())


def test_what_a_plan_says_to_programs(trip):
    """as_dict holds versions, changes by JSON Pointer and the digest."""
    plan = trip.plan_undo()
    assert plan.as_dict() == {
        "thread": "t",
        "kind": "undo",
        "head": 2,
        "target": 1,
        "undoes": 2,
        "digest": plan.digest,
        "parts": [
            {
                "part": "state",
                "changes": [
                    {"op": "remove", "path": "/messages/1", "before": "b"},
                    {"op": "remove", "path": "/messages/0", "before": "a"},
                ],
            },
            {"part": "effects", "undo": [], "redo": [], "standing": [], "groups": {}, "notes": []},
            {"part": "memory", "changes": [], "covered": [], "kept": False, "notes": []},
        ],
        "conflicts": [],
        "waits": {},
    }
    assert (plan.target.version, plan.undoes.version) == (1, 2)
    assert trip.plan_rollback(0).undoes is None


def test_plans_that_cannot_be(trip):
    """There is no plan for nothing: the planner raises what the verb would."""
    with pytest.raises(errors.NothingToRedo):
        trip.plan_redo()
    with pytest.raises(errors.UnknownCheckpoint):
        trip.plan_rollback(7)
    with pytest.raises(errors.BadRequest):
        trip.plan_revert(0)
    with pytest.raises(errors.BadRequest):
        trip.plan_undo("head")
    with pytest.raises(errors.BadRequest):
        trip.plan_merge("t")
    with pytest.raises(errors.UnknownThread):
        trip.plan_merge("nobody")
    trip.undo()
    trip.undo()
    with pytest.raises(errors.NothingToUndo):
        trip.plan_undo()


def test_a_plan_with_conflicts_can_be_looked_at_and_not_applied(trip):
    """Conflicts are in the plan, by path, with both values; apply raises them and writes nothing."""
    alt = trip.fork(name="alt")
    alt.patch({"to": "SFO"})
    trip.patch({"to": "LAX"})
    plan = trip.plan_merge(alt)
    assert [clash.as_dict() for clash in plan.conflicts] == [
        {"path": "/to", "base": "NYC", "ours": "SFO", "theirs": "LAX"}
    ]
    assert "conflict at to: ours 'SFO', theirs 'LAX', base 'NYC'" in str(plan)
    assert plan.as_dict()["conflicts"] == [plan.conflicts[0].as_dict()]
    with pytest.raises(errors.MergeConflict) as caught:
        plan.apply()
    assert caught.value.conflicts == plan.conflicts
    assert trip.refresh().version == 3


def test_the_same_handle_may_read_on_while_a_plan_is_held(trip):
    """A plan is not spoilt by looking, labelling or forking."""
    plan = trip.plan_undo()
    _ = trip.state, list(trip.history())
    trip.label("x")
    trip.fork(name="alt").patch({"a": 1})
    trip.refresh()
    assert plan.apply().checkpoint.version == 3
