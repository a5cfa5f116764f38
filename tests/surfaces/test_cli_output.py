"""What is printed: whole in a file, fitting on a terminal, and harmless whatever an agent stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback.cli import words
from takeback.cli.output import Output, dumps, printable

SRC = Path(__file__).resolve().parents[2] / "src"
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def long(trip: Path) -> Path:
    """A reason, a label and names that are longer than any terminal."""
    with takeback.open(trip) as repo:
        thread = repo.thread("travel/42")
        thread.patch({"x": 1}, reason="because " * 40)
        repo.thread("n" * 150, agent="a" * 60, initial={})
    return trip


# --- files


def test_a_file_gets_everything(cli: Cli, long: Path) -> None:
    assert "because " * 39 in cli.ok("log").out
    assert "n" * 150 in cli.ok("threads").out
    assert "\x1b" not in cli.ok("log").out + cli.ok("threads").out + cli.ok("doctor").out


def test_lines_end_without_spaces(cli: Cli, long: Path) -> None:
    for command in (["log"], ["log", "--graph"], ["threads"], ["labels"], ["show"], ["doctor"]):
        assert [line for line in cli.ok(*command).lines if line != line.rstrip()] == []


def test_times_in_a_file_do_not_depend_on_when_it_is_read(cli: Cli, trip: Path) -> None:
    assert "ago" not in cli.ok("log").out
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", cli.ok("log").out)


# --- terminals


@pytest.mark.parametrize("command", [["threads"], ["labels"], ["audit"], ["log", "--graph"]])
def test_a_narrow_terminal_is_not_overrun(cli: Cli, long: Path, command: list[str]) -> None:
    lines = [ESCAPE.sub("", line) for line in cli.ok(*command, wide=60).lines]
    assert max(map(len, lines)) <= 60


def test_a_name_is_folded_and_never_cut(cli: Cli, long: Path) -> None:
    """A name that was cut could not be typed."""
    out = ESCAPE.sub("", cli.ok("threads", wide=60).out)
    assert out.count("n") >= 150


def test_a_plan_is_never_cut(cli: Cli, long: Path) -> None:
    """It is what somebody agrees to."""
    with takeback.open(long) as repo:
        repo.thread("travel/42").patch({"/a b c d e f g h i j k l m n o p q r s t u v w x y z": "x" * 200})
    out = ESCAPE.sub("", cli.ok("rollback", "0", "--plan", wide=40).out)
    assert "u v w x y z: removed" in out.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "environment"),
    [(["--no-color"], {}), ([], {"NO_COLOR": "1"})],
)
def test_without_colours(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], environment: dict[str, str]
) -> None:
    coloured = re.compile(r"\x1b\[[\d;]*3\d")
    assert coloured.search(cli.ok("log", wide=80).out)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not coloured.search(cli.ok("log", *words, wide=80).out)


def test_json_is_never_coloured(cli: Cli, trip: Path) -> None:
    assert cli.ok("log", "--json", wide=40).json["head"] == 7


# --- hostile data


HOSTILE = "red \x1b[31m\x9b2J\x07 \u202e line\nbreak "


def test_nothing_stored_reaches_the_terminal_as_a_command(cli: Cli, trip: Path) -> None:
    """States, reasons, actors and names come from agents; one could clear the screen, or hide a line."""
    with takeback.open(trip, actor=HOSTILE) as repo:
        thread = repo.thread("travel/42")
        thread.patch({HOSTILE: HOSTILE}, reason=HOSTILE, meta={"m": HOSTILE})
    commands = (["log"], ["log", "--graph"], ["show"], ["state"], ["diff"], ["undo", "--plan"], ["audit"])
    for command in commands:
        for how in ({}, {"wide": 100}):
            out = ESCAPE.sub("", cli.ok(*command, **how).out)
            assert all(char.isprintable() for char in out.replace("\n", "")), (command, out)
    assert len(cli.ok("log", "--limit", "1").lines) == 2


def test_hostile_data_is_whole_in_json(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("travel/42").patch({HOSTILE: HOSTILE})
    assert cli.ok("state", "--json").json[HOSTILE] == HOSTILE
    assert json.loads(cli.ok("state").out)[HOSTILE] == HOSTILE


def test_markup_is_not_obeyed(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("[bold]x[/bold]", initial={})
    assert "[bold]x[/bold]" in cli.ok("threads", wide=100).out


def test_hostile_errors(cli: Cli, trip: Path) -> None:
    assert "\x1b" not in cli("log", "--thread", HOSTILE).err


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain ü 日本 ●", "plain ü 日本 ●"), ("a\nb", "a\\nb"), ("\x1b[1m", "\\x1b[1m"), ("\u202e", "\\u202e")],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_dumps_escapes_and_reads_back() -> None:
    value = {"k\x9b": ["\u202e", "ü", "😀", "\ue000", "\U000e0001"], "b": b"\x00"}
    text = dumps(value)
    assert all(char.isprintable() for char in text.replace("\n", ""))
    assert "ü" in text
    assert "😀" in text
    assert json.loads(text) == {"k\x9b": value["k\x9b"], "b": {"$bytes": "AA=="}}


def test_dumps_refuses_what_has_no_form() -> None:
    with pytest.raises(TypeError, match="set has no JSON form"):
        dumps({"x": {1}})


# --- terminals that are poor


def test_a_terminal_without_unicode(trip: Path) -> None:
    """The graph is drawn with what there is; what an agent wrote is escaped."""
    with takeback.open(trip) as repo:
        repo.thread("travel/42").patch({"x": "日本"}, reason="日本")
    ran = subprocess.run(
        [sys.executable, "-m", "takeback", "log", "--graph"],
        env=os.environ | {"PYTHONPATH": str(SRC), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    text = ran.stdout.decode("ascii")
    assert "| o 6 " in text
    assert "|-'" in text
    assert "->" in text
    assert "\\u65e5" in text


def test_a_real_terminal(trip: Path) -> None:
    """Through a pseudo-terminal, as a person has one."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "takeback", "show", "4"],
        env=os.environ | {"PYTHONPATH": str(SRC), "COLUMNS": "80", "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0
    os.close(ours)
    assert "cancel everything" in shown.decode()
    assert b"\x1b[" in shown


# --- words


NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("back", "said"),
    [
        (timedelta(seconds=0), "just now"),
        (timedelta(seconds=4), "just now"),
        (timedelta(seconds=59), "59 s ago"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=23, minutes=59), "23 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=29, hours=23), "29 days ago"),
    ],
)
def test_how_long_ago(back: timedelta, said: str) -> None:
    assert words.ago(NOW - back, NOW) == said


