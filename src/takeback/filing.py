"""What a thread can do with files: attach directories, capture them, and look at what they were."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

from takeback.engine import commit as commits
from takeback.engine import history
from takeback.engine.commit import Draft, Said, metadata
from takeback.engine.context import Tip
from takeback.errors import BadRequest, Conflict, UnknownFile
from takeback.handle import Handle
from takeback.model.records import Checkpoint
from takeback.plan import Meta

if TYPE_CHECKING:
    from takeback.attached import Attached, Seen
    from takeback.engine.file_words import FileChange
    from takeback.files import Files, FilesDiff, Workspace

S = TypeVar("S")


class Filing(Handle[S]):
    """The verbs about files."""

    def workspace(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        shared: bool = False,
        force: bool = False,
        ignore: Sequence[str] = (),
        gitignore: bool = True,
        secrets: bool = True,
        max_file: int | None = None,
        watch: bool = True,
    ) -> Workspace:
        """Checkpoint a directory's files with the thread, from now on; what it holds now is captured first.

        What .gitignore, .takebackignore and `ignore` name is left out, and so are secrets (`secrets=False`
        takes them in) and files above `max_file` bytes. `shared` lets other threads use the directory too;
        `force` allows the root and the home directory. With `watch`, the system tells of changes as long as
        this process lives; without, each capture looks at every path.
        """
        from takeback import files
        from takeback.workspace.ignore import MAX_FILE, Rules

        rules = Rules(gitignore, secrets, MAX_FILE if max_file is None else max_file, list(ignore)).checked()
        tip = self._born()
        attached = files.attach(self._ctx, tip, path, name, rules, shared=shared, force=force)
        self._files = None
        found = files.Workspace(self, attached.name)
        self.capture("workspace attached", workspace=attached.name)
        if watch:
            found.watch()
        return found

    def workspaces(self) -> list[Workspace]:
        """The directories that are attached, also those on other machines."""
        from takeback.files import Workspace

        return [Workspace(self, cell.name) for cell in self._attached().cells()]

    def capture(
        self,
        reason: str | None = None,
        *,
        paths: Collection[str | bytes] | None = None,
        workspace: str | None = None,
        step: str | None = None,
        audit: bool = False,
        actor: str | None = None,
        meta: Meta = None,
    ) -> Checkpoint | None:
        """A version with the files as they are now; None if nothing has changed.

        What is found changed counts as somebody else's, which a rollback keeps; with `step`, a label, it is
        the agent's, and an operation that undo takes back. `paths` looks at these alone; an `audit` looks at
        everything, also where a watch says that nothing changed.
        """
        named = None if paths is None else frozenset(map(os.fsencode, paths))
        said = Said(reason=reason, actor=actor, step=step, meta=metadata(meta))
        kind = "capture" if step is None else "step"
        return self._captured(said, kind, named=named, only=workspace, audit=audit)

    def files(self, ref: object = "head", *, workspace: str | None = None) -> Files:
        """The files that a checkpoint holds: a mapping from paths to what stands there."""
        from takeback.files import Files

        checkpoint = history.resolve(self._ctx, self._need(), ref)
        return Files(self._ctx, checkpoint, self._one_name(checkpoint, workspace))

    def read_file(self, ref: object, path: str | bytes, *, workspace: str | None = None) -> bytes:
        """The contents of a file as a checkpoint holds it."""
        return self.files(ref, workspace=workspace).read(path)

    def diff_files(
        self, before: object, after: object = "head", *, workspace: str | None = None
    ) -> FilesDiff:
        """What leads from one checkpoint's files to another's: names, line counts, text."""
        from takeback.files import FilesDiff

        tip = self._need()
        one, two = history.resolve(self._ctx, tip, before), history.resolve(self._ctx, tip, after)
        return FilesDiff(self._ctx, one, two, self._one_name(two, workspace, one))

    def changed_files(self, *, workspace: str | None = None) -> list[FileChange]:
        """What differs on the disk from the head; nothing is recorded."""
        from takeback.files import changed

        if not self._need().head.files:
            return []
        with self._attached().seen(self._need(), only=workspace, store=False) as seen:
            return changed(self._ctx, seen)

    # --- inside

    _files: Attached | None = None

    def _attached(self) -> Attached:
        if self._files is None:
            from takeback.attached import Attached

            self._files = Attached(self._ctx, self._need().info)
        return self._files

    def _one_name(self, checkpoint: Checkpoint, said: str | None, other: Checkpoint | None = None) -> str:
        names = {root.workspace for each in (checkpoint, other) if each is not None for root in each.files}
        if said is None and len(names) == 1:
            return names.pop()
        if said in names:
            return str(said)
        if not names:
            raise UnknownFile(
                "the checkpoint holds no files",
                thread=self.name,
                checkpoint=checkpoint.version,
                hint="thread.workspace(path) attaches a directory",
            )
        listed = ", ".join(sorted(names))
        raise BadRequest(f"say which workspace: {listed}", thread=self.name, checkpoint=checkpoint.version)

    def _looked(self) -> AbstractContextManager[Seen | None]:
        """What the workspaces hold now, for a version that is about to be made."""
        if self._tip is None or not self._tip.head.files:
            return nullcontext(None)
        return self._attached().seen(self._tip)

    def _captured(
        self,
        said: Said,
        kind: str,
        *,
        named: frozenset[bytes] | None = None,
        only: str | None = None,
        audit: bool = False,
    ) -> Checkpoint | None:
        """A version of the files alone, on whatever head there is; None where they are as they were."""
        while True:
            tip = self._need()
            with self._attached().seen(tip, named=named, only=only, audit=audit) as seen:
                if not seen.changed:
                    seen.settle()
                    return None
                draft = seen.on(tip, Draft(kind, tip.head.state_root, said))
                with contextlib.suppress(Conflict):  # somebody committed meanwhile: on the new head, then
                    self._tip = commits.publish(self._ctx, tip, draft)
                    seen.settle()
                    return self._tip.head
            self.refresh()

    def _capture_foreign(self) -> Tip:
        """What changed since the last version, recorded before a step begins: it is not the step's."""
        self._captured(Said(reason="changed outside of steps"), "capture")
        return self._need()

    def _capture_failed(self, label: str, error: BaseException) -> None:
        """What a step that failed left in the files is its own: recorded as that, so that going back takes it
        back and keeps what others change from now on."""
        try:
            self.refresh()
            self._captured(Said(step=label, reason=f"the step failed: {type(error).__name__}"), "capture")
        except Exception as refused:  # the step's own error is the one to see; this one goes with it
            error.add_note(f"takeback: the step's files were not captured: {refused}")

    def _born(self) -> Tip:
        """A thread that acts before it has a version comes into being with an empty state."""
        return self._need()
