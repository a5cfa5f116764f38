"""Plans and receipts as callers hold them: what will be done, and what was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from blake3 import blake3

from takeback.engine.forgetting import MemoryPart
from takeback.engine.merge3 import MergeClash
from takeback.engine.plans import EffectsPart, waits
from takeback.model.ids import shown

if TYPE_CHECKING:
    from takeback.engine.file_words import FilesPart
    from takeback.engine.rollback import Move, Part
    from takeback.going_back import GoingBack
    from takeback.model.ids import Bookmark
    from takeback.model.records import Checkpoint
    from takeback.surroundings import GitPart

Meta: TypeAlias = "Mapping[str, Any] | None"


class Plan:
    """Everything that an operation will do, made before it does anything. `print(plan)` is for people."""

    def __init__(
        self,
        thread: GoingBack[Any],
        move: Move,
        parts: list[Part],
        conflicts: list[MergeClash],
        git: GitPart | None = None,
    ) -> None:
        self._thread, self._move, self._git = thread, move, git
        self.parts = parts
        self.conflicts = conflicts

    @property
    def thread(self) -> str:
        """The name of the thread that it is for."""
        return self._thread.name

    @property
    def kind(self) -> str:
        """rollback, undo, redo, revert or merge."""
        return self._move.kind

    @property
    def head(self) -> Checkpoint:
        """The head that the plan was made at; if it moves, the plan is stale."""
        return self._move.head

    @property
    def target(self) -> Checkpoint:
        """The checkpoint that comes back; what a merge brings in; what a revert takes back."""
        return self._move.target

    @property
    def undoes(self) -> Checkpoint | None:
        """The operation that an undo, redo or revert takes back."""
        return self._move.undoes

    @property
    def digest(self) -> str:
        """Of what the plan saw."""
        files = b"" if self.files is None else self.files.digest
        seen = self._move.digest.encode() + self.effects.digest + self.memory.digest + files
        return shown(blake3(seen).digest())

    @property
    def effects(self) -> EffectsPart:
        """What it does to effects, and what it leaves standing."""
        return next(part for part in self.parts if isinstance(part, EffectsPart))

    @property
    def memory(self) -> MemoryPart:
        """What it does to memory: which items will show other versions."""
        return next(part for part in self.parts if isinstance(part, MemoryPart))

    @property
    def files(self) -> FilesPart | None:
        """What it does to the files of attached workspaces; None where it does nothing about files."""
        from takeback.engine.file_words import FilesPart

        return next((part for part in self.parts if isinstance(part, FilesPart)), None)

    @property
    def git(self) -> GitPart | None:
        """What moved in the repository of a workspace, and whether it goes back; None where there is none."""
        return self._git

    @property
    def waits(self) -> dict[str, int]:
        """What this process has no tool for: handlers, and how many effects each is for. A worker that has
        them can carry the plan out, or `--app` brings them."""
        from takeback.calling import Hands

        hands, found = Hands(), dict[str, int]()
        for handler in self.effects.handlers:
            if not hands.has(handler):
                found[handler] = found.get(handler, 0) + 1
        return found

    @property
    def calm(self) -> bool:
        """Whether it only restores: nothing is undone in the world, and nothing has to be said before."""
        return self.effects.calm and (self.files is None or self.files.calm)

    def apply(
        self,
        reason: str | None = None,
        *,
        actor: str | None = None,
        meta: Meta = None,
        acknowledge: bool | Collection[int] = False,
        wait: float | None = None,
    ) -> Receipt:
        """Do exactly this; `PlanStale` if anything moved, `MergeConflict` if both sides cannot hold.

        `acknowledge` says that what stays standing is known: all of it, or by number. `wait` is for how many
        seconds a worker is waited for where this process lacks a tool.
        """
        from takeback.going_back import said

        return self._thread._apply(self, self._move, said(reason, actor, meta), acknowledge, wait)

    def lines(self, limit: int | None = None) -> list[str]:
        """What each part does, a line a change."""
        return [line for part in self.parts for line in part.lines(limit)] + self.obstacles

    @property
    def obstacles(self) -> list[str]:
        """Why it cannot be applied here as it is, in words: what waits for a worker, and conflicts."""
        return waits(self.waits) + [f"conflict at {clash}" for clash in self.conflicts]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "thread": self.thread,
            "kind": self.kind,
            "head": self.head.version,
            "target": self.target.version,
            "undoes": self.undoes.version if self.undoes else None,
            "digest": self.digest,
            "parts": [part.as_dict() for part in self.parts],
            "waits": self.waits,
            "conflicts": [clash.as_dict() for clash in self.conflicts],
        }

    def __str__(self) -> str:
        said = [text for part in self.parts if (text := part.summary())]
        said += [f"conflict at {clash}" for clash in self.conflicts]
        return " · ".join(said) or "nothing changes"

    def __repr__(self) -> str:
        return f"<Plan {self.kind} of {self.thread!r}: {self}>"


class Receipt:
    """What was done: the new checkpoint, the bookmark of what stood before, and what stayed."""

    def __init__(
        self,
        thread: GoingBack[Any],
        plan: Plan,
        checkpoint: Checkpoint,
        bookmark: Bookmark,
        kept: Mapping[str, str] | None = None,
        kept_refs: Sequence[str] = (),
    ) -> None:
        self._thread = thread
        self.checkpoint = checkpoint
        self.bookmark = bookmark
        self.standing: list[str] = [f"#{e.number} ({e.shown})" for e in plan.effects.standing]
        self.kept: dict[str, str] = dict(kept or {})
        """Files that were to be put back and stay, since somebody else changed them meanwhile: and why."""
        self.kept_refs: list[str] = [*kept_refs]
        """Under which names git keeps what branches were taken back from."""
        self._plan = plan

    @property
    def files(self) -> list[str]:
        """Every file that was put back, removed or brought back."""
        part = self._plan.files
        return [] if part is None else [path for path in part.touched if path not in self.kept]

    @property
    def done(self) -> list[str]:
        """What each part did, in a line."""
        return [text for part in self._plan.parts if (text := part.summary())]

    @property
    def state(self) -> Any:
        """The state after it."""
        return self._thread.at(self.checkpoint).state

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "checkpoint": self.checkpoint.as_dict(),
            "bookmark": self.bookmark,
            "done": self.done,
            "standing": self.standing,
            "files": self.files,
            "kept": self.kept,
            "kept_refs": self.kept_refs,
        }

    def __str__(self) -> str:
        made = f"version {self.checkpoint.version} ({self.checkpoint.kind})"
        kept = [f"{path} stays: it {why}" for path, why in self.kept.items()]
        return " · ".join([made, *self.done, *kept, f"bookmark {self.bookmark}"])

    def __repr__(self) -> str:
        return f"<Receipt {self}>"
