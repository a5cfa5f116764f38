"""Going back and forth: plans that only read, and applying exactly what a plan says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from blake3 import blake3

from takeback.engine import history
from takeback.engine.changes import Change, as_text, summary
from takeback.engine.commit import Beside, Draft, Said, publish
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.diff import changes_between
from takeback.errors import BadRequest, Conflict, NothingToRedo, NothingToUndo, PlanStale
from takeback.model.ids import BOOKMARK, ThreadUid, shown
from takeback.model.records import Checkpoint, FileRoot, Pointer
from takeback.model.tree.nodes import Writer
from takeback.storage.base import FilesKept, Row


class Part(Protocol):
    """One kind of thing that a plan goes back over: state now; effects, files and memory join it."""

    name: str

    def summary(self, limit: int = 4) -> str:
        """A line for people; empty when this part changes nothing."""
        ...

    def lines(self, limit: int | None = None) -> list[str]: ...

    def as_dict(self) -> dict[str, Any]: ...


class StatePart:
    """What a plan does to the state."""

    name = "state"

    def __init__(self, find: Callable[[], list[Change]]) -> None:
        self._find, self._changes = find, None

    _changes: list[Change] | None

    @property
    def changes(self) -> list[Change]:
        """What differs from the head; found when it is first looked at."""
        if self._changes is None:
            self._changes = self._find()
        return self._changes

    def summary(self, limit: int = 4) -> str:
        return summary(self.changes, limit)

    def lines(self, limit: int | None = None) -> list[str]:
        return as_text(self.changes, limit)

    def as_dict(self) -> dict[str, Any]:
        return {"part": self.name, "changes": [change.as_dict() for change in self.changes]}


class Move(msgspec.Struct, frozen=True):
    """Where a plan goes: the verb, the head that it saw, the checkpoint that it is about, and the draft."""

    kind: str
    head: Checkpoint
    target: Checkpoint
    draft: Draft
    undoes: Checkpoint | None = None

    @property
    def digest(self) -> str:
        """Of all that the plan saw: if it is another when it is applied, something moved."""
        seen = self.kind.encode() + self.head.digest + self.target.digest + self.draft.root
        return shown(blake3(seen).digest())


def to_checkpoint(tip: Tip, target: Checkpoint, *, state: bool = True, files: bool = True) -> Move:
    """Roll back (or forward) to any version: a new operation, with the head's stack below it. What is left
    out stays as it is at the head."""
    draft = _restoring(target, "rollback", origin=pointer(target))
    if not state:  # nor does the history go back: what is undone under it shows as missing
        draft = msgspec.structs.replace(draft, root=tip.head.state_root, origin=tip.pointer)
    if not files:
        draft = msgspec.structs.replace(draft, files=tip.head.files)
    return Move("rollback", tip.head, target, draft)


def back(ctx: Context, tip: Tip, mark: Any = None) -> Move:
    """Take back the last operation, or go exactly to what a bookmark names."""
    version = tip.head.version + 1
    if mark is not None:
        if not (isinstance(mark, str) and BOOKMARK.fullmatch(mark)):
            raise BadRequest(
                f"{mark!r} is no bookmark", thread=tip.info.name, hint="Use rollback for any other reference"
            )
        target = history.resolve(ctx, tip, mark)
        return Move("undo", tip.head, target, _undoing(target, None, version))
    top = tip.head.undo_top
    if top is None:
        raise NothingToUndo(
            "no operation is left to take back", thread=tip.info.name, checkpoint=tip.head.version
        )
    undone = history.target(ctx, tip, top)
    assert undone.before is not None
    target = history.target(ctx, tip, undone.before)
    return Move("undo", tip.head, target, _undoing(target, top, version), undone)


def forth(ctx: Context, tip: Tip) -> Move:
    """Take back the last undo: what stood before it comes again, stack and all."""
    top = tip.head.redo_top
    if top is None:
        raise NothingToRedo(
            "no undo is left to take back",
            thread=tip.info.name,
            checkpoint=tip.head.version,
            hint="A new operation ends the redo; rollback reaches every version",
        )
    undone = history.target(ctx, tip, top)
    assert undone.before is not None
    target = history.target(ctx, tip, undone.before)
    stack = (target.undo_top, target.redo_top)
    draft = _restoring(target, "redo", origin=pointer(target), undoes=top, stack=stack)
    return Move("redo", tip.head, target, draft, undone)


def onto(move: Move, tip: Tip, files: list[FileRoot]) -> Move:
    """The same move from a head that says the same of the state, with these files: what was dirty has been
    captured since."""
    stack = move.draft.stack
    if move.kind == "undo" and stack is not None:
        stack = (stack[0], tip.head.version + 1)
    draft = msgspec.structs.replace(move.draft, files=files, stack=stack)
    return msgspec.structs.replace(move, head=tip.head, draft=draft)


def state_part(ctx: Context, move: Move) -> StatePart:
    ahead = Writer(ctx)  # a merged state is not stored before the plan is applied
    ahead.new = move.draft.objects
    return StatePart(lambda: changes_between(ahead, move.head.state_root, move.draft.root))


def apply(ctx: Context, tip: Tip, move: Move, said: Said, beside: Beside | None = None) -> Tip:
    """Do exactly what the plan says, or refuse because something moved."""
    if tip.head.digest != move.head.digest:
        raise stale(tip, move)
    draft = msgspec.structs.replace(move.draft, said=said)
    try:
        return publish(ctx, tip, draft, beside)
    except Conflict as error:
        raise stale(tip, move, error.actual) from None


def _undoing(target: Checkpoint, undoes: int | None, version: int) -> Draft:
    stack = (target.undo_top, version)
    return _restoring(target, "undo", origin=pointer(target), undoes=undoes, stack=stack)


def _restoring(
    target: Checkpoint,
    kind: str,
    *,
    origin: Pointer,
    undoes: int | None = None,
    stack: tuple[int | None, int | None] | None = None,
) -> Draft:
    return Draft(
        kind, target.state_root, Said(), origin=origin, undoes=undoes, stack=stack, files=target.files
    )


def takes_up(move: Move, head: Checkpoint) -> list[Row]:
    """That the target's files are still there, if it is they that come back."""
    if move.draft.files is None or move.draft.files == head.files or not move.target.files:
        return []
    return [FilesKept(ThreadUid(move.target.uid), move.target.version)]


def stale(tip: Tip, move: Move, actual: str | None = None) -> PlanStale:
    """The plan was made for another head."""
    return PlanStale(
        f"the plan was made at {move.head.id}; the head is {actual or tip.head.id} now",
        thread=tip.info.name,
        checkpoint=move.head.version,
        hint="thread.refresh(), make a new plan, and look at it",
    )
