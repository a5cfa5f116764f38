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


def roots(checkpoint: Checkpoint) -> list[bytes]:
    """The state, what its step closed with, and the files."""
    uses = [checkpoint.uses] if checkpoint.uses else []
    return [checkpoint.state_root, *uses, *(files.manifest for files in checkpoint.files)]


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
