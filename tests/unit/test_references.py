"""References in use: every way to name a checkpoint finds it, and what could mean two things is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

import takeback
from takeback import errors

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    """A store whose clock goes on by a second with each look at it."""
    ticks = iter(range(10_000))

    def clock():
        return int(BEGIN.timestamp()) * 1_000_000 + next(ticks) * 1_000_000

    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, clock=clock, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def trip(tb):
    """Version n holds n, and was made n seconds after the beginning."""
    thread = tb.thread("t", initial=0)
    for n in range(1, 13):
        thread.commit(n)
    return thread


def test_versions_and_the_head(trip):
    """A bare number is a version, as a number or as text; head is where the thread goes on."""
    for ref, version in {
        0: 0,
        "0": 0,
        7: 7,
        " 7 ": 7,
        "head": 12,
        "HEAD": 12,
        "head~": 11,
        "head~2": 10,
    }.items():
        assert trip.at(ref).version == version
    assert trip.at("head~1~2").version == 9
    assert trip.at("7~3").version == 4
    assert trip.at("head~12").version == 0


def test_ids_and_their_prefixes(trip):
    """A whole id, its beginning, or the beginning of its random part; and a bookmark is as good."""
    for version in (0, 3, 10, 12):
        made = trip.at(version).checkpoint
        for ref in (made.id, made.id[:-5], made.bookmark, made, f"{made.id}~0"):
            assert trip.at(ref).checkpoint == made
    assert trip.at("c3").version == 3
    assert trip.at("c12").version == 12
    assert trip.at("c3-").version == 3
    assert trip.at(trip.at(5).checkpoint.id + "~2").version == 3


def test_the_id_of_version_0_is_not_ambiguous(trip):
    """No other version's number begins with 0."""
    assert trip.at("c0").version == 0


def test_an_ambiguous_prefix_is_refused_and_says_how_to_go_on(tb, trip):
    """`c1` begins the ids of 1, 10, 11 and 12; with a dash, or in a short thread, it is version 1."""
    with pytest.raises(errors.AmbiguousReference) as caught:
        trip.at("c1")
    assert "version 1 and of 10" in str(caught.value)
    assert trip.at(1).checkpoint.id[:6] in caught.value.hint
    assert trip.at("c1-").version == 1
    short = tb.thread("short", initial=0)
    short.commit(1)
    assert short.at("c1").version == 1


def test_labels(trip):
    """A label is a reference wherever one is taken, also with a way back from it."""
    trip.label("before-booking", 4)
    assert trip.at("before-booking").version == 4
    assert trip.at("before-booking~1").version == 3
    assert trip.diff("before-booking", "head").before.version == 4
    assert trip.fork("before-booking", "alt").state == 4
    assert trip.rollback("before-booking").state == 4


def test_times(trip):
    """The newest version that is not younger than the time; a zone decides, not a guess."""
    for seconds, version in {0: 0, 5: 5, 5.5: 5, 12: 12, 3600: 12}.items():
        time = BEGIN + timedelta(seconds=seconds)
        local = time.astimezone(timezone(timedelta(hours=-7)))
        for ref in (
            time,
            local,
            time.isoformat(),
            local.isoformat(),
            time.isoformat().replace("+00:00", "Z"),
        ):
            assert trip.at(ref).version == version
    assert trip.at(f"{(BEGIN + timedelta(seconds=5)).isoformat()}~2").version == 3
    with pytest.raises(errors.UnknownCheckpoint, match="began after"):
        trip.at(BEGIN - timedelta(seconds=1))


@pytest.mark.parametrize(
    "ref",
    [
        "2026-03-01T12:00:00", datetime(2026, 3, 1), "2026-03-01", "2026-03-01T25:00Z", "2026-13-01T00:00Z",
        "", " ", "-1", -1, 1.0, True, None, b"head", [3], "a b", "~1", "head^", "c", "3.5", "1e3", "@",
        "head~x", "9" * 40, "head~" + "9" * 40,
    ],
)  # fmt: skip
def test_what_is_no_reference(trip, ref):
    """What cannot be read as one form is refused with the forms there are, and never guessed."""
    with pytest.raises((errors.BadReference, errors.UnknownLabel)) as caught:
        trip.at(ref)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("ref", "error"),
    [
        (13, errors.UnknownCheckpoint),
        ("13", errors.UnknownCheckpoint),
        ("head~13", errors.UnknownCheckpoint),
        ("0~1", errors.UnknownCheckpoint),
        ("c13", errors.UnknownCheckpoint),
        ("c99", errors.UnknownCheckpoint),
        ("c3-000000000000", errors.UnknownCheckpoint),
        ("c03", errors.UnknownCheckpoint),
        ("b3-000000000000", errors.UnknownCheckpoint),
        ("never-given", errors.UnknownLabel),
    ],
)
def test_what_is_not_there(trip, ref, error):
    """A reference that is one and leads nowhere names the thread and what there is."""
    with pytest.raises(error) as caught:
        trip.at(ref)
    assert caught.value.thread == "t"


@pytest.mark.parametrize(
    "label",
    ["head", "HEAD", "head~1", "c3", "c3-", "b3-000000000000", "3", "-x", "", "a b", "2026-03-01T12:00Z", "~",
     "x" * 129, "a\n", 5, None, "é~"],
)  # fmt: skip
def test_labels_that_look_like_something_else_are_refused(trip, label):
    """A label that could be read as another reference would some day be read as one."""
    with pytest.raises(errors.BadName):
        trip.label(label)
    assert trip.labels == {}


@pytest.mark.parametrize("label", ["v1", "before-booking", "a/b:c@d+e.f", "été", "headless", "c"])
def test_labels_that_are_free_of_doubt(trip, label):
    """Letters of any script, digits and a few signs."""
    trip.label(label, 2)
    assert trip.at(label).version == 2


def test_a_reference_means_the_handles_thread_as_last_read(tb, trip):
    """head is the handle's head: what others add does not move it under a reader's feet."""
    tb.thread("t").commit("later")
    assert trip.at("head").version == 12
    assert trip.refresh().at("head").version == 13
