"""What goes with a workspace's versions beside its files: where git's branches stood, what shells were run.

Branches stay where they are unless a caller asks; what a shell did elsewhere cannot be seen. Plans say both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine import reach
from takeback.errors import BadRequest
from takeback.model import canonical
from takeback.storage.base import Batch
from takeback.workspace import git, git_program
from takeback.workspace.git import Facts, Reader

if TYPE_CHECKING:
    from takeback.model.records import Checkpoint
    from takeback.plan import Plan
    from takeback.thread import Thread

SHELLS = "shells"
"""How many shell commands ended since the version before, in a version's metadata."""


class Repository:
    """The git repository of a workspace, as its thread's versions remember it."""

    def __init__(self, thread: Thread[Any], root: str) -> None:
        self._thread, self.root = thread, root
        self._reader = Reader(root)
        self._written: bytes | None = None

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
            ctx = self._thread._ctx
            ctx.storage.apply(Batch(ctx.tenant, [], {digest: payload}))
            self._written = digest
        return {reach.GIT: digest}

    def at(self, checkpoint: Checkpoint) -> Facts | None:
        """What it said at a version, or at the last one before that remembers it."""
        ctx = self._thread._ctx
        for version in range(checkpoint.version, -1, -1):
            row = self._thread.at(version).checkpoint if version != checkpoint.version else checkpoint
            if isinstance(digest := row.meta.get(reach.GIT), bytes):
                return git.decode(ctx.get(digest))
        return None


class GitPart:
    """What moved in a repository since a version, and whether a plan takes it back."""

    name = "git"

    def __init__(self, repository: Repository, target: Facts, now: Facts, *, takes: bool) -> None:
        self.repository, self.target, self.now, self.takes = repository, target, now, takes
        self.moved = git.told(repository.root, target, now)

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
        """What the version that a plan makes says of the repository."""
        return self.repository.meta(self.target if self.takes else self.now)

    def take_back(self, mark: str) -> list[str]:
        """Set branches, HEAD and index back; the refs under which what they left is kept."""
        if not self.takes or not self.moved:
            return []
        return git_program.take_back(self.repository.root, self.target, self.now, mark)


class ShellPart:
    """How many shell commands a plan goes back over: their files are captured, the rest is not known."""

    name = "shell"

    def __init__(self, count: int) -> None:
        self.count = count

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
    root, checkpoint = root_of(thread), thread.at(ref).checkpoint
    repository = None if root is None else Repository(thread, root)
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


def root_of(thread: Thread[Any]) -> str | None:
    """The directory of the thread's one workspace here; None where it has none, or several."""
    from takeback.attached import this_host

    host = this_host()
    here = [workspace.path for workspace in thread.workspaces() if workspace.host == host]
    return here[0] if len(here) == 1 else None


def accompany(thread: Thread[Any], plan: Plan, *, take_git: bool = False) -> GitPart | None:
    """Have a plan say what moved in git since its target, and how many shell commands ran since."""
    root = root_of(thread)
    if root is None:
        if take_git:
            raise BadRequest("--git needs a workspace on this machine", thread=thread.name)
        return None
    part = None
    if plan.target.uid == thread.info.uid:
        plan.parts.append(ShellPart(_shells(thread, plan.target.version)))
        repository = Repository(thread, root)
        target, now = repository.at(plan.target), repository.now()
        if target is not None and now is not None:
            part = GitPart(repository, target, now, takes=take_git)
            plan.parts.append(part)
    if take_git and part is None:
        raise BadRequest(
            "nothing is known of a git repository at that version", thread=thread.name,
            checkpoint=plan.target.version,
        )  # fmt: skip
    return part


def _shells(thread: Thread[Any], after: int) -> int:
    """Shell commands in the versions after this one that still count."""
    return sum(_count(c.meta) for c in thread.history() if c.version > after)


def _count(meta: Mapping[str, Any]) -> int:
    found = meta.get(SHELLS, 0)
    return found if isinstance(found, int) else 0
