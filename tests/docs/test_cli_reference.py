"""docs/cli.md says what the command line is: every command, every option, and nothing that is not there."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest

from takeback import errors
from takeback.cli import main
from takeback.cli.parser import GROUPS, actions, build, subparsers

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
ROOT = build()
COMMANDS = subparsers(ROOT)
SECTIONS = dict(re.findall(r"^### takeback ([^\n]+)\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))
SHARED = PAGE.partition("## Options of every command")[2].partition("\n## ")[0]


def spelled(action: argparse.Action) -> set[str]:
    """How the page writes an option, with what it takes, or an argument."""
    takes = f" {action.metavar}" if action.nargs != 0 else ""
    return {f"{option}{takes}" for option in action.option_strings} or {str(action.metavar)}


def rows(section: str) -> dict[str, str]:
    """What the tables of a section name, with what they say of it."""
    found = {}
    for first, second in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.M):
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", first), second)
    return found


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sorted(SECTIONS) == sorted(COMMANDS)


def test_the_groups_are_those_of_the_help() -> None:
    assert [title for title in re.findall(r"^## (.*)$", PAGE, re.M) if title in GROUPS.values()] == [
        *GROUPS.values()
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_there_and_no_other(name: str) -> None:
    expected = {text for action in actions(COMMANDS[name]) for text in spelled(action)}
    assert set(rows(SECTIONS[name])) == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_is_explained_as_its_help_explains_it(name: str) -> None:
    """Two wordings of one thing grow apart."""
    said = rows(SECTIONS[name])
    for action in actions(COMMANDS[name]):
        for text in spelled(action):
            assert said[text] == action.help


def test_the_options_of_every_command() -> None:
    expected = {
        text: action.help for action in ROOT._actions if action.option_strings for text in spelled(action)
    }
    assert rows(SHARED) == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_a_section_begins_with_the_line_of_the_overview_and_has_an_example(name: str) -> None:
    line = next(text for group in ROOT.commands.values() for other, text in group if other == name)
    assert SECTIONS[name].lstrip().startswith(f"{line}.")
    assert re.search(rf"^\$ .*takeback {name}", SECTIONS[name], re.M)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_are_words_that_the_parser_takes(name: str) -> None:
    for line in re.findall(r"^\$ takeback (.*)$", SECTIONS[name], re.M):
        args = ROOT.parse_args(shlex.split(line))
        assert args.command == name


def test_options_named_in_the_text_exist() -> None:
    known = {option for parser in (ROOT, *COMMANDS.values()) for option in parser._option_string_actions}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) <= known


def test_every_exit_code_is_there() -> None:
    codes = {c.exit_code for c in vars(errors).values() if isinstance(c, type) and hasattr(c, "exit_code")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)} == codes | {0, 130}


def test_the_first_example_runs_and_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = re.search(r"```console\n(.*?)```", PAGE, re.S)
    assert block is not None
    shown, printed = [], []
    for line in block[1].splitlines():
        if not line.startswith("$ takeback "):
            shown.append(line)
            continue
        assert main(shlex.split(line.removeprefix("$ takeback "))) == 0
        out = capsys.readouterr().out
        printed += out.splitlines() if line.split()[2] in ("log", "rollback") else []
    changing = r"c(\d)-\w+|  (?:just now|\d{4}-\S+ \S+ \S+)  \w+"  # ids, times and who runs the test
    assert [re.sub(changing, r"c\1", line) for line in printed] == [
        re.sub(changing, r"c\1", line) for line in shown
    ]
