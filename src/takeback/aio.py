"""The async façade: the same names, awaited. It is made from the synchronous one; no verb is written twice.

Every method is awaited, and so are the properties that may ask the store (`await trip.state`). What
yields is walked with `async for`, or awaited for a list. The work runs in a few threads of the store's
own, with the caller's context variables; a thread's handle does one thing at a time, in the order of the
calls. What is passed to a call must not be changed before the call has returned.

The types stand in aio.pyi, which scripts/make_aio_stub.py makes from the same classes.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import ExitStack
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from takeback import repo
from takeback.asking import Approval
from takeback.engine.changes import Change
from takeback.engine.diff import Diff
from takeback.engine.file_words import FileChange
from takeback.files import Files, FilesDiff, Workspace
from takeback.model.records import Checkpoint
from takeback.plan import Plan, Receipt
from takeback.pool import Job, Line, Pool, run
from takeback.recovery import PendingPlan, Recovery
from takeback.repo import Repo
from takeback.step import Run, Step, _open
from takeback.store import Store
from takeback.thread import Thread
from takeback.view import History, View

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "AsyncApproval",
    "AsyncDiff",
    "AsyncFiles",
    "AsyncFilesDiff",
    "AsyncHistory",
    "AsyncItems",
    "AsyncPendingPlan",
    "AsyncPlan",
    "AsyncReceipt",
    "AsyncRecovery",
    "AsyncRepo",
    "AsyncRun",
    "AsyncStep",
    "AsyncStore",
    "AsyncThread",
    "AsyncView",
    "AsyncWorkspace",
    "aopen",
]

S = TypeVar("S")
T = TypeVar("T")

_MOMENT = 0.01  # seconds of walking per hop: many small items come together, one that takes long comes alone
_BATCH = 1_000


# --- how a class is mirrored


class _Face:
    """The async counterpart of a synchronous object.

    Named in the class statement: the class that it is `of`; the properties that are `plain`, which never
    ask the store, while any other is awaited; and how to `look` at such an object in the pool before it
    is handed out, so that to print it asks the store nothing.
    """

    _of: ClassVar[type]
    _plain: ClassVar[tuple[str, ...]]
    _look: ClassVar[Callable[[Any], object] | None]

    def __init_subclass__(
        cls,
        *,
        of: type | None = None,
        plain: tuple[str, ...] = (),
        look: Callable[[Any], object] | None = None,
        **rest: Any,
    ) -> None:
        super().__init_subclass__(**rest)
        if of is None:
            return
        cls._of, cls._plain, cls._look = of, plain, look
        FACES[of] = cls
        for name in dir(of):
            member = inspect.getattr_static(of, name)
            if not name.startswith("_") and name not in vars(cls) and kind(cls, name) is not None:
                setattr(cls, name, _MIRRORS[kind(cls, name)](name, member))

    def __init__(self, inner: Any, maker: _Face | None, queue: Pool | Line) -> None:
        self._inner, self._maker, self._queue = inner, maker, queue

    async def _ask(self, job: Job[Any], context: Context | None = None) -> Any:
        return self._outer(await run(self._queue, partial(_looked_at, job), context))

    def _call(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Job[Any]:
        method = getattr(self._inner, name)
        return partial(method, *map(_bare, args), **{key: _bare(value) for key, value in named.items()})

    def _outer(self, value: Any) -> Any:
        """The async counterpart of what a synchronous object gave."""
        for known in (self, self._maker):
            if known is not None and value is known._inner:
                return known
        if type(value) is list and value and _face_of(value[0]) is not None:
            return [self._outer(item) for item in value]
        face = _face_of(value)
        return value if face is None else face(value, self, self._queue)

    def __getattr__(self, name: str) -> Any:
        """Only what the inner object holds itself, a checkpoint or a label, is not mirrored by the class."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._outer(getattr(self._inner, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._inner, name, value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {repr(self._inner).strip('<>').partition(' ')[2]}>"

    def __str__(self) -> str:
        text = str(self._inner)
        return repr(self) if text == repr(self._inner) else text


FACES: dict[type, type[_Face]] = {}
_pools: WeakKeyDictionary[Repo, Pool] = WeakKeyDictionary()


def kind(face: type[_Face], name: str) -> str | None:
    """How the face mirrors a member of its class; None for what is neither method nor property."""
    member = inspect.getattr_static(face._of, name)
    if isinstance(member, property):
        return "plain" if name in face._plain else "asked"
    if not inspect.isfunction(member):
        return None
    returned = str(member.__annotations__.get("return")).partition("[")[0]
    return _AS_THEY_ARE.get(returned, "awaited")


