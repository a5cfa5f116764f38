"""Steps: working state that becomes one version when the step ends well, and nothing when it does not."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

import takeback
from takeback import errors


def elsewhere(call, *args):
    """As another thread of execution would: without the steps that are open here."""
    return contextvars.Context().run(call, *args)


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    return tb.thread("t", initial={"log": [], "n": 0})


def test_a_step_ends_as_one_version(tb, trip):
    """However much is changed inside, one checkpoint holds it, with the label and all that was said."""
    with trip.step("book", reason="asked", actor="bob", meta={"k": 1}) as s:
        assert s.thread is trip
        assert s.label == "book"
        s.state["n"] = 1
        s.state["log"].append("a")
        assert s.made is None
        assert tb.thread("t").state == {"log": [], "n": 0}
    made = s.made
    assert made == trip.head == tb.thread("t").head
    assert (made.version, made.kind, made.step, made.reason, made.actor) == (
        1,
        "step",
        "book",
        "asked",
        "bob",
    )
    assert made.meta == {"k": 1}
    assert trip.state == {"log": ["a"], "n": 1}


def test_the_whole_working_state_can_be_replaced(trip):
    """state is the step's to assign; what stands there at the end is committed."""
    with trip.step() as s:
        s.state = {"new": True}
    assert trip.state == {"new": True}


def test_working_state_is_plain_and_the_steps_own(trip):
    """Inside a step all of dict and list works, and the thread's state as read does not move."""
    trip.commit({"deep": {"list": [{"a": 1}]}})
    before = trip.state
    with trip.step() as s:
        s.state["deep"]["list"][0]["a"] = 2
        s.state["deep"].update(more=1)
        assert type(s.state["deep"]["list"]) is list
        assert trip.state is before
        assert before == {"deep": {"list": [{"a": 1}]}}
    assert trip.state == {"deep": {"list": [{"a": 2}], "more": 1}}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit, errors.Conflict])
def test_a_step_that_raises_commits_nothing(tb, trip, error):
    """The exception goes on as it is, and neither a version nor an open step is left behind."""
    with pytest.raises(error), trip.step("fails") as s:  # noqa: PT012 (the step is the statement)
        s.state["n"] = 1
        raise error("no")
    assert s.made is None
    assert tb.thread("t").version == 0
    with trip.step() as again:
        assert again.state == {"log": [], "n": 0}
        again.state["n"] = 2
    assert trip.state["n"] == 2


def test_a_step_that_changed_nothing_makes_no_version(tb, trip):
    """Agents take many steps that only read; history tells of those that did something."""
    with trip.step() as s:
        s.state["n"] = 5
        s.state["n"] = 0
        s.state["log"] = list(s.state["log"])
    assert s.made is None
    assert tb.thread("t").version == 0


def test_a_change_of_type_is_a_change(trip):
    """0 and 0.0 and False are three values: a step that turns one into another makes a version."""
    for value in (0.0, False, -0.0, 0):
        with trip.step() as s:
            s.state["n"] = value
        assert s.made is not None
        assert repr(trip.state["n"]) == repr(value)


def test_an_unstorable_working_state_ends_the_step_with_an_error(tb, trip):
    """What cannot be stored is refused at the end with its path; the thread stays as it was."""
    with pytest.raises(errors.Unstorable) as caught, trip.step() as s:  # noqa: PT012 (the step is the statement)
        s.state["n"] = 1
        s.state["log"].append({"when": {1, 2}})
    assert caught.value.path == "/log/0/when"
    assert s.made is None
    assert tb.thread("t").version == 0
    trip.patch({"n": 1})
    assert trip.version == 1


# --- what comes into being with a step ----------------------------------------------------------------


def test_a_first_step_makes_the_thread(tb):
    """A thread comes into being with its first version, which may be a step's; its state begins empty."""
    new = tb.thread("new", agent="a", meta={"k": 1})
    with new.step("first") as s:
        assert s.state == {}
        assert tb.threads(agent="a") == []
        s.state["x"] = 1
    assert (new.version, new.head.kind, new.info.agent, new.info.meta) == (0, "step", "a", {"k": 1})
    assert tb.thread("new").state == {"x": 1}
    with pytest.raises(errors.NothingToUndo):
        new.undo()


def test_a_first_step_that_changed_nothing_makes_no_thread(tb):
    """A step that changed nothing makes no version, and without a version there is no thread."""
    new = tb.thread("new")
    with new.step():
        pass
    assert not new.exists
    assert not tb.thread("new").exists


