"""What differs between two values: found, applied, and put into words or JSON Patch."""

from __future__ import annotations

import enum
import reprlib
from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from takeback.engine.patch import Draft
from takeback.errors import BadPatch
from takeback.model.canonical import equal, pack
from takeback.model.paths import Path, pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

# difflib's time grows with the product of the two lengths; above this, lists are first cut at their anchors.
_MATCHABLE = 2_000 * 2_000


class Missing(enum.Enum):
    """The type of `MISSING`: nothing stands there, which None would not say."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "missing"


MISSING: Literal[Missing.MISSING] = Missing.MISSING


class Change(msgspec.Struct, frozen=True):
    """One difference. Positions in `path` are those at the time at which the change is applied."""

    op: str  # "add" | "remove" | "change"
    path: Path
    before: Any = MISSING
    after: Any = MISSING

    @property
    def pointer(self) -> str:
        """The path as a JSON Pointer."""
        return pointer(self.path)

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints; a side that is missing is left out."""
        sides = {"before": self.before, "after": self.after}
        return {"op": self.op, "path": self.pointer} | {
            name: side for name, side in sides.items() if side is not MISSING
        }


# --- finding ------------------------------------------------------------------------------------------


def diff_values(a: Any, b: Any, at: Path = ()) -> list[Change]:
    """The changes that make `b` of `a`, in an order in which they can be applied."""
    if equal(a, b):
        return []
    if isinstance(a, dict) and isinstance(b, dict):
        return [change for key in sorted(a.keys() | b.keys()) for change in _diff_key(a, b, key, at)]
    if isinstance(a, list) and isinstance(b, list):
        return diff_items(a, b, at)
    return [Change("change", at, a, b)]


def diff_items(a: list[Any], b: list[Any], at: Path, offset: int = 0) -> list[Change]:
    """The changes between two runs of items of the list at `at`, both of which start at `offset`."""
    changes: list[Change] = []
    for a_lo, a_hi, b_lo, b_hi in hunks([pack(item) for item in a], [pack(item) for item in b]):
        # What lies before a hunk has its final form once the hunk is applied: positions are those of `b`.
        places = range(offset + b_lo, offset + b_lo + max(a_hi - a_lo, b_hi - b_lo))
        if a_hi - a_lo == b_hi - b_lo:
            for place, old, new in zip(places, a[a_lo:a_hi], b[b_lo:b_hi], strict=True):
                changes += diff_values(old, new, (*at, place))
            continue
        removed = zip(places, a[a_lo:a_hi], strict=False)
        changes += [Change("remove", (*at, place), before=old) for place, old in reversed(list(removed))]
        added = zip(places, b[b_lo:b_hi], strict=False)
        changes += [Change("add", (*at, place), after=new) for place, new in added]
    return changes


def _diff_key(a: dict[str, Any], b: dict[str, Any], key: str, at: Path) -> list[Change]:
    if key not in a:
        return [Change("add", (*at, key), after=b[key])]
    if key not in b:
        return [Change("remove", (*at, key), before=a[key])]
    return diff_values(a[key], b[key], (*at, key))


# --- matching items -----------------------------------------------------------------------------------

# items [a_lo:a_hi] of one list stand where [b_lo:b_hi] of the other do
Hunk: TypeAlias = tuple[int, int, int, int]


def hunks(a: Sequence[bytes], b: Sequence[bytes]) -> list[Hunk]:
    """Where two lists of packed items differ, in order; between two hunks lies at least one equal item."""
    return _trimmed(a, b, anchored=False)


def _trimmed(a: Sequence[bytes], b: Sequence[bytes], *, anchored: bool) -> list[Hunk]:
    """The hunks between the common start and the common end, which most lists that are compared have."""
    shorter = min(len(a), len(b))
    start = _common(zip(a, b, strict=False))
    end = min(_common(zip(reversed(a), reversed(b), strict=False)), shorter - start)
    inner = _matched(a[start : len(a) - end], b[start : len(b) - end], anchored=anchored)
    return [_moved(hunk, start, start) for hunk in inner]


def _common(pairs: Iterable[tuple[bytes, bytes]]) -> int:
    count = 0
    for x, y in pairs:
        if x != y:
            break
        count += 1
    return count


def _matched(a: Sequence[bytes], b: Sequence[bytes], *, anchored: bool) -> list[Hunk]:
    if not a and not b:
        return []
    if not a or not b:
        return [(0, len(a), 0, len(b))]
    if len(a) == len(b) and not _shifted(a, b):
        return list(_unequal_runs(a, b))
    if len(a) * len(b) <= _MATCHABLE:
        steps = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        return [(a_lo, a_hi, b_lo, b_hi) for tag, a_lo, a_hi, b_lo, b_hi in steps if tag != "equal"]
    return [(0, len(a), 0, len(b))] if anchored else _between_anchors(a, b)


def _shifted(a: Sequence[bytes], b: Sequence[bytes]) -> bool:
    """Whether an item of `a` stands at another place in `b`; if none does, items pair up by place."""
    differing = [(x, y) for x, y in zip(a, b, strict=True) if x != y]
    return not {x for x, _ in differing}.isdisjoint(y for _, y in differing)


def _unequal_runs(a: Sequence[bytes], b: Sequence[bytes]) -> Iterator[Hunk]:
    start = None
    for place, (x, y) in enumerate(zip(a, b, strict=True)):
        if x != y and start is None:
            start = place
        elif x == y and start is not None:
            yield (start, place, start, place)
            start = None
    if start is not None:
        yield (start, len(a), start, len(b))


