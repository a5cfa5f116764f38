"""The verbs that a program is made of, and what can be seen: what the model and a real engine both offer."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

Answer = tuple[Any, ...]
"""A word, then plain values. A refusal is ("refused", kind, …): nothing was changed."""


class EffectSeen(msgspec.Struct, frozen=True):
    """An effect as the ledger tells it. Effects are numbered from 1, in the order of their intents."""

    number: int
    thread: str
    owner: str
    tool: str
    args: str
    state: str
    keys: tuple[str, ...]
    decided: bool
    """Somebody said that it may stand beside another, or that it be made again."""


class ApprovalSeen(msgspec.Struct, frozen=True):
    number: int
    thread: str
    tool: str
    state: str
    facts: int | None
    used_by: int | None


class ThreadSeen(msgspec.Struct, frozen=True):
    name: str
    head: int
    rights: str
    held: bool
    """A plan is being applied."""
    read_only: bool


class PlanSeen(msgspec.Struct, frozen=True):
    number: int
    thread: str
    target: int
    scope: str
    state: str
    groups: dict[str, tuple[int, ...]]
    lines: tuple[tuple[int, str, str], ...]
    """effect, undo or redo, and how far it is"""


class Subject(Protocol):
    """Each verb answers; none raises. The world that it was made with decides how calls go.

    Whoever puts a real engine behind this declares the tools of `tools.TOOLS`, whose bodies call
    `world.call(name, takeback.effect_key())`, and whose undos call `world.take_back` with the key of what
    they undo; `NotDone` becomes takeback's own, and `Lost` may stay what it is. On `Died` nothing more is
    written in the worker's name. On `Stopped` the worker stands still until `wake`, which asks the clock,
    calls `world.finish` and records the outcome. Lifetimes are those of `tools`, in units of `world.now`.

    Workers are named by the caller, and a name is never used again once its worker died. Threads are
    named `main`, `fork 1`, …; versions count from 0; plans, approvals and calls that hang, from 1.
    """

    def enter(self, worker: str, thread: str, label: str, take_over: bool) -> Answer:
        """("new" | "resumed" | "replays",)"""
        ...

    def call(self, worker: str, tool: str, args: str, choice: str) -> Answer:
        """("free",) · ("called" | "retried", effect, state) · ("recorded", effect, state) ·
        ("replayed" | "reused", effect) · ("died", effect) · ("stopped", effect, "call" | "undo")"""
        ...

    def close(self, worker: str) -> Answer:
        """("closed", version) · ("replayed",)"""
        ...

    def leave(self, worker: str) -> Answer:
        """The body raised: ("open",) · ("nothing",) recorded yet · ("left",) a replay"""
        ...

    def start_run(self, worker: str, thread: str, run: str) -> Answer:
        """From its first line; the empty name ends it. ("run",)"""
        ...

    def crash(self, worker: str) -> Answer:
        """("crashed",)"""
        ...

    def wake(self, hanging: int) -> Answer:
        """A call that hangs goes on: ("woken", effect, its state | "gave up")"""
        ...

    def commit(self, thread: str) -> Answer:
        """By somebody outside any step: ("committed", version)"""
        ...

    def grant(self, approval: int, by_asker: bool) -> Answer:
        """("granted",)"""
        ...

    def resolve(self, effect: int, happened: bool) -> Answer:
        """("resolved", state)"""
        ...

    def fork(self, thread: str, version: int, rights: str) -> Answer:
        """("forked", name)"""
        ...

    def merge(self, thread: str, other: str) -> Answer:
        """("merged", version)"""
        ...

    def plan(
        self, thread: str, target: int, *, scope: str, shared: bool, orphans: bool, redo: bool
    ) -> Answer:
        """("planned", number)"""
        ...

    def apply(self, plan: int, *, acknowledge: bool, here: bool) -> Answer:
        """("applied", version) · ("paused",) · ("waits",) when nobody `here` executes · died, stopped"""
        ...

    def undo(self, thread: str, version: int) -> Answer:
        """To a bookmark at once: ("applied", version), or refused with plan_required."""
        ...

    def go_on(self, plan: int, decision: str) -> Answer:
        """As apply, from where it stands; ("aborted", version)"""
        ...

    def end(self) -> None:
        """Nothing more is asked: let go of what is held."""
        ...

    def effects(self) -> list[EffectSeen]: ...

    def approvals(self) -> list[ApprovalSeen]: ...

    def threads(self) -> list[ThreadSeen]: ...

    def plans(self) -> list[PlanSeen]: ...

    def hanging(self) -> list[int]:
        """The calls that hang, by number."""
        ...

    def believed(self, thread: str, version: int) -> frozenset[int]: ...

    def lineage(self, thread: str, version: int) -> frozenset[tuple[str, int]]: ...

    def discrepancies(self, thread: str) -> dict[str, tuple[int, ...]]: ...
