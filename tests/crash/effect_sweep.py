"""What the kill sweeps of effects share: one tool a preset over the provider that counts, and the judge.

A child sets a thread up, does its act and is killed somewhere in it. A second child, a new process, recovers
as a user would: `recover`, the same script again, and a person's word (who looks at the provider) on what is
unknown. Then what the ledger says is held against what the provider counted.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

import takeback
from takeback.model.ledger import Effect, effect_key
from takeback.repo import Repo
from takeback.testing.faults import Child, Kill, Life, in_child
from takeback.testing.provider import Client, Provider, Refused
from takeback.thread import Thread
from takeback.tools import declare

AGENT, PERSON = "agent", "ada"
LATER = 10 * 60 * 1_000_000
"""After every deadline: whoever looks into a crash comes later."""
_numbers = itertools.count(1)


class Here:
    """What the tools of this process reach: set in each child."""

    client: Client
    point: Callable[[str], None] = staticmethod(lambda _: None)


def reach(what: str, act: Callable[[], Any]) -> Any:
    """A call to the provider, with a point before and behind it; its refusal says that nothing happened."""
    Here.point(f"before {what}")
    try:
        answer = act()
    except Refused as refused:
        raise takeback.NotDone(str(refused)) from None
    Here.point(f"after {what}")
    return answer


def _refund(result: str) -> None:
    reach("refund", lambda: Here.client.refund(takeback.effect_key(), result))


def _charge(account: str, cents: int) -> str:
    return str(reach("charge", lambda: Here.client.charge(takeback.effect_key(), account, cents)))


def _refund_once(result: str) -> None:
    _refund(result)


charge = declare(
    _charge, name="sweep_charge", undo=_refund, target="{account}", describe="charge to {account}"
)
charge_once = declare(
    _charge, name="sweep_charge_once", undo=_refund_once, undo_safe=False, target="{account}"
)


@takeback.tool("pure", name="sweep_look")
def look(account: str, cents: int) -> str:
    return str(reach("look", lambda: Here.client.get(account)))


@takeback.tool("idempotent", name="sweep_put", target="{account}")
def put(account: str, cents: int) -> str:
    return str(reach("put", lambda: Here.client.put(takeback.effect_key(), account, str(cents))))


@takeback.tool(name="sweep_mail", target="{account}")
def mail(account: str, cents: int) -> str:
    return str(reach("send", lambda: Here.client.send(takeback.effect_key(), account, str(cents))))


@takeback.tool("local", name="sweep_shell", target="{account}")
def shell(account: str, cents: int) -> str:
    return str(reach("shell", lambda: Here.client.send(takeback.effect_key(), account, str(cents))))


def unnoted(account: str) -> None:
    Here.point("before undo of note")
    takeback.connection().execute("DELETE FROM sweep_notes WHERE account = ?", (account,))
    Here.point("after undo of note")


@takeback.tool("transactional", name="sweep_note", target="{account}", undo=unnoted)
def note(account: str, cents: int) -> str:
    Here.point("before note")
    database = takeback.connection()
    database.execute("CREATE TABLE IF NOT EXISTS sweep_notes (account TEXT, cents INTEGER)")
    database.execute("INSERT INTO sweep_notes VALUES (?, ?)", (account, cents))
    Here.point("after note")
    return account


TOOLS = {
    "pure": look, "idempotent": put, "compensable": charge, "transactional": note, "irreversible": mail,
    "local": shell,
}  # fmt: skip


class Facts(msgspec.Struct):
    """What is known of one kill when all was recovered."""

    name: str
    said: list[Any]
    found: list[Any]
    effects: list[Effect]
    parked: list[int]
    head: str
    problems: list[str]
    notes: int


Act = Callable[[Thread[Any], Child], None]


class Sweep:
    """One act, killed at its points; each time on a thread of its own, all in one store."""

    def __init__(
        self, folder: Path, provider: Provider, *, setup: Act, act: Act, again: Callable[[Mending], None]
    ) -> None:
        self.path = folder / f"sweep-{next(_numbers)}.db"
        self.provider, self._setup, self._act, self._again = provider, setup, act, again

    def points(self) -> list[str]:
        """The labels that are passed when nobody kills it."""
        life, facts = self.kill(None)
        assert not life.killed
        assert facts.problems == []
        return life.points

    def kill(self, kill: Kill | None) -> tuple[Life, Facts]:
        """Kill it there, recover in a new process, and tell both."""
        name = f"t{next(_numbers)}"
        life = in_child(lambda child: self._live(child, name), kill)
        after = in_child(lambda child: self._recover(child, name))
        return life, msgspec.json.decode(after.said[-1].encode(), type=Facts)

    def _live(self, child: Child, name: str) -> None:
        Here.client = Client(self.provider.port)
        with takeback.open(self.path, actor=AGENT) as repo:
            thread = repo.thread(name, agent=AGENT, initial={})
            self._setup(thread, child)
            Here.point = child.point
            repo._ctx.storage.point = child.point  # type: ignore[attr-defined]  # SQLite's
            with child.armed():
                self._act(thread, child)

    def _recover(self, child: Child, name: str) -> None:
        Here.client = Client(self.provider.port)
        clock = Clock()
        with takeback.open(self.path, actor=AGENT, clock=clock) as repo:
            mending = Mending(repo, name, child, clock)
            self._again(mending)
            thread = repo.thread(name)
            problems = [str(report) for report in repo.verify(name) if not report.ok]
            facts = Facts(
                name=name, said=mending.said, found=mending.found, effects=thread.effects(),
                parked=mending.parked, head=thread.head.kind, problems=problems,
                notes=self._notes(repo, name),
            )  # fmt: skip
            child.say(msgspec.json.encode(facts).decode())

    def _notes(self, repo: Repo, name: str) -> int:
        with repo._ctx.storage._connections.reading() as database:  # type: ignore[attr-defined]  # SQLite's
            made = database.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'sweep_notes'")
            if not next(iter(made))[0]:
                return 0
            rows = database.execute("SELECT count(*) FROM sweep_notes WHERE account = ?", (name,))
            return int(next(iter(rows))[0])


class Clock:
    """Of whoever comes later: after every deadline, and after those of their own tries when they waited."""

    def __init__(self) -> None:
        self.ahead = LATER

    def __call__(self) -> int:
        return time.time_ns() // 1000 + self.ahead


class Mending:
    """Whoever comes after a crash."""

    def __init__(self, repo: Repo, name: str, child: Child, clock: Clock) -> None:
        self.repo, self.name, self.child, self._clock = repo, name, child, clock
        self.thread = repo.thread(name)
        self.said: list[Any] = []
        self.found: list[Any] = []
        self.parked: list[int] = []

    def recover(self) -> Any:
        """`tb.recover()`; what it lists as unknown on this thread is parked."""
        found = self.repo.recover()
        mine = [each for each in found.effects if each.thread == self.thread.info.uid]
        self.found.append([[each.number, each.state] for each in mine])
        self.parked += [each.number for each in mine if each.state in ("unknown", "undo_unknown")]
        self.thread.refresh()
        return found

    def resolve(self) -> None:
        """A person looks at the provider, and says what is seen there, when nothing can be on its way."""
        self._clock.ahead += LATER
        for effect in self.thread.effects():
            result = None
            if effect.state == "unknown":
                result = Here.client.find(effect.key)
                happened = result is not None
            elif effect.state == "undo_unknown":
                happened = undone(effect) > 0
            else:
                continue
            self.said.append(f"resolved {effect.number}")
            self.thread.resolve(effect.number, happened=happened, result=result, actor=PERSON)

    def plans(self) -> list[Any]:
        return [plan for plan in self.recover().plans if plan.thread == self.name]

    def bring_to_an_end(self) -> None:
        """Plans that a crash left: go on, resolve what is unknown, try again what failed."""
        for _ in range(12):
            plans = self.plans()
            if not plans:
                return
            self.resolve()
            plan = plans[0]
            failed = [line.effect for line in plan._cell.lines if line.state == "failed"]
            if failed:
                plan.retry(next(e.number for e in self.thread.effects() if e.id == failed[0]))
            else:
                plan.resume()
        raise AssertionError(f"the plan came to no end: {plans[0]}")


def undone(effect: Effect) -> int:
    """How many refunds the provider has counted for an effect."""
    return sum(int(Here.client._ask("undone", key=key)) for key in keys(effect))


def keys(effect: Effect) -> list[str]:
    return [effect_key(effect.id, redo) for redo in range(effect.redo + 1)]
