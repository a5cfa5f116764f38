"""The façade of one thread: making versions, and looking at them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import takeback
from takeback import errors
from takeback.errors import BadRequest
from takeback.model import canonical
from takeback.storage.memory import MemoryStorage
from takeback.storage.wrappers import Wrapper


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    with takeback.open(":memory:" if request.param == "memory" else store_path, actor="ada") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    return tb.thread("travel/42", agent="travel-agent", initial={"messages": [], "to": "BOS"})


class Counting(Wrapper):
    """Counts the batches that are written."""

    written = 0

    def apply(self, batch):
        self.written += 1
        return super().apply(batch)


def test_the_first_example(store_path):
    """What a stranger tries first works as it reads: a step, a plan, an undo, a redo."""
    tb = takeback.open(store_path)
    trip = tb.thread("travel/42", agent="travel-agent", initial={"messages": []})
    with trip.step("book NYC", reason="the user asked") as s:
        s.state["to"] = "NYC"
    plan = trip.plan_undo()
    assert str(plan) == "to: removed"
    receipt = plan.apply(reason="wrong city")
    assert receipt.state == {"messages": []}
    assert (receipt.checkpoint.kind, receipt.checkpoint.reason) == ("undo", "wrong city")
    assert trip.state == {"messages": []}
    assert trip.redo().state == {"messages": [], "to": "NYC"}
    assert [c.kind for c in trip.history(newest_first=False)] == ["initial", "step", "undo", "redo"]
    tb.close()

    with takeback.open(store_path) as later:
        assert later.thread("travel/42").state == {"messages": [], "to": "NYC"}


# --- opening ------------------------------------------------------------------------------------------


def test_open_refuses_a_durability_it_does_not_know(store_path):
    """A misspelt durability must not silently be a weaker one."""
    with pytest.raises(errors.BadRequest, match="'fast' is neither 'full' nor 'relaxed'"):
        takeback.open(store_path, durability="fast")
    assert not store_path.exists()


def test_open_can_be_told_not_to_create(store_path):
    """Whoever only wants to look does not leave an empty store behind."""
    with pytest.raises(errors.StoreUnavailable, match="there is no store at"):
        takeback.open(store_path, create=False)
    assert not store_path.exists()
    takeback.open(store_path).close()
    takeback.open(store_path, create=False).close()


@pytest.mark.parametrize("tenant", ["", "a\nb", "x" * 513, 5])
def test_a_tenant_has_a_name_that_prints(tenant):
    """A tenant is part of every key; what cannot be shown cannot be told from another."""
    with pytest.raises(errors.BadName, match="tenant"):
        takeback.open(":memory:", tenant=tenant)


def test_a_repo_says_what_it_is(tb):
    """A handle's tenant, actor and store are seen without a private name."""
    assert (tb.tenant, tb.actor) == ("default", "ada")
    assert tb.info().kind in {"memory", "sqlite"}
    assert tb.damage() == []
    assert "default" in repr(tb)


def test_closing_twice_is_closing_once(tb):
    """A store that was closed says so; closing it again is no error."""
    trip = tb.thread("t", initial={})
    tb.close()
    tb.close()
    with pytest.raises(errors.StoreClosed):
        trip.commit({})


# --- making versions ----------------------------------------------------------------------------------


def test_commit_makes_a_version_with_all_that_was_said(tb, trip):
    """State, reason, actor and metadata come back as they were given, also through another handle."""
    made = trip.commit({"to": "NYC"}, reason="asked", actor="bob", meta={"model": "m-1", "n": [1, None]})
    for seen in (made, trip.head, tb.thread("travel/42").head, trip.at(1).checkpoint):
        assert (seen.version, seen.kind, seen.reason, seen.actor) == (1, "commit", "asked", "bob")
        assert seen.meta == {"model": "m-1", "n": [1, None]}
        assert seen.digest == made.digest
    assert (trip.state, trip.version) == ({"to": "NYC"}, 1)
    assert made.before == 0
    assert made.parents[0].digest == trip.at(0).checkpoint.digest


def test_the_handle_acts_where_a_call_does_not_say_who(trip):
    """Every version names who made it; the actor of the handle stands in."""
    assert trip.commit({}).actor == "ada"
    assert trip.undo().checkpoint.actor == "ada"
    assert trip.redo(actor="eve").checkpoint.actor == "eve"


