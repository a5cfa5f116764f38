"""Paths into a value: pointers, tuples and bare keys, and positions in lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import BadPath
from takeback.model.paths import index, parse, pointer


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", ()),
        ("/", ("",)),
        ("//", ("", "")),
        ("/plan/steps/3", ("plan", "steps", "3")),
        ("/a~1b/m~0n", ("a/b", "m~n")),
        ("/~01", ("~1",)),
        ("/ /é", (" ", "é")),
        ("plan", ("plan",)),
        ("a~b", ("a~b",)),
        ("a/b", ("a/b",)),
        (("plan", "steps", 3), ("plan", "steps", 3)),
        (["a", 0], ("a", 0)),
        ((), ()),
        (3, (3,)),
        (-1, (-1,)),
    ],
)
def test_forms(path: Any, parts: tuple[Any, ...]) -> None:
    """A pointer begins with a slash, a bare word is one key whatever it holds, a tuple is taken as it is."""
    assert parse(path) == parts


@pytest.mark.parametrize(
    "path",
    ["/~", "/a~2", "/~~0", "/a/b~", None, 1.0, True, b"/a", {"a"}, ("a", 1.0), ("a", True), [None]],
    ids=repr,
)
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(BadPath):
        parse(path)


@given(st.lists(st.text(max_size=8), max_size=5))
def test_pointer_and_back(parts: list[str]) -> None:
    assert parse(pointer(tuple(parts))) == tuple(parts)


@given(st.lists(st.text(max_size=8) | st.integers(0, 2**62), max_size=5))
def test_a_tuple_and_its_pointer_are_one_path(parts: list[Any]) -> None:
    assert parse(pointer(tuple(parts))) == tuple(map(str, parse(tuple(parts))))


@pytest.mark.parametrize("part", [0, 4, "0", "4"])
def test_positions(part: Any) -> None:
    assert index(part, 5, at=("a",)) == int(part)


@pytest.mark.parametrize(
    "part",
    [
        "01",
        "-1",
        "+1",
        "1.0",
        "",
        " 1",
        "1 ",
        "-",
        "a",
        "²",
        "٣",
        "1_0",
        "0x1",
        "5",
        5,
        -1,
        "99",
        10**20,
        "1" * 30,
    ],
)
def test_what_is_no_position(part: Any) -> None:
    """No leading zero, no sign, no digits of other scripts, and nothing outside; the error names the list."""
    with pytest.raises(BadPath) as caught:
        index(part, 5, at=("a", "b/c"))
    assert caught.value.path == "/a/b~1c"


@pytest.mark.parametrize("part", ["-", "5", 5])
def test_the_place_after_the_last(part: Any) -> None:
    """Only where something may be appended."""
    assert index(part, 5, at=(), end=True) == 5
    with pytest.raises(BadPath):
        index(part, 5, at=())


def test_empty_lists() -> None:
    assert index("-", 0, at=(), end=True) == index(0, 0, at=(), end=True) == 0
    with pytest.raises(BadPath, match="a list of 0"):
        index(0, 0, at=())


@pytest.mark.parametrize("digits", [4_300, 4_301, 100_000])
def test_numbers_longer_than_python_reads(digits: int) -> None:
    """Python refuses to turn so many digits into a number or back; that is a bad path like any other."""
    with pytest.raises(BadPath) as caught:
        index("9" * digits, 5, at=("a",))
    assert caught.value.path == "/a"
    assert len(str(caught.value)) < 300


def test_huge_integers() -> None:
    """So is a position that could not even be shown."""
    with pytest.raises(BadPath):
        index(10**5000, 5, at=())
    for path in (10**5000, ("a", 10**5000), ["a", -(10**5000)]):
        with pytest.raises(BadPath):
            parse(path)
