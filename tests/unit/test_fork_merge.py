"""Forks and merges: other lines of work, brought together again without losing either side."""

from __future__ import annotations

import pytest

import takeback
from takeback import errors


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    thread = tb.thread("t", agent="a", user="u", meta={"k": 1}, initial={"log": [], "n": 0})
    for n in range(1, 4):
        thread.append("log", n)
    return thread


# --- forks --------------------------------------------------------------------------------------------


def test_a_fork_starts_at_any_version_and_leaves_the_original_alone(tb, trip):
    """The state of then, with version 0 of its own; what either does is not seen by the other."""
    head = trip.head
    alt = trip.fork(1, "alt", reason="try", actor="ada")
    first = alt.head
    assert (first.version, first.kind, first.reason, first.actor) == (0, "fork", "try", "ada")
    assert (first.origin.uid, first.origin.version) == (trip.info.uid, 1)
    assert first.state_root == trip.at(1).checkpoint.state_root
    alt.append("log", "alt")
    trip.append("log", "trip")
    assert alt.state == {"log": [1, "alt"], "n": 0}
    assert trip.state == {"log": [1, 2, 3, "trip"], "n": 0}
    assert tb.thread("t").at(3).checkpoint == head
    assert trip.verify().ok
    assert alt.verify().ok


def test_a_fork_takes_over_who_it_belongs_to(trip):
    """Agent, user and metadata are the original's unless others are given; a name is made if none is."""
    alt = trip.fork()
    assert alt.name != "t"
    assert alt.info.origin.version == 3
    assert (alt.info.agent, alt.info.user, alt.info.meta) == ("a", "u", {"k": 1})
    other = trip.fork(name="other", agent="b", user="v", meta={})
    assert (other.info.agent, other.info.user, other.info.meta) == ("b", "v", {})


def test_a_fork_does_not_take_a_name_that_is_there(tb, trip):
    """Nothing is overwritten, and the error says so."""
    for name in ("t", "alt"):
        trip.fork(name=name) if name == "alt" else None
        with pytest.raises(errors.ThreadExists, match=repr(name)):
            trip.fork(name=name)
    with pytest.raises(errors.BadName):
        trip.fork(name="")
    assert len(tb.threads()) == 2


def test_a_forks_history_begins_with_the_fork(trip):
    """inherited=True goes on with what came before, through forks of forks, in both directions."""
    alt = trip.fork(2, "alt")
    alt.patch({"n": 1})
    third = alt.fork(0, "third")
    third.patch({"n": 2})
    assert [c.version for c in third.history()] == [1, 0]
    whole = third.history(inherited=True)
    assert [(c.thread, c.version) for c in whole] == [
        ("third", 1), ("third", 0), ("alt", 0), ("t", 2), ("t", 1), ("t", 0),
    ]  # fmt: skip
    assert list(third.history(inherited=True, newest_first=False)) == list(whole)[::-1]
    assert len(whole) == 6
    assert len(third.history()) == 2
    assert list(trip.history(inherited=True)) == list(trip.history())


@pytest.mark.parametrize("ref", ["head", 1, 2])
def test_a_thread_deleted_meanwhile_is_not_forked(tb, trip, ref):
    """What a late handle still remembers of it does not bring its state back under another name."""
    late = tb.thread("t")
    late.fork(1)
    late.append("log", 4)
    trip.refresh().delete()
    held = len(tb.threads())
    with pytest.raises(errors.ThreadDeleted) as caught:
        late.fork(ref, "again")
    assert caught.value.thread == "t"
    assert len(tb.threads()) == held
    again = tb.thread("t", initial={"log": ["new"]})
    with pytest.raises(errors.ThreadDeleted):
        late.fork(ref, "again")
    assert again.fork(0, "again").state == {"log": ["new"]}


def test_what_a_deleted_original_leaves_to_its_fork(tb, trip):
    """The fork keeps its state and still verifies; the history before it went with the original."""
    alt = trip.fork(2, "alt")
    alt.append("log", "alt")
    trip.delete()
    alt = tb.thread("alt")
    assert alt.state == {"log": [1, 2, "alt"], "n": 0}
    assert [c.thread for c in alt.history(inherited=True)] == ["alt", "alt"]
    report = alt.verify()
    assert report.ok
    assert any("'t', which was deleted" in note for note in report.notes)


def test_a_fork_of_what_is_not_there(tb, trip):
    """An unknown version, and a checkpoint of another thread, are refused by name."""
    with pytest.raises(errors.UnknownCheckpoint):
        trip.fork(9, "alt")
    other = tb.thread("other", initial={})
    with pytest.raises(errors.WrongThread, match="'other'"):
        trip.fork(other.head, "alt")
    with pytest.raises(errors.UnknownThread):
        tb.thread("nobody").fork(name="alt")
    assert not tb.thread("alt").exists


