"""Ids: who makes them, what they look like, and how each is told from the others.

A checkpoint's id says its version, `c12-4f9a…`, so that it needs no index and reads well; the random
part is made by the client, so that a writer who lost its connection can ask for its own commit. A
bookmark is the same with a `b`: it names what stood before an operation.
"""

from __future__ import annotations

import os
import re
from typing import NewType

CheckpointId = NewType("CheckpointId", str)
Bookmark = NewType("Bookmark", str)
ThreadUid = NewType("ThreadUid", bytes)
"""Sixteen random bytes made with the thread: new when a name is created again, kept by copies and exports."""

CHECKPOINT = re.compile(r"c(\d+)-([0-9a-f]{12})")
BOOKMARK = re.compile(r"b(\d+)-([0-9a-f]{12})")
CHECKPOINT_PREFIX = re.compile(r"c(\d+)(?:-([0-9a-f]{0,12}))?")


def checkpoint_id(version: int) -> CheckpointId:
    return whole_id(version, os.urandom(6))


def whole_id(version: int, random: bytes) -> CheckpointId:
    """An id from its version and its random part, which is all that a record has to hold."""
    return CheckpointId(f"c{version}-{random.hex()}")


def random_part(checkpoint: str) -> bytes:
    return bytes.fromhex(checkpoint.partition("-")[2])


def bookmark(checkpoint: CheckpointId) -> Bookmark:
    """The bookmark of what stood before an operation: that checkpoint."""
    return Bookmark("b" + checkpoint[1:])


def bookmarked(mark: Bookmark) -> CheckpointId:
    return CheckpointId("c" + mark[1:])


def thread_uid() -> ThreadUid:
    return ThreadUid(os.urandom(16))


def thread_name() -> str:
    """A good name for a thread that was given none."""
    return "t-" + os.urandom(8).hex()


def shown(uid: bytes) -> str:
    """A digest or uid as people see it: 43 or 22 characters of base64url."""
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(uid).rstrip(b"=").decode()
