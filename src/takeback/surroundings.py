"""What goes with a workspace's versions beside its files: where git's branches stood, what shells were run.

Branches stay where they are unless a caller asks; what a shell did elsewhere cannot be seen. Plans say both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine import history, reach
from takeback.engine.context import Context, pointer
from takeback.errors import BadRequest
from takeback.model import canonical
from takeback.storage.base import Batch
from takeback.workspace import git, git_program
from takeback.workspace.git import Facts, Reader

if TYPE_CHECKING:
    from takeback.engine.book import Book
    from takeback.engine.rollback import Move
    from takeback.going_back import GoingBack
    from takeback.model.ledger import WorkspaceCell
    from takeback.model.records import Checkpoint
    from takeback.thread import Thread

SHELLS = "shells"
"""How many shell commands ended since the version before, in a version's metadata."""


class Repository:
    """The git repository of a workspace, as its thread's versions remember it."""

    def __init__(self, ctx: Context, root: str, written: bytes | None = None) -> None:
        self._ctx, self.root = ctx, root
        self._reader = Reader(root)
        self._written = written  # the digest of what is stored already

    def now(self) -> Facts | None:
        """What it says of itself; None where there is none."""
        return self._reader.read()

    def meta(self, facts: Facts | None = None) -> dict[str, Any]:
        """What a version that is about to be made says of it: metadata, whose object is stored first."""
        found = facts or self.now()
        if found is None:
            return {}
        payload = found.encode()
        digest = canonical.digest(payload)
        if digest != self._written:
            self._ctx.storage.apply(Batch(self._ctx.tenant, [], {digest: payload}))
            self._written = digest
        return {reach.GIT: digest}

    def at(self, checkpoint: Checkpoint) -> Facts | None:
        """What it said at a version, or at the last one before that remembers it."""
        for row in history.earlier(self._ctx, checkpoint):
            if isinstance(digest := row.meta.get(reach.GIT), bytes):
                return git.decode(self._ctx.get(digest))
        return None


class GitPart:
    """What moved in a repository since a version, and whether a plan takes it back. Looked up when it is
    first asked for: a plan that nobody looks at does not pay for it."""

    name = "git"

    def __init__(self, repository: Repository, move: Move, *, takes: bool) -> None:
        self.repository, self.takes = repository, takes
        self._aim = move.target
        self._remembers = reach.GIT in move.head.meta or reach.GIT in move.target.meta

    @cached_property
    def target(self) -> Facts | None:
        """What the repository said at the target, as far as that is known."""
        return self.repository.at(self._aim)

    @cached_property
    def now(self) -> Facts | None:
        """What it says now."""
        return self.repository.now()

    @cached_property
    def moved(self) -> list[str]:
        """What is elsewhere now than at the target, a line each."""
        if self.target is None or self.now is None:
            return []
        return git.told(self.repository.root, self.target, self.now)

    def summary(self, limit: int = 4) -> str:
        if not self.moved:
            return ""
        shown = ", ".join(self.moved[:limit]) + (" …" if len(self.moved) > limit else "")
        return f"takes git back: {shown}" if self.takes else f"git stays: {shown}"

    def lines(self, limit: int | None = None) -> list[str]:
        tail = (
            "taken back, its commits are kept under refs/takeback"
            if self.takes
            else "stays; --git takes it back"
        )
        return [f"git: {line} ({tail})" for line in self.moved[:limit]]

    def as_dict(self) -> dict[str, Any]:
        return {"part": self.name, "moved": self.moved, "taken_back": self.takes}

    def meta(self) -> dict[str, Any]:
        """What the version that a plan makes says of the repository; nothing in a thread that never does."""
        if not (self._remembers or self.takes):
            return {}
        return self.repository.meta(self.target if self.takes else self.now)

    def take_back(self, mark: str) -> list[str]:
        """Set branches, HEAD and index back; the refs under which what they left is kept."""
        if not self.takes or not self.moved or self.target is None or self.now is None:
            return []
        return git_program.take_back(self.repository.root, self.target, self.now, mark)


