"""The three-way merge of values: what goes together, and what clashes."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from takeback.engine.changes import MISSING, hunks
from takeback.engine.merge3 import MergeClash, merge_values
from takeback.model.canonical import equal, pack

LEAVES = st.sampled_from([None, True, 0, 1, 1.0, 0.0, -0.0, "", "a", "b", b"a"])
KEYS = st.sampled_from(["a", "b", "c", ""])
WITHOUT_LISTS = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
FLAT = st.lists(LEAVES, max_size=8)
MODERATE = settings(max_examples=200, deadline=None)


def merged(base, ours, theirs):
    value, clashes = merge_values(base, ours, theirs)
    assert clashes == []
    return value


def clash_paths(base, ours, theirs):
    _, clashes = merge_values(base, ours, theirs)
    return [clash.as_dict()["path"] for clash in clashes]


def appends(base, changed):
    found = hunks([pack(item) for item in base], [pack(item) for item in changed])
    return any(hunk[:2] == (len(base), len(base)) for hunk in found)


# --- laws ---------------------------------------------------------------------------------------------


@MODERATE
@given(VALUES, VALUES)
def test_a_side_that_did_nothing_gives_way(base, changed):
    """When one side changed nothing, the merge is what the other side has, whatever it did."""
    assert equal(merged(base, base, changed), changed)
    assert equal(merged(base, changed, base), changed)


@MODERATE
@given(WITHOUT_LISTS, WITHOUT_LISTS)
def test_two_sides_that_agree_do_not_clash(base, changed):
    """The same change on both sides is one change."""
    assert equal(merged(base, changed, changed), changed)


@MODERATE
@given(FLAT, FLAT)
def test_two_lists_that_agree_are_one_unless_they_append(base, changed):
    """The same edit, removal or insertion on both sides is one; only an append counts twice."""
    assume(not appends(base, changed))
    assert equal(merged(base, changed, changed), changed)


@MODERATE
@given(VALUES, VALUES, VALUES)
def test_which_side_is_which_matters_only_for_appends(base, ours, theirs):
    """Clashes are the same seen from either side, and so is the result where nothing was appended."""
    one, clashes = merge_values(base, ours, theirs)
    other, mirrored = merge_values(base, theirs, ours)
    assert [(c.path, c.base, c.ours, c.theirs) for c in clashes] == [
        (c.path, c.base, c.theirs, c.ours) for c in mirrored
    ]
    if not clashes:
        assert equal(sorted_lists(one), sorted_lists(other))


def sorted_lists(value):
    """The value without the order of its lists, for appends differ only in that."""
    if isinstance(value, dict):
        return {key: sorted_lists(item) for key, item in value.items()}
    return sorted(map(sorted_lists, value), key=pack) if isinstance(value, list) else value


@MODERATE
@given(FLAT, FLAT, FLAT)
def test_lists_without_appends_merge_alike_from_either_side(base, ours, theirs):
    """Where nobody appended, the order of the result does not depend on who came first."""
    assume(not (appends(base, ours) and appends(base, theirs)))
    one, clashes = merge_values(base, ours, theirs)
    if not clashes:
        assert equal(one, merged(base, theirs, ours))


@MODERATE
@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS, VALUES))
def test_changes_of_different_keys_never_clash(base, ours, theirs):
    """Each side's own keys come out as that side has them."""
    ours = base | {f"ours {key}": value for key, value in ours.items()}
    theirs = base | {f"theirs {key}": value for key, value in theirs.items()}
    assert equal(merged(base, ours, theirs), ours | theirs)


@MODERATE
@given(VALUES, VALUES, VALUES)
def test_a_merge_changes_no_input(base, ours, theirs):
    """Also where lists are put together, the sides stay as they were."""
    raw = [pack(value) for value in (base, ours, theirs)]
    merge_values(base, ours, theirs)
    assert [pack(value) for value in (base, ours, theirs)] == raw


@MODERATE
@given(VALUES, VALUES, VALUES)
def test_a_clash_says_what_each_side_has_there(base, ours, theirs):
    """The sides of a clash do differ, from each other or by an edit that goes both ways from the base."""
    for clash in merge_values(base, ours, theirs)[1]:
        assert clash.ours is not MISSING or clash.theirs is not MISSING
        assert not (
            clash.ours is not MISSING and clash.theirs is not MISSING and equal(clash.ours, clash.theirs)
        )
        assert not (
            clash.base is not MISSING and clash.theirs is not MISSING and equal(clash.base, clash.theirs)
        )


