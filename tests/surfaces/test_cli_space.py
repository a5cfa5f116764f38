"""du and gc on the command line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback
from takeback.engine import commit as commits
from takeback.model import canonical
from takeback.model.records import FileRoot


@pytest.fixture
def filed(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A thread of six versions, five of them with 10 kB of files."""
    with takeback.open(store_path) as repo:
        thread = repo.thread("t", initial={"n": 0})
        for number in range(5):
            payload = random.Random(number).randbytes(10_000)
            digest = canonical.digest(payload)
            tip = thread.refresh()._need()
            root, said = tip.head.state_root, commits.Said()
            files = [FileRoot("w", digest)]
            commits.publish(
                thread._ctx, tip, commits.Draft("commit", root, said, {digest: payload}, files=files)
            )
    monkeypatch.setenv("TAKEBACK_DB", str(store_path))
    return store_path


def test_what_takes_space(cli: Cli, filed: Path) -> None:
    said = cli.ok("du").out
    assert "50.0 kB" in said
    assert "the store takes" in said
    document = cli.ok("du", "--json").json
    assert document["threads"][0]["files_bytes"] == 50_000


def test_of_an_empty_store(cli: Cli, store_path: Path) -> None:
    takeback.open(store_path).close()
    assert "no threads" in cli.ok("--db", store_path, "du").out


def test_a_budget_is_shown_and_asked_for(cli: Cli, filed: Path) -> None:
    """It is one of the two things that cannot be taken back."""
    words = ("gc", "--budget", "25kB", "--keep", "1")
    plan = cli.ok(*words, "--plan")
    assert "gives up the files of 3 versions of t: 1–3; 20.0 kB of files stay" in plan.out
    refused = cli(*words, typed="n\n", terminal=True)
    assert refused.code == 1
    assert cli(*words).code == 2
    assert cli.ok("du", "--json").json["threads"][0]["pruned"] == []
    done = cli.ok(*words, "--yes", "--grace", "0")
    assert "removed 3: 30.0 kB" in done.out
    assert "1–3" in cli.ok("du").out
    assert "given up" in cli.ok("verify").out
    assert "nothing has to go" in cli.ok(*words).out


def test_for_programs(cli: Cli, filed: Path) -> None:
    plan = cli.ok("gc", "--budget", "0", "--keep", "2", "--plan", "--json").json
    assert plan["runs"] == [{"from": 1, "to": 3}]
    done = cli.ok("gc", "--budget", "0", "--keep", "2", "--yes", "--json", "--grace", "0").json
    assert (done["removed"], done["pruned"]["versions"]) == (3, 3)


@pytest.mark.parametrize("size", ["", "much", "-1", "1XB", "nan", "1e400"])
def test_a_size_that_is_none(cli: Cli, filed: Path, size: str) -> None:
    ran = cli("gc", f"--budget={size}", "--yes")
    assert ran.code == 2
    assert "no size" in ran.err


@pytest.mark.parametrize("words", [("--keep", "0"), ("--grace", "-1"), ("--plan",)])
def test_options_that_make_no_sense(cli: Cli, filed: Path, words: tuple[str, ...]) -> None:
    assert cli("gc", *words).code == 2


def test_a_collection_shows_how_far_it_is_on_a_terminal(cli: Cli, filed: Path) -> None:
    ran = cli.ok("gc", wide=80)
    assert "swept" in ran.err