def _between_anchors(a: Sequence[bytes], b: Sequence[bytes]) -> list[Hunk]:
    """Patience diff: items that either side has once, in the same order, cut long lists into short ones."""
    found: list[Hunk] = []
    a_from = b_from = 0
    for a_to, b_to in [*_anchors(a, b), (len(a), len(b))]:
        gap = _trimmed(a[a_from:a_to], b[b_from:b_to], anchored=True)
        found += [_moved(hunk, a_from, b_from) for hunk in gap]
        a_from, b_from = a_to + 1, b_to + 1
    return found


def _anchors(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int]]:
    """The longest run of unique common items that rises in both lists (by patience sorting)."""
    in_a, in_b = Counter(a), Counter(b)
    place_in_b = {item: place for place, item in enumerate(b) if in_b[item] == 1}
    tops: list[int] = []  # the lowest end, in `b`, of a rising run of each length
    ends: list[int] = []  # the index in `pairs` of that end
    pairs: list[tuple[int, int, int]] = []  # place in a, place in b, index of the pair before it in its run
    for a_place, item in enumerate(a):
        if in_a[item] != 1 or item not in place_in_b:
            continue
        b_place = place_in_b[item]
        length = bisect_left(tops, b_place)
        pairs.append((a_place, b_place, ends[length - 1] if length else -1))
        tops[length : length + 1] = [b_place]
        ends[length : length + 1] = [len(pairs) - 1]
    run: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        a_place, b_place, at = pairs[at]
        run.append((a_place, b_place))
    return run[::-1]


def _moved(hunk: Hunk, a_by: int, b_by: int) -> Hunk:
    a_lo, a_hi, b_lo, b_hi = hunk
    return (a_lo + a_by, a_hi + a_by, b_lo + b_by, b_hi + b_by)


# --- applying -----------------------------------------------------------------------------------------


def apply_changes(value: Any, changes: Iterable[Change]) -> Any:
    """The value with the changes made, one after another."""
    draft = Draft(value)
    for change in changes:
        if change.op == "add":
            draft.add(change.path, change.after)
        elif change.op == "remove":
            draft.remove(change.path)
        elif change.op == "change":
            draft.get(change.path)  # only what exists can change; `put` alone would add a key
            draft.put(change.path, change.after)
        else:
            raise BadPatch(f"{change.op!r} is no kind of change", path=change.pointer)
    return draft.value


def as_json_patch(changes: Iterable[Change]) -> list[dict[str, Any]]:
    """The changes as RFC 6902 operations. Bytes and times stay what they are, which JSON cannot hold."""
    return [_operation(change) for change in changes]


def _operation(change: Change) -> dict[str, Any]:
    operation = {"op": "replace" if change.op == "change" else change.op, "path": change.pointer}
    return operation if change.op == "remove" else operation | {"value": change.after}


# --- in words -----------------------------------------------------------------------------------------


def as_text(changes: Iterable[Change], limit: int | None = None) -> list[str]:
    """One line for people per change, or per run of items added to or removed from a list.

    Of more than `limit` lines, the rest are counted in one more.
    """
    lines = [_line(run) for run in _runs(changes)]
    if limit is None or len(lines) <= limit:
        return lines
    return [*lines[:limit], f"and {len(lines) - limit} more"]


def summary(changes: Iterable[Change], limit: int = 4) -> str:
    """The changes in one line; empty when there are none."""
    return " · ".join(as_text(changes, limit))


def shown(value: Any) -> str:
    """A value in a few words; never more than one line, whatever it holds."""
    text = _SHORT.repr(value)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def named(path: Path) -> str:
    """A path for people: a JSON Pointer without its first slash, and "/" for the whole value."""
    text = pointer(path)
    # Keys are an agent's data: a line break or terminal escape in one must not reach a terminal.
    text = text if text.isprintable() else repr(text)[1:-1]
    text = text if len(text) <= _WIDTH else "…" + text[1 - _WIDTH :]
    return text.removeprefix("/") or "/"


def _runs(changes: Iterable[Change]) -> list[list[Change]]:
    runs: list[list[Change]] = []
    for change in changes:
        if runs and _follows(runs[-1][-1], change):
            runs[-1].append(change)
        else:
            runs.append([change])
    return runs


def _follows(earlier: Change, later: Change) -> bool:
    """Whether two changes add to, or remove from, one stretch of one list."""
    if earlier.op != later.op or later.op == "change" or not (earlier.path and later.path):
        return False
    place, after = earlier.path[-1], later.path[-1]
    if earlier.path[:-1] != later.path[:-1] or isinstance(place, str) or isinstance(after, str):
        return False
    # Removing can go on at the same place, into which the next item has moved, or backwards.
    return after == place + 1 if later.op == "add" else after in {place, place - 1}


def _line(run: list[Change]) -> str:
    first, last = run[0], run[-1]
    if len(run) > 1:
        stretch = f"+{len(run)} items (#{first.path[-1]}–#{last.path[-1]})"
        return f"{named(first.path[:-1])}: {stretch if first.op == 'add' else f'−{len(run)} items'}"
    if first.op == "add":
        return f"{named(first.path)}: added {shown(first.after)}"
    if first.op == "remove":
        return f"{named(first.path)}: removed"
    return f"{named(first.path)}: {shown(first.before)} → {shown(first.after)}"


_WIDTH = 60


class _Short(reprlib.Repr):
    """`repr`, cut short before it is made: values can be hundreds of megabytes."""

    def __init__(self) -> None:
        super().__init__()
        self.fillvalue = "…"
        self.maxstring = self.maxother = 40
        self.maxlevel = 3

    def repr_bytes(self, value: bytes, _level: int) -> str:
        return repr(value) if len(value) <= 20 else f"{len(value):,} bytes"

    def repr_datetime(self, value: datetime, _level: int) -> str:
        return value.isoformat()


_SHORT = _Short()
