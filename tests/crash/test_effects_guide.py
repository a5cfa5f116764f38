"""The guide's table of crash points: a process dies at each, with each kind of tool, and is run again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

import takeback

ROOT = Path(__file__).resolve().parents[2]

# The same program dies, and is run again: where it dies is all that differs.
PROGRAM = """
import os, pathlib, sys
import takeback

preset, point, store = sys.argv[1:4]
world = pathlib.Path(store + ".world")  # the provider's book: a line a request
options = {"undo": lambda: None} if preset == "compensable" else {}

def die(here):
    if here == point:
        os._exit(9)

@takeback.tool(preset, **options)
def act():
    die("before the request")
    if preset == "transactional":
        takeback.connection().execute("INSERT INTO world VALUES (?)", (takeback.effect_key(),))
    else:
        key = "none" if preset == "pure" else takeback.effect_key()
        with world.open("a") as book:
            book.write(key + "\\n")
    die("before the outcome")
    return "done"

with takeback.open(store, actor="bot") as tb:
    trip = tb.thread("trip", initial={})
    try:
        with trip.step("act") as step:
            step.state["said"] = act()
            die("before the end")
    except takeback.EffectUnknown:
        sys.exit(4)
"""
POINTS = ("before the request", "before the outcome", "before the end")
# What the second run comes to, and how many requests there were, and how many keys among them.
AGAIN, RECORDED, UNKNOWN = "made again", "recorded", "unknown"
SAID = {
    "pure": (AGAIN, AGAIN, AGAIN),
    "idempotent": (AGAIN, AGAIN, RECORDED),
    "compensable": (UNKNOWN, UNKNOWN, RECORDED),
    "irreversible": (UNKNOWN, UNKNOWN, RECORDED),
    "local": (UNKNOWN, UNKNOWN, RECORDED),
    "transactional": (AGAIN, AGAIN, RECORDED),  # neither row nor record was there
}
CASES = [
    (preset, point, said) for preset, row in SAID.items() for point, said in zip(POINTS, row, strict=True)
]


@pytest.mark.parametrize(("preset", "point", "said"), CASES)
def test_what_a_crash_leaves(tmp_path: Path, preset: str, point: str, said: str) -> None:
    store = tmp_path / "agent.db"
    takeback.open(store).close()
    if preset == "transactional":
        with apsw.Connection(str(store)) as database:
            database.execute("CREATE TABLE world (key TEXT)")
    assert _run(preset, point, store) == 9, "it died where it should"
    before = _requests(store, preset)
    assert len(before) == (
        0 if point == POINTS[0] or (preset == "transactional" and point == POINTS[1]) else 1
    )
    assert _run(preset, "nowhere", store) == (4 if said == UNKNOWN else 0)
    after = _requests(store, preset)
    assert len(after) - len(before) == (1 if said == AGAIN else 0)
    if preset != "pure":
        assert len(set(after)) <= 1, "never a second key: a provider that honours it does the thing once"


def test_the_guide_says_so() -> None:
    """The rows and columns of the table are those that were swept."""
    text = (ROOT / "docs" / "effects.md").read_text()
    rows = dict(re.findall(r"^\| (after the [^|]*?) \| (.*) \|$", text, re.M))
    words = {AGAIN: ("again",), UNKNOWN: ("unknown",), RECORDED: ("recorded result",)}
    names = ("after the intent, before the request", "after the request, before the outcome is written",
             "after the outcome, before the step ends")  # fmt: skip
    for place, name in enumerate(names):
        pure, keyed, once, _ = rows[name].split(" | ")
        for cell, preset in ((pure, "pure"), (keyed, "idempotent"), (once, "irreversible")):
            assert any(word in cell for word in words[SAID[preset][place]]), (name, preset)


def _run(preset: str, point: str, store: Path) -> int:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-c", PROGRAM, preset, point, str(store)]
    return subprocess.run(words, env=environment, check=False).returncode


def _requests(store: Path, preset: str) -> list[str]:
    """What the world holds, past takeback."""
    if preset == "transactional":
        with apsw.Connection(str(store)) as database:
            return [key for (key,) in database.execute("SELECT key FROM world")]
    world = Path(f"{store}.world")
    return world.read_text().splitlines() if world.exists() else []
