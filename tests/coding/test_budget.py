"""A budget that a directory keeps to: its watcher gives up old files before it leaves."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.coding.conftest import Agent, folder_of
from tests.coding.test_watcher import gone, pid_of
from tests.surfaces.cli import Cli

import takeback
from takeback import places
from takeback.coding import budget, client
from takeback.coding.budget import Asked, Budget
from takeback.errors import BadRequest


def edits(agent: Agent, count: int) -> None:
    """Files that do not compress, each in the place of the one before."""
    for number in range(count):
        agent.edit("big", random.Random(number).randbytes(5_000).hex())


def test_the_watcher_keeps_to_it_when_it_leaves(
    cli: Cli, agent: Agent, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is given up and removed, and named in the log; the newest stays, and all verifies."""
    agent.ok("SessionStart", source="startup")
    edits(agent, 5)
    folder = folder_of(repository)
    set_once = cli.ok("gc", "--budget", "12kB", "--keep", "1", "--grace", "0", "--always", "--yes")
    assert "keeps to 12kB from now on" in set_once.out
    assert budget.read(folder) == Budget(12_000, 1, 0)
    weighed = cli.ok("du", "--json").json
    before = weighed["threads"][0]["pruned"]
    assert weighed["budget"] == 12_000
    assert "keeps files to 12.0 kB, and whole those of the newest 1 version" in cli.ok("du").out
    client.stop(folder)
    monkeypatch.setenv("TAKEBACK_WATCHER_IDLE", "1")
    edits(agent, 3)
    gone(pid_of((os.path.realpath(repository), folder)))
    log = Path(folder, places.LOG).read_text()
    assert "budget of 12,000 bytes: gave up the files of versions" in log
    with takeback.open(os.path.join(folder, places.STORE)) as tb:
        weight = tb.du()[0]
        assert weight.pruned[0:1] == [(run["from"], run["to"]) for run in before][0:1]
        assert len(weight.pruned) > len(before)
        assert weight.files <= 12_000
        assert tb.thread(weight.thread).verify().ok
    assert (repository / "big").read_text() == random.Random(2).randbytes(5_000).hex()
    cli.ok("gc", "--no-budget")
    assert budget.read(folder) is None


def test_who_asks_is_answered_first(tmp_path: Path) -> None:
    """It breaks off between two batches; the next time goes on where it was."""
    budget.write(str(tmp_path), Budget(0, 1, 0))
    asks = [False]
    with takeback.open(":memory:") as tb:
        thread = tb.thread("t", initial={})
        tb.thread("gone", initial={"a": "x" * 9000}).delete()

        def collect(grace: int, look: object) -> int:
            asks[0] = True
            return tb.gc(grace=grace, progress=look).removed

        with pytest.raises(Asked):
            budget.keep_to(str(tmp_path), thread, collect, lambda: asks[0])
        said = budget.keep_to(str(tmp_path), thread, lambda grace, look: tb.gc(grace=grace).removed, bool)
        assert said is not None
        assert "gave up no files; removed" in said


def test_a_budget_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert budget.read(str(tmp_path)) is None
    (tmp_path / "budget.json").write_text("{")
    with pytest.raises(BadRequest, match=r"budget\.json"):
        budget.read(str(tmp_path))


@pytest.mark.parametrize(
    "words", [["--always"], ["--budget", "1", "--always", "--plan"], ["--no-budget", "--budget", "1"]]
)
def test_options_that_do_not_go_together(cli: Cli, store_path: Path, words: list[str]) -> None:
    takeback.open(store_path).close()
    assert "Give one of the two" in cli("--db", store_path, "gc", *words).err


def test_a_store_without_a_watcher_keeps_to_none(cli: Cli, store_path: Path) -> None:
    with takeback.open(store_path) as tb:
        tb.thread("t", initial={})
    said = cli("--db", store_path, "gc", "--budget", "1kB", "--always", "--yes")
    assert said.code != 0
    assert "only a workspace has a watcher" in said.err
