"""What a copy from one store to another came to: of each thread, and of all."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.errors import TakebackError
from takeback.model.ids import shown


class CopiedThread(msgspec.Struct):
    """What became of one thread: copied (it is new there), grown, same, ahead (there), or refused."""

    thread: str
    uid: bytes
    outcome: str
    versions: int = 0
    added: int = 0
    problem: TakebackError | None = None
    notes: list[str] = []

    def as_dict(self) -> dict[str, Any]:
        found = {
            "thread": self.thread, "uid": shown(self.uid), "outcome": self.outcome, "versions": self.versions,
            "added": self.added, "notes": self.notes,
        }  # fmt: skip
        return found if self.problem is None else found | {"error": self.problem.as_dict()}


class CopyReport(msgspec.Struct):
    """What a copy wrote, thread by thread, and what could not be copied."""

    source: str
    destination: str
    threads: list[CopiedThread] = []
    checkpoints: int = 0
    objects: int = 0
    bytes: int = 0
    cells: int = 0
    audit: int = 0
    items: int = 0
    notes: list[str] = []

    @property
    def refused(self) -> list[CopiedThread]:
        """The threads that could not be copied, each with its problem."""
        return [each for each in self.threads if each.outcome == "refused"]

    @property
    def ok(self) -> bool:
        """Whether nothing was refused."""
        return not self.refused

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source, "destination": self.destination, "ok": self.ok,
            "checkpoints": self.checkpoints, "objects": self.objects, "bytes": self.bytes,
            "cells": self.cells, "audit": self.audit, "items": self.items, "notes": self.notes,
            "threads": [each.as_dict() for each in self.threads],
        }  # fmt: skip

    def __str__(self) -> str:
        found = [f"{each.thread}: {each.outcome} ({each.versions:,} versions)" for each in self.threads]
        return "\n".join(found) or "no threads"
