"""The types of the async façade. Made by scripts/make_aio_stub.py: change that, or the classes."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from takeback.engine.changes import Change
from takeback.engine.merge3 import MergeClash
from takeback.engine.rollback import Part
from takeback.engine.seals import Seal
from takeback.engine.verify import Report
from takeback.model.ids import Bookmark
from takeback.model.paths import PathLike
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.storage.base import StoreInfo
from takeback.thread import Meta, OnConflict

__all__ = [
    "AsyncDiff",
    "AsyncHistory",
    "AsyncItems",
    "AsyncPlan",
    "AsyncReceipt",
    "AsyncRepo",
    "AsyncStep",
    "AsyncThread",
    "AsyncView",
    "aopen",
]

M = TypeVar("M")
S = TypeVar("S")
T = TypeVar("T")

class AsyncItems(Generic[T]):
    """Items that are read as they are looked at: `async for item in items`, or `await items` for a list."""
    def __aiter__(self) -> AsyncIterator[T]: ...
    def __await__(self) -> Generator[Any, Any, list[T]]: ...

class AsyncRepo:
    """One store, as one tenant sees it: `async with await takeback.aopen(…) as tb`, or close it."""
    async def close(self) -> None:
        """Let go of the store and of its threads; a second call does nothing."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def tenant(self) -> str:
        """Whose data this handle sees."""
    @property
    def actor(self) -> str | None:
        """Who acts where a call does not say."""
    @overload
    async def thread(
        self,
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Meta = None,
        initial: Any = None,
    ) -> AsyncThread[Any]: ...
    @overload
    async def thread(
        self,
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Meta = None,
        initial: Any = None,
        model: type[M],
    ) -> AsyncThread[M]: ...
    async def threads(
        self,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Mapping[str, Any] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int | None = None,
        after: ThreadInfo | None = None,
    ) -> list[ThreadInfo]:
        """The living threads, newest first; `after` goes on where a list with a limit ended."""
    async def latest(self) -> ThreadInfo | None:
        """The thread that was written to last."""
    def audit(self) -> AsyncItems[AuditEntry]:
        """What was done beside checkpoints, oldest first: deletions, labels, seals, imports."""
    def verify(
        self, name: str | None = None, *, seal: Seal | str | None = None, public_key: bytes | None = None
    ) -> AsyncItems[Report]:
        """Every thread's report, one after another, or one thread's; also where a head is damaged."""
    async def export(self, name: str, path: str | os.PathLike[str]) -> int:
        """Write a thread to one portable file; how many checkpoints it holds."""
    async def import_(self, path: str | os.PathLike[str], *, name: str | None = None) -> AsyncThread[Any]:
        """Bring a thread in from a file, verified, under its own name or another."""
    async def info(self) -> StoreInfo:
        """What the store is, where, and how much it holds."""
    async def damage(self) -> list[str]:
        """What the database underneath finds wrong with its own file; empty when it is sound."""

