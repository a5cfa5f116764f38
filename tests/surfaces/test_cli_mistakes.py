"""Mistakes on purpose, and things that go wrong: every exit code, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback import errors
from takeback.cli import main

SRC = Path(__file__).resolve().parents[2] / "src"

READING = [
    ["threads"], ["log"], ["show"], ["state"], ["diff"], ["labels"], ["verify"], ["verify", "--all"],
    ["audit"], ["seal"], ["undo"], ["redo"], ["rollback", "0"], ["revert", "0"], ["fork"], ["merge", "x"],
    ["label", "x"], ["export", "x"], ["delete", "--thread", "x"],
]  # fmt: skip


# --- no store, no thread


@pytest.mark.parametrize("words", READING)
def test_without_a_store_nothing_is_made(cli: Cli, data_home: str, words: list[str]) -> None:
    ran = cli(*words)
    assert ran.code == 5
    first, second = ran.err.splitlines()
    assert first.startswith("takeback: there is no store at ")
    assert "first commit" in second
    assert not Path(data_home).exists()


@pytest.mark.parametrize(
    "words", [w for w in READING if w[0] not in ("threads", "audit") and "--all" not in w]
)
def test_an_unknown_thread(cli: Cli, trip: Path, words: list[str]) -> None:
    ran = cli(*words, "--thread", "nobody", "--json")
    assert ran.code == 3, ran
    assert ran.error["kind"] == "unknown_thread"


def test_an_unknown_thread_tells_where_to_look(cli: Cli, trip: Path) -> None:
    assert cli("log", "--thread", "nobody").err.splitlines() == [
        "takeback: there is no thread 'nobody'",
        "  `takeback threads` lists them",
    ]


@pytest.mark.parametrize("words", [["log"], ["undo"], ["audit", "--thread", "x"]])
def test_a_store_without_threads(cli: Cli, store_path: Path, words: list[str]) -> None:
    takeback.open(store_path).close()
    ran = cli(*words, "--db", store_path)
    assert ran.code == 3
    assert "thread" in ran.err


def test_which_thread_was_taken_is_said(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr, and only when nobody named it."""
    assert cli.ok("state").err == ""
    assert cli.ok("state", "--thread", "travel/42").err == ""
    monkeypatch.delenv("TAKEBACK_THREAD")
    ran = cli.ok("state", "--json")
    assert ran.err == "takeback: on thread 'travel/42', the one written to last\n"
    assert ran.json["to"] == "NYC"


def test_a_named_thread_goes_before_the_environment(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("other", initial={"x": 1})
    assert cli.ok("state", "--thread", "other", "--json").json == {"x": 1}


def test_a_named_store_goes_before_the_environment(cli: Cli, trip: Path, tmp_path: Path) -> None:
    takeback.open(tmp_path / "empty.db").close()
    assert cli.ok("threads", "--db", "empty.db").out == "no threads\n"


def test_the_default_place(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    linux = str(tmp_path / ".local/share/takeback/takeback.db")
    assert cli.ok("doctor", "--json").json["store"]["location"] == linux
    monkeypatch.setattr(sys, "platform", "darwin")
    mac = str(tmp_path / "Library/Application Support/takeback/takeback.db")
    assert cli.ok("doctor", "--json").json["store"]["location"] == mac


# --- stores that are none


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("text", "not_a_store"),
        ("sqlite", "not_a_store"),
        (".", "store_unavailable"),
        ("missing.db", "store_unavailable"),
        ("ftp://host/store", "store_unavailable"),
    ],
)
def test_a_place_that_is_no_store(cli: Cli, tmp_path: Path, place: str, kind: str) -> None:
    (tmp_path / "text").write_text("something that was written by somebody else")
    make = "import sqlite3; c = sqlite3.connect('sqlite'); c.execute('CREATE TABLE t (x)'); c.commit()"
    subprocess.run([sys.executable, "-c", make], cwd=tmp_path, check=True)
    for words in (["log"], ["commit", "--set", "x=1"]):
        if words[0] == "commit" and place == "missing.db":
            continue
        ran = cli(*words, "--db", place, "--json")
        assert (ran.code, ran.error["kind"]) == (5, kind), ran


def test_a_folder_that_is_not_there(cli: Cli) -> None:
    ran = cli("commit", "--db", "no/such/folder/s.db", "--set", "x=1")
    assert ran.code == 5
    assert "there is no folder" in ran.err


