"""What a plan does to memory: which items will show other versions, once a head stands elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from blake3 import blake3

from takeback.engine import items
from takeback.engine.book import Book, Lineage
from takeback.engine.changes import MISSING, Change, as_text, diff_values
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.items import Version, Write
from takeback.engine.rollback import Move
from takeback.model.items import shown, split
from takeback.model.records import Checkpoint, Pointer
from takeback.storage.base import Row
from takeback.storage.items import ItemRow, PutItems, Seen, TurnItems, VersionsBy


class Turned(msgspec.Struct, frozen=True):
    """An item over whose versions a history goes: what shows of it before and after."""

    seen: Seen
    before: Version | None
    after: Version | None
    lost: int | None = None  # the newest of its versions that go
    again: bool = False  # what is to show after would not by itself, and is written anew

    @property
    def changes(self) -> bool:
        return _number(self.before) != _number(self.after)


class MemoryPart:
    """What a plan does to memory; `goal` is the checkpoint as of which it is to show, where that is not the
    one that the history goes back to."""

    name = "memory"

    def __init__(
        self, ctx: Context, turned: list[Turned], notes: list[str] | None = None, goal: Pointer | None = None
    ) -> None:
        self._ctx, self.turned, self.notes, self.goal = ctx, turned, notes or [], goal
        self._changes: list[Change] | None = None

    @property
    def changes(self) -> list[Change]:
        """Of what shows; found when first looked at. A path is a namespace, a key, and a place in a value."""
        if self._changes is None:
            self._changes = [one for each in self.turned for one in _changes(self._ctx, each)]
        return self._changes

    @property
    def kept(self) -> bool:
        """Whether something goes on to show that would not by itself."""
        return any(each.again and not each.changes for each in self.turned)

    @property
    def covered(self) -> list[Turned]:
        """Items of which versions go, and that go on to show what was written over these."""
        return [
            each
            for each in self.turned
            if not (each.changes or each.again or each.lost is None) and each.before
        ]

    @property
    def digest(self) -> bytes:
        """Of what was seen: if it is another when it is applied, something moved."""
        said = [[each.seen, _number(each.before), _number(each.after), each.again] for each in self.turned]
        return blake3(msgspec.msgpack.encode(said)).digest() if self.turned else b""

    def summary(self, limit: int = 4) -> str:
        lines = self.lines()
        more = f" · and {len(lines) - limit} more" if len(lines) > limit else ""
        return " · ".join(lines[:limit]) + more

    def lines(self, limit: int | None = None) -> list[str]:
        said = [f"memory {line}" for line in as_text(self.changes)]
        for each in self.covered:
            assert each.before is not None
            named, number = shown(each.seen.namespace, each.seen.key), each.before.row.number
            why = f"it was written over version {each.lost}, which is taken back"
            said.append(f"memory {named}: version {number} stays; {why}")
        if self.kept:
            said.append("memory stays as it is")
        return [*said, *self.notes][:limit]

    def as_dict(self) -> dict[str, Any]:
        return {
            "part": self.name,
            "changes": [change.as_dict() for change in self.changes],
            "covered": [[*split(each.seen.namespace), each.seen.key] for each in self.covered],
            "kept": self.kept,
            "notes": self.notes,
        }

    def rows(self, checkpoint: Checkpoint) -> list[Row]:
        """What is written with the checkpoint that goes there."""
        if not self.turned:
            return []
        turn = TurnItems([each.seen for each in self.turned])
        again = [_again(each) for each in self.turned if each.again]
        put = PutItems([items.version_of(self._ctx, write, checkpoint) for write in again])
        return [turn, put] if again else [turn]


def memory_of(ctx: Context, book: Book, tip: Tip, move: Move, goal: Pointer | None = None) -> MemoryPart:
    """What a move does to memory: a merge does nothing to it, a revert takes back state alone."""
    if move.kind == "revert":
        rows = ctx.storage.find(
            ctx.tenant, VersionsBy(tip.info.uid, move.target.version, move.target.version)
        )
        return MemoryPart(ctx, [], [_stays(row) for row in rows])
    owned = items.owned(book, tip.info.uid)
    if move.kind == "merge" or move.draft.origin is None or not _any(ctx, owned):
        return MemoryPart(ctx, [], goal=goal)
    natural = book.lineage(move.draft.origin)
    ahead = {(tip.info.uid, move.head.line): move.head.version + 1}  # what shows before it has its version
    had = book.lineage(pointer(move.head)) | ahead
    wanted = natural if goal is None else had if goal == pointer(move.head) else book.lineage(goal)
    lost: dict[items.Name, int] = {}
    names: dict[items.Name, None] = {}
    for has in (natural, wanted):
        for row in _between(ctx, owned, had, has):
            name = (row.namespace, row.key)
            names[name] = None
            if has is wanted and items.holds(had, row):
                lost[name] = max(lost.get(name, 0), row.number)
    sight = _Sight(ctx, owned, natural, wanted)
    return MemoryPart(ctx, [sight.of(name, lost.get(name)) for name in sorted(names)], goal=goal)


def forgotten(ctx: Context, book: Book, tip: Tip, had: Lineage, has: Lineage) -> list[str]:
    """The items of which versions went between two histories, by name."""
    owned = items.owned(book, tip.info.uid)
    rows = _between(ctx, owned, had, has) if _any(ctx, owned) else ()
    return sorted({shown(row.namespace, row.key) for row in rows if items.holds(had, row)})


def _any(ctx: Context, owned: list[bytes]) -> bool:
    return any(ctx.storage.find(ctx.tenant, VersionsBy(uid, limit=1)) for uid in owned)


def _between(ctx: Context, owned: list[bytes], had: Lineage, has: Lineage) -> Iterator[ItemRow]:
    """The versions that one of two histories holds and the other does not."""
    for uid, line in {*had, *has}:
        low, high = sorted((had.get((uid, line), line - 1), has.get((uid, line), line - 1)))
        if uid in owned and low < high:
            rows = ctx.storage.find(ctx.tenant, VersionsBy(uid, low + 1, high))
            yield from (row for row in rows if row.line == line and not row.free)


class _Sight:
    """What shows of items, where the head goes and as of where memory is to be."""

    def __init__(self, ctx: Context, owned: list[bytes], natural: Lineage, wanted: Lineage) -> None:
        self._ctx, self._owned, self._natural, self._wanted = ctx, owned, natural, wanted

    def of(self, name: items.Name, lost: int | None) -> Turned:
        versions = items.versions(self._ctx, name)
        before = next((each for each in versions if items.held(self._ctx, each.row)), None)
        after, natural = self._first(versions, self._wanted), self._first(versions, self._natural)
        return Turned(
            versions[0].row.seen, _live(self._ctx, before), _live(self._ctx, after), lost,
            again=_number(_live(self._ctx, after)) != _number(_live(self._ctx, natural)),
        )  # fmt: skip

    def _first(self, versions: list[Version], lineage: Lineage) -> Version | None:
        return next((each for each in versions if self._will(each.row, lineage)), None)

    def _will(self, row: ItemRow, lineage: Lineage) -> bool:
        if row.free or row.thread not in self._owned:
            return items.held(self._ctx, row)
        return row.head is not None and items.holds(lineage, row)


def _live(ctx: Context, found: Version | None) -> Version | None:
    return None if found is None else items.live(ctx, found)


def _changes(ctx: Context, turned: Turned) -> list[Change]:
    path = (*split(turned.seen.namespace), turned.seen.key)
    before, after = (
        MISSING if version is None else items.value(ctx, version.record)
        for version in (turned.before, turned.after)
    )
    if not turned.changes:
        return []
    if before is MISSING:
        return [Change("add", path, before, after)]
    if after is MISSING:
        return [Change("remove", path, before, after)]
    return list(diff_values(before, after, path))


def _again(turned: Turned) -> Write:
    """What is to show of an item, written anew."""
    name, after = (turned.seen.namespace, turned.seen.key), turned.after
    if after is None:
        return Write(*name, kind="delete")
    return items.anew(after)


def _number(version: Version | None) -> int | None:
    return None if version is None else version.row.number


def _stays(row: ItemRow) -> str:
    return f"memory {shown(row.namespace, row.key)} stays: a revert takes back state alone"
