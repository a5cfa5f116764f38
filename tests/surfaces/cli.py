"""Running the command line inside a test, and a store that has seen a few things."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import takeback
from takeback.cli import main


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document; anything beside it on stdout fails here."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return self.json["error"]

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Typed(io.TextIOWrapper):
    """Standard input with words in it, from a terminal or not."""

    def __init__(self, text: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Cli:
    """`takeback …` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(
        self, *words: object, typed: str = "", terminal: bool = False, wide: int | None = None
    ) -> Ran:
        """`typed` is standard input; with `terminal` somebody sits there; `wide` makes stdout a terminal."""
        self._capsys.readouterr()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", Typed(typed, terminal=terminal))
            if wide is not None:
                patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
                patch.setenv("COLUMNS", str(wide))
                patch.setenv("TERM", "xterm-256color")
            code = main([str(word) for word in words])
        printed = self._capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    def ok(self, *words: object, **how: Any) -> Ran:
        """The same, and it went well."""
        ran = self(*words, **how)
        assert ran.code == 0, ran
        return ran


def make_trip(path: Path) -> None:
    """travel/42: a trip (versions 0–3), emptied (4), rolled back (5), undone (6), redone (7)."""
    with takeback.open(path, actor="ada") as repo:
        trip = repo.thread(
            "travel/42",
            agent="travel-agent",
            user="u1",
            meta={"customer": "acme"},
            initial={"to": None, "bookings": []},
        )
        with trip.step("flight", reason="the user asked") as step:
            step.state["to"] = "NYC"
            step.state["bookings"].append({"flight": "XY1"})
        trip.append("bookings", {"hotel": "Plaza"}, reason="near the park")
        trip.patch({"days": ["museum"]})
        trip.label("good")
        trip.commit({"to": None, "bookings": []}, reason="cancel everything")
        trip.rollback("good", reason="that was wrong")
        trip.undo()
        trip.redo()


STATE = {"to": "NYC", "bookings": [{"flight": "XY1"}, {"hotel": "Plaza"}], "days": ["museum"]}
EMPTIED: dict[str, Any] = {"to": None, "bookings": []}


def state_of(path: Path, thread: str = "travel/42") -> Any:
    """What the library reads, past the command line."""
    with takeback.open(path, create=False) as repo:
        found = repo.thread(thread).state
        return found.copy() if isinstance(found, dict) else found


def head_of(path: Path, thread: str = "travel/42") -> takeback.Checkpoint:
    with takeback.open(path, create=False) as repo:
        return repo.thread(thread).head