_AS_THEY_ARE = {
    "Step": "at once", "Run": "at once", "Deciding": "at once", "Callable": "at once", "History": "at once",
    "Iterator": "walked",
}  # fmt: skip


class NotAwaited(Generic[T]):
    """A property that may ask the store: `await` it. It asks anew each time."""

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._ask = ask

    def __await__(self) -> Generator[Any, Any, T]:
        return self._ask().__await__()


def _plain(name: str, member: Any) -> property:
    return property(lambda self: self._outer(getattr(self._inner, name)), doc=member.__doc__)


def _asked(name: str, member: Any) -> property:
    def get(self: _Face) -> Awaitable[Any]:
        return NotAwaited(partial(self._ask, partial(getattr, self._inner, name)))

    return property(get, doc=member.__doc__)


def _awaited(name: str, member: Any) -> Callable[..., Any]:
    @functools.wraps(member)
    async def method(self: _Face, *args: Any, **named: Any) -> Any:
        return await self._ask(self._call(name, args, named))

    return method


def _walked(name: str, member: Any) -> Callable[..., Any]:
    @functools.wraps(member)
    def method(self: _Face, *args: Any, **named: Any) -> Any:
        return AsyncItems(_Anew(self._call(name, args, named)), self, self._queue)

    return method


def _at_once(name: str, member: Any) -> Callable[..., Any]:
    """A step and a history read nothing before they are entered or walked."""

    @functools.wraps(member)
    def method(self: _Face, *args: Any, **named: Any) -> Any:
        return self._outer(self._call(name, args, named)())

    return method


_MIRRORS: dict[str | None, Callable[[str, Any], Any]] = {
    "plain": _plain,
    "asked": _asked,
    "awaited": _awaited,
    "walked": _walked,
    "at once": _at_once,
}


class _Anew:
    """What a call yields, asked for when it is walked."""

    def __init__(self, call: Job[Iterator[Any]]) -> None:
        self._call = call

    def __iter__(self) -> Iterator[Any]:
        yield from self._call()


def _bare(value: Any) -> Any:
    return value._inner if isinstance(value, _Face) else value


def _face_of(value: Any) -> type[_Face] | None:
    return next((FACES[base] for base in type(value).__mro__ if base in FACES), None)


def _looked_at(job: Job[Any]) -> Any:
    value = job()
    face = _face_of(value)
    if face is not None and face._look is not None:
        face._look(value)
    return value


def _batch(items: Iterator[Any]) -> list[Any]:
    """What comes within a moment, and one item at least; empty at the end."""
    until = time.monotonic() + _MOMENT
    found: list[Any] = []
    for item in items:
        found.append(item)
        if len(found) == _BATCH or time.monotonic() >= until:
            break
    return found


# --- the classes


class AsyncItems(_Face, Generic[T]):
    """Items that are read as they are looked at: `async for item in items`, or `await items` for a list."""

    def __aiter__(self) -> AsyncIterator[T]:
        return self._walk(iter(self._inner))

    def __await__(self) -> Generator[Any, Any, list[T]]:
        return self._listed().__await__()

    async def _listed(self) -> list[T]:
        return [item async for item in self]

    async def _walk(self, items: Iterator[T]) -> AsyncIterator[T]:
        while batch := await run(self._queue, partial(_batch, items)):
            for item in batch:
                yield self._outer(item)


