"""The modelled ledger: its tables, lines and lineages, and what a history believes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from takeback.testing.effects.records import (
    Approval,
    Checkpoint,
    Effect,
    Hanging,
    Plan,
    Ref,
    Refused,
    Step,
    Thread,
)
from takeback.testing.effects.rules import Rules
from takeback.testing.effects.tools import TOOLS

if TYPE_CHECKING:
    from takeback.testing.effects.world import World


class Ledger:
    """All rows. What is added here is added for good; each verb of the model is one transaction on it."""

    def __init__(self, world: World, rules: Rules | None, money: int, attempts: int) -> None:
        self.world, self.rules = world, rules or Rules()
        self.money, self.attempts = money, attempts
        self.threads: dict[str, Thread] = {}
        self.checkpoints: dict[Ref, Checkpoint] = {}
        self.steps: dict[int, Step] = {}
        self.effects: dict[int, Effect] = {}
        self.approvals: dict[int, Approval] = {}
        self.plans: dict[int, Plan] = {}
        self.hanging: list[Hanging] = []
        self.uses: set[tuple[int, Ref]] = set()
        self.late: list[tuple[int, str]] = []
        """Outcomes that came when nobody could use them any more."""
        self._clock = itertools.count(1)
        self._beliefs: dict[Ref, frozenset[int]] = {}

    def tick(self) -> int:
        """A number larger than any before."""
        return next(self._clock)

    @property
    def now(self) -> int:
        return self.world.now

    # --- threads and lines

    def make_thread(self, name: str, origin: Ref | None = None, rights: str = "guard") -> Thread:
        root = self.threads[origin[0]].root if origin else name
        self.threads[name] = thread = Thread(name, root, rights)
        self.append(thread, origin=origin, opens=True)
        return thread

    def append(
        self, thread: Thread, *, origin: Ref | None = None, source: Ref | None = None, opens: bool = False
    ) -> Ref:
        """A checkpoint on this thread's line, or one that `opens` a line."""
        version = thread.head + 1
        if opens:
            thread.line = version
        parent = thread.head if version else None
        ref = (thread.name, version)
        self.checkpoints[ref] = Checkpoint(thread.name, version, thread.line, parent, origin, source)
        thread.head = version
        return ref

    def head(self, name: str) -> Ref:
        return (name, self.threads[name].head)

    def family(self, name: str) -> set[str]:
        root = self.threads[name].root
        return {thread.name for thread in self.threads.values() if thread.root == root}

    def writable(self, name: str) -> Thread:
        thread = self.threads[name]
        if thread.plan is not None:
            raise Refused("rollback_in_progress", thread.plan)
        return thread

    def descends(self, name: str, ancestor: str) -> bool:
        """Whether the thread is a fork, or a fork of a fork, of the other."""
        origin = self.checkpoints[name, 0].origin
        return origin is not None and (origin[0] == ancestor or self.descends(origin[0], ancestor))

    # --- lineage

    def intervals(self, ref: Ref) -> dict[tuple[str, int], int]:
        """L(ref) as (thread, line) -> the last version on it."""
        found: dict[tuple[str, int], int] = {}
        todo = [ref]
        while todo:
            name, version = todo.pop()
            line = self.checkpoints[name, version].line
            last = found.get((name, line), line - 1)
            if version <= last:
                continue
            found[name, line] = version
            origin = self.checkpoints[name, line].origin
            if last < line and origin is not None:
                todo.append(origin)
            passed = (self.checkpoints[name, number].source for number in range(last + 1, version + 1))
            todo += [source for source in passed if source is not None]
        return found

    def holds(self, intervals: dict[tuple[str, int], int], ref: Ref) -> bool:
        line = self.checkpoints[ref].line
        return ref[1] <= intervals.get((ref[0], line), -1)

    def believed(self, ref: Ref) -> frozenset[int]:
        """B(ref): the effects with a use in its lineage. A checkpoint's never change."""
        if ref not in self._beliefs:
            held = self.intervals(ref)
            self._beliefs[ref] = frozenset(effect for effect, at in self.uses if self.holds(held, at))
        return self._beliefs[ref]

    def recorded(self, name: str, run: str, label: str) -> list[Step]:
        """The closed steps of this label and run that the head's history holds, in the order of closing."""
        held = self.intervals(self.head(name))
        everywhere = not self.rules.runs_follow_lineage
        found = [
            step
            for step in self.steps.values()
            if (step.run, step.label) == (run, label)
            and step.closed is not None
            and (self.holds(held, (step.thread, step.closed)) or (everywhere and step.thread == name))
        ]
        return sorted(found, key=lambda step: (step.ord, step.number))

    def used(self, effect: Effect) -> bool:
        return any(number == effect.number for number, _ in self.uses)

    def concerned(self, name: str) -> set[int]:
        """The effects that a plan of this thread speaks of: made, owned, used or merged in."""
        found = {
            effect.number for effect in self.effects.values() if name in (effect.thread, effect.owner)
        } | {number for number, (thread, _) in self.uses if thread == name}
        for checkpoint in self.checkpoints.values():
            if checkpoint.thread == name and checkpoint.source is not None:
                found |= self.believed(checkpoint.source)
        return found

    # --- budgets

    def afford(self, name: str, tool: str, args: str) -> None:
        """Reserve money and one attempt, in the transaction of the intent."""
        rules = self.rules
        family = self.family(name) if rules.budget_is_the_familys else {name}
        effects = [effect for effect in self.effects.values() if effect.thread in family]
        tries = sum(
            effect.redos + 1 for effect in effects if effect.state != "undone" or rules.attempts_stay_spent
        )
        if tries >= self.attempts:
            raise Refused("budget_exceeded", "attempts")
        spent = sum(TOOLS[effect.tool].cost(effect.args) for effect in effects if self._spends(effect))
        cost = TOOLS[tool].cost(args)
        if cost and spent + cost > self.money:
            raise Refused("budget_exceeded", "money")

    def _spends(self, effect: Effect) -> bool:
        if effect.state == "unknown":
            return self.rules.unknown_is_spent
        if effect.state == "undone":
            return not self.rules.undone_comes_back
        return effect.state != "failed"


def fact(ledger: Ledger, tool: str) -> Any:
    """What an approval of this tool shows: the price now, or nothing."""
    return ledger.world.price if TOOLS[tool].facts else None
