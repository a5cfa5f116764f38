"""The types of the async façade. Made by scripts/make_aio_stub.py: change that, or the classes."""

import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, overload

from takeback.engine import plans, telling
from takeback.engine.changes import Change
from takeback.engine.copy_report import CopyReport
from takeback.engine.file_words import FileChange, FilesPart
from takeback.engine.files import Side
from takeback.engine.finding import Embed
from takeback.engine.forgetting import MemoryPart
from takeback.engine.items import Expected, Write
from takeback.engine.merge3 import MergeClash
from takeback.engine.plans import EffectsPart
from takeback.engine.retention import Collected, Pruning, Weight
from takeback.engine.rollback import Part
from takeback.engine.seals import Seal
from takeback.engine.verify import Problem, Report
from takeback.files import Status
from takeback.handle import Handle
from takeback.model.ids import Bookmark
from takeback.model.items import Namespace, NamespaceLike
from takeback.model.ledger import ApprovalCell, Effect
from takeback.model.manifest.nodes import Entry
from takeback.model.paths import PathLike
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.plan import Meta
from takeback.recovery import OpenStep
from takeback.step import Deciding, P
from takeback.storage.base import StoreInfo
from takeback.store import Item, ItemVersion, Place
from takeback.surroundings import GitPart
from takeback.thread import OnConflict
from takeback.workspace.directory import Directory
from takeback.workspace.watch import Watcher

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

M = TypeVar("M")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

class AsyncItems(Generic[T]):
    """Items that are read as they are looked at: `async for item in items`, or `await items` for a list."""
    def __aiter__(self) -> AsyncIterator[T]: ...
    def __await__(self) -> Generator[Any, Any, list[T]]: ...

class AsyncRepo:
    """One store, as one tenant sees it: `async with await takeback.aopen(…) as tb`, or close it."""
    @classmethod
    def over(cls, tb: Any) -> Self:
        """The async façade of a store that is open; all façades of one store share its threads."""
    @property
    def sync(self) -> Any:
        """The synchronous store."""
    async def call(self, work: Callable[[Any], T]) -> T:
        """`work(repo)` with the synchronous store, in one of its threads: many calls for one hop."""
    def awaited(self, thread: Any) -> AsyncThread[Any]:
        """The async façade of a thread's synchronous handle."""
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
        autopilot: bool | None = None,
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
        autopilot: bool | None = None,
        model: type[M],
    ) -> AsyncThread[M]: ...
    @property
    def store(self) -> AsyncStore:
        """Memory that outlives a thread: items by namespace and key."""
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
    async def recover(self, *, settle: bool = True) -> AsyncRecovery:
        """What a crash left: settles what settles itself, and lists what is left for somebody to see to."""
    async def work(
        self,
        *,
        stop: threading.Event | None = None,
        poll: float = 0.5,
        told: Callable[[str], None] | None = None,
    ) -> int:
        """Do what plans wait for, with the tools of this process: one round, or until `stop` is set.

        How many lines were done; `told` is called with each, in words.
        """
    async def approvals(self) -> list[AsyncApproval]:
        """What waits for a person's decision, on all threads."""
    def audit(self) -> AsyncItems[AuditEntry]:
        """What was done beside checkpoints, oldest first: deletions, labels, seals, imports."""
    def verify(
        self, name: str | None = None, *, seal: Seal | str | None = None, public_key: bytes | None = None
    ) -> AsyncItems[Report]:
        """Every thread's report, one after another, or one thread's; also where a head is damaged."""
    async def du(self) -> list[Weight]:
        """What each thread takes of the store, biggest first."""
    async def gc(self, *, grace: int = 60, progress: Callable[[str, int], None] | None = None) -> Collected:
        """Remove the objects that no thread needs any more. Safe beside writers, and to be interrupted.

        What was written within `grace` minutes stays.
        """
    async def export(self, name: str, path: str | os.PathLike[str]) -> int:
        """Write a thread to one portable file; how many checkpoints it holds. Files that were given up
        (`thread.pruned()`) are not in it, which it says.
        """
    async def import_(self, path: str | os.PathLike[str], *, name: str | None = None) -> AsyncThread[Any]:
        """Bring a thread in from a file, verified, under its own name or another."""
    async def copy(
        self,
        to: AsyncRepo | str | os.PathLike[str],
        *,
        threads: Sequence[str] | None = None,
        tenant: str | None = None,
        progress: Callable[[str, int, int], object] | None = None,
    ) -> CopyReport:
        """Copy threads, or all, to another store (a handle or a url): history, labels, effects, audit log.

        Each keeps its uid, ids, digests and signatures, and is verified there. Run again, it adds what has
        come since, or goes on where it was broken off. `tenant` is whose they are there (default: the same).
        What cannot be copied does not stop the rest: the `NotCopied` that is raised in the end names it.
        """
    async def info(self) -> StoreInfo:
        """What the store is, where, and how much it holds."""
    async def damage(self) -> list[str]:
        """What the database underneath finds wrong with its own file; empty when it is sound."""

