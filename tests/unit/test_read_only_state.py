"""A state that was read: dict and list in all but writing, which says how it is done instead."""

from __future__ import annotations

import contextlib
import copy
import json
import operator
import pickle
from datetime import UTC, datetime

import pytest

import takeback
from takeback import errors
from takeback.model import canonical

VALUE = {
    "messages": [{"role": "user", "parts": ["a", {"b": [1, 2]}]}, {"role": "agent", "parts": []}],
    "plan": {"steps": {"0": {"done": False}}},
    "n": 1,
    "none": None,
}


@pytest.fixture
def trip():
    with takeback.open(":memory:") as tb:
        yield tb.thread("t", initial=VALUE)


WRITES = {
    "set a key": lambda s: s.__setitem__("n", 2),
    "delete a key": lambda s: s.__delitem__("n"),
    "clear": lambda s: s.clear(),
    "pop": lambda s: s.pop("n"),
    "pop with a default": lambda s: s.pop("nope", None),
    "popitem": lambda s: s.popitem(),
    "setdefault": lambda s: s.setdefault("x", 1),
    "update": lambda s: s.update(x=1),
    "or in place": lambda s: s.__ior__({"x": 1}),
    "deep set": lambda s: s["plan"]["steps"]["0"].__setitem__("done", True),
    "through get": lambda s: s.get("plan").__setitem__("x", 1),
    "through values": lambda s: next(v for v in s.values() if isinstance(v, list)).append(1),
    "through items": lambda s: dict(s.items())["plan"].__setitem__("x", 1),
    "append": lambda s: s["messages"].append({}),
    "extend": lambda s: s["messages"].extend([1]),
    "insert": lambda s: s["messages"].insert(0, 1),
    "remove": lambda s: s["messages"].remove(s["messages"][0]),
    "list pop": lambda s: s["messages"].pop(),
    "list clear": lambda s: s["messages"].clear(),
    "sort": lambda s: s["messages"].sort(key=str),
    "reverse": lambda s: s["messages"].reverse(),
    "set an item": lambda s: s["messages"].__setitem__(0, 1),
    "set a slice": lambda s: s["messages"].__setitem__(slice(0, 1), []),
    "delete an item": lambda s: s["messages"].__delitem__(0),
    "add in place": lambda s: s["messages"].__iadd__([1]),
    "multiply in place": lambda s: s["messages"].__imul__(2),
    "an item by iteration": lambda s: next(iter(s["messages"])).__setitem__("role", "x"),
    "an item backwards": lambda s: next(reversed(s["messages"])).__setitem__("role", "x"),
    "an item of a slice": lambda s: s["messages"][:1][0].__setitem__("role", "x"),
    "deep in a list": lambda s: s["messages"][0]["parts"][1]["b"].append(3),
}


@pytest.mark.parametrize("how", WRITES)
def test_writing_is_refused_with_the_right_way_to_do_it(trip, how):
    """However deep and by whichever method: ReadOnlyState says how; nothing has changed."""
    with pytest.raises(errors.ReadOnlyState, match="step") as caught:
        WRITES[how](trip.state)
    assert isinstance(caught.value, TypeError)
    assert trip.state == VALUE


def test_the_state_is_not_assigned_to(trip):
    """thread.state = … looks like a commit and is none; the error names commit."""
    with pytest.raises(errors.ReadOnlyState, match=r"commit\(state\)") as caught:
        trip.state = {}
    assert caught.value.thread == "t"
    assert trip.state == VALUE


