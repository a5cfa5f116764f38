"""The demo: six turns of a travel agent, which books, pays and writes, goes wrong, and is taken back.

It tells a person what happens, and runs the real commands on a store of its own; what they print is
what the library returned. The hotel, the bank and the post office are in `demo_world`.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from takeback import demo_world as world

if TYPE_CHECKING:
    from takeback import Repo
    from takeback.cli.output import Output

THREAD, FORK = "travel/42", "travel/42-june"
_BEGINNING: dict[str, Any] = {"destination": None, "dates": None, "bookings": [], "notes": []}
_PAUSE = 0.9
_APP = "--app takeback.demo_world"


class Turn(NamedTuple):
    """One turn of the agent: its label, why, and what it does to its state."""

    label: str
    reason: str
    act: Callable[[dict[str, Any]], Any]


def _book(state: dict[str, Any]) -> None:
    state["bookings"].append({"hotel": "Hudson Inn"} | world.book_hotel("Hudson Inn", 7))


def _pay(state: dict[str, Any]) -> None:
    state["bookings"][0] |= world.pay("Hudson Inn", 69_000)


def _tell(state: dict[str, Any]) -> None:
    world.send_mail("ann@example.com", "Your week in New York")
    state["notes"].append("told Ann")


TURNS = (
    Turn("plan", "a week in New York", lambda s: s.update(destination="New York")),
    Turn("dates", "in May, please", lambda s: s.update(dates=["2026-05-04", "2026-05-11"])),
    Turn("hotel", "near the park", _book),
    Turn("pay", "by card", _pay),
    Turn("tell", "send it to Ann", _tell),
    Turn("tidy up", "cancel everything", lambda s: s.update(destination=None, dates=None, bookings=[])),
)


class Scene(NamedTuple):
    """A heading, what is to be seen, the commands that show it, and what is asked of the world after them."""

    heading: str
    says: str
    commands: tuple[str, ...]
    asks: str = ""


SCENES = (
    Scene(
        "The log has it",
        "Every turn is one version: why, by whom, what it changed; ◆ is in the world.",
        ("log",),
    ),
    Scene(
        "The diff explains it",
        "Turn six emptied the trip. The hotel is still booked, and paid:",
        ("diff 5 6", "effects"),
    ),
    Scene(
        "The rollback restores turn five",
        "Turn five knows of the booking and the payment: nothing is undone in the world.",
        ("rollback 5 --yes -m 'nobody said that'",),
    ),
    Scene(
        "The plan previews what it does to the world",
        "They do not go in May. What would going back to turn two do? Nothing is done yet.",
        (f"rollback 2 --plan {_APP}",),
    ),
    Scene(
        "It does exactly that",
        "What can be undone is; that the e-mail stays has to be acknowledged.",
        (f"rollback 2 --yes --acknowledge 3 -m 'not in May' {_APP}",),
        "Asked themselves, the hotel, the bank and the post office say:",
    ),
    Scene(
        "Undo and redo walk back and forth",
        "A rollback can be taken back too. What is not paid again by itself is named.",
        ("undo", "redo --yes --acknowledge 3"),
    ),
    Scene(
        "A fork tries another way",
        "June instead, on a line of its own, which may not touch the world.",
        (
            f"fork --name {FORK}",
            f"""commit --thread {FORK} --set 'dates=["2026-06-01", "2026-06-08"]' -m 'in June'""",
            """commit --append 'notes="window seat"' -m 'they called'""",
        ),
    ),
    Scene(
        "The merge brings both together",
        "Had both changed one thing in two ways, it would be named, and nothing done.",
        (f"merge {FORK} -m 'June it is'",),
    ),
    Scene(
        "Nothing was lost",
        "● counts, ○ was taken back. All of it is recomputed from the stored bytes by verify.",
        ("log --graph", "verify --all"),
    ),
)

_NEXT = (
    ("effects", "what became of the booking, the payment, the e-mail"),
    ("undo", "take the merge back"),
    (f"rollback 5 --redo-effects 1,2 {_APP}", "to turn five after all: books and pays again, if you say so"),
)


def run(out: Output, *, keep: str | None = None, fast: bool = False) -> int:
    """Play the whole of it; the exit code is that of the first command that fails."""
    place = _place(keep)
    stage = _Stage(out, place, pauses=out.terminal and not fast)
    world.BOOKS.clear()
    stage.say("takeback", "An agent plans, books and pays a trip. Its sixth turn goes wrong.")
    _play_turns(stage)
    stage.show("")
    stage.show(f"export TAKEBACK_DB={shlex.quote(place)} TAKEBACK_THREAD={THREAD}  # for what follows")
    with _environment(place, colour=out.color):
        for scene in SCENES:
            stage.say(scene.heading, scene.says)
            for command in scene.commands:
                if code := stage.command(command):
                    return code
            if scene.asks:
                stage.remark(scene.asks)
                for entry in world.BOOKS:
                    stage.show(entry)
    stage.end()
    return 0


class _Stage:
    """Where it is told: to a person as it happens, or as one document at the end."""

    def __init__(self, out: Output, place: str, *, pauses: bool) -> None:
        self.out, self.place, self.pauses = out, place, pauses
        self.told: list[dict[str, Any]] = []

    def say(self, heading: str, text: str) -> None:
        self.told.append({"heading": heading, "says": text, "shows": []})
        if self.out.json:
            return
        if self.pauses and len(self.told) > 1:
            time.sleep(_PAUSE)
        self.out.line()
        self.out.line((f"── {heading} ".ljust(72, "─"), "bold yellow"))
        self.out.line((text, "italic"))

    def remark(self, text: str) -> None:
        """A sentence in the middle of a scene."""
        self.told[-1]["shows"].append({"line": text})
        if not self.out.json:
            self.out.line()
            self.out.line((text, "italic"))

    def show(self, line: str) -> None:
        self.told[-1]["shows"].append({"line": line})
        if not self.out.json:
            self.out.line("  ", line, crop=True)

    def command(self, command: str) -> int:
        """Run a command as the shell would, and show it with all that it prints."""
        from takeback.cli import main

        if self.out.json:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                code = main(shlex.split(command))
            self.told[-1]["shows"].append({"command": f"takeback {command}", "output": printed.getvalue()})
            return code
        self.out.line()
        self.out.line(("$ ", "dim"), (f"takeback {command}", "bold cyan"))
        sys.stdout.flush()
        return main(shlex.split(command))

    def end(self) -> None:
        commands = [(f"takeback --db {shlex.quote(self.place)} {words}", why) for words, why in _NEXT]
        if self.out.json:
            self.out.document({"store": self.place, "scenes": self.told, "next": [c for c, _ in commands]})
            return
        self.say("Try next", "The store of this demo stays where it is; delete it when you have seen enough.")
        for command, why in commands:
            self.out.line()
            self.out.line("  ", (f"# {why}", "dim"))
            self.out.line("  ", (command, "bold cyan"))


def _play_turns(stage: _Stage) -> None:
    import takeback

    stage.say(
        "Six turns", "Each is a step: a copy of the state to work on, one durable version when it ends."
    )
    stage.show(f"trip = takeback.open({os.path.basename(stage.place)!r}).thread({THREAD!r}, initial={{…}})")
    stage.show("with trip.step(label, reason=…) as s:  # … and the agent changes s.state, and calls tools")
    with takeback.open(stage.place, actor="travel-agent") as repo:
        for line in _played(repo):
            stage.show(line)


def _played(repo: Repo) -> Iterator[str]:
    trip = repo.thread(THREAD, agent="travel-agent", initial=_BEGINNING)
    for number, turn in enumerate(TURNS, 1):
        with trip.step(turn.label, reason=turn.reason) as step:
            turn.act(step.state)
        yield f"turn {number}  {turn.label:8} {trip.diff(number - 1, number).summary()}"


def _place(keep: str | None) -> str:
    from takeback.errors import BadRequest

    if keep is None:
        return os.path.join(tempfile.mkdtemp(prefix="takeback-demo-"), "trip.db")
    if os.path.exists(keep):
        raise BadRequest(f"{keep} exists already", hint="The demo makes a store of its own; give a new file")
    return os.path.abspath(keep)


@contextlib.contextmanager
def _environment(place: str, *, colour: bool) -> Iterator[None]:
    """The commands find the demo's store as they find any: by their environment."""
    set_here = {"TAKEBACK_DB": place, "TAKEBACK_THREAD": THREAD} | ({} if colour else {"NO_COLOR": "1"})
    before = {name: os.environ.get(name) for name in (*set_here, "TAKEBACK_KEY")}
    os.environ.update(set_here)
    os.environ.pop("TAKEBACK_KEY", None)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
