"""The rows of the modelled ledger: checkpoints, threads, steps, effects, approvals, plans."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.testing.effects.world import Call

Ref = tuple[str, int]
"""A checkpoint: its thread and version."""

STANDING = frozenset({"begun", "unknown", "done", "undoing", "undo_failed", "undo_unknown"})
"""States in which an effect may stand in the world."""
UNSETTLED = frozenset({"begun", "unknown", "undoing", "undo_unknown"})


class Refused(Exception):
    """A verb that is refused: `kind` is what a program compares. Nothing was changed."""

    def __init__(self, kind: str, *detail: Any) -> None:
        self.kind, self.detail = kind, detail
        super().__init__(kind, *detail)


class Checkpoint(msgspec.Struct):
    thread: str
    version: int
    line: int
    """The version that opened its line."""
    parent: int | None
    origin: Ref | None = None
    """Where the line starts, on the checkpoint that opens it."""
    source: Ref | None = None
    """What a merge took in."""


class Thread(msgspec.Struct):
    name: str
    root: str
    rights: str = "guard"
    """deny · guard · allow"""
    head: int = -1
    line: int = 0
    plan: int | None = None
    """The plan that is being applied and holds the thread."""
    read_only: bool = False


class Step(msgspec.Struct):
    number: int
    thread: str
    line: int
    run: str
    label: str
    ord: int
    state: str = "open"
    """open · closed · abandoned"""
    attempt: int = 0
    base: int = 0
    """The head that its last attempt began with: what its agent has seen."""
    owner: str = ""
    lease: int = 0
    closed: int | None = None
    calls: list[int] = []
    """Its effects and those that it reused, in the order of their first claim."""
    instead: dict[int, str] = {}
    """Of what was reused by decision though it was worded otherwise: the arguments it was taken for."""
    claims: dict[int, int] = {}
    """The attempt in which each was last claimed."""


class Effect(msgspec.Struct):
    number: int
    thread: str
    owner: str
    line: int
    step: int
    slot: tuple[Any, ...]
    tool: str
    args: str
    target: str
    version: int = 0
    """Of the tool's code, when the intent was made: a redo is made with the same."""
    state: str = "begun"
    tries: int = 0
    """How many times it was called for, with whatever key."""
    redos: int = 0
    keys: list[str] = []
    result: str | None = None
    first_try: int = 0
    """When the first try with the newest key began."""
    deadline: int = 0
    undo_deadline: int = 0
    undo_tries: int = 0
    unsure: bool = False
    """A try with the newest key ended unknown, so that a refusal of a later one settles nothing."""
    undo_unsure: bool = False
    busy: str = ""
    """Which step or plan is calling for it."""
    order: int = 0
    unclaimed: bool = False
    """Its step closed without it."""
    decisions: list[tuple[Any, ...]] = []

    @property
    def key(self) -> str:
        return self.keys[-1]


class Hanging(msgspec.Struct):
    """A call that somebody began and did not end: its caller was stopped, or stopped to wait for it."""

    effect: int
    redos: int
    tries: int
    call: Call
    deadline: int
    over: bool = False
    line: tuple[int, int, int] | None = None
    """The plan, its line, and which start of the line it was."""


class Approval(msgspec.Struct):
    number: int
    thread: str
    asker: str
    line: int
    slot: tuple[Any, ...]
    redos: int
    tool_version: int
    facts: int | None
    plan: int | None = None
    """The plan for whose redo it was asked."""
    state: str = "requested"
    """requested · granted · used · void"""
    expires: int = 0
    used_by: int | None = None


class PlanLine(msgspec.Struct):
    effect: int
    do: str
    """undo · redo"""
    state: str = "todo"
    """todo · running · done · failed · accepted"""
    why: str = ""
    starts: int = 0

    @property
    def goal(self) -> str:
        return "undone" if self.do == "undo" else "done"


class Plan(msgspec.Struct):
    number: int
    thread: str
    head: int
    target: int
    scope: str
    """all · state (effects are left standing) · effects (the state is left)"""
    shared: bool
    """What forks rely on is named, and so taken back too."""
    orphans: bool
    redo: bool
    groups: dict[str, tuple[int, ...]]
    seen: tuple[Any, ...]
    """What a digest would be made of."""
    state: str = "open"
    """open · applying · paused · applied · aborted"""
    lines: list[PlanLine] = []