class AsyncRepo(_Face, of=Repo, plain=("tenant", "actor", "store")):
    """One store, as one tenant sees it: `async with await takeback.aopen(…) as tb`, or close it."""

    @classmethod
    def over(cls, tb: Any) -> Self:
        """The async façade of a store that is open; all façades of one store share its threads."""
        pool = _pools.get(tb)
        if pool is None:
            pool = _pools[tb] = Pool()
        return cls(tb, None, pool)

    @property
    def sync(self) -> Any:
        """The synchronous store."""
        return self._inner

    async def call(self, work: Callable[[Any], T]) -> T:
        """`work(repo)` with the synchronous store, in one of its threads: many calls for one hop."""
        return await run(self._queue, partial(work, self._inner))

    def awaited(self, thread: Any) -> AsyncThread[Any]:
        """The async façade of a thread's synchronous handle."""
        face: AsyncThread[Any] = self._outer(thread)
        return face

    async def close(self) -> None:
        """Let go of the store and of its threads; a second call does nothing."""
        await self._queue.pool.close(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncThread(_Face, Generic[S], of=Thread, plain=("name", "info", "exists", "head", "version")):
    """One line of work of one agent. What its handle is asked is done in the order in which it is asked."""

    def __init__(self, inner: Any, maker: _Face, queue: Pool | Line) -> None:
        super().__init__(inner, maker, Line(queue.pool))

    @property
    def sync(self) -> Any:
        """The synchronous handle; not to be used while calls of this one are under way."""
        return self._inner

    async def call(self, work: Callable[[Any], T]) -> T:
        """`work(thread)` with the synchronous handle, in its turn: many calls, and none of this handle's
        between them."""
        return await run(self._queue, partial(work, self._inner))


class AsyncStep(_Face, Generic[S], of=Step, plain=("thread", "replayed", "attempt")):
    """`async with thread.step("book") as s:` change `s.state`; what is left at the end is committed."""

    async def __aenter__(self) -> Self:
        """The step is open in the caller's context, as well as in the one in which it will be ended."""
        self._context = copy_context()
        await self._ask(self._inner.__enter__, self._context)
        _open.set((*_open.get(), self._inner))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.set(tuple(step for step in _open.get() if step is not self._inner))
        await self._ask(partial(self._inner.__exit__, kind, error, trace), self._context)


class AsyncView(_Face, Generic[S], of=View, plain=("version",)):
    """A thread as it was at one checkpoint."""


class AsyncHistory(AsyncItems[Checkpoint], of=History):
    """The checkpoints of a thread as it was when it was asked for them."""


class AsyncDiff(AsyncItems[Change], of=Diff, look=len):
    """What leads from one checkpoint's state to another's."""

    def __len__(self) -> int:
        return len(self._inner)

    def __bool__(self) -> bool:
        return bool(self._inner)


class AsyncRun(_Face, of=Run):
    """`async with thread.run("job-7"):` makes a script re-runnable: recorded steps are replayed."""

    async def __aenter__(self) -> Self:
        await self._ask(self._inner.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ask(partial(self._inner.__exit__, kind, error, trace))


class AsyncPlan(
    _Face,
    of=Plan,
    plain=(
        "thread",
        "kind",
        "head",
        "target",
        "undoes",
        "digest",
        "effects",
        "files",
        "memory",
        "calm",
        "waits",
        "obstacles",
    ),
    look=str,
):
    """Everything that an operation will do, made before it does anything. `print(plan)` is for people."""


class AsyncStore(_Face, of=Store):
    """`tb.store`, awaited. Inside a step that is open here, what is written is committed with it."""


class AsyncReceipt(_Face, of=Receipt):
    """What was done: the new checkpoint, the bookmark of what stood before, and what stayed."""

    def __str__(self) -> str:
        """Without what each part did, for which the store is asked: `await receipt.done`."""
        made: Checkpoint = self._inner.checkpoint
        return f"version {made.version} ({made.kind}) · bookmark {self._inner.bookmark}"

    def __repr__(self) -> str:
        return f"<AsyncReceipt {self}>"


class AsyncWorkspace(_Face, of=Workspace, plain=("name",)):
    """A directory that is attached to a thread."""


class AsyncFiles(_Face, of=Files):
    """The files of one workspace as a checkpoint holds them: `await files.items()`, `files.read(path)`."""


class AsyncFilesDiff(AsyncItems[FileChange], of=FilesDiff, look=len):
    """What leads from one checkpoint's files to another's."""

    def __len__(self) -> int:
        return len(self._inner)

    def __bool__(self) -> bool:
        return bool(self._inner)


class AsyncApproval(_Face, of=Approval, plain=("number", "shown", "facts", "state", "is_question")):
    """A request to a person, and its answer; `await approval.wait()` keeps no event loop waiting."""


class AsyncPendingPlan(_Face, of=PendingPlan, plain=("state", "id", "stuck"), look=str):
    """A plan that has begun and not ended."""


class AsyncRecovery(_Face, of=Recovery, plain=("clean",)):
    """What a crash left for somebody to see to."""


async def aopen(*args: Any, **named: Any) -> AsyncRepo:
    """Open a store as `takeback.open` does: `async with await takeback.aopen("agent.db") as tb`."""
    pool, opened = Pool(), ExitStack()
    try:
        tb = await run(pool, lambda: opened.enter_context(repo.open(*args, **named)))
    except BaseException:
        await pool.close(opened.close)  # there is something to close when the opening was cancelled
        raise
    return AsyncRepo(tb, None, pool)


aopen.__signature__ = inspect.signature(repo.open).replace(  # type: ignore[attr-defined]  # what help() shows
    return_annotation="AsyncRepo"
)
