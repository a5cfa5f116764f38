"""Graph threads: what a checkpoint's record says of the graph that wrote it, and how its writes are named.

A graph (LangGraph's) names its checkpoints itself, in namespaces: its own, and one for each subgraph. Each
row of such a thread says in its metadata, under `langgraph`, which of the graph's checkpoints it stands for:
one for what a graph wrote, one in each namespace for what takeback restored.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

import msgspec
from blake3 import blake3

from takeback.model import canonical
from takeback.model.records import Checkpoint, instant, signing_key

MARK = "langgraph"
VALUES, BESIDE, SUBGRAPHS = "values", "versions", "within"
"""The keys of a graph thread's state: what the channels hold; what the graph keeps beside, where that is too
long for a record (one encoded value, since nobody else makes sense of it); its subgraphs."""


# What comes with every checkpoint has a short name in the record.
_NAMES = {
    "v": "v", "channel_versions": "c", "versions_seen": "s", "updated_channels": "u", "tagged": "t",
    "held": "h",
}  # fmt: skip
_WHOLE = {short: name for name, short in _NAMES.items()}


class Place(msgspec.Struct, frozen=True):
    """One checkpoint as the graph knows it; without an id, that the namespace holds none from here on. `over`
    is the head that it did not follow: then it is a fork."""

    namespace: str
    id: str
    parent: str | None = None
    ts: str = ""
    metadata: dict[str, Any] = {}
    over: str | None = None
    beside: dict[str, Any] = {}  # the graph's own: versions of channels, who has seen which

    def said(self) -> list[Any]:
        """As the record says it: short, since a graph makes several a turn."""
        return [
            _short(self.id), _short(self.parent), _short_time(self.ts), self.metadata,
            {_NAMES.get(name, "+" + name): value for name, value in self.beside.items()}, _short(self.over),
        ]  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """For people, and `--json`."""
        said: dict[str, Any] = {
            "id": self.id,
            "parent": self.parent,
            "ts": self.ts,
            "metadata": self.metadata,
        }
        return said if self.over is None else said | {"over": self.over}


class GraphWrite(msgspec.Struct, frozen=True):
    """What a task wrote before its step was over. `key` names the graph's checkpoint that it was written
    at; those with a negative number replace the one that is there, others are kept as they came first."""

    key: bytes
    task: str
    number: int
    channel: str
    path: str
    data: bytes
    digest: bytes = b""

    def seal(self, key: bytes | None) -> bytes:
        """The digest over all that it says; keyed where checkpoints are signed."""
        said = canonical.pack([self.key, self.task, self.number, self.channel, self.path, self.data])
        return (blake3(said, key=signing_key(key)) if key else blake3(said)).digest()

    @property
    def order(self) -> tuple[str, str, int]:
        """The order in which a graph applies the writes of one step."""
        return (self.path, self.task, self.number)


def marked(places: list[Place]) -> dict[str, Any]:
    """The metadata of a row that stands for these checkpoints."""
    return {MARK: {place.namespace: place.said() for place in places}}


def is_marked(checkpoint: Checkpoint) -> bool:
    return isinstance(checkpoint.meta.get(MARK), dict)


def places(checkpoint: Checkpoint) -> list[Place]:
    """The graph's checkpoints that a row stands for. Metadata of another shape is somebody else's."""
    said = checkpoint.meta.get(MARK)
    return _places(said) if isinstance(said, dict) else []


def _places(said: dict[str, Any]) -> list[Place]:
    found = []
    for namespace, place in said.items():
        if type(place) is list and len(place) == 6 and type(place[3]) is dict and type(place[4]) is dict:
            id_, parent, ts, metadata, short, over = place
            beside = {_WHOLE.get(name, name[1:]): value for name, value in short.items()}
            found.append(
                Place(
                    namespace, _long(id_) or "", _long(parent), _long_time(ts), metadata, _long(over), beside
                )
            )
    return found


def shown(meta: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's metadata with what it says to a graph in words."""
    if not isinstance(meta.get(MARK), dict):
        return meta
    return meta | {MARK: {place.namespace: place.as_dict() for place in _places(meta[MARK])}}


def index_key(text: str) -> int:
    """Eight bytes of a name's digest, as a signed integer: a small index. The name is compared on a hit."""
    return int.from_bytes(blake3(text.encode()).digest(8), "big", signed=True)


def write_key(namespace: str, checkpoint: str) -> bytes:
    """What names the graph's checkpoint that a write was made at."""
    return blake3(canonical.pack([namespace, checkpoint])).digest(16)


def is_stable(namespace: str) -> bool:
    """Whether a subgraph keeps its memory under this name: names of single invocations hold a task's id."""
    return ":" not in namespace


def unpacked(packed: Any) -> dict[str, Any]:
    """What a graph keeps beside its channels, where a state holds it."""
    return canonical.decode(packed) if isinstance(packed, bytes) and packed else {}


def inside(namespace: str) -> tuple[str, ...]:
    """Where a namespace's part stands in the state."""
    return (SUBGRAPHS, namespace) if namespace else ()


def fresh_id(micros: int) -> str:
    """A new id in the graph's own form, which begins with the time: UUID version 6."""
    ticks = micros * 10 + 0x01B2_1DD2_1381_4000
    text = (
        f"{ticks >> 12:012x}6{ticks & 0xFFF:03x}{0x8000 | int.from_bytes(os.urandom(2), 'big') & 0x3FFF:04x}"
    )
    text += os.urandom(6).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Index(msgspec.Struct, frozen=True):
    """What a store keeps of a place, to find it by."""

    hash: int
    run: int | None
    source: str | None
    step: int | None


def index_of(place: Place) -> Index:
    run, source, step = (place.metadata.get(name) for name in ("run_id", "source", "step"))
    return Index(
        index_key(place.id),
        index_key(run) if isinstance(run, str) else None,
        source if isinstance(source, str) else None,
        step if type(step) is int else None,
    )


def _short(name: str | None) -> str | bytes | None:
    """A UUID as its sixteen bytes; any other name as it is."""
    if name is None or len(name) != 36:
        return name
    try:
        short = bytes.fromhex(name.replace("-", ""))
    except ValueError:
        return name
    return short if _long(short) == name else name


def _long(name: Any) -> str | None:
    if type(name) is not bytes:
        return name if isinstance(name, str) else None
    text = name.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _short_time(text: str) -> str | int:
    """A time of the usual form as microseconds."""
    try:
        micros = canonical.micros(datetime.fromisoformat(text))
    except (ValueError, TypeError):
        return text
    return micros if _long_time(micros) == text else text


def _long_time(said: Any) -> str:
    return instant(said).isoformat(timespec="microseconds") if type(said) is int else str(said)
