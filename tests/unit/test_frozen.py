"""Read-only views: they look like what they show, refuse every change, and let nothing shared out."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import BadRequest, ReadOnlyState
from takeback.model.frozen import ReadOnlyDict, ReadOnlyList, thawed, view

VALUES = st.recursive(
    st.none() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=15,
)


def sample() -> dict[str, Any]:
    return {"d": {"x": [1, {"y": 2}]}, "l": [[1], {"a": 1}, "t"], "n": None}


def changed_everywhere(value: Any) -> None:
    """Change every container in a value that can be changed."""
    if isinstance(value, dict):
        for item in list(value.values()):
            changed_everywhere(item)
        if type(value) is dict:
            value["changed"] = "changed"
    if isinstance(value, (list, tuple)):
        for item in list(value):
            changed_everywhere(item)
        if type(value) is list:
            value.append("changed")


# --- refusing

ON_DICTS = {
    "setitem": lambda d: d.__setitem__("a", 1),
    "delitem": lambda d: d.__delitem__("d"),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("d"),
    "pop absent": lambda d: d.pop("zzz", None),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("d", 1),
    "update": lambda d: d.update({"a": 1}),
    "update none": lambda d: d.update(a=1),
    "ior": lambda d: d.__ior__({"a": 1}),
}
ON_LISTS = {
    "setitem": lambda v: v.__setitem__(0, 1),
    "set slice": lambda v: v.__setitem__(slice(0, 1), [1]),
    "delitem": lambda v: v.__delitem__(0),
    "append": lambda v: v.append(1),
    "extend": lambda v: v.extend([1]),
    "insert": lambda v: v.insert(0, 1),
    "pop": lambda v: v.pop(),
    "remove": lambda v: v.remove("t"),
    "clear": lambda v: v.clear(),
    "sort": lambda v: v.sort(key=str),
    "reverse": lambda v: v.reverse(),
    "iadd": lambda v: v.__iadd__([1]),
    "imul": lambda v: v.__imul__(2),
}


@pytest.mark.parametrize("name", ON_DICTS)
def test_a_dict_refuses_every_change(name: str) -> None:
    """At the top and below; the error says how a state is changed instead."""
    state = view(sample())
    for target in (state, state["d"], state["l"][1]):
        with pytest.raises(ReadOnlyState, match="step"):
            ON_DICTS[name](target)
    assert state == sample()


@pytest.mark.parametrize("name", ON_LISTS)
def test_a_list_refuses_every_change(name: str) -> None:
    state = view(sample())
    for target in (state["l"], state["l"][0], state["d"]["x"]):
        with pytest.raises(ReadOnlyState, match="step"):
            ON_LISTS[name](target)
    assert state == sample()


def test_no_method_that_changes_was_forgotten() -> None:
    """What a mutable container has beyond a read-only one of Python's own is refused."""
    for kind, plain, beside in [
        (ReadOnlyDict, dict, {"copy", "fromkeys"}),
        (ReadOnlyList, list, {"copy"}),
    ]:
        reading = {"get", "items", "keys", "values", "count", "index"} | beside
        for name in {name for name in dir(plain) if not name.startswith("__")} - reading:
            assert getattr(kind, name) is kind.__setitem__, name
        for name in ("__delitem__", *(("__ior__",) if plain is dict else ("__iadd__", "__imul__"))):
            assert getattr(kind, name) is kind.__setitem__, name


def test_augmented_assignment_is_refused() -> None:
    state = view(sample())
    with pytest.raises(ReadOnlyState):
        state["l"] += [1]
    with pytest.raises(ReadOnlyState):
        state |= {"a": 1}
    assert state == sample()


def test_the_refusal_is_a_type_error_too() -> None:
    """As with other read-only containers; and a bad request, like other requests that cannot be done."""
    with pytest.raises(TypeError) as caught:
        view({})["a"] = 1
    assert isinstance(caught.value, BadRequest)


# --- looking like what they show


@given(VALUES)
def test_a_view_looks_like_its_value(value: Any) -> None:
    shown = view(copy.deepcopy(value))
    assert shown == value
    assert value == shown
    assert repr(shown) == repr(value)
    assert json.dumps(shown) == json.dumps(value)
    assert json.dumps(shown, indent=1, sort_keys=True) == json.dumps(value, indent=1, sort_keys=True)
    assert msgspec.json.encode(shown) == msgspec.json.encode(value)
    assert isinstance(shown, type(value))
    assert bool(shown) == bool(value)