# --- dicts and scalars --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1, "b": 1}, {"b": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {}, {}),
        ({}, {"a": 1}, {"a": 1}, {"a": 1}),
        ({}, {"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
        ({}, {"a": [1]}, {"a": [1]}, {"a": [1]}),
        (
            {"a": {"x": {"k": 1, "l": 1}}},
            {"a": {"x": {"k": 2, "l": 1}}},
            {"a": {"x": {"k": 1}}},
            {"a": {"x": {"k": 2}}},
        ),
        ({"a": 1}, {"a": None}, {"a": None, "b": 1}, {"a": None, "b": 1}),
        ({"a": None}, {}, {"a": None, "b": 1}, {"b": 1}),
        (1, {"a": 1}, {"a": 1}, {"a": 1}),
    ],
)
def test_dicts_merge_by_key(base, ours, theirs, result):
    """Different keys go together, the same change is one, and None is a value like any other."""
    assert equal(merged(base, ours, theirs), result)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "path", "sides"),
    [
        (1, 2, 3, "", {"base": 1, "ours": 2, "theirs": 3}),
        ({"a": 1}, {"a": 2}, {"a": 3}, "/a", {"base": 1, "ours": 2, "theirs": 3}),
        ({"a": 1}, {}, {"a": 2}, "/a", {"base": 1, "theirs": 2}),
        ({"a": 1}, {"a": 2}, {}, "/a", {"base": 1, "ours": 2}),
        ({"a": 1}, {"a": None}, {}, "/a", {"base": 1, "ours": None}),
        ({}, {"a": 1}, {"a": 1.0}, "/a", {"ours": 1, "theirs": 1.0}),
        ({}, {"a": [1]}, {"a": [2]}, "/a", {"ours": [1], "theirs": [2]}),
        ({}, {"a": {}}, {"a": 1}, "/a", {"ours": {}, "theirs": 1}),
        ({"a": 1}, {"a": {"x": 1}}, {"a": {"y": 1}}, "/a", {"base": 1, "ours": {"x": 1}, "theirs": {"y": 1}}),
        ({"a": {"x": 1}}, {"a": {"x": 2}}, {}, "/a", {"base": {"x": 1}, "ours": {"x": 2}}),
        (
            {"a": {"x": [1]}},
            {"a": {"x": 1}},
            {"a": {"x": 1.0}},
            "/a/x",
            {"base": [1], "ours": 1, "theirs": 1.0},
        ),
        ({"k": [1]}, {"k": [2]}, {"k": {}}, "/k", {"base": [1], "ours": [2], "theirs": {}}),
    ],
)
def test_two_changes_of_one_place_clash(base, ours, theirs, path, sides):
    """A clash names the smallest place at which both changed, with what each side has; theirs stays."""
    value, clashes = merge_values(base, ours, theirs)
    assert [pack(clash.as_dict()) for clash in clashes] == [pack({"path": path, **sides})]
    assert equal(value, theirs)


def test_every_clash_is_found():
    """Whoever resolves a merge sees all of it at once, in order, and what did merge is merged."""
    base = {"a": 1, "b": {"x": 1, "y": 1}, "c": 1, "d": [{"k": 1}]}
    ours = {"a": 2, "b": {"x": 2, "y": 1}, "c": 2, "d": [{"k": 2}]}
    theirs = {"a": 3, "b": {"x": 3, "y": 2}, "c": 1, "d": [{"k": 3}]}
    value, clashes = merge_values(base, ours, theirs, ("at",))
    assert [clash.path for clash in clashes] == [("at", "a"), ("at", "b", "x"), ("at", "d", 0, "k")]
    assert value == {"a": 3, "b": {"x": 3, "y": 2}, "c": 2, "d": [{"k": 3}]}


def test_a_clash_reads_as_one_line():
    """What is printed under a failed merge."""
    assert str(MergeClash(("to",), "NYC", "BOS", MISSING)) == "to: ours 'BOS', theirs missing, base 'NYC'"
    assert "\n" not in str(MergeClash(("a\nb",), "\n" * 99, ["\n"] * 99, 0))


