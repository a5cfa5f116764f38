"""Files as callers hold them: an attached workspace, the files of a checkpoint, what differs between two."""

from __future__ import annotations

import os
import posixpath
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.attached import (
    Attached,
    Seen,
    cell_id,
    directory_of,
    other_users,
    record,
    still_uses,
    this_host,
    user_of,
)
from takeback.engine.context import Context, Tip
from takeback.engine.file_words import FileChange, entry_dict, hunks, line_counts
from takeback.engine.files import root_named
from takeback.engine.retention import named
from takeback.errors import MissingExtra, UnknownFile, WorkspaceMissing, WorkspaceRefused
from takeback.model import canonical
from takeback.model.ledger import WorkspaceCell
from takeback.model.manifest import nodes, read
from takeback.model.manifest.nodes import Entry
from takeback.model.records import Checkpoint
from takeback.model.refs import check_name
from takeback.model.tree.nodes import Writer
from takeback.workspace.directory import Directory
from takeback.workspace.home import Home
from takeback.workspace.ignore import Rules
from takeback.workspace.tree import Tree

if TYPE_CHECKING:
    from takeback.filing import Filing
    from takeback.workspace.watch import Watcher


class Workspace:
    """A directory that is attached to a thread."""

    def __init__(self, thread: Filing[Any], name: str) -> None:
        self._thread, self.name = thread, name

    @property
    def path(self) -> str:
        """Where it lies."""
        return os.fsdecode(self._cell.path)

    @property
    def host(self) -> str:
        """The machine on which it lies."""
        return self._cell.host

    @property
    def shared(self) -> bool:
        """Whether other threads may use it too."""
        return self._cell.shared

    @property
    def directory(self) -> Directory:
        """What captures and restores it; `WorkspaceMissing` where it lies on another machine."""
        if self._cell.host != this_host():
            raise WorkspaceMissing(
                f"the workspace {self.name!r} lies on {self._cell.host}",
                thread=self._thread.name,
                hint="Work there, or attach a directory of this machine: thread.workspace(path, name)",
            )
        return directory_of(self._thread._ctx, self._cell)

    def status(self) -> Status:
        """What differs from the head, what is left out, and how changes are found. Nothing is recorded."""
        thread, directory = self._thread, self.directory
        with thread._attached().seen(thread._need(), only=self.name, store=False) as seen:
            found = changed(thread._ctx, seen)
            base = root_named(thread.head.files, self.name)
            look = next((look for _, look in seen.looks), None)
            if look is not None:
                left = look.captured.left
            else:
                left = [] if base is None else read.left_of(read.root_of(base, thread._ctx), thread._ctx)
        watching = directory.watcher is not None
        return Status(
            self.name, self.path, found, {nodes.shown(each.path): each.why for each in left}, watching,
            "" if look is None else look.why, directory.missed,
        )  # fmt: skip

    def watch(self, watcher: Watcher | None = None) -> bool:
        """Have the system tell of changes from now on, or somebody else who knows them; whether it works."""
        try:
            self.directory.watch(watcher)
        except (MissingExtra, OSError) as error:
            said = error.what if isinstance(error, MissingExtra) else (error.strerror or str(error))
            warnings.warn(
                f"{self.path} is not watched, so every capture looks at all its paths: {said}",
                RuntimeWarning,
                stacklevel=3,
            )
            return False
        return True

    def detach(self) -> None:
        """No longer captured or put back. The directory stays as it is, and so does the history."""
        cell, thread = self._cell, self._thread
        home = Home(self.path)
        record(
            thread._ctx,
            thread._need(),
            msgspec.structs.replace(cell, detached=True),
            "workspace.detached",
            None,
        )
        mine = user_of(thread._ctx, thread._need(), cell)
        home.set_users([user for user in home.users().users if user.thread != mine.thread])
        if cell.host == this_host():
            directory_of(thread._ctx, cell).close()

    @property
    def _cell(self) -> WorkspaceCell:
        for cell in self._thread._attached().cells():
            if cell.name == self.name:
                return cell
        raise WorkspaceMissing(
            f"the thread has no workspace {self.name!r}",
            thread=self._thread.name,
            hint="thread.workspace(path) attaches a directory",
        )

    def __repr__(self) -> str:
        return f"<Workspace {self.name!r} at {self.path}>"


