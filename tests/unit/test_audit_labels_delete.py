"""What is done to a thread beside its versions: labels, deletion, and the log of both."""

from __future__ import annotations

import pytest

import takeback
from takeback import errors
from takeback.storage.base import Labels


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, actor="ada", durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    thread = tb.thread("t", initial={"n": 0})
    thread.patch({"n": 1})
    thread.patch({"n": 2})
    return thread


def actions(entries):
    return [(entry.action, entry.thread) for entry in entries]


# --- labels -------------------------------------------------------------------------------------------


def test_a_label_names_a_version_and_moves(trip):
    """label answers with the checkpoint it names now; a second time it names another."""
    assert trip.label("good").version == 2
    assert trip.label("good", 1).version == 1
    assert trip.label("first", "head~2").version == 0
    assert trip.labels == {"first": 0, "good": 1}
    trip.patch({"n": 3})
    assert trip.labels == {"first": 0, "good": 1}
    assert trip.label("copy", "good").version == 1


def test_labels_are_no_versions(tb, trip):
    """A label changes no checkpoint and no head, and other handles see it at once."""
    before = [c.digest for c in trip.history()]
    trip.label("good")
    assert [c.digest for c in tb.thread("t").history()] == before
    assert tb.thread("t").labels == {"good": 2}
    assert trip.commit({}).version == 3


def test_a_label_is_taken_away_and_the_checkpoint_stays(trip):
    """What it named is still there; what it was called is in the audit log."""
    trip.label("good", 1)
    trip.unlabel("good")
    assert trip.labels == {}
    assert trip.at(1).state == {"n": 1}
    with pytest.raises(errors.UnknownLabel, match="'good'"):
        trip.at("good")


@pytest.mark.parametrize("name", ["never", "head", "1", "c1", 1, "head~1"])
def test_only_a_label_can_be_taken_away(trip, name):
    """Another reference names a checkpoint and no label: nothing is done, and the log says nothing."""
    trip.label("good")
    with pytest.raises((errors.UnknownLabel, errors.BadName)):
        trip.unlabel(name)
    assert trip.labels == {"good": 2}
    assert actions(trip.audit()) == [("label.put", "t")]


def test_a_label_for_what_is_not_there(trip):
    """No label names nothing."""
    with pytest.raises(errors.UnknownCheckpoint):
        trip.label("x", 9)
    with pytest.raises(errors.UnknownLabel):
        trip.label("x", "y")
    assert trip.labels == {}
    assert list(trip.audit()) == []


def test_labels_belong_to_one_thread(tb, trip):
    """A fork begins without labels; the same label names another version there."""
    trip.label("good", 1)
    alt = trip.fork(name="alt")
    assert alt.labels == {}
    alt.label("good")
    assert (trip.labels, alt.labels) == ({"good": 1}, {"good": 0})


# --- the audit log ------------------------------------------------------------------------------------


def test_the_audit_log_tells_what_was_done_in_order(tb, trip):
    """Labels, seals and deletions: when, by whom, to which thread, with what."""
    trip.label("good", 1)
    trip.label("good", 2)
    trip.unlabel("good")
    trip.seal()
    other = tb.thread("other", initial={})
    other.label("x")
    entries = list(trip.audit())
    assert actions(entries) == [
        ("label.put", "t"),
        ("label.put", "t"),
        ("label.removed", "t"),
        ("sealed", "t"),
    ]
    assert [entry.detail for entry in entries[:3]] == [
        {"label": "good", "version": 1},
        {"label": "good", "version": 2},
        {"label": "good"},
    ]
    assert {entry.actor for entry in entries} == {"ada"}
    assert [entry.time for entry in entries] == sorted(entry.time for entry in entries)
    assert entries[0].as_dict()["action"] == "label.put"
    trip.delete(reason="asked to")
    assert actions(tb.audit())[-2:] == [("label.put", "other"), ("thread.deleted", "t")]
    detail = list(tb.audit())[-1].detail
    assert (detail["reason"], detail["versions"]) == ("asked to", 3)
    assert actions(other.audit()) == [("label.put", "other")]


def test_the_audit_log_is_read_a_page_at_a_time(trip):
    """However long it is, in order and whole."""
    for n in range(410):
        trip.label("x", n % 3)
    assert [entry.detail["version"] for entry in trip.audit()] == [n % 3 for n in range(410)]


