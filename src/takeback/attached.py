"""The workspaces of a thread in this process: captured with its versions, and put back by its plans."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Collection, Iterator
from contextlib import ExitStack

import msgspec

from takeback.engine.book import Book, Change, book_of
from takeback.engine.commit import Draft
from takeback.engine.context import Context, Tip
from takeback.engine.files import root_named
from takeback.errors import PlanStale, WorkspaceFailed
from takeback.model import canonical
from takeback.model.ids import shown
from takeback.model.ledger import PlanCell, WorkspaceCell
from takeback.model.records import FileRoot, ThreadInfo
from takeback.storage.base import Batch
from takeback.workspace.content import Store
from takeback.workspace.directory import Directory, Look
from takeback.workspace.home import Home, User
from takeback.workspace.ignore import Rules
from takeback.workspace.restore import Outcome

_replace = msgspec.structs.replace
_FLUSH = 32 << 20


class Seen(msgspec.Struct):
    """What a thread's workspaces hold now, before it is recorded."""

    roots: dict[str, FileRoot] = {}  # those that are here
    objects: dict[bytes, bytes] = {}
    looks: list[tuple[Directory, Look]] = []
    before: list[FileRoot] = []

    @property
    def changed(self) -> bool:
        """Whether any file is another than at the head."""
        was = {root.workspace: root.manifest for root in self.before}
        return any(was.get(name) != root.manifest for name, root in self.roots.items())

    def over(self, files: list[FileRoot]) -> list[FileRoot]:
        """A version's files, with those that were seen in place of what it says."""
        if not self.changed:
            return files
        held = {root.workspace: root for root in files} | self.roots
        return [held[name] for name in sorted(held)]

    def on(self, tip: Tip | None, draft: Draft) -> Draft:
        """The draft with these files."""
        if tip is None or not self.changed:
            return draft
        return _replace(draft, files=self.over(tip.head.files), contents=self.objects)

    def settle(self) -> None:
        """They are recorded."""
        for directory, look in self.looks:
            directory.settle(look)


class Attached:
    """The workspaces that a thread has, as far as they lie on this machine."""

    def __init__(self, ctx: Context, info: ThreadInfo) -> None:
        self._ctx, self._uid, self._family = ctx, info.uid, info.family

    def cells(self) -> list[WorkspaceCell]:
        """What is attached, here or on other machines, by name."""
        book = self._book()
        found = [cell for cell in book.workspaces.values() if cell.thread == self._uid and not cell.detached]
        return sorted(found, key=lambda cell: cell.name)

    def here(self) -> dict[str, Directory]:
        """Those on this machine, by name."""
        host = this_host()
        return {cell.name: directory_of(self._ctx, cell) for cell in self.cells() if cell.host == host}

    def elsewhere(self) -> dict[str, str]:
        """Those on other machines: by name, and where."""
        host = this_host()
        return {cell.name: cell.host for cell in self.cells() if cell.host != host}

    def _book(self) -> Book:
        return book_of(self._ctx, self._family).refresh()

    # --- capturing

    @contextlib.contextmanager
    def seen(
        self,
        tip: Tip,
        *,
        named: Collection[bytes] | None = None,
        only: str | None = None,
        audit: bool = False,
        store: bool = True,
    ) -> Iterator[Seen]:
        """What they hold now; nobody else captures or restores them until what comes of it is recorded."""
        seen = Seen(before=tip.head.files)
        with ExitStack() as held:
            for name, directory in self.here().items():
                if only is not None and name != only:
                    continue
                held.enter_context(directory.home.lock())
                base = root_named(tip.head.files, name)
                writer = Store(self._ctx, self._write if store else None, _FLUSH)
                look = directory.look(base, writer, named=named, audit=audit)
                if look is not None:
                    seen.looks.append((directory, look))
                    seen.roots[name] = FileRoot(name, look.captured.root, look.captured.tier)
                    seen.objects |= writer.new
            yield seen

    def _write(self, objects: dict[bytes, bytes]) -> None:
        """Objects ahead of what refers to them: a crash leaves garbage."""
        self._ctx.storage.apply(Batch(self._ctx.tenant, [], dict(objects)))

    # --- putting back

    @contextlib.contextmanager
    def put_back(self, plan: PlanCell) -> Iterator[tuple[Seen, dict[str, Outcome]]]:
        """Do what a plan says of files, or what is left of it, and look at what is on the disk then. Nobody
        else does so until that is recorded."""
        outcomes: dict[str, Outcome] = {}
        after = Seen(before=plan.files or [])
        here = self.here()
        with ExitStack() as held:
            for start in plan.moves:
                held.enter_context(here[start.workspace].home.lock())
            if self._book().plans[plan.id].state != "applying":
                raise PlanStale("the plan was brought to its end meanwhile")
            for start in plan.moves:
                name, directory = start.workspace, here[start.workspace]
                goal = root_named(plan.files or [], name)
                if goal is None:
                    continue
                done = outcomes[name] = _put_back(directory, self._ctx, start.manifest, goal, plan.id)
                writer = Store(self._ctx)
                look = directory.look(goal, writer, named=done.touched | set(done.kept), exactly=True)
                assert look is not None
                after.looks.append((directory, look))
                after.roots[name] = FileRoot(name, look.captured.root, look.captured.tier)
                after.objects |= writer.new
            yield after, outcomes


