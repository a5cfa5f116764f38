"""Items of memory: their names, and the record of a version, which its digest covers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
import ormsgpack
from blake3 import blake3

from takeback.errors import BadName, CorruptObject
from takeback.model.records import sign

ITEM_FORMAT = 1
_CONTEXT = "takeback memory item record, format 1"
SEPARATOR = "\x1f"  # between labels, which hold no characters that do not print
_AFTER = "\x20"  # what follows the separator: all below a namespace stands before it
_LAST = "\U0010ffff"
MAX_NAME = 1000  # bytes of a namespace with its separators, and of a key
INLINE = 1024  # bytes of a value that stand in the record; a longer one is objects

Namespace: TypeAlias = tuple[str, ...]
NamespaceLike: TypeAlias = "str | Iterable[str]"


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one version of an item says."""

    namespace: str
    key: str
    kind: str  # put, delete
    root: bytes  # digest of the value
    inline: bytes  # the value's one node, where it is short
    vectors: bytes  # digest of what an index found in it
    ttl_us: int | None
    time_us: int
    created_us: int  # when the item, as it is, came into being
    thread: bytes
    line: int
    version: int
    step: str | None = None
    reason: str | None = None
    actor: str | None = None
    nonce: bytes = b""


_FIELDS = tuple(name for name in ItemRecord.__struct_fields__)


def make(**said: Any) -> tuple[bytes, bytes]:
    """The bytes of a version's record, and their digest; no two are the same, so that each can be found."""
    record = ItemRecord(nonce=os.urandom(8), **said)
    raw = ormsgpack.packb([ITEM_FORMAT, *(getattr(record, name) for name in _FIELDS)])
    return raw, _digest(raw)


def read(raw: bytes, digest: bytes) -> ItemRecord:
    """A version from its stored bytes, which must be those that were written."""
    if _digest(raw) != digest:
        raise CorruptObject("a version of an item does not have its digest")
    try:
        number, *values = ormsgpack.unpackb(raw)
        if number != ITEM_FORMAT:
            raise ValueError(f"format {number}")
        record = msgspec.convert(dict(zip(_FIELDS, values, strict=True)), ItemRecord)
    except (ValueError, TypeError, msgspec.ValidationError) as error:
        raise CorruptObject(f"a version of an item that cannot be read: {error}") from None
    # A step's checkpoint covers the digest of the value, so a value in the record must be that one's.
    if record.inline and blake3(record.inline).digest() != record.root:
        raise CorruptObject("a version of an item holds another value than it says")
    return record


def _digest(raw: bytes) -> bytes:
    return blake3(raw, derive_key_context=_CONTEXT).digest()


def signature(digest: bytes, key: bytes | None) -> bytes | None:
    """The keyed digest of a version, where there is a key."""
    return None if key is None else sign(digest, key)


# --- names


def namespace(given: NamespaceLike) -> Namespace:
    """Labels as they are given: several, or one by itself."""
    labels = (given,) if isinstance(given, str) else tuple(given)
    if not labels:
        raise BadName("a namespace has at least one label", hint="For example ('users', 'ann')")
    return checked(labels)


def checked(labels: Namespace) -> Namespace:
    for label in labels:
        if not isinstance(label, str) or not label or any(_bad(char) or ord(char) < 32 for char in label):
            raise BadName(
                f"{label!r} cannot be a label of a namespace",
                hint="Use text that prints, one character at least",
            )
    if len(joined(labels).encode()) > MAX_NAME:
        raise BadName(f"a namespace of more than {MAX_NAME} bytes")
    return labels


def check_key(key: str) -> str:
    """A key is any text that fits."""
    if not isinstance(key, str) or not key or any(_bad(char) for char in key):
        raise BadName(f"{key!r} cannot be the key of an item", hint="Use text, one character at least")
    if len(key.encode()) > MAX_NAME:
        raise BadName(f"a key of more than {MAX_NAME} bytes")
    return key


def _bad(char: str) -> bool:
    return char == "\0" or 0xD800 <= ord(char) < 0xE000


def joined(labels: Namespace) -> str:
    return SEPARATOR.join(labels)


def split(text: str) -> Namespace:
    return tuple(text.split(SEPARATOR))


def run_below(labels: Namespace) -> tuple[str, str]:
    """From where to where a namespace stands with all that is below it, in the order of joined labels."""
    return (joined(labels), joined(labels) + _AFTER) if labels else ("", _LAST)


def shown(namespace: str, key: str) -> str:
    """An item's name for people: users/ann/city."""
    text = "/".join([*split(namespace), key])
    return text if text.isprintable() else repr(text)[1:-1]
