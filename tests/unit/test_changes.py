"""What differs between two values, applied again and put into words."""

from __future__ import annotations

import copy
import json
import pickle
import random
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.engine import changes as module
from takeback.engine.changes import (
    MISSING,
    Change,
    apply_changes,
    as_json_patch,
    as_text,
    diff_items,
    diff_values,
    hunks,
    summary,
)
from takeback.engine.patch import json_patch
from takeback.errors import BadPatch, BadPath
from takeback.model.canonical import equal, pack

# Few distinct leaves, so that two values that are drawn share parts; among them the pairs that == confuses.
NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NEW_YEAR_ELSEWHERE = NEW_YEAR.astimezone(timezone(timedelta(hours=1)))
LEAVES = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 0.0, -0.0, "", "a", "1", "é", b"", b"a", NEW_YEAR, NEW_YEAR_ELSEWHERE]
)
KEYS = st.sampled_from(["a", "b", "", "0", "-", "x/y", "~1"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
ITEMS = st.lists(VALUES, max_size=10)
MODERATE = settings(max_examples=200, deadline=None)


def ops(changes):
    return [(change.op, change.pointer) for change in changes]


# --- finding ------------------------------------------------------------------------------------------


@MODERATE
@given(VALUES, VALUES)
def test_applying_a_difference_gives_the_other_value(a, b):
    """A diff that does not lead from one value to the other shows people something that did not happen."""
    assert equal(apply_changes(a, diff_values(a, b)), b)


@MODERATE
@given(ITEMS, ITEMS, ITEMS, ITEMS)
def test_applying_a_difference_of_lists_gives_the_other_list(start, a, b, end):
    """Positions are those at the time of application, with whatever is common before and behind."""
    a, b = start + a + end, start + b + end
    assert equal(apply_changes(a, diff_values(a, b)), b)


@MODERATE
@given(VALUES, VALUES)
def test_a_json_patch_of_a_difference_gives_the_other_value(a, b):
    """An exported patch means the same to any RFC 6902 program."""
    assert equal(json_patch(a, as_json_patch(diff_values(a, b))), b)


@MODERATE
@given(VALUES, VALUES)
def test_nothing_differs_exactly_between_equal_values(a, b):
    """Equality is that of canonical bytes; no difference is invented and none is missed."""
    assert diff_values(a, copy.deepcopy(a)) == []
    assert (diff_values(a, b) == []) == (pack(a) == pack(b))


@MODERATE
@given(VALUES, VALUES)
def test_each_change_says_what_was_and_what_is(a, b):
    """`before` is what stands there when the change is applied, `after` what stands there then."""
    value = a
    for change in diff_values(a, b):
        assert (change.before is MISSING) == (change.op == "add")
        assert (change.after is MISSING) == (change.op == "remove")
        if change.before is not MISSING:
            assert equal(at(value, change.path), change.before)
        value = apply_changes(value, [change])
        if change.after is not MISSING:
            assert equal(at(value, change.path), change.after)


def at(value, path):
    for part in path:
        value = value[part]
    return value


@MODERATE
@given(VALUES, VALUES)
def test_inputs_are_never_mutated(a, b):
    """Both values belong to the caller, and so does what the changes hold."""
    raw_a, raw_b = pack(a), pack(b)
    found = diff_values(a, b)
    apply_changes(apply_changes(a, found), [Change("change", (), after=b), *diff_values(b, a)])
    assert (pack(a), pack(b)) == (raw_a, raw_b)


@pytest.mark.parametrize(
    ("a", "b"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (None, False), ("a", b"a"), ({}, []), ("1", 1)]
)
def test_values_that_python_takes_for_equal_differ(a, b):
    """1, 1.0 and True are three values, wherever they stand."""
    assert diff_values(a, b) == [Change("change", (), a, b)]
    assert ops(diff_values({"k": [a]}, {"k": [b]})) == [("change", "/k/0")]


def test_none_is_a_value():
    """A key that is None is there: adding, removing and changing it are told apart."""
    assert ops(diff_values({}, {"k": None})) == [("add", "/k")]
    assert ops(diff_values({"k": None}, {})) == [("remove", "/k")]
    assert ops(diff_values({"k": None}, {"k": 0})) == [("change", "/k")]


def test_changes_are_sorted_by_key():
    """Dict order means nothing, so the same difference always reads the same."""
    a, b = {"c": 1, "b": {"z": 1, "y": 1}, "x": 0}, {"x": 1, "a": 1, "b": {"y": 2, "z": 2}}
    expected = [("add", "/a"), ("change", "/b/y"), ("change", "/b/z"), ("remove", "/c"), ("change", "/x")]
    assert ops(diff_values(a, b)) == expected
    assert diff_values({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2], [1, 2, 3, 4], [("add", "/2"), ("add", "/3")]),
        ([1, 2, 3, 4], [1, 4], [("remove", "/2"), ("remove", "/1")]),
        ([1, 2, 3], [1, 9, 2, 3], [("add", "/1")]),
        ([1, 2, 3], [2, 3, 4], [("remove", "/0"), ("add", "/2")]),
        ([7, 7], [7, 7, 7], [("add", "/2")]),
        ([1, 2, 3], [1, 8, 3], [("change", "/1")]),
        ([1, 2, 3, 4], [9, 2, 8, 4], [("change", "/0"), ("change", "/2")]),
        ([{"a": 1, "b": 1}], [{"a": 1, "b": 2}], [("change", "/0/b")]),
        ([[1, [2]]], [[1, [3]]], [("change", "/0/1/0")]),
        (
            [{"a": 1}, 0, {"b": 1}, 1],
            [{"a": 2}, 0, {"b": 2}, 1, 5],
            [("change", "/0/a"), ("change", "/2/b"), ("add", "/4")],
        ),
        ([], [None], [("add", "/0")]),
    ],
)
def test_lists_differ_by_as_little_as_was_done(a, b, expected):
    """An append is one addition and an edit one change, not a list that is new as a whole."""
    assert ops(diff_values(a, b)) == expected