def _put_back(directory: Directory, ctx: Context, before: bytes, after: bytes, plan: bytes) -> Outcome:
    """One workspace. When the system refuses in the middle, what was done is taken back at once."""
    name = plan.hex()
    try:
        return directory.put_back(before, after, ctx, name=name)
    except OSError as error:
        where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else directory.path
        what = f"files cannot be put back: {where}: {error.strerror or error}"
    try:
        directory.put_back(after, before, ctx, name=name)
    except OSError as error:
        raise WorkspaceFailed(
            f"{what}; and what was changed before could not be taken back: {error.strerror}",
            hint="When the cause is gone, `takeback recover` goes on with it",
        ) from None
    raise WorkspaceFailed(f"{what}; the workspace is as it was", hint="When the cause is gone, try again")


# --- finding, and attaching


def this_host() -> str:
    """The name of this machine, as workspaces are recorded with it."""
    return platform.node()


def cell_id(thread: bytes, name: str) -> bytes:
    return canonical.digest(thread + name.encode())[:16]


def directory_of(ctx: Context, cell: WorkspaceCell) -> Directory:
    """The directory, one for all handles of a store: they share its watch and its index."""
    held: dict[bytes, tuple[WorkspaceCell, Directory]] = ctx.held.setdefault("directories", {})
    known = held.get(cell.id)
    if known is not None and known[0] == cell:
        return known[1]
    if known is not None:
        known[1].close()
    rules = Rules() if not cell.rules else msgspec.convert(canonical.decode(cell.rules), Rules)
    made = Directory(os.fsdecode(cell.path), rules, identity=(cell.device, cell.inode), own=store_files(ctx))
    held[cell.id] = (cell, made)
    return made


def close_all(ctx: Context) -> None:
    """Stop watching, when the store is closed."""
    for _, directory in ctx.held.pop("directories", {}).values():
        directory.close()


def store_files(ctx: Context) -> list[str]:
    """The files of the store itself: one that lies in a workspace is no part of it."""
    info = ctx.storage.info()
    if info.kind != "sqlite":
        return []
    path = os.path.realpath(info.location)
    return [path + end for end in ("", "-wal", "-shm", "-journal")]


def record(ctx: Context, tip: Tip, cell: WorkspaceCell, action: str, actor: str | None) -> None:
    """Say in the ledger and in the audit log that a directory was attached, or is no more."""
    book = book_of(ctx, tip.info.family).refresh()
    entry = ctx.audit(action, tip.info, actor, workspace=cell.name, path=os.fsdecode(cell.path))
    book.change(lambda: Change([cell], rows=[entry]))


def user_of(ctx: Context, tip: Tip, cell: WorkspaceCell) -> User:
    info = ctx.storage.info()
    where = {"sqlite": os.path.realpath(info.location), "memory": f"pid:{os.getpid()}"}.get(info.kind, "")
    return User(f"{info.uid}/{ctx.tenant}", shown(tip.info.uid), tip.info.name, cell.shared, where)


def other_users(ctx: Context, tip: Tip, home: Home) -> list[User]:
    """The other threads that use a directory; those that are known to be gone are not counted."""
    mine = (f"{ctx.storage.info().uid}/{ctx.tenant}", shown(tip.info.uid))
    found = [user for user in home.users().users if (user.store, user.thread) != mine]
    return [user for user in found if still_uses(ctx, user, home.root)]


def still_uses(ctx: Context, user: User, root: str) -> bool:
    """Whether a thread uses a directory, as far as this store knows."""
    if user.store != f"{ctx.storage.info().uid}/{ctx.tenant}":
        return not user.gone
    tip = ctx.tip(user.name)
    if tip is None or shown(tip.info.uid) != user.thread:
        return False
    return any(os.fsdecode(cell.path) == root for cell in Attached(ctx, tip.info).cells())
