"""Rollback, undo, redo and revert: going back and forth, and everything that they record."""

from __future__ import annotations

import pytest

import takeback
from takeback import errors
from takeback.engine import context


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    """Version n holds n, up to 3."""
    thread = tb.thread("t", initial=0)
    for n in range(1, 4):
        thread.commit(n)
    return thread


def states(thread):
    return [thread.at(c).state for c in thread.history(newest_first=False)]


# --- rollback -----------------------------------------------------------------------------------------


def test_rollback_appends_and_deletes_nothing(trip):
    """Going back is one more version with the old state; every version before it is still there."""
    receipt = trip.rollback(1, reason="wrong", actor="ada", meta={"k": 1})
    made = receipt.checkpoint
    assert (made.version, made.kind, made.reason, made.actor, made.meta) == (
        4, "rollback", "wrong", "ada", {"k": 1},
    )  # fmt: skip
    assert made.state_root == trip.at(1).checkpoint.state_root
    assert (made.origin.version, made.before) == (1, 3)
    assert states(trip) == [0, 1, 2, 3, 1]
    assert trip.verify().ok


def test_a_receipt_tells_what_was_done(trip):
    """State, checkpoint, bookmark, what was done and what stayed; as text and as JSON."""
    trip.commit({"to": "NYC"})
    trip.patch({"to": "BOS", "days": 3})
    receipt = trip.rollback("head~1")
    assert receipt.state == {"to": "NYC"}
    assert receipt.done == ["days: removed · to: 'BOS' → 'NYC'"]
    assert receipt.standing == []
    assert receipt.bookmark == trip.at(5).checkpoint.bookmark
    assert str(receipt) == f"version 6 (rollback) · {receipt.done[0]} · bookmark {receipt.bookmark}"
    shown = receipt.as_dict()
    assert (shown["checkpoint"]["version"], shown["bookmark"]) == (6, receipt.bookmark)
    trip.commit("later")
    assert receipt.state == {"to": "NYC"}


@pytest.mark.parametrize("ref", [0, 3, "head", "head~2"])
def test_rollback_to_any_version_also_the_head(trip, ref):
    """Whatever a reference names can be gone back to, and the rollback itself be taken back."""
    wanted = trip.at(ref).state
    trip.rollback(ref)
    assert trip.state == wanted
    assert trip.undo().state == 3


def test_rollback_to_what_is_not_there(trip):
    """An unknown version is named, and nothing is written."""
    for ref in (4, 99, 10**9, "head~4"):
        with pytest.raises(errors.UnknownCheckpoint) as caught:
            trip.rollback(ref)
        assert caught.value.thread == "t"
    assert trip.refresh().version == 3


# --- undo and redo ------------------------------------------------------------------------------------


def test_undo_goes_back_one_operation_per_call_and_redo_forward(trip):
    """The walk goes over every operation once, in both directions, and ends at both ends with an error."""
    assert [trip.undo().state for _ in range(3)] == [2, 1, 0]
    with pytest.raises(errors.NothingToUndo) as caught:
        trip.undo()
    assert (caught.value.thread, caught.value.checkpoint) == ("t", 6)
    assert [trip.redo().state for _ in range(3)] == [1, 2, 3]
    with pytest.raises(errors.NothingToRedo, match="A new operation ends the redo"):
        trip.redo()
    assert trip.version == 9
    assert states(trip) == [0, 1, 2, 3, 2, 1, 0, 1, 2, 3]


def test_undo_and_redo_alternate(trip):
    """Walking back, forward and back again meets each state where it was."""
    trip.undo()
    trip.undo()
    assert trip.redo().state == 2
    assert trip.undo().state == 1
    assert trip.redo().state == 2
    assert trip.redo().state == 3
    assert [trip.undo().state for _ in range(3)] == [2, 1, 0]


def test_undo_says_what_it_undoes(trip):
    """The typed field names the operation taken back; a redo names the undo."""
    assert trip.undo().checkpoint.undoes == 3
    assert trip.undo().checkpoint.undoes == 2
    assert trip.redo().checkpoint.undoes == 5
    assert trip.redo().checkpoint.undoes == 4


@pytest.mark.parametrize(
    "operation",
    [
        lambda t: t.commit("new"),
        lambda t: t.rollback(0),
        lambda t: t.revert(1),
        lambda t: t.merge("alt"),
        lambda t: t.commit(t.state),
    ],
)
def test_a_new_operation_ends_the_redo(trip, operation):
    """After it there is nothing forward; what was undone is still reached by rollback."""
    alt = trip.fork(1, "alt")
    alt.commit("from alt")
    trip.rollback(1)
    trip.undo()
    trip.rollback(1)
    trip.commit(1)
    trip.undo()
    operation(trip)
    with pytest.raises(errors.NothingToRedo):
        trip.redo()
    assert trip.rollback(3).state == 3


def test_labels_and_looking_are_no_operations(tb, trip):
    """Neither ends the redo, and an undo does not take them back."""
    trip.undo()
    trip.label("here")
    trip.unlabel("here")
    trip.label("there", 0)
    trip.fork(name="alt")
    trip.seal()
    with trip.step():
        pass
    assert trip.redo().state == 3
    assert trip.undo().state == 2
    assert trip.labels == {"there": 0}


