"""A newcomer's first hour with effects, in an empty folder and real processes, as the guide tells it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

TOOLS = """
import json, pathlib, takeback

WORLD = pathlib.Path("world.json")

def happens(what):
    WORLD.write_text(json.dumps((json.loads(WORLD.read_text()) if WORLD.exists() else []) + [what]))

def refund(account, cents, result):
    happens(f"refund {result['id']}")

@takeback.tool(undo=refund, target="{account}", describe="charge {cents:money} to {account}", cost="cents")
def charge(account: str, cents: int) -> dict:
    happens(f"charge {cents}")
    return {"id": "ch_1"}

@takeback.tool(describe="e-mail to {to}")
def mail(to: str) -> None:
    happens(f"mail {to}")
"""

AGENT = """
import os, sys, takeback
from tools import charge, mail

with takeback.open("agent.db", actor="bot") as tb:
    trip = tb.thread("trip", agent="planner", initial={"to": None})
    with trip.run("job-1"):
        with trip.step("book", reason="the user asked") as s:
            s.state["to"] = "NYC"
            s.state["paid"] = charge("ACME", 4200)["id"]
            if "dies" in sys.argv:
                os._exit(9)
        with trip.step("tell") as s:
            mail("j@example.com")
"""


class Folder:
    """An empty folder, and what is typed in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "tools.py").write_text(TOOLS)
        (path / "agent.py").write_text(AGENT)
        self._env = os.environ | {
            "PYTHONPATH": str(SRC),
            "TAKEBACK_DB": "agent.db",
            "TAKEBACK_THREAD": "trip",
        }

    def python(self, *words: str) -> int:
        return self._run([*words]).returncode

    def takeback(self, words: str, code: int = 0) -> str:
        """What it printed, both ways; and it ended as it should."""
        ran = self._run(["-m", "takeback", *words.split()])
        assert ran.returncode == code, (words, ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stderr
        return ran.stdout + ran.stderr

    def world(self) -> list[str]:
        found: list[str] = json.loads((self.path / "world.json").read_text())
        return found

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.path,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_the_agent_dies_goes_on_and_is_taken_back(folder: Folder) -> None:
    assert folder.python("agent.py", "dies") == 9
    said = folder.takeback("recover")
    assert "step     trip: 'book' (#1), nobody is in it; enter it again, or roll back" in said
    assert folder.python("agent.py") == 0
    assert folder.world() == ["charge 4200", "mail j@example.com"], (
        "what was done before it died is not again"
    )
    assert folder.python("agent.py") == 0
    assert len(folder.world()) == 2, "a run that has ended calls nothing"

    assert "1  charge $42.00 to ACME" in folder.takeback("effects")
    plan = folder.takeback("rollback 0 --plan")
    for said in (
        "to: 'NYC' → None",
        "refunds #1 (charge $42.00 to ACME)",
        "#2 (e-mail to j@example.com) stays: it cannot be undone",
        "1 waits for a worker with refund@1",
    ):
        assert said in plan
    _typing_what_it_says(folder)
    assert folder.world() == ["charge 4200", "mail j@example.com", "refund ch_1"]

    undone = folder.takeback("undo")
    assert "#1 (charge $42.00 to ACME) stays undone: not done again by itself" in undone
    assert json.loads(folder.takeback("state --json"))["paid"] == "ch_1"
    assert "was taken back, and this history counts on it" in folder.takeback("state")
    folder.takeback("rollback head --redo-effects 1 --yes --app tools")
    assert folder.world()[3:] == ["charge 4200"]
    assert "nothing waits for anybody" in folder.takeback("recover")
    assert "✓ sound" in folder.takeback("verify")


def _typing_what_it_says(folder: Folder) -> None:
    """Each refusal names the option that helps; with all of them it goes through."""
    typed = "rollback 0 --yes -m wrong-city"
    for option in ("--acknowledge all", "--app tools"):
        refused = folder.takeback(typed, code=4)
        assert option.split()[0] in refused
        typed += f" {option}"
    folder.takeback(typed)


def test_a_worker_in_another_process_does_what_a_plan_waits_for(folder: Folder) -> None:
    folder.python("agent.py")
    said = folder.takeback("rollback 0 --yes --acknowledge all --wait 0", code=4)
    assert "takeback worker --app module:name" in said
    assert "did 1 line of plans" in folder.takeback("worker --app tools --once")
    assert folder.world()[2:] == ["refund ch_1"]
    assert json.loads(folder.takeback("state --json")) == {"to": None}


def test_what_the_plan_prints_is_what_the_json_says(folder: Folder) -> None:
    folder.python("agent.py")
    plan: dict[str, Any] = json.loads(folder.takeback("rollback 0 --plan --json"))
    effects = next(part for part in plan["parts"] if part["part"] == "effects")
    shown = folder.takeback("rollback 0 --plan")
    named = {int(number) for number in re.findall(r"#(\d+) \(", shown)}
    assert named == {*effects["undo"], *effects["standing"]}
