"""The node grammar: how objects of the tree are written and read. Nothing here decides a layout.

A payload is either a plain value's encoding or a node: a byte that no encoding starts with, a kind,
and a body. A *slot* is a payload that stands inside another node, and may be a reference.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import msgspec
from blake3 import blake3

from takeback.errors import CorruptObject

Digest: TypeAlias = bytes
Payload: TypeAlias = bytes
Slot: TypeAlias = bytes

MARK = 0xC1  # reserved in MessagePack: no value's encoding begins with it
_DICT, _LIST, _REF, _INDEX, _WIDE, _WIDE_INDEX = range(1, 7)
_MARK = bytes((MARK,))
_HEAD = {kind: bytes((MARK, kind)) for kind in range(1, 7)}
_REF_HEAD = _HEAD[_REF]
_REF_LENGTH = 34


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """One child of a list: a leaf of `count` items, or one big item (`big`), of `size` encoded bytes."""

    digest: Digest
    count: int
    size: int
    big: bool = False


class WideEntry(msgspec.Struct, array_like=True, frozen=True):
    """One child of a wide dict: keys up to `last`; `weight` is what its entries take inside a node."""

    last: str
    digest: Digest
    count: int
    weight: int
    size: int
    index: bool = False


class Kid(msgspec.Struct, array_like=True, frozen=True):
    """A dict's larger child: the size it encodes to, its node's length (0: a plain value), and its slot."""

    size: int
    weight: int
    slot: Slot


class DictNode(msgspec.Struct, array_like=True, frozen=True):
    """A dict: small values together in one plain map, the others as kids."""

    size: int
    small: bytes
    kids: dict[str, Kid]


class ListNode(msgspec.Struct, array_like=True, frozen=True):
    """A list with its open right spine: per level the unclosed group, and the items of the unclosed leaf."""

    count: int
    size: int
    groups: list[list[Entry]]
    tail: list[Slot]
    tail_size: int


class WideNode(msgspec.Struct, array_like=True, frozen=True):
    """A dict too large for one node: leaves of entries in key order."""

    count: int
    size: int
    entries: list[WideEntry]


class IndexNode(msgspec.Struct, array_like=True, frozen=True):
    """A closed group of a list's children."""

    entries: list[Entry]


class WideIndex(msgspec.Struct, array_like=True, frozen=True):
    """A closed group of a wide dict's children."""

    entries: list[WideEntry]


Node: TypeAlias = "DictNode | ListNode | WideNode | IndexNode | WideIndex"
_KINDS: dict[type[Node], int] = {
    DictNode: _DICT,
    ListNode: _LIST,
    WideNode: _WIDE,
    IndexNode: _INDEX,
    WideIndex: _WIDE_INDEX,
}
_DECODERS = {kind: msgspec.msgpack.Decoder(cls) for cls, kind in _KINDS.items()}
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class Getter(Protocol):
    """Where objects are read from; every payload it gives has been checked against its digest."""

    def get(self, digest: Digest) -> Payload: ...

    def get_many(self, digests: list[Digest]) -> list[Payload]: ...


class Source(Getter, Protocol):
    """A getter that may hold objects in memory."""

    def peek(self, digest: Digest) -> Payload | None:
        """The payload if it is at hand; never a read."""


class Writer:
    """Collects the objects that a new root needs and the previous one does not have."""

    __slots__ = ("known", "new", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.new: dict[Digest, Payload] = {}
        self.known: set[Digest] = set()

    def put(self, payload: Payload) -> Digest:
        digest = blake3(payload).digest()
        if digest not in self.known:
            self.new[digest] = payload
        return digest

    def get(self, digest: Digest) -> Payload:
        """An object of the previous version: what is read on the way stays reachable if it stays in use."""
        fresh = self.new.get(digest)
        if fresh is not None:
            return fresh
        payload = self.source.get(digest)
        self.known.add(digest)  # only now: what is missing must be written when it is made again
        return payload

    def get_many(self, digests: list[Digest]) -> list[Payload]:
        return [self.get(digest) for digest in digests]


def write(node: Node) -> Payload:
    """The bytes of a node: integers, lists, text keys and bytes only, so the encoder is canonical for it."""
    return _HEAD[_KINDS[type(node)]] + _ENCODER.encode(node)


def is_node(payload: Payload) -> bool:
    return payload[:1] == _MARK


def parse(payload: Payload) -> Node:
    """The node that these bytes are; only for payloads that `is_node`."""
    decoder = _DECODERS.get(payload[1]) if len(payload) > 1 else None
    if decoder is None:
        raise CorruptObject(f"an object of unknown node kind {payload[1:2].hex()}")
    try:
        return decoder.decode(memoryview(payload)[2:])
    except msgspec.MsgspecError as error:
        raise CorruptObject(f"an object that is no node: {error}") from None


def ref(digest: Digest) -> Slot:
    return _REF_HEAD + digest


def ref_digest(slot: Slot) -> Digest | None:
    """The digest if this slot is a reference."""
    if len(slot) == _REF_LENGTH and slot[:2] == _REF_HEAD:
        return slot[2:]
    return None


def map_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x80 | count,))
    if count < 65536:
        return b"\xde" + count.to_bytes(2, "big")
    return b"\xdf" + count.to_bytes(4, "big")


def array_header(count: int) -> bytes:
    if count < 16:
        return bytes((0x90 | count,))
    if count < 65536:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def header_size(count: int) -> int:
    """Bytes of the header of a map or array of `count`."""
    return 1 if count < 16 else 3 if count < 65536 else 5


def map_count(raw: bytes) -> int:
    """How many entries an encoded map has."""
    first = raw[0]
    if first == 0xDE:
        return int.from_bytes(raw[1:3], "big")
    if first == 0xDF:
        return int.from_bytes(raw[1:5], "big")
    return first & 0x0F


def key_size(key: str) -> int:
    """Bytes of an encoded key."""
    length = len(key) if key.isascii() else len(key.encode())
    return length + (1 if length < 32 else 2 if length < 256 else 3 if length < 65536 else 5)


def value_size(payload: Payload) -> int:
    """The length of the encoding of the whole value that this payload (no reference) stands for."""
    if payload[0] != MARK:
        return len(payload)
    node = parse(payload)
    if isinstance(node, ListNode):
        return header_size(node.count) + node.size
    if isinstance(node, (DictNode, WideNode)):
        return node.size
    raise CorruptObject("an index node where a value is expected")
