"""What the saver can do beyond LangGraph's protocol: go back, forth and aside, over all of a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.engine.diff import Diff
from takeback.engine.verify import Report
from takeback.errors import Conflict
from takeback.graphs import GraphThreads
from takeback.model.records import Checkpoint as Version
from takeback.plan import Plan, Receipt
from takeback.pool import Pool
from takeback.pool import run as _await

if TYPE_CHECKING:
    from takeback.repo import Repo
    from takeback.thread import Thread

R = TypeVar("R")


class Going:
    """The verbs that name checkpoints by LangGraph's ids. `thread` gives takeback's own handle."""

    repo: Repo
    _graphs: GraphThreads
    _pool: Pool

    def thread(self, thread_id: str) -> Thread[Any]:
        """The thread as takeback sees it: its log, labels, history, seals."""
        return self.repo.thread(str(thread_id)).refresh()

    def plan_rollback(self, *, thread_id: str, checkpoint_id: str, **wish: Any) -> Plan:
        """What going back to a checkpoint will do, to every namespace, and to files, memory and effects."""
        return self.thread(thread_id).plan_rollback(self._version(thread_id, checkpoint_id), **wish)

    def rollback_to(
        self, *, thread_id: str, checkpoint_id: str, reason: str | None = None, actor: str | None = None
    ) -> dict[str, Any]:
        """Go back to a checkpoint in every lasting namespace: subgraphs forget as well. Nothing is deleted.

        Where effects would be undone, or stay standing, `PlanRequired` carries the plan.
        """
        target = self._version(thread_id, checkpoint_id)
        thread = self.thread(thread_id)
        before = self._graphs.id_of(thread.head)
        receipt = thread.rollback(target, reason=reason, actor=actor)
        return self._receipt(thread_id, receipt, checkpoint_id, before)

    def undo(
        self,
        *,
        thread_id: str,
        bookmark: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> dict[str, Any]:
        """Take back the last operation: a whole run of the graph, a rollback; or go to a bookmark."""
        thread = self.thread(thread_id)
        before = self._graphs.id_of(thread.head)
        target = thread.plan_undo(bookmark).target
        receipt = thread.undo(bookmark, reason=reason, actor=actor)
        return self._receipt(thread_id, receipt, self._graphs.id_of(target), before)

    def redo(self, *, thread_id: str, reason: str | None = None, actor: str | None = None) -> dict[str, Any]:
        """Take back the last undo."""
        thread = self.thread(thread_id)
        before = self._graphs.id_of(thread.head)
        target = thread.plan_redo().target
        return self._receipt(
            thread_id, thread.redo(reason=reason, actor=actor), self._graphs.id_of(target), before
        )

    def fork(
        self,
        *,
        thread_id: str,
        checkpoint_id: str | None = None,
        new_thread_id: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> dict[str, Any]:
        """A new thread that goes on from a checkpoint (the head, if none is named) of this one."""
        at = "head" if checkpoint_id is None else self._version(thread_id, checkpoint_id)
        made = self.thread(thread_id).fork(at, name=new_thread_id, reason=reason, actor=actor)
        return {
            "thread_id": made.name,
            "checkpoint_id": self._graphs.id_of(made.head),
            "forked_from": {"thread_id": thread_id, "checkpoint_id": checkpoint_id},
        }

    def diff(self, *, thread_id: str, before: str, after: str | None = None) -> Diff:
        """What leads from one checkpoint to another (the head, if none is named), in every namespace."""
        end = "head" if after is None else self._version(thread_id, after)
        return self.thread(thread_id).diff(self._version(thread_id, before), end)

    def verify(self, *, thread_id: str) -> Report:
        """Recompute all that a thread's history rests on, and what its tasks wrote."""
        return next(iter(self.repo.verify(str(thread_id))))

    def forks(self, *, thread_id: str, checkpoint_ns: str | None = None) -> list[dict[str, Any]]:
        """The ends of branches that the head does not rest on: by time travel, or where two writers went on
        from one checkpoint. `instead_of` is the head that a checkpoint was written beside."""
        return [
            {
                "checkpoint_id": place.id,
                "checkpoint_ns": place.namespace,
                "parent_checkpoint_id": place.parent,
                "instead_of": place.over,
                "metadata": place.metadata,
            }
            for place in self._graphs.forks(str(thread_id), checkpoint_ns)
        ]

    async def arollback_to(self, **named: Any) -> dict[str, Any]:
        """See `rollback_to`."""
        return await self._run(partial(self.rollback_to, **named))

    async def aplan_rollback(self, **named: Any) -> Plan:
        """See `plan_rollback`."""
        return await self._run(partial(self.plan_rollback, **named))

    async def aundo(self, **named: Any) -> dict[str, Any]:
        """See `undo`."""
        return await self._run(partial(self.undo, **named))

    async def aredo(self, **named: Any) -> dict[str, Any]:
        """See `redo`."""
        return await self._run(partial(self.redo, **named))

    async def afork(self, **named: Any) -> dict[str, Any]:
        """See `fork`."""
        return await self._run(partial(self.fork, **named))

    async def adiff(self, **named: Any) -> Diff:
        """See `diff`."""
        return await self._run(partial(self.diff, **named))

    async def averify(self, **named: Any) -> Report:
        """See `verify`."""
        return await self._run(partial(self.verify, **named))

    async def aforks(self, **named: Any) -> list[dict[str, Any]]:
        """See `forks`."""
        return await self._run(partial(self.forks, **named))

    # --- inside

    async def _run(self, job: Callable[[], R]) -> R:
        """The one way from async callers to the store: its own few threads."""
        return await _await(self._pool, job)

    def _version(self, thread_id: str, checkpoint_id: str) -> Version:
        return self._graphs.version_of(str(thread_id), checkpoint_id)

    def _receipt(
        self, thread_id: str, receipt: Receipt, target: str | None, before: str | None
    ) -> dict[str, Any]:
        row = receipt.checkpoint
        return {
            "thread_id": thread_id,
            "checkpoint_id": self._graphs.id_of(row),
            "restored_from": target,
            "rolled_back_from": target,
            "previous_head": before,
            "blob_id": row.blob_id,
            "bookmark": receipt.bookmark,
            "standing": receipt.standing,
        }

    def _unexpected(self, thread: str, expect: str, parent: str | None) -> Conflict:
        return Conflict(
            f"this goes on from {parent}, and {expect} was expected to be the head",
            expected=expect,
            actual=parent,
            thread=thread,
            hint="Read the state again, and run the graph from there",
        )
