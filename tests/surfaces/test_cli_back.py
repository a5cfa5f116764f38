"""rollback, undo, redo, revert: shown before, asked for, done, and reversible."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.cli import EMPTIED, STATE, Cli, head_of, state_of

import takeback

ASKING = [["rollback", "4"], ["revert", "2"]]
NOT_ASKING = [["undo"], ["redo"]]
ALL = ASKING + NOT_ASKING


@pytest.fixture
def undone(trip: Path) -> Path:
    """The same trip with its last redo taken back, so that there is something to redo."""
    with takeback.open(trip) as repo:
        repo.thread("travel/42").undo()
    return trip


# --- plans


@pytest.mark.parametrize("words", ALL)
def test_a_plan_changes_nothing(cli: Cli, undone: Path, words: list[str]) -> None:
    ran = cli.ok(*words, "--plan")
    assert ran.lines[0].startswith("plan: ")
    assert len(ran.lines) > 1
    assert head_of(undone).version == 8


@pytest.mark.parametrize("words", ALL)
def test_a_plan_as_json(cli: Cli, undone: Path, words: list[str]) -> None:
    plan = cli.ok(*words, "--plan", "--json").json
    assert (plan["thread"], plan["kind"], plan["head"]) == ("travel/42", words[0], 8)
    assert plan["parts"][0]["part"] == "state"


def test_a_plan_says_what_it_is_for(cli: Cli, undone: Path) -> None:
    first = {words[0]: cli.ok(*words, "--plan").lines[0] for words in ALL}
    assert first == {
        "rollback": "plan: roll back travel/42 to version 4",
        "revert": "plan: take version 2 of travel/42 back, and keep what came after it",
        "undo": "plan: undo version 4 of travel/42 (commit): back to version 3",
        "redo": "plan: redo on travel/42: forward to version 7",
    }


def test_a_plan_that_changes_nothing_says_so(cli: Cli, trip: Path) -> None:
    assert cli.ok("rollback", "good", "--plan").lines[1:] == ["  the state does not change"]


# --- doing


def test_a_rollback_restores_and_says_how_to_reverse_it(cli: Cli, trip: Path) -> None:
    bookmark = head_of(trip).bookmark
    ran = cli.ok("rollback", "4", "--yes", "-m", "start over")
    head = head_of(trip)
    assert state_of(trip) == EMPTIED
    assert (head.kind, head.reason, head.version) == ("rollback", "start over", 8)
    assert ran.lines == [
        "✓ roll back travel/42 to version 4",
        "  bookings: −2 items",
        "  days: removed",
        "  to: 'NYC' → None",
        f"now at version 8 ({head.id})",
        "to reverse: takeback undo",
        f"   or later: takeback undo {bookmark}",
    ]


@pytest.mark.parametrize("words", [["rollback", "0"], ["revert", "2"], ["undo"], ["redo"]])
def test_the_way_back_that_is_printed_works(cli: Cli, trip: Path, words: list[str]) -> None:
    """Both of them: at once, and later, when more has been done."""
    for place, meanwhile in ((-2, []), (-1, ["commit", "--set", "more=1"])):
        if words == ["redo"]:
            cli.ok("undo")
        before = state_of(trip)
        ran = cli.ok(*words, "--yes")
        assert state_of(trip) != before
        if meanwhile:
            cli.ok(*meanwhile)
        cli.ok(*ran.lines[place].split("takeback ")[1].split())
        assert state_of(trip) == before


def test_the_way_back_names_the_store_and_thread_that_were_named(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "my store.db"
    with takeback.open(store) as repo:
        repo.thread("a b", initial={"x": 1}).patch({"x": 2})
    ran = cli.ok("undo", "--db", store, "--thread", "a b")
    assert f"to reverse: takeback --db '{store}' --thread 'a b' redo" in ran.lines


def test_undo_and_redo_walk(cli: Cli, trip: Path) -> None:
    cli.ok("undo")
    assert state_of(trip) == EMPTIED
    cli.ok("undo", "-m", "one more")
    assert state_of(trip) == STATE
    assert head_of(trip).reason == "one more"
    cli.ok("redo")
    cli.ok("redo")
    assert state_of(trip) == STATE
    assert head_of(trip).version == 11


def test_undo_to_a_bookmark(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        bookmark = repo.thread("travel/42").at(1).checkpoint.bookmark
    ran = cli.ok("undo", bookmark)
    assert ran.lines[0] == "✓ undo travel/42 to version 1"
    assert state_of(trip) == {"to": "NYC", "bookings": [{"flight": "XY1"}]}


def test_revert_keeps_what_came_after(cli: Cli, trip: Path) -> None:
    cli.ok("revert", "2", "--yes")
    assert state_of(trip) == {"to": "NYC", "bookings": [{"flight": "XY1"}], "days": ["museum"]}
    assert head_of(trip).undoes == 2


def test_receipts_as_json(cli: Cli, trip: Path) -> None:
    bookmark = head_of(trip).bookmark
    receipt = cli.ok("rollback", "4", "--yes", "--json", "--actor", "grace").json
    assert receipt["checkpoint"]["version"] == 8
    assert receipt["checkpoint"]["actor"] == "grace"
    assert receipt["bookmark"] == bookmark
    assert receipt["done"] == ["bookings: −2 items · days: removed · to: 'NYC' → None"]
    assert receipt["standing"] == []
    assert cli.ok("undo", "--json").json["checkpoint"]["kind"] == "undo"
    assert cli.ok("redo", "--json").json["checkpoint"]["kind"] == "redo"


# --- asking


@pytest.mark.parametrize("words", ASKING)
def test_without_a_terminal_it_is_refused(cli: Cli, trip: Path, words: list[str]) -> None:
    ran = cli(*words, typed="y\n")
    assert ran.code == 2
    assert ran.out == ""
    assert "nobody to ask" in ran.err
    assert "--yes" in ran.err
    assert head_of(trip).version == 7


@pytest.mark.parametrize("words", ASKING)
def test_json_is_never_asked(cli: Cli, trip: Path, words: list[str]) -> None:
    """A question would stand in the middle of a program's output."""
    ran = cli(*words, "--json", typed="y\n", terminal=True)
    assert ran.code == 2
    assert "--json" in ran.error["message"]
    assert head_of(trip).version == 7