class Status(msgspec.Struct, frozen=True):
    """A workspace as it is now."""

    name: str
    path: str
    changes: list[FileChange]
    left_out: dict[str, str]
    watching: bool
    swept_because: str
    missed: int

    @property
    def clean(self) -> bool:
        """Whether the head holds all that is there."""
        return not self.changes

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "name": self.name, "path": self.path, "changes": [each.as_dict() for each in self.changes],
            "left_out": self.left_out, "watching": self.watching, "swept_because": self.swept_because or None,
            "missed_by_watching": self.missed,
        }  # fmt: skip


class Files:
    """The files of one workspace as a checkpoint holds them, by path: `"a.py" in files`, `files["a.py"]`.
    Names that are no text have surrogates, as everywhere in Python."""

    def __init__(self, ctx: Context, checkpoint: Checkpoint, workspace: str) -> None:
        self._ctx, self.checkpoint, self.workspace = ctx, checkpoint, workspace
        with named(ctx, checkpoint):
            self._root = read.root_of(_manifest(checkpoint, workspace), ctx)

    def __getitem__(self, path: str | bytes) -> Entry:
        found = self.get(path)
        if found is None:
            raise KeyError(path)
        return found

    def __contains__(self, path: str | bytes) -> bool:
        return self.get(path) is not None

    def get(self, path: str | bytes) -> Entry | None:
        """What stood at a path; None where nothing did."""
        raw = os.fsencode(path).strip(b"/")
        return read.find(self._root.tree, raw, self._ctx) if raw else None

    def __iter__(self) -> Iterator[str]:
        return (os.fsdecode(path) for path, _ in read.walk(self._root.tree, self._ctx))

    def __len__(self) -> int:
        return sum(1 for _ in read.walk(self._root.tree, self._ctx))

    def items(self) -> list[tuple[str, Entry]]:
        """Paths with what stands there, in one walk."""
        return [(os.fsdecode(path), entry) for path, entry in read.walk(self._root.tree, self._ctx)]

    @property
    def left_out(self) -> dict[str, str]:
        """What stood there and was not captured, and why."""
        return {nodes.shown(each.path): each.why for each in read.left_of(self._root, self._ctx)}

    @property
    def linked(self) -> list[list[str]]:
        """Names that are one file."""
        groups = read.groups_of(self._root, self._ctx)
        return [[os.fsdecode(path) for path in group] for group in groups]

    def read(self, path: str | bytes) -> bytes:
        """The contents of a file."""
        entry = self.get(path)
        if entry is None or not entry.is_file:
            what = "there is no file" if entry is None else "there is no file, but something else,"
            raise UnknownFile(
                f"{what} {nodes.shown(os.fsencode(path))}",
                thread=self.checkpoint.thread,
                checkpoint=self.checkpoint.version,
                path=nodes.shown(os.fsencode(path)),
            )
        return read.contents(entry, self._ctx)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "workspace": self.workspace, "version": self.checkpoint.version,
            "files": {nodes.shown(os.fsencode(path)): entry_dict(entry) for path, entry in self.items()},
            "left_out": self.left_out,
        }  # fmt: skip


def _manifest(checkpoint: Checkpoint, workspace: str) -> bytes:
    found = root_named(checkpoint.files, workspace)
    if found is None:
        raise UnknownFile(
            f"the checkpoint holds no files of {workspace!r}",
            thread=checkpoint.thread,
            checkpoint=checkpoint.version,
        )
    return found


class FilesDiff:
    """What leads from one checkpoint's files to another's."""

    def __init__(self, ctx: Context, before: Checkpoint, after: Checkpoint, workspace: str) -> None:
        self._ctx, self.before, self.after, self.workspace = ctx, before, after, workspace
        self._changes: list[FileChange] | None = None

    def __iter__(self) -> Iterator[FileChange]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def changes(self) -> list[FileChange]:
        """Path by path, with lines counted."""
        if self._changes is None:
            one, two = (root_named(each.files, self.workspace) for each in (self.before, self.after))
            with named(self._ctx, self.before, self.after):
                self._changes = file_changes(one, two, Writer(self._ctx))
        return self._changes

    def text(self, path: str | bytes | None = None, *, context: int = 3) -> str:
        """The changes as a unified diff: all, or of one path."""
        raw = None if path is None else os.fsencode(path).strip(b"/")
        writer = Writer(self._ctx)
        chosen = [each for each in self.changes if raw in (None, each.path)]
        return "".join(line for each in chosen for line in hunks(each, writer, context))

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"workspace": self.workspace, "changes": [each.as_dict() for each in self.changes]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.changes)) or "nothing changed"