def test_runs_of_items_start_at_an_offset():
    """A caller that knows which leaves of a large list differ hands over only those."""
    found = diff_items([{"k": 1}, 2, 3, 4], [{"k": 0}, 2, 4], ("messages",), offset=40)
    assert ops(found) == [("change", "/messages/40/k"), ("remove", "/messages/42")]


def test_one_item_appended_to_a_long_list_is_cheap(monkeypatch):
    """The most common change of an agent packs each item once, whatever the length of the history."""
    packed = []
    monkeypatch.setattr(module, "pack", lambda item: packed.append(item) or pack(item))
    messages = [{"role": "user", "content": f"message {i}"} for i in range(1_000)]
    found = diff_items(messages, [*messages, "new"], ())
    assert found == [Change("add", (1_000,), after="new")]
    assert len(packed) == 2_001


@pytest.mark.parametrize("length", [10, 3_000])
def test_edits_far_apart_in_a_list_of_any_length_stay_small(length):
    """Lists too long for difflib are cut at items that occur once, so an edit in front stays one change."""
    a = [{"id": i} for i in range(length)]
    b = [{"id": "x"}, *a[1:5], *a[6:-1], {"id": "y"}, "new"]
    assert ops(diff_values(a, b)) == [
        ("change", "/0/id"),
        ("remove", "/5"),
        ("remove", f"/{length - 2}"),
        ("add", f"/{length - 2}"),
        ("add", f"/{length - 1}"),
    ]


def test_long_lists_without_anything_to_hold_on_to_take_linear_time():
    """Two long histories of few distinct items, or of none in common, must not stop an agent for minutes."""
    chance = random.Random(1)
    few_a, few_b = ([chance.randint(0, 3) for _ in range(length)] for length in (20_000, 20_001))
    a, b = list(range(20_000)), [str(i) for i in range(20_001)]
    started = time.monotonic()
    for left, right in [(few_a, few_b), (a, b), (a, a[::-1]), (few_a, a)]:
        assert equal(apply_changes(left, diff_values(left, right)), right)
    assert time.monotonic() - started < 20


