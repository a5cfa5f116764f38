"""Ids: who makes them, what they look like, and how each is told from the others.

A checkpoint's id says its version, `c12-4k9x…`, so that it needs no index and reads well; the random
part is made by the client, so that a writer who lost its connection can ask for its own commit. A
bookmark is the same with a `b`: it names what stood before an operation.
"""

from __future__ import annotations

import os
import re
from base64 import b32encode
from typing import NewType

CheckpointId = NewType("CheckpointId", str)
Bookmark = NewType("Bookmark", str)
ThreadUid = NewType("ThreadUid", bytes)
"""Sixteen random bytes made with the thread: new when a name is created again, kept by copies and exports."""

CHECKPOINT = re.compile(r"c(\d+)-([a-z2-7]{13})")
BOOKMARK = re.compile(r"b(\d+)-([a-z2-7]{13})")
CHECKPOINT_PREFIX = re.compile(r"c(\d+)(?:-([a-z2-7]{0,13}))?")


def checkpoint_id(version: int) -> CheckpointId:
    return CheckpointId(f"c{version}-{b32encode(os.urandom(8))[:13].decode().lower()}")


def bookmark(checkpoint: CheckpointId) -> Bookmark:
    """The bookmark of what stood before an operation: that checkpoint."""
    return Bookmark("b" + checkpoint[1:])


def bookmarked(mark: Bookmark) -> CheckpointId:
    return CheckpointId("c" + mark[1:])


def thread_uid() -> ThreadUid:
    return ThreadUid(os.urandom(16))


def thread_name() -> str:
    """A good name for a thread that was given none."""
    return "t-" + b32encode(os.urandom(10)).decode().lower()


def shown(uid: bytes) -> str:
    """A digest or uid as people see it: 43 or 22 characters of base64url."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(uid).rstrip(b"=").decode()
