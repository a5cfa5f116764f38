"""demo: it runs, it shows what really happened, and its three commands work."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.surfaces.cli import Cli, head_of, state_of

import takeback
from takeback import demo, demo_world

BOOKED = {"hotel": "Hudson Inn", "booking": "H-4711", "payment": "P-1"}
EMPTIED = {"destination": None, "dates": None, "bookings": [], "notes": ["told Ann"]}
REALLY = [
    "hotel        took a booking of 7 nights at Hudson Inn",
    "bank         paid €690.00 to Hudson Inn",
    "post office  delivered 'Your week in New York' to ann@example.com",
    "bank         took €690.00 back from Hudson Inn",
    "hotel        cancelled H-4711 at Hudson Inn",
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its temporary store goes where the test's goes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_tells_the_whole_story(cli: Cli) -> None:
    ran = cli.ok("demo")
    assert ran.err == ""
    for scene in demo.SCENES:
        assert f"── {scene.heading} " in ran.out
        for command in scene.commands:
            assert f"$ takeback {command}\n" in ran.out
    assert "cancel everything" in ran.out
    assert "destination: 'New York' → None" in ran.out


def test_what_it_shows_is_what_happened(cli: Cli, tmp_path: Path) -> None:
    """The store that it leaves has the history that it told."""
    cli.ok("demo", "--keep", "trip.db")
    with takeback.open(tmp_path / "trip.db", create=False) as repo:
        thread = repo.thread(demo.THREAD)
        kinds = [checkpoint.kind for checkpoint in thread.history(newest_first=False)]
        assert kinds == ["initial", *["step"] * 6, *["rollback"] * 2, "undo", "redo", "append", "merge"]
        assert thread.at(6).state == EMPTIED
        assert thread.at(7).state == thread.at(5).state == thread.at(9).state
        assert thread.at(5).state["bookings"] == [BOOKED]
        assert thread.at(8).state == thread.at(2).state == thread.at(10).state
        assert thread.state["dates"] == ["2026-06-01", "2026-06-08"]
        assert thread.state["notes"] == ["window seat"]
        assert [effect.state for effect in thread.effects()] == ["undone", "undone", "done"]
        assert all(report.ok for report in repo.verify())


def test_its_output_is_that_of_the_library(cli: Cli, tmp_path: Path) -> None:
    out = cli.ok("demo", "--keep", "trip.db").out
    with takeback.open(tmp_path / "trip.db") as repo:
        thread = repo.thread(demo.THREAD)
        for line in thread.diff(5, 6).lines():
            assert f"  {line}\n" in out
        for version in (7, 8, 9, 10, 12):
            assert f"now at version {version} ({thread.at(version).checkpoint.id})" in out


def test_it_ends_with_three_commands_that_work(cli: Cli, tmp_path: Path) -> None:
    out = cli.ok("demo").out
    told = out.partition("── Try next ")[2]
    commands = re.findall(r"^  takeback (.*)$", told, re.M)
    assert len(commands) == 3
    for command in commands:
        ran = cli.ok(*shlex.split(command), typed="y\n\n", terminal=True)
        assert ran.out
    store = Path(shlex.split(commands[0])[1])
    assert store.is_relative_to(tmp_path)
    assert head_of(store).kind == "rollback"
    assert state_of(store)["bookings"] == [BOOKED]
    with takeback.open(store) as repo:
        effects = repo.thread(demo.THREAD).effects()
    assert [effect.state for effect in effects] == ["done", "done", "done"], "booked and paid again"


def test_the_plan_that_it_shows_is_what_then_happens_in_the_world(cli: Cli) -> None:
    """Refunded, cancelled, and nothing else: asked of the three themselves."""
    out = cli.ok("demo").out
    plan = out.partition("rollback 2 --plan")[2].partition("──")[0]
    for said in ("refunds #2", "cancels #1", "#3 (e-mail to ann@example.com) stays: it cannot be undone"):
        assert said in plan
    told = out.partition("Asked themselves")[2].partition("──")[0]
    assert [re.sub(r" \(key .*", "", line.strip()) for line in told.splitlines()[1:] if line] == REALLY
    assert [re.sub(r" \(key .*", "", line) for line in demo_world.BOOKS] == REALLY, (
        "the later undo did nothing"
    )
    undone = out.partition("$ takeback undo\n")[2].partition("$")[0]
    assert "#2 (€690.00 to Hudson Inn) stays undone: not done again by itself" in undone


def test_its_store_may_have_any_name(cli: Cli) -> None:
    """The commands are quoted as a shell needs it."""
    out = cli.ok("demo", "--keep", "my trip's.db").out
    for command in re.findall(r"^  takeback (.*)$", out.partition("── Try next ")[2], re.M):
        cli.ok(*shlex.split(command), typed="y\n\n", terminal=True)


def test_it_never_writes_over_a_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "trip.db").write_text("precious")
    ran = cli("demo", "--keep", "trip.db")
    assert ran.code == 2
    assert "exists already" in ran.err
    assert (tmp_path / "trip.db").read_text() == "precious"


def test_the_users_own_store_and_environment_are_left_alone(
    cli: Cli, trip: Path, data_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEBACK_KEY", "a secret")
    before = dict(os.environ)
    head = head_of(trip)
    cli.ok("demo", "--no-color")
    assert dict(os.environ) == before
    assert head_of(trip).id == head.id
    assert not Path(data_home).exists()


def test_as_json(cli: Cli) -> None:
    told = cli.ok("demo", "--json").json
    assert Path(told["store"]).exists()
    assert len(told["next"]) == 3
    shown = {
        show["command"]: show["output"]
        for scene in told["scenes"]
        for show in scene["shows"]
        if "command" in show
    }
    assert shown["takeback diff 5 6"].startswith("travel/42  5 → 6\n")
    assert "✓ sound" in shown["takeback verify --all"]


def test_it_pauses_for_people_alone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(demo, "time", SimpleNamespace(sleep=slept.append))  # the demo's alone
    cli.ok("demo")
    cli.ok("demo", "--fast", wide=80)
    assert slept == []
    cli.ok("demo", wide=80)
    assert len(slept) >= len(demo.SCENES)


def test_it_fits_a_terminal(cli: Cli) -> None:
    out = cli.ok("demo", "--fast", wide=80).out
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in out.splitlines()]
    narrated = [line for line in plain if not line.startswith(("$ ", "  takeback "))]
    assert max(map(len, narrated)) <= 84


def test_a_step_that_fails_ends_it_with_its_code(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo that goes on after a failure would not be honest."""
    broken = demo.Scene("It breaks", "On purpose.", ("show 99", "log"))
    monkeypatch.setattr(demo, "SCENES", (broken,))
    ran = cli("demo")
    assert ran.code == 3
    assert "$ takeback log" not in ran.out
    assert "Try next" not in ran.out
    assert cli("demo", "--json").code == 3