def test_a_data_home_that_cannot_be_made(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    ran = cli("commit", "--set", "x=1")
    assert ran.code == 5
    assert "cannot be made" in ran.err


def test_a_tenant_that_cannot_be(cli: Cli, trip: Path) -> None:
    assert cli("threads", "--tenant", "a\nb").code == 2


# --- every exit code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["threads"], 0),
        (["rollback", "0"], 2),
        (["state", "--path", "/nowhere"], 2),
        (["show", "99"], 3),
        (["show", "nolabel"], 3),
        (["redo"], 4),
        (["log", "--db", "missing.db"], 5),
        (["verify", "--seal", "noise"], 6),
    ],
)
def test_exit_codes(cli: Cli, trip: Path, tmp_path: Path, words: list[str], code: int) -> None:
    (tmp_path / "noise").write_text("noise")
    ran = cli(*words)
    assert ran.code == code
    assert (ran.err == "") == (code == 0)
    said = cli(*words, "--json")
    assert said.code == code
    assert said.err == ""
    assert ("error" in said.json) == (code != 0)


@pytest.mark.parametrize("kind", [errors.TakebackError, errors.StoreFull, errors.Undecided, errors.BadExport])
def test_the_exit_code_is_that_of_the_error(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch, kind: type[errors.TakebackError]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise kind("it did not work", thread="t", checkpoint=3, path="/a", hint="Try this")

    monkeypatch.setattr("takeback.repo.Repo.threads", fail)
    ran = cli("threads")
    assert ran.code == kind.exit_code
    assert ran.err.splitlines() == [
        "takeback: it did not work (thread 't', checkpoint 3, at /a)",
        "  Try this",
    ]
    assert cli("threads", "--json").error == {
        "kind": kind.kind,
        "message": "it did not work",
        "thread": "t",
        "checkpoint": 3,
        "path": "/a",
        "hint": "Try this",
    }


def test_the_help_lists_every_exit_code_there_is(cli: Cli) -> None:
    text = cli.ok("--help").out.partition("Exit codes:")[2]
    codes = {c.exit_code for c in vars(errors).values() if isinstance(c, type) and hasattr(c, "exit_code")}
    listed = {int(line.split()[0]) for line in text.splitlines() if line[:5].strip().isdigit()}
    assert codes | {0, 130} == listed


# --- what nobody expected


def test_a_defect_is_one_line(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("takeback.repo.Repo.threads", fail)
    ran = cli("threads")
    assert ran.code == 1
    assert ran.err.startswith("takeback: internal error: ZeroDivisionError: division by zero\n")
    assert "Traceback" not in ran.err
    assert cli("threads", "--json").error["kind"] == "error"
    monkeypatch.setenv("TAKEBACK_TRACEBACK", "1")
    assert "Traceback (most recent call last)" in cli("threads").err


def test_an_interruption_is_clean(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("takeback.repo.Repo.threads", interrupt)
    ran = cli("threads")
    assert (ran.code, ran.out, ran.err) == (130, "", "\ntakeback: interrupted\n")


def test_an_interruption_at_the_question_changes_nothing(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("takeback.cli.ask._answer", interrupt)
    assert cli("rollback", "4", terminal=True).code == 130
    assert cli.ok("log", "--json").json["head"] == 7


def test_a_reader_that_leaves_early_is_no_error(trip: Path) -> None:
    """`takeback log | head -1`: silent, and nothing at exit either."""
    with takeback.open(trip) as repo:
        thread = repo.thread("travel/42")
        for number in range(300):
            thread.patch({"text": "x" * 50, "n": number}, reason="r" * 2000)
    command = f"'{sys.executable}' -m takeback log | head -1; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", command],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("307  ")


def test_a_stdout_without_a_file_behind_it(trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook, say."""

    class Closed:
        encoding = "utf-8"

        def isatty(self) -> bool:
            return False

        def write(self, _: str) -> None:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise OSError("no file")

    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["threads"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["log", "--db", "missing.db"],
        ["rollback", "nowhere"],
        ["commit", "--set", "x"],
        ["lgo"],
        ["state", "-x"],
    ],
)
def test_no_traceback_in_a_process_of_its_own(trip: Path, words: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "takeback", *words],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in {2, 3, 5}
    assert ran.stderr.startswith("takeback: ")
    assert len(ran.stderr.splitlines()) <= 2


@pytest.mark.parametrize("kind", [errors.PlanStale, errors.HandlerMissing, errors.Unacknowledged])
def test_what_the_library_says_to_call_is_told_as_something_to_type(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch, kind: type[errors.TakebackError]
) -> None:
    """`plan.apply(acknowledge=True)` is of no use at a shell."""

    def fail(*_: Any, **__: Any) -> None:
        raise kind("it did not work", hint="thread.refresh(), then plan.apply()")

    monkeypatch.setattr("takeback.repo.Repo.threads", fail)
    (_, hint) = cli("threads").err.splitlines()
    assert "(" not in hint
    assert "again" in hint or "--" in hint
    assert cli("threads", "--json").error["hint"] == hint.strip()