class AsyncThread(Generic[S]):
    """One line of work of one agent. What its handle is asked is done in the order in which it is asked."""
    @property
    def sync(self) -> Any:
        """The synchronous handle; not to be used while calls of this one are under way."""
    async def call(self, work: Callable[[Any], T]) -> T:
        """`work(thread)` with the synchronous handle, in its turn: many calls, and none of this handle's
        between them.
        """
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
        self,
        label: str = "step",
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        on_error: Literal["keep", "rollback"] = "keep",
        wait: float | None = None,
        take_over: bool = False,
    ) -> AsyncStep[S]:
        """`with thread.step("book") as s:` change `s.state`, call tools: one checkpoint at its end.

        When it raises, its state is gone, and it stays open if it called tools: entering it again goes on.
        With `on_error="rollback"` they are taken back. `StepInProgress` says that another worker is in it:
        `wait` for so many seconds, or `take_over`.
        """
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
        effects: Literal["deny", "guard", "allow"] = "deny",
    ) -> AsyncThread[S]:
        """A new thread that starts at a checkpoint of this one, which is untouched.

        `effects`: it may do nothing to the world (`deny`), only what does not stand already for one of the
        family (`guard`), or whatever it wants (`allow`).
        """
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
    async def prune(self, budget: int, *, keep: int = 20, reason: str | None = None) -> Pruning:
        """Give up the files of the oldest versions, so that those of the others take at most `budget` bytes.

        The newest `keep` versions, and what a label names, stay. This cannot be undone: the versions remain,
        with their state, and say that their files are gone. `Repo.gc` then gives the space back.
        """
    async def pruned(self) -> list[tuple[int, int]]:
        """Runs of versions whose files were given up."""
    async def plan_prune(self, budget: int, *, keep: int = 20) -> Pruning:
        """Whose files `prune` would give up; reads only."""
    async def delete(self, *, reason: str | None = None) -> None:
        """Remove the thread for good. Its name is free again; late writers to it are refused."""
    async def plan_rollback(
        self,
        ref: Any,
        *,
        scope: Collection[str] | None = None,
        redo: Sequence[int] = (),
        keep: Sequence[int] = (),
        take_shared: Sequence[int] = (),
        orphans: bool = False,
        ours: Side = False,
        theirs: Side = False,
        git: bool = False,
    ) -> AsyncPlan:
        """What going back to a checkpoint will do; reads only.

        `scope` leaves something as it is: any of state, effects, files, memory. By number, `redo` does again
        what was undone, `keep` leaves standing what could be undone, and `take_shared` takes back what a fork
        relies on; `orphans` takes back what no step claimed.

        Files that others changed stay as they are: those that the agent changed too are conflicts. `ours`
        takes what the checkpoint holds, `theirs` what others left, for all paths or for some. `git` takes
        branches, HEAD and the index of a workspace's repository back too; what they leave is kept.
        """
    async def plan_undo(
        self,
        bookmark: str | None = None,
        *,
        redo: Sequence[int] = (),
        keep: Sequence[int] = (),
        ours: Side = False,
        theirs: Side = False,
        git: bool = False,
    ) -> AsyncPlan:
        """What taking back the last operation (or going to a bookmark) will do."""
    async def plan_redo(
        self, *, redo: Sequence[int] = (), ours: Side = False, theirs: Side = False, git: bool = False
    ) -> AsyncPlan:
        """What taking back the last undo will do; effects that it undid stay undone, but those in `redo`."""
    async def plan_revert(self, ref: Any) -> AsyncPlan:
        """What taking back one version alone will do."""
    async def rollback(
        self,
        ref: Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        scope: Collection[str] | None = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> AsyncReceipt:
        """Go back to a checkpoint: a new version that holds its state and files. Nothing is deleted.

        Where it would undo effects, leave some standing, or find files that the agent and others have both
        changed, `PlanRequired` carries the plan.
        """
    async def undo(
        self,
        bookmark: str | None = None,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> AsyncReceipt:
        """One operation back per call, or exactly to a bookmark."""
    async def redo(
        self,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> AsyncReceipt:
        """One undo back per call; a new operation ends the redo."""
    async def revert(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Checkpoint:
        """Take back one version alone, by three-way merge; `MergeConflict` names what was built on it."""
    async def discrepancies(self) -> plans.EffectsPart:
        """What stands in the world and the head does not know of, and what it believes and was undone."""
    async def taken_back_since(self, ref: Any = None) -> telling.TakenBack | None:
        """What was taken back since a version (without one: since the newest that made something), to be told
        to the agent at its next turn; None for nothing. Reads the head anew.
        """
    async def workspace(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        shared: bool = False,
        force: bool = False,
        ignore: Sequence[str] = (),
        gitignore: bool = True,
        secrets: bool = True,
        max_file: int | None = None,
        watch: bool = True,
    ) -> AsyncWorkspace:
        """Checkpoint a directory's files with the thread, from now on; what it holds now is captured first.

        What .gitignore, .takebackignore and `ignore` name is left out, and so are secrets (`secrets=False`
        takes them in) and files above `max_file` bytes. `shared` lets other threads use the directory too;
        `force` allows the root and the home directory. With `watch`, the system tells of changes as long as
        this process lives; without, each capture looks at every path.
        """
    async def workspaces(self) -> list[AsyncWorkspace]:
        """The directories that are attached, also those on other machines."""
    async def capture(
        self,
        reason: str | None = None,
        *,
        paths: Collection[str | bytes] | None = None,
        workspace: str | None = None,
        step: str | None = None,
        audit: bool = False,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Checkpoint | None:
        """A version with the files as they are now; None if nothing has changed.

        What is found changed counts as somebody else's, which a rollback keeps; with `step`, a label, it is
        the agent's, and an operation that undo takes back. `paths` looks at these alone; an `audit` looks at
        everything, also where a watch says that nothing changed.
        """
    async def files(self, ref: object = "head", *, workspace: str | None = None) -> AsyncFiles:
        """The files that a checkpoint holds: a mapping from paths to what stands there."""
    async def read_file(self, ref: object, path: str | bytes, *, workspace: str | None = None) -> bytes:
        """The contents of a file as a checkpoint holds it."""
    async def diff_files(
        self, before: object, after: object = "head", *, workspace: str | None = None
    ) -> AsyncFilesDiff:
        """What leads from one checkpoint's files to another's: names, line counts, text."""
    async def changed_files(self, *, workspace: str | None = None) -> list[FileChange]:
        """What differs on the disk from the head; nothing is recorded."""
    def run(self, name: str) -> AsyncRun:
        """`with thread.run("job-7"):` a script that can be run again from its first line."""
    async def effects(self) -> list[Effect]:
        """The effects of this thread, and those that it believes in, oldest first."""
    async def resolve(
        self,
        number: int,
        *,
        happened: bool | None = None,
        undone: bool = False,
        result: Any = None,
        actor: str | None = None,
    ) -> Effect:
        """What happened to an unknown effect, or that one was `undone` by hand: for people to say, never for
        the agent. Of an unknown undo, `happened` says whether that did. With the call's `result`, where it
        is known, the step goes on as if the call had returned it.
        """
    async def effect(self, number: int) -> Effect:
        """The effect that people call by this number."""
    async def effect_record(self, number: int) -> dict[str, Any]:
        """All that is recorded of an effect, with its arguments and result: for `--json`."""
    async def effect_notes(self) -> dict[int, list[str]]:
        """What each version did to the world, in words: the calls of its step, and what a plan took back."""
    async def undo_effect(self, number: int) -> Effect:
        """Take one effect back by itself; the history that believes in it shows it as a discrepancy."""
    async def approvals(self, state: str | None = "requested") -> list[AsyncApproval]:
        """What waits for a person's decision; with another `state`, or None for all, what did."""
    async def approval(self, number: int) -> AsyncApproval:
        """The request that people call by this number."""
    @property
    def autopilot(self) -> Awaitable[bool]:
        """Whether calls that cannot be undone wait for a person's approval; kept with the thread."""
    async def set_autopilot(self, on: bool = True) -> None:
        """Refuse from now on what cannot be undone, until it is approved; or no longer."""
    async def budget(self, limits: Mapping[str, int] | None = None) -> dict[str, tuple[int, int]]:
        """Limits for the thread and its forks, by name: `{"money": 10_000, "attempts": 50}` sets some. What
        is spent, and the limit, by name.
        """
    async def pause(self, question: str, options: Mapping[str, Any] | None = None) -> Any:
        """Ask a person: the answer, once there is one; until then `Paused`, across restarts."""
    async def resume(
        self, answer: Any, *, number: int | None = None, actor: str | None = None
    ) -> ApprovalCell:
        """Answer the question that waits: the oldest, or the one of this number. Not as the one who asked."""
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
    async def is_same(self, other: Handle[Any]) -> bool:
        """Whether both handles are of one thread of one store."""

class AsyncStep(Generic[S]):
    """`async with thread.step("book") as s:` change `s.state`; what is left at the end is committed."""

    state: S
    label: str
    made: Checkpoint | None
    async def __aenter__(self) -> Self:
        """The step is open in the caller's context, as well as in the one in which it will be ended."""
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def thread(self) -> AsyncThread[S]:
        """The thread whose step this is."""
    @property
    def replayed(self) -> bool:
        """Whether it is gone through again: its calls give what they gave, and it commits nothing."""
    @property
    def attempt(self) -> int:
        """The how manieth time it is entered."""
    def deciding(self, what: str, *, by: str | None = None) -> Deciding:
        """Calls inside are made `beside` what stands at their target, `reuse` it, or `undo` it first."""
    async def checkpoint(self, reason: str | None = None) -> Checkpoint | None:
        """End the step here as one version, and begin the next of its label."""
    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function as part of this step in another thread of execution, where a pool would forget it."""

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

class AsyncRun:
    """`async with thread.run("job-7"):` makes a script re-runnable: recorded steps are replayed."""

    id: str
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

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
    @property
    def effects(self) -> EffectsPart:
        """What it does to effects, and what it leaves standing."""
    @property
    def memory(self) -> MemoryPart:
        """What it does to memory: which items will show other versions."""
    @property
    def files(self) -> FilesPart | None:
        """What it does to the files of attached workspaces; None where it does nothing about files."""
    @property
    def git(self) -> Awaitable[GitPart | None]:
        """What moved in the repository of a workspace, and whether it goes back; None where there is none."""
    @property
    def waits(self) -> dict[str, int]:
        """What this process has no tool for: handlers, and how many effects each is for. A worker that has
        them can carry the plan out, or `--app` brings them.
        """
    @property
    def calm(self) -> bool:
        """Whether it only restores: nothing is undone in the world, and nothing has to be said before."""
    async def apply(
        self,
        reason: str | None = None,
        *,
        actor: str | None = None,
        meta: Meta = None,
        acknowledge: bool | Collection[int] = False,
        wait: float | None = None,
    ) -> AsyncReceipt:
        """Do exactly this; `PlanStale` if anything moved, `MergeConflict` if both sides cannot hold.

        `acknowledge` says that what stays standing is known: all of it, or by number. `wait` is for how many
        seconds a worker is waited for where this process lacks a tool.
        """
    async def lines(self, limit: int | None = None) -> list[str]:
        """What each part does, a line a change."""
    @property
    def obstacles(self) -> list[str]:
        """Why it cannot be applied here as it is, in words: what waits for a worker, and conflicts."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncStore:
    """`tb.store`, awaited. Inside a step that is open here, what is written is committed with it."""
    async def put(
        self,
        namespace: NamespaceLike,
        key: str,
        value: Any,
        *,
        expect: Expected = "any",
        ttl: float | timedelta | None = None,
        index: bool | Sequence[str] = True,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Item:
        """Write an item; what it said before stays in its history.

        `expect` is the number of the version that shows now, or None where nothing may: `MemoryConflict` when
        it is another. `ttl` is how long it shows, in seconds. With an index, `index` names the fields to find
        it by, or leaves it out.
        """
    async def get(self, namespace: NamespaceLike, key: str, *, refresh: bool = False) -> Item | None:
        """The item as it shows, None for none; `refresh` lets its time to live begin again."""
    async def delete(
        self,
        namespace: NamespaceLike,
        key: str,
        *,
        expect: Expected = "any",
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """The item shows no longer; its history stays. Whether there was one."""
    async def history(self, namespace: NamespaceLike, key: str) -> list[ItemVersion]:
        """Every version of an item, newest first, also those that were taken back."""
    async def search(
        self,
        prefix: NamespaceLike = (),
        *,
        where: Mapping[str, Any] | None = None,
        query: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        refresh: bool = False,
    ) -> list[Item]:
        """Items in a namespace and all below it, by name; with a `query`, the nearest first, by the index.

        `where` is what their values have: `{"city": "Rome", "age": {"$gte": 18}}`. Operators: $eq, $ne, $gt,
        $gte, $lt, $lte, $in, $nin, $contains, $exists.
        """
    async def namespaces(
        self,
        *,
        prefix: NamespaceLike = (),
        suffix: NamespaceLike = (),
        depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that hold items, in order. In `prefix` and `suffix`, `*` is any label; `depth` cuts
        them to so many labels.
        """
    async def index(self, embed: Embed, *, fields: Sequence[str] = ("$",)) -> None:
        """Find items by meaning from now on: `embed` makes vectors of texts, of what is put and asked here.

        `fields` says which texts of a value: `$` all of it, `text`, `notes[*].text`. Vectors are kept with
        the items, and compared one by one: good for thousands of items in a namespace, not for millions.
        """
    async def verify(self) -> list[Problem]:
        """What does not hold of all versions of all items: recomputed from the stored bytes."""
    async def draft(
        self,
        namespace: NamespaceLike,
        key: str,
        value: Any,
        *,
        expect: Expected = "any",
        ttl: float | timedelta | None = None,
        vectors: Sequence[tuple[str, Sequence[float]]] = (),
        reason: str | None = None,
        actor: str | None = None,
    ) -> Write:
        """A write that is not made yet, for `write`; `vectors` by what they were made of."""
    async def removal(self, namespace: NamespaceLike, key: str) -> Write | None:
        """A deletion that is not made yet; None where there is nothing to delete."""
    async def write(self, writes: Sequence[Write], ahead: Place | None = None) -> None:
        """Make several writes together: with the innermost step that is open here, or at once.

        `ahead` says which version of which thread they come with, where they are written before it.
        """

class AsyncReceipt:
    """What was done: the new checkpoint, the bookmark of what stood before, and what stayed."""

    checkpoint: Checkpoint
    bookmark: Bookmark
    standing: list[str]
    kept: dict[str, str]
    kept_refs: list[str]
    def __str__(self) -> str:
        """Without what each part did, for which the store is asked: `await receipt.done`."""
    def __repr__(self) -> str: ...
    @property
    def files(self) -> Awaitable[list[str]]:
        """Every file that was put back, removed or brought back."""
    @property
    def done(self) -> Awaitable[list[str]]:
        """What each part did, in a line."""
    @property
    def state(self) -> Awaitable[Any]:
        """The state after it."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncWorkspace:
    """A directory that is attached to a thread."""

    name: str
    @property
    def path(self) -> Awaitable[str]:
        """Where it lies."""
    @property
    def host(self) -> Awaitable[str]:
        """The machine on which it lies."""
    @property
    def shared(self) -> Awaitable[bool]:
        """Whether other threads may use it too."""
    @property
    def directory(self) -> Awaitable[Directory]:
        """What captures and restores it; `WorkspaceMissing` where it lies on another machine."""
    async def status(self) -> Status:
        """What differs from the head, what is left out, and how changes are found. Nothing is recorded."""
    async def watch(self, watcher: Watcher | None = None) -> bool:
        """Have the system tell of changes from now on, or somebody else who knows them; whether it works."""
    async def detach(self) -> None:
        """No longer captured or put back. The directory stays as it is, and so does the history."""

class AsyncFiles:
    """The files of one workspace as a checkpoint holds them: `await files.items()`, `files.read(path)`."""

    checkpoint: Checkpoint
    workspace: str
    async def get(self, path: str | bytes) -> Entry | None:
        """What stood at a path; None where nothing did."""
    async def items(self) -> list[tuple[str, Entry]]:
        """Paths with what stands there, in one walk."""
    @property
    def left_out(self) -> Awaitable[dict[str, str]]:
        """What stood there and was not captured, and why."""
    @property
    def linked(self) -> Awaitable[list[list[str]]]:
        """Names that are one file."""
    async def read(self, path: str | bytes) -> bytes:
        """The contents of a file."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncFilesDiff(AsyncItems[FileChange]):
    """What leads from one checkpoint's files to another's."""

    before: Checkpoint
    after: Checkpoint
    workspace: str
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @property
    def changes(self) -> Awaitable[list[FileChange]]:
        """Path by path, with lines counted."""
    async def text(self, path: str | bytes | None = None, *, context: int = 3) -> str:
        """The changes as a unified diff: all, or of one path."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncApproval:
    """A request to a person, and its answer; `await approval.wait()` keeps no event loop waiting."""
    @property
    def number(self) -> int:
        """What people call it by."""
    @property
    def shown(self) -> str:
        """The call, or the question, in words."""
    @property
    def thread(self) -> Awaitable[str]:
        """The thread whose call it is."""
    @property
    def facts(self) -> dict[str, Any]:
        """What the decision rests on: if they are others when the call is made, it is void."""
    @property
    def state(self) -> str:
        """requested, granted, denied, used, void or expired, as last read."""
    @property
    def is_question(self) -> bool:
        """Whether it asks for an answer rather than for a yes."""
    async def wait(self, timeout: float | None = None) -> str:
        """Wait until somebody decides, or for so many seconds; the state then. Call the tool again after."""
    async def grant(self, *, actor: str | None = None, private_key: bytes | None = None) -> AsyncApproval:
        """Say yes, as somebody other than who asked; signed, where the store's grants are."""
    async def deny(self, reason: str | None = None, *, actor: str | None = None) -> AsyncApproval:
        """Say no."""
    async def refresh(self) -> AsyncApproval:
        """Read it again."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncPendingPlan:
    """A plan that has begun and not ended."""
    @property
    def thread(self) -> Awaitable[str]:
        """The thread that it holds."""
    @property
    def state(self) -> str:
        """applying, paused, applied or aborted."""
    @property
    def id(self) -> str:
        """What it is called."""
    @property
    def stuck(self) -> list[int]:
        """The numbers of the effects that it is paused at."""
    async def resume(self) -> AsyncPendingPlan:
        """Go on with it, as far as the tools of this process reach."""
    async def retry(self, number: int) -> AsyncPendingPlan:
        """Try the line of this effect again, and go on."""
    async def accept(self, number: int) -> AsyncPendingPlan:
        """Go on without what failed: the effect stays as it is, and is named."""
    async def abort(self, reason: str | None = None) -> AsyncPendingPlan:
        """Restore nothing, and free the thread; what was undone stays undone, and shows as a discrepancy."""
    async def lines(self) -> list[str]:
        """What it does, a line each, and how far that is."""
    async def as_dict(self) -> dict[str, Any]:
        """For `--json`."""

class AsyncRecovery:
    """What a crash left for somebody to see to."""

    steps: list[OpenStep]
    effects: list[Effect]
    plans: list[AsyncPendingPlan]
    approvals: list[AsyncApproval]
    settled: list[str]
    names: dict[bytes, str]
    @property
    def clean(self) -> bool:
        """Whether nothing is left."""
    async def thread_of(self, effect: Effect) -> str:
        """The name of the thread that began it."""
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
    approvers: Sequence[bytes] = (),
    clock: Callable[[], int] | None = None,
) -> AsyncRepo:
    """Open a store as `takeback.open` does: `async with await takeback.aopen("agent.db") as tb`."""
