"""The façade of a store: opening it, and the threads of one tenant in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from takeback.engine import commit as commits
from takeback.engine import retention, threads, transfer
from takeback.engine.commit import Identity, Said, metadata
from takeback.engine.context import Context
from takeback.engine.retention import Collected, Weight
from takeback.engine.seals import Seal
from takeback.engine.verify import Report
from takeback.errors import BadRequest, ThreadExists, UnknownThread
from takeback.model import canonical, ids, refs
from takeback.model.records import AuditEntry, ThreadInfo
from takeback.plan import Meta
from takeback.storage import connect
from takeback.storage.base import StoreInfo, ThreadQuery
from takeback.store import Store
from takeback.thread import Thread

if TYPE_CHECKING:
    import threading
    from types import TracebackType

    from takeback.asking import Approval
    from takeback.engine.copy_report import CopyReport
    from takeback.recovery import Recovery
    from takeback.storage.base import Storage

M = TypeVar("M")


def open(  # the name that users read: takeback.open
    url: str | os.PathLike[str],
    tenant: str = "default",
    actor: str | None = None,
    *,
    key: bytes | None = None,
    durability: str = "full",
    create: bool = True,
    approvers: Sequence[bytes] = (),
    clock: Callable[[], int] | None = None,
) -> Repo:
    """Open a store: a file's path, or ":memory:".

    `key` signs every checkpoint; `durability="relaxed"` trades the newest commits after a power cut (not
    after a crash of the process) for speed; `create=False` opens only what is there. With `approvers`, public
    keys, an approval counts only with the signature of one of them.
    """
    if durability not in ("full", "relaxed"):
        raise BadRequest(f"durability={durability!r} is neither 'full' nor 'relaxed'")
    return Repo(
        connect(os.fspath(url), create=create, durability=durability),
        tenant=tenant,
        actor=actor,
        key=key,
        approvers=approvers,
        clock=clock,
    )


class Repo:
    """One store, as one tenant sees it. Use it as a context manager, or close it."""

    def __init__(
        self,
        storage: Storage,
        *,
        tenant: str = "default",
        actor: str | None = None,
        key: bytes | None = None,
        approvers: Sequence[bytes] = (),
        clock: Callable[[], int] | None = None,
    ) -> None:
        refs.check_name(tenant, "tenant")
        self._ctx = Context(storage, tenant=tenant, actor=actor, key=key, clock=clock, approvers=[*approvers])
        self._store: Store | None = None

    @property
    def tenant(self) -> str:
        """Whose data this handle sees."""
        return self._ctx.tenant

    @property
    def actor(self) -> str | None:
        """Who acts where a call does not say."""
        return self._ctx.actor

    @overload
    def thread(
        self,
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Meta = None,
        initial: Any = None,
        autopilot: bool | None = None,
    ) -> Thread[Any]: ...

    @overload
    def thread(
        self,
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Meta = None,
        initial: Any = None,
        autopilot: bool | None = None,
        model: type[M],
    ) -> Thread[M]: ...

    def thread(
        self,
        name: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        meta: Meta = None,
        initial: Any = None,
        autopilot: bool | None = None,
        model: Any = None,
    ) -> Thread[Any]:
        """Open a thread. It comes into being with its first version; `initial` is version 0 if it has none.

        Without a name it is given a good one. An existing thread of another agent or user is refused.
        `autopilot` is kept with the thread: what cannot be undone waits for a person's approval.
        """
        thread = self._thread(name, agent, user, meta, initial, model)
        if autopilot is not None:
            if not thread.exists:
                raise BadRequest(
                    "a thread without versions has no autopilot yet",
                    thread=thread.name,
                    hint="Open it with initial=",
                )
            thread.set_autopilot(autopilot)
        return thread

    def _thread(
        self, name: str | None, agent: str | None, user: str | None, meta: Meta, initial: Any, model: Any
    ) -> Thread[Any]:
        name = refs.check_name(name) if name is not None else ids.thread_name()
        tip = self._ctx.tip(name)
        if tip is not None:
            threads.check_owner(tip, agent, user)
            identity = Identity(name, tip.info.agent, tip.info.user, tip.info.meta)
            return Thread(self._ctx, identity, tip, model)
        identity = Identity(name, agent, user, metadata(meta))
        if initial is None:
            return Thread(self._ctx, identity, None, model)
        draft = commits.draft_state(self._ctx, None, initial, "initial", Said())
        try:
            return Thread(self._ctx, identity, commits.create(self._ctx, identity, draft), model)
        except ThreadExists:  # somebody was faster: then it is open like any other
            return self._thread(name, agent, user, meta, None, model)

    @property
    def store(self) -> Store:
        """Memory that outlives a thread: items by namespace and key."""
        if self._store is None:
            self._store = Store(self._ctx)
        return self._store

    def threads(
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
        if limit is not None and limit < 0:
            raise BadRequest(f"a limit of {limit} is none", hint="Leave it out to list all")
        return threads.listed(
            self._ctx,
            ThreadQuery(
                agent=agent,
                user=user,
                meta=metadata(meta),
                created_after_us=_micros(created_after),
                created_before_us=_micros(created_before),
                limit=limit,
                after=None if after is None else after.key,
            ),
        )

    def latest(self) -> ThreadInfo | None:
        """The thread that was written to last."""
        return threads.latest(self._ctx)

    def recover(self, *, settle: bool = True) -> Recovery:
        """What a crash left: settles what settles itself, and lists what is left for somebody to see to."""
        from takeback.recovery import recover

        return recover(self._ctx, settle=settle)

    def work(
        self,
        *,
        stop: threading.Event | None = None,
        poll: float = 0.5,
        told: Callable[[str], None] | None = None,
    ) -> int:
        """Do what plans wait for, with the tools of this process: one round, or until `stop` is set.

        How many lines were done; `told` is called with each, in words.
        """
        from takeback.worker import round_of_work, work

        if stop is None:
            return round_of_work(self._ctx, told=told)
        return work(self._ctx, stop=stop, poll=poll, told=told)

    def approvals(self) -> list[Approval]:
        """What waits for a person's decision, on all threads."""
        return self.recover(settle=False).approvals

    def audit(self) -> Iterator[AuditEntry]:
        """What was done beside checkpoints, oldest first: deletions, labels, seals, imports."""
        return threads.audit(self._ctx, None)

    def verify(
        self, name: str | None = None, *, seal: Seal | str | None = None, public_key: bytes | None = None
    ) -> Iterator[Report]:
        """Every thread's report, one after another, or one thread's; also where a head is damaged."""
        if name is not None:
            yield self._bare(name).verify(seal, public_key=public_key)
            return
        for info in self.threads():
            with contextlib.suppress(UnknownThread):  # deleted meanwhile
                yield self._bare(info.name).verify()

    def _bare(self, name: str) -> Thread[Any]:
        """A handle that has not read its head."""
        return Thread(self._ctx, Identity(name), None)

    def du(self) -> list[Weight]:
        """What each thread takes of the store, biggest first."""
        return retention.weigh(self._ctx, self.threads())

    def gc(self, *, grace: int = 60, progress: Callable[[str, int], None] | None = None) -> Collected:
        """Remove the objects that no thread needs any more. Safe beside writers, and to be interrupted.

        What was written within `grace` minutes stays.
        """
        return retention.collect(self._ctx, grace=grace, progress=progress)

    def export(self, name: str, path: str | os.PathLike[str]) -> int:
        """Write a thread to one portable file; how many checkpoints it holds. Files that were given up
        (`thread.pruned()`) are not in it, which it says."""
        return transfer.export(self._ctx, self.thread(name).info, os.fspath(path))

    def import_(self, path: str | os.PathLike[str], *, name: str | None = None) -> Thread[Any]:
        """Bring a thread in from a file, verified, under its own name or another."""
        info = transfer.bring_in(self._ctx, os.fspath(path), None if name is None else refs.check_name(name))
        return self.thread(info.name)

    def copy(
        self,
        to: Repo | str | os.PathLike[str],
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
        from takeback.engine import copying

        if not isinstance(to, Repo):
            whose = self.tenant if tenant is None else tenant
            with open(to, whose, self.actor, key=self._ctx.key) as opened:
                return self.copy(opened, threads=threads, progress=progress)
        if tenant not in (None, to.tenant):
            raise BadRequest(f"the destination is a handle of tenant {to.tenant!r}, not {tenant!r}")
        return copying.copied(self._ctx, to._ctx, threads, progress)

    def info(self) -> StoreInfo:
        """What the store is, where, and how much it holds."""
        return self._ctx.storage.info()

    def damage(self) -> list[str]:
        """What the database underneath finds wrong with its own file; empty when it is sound."""
        return self._ctx.storage.damage()

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        if "directories" in self._ctx.held:
            from takeback.attached import close_all

            close_all(self._ctx)
        self._ctx.storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Repo of tenant {self.tenant!r}>"


def _micros(time: datetime | None) -> int | None:
    if time is None:
        return None
    if time.utcoffset() is None:
        raise BadRequest(f"{time!r} has no time zone", hint="Give it one, for example datetime.UTC")
    return canonical.micros(time)
