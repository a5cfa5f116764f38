"""Steps: a unit of an agent's work, which holds the working state and ends as one checkpoint."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from takeback.errors import StepOpen

if TYPE_CHECKING:
    from types import TracebackType

    from takeback.engine.commit import Said
    from takeback.model.records import Checkpoint
    from takeback.thread import Thread

S = TypeVar("S")
_open: ContextVar[tuple[Step[Any], ...]] = ContextVar("takeback_open_steps", default=())


class Step(Generic[S]):
    """`with thread.step("book", reason=…) as s:` change `s.state`; what is left at the end is committed.

    An exception in the body commits nothing. A step that changed nothing makes no version. If others
    committed meanwhile, the end of the step merges with what they did.
    """

    state: S
    """The working state: yours to change."""

    def __init__(self, thread: Thread[S], label: str, said: Said) -> None:
        self._thread, self.label, self._said = thread, label, said
        self.checkpoint: Checkpoint | None = None
        """The version that the step made, once it has ended; None if nothing changed."""
        self._ended = False

    def __enter__(self) -> Self:
        refuse_open(self._thread, "another step")
        self._base, self.state = self._thread._begin()
        self._token = _open.set((*_open.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.reset(self._token)
        self._ended = True
        if kind is None:
            self.checkpoint = self._thread._finish(self._base, self.state, self._said)

    @property
    def thread(self) -> Thread[S]:
        """The thread whose step this is."""
        return self._thread


def refuse_open(thread: Thread[Any], what: str) -> None:
    """Inside a step of this thread, its state changes through the step alone."""
    for step in _open.get():
        # A task that was started inside a step keeps the context that it was started with.
        if not step._ended and step.thread.is_same(thread):
            raise StepOpen(
                f"the step {step.label!r} is open here, and {what} would pass it by",
                thread=thread.name,
                hint="Change step.state instead, or end the step first",
            )
