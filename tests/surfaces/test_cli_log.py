"""log: every checkpoint, newest first; and the lines on which they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback.cli.graph import Key, Lanes


def drawn(text: str) -> list[str]:
    """A graph without what differs between runs: ids, times."""
    text = re.sub(r"  c\d+-\w{4}  ", "  ", text)
    return [re.sub(r"  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", "", line) for line in text.splitlines()]


@pytest.fixture
def merged(trip: Path) -> Path:
    """travel/42 with a fork from version 3 that went its own way and was merged as version 9."""
    with takeback.open(trip, actor="ada") as repo:
        thread = repo.thread("travel/42")
        fork = thread.fork(3, name="boston", reason="try Boston")
        fork.patch({"to": "BOS"})
        thread.patch({"note": 1})
        thread.merge(fork, reason="Boston it is")
    return trip


def test_each_checkpoint_has_who_when_why_and_what(cli: Cli, trip: Path) -> None:
    assert drawn(cli.ok("log").out) == [
        "7  redo to 5  ada  (head)",
        "   bookings: +2 items (#0–#1) · days: added ['museum'] · to: None → 'NYC'",
        "6  undo of 5  ada",
        "   bookings: −2 items · days: removed · to: 'NYC' → None",
        "5  rollback to 3  ada",
        "   that was wrong — bookings: +2 items (#0–#1) · days: added ['museum'] · to: None → 'NYC'",
        "4  commit  ada",
        "   cancel everything — bookings: −2 items · days: removed · to: 'NYC' → None",
        "3  patch  ada  (good)",
        "   days: added ['museum']",
        "2  append  ada",
        "   near the park — bookings/1: added {'hotel': 'Plaza'}",
        "1  step 'flight'  ada",
        "   the user asked — bookings/0: added {'flight': 'XY1'} · to: None → 'NYC'",
        "0  initial  ada",
        "   begins with bookings, to",
    ]


def test_the_graph_shows_what_follows_from_what(cli: Cli, trip: Path) -> None:
    """An undo, a redo and a rollback open lines; what was taken back is marked ○."""
    assert drawn(cli.ok("log", "--graph").out)[::2] == [
        "● 7  redo to 5  ada  (head)",
        "│ ○ 6  undo of 5  ada",
        "● │ 5  rollback to 3  ada",
        "│ ○ 4  commit  ada",
        "├─╯",
        "│    days: added ['museum']",
        "│    near the park — bookings/1: added {'hotel': 'Plaza'}",
        "│    the user asked — bookings/0: added {'flight': 'XY1'} · to: None → 'NYC'",
        "     begins with bookings, to",
    ]


def test_the_graph_shows_the_line_that_a_merge_brought_in(cli: Cli, merged: Path) -> None:
    lines = drawn(cli.ok("log", "--graph", "--limit", "5").out)
    assert lines == [
        "● 9  merge of boston@1  ada  (head)",
        "├─╮    Boston it is — to: 'NYC' → 'BOS'",
        "● │ 8  patch  ada",
        "│ │    note: added 1",
        "│ ● boston@1  patch  ada",
        "│ │    to: 'NYC' → 'BOS'",
        "│ ● boston@0  fork of travel/42@3  ada",
        "│ │    try Boston",
        "● │ 7  redo to 5  ada",
        "│ │    bookings: +2 items (#0–#1) · days: added ['museum'] · to: None → 'NYC'",
    ]


def test_the_branches_of_a_merge_join_where_they_parted(cli: Cli, merged: Path) -> None:
    lines = drawn(cli.ok("log", "--graph").out)
    place = next(n for n, line in enumerate(lines) if "3  patch" in line)
    assert lines[place - 1 : place + 1] == ["├─┴─╯", "● 3  patch  ada  (good)"]


def test_without_the_graph_a_thread_shows_its_own_alone(cli: Cli, merged: Path) -> None:
    assert [line[0] for line in drawn(cli.ok("log").out)[::2]] == list("9876543210")


def test_a_fork_inherits_on_request(cli: Cli, merged: Path) -> None:
    own = drawn(cli.ok("log", "--thread", "boston").out)
    assert own == [
        "1  patch  ada  (head)",
        "   to: 'NYC' → 'BOS'",
        "0  fork of travel/42@3  ada",
        "   try Boston",
    ]
    more = drawn(cli.ok("log", "--thread", "boston", "--inherited").out)
    assert more[:4] == own
    assert [line.split()[0] for line in more[4::2]] == [f"travel/42@{n}" for n in (3, 2, 1, 0)]


def test_the_graph_of_what_is_inherited_is_one_line(cli: Cli, merged: Path) -> None:
    lines = cli.ok("log", "--thread", "boston", "--inherited", "--graph").lines
    assert all(line[0] in "●│" for line in lines[:-1])
    assert "○" not in "".join(lines)


def test_a_fork_that_merged_its_origin_shows_each_checkpoint_once(cli: Cli, merged: Path) -> None:
    with takeback.open(merged) as repo:
        thread, fork = repo.thread("travel/42"), repo.thread("boston")
        thread.patch({"later": 1})
        fork.merge(thread)
    found = cli.ok("log", "--thread", "boston", "--inherited", "--graph", "--json").json["checkpoints"]
    keys = [(c["thread"], c["version"]) for c in found]
    assert len(keys) == len(set(keys))
    assert ("travel/42", 0) in keys


def test_the_log_of_a_thread_whose_fork_was_deleted(cli: Cli, merged: Path) -> None:
    with takeback.open(merged) as repo:
        repo.thread("boston").delete()
    out = cli.ok("log", "--graph").out
    assert "merge of a thread that is gone@1" in out
    assert "boston" not in out.replace("Boston", "")


def test_the_limit(cli: Cli, trip: Path) -> None:
    assert len(cli.ok("log", "--limit", "3").lines) == 6
    assert len(cli.ok("log", "--limit", "3", "--json").json["checkpoints"]) == 3
    assert len(cli.ok("log", "--limit", "1000").lines) == 16


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_that_is_none(cli: Cli, trip: Path, limit: str) -> None:
    ran = cli("log", f"--limit={limit}")
    assert ran.code == 2
    assert "--limit" in ran.err


def test_as_json(cli: Cli, trip: Path) -> None:
    log = cli.ok("log", "--json").json
    assert (log["thread"], log["head"]) == ("travel/42", 7)
    assert [c["version"] for c in log["checkpoints"]] == list(range(7, -1, -1))
    assert [c["version"] for c in log["checkpoints"] if c["undone"]] == [6, 4]
    assert [c["names"] for c in log["checkpoints"]] == [["head"], [], [], [], ["good"], [], [], []]
    assert log["checkpoints"][3]["summary"].startswith("bookings: −2 items")
    assert log["checkpoints"][3]["reason"] == "cancel everything"


def test_undone_versions_are_dimmed_on_a_terminal(cli: Cli, trip: Path) -> None:
    lines = cli.ok("log", wide=100).lines
    assert lines[2].startswith("\x1b[2m6")
    assert lines[0].startswith("\x1b[1m7")


@pytest.mark.parametrize("wide", [40, 80])
def test_a_terminal_never_folds_the_log(cli: Cli, trip: Path, wide: int) -> None:
    """Cut with an ellipsis, so that the lines of the graph stay together."""
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in cli.ok("log", "--graph", wide=wide).lines]
    assert max(map(len, plain)) <= wide
    assert any(line.endswith("…") for line in plain)
    assert "ago" in plain[0] or "just now" in plain[0]


# --- lanes


def lanes(*steps: tuple[int, tuple[int, ...]]) -> list[str]:
    """What is drawn for versions with their parents, newest first."""
    drawing, found = Lanes(), []
    for version, parents in steps:
        row = drawing.draw(_key(version), [_key(parent) for parent in parents], "*")
        found += [line.rstrip() for line in ([row.join] if row.join else [])]
        found.append(f"{row.node}{version}")
        found += [row.below.rstrip()] if row.parted else []
    return found


def _key(version: int) -> Key:
    return (b"t", version)


def test_a_straight_line() -> None:
    assert lanes((2, (1,)), (1, (0,)), (0, ())) == ["* 2", "* 1", "* 0"]


def test_two_lines_from_one() -> None:
    assert lanes((3, (1,)), (2, (1,)), (1, (0,)), (0, ())) == ["* 3", "│ * 2", "├─╯", "* 1", "* 0"]


def test_three_lines_come_together_at_once() -> None:
    assert lanes((4, (0,)), (3, (0,)), (2, (0,)), (0, ())) == ["* 4", "│ * 3", "│ │ * 2", "├─┴─╯", "* 0"]


def test_a_merge_opens_a_column() -> None:
    assert lanes((3, (2, 1)), (2, (0,)), (1, (0,)), (0, ())) == [
        "* 3",
        "├─╮",
        "* │ 2",
        "│ * 1",
        "├─╯",
        "* 0",
    ]


def test_a_merge_of_what_another_column_waits_for() -> None:
    assert lanes((4, (1,)), (3, (2, 1)), (2, (1,)), (1, ())) == [
        "* 4",
        "│ * 3",
        "├─┤",
        "│ * 2",
        "├─╯",
        "* 1",
    ]


def test_lines_cross() -> None:
    assert lanes((5, (2,)), (4, (1,)), (3, (2,)), (2, (1,)), (1, ())) == [
        "* 5",
        "│ * 4",
        "│ │ * 3",
        "├─┼─╯",
        "* │ 2",
        "├─╯",
        "* 1",
    ]


def test_a_column_that_ended_is_used_again() -> None:
    assert lanes((5, (4,)), (3, (0,)), (4, ()), (2, (0,)), (0, ())) == [
        "* 5",
        "│ * 3",
        "* │ 4",
        "* │ 2",
        "├─╯",
        "* 0",
    ]


def test_a_parent_drawn_before_its_child_gets_no_endless_line() -> None:
    """Clocks of two machines may differ; a line that waits for what was drawn would never end."""
    assert lanes((2, (0,)), (0, ()), (1, (0,))) == ["* 2", "* 0", "* 1"]
