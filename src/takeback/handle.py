"""What every handle of a thread can do: say what it is, and look. The verbs that change it build on this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from takeback.engine import history, threads
from takeback.engine.book import Book, book_of
from takeback.engine.commit import Identity
from takeback.engine.context import Context, Tip, needed
from takeback.engine.diff import Diff
from takeback.errors import BadRequest, CorruptObject, ReadOnlyState, UnknownCheckpoint
from takeback.model import frozen, paths
from takeback.model.paths import PathLike
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.model.tree.read import read_at
from takeback.typed import load
from takeback.view import History, View

if TYPE_CHECKING:
    from takeback.step import Run

S = TypeVar("S")


class Handle(Generic[S]):
    """A thread as this handle has read it."""

    def __init__(self, ctx: Context, identity: Identity, tip: Tip | None, model: Any = None) -> None:
        self._ctx, self._identity, self._tip, self._model = ctx, identity, tip, model
        self._seen: tuple[bytes, Any] | None = None
        self._run: Run | None = None

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
        return threads.labels(self._ctx, self._need().info.uid)

    def audit(self) -> Iterator[AuditEntry]:
        """What was done to the thread beside its checkpoints: labels, seals, imports."""
        return threads.audit(self._ctx, self._need().info.uid)

    def is_same(self, other: Handle[Any]) -> bool:
        """Whether both handles are of one thread of one store."""
        return (self._ctx.storage, self._ctx.tenant, self.name) == (
            other._ctx.storage,
            other._ctx.tenant,
            other.name,
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
        except BadRequest as error:
            raise error.placed(self.name, checkpoint.version) from None

    def _book(self) -> Book:
        """The ledger of the thread's family, as it is now."""
        return book_of(self._ctx, self._need().info.family).refresh()

    def _recorded_at(self, uid: bytes, version: int) -> Checkpoint:
        """A checkpoint of this thread, or of the one that it came from."""
        tip = self._need()
        if uid == tip.info.uid:
            return history.at_version(self._ctx, tip, version)
        found = self._ctx.storage.checkpoint(self._ctx.tenant, uid, version)
        if found is None:
            raise UnknownCheckpoint(
                f"version {version} of the thread that this one came from is gone", thread=self.name
            )
        return found

    def _state_before(self, uid: bytes, version: int) -> Any:
        """A step's base, to be worked on: what a step that is gone through again begins with."""
        checkpoint = self._recorded_at(uid, version)
        state = self._ctx.state(checkpoint)
        return state if self._model is None else load(self._model, state, checkpoint)
