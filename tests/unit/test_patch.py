"""Ways to say a change: by key, RFC 7396, RFC 6902."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeback.engine.patch import DELETE, Delete, apply_edits, edits, json_patch, merge_patch
from takeback.errors import BadPatch, BadPath, Unstorable
from takeback.model.canonical import encode, equal, pack

LEAVES = st.sampled_from([None, True, 0, 1, 1.0, -0.0, "", "a", b"a"])
KEYS = st.sampled_from(["a", "b", "", "0", "x/y", "~"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)
MODERATE = settings(max_examples=200, deadline=None)


def patched(value, changes):
    return apply_edits(value, edits(changes))


# --- DELETE -------------------------------------------------------------------------------------------


def test_delete_stays_one_object():
    """A patch may be copied or sent to another process before it is applied; `is DELETE` holds there."""
    assert repr(DELETE) == "takeback.DELETE"
    copies = [copy.copy(DELETE), copy.deepcopy({"k": [DELETE]})["k"][0], Delete("delete")]
    copies += [
        pickle.loads(pickle.dumps(DELETE, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    assert all(same is DELETE for same in copies)


def test_delete_is_no_value():
    """A DELETE deep inside a value would remove nothing; the encoding refuses it with its path."""
    with pytest.raises(Unstorable) as caught:
        encode(patched({}, {"plan": {"steps": DELETE}}))
    assert caught.value.path == "/plan/steps"


# --- by key -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"a": 2, "b": None}, {"a": 2, "b": None}),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 2}}, {"a": {"x": 2}}),
        ({"a": {"x": 1, "y": 1}}, {"/a/x": 2}, {"a": {"x": 2, "y": 1}}),
        ({"a": 1, "b": 2}, {"a": DELETE}, {"b": 2}),
        ({"a": {"x": 1}}, {"/a/x": DELETE}, {"a": {}}),
        ({"l": [1, 2]}, {"/l/1": 9}, {"l": [1, 9]}),
        ({"l": [1, 2]}, {"/l/-": 9}, {"l": [1, 2, 9]}),
        ({"l": [1, 2]}, {"/l/0": DELETE}, {"l": [2]}),
        ({"l": {"-": 1}}, {"/l/-": 9}, {"l": {"-": 9}}),
        ({"l": [{"x": 1}]}, {"/l/0/x": 2}, {"l": [{"x": 2}]}),
        ({"l": {"0": 1}}, {"/l/0": 2}, {"l": {"0": 2}}),
        ({}, {"a/b": 1, "~1": 2}, {"a/b": 1, "~1": 2}),
        ({}, {"/a~1b": 1, "/": 2}, {"a/b": 1, "": 2}),
        ([1, 2], {"/0": 9}, [9, 2]),
    ],
)
def test_a_patch_by_key_sets_and_removes(before, changes, after):
    """A bare word replaces a top-level key whole; a pointer reaches inside."""
    assert equal(patched(before, changes), after)


@pytest.mark.parametrize("backwards", [False, True])
def test_positions_in_a_patch_mean_the_list_as_it_was(backwards):
    """A mapping has no order: removing two items must not depend on which key was written first."""
    changes = {
        "/l/2": DELETE,
        "/l/10": DELETE,
        "/l/0": DELETE,
        "/l/-": "new",
        "/l/3": "set",
        "/l/11/k": DELETE,
    }
    if backwards:
        changes = dict(reversed(changes.items()))
    found = patched({"l": [*range(11), {"k": 1}]}, changes)
    assert found == {"l": [1, "set", 4, 5, 6, 7, 8, 9, {}, "new"]}


def test_an_append_makes_no_place_for_the_rest_of_the_patch():
    """The item that a patch appends is not one that the same patch can remove."""
    with pytest.raises(BadPath):
        patched({"l": [1]}, {"/l/-": 2, "/l/1": DELETE})


@pytest.mark.parametrize(
    "changes",
    [
        None,
        [("a", 1)],
        "a",
        {1: 2},
        {None: 2},
        {("a",): 2},
        {"": 1},
        {"a": 1, "/a": 2},
        {"a": 1, "/a/b": 2},
        {"/a/b/c": DELETE, "/a!": 1, "/a/b": {}},
        {"/l/1": DELETE, "/l/1/x": 1},
    ],
)
def test_a_patch_that_has_no_single_meaning_is_refused(changes):
    """What is no mapping of text, or sets one place twice, would depend on an order that it does not have."""
    with pytest.raises(BadPatch) as caught:
        edits(changes)
    assert caught.value.hint


def test_paths_that_only_look_alike_do_not_overlap():
    """`/ab` is not inside `/a`, and siblings are no overlap."""
    assert patched({"a": {}}, {"/a/b": 1, "/a/bc": 2, "ab": 3, "/a/b~1c": 4}) == {
        "a": {"b": 1, "bc": 2, "b/c": 4},
        "ab": 3,
    }


@pytest.mark.parametrize(
    ("changes", "deepest"),
    [
        ({"/a/x/y": 1}, "/a"),
        ({"/b/y": 1}, ""),
        ({"/b": DELETE}, ""),
        ({"/a/l/2": 1}, "/a/l"),
        ({"/a/l/2": DELETE}, "/a/l"),
        ({"/a/l/-": DELETE}, "/a/l"),
        ({"/a/l/-/x": 1}, "/a/l"),
        ({"/a/l/x": 1}, "/a/l"),
        ({"/a/l/01": 1}, "/a/l"),
        ({"/a/l/0/x": 1}, "/a/l/0"),
        ({"/a/l/0/x": DELETE}, "/a/l/0"),
        ({"/a/n/x": 1}, "/a/n"),
    ],
)
def test_an_edit_of_what_is_not_there_names_the_deepest_place_that_is(changes, deepest):
    """No parent is made up, nothing absent is removed, and the error says how far the path holds."""
    with pytest.raises(BadPath) as caught:
        patched({"a": {"l": [1, 2], "n": None}}, changes)
    assert caught.value.path == deepest


def test_edits_as_tuples():
    """Paths in code have numbers for positions; a number is no key of a dict, and no negative position."""
    assert apply_edits({"l": [1, [2]]}, [(("l", 1, 0), 3)]) == {"l": [1, [3]]}
    assert apply_edits({"a": 1}, [((), 5)]) == 5
    for path in [("d", 0), ("l", -1)]:
        with pytest.raises(BadPath):
            apply_edits({"d": {"0": 1}, "l": [1]}, [(path, 2)])
    with pytest.raises(BadPath):
        apply_edits({"a": 1}, [((), DELETE)])


@MODERATE
@given(st.dictionaries(KEYS, VALUES), st.dictionaries(KEYS.filter(bool), VALUES | st.just(DELETE)))
def test_bare_words_are_an_update_of_the_top_level(value, changes):
    """For top-level keys a patch is `dict.update`, and removing an absent key is refused."""
    changes = {key: new for key, new in changes.items() if not key.startswith("/")}
    raw = pack(value)
    if any(new is DELETE and key not in value for key, new in changes.items()):
        with pytest.raises(BadPath):
            patched(value, changes)
    else:
        expected = {key: new for key, new in (value | changes).items() if new is not DELETE}
        assert equal(patched(value, changes), expected)
    assert pack(value) == raw


def test_edits_do_not_reach_the_values_of_the_patch():
    """A value that one edit sets is the caller's; a later edit inside it works on a copy."""
    new = {"x": [1]}
    assert apply_edits({}, [(("a",), new), (("b",), new), (("a", "x", "-"), 2)]) == {
        "a": {"x": [1, 2]},
        "b": new,
    }
    assert new == {"x": [1]}


