"""Writers that meet on one thread: who is refused, who is merged, and that nothing is lost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import takeback
from takeback import errors


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, actor="ada", durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    return tb.thread("travel/42", agent="travel-agent", initial={"messages": [], "to": "BOS"})


def test_a_stale_handle_is_refused_and_told_both_heads(tb, trip):
    """A commit replaces only what its writer has seen; Conflict names the head expected and the one found."""
    other = tb.thread("travel/42")
    made = other.commit({"to": "NYC"})
    for write in (
        lambda: trip.commit({"to": "SFO"}),
        lambda: trip.patch({"to": "SFO"}),
        lambda: trip.merge_patch({"to": "SFO"}),
        lambda: trip.json_patch([{"op": "replace", "path": "/to", "value": "SFO"}]),
        lambda: trip.append("messages", 1, on_conflict="raise"),
    ):
        with pytest.raises(errors.Conflict) as caught:
            write()
        error = caught.value
        assert (error.expected, error.actual) == (trip.head.id, made.id)
        assert (error.thread, error.checkpoint) == ("travel/42", 0)
        assert trip.head.id in str(error)
        assert made.id in str(error)
        assert "refresh()" in str(error)
    assert tb.thread("travel/42").version == 1
    assert trip.refresh().commit({"to": "SFO"}).version == 2


def test_expect_names_the_head_that_a_write_is_for(tb, trip):
    """By version, id, label or checkpoint; with another head nothing is written and the handle stays."""
    trip.label("start")
    start = trip.head
    assert trip.commit({"n": 1}, expect=0).version == 1
    assert trip.patch({"n": 2}, expect=trip.head.id).version == 2
    trip.label("now")
    assert trip.merge_patch({"n": 3}, expect="now").version == 3
    assert trip.json_patch([{"op": "replace", "path": "/n", "value": 4}], expect=trip.head).version == 4
    for stale in (3, "start", start.id, start, "head~1"):
        with pytest.raises(errors.Conflict) as caught:
            trip.commit({}, expect=stale)
        assert caught.value.actual == trip.head.id
        assert caught.value.expected == trip.at(stale).checkpoint.id
    assert tb.thread("travel/42").version == 4
    with pytest.raises(errors.UnknownThread):
        tb.thread("new").commit({}, expect=0)


def test_expect_is_about_the_stored_head_not_the_one_last_read(tb, trip):
    """A stale handle that says which head it means writes on that one; a wrong guess moves it nowhere."""
    tb.thread("travel/42").commit({"n": 1})
    with pytest.raises(errors.Conflict):
        trip.commit({"n": 9}, expect=0)
    with pytest.raises(errors.Conflict):
        trip.commit({"n": 9})
    assert trip.commit({"n": 2}, expect=1).version == 2


def test_append_goes_behind_what_others_added(tb, trip):
    """Stale appends are made again on the new head: nothing is lost, nothing is raised."""
    other = tb.thread("travel/42")
    other.append("messages", "theirs")
    other.patch({"to": "NYC"})
    assert trip.append("messages", "mine").version == 3
    assert trip.state == {"messages": ["theirs", "mine"], "to": "NYC"}


def test_patch_can_be_made_again_on_the_new_head(tb, trip):
    """With on_conflict="merge" a patch sets its own keys and leaves what others set."""
    tb.thread("travel/42").patch({"from": "SFO"})
    trip.patch({"to": "NYC"}, on_conflict="merge")
    assert trip.state == {"messages": [], "from": "SFO", "to": "NYC"}


def test_commit_can_merge_with_what_others_committed(tb, trip):
    """A whole state is merged three ways: both sides' keys and both sides' appends stay."""
    other = tb.thread("travel/42")
    other.commit({"messages": ["theirs"], "to": "BOS", "from": "SFO"})
    other.append("messages", "again")
    made = trip.commit({"messages": ["mine"], "to": "NYC"}, on_conflict="merge", reason="both")
    assert (made.version, made.kind, made.reason) == (3, "commit", "both")
    assert trip.state == {"messages": ["theirs", "again", "mine"], "to": "NYC", "from": "SFO"}


def test_commits_that_clash_are_listed_and_not_written(tb, trip):
    """Two values for one key are nobody's to choose: MergeConflict lists base, ours and theirs by path."""
    tb.thread("travel/42").commit({"messages": [], "to": "NYC", "plan": {"days": 2}})
    with pytest.raises(errors.MergeConflict) as caught:
        trip.commit({"messages": [], "to": "SFO", "plan": {"days": 3}}, on_conflict="merge")
    assert caught.value.as_dict()["conflicts"] == [
        {"path": "/plan/days", "ours": 3, "theirs": 2},
        {"path": "/to", "base": "BOS", "ours": "SFO", "theirs": "NYC"},
    ]
    assert "to" in str(caught.value)
    assert caught.value.thread == "travel/42"
    assert tb.thread("travel/42").version == 1
    assert trip.version == 0


def test_two_that_make_one_thread(tb):
    """Of two handles opened before the thread was there, the second to commit is told; initial= joins."""
    one, two = tb.thread("t"), tb.thread("t")
    one.commit({"by": 1})
    with pytest.raises(errors.Conflict, match="somebody else made this thread"):
        two.commit({"by": 2})
    assert tb.thread("t", initial={"by": 3}).state == {"by": 1}
    assert two.refresh().state == {"by": 1}


_WRITER = """
import sys, takeback
path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with takeback.open(path, actor=who, durability="relaxed") as tb:
    thread = tb.thread("shared")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(count):
        if n % 3 == 0:
            thread.append("log", [who, n])
        elif n % 3 == 1:
            thread.patch({who: n}, on_conflict="merge")
        else:
            with thread.step("work") as s:
                s.state["log"].append([who, n])
"""


def test_two_processes_lose_nothing(store_path):
    """Writers in two processes interleave on one thread: every append, patch and step of both is there."""
    with takeback.open(store_path) as tb:
        tb.thread("shared", initial={"log": []})
    count = 60
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(store_path), who, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for who in ("a", "b")
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    with takeback.open(store_path) as tb:
        thread = tb.thread("shared")
        assert thread.version == 2 * count
        expected = [n for n in range(count) if n % 3 != 1]
        for who in ("a", "b"):
            assert [n for by, n in thread.get("log") if by == who] == expected
            assert thread.get(who) == max(n for n in range(count) if n % 3 == 1)
            assert sum(c.actor == who for c in thread.history()) == count
        assert thread.verify().ok
