"""commit, label, labels: making versions, and naming them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.cli import STATE, Cli, head_of, state_of

import takeback

# --- commit


def test_a_whole_state_from_a_file(cli: Cli, trip: Path, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"to": "BOS", "days": [1, 2.5, null, true, "x"]}')
    ran = cli.ok("commit", "--file", "state.json", "-m", "Boston it is")
    assert ran.lines[0].startswith("travel/42 is at version 8 (c8-")
    assert "  to: 'NYC' → 'BOS'" in ran.lines
    assert state_of(trip) == {"to": "BOS", "days": [1, 2.5, None, True, "x"]}
    assert head_of(trip).reason == "Boston it is"


def test_a_whole_state_from_standard_input(cli: Cli, trip: Path) -> None:
    cli.ok("commit", "--file", "-", typed='{"to": "über"}')
    assert state_of(trip) == {"to": "über"}


def test_what_state_prints_can_be_committed_again(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").patch({"raw": b"\x00\xff", "text": "ü\x1b"})
    printed = cli.ok("state").out
    cli.ok("commit", "--file", "-", typed=printed)
    assert head_of(trip).version == 9
    assert state_of(trip) == STATE | {"raw": b"\x00\xff", "text": "ü\x1b"}


def test_edits_make_one_version(cli: Cli, trip: Path) -> None:
    cli.ok(
        "commit", "--set", 'to="BOS"', "--set", "/bookings/0/cents=4200", "--delete", "/bookings/1",
        "--append", 'days="park"', "--append", 'days="harbor"',
    )  # fmt: skip
    assert state_of(trip) == {
        "to": "BOS",
        "bookings": [{"flight": "XY1", "cents": 4200}],
        "days": ["museum", "park", "harbor"],
    }
    assert head_of(trip).version == 8


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["--set", "to=1"], "patch"),
        (["--delete", "days"], "patch"),
        (["--append", 'days="park"', "--append", 'days="zoo"'], "append"),
        (["--append", 'days="park"', "--append", 'bookings="zoo"'], "patch"),
        (["--file", "-"], "commit"),
    ],
)
def test_the_verb_is_the_one_that_is_meant(cli: Cli, trip: Path, words: list[str], kind: str) -> None:
    """An append costs the item, not the list, so it stays an append."""
    assert cli.ok("commit", "--json", *words, typed="{}").json["kind"] == kind


def test_values_may_hold_equals_signs(cli: Cli, trip: Path) -> None:
    cli.ok("commit", "--set", 'to="a=b=c"')
    assert state_of(trip)["to"] == "a=b=c"


def test_a_commit_that_changes_nothing_is_still_a_version(cli: Cli, trip: Path) -> None:
    ran = cli.ok("commit", "--file", "-", typed=json.dumps(STATE))
    assert "  the state did not change" in ran.lines
    assert head_of(trip).version == 8


def test_a_commit_as_json(cli: Cli, trip: Path) -> None:
    said = cli.ok(
        "commit", "--set", "x=1", "--json", "--actor", "grace", "--meta", "ticket=7", "-m", "why"
    ).json
    assert said["version"] == 8
    assert (said["actor"], said["meta"], said["reason"]) == ("grace", {"ticket": 7}, "why")
    assert said["id"] == head_of(trip).id


def test_only_if_the_head_is_still_this(cli: Cli, trip: Path) -> None:
    cli.ok("commit", "--set", "x=1", "--expect", "7")
    ran = cli("commit", "--set", "x=2", "--expect", "7")
    assert ran.code == 4
    assert state_of(trip)["x"] == 1


def test_the_actor_is_who_is_logged_in(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "grace")
    cli.ok("commit", "--set", "x=1")
    assert head_of(trip).actor == "grace"


def test_nobody_is_named_where_there_is_no_name(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's user may be a number without a name; work goes on."""

    def fail() -> str:
        raise OSError("no username set in the environment")

    monkeypatch.setattr("getpass.getuser", fail)
    cli.ok("commit", "--set", "x=1")
    assert head_of(trip).actor is None


# --- a new thread, a new store


def test_the_first_commit_makes_the_store_and_the_thread(cli: Cli, data_home: str) -> None:
    ran = cli.ok("commit", "--thread", "first", "--set", 'to="NYC"')
    assert ran.err == "takeback: 'first' is a new thread\n"
    assert ran.lines[1] == "  begins with to"
    store = Path(data_home) / "takeback" / "takeback.db"
    assert state_of(store, "first") == {"to": "NYC"}
    assert store.parent.stat().st_mode & 0o077 == 0, "others could list what people told their agents"


def test_a_new_thread_is_given_a_name(cli: Cli, data_home: str) -> None:
    cli.ok("commit", "--file", "-", typed="[]")
    (name,) = cli.ok("threads", "--names").lines
    assert name.startswith("t-")


def test_the_next_commit_goes_to_the_thread_written_to_last(cli: Cli, data_home: str) -> None:
    cli.ok("commit", "--thread", "one", "--set", "x=1")
    cli.ok("commit", "--thread", "two", "--set", "x=1")
    ran = cli.ok("commit", "--set", "x=2")
    assert ran.err == "takeback: on thread 'two', the one written to last\n"
    assert cli.ok("state", "--thread", "two", "--json").json == {"x": 2}


def test_edits_begin_a_thread_from_an_empty_state(cli: Cli, store_path: Path) -> None:
    words = ["commit", "--db", store_path, "--thread", "t"]
    cli.ok(
        *words, "--set", '/plan={"a": []}', "--set", "a/b=1", "--append", "/plan/a=7", "--append", "/plan/a=8"
    )
    assert state_of(store_path, "t") == {"plan": {"a": [7, 8]}, "a/b": 1}


