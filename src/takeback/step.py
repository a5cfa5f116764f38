"""Steps: a unit of work, which holds the working state, records effects, and ends as one checkpoint."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from takeback.engine import steps
from takeback.engine.calls import Answer
from takeback.engine.items import Buffer
from takeback.errors import BadRequest, StepOpen

if TYPE_CHECKING:
    from types import TracebackType

    from takeback.engine.commit import Said
    from takeback.engine.context import Tip
    from takeback.engine.steps import Session
    from takeback.handle import Handle
    from takeback.model.ledger import Effect
    from takeback.model.records import Checkpoint
    from takeback.thread import Thread

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
_open: ContextVar[tuple[Step[Any], ...]] = ContextVar("takeback_open_steps", default=())
_answer: ContextVar[Answer | None] = ContextVar("takeback_answer", default=None)


class Step(Generic[S]):
    """`with thread.step("book", reason=…) as s:` change `s.state`, call tools; what is left at the end is
    committed.

    An exception in the body commits nothing; the step stays open if it called tools, and entering it again
    goes on. A step that changed nothing and called nothing makes no version. If others committed meanwhile,
    its end merges with what they did.
    """

    state: S
    """The working state: yours to change."""

    def __init__(
        self,
        thread: Thread[S],
        label: str,
        said: Said,
        *,
        on_error: str = "keep",
        wait: float | None = None,
        take_over: bool = False,
    ) -> None:
        if on_error not in ("keep", "rollback"):
            raise BadRequest(f"on_error={on_error!r} is neither 'keep' nor 'rollback'", thread=thread.name)
        self._thread, self.label, self._said = thread, label, said
        self._on_error, self._wait, self._take_over = on_error, wait, take_over
        self._session: Session | None = None
        self.made: Checkpoint | None = None
        """The version that the step made, once it has ended; None if nothing changed."""
        self._ended = False
        self._kin: Callable[[Effect], bool] | None = None

    def __enter__(self) -> Self:
        refuse_open(self._thread, "another step")
        self._begin()
        self._token = _open.set((*_open.get(), self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.reset(self._token)
        try:
            if error is None:
                self._close()
        except BaseException as refused:
            self._leave(refused)
            raise
        finally:
            self._ended = True
        if error is not None:
            self._leave(error)

    @property
    def thread(self) -> Thread[S]:
        """The thread whose step this is."""
        return self._thread

    @property
    def replayed(self) -> bool:
        """Whether it is gone through again: its calls give what they gave, and it commits nothing."""
        return self._session is not None and self._session.replays

    @property
    def attempt(self) -> int:
        """The how manieth time it is entered."""
        return 1 if self._session is None else self._session.cell.attempt

    def deciding(self, what: str, *, by: str | None = None) -> Deciding:
        """Calls inside are made `beside` what stands at their target, `reuse` it, or `undo` it first."""
        if what not in ("beside", "reuse", "undo"):
            raise BadRequest(f"{what!r} is none of 'beside', 'reuse', 'undo'", thread=self._thread.name)
        return Deciding(Answer(what, by))

    def checkpoint(self, reason: str | None = None) -> Checkpoint | None:
        """End the step here as one version, and begin the next of its label."""
        from msgspec.structs import replace

        said, self._said = self._said, replace(self._said, reason=reason or self._said.reason)
        self._close()
        self._said = said
        made, self.made = self.made, None
        self._begin()
        return made

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function as part of this step in another thread of execution, where a pool would forget it."""

        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            token = _open.set((*_open.get(), self))
            try:
                return function(*args, **kwargs)
            finally:
                _open.reset(token)

        return inside

    def _recorder(self) -> Session:
        """What records its calls; a thread without versions comes into being with the first."""
        if self._ended:
            raise StepOpen(
                f"the step {self.label!r} has ended", thread=self._thread.name, hint="Enter it again"
            )
        if self._session is None:
            self._base = self._thread._born()
            self._session = self._entered(self._base)
        return self._session

    def _remembers(self) -> Buffer:
        """What it has written into memory so far."""
        if self._memory is None:
            self._memory = Buffer(self._thread._ctx)
        return self._memory

    # --- inside

    _base: Tip | None
    _memory: Buffer | None = None

    def _begin(self) -> None:
        self._memory = None
        self._base, self.state = self._thread._begin(self.label)
        if self._base is None:
            return
        self._session = self._entered(self._base)
        if self._session.replays:
            cell = self._session.cell
            self.state = self._thread._state_before(cell.thread, cell.base)

    def _entered(self, base: Tip) -> Session:
        run = self._thread._run
        session = steps.enter(
            self._thread._ctx,
            base,
            self.label,
            None if run is None else run.id,
            entry=0 if run is None else run._behind(self.label),
            wait=self._wait,
            take_over=self._take_over,
        )
        session.kin = self._kin
        return session

    def _close(self) -> None:
        if self._session is not None and self._session.replays:
            self._session.still_here()
            cell = self._session.cell
            assert cell.closed is not None
            self.made = self._thread._recorded_at(cell.thread, cell.closed)
        else:
            said, memory = self._said, self._remembers()
            self.made = self._thread._finish(self._base, self.state, said, self._session, memory)
        if self._session is not None:
            steps.release(self._session)
            self._session = None
        if self._thread._run is not None:
            self._thread._run._passed(self.label)

    def _leave(self, error: BaseException) -> None:
        """The body raised, or the end was refused: the step stays open where it has effects."""
        session, self._session = self._session, None
        if session is None:
            return
        steps.leave(session)
        files = self._base is not None and bool(self._base.head.files)
        if self._on_error == "rollback" and (session.stored or files):
            self._thread._take_step_back(error)
        elif files and not session.replays:
            self._thread._capture_failed(self.label, error)


