"""What a type checker says of programs that use takeback: the right types, and errors where it is misused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAMS = sorted(path.name for path in HERE.glob("*ed.py"))

SAID = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)")


def mypy(*files: str) -> str:
    """All that mypy says of these files, with the project's settings."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", *files]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not run.stderr, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def said() -> dict[str, dict[int, str]]:
    """By program and line: the types that were revealed, and the codes of the errors."""
    found: dict[str, dict[int, list[str]]] = {name: {} for name in PROGRAMS}
    for line in mypy(*(str(HERE.relative_to(ROOT) / name) for name in PROGRAMS)).splitlines():
        match = SAID.fullmatch(line)
        if match is not None and (name := Path(match["file"]).name) in found:
            found[name].setdefault(int(match["line"]), []).append(meaning(match["kind"], match["text"]))
    return {name: {number: said_of(what) for number, what in lines.items()} for name, lines in found.items()}


def meaning(kind: str, text: str) -> str:
    """The code of an error, the type that was revealed, or nothing."""
    if kind == "error":
        return text.rpartition("[")[2].rstrip("]")
    revealed = re.fullmatch(r'Revealed type is "(.*)"', text)
    return "type: " + re.sub(r"\b\w+\.(?=\w)", "", revealed[1]) if revealed else ""


def said_of(what: list[str]) -> str:
    """As the comment of the line says it: one type, or each code once."""
    if what[0].startswith("type: "):
        return what[0].removeprefix("type: ")
    return "refused: " + ", ".join(dict.fromkeys(filter(None, what)))


def expected(name: str) -> dict[int, str]:
    """What the comments of a program say."""
    lines = enumerate((HERE / name).read_text().splitlines(), 1)
    return {number: line.rpartition("  # ")[2] for number, line in lines if "  # " in line}


def test_there_are_programs_for_both_sides() -> None:
    assert PROGRAMS == ["async_accepted.py", "async_refused.py", "sync_accepted.py", "sync_refused.py"]
    assert all(len(expected(name)) > 10 for name in PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_checker_says_what_the_program_does(name: str, said: dict[str, dict[int, str]]) -> None:
    assert said[name] == expected(name)


def test_the_module_behind_the_stub_is_checked_too() -> None:
    """Where a stub stands beside a module, mypy reads it alone, unless it is told to read the module."""
    said = mypy("src/takeback/aio.py", "scripts/make_aio_stub.py")
    assert [line for line in said.splitlines() if re.match(r"\S*(aio|stub)\.py:", line)] == []
