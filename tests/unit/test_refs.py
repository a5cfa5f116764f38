"""References: every form is told from every other, and what is none is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from takeback.errors import BadName, BadReference
from takeback.model.ids import bookmark, bookmarked, checkpoint_id, shown, thread_name, thread_uid
from takeback.model.refs import ByHead, ById, ByLabel, ByTime, ByVersion, check_label, check_name, parse

ID = "c12-0123456789ab"
NOON = 1_772_366_400_000_000  # 2026-03-01 12:00 UTC


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        (0, ByVersion(0)),
        (3, ByVersion(3)),
        ("3", ByVersion(3)),
        (" 3 ", ByVersion(3)),
        ("007", ByVersion(7)),
        ("3~2", ByVersion(3, back=2)),
        ("head", ByHead()),
        ("HEAD", ByHead()),
        ("head~", ByHead(1)),
        ("head~2", ByHead(2)),
        ("Head~1~", ByHead(2)),
        ("head~~~", ByHead(3)),
        ("head~0", ByHead()),
        (ID, ById(12, ID, whole=True)),
        (ID + "~1", ById(12, ID, whole=True, back=1)),
        ("c12", ById(12, "c12", whole=False)),
        ("c12-", ById(12, "c12-", whole=False)),
        ("c12-ab", ById(12, "c12-ab", whole=False)),
        ("b" + ID[1:], ById(12, ID, whole=True)),
        ("good", ByLabel("good")),
        ("release/2026-03:a.b_c@x+y", ByLabel("release/2026-03:a.b_c@x+y")),
        ("good~3", ByLabel("good", back=3)),
        ("größe", ByLabel("größe")),
        ("b12", ByLabel("b12")),
        ("c12-x", ByLabel("c12-x")),
        ("header", ByLabel("header")),
        ("2026-03-01T12:00:00+00:00", ByTime(NOON)),
        ("2026-03-01t12:00:00z", ByTime(NOON)),
        ("2026-03-01T13:00+01:00", ByTime(NOON)),
        ("2026-03-01T12:00:00.000007Z~1", ByTime(NOON + 7, back=1)),
        (dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC), ByTime(NOON)),
    ],
)
def test_forms(text: Any, ref: Any) -> None:
    assert parse(text) == ref


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "~", "~1", "-3", -1, "3.5", 3.5, None, True, False, b"3", ["3"], "a b", "~head", "head^",
        "@", "1x",
        "-", "2026-03-01", "2026-03-01T25:00Z", "2026-03-01T12:00", "2026-13-01T12:00Z", "C12-!", "#1",
        "head~-1",
        "head~x", "c12-ABCDEF!", "a\nb", "٣~",
        dt.datetime(2026, 3, 1),
        dt.date(2026, 3, 1),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_reference(text: Any) -> None:
    if text == "٣~":
        assert parse(text) == ByVersion(3, back=1)  # digits of any script are a number, as in Python
        return
    with pytest.raises(BadReference):
        parse(text)


@pytest.mark.parametrize("size", [19, 30, 4_301, 100_000])
@pytest.mark.parametrize(
    "form", ["{}", "-{}", "head~{}", "c{}", "c{}-0123456789ab", "b{}-0123456789ab", "good~{}"]
)
def test_numbers_that_no_store_holds(form: str, size: int) -> None:
    """A version is a 64-bit number; more digits, or more than Python reads, is a bad reference."""
    with pytest.raises(BadReference) as caught:
        parse(form.format("9" * size))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("number", [2**63, 10**30, 10**5000, -(10**5000)], ids=["63", "30", "5000", "-5000"])
def test_integers_that_no_store_holds(number: int) -> None:
    with pytest.raises(BadReference):
        parse(number)


def test_the_largest_version() -> None:
    assert parse(2**63 - 1) == ByVersion(2**63 - 1)


def test_a_negative_version_is_explained() -> None:
    with pytest.raises(BadReference, match="head~3"):
        parse(-3)


@given(st.integers(0, 10**6))
def test_ids_name_themselves(version: int) -> None:
    """An id, its bookmark and every prefix that has the version are read back as that checkpoint."""
    made = checkpoint_id(version)
    assert parse(made) == parse(bookmark(made)) == ById(version, made, whole=True)
    assert bookmarked(bookmark(made)) == made
    for end in range(len(f"c{version}"), len(made)):
        assert parse(made[:end]) == ById(version, made[:end], whole=False)


@given(st.text(max_size=12) | st.from_regex(r"[a-zA-Z_][\w.:/@+-]{0,20}", fullmatch=True))
def test_a_label_is_never_taken_for_something_else(label: str) -> None:
    """Each label that may be given is read as that label."""
    try:
        check_label(label)
    except BadName:
        assume(False)
    assert parse(label) == ByLabel(label)


@pytest.mark.parametrize(
    "label",
    ["", "1", "12", "1a", "-a", "head", "HEAD", "Head", "head~1", "a~1", "a b", "a\n", " a", "c1", "c1-",
    "c1-ab", ID,
     "b" + ID[1:], "2026-03-01T12:00:00Z", "a" * 129, "a#b", "\ud800", 3, None],
    ids=repr,
)  # fmt: skip
def test_labels_that_are_refused(label: Any) -> None:
    with pytest.raises(BadName):
        check_label(label)


@pytest.mark.parametrize(
    "label", ["a", "é", "_x", "v1.2", "good/one", "b1", "c1-x", "cafe", "a" * 128, "heads"]
)
def test_labels(label: str) -> None:
    assert check_label(label) == label


@pytest.mark.parametrize("name", ["a", "1", "head", " ", "naïve 🧵", "a/b", "../x", "x" * 512, "'; --"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x" * 513, "a\nb", "\0", "\x7f", "\x1b[2J", "\ud800", 3, None, b"a"], ids=repr
)
def test_names_that_are_refused(name: Any) -> None:
    with pytest.raises(BadName, match="tenant"):
        check_name(name, "tenant")


def test_made_names_and_uids() -> None:
    """Each is new, and fits where it is used."""
    assert len({thread_uid() for _ in range(100)}) == len({thread_name() for _ in range(100)}) == 100
    assert check_name(thread_name())
    assert (len(thread_uid()), len(shown(thread_uid())), len(shown(b"\xff" * 32))) == (16, 22, 43)
    assert "=" not in shown(b"\xff" * 16)
