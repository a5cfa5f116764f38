"""What a thread's history rests on: the objects below each checkpoint, and those that its ledger names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from takeback.engine.context import Context
from takeback.errors import FilesPruned
from takeback.model import ledger
from takeback.model.ledger import ApprovalCell, Effect, PlanCell
from takeback.model.manifest import nodes as manifest
from takeback.model.records import Checkpoint, ThreadInfo, instant
from takeback.model.tree.walk import references
from takeback.storage.base import Cell, FilesGone

_PAGE = 500


def below(payload: bytes) -> list[bytes]:
    """The digests that an object names."""
    return manifest.references(payload) if manifest.owns(payload) else references(payload)


GIT, _DIGEST = "takeback.git", 32
"""Where a version's metadata has the digest of what a git repository said."""


def roots(checkpoint: Checkpoint) -> list[bytes]:
    """The state, what its step closed with, and the files."""
    return [*state(checkpoint), *files(checkpoint)]


def kept(checkpoint: Checkpoint, pruned: Iterable[tuple[int, int, int]]) -> list[bytes]:
    """The roots without the files, where those were given up."""
    gone = any(low <= checkpoint.version <= high for low, high, _ in pruned)
    return state(checkpoint) if gone else roots(checkpoint)


def state(checkpoint: Checkpoint) -> list[bytes]:
    """The state, what its step closed with, and what it says of a git repository."""
    found = [checkpoint.state_root, checkpoint.uses] if checkpoint.uses else [checkpoint.state_root]
    git = checkpoint.meta.get(GIT)
    return [*found, git] if isinstance(git, bytes) and len(git) == _DIGEST else found


def files(checkpoint: Checkpoint) -> list[bytes]:
    """The manifests of its workspaces."""
    return [root.manifest for root in checkpoint.files]


def kept_beside(cells: Iterable[Cell]) -> list[bytes]:
    """Arguments and results that were too long for their cells."""
    found = []
    for cell in cells:
        entry = ledger.decode(cell.kind, cell.body)
        blobs = []
        if isinstance(entry, Effect):
            blobs = [entry.args, entry.result, entry.before, entry.after]
        elif isinstance(entry, ApprovalCell):
            blobs = [entry.args]
        elif isinstance(entry, PlanCell) and entry.live:
            # No checkpoint has what it ends with yet: merged contents, a state that was made for it.
            found += [entry.root, *(root.manifest for root in [*(entry.files or []), *entry.moves])]
        found += [blob.digest for blob in blobs if blob is not None and blob.digest]
    return found


def files_pruned(gone: FilesGone, thread: str | None = None) -> FilesPruned:
    """The error of somebody who needs files that were given up."""
    return FilesPruned(
        f"its files were given up to save space, on {instant(gone.time_us):%Y-%m-%d}",
        thread=thread,
        checkpoint=gone.version,
        hint="Its state can still be restored: scope='state', or --scope state",
    )


def rows(ctx: Context, info: ThreadInfo, low: int = 0) -> Iterator[Checkpoint]:
    """A thread's checkpoints from this version on, a page at a time."""
    for first in range(low, info.head + 1, _PAGE):
        last = min(first + _PAGE - 1, info.head)
        yield from ctx.storage.checkpoints(ctx.tenant, info.uid, first, last)


def objects(ctx: Context, roots: list[bytes], seen: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """All objects that these rest on, those aside that were seen."""
    todo = roots
    while todo:
        fresh = [digest for digest in dict.fromkeys(todo) if digest not in seen]
        seen.update(fresh)
        todo = []
        for digest, payload in zip(fresh, ctx.get_many(fresh), strict=True):
            yield digest, payload
            todo += below(payload)
