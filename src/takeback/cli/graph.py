"""Drawing lines: which column a checkpoint stands in, and how columns part and join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

Key: TypeAlias = "tuple[bytes, int]"
"""A checkpoint of any thread: the thread's uid, and the version."""


class Drawn(NamedTuple):
    """What stands to the left of one checkpoint's text."""

    join: str  # a line before it, where columns come together; or ""
    node: str
    below: str  # beside its further lines
    parted: bool  # `below` shows a column that opens here, so it must be printed


class Lanes:
    """Columns from newest to oldest; each waits for the checkpoint that its last one followed."""

    def __init__(self) -> None:
        self._waiting: list[Key | None] = []
        self._seen: set[Key] = set()

    def draw(self, key: Key, parents: Sequence[Key], sign: str) -> Drawn:
        """The next checkpoint, newest first; its first parent is the one that it followed."""
        mine = [place for place, waits in enumerate(self._waiting) if waits == key]
        join = self._join(mine) if len(mine) > 1 else ""
        at = mine[0] if mine else self._free()
        self._waiting[at] = key
        node = "".join(f"{sign if place == at else self._bar(place)} " for place in range(len(self._waiting)))
        self._seen.add(key)
        # A parent that was drawn before its child (clocks of two machines) gets no line: it would never end.
        ahead = [parent for parent in parents if parent not in self._seen]
        self._waiting[at] = ahead[0] if ahead else None
        self._narrow()
        below = self._part(at, ahead[1]) if len(ahead) > 1 else self._bars()
        return Drawn(join, node, below, len(ahead) > 1)

    def _join(self, mine: list[int]) -> str:
        first, last = mine[0], mine[-1]
        drawn = []
        for place in range(len(self._waiting)):
            if not first <= place <= last:
                sign = self._bar(place)
            elif place in mine:
                sign = "├" if place == first else "╯" if place == last else "┴"
            else:
                sign = "┼" if self._waiting[place] else "─"
            drawn.append(sign + ("─" if first <= place < last else " "))
        for place in mine[1:]:
            self._waiting[place] = None
        self._narrow()
        return "".join(drawn)

    def _part(self, at: int, parent: Key) -> str:
        """The line below a merge: from its column to that of what it brought in."""
        there = parent in self._waiting
        to = self._waiting.index(parent) if there else self._free()
        before = list(self._waiting)
        self._waiting[to] = parent
        low, high = sorted((at, to))
        drawn = []
        for place in range(len(self._waiting)):
            if not low <= place <= high:
                sign = self._bar(place)
            elif place == at:
                sign = "├" if at == low else "┤"
            elif place == to and not there:
                sign = "╮" if to == high else "╭"
            elif place == to:
                sign = "┤" if to == high else "├"
            else:
                sign = "┼" if before[place] else "─"
            drawn.append(sign + ("─" if low <= place < high else " "))
        return "".join(drawn)

    def _narrow(self) -> None:
        while self._waiting and self._waiting[-1] is None:
            self._waiting.pop()

    def _free(self) -> int:
        if None in self._waiting:
            return self._waiting.index(None)
        self._waiting.append(None)
        return len(self._waiting) - 1

    def _bar(self, place: int) -> str:
        return "│" if self._waiting[place] is not None else " "

    def _bars(self) -> str:
        return "".join(f"{self._bar(place)} " for place in range(len(self._waiting)))
