"""export, import, delete: threads that move between stores, and one that goes for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.cli import STATE, Cli, head_of, state_of

import takeback


def test_a_thread_moves_to_another_store(cli: Cli, trip: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    assert cli.ok("export", "trip.takeback").out == "travel/42: 8 checkpoints in trip.takeback\n"
    ran = cli.ok("import", "trip.takeback", "--db", other)
    assert ran.out == "travel/42: 8 checkpoints, verified and brought in\n"
    assert state_of(other) == STATE
    assert head_of(other).digest == head_of(trip).digest
    cli.ok("verify", "--db", other)
    assert cli.ok("labels", "--db", other, "--names").lines == ["good"]


def test_import_makes_the_default_store(
    cli: Cli, trip: Path, data_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("export", "trip.takeback")
    monkeypatch.delenv("TAKEBACK_DB")
    cli.ok("import", "trip.takeback")
    assert state_of(Path(data_home) / "takeback" / "takeback.db") == STATE


def test_an_imported_thread_may_get_another_name(cli: Cli, trip: Path, tmp_path: Path) -> None:
    cli.ok("export", "t")
    said = cli.ok("import", "t", "--name", "copy", "--db", tmp_path / "other.db", "--json").json
    assert (said["thread"]["name"], said["thread"]["versions"]) == ("copy", 8)


def test_export_as_json(cli: Cli, trip: Path) -> None:
    told = cli.ok("export", "t", "--json").json
    assert told == {"thread": "travel/42", "file": "t", "checkpoints": 8, "pruned": []}


def test_export_writes_over_nothing_unasked(cli: Cli, trip: Path, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("precious")
    ran = cli("export", "t")
    assert ran.code == 2
    assert "--force" in ran.err
    assert (tmp_path / "t").read_text() == "precious"
    cli.ok("export", "t", "--force")
    assert cli.ok("import", "t", "--db", tmp_path / "other.db").code == 0


def test_a_thread_that_is_there_already(cli: Cli, trip: Path) -> None:
    cli.ok("export", "t")
    ran = cli("import", "t", "--name", "again", "--json")
    assert (ran.code, ran.error["kind"]) == (4, "thread_exists")


@pytest.mark.parametrize("content", [b"", b"noise", b"\x28\xb5\x2f\xfd" + b"x" * 50])
def test_a_foreign_file_is_refused(cli: Cli, trip: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "foreign").write_bytes(content)
    ran = cli("import", "foreign")
    assert ran.code == 6, ran
    assert "foreign" in ran.err
    assert cli("import", "foreign", "--json").error["kind"] == "bad_export"


def test_a_file_cut_short_is_refused(cli: Cli, trip: Path, tmp_path: Path) -> None:
    cli.ok("export", "t")
    content = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(content[: len(content) // 2])
    assert cli("import", "t", "--db", tmp_path / "other.db").code == 6
    assert cli.ok("threads", "--db", tmp_path / "other.db").out == "no threads\n"


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_file_that_is_none_makes_no_store(cli: Cli, data_home: str, name: str) -> None:
    assert cli("import", name).code == 2
    assert not Path(data_home).exists()


def test_a_file_that_cannot_be_written(cli: Cli, trip: Path) -> None:
    ran = cli("export", "no/such/folder/t")
    assert ran.code == 5
    assert "cannot be written" in ran.err


# --- delete


def test_delete_asks_and_says_what_goes(cli: Cli, trip: Path) -> None:
    ran = cli.ok("delete", typed="y\nthe customer asked\n", terminal=True)
    assert "Remove 'travel/42' with its 8 versions? This cannot be undone. [y/N] " in ran.err
    assert ran.out == "removed travel/42 with its 8 versions\n"
    assert cli.ok("threads").out == "no threads\n"
    with takeback.open(trip) as repo:
        assert [entry.detail.get("reason") for entry in repo.audit()][-1] == "the customer asked"


def test_delete_without_asking(cli: Cli, trip: Path) -> None:
    assert cli.ok("delete", "--yes", "-m", "old", "--json").json == {
        "thread": "travel/42",
        "deleted": True,
        "versions": 8,
    }


def test_delete_with_no_for_an_answer(cli: Cli, trip: Path) -> None:
    ran = cli("delete", typed="n\n", terminal=True)
    assert ran.code == 1
    assert state_of(trip) == STATE


def test_delete_without_anybody_to_ask(cli: Cli, trip: Path) -> None:
    ran = cli("delete", typed="y\n")
    assert ran.code == 2
    assert "nobody to ask" in ran.err
    assert state_of(trip) == STATE


def test_delete_takes_no_thread_that_was_not_named(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread written to last is a good guess for looking, and none for removing."""
    monkeypatch.delenv("TAKEBACK_THREAD")
    ran = cli("delete", "--yes")
    assert ran.code == 2
    assert "must be named" in ran.err
    assert state_of(trip) == STATE


def test_a_deleted_thread_is_gone(cli: Cli, trip: Path) -> None:
    cli.ok("delete", "--yes")
    for words in (["log"], ["state"], ["undo"], ["delete", "--yes"], ["verify"], ["seal"], ["export", "t"]):
        assert cli(*words).code == 3, words


def test_threads_are_copied_and_copied_again(cli: Cli, trip: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with takeback.open(trip) as repo:
        repo.thread("more", initial={"n": 1})
        count = len(repo.threads())
    ran = cli.ok("copy", trip, other, "travel/42")
    assert ran.lines[0].split() == ["thread", "added", "versions"]
    assert ran.lines[1].split() == ["travel/42", "copied", "8", "8"]
    assert ran.lines[-1].startswith("copied 8 checkpoints, ")
    assert head_of(other).digest == head_of(trip).digest
    cli.ok("verify", "--db", other)
    assert cli.ok("copy", trip, other, "--thread", "travel/42").out == "nothing new in 1 thread\n"
    said = cli.ok("copy", trip, other, "--json", "--to-tenant", "t2").json
    assert (said["ok"], len(said["threads"])) == (True, count)
    assert cli.ok("threads", "--db", other, "--tenant", "t2", "--json").json["threads"]


def test_what_cannot_be_copied_is_named(cli: Cli, trip: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with takeback.open(other) as repo:
        repo.thread("travel/42", initial={})
    ran = cli("copy", trip, other, "travel/42")
    assert ran.code == 4
    assert "the name is taken there by another thread" in ran.out
    assert "Copy to another tenant" in ran.out
    said = cli("copy", trip, other, "--json")
    assert (said.code, said.json["threads"][0]["error"]["kind"]) == (4, "thread_exists")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["missing.db", "b.db"], 5, "there is no store"),
        (["a.db", "a.db"], 2, "the same store"),
        (["a.db", "b.db", "nix"], 3, "no thread 'nix'"),
        (["a.db", "b.db", "--db", "c.db"], 2, "both its stores"),
        (["a.db"], 2, "DST"),
    ],
)
def test_mistakes_about_copies(cli: Cli, words: list[str], code: int, told: str) -> None:
    with takeback.open("a.db") as repo:
        repo.thread("t", initial={})
    ran = cli("copy", *words)
    assert (ran.code, told in ran.err) == (code, True), ran


def test_an_empty_store_has_nothing_to_copy(cli: Cli) -> None:
    takeback.open("a.db").close()
    assert cli.ok("copy", "a.db", "b.db").out == "there is nothing to copy\n"
