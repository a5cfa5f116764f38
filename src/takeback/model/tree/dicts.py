"""Dicts in the tree: when children stand inline, when they are objects, and how a wide dict is split.

All decisions depend on the entries alone, so that a dict has one layout however it came about.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import msgspec
from xxhash import xxh3_64_intdigest

from takeback.errors import CorruptObject
from takeback.model import canonical
from takeback.model.tree import format as f
from takeback.model.tree.nodes import (
    DictNode,
    Getter,
    Kid,
    Payload,
    WideEntry,
    WideIndex,
    WideNode,
    Writer,
    header_size,
    is_node,
    key_size,
    map_count,
    parse,
    ref,
    ref_digest,
    write,
)
from takeback.model.tree.read import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from takeback.model.paths import Path

_SLOT_COST = 8  # what a kid costs beside its key and slot: lengths and headers
_REF_SIZE = 34


class Entries(msgspec.Struct):
    """The entries of a dict, or of one leaf of a wide one: small values together, kids apart."""

    small: dict[str, Any]
    kids: dict[str, Kid]

    def put(self, key: str, built: tuple[int, Payload], writer: Writer) -> None:
        """An entry's new value, as the tree built for it."""
        self.drop(key)
        size, payload = built
        if is_node(payload):
            self.kids[key] = Kid(size, len(payload), payload)
        elif size <= f.INLINE_MAX:
            self.small[key] = canonical.decode(payload)
        else:
            self.kids[key] = Kid(size, 0, ref(writer.put(payload)))

    def drop(self, key: str) -> None:
        self.small.pop(key, None)
        self.kids.pop(key, None)


def entries_of(node: DictNode) -> Entries:
    return Entries(canonical.decode(node.small), dict(node.kids))


def assemble(entries: Entries, writer: Writer, at: Path = ()) -> tuple[int, Payload]:
    """The one layout of a dict with these entries: (size of its encoding, payload)."""
    return pack(canonical.encode(entries.small, at), entries.kids, writer)


def pack(small: bytes, kids: dict[str, Kid], writer: Writer) -> tuple[int, Payload]:
    """`assemble` where the small values are encoded already: an append must not touch them."""
    size, inline, weight = _measure(small, kids)
    if size <= f.PLAIN_MAX:
        value = canonical.decode(small) | {key: read(kid.slot, writer) for key, kid in kids.items()}
        return size, canonical.pack(value)
    if inline <= f.NODE_MAX:
        return size, write(DictNode(size, small, {key: _inlined(kid, writer) for key, kid in kids.items()}))
    kids = {key: _apart(kid, writer) for key, kid in kids.items()}
    if weight <= f.NODE_MAX:
        return size, write(DictNode(size, small, kids))
    values = canonical.decode(small)
    return _wide(_leaves(Entries(values, kids), writer)[0], writer)


def edit_wide(
    node: WideNode, key: str, change: Callable[[Entries], None], writer: Writer
) -> tuple[int, Payload]:
    """Change one entry of a wide dict: its leaf is cut anew, and those after it until cuts agree again."""
    leaves = flatten(node.entries, writer)
    first = min(bisect_left([leaf.last for leaf in leaves], key), len(leaves) - 1)
    region = leaf_entries(leaves[first], writer)
    change(region)
    end = first + 1
    fresh, closed = _leaves(region, writer)
    while not closed and end < len(leaves):
        more = leaf_entries(leaves[end], writer)
        region = Entries(region.small | more.small, region.kids | more.kids)
        end += 1
        fresh, closed = _leaves(region, writer)
    leaves[first:end] = fresh
    if sum(leaf.weight for leaf in leaves) > f.NODE_MAX:
        return _wide(leaves, writer)
    return assemble(gather(leaves, writer), writer)


def gather(leaves: Iterable[WideEntry], source: Getter) -> Entries:
    """All entries of these leaves; small values and slots, never what the slots refer to."""
    whole = Entries({}, {})
    for leaf in leaves:
        part = leaf_entries(leaf, source)
        whole.small.update(part.small)
        whole.kids.update(part.kids)
    return whole


def leaf_entries(leaf: WideEntry, source: Getter) -> Entries:
    node = parse(source.get(leaf.digest))
    if not isinstance(node, DictNode):
        raise CorruptObject("a wide dict's leaf is no dict")
    return entries_of(node)