class Deciding:
    """`with step.deciding("beside"):` what to do about what stands at the targets of the calls inside."""

    def __init__(self, answer: Answer) -> None:
        self._said = answer

    def __enter__(self) -> Self:
        self._token = _answer.set(self._said)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _answer.reset(self._token)


class Run:
    """`with thread.run("job-7"):` makes a script re-runnable: steps that it has recorded are replayed."""

    def __init__(self, thread: Handle[Any], name: str) -> None:
        self._thread, self.id = thread, name
        self._ended: dict[str, int] = {}

    def _behind(self, label: str) -> int:
        """How many steps of this label the run has ended, here or in an earlier life."""
        return self._ended.get(label, 0)

    def _passed(self, label: str) -> None:
        """A step of this label has ended. One whose body raised has not: the next entry resumes it."""
        self._ended[label] = self._behind(label) + 1

    def __enter__(self) -> Self:
        if self._thread._run is not None:
            raise BadRequest(
                f"the run {self._thread._run.id!r} is open on this handle", thread=self._thread.name
            )
        self._ended = {}
        self._thread._run = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread._run = None


def decided() -> Answer | None:
    """What the caller said to do about what stands at a target."""
    return _answer.get()


def open_steps() -> list[Step[Any]]:
    """The steps that are open here, the innermost last."""
    return [step for step in _open.get() if not step._ended]


def current() -> Step[Any] | None:
    """The innermost step that is open here."""
    step: Step[Any]
    for step in reversed(_open.get()):
        # A task that was started inside a step keeps the context that it was started with.
        if not step._ended:
            return step
    return None


def refuse_open(thread: Handle[Any], what: str) -> None:
    """Inside a step of this thread, its state changes through the step alone."""
    for step in _open.get():
        if not step._ended and step.thread.is_same(thread):
            raise StepOpen(
                f"the step {step.label!r} is open here, and {what} would pass it by",
                thread=thread.name,
                hint="Change step.state instead, or end the step first",
            )
