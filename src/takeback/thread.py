"""The façade of one thread: the verbs as people call them. It decides nothing that the engine could."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

from takeback.engine import commit as commits
from takeback.engine import fork as forks
from takeback.engine import history, rollback, seals, threads
from takeback.engine.commit import Draft, Identity, Said, metadata
from takeback.engine.context import Context, Tip, needed
from takeback.engine.diff import Diff
from takeback.engine.patch import edits, json_patch, merge_patch
from takeback.engine.rollback import Move
from takeback.engine.seals import Seal
from takeback.engine.verify import Report, verify
from takeback.errors import BadRequest, Conflict, CorruptObject, ReadOnlyState, ThreadExists, UnknownThread
from takeback.model import frozen, paths
from takeback.model.canonical import equal
from takeback.model.paths import PathLike
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.model.tree.read import read_at
from takeback.plan import Plan, Receipt
from takeback.step import Step, refuse_open
from takeback.typed import load
from takeback.view import History, View

S = TypeVar("S")
Meta: TypeAlias = "Mapping[str, Any] | None"
OnConflict: TypeAlias = Literal["raise", "merge"]


class Thread(Generic[S]):
    """One line of work of one agent. A handle remembers the head it read; it is cheap to make."""

    def __init__(self, ctx: Context, identity: Identity, tip: Tip | None, model: Any = None) -> None:
        self._ctx, self._identity, self._tip, self._model = ctx, identity, tip, model
        self._seen: tuple[bytes, Any] | None = None

    # --- what it is

    @property
    def name(self) -> str:
        """What the thread is called."""
        return self._identity.name

    @property
    def info(self) -> ThreadInfo:
        """Agent, user, metadata and times, as last read."""
        return self._need().info

    @property
    def exists(self) -> bool:
        """Whether it has a version: a thread comes into being with its first."""
        return self._tip is not None

    @property
    def head(self) -> Checkpoint:
        """The checkpoint from which the thread goes on, as last read."""
        return self._need().head

    @property
    def version(self) -> int:
        """The head's version."""
        return self.head.version

    def refresh(self) -> Self:
        """Read the head again: what others committed shows."""
        tip = self._ctx.tip(self.name)
        if tip is not None:  # it may have come into being since, as somebody else's
            threads.check_owner(tip, self._identity.agent, self._identity.user)
        self._tip = tip
        return self

    # --- looking

    @property
    def state(self) -> S:
        """The head's state as last read: read-only, or an instance of the thread's model."""
        return cast(S, self._state_of(self._need().head))

    @state.setter
    def state(self, value: S) -> None:  # noqa: ARG002 (refused whatever it is)
        raise ReadOnlyState("a thread's state is not assigned to", thread=self.name, hint="Use commit(state)")

    def get(self, path: PathLike) -> Any:
        """What stands at a path of the head's state; the rest is not loaded."""
        return self._get(self._need().head, path)

    def at(self, ref: Any) -> View[S]:
        """The thread as it was: `3`, an id or its prefix, `head~2`, a label, a bookmark, an ISO time."""
        return View(self, history.resolve(self._ctx, self._need(), ref))

    def history(self, *, newest_first: bool = True, inherited: bool = False) -> History:
        """Its checkpoints, read as they are looked at; `inherited` adds those that a fork came from."""
        return History(self._ctx, self._need(), newest_first=newest_first, inherited=inherited)

    def diff(self, before: Any, after: Any = "head") -> Diff:
        """What leads from one checkpoint's state to another's."""
        tip = self._need()
        resolve = history.resolve
        return Diff(self._ctx, resolve(self._ctx, tip, before), resolve(self._ctx, tip, after))

    @property
    def labels(self) -> dict[str, int]:
        """Label → version."""
        return self._ctx.storage.labels(self._ctx.tenant, self._need().info.uid)

    def audit(self) -> Iterator[AuditEntry]:
        """What was done to the thread beside its checkpoints: labels, seals, imports."""
        return threads.audit(self._ctx, self._need().info.uid)

    # --- making versions

    def commit(
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
        said = _said(reason, actor, meta)

        def make(tip: Tip | None) -> Draft:
            return commits.draft_state(self._ctx, tip, state, "commit", said)

        return self._publish(make, on_conflict, expect, state=lambda: state)

    def patch(
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
        found = edits(changes)
        return self._edited(
            lambda tip, said: commits.draft_edits(self._ctx, tip, found, "patch", said),
            _said(reason, actor, meta),
            on_conflict,
            expect,
        )

    def merge_patch(
        self,
        document: Any,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
    ) -> Checkpoint:
        """RFC 7396: nested, and None removes."""
        return self._patched(lambda state: merge_patch(state, document), _said(reason, actor, meta), expect)

    def json_patch(
        self,
        operations: Sequence[Mapping[str, Any]],
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        expect: Any = None,
    ) -> Checkpoint:
        """RFC 6902: all of the operations, or none."""
        return self._patched(lambda state: json_patch(state, operations), _said(reason, actor, meta), expect)

    def append(
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
        return self.extend(
            path, [item], reason=reason, actor=actor, meta=meta, expect=expect, on_conflict=on_conflict
        )

    def extend(
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
        at, added = paths.parse(path), list(items)
        return self._edited(
            lambda tip, said: commits.draft_extend(self._ctx, tip, at, added, said),
            _said(reason, actor, meta),
            on_conflict,
            expect,
        )

    def step(
        self, label: str = "step", *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Step[S]:
        """`with thread.step("book") as s:` change `s.state`: one checkpoint at its end, none if it raises."""
        said = Said(reason=reason, actor=actor, step=label, meta=metadata(meta))
        return Step(self, label, said)

    # --- taking back

    def plan_rollback(self, ref: Any) -> Plan:
        """What going back to a checkpoint will do; reads only."""
        tip = self._need()
        return self._plan(rollback.to_checkpoint(tip, history.target(self._ctx, tip, ref)))

    def plan_undo(self, bookmark: str | None = None) -> Plan:
        """What taking back the last operation (or going to a bookmark) will do."""
        return self._plan(rollback.back(self._ctx, self._need(), bookmark))

    def plan_redo(self) -> Plan:
        """What taking back the last undo will do."""
        return self._plan(rollback.forth(self._ctx, self._need()))

    def plan_revert(self, ref: Any) -> Plan:
        """What taking back one version alone will do."""
        tip = self._need()
        found = forks.plan_revert(self._ctx, tip, history.resolve(self._ctx, tip, ref))
        return self._plan(found.move, found.clashes)

    def rollback(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Receipt:
        """Go back to a checkpoint: a new version that holds its state. Nothing is deleted."""
        return self.plan_rollback(ref).apply(reason, actor=actor, meta=meta)

    def undo(
        self,
        bookmark: str | None = None,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Receipt:
        """One operation back per call, or exactly to a bookmark."""
        return self.plan_undo(bookmark).apply(reason, actor=actor, meta=meta)

    def redo(self, *, reason: str | None = None, actor: str | None = None, meta: Meta = None) -> Receipt:
        """One undo back per call; a new operation ends the redo."""
        return self.plan_redo().apply(reason, actor=actor, meta=meta)

    def revert(
        self, ref: Any, *, reason: str | None = None, actor: str | None = None, meta: Meta = None
    ) -> Checkpoint:
        """Take back one version alone, by three-way merge; `MergeConflict` names what was built on it."""
        return self.plan_revert(ref).apply(reason, actor=actor, meta=meta).checkpoint

    # --- other lines

    def fork(
        self,
        at: Any = "head",
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Thread[S]:
        """A new thread that starts at a checkpoint of this one, which is untouched."""
        from takeback.model import ids, refs

        tip = self._need()
        source = history.target(self._ctx, tip, at)
        new = Identity(
            refs.check_name(name) if name is not None else ids.thread_name(),
            agent if agent is not None else tip.info.agent,
            user if user is not None else tip.info.user,
            metadata(meta) if meta is not None else tip.info.meta,
        )
        made = forks.fork(self._ctx, source, new, Said(reason=reason, actor=actor))
        return Thread(self._ctx, new, made, self._model)

    def plan_merge(self, other: Thread[Any] | str) -> Plan | None:
        """What merging another thread will do; None when it has nothing that this one lacks."""
        theirs = other._need() if isinstance(other, Thread) else needed(self._ctx.tip(other), other)
        if isinstance(other, Thread) and other._ctx.storage is not self._ctx.storage:
            raise BadRequest("the threads are in different stores", thread=self.name, hint="Import one first")
        found = forks.plan_merge(self._ctx, self._need(), theirs)
        return None if found is None else self._plan(found.move, found.clashes)

    def merge(
        self,
        other: Thread[Any] | str,
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Checkpoint:
        """Bring in what a fork (or its origin) did; `MergeConflict` lists what cannot both hold."""
        plan = self.plan_merge(other)
        return self.head if plan is None else plan.apply(reason, actor=actor, meta=meta).checkpoint

    # --- the thread as a whole

    def label(self, name: str, ref: Any = "head") -> Checkpoint:
        """Name a checkpoint; the label moves if it named another."""
        target = history.resolve(self._ctx, self._need(), ref)
        threads.label(self._ctx, self._need(), name, target)
        return target

    def unlabel(self, name: str) -> None:
        """Take a label away; the checkpoint stays."""
        threads.unlabel(self._ctx, self._need(), name)

    def verify(self, seal: Seal | str | None = None, *, public_key: bytes | None = None) -> Report:
        """Recompute all that the history rests on; against a seal, also what was cut off or rewritten."""
        info = self._recorded()
        if isinstance(seal, str):
            seal = seals.loads(seal)
        if seal is not None:
            seals.check(seal, info, public_key)
        return verify(self._ctx, info, seal)

    def seal(self, *, private_key: bytes | None = None) -> Seal:
        """The head as a seal, to be kept where who can write the store cannot; signed with an Ed25519 key."""
        tip = self.refresh()._need()
        seal = seals.make(self._ctx, tip, private_key)
        threads.record(self._ctx, tip, "sealed", version=seal.version, signed=seal.signature is not None)
        return seal

    def delete(self, *, reason: str | None = None) -> None:
        """Remove the thread for good. Its name is free again; late writers to it are refused."""
        refuse_open(self, "deleting the thread")
        threads.delete(self._ctx, self._need(), reason)
        self._tip = None

    def is_same(self, other: Thread[Any]) -> bool:
        """Whether both handles are of one thread of one store."""
        return (self._ctx.storage, self._ctx.tenant, self.name) == (
            other._ctx.storage,
            other._ctx.tenant,
            other.name,
        )

    def __repr__(self) -> str:
        return f"<Thread {self.name!r} " + (
            f"at version {self._tip.head.version}>" if self._tip else "without versions>"
        )

    # --- inside

    def _need(self) -> Tip:
        return needed(self._tip, self.name)

    def _recorded(self) -> ThreadInfo:
        """What the store says of the thread, also when its head is damaged."""
        try:
            return self.refresh()._need().info
        except CorruptObject:
            found = [info for info in threads.listed(self._ctx) if info.name == self.name]
            if not found:
                raise
            return found[0]

    def _state_of(self, checkpoint: Checkpoint) -> Any:
        if self._model is not None:
            return load(self._model, self._ctx.state(checkpoint), checkpoint)
        if self._seen is None or self._seen[0] != checkpoint.state_root:
            self._seen = (checkpoint.state_root, frozen.view(self._ctx.state(checkpoint)))
        return self._seen[1]

    def _get(self, checkpoint: Checkpoint, path: PathLike) -> Any:
        try:
            return frozen.view(read_at(self._ctx.get(checkpoint.state_root), paths.parse(path), self._ctx))
        except CorruptObject as error:
            raise self._ctx.explained(error, checkpoint) from None

    def _begin(self) -> tuple[Tip | None, Any]:
        """A step's base and its working state."""
        if self._tip is None:
            self.refresh()
        tip = self._tip
        if tip is None:
            return None, self._fresh()
        state = self._ctx.state(tip.head)
        return tip, state if self._model is None else load(self._model, state, tip.head)

    def _fresh(self) -> Any:
        """What a step of a thread without versions begins with."""
        return {} if self._model is None else _empty(self._model, self.name)

    def _finish(self, base: Tip | None, state: Any, said: Said) -> Checkpoint | None:
        """The end of a step: nothing when nothing changed, else a version, merged with what others did."""

        def make(tip: Tip | None) -> Draft:
            return commits.draft_state(self._ctx, tip, state, "step", said)

        if equal(state, self._fresh()) if base is None else make(base).root == base.head.state_root:
            return None
        self._tip = base
        return self._publish(make, "merge", None, state=lambda: state)

    def _patched(self, change: Callable[[Any], Any], said: Said, expect: Any) -> Checkpoint:
        def make(tip: Tip | None) -> Draft:
            state = {} if tip is None else self._ctx.state(tip.head)
            return commits.draft_state(self._ctx, tip, change(state), "patch", said)

        return self._publish(make, "raise", expect)

    def _edited(
        self, change: Callable[[Tip, Said], Draft], said: Said, on_conflict: OnConflict, expect: Any
    ) -> Checkpoint:
        """An edit of the head; a thread that has none is made first, with an empty state below it."""
        if self._tip is None and not self.refresh().exists:
            raise UnknownThread(
                f"{self.name!r} has no version yet to change",
                hint="Commit a state first, or open it with initial=",
            )
        return self._publish(lambda tip: change(needed(tip, self.name), said), on_conflict, expect)

    def _publish(
        self,
        make: Callable[[Tip | None], Draft],
        on_conflict: OnConflict,
        expect: Any,
        state: Callable[[], Any] | None = None,
    ) -> Checkpoint:
        refuse_open(self, "a commit")
        if on_conflict not in ("raise", "merge"):
            raise BadRequest(f"on_conflict={on_conflict!r} is neither 'raise' nor 'merge'", thread=self.name)
        tip = self._expected(expect) if expect is not None else self._tip
        if tip is None:
            self._tip = self._created(make)
        else:
            self._tip = commits.publish_or_merge(self._ctx, tip, make, on_conflict, state)
        return self._tip.head

    def _created(self, make: Callable[[Tip | None], Draft]) -> Tip:
        try:
            return commits.create(self._ctx, self._identity, make(None))
        except ThreadExists:
            raise Conflict(
                "somebody else made this thread since it was opened here",
                thread=self.name,
                hint="thread.refresh() and look again",
            ) from None

    def _expected(self, expect: Any) -> Tip:
        """The head, if it is the one that the caller expects."""
        # The handle stays where it is: a second try without `expect` must not pass for having looked.
        tip = needed(self._ctx.tip(self.name), self.name)
        wanted = history.resolve(self._ctx, tip, expect)
        if wanted.version != tip.head.version:
            raise Conflict(
                f"the head is {tip.head.id}, not {wanted.id}",
                expected=wanted.id,
                actual=tip.head.id,
                thread=self.name,
                checkpoint=wanted.version,
            )
        return tip

    def _plan(self, move: Move, clashes: list[Any] | None = None) -> Plan:
        return Plan(self, move, [rollback.state_part(self._ctx, move)], clashes or [])

    def _apply(self, plan: Plan, move: Move, reason: str | None, actor: str | None, meta: Meta) -> Receipt:
        refuse_open(self, f"a {move.kind}")
        tip = self._need()
        if plan.conflicts:
            raise forks.conflict(self._ctx, tip, forks.MergePlan(move, plan.conflicts))
        self._tip, bookmark = rollback.apply(self._ctx, tip, move, _said(reason, actor, meta))
        return Receipt(self, plan, self._tip.head, bookmark)


def _said(reason: str | None, actor: str | None, meta: Meta) -> Said:
    return Said(reason=reason, actor=actor, meta=metadata(meta))


def _empty(model: Any, name: str) -> Any:
    try:
        return model()
    except TypeError as error:
        raise BadRequest(
            f"a first state cannot be made from {getattr(model, '__name__', model)}: {error}",
            thread=name,
            hint="Give the thread an initial= state",
        ) from None
