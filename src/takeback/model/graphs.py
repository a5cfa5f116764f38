"""Graph threads: what a checkpoint's record says of the graph that wrote it, and how its writes are named.

A graph (LangGraph's) names its checkpoints itself, in namespaces: its own, and one for each subgraph. Each
row of such a thread says in its metadata, under `langgraph`, which of the graph's checkpoints it stands for:
one for what a graph wrote, one in each namespace for what takeback restored.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
from blake3 import blake3

from takeback.model import canonical
from takeback.model.records import Checkpoint, signing_key

MARK = "langgraph"
VALUES, GRAPH, SUBGRAPHS = "values", "versions", "within"
"""The keys of a graph thread's state: what the channels hold, what the graph itself keeps beside (one encoded
value, since nobody else makes sense of it), its subgraphs."""


class Place(msgspec.Struct, frozen=True):
    """One checkpoint as the graph knows it; without an id, that the namespace holds none from here on. `over`
    is the head that it did not follow: then it is a fork."""

    namespace: str
    id: str
    parent: str | None = None
    ts: str = ""
    metadata: dict[str, Any] = {}
    over: str | None = None

    def said(self) -> dict[str, Any]:
        """As the record says it."""
        said: dict[str, Any] = {"id": self.id, "ts": self.ts, "metadata": self.metadata}
        if self.parent is not None:
            said["parent"] = self.parent
        if self.over is not None:
            said["over"] = self.over
        return said


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
    if not isinstance(said, dict):
        return []
    found = []
    for namespace, place in said.items():
        if isinstance(place, dict) and isinstance(place.get("id"), str):
            metadata = place.get("metadata")
            found.append(
                Place(
                    namespace,
                    place["id"],
                    place.get("parent"),
                    str(place.get("ts") or ""),
                    metadata if isinstance(metadata, dict) else {},
                    place.get("over"),
                )
            )
    return found


def index_key(text: str) -> int:
    """Eight bytes of a name's digest, as a signed integer: a small index. The name is compared on a hit."""
    return int.from_bytes(blake3(text.encode()).digest(8), "big", signed=True)


def write_key(namespace: str, checkpoint: str) -> bytes:
    """What names the graph's checkpoint that a write was made at."""
    return blake3(canonical.pack([namespace, checkpoint])).digest(16)


def is_stable(namespace: str) -> bool:
    """Whether a subgraph keeps its memory under this name: names of single invocations hold a task's id."""
    return ":" not in namespace


def beside(packed: Any) -> dict[str, Any]:
    """What a graph keeps beside its channels."""
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
