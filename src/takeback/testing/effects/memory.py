"""The rule for items of memory that several agents write: what is shown when one of them goes back.

An item shows its newest version whose writer's head still holds it. Putting the old value back instead
would destroy what another agent wrote later; `MemoryRules` can say so, for a test to see it go wrong.
"""

from __future__ import annotations

import random

import msgspec

from takeback.testing.effects.witness import need


class MemoryRules(msgspec.Struct, frozen=True):
    newest_that_is_held: bool = True
    """Else: each version remembers what it replaced, and going back puts that back."""
    holds_by_lineage: bool = True
    """Else: a version is held if it is not newer than where its writer went back to."""


class Written(msgspec.Struct, frozen=True):
    """One version of an item."""

    item: str
    value: str | None
    """None: the item was removed."""
    writer: str
    version: int
    replaced: str | None


class Memory:
    """Items, and the histories of the agents that write them."""

    def __init__(self, rules: MemoryRules | None = None) -> None:
        self.rules = rules or MemoryRules()
        self.origins: dict[str, list[int | None]] = {"ann": [None], "bob": [None]}
        """Of each agent's checkpoints: where it went back to, if it did."""
        self.written: list[Written] = []
        self._present: dict[str, str | None] = {}

    def head(self, writer: str) -> int:
        return len(self.origins[writer]) - 1

    def lineage(self, writer: str, version: int | None) -> set[int]:
        found: set[int] = set()
        while version is not None:
            found.add(version)
            origin = self.origins[writer][version]
            version = origin if origin is not None else (version - 1 if version else None)
        return found

    def held(self) -> list[Written]:
        """The versions that their writers' heads hold, oldest first."""
        heads = {writer: self.lineage(writer, self.head(writer)) for writer in self.origins}
        return [one for one in self.written if one.version in heads[one.writer]]

    def commit(self, writer: str, item: str, value: str | None) -> None:
        self.origins[writer].append(None)
        replaced = self.shown().get(item)
        self.written.append(Written(item, value, writer, self.head(writer), replaced))
        self._present[item] = value

    def go_back(self, writer: str, version: int) -> None:
        before, after = self.lineage(writer, self.head(writer)), self.lineage(writer, version)
        if not self.rules.holds_by_lineage:
            before, after = set(range(self.head(writer) + 1)), set(range(version + 1))
        mine = [one for one in self.written if one.writer == writer]
        for one in reversed(mine):
            if one.version in before - after:
                self._present[one.item] = one.replaced
        for one in mine:
            if one.version in after - before:
                self._present[one.item] = one.value
        self.origins[writer].append(version)

    def shown(self) -> dict[str, str]:
        """What a reader sees."""
        found = dict(self._present)
        if self.rules.newest_that_is_held and self.rules.holds_by_lineage:
            found = {one.item: one.value for one in self.held()}
        elif self.rules.newest_that_is_held:
            found = {one.item: one.value for one in self._by_range()}
        return {item: value for item, value in found.items() if value is not None}

    def _by_range(self) -> list[Written]:
        """What a rule without lineages would take for held: what nobody went back behind since."""
        last = dict.fromkeys(self.origins, 0)
        for writer, origins in self.origins.items():
            for number, origin in enumerate(origins):
                last[writer] = number if origin is None else origin
        return [one for one in self.written if one.version <= last[one.writer]]


def drive_memory(seed: int, rules: MemoryRules | None = None) -> int:
    """A random program of two agents; `Broken` when a promise is not kept. The number of goings back."""
    source = random.Random(seed)
    memory = Memory(rules)
    backs = 0
    for number in range(source.randrange(4, 16)):
        writer = source.choice(["ann", "bob"])
        if source.random() < 0.6:
            value = f"{writer} {number}" if source.random() < 0.8 else None
            memory.commit(writer, source.choice(["x", "y"]), value)
            continue
        backs += 1
        head, before = memory.head(writer), memory.shown()
        newest = {one.item: one for one in memory.held()}
        memory.go_back(writer, source.randrange(head + 1))
        _kept(memory, writer, newest)
        if source.random() < 0.5:
            memory.go_back(writer, head)
            need(memory.shown() == before, "undo", "shows", memory.shown(), "and showed", before)
    return backs


def _kept(memory: Memory, writer: str, newest: dict[str, Written]) -> None:
    """What another wrote last still shows, and nothing shows that no history holds."""
    shown = memory.shown()
    held = {(one.item, one.value) for one in memory.held()}
    for item, one in newest.items():
        # What the one who went forward again wrote later may stand above it now.
        later = [
            two for two in memory.held() if two.item == item and two.version and two not in newest.values()
        ]
        above = [two for two in later if memory.written.index(two) > memory.written.index(one)]
        if one.writer != writer and not above:
            need(shown.get(item) == one.value, "clobbered", item, "shows", shown.get(item), "not", one.value)
    for item, value in shown.items():
        need((item, value) in held, "resurrected", item, "shows", value)