def test_a_step_on_a_handle_without_versions_sees_what_others_made(tb):
    """A handle opened early does not begin an empty state beside one that is there by now."""
    early = tb.thread("t")
    tb.thread("t").commit({"a": 1})
    with early.step() as s:
        assert s.state == {"a": 1}
        s.state["b"] = 2
    assert early.state == {"a": 1, "b": 2}


def test_two_first_steps_that_meet(tb):
    """Of two steps that would both make the thread, the second is told; nothing is overwritten."""
    one, two = tb.thread("t"), tb.thread("t")
    with pytest.raises(errors.Conflict), two.step() as late:  # noqa: PT012 (the step is the statement)
        late.state["two"] = 2
        elsewhere(one.commit, {"one": 1})
    assert tb.thread("t").state == {"one": 1}


# --- what is refused while a step is open ---------------------------------------------------------------

PASSING_BY = {
    "commit": lambda t: t.commit({}),
    "patch": lambda t: t.patch({"n": 1}),
    "merge_patch": lambda t: t.merge_patch({"n": 1}),
    "json_patch": lambda t: t.json_patch([]),
    "append": lambda t: t.append("log", 1),
    "extend": lambda t: t.extend("log", [1]),
    "undo": lambda t: t.undo(),
    "redo": lambda t: t.redo(),
    "rollback": lambda t: t.rollback(0),
    "revert": lambda t: t.revert(1),
    "merge": lambda t: t.merge("alt"),
    "delete": lambda t: t.delete(),
    "step": lambda t: t.step("inner").__enter__(),
}


@pytest.mark.parametrize("verb", PASSING_BY)
def test_what_would_pass_an_open_step_by_is_refused(tb, trip, verb):
    """Inside a step the thread's state changes through the step alone, through whichever handle."""
    trip.patch({"n": 1})
    trip.patch({"n": 2})
    tb.thread("t").undo()
    trip.refresh()
    alt = trip.fork(0, "alt")
    alt.patch({"other": 1})
    for handle in (trip, tb.thread("t")):
        with trip.step("outer") as s:
            with pytest.raises(errors.StepOpen) as caught:
                PASSING_BY[verb](handle)
            s.state["after"] = handle is trip
        assert "'outer'" in str(caught.value)
        assert caught.value.thread == "t"
        assert "step.state" in caught.value.hint
        assert s.made is not None
    assert trip.state == {"log": [], "n": 1, "after": False}


def test_looking_planning_labelling_and_forking_go_on_inside_a_step(trip):
    """What does not change the thread's state needs no closed step."""
    trip.patch({"n": 1})
    with trip.step() as s:
        s.state["n"] = 2
        assert trip.state["n"] == 1
        assert str(trip.plan_undo()) == "n: 1 → 0"
        trip.label("inside")
        assert trip.fork(name="alt").state["n"] == 1
        assert len(list(trip.history())) == 2
    assert trip.labels == {"inside": 1}
    assert trip.version == 2


def test_steps_of_two_threads_nest(tb, trip):
    """A step of one thread says nothing about another; tenants with one thread name are two threads."""
    other = tb.thread("other", initial={})
    with trip.step() as outer:
        with other.step() as inner:
            inner.state["x"] = 1
        other.patch({"y": 2})
        outer.state["n"] = 1
    assert other.state == {"x": 1, "y": 2}
    assert trip.state["n"] == 1


def test_another_thread_of_execution_may_write(tb, trip):
    """An open step is known where it was opened; a worker elsewhere commits, and the end merges."""
    with trip.step() as s:
        s.state["n"] = 1
        worker = threading.Thread(target=lambda: tb.thread("t").patch({"by": "worker"}))
        worker.start()
        worker.join()
    assert trip.state == {"log": [], "n": 1, "by": "worker"}
    assert trip.version == 2


def test_a_copied_context_carries_the_open_step(tb, trip):
    """What runs in the step's context is inside the step, also where a framework copies the context."""
    with trip.step():
        context = contextvars.copy_context()
        with pytest.raises(errors.StepOpen):
            context.run(tb.thread("t").patch, {"n": 1})
        elsewhere(tb.thread("t").patch, {"n": 1})


def test_steps_in_concurrent_tasks(tb, trip):
    """Two tasks hold a step each; the second to end merges with the first."""

    async def work(key, gate, opened):
        with tb.thread("t").step(key) as s:
            opened.set()
            await gate.wait()
            s.state[key] = 1
            s.state["log"].append(key)

    async def both():
        gate, opened = asyncio.Event(), [asyncio.Event(), asyncio.Event()]
        tasks = [asyncio.create_task(work(k, gate, o)) for k, o in zip("ab", opened, strict=True)]
        for event in opened:
            await event.wait()
        gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(both())
    trip.refresh()
    assert trip.state == {"log": ["a", "b"], "n": 0, "a": 1, "b": 1}
    assert [c.kind for c in trip.history()] == ["step", "step", "initial"]