def test_a_checkpoint_of_another_thread_is_refused_everywhere(tb, trip):
    """A checkpoint object names one thread's version, never the same number of another."""
    other = tb.thread("other", initial={})
    for call in (trip.at, trip.diff, trip.rollback, trip.revert, trip.fork, lambda c: trip.label("x", c)):
        with pytest.raises(errors.WrongThread) as caught:
            call(other.head)
        assert caught.value.thread == "t"
        assert other.head.id in str(caught.value)
    with pytest.raises(errors.WrongThread):
        trip.commit({}, expect=other.head)
    assert trip.refresh().version == 3


# --- merges -------------------------------------------------------------------------------------------


def test_merge_brings_in_what_a_fork_did(trip):
    """Both sides' keys stay, both sides' appends stay in commit order, and the merge names what it took."""
    alt = trip.fork(2, "alt")
    alt.patch({"alt": True})
    alt.append("log", "alt")
    trip.append("log", "trip")
    made = trip.merge(alt, reason="both", actor="ada", meta={"m": 1})
    assert (made.kind, made.reason, made.actor, made.meta) == ("merge", "both", "ada", {"m": 1})
    assert (made.merged.uid, made.merged.version) == (alt.info.uid, alt.version)
    assert trip.state == {"log": [1, 2, 3, "trip", "alt"], "n": 0, "alt": True}
    assert alt.state == {"log": [1, 2, "alt"], "n": 0, "alt": True}
    assert trip.verify().ok


def test_merge_by_name_or_handle_and_of_what_is_stored_by_then(tb, trip):
    """A name is looked up when it is merged."""
    alt = trip.fork(name="alt")
    tb.thread("alt").patch({"x": 1})
    assert trip.merge("alt").kind == "merge"
    assert trip.state["x"] == 1
    alt.refresh().patch({"y": 1})
    assert trip.merge(alt).version == 5


def test_merging_what_is_already_in_makes_no_version(trip):
    """A second merge, and a fork that did nothing, bring nothing; there is no plan for it."""
    alt = trip.fork(name="alt")
    assert trip.plan_merge(alt) is None
    assert trip.merge(alt) == trip.head
    alt.patch({"x": 1})
    made = trip.merge(alt)
    assert trip.merge(alt) == made == trip.head
    assert trip.plan_merge("alt") is None


def test_merge_back_and_forth(trip):
    """Each merge takes only what is new since the last, in either direction; nothing comes twice."""
    alt = trip.fork(name="alt")
    for n in range(3):
        trip.append("log", f"trip {n}")
        alt.append("log", f"alt {n}")
        trip.merge(alt)
        assert alt.merge(trip).kind == "merge"
        assert alt.state == trip.state
    assert sorted(map(str, trip.get("log"))) == sorted(
        ["1", "2", "3"] + [f"{who} {n}" for n in range(3) for who in ("alt", "trip")]
    )


def test_criss_cross_merges(trip):
    """Two lines that merge each other's heads at once, and go on, still merge without doubles."""
    alt = trip.fork(name="alt")
    trip.patch({"a": 1})
    alt.patch({"b": 1})
    before = alt.fork(name="alt as it was")
    alt.merge(trip)
    trip.merge(before)
    assert trip.state == alt.state == {"log": [1, 2, 3], "n": 0, "a": 1, "b": 1}
    trip.patch({"a": 2})
    alt.patch({"b": 2})
    trip.merge(alt)
    assert trip.state == {"log": [1, 2, 3], "n": 0, "a": 2, "b": 2}
    alt.merge(trip)
    assert alt.state == trip.state
    assert trip.verify().ok


def test_merge_of_two_forks_of_one_thread_and_of_a_fork_of_a_fork(trip):
    """The common ancestor is found through other threads."""
    one, two = trip.fork(1, "one"), trip.fork(2, "two")
    one.patch({"one": 1})
    two.patch({"two": 2})
    deep = two.fork(name="deep")
    deep.patch({"deep": 3})
    one.merge(deep)
    assert one.state == {"log": [1, 2], "n": 0, "one": 1, "two": 2, "deep": 3}


def test_merge_after_a_rollback_brings_what_was_rolled_back_only_if_the_fork_has_it(trip):
    """A rollback leaves its line: the ancestor is where the lines part, not the last version written."""
    alt = trip.fork(3, "alt")
    alt.patch({"alt": 1})
    trip.rollback(1)
    trip.patch({"n": 7})
    trip.merge(alt)
    assert trip.state == {"log": [1, 2, 3], "n": 7, "alt": 1}


def test_a_merge_that_was_undone_can_be_made_again(trip):
    """After an undo the other side is not in any more, and merging brings it again."""
    alt = trip.fork(name="alt")
    alt.patch({"x": 1})
    trip.merge(alt)
    trip.undo()
    assert "x" not in trip.state
    assert trip.merge(alt).kind == "merge"
    assert trip.state["x"] == 1


