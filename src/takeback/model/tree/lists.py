"""Lists in the tree: where leaves are cut, how groups of them close, and the open right spine.

A leaf is the encoding of a run of items. Cuts depend on the items since the last cut and on nothing
else, so an insertion moves one boundary. Closed leaves enter groups, closed groups enter the level
above; what is still open stands in the list's own node, so an append writes that node and the item.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, TypeAlias

from xxhash import xxh3_64_intdigest

from takeback.errors import Unstorable
from takeback.model import canonical
from takeback.model.tree import format as f
from takeback.model.tree.nodes import (
    Entry,
    Getter,
    IndexNode,
    ListNode,
    Slot,
    Writer,
    array_header,
    header_size,
    parse,
    ref,
    ref_digest,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from takeback.model.paths import Path

Item: TypeAlias = "tuple[int, bytes]"
"""An item as (encoded size, payload); the payload of a big item may be a node."""
_CUT_SCALE = (1 << 64) // f.LEAF_TARGET


class ListBuilder:
    """Feeds items and closed leaves, in order, into a list's node."""

    __slots__ = ("count", "groups", "size", "tail", "tail_size", "writer")

    def __init__(self, writer: Writer, node: ListNode | None = None) -> None:
        self.writer = writer
        self.count = node.count if node else 0
        self.size = node.size if node else 0
        self.groups = [list(group) for group in node.groups] if node else []
        self.tail: list[Slot] = list(node.tail) if node else []
        self.tail_size = node.tail_size if node else 0

    def push(self, item: Item) -> None:
        size, payload = item
        self.count += 1
        self.size += size
        if size > f.ITEM_BIG:
            self.close()
            self._enter(Entry(self.writer.put(payload), 1, size, True), 0)
            return
        self.tail.append(payload)
        self.tail_size += size
        if _cuts_after(payload, len(self.tail), self.tail_size):
            self.close()

    def reuse(self, entry: Entry) -> None:
        """A leaf of the version before, whole; only where a leaf begins."""
        self.count += entry.count
        self.size += entry.size
        self._enter(entry, 0)

    def close(self) -> None:
        if not self.tail:
            return
        raws = [self._raw(slot) for slot in self.tail]
        leaf = array_header(len(raws)) + b"".join(raws)
        entry = Entry(self.writer.put(leaf), len(raws), self.tail_size)
        self.tail, self.tail_size = [], 0
        self._enter(entry, 0)

    def finish(self) -> ListNode:
        tail = [slot if len(slot) <= f.INLINE_MAX else ref(self.writer.put(slot)) for slot in self.tail]
        return ListNode(self.count, self.size, self.groups, tail, self.tail_size)

    def _raw(self, slot: Slot) -> bytes:
        digest = ref_digest(slot)
        return slot if digest is None else self.writer.get(digest)

    def _enter(self, entry: Entry, level: int) -> None:
        if level == len(self.groups):
            self.groups.append([])
        group = self.groups[level]
        group.append(entry)
        if len(group) < f.GROUP_MIN:
            return
        if entry.digest[-1] & f.GROUP_MASK == 0 or len(group) >= f.GROUP_MAX:
            digest = self.writer.put(write(IndexNode(group)))
            closed = Entry(digest, sum(e.count for e in group), sum(e.size for e in group))
            self.groups[level] = []
            self._enter(closed, level + 1)


def build(
    items: Sequence[Any],
    prior: ListNode | None,
    writer: Writer,
    at: Path,
    build_item: Callable[[Any, bytes | None, Path], Item],
) -> ListNode:
    """A list's node, cut along the boundaries of the version before wherever they still hold."""
    builder = ListBuilder(writer)
    leaves = _Leaves(prior, writer)
    shift = len(items) - leaves.count
    position = 0
    while position < len(items):
        if not builder.tail:
            entry = leaves.matching(items, position, shift)
            if entry is not None:
                builder.reuse(entry)
                position += entry.count
                continue
        old = leaves.big_at(position) or leaves.big_at(position - shift)
        builder.push(build_item(items[position], old, (*at, position)))
        position += 1
    return builder.finish()


class _Leaves:
    """The closed leaves of the version before, by the position at which they start."""

    def __init__(self, node: ListNode | None, writer: Writer) -> None:
        self.writer = writer
        self.count = node.count if node else 0
        self.by_start: dict[int, Entry] = {}
        self.early: set[int] = set()  # leaves that a big item behind them closed: no cut of their own
        start = previous = 0
        for entry in flatten(node, writer) if node else ():
            self.by_start[start] = entry
            if entry.big:
                self.early.add(previous)
            writer.known.add(entry.digest)
            previous, start = start, start + entry.count
        for slot in node.tail if node else ():
            digest = ref_digest(slot)
            if digest is not None:
                writer.known.add(digest)

    def matching(self, items: Sequence[Any], position: int, shift: int) -> Entry | None:
        """The old leaf that these items still are: at the same place, or moved as the end has moved."""
        for start in {position, position - shift}:
            entry = self.by_start.get(start)
            if entry is None or entry.big or start in self.early:
                continue
            if self._same(items, position, entry):
                return entry
        return None

    def big_at(self, position: int) -> bytes | None:
        entry = self.by_start.get(position)
        return self.writer.get(entry.digest) if entry is not None and entry.big else None

    def _same(self, items: Sequence[Any], position: int, entry: Entry) -> bool:
        run = items[position : position + entry.count]
        if len(run) != entry.count:
            return False
        try:
            raw = canonical.pack(run)
        except Unstorable:
            return False  # found again, with its path, when the items are encoded one by one
        held = self.writer.source.peek(entry.digest)
        return raw == held if held is not None else canonical.digest(raw) == entry.digest


