"""fork, merge: another line, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.cli import STATE, Cli, head_of, state_of

import takeback


@pytest.fixture
def forked(trip: Path) -> Path:
    """boston, a fork of version 3, went another way."""
    with takeback.open(trip) as repo:
        repo.thread("travel/42").fork(3, name="boston").patch({"to": "BOS"})
    return trip


def test_a_fork_begins_at_the_head(cli: Cli, trip: Path) -> None:
    ran = cli.ok("fork", "--name", "other")
    assert ran.out == "other begins with the state of travel/42 at version 7\n"
    assert state_of(trip, "other") == STATE
    assert head_of(trip).version == 7


def test_a_fork_of_an_earlier_version(cli: Cli, trip: Path) -> None:
    cli.ok("fork", "0", "--name", "other", "--user", "u2", "-m", "from scratch")
    assert state_of(trip, "other") == {"to": None, "bookings": []}
    assert head_of(trip, "other").reason == "from scratch"
    (info,) = cli.ok("threads", "--user", "u2", "--json").json["threads"]
    assert (info["name"], info["agent"], info["meta"]) == ("other", "travel-agent", {"customer": "acme"})


def test_a_fork_is_given_a_name(cli: Cli, trip: Path) -> None:
    made = cli.ok("fork", "good", "--json", "--agent", "a2").json
    assert made["thread"]["name"].startswith("t-")
    assert (made["thread"]["agent"], made["thread"]["forked_from"]) == ("a2", 3)
    assert made["checkpoint"]["kind"] == "fork"


def test_a_fork_says_what_it_began_with(cli: Cli, forked: Path) -> None:
    out = cli.ok("show", "0", "--thread", "boston").out
    assert "begins with the state of travel/42 at version 3" in out


def test_names_are_not_taken_twice(cli: Cli, trip: Path) -> None:
    ran = cli("fork", "--name", "travel/42", "--json")
    assert (ran.code, ran.error["kind"]) == (4, "thread_exists")


def test_a_merge_brings_in_what_the_fork_did(cli: Cli, forked: Path) -> None:
    ran = cli.ok("merge", "boston", "-m", "Boston it is")
    assert ran.lines[:2] == ["✓ merge boston (version 1) into travel/42", "  to: 'NYC' → 'BOS'"]
    assert state_of(forked) == STATE | {"to": "BOS"}
    assert head_of(forked).reason == "Boston it is"


def test_a_merge_can_be_undone(cli: Cli, forked: Path) -> None:
    cli.ok("merge", "boston")
    assert cli.ok("undo").lines[0] == "✓ undo version 8 of travel/42 (merge): back to version 7"
    assert state_of(forked) == STATE


def test_a_merge_of_the_original_into_its_fork(cli: Cli, forked: Path) -> None:
    cli.ok("commit", "--set", "note=1")
    cli.ok("merge", "travel/42", "--thread", "boston")
    assert state_of(forked, "boston") == STATE | {"to": "BOS", "note": 1}


def test_the_plan_of_a_merge(cli: Cli, forked: Path) -> None:
    assert cli.ok("merge", "boston", "--plan").lines == [
        "plan: merge boston (version 1) into travel/42",
        "  to: 'NYC' → 'BOS'",
    ]
    assert cli.ok("merge", "boston", "--plan", "--json").json["kind"] == "merge"
    assert head_of(forked).version == 7


def test_a_merge_that_brings_nothing(cli: Cli, forked: Path) -> None:
    cli.ok("merge", "boston", "--json")
    assert cli.ok("merge", "boston").out == "travel/42 has all that boston did\n"
    again = cli.ok("merge", "boston", "--json").json
    assert again["merged"] is False
    assert again["checkpoint"]["version"] == 8


def test_a_conflict_is_listed_and_nothing_is_done(cli: Cli, forked: Path) -> None:
    cli.ok("commit", "--set", 'to="SFO"')
    assert "conflict at to: ours 'BOS', theirs 'SFO', base 'NYC'" in cli.ok("merge", "boston", "--plan").out
    ran = cli("merge", "boston", "--json")
    assert (ran.code, ran.error["kind"]) == (4, "merge_conflict")
    assert ran.error["conflicts"] == [{"path": "/to", "base": "NYC", "ours": "BOS", "theirs": "SFO"}]
    assert "both changed to" in cli("merge", "boston").err
    assert head_of(forked).version == 8


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["merge"], 2),
        (["merge", "nobody"], 3),
        (["merge", "travel/42"], 2),
        (["merge", "stranger"], 2),
        (["fork", "99"], 3),
        (["fork", "--name", ""], 2),
        (["fork", "--name", "a\nb"], 2),
    ],
)
def test_what_cannot_be(cli: Cli, trip: Path, words: list[str], code: int) -> None:
    with takeback.open(trip) as repo:
        repo.thread("stranger", initial={})
    ran = cli(*words)
    assert ran.code == code, ran
    assert ran.err.startswith("takeback: ")
