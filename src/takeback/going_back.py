"""Going back: plans of rollback, undo, redo and revert, and applying exactly what a plan says."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from takeback.engine import applying, forgetting, history, plans, rollback, standing, telling
from takeback.engine import fork as forks
from takeback.engine.book import book_of
from takeback.engine.commit import Said, metadata
from takeback.engine.context import pointer
from takeback.engine.files import Side, Wanted, as_paths
from takeback.engine.plans import Wish
from takeback.engine.rollback import Move
from takeback.errors import BadRequest, PlanPaused, PlanRequired, PlanStale
from takeback.errors.base import naming
from takeback.filing import Filing
from takeback.model.records import Checkpoint
from takeback.plan import Meta, Plan, Receipt
from takeback.step import refuse_open

if TYPE_CHECKING:
    from takeback.engine.book import Book
    from takeback.engine.merge3 import MergeClash

S = TypeVar("S")
_SCOPES = frozenset({"state", "effects", "files", "memory"})


class GoingBack(Filing[S]):
    """The verbs that take back, and bring again."""

    def plan_rollback(
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
    ) -> Plan:
        """What going back to a checkpoint will do; reads only.

        `scope` leaves something as it is: any of state, effects, files, memory. By number, `redo` does again
        what was undone, `keep` leaves standing what could be undone, and `take_shared` takes back what a fork
        relies on; `orphans` takes back what no step claimed.

        Files that others changed stay as they are: those that the agent changed too are conflicts. `ours`
        takes what the checkpoint holds, `theirs` what others left, for all paths or for some. `git` takes
        branches, HEAD and the index of a workspace's repository back too; what they leave is kept.
        """
        scope = _scope(scope)
        wish = Wish("effects" in scope, [*take_shared], orphans, [*redo], [*keep], "memory" in scope)
        files = _wanted(scope, ours, theirs)
        return self._plan(self._to(ref, scope), wish=wish, files=files, git=git)

    def plan_undo(
        self,
        bookmark: str | None = None,
        *,
        redo: Sequence[int] = (),
        keep: Sequence[int] = (),
        ours: Side = False,
        theirs: Side = False,
        git: bool = False,
    ) -> Plan:
        """What taking back the last operation (or going to a bookmark) will do."""
        wish, files = Wish(redo=[*redo], keep=[*keep]), _wanted(_SCOPES, ours, theirs)
        move = rollback.back(self._ctx, self._need(), bookmark)
        return self._plan(move, wish=wish, files=files, git=git)

    def plan_redo(
        self,
        *,
        redo: Sequence[int] = (),
        ours: Side = False,
        theirs: Side = False,
        git: bool = False,
    ) -> Plan:
        """What taking back the last undo will do; effects that it undid stay undone, but those in `redo`."""
        move, files = rollback.forth(self._ctx, self._need()), _wanted(_SCOPES, ours, theirs)
        return self._plan(move, wish=Wish(redo=[*redo]), files=files, git=git)

    def plan_revert(self, ref: Any) -> Plan:
        """What taking back one version alone will do."""
        tip = self._need()
        found = forks.plan_revert(self._ctx, tip, history.resolve(self._ctx, tip, ref))
        return self._plan(found.move, found.clashes)

    def rollback(
        self,
        ref: Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        scope: Collection[str] | None = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> Receipt:
        """Go back to a checkpoint: a new version that holds its state and files. Nothing is deleted.

        Where it would undo effects, leave some standing, or find files that the agent and others have both
        changed, `PlanRequired` carries the plan.
        """
        scope = _scope(scope)
        files, wish = _wanted(scope, ours, theirs), Wish("effects" in scope, memory="memory" in scope)
        return self._at_once(self._to(ref, scope), wish, said(reason, actor, meta), files)

    def undo(
        self,
        bookmark: str | None = None,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> Receipt:
        """One operation back per call, or exactly to a bookmark."""
        move, files = rollback.back(self._ctx, self._need(), bookmark), _wanted(_SCOPES, ours, theirs)
        return self._at_once(move, Wish(), said(reason, actor, meta), files)

    def redo(
        self,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        ours: Side = False,
        theirs: Side = False,
    ) -> Receipt:
        """One undo back per call; a new operation ends the redo."""
        move, files = rollback.forth(self._ctx, self._need()), _wanted(_SCOPES, ours, theirs)
        return self._at_once(move, Wish(), said(reason, actor, meta), files)

    def revert(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Checkpoint:
        """Take back one version alone, by three-way merge; `MergeConflict` names what was built on it."""
        return self.plan_revert(ref).apply(reason, actor=actor, meta=meta).checkpoint

    def discrepancies(self) -> plans.EffectsPart:
        """What stands in the world and the head does not know of, and what it believes and was undone."""
        return plans.discrepancies(self._ctx, self._book(), self._need())

    def taken_back_since(self, ref: Any = None) -> telling.TakenBack | None:
        """What was taken back since a version (without one: since the newest that made something), to be told
        to the agent at its next turn; None for nothing. Reads the head anew."""
        tip = self.refresh()._need()
        since = None if ref is None else history.resolve(self._ctx, tip, ref)
        return telling.taken_back(self._ctx, self._book(), tip, since)

    # --- inside

    def _to(self, ref: Any, scope: frozenset[str]) -> Move:
        tip = self._need()
        target = history.target(self._ctx, tip, ref)
        return rollback.to_checkpoint(tip, target, state="state" in scope, files="files" in scope)

    def _at_once(self, move: Move, wish: Wish, said: Said, files: Wanted | None) -> Receipt:
        """Plan and apply in one. First by the ledger as it was last read here: if it moved since, applying
        says so, and then it is read."""
        with contextlib.suppress(PlanStale):
            book = book_of(self._ctx, self._need().info.family)
            plan = self._plan(move, wish=wish, book=book, files=files)
            if plan.calm:
                return self._apply(plan, move, said)
        plan = self._plan(move, wish=wish, files=files)
        if not plan.calm:
            raise PlanRequired(
                f"this does more than restore: {plan}",
                plan=plan,
                thread=self.name,
                hint=f"Look at thread.plan_{plan.kind}(…), then plan.apply(…)",
            )
        return self._apply(plan, move, said)

    def _plan(
        self,
        move: Move,
        clashes: list[MergeClash] | None = None,
        *,
        wish: Wish | None = None,
        book: Book | None = None,
        files: Wanted | None = None,
        own: bool = False,
        git: bool = False,
    ) -> Plan:
        wish = wish or Wish()
        book = book or self._book()
        self._refuse_unknown(book, [*wish.take_shared, *wish.redo, *wish.keep])
        effects = plans.effects_of(self._ctx, book, self._need(), move, wish)
        goal = move.target if wish.memory else move.head
        memory = forgetting.memory_of(self._ctx, book, self._need(), move, pointer(goal))
        parts: list[rollback.Part] = [rollback.state_part(self._ctx, move), effects, memory]
        if files is not None and move.head.files:
            from takeback import putting_back

            parts += putting_back.part_of(self, move, files, own=own)
        repository = None
        if git or (move.head.files and move.kind in ("rollback", "undo", "redo")):
            from takeback import surroundings

            shells, repository = surroundings.parts_of(self, book, move, take_git=git)
            parts += [part for part in (shells, repository) if part is not None]
        return Plan(self, move, parts, clashes or [], repository)

    def _apply(
        self,
        plan: Plan,
        move: Move,
        said: Said,
        acknowledge: bool | Collection[int] = False,
        wait: float | None = None,
    ) -> Receipt:
        from takeback.calling import Hands
        from takeback.recovery import PendingPlan

        refuse_open(self, f"a {move.kind}")
        tip, git = self._need(), plan.git
        # Not read again: if the ledger moved since the plan was made, its guard says so.
        book = book_of(self._ctx, tip.info.family)
        if not isinstance(acknowledge, bool):
            self._refuse_unknown(book, acknowledge)
        if plan.conflicts:
            raise forks.conflict(self._ctx, tip, forks.MergePlan(move, plan.conflicts))
        if git is not None:
            said = msgspec.structs.replace(said, meta=said.meta | git.meta())
        job = applying.Job(self._ctx, book, tip, move, plan.effects, said, plan.memory)
        hands = Hands()
        if plan.files is not None:
            from takeback import putting_back

            applying.ready(job, hands, acknowledge, wait)  # before the present is recorded for it
            job = putting_back.with_files(self, job, plan.files)
        try:
            self._tip, bookmark = applying.run(job, hands, acknowledge=acknowledge, wait=wait)
        except PlanPaused as paused:
            paused.plan = PendingPlan(self._ctx, book, paused.plan)
            raise
        left = [] if git is None else git.take_back(self._tip.head.id)
        return Receipt(self, plan, self._tip.head, bookmark, hands.kept_paths, left)

    def _refuse_unknown(self, book: Book, numbers: Collection[int]) -> None:
        """A number that no effect has is a mistake, not a wish to be passed over."""
        with naming(self.name):
            for number in numbers:
                standing.numbered(book, number)

    def _take_step_back(self, error: BaseException) -> None:
        """A step that failed takes its own effects back; what cannot be is said with the error."""
        self.refresh()
        plan = self._plan(self._to("head", _SCOPES), wish=Wish(), files=Wanted(), own=True)
        try:
            plan.apply(f"the step failed: {type(error).__name__}", acknowledge=True)
        except Exception as refused:  # the step's own error is the one to see; this one goes with it
            error.add_note(f"takeback: the step's effects were not all taken back: {refused}")
            return
        for line in plan.effects.lines():
            error.add_note(f"takeback: {line}")


def said(reason: str | None, actor: str | None, meta: Meta) -> Said:
    """What a caller says about a version."""
    return Said(reason=reason, actor=actor, meta=metadata(meta))


def _scope(given: Collection[str] | None) -> frozenset[str]:
    if given is None:
        return _SCOPES
    found = frozenset([given] if isinstance(given, str) else given)
    if not found <= _SCOPES or not found:
        raise BadRequest(
            f"scope={given!r} is not of {', '.join(sorted(_SCOPES))}", hint="Leave it out to take all back"
        )
    return found


def _wanted(scope: Collection[str], ours: Side, theirs: Side) -> Wanted | None:
    if "files" not in scope:
        return None
    return Wanted(as_paths(ours), as_paths(theirs))