@pytest.mark.parametrize("words", ASKING)
def test_the_plan_is_shown_and_the_reason_asked_for(cli: Cli, trip: Path, words: list[str]) -> None:
    ran = cli.ok(*words, typed="y\nthey meant the taxi\n", terminal=True)
    assert ran.lines[0].startswith("plan: ")
    assert "Go ahead? [y/N] " in ran.err
    assert "Why?" in ran.err
    assert head_of(trip).reason == "they meant the taxi"


def test_an_empty_reason_is_an_answer(cli: Cli, trip: Path) -> None:
    cli.ok("rollback", "4", typed="yes\n\n", terminal=True)
    assert head_of(trip).reason is None


def test_a_reason_that_was_given_is_not_asked_for(cli: Cli, trip: Path) -> None:
    ran = cli.ok("rollback", "4", "-m", "given", typed="Y\n", terminal=True)
    assert "Why?" not in ran.err
    assert head_of(trip).reason == "given"


def test_yes_asks_nothing(cli: Cli, trip: Path) -> None:
    ran = cli.ok("rollback", "4", "--yes", terminal=True)
    assert ran.err == ""
    assert head_of(trip).version == 8


@pytest.mark.parametrize("typed", ["n\n", "\n", "nope\n", "yep\n", ""])
def test_anything_but_yes_is_no(cli: Cli, trip: Path, typed: str) -> None:
    ran = cli("rollback", "4", typed=typed, terminal=True)
    assert ran.code == 1
    assert "nothing was changed" in ran.err
    assert head_of(trip).version == 7


@pytest.mark.parametrize("words", NOT_ASKING)
def test_undo_and_redo_do_not_ask(cli: Cli, undone: Path, words: list[str]) -> None:
    assert cli.ok(*words).err == ""
    assert head_of(undone).version == 9


# --- what cannot be


def test_nothing_to_undo(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("young", initial={})
    ran = cli("undo", "--thread", "young")
    assert ran.code == 4
    assert ran.err.startswith("takeback: no operation is left to take back (thread 'young'")
    assert cli("undo", "--thread", "young", "--json").error["kind"] == "nothing_to_undo"


def test_nothing_to_redo(cli: Cli, trip: Path) -> None:
    ran = cli("redo", "--json")
    assert (ran.code, ran.error["kind"]) == (4, "nothing_to_redo")
    assert "rollback reaches every version" in cli("redo").err


def test_a_revert_in_conflict_is_not_even_asked_about(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").patch({"/bookings/0/flight": "ZZ9"})
    shown = cli.ok("revert", "1", "--plan")
    assert any("conflict at bookings" in line for line in shown.lines)
    ran = cli("revert", "1", terminal=True)
    assert ran.code == 4
    assert "Go ahead?" not in ran.err
    assert "Revert the later versions first" in ran.err
    assert cli("revert", "1", "--json").error["conflicts"]
    assert head_of(trip).version == 8


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["rollback"], 2, "REF"),
        (["rollback", "99"], 3, "the head is 7"),
        (["rollback", "-1"], 2, "head~1"),
        (["rollback", "nowhere"], 3, "no label 'nowhere'"),
        (["rollback", "head~9"], 3, "beyond version 0"),
        (["rollback", "?!"], 2, "no reference"),
        (["rollback", "2026-01-01T00:00:00"], 2, "no time zone"),
        (["rollback", "c7-ffffffffffff"], 3, "no checkpoint of this thread"),
        (["undo", "5"], 2, "no bookmark"),
        (["undo", "b1-ffffffffffff"], 3, ""),
        (["redo", "5"], 2, "'5' is one argument too many"),
        (["revert", "0"], 2, "nothing stood before it"),
    ],
)
def test_references_that_are_none(cli: Cli, trip: Path, words: list[str], code: int, says: str) -> None:
    ran = cli(*words, *(["--yes"] if words[0] != "redo" else []))
    assert ran.code == code, ran
    assert says in ran.err
    assert head_of(trip).version == 7
