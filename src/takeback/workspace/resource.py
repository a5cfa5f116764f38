"""Resources: what can be captured with a checkpoint and put back. A directory is one, and others can be."""

from __future__ import annotations

from typing import Protocol

import msgspec

from takeback.model.manifest.read import Difference
from takeback.model.tree.nodes import Getter, Writer


class Kept(msgspec.Struct, frozen=True):
    """A resource as it was captured: the digest of its manifest, and how it was looked at."""

    root: bytes
    tier: str = ""


class Resource(Protocol):
    """Something outside of the state that goes back with it. What it is captured as is a manifest of files,
    so that every resource is stored, verified, exported and compared in one way."""

    def capture(self, base: bytes | None, store: Writer) -> Kept:
        """What it is now, going on from what it was captured as before. It changes nothing, and gives the
        same root where nothing has changed. Objects go to the store; what cannot be captured is named."""
        ...

    def diff(self, before: bytes, after: bytes, source: Getter) -> list[Difference]:
        """What leads from one capture to another, by path."""
        ...

    def restore(self, before: bytes, after: bytes, source: Getter) -> dict[bytes, str]:
        """Bring it from one capture to another, in such a way that it can be done again after a crash
        anywhere in it. What is not as `before` says is kept: by path, and why."""
        ...
