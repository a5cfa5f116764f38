"""Reading: the value of a payload, or of one path in it, with as few objects as that needs."""

from __future__ import annotations

from typing import Any

from takeback.errors import BadPath, CorruptObject
from takeback.model import canonical
from takeback.model.paths import Path, index, pointer
from takeback.model.tree.nodes import (
    DictNode,
    Digest,
    Entry,
    Getter,
    IndexNode,
    ListNode,
    Payload,
    Slot,
    WideIndex,
    WideNode,
    is_node,
    parse,
    ref_digest,
)


def read(slot: Slot, source: Getter) -> Any:
    """The whole value, fresh: nothing in it is shared with another call's."""
    payload = resolve(slot, source)
    if not is_node(payload):
        return canonical.decode(payload)
    node = parse(payload)
    if isinstance(node, DictNode):
        return _read_dict(node, source)
    if isinstance(node, ListNode):
        return _read_list(node, source)
    if isinstance(node, WideNode):
        value: dict[str, Any] = {}
        for entry in node.entries:
            _read_wide(entry.digest, source, value)
        return value
    raise CorruptObject("an index node where a value is expected")


def read_at(slot: Slot, path: Path, source: Getter) -> Any:
    """The value at a path; the rest is not loaded."""
    payload = resolve(slot, source)
    for place, part in enumerate(path):
        if not is_node(payload):
            return _plain_at(canonical.decode(payload), path, place)
        child = _child(parse(payload), part, path[:place], source)
        if not isinstance(child, bytes):
            return _plain_at(child[0], path, place + 1)
        payload = resolve(child, source)
    return read(payload, source)


def payload_at(slot: Slot, path: Path, source: Getter) -> Payload | None:
    """The payload at a path; None where nothing is."""
    payload = resolve(slot, source)
    for place, part in enumerate(path):
        try:
            if not is_node(payload):
                return canonical.pack(_plain_at(canonical.decode(payload), path, place))
            child = _child(parse(payload), part, path[:place], source)
            if not isinstance(child, bytes):
                return canonical.pack(_plain_at(child[0], path, place + 1))
        except BadPath:
            return None
        payload = resolve(child, source)
    return payload


def keys_at(slot: Slot, path: Path, source: Getter) -> list[str]:
    """The keys of the dict at a path, whose values are not loaded; none where no dict is."""
    payload = payload_at(slot, path, source)
    if payload is None:
        return []
    if not is_node(payload):
        value = canonical.decode(payload)
        return list(value) if isinstance(value, dict) else []
    node = parse(payload)
    if isinstance(node, WideNode):
        from takeback.model.tree.dicts import flatten, gather

        entries = gather(flatten(node.entries, source), source)
        return sorted(entries.small.keys() | entries.kids.keys())
    return sorted([*canonical.decode(node.small), *node.kids]) if isinstance(node, DictNode) else []


def resolve(slot: Slot, source: Getter) -> Payload:
    """The payload that a slot is or refers to."""
    digest = ref_digest(slot)
    return slot if digest is None else source.get(digest)


def _child(node: Any, part: str | int, at: Path, source: Getter) -> Slot | tuple[Any]:
    """A child's slot, or its value (in a tuple) where it stands among small ones."""
    if isinstance(node, ListNode):
        return _list_child(node, index(part, node.count, at=at), source)
    if isinstance(node, WideNode):
        node = _wide_leaf(node, str(part), source)
    if isinstance(node, DictNode) and isinstance(part, str):
        kid = node.kids.get(part)
        if kid is not None:
            return kid.slot
        small = canonical.decode(node.small)
        if part in small:
            return (small[part],)
    raise BadPath(f"there is no {part!r} here", path=pointer(at))


def _list_child(node: ListNode, position: int, source: Getter) -> Slot | tuple[Any]:
    from takeback.model.tree.lists import locate

    found = locate(node, position, source.get)
    if isinstance(found, bytes):
        return found
    entry, place = found
    payload = source.get(entry.digest)
    return payload if entry.big else (canonical.decode(payload)[place],)


def _wide_leaf(node: WideNode, key: str, source: Getter) -> DictNode | None:
    from takeback.model.tree.dicts import find_wide

    return find_wide(node, key, source.get)


def _plain_at(value: Any, path: Path, place: int) -> Any:
    for depth in range(place, len(path)):
        part = path[depth]
        if isinstance(value, list):
            value = value[index(part, len(value), at=path[:depth])]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise BadPath(f"there is no {part!r} here", path=pointer(path[:depth]))
    return value


def _read_dict(node: DictNode, source: Getter) -> dict[str, Any]:
    value: dict[str, Any] = canonical.decode(node.small)
    for key, kid in node.kids.items():
        value[key] = read(kid.slot, source)
    return value


def _read_wide(digest: Digest, source: Getter, into: dict[str, Any]) -> None:
    node = parse(source.get(digest))
    if isinstance(node, WideIndex):
        for entry in node.entries:
            _read_wide(entry.digest, source, into)
    elif isinstance(node, DictNode):
        into.update(_read_dict(node, source))
    else:
        raise CorruptObject("a wide dict's leaf is no dict")


def _read_list(node: ListNode, source: Getter) -> list[Any]:
    entries: list[Entry] = []
    for level in range(len(node.groups) - 1, -1, -1):
        entries.extend(_leaf_entries(node.groups[level], level, source))
    payloads = source.get_many([entry.digest for entry in entries])
    value: list[Any] = []
    for entry, payload in zip(entries, payloads, strict=True):
        if entry.big:
            value.append(read(payload, source))
        else:
            value.extend(canonical.decode(payload))
    value.extend(canonical.decode(resolve(slot, source)) for slot in node.tail)
    return value


def _leaf_entries(entries: list[Entry], level: int, source: Getter) -> list[Entry]:
    """The leaves below these, level by level, so that a store is asked for many at once."""
    while level:
        nodes = [parse(payload) for payload in source.get_many([entry.digest for entry in entries])]
        entries = [child for node in nodes if isinstance(node, IndexNode) for child in node.entries]
        level -= 1
    return entries