def test_conflicts_of_a_merge_are_listed_and_nothing_is_overwritten(trip):
    """Each place with base, ours and theirs; neither thread has a new version."""
    alt = trip.fork(name="alt")
    alt.patch({"n": 1, "/log/0": "alt", "free": 1})
    trip.patch({"n": 2, "/log/0": "trip"})
    with pytest.raises(errors.MergeConflict) as caught:
        trip.merge(alt)
    error = caught.value
    assert [clash.as_dict()["path"] for clash in error.conflicts] == ["/log/0", "/n"]
    assert "'alt' and 't' both changed log/0, n" in str(error)
    assert (error.thread, error.checkpoint) == ("t", 4)
    assert (trip.refresh().version, alt.refresh().version) == (4, 1)
    alt.patch({"n": 2, "/log/0": "trip"})
    trip.merge(alt)
    assert trip.state == {"log": ["trip", 2, 3], "n": 2, "free": 1}


def test_equal_changes_do_not_conflict_and_equal_appends_are_two(trip):
    """The same value set on both sides is one value; the same item appended on both is two items."""
    alt = trip.fork(name="alt")
    for side in (trip, alt):
        side.patch({"n": 5})
        side.append("log", "same")
    trip.merge(alt)
    assert trip.state == {"log": [1, 2, 3, "same", "same"], "n": 5}


@pytest.mark.parametrize("pair", [(1, 1.0), (1, True), (0.0, -0.0)])
def test_values_that_python_takes_for_equal_conflict(tb, pair):
    """1, 1.0 and True are three values: two sides that set different ones disagree."""
    trip = tb.thread("t", initial={"v": None})
    alt = trip.fork(name="alt")
    trip.patch({"v": pair[0]})
    alt.patch({"v": pair[1]})
    with pytest.raises(errors.MergeConflict):
        trip.merge(alt)


def test_what_cannot_be_merged(tb, trip):
    """Itself, a stranger, nobody, or a thread of another store: each is refused with the reason."""
    tb.thread("stranger", initial={})
    with pytest.raises(errors.BadRequest, match="into itself"):
        trip.merge("t")
    with pytest.raises(errors.BadRequest, match="no checkpoint in common"):
        trip.merge("stranger")
    with pytest.raises(errors.UnknownThread, match="nobody"):
        trip.merge("nobody")
    with pytest.raises(errors.UnknownThread, match="nobody"):
        trip.merge(tb.thread("nobody"))
    with takeback.open(":memory:") as elsewhere, pytest.raises(errors.BadRequest, match="different stores"):
        trip.merge(elsewhere.thread("x", initial={}))
    assert trip.refresh().version == 3


def test_a_merge_of_a_fork_whose_original_is_gone(tb, trip):
    """Two forks of a deleted thread still hang together by where they began, or say that they do not."""
    one, two = trip.fork(1, "one"), trip.fork(1, "two")
    two.patch({"two": 2})
    trip.delete()
    with pytest.raises(errors.BadRequest, match="no checkpoint in common"):
        one.merge(two)
    assert one.refresh().version == 0


def test_a_stale_handle_does_not_merge_over_what_it_has_not_seen(tb, trip):
    """The plan was made at a head that moved."""
    alt = trip.fork(name="alt")
    alt.patch({"x": 1})
    tb.thread("t").patch({"n": 9})
    with pytest.raises(errors.PlanStale):
        trip.merge(alt)
    trip.refresh().merge(alt)
    assert trip.state == {"log": [1, 2, 3], "n": 9, "x": 1}


def test_criss_cross_merges_of_a_log_bring_nothing_twice(trip):
    """What each line took from the other at once is no append of its own at the next merge."""
    alt = trip.fork(name="alt")
    for n in range(3):
        trip.append("log", f"trip {n}")
        alt.append("log", f"alt {n}")
        before = alt.fork(name=f"alt {n}")
        alt.merge(trip)
        trip.merge(before)
    trip.patch({"log": sorted(map(str, trip.state["log"]))})
    alt.patch({"log": sorted(map(str, alt.state["log"]))})
    trip.merge(alt)
    assert trip.get("log") == ["1", "2", "3", "alt 0", "alt 1", "alt 2", "trip 0", "trip 1", "trip 2"]


def test_criss_cross_merges_that_were_settled_differently_conflict(trip):
    """Two lines that each settled the same clash, and not alike, still disagree: neither is overwritten."""
    alt = trip.fork(name="alt")
    trip.patch({"n": 1, "m": {"deep": 1}})
    alt.patch({"n": 2, "m": {"deep": 2}})
    mine, theirs = trip.fork(name="mine"), alt.fork(name="theirs")
    trip.patch({"n": 2, "m": {"deep": 2}})
    trip.merge(theirs)
    alt.patch({"n": 1, "m": {"deep": 1}})
    alt.merge(mine)
    with pytest.raises(errors.MergeConflict) as caught:
        trip.merge(alt)
    assert [clash.as_dict()["path"] for clash in caught.value.conflicts] == ["/m/deep", "/n"]
    alt.patch({"n": 2, "m": {"deep": 2}})
    trip.merge(alt)
    assert trip.state == {"log": [1, 2, 3], "n": 2, "m": {"deep": 2}}
