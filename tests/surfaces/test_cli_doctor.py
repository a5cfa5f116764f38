"""doctor: where the store is and why, and whether it is sound."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback.cli import doctor


def test_what_it_says_of_a_sound_store(cli: Cli, trip: Path) -> None:
    out = cli.ok("doctor").out
    facts = dict(line.split(maxsplit=1) for line in out.splitlines() if line)
    assert facts["store"] == str(trip)
    assert "TAKEBACK_DB names it" in out
    assert facts["holds"].startswith("1 thread, 8 checkpoints, ")
    assert "in the write-ahead log" in facts["size"]
    assert facts["durability"] == "full (journal mode wal, synchronous full)"
    assert facts["damage"] == "none found"
    assert facts["takeback"] == takeback.__version__
    assert facts["python"] == platform.python_version()
    assert {"sqlite", "apsw", "rich", "zstandard"} <= facts.keys()


def test_as_json(cli: Cli, trip: Path) -> None:
    said = cli.ok("doctor", "--json").json
    assert said["ok"] is True
    assert said["damage"] == []
    assert said["store"]["location"] == str(trip)
    assert said["store"]["free_bytes"] > 0
    assert said["details"]["checkpoints"] == 8
    assert said["details"]["wal_bytes"] >= 0
    assert said["schema"] >= 1
    assert said["versions"]["takeback"] == takeback.__version__


@pytest.mark.parametrize(("how", "why"), [("--db", "--db names it"), (None, "the default place")])
def test_why_the_store_is_there(
    cli: Cli, trip: Path, how: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [how, str(trip)] if how else []
    monkeypatch.delenv("TAKEBACK_DB")
    assert why in cli.ok("doctor", *words).out


def test_before_there_is_a_store(cli: Cli, data_home: str) -> None:
    """Nothing is wrong on a fresh machine, and looking makes nothing."""
    ran = cli.ok("doctor")
    assert "there is no store yet; the first commit makes it" in ran.out
    assert "python" in ran.out
    assert cli.ok("doctor", "--json").json["store"]["exists"] is False
    assert not Path(data_home).exists()


def test_a_store_that_was_named_and_is_not_there(cli: Cli, tmp_path: Path) -> None:
    ran = cli("doctor", "--db", tmp_path / "missing.db")
    assert ran.code == 5
    assert "there is no store at" in ran.err
    assert "python" in ran.out, "the rest is told all the same"
    said = cli("doctor", "--db", tmp_path / "missing.db", "--json")
    assert (said.code, said.json["ok"], said.error["kind"]) == (5, False, "store_unavailable")


def test_a_file_of_another_kind(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a store, and long enough")
    ran = cli("doctor", "--db", "notes.txt", "--json")
    assert (ran.code, ran.error["kind"]) == (5, "not_a_store")


def test_a_damaged_store(cli: Cli, trip: Path) -> None:
    """Pages of the file overwritten, as a failing disk does."""
    content = bytearray(trip.read_bytes())
    content[8192:] = b"\xa5" * (len(content) - 8192)
    trip.write_bytes(content)
    ran = cli("doctor")
    assert ran.code == 6, ran
    assert "Traceback" not in ran.err
    assert cli("doctor", "--json").json["ok"] is False


def test_damage_that_the_engine_reports_is_listed(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("takeback.repo.Repo.damage", lambda self: ["row 3 missing from index", "more"])
    ran = cli("doctor")
    assert ran.code == 6
    assert "2 found" in ran.out
    assert "  row 3 missing from index" in ran.lines
    assert cli("doctor", "--json").json["damage"] == ["row 3 missing from index", "more"]


@pytest.mark.parametrize(("mode", "says"), [(0o600, "yours alone"), (0o644, "other users")])
def test_permissions(cli: Cli, trip: Path, mode: int, says: str) -> None:
    trip.chmod(mode)
    assert f"{mode:04o}: " in cli.ok("doctor").out
    assert says in cli.ok("doctor").out


def test_a_store_that_cannot_be_written_is_said_to_be(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor.os.access
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: mode != doctor.os.W_OK and real(path, mode))
    assert "you can read it and not write it" in cli.ok("doctor").out


def test_a_store_in_memory(cli: Cli) -> None:
    said = cli.ok("doctor", "--db", ":memory:", "--json").json
    assert (said["kind"], said["store"]["location"]) == ("memory", ":memory:")
    assert "free" not in cli.ok("doctor", "--db", ":memory:").out


def test_a_file_system_that_is_not_told(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc, as on macOS."""
    monkeypatch.setattr(doctor, "_file_system", lambda path: None)
    assert "unknown, " in cli.ok("doctor").out


def test_a_dependency_that_is_not_there(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_DEPENDENCIES", ("apsw", "no-such-package"))
    assert "no-such-package  not installed" in cli.ok("doctor").out
