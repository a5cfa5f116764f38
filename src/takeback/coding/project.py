"""A directory that takeback looks after for people and coding agents: its store, thread and workspace."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import takeback
from takeback import places
from takeback.engine.telling import BACK
from takeback.errors import WorkspaceMissing
from takeback.surroundings import SHELLS, Repository
from takeback.workspace.watch import Changed, Watch

if TYPE_CHECKING:
    from takeback import Checkpoint, Repo, Thread
    from takeback.files import Workspace

_MANY = 12  # files that are named to an agent


class Project:
    """Opens what is there, and makes what is not."""

    def __init__(self, root: str, folder: str) -> None:
        self.root, self.folder = root, folder
        self.repo: Repo = takeback.open(os.path.join(folder, places.STORE), actor=places.login_name())
        self.thread, self.workspace = self._attached() or self._attach()
        self.repository = Repository(self.thread._ctx, root)
        self.shells = 0
        """Shell commands that ended since the last version."""
        self._facts = self.repository.now()

    def capture(self, agent: str | None, why: str, meta: dict[str, Any] | None = None) -> Checkpoint | None:
        """A version of what has changed since the last one: the agent's step, or what others did."""
        facts = self.repository.now()
        said = dict(meta or {}) | self.repository.meta(facts)
        if agent is not None and self.shells:
            said[SHELLS] = self.shells
        self.thread.refresh()
        if agent is None:
            return self._kept(self.thread.capture(why, meta=said), facts)
        made = self.thread.capture(step=why, actor=agent, meta=said)
        if made is None and _moved(self._facts, facts):
            # No file is another, and yet the agent did something that can be gone back over: a commit.
            made = self.thread.patch({}, reason=why, actor=agent, meta=said, on_conflict="merge")
        if made is not None:
            self.shells = 0
        return self._kept(made, facts)

    def watch(self) -> bool:
        """Have the system tell of changes; whether it can."""
        return self.workspace.watch()

    def fileno(self) -> int | None:
        """What becomes readable when something in the directory changes."""
        watcher = self.workspace.directory.watcher
        return watcher.fileno() if isinstance(watcher, Watch) else None

    def changed(self) -> tuple[Changed, bytes | None]:
        """What may have changed since the manifest that this goes on from."""
        directory = self.workspace.directory
        if directory.watcher is None or directory.settled_at is None:
            return Changed(everything="nobody watches"), None
        return directory.watcher.changed(), directory.settled_at

    def taken_back(self, since: int) -> str | None:
        """What people took back after a version, in plain words for an agent."""
        back = [c for c in self._versions_since(since) if c.kind in BACK]
        if not back or back[-1].before is None:
            return None
        # What it did since it was told last, and before the first of these, is lost too.
        told = self.thread.taken_back_since(back[-1].before)
        files = self._files_of(back)
        if told is None:
            return None
        own = [c for c in told.versions if c.kind != "capture"]
        who = " and ".join(dict.fromkeys(c.actor or "the user" for c in told.operations))
        reasons = "; ".join(dict.fromkeys(c.reason for c in told.operations if c.reason))
        steps = [c.step or c.reason or f"version {c.version}" for c in own]
        return _sentence(f"The user ({who})", steps, reasons, files)

    def commit(self, reason: str | None, actor: str | None, meta: dict[str, Any]) -> Checkpoint:
        """A version of the files as they are, which undo takes back as one."""
        facts = self.repository.now()
        said = meta | self.repository.meta(facts)
        self.thread.refresh()
        made = self.thread.commit(
            self.thread.state, reason=reason, actor=actor, meta=said, on_conflict="merge"
        )
        self._facts = facts
        return made

    def describe(self) -> dict[str, Any]:
        """The thread, and the workspace as it is now."""
        self.thread.refresh()
        statuses = [self.workspace.status().as_dict()]
        return {"thread": self.thread.name, "version": self.thread.version, "workspaces": statuses}

    def collect(self, grace: int, progress: Callable[[str, int], None]) -> int:
        """Remove from the store what nothing needs; how many objects that was."""
        return self.repo.gc(grace=grace, progress=progress).removed

    def close(self) -> None:
        self.repo.close()

    # --- inside

    def _attached(self) -> tuple[Thread[Any], Workspace] | None:
        """The thread that was written to last, of those that have this directory."""
        for info in sorted(self.repo.threads(), key=lambda info: info.updated_us, reverse=True):
            thread = self.repo.thread(info.name)
            for workspace in thread.workspaces():
                if workspace.path == self.root:
                    return thread, self._whole(thread, workspace)
        return None

    def _attach(self) -> tuple[Thread[Any], Workspace]:
        thread: Thread[Any] = self.repo.thread(places.thread_name(self.root))
        if not thread.exists:
            # The first version already knows where git's branches stand.
            meta = Repository(thread._ctx, self.root).meta()
            thread.commit({}, reason="takeback begins here", meta=meta)
        return thread, thread.workspace(self.root, watch=False)

    def _whole(self, thread: Thread[Any], workspace: Workspace) -> Workspace:
        """The workspace; a directory that was made anew in the old one's place is attached in its place."""
        try:
            with workspace.directory.opened():
                return workspace
        except WorkspaceMissing:
            return thread.workspace(self.root, workspace.name, watch=False)

    def _kept(self, made: Checkpoint | None, facts: Any) -> Checkpoint | None:
        if made is not None or self._facts is None:
            self._facts = facts
        return made

    def _versions_since(self, since: int) -> list[Checkpoint]:
        """Newest first."""
        found = []
        for c in self.thread.refresh().history():
            if c.version <= since:
                break
            found.append(c)
        return found

    def _files_of(self, back: list[Checkpoint]) -> list[str]:
        """What stands otherwise now because of these operations."""
        found: dict[str, None] = {}
        for c in reversed(back):
            if c.before is not None and c.files != self.thread.at(c.before).checkpoint.files:
                found |= dict.fromkeys(change.name for change in self.thread.diff_files(c.before, c))
        return list(found)


def _moved(before: Any, after: Any) -> bool:
    """Whether HEAD or a branch is elsewhere; the index alone is nothing that an agent did on purpose."""
    return before is not None and after is not None and (before.head, before.refs) != (after.head, after.refs)


def _sentence(who: str, steps: list[str], reasons: str, files: list[str]) -> str:
    said = f"{who} took back what you did, with takeback"
    if steps:
        said += ": " + "; ".join(steps[:5]) + (f"; and {len(steps) - 5} more steps" if len(steps) > 5 else "")
    said += f". Their reason: {reasons}." if reasons else "."
    if files:
        more = f" and {len(files) - _MANY} more" if len(files) > _MANY else ""
        said += f" These files are no longer as you left them: {', '.join(files[:_MANY])}{more}."
        said += " Read them again before you change them, and do not repeat what was taken back unless asked."
    return said
