"""takeback: a durable undo for AI agents.

import takeback

tb = takeback.open("agent.db")
trip = tb.thread("travel/42", initial={"messages": []})
with trip.step("book") as s:
    s.state["to"] = "NYC"
print(trip.plan_undo())
trip.undo()
"""

from __future__ import annotations

from takeback._version import __version__

# Type checkers take this name for true. To import it from typing would take half of a hook's time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from takeback import errors
    from takeback.aio import aopen
    from takeback.asking import Approval
    from takeback.calling import connection, effect_key
    from takeback.engine.changes import MISSING, Change
    from takeback.engine.copy_report import CopyReport
    from takeback.engine.diff import Diff
    from takeback.engine.merge3 import MergeClash
    from takeback.engine.patch import DELETE
    from takeback.engine.retention import Collected, Pruning, Weight
    from takeback.engine.seals import Seal, new_key
    from takeback.engine.telling import TakenBack
    from takeback.engine.verify import Problem, Report
    from takeback.errors import (
        ApprovalRequired,
        Conflict,
        EffectStands,
        EffectUnknown,
        MemoryConflict,
        MergeConflict,
        NotDone,
        NothingToRedo,
        NothingToUndo,
        PlanRequired,
        PlanStale,
        TakebackError,
        UnknownThread,
    )
    from takeback.files import Workspace
    from takeback.model.ledger import Effect
    from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
    from takeback.plan import Plan, Receipt
    from takeback.recovery import PendingPlan, Recovery
    from takeback.repo import Repo, open
    from takeback.step import Run, Step
    from takeback.storage.base import StoreInfo
    from takeback.store import Item, ItemVersion, Store
    from takeback.thread import Thread
    from takeback.tools import Tool, from_mcp, mcp_options, registry, tool
    from takeback.view import History, View

# Where each public name lives. They are looked up when they are first used, so that a command that
# prints its version, or a hook that runs on every tool call, does not pay for what it does not need.
_HOMES = {
    "takeback.aio": ("aopen",),
    "takeback.asking": ("Approval",),
    "takeback.calling": ("connection", "effect_key"),
    "takeback.engine.changes": ("MISSING", "Change"),
    "takeback.engine.copy_report": ("CopyReport",),
    "takeback.engine.diff": ("Diff",),
    "takeback.engine.merge3": ("MergeClash",),
    "takeback.engine.patch": ("DELETE",),
    "takeback.engine.retention": ("Collected", "Pruning", "Weight"),
    "takeback.engine.seals": ("Seal", "new_key"),
    "takeback.engine.telling": ("TakenBack",),
    "takeback.engine.verify": ("Problem", "Report"),
    "takeback.errors": (
        "ApprovalRequired",
        "Conflict",
        "EffectStands",
        "EffectUnknown",
        "MemoryConflict",
        "MergeConflict",
        "NotDone",
        "NothingToRedo",
        "NothingToUndo",
        "PlanRequired",
        "PlanStale",
        "TakebackError",
        "UnknownThread",
    ),
    "takeback.files": ("Workspace",),
    "takeback.model.ledger": ("Effect",),
    "takeback.model.records": ("AuditEntry", "Checkpoint", "ThreadInfo"),
    "takeback.plan": ("Plan", "Receipt"),
    "takeback.recovery": ("PendingPlan", "Recovery"),
    "takeback.repo": ("Repo", "open"),
    "takeback.step": ("Run", "Step"),
    "takeback.storage.base": ("StoreInfo",),
    "takeback.store": ("Item", "ItemVersion", "Store"),
    "takeback.thread": ("Thread",),
    "takeback.tools": ("Tool", "from_mcp", "mcp_options", "registry", "tool"),
    "takeback.view": ("History", "View"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # or a type checker would take any name for a public one

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "errors":
            return import_module("takeback.errors")
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'takeback' has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "DELETE",
    "MISSING",
    "Approval",
    "ApprovalRequired",
    "AuditEntry",
    "Change",
    "Checkpoint",
    "Collected",
    "Conflict",
    "CopyReport",
    "Diff",
    "Effect",
    "EffectStands",
    "EffectUnknown",
    "History",
    "Item",
    "ItemVersion",
    "MemoryConflict",
    "MergeClash",
    "MergeConflict",
    "NotDone",
    "NothingToRedo",
    "NothingToUndo",
    "PendingPlan",
    "Plan",
    "PlanRequired",
    "PlanStale",
    "Problem",
    "Pruning",
    "Receipt",
    "Recovery",
    "Repo",
    "Report",
    "Run",
    "Seal",
    "Step",
    "Store",
    "StoreInfo",
    "TakebackError",
    "TakenBack",
    "Thread",
    "ThreadInfo",
    "Tool",
    "UnknownThread",
    "View",
    "Weight",
    "Workspace",
    "__version__",
    "aopen",
    "connection",
    "effect_key",
    "errors",
    "from_mcp",
    "mcp_options",
    "new_key",
    "open",
    "registry",
    "tool",
]
