"""Walking: every object that a root rests on, and the regions in which two roots differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from takeback.model import canonical
from takeback.model.paths import Path
from takeback.model.tree import dicts, lists
from takeback.model.tree.nodes import (
    DictNode,
    Digest,
    Entry,
    Getter,
    Kid,
    ListNode,
    Node,
    Payload,
    WideNode,
    is_node,
    parse,
    ref_digest,
)
from takeback.model.tree.read import read, resolve


class Region(msgspec.Struct, frozen=True):
    """Two runs of items of one list (`offset` is where both start), or two values at one path."""

    path: Path
    before: Any
    after: Any
    offset: int | None = None


MISSING = msgspec.UNSET


def references(payload: Payload) -> list[Digest]:
    """The objects that this payload refers to directly."""
    if not is_node(payload):
        return []
    digest = ref_digest(payload)
    return [digest] if digest is not None else _of_node(parse(payload))


def _of_node(node: Node) -> list[Digest]:
    if isinstance(node, DictNode):
        return [digest for kid in node.kids.values() for digest in references(kid.slot)]
    if isinstance(node, ListNode):
        found = [entry.digest for group in node.groups for entry in group]
        return found + [digest for slot in node.tail for digest in references(slot)]
    return [entry.digest for entry in node.entries]


def differing(a: Payload, b: Payload, source: Getter, at: Path = ()) -> Iterator[Region]:
    """Where two trees of one format differ; equal parts are passed over by their digests."""
    if a == b:
        return
    one, two = _node(a, source), _node(b, source)
    if isinstance(one, ListNode) and isinstance(two, ListNode):
        yield from _lists(one, two, source, at)
    elif isinstance(one, (DictNode, WideNode)) and isinstance(two, (DictNode, WideNode)):
        yield from _dicts(one, two, source, at)
    else:
        yield Region(at, read(a, source), read(b, source))


def _node(slot: Payload, source: Getter) -> Node | None:
    payload = resolve(slot, source)
    return parse(payload) if is_node(payload) else None


def _dicts(a: DictNode | WideNode, b: DictNode | WideNode, source: Getter, at: Path) -> Iterator[Region]:
    one, two = _parts(a, b, source)
    for key in sorted(one.small.keys() | two.small.keys() | one.kids.keys() | two.kids.keys()):
        left, right = one.kids.get(key), two.kids.get(key)
        path = (*at, key)
        if left is not None and right is not None:
            if left.slot != right.slot:  # the same reference is not even read
                parts = resolve(left.slot, source), resolve(right.slot, source)
                yield from differing(*parts, source, path)
            continue
        before, after = _value(one, left, key, source), _value(two, right, key, source)
        if before is MISSING or after is MISSING or not canonical.equal(before, after):
            yield Region(path, before, after)


def _value(entries: dicts.Entries, kid: Kid | None, key: str, source: Getter) -> Any:
    return read(kid.slot, source) if kid is not None else entries.small.get(key, MISSING)


def _parts(a: Node, b: Node, source: Getter) -> tuple[dicts.Entries, dicts.Entries]:
    """The entries of two dicts, less those leaves that both share."""
    if isinstance(a, WideNode) and isinstance(b, WideNode):
        one, two = dicts.flatten(a.entries, source), dicts.flatten(b.entries, source)
        shared = {leaf.digest for leaf in one} & {leaf.digest for leaf in two}
        return (
            dicts.gather((leaf for leaf in one if leaf.digest not in shared), source),
            dicts.gather((leaf for leaf in two if leaf.digest not in shared), source),
        )
    return _entries(a, source), _entries(b, source)


def _entries(node: Node, source: Getter) -> dicts.Entries:
    if isinstance(node, WideNode):
        return dicts.gather(dicts.flatten(node.entries, source), source)
    assert isinstance(node, DictNode)
    return dicts.entries_of(node)


def _lists(a: ListNode, b: ListNode, source: Getter, at: Path) -> Iterator[Region]:
    one, two = lists.flatten(a, source), lists.flatten(b, source)
    head = 0
    while head < min(len(one), len(two)) and one[head].digest == two[head].digest:
        head += 1
    end = 0
    if a.tail == b.tail:
        while end < min(len(one), len(two)) - head and one[-1 - end].digest == two[-1 - end].digest:
            end += 1
    same_tail = a.tail == b.tail
    before = _items(one[head : len(one) - end], [] if same_tail else a.tail, source)
    after = _items(two[head : len(two) - end], [] if same_tail else b.tail, source)
    yield Region(at, before, after, sum(entry.count for entry in one[:head]))


def _items(entries: list[Entry], tail: list[bytes], source: Getter) -> list[Any]:
    items: list[Any] = []
    for entry, payload in zip(entries, source.get_many([e.digest for e in entries]), strict=True):
        items.extend([read(payload, source)] if entry.big else canonical.decode(payload))
    items.extend(read(slot, source) for slot in tail)
    return items
