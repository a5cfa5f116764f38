"""`takeback install`: what is written into other people's configuration, and that it comes out again."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

from takeback.coding import install as installing
from takeback.coding.table import AGENTS, is_ours
from takeback.errors import BadSettings

NAMES = sorted(AGENTS)
THEIRS = {
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine.sh"}]}]}
}
FILES = {
    "two spaces": json.dumps({"model": "x"} | THEIRS, indent=2) + "\n",
    "four spaces, no newline at the end": json.dumps({"model": "x"} | THEIRS, indent=4),
    "tabs": json.dumps(THEIRS, indent="\t") + "\n",
    "one line": json.dumps(THEIRS),
    "windows": json.dumps(THEIRS, indent=2).replace("\n", "\r\n") + "\r\n",
    "byte order mark": "\ufeff" + json.dumps(THEIRS, indent=2),
    "not only ascii, and odd spacing": '{ "name" : "Zoë — 日本" ,\n\n   "hooks":{} }\n\n',
    "empty object": "{}",
    "empty": "",
    "blank": " \n\n",
    "hooks without any": '{"hooks": {"Stop": []}}',
}
MALFORMED = {
    "a comma too many": ('{"a": 1,}', "line 1, column"),
    "a comment": ('{\n  // why\n  "a": 1\n}', "line 2"),
    "a list": ("[]", "a list"),
    "null": ("null", "null"),
    "hooks as a list": ('{"hooks": []}', "under hooks"),
    "an event as an object": ('{"hooks": {"Stop": {}}}', "hooks.Stop"),
    "half": ('{"hooks": {"Stop": [', "no JSON"),
    "nested": ("[" * 100_000, "nested too deeply"),
}


def configuration(name: str, project: Path) -> Path:
    return project / AGENTS[name].project


def put(path: Path, text: str) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode()
    path.write_bytes(raw)
    return raw


def commands(path: Path) -> dict[str, list[str]]:
    """Event → the commands of takeback in it."""
    hooks = json.loads(path.read_text(encoding="utf-8-sig"))["hooks"]
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"] if is_ours(hook["command"])]
        for event, groups in hooks.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_event_is_heard_once_however_often_one_installs(cli: Cli, project: Path, name: str) -> None:
    """Two hooks of ours on one event would make two steps of each call."""
    for _ in range(3):
        cli.ok("install", name, "--yes")
    path = configuration(name, project)
    assert {event: len(found) for event, found in commands(path).items()} == dict.fromkeys(
        AGENTS[name].events, 1
    )
    assert "already installed" in cli.ok("install", name).out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", FILES.values(), ids=list(FILES))
def test_a_file_comes_back_byte_for_byte(cli: Cli, project: Path, name: str, text: str) -> None:
    path = configuration(name, project)
    raw = put(path, text)
    cli.ok("install", name, "--yes")
    assert path.read_bytes() != raw
    cli.ok("install", name, "--uninstall", "--yes")
    assert path.read_bytes() == raw
    assert "nothing to change" in cli.ok("install", name, "--uninstall", "--yes").out


@pytest.mark.parametrize("name", NAMES)
def test_a_file_and_its_folder_that_were_not_there_are_not_there_afterwards(
    cli: Cli, project: Path, name: str
) -> None:
    cli.ok("install", name, "--yes")
    assert configuration(name, project).exists()
    cli.ok("install", name, "--uninstall", "--yes")
    assert sorted(entry.name for entry in project.iterdir()) == [".git"]


def test_a_folder_in_which_somebody_put_something_stays(cli: Cli, project: Path) -> None:
    cli.ok("install", "claude-code", "--yes")
    (project / ".claude" / "notes.md").write_text("mine")
    cli.ok("install", "claude-code", "--uninstall", "--yes")
    assert [entry.name for entry in (project / ".claude").iterdir()] == ["notes.md"]


def test_what_others_have_there_still_runs(cli: Cli, project: Path) -> None:
    path = configuration("claude-code", project)
    put(path, FILES["two spaces"])
    cli.ok("install", "claude-code", "--yes")
    document = json.loads(path.read_text())
    assert document["model"] == "x"
    assert document["hooks"]["PreToolUse"][0] == THEIRS["hooks"]["PreToolUse"][0]


@pytest.mark.parametrize("text", FILES.values(), ids=list(FILES))
def test_after_an_edit_in_between_only_ours_is_taken_out_and_that_is_said(
    cli: Cli, project: Path, text: str
) -> None:
    """The bytes from before would take the user's edit away with ours."""
    path = configuration("claude-code", project)
    put(path, text)
    cli.ok("install", "claude-code", "--yes")
    document = json.loads(path.read_text(encoding="utf-8-sig")) | {"theme": "dark"}
    document["hooks"]["Stop"][-1]["hooks"].append({"type": "command", "command": "theirs.sh"})
    put(path, json.dumps(document))
    ran = cli.ok("install", "claude-code", "--uninstall", "--yes")
    assert "only takeback's hooks are taken out" in ran.out
    left = json.loads(path.read_text())
    assert left["theme"] == "dark"
    assert left["hooks"]["Stop"][-1] == {"hooks": [{"type": "command", "command": "theirs.sh"}]}
    assert not installing.installed(str(path))