@MODERATE
@given(st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), max_size=12), st.data())
def test_hunks_cover_what_differs_and_nothing_else(a, data):
    """The parts outside the hunks are equal, hunks are in order, and no two of them touch."""
    b = data.draw(st.lists(st.sampled_from([b"a", b"b", b"c", b"e"]), max_size=12))
    check_hunks(a, b)


@MODERATE
@given(st.permutations(range(8)), st.permutations(range(8)), st.lists(st.integers(0, 9), max_size=4))
def test_hunks_between_anchors_cover_what_differs_and_nothing_else(a, b, more):
    """The way for long lists keeps the same promises; here it is taken for short ones."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MATCHABLE", 4)
        check_hunks([b"%d" % i for i in a], [b"%d" % i for i in [*b[:5], *more, *b[5:]]])


def check_hunks(a, b):
    a_at = b_at = 0
    rebuilt = []
    for number, (a_lo, a_hi, b_lo, b_hi) in enumerate(hunks(a, b)):
        assert a[a_at:a_lo] == b[b_at:b_lo]
        assert number == 0 or a_lo > a_at
        assert a[a_lo:a_hi] != b[b_lo:b_hi]
        rebuilt += a[a_at:a_lo] + b[b_lo:b_hi]
        a_at, b_at = a_hi, b_hi
    assert rebuilt + a[a_at:] == b


# --- applying and exporting ---------------------------------------------------------------------------


def test_applying_shares_nothing_that_a_later_change_writes_to():
    """A value that one change adds belongs to the change; a later change works on a copy of it."""
    added = {"k": 1}
    result = apply_changes({}, [Change("add", ("a",), after=added), Change("change", ("a", "k"), 1, 2)])
    assert (result, added) == ({"a": {"k": 2}}, {"k": 1})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Change("change", ("b",), 1, 2), BadPath),
        (Change("remove", ("b",), 1), BadPath),
        (Change("add", ("a", 5), after=1), BadPath),
        (Change("add", ("a", "x"), after=1), BadPath),
        (Change("change", ("a", 0, "x"), 1, 2), BadPath),
        (Change("remove", (), 1), BadPath),
        (Change("replace", ("a",), 1, 2), BadPatch),
    ],
)
def test_a_change_that_does_not_fit_is_refused(change, error):
    """Changes of another value are an error, not a value that is a bit of both."""
    with pytest.raises(error):
        apply_changes({"a": [1]}, [change])


def test_changes_as_json():
    """`--json` prints JSON Pointers and leaves out the side that is missing, but not a None."""
    assert Change("add", ("a/b", 0), after=None).as_dict() == {"op": "add", "path": "/a~1b/0", "after": None}
    assert Change("remove", ("a",), before=None).as_dict() == {"op": "remove", "path": "/a", "before": None}
    assert Change("change", (), 1, 2).as_dict() == {"op": "change", "path": "", "before": 1, "after": 2}


def test_a_json_patch_is_plain_rfc_6902():
    """What is exported is JSON that any other program reads."""
    patch = as_json_patch(diff_values({"a": 1, "b": [1, 2], "c": 0}, {"b": [1, None], "c": 0, "d": {}}))
    assert json.loads(json.dumps(patch)) == [
        {"op": "remove", "path": "/a"},
        {"op": "replace", "path": "/b/1", "value": None},
        {"op": "add", "path": "/d", "value": {}},
    ]


def test_missing_is_one_object():
    """Changes are copied and sent between processes; `is MISSING` has to hold there too."""
    assert repr(MISSING) == "missing"
    for same in (copy.copy(MISSING), copy.deepcopy(MISSING), pickle.loads(pickle.dumps(MISSING))):
        assert same is MISSING


# --- in words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "lines"),
    [
        ({"to": "NYC"}, {"to": "BOS"}, ["to: 'NYC' → 'BOS'"]),
        ({"dates": [1]}, {}, ["dates: removed"]),
        ({}, {"to": "NYC"}, ["to: added 'NYC'"]),
        (
            {"plan": {"steps": [{"done": False}]}},
            {"plan": {"steps": [{"done": True}]}},
            ["plan/steps/0/done: False → True"],
        ),
        (
            {"messages": ["m"] * 12},
            {"messages": ["m"] * 12 + ["a", "b", "c"]},
            ["messages: +3 items (#12–#14)"],
        ),
        ({"messages": [1, 2, 3]}, {"messages": [1]}, ["messages: −2 items"]),
        ({"messages": [1]}, {"messages": [1, "hi"]}, ["messages/1: added 'hi'"]),
        ({"messages": [1, 2]}, {"messages": [1]}, ["messages/1: removed"]),
        ([1, 2, 3], [1, 8, 9, 2, 3, 4], ["/: +2 items (#1–#2)", "5: added 4"]),
        ([1, 2, 3], [4, 5], ["/: −3 items", "/: +2 items (#0–#1)"]),
        ({"a": [1, 2], "b": []}, {"a": [], "b": [1, 2]}, ["a: −2 items", "b: +2 items (#0–#1)"]),
        ({}, {"1": 1, "2": 1}, ["1: added 1", "2: added 1"]),
        ([[], []], [[1], [1]], ["0/0: added 1", "1/0: added 1"]),
        (1, 2, ["/: 1 → 2"]),
        (None, datetime(2026, 1, 2, tzinfo=UTC), ["/: None → 2026-01-02T00:00:00+00:00"]),
        (1, 1, []),
    ],
)
def test_changes_read_like_sentences(a, b, lines):
    """What people see in `log` and in a plan, with runs of items in one line."""
    assert as_text(diff_values(a, b)) == lines


def test_items_removed_one_after_another_at_one_place_are_one_line():
    """Whoever removes from the front writes the same position again and again."""
    assert as_text([Change("remove", ("m", 0), before=i) for i in range(3)]) == ["m: −3 items"]
    assert len(as_text([Change("remove", ("m", place), before=0) for place in (0, 5)])) == 2


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000,
        b"x" * 10_000_000,
        [["x" * 99] * 99] * 9,
        {f"k{i}": "x" * 99 for i in range(999)},
        2**62,
    ],
)
def test_long_values_are_shortened(value):
    """A line stays a line, whatever was stored."""
    (line,) = as_text([Change("change", ("k",), value, None)])
    assert len(line) < 80
    assert line.startswith("k: ")
    assert line.endswith(" → None")


@pytest.mark.parametrize("evil", ["a\nb", "\x1b[2J", "\u202e", "x" * 5_000])
def test_text_of_an_agent_cannot_write_on_the_terminal(evil):
    """Keys and values are the agent's; line breaks and escapes in them are shown, not obeyed."""
    for line in as_text(diff_values({}, {evil: {evil: [evil]}})) + as_text(
        diff_values({evil: [0]}, {evil: []})
    ):
        assert line.isprintable()
        assert len(line) < 150


def test_long_differences_are_counted():
    """A summary has room for a few changes; the rest is counted, not hidden."""
    found = diff_values({}, dict.fromkeys("abcdef", 1))
    assert as_text(found, limit=2) == ["a: added 1", "b: added 1", "and 4 more"]
    assert len(as_text(found)) == len(as_text(found, limit=6)) == 6
    assert summary(found) == "a: added 1 · b: added 1 · c: added 1 · d: added 1 · and 2 more"
    assert summary(found[:2]) == "a: added 1 · b: added 1"
    assert summary([]) == ""


@MODERATE
@given(VALUES, VALUES)
def test_any_difference_can_be_put_into_words(a, b):
    """There is a line exactly when there is a change, and it is one line."""
    found = diff_values(a, b)
    lines = as_text(found)
    assert bool(lines) == bool(found)
    assert len(lines) <= len(found)
    assert all(line.isprintable() for line in lines)