def test_long_ago_and_in_the_future_are_dates() -> None:
    """Another machine's clock may be ahead; `-3 s ago` would help nobody."""
    assert re.fullmatch(r"2026-01-\d\d", words.ago(NOW - timedelta(days=60), NOW))
    assert words.ago(NOW + timedelta(hours=1), NOW).startswith("2026-03-1")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (61440, "61.4 kB"),
        (5_000_000, "5.0 MB"),
        (2_000_000_000, "2.0 GB"),
        (3_500_000_000_000, "3.5 TB"),
    ],
)
def test_sizes(count: int, said: str) -> None:
    assert words.size(count) == said


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "begins empty"),
        ({"b": 1, "a": 2}, "begins with b, a"),
        (dict.fromkeys("abcdefgh"), "begins with a, b, c, d, e, f and 2 more"),
        ([1, 2], "begins with [1, 2]"),
        ("text", 'begins with "text"'),
        (None, "begins with null"),
        ("x" * 100, 'begins with "' + "x" * 58 + "…"),
    ],
)
def test_beginnings(state: object, said: str) -> None:
    assert words.beginning(state) == said


def test_counts() -> None:
    assert words.count(1, "checkpoint") == "1 checkpoint"
    assert words.count(1234, "checkpoint") == "1,234 checkpoints"


def test_a_short_id_is_a_reference(cli: Cli, trip: Path) -> None:
    short = cli.ok("log", "--limit", "1").out.split()[1]
    assert cli.ok("show", short, "--json").json["checkpoint"]["version"] == 7


def test_facts_leave_out_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=False, color=False).facts(
        [("a", "1"), ("long", ("x", "bold")), ("b", None), ("c", ("", "x"))]
    )
    assert capsys.readouterr().out == "a     1\nlong  x\n"