def test_an_explicit_commit_always_makes_a_version(trip):
    """Who says commit wants a point to come back to, also where nothing changed; no state is stored twice."""
    first, second = trip.commit({"a": 1}), trip.commit({"a": 1})
    assert (first.version, second.version) == (1, 2)
    assert first.state_root == second.state_root
    assert first.digest != second.digest
    assert trip.patch({"a": 1}).version == 3
    trip.patch({"l": []})
    assert trip.extend("/l", []).version == 5


def test_a_commit_keeps_nothing_of_the_object_that_it_was_given(trip):
    """What the caller changes afterwards does not show in any version."""
    state = {"list": [1, {"deep": [2]}]}
    trip.commit(state)
    state["list"][1]["deep"].append(3)
    state["new"] = True
    assert trip.state == {"list": [1, {"deep": [2]}]}
    trip.commit(state)
    assert trip.at(1).state == {"list": [1, {"deep": [2]}]}


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, 1, -1, 2**63 - 1, -(2**63), 0.0, -0.0, 1.0, 5e-324, 1.7976931348623157e308, "",
        "é😀\x00", b"", b"\x00\xff", [], {}, {"": {"": []}}, [[[]]], {"a/b": {"~": 1}},
        datetime(2026, 3, 1, 12, 30, 1, 999_999, UTC),
        datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=-7, seconds=11))),
        list(range(5000)), {f"key {n}": {"n": n, "text": "x" * 40} for n in range(2000)}, "x" * 200_000,
    ],
    ids=lambda value: repr(value)[:24],
)  # fmt: skip
def test_every_storable_value_comes_back_exactly(tb, value):
    """Type, sign, offset and order of items are kept, alone and inside others, cold and warm."""
    with tb.thread("t", initial={}).step() as s:
        s.state["value"] = value
    read = tb.thread("t").state["value"]
    assert canonical.equal(read, value)
    assert read == value
    tb.thread("whole", initial={}).commit(value)
    assert canonical.equal(tb.thread("whole").state, value)


def test_equal_numbers_of_different_types_are_different_values(trip):
    """1, 1.0 and True are three values, 0.0 and -0.0 two: a change from one to another is a change."""
    values = [1, 1.0, True, 0.0, -0.0, 0, False]
    roots = [trip.commit({"n": value}).state_root for value in values]
    assert len(set(roots)) == len(values)
    assert [repr(trip.at(n + 1).state["n"]) for n in range(len(values))] == [repr(v) for v in values]
    assert len(trip.diff(1, 2)) == 1


def test_patch_sets_keys_and_paths_and_deletes(trip):
    """A patch touches what it names: a bare word, a pointer, an item, an append; None is a value."""
    trip.commit({"to": "NYC", "plan": {"steps": ["a", "b", "c"]}, "old": 1, "a/b": 0})
    made = trip.patch(
        {"to": None, "/plan/steps/1": "B", "/plan/steps/-": "d", "old": takeback.DELETE, "/a~1b": 2}
    )
    assert made.kind == "patch"
    assert trip.state == {"to": None, "plan": {"steps": ["a", "B", "c", "d"]}, "a/b": 2}
    trip.patch({"/plan/steps/0": takeback.DELETE})
    assert trip.get("/plan/steps") == ["B", "c", "d"]


def test_merge_patch_and_json_patch_follow_their_standards(trip):
    """RFC 7396 removes with None and goes into dicts; RFC 6902 holds as a whole or not at all."""
    trip.merge_patch({"to": None, "plan": {"days": 3}})
    assert trip.state == {"messages": [], "plan": {"days": 3}}
    trip.json_patch([{"op": "add", "path": "/messages/0", "value": "hi"}])
    assert trip.state == {"messages": ["hi"], "plan": {"days": 3}}
    with pytest.raises(errors.BadPatch, match="operation 1"):
        trip.json_patch([{"op": "remove", "path": "/plan"}, {"op": "test", "path": "/messages", "value": []}])
    assert trip.state == {"messages": ["hi"], "plan": {"days": 3}}
    assert trip.refresh().version == 2


def test_append_and_extend_add_at_the_end(trip):
    """One item or many, also to a list in a list; a long list reads back whole."""
    assert trip.append("messages", {"n": 0}).kind == "append"
    trip.extend("messages", [{"n": n} for n in range(1, 3000)])
    trip.append(("messages",), {"n": 3000})
    assert trip.get("messages") == [{"n": n} for n in range(3001)]
    trip.commit({"rows": [[], [1]]})
    trip.append("/rows/1", 2)
    assert trip.state == {"rows": [[], [1, 2]]}


