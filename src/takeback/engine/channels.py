"""A graph's channels as a part of a state: stored by content, so that one more message costs the message.

Whether a long list is the one before with something more is told by fingerprints of its runs of items: they
see every change, also one made deep inside, and cost a tenth of what it takes to encode the items.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
from blake3 import blake3
from xxhash import xxh3_128_digest

from takeback.model import canonical
from takeback.model.graphs import BESIDE, VALUES
from takeback.model.paths import Path
from takeback.model.tree import edit, read
from takeback.model.tree.nodes import Payload, Writer

RUN = 32  # items of one fingerprint
_LISTS = 512  # lists whose fingerprints are remembered
_SEED = int.from_bytes(os.urandom(8), "big")  # nobody can make two values of one fingerprint on purpose

TAGGED, HELD = "tagged", "held"
"""Keys in what is kept beside: which channels hold more than plain values; channels that are kept there."""
_SMALL = 96  # bytes of a value of a channel of the graph's own that is kept beside: nobody looks for it
_INLINE = 512  # bytes of what is kept beside that stand in the record; more of it is kept in the state


class Codec(Protocol):
    """Values of a graph as plain values, and back. `readable`: whoever reads the store may read them."""

    readable: bool

    def tree(self, value: Any) -> tuple[Any, bool]:
        """The value as a plain one, and whether it has to be made back into what it was."""

    def fingerprint(self, items: list[Any]) -> bytes | None:
        """Bytes that tell these items from all others; None where that is not cheap."""


class Channels(msgspec.Struct, frozen=True):
    """What one checkpoint of a graph holds: values by channel, what the graph keeps beside, and which
    channels are new since its parent."""

    values: dict[str, Any]
    beside: dict[str, Any]
    versions: dict[str, Any]
    new: dict[str, Any]


class _Prints(msgspec.Struct, frozen=True):
    count: int
    runs: list[bytes]
    tagged: bool


class Prints:
    """The fingerprints of lists that were stored, by the digest of what they are stored as."""

    def __init__(self) -> None:
        self._lists: OrderedDict[bytes, _Prints] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, payload: Payload) -> _Prints | None:
        with self._lock:
            return self._lists.get(blake3(payload).digest())

    def put(self, payload: Payload, prints: _Prints) -> None:
        with self._lock:
            self._lists[blake3(payload).digest()] = prints
            if len(self._lists) > _LISTS:
                self._lists.popitem(last=False)


Filled = tuple[Payload, dict[str, Any]]
"""The state's tree, and what is kept beside in the record."""
Fill = Callable[[Payload, dict[str, Any], Path, Writer], Filled]
"""Puts what a checkpoint holds into a state's tree, at the path of its namespace, where what the checkpoint
before it held stands; with what that one kept beside."""


def filler(channels: Channels, codec: Codec, prints: Prints) -> Fill:
    """Puts these channels where those of the checkpoint before are; what did not change is not touched."""

    def fill(payload: Payload, before: dict[str, Any], at: Path, writer: Writer) -> Filled:
        versions, tagged = before.get("channel_versions", {}), set(before.get(TAGGED, []))
        had = set(read.keys_at(payload, (*at, VALUES), writer))
        held, values = _held(channels.values, codec)
        for name in had - values.keys():
            payload = edit.remove(payload, (*at, VALUES, name), writer)
        for name, value in values.items():
            same = name in had and name not in channels.new
            if same and name in versions and versions[name] == channels.versions.get(name):
                continue
            place = (*at, VALUES, name)
            payload, marked = _put(payload, place, value, name in tagged, codec, prints, writer)
            (tagged.add if marked else tagged.discard)(name)
        beside = channels.beside | ({HELD: held} if held else {})
        kept = sorted(tagged & values.keys())
        return _kept_beside(payload, beside | ({TAGGED: kept} if kept else {}), at, writer)

    return fill


def _held(values: dict[str, Any], codec: Codec) -> tuple[dict[str, Any], dict[str, Any]]:
    """Small values of channels that are the graph's own, and all others."""
    held = {}
    for name, value in values.items():
        own = name.startswith("__") or ":" in name
        if own and (value is None or _is_small(value, codec)):
            held[name] = value
    return held, {name: value for name, value in values.items() if name not in held}


def _is_small(value: Any, codec: Codec) -> bool:
    if not codec.readable:
        return False
    plain, tagged = codec.tree(value)
    return not tagged and len(canonical.encode(plain)) <= _SMALL


def _kept_beside(payload: Payload, beside: dict[str, Any], at: Path, writer: Writer) -> Filled:
    """In the record, or in the state where it is long: a record is small, a state is compressed."""
    there = (*at, BESIDE)
    raw = canonical.encode(beside)
    if len(raw) > _INLINE:
        return edit.put(payload, there, raw, writer), {}
    if BESIDE in read.keys_at(payload, at, writer):
        payload = edit.remove(payload, there, writer)
    return payload, beside


def _put(
    payload: Payload, at: Path, value: Any, was_tagged: bool, codec: Codec, prints: Prints, writer: Writer
) -> tuple[Payload, bool]:
    runs = _runs(value, codec) if type(value) is list and len(value) >= RUN else None
    if runs is None:
        plain, tagged = codec.tree(value)
        return edit.put(payload, at, plain, writer), tagged
    old = read.payload_at(payload, at, writer)
    held = None if old is None else prints.get(old)
    if held is None:
        plain, tagged = codec.tree(value)
        payload = edit.put(payload, at, plain, writer)
    else:
        same = _same(held, value, runs, codec)
        plain, tagged = codec.tree(value[same:]) if same < len(value) else ([], False)
        tagged = tagged or held.tagged or was_tagged
        if same < held.count:
            payload = edit.replace_end(payload, at, same, plain, writer)
        elif plain:
            payload = edit.extend(payload, at, plain, writer)
    fresh = read.payload_at(payload, at, writer)
    assert fresh is not None
    prints.put(fresh, _Prints(len(value), runs, tagged))
    return payload, tagged


def _runs(items: list[Any], codec: Codec) -> list[bytes] | None:
    found = []
    for start in range(0, len(items), RUN):
        raw = codec.fingerprint(items[start : start + RUN])
        if raw is None:
            return None
        found.append(xxh3_128_digest(raw, _SEED))
    return found


def _same(held: _Prints, items: list[Any], runs: list[bytes], codec: Codec) -> int:
    """How many items from the start on are those that were stored."""
    for place, old in enumerate(held.runs):
        start = place * RUN
        end = min(start + RUN, held.count)
        if end > len(items):
            return start
        if end == start + RUN or end == len(items):
            fresh: bytes = runs[place]
        else:  # the last run has grown since
            raw = codec.fingerprint(items[start:end])
            if raw is None:
                return start
            fresh = xxh3_128_digest(raw, _SEED)
        if fresh != old:
            return start
    return held.count
