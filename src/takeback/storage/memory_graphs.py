"""Graph threads in memory: which checkpoints a graph sees, and what its tasks wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.model import canonical, graphs
from takeback.model.graphs import GraphWrite
from takeback.model.records import Checkpoint, ThreadInfo
from takeback.storage.base import Buried, Found, Hide, Places, PutWrites, Refusal, Writes

if TYPE_CHECKING:
    from takeback.storage.memory import MemoryStorage, _Tenant

Undo = list[Callable[[], object]]
_Slot = tuple[bytes, str, int]


class Graphs:
    """A tenant's. What changes gives back how to undo it."""

    def __init__(self) -> None:
        self._seq = 0
        self._places: dict[bytes, dict[tuple[int, str], tuple[Found, graphs.Index]]] = {}
        self._by_hash: dict[tuple[bytes, int], list[tuple[int, str]]] = {}
        self._writes: dict[bytes, dict[bytes, dict[_Slot, GraphWrite]]] = {}

    def add(self, checkpoint: Checkpoint) -> Undo:
        undo: Undo = []
        # Read from the end: newest first, and by name within a version.
        for place in sorted(graphs.places(checkpoint), key=lambda place: place.namespace, reverse=True):
            self._seq += 1
            held = self._places.setdefault(checkpoint.uid, {})
            key, index = (checkpoint.version, place.namespace), graphs.index_of(place)
            held[key] = (Found(self._seq, place.namespace, checkpoint), index)
            same = self._by_hash.setdefault((checkpoint.uid, index.hash), [])
            same.append(key)
            undo += [partial(held.pop, key), same.pop]
        return undo

    def hide(self, uid: bytes, places: list[tuple[int, str]]) -> Undo:
        held, undo = self._places.get(uid, {}), list[Callable[[], object]]()
        for key in places:
            if key in held:
                found, index = held[key]
                held[key] = (msgspec.structs.replace(found, hidden=True), index)
                undo.append(partial(held.update, {key: (found, index)}))
        return undo

    def put_writes(self, uid: bytes, writes: list[GraphWrite]) -> Undo:
        of, undo = self._writes.setdefault(uid, {}), list[Callable[[], object]]()
        for write in writes:
            held, slot = of.setdefault(write.key, {}), (write.key, write.task, write.number)
            before = held.get(slot)
            if before is None:
                undo.append(partial(held.pop, slot))
            elif write.number < 0:
                undo.append(partial(held.update, {slot: before}))
            else:
                continue
            held[slot] = write
        return undo

    def drop(self, uid: bytes) -> Undo:
        places, writes = self._places.pop(uid, {}), self._writes.pop(uid, {})
        return [partial(self._places.update, {uid: places}), partial(self._writes.update, {uid: writes})]

    def find(self, query: Places) -> list[Found]:
        found = (
            each
            for each, index in self._newest_first(query)
            if each.hidden <= query.hidden
            and query.hash in (None, index.hash)
            and query.run in (None, index.run)
            and query.namespace in (None, each.namespace)
            and query.source in (None, index.source)
            and query.step in (None, index.step)
            and (query.before is None or _number(each, query) < query.before)
        )
        return list(islice(found, query.limit))

    def find_writes(self, query: Writes) -> list[GraphWrite]:
        of = self._writes.get(query.uid, {})
        keys = sorted(of) if query.keys is None else query.keys
        return [
            write for key in keys for write in sorted(of.get(key, {}).values(), key=lambda write: write.order)
        ]

    def _newest_first(self, query: Places) -> Iterator[tuple[Found, graphs.Index]]:
        if query.uid is None:
            every = (each for held in self._places.values() for each in held.values())
            return iter(sorted(every, key=lambda each: -each[0].seq))
        held = self._places.get(query.uid, {})
        if query.hash is None:
            return iter([held[key] for key in reversed(held)])
        return iter(
            [held[key] for key in reversed(self._by_hash.get((query.uid, query.hash), [])) if key in held]
        )


def _number(found: Found, query: Places) -> int:
    return found.seq if query.uid is None else found.checkpoint.version


def _put_writes(store: MemoryStorage, tenant: _Tenant, row: PutWrites) -> Refusal | None:
    gone = store._gone(tenant, row.uid)
    if gone is None:
        tenant.undo += tenant.graphs.put_writes(row.uid, row.writes)
    return gone


def _hide(store: MemoryStorage, tenant: _Tenant, row: Hide) -> Refusal | None:
    gone = store._gone(tenant, row.uid)
    if gone is None:
        tenant.undo += tenant.graphs.hide(row.uid, row.places)
    return gone


def _places(tenant: _Tenant, query: Places) -> list[Found]:
    return [
        msgspec.structs.replace(found, checkpoint=_own(found.checkpoint))
        for found in tenant.graphs.find(query)
    ]


def _own(checkpoint: Checkpoint) -> Checkpoint:
    """With metadata of its own: what a caller changes in what it got must not show in the store."""
    return msgspec.structs.replace(checkpoint, meta=canonical.decode(canonical.pack(checkpoint.meta)))


def _writes(tenant: _Tenant, query: Writes) -> list[GraphWrite]:
    return tenant.graphs.find_writes(query)


def _buried(tenant: _Tenant, query: Buried) -> list[ThreadInfo]:
    return [
        info for info in tenant.threads.values() if info.name == query.name and info.deleted_us is not None
    ]


GRAPH_WRITERS: dict[type, Callable[[MemoryStorage, _Tenant, Any], Refusal | None]] = {
    PutWrites: _put_writes,
    Hide: _hide,
}
GRAPH_FINDERS: dict[type, Callable[[_Tenant, Any], list[Any]]] = {
    Places: _places,
    Writes: _writes,
    Buried: _buried,
}
