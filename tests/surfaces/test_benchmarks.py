"""The benchmarks run, and what they leave can be read. How fast anything is, no test asserts."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package lies beside the tests and is not installed."""
    monkeypatch.syspath_prepend(ROOT)


def benchmarks(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of everything that is ours."""
    folder = tmp_path_factory.mktemp("results")
    benchmarks("--tiny", "--out", str(folder))
    return folder


@pytest.fixture(scope="module")
def run(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "latest.json").read_text())
    return found


def test_a_run_says_where_when_and_with_what(run: dict[str, Any]) -> None:
    assert run["mode"] == "tiny"
    assert run["date"].endswith("UTC")
    assert {"processor", "cores", "file system", "python"} <= run["machine"].keys()
    assert {"takeback", "apsw", "dbos", "langgraph-checkpoint-sqlite"} <= run["versions"].keys()
    assert len(run["load"]) == 2


def test_everything_is_measured(run: dict[str, Any]) -> None:
    keys = [measure["key"] for measure in run["measures"]]
    assert set(keys) >= {
        "commit", "sustained", "append", "append_many", "append_growth", "whole", "whole_first", "rollback",
        "fork", "agents", "open", "read_cold", "read_warm", "diff", "disk_append", "disk_commit",
        "rollback_bytes", "fork_bytes", "import", "use", "hot_commit", "hot_history", "random_reads",
        "pg_commit", "pg_append", "pg_agents", "pg_agents_raw",
    }  # fmt: skip
    assert len(keys) == len(set(keys))
    assert all(measure["ours"]["p50"] > 0 for measure in run["measures"] if measure["unit"] == "ms")


def test_a_tiny_run_reaches_no_target_and_misses_none(run: dict[str, Any]) -> None:
    """The targets are for states of 1 MB and threads of 1,000 turns; small ones would flatter."""
    assert len(run["targets"]) >= 18
    assert {target["reached"] for target in run["targets"]} == {"not measured"}


def test_a_target_is_met_or_missed_and_says_by_how_much(package: None) -> None:
    from benchmarks.measure import Measure, Timing
    from benchmarks.targets import outcomes

    def found(ours: float) -> tuple[str, bool | None]:
        measure = Measure("commit", "commit 2 KB", Timing(ours, 1.0), Timing(0.1, 1.0))
        (outcome,) = [each for each in outcomes([measure]) if each.title == "commit 2 KB"]
        return outcome.reached, outcome.met

    rate = Measure("agents", "commits a second", Timing(9_000), Timing(5_000), "one agent", "/s")
    (outcome,) = [each for each in outcomes([rate]) if each.title.startswith("8 agents against one")]
    assert (outcome.reached, outcome.met) == ("1.8 ×", False), "a rate is to be reached, not kept under"
    assert found(0.26) == ("raw + 0.16 ms", True)
    assert found(0.28) == ("raw + 0.18 ms", False)


def test_engines_are_compared_turn_by_turn(run: dict[str, Any]) -> None:
    assert [peer["name"] for peer in run["peers"]] == [
        "raw insert of the message",
        "takeback, append",
        "takeback, commit",
        "takeback, append, PostgreSQL",
    ]
    for peer in run["peers"]:
        assert len(peer["turns"]) == len(peer["cost"]) == len(peer["size"]) > 1
        on_server = "PostgreSQL" in peer["name"]
        assert peer["settings"] == ("fsync on, synchronous_commit on" if on_server else "WAL, sync full")


@pytest.mark.parametrize("name", ["cost.svg", "size.svg"])
def test_a_chart_has_a_line_and_a_name_for_each_engine(out: Path, run: dict[str, Any], name: str) -> None:
    chart = ElementTree.parse(out / name)
    texts = {element.text for element in chart.iter("{http://www.w3.org/2000/svg}text")}
    lines = list(chart.iter("{http://www.w3.org/2000/svg}polyline"))
    assert {peer["name"] for peer in run["peers"]} <= texts
    assert len(lines) == len(run["peers"])


def test_nothing_is_left_of_the_files_that_were_measured(out: Path) -> None:
    assert {path.name for path in out.iterdir()} == {"latest.json", "cost.svg", "size.svg"}


def test_the_last_run_is_shown_for_the_readme(out: Path) -> None:
    """What the README shows is printed from a run, never typed."""
    shown = benchmarks("--markdown", "--out", str(out))
    assert "### Targets" in shown
    assert "| commit 2 KB | raw + 0.17 ms |" in shown
    tables = [line for line in shown.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in tables)


def test_without_a_run_there_is_nothing_to_show(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--markdown", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "there is no run to show yet" in done.stderr


def test_what_lies_close_together_in_a_chart_is_named_apart(package: None) -> None:
    from benchmarks import chart

    height = [(0.0, 1.0), (10.0, 100.0)]
    drawn = chart.draw("t", "a", [chart.Line(name, height) for name in "abc"], str)
    ends = [
        float(element.attrib["y"])
        for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")
        if element.text in set("abc") and "fill" in element.attrib and element.attrib["x"] != "70.0"
    ]
    assert len(ends) == 3
    assert all(below - above >= 17 for above, below in itertools.pairwise(sorted(ends)))