def flatten(entries: list[WideEntry], source: Getter) -> list[WideEntry]:
    """All leaves in key order; reads index nodes, never leaves of large dicts twice."""
    leaves: list[WideEntry] = []
    for entry in entries:
        if entry.index:
            node = parse(source.get(entry.digest))
            assert isinstance(node, WideIndex)
            leaves.extend(flatten(node.entries, source))
        else:
            leaves.append(entry)
    return leaves


def find_wide(node: WideNode, key: str, get: Callable[[bytes], bytes]) -> DictNode | None:
    """The leaf in which a key would stand; reads one path only."""
    entries = node.entries
    while True:
        place = bisect_left([entry.last for entry in entries], key)
        if place == len(entries):
            return None
        found = parse(get(entries[place].digest))
        if isinstance(found, DictNode):
            return found
        assert isinstance(found, WideIndex)
        entries = found.entries


def _measure(small: bytes, kids: dict[str, Kid]) -> tuple[int, int, int]:
    """The size of the value, and of its node with children inline and with children apart."""
    held = map_count(small)
    size = inline = weight = len(small) - header_size(held)
    for key, kid in kids.items():
        named = key_size(key)
        size += named + kid.size
        inline += named + _SLOT_COST + (kid.weight or _REF_SIZE)
        weight += _entry_weight(named, kid)
    return size + header_size(held + len(kids)), inline, weight


def _entry_weight(named: int, kid: Kid) -> int:
    return named + _SLOT_COST + (kid.weight if 0 < kid.weight <= f.INLINE_MAX else _REF_SIZE)


def _inlined(kid: Kid, writer: Writer) -> Kid:
    digest = ref_digest(kid.slot) if kid.weight else None
    return kid if digest is None else Kid(kid.size, kid.weight, writer.get(digest))


def _apart(kid: Kid, writer: Writer) -> Kid:
    if kid.weight <= f.INLINE_MAX or ref_digest(kid.slot) is not None:
        return kid
    return Kid(kid.size, kid.weight, ref(writer.put(kid.slot)))


def _leaves(entries: Entries, writer: Writer) -> tuple[list[WideEntry], bool]:
    """Cut entries into leaves, and whether the last of them is closed by a cut."""
    leaves: list[WideEntry] = []
    run: list[str] = []
    for key in sorted(entries.small.keys() | entries.kids.keys()):
        run.append(key)
        if len(run) >= f.KEYS_MAX or _hash(key) & f.KEYS_MASK == 0:
            leaves.append(_leaf(run, entries, writer))
            run = []
    if run:
        leaves.append(_leaf(run, entries, writer))
    return leaves, not run


def _leaf(run: list[str], entries: Entries, writer: Writer) -> WideEntry:
    small = {key: entries.small[key] for key in run if key in entries.small}
    kids = {key: _apart(entries.kids[key], writer) for key in run if key in entries.kids}
    raw = canonical.pack(small)
    size, _, weight = _measure(raw, kids)
    size -= header_size(len(run))
    return WideEntry(run[-1], writer.put(write(DictNode(size, raw, kids))), len(run), weight, size)


def _wide(leaves: list[WideEntry], writer: Writer) -> tuple[int, Payload]:
    count = sum(leaf.count for leaf in leaves)
    size = header_size(count) + sum(leaf.size for leaf in leaves)
    level = f.KEYS_MASK.bit_length()
    entries = leaves
    while len(entries) > f.WIDE_MAX:
        entries = _grouped(entries, level, writer)
        level += f.WIDE_BITS
    return size, write(WideNode(count, size, entries))


def _grouped(entries: list[WideEntry], level: int, writer: Writer) -> list[WideEntry]:
    mask = ((1 << f.WIDE_BITS) - 1) << level
    groups: list[list[WideEntry]] = [[]]
    for entry in entries:
        groups[-1].append(entry)
        if len(groups[-1]) >= f.WIDE_MAX or _hash(entry.last) & mask == 0:
            groups.append([])
    return [_group(group, writer) for group in groups if group]


def _group(group: list[WideEntry], writer: Writer) -> WideEntry:
    return WideEntry(
        group[-1].last,
        writer.put(write(WideIndex(group))),
        sum(entry.count for entry in group),
        sum(entry.weight for entry in group),
        sum(entry.size for entry in group),
        True,
    )


def _hash(key: str) -> int:
    return xxh3_64_intdigest(key.encode(), f.SEED)