# --- RFC 7396 -----------------------------------------------------------------------------------------

APPENDIX_7396 = """
{"a":"b"}              {"a":"c"}                  {"a":"c"}
{"a":"b"}              {"b":"c"}                  {"a":"b","b":"c"}
{"a":"b"}              {"a":null}                 {}
{"a":"b","b":"c"}      {"a":null}                 {"b":"c"}
{"a":["b"]}            {"a":"c"}                  {"a":"c"}
{"a":"c"}              {"a":["b"]}                {"a":["b"]}
{"a":{"b":"c"}}        {"a":{"b":"d","c":null}}   {"a":{"b":"d"}}
{"a":[{"b":"c"}]}      {"a":[1]}                  {"a":[1]}
["a","b"]              ["c","d"]                  ["c","d"]
{"a":"b"}              ["c"]                      ["c"]
{"a":"foo"}            null                       null
{"a":"foo"}            "bar"                      "bar"
{"e":null}             {"a":1}                    {"e":null,"a":1}
[1,2]                  {"a":"b","c":null}         {"a":"b"}
{}                     {"a":{"bb":{"ccc":null}}}  {"a":{"bb":{}}}
"""


@pytest.mark.parametrize("line", APPENDIX_7396.strip().splitlines())
def test_merge_patch_holds_every_example_of_the_rfc(line):
    """RFC 7396, appendix A."""
    value, patch, result = map(json.loads, line.split())
    assert equal(merge_patch(value, patch), result)