@pytest.mark.parametrize(
    ("call", "error", "where"),
    [
        (lambda t: t.append("nope", 1), errors.BadPath, ""),
        (lambda t: t.append("to", 1), errors.BadPath, "/to"),
        (lambda t: t.append("", 1), errors.BadPath, ""),
        (lambda t: t.patch({"/a/b": 1}), errors.BadPath, ""),
        (lambda t: t.patch({"/to/b": 1}), errors.BadPath, "/to"),
        (lambda t: t.patch({"nope": takeback.DELETE}), errors.BadPath, ""),
        (lambda t: t.patch({"/messages/7": 1}), errors.BadPath, "/messages"),
        (lambda t: t.patch({"/messages/x": 1}), errors.BadPath, "/messages"),
        (lambda t: t.patch({"/a~2": 1}), errors.BadPath, None),
        (lambda t: t.patch({"messages": [], "/messages/-": 1}), errors.BadPatch, "/messages/-"),
        (lambda t: t.patch({"": 1}), errors.BadPatch, None),
        (lambda t: t.patch({5: 1}), errors.BadPatch, None),
        (lambda t: t.patch(["to"]), errors.BadPatch, None),
        (lambda t: t.commit({}, on_conflict="ignore"), errors.BadRequest, None),
        (lambda t: t.commit({}, reason=object()), errors.BadRequest, "/reason"),
        (lambda t: t.commit({}, reason="\ud800"), errors.BadRequest, "/reason"),
        (lambda t: t.commit({}, actor=b"me"), errors.BadRequest, "/actor"),
        (lambda t: t.commit({}, meta={"f": print}), errors.Unstorable, "/meta/f"),
        (lambda t: t.commit({}, meta={"f": float("nan")}), errors.Unstorable, "/meta/f"),
        (lambda t: t.commit({}, meta={1: 1}), errors.Unstorable, "/meta"),
        (lambda t: t.commit({}, meta={"x": "x" * 70_000}), errors.TooLarge, "/meta"),
        (lambda t: t.commit({"a": {1, 2}}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": [1, {"b": print}]}), errors.Unstorable, "/a/1/b"),
        (lambda t: t.commit({"a": float("nan")}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": [float("-inf")]}), errors.Unstorable, "/a/0"),
        (lambda t: t.commit({"a": {1: 2}}), errors.Unstorable, "/a"),
        (lambda t: t.commit({1: 2}), errors.Unstorable, ""),
        (lambda t: t.commit({"a": 2**63}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": (1, 2)}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": bytearray(b"x")}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": datetime(2026, 1, 1)}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": "\udc00"}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"a": {"\udc00": 1}}), errors.Unstorable, "/a"),
        (lambda t: t.commit({"k" * 5000: 1}), errors.TooLarge, ""),
        (lambda t: t.commit({"long": ["x" * 300] * 40 + [{1}]}), errors.Unstorable, "/long/40"),
        (lambda t: t.commit(print), errors.Unstorable, ""),
        (lambda t: t.patch({"a": {1}}), errors.Unstorable, "/a"),
        (lambda t: t.patch({"/messages/-": {1}}), errors.Unstorable, None),
        (lambda t: t.append("messages", print), errors.Unstorable, "/messages/0"),
        (lambda t: t.extend("messages", [1, {"x": print}]), errors.Unstorable, "/messages/1/x"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_whole(tb, trip, call, error, where):
    """A refused write names what is wrong and at which path, and nothing of it stays."""
    with pytest.raises(error) as caught:
        call(trip)
    if where is not None:
        assert caught.value.path == where
    assert trip.version == tb.thread("travel/42").version == 0
    assert trip.state == {"messages": [], "to": "BOS"}
    assert trip.verify().ok


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_depth_has_a_limit_that_is_named(trip):
    """128 levels are stored and read; one more is refused, however it is brought in."""
    trip.commit({"deep": nested(127)})
    assert trip.state == {"deep": nested(127)}
    with pytest.raises(errors.TooDeep, match="deeper than 128"):
        trip.commit({"deep": nested(128)})
    with pytest.raises(errors.TooDeep):
        trip.patch({"deep": nested(100_000)})
    with pytest.raises(errors.TooDeep):
        trip.patch({"/deep/0": nested(127)})
    assert trip.refresh().version == 1


def test_a_change_needs_something_to_change(tb):
    """patch and append do not guess a first state; the error says how a thread is made."""
    new = tb.thread("new")
    for call in (
        lambda: new.patch({"a": 1}),
        lambda: new.append("l", 1),
        new.undo,
        lambda: new.state,
    ):
        with pytest.raises(errors.UnknownThread, match="new"):
            call()
    assert tb.threads() == []


# --- looking ------------------------------------------------------------------------------------------


def test_looking_back(trip):
    """at, get, diff and history show each version as it was."""
    trip.patch({"to": "NYC"}, reason="asked")
    trip.append("messages", "hi")
    assert trip.at(0).state == {"messages": [], "to": "BOS"}
    assert trip.at("head~1").get("to") == "NYC"
    assert trip.at(1).version == 1
    assert trip.get("/messages/0") == "hi"
    assert trip.get("") == trip.state
    difference = trip.diff(0)
    assert bool(difference)
    assert difference.as_dict() == {
        "before": 0,
        "after": 2,
        "changes": [
            {"op": "add", "path": "/messages/0", "after": "hi"},
            {"op": "change", "path": "/to", "before": "BOS", "after": "NYC"},
        ],
    }
    assert trip.diff(2, 0).summary() == "messages/0: removed · to: 'NYC' → 'BOS'"
    assert str(trip.diff(1, 1)) == "no difference"
    assert not trip.diff(1, 1)
    assert difference.as_json_patch()[1] == {"op": "replace", "path": "/to", "value": "NYC"}
    assert [change.pointer for change in difference] == ["/messages/0", "/to"]
    assert "travel/42" in repr(trip)
    assert "version 1" in repr(trip.at(1))


@pytest.mark.parametrize("path", ["/nope", "/to/x", "/messages/0", ("messages", "a"), 3, "/a~b", None, 1.5])
def test_a_path_that_leads_nowhere_is_named(trip, path):
    """get answers with what stands there or says that nothing does; never with None for nothing."""
    with pytest.raises(errors.BadPath):
        trip.get(path)


def test_history_is_lazy_and_counts(tb, trip):
    """History has a length, goes both ways, and reads no more than is looked at."""
    trip.extend("messages", range(3))
    for n in range(450):
        trip.patch({"n": n})
    history = trip.history()
    assert len(history) == 452
    assert [c.version for c in history] == list(range(451, -1, -1))
    assert [c.version for c in trip.history(newest_first=False)] == list(range(452))
    assert next(iter(history)).version == 451
    tb.thread("travel/42").patch({"n": -1})
    assert len(history) == len(list(history)) == 452


def test_reading_and_planning_write_nothing():
    """Looking at a thread, from its state to its plans, is never a write; nor does looking create one."""
    storage = Counting(MemoryStorage())
    tb = takeback.Repo(storage)
    trip = tb.thread("t", initial={"l": [1]})
    trip.patch({"a": 1})
    trip.undo()
    alt = trip.fork(name="alt")
    alt.patch({"b": 1})
    before = storage.written
    tb.thread("other").refresh()
    _ = trip.state, trip.get("l"), trip.at(0).state, list(trip.history()), trip.labels, list(trip.audit())
    _ = trip.diff(0, 1).changes, str(trip.plan_redo()), str(trip.plan_rollback(1)), trip.info, trip.verify()
    _ = str(trip.plan_merge(alt)), str(trip.plan_revert(1)), tb.threads(), tb.latest(), list(tb.audit())
    with trip.step():
        pass
    assert storage.written == before
    assert [info.name for info in tb.threads()] == ["alt", "t"]


@pytest.mark.parametrize(
    ("ask", "path", "checkpoint"),
    [
        (lambda t: t.append("mesages", 1), "", 0),
        (lambda t: t.patch({"/a/b/c": 1}), "/a", 0),
        (lambda t: t.commit({"a": {"b": {1}}}), "/a/b", None),
        (lambda t: t.get("/a/b"), "/a", 0),
        (lambda t: t.at(0).get("/a/b"), "/a", 0),
    ],
)
def test_a_mistake_names_thread_checkpoint_and_path(tb, ask, path, checkpoint):
    """Whoever reads a log of many threads knows where to look."""
    thread = tb.thread("t", initial={"a": {"x": 1}})
    with pytest.raises(BadRequest) as caught:
        ask(thread)
    assert (caught.value.thread, caught.value.checkpoint, caught.value.path) == ("t", checkpoint, path)


def test_a_mistake_in_a_step_names_the_thread(tb):
    thread = tb.thread("t", initial={})
    with pytest.raises(BadRequest, match="thread 't', at /a"), thread.step() as s:
        s.state["a"] = {1}


def test_a_first_state_that_cannot_be_stored_names_its_thread(tb):
    with pytest.raises(BadRequest) as caught:
        tb.thread("t").commit({"a": {1}})
    assert (caught.value.thread, caught.value.path) == ("t", "/a")
