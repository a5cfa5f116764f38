"""Every error that takeback raises, grouped by what whoever catches it would do.

Each names what is wrong, where (thread, checkpoint, path) and what to do. `kind` is stable and is
what programs compare; the text may be reworded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from takeback.errors.base import BadRequest, IntegrityError, Moved, NotFound, StoreError, TakebackError
from takeback.errors.effects import (
    ApprovalDenied,
    ApprovalRequired,
    ApprovalStale,
    BadTool,
    BudgetExceeded,
    EffectsDenied,
    EffectStands,
    EffectTimeout,
    EffectUndone,
    EffectUnknown,
    EffectUnreadable,
    HandlerMissing,
    NoStep,
    NotDone,
    NotForAgents,
    Paused,
    PlanPaused,
    PlanRequired,
    ReplayDiverged,
    RollbackInProgress,
    StepInProgress,
    StepLost,
    ToolInTool,
    Unacknowledged,
    Undecided,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


# --- the request is wrong: change it -----------------------------------------------------------------


class Unstorable(BadRequest):
    """A value that cannot be stored exactly; `path` says where it is."""

    kind = "unstorable"

    def placed(self, thread: str, checkpoint: int | None = None) -> Self:  # noqa: ARG002 (it is in none yet)
        return super().placed(thread)


class TooDeep(Unstorable):
    """A value nested deeper than the format allows."""

    kind = "too_deep"


class TooLarge(Unstorable):
    """A key, item, state or metadata above the format's limit."""

    kind = "too_large"


class ReadOnlyState(BadRequest, TypeError):
    """A state that was read is read-only; open a step, or commit a changed copy."""

    kind = "read_only_state"


class BadReference(BadRequest):
    """Text that is no reference to a checkpoint."""

    kind = "bad_reference"


class AmbiguousReference(BadReference):
    """A prefix that more than one checkpoint has."""

    kind = "ambiguous_reference"


class BadPath(BadRequest):
    """A path that is no JSON Pointer, or that the value does not have."""

    kind = "bad_path"


class BadPatch(BadRequest):
    """A patch that cannot be applied to this state."""

    kind = "bad_patch"


class BadName(BadRequest):
    """A thread name, label or tenant that cannot be used."""

    kind = "bad_name"


class BadSettings(BadRequest):
    """A coding agent's configuration file that cannot be read or written; it is left as it was."""

    kind = "bad_settings"


class GitRefused(BadRequest):
    """Git would not do what was asked of it, and nothing was done."""

    kind = "git_refused"


class BadState(BadRequest):
    """A stored state that does not fit the model it is read with."""

    kind = "bad_state"


class WrongThread(BadRequest):
    """A checkpoint, bookmark or plan of another thread."""

    kind = "wrong_thread"


class WrongOwner(BadRequest):
    """The thread exists and belongs to another agent or user."""

    kind = "wrong_owner"


class StepOpen(BadRequest):
    """The thread has an open step here; what changes it goes through the step."""

    kind = "step_open"


class MissingExtra(BadRequest):
    """A feature whose optional dependency is not installed."""

    kind = "missing_extra"


class WorkspaceRefused(BadRequest):
    """A directory that is not attached as it was asked: too large a place, in use, or inside another."""

    kind = "workspace_refused"


# --- it is not there ----------------------------------------------------------------------------------


class UnknownThread(NotFound):
    """No thread has this name."""

    kind = "unknown_thread"


class UnknownCheckpoint(NotFound):
    """The thread has no such checkpoint."""

    kind = "unknown_checkpoint"


class UnknownLabel(NotFound):
    """The thread has no such label."""

    kind = "unknown_label"


class WorkspaceMissing(NotFound):
    """A workspace whose directory is gone, was moved, or is another now."""

    kind = "workspace_missing"


class UnknownFile(NotFound):
    """The checkpoint holds no such file."""

    kind = "unknown_file"


class Removed(NotFound):
    """It was there and has been removed on purpose."""

    kind = "removed"


class FilesPruned(Removed):
    """The files of a version that were given up to save space; the version itself is there."""

    kind = "files_pruned"


class ThreadDeleted(Removed):
    """The thread was deleted; a late writer cannot bring it back."""

    kind = "thread_deleted"


# --- something moved, or somebody must decide ---------------------------------------------------------


class Conflict(Moved):
    """The head is not the one that this write was made for."""

    kind = "conflict"

    def __init__(
        self, what: str, *, expected: str | None = None, actual: str | None = None, **where: Any
    ) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(what, **where)


class MemoryConflict(Moved):
    """An item of memory is not at the version that was expected."""

    kind = "memory_conflict"


class ThreadExists(Moved):
    """A thread of this name exists already."""

    kind = "thread_exists"


class MergeConflict(Moved):
    """Two changes that cannot both hold; `conflicts` lists them by path."""

    kind = "merge_conflict"

    def __init__(self, what: str, *, conflicts: Sequence[Any] = (), **where: Any) -> None:
        self.conflicts = list(conflicts)
        super().__init__(what, **where)

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"conflicts": [conflict.as_dict() for conflict in self.conflicts]}