def test_merge_patch_holds_the_example_of_section_3():
    """Nested objects are merged, lists are replaced, null removes."""
    value = {"title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"}, "tags": ["a", "b"]}
    patch = {"title": "Hello!", "phoneNumber": "+01", "author": {"familyName": None}, "tags": ["a"]}
    expected = {"title": "Hello!", "author": {"givenName": "John"}, "tags": ["a"], "phoneNumber": "+01"}
    assert merge_patch(value, patch) == expected


@MODERATE
@given(VALUES, VALUES)
def test_merge_patch_changes_neither_input_and_is_idempotent(value, patch):
    """A merge patch says what should be, so applying it again changes nothing."""
    raw = pack(value), pack(patch)
    once = merge_patch(value, patch)
    assert equal(merge_patch(once, patch), once)
    assert (pack(value), pack(patch)) == raw


# --- RFC 6902 -----------------------------------------------------------------------------------------

APPENDIX_6902 = {
    "A.1 add a member": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    "A.2 add an item": (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3 remove a member": (
        {"baz": "qux", "foo": "bar"},
        [{"op": "remove", "path": "/baz"}],
        {"foo": "bar"},
    ),
    "A.4 remove an item": (
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    "A.5 replace": (
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
    ),
    "A.6 move a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7 move an item": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "A.8 test: success": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.10 add a nested member": (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11 unrecognized elements are ignored": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    "A.14 ~ escapes": (
        {"/": 9, "~1": 10},
        [{"op": "test", "path": "/~01", "value": 10}],
        {"/": 9, "~1": 10},
    ),
    "A.16 add a list to a list": (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
}
APPENDIX_6902_ERRORS = {
    "A.9 test: error": ({"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}]),
    "A.12 add to a target that does not exist": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz/bat", "value": "qux"}],
    ),
    # JSON itself leaves open which of two equal names counts; in Python's reading the last one does.
    "A.13 invalid document": (
        {"foo": "bar"},
        json.loads('[{"op": "add", "path": "/baz", "value": "qux", "op": "remove"}]'),
    ),
    "A.15 text is no number": ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}]),
}


@pytest.mark.parametrize("name", APPENDIX_6902)
def test_json_patch_holds_every_example_of_the_rfc(name):
    """RFC 6902, appendix A."""
    value, operations, result = APPENDIX_6902[name]
    assert equal(json_patch(value, operations), result)


@pytest.mark.parametrize("name", APPENDIX_6902_ERRORS)
def test_json_patch_fails_where_the_rfc_does(name):
    """RFC 6902, appendix A: the examples that are errors name the path of the operation."""
    value, operations = APPENDIX_6902_ERRORS[name]
    with pytest.raises(BadPatch) as caught:
        json_patch(value, operations)
    assert caught.value.path == operations[0]["path"]
    assert caught.value.what.startswith("operation 0 (")