class ShellPart:
    """How many shell commands a plan goes back over: their files are captured, the rest is not known."""

    name = "shell"

    def __init__(self, ctx: Context, move: Move) -> None:
        self._ctx, self._move = ctx, move

    @cached_property
    def count(self) -> int:
        """Those of the versions that the plan leaves behind; what was taken back before is not among them."""
        head, target = pointer(self._move.head), pointer(self._move.target)
        return sum(_count(row.meta) for row in history.left_behind(self._ctx, head, target))

    def summary(self, limit: int = 4) -> str:  # noqa: ARG002 (it is one line)
        if not self.count:
            return ""
        plural = "s" if self.count > 1 else ""
        return f"{self.count} shell command{plural} may have reached the network"

    def lines(self, limit: int | None = None) -> list[str]:  # noqa: ARG002 (it is one line)
        said = self.summary()
        return [f"{said}, or changed files elsewhere: that stays"] if said else []

    def as_dict(self) -> dict[str, Any]:
        return {"part": self.name, "commands": self.count}


class Exported(msgspec.Struct, frozen=True):
    """A version's files as a commit."""

    commit: str
    version: int
    files: int
    left_out: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit, "version": self.version, "files": self.files, "left_out": self.left_out,
        }  # fmt: skip


def export_commit(thread: Thread[Any], ref: Any, branch: str) -> Exported:
    """Write the files of a version as a commit on a new branch of the workspace's repository."""
    root, checkpoint = _root_of(thread._attached().cells()), thread.at(ref).checkpoint
    repository = None if root is None else Repository(thread._ctx, root)
    if repository is None or repository.now() is None:
        raise BadRequest("there is no git repository in the workspace", thread=thread.name)
    facts = repository.at(checkpoint)
    held = thread.files(checkpoint)
    left = {path: why for path, why in held.left_out.items() if path != ".git"}
    files: list[git_program.File] = []
    for path, entry in held.items():
        raw = os.fsencode(path)
        if b".git" in raw.split(b"/"):
            left[path] = "git keeps nothing of that name"
        elif entry.is_dir:
            continue
        elif entry.is_file:
            mode = "100755" if entry.mode & 0o100 else "100644"
            files.append(git_program.File(raw, mode, held.read(path)))
        else:
            files.append(git_program.File(raw, "120000", entry.data))
    message = f"{checkpoint.step or checkpoint.reason or checkpoint.kind}\n\ntakeback: {checkpoint.id}\n"
    parent = facts.commit if facts is not None else None
    sha = git_program.export(repository.root, branch, files, message, parent)
    return Exported(sha, checkpoint.version, len(files), left)


def parts_of(
    thread: GoingBack[Any], book: Book, move: Move, *, take_git: bool
) -> tuple[ShellPart | None, GitPart | None]:
    """What a plan goes back over beside files: shell commands, and what moved in git."""
    ctx, uid = thread._ctx, thread._need().info.uid
    root = _root_of(cell for cell in book.workspaces.values() if cell.thread == uid and not cell.detached)
    if root is None:
        if take_git:
            raise BadRequest("git goes back with one workspace on this machine", thread=thread.name)
        return None, None
    part = None
    if git.places(root) is not None:
        written = move.head.meta.get(reach.GIT)
        part = GitPart(Repository(ctx, root, written), move, takes=take_git)
    if take_git and (part is None or part.target is None or part.now is None):
        raise BadRequest(
            "nothing is known of a git repository at that version", thread=thread.name,
            checkpoint=move.target.version,
        )  # fmt: skip
    return ShellPart(ctx, move), part


def _root_of(cells: Iterable[WorkspaceCell]) -> str | None:
    """The directory of the thread's one workspace here; None where it has none, or several."""
    from takeback.attached import this_host

    host = this_host()
    here = [os.fsdecode(cell.path) for cell in cells if cell.host == host]
    return here[0] if len(here) == 1 else None


def _count(meta: Mapping[str, Any]) -> int:
    found = meta.get(SHELLS, 0)
    return found if isinstance(found, int) else 0