def flatten(node: ListNode, source: Getter) -> list[Entry]:
    """All closed leaves and big items in order; reads index nodes, never items."""
    leaves: list[Entry] = []
    for level in range(len(node.groups) - 1, -1, -1):
        for entry in node.groups[level]:
            _expand(entry, level, source, leaves)
    return leaves


def splice(node: ListNode, start: int, remove: int, items: list[Item], writer: Writer) -> ListNode:
    """Replace `remove` items from `start` by others; leaves before and after stay as they are."""
    leaves = flatten(node, writer)
    starts = _starts(leaves)
    first = max(bisect_right(starts, start) - 1, 0) if leaves else 0
    if leaves and start >= starts[-1] + leaves[-1].count:
        first = len(leaves)
    elif first and leaves[first].big:
        first -= 1  # it may have been closed by the big item alone
    builder = ListBuilder(writer)
    for entry in leaves[:first]:
        builder.reuse(entry)
    pending = _Pending(leaves, first, node, writer)
    position = starts[first] if first < len(leaves) else node.count - len(node.tail)
    for _ in range(start - position):
        builder.push(pending.take())
    for _ in range(remove):
        pending.take()
    for item in items:
        builder.push(item)
    pending.drain(builder)
    return builder.finish()


class _Pending:
    """What is left of a list while it is spliced: item by item, or by whole leaves once cuts agree again."""

    def __init__(self, leaves: list[Entry], first: int, node: ListNode, writer: Writer) -> None:
        self.leaves, self.next, self.tail, self.writer = leaves, first, list(node.tail), writer
        self.open: list[Item] = []  # reversed

    def take(self) -> Item:
        if not self.open:
            self._load()
        return self.open.pop()

    def drain(self, builder: ListBuilder) -> None:
        while True:
            if not self.open and not builder.tail and self.next < len(self.leaves):
                builder.reuse(self.leaves[self.next])
                self.next += 1
            elif self.open or self.next < len(self.leaves) or self.tail:
                builder.push(self.take())
            else:
                return

    def _load(self) -> None:
        if self.next < len(self.leaves):
            entry = self.leaves[self.next]
            self.next += 1
            self.open = list(reversed(items_of(entry, self.writer)))
        else:
            raws = [_resolve(slot, self.writer) for slot in self.tail]
            self.open, self.tail = [(len(raw), raw) for raw in reversed(raws)], []


def items_of(entry: Entry, source: Getter) -> list[Item]:
    """The items of one leaf, each encoded by itself."""
    payload = source.get(entry.digest)
    if entry.big:
        return [(entry.size, payload)]
    raws = [canonical.pack(item) for item in canonical.decode(payload)]
    return [(len(raw), raw) for raw in raws]


def locate(node: ListNode, position: int, get: Callable[[bytes], bytes]) -> tuple[Entry, int] | Slot:
    """Where an item stands: its leaf and the place in it, or its slot in the tail; reads one path only."""
    behind = position - (node.count - len(node.tail))
    if behind >= 0:
        return node.tail[behind]
    for level in range(len(node.groups) - 1, -1, -1):
        for entry in node.groups[level]:
            if position < entry.count:
                return _descend(entry, level, position, get)
            position -= entry.count
    raise IndexError(position)


def list_size(node: ListNode) -> int:
    """The length of the encoding of the whole list."""
    return header_size(node.count) + node.size


def _descend(entry: Entry, level: int, position: int, get: Callable[[bytes], bytes]) -> tuple[Entry, int]:
    while level:
        node = parse(get(entry.digest))
        assert isinstance(node, IndexNode)
        for child in node.entries:
            if position < child.count:
                entry = child
                break
            position -= child.count
        level -= 1
    return entry, position


def _expand(entry: Entry, level: int, source: Getter, into: list[Entry]) -> None:
    if level == 0:
        into.append(entry)
        return
    node = parse(source.get(entry.digest))
    assert isinstance(node, IndexNode)
    if level == 1:
        into.extend(node.entries)
        return
    for child in node.entries:
        _expand(child, level - 1, source, into)


def _starts(leaves: list[Entry]) -> list[int]:
    starts, position = [], 0
    for entry in leaves:
        starts.append(position)
        position += entry.count
    return starts


def _resolve(slot: Slot, writer: Writer) -> bytes:
    digest = ref_digest(slot)
    return slot if digest is None else writer.get(digest)


def _cuts_after(raw: bytes, count: int, size: int) -> bool:
    if count >= f.LEAF_MAX_ITEMS or size >= f.LEAF_MAX_BYTES:
        return True
    if count < f.LEAF_MIN_ITEMS and size < f.LEAF_MIN_BYTES:
        return False
    return xxh3_64_intdigest(raw, f.SEED) < len(raw) * _CUT_SCALE