def test_what_was_refused_is_not_in_the_log(tb, trip):
    """A late label on a deleted thread is refused together with its entry."""
    late = tb.thread("t")
    trip.delete()
    for call in (lambda: late.label("x"), late.delete):
        with pytest.raises(errors.ThreadDeleted):
            call()
    assert actions(tb.audit()) == [("thread.deleted", "t")]


# --- deletion -----------------------------------------------------------------------------------------


def test_deletion_is_for_good(tb, trip):
    """The thread, its versions and its labels are gone; the handle that deleted it knows."""
    trip.label("good")
    uid = trip.info.uid
    trip.delete()
    assert not trip.exists
    assert not tb.thread("t").exists
    assert tb.threads() == []
    assert tb.latest() is None
    with pytest.raises(errors.UnknownThread):
        trip.state
    assert tb._ctx.storage.checkpoints("default", uid, 0, 9) == []
    assert tb._ctx.storage.find("default", Labels(uid)) == []


def step(thread):
    with thread.step() as s:
        s.state["n"] = 9


LATE = {
    "commit": lambda t: t.commit({}),
    "commit, merging": lambda t: t.commit({}, on_conflict="merge"),
    "patch": lambda t: t.patch({"n": 1}),
    "append": lambda t: t.append("/l", 1),
    "step": step,
    "undo": lambda t: t.undo(),
    "rollback": lambda t: t.rollback("head"),
    "label": lambda t: t.label("x"),
    "delete": lambda t: t.delete(),
}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("verb", LATE)
def test_a_late_writer_brings_nothing_back(tb, verb, again):
    """A handle from before is refused for good, also when the name was created again by somebody else."""
    late = tb.thread("t", initial={"n": 0, "l": []})
    late.patch({"n": 1})
    tb.thread("t").delete()
    if again:
        tb.thread("t", initial={"new": True})
    with pytest.raises(errors.ThreadDeleted) as caught:
        LATE[verb](late)
    assert caught.value.thread == "t"
    if again:
        assert (tb.thread("t").state, tb.thread("t").version) == ({"new": True}, 0)
        assert tb.thread("t").labels == {}
    else:
        assert tb.threads() == []


def test_a_late_reader_is_told_that_it_was_deleted(store_path):
    """What was removed on purpose is not called corrupt, nor shown from what is left."""
    with takeback.open(store_path) as tb, takeback.open(store_path) as other:
        tb.thread("t", initial={"n": 0})
        tb.thread("t").patch({"n": 1})
        late = other.thread("t")
        tb.thread("t").delete()
        with pytest.raises((errors.ThreadDeleted, errors.UnknownCheckpoint)):
            late.at(0)
        with pytest.raises(errors.UnknownThread):
            late.refresh().state


def test_a_name_that_is_created_again_is_another_thread(tb, trip):
    """New uid, new history, no labels; a reference of the old one means nothing in it."""
    trip.label("good")
    old = trip.head
    trip.delete()
    trip.commit({"new": True})
    assert (trip.version, trip.labels, trip.state) == (0, {}, {"new": True})
    assert trip.info.uid != old.uid
    with pytest.raises(errors.WrongThread):
        trip.at(old)
    with pytest.raises(errors.UnknownCheckpoint):
        trip.at(old.bookmark)
    assert actions(trip.audit()) == []
    assert actions(tb.audit())[-1] == ("thread.deleted", "t")
    assert trip.verify().ok


def test_forks_keep_what_they_share(tb, trip):
    """A shared object is not the deleted thread's alone."""
    trip.patch({"big": "x" * 20_000})
    alt = trip.fork(name="alt")
    trip.delete()
    assert tb.thread("alt").state == {"n": 2, "big": "x" * 20_000}
    assert alt.verify().ok


# --- trust --------------------------------------------------------------------------------------------


def test_seals_hold_against_what_came_later_and_find_what_is_missing(tb, trip):
    """A sealed head stays in the history; another history under the same name is found out."""
    seal = trip.seal()
    trip.patch({"n": 3})
    report = trip.verify(seal)
    assert (report.ok, report.sealed_to) == (True, 2)
    assert trip.verify(seal.dumps()).ok
    assert report.as_dict()["checkpoints"] == 4
    trip.delete()
    trip.commit({})
    with pytest.raises(errors.BadSeal, match="another uid"):
        trip.verify(seal)