def test_without_a_record_only_ours_is_taken_out_and_that_is_said(
    cli: Cli, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configuration("claude-code", project)
    put(path, FILES["two spaces"])
    cli.ok("install", "claude-code", "--yes")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another"))
    assert "not on record" in cli.ok("install", "claude-code", "--uninstall", "--yes").out
    assert json.loads(path.read_text()) == json.loads(FILES["two spaces"])


def test_an_installation_over_an_older_one_still_leads_back_to_the_first_bytes(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configuration("claude-code", project)
    raw = put(path, FILES["four spaces, no newline at the end"])
    monkeypatch.setattr(installing, "command", lambda _: "/old/venv/bin/takeback-hook claude-code")
    cli.ok("install", "claude-code", "--yes")
    monkeypatch.undo()
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_DATA_HOME", str(project.parent / "data"))
    cli.ok("install", "claude-code", "--yes")
    assert "/old/venv" not in path.read_text()
    assert {
        len(found) for event, found in commands(path).items() if event in AGENTS["claude-code"].events
    } == {1}
    cli.ok("install", "claude-code", "--uninstall", "--yes")
    assert path.read_bytes() == raw


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("text", "word"), MALFORMED.values(), ids=list(MALFORMED))
@pytest.mark.parametrize("how", [(), ("--uninstall",)], ids=["install", "uninstall"])
def test_a_malformed_file_is_named_and_left_as_it_is(
    cli: Cli, project: Path, name: str, text: str, word: str, how: tuple[str, ...]
) -> None:
    path = configuration(name, project)
    raw = put(path, text)
    ran = cli("install", name, "--yes", *how)
    assert ran.code == 2
    assert str(path) in ran.err
    assert word in ran.err
    assert path.read_bytes() == raw


def test_a_file_that_is_no_text_is_named_and_left(cli: Cli, project: Path) -> None:
    path = configuration("codex", project)
    put(path, "")
    path.write_bytes(b'{"a": "\xff"}')
    ran = cli("install", "codex", "--yes")
    assert ran.code == 2
    assert "UTF-8" in ran.err
    assert path.read_bytes() == b'{"a": "\xff"}'


def test_a_read_only_file_is_refused_and_left(cli: Cli, project: Path) -> None:
    """A rename over it would succeed, and its owner said that it is not to be written."""
    path = configuration("claude-code", project)
    raw = put(path, "{}")
    path.chmod(0o444)
    ran = cli("install", "claude-code", "--yes")
    assert ran.code == 2
    assert "read-only" in ran.err
    assert path.read_bytes() == raw


def test_the_mode_of_a_file_and_a_link_to_it_stay(cli: Cli, project: Path) -> None:
    """People keep their settings in a repository of dotfiles and link to them."""
    real = project / "dotfiles.json"
    put(real, "{}")
    real.chmod(0o600)
    path = configuration("claude-code", project)
    path.parent.mkdir()
    path.symlink_to(real)
    cli.ok("install", "claude-code", "--yes")
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert installing.installed(str(real))


def test_a_directory_where_the_file_should_be_is_named(cli: Cli, project: Path) -> None:
    configuration("claude-code", project).mkdir(parents=True)
    ran = cli("install", "claude-code", "--yes")
    assert ran.code == 2
    assert "settings.json cannot be read" in ran.err


def test_it_shows_the_change_and_asks(cli: Cli, project: Path) -> None:
    path = configuration("claude-code", project)
    raw = put(path, FILES["two spaces"])
    ran = cli("install", "claude-code", typed="n\n", terminal=True)
    assert ran.code == 1
    assert '+            "command": "' in ran.out
    assert path.read_bytes() == raw
    assert cli("install", "claude-code").code == 2  # nobody there to ask
    cli.ok("install", "claude-code", typed="y\n", terminal=True)
    assert installing.installed(str(path))


def test_a_plan_changes_nothing(cli: Cli, project: Path) -> None:
    assert "+++" in cli.ok("install", "codex", "--plan").out
    assert not (project / ".codex").exists()


def test_for_programs_it_is_one_document(cli: Cli, project: Path) -> None:
    said = cli.ok("install", "codex", "--yes", "--json").json
    assert said["changed"] is True
    assert said["path"] == str(configuration("codex", project))
    assert any(line.startswith("+") for line in said["diff"])
    listed = cli.ok("install", "--json").json["agents"]
    assert [entry["path"] for entry in listed if entry["installed"]] == [said["path"]]


def test_for_all_projects_it_goes_into_the_users_own_file(
    cli: Cli, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("install", "claude-code", "--user", "--yes")
    assert (home / ".claude" / "settings.json").exists()
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    cli.ok("install", "codex", "--user", "--yes")
    assert (home / "elsewhere" / "hooks.json").exists()
    assert not (project / ".claude").exists()


def test_an_unknown_agent_is_told_what_was_meant(cli: Cli, project: Path) -> None:
    ran = cli("install", "claude")
    assert ran.code == 2
    assert "claude-code" in ran.err


def test_a_file_that_changes_between_the_look_and_the_write_is_left(project: Path) -> None:
    """Somebody's edit between the diff that was shown and the answer is not written over."""
    change = installing.plan_install(AGENTS["claude-code"], str(project), user=False)
    path = configuration("claude-code", project)
    put(path, '{"new": 1}')
    with pytest.raises(BadSettings, match="changed just now"):
        installing.apply(change)
    assert path.read_text() == '{"new": 1}'


@pytest.mark.parametrize("point", ["replace", "fsync"])
def test_a_failure_in_the_midst_of_writing_leaves_the_old_file_and_no_other(
    project: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    path = configuration("claude-code", project)
    raw = put(path, FILES["tabs"])
    change = installing.plan_install(AGENTS["claude-code"], str(project), user=False)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, point, full)
    with pytest.raises(BadSettings, match="No space left"):
        installing.apply(change)
    assert path.read_bytes() == raw
    assert [entry.name for entry in path.parent.iterdir()] == ["settings.json"]
