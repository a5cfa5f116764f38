"""Editing: one path of a tree changes, the rest is neither loaded nor written again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from takeback.errors import BadPath
from takeback.model import canonical
from takeback.model.paths import Part, Path, index, pointer
from takeback.model.tree import dicts, lists
from takeback.model.tree import format as f
from takeback.model.tree.build import build, build_item, close_list
from takeback.model.tree.nodes import (
    DictNode,
    ListNode,
    Node,
    Payload,
    WideNode,
    Writer,
    array_header,
    header_size,
    is_node,
    parse,
    value_size,
)
from takeback.model.tree.read import read, resolve

Built: TypeAlias = "tuple[int, Payload]"
Change: TypeAlias = "Callable[[Payload | None], Built | None]"
"""What happens at the end of the path: from the payload there (None: nothing) to the new one (None: gone)."""


def put(payload: Payload, path: Path, value: Any, writer: Writer) -> Payload:
    """Set the value at a path; in a list, `-` or the place after the last appends."""

    def change(old: Payload | None) -> Built:
        return build(value, old, writer, path)

    return _root(_edit(payload, path, 0, change, writer, grow=True))


def graft(payload: Payload, path: Path, part: Payload, writer: Writer) -> Payload:
    """Set what stands at a path to a tree that is stored already."""
    if not path:
        return part
    built = (value_size(part), part)
    return _root(_edit(payload, path, 0, lambda _: built, writer, grow=True))


def remove(payload: Payload, path: Path, writer: Writer) -> Payload:
    """Remove what stands at a path; what is not there is an error, as is the root."""
    if not path:
        raise BadPath("the whole state cannot be removed", path="")
    return _root(_edit(payload, path, 0, lambda _: None, writer, grow=False))


def extend(payload: Payload, path: Path, values: list[Any], writer: Writer) -> Payload:
    """Append values to the list at a path; its items are not loaded."""

    def change(old: Payload | None) -> Built:
        if old is None:
            _missing(path, len(path) - 1)
        return _extended(old, values, path, writer)

    return _root(_edit(payload, path, 0, change, writer, grow=False))


def replace_end(payload: Payload, path: Path, start: int, values: list[Any], writer: Writer) -> Payload:
    """Set all items from `start` on of the list at a path; those before it are not loaded."""

    def change(old: Payload | None) -> Built:
        if old is None:
            _missing(path, len(path) - 1)
        if not is_node(old):
            return build([*canonical.decode(old)[:start], *values], None, writer, path)
        node = parse(old)
        assert isinstance(node, ListNode)
        items = [build_item(value, None, writer, (*path, start + n)) for n, value in enumerate(values)]
        return close_list(lists.splice(node, start, node.count - start, items, writer), writer)

    return _root(_edit(payload, path, 0, change, writer, grow=False))


def _root(built: Built | None) -> Payload:
    assert built is not None
    return built[1]


def _edit(
    payload: Payload, path: Path, place: int, change: Change, writer: Writer, *, grow: bool
) -> Built | None:
    if place == len(path):
        return change(payload)
    if not is_node(payload):
        return _edit_plain(payload, path, place, change, writer, grow=grow)

    def below(child: Payload | None) -> Built | None:
        if place + 1 < len(path):
            if child is None:
                _missing(path, place)
            return _edit(child, path, place + 1, change, writer, grow=grow)
        if child is None and not grow:
            _missing(path, place)
        return change(child)

    node = parse(payload)
    if isinstance(node, ListNode):
        return _edit_list(node, path, place, below, writer, grow=grow and place + 1 == len(path))
    return _edit_dict(node, path, place, below, writer)


def _edit_dict(node: Node, path: Path, place: int, below: Change, writer: Writer) -> Built:
    key = path[place]
    if not isinstance(key, str):
        raise BadPath(f"a dict has keys, not position {key}", path=pointer(path[:place]))
    canonical.check_key(key, path[:place])
    if isinstance(node, WideNode):
        return dicts.edit_wide(node, key, lambda entries: _change(entries, key, below, writer), writer)
    assert isinstance(node, DictNode)
    kid = node.kids.get(key)
    if kid is None:
        entries = dicts.entries_of(node)
        _change(entries, key, below, writer)
        return dicts.assemble(entries, writer, path[:place])
    entries = dicts.Entries({}, dict(node.kids))
    _change(entries, key, below, writer)
    if entries.small:  # it became small: it joins the others
        entries.small |= canonical.decode(node.small)
        return dicts.assemble(entries, writer, path[:place])
    return dicts.pack(node.small, entries.kids, writer)


def _change(entries: dicts.Entries, key: str, below: Change, writer: Writer) -> None:
    if key in entries.kids:
        old: Payload | None = resolve(entries.kids[key].slot, writer)
    elif key in entries.small:
        old = canonical.pack(entries.small[key])
    else:
        old = None
    built = below(old)
    if built is None:
        entries.drop(key)
    else:
        entries.put(key, built, writer)


def _edit_list(node: ListNode, path: Path, place: int, below: Change, writer: Writer, *, grow: bool) -> Built:
    position = index(path[place], node.count, at=path[:place], end=grow)
    if position == node.count:
        built = below(None)
        assert built is not None
        return _pushed(node, [_item(built, writer)], writer)
    built = below(_item_payload(node, position, writer))
    items = [] if built is None else [_item(built, writer)]
    return close_list(lists.splice(node, position, 1, items, writer), writer)


def _item_payload(node: ListNode, position: int, writer: Writer) -> Payload:
    found = lists.locate(node, position, writer.get)
    if isinstance(found, bytes):
        return resolve(found, writer)
    entry, inside = found
    payload = writer.get(entry.digest)
    return payload if entry.big else canonical.pack(canonical.decode(payload)[inside])


def _item(built: Built, writer: Writer) -> Built:
    """An item as a leaf holds it: plain unless it is big."""
    size, payload = built
    if size > f.ITEM_BIG or not is_node(payload):
        return built
    return size, canonical.pack(read(payload, writer))


def _extended(old: Payload, values: list[Any], path: Path, writer: Writer) -> Built:
    def built(start: int) -> list[Built]:
        return [build_item(value, None, writer, (*path, start + place)) for place, value in enumerate(values)]

    if is_node(old):
        node = parse(old)
        if isinstance(node, ListNode):
            return _pushed(node, built(node.count), writer)
        raise BadPath("only a list can be appended to; this is a dict", path=pointer(path))
    held = canonical.decode(old)
    if not isinstance(held, list):
        raise BadPath(f"only a list can be appended to; this is {_named(held)}", path=pointer(path))
    raws = [canonical.pack(item) for item in held]
    items = [(len(raw), raw) for raw in raws] + built(len(raws))
    size = header_size(len(items)) + sum(size for size, _ in items)
    if size <= f.PLAIN_MAX:  # still one object: nothing of it is written by itself
        return size, array_header(len(items)) + b"".join(raw for _, raw in items)
    return _pushed(ListNode(0, 0, [], [], 0), items, writer)


def _pushed(node: ListNode, items: list[Built], writer: Writer) -> Built:
    builder = lists.ListBuilder(writer, node)
    for item in items:
        builder.push(item)
    return close_list(builder.finish(), writer)


def _edit_plain(
    payload: Payload, path: Path, place: int, change: Change, writer: Writer, *, grow: bool
) -> Built:
    """A value small enough to be one object: change it as a value, and build it anew."""
    value = canonical.decode(payload)
    parent = value
    for depth in range(place, len(path) - 1):
        parent = _step(parent, path, depth)
    last = path[-1]
    if isinstance(parent, list):
        position = index(last, len(parent), at=path[:-1], end=grow)
        old = canonical.pack(parent[position]) if position < len(parent) else None
        built = change(old)
        parent[position : position + 1] = [] if built is None else [read(built[1], writer)]
    elif isinstance(parent, dict) and isinstance(last, str):
        if last not in parent and not grow:
            _missing(path, len(path) - 1)
        built = change(canonical.pack(parent[last]) if last in parent else None)
        parent.pop(last, None)
        if built is not None:
            parent[last] = read(built[1], writer)
    else:
        _no_children(parent, path, len(path) - 1)
    return build(value, None, writer, path[:place])


def _step(parent: Any, path: Path, depth: int) -> Any:
    part: Part = path[depth]
    if isinstance(parent, list):
        return parent[index(part, len(parent), at=path[:depth])]
    if not isinstance(parent, dict):
        _no_children(parent, path, depth)
    if part not in parent:
        _missing(path, depth)
    return parent[part]


def _missing(path: Path, depth: int) -> NoReturn:
    raise BadPath(f"there is no {path[depth]!r} here", path=pointer(path[:depth]))


def _no_children(value: Any, path: Path, depth: int) -> NoReturn:
    if isinstance(value, dict):
        raise BadPath(f"a dict has keys, not position {path[depth]}", path=pointer(path[:depth]))
    raise BadPath(f"{_named(value)} has no {path[depth]!r}", path=pointer(path[:depth]))


def _named(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
