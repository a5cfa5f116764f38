"""What was taken back since an agent's last version, in plain words for its next turn."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.engine import history
from takeback.engine.book import Book, Lineage, believed
from takeback.engine.changes import Change, summary
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.diff import changes_between
from takeback.engine.forgetting import forgotten
from takeback.model.ledger import Effect
from takeback.model.records import Checkpoint

BACK = frozenset({"rollback", "undo", "redo", "revert"})
"""Kinds of versions that a person makes to take something back, or to bring it again."""


class TakenBack(msgspec.Struct, frozen=True):
    """What changed behind an agent's back. `str()` is a sentence for the agent."""

    since: Checkpoint
    operations: list[Checkpoint]
    versions: list[Checkpoint]
    changes: list[Change]
    undone: list[Effect] = []
    standing: list[Effect] = []
    notes: list[str] = []

    def lines(self) -> list[str]:
        """A line each: what was taken back, what that changed, what became of effects."""
        said = [f"{self._who()} took back {_named(self.versions)}{self._why()}"] if self.versions else []
        if not said:
            target = self.operations[-1]
            said = [f"{self._who()} moved the thread to another version ({target.kind}){self._why()}"]
        if self.changes:
            said.append(f"this changed {summary(self.changes)}")
        said += [f"#{e.number} ({e.shown}) was undone" for e in self.undone]
        said += [f"#{e.number} ({e.shown}) still stands" for e in self.standing]
        return [*said, *self.notes]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "since": self.since.version,
            "operations": [each.version for each in self.operations],
            "versions": [each.version for each in self.versions],
            "changes": [change.as_dict() for change in self.changes],
            "undone": [effect.number for effect in self.undone],
            "standing": [effect.number for effect in self.standing],
            "notes": self.notes,
            "text": str(self),
        }

    def __str__(self) -> str:
        return "; ".join(self.lines())

    def _who(self) -> str:
        return " and ".join(dict.fromkeys(each.actor or "the user" for each in self.operations))

    def _why(self) -> str:
        reasons = dict.fromkeys(each.reason for each in self.operations if each.reason)
        return f" ({'; '.join(reasons)})" if reasons else ""


def taken_back(ctx: Context, book: Book, tip: Tip, since: Checkpoint | None) -> TakenBack | None:
    """What was taken back after this version, or after the newest that made something; None for nothing."""
    since = since or _last_made(ctx, tip)
    if since is None or since.version >= tip.head.version:
        return None
    rows = history.walk(ctx, tip, newest_first=True)
    after = [row for row in _until(rows, since.version) if row.kind in BACK][::-1]
    if not after:
        return None
    had, has = book.lineage(pointer(since)), book.lineage(tip.pointer)
    versions = [*_lost(ctx, tip, had, has), *_reverted(ctx, tip, after, had, has)]
    changes = changes_between(ctx, since.state_root, after[-1].state_root)
    if not versions and not changes:
        return None  # taken back, and brought again
    gone = [e for e in book.effects.values() if believed(e, had) and not believed(e, has)]
    return TakenBack(
        since, after, versions, changes,
        undone=[e for e in gone if e.state == "undone"],
        standing=[e for e in gone if e.may_stand],
        notes=[f"memory {name} was taken back" for name in forgotten(ctx, book, tip, had, has)],
    )  # fmt: skip


def _until(rows: Any, version: int) -> Any:
    for row in rows:
        if row.version <= version:
            return
        yield row


def _last_made(ctx: Context, tip: Tip) -> Checkpoint | None:
    return next((row for row in history.walk(ctx, tip) if row.kind not in BACK), None)


def _lost(ctx: Context, tip: Tip, had: Lineage, has: Lineage) -> list[Checkpoint]:
    """The versions of this thread that the history held, and holds no longer, but for those that only went
    back themselves."""
    found: list[Checkpoint] = []
    for (uid, line), up_to in had.items():
        low = has.get((uid, line), line - 1) + 1
        if uid == tip.info.uid and low <= up_to:
            found += ctx.storage.checkpoints(ctx.tenant, uid, low, up_to)
    return sorted((row for row in found if row.kind not in BACK), key=lambda row: row.version)


def _reverted(
    ctx: Context, tip: Tip, after: list[Checkpoint], had: Lineage, has: Lineage
) -> list[Checkpoint]:
    uid = tip.info.uid
    stand = [row for row in after if row.kind == "revert" and has.get((uid, row.line), -1) >= row.version]
    found = [history.at_version(ctx, tip, row.undoes) for row in stand if row.undoes is not None]
    return [row for row in found if had.get((uid, row.line), -1) >= row.version]


def _named(versions: list[Checkpoint]) -> str:
    numbers = [row.version for row in versions]
    said = list(dict.fromkeys(f'"{text}"' for row in versions if (text := row.step or row.reason)))
    words = f" ({', '.join(said[:3])}{', …' if len(said) > 3 else ''})" if said else ""
    if len(numbers) == 1:
        return f"version {numbers[0]}{words}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"versions {numbers[0]}–{numbers[-1]}{words}"
    return f"versions {', '.join(map(str, numbers))}{words}"