# --- the end of a step beside others ------------------------------------------------------------------


def test_the_end_merges_with_what_others_committed(tb, trip):
    """Both sides' keys and appends stay; the step's come after what was there first."""
    with trip.step("mine") as s:
        s.state["mine"] = 1
        s.state["log"].append("mine")
        other = tb.thread("t")
        elsewhere(other.append, "log", "theirs")
        elsewhere(other.patch, {"theirs": 2})
    assert s.made.version == 3
    assert trip.state == {"log": ["theirs", "mine"], "n": 0, "mine": 1, "theirs": 2}


def test_a_step_that_changed_nothing_stays_silent_when_others_wrote(tb, trip):
    """No version is made to say that nothing was done."""
    with trip.step() as s:
        elsewhere(tb.thread("t").patch, {"n": 1})
    assert s.made is None
    assert trip.refresh().version == 1


def test_a_clash_at_the_end_is_listed_and_nothing_is_written(tb, trip):
    """MergeConflict lists what both changed by path; theirs stands, and the step's work is not stored."""
    with pytest.raises(errors.MergeConflict) as caught, trip.step() as s:  # noqa: PT012 (the step is the statement)
        s.state["n"] = 1
        s.state["free"] = True
        elsewhere(tb.thread("t").patch, {"n": 2})
    assert [clash.as_dict() for clash in caught.value.conflicts] == [
        {"path": "/n", "base": 0, "ours": 1, "theirs": 2}
    ]
    assert caught.value.thread == "t"
    assert tb.thread("t").state == {"log": [], "n": 2}
    with trip.refresh().step() as s:
        s.state["n"] = 3
    assert trip.state["n"] == 3


def test_a_step_of_a_thread_that_is_deleted_meanwhile(tb, trip):
    """A late writer does not bring a deleted thread back, not even under its name made anew."""
    with pytest.raises(errors.ThreadDeleted), trip.step() as s:  # noqa: PT012 (the step is the statement)
        s.state["n"] = 1
        elsewhere(tb.thread("t").delete)
    assert not tb.thread("t").exists
    trip = tb.thread("t", initial={"n": 0})
    with pytest.raises(errors.ThreadDeleted), trip.step() as s:  # noqa: PT012 (the step is the statement)
        s.state["n"] = 1
        elsewhere(tb.thread("t").delete)
        elsewhere(tb.thread("t").commit, {"new": True})
    assert tb.thread("t").state == {"new": True}


def test_an_item_that_cannot_be_stored_is_named_by_its_place_in_the_list(tb):
    """The path is that of the item in the whole list, not in what was appended."""
    for length in (3, 2_000):
        thread = tb.thread(f"t{length}", initial={"log": ["x" * 20] * length})
        with pytest.raises(takeback.errors.Unstorable) as caught:
            thread.extend("log", [1, {"bad": {2}}])
        assert caught.value.path == f"/log/{length + 1}/bad"
        assert thread.version == 0


def test_metadata_is_a_mapping(tb):
    """Anything else is refused before anything is written."""
    thread = tb.thread("t", initial={})
    with pytest.raises(takeback.errors.BadRequest, match="metadata is a mapping, not int"):
        thread.commit({}, meta=3)
    with pytest.raises(takeback.errors.BadRequest, match="metadata is a mapping, not list"):
        tb.thread("u", meta=[1], initial={})
    assert thread.version == 0
    assert [info.name for info in tb.threads()] == ["t"]


def test_a_state_beyond_the_limit_is_refused(tb, monkeypatch):
    """The limit is about the whole value, however it is split into objects."""
    monkeypatch.setattr("takeback.model.canonical.MAX_STATE", 100_000)
    thread = tb.thread("t", initial={"log": []})
    with pytest.raises(takeback.errors.TooLarge):
        thread.commit({"log": ["x" * 1_000] * 200})
    thread.commit({"log": ["x" * 1_000] * 98})
    with pytest.raises(takeback.errors.TooLarge):
        thread.extend("log", ["y" * 1_000] * 5)
    assert thread.version == 1


def test_a_step_may_end_here_and_begin_anew(trip):
    """`step.checkpoint()` makes a version in the middle, whether or not anything was called."""
    with trip.step("book") as s:
        s.state["n"] = 1
        first = s.checkpoint("half way")
        s.state["n"] = 2
        assert s.checkpoint() is not None
        assert s.checkpoint() is None
    assert (first.version, first.reason, first.step) == (1, "half way", "book")
    assert (trip.version, trip.state["n"]) == (2, 2)