def test_reading() -> None:
    """Every way to read gives what a plain value gives, and only views of what is inside."""
    plain, state = sample(), view(sample())
    assert list(state) == list(plain)
    assert (len(state), "d" in state, "z" in state) == (3, True, False)
    assert (list(state.keys()), list(state.values()), list(state.items())) == (
        list(plain.keys()), list(plain.values()), list(plain.items()),
    )  # fmt: skip
    assert (state.get("d"), state.get("z"), state.get("z", 5), state.get("n", 5)) == (
        plain["d"],
        None,
        5,
        None,
    )
    assert (state["l"][-1], state["l"][0:2], list(reversed(state["l"]))) == (
        "t",
        plain["l"][:2],
        plain["l"][::-1],
    )
    assert (state["l"].index("t"), state["l"].count("t"), {"a": 1} in state["l"]) == (2, 1, True)
    match state:
        case {"d": {"x": [1, {"y": found}]}}:
            assert found == 2
        case _:
            pytest.fail("a view is matched like a dict")
    with pytest.raises(KeyError):
        state["z"]
    with pytest.raises(IndexError):
        state["l"][3]
    assert state["d"] is state["d"]


@pytest.mark.parametrize("other", ["ab", (1,), 5, None], ids=repr)
def test_adding_what_is_no_list_fails_as_it_does_for_lists(other: Any) -> None:
    for call in (lambda: view([1]) + other, lambda: other + view([1])):
        with pytest.raises(TypeError):
            call()


# --- nothing shared leaks

WAYS_OUT = {
    "getitem": lambda s: [s["d"], s["l"], s["l"][0]],
    "get": lambda s: s.get("d"),
    "values": lambda s: s.values(),
    "items": lambda s: s.items(),
    "iteration": lambda s: [list(s), list(s["l"]), list(reversed(s["l"]))],
    "copy()": lambda s: [s.copy(), s["l"].copy(), s["d"]["x"].copy()],
    "copy.copy": lambda s: [copy.copy(s), copy.copy(s["l"])],
    "deepcopy": lambda s: copy.deepcopy([s, s["l"]]),
    "dict()": lambda s: [dict(s), dict(s["d"])],
    "list()": lambda s: list(s["l"]),
    "tuple()": lambda s: tuple(s["l"]),
    "sorted": lambda s: sorted(s["l"], key=str),
    "unpacking": lambda s: [{**s}, [*s["l"]], dict(s, more=1)],
    "slices": lambda s: [s["l"][:], s["l"][::-1]],
    "or": lambda s: [s | {}, {} | s, s | s],
    "ior of a plain dict": lambda s: dict.__ior__({}, s),
    "update of a plain dict": lambda s: [d := {}, d.update(s)],
    "plus": lambda s: [s["l"] + [], [] + s["l"], s["l"] + s["l"]],
    "times": lambda s: [s["l"] * 2, 2 * s["l"]],
    "extend of a plain list": lambda s: [v := [], v.extend(s["l"])],
    "plain slice assignment": lambda s: [v := [], v.__setitem__(slice(0, 0), s["l"])],
    "thawed": thawed,
    "pickle": lambda s: pickle.loads(pickle.dumps([s, s["l"]])),
    "match": lambda s: [rest for rest in [s] if isinstance(rest, dict)],
}


@pytest.mark.parametrize("seen", [False, True], ids=["fresh", "looked at"])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_nothing_that_comes_out_leads_back_in(way: str, seen: bool) -> None:
    """Whatever a caller got and changed, the state that was read stays as it was."""
    state = view(sample())
    if seen:
        changed_everywhere(state)  # changes nothing, but looks at all of it
    changed_everywhere(WAYS_OUT[way](state))
    assert state == sample()
    assert json.dumps(state) == json.dumps(sample())


@pytest.mark.parametrize(
    "way", ["copy()", "copy.copy", "deepcopy", "thawed", "pickle", "or", "plus", "times"]
)
def test_copies_are_plain_and_can_be_changed(way: str) -> None:
    """All the way down: a copy is what one changes and commits."""

    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return type(value) is dict and all(map(plain, value.values()))
        if isinstance(value, list):
            return type(value) is list and all(map(plain, value))
        return True

    state = view(sample())
    changed_everywhere(state)
    for made in (WAYS_OUT[way](state),) if way == "thawed" else WAYS_OUT[way](state)[:2]:
        assert plain(made)


def test_a_view_does_not_write_into_what_it_shows() -> None:
    """To look at a cached value must not change it."""
    value = sample()
    state = view(value)
    changed_everywhere(state)
    assert value == sample()
    assert type(value["d"]) is dict
    assert type(value["l"][0]) is list


def test_other_values_are_their_own_view() -> None:
    for value in (1, "a", None, b"b", (1,), 1.5):
        assert view(value) is value
    state = view({})
    assert view(state) is state