@pytest.mark.parametrize("kind", ["rollback", "merge", "revert", "patch", "append", "step"])
def test_every_operation_is_taken_back_by_one_undo(tb, kind):
    """A rollback, a merge and a revert are one operation each, whatever they brought."""
    trip = tb.thread("t", initial={"l": [], "a": 0})
    for n in range(3):
        trip.patch({f"k{n}": n})
    alt = trip.fork(1, "alt")
    alt.append("l", 1)
    alt.append("l", 2)
    before = trip.state
    if kind == "rollback":
        trip.rollback(0)
    elif kind == "merge":
        trip.merge(alt)
    elif kind == "revert":
        trip.revert(1)
    elif kind == "patch":
        trip.patch({"a": 1, "b": 2})
    elif kind == "append":
        trip.extend("l", [1, 2, 3])
    else:
        with trip.step() as s:
            s.state.clear()
    after = trip.state
    assert trip.head.kind == kind
    assert after != before
    assert trip.undo().state == before
    assert trip.redo().state == after
    assert [trip.undo().state for _ in range(2)] == [before, trip.at(2).state]


def test_undo_goes_on_below_an_operation_that_was_undone(trip):
    """After a rollback was taken back, the next undo takes back what stood before it."""
    trip.rollback(0)
    trip.undo()
    assert trip.undo().state == 2
    trip.commit("other")
    assert trip.undo().state == 2
    assert trip.undo().state == 1


def test_undo_of_a_thread_that_was_never_changed(tb):
    """A first version and a fork have nothing before them in their thread."""
    trip = tb.thread("t", initial=1)
    trip.commit(2)
    for thread in (tb.thread("u", initial=1), trip.fork(name="alt")):
        with pytest.raises(errors.NothingToUndo):
            thread.undo()
        with pytest.raises(errors.NothingToRedo):
            thread.redo()


def test_undo_is_per_thread_not_per_handle_or_actor(tb, trip):
    """The stack is derived from what is stored: another handle, after a restart, undoes the same."""
    trip.undo(actor="ada")
    assert tb.thread("t").undo(actor="bob").state == 1
    assert tb.thread("t").redo().state == 2
    assert trip.refresh().redo().state == 3


def test_a_stale_handle_does_not_undo_what_it_has_not_seen(tb, trip):
    """Undoing blindly would take back somebody else's work; the plan is stale instead."""
    tb.thread("t").commit("theirs")
    for verb in (trip.undo, lambda: trip.rollback(0), lambda: trip.revert(3)):
        with pytest.raises(errors.PlanStale) as caught:
            verb()
        assert caught.value.thread == "t"
        assert tb.thread("t").head.id in str(caught.value)
    assert trip.refresh().undo().state == 3


# --- bookmarks ----------------------------------------------------------------------------------------


def test_a_bookmark_brings_back_exactly_what_stood_before(trip):
    """However much was done since; and the undo stack of then is there again."""
    receipt = trip.rollback(0)
    for n in range(5):
        trip.commit(f"later {n}")
    back = trip.undo(receipt.bookmark)
    assert (back.state, back.checkpoint.kind) == (3, "undo")
    assert back.checkpoint.origin.version == 3
    assert trip.undo().state == 2
    assert trip.redo().state == 3
    assert trip.redo().state == "later 4"
    assert trip.undo().state == "later 3"


def test_every_checkpoint_has_a_bookmark(trip):
    """The name of a point to come back to is there before anything goes wrong."""
    mark = trip.at(1).checkpoint.bookmark
    assert trip.undo(mark).state == 1
    assert trip.at(mark).version == 1
    assert trip.plan_undo(mark).target.version == 1


def test_an_undo_by_bookmark_can_be_undone_by_its_own_bookmark(trip):
    """Every undo can be undone: forward with redo, or exactly with the bookmark of its receipt."""
    first = trip.undo(trip.at(1).checkpoint.bookmark)
    assert trip.undo(first.bookmark).state == 3
    assert trip.redo().state == 1


@pytest.mark.parametrize("mark", ["head", "c1", 1, "1", "b1", "", "b1-zzzzzzzzzzzz", None.__class__, "nope"])
def test_what_is_no_bookmark(trip, mark):
    """undo takes bookmarks alone: anything else would be a rollback, which has its own name."""
    with pytest.raises(errors.BadRequest, match="is no bookmark"):
        trip.undo(mark)


def test_the_bookmark_of_another_thread(tb, trip):
    """A bookmark names one checkpoint of one thread, never the same version of another."""
    other = tb.thread("other", initial=0)
    other.commit(1)
    with pytest.raises((errors.UnknownCheckpoint, errors.WrongThread)) as caught:
        trip.undo(other.head.bookmark)
    assert caught.value.thread == "t"
    assert trip.refresh().version == 3


# --- revert -------------------------------------------------------------------------------------------