# --- lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result"),
    [
        ([], ["o"], ["t"], ["t", "o"]),
        ([1], [1, "o1", "o2"], [1, "t"], [1, "t", "o1", "o2"]),
        ([1], [1, "same"], [1, "same"], [1, "same", "same"]),
        ([1, 2, 3], [9, 2, 3, "o"], [1, 3, "t"], [9, 3, "t", "o"]),
        ([1, 2, 3, 4], [1, 2, 3, 4, 5], [2, 3, 4], [2, 3, 4, 5]),
        ([1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ([1, 2, 3], [1, "o", 2, 3], [1, 2, "t", 3], [1, "o", 2, "t", 3]),
        ([1, 2, 3], [1, "x", 2, 3], [1, "x", 2, 3], [1, "x", 2, 3]),
        ([1, 2, 3, 4], [1, 4], [1, 4], [1, 4]),
        ([1, 2, 3, 4, 5], [1, 4, 5], [1, 2, 5], [1, 5]),
        ([1, 2, 3], [1, 9, 3], [1, 9, 3], [1, 9, 3]),
        ([1, 2, 3], [8, 2, 3], [1, 2, 9], [8, 2, 9]),
        ([1, 2, 3], [8, 2, 3], [1, 9, 3], [8, 9, 3]),
        ([1, 2, 3], [7, 8, 2, 3], [1, 4, 5, 3], [7, 8, 4, 5, 3]),
        ([1, 2, 3], [1, 6, 7, 8], [1, 6, 7, 8], [1, 6, 7, 8]),
        ([1, 2, 3], [1, 2, 9], [1, 2, 3, "t"], [1, 2, 9, "t"]),
        ([1, 2, 3], [1, 2], [1, 2, 3, "t"], [1, 2, "t"]),
        ([1, 2, 3], [], [], []),
        ([{"k": 1, "l": 1}], [{"k": 2, "l": 1}], [{"k": 1, "l": 2}], [{"k": 2, "l": 2}]),
        ([{"k": 1}, 5], [{"k": 2}, 5], [{"k": 1}, 5, 6], [{"k": 2}, 5, 6]),
        ([[1]], [[1, "o"]], [[1, "t"]], [[1, "t", "o"]]),
        ([[1]], [[1, 2]], [[1, 2]], [[1, 2, 2]]),
    ],
)
def test_lists_merge_by_item(base, ours, theirs, result):
    """Hunks that do not overlap both hold; what was appended stays from both sides, theirs first."""
    assert equal(merged(base, ours, theirs), result)
    assert equal(merged({"deep": base}, {"deep": ours}, {"deep": theirs}), {"deep": result})


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ([1, 2], [1, "o", 2], [1, "t", 2]),
        ([1, 2], ["o", 1, 2], ["t", 1, 2]),
        ([1, 2], [1, "s", 2], [1, "s", "s", 2]),
        ([1, 2], [2], [9, 2]),
        ([1, 2, 3, 4], [1, 4], [1, 2, "t", 3, 4]),
        ([1, 2, 3], [1, 7, 8, 3], [1, 9, 3]),
        ([1, 2, 3], [1, 7, 8, 3], [1, 3]),
        ([1, 2, 3], [1, 7, 8, 3], [1, 7, 9, 3]),
        ([1, 2, 3], [1, 7, 8, 3], [1, 2, "t", 3]),
        ([1, 2, 3], [1, 7, 8, 3], [1, "t", 2, 3]),
        ([1, 2], [1, 7, 8], [1, 2, "t"]),
        ([1, 2, 3, 4], [1, 9, 4], [1, 2, 8, 4]),
        ([1, 2, 3, 4], [1, 7, 8, 9, 4], [1, 7, 8, 9, 3, 4]),
        ([1, 2, 3], [1, 7, 8, 3], [1, 7.0, 8, 3]),
        ([1, 2], [1, 5, 2], [1, 5.0, 2]),
    ],
)
def test_list_changes_without_a_single_order_clash(base, ours, theirs):
    """Where the order would be a guess, the list clashes as a whole, whoever came first."""
    for left, right in [(ours, theirs), (theirs, ours)]:
        value, clashes = merge_values({"l": base}, {"l": left}, {"l": right})
        assert clashes == [MergeClash(("l",), base, left, right)]
        assert equal(value, {"l": right})


def test_two_edits_of_one_item_clash_at_the_item():
    """A clash inside an item leaves the rest of the list merged; its position is that of the base."""
    base = [0, 5, {"k": 1}, 2]
    value, clashes = merge_values(base, [5, {"k": 2}, 2], [0, 5, {"k": 3}, 2, 4], ("l",))
    assert clashes == [MergeClash(("l", 2, "k"), 1, 2, 3)]
    assert value == [5, {"k": 3}, 2, 4]
    assert clash_paths([1, 2, 3], [1, 8, 3], [1, 9, 3]) == ["/1"]
    assert clash_paths([{"k": 1}], [{"k": 2}], [{"k": 3}]) == ["/0/k"]


def test_items_are_told_apart_as_values_are():
    """An edit of 1 to 1.0 or True is an edit; == would lose it."""
    assert equal(merged([1, 0.0, "x"], [1.0, 0.0, "x"], [1, -0.0, "x"]), [1.0, -0.0, "x"])
    assert clash_paths([1], [1.0], [True]) == ["/0"]


def test_equal_appends_inside_equal_dicts_are_two_appends():
    """Two agents that each log the same line have logged it twice, however deep the log lies."""
    base, changed = {"log": {"lines": ["a"]}, "n": 1}, {"log": {"lines": ["a", "b"]}, "n": 2}
    assert merged(base, changed, changed) == {"log": {"lines": ["a", "b", "b"]}, "n": 2}


@pytest.mark.parametrize("length", [5, 3_000])
def test_an_edit_in_front_and_an_append_merge_at_any_length(length):
    """The way that long lists are compared must not turn distant changes into a clash."""
    base = [{"n": i} for i in range(length)]
    ours = [{"n": "edited"}, *base[1:], {"n": "ours"}]
    theirs = [base[0], *base[2:], {"n": "theirs"}]
    expected = [{"n": "edited"}, *base[2:], {"n": "theirs"}, {"n": "ours"}]
    assert equal(merged(base, ours, theirs), expected)
