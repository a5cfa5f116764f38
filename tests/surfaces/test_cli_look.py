"""threads, show, state, diff: what people and programs see of a store."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.surfaces.cli import STATE, Cli, head_of

import takeback


@pytest.fixture
def three(trip: Path) -> Path:
    """Two more threads, of others."""
    with takeback.open(trip) as repo:
        repo.thread("mail", agent="mail-agent", user="u2", meta={"customer": "acme", "n": 3}, initial={})
        repo.thread("notes", agent="mail-agent", user="u1", initial=[1, 2])
    return trip


# --- threads


def test_threads_are_listed_newest_first(cli: Cli, three: Path) -> None:
    lines = cli.ok("threads").lines
    assert lines[0].split() == ["thread", "agent", "user", "versions", "last", "written"]
    assert [line.split()[0] for line in lines[1:]] == ["notes", "mail", "travel/42"]
    assert "travel-agent" in lines[3]
    assert " 8 " in lines[3]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (["--agent", "mail-agent"], ["notes", "mail"]),
        (["--user", "u1"], ["notes", "travel/42"]),
        (["--agent", "mail-agent", "--user", "u1"], ["notes"]),
        (["--meta", "customer=acme"], ["mail", "travel/42"]),
        (["--meta", "customer=acme", "--meta", "n=3"], ["mail"]),
        (["--meta", 'n="3"'], []),
        (["--limit", "2"], ["notes", "mail"]),
        (["--agent", "nobody"], []),
    ],
)
def test_threads_are_filtered(cli: Cli, three: Path, filters: list[str], names: list[str]) -> None:
    """Filters are joined by and; a metadata value that is JSON is compared as that."""
    assert cli.ok("threads", "--names", *filters).lines == names
    listed = cli.ok("threads", "--json", *filters).json["threads"]
    assert [info["name"] for info in listed] == names


def test_threads_as_json_say_all_that_is_known(cli: Cli, three: Path) -> None:
    info = cli.ok("threads", "--json").json["threads"][2]
    assert info["name"] == "travel/42"
    assert info["meta"] == {"customer": "acme"}
    assert (info["head"], info["versions"]) == (7, 8)
    assert datetime.fromisoformat(info["created"]) <= datetime.now(UTC)


def test_no_threads_is_an_answer(cli: Cli, three: Path) -> None:
    assert cli.ok("threads", "--user", "nobody").out == "no threads\n"
    assert cli.ok("threads", "--tenant", "other").out == "no threads\n"


def test_a_tenant_sees_only_its_own(cli: Cli, three: Path) -> None:
    with takeback.open(three, tenant="other") as repo:
        repo.thread("theirs", initial={})
    assert cli.ok("threads", "--names", "--tenant", "other").lines == ["theirs"]
    assert "theirs" not in cli.ok("threads").out


# --- show


def test_show_tells_what_a_checkpoint_says_and_changed(cli: Cli, trip: Path) -> None:
    out = cli.ok("show", "1").out
    for fact in ("travel/42", "step 'flight'", "ada", "the user asked", "bookmark", "just now"):
        assert fact in out
    assert "\n  to: None → 'NYC'\n" in out
    assert "\n  bookings/0: added {'flight': 'XY1'}\n" in out


@pytest.mark.parametrize(
    ("ref", "says"),
    [
        ("0", "begins with bookings, to"),
        ("5", "rollback to 3"),
        ("6", "undo of 5"),
        ("7", "redo to 5"),
        ("good", "good"),
        ("head", "head"),
        ("head~3", "cancel everything"),
    ],
)
def test_show_takes_every_kind_of_reference(cli: Cli, trip: Path, ref: str, says: str) -> None:
    assert says in cli.ok("show", ref).out


def test_show_takes_ids_bookmarks_and_times(cli: Cli, trip: Path) -> None:
    head = head_of(trip)
    for ref in (head.id, head.id[:6], head.bookmark, head.time.isoformat()):
        assert cli.ok("show", ref, "--json").json["checkpoint"]["id"] == head.id


def test_show_without_a_reference_shows_the_head(cli: Cli, trip: Path) -> None:
    shown = cli.ok("show", "--json").json
    assert shown["checkpoint"]["version"] == 7
    assert shown["checkpoint"]["names"] == ["head"]
    assert (shown["diff"]["before"], shown["diff"]["after"]) == (6, 7)
    assert {"op": "change", "path": "/to", "before": None, "after": "NYC"} in shown["diff"]["changes"]


def test_the_first_version_has_nothing_before_it(cli: Cli, trip: Path) -> None:
    assert cli.ok("show", "0", "--json").json["diff"] is None


def test_a_version_that_changed_nothing_says_so(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").commit(STATE)
    assert "the state did not change" in cli.ok("show").out


def test_show_has_metadata_and_no_empty_facts(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").patch({"x": 1}, meta={"ticket": 7})
    out = cli.ok("show").out
    assert '{"ticket": 7}' in out
    assert "reason" not in out
    assert "actor" not in out


# --- state


def test_state_prints_json_that_reads_back(cli: Cli, trip: Path) -> None:
    assert json.loads(cli.ok("state").out) == STATE
    assert cli.ok("state", "--json").json == STATE
    assert cli.ok("state", "4", "--json").json == {"to": None, "bookings": []}


def test_one_path_of_a_state(cli: Cli, trip: Path) -> None:
    assert cli.ok("state", "--path", "/bookings/1/hotel").out == '"Plaza"\n'
    assert cli.ok("state", "--path", "to").out == '"NYC"\n'
    assert cli.ok("state", "2", "--path", "/bookings", "--json").json == STATE["bookings"]


def test_bytes_and_times_have_a_form_in_json(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").commit({"raw": b"\x00\xff", "at": datetime(2026, 3, 1, tzinfo=UTC)})
    assert cli.ok("state", "--json").json == {
        "raw": {"$bytes": "AP8="},
        "at": "2026-03-01T00:00:00+00:00",
    }


def test_a_state_on_a_terminal_is_the_same_json_in_colour(cli: Cli, trip: Path) -> None:
    coloured = cli.ok("state", wide=80).out
    assert "\x1b[" in coloured
    plain = cli.ok("state", "--no-color", wide=80).out
    assert json.loads(plain) == STATE


# --- diff


def test_diff_without_references_shows_the_last_change(cli: Cli, trip: Path) -> None:
    assert cli.ok("diff").lines == [
        "travel/42  6 → 7",
        "  bookings: +2 items (#0–#1)",
        "  days: added ['museum']",
        "  to: None → 'NYC'",
    ]


def test_diff_with_one_reference_goes_to_the_head(cli: Cli, trip: Path) -> None:
    assert cli.ok("diff", "2").lines == ["travel/42  2 → 7", "  days: added ['museum']"]


def test_diff_between_two(cli: Cli, trip: Path) -> None:
    assert cli.ok("diff", "3", "4").lines[0] == "travel/42  3 → 4"
    assert cli.ok("diff", "3", "good").lines == ["travel/42  3 → 3", "  no difference"]


def test_diff_as_json(cli: Cli, trip: Path) -> None:
    assert cli.ok("diff", "2", "3", "--json").json == {
        "thread": "travel/42",
        "before": 2,
        "after": 3,
        "changes": [{"op": "add", "path": "/days", "after": ["museum"]}],
        "files": [],
    }


def test_diff_as_a_json_patch(cli: Cli, trip: Path) -> None:
    """It is what `Thread.json_patch` takes, so that a change moves between threads."""
    patch = cli.ok("diff", "1", "3", "--json-patch").json
    with takeback.open(trip) as repo:
        other = repo.thread("other", initial={"to": "NYC", "bookings": [{"flight": "XY1"}]})
        other.json_patch(patch)
        assert other.state == STATE


def test_the_first_version_alone_has_no_diff(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("young", initial={"a": 1})
    ran = cli("diff", "--thread", "young")
    assert ran.code == 2
    assert "nothing stood before it" in ran.err
    assert "takeback state" in ran.err
