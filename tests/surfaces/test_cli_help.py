"""Help, suggestions, completions, versions: the command line explains itself."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback.cli import parser as parsers
from takeback.cli.parser import GROUPS, build, subparsers

SRC = Path(__file__).resolve().parents[2] / "src"
ROOT = build()
COMMANDS = subparsers(ROOT)


def takeback_in_a_process(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "takeback", *words],
        env=os.environ | {"PYTHONPATH": str(SRC)} | more,
        capture_output=True,
        text=True,
        check=False,
    )


# --- help


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_argument_and_option_has_help(name: str) -> None:
    parser = COMMANDS[name] if name else ROOT
    bare = [
        action.dest
        for action in parser._actions
        if not isinstance(action, argparse._SubParsersAction) and not (action.help or "").strip()
    ]
    assert bare == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_global_options(name: str) -> None:
    shared = {"--db", "--thread", "--tenant", "--actor", "--key-file", "--json", "--no-color", "--help"}
    assert shared <= set(COMMANDS[name]._option_string_actions)


def test_every_command_is_listed_once_in_a_group() -> None:
    listed = [name for group in ROOT.commands.values() for name, _ in group]
    assert sorted(listed) == sorted(COMMANDS)
    assert all(ROOT.commands[group] for group in GROUPS)


def test_the_overview_has_groups_examples_and_exit_codes(cli: Cli) -> None:
    out = cli.ok("--help").out
    for word in (*GROUPS.values(), "Examples:", "Exit codes:", "130  interrupted", "TAKEBACK_THREAD"):
        assert word in out
    assert cli.ok().out == out
    assert cli.ok("help").out == out


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_pages_fit_a_terminal(cli: Cli, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = cli.ok(*name.split(), "--help").lines
    listings = ("  zsh", "  fish", "  bash", "  takeback commit --set")  # what is copied stays in one line
    assert [line for line in lines if len(line) > 84 and not line.startswith(listings)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_usage_and_an_example(cli: Cli, name: str) -> None:
    out = cli.ok(*name.split(), "--help").out
    assert out.startswith(f"usage: takeback {name}")
    assert "--tenant" not in out.partition("\n\n")[0], "the usage is about what is particular"
    assert f"takeback {name}" in out.partition("example:")[2]
    assert cli.ok("help", *name.split()).out == out


def test_help_as_json(cli: Cli) -> None:
    assert cli.ok("help", "undo", "--json").json["help"].startswith("usage: takeback undo")


def test_help_of_nothing(cli: Cli) -> None:
    ran = cli("help", "unod")
    assert ran.code == 2
    assert "Did you mean undo?" in ran.err


# --- mistakes in the words


@pytest.mark.parametrize(
    ("words", "says", "helps"),
    [
        (["lgo"], "there is no command 'lgo'", "Did you mean log?"),
        (["rolback", "5"], "there is no command 'rolback'", "Did you mean rollback?"),
        (["xyzzy"], "there is no command 'xyzzy'", "See `takeback --help`"),
        (["log", "--grpah"], "there is no option --grpah", "Did you mean --graph?"),
        (["log", "--limt=3"], "there is no option --limt", "Did you mean --limit?"),
        (["log", "--wat"], "there is no option --wat", "See `takeback log --help`"),
        (["--wat"], "there is no option --wat", "See `takeback --help`"),
        (["log", "5"], "'5' is one argument too many", "See `takeback log --help`"),
        (["rollback"], "REF", "See `takeback rollback --help`"),
        (["log", "--limit", "x"], "invalid int value", "See `takeback log --help`"),
        (["completions", "tcsh"], "tcsh", "See `takeback completions --help`"),
        (["--thread"], "expected one argument", "See `takeback --help`"),
    ],
)
def test_a_mistake_says_what_was_meant(cli: Cli, words: list[str], says: str, helps: str) -> None:
    ran = cli(*words)
    assert ran.code == 2
    assert ran.out == ""
    first, second = ran.err.splitlines()
    assert first.startswith("takeback: ")
    assert says in first
    assert second.strip() == helps


def test_a_mistake_as_json(cli: Cli) -> None:
    ran = cli("lgo", "--json")
    assert (ran.code, ran.err) == (2, "")
    assert ran.error == {
        "kind": "bad_request",
        "message": "there is no command 'lgo'",
        "hint": "Did you mean log?",
    }


def test_options_are_not_guessed_from_their_beginning(cli: Cli) -> None:
    """`--ye` would otherwise agree to what `--yes` agrees to, until a `--yesterday` is added."""
    assert cli("rollback", "5", "--ye").code == 2


def test_global_options_stand_before_or_after(cli: Cli, trip: Path) -> None:
    before = cli.ok("--json", "--thread", "travel/42", "state")
    after = cli.ok("state", "--json", "--thread", "travel/42")
    assert before == after
    assert cli("--thread", "nobody", "state").code == 3
    assert cli.ok("--thread", "nobody", "state", "--thread", "travel/42").json == after.json


# --- version


def test_the_version(cli: Cli) -> None:
    assert cli.ok("--version").out == f"takeback {takeback.__version__}\n"


def test_the_module_runs() -> None:
    ran = takeback_in_a_process("--version")
    assert (ran.returncode, ran.stdout) == (0, f"takeback {takeback.__version__}\n")


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["lgo"]])
def test_words_alone_load_no_library(words: list[str]) -> None:
    """What needs no store starts without one: the façade, SQLite and rich wait for their command."""
    script = (
        "import sys; from takeback.cli import main; code = main(sys.argv[1:]);"
        "late = {'takeback.repo', 'apsw', 'msgspec', 'rich', 'asyncio'} & set(sys.modules);"
        "print('loaded', sorted(late))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.endswith("loaded []\n")


def test_what_goes_to_a_file_is_not_drawn(trip: Path) -> None:
    script = (
        "import sys; from takeback.cli import main; main(['log', '--graph']); main(['threads']);"
        "print('rich' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.endswith("False\n")


# --- completions


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_knows_every_command_and_option(cli: Cli, shell: str) -> None:
    script = cli.ok("completions", shell).out
    for name, parser in COMMANDS.items():
        assert all(word in script for word in name.split())
        for option in parser._option_string_actions:
            spelled = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            assert (spelled if shell == "fish" else option) in script, (name, option)
    assert "@" not in script.replace('"${given[@]}"', ""), "nothing of the template is left"
    assert cli.ok("completions", shell, "--json").json == {"shell": shell, "script": script}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_its_script(cli: Cli, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        shell = "bash"  # a machine without the other shells still checks the one that it has
    script = tmp_path / "script"
    script.write_text(cli.ok("completions", shell).out)
    ran = subprocess.run([shell, "-n", str(script)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def completed(cli: Cli, tmp_path: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    (tmp_path / "script").write_text(cli.ok("completions", "bash").out)
    quoted = " ".join(f"'{word}'" for word in ("takeback", *words))
    program = (
        f'takeback() {{ "{sys.executable}" -m takeback "$@"; }}\n'
        f"compopt() {{ :; }}\nsource {tmp_path / 'script'}\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _takeback\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ran = subprocess.run(
        ["bash", "-c", program],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stderr == ""
    return ran.stdout.split("\n")[:-1] if ran.stdout.strip() else []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ro"], ["rollback"]),
        (["re"], ["recover", "redo", "revert"]),
        (["--th"], ["--thread"]),
        (["rollback", "--p"], ["--plan"]),
        (["log", "--g"], ["--graph"]),
        (["completions", ""], ["bash", "fish", "zsh"]),
        (["rollback", ""], ["good", "head"]),
        (["diff", "3", "go"], ["good"]),
        (["label", "g"], ["good"]),
        (["merge", ""], ["travel/42"]),
        (["log", "--thread", "tr"], ["travel/42"]),
        (["--thread", "tr"], ["travel/42"]),
        (["--db", "elsewhere.db", "log", "--thread", ""], []),
        (["help", "und"], ["undo"]),
        (["commit", "--reason", ""], []),
        (["import", "som"], ["some.file"]),
        (["undo", ""], []),
        (["eff"], ["effects"]),
        (["effects", "re"], ["resolve"]),
        (["--thread", "effects", "effects", "resolve", "--h"], ["--happened", "--help"]),
        (["help", "appr"], ["approvals"]),
    ],
)
def test_bash_completes(cli: Cli, trip: Path, tmp_path: Path, words: list[str], offered: list[str]) -> None:
    (tmp_path / "some.file").touch()
    assert sorted(completed(cli, tmp_path, *words)) == sorted(offered)


def test_no_store_offers_nothing(cli: Cli, data_home: str, tmp_path: Path) -> None:
    assert completed(cli, tmp_path, "merge", "") == []


def test_the_names_of_options_are_those_of_the_parser() -> None:
    """The scripts ask the parser alone; a kind that no shell knows would offer itself as a word."""
    kinds = {
        getattr(action, "completes", "none")
        for parser in COMMANDS.values()
        for action in parsers.actions(parser)
    }
    assert kinds <= {"command", "file", "label", "none", "ref", "thread"}
