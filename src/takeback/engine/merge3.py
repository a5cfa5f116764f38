"""The three-way merge of values: what both sides changed since a common base, or where they clash.

`theirs` was committed first and `ours` comes after it, which matters only for the order of appends.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from takeback.engine.changes import MISSING, hunks, named, shown
from takeback.model.canonical import equal, pack
from takeback.model.paths import Path, pointer


class MergeClash(msgspec.Struct, frozen=True):
    """A place at which both sides changed, and both cannot hold. A side is MISSING where nothing stands."""

    path: Path
    base: Any
    ours: Any
    theirs: Any

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints; a side that is missing is left out."""
        sides = {"base": self.base, "ours": self.ours, "theirs": self.theirs}
        return {"path": pointer(self.path)} | {
            name: side for name, side in sides.items() if side is not MISSING
        }

    def __str__(self) -> str:
        return (
            f"{named(self.path)}: ours {shown(self.ours)}, theirs {shown(self.theirs)}, "
            f"base {shown(self.base)}"
        )


Merged: TypeAlias = "tuple[Any, list[MergeClash]]"


def merge_values(base: Any, ours: Any, theirs: Any, at: Path = ()) -> Merged:
    """The merged value and the clashes in it; at a clash the value is that of `theirs`."""
    if _same(base, ours):
        return theirs, []
    if _same(base, theirs):
        return ours, []
    # Before equal sides are taken for one: they may have appended the same, which is two appends.
    if isinstance(base, list) and isinstance(ours, list) and isinstance(theirs, list):
        return _merge_lists(base, ours, theirs, at)
    if isinstance(ours, dict) and isinstance(theirs, dict) and (base is MISSING or isinstance(base, dict)):
        return _merge_dicts({} if base is MISSING else base, ours, theirs, at)
    if _same(ours, theirs):
        return theirs, []
    return theirs, [MergeClash(at, base, ours, theirs)]


def _same(a: Any, b: Any) -> bool:
    if a is MISSING or b is MISSING:
        return a is b
    return equal(a, b)


def _merge_dicts(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], at: Path) -> Merged:
    merged: dict[str, Any] = {}
    clashes: list[MergeClash] = []
    for key in sorted(base.keys() | ours.keys() | theirs.keys()):
        was, left, right = (side.get(key, MISSING) for side in (base, ours, theirs))
        value, found = merge_values(was, left, right, (*at, key))
        clashes += found
        if value is not MISSING:
            merged[key] = value
    return merged, clashes


# --- lists --------------------------------------------------------------------------------------------


class _Block(msgspec.Struct, frozen=True):
    """Items that stand where `[start:stop]` of the base stood; which came from which is unknown."""

    start: int
    stop: int
    items: list[Any]


class _Side(msgspec.Struct):
    """What one side did to the base list, by positions of the base.

    A hunk of as many items as before is that many items edited in place. One of none is a removal, item by
    item. One of another number of items stays whole, and so do its edges: whether an item next to it goes
    before or after cannot be told.
    """

    inserted: dict[int, _Block] = {}  # before which item
    edited: dict[int, Any] = {}  # the item now, MISSING when it was removed
    replaced: dict[int, _Block] = {}  # every position of a block
    closed: set[int] = set()  # places at which the other side cannot insert


def _merge_lists(base: list[Any], ours: list[Any], theirs: list[Any], at: Path) -> Merged:
    left, right = _side(base, ours), _side(base, theirs)
    if _overlap(left, right, len(base)):
        return theirs, [MergeClash(at, base, ours, theirs)]
    merged: list[Any] = []
    clashes: list[MergeClash] = []
    for place in range(len(base) + 1):
        merged += _insertions(left, right, place, end=place == len(base))
        if place == len(base):
            break
        block = left.replaced.get(place) or right.replaced.get(place)
        if block is not None:
            merged += block.items if block.start == place else []
            continue
        value, found = _merge_item(base[place], left, right, place, at)
        merged += [] if value is MISSING else [value]
        clashes += found
    return merged, clashes


def _insertions(left: _Side, right: _Side, place: int, *, end: bool) -> list[Any]:
    """What stands before an item of the base; at the end of the list, what both sides appended."""
    ours = left.inserted[place].items if place in left.inserted else []
    theirs = right.inserted[place].items if place in right.inserted else []
    return theirs + ours if end else theirs or ours


def _merge_item(old: Any, left: _Side, right: _Side, place: int, at: Path) -> Merged:
    return merge_values(old, left.edited.get(place, old), right.edited.get(place, old), at=(*at, place))


def _side(base: list[Any], changed: list[Any]) -> _Side:
    side = _Side()
    found = hunks([pack(item) for item in base], [pack(item) for item in changed])
    for start, stop, new_start, new_stop in found:
        items, count = changed[new_start:new_stop], stop - start
        if not count:
            side.inserted[start] = _Block(start, stop, items)
        elif len(items) == count:
            side.edited.update(zip(range(start, stop), items, strict=True))
        elif not items:
            side.edited.update(dict.fromkeys(range(start, stop), MISSING))
            side.closed.update(range(start + 1, stop))
        else:
            side.replaced.update(dict.fromkeys(range(start, stop), _Block(start, stop, items)))
            side.closed.update(range(start, stop + 1))
    return side


def _overlap(left: _Side, right: _Side, end: int) -> bool:
    """Whether the sides changed one place in ways that have no single result."""
    return (
        not left.closed.isdisjoint(right.inserted)
        or not right.closed.isdisjoint(left.inserted)
        or any(place != end and not _alike(left.inserted, right.inserted, place) for place in left.inserted)
        or any(not _alike(left.replaced, right.replaced, place) for place in left.replaced)
        or not left.replaced.keys().isdisjoint(right.edited)
        or not right.replaced.keys().isdisjoint(left.edited)
        or any(_removed_and_edited(left, right, place) for place in left.edited.keys() & right.edited.keys())
    )


def _alike(ours: dict[int, _Block], theirs: dict[int, _Block], place: int) -> bool:
    """Whether only one side has a block there, or both have the same."""
    if place not in theirs:
        return True
    a, b = ours[place], theirs[place]
    return (a.start, a.stop) == (b.start, b.stop) and equal(a.items, b.items)


def _removed_and_edited(left: _Side, right: _Side, place: int) -> bool:
    return (left.edited[place] is MISSING) != (right.edited[place] is MISSING)
