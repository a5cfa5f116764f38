"""An app as a user has one: tools over a world that is a file, and an agent that uses them."""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.surfaces.cli import Cli, Ran

import takeback
from takeback.tools import registry
from takeback.worker import load

APP = dedent(
    '''
    """A shop: one tool of each kind. What happens in the world is a line in world.log."""
    import json, os, pathlib
    import takeback

    def happens(*what):
        with open("world.log", "a") as log:
            log.write(json.dumps(what) + "\\n")

    def refund(account, cents, result):
        print("the bank's module prints this")
        if os.path.exists("bank-closed"):
            raise takeback.NotDone("the bank is closed")
        if os.path.exists("bank-breaks"):
            raise OSError("the line is dead")
        happens("refund", account, cents)

    @takeback.tool(
        undo=refund, target="{account}", describe="charge {cents:money} to {account}", cost="cents"
    )
    def charge(account: str, cents: int) -> dict:
        happens("charge", account, cents)
        return {"id": "ch_1"}

    @takeback.tool(describe="e-mail to {to}")
    def mail(to: str) -> None:
        happens("mail", to)

    @takeback.tool(describe="wire to {to}", timeout=60)
    def wire(to: str) -> None:
        happens("wire", to)
        raise ConnectionError("no answer")

    def found(to):
        return True if os.path.exists("was-sent") else None

    @takeback.tool("idempotent", probe=found, describe="fax to {to}", key_ttl=60)
    def fax(to: str) -> None:
        raise ConnectionError("no answer")

    @takeback.tool(
        requires_approval=True, facts=lambda seat: {"price": 20}, describe="seat {seat}", owner="sales"
    )
    def seat(seat: str) -> None:
        happens("seat", seat)

    def setup():
        if os.path.exists("no-setup"):
            raise RuntimeError("no database")
        pathlib.Path("was-set-up").touch()
    '''
)


class Shop:
    """A folder with the app and a store; an agent at work there, and the command line beside it."""

    def __init__(self, folder: Path, cli: Cli) -> None:
        self.folder, self._cli = folder, cli
        self.store = folder / "agent.db"
        (folder / "shop.py").write_text(APP)

    def agent(self, *words: str, **how: Any) -> BaseException | None:
        """The agent enters a step for each word; what stopped it, if something did."""
        with self._alone(), takeback.open(self.store, actor="bot", **how) as tb:
            load("shop")
            shop = sys.modules["shop"]
            trip = tb.thread("trip", agent="planner", initial={"n": 0})
            try:
                for word in words:
                    with trip.step(word) as step:
                        step.state["n"] += 1
                        _act(shop, trip, word, step.state)
            except Exception as stopped:  # what a call raises is what the test is about
                return stopped
        return None

    @contextlib.contextmanager
    def tools(self) -> Iterator[tuple[takeback.Repo, Any]]:
        """The agent's side: the store, and the app's module."""
        with self._alone(), takeback.open(self.store, actor="bot") as tb:
            load("shop")
            yield tb, sys.modules["shop"]

    def __call__(self, *words: object, **how: Any) -> Ran:
        """`takeback …` on this store, in a process that has no tools but those of --app."""
        with self._alone():
            return self._cli(*words, "--db", self.store, "--thread", "trip", **how)

    def ok(self, *words: object, **how: Any) -> Ran:
        ran = self(*words, **how)
        assert ran.code == 0, ran
        return ran

    def states(self) -> list[str]:
        """The states of the effects, by number."""
        with takeback.open(self.store) as tb:
            return [effect.state for effect in tb.thread("trip").effects()]

    @property
    def world(self) -> list[str]:
        """What really happened, in order."""
        log = self.folder / "world.log"
        return [json.loads(line)[0] for line in log.read_text().splitlines()] if log.exists() else []

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """As in a process of its own: no tools before it, and nothing of what is imported after it."""
        path, tools, undos = list(sys.path), registry._tools, registry._undos
        registry._tools, registry._undos = {}, {}
        try:
            yield
        finally:
            sys.path[:] = path
            registry._tools, registry._undos = tools, undos
            sys.modules.pop("shop", None)
            importlib.invalidate_caches()


def _act(shop: Any, trip: takeback.Thread[Any], word: str, state: Any) -> None:
    calls = {
        "charge": ("ACME", 4200),
        "mail": ("j@example.com",),
        "wire": ("BANK",),
        "fax": ("BANK",),
        "seat": ("12A",),
    }
    if word == "ask":
        state["answer"] = trip.pause("Which seat?", {"aisle": "+$20"})
    elif word in calls:
        getattr(shop, word)(*calls[word])