class NotCopied(Moved):
    """Some threads could not be copied to another store; `report` says which, why, and what was copied."""

    kind = "not_copied"

    def __init__(self, what: str, *, report: Any = None, **where: Any) -> None:
        self.report = report
        super().__init__(what, **where)

    def as_dict(self) -> dict[str, Any]:
        report = {} if self.report is None else {"report": self.report.as_dict()}
        return super().as_dict() | report


class PlanStale(Moved):
    """What the plan looked at has changed since; make a new plan."""

    kind = "plan_stale"


class NothingToUndo(Moved):
    """No operation is left to take back."""

    kind = "nothing_to_undo"


class NothingToRedo(Moved):
    """No undo is left to take back."""

    kind = "nothing_to_redo"


# --- the store, its file or its machine ---------------------------------------------------------------


class StoreUnavailable(StoreError):
    """The store cannot be opened or created."""

    kind = "store_unavailable"


class StoreClosed(StoreError):
    """The handle was closed."""

    kind = "store_closed"


class NotAStore(StoreError):
    """A file that takeback did not write."""

    kind = "not_a_store"


class NewerStore(StoreError):
    """A store that a newer takeback has written."""

    kind = "newer_store"


class ReadOnlyStore(StoreError):
    """The store can be read and not written."""

    kind = "read_only_store"


class StoreFull(StoreError):
    """No space is left where the store lies."""

    kind = "store_full"


class StoreBusy(StoreError):
    """Another process holds the store for too long."""

    kind = "store_busy"


class PoolExhausted(StoreError):
    """Every connection to the server is in use, and none came free in time."""

    kind = "pool_exhausted"


class ForkedProcess(StoreError):
    """A handle that was opened before this process was forked."""

    kind = "forked_process"


class NetworkFilesystem(StoreError):
    """The store would lie on a network file system, whose locks cannot be trusted."""

    kind = "network_filesystem"


class WatcherFailed(StoreError):
    """The watcher of a workspace did not start, or does not answer; its log says why."""

    kind = "watcher_failed"


class WorkspaceFailed(StoreError):
    """Files could not be read or put back; the message says which, and what the workspace holds now."""

    kind = "workspace_failed"


class WorkspaceBusy(StoreError):
    """Another process is capturing or restoring the workspace for too long."""

    kind = "workspace_busy"


class UnknownOutcome(StoreError):
    """A write whose outcome could not be found out."""

    kind = "unknown_outcome"


# --- what is stored is not what was written -----------------------------------------------------------


class StoreCorrupt(IntegrityError):
    """The store's file is damaged."""

    kind = "store_corrupt"


class CorruptObject(IntegrityError):
    """A stored object or record does not have the digest it is stored under."""

    kind = "corrupt_object"


class BadSeal(IntegrityError):
    """A seal that is no seal, is of another thread, or whose signature is wrong."""

    kind = "bad_seal"


class BadExport(IntegrityError):
    """An exported file that is damaged, cut short or forged."""

    kind = "bad_export"


__all__ = [
    "AmbiguousReference",
    "ApprovalDenied",
    "ApprovalRequired",
    "ApprovalStale",
    "BadExport",
    "BadName",
    "BadPatch",
    "BadPath",
    "BadReference",
    "BadRequest",
    "BadSeal",
    "BadSettings",
    "BadState",
    "BadTool",
    "BudgetExceeded",
    "Conflict",
    "CorruptObject",
    "EffectStands",
    "EffectTimeout",
    "EffectUndone",
    "EffectUnknown",
    "EffectUnreadable",
    "EffectsDenied",
    "ForkedProcess",
    "GitRefused",
    "HandlerMissing",
    "IntegrityError",
    "MemoryConflict",
    "MergeConflict",
    "MissingExtra",
    "Moved",
    "NetworkFilesystem",
    "NewerStore",
    "NoStep",
    "NotAStore",
    "NotCopied",
    "NotDone",
    "NotForAgents",
    "NotFound",
    "NothingToRedo",
    "NothingToUndo",
    "Paused",
    "PlanPaused",
    "PlanRequired",
    "PlanStale",
    "PoolExhausted",
    "ReadOnlyState",
    "ReadOnlyStore",
    "Removed",
    "ReplayDiverged",
    "RollbackInProgress",
    "StepInProgress",
    "StepLost",
    "StepOpen",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "TakebackError",
    "ThreadDeleted",
    "ThreadExists",
    "TooDeep",
    "TooLarge",
    "ToolInTool",
    "Unacknowledged",
    "Undecided",
    "UnknownCheckpoint",
    "UnknownFile",
    "UnknownLabel",
    "UnknownOutcome",
    "UnknownThread",
    "Unstorable",
    "WatcherFailed",
    "WorkspaceBusy",
    "WorkspaceFailed",
    "WorkspaceMissing",
    "WorkspaceRefused",
    "WrongOwner",
    "WrongThread",
]
