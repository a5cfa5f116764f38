"""Building: the tree of a value, along the boundaries of the version before it."""

from __future__ import annotations

from typing import Any

from takeback.errors import TooLarge
from takeback.model import canonical
from takeback.model.paths import Path, pointer
from takeback.model.tree import dicts, lists
from takeback.model.tree import format as f
from takeback.model.tree.nodes import (
    DictNode,
    Kid,
    ListNode,
    Payload,
    WideNode,
    Writer,
    array_header,
    is_node,
    parse,
    ref,
    ref_digest,
    write,
)
from takeback.model.tree.read import resolve

_TINY = frozenset({int, float, bool, type(None)})
_SHORT = 60  # a string that is certainly no longer than INLINE_MAX


def build(value: Any, prior: Payload | None, writer: Writer, at: Path = ()) -> tuple[int, Payload]:
    """(size of the encoding, payload) of a value; only what differs from `prior` is hashed and checked."""
    if type(value) is not dict and type(value) is not list:
        value = canonical.take_apart(value)
    if len(at) >= canonical.MAX_DEPTH and isinstance(value, (dict, list)):
        canonical.check(value, at)  # refuses; below, only what is small is looked at with what holds it
    node = parse(prior) if prior is not None and is_node(prior) else None
    if node is None or not isinstance(value, (dict, list)):
        raw = canonical.pack(value, at)
        if len(raw) <= f.PLAIN_MAX or not isinstance(value, (dict, list)):
            if raw != prior:
                _check(value, raw, at)
            return len(raw), raw
    if isinstance(value, list):
        return _build_list(value, node if isinstance(node, ListNode) else None, writer, at)
    return _build_dict(value, node, writer, at)


def _build_list(value: list[Any], prior: ListNode | None, writer: Writer, at: Path) -> tuple[int, Payload]:
    def item(part: Any, old: Payload | None, place: Path) -> tuple[int, Payload]:
        return build_item(part, old, writer, place)

    return close_list(lists.build(value, prior, writer, at, item), writer)


def build_item(part: Any, old: Payload | None, writer: Writer, place: Path) -> tuple[int, Payload]:
    """An item of a list as a leaf holds it: plain, unless it is big enough for a tree of its own."""
    raw = canonical.pack(part, place)
    if len(raw) > f.ITEM_BIG:
        return build(part, old, writer, place)
    _check(part, raw, place)
    return len(raw), raw


def close_list(node: ListNode, writer: Writer) -> tuple[int, Payload]:
    """A list's payload: plain where it is short."""
    size = lists.list_size(node)
    if size <= f.PLAIN_MAX:
        return size, array_header(node.count) + b"".join(
            payload for entry in lists.flatten(node, writer) for _, payload in lists.items_of(entry, writer)
        ) + b"".join(resolve(slot, writer) for slot in node.tail)
    return size, write(node)


def _build_dict(value: dict[str, Any], prior: Any, writer: Writer, at: Path) -> tuple[int, Payload]:
    old = _prior_kids(prior, writer)
    small: dict[str, Any] = {}
    kids: dict[str, Kid] = {}
    for key, item in value.items():
        kind = type(item)
        if type(key) is not str or len(key) > canonical.MAX_KEY or not key.isascii():
            canonical.check_key(key, at)
        if kind in _TINY or ((kind is str or kind is bytes) and len(item) <= _SHORT):
            small[key] = item
            continue
        size, payload = build(item, _prior_payload(old.get(key), item, writer), writer, (*at, key))
        if is_node(payload):
            kids[key] = Kid(size, len(payload), payload)
        elif size <= f.INLINE_MAX:
            small[key] = item
        else:
            kids[key] = Kid(size, 0, ref(writer.put(payload)))
    return dicts.assemble(dicts.Entries(small, kids), writer, at)


def _prior_kids(prior: Any, writer: Writer) -> dict[str, Kid]:
    if isinstance(prior, DictNode):
        kids = prior.kids
    elif isinstance(prior, WideNode):
        leaves = dicts.flatten(prior.entries, writer)
        kids = dicts.gather(leaves, writer).kids
    else:
        return {}
    for kid in kids.values():
        digest = ref_digest(kid.slot)
        if digest is not None:
            writer.known.add(digest)
    return kids


def _prior_payload(kid: Kid | None, item: Any, writer: Writer) -> Payload | None:
    """The child's tree in the version before, where following its boundaries pays."""
    if kid is None or not kid.weight or not isinstance(item, (dict, list)):
        return None
    return resolve(kid.slot, writer)


def _check(value: Any, raw: bytes, at: Path) -> None:
    canonical.check(value, at)
    if len(raw) > canonical.MAX_ITEM and isinstance(value, (str, bytes)):
        raise TooLarge(
            f"a string of {len(raw):,} bytes; the limit is {canonical.MAX_ITEM:,}", path=pointer(at)
        )