class AsyncThread(Generic[S]):
    """One line of work of one agent. What its handle is asked is done in the order in which it is asked."""
    @property
    def name(self) -> str:
        """What the thread is called."""
    @property
    def info(self) -> ThreadInfo:
        """Agent, user, metadata and times, as last read."""
    @property
    def exists(self) -> bool:
        """Whether it has a version: a thread comes into being with its first."""
    @property
    def head(self) -> Checkpoint:
        """The checkpoint from which the thread goes on, as last read."""
    @property
    def version(self) -> int:
        """The head's version."""
    async def refresh(self) -> Self:
        """Read the head again: what others committed shows."""
    @property
    def state(self) -> Awaitable[S]:
        """The head's state as last read: read-only, or an instance of the thread's model."""
    async def get(self, path: PathLike) -> Any:
        """What stands at a path of the head's state; the rest is not loaded."""
    async def at(self, ref: Any) -> AsyncView[S]:
        """The thread as it was: `3`, an id or its prefix, `head~2`, a label, a bookmark, an ISO time."""
    def history(self, *, newest_first: bool = True, inherited: bool = False) -> AsyncHistory:
        """Its checkpoints, read as they are looked at; `inherited` adds those that a fork came from."""
    async def diff(self, before: Any, after: Any = "head") -> AsyncDiff:
        """What leads from one checkpoint's state to another's."""
    @property
    def labels(self) -> Awaitable[dict[str, int]]:
        """Label → version."""
    def audit(self) -> AsyncItems[AuditEntry]:
        """What was done to the thread beside its checkpoints: labels, seals, imports."""
    async def commit(
        self,
        state: S | Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
        on_conflict: OnConflict = "raise",
    ) -> Checkpoint:
        """A version with this state. Always makes one; `Conflict` if the head is not the one last read."""
    async def patch(
        self,
        changes: Mapping[str, Any],
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
        on_conflict: OnConflict = "raise",
    ) -> Checkpoint:
        """Set some keys (`"to"`) or paths (`"/plan/0"`); `takeback.DELETE` removes one. The rest stays."""
    async def merge_patch(
        self,
        document: Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
    ) -> Checkpoint:
        """RFC 7396: nested, and None removes."""
    async def json_patch(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
    ) -> Checkpoint:
        """RFC 6902: all of the operations, or none."""
    async def append(
        self,
        path: PathLike,
        item: Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
        on_conflict: OnConflict = "merge",
    ) -> Checkpoint:
        """Add an item to the list at a path, at the cost of the item; behind what others added meanwhile."""
    async def extend(
        self,
        path: PathLike,
        items: Sequence[Any],
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
        on_conflict: OnConflict = "merge",
    ) -> Checkpoint:
        """Add items to the list at a path."""
    def step(
        self, label: str = "step", *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> AsyncStep[S]:
        """`with thread.step("book") as s:` change `s.state`: one checkpoint at its end, none if it raises."""
    async def plan_rollback(self, ref: Any) -> AsyncPlan:
        """What going back to a checkpoint will do; reads only."""
    async def plan_undo(self, bookmark: str | None = None) -> AsyncPlan:
        """What taking back the last operation (or going to a bookmark) will do."""
    async def plan_redo(self) -> AsyncPlan:
        """What taking back the last undo will do."""
    async def plan_revert(self, ref: Any) -> AsyncPlan:
        """What taking back one version alone will do."""
    async def rollback(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> AsyncReceipt:
        """Go back to a checkpoint: a new version that holds its state. Nothing is deleted."""
    async def undo(
        self,
        bookmark: str | None = None,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> AsyncReceipt:
        """One operation back per call, or exactly to a bookmark."""
    async def redo(
        self, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> AsyncReceipt:
        """One undo back per call; a new operation ends the redo."""
    async def revert(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Checkpoint:
        """Take back one version alone, by three-way merge; `MergeConflict` names what was built on it."""
    async def fork(
        self,
        at: Any = "head",
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> AsyncThread[S]:
        """A new thread that starts at a checkpoint of this one, which is untouched."""
    async def plan_merge(self, other: AsyncThread[Any] | str) -> AsyncPlan | None:
        """What merging another thread will do; None when it has nothing that this one lacks."""
    async def merge(
        self,
        other: AsyncThread[Any] | str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Checkpoint:
        """Bring in what a fork (or its origin) did; `MergeConflict` lists what cannot both hold."""
    async def label(self, name: str, ref: Any = "head") -> Checkpoint:
        """Name a checkpoint; the label moves if it named another."""
    async def unlabel(self, name: str) -> None:
        """Take a label away; the checkpoint stays."""
    async def verify(self, seal: Seal | str | None = None, *, public_key: bytes | None = None) -> Report:
        """Recompute all that the history rests on; against a seal, also what was cut off or rewritten."""
    async def seal(self, *, private_key: bytes | None = None) -> Seal:
        """The head as a seal, to be kept where who can write the store cannot; signed with an Ed25519 key."""
    async def delete(self, *, reason: str | None = None) -> None:
        """Remove the thread for good. Its name is free again; late writers to it are refused."""
    async def is_same(self, other: AsyncThread[Any]) -> bool:
        """Whether both handles are of one thread of one store."""

class AsyncStep(Generic[S]):
    """`async with thread.step("book") as s:` change `s.state`; what is left at the end is committed."""

    state: S
    label: str
    checkpoint: Checkpoint | None
    async def __aenter__(self) -> Self:
        """The step is open in the caller's context, as well as in the one in which it will be ended."""
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def thread(self) -> AsyncThread[S]:
        """The thread whose step this is."""

class AsyncView(Generic[S]):
    """A thread as it was at one checkpoint."""

    checkpoint: Checkpoint
    @property
    def version(self) -> int:
        """Which version this is."""
    @property
    def state(self) -> Awaitable[S]:
        """Its state, read-only, or an instance of the thread's model."""
    async def get(self, path: PathLike) -> Any:
        """What stood at a path; the rest is not loaded."""

class AsyncHistory(AsyncItems[Checkpoint]):
    """The checkpoints of a thread as it was when it was asked for them."""

class AsyncDiff(AsyncItems[Change]):
    """What leads from one checkpoint's state to another's."""

    before: Checkpoint
    after: Checkpoint
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @property
    def changes(self) -> Awaitable[list[Change]]: ...
    async def as_json_patch(self) -> list[dict[str, Any]]:
        """RFC 6902."""
    async def as_dict(self) -> dict[str, Any]: ...
    async def lines(self, limit: int | None = None) -> list[str]: ...
    async def summary(self, limit: int = 4) -> str: ...

class AsyncPlan:
    """Everything that an operation will do, made before it does anything. `print(plan)` is for people."""

    parts: list[Part]
    conflicts: list[MergeClash]
    @property
    def thread(self) -> str:
        """The name of the thread that it is for."""
    @property
    def kind(self) -> str:
        """rollback, undo, redo, revert or merge."""
    @property
    def head(self) -> Checkpoint:
        """The head that the plan was made at; if it moves, the plan is stale."""
    @property
    def target(self) -> Checkpoint:
        """The checkpoint that comes back; what a merge brings in; what a revert takes back."""
    @property
    def undoes(self) -> Checkpoint | None:
        """The operation that an undo, redo or revert takes back."""
    @property
    def digest(self) -> str:
        """Of what the plan saw."""
    async def apply(
        self, reason: str | None = None, *, actor: str | None = None, meta: Mapping[str, Any] | None = None
    ) -> AsyncReceipt:
        """Do exactly this; `PlanStale` if anything moved, `MergeConflict` if both sides cannot hold."""
    async def lines(self, limit: int | None = None) -> list[str]:
        """What each part does, a line a change."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncReceipt:
    """What was done: the new checkpoint, the bookmark of what stood before, and what stayed."""

    checkpoint: Checkpoint
    bookmark: Bookmark
    standing: list[str]
    def __str__(self) -> str:
        """Without what each part did, for which the store is asked: `await receipt.done`."""
    def __repr__(self) -> str: ...
    @property
    def done(self) -> Awaitable[list[str]]:
        """What each part did, in a line."""
    @property
    def state(self) -> Awaitable[Any]:
        """The state after it."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

async def aopen(
    url: str | os.PathLike[str],
    tenant: str = "default",
    actor: str | None = None,
    *,
    key: bytes | None = None,
    durability: str = "full",
    create: bool = True,
    clock: Callable[[], int] | None = None,
) -> AsyncRepo:
    """Open a store as `takeback.open` does: `async with await takeback.aopen("agent.db") as tb`."""
