"""What a thread's history rests on: the objects below each checkpoint, and those that its ledger names."""

from __future__ import annotations

from collections.abc import Iterable

from takeback.model import ledger
from takeback.model.ledger import ApprovalCell, Effect
from takeback.model.manifest import nodes as manifest
from takeback.model.records import Checkpoint
from takeback.model.tree.walk import references
from takeback.storage.base import Cell


def below(payload: bytes) -> list[bytes]:
    """The digests that an object names."""
    return manifest.references(payload) if manifest.owns(payload) else references(payload)


GIT, _DIGEST = "takeback.git", 32
"""Where a version's metadata has the digest of what a git repository said."""


def roots(checkpoint: Checkpoint) -> list[bytes]:
    """The state, what its step closed with, and the files."""
    return [*state(checkpoint), *files(checkpoint)]


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
        found += [blob.digest for blob in blobs if blob is not None and blob.digest]
    return found