@pytest.mark.parametrize(
    ("value", "operation", "result"),
    [
        ({"a": 1}, {"op": "add", "path": "/a", "value": None}, {"a": None}),
        ({"a": 1}, {"op": "add", "path": "", "value": [1]}, [1]),
        ({"a": 1}, {"op": "replace", "path": "", "value": [1]}, [1]),
        ([1], {"op": "add", "path": "/1", "value": 2}, [1, 2]),
        ([1], {"op": "add", "path": "/0", "value": 2}, [2, 1]),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a/b", "path": ""}, 1),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/a"}, {"a": 1}),
        ([1, 2, 3], {"op": "move", "from": "/0", "path": "/-"}, [2, 3, 1]),
        ({"a": 1, "ab": 2}, {"op": "move", "from": "/a", "path": "/ab"}, {"ab": 1}),
        ({"a": [1]}, {"op": "copy", "from": "", "path": "/b"}, {"a": [1], "b": {"a": [1]}}),
        ({"": {"": 1}}, {"op": "remove", "path": "//"}, {"": {}}),
        ({"0": 1}, {"op": "remove", "path": "/0"}, {}),
    ],
)
def test_json_patch_at_the_edges(value, operation, result):
    """The whole document, the end of a list, a move to itself: what the RFC says beyond its examples."""
    assert equal(json_patch(value, [operation]), result)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/l/4", "value": 1},
        {"op": "add", "path": "/l/-1", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "path": "/s/x", "value": 1},
        {"op": "add", "path": "/l"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "replace", "path": "/l/-", "value": 1},
        {"op": "replace", "path": "/l"},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": "/l/-"},
        {"op": "remove", "path": ""},
        {"op": "move", "from": "/d", "path": "/d/x"},
        {"op": "move", "from": "", "path": "/x"},
        {"op": "move", "from": "/x", "path": "/x"},
        {"op": "move", "path": "/x"},
        {"op": "copy", "from": "/x", "path": "/y"},
        {"op": "copy", "from": "d", "path": "/y"},
        {"op": "test", "path": "/x", "value": None},
        {"op": "test", "path": "/l"},
        {"op": "add", "path": "/~2", "value": 1},
        {"op": "add", "path": "l", "value": 1},
        {"op": "add", "path": 1, "value": 1},
        {"op": "add", "path": ["l"], "value": 1},
        {"op": "add", "value": 1},
        {"op": "Add", "path": "/x", "value": 1},
        {"op": ["add"], "path": "/x", "value": 1},
        {"path": "/x", "value": 1},
        "add",
        None,
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operation):
    """Each is a `BadPatch` that counts to the operation, never another error and never half a result."""
    value = {"l": [1, 2], "d": {"k": 1}, "s": "text"}
    with pytest.raises(BadPatch, match="operation 1 "):
        json_patch(value, [{"op": "add", "path": "/l/0", "value": 0}, operation])
    assert value == {"l": [1, 2], "d": {"k": 1}, "s": "text"}


@pytest.mark.parametrize("operations", [None, {}, {"op": "remove", "path": "/a"}, "[]", 1])
def test_a_json_patch_is_a_list(operations):
    """One operation that is not in a list is a common slip."""
    with pytest.raises(BadPatch):
        json_patch({"a": 1}, operations)


@pytest.mark.parametrize(
    ("there", "expected", "holds"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        ([{"a": 1}], [{"a": 1.0}], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (2**53 + 1, float(2**53), False),
        (1, True, False),
        (0, False, False),
        (None, False, False),
        ("a", b"a", False),
        ([1], [1, 2], False),
        ([1, 2], [2, 1], False),
        ({"a": None}, {}, False),
        ([True], [1.0], False),
        ({}, [], False),
    ],
)
def test_the_test_operation_compares_numbers_by_value(there, expected, holds):
    """Section 4.6: numbers are equal when numerically equal; everything else as canonical bytes are."""
    operation = [{"op": "test", "path": "/k", "value": expected}]
    if holds:
        assert json_patch({"k": there}, operation) == {"k": there}
    else:
        with pytest.raises(BadPatch, match="another one"):
            json_patch({"k": there}, operation)


def test_a_copy_is_a_second_value():
    """What is done to the copy is not done to the original, also when the original was written to before."""
    operations = [
        {"op": "add", "path": "/a/x", "value": [1]},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/b/x/-", "value": 2},
        {"op": "add", "path": "/a/x/0", "value": 0},
    ]
    assert json_patch({"a": {}}, operations) == {"a": {"x": [0, 1]}, "b": {"x": [1, 2]}}


def test_one_object_at_two_places_is_two_values():
    """Python can hold one list twice in a state; a patch of the one place leaves the other alone."""
    shared = [1]
    value = {"a": shared, "b": shared}
    assert json_patch(value, [{"op": "add", "path": "/a/-", "value": 2}]) == {"a": [1, 2], "b": [1]}
    assert value == {"a": [1], "b": [1]}


@MODERATE
@given(VALUES, VALUES, st.data())
def test_json_patch_never_changes_its_inputs(value, new, data):
    """Whether the operations hold or not, the state and the patch stay what they were."""
    paths = st.sampled_from(["", "/a", "/b", "/a/0", "/0", "/-", "/a/a", "/x~1y/-"])
    name = st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])
    operation = st.fixed_dictionaries({"op": name, "path": paths, "from": paths, "value": st.just(new)})
    operations = data.draw(st.lists(operation, min_size=1, max_size=4))
    raw = pack(value), pack(operations)
    with contextlib.suppress(BadPatch):
        json_patch(value, operations)
    assert (pack(value), pack(operations)) == raw