@pytest.mark.parametrize("edit", [["--append", "days=1"], ["--delete", "days"], ["--set", "/a/b=1"]])
def test_edits_of_what_is_not_there_begin_nothing(cli: Cli, store_path: Path, edit: list[str]) -> None:
    assert cli("commit", "--db", store_path, "--thread", "t", *edit).code == 2
    assert cli.ok("threads", "--db", store_path).out == "no threads\n"


def test_a_thread_for_an_agent_and_a_user(cli: Cli, store_path: Path) -> None:
    words = ["commit", "--db", store_path, "--thread", "t", "--set", "x=1"]
    cli.ok(*words, "--agent", "a1", "--user", "u1")
    cli.ok(*words, "--agent", "a1")
    ran = cli(*words, "--agent", "a2", "--json")
    assert ran.code == 2
    assert ran.error["kind"] == "wrong_owner"


# --- mistakes


@pytest.mark.parametrize(
    ("words", "says", "helps"),
    [
        ([], "nothing to commit", "--file"),
        (["--set", "to"], "is not PATH=JSON", "--set"),
        (["--set", "=1"], "is not PATH=JSON", "--set"),
        (["--set", "to=NYC"], "'NYC' is no JSON", """--set 'to="…"'"""),
        (["--append", "days={"], "is no JSON", "--append"),
        (["--set", 'to={"a": 1, "a": 2}'], "key 'a' twice", "--set"),
        (["--set", 'to={"$bytes": "?"}'], "is no JSON", "--set"),
        (["--set", "to=NaN"], "", ""),
        (["--set", "a=1", "--file", "-"], "--file is the whole state", "either"),
        (["--meta", "ticket", "--set", "a=1"], "is not KEY=VALUE", "--meta"),
        (["--file", "missing.json"], "missing.json cannot be read: No such file", ""),
        (["--file", "-"], "standard input is empty", "{}"),
        (["--set", "to=1", "--set", "/to/x=1"], "", ""),
        (["--set", "a=1", "--set", "a=2"], "/a is given twice", "one edit"),
        (["--set", "a=1", "--delete", "/a"], "/a is given twice", "one edit"),
        (["--set", "days=[]", "--append", "days=1"], "/days is given twice", "one edit"),
        (["--append", "days=1", "--append", "/days=2"], "/days is given twice", "one edit"),
        (["--delete", "nowhere"], "", ""),
        (["--append", "to=1"], "", ""),
        (["--append", "to=1", "--set", "x=1"], "", ""),
        (["--append", "nowhere=1", "--set", "x=1"], "", ""),
    ],
)
def test_a_mistake_changes_nothing(cli: Cli, trip: Path, words: list[str], says: str, helps: str) -> None:
    ran = cli("commit", *words)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.startswith("takeback: ")
    assert "Traceback" not in ran.err
    assert says in ran.err
    assert helps in ran.err
    assert head_of(trip).version == 7


@pytest.mark.parametrize("typed", ["{", "not json", "\xff", "[" * 100_000, '"\\ud800"'])
def test_a_file_that_holds_no_state(cli: Cli, trip: Path, typed: str) -> None:
    ran = cli("commit", "--file", "-", typed=typed)
    assert ran.code == 2, ran
    assert head_of(trip).version == 7


def test_a_mistake_in_a_value_makes_no_store(cli: Cli, data_home: str) -> None:
    assert cli("commit", "--set", "to=NYC").code == 2
    assert cli("commit", "--file", "missing.json").code == 2
    assert not Path(data_home).exists()


# --- labels


def test_a_label_names_a_checkpoint_and_moves(cli: Cli, trip: Path) -> None:
    assert cli.ok("label", "best").out == "best is version 7 of travel/42\n"
    assert cli.ok("label", "best", "2").out == "best is version 2 of travel/42\n"
    assert cli.ok("labels", "--json").json == {"thread": "travel/42", "labels": {"best": 2, "good": 3}}


def test_labels_are_listed_in_the_order_of_versions(cli: Cli, trip: Path) -> None:
    cli.ok("label", "zero", "0")
    assert [line.split() for line in cli.ok("labels").lines] == [
        ["label", "version"],
        ["zero", "0"],
        ["good", "3"],
    ]
    assert cli.ok("labels", "--names").lines == ["zero", "good"]


def test_a_label_is_taken_away(cli: Cli, trip: Path) -> None:
    assert cli.ok("label", "--delete", "good").out == "took away the label good of travel/42\n"
    assert cli.ok("labels").out == "travel/42 has no labels\n"
    assert cli("label", "--delete", "good").code == 3


def test_labels_as_json(cli: Cli, trip: Path) -> None:
    put = cli.ok("label", "best", "2", "--json").json
    assert put == {"thread": "travel/42", "label": "best", "version": 2, "id": put["id"]}
    gone: Any = cli.ok("label", "best", "--delete", "--json").json
    assert gone == {"thread": "travel/42", "label": "best", "version": None}


@pytest.mark.parametrize(
    ("words", "code"),
    [(["head"], 2), (["7up"], 2), (["c7"], 2), (["x", "99"], 3), (["x", "2", "--delete"], 2), ([], 2)],
)
def test_labels_that_cannot_be(cli: Cli, trip: Path, words: list[str], code: int) -> None:
    assert cli("label", *words).code == code
    assert cli.ok("labels", "--json").json["labels"] == {"good": 3}
