"""What looking back gives: a thread as it was at one checkpoint, and its checkpoints in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from takeback.engine import history
from takeback.engine.context import Context, Tip
from takeback.model.paths import PathLike
from takeback.model.records import Checkpoint

if TYPE_CHECKING:
    from takeback.handle import Handle

S = TypeVar("S")


class View(Generic[S]):
    """A thread as it was at one checkpoint."""

    def __init__(self, thread: Handle[S], checkpoint: Checkpoint) -> None:
        self._thread, self.checkpoint = thread, checkpoint

    @property
    def version(self) -> int:
        """Which version this is."""
        return self.checkpoint.version

    @property
    def state(self) -> S:
        """Its state, read-only, or an instance of the thread's model."""
        return cast(S, self._thread._state_of(self.checkpoint))

    def get(self, path: PathLike) -> Any:
        """What stood at a path; the rest is not loaded."""
        return self._thread._get(self.checkpoint, path)

    def __repr__(self) -> str:
        return f"<View of {self._thread.name!r} at version {self.version}>"


class History:
    """The checkpoints of a thread: a sequence that is read a page at a time."""

    def __init__(self, ctx: Context, tip: Tip, *, newest_first: bool, inherited: bool) -> None:
        self._ctx, self._tip, self._newest_first, self._inherited = ctx, tip, newest_first, inherited

    def __iter__(self) -> Iterator[Checkpoint]:
        return history.walk(self._ctx, self._tip, newest_first=self._newest_first, inherited=self._inherited)

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._inherited else self._tip.head.version + 1
