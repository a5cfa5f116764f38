"""The façade of one thread: the verbs as people call them. It decides nothing that the engine could."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from takeback.acting import Acting
from takeback.engine import commit as commits
from takeback.engine import fork as forks
from takeback.engine import history, retention, seals, standing, steps, threads
from takeback.engine.commit import Draft, Identity, ItemStale, Said, metadata
from takeback.engine.context import Tip, needed
from takeback.engine.items import Buffer, refuse_merged
from takeback.engine.patch import edits, json_patch, merge_patch
from takeback.engine.retention import Pruning
from takeback.engine.seals import Seal
from takeback.engine.verify import Report, verify
from takeback.errors import BadRequest, Conflict, StepLost, ThreadExists, UnknownThread
from takeback.errors.base import naming
from takeback.going_back import GoingBack
from takeback.going_back import said as _said
from takeback.model import paths
from takeback.model.canonical import equal
from takeback.model.ids import ThreadUid
from takeback.model.paths import PathLike
from takeback.model.records import Checkpoint
from takeback.plan import Meta, Plan
from takeback.step import Step, refuse_open
from takeback.typed import load

if TYPE_CHECKING:
    from takeback.attached import Seen
    from takeback.engine.steps import Session

S = TypeVar("S")
OnConflict: TypeAlias = Literal["raise", "merge"]


class Thread(GoingBack[S], Acting[S]):
    """One line of work of one agent. A handle remembers the head it read; it is cheap to make."""

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

        return self._publish(make, on_conflict, expect, state=lambda: state, files=True)

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
        self,
        label: str = "step",
        *,
        reason: str | None = None,
        actor: str | None = None,
        meta: Meta = None,
        on_error: Literal["keep", "rollback"] = "keep",
        wait: float | None = None,
        take_over: bool = False,
    ) -> Step[S]:
        """`with thread.step("book") as s:` change `s.state`, call tools: one checkpoint at its end.

        When it raises, its state is gone, and it stays open if it called tools: entering it again goes on.
        With `on_error="rollback"` they are taken back. `StepInProgress` says that another worker is in it:
        `wait` for so many seconds, or `take_over`.
        """
        said = Said(reason=reason, actor=actor, step=label, meta=metadata(meta))
        return Step(self, label, said, on_error=on_error, wait=wait, take_over=take_over)

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
        effects: Literal["deny", "guard", "allow"] = "deny",
    ) -> Thread[S]:
        """A new thread that starts at a checkpoint of this one, which is untouched.

        `effects`: it may do nothing to the world (`deny`), only what does not stand already for one of the
        family (`guard`), or whatever it wants (`allow`).
        """
        from takeback.model import ids, refs

        rights = standing.rights(effects)

        tip = self._need()
        source = history.target(self._ctx, tip, at)
        new = Identity(
            refs.check_name(name) if name is not None else ids.thread_name(),
            agent if agent is not None else tip.info.agent,
            user if user is not None else tip.info.user,
            metadata(meta) if meta is not None else tip.info.meta,
            family=ThreadUid(tip.info.family),
        )
        made = forks.fork(self._ctx, source, new, Said(reason=reason, actor=actor))
        fork: Thread[S] = Thread(self._ctx, new, made, self._model)
        if rights != "deny":  # a crash before it leaves a fork without the right: the safe way round
            standing.say(fork._book(), made, rights=rights)
        return fork

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

    def prune(self, budget: int, *, keep: int = 20, reason: str | None = None) -> Pruning:
        """Give up the files of the oldest versions, so that those of the others take at most `budget` bytes.

        The newest `keep` versions, and what a label names, stay. This cannot be undone: the versions remain,
        with their state, and say that their files are gone. `Repo.gc` then gives the space back.
        """
        plan = self.plan_prune(budget, keep=keep)
        retention.prune(self._ctx, self.info, plan, reason)
        return plan

    def pruned(self) -> list[tuple[int, int]]:
        """Runs of versions whose files were given up."""
        return [(low, high) for low, high, _ in retention.pruned(self._ctx, self.info.uid)]

    def plan_prune(self, budget: int, *, keep: int = 20) -> Pruning:
        """Whose files `prune` would give up; reads only."""
        tip = self.refresh()._need()
        return retention.plan_pruning(self._ctx, tip, self.labels.values(), budget, keep)

    def delete(self, *, reason: str | None = None) -> None:
        """Remove the thread for good. Its name is free again; late writers to it are refused."""
        refuse_open(self, "deleting the thread")
        threads.delete(self._ctx, self._need(), reason)
        self._tip = None

    def __repr__(self) -> str:
        return f"<Thread {self.name!r} " + (
            f"at version {self._tip.head.version}>" if self._tip else "without versions>"
        )

    # --- inside

    def _begin(self, label: str) -> tuple[Tip | None, Any]:
        """A step's base and its working state. What others did to its files is recorded first."""
        if self._tip is None:
            self.refresh()
        tip = self._tip
        if tip is None:
            return None, self._fresh()
        if tip.head.files and not self._resumes(label):
            tip = self._capture_foreign()
        state = self._ctx.state(tip.head)
        return tip, state if self._model is None else load(self._model, state, tip.head)

    def _fresh(self) -> Any:
        """What a step of a thread without versions begins with."""
        return {} if self._model is None else _empty(self._model, self.name)

    def _born(self) -> Tip:
        """A thread that acts before it has a version comes into being with an empty state."""
        if self._tip is None:
            draft = commits.draft_state(self._ctx, None, self._fresh(), "initial", Said())
            with contextlib.suppress(ThreadExists):  # somebody was faster: then it is there
                self._tip = commits.create(self._ctx, self._identity, draft)
        return self.refresh()._need() if self._tip is None else self._tip

    def _resumes(self, label: str) -> bool:
        """Whether a step of this label is open, or a run replays: then files are not somebody else's."""
        if self._run is not None:
            return True
        tip = self._need()
        return self._book().open_step(tip.info.uid, tip.head.line, None, label) is not None

    def _finish(
        self, base: Tip | None, state: Any, said: Said, session: Session | None, memory: Buffer
    ) -> Checkpoint | None:
        """The end of a step: nothing when nothing changed, else a version, merged with what others did."""
        if memory and base is None:
            base = self._born()
        if memory and base is not None:
            refuse_merged(self._ctx, base.info)
        with self._looked() as seen:
            made = self._finished(base, state, said, session, seen, memory)
            if seen is not None:
                seen.settle()
            return made

    def _finished(
        self,
        base: Tip | None,
        state: Any,
        said: Said,
        session: Session | None,
        seen: Seen | None,
        memory: Buffer,
    ) -> Checkpoint | None:
        def dress(tip: Tip | None, draft: Draft) -> Draft:
            return draft if seen is None else seen.on(tip, draft)

        if session is not None and session.recorded:
            self._tip = needed(base, self.name)
            try:
                self._tip = steps.close(session, self._tip, state, said, memory, dress)
            except BadRequest as error:
                raise error.placed(self.name, self._tip.head.version) from None
            return self._tip.head

        def make(tip: Tip | None) -> Draft:
            draft = dress(tip, commits.draft_state(self._ctx, tip, state, "step", said))
            return steps.covering(draft, [], memory)

        try:
            same = equal(state, self._fresh()) if base is None else make(base).root == base.head.state_root
        except BadRequest as error:
            raise error.placed(self.name, None if base is None else base.head.version) from None
        if same and not memory and not (seen is not None and seen.changed):
            return None
        self._tip = base
        try:
            return self._published(make, "merge", base, lambda: state, memory, one_line=base is not None)
        except StepLost as lost:
            raise lost.placed(self.name) from None

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
        files: bool = False,
    ) -> Checkpoint:
        refuse_open(self, "a commit")
        if on_conflict not in ("raise", "merge"):
            raise BadRequest(f"on_conflict={on_conflict!r} is neither 'raise' nor 'merge'", thread=self.name)
        if files:
            return self._published_with_files(make, on_conflict, expect, state)
        tip = self._expected(expect) if expect is not None else self._tip
        return self._published(make, on_conflict, tip, state)

    def _published(
        self,
        make: Callable[[Tip | None], Draft],
        on_conflict: str,
        tip: Tip | None,
        state: Callable[[], Any] | None = None,
        memory: Buffer | None = None,
        *,
        one_line: bool = False,
    ) -> Checkpoint:
        try:
            if tip is None:
                self._tip = self._created(make)
            else:
                self._tip = self._joined(tip, make, on_conflict, state, memory, one_line=one_line)
        except BadRequest as error:
            raise error.placed(self.name, None if tip is None else tip.head.version) from None
        return self._tip.head

    def _joined(
        self,
        tip: Tip,
        make: Callable[[Tip | None], Draft],
        on_conflict: str,
        state: Callable[[], Any] | None,
        memory: Buffer | None,
        *,
        one_line: bool,
    ) -> Tip:
        publish = commits.publish_or_merge
        if not memory:
            return publish(self._ctx, tip, make, on_conflict, state, one_line=one_line)
        while True:
            with contextlib.suppress(ItemStale), naming(self.name):
                return publish(self._ctx, tip, make, on_conflict, state, memory.rows, one_line=one_line)
            with naming(self.name):
                memory.again()

    def _published_with_files(
        self,
        make: Callable[[Tip | None], Draft],
        on_conflict: OnConflict,
        expect: Any,
        state: Callable[[], Any] | None,
    ) -> Checkpoint:
        with self._looked() as seen:
            if seen is None:
                return self._publish(make, on_conflict, expect, state)
            made = self._publish(lambda tip: seen.on(tip, make(tip)), on_conflict, expect, state)
            seen.settle()
            return made

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


def _empty(model: Any, name: str) -> Any:
    try:
        return model()
    except TypeError as error:
        raise BadRequest(
            f"a first state cannot be made from {getattr(model, '__name__', model)}: {error}",
            thread=name,
            hint="Give the thread an initial= state",
        ) from None