COPIES = {
    "dict": dict,
    "copy.copy": copy.copy,
    "copy": lambda s: s.copy(),
    "deepcopy": copy.deepcopy,
    "unpacked": lambda s: {**s},
    "or": lambda s: s | {},
    "or from the right": lambda s: {} | s,
    "json": lambda s: json.loads(json.dumps(s)),
    "pickled": lambda s: pickle.loads(pickle.dumps(s)),
    "comprehension": lambda s: {key: s[key] for key in s},
    "items": lambda s: dict(s.items()),
    "keys and values": lambda s: dict(zip(s.keys(), s.values(), strict=True)),
    "dict.update": lambda s: (out := {}, out.update(s))[0],
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_equal_and_may_be_changed(trip, how):
    """Every usual way to copy gives an equal value whose top is the caller's, and leaves the state alone."""
    made = COPIES[how](trip.state)
    assert made == VALUE
    made["new"] = 1
    made["n"] = 2
    assert trip.state == VALUE
    assert trip.refresh().state == VALUE


@pytest.mark.parametrize("how", ["copy", "copy.copy", "deepcopy", "json", "pickled", "or"])
def test_a_deep_copy_is_plain_all_the_way_down(trip, how):
    """What copies deeply is dict and list to the bottom, for code that asks for the type."""
    made = COPIES[how](trip.state)
    assert type(made) is dict
    assert type(made["messages"]) is list
    made["messages"][0]["parts"][1]["b"].append(3)
    assert trip.state == VALUE


LISTS = {
    "list": list,
    "copy": lambda v: v.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "slice": lambda v: v[:],
    "unpacked": lambda v: [*v],
    "sorted": lambda v: sorted(v, key=lambda item: 0),
    "added to": lambda v: operator.add(v, []),
    "added from the left": lambda v: operator.add([], v),
    "added in place": lambda v: (out := [], out.__iadd__(v))[0],
    "times one": lambda v: v * 1,
    "one times": lambda v: 1 * v,
    "extended": lambda v: (out := [], out.extend(v))[0],
    "reversed twice": lambda v: list(reversed(list(reversed(v)))),
}


@pytest.mark.parametrize("how", LISTS)
def test_no_copy_of_a_list_is_a_way_into_the_state(trip, how):
    """The items of a copy are either copies or read-only: a write never reaches what the thread shows."""
    made = LISTS[how](trip.get("messages"))
    assert made == VALUE["messages"]
    made.append("mine")
    with contextlib.suppress(errors.ReadOnlyState):
        made[0]["role"] = "changed"
        made[0]["parts"][1]["b"].append(3)
    assert trip.state == VALUE
    held = trip.state["messages"]
    LISTS[how](held).append("mine")
    with contextlib.suppress(errors.ReadOnlyState):
        LISTS[how](held)[0]["role"] = "changed"
    assert trip.state == VALUE


def test_reading_works_as_ever(trip):
    """Everything that does not write does what dict and list do."""
    state = trip.state
    assert state["n"] == 1
    assert state.get("nope", 7) == 7
    assert list(state) == sorted(VALUE)
    assert len(state) == 4
    assert "n" in state
    assert {**state}.keys() == state.keys()
    assert state["messages"][-1]["role"] == "agent"
    assert [m["role"] for m in state["messages"]] == ["user", "agent"]
    assert state["messages"].index({"role": "agent", "parts": []}) == 1
    assert state["messages"].count(1) == 0
    assert state == VALUE
    assert operator.eq(VALUE, state)
    assert not operator.ne(state, VALUE)
    assert state["messages"] == VALUE["messages"]
    assert isinstance(state, dict)
    assert isinstance(state["messages"], list)
    assert repr(state["plan"]) == repr(VALUE["plan"])
    with pytest.raises(KeyError):
        state["nope"]
    with pytest.raises(IndexError):
        state["messages"][9]
    match state:
        case {"plan": {"steps": {"0": {"done": done}}}, "messages": [{"role": role}, *_]}:
            assert (done, role) == (False, "user")
        case _:
            pytest.fail("a state does not match its own pattern")


@pytest.mark.parametrize("options", [{}, {"sort_keys": True}, {"indent": 1}])
def test_json_before_and_after_looking(trip, options):
    """json.dumps gives the same whether or not children were looked at, with either encoder."""
    fresh = json.dumps(trip.state, **options)
    assert json.loads(fresh) == VALUE
    list(trip.state["messages"][0]["parts"])
    assert json.dumps(trip.state, **options) == fresh


def test_a_read_state_can_be_committed_again(trip):
    """Whole, or in a changed copy: what is stored is the plain value."""
    root = trip.head.state_root
    assert trip.commit(trip.state).state_root == root
    assert trip.commit({**trip.state, "n": 2}).version == 2
    trip.commit({**trip.state, "messages": [*trip.state["messages"], {"role": "user"}]})
    trip.append("messages", trip.at(0).state["plan"])
    assert trip.get("/messages/3") == VALUE["plan"]
    assert canonical.equal(trip.at(1).state, VALUE)


def test_states_of_other_kinds(trip):
    """A state need not be a dict; what is no container is handed out as it is."""
    when = datetime(2026, 1, 1, tzinfo=UTC)
    for value in ([1, [2]], "text", 5, None, b"x", when, []):
        trip.commit(value)
        assert trip.state == value
    trip.commit([1, [2]])
    with pytest.raises(errors.ReadOnlyState):
        trip.state[1].append(3)


def test_views_of_the_past_are_read_only_too(trip):
    """at(…).state and get give the same kind of value."""
    trip.patch({"n": 2})
    for value in (trip.at(0).state, trip.at(0).get("plan"), trip.get("plan")):
        with pytest.raises(errors.ReadOnlyState):
            value["x"] = 1


def test_what_others_commit_does_not_move_a_state_in_hand():
    """A state that was read stays what it was; the handle shows the new one after refresh."""
    with takeback.open(":memory:") as tb:
        trip = tb.thread("t", initial={"n": 0})
        held = trip.state
        tb.thread("t").patch({"n": 1})
        assert (held, trip.state, trip.refresh().state) == ({"n": 0}, {"n": 0}, {"n": 1})
        assert held == {"n": 0}