def test_revert_takes_one_version_alone_back(tb):
    """What later versions did stays; what the one version did goes."""
    trip = tb.thread("t", initial={"a": 0})
    trip.patch({"b": 1})
    trip.patch({"c": 2})
    made = trip.revert(1, reason="not b")
    assert (made.kind, made.undoes, made.reason) == ("revert", 1, "not b")
    assert trip.state == {"a": 0, "c": 2}
    assert trip.revert(made).version == 4
    assert trip.state == {"a": 0, "b": 1, "c": 2}


def test_revert_takes_an_item_out_of_the_middle_of_a_log(tb):
    """An append in the middle of many is found by merging, wherever its item stands by now."""
    trip = tb.thread("t", initial={"log": [f"first {n}" for n in range(400)]})
    made = trip.append("log", "regretted")
    trip.extend("log", [f"later {n}" for n in range(400)])
    trip.patch({"/log/0": takeback.DELETE})
    trip.revert(made.version)
    assert trip.get("log") == [f"first {n}" for n in range(1, 400)] + [f"later {n}" for n in range(400)]


def test_revert_of_a_rollback_and_of_a_merge(tb):
    """They are operations like any other, and can be taken back alone."""
    trip = tb.thread("t", initial={"a": 0})
    trip.patch({"b": 1})
    trip.rollback(0)
    trip.patch({"c": 2})
    trip.revert(2)
    assert trip.state == {"a": 0, "b": 1, "c": 2}
    alt = trip.fork(name="alt")
    alt.patch({"d": 3})
    merged = trip.merge(alt)
    trip.patch({"e": 4})
    trip.revert(merged)
    assert trip.state == {"a": 0, "b": 1, "c": 2, "e": 4}


@pytest.mark.parametrize(
    ("later", "name"),
    [
        (lambda t: t.patch({"n": 2}), "n"),
        (lambda t: t.patch({"n": 1.0}), "n"),
        (lambda t: t.patch({"n": True}), "n"),
        (lambda t: t.patch({"n": takeback.DELETE}), "n"),
    ],
)
def test_revert_names_what_was_built_on_it(tb, later, name):
    """A dependent change stops the revert, and the error names the path and the later version."""
    trip = tb.thread("t", initial={"n": 0, "other": 0})
    trip.patch({"n": 1})
    trip.patch({"other": 1})
    later(trip)
    trip.patch({"other": 2})
    with pytest.raises(errors.MergeConflict) as caught:
        trip.revert(1)
    assert f"{name} (by version 3)" in str(caught.value)
    assert "version 1 cannot be taken back alone" in str(caught.value)
    assert [clash.as_dict()["path"] for clash in caught.value.conflicts] == ["/n"]
    assert trip.refresh().version == 4
    trip.revert(3)
    trip.revert(1)
    assert trip.state == {"n": 0, "other": 2}


def test_version_0_cannot_be_reverted(trip):
    """Nothing stood before it; deleting a thread has another name."""
    with pytest.raises(errors.BadRequest, match="nothing stood before it") as caught:
        trip.revert(0)
    assert (caught.value.thread, caught.value.checkpoint) == ("t", 0)


def test_reverting_what_changed_nothing_makes_a_version(tb):
    """Asked for is done and recorded, also where no byte of the state differs."""
    trip = tb.thread("t", initial={"n": 0})
    trip.commit({"n": 0})
    assert trip.revert(1).version == 2
    assert trip.state == {"n": 0}


def test_what_is_remembered_is_what_was_written(tb):
    """Going back to versions written or looked at before reads no row again, and goes where a fresh look
    would; another thread's version of the same number is another checkpoint."""
    threads = [tb.thread(name, initial={"name": name, "n": 0}) for name in "ab"]
    for thread in threads:
        for n in (1, 2, 3):
            thread.patch({"n": n})
    for again in range(2):
        for thread in threads:
            assert thread.rollback(1).state == {"name": thread.name, "n": 1}
            assert thread.head.origin.digest == tb.thread(thread.name).at(1).checkpoint.digest, again
    for thread in threads:
        other = tb.thread(thread.name)
        assert other.rollback(3).checkpoint.origin.digest == other.at(3).checkpoint.digest
        assert other.verify().ok


def test_remembered_metadata_is_not_the_callers(tb):
    """A checkpoint's metadata is a dict: one that a caller changes is not what the next caller is shown."""
    thread = tb.thread("t", initial={"n": 0})
    thread.patch({"n": 1}, meta={"k": 1}).meta["k"] = 2
    thread.patch({"n": 2})
    for _ in range(2):
        plan = thread.plan_rollback(1)
        assert plan.target.meta == {"k": 1}
        plan.target.meta["k"] = 3


def test_only_so_many_checkpoints_are_remembered(tb, monkeypatch):
    """A long life of a handle does not keep its whole history in memory."""
    monkeypatch.setattr(context, "_REMEMBERED", 4)
    thread = tb.thread("t", initial={"n": 0})
    for n in range(1, 12):
        thread.patch({"n": n})
        assert len(tb._ctx._checkpoints) <= 4
    assert thread.rollback(1).state == {"n": 1}