def file_changes(before: bytes | None, after: bytes | None, writer: Writer) -> list[FileChange]:
    """What leads from one manifest to another, with lines counted; a directory goes with what is in it."""
    one, two = (nodes.EMPTY if each is None else read.root_of(each, writer).tree for each in (before, after))
    found = []
    for each in read.differing(one, two, writer):
        counts = line_counts(each.before, each.after, writer)
        added, removed = counts or (None, None)
        found.append(FileChange(each.path, each.before, each.after, added, removed))
    return found


def changed(ctx: Context, seen: Seen) -> list[FileChange]:
    """What was seen on the disk and the head does not hold."""
    writer = Writer(ctx)
    writer.new = dict(seen.objects)
    found = []
    for name, root in seen.roots.items():
        found += file_changes(root_named(seen.before, name), root.manifest, writer)
    return found


# --- attaching


def attach(
    ctx: Context,
    tip: Tip,
    path: str | os.PathLike[str],
    name: str | None,
    rules: Rules,
    *,
    shared: bool,
    force: bool,
) -> WorkspaceCell:
    """Record that a directory belongs to a thread, unless that would be a mistake."""
    root = os.path.realpath(os.fspath(path))
    with Tree(root) as tree:
        device, inode = tree.identity()
    _refuse_large(tip, root, force=force)
    attached = Attached(ctx, tip.info)
    known = next((cell for cell in attached.cells() if os.fsdecode(cell.path) == root), None)
    name = name or (known.name if known is not None else posixpath.basename(root) or "root")
    check_name(name, "workspace's name")
    if known is not None and known.name != name:
        raise _refused(tip, root, f"it is attached already, as {known.name!r}")
    home = Home(root)
    cell = WorkspaceCell(
        id=cell_id(tip.info.uid, name), thread=tip.info.uid, name=name, path=os.fsencode(root),
        host=this_host(), device=device, inode=inode, shared=shared,
        rules=canonical.encode(msgspec.to_builtins(rules)), attached_us=ctx.clock(),
    )  # fmt: skip
    with home.lock():
        _refuse_nested(ctx, tip, attached, home, name)
        others = other_users(ctx, tip, home)
        if others and not (shared and all(user.shared for user in others)):
            raise _refused(
                tip, root, f"the thread {others[0].name!r} uses it",
                "Give each a directory of its own, or attach it with shared=True in both",
            )  # fmt: skip
        record(ctx, tip, cell, "workspace.attached", None)
        home.set_users([*others, user_of(ctx, tip, cell)])
    return cell


def _refuse_large(tip: Tip, root: str, *, force: bool) -> None:
    home = os.path.realpath(os.path.expanduser("~"))
    what = "the root of the file system" if root == "/" else "your home directory" if root == home else None
    if what is None and Path(home).is_relative_to(root):
        what = "a directory that holds your home directory"
    if what is not None and not force:
        raise _refused(tip, root, f"it is {what}", "Choose a project's directory; force=True does it anyway")


def _refuse_nested(ctx: Context, tip: Tip, attached: Attached, home: Home, name: str) -> None:
    """Two workspaces that hold the same files would put them back twice."""
    mine = [os.fsdecode(cell.path) for cell in attached.cells() if cell.name != name]
    theirs = [each.path for each in home.others() if any(still_uses(ctx, u, each.path) for u in each.users)]
    for other in dict.fromkeys([*mine, *theirs]):
        if other == home.root or not os.path.isdir(other):
            continue
        if Path(home.root).is_relative_to(other) or Path(other).is_relative_to(home.root):
            where = "inside" if Path(home.root).is_relative_to(other) else "around"
            raise _refused(tip, home.root, f"it lies {where} the workspace {other}", "Attach one of them")


def _refused(tip: Tip, root: str, why: str, hint: str | None = None) -> WorkspaceRefused:
    return WorkspaceRefused(f"{root} is not attached: {why}", thread=tip.info.name, hint=hint)
