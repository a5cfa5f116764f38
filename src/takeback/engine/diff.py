"""The difference of two checkpoints: found by walking only what their trees do not share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeback.engine.changes import MISSING, Change, as_json_patch, as_text, diff_items, diff_values, summary
from takeback.engine.context import Context
from takeback.model.records import Checkpoint
from takeback.model.tree.nodes import Getter
from takeback.model.tree.walk import MISSING as ABSENT
from takeback.model.tree.walk import Region, differing


class Diff:
    """What leads from one checkpoint's state to another's; made when it is first looked at."""

    def __init__(self, ctx: Context, before: Checkpoint, after: Checkpoint) -> None:
        self._ctx, self.before, self.after = ctx, before, after
        self._changes: list[Change] | None = None

    @property
    def changes(self) -> list[Change]:
        if self._changes is None:
            self._changes = changes_between(self._ctx, self.before.state_root, self.after.state_root)
        return self._changes

    def as_json_patch(self) -> list[dict[str, Any]]:
        """RFC 6902."""
        return as_json_patch(self.changes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "before": self.before.version,
            "after": self.after.version,
            "changes": [change.as_dict() for change in self.changes],
        }

    def lines(self, limit: int | None = None) -> list[str]:
        return as_text(self.changes, limit)

    def summary(self, limit: int = 4) -> str:
        return summary(self.changes, limit)

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    def __bool__(self) -> bool:
        return self.before.state_root != self.after.state_root

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "no difference"

    def __repr__(self) -> str:
        return f"<Diff {self.before.thread!r} {self.before.version} → {self.after.version}>"


def changes_between(source: Getter, before: bytes, after: bytes) -> list[Change]:
    """The changes from one state root to another."""
    if before == after:
        return []
    found: list[Change] = []
    for region in differing(source.get(before), source.get(after), source):
        found += _changes(region)
    return found


def _changes(region: Region) -> list[Change]:
    if region.offset is not None:
        return diff_items(region.before, region.after, region.path, region.offset)
    if region.before is ABSENT:
        return [Change("add", region.path, MISSING, region.after)]
    if region.after is ABSENT:
        return [Change("remove", region.path, region.before, MISSING)]
    return diff_values(region.before, region.after, region.path)
