"""The storage protocol: what a backend promises, and the rows, guards and answers that it speaks.

Writes are batches: one `apply` is one transaction. A row carries the guard that it needs (the head it
was made for, that a name is free), so a refusal is an answer, not an exception, and nothing of a
refused batch stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from takeback.errors import BadRequest
from takeback.model import canonical
from takeback.model.graphs import GraphWrite
from takeback.model.ids import ThreadUid
from takeback.model.records import AuditEntry, Checkpoint, Pointer, ThreadInfo

if TYPE_CHECKING:
    from takeback.storage.items import ItemMoved, ItemsRow

T = TypeVar("T")


class NewThread(msgspec.Struct, frozen=True):
    """A thread comes into being, with its first checkpoint. Guard: no living thread has
    its name, and none, living or deleted, its uid; the thread `source`, where it starts from one, lives."""

    name: str
    uid: ThreadUid
    agent: str | None
    user: str | None
    meta: bytes
    created_us: int
    first: Checkpoint
    family: ThreadUid
    origin: Pointer | None = None
    source: ThreadUid | None = None


class NewCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint joins its thread and is its head. Guard: the thread lives and its head is the row before,
    by digest, and what locks it is `lock`."""

    checkpoint: Checkpoint
    lock: bytes | None = None


class History(msgspec.Struct, frozen=True):
    """Checkpoints that join their thread one after the other: an import, a copy. Guard: as for each of them,
    and nothing locks the thread."""

    checkpoints: list[Checkpoint]


class PutLabel(msgspec.Struct, frozen=True):
    """A label names a version, in place of what it named before. Guard: the thread lives."""

    uid: ThreadUid
    label: str
    version: int


class DropLabel(msgspec.Struct, frozen=True):
    """A label names nothing any more. Guard: the thread lives."""

    uid: ThreadUid
    label: str


class Tombstone(msgspec.Struct, frozen=True):
    """A thread's checkpoints and labels go; its row stays, so that no late writer brings it back. Guard: it
    lives, and nothing locks it."""

    uid: ThreadUid
    deleted_us: int


class Lock(msgspec.Struct, frozen=True):
    """A thread is locked by a plan, or (None) free again. Guard: it lives, and what locks it is `was`."""

    uid: ThreadUid
    lock: bytes | None
    was: bytes | None = None


class Still(msgspec.Struct, frozen=True):
    """Writes nothing. Guard: the thread lives, nothing locks it, its head stands on this line and, where a
    digest is given, is that checkpoint."""

    uid: ThreadUid
    line: int
    digest: bytes | None = None


class Cell(msgspec.Struct, frozen=True):
    """Something of a family's ledger that changes: a step, an effect, a plan, an approval. `live` is whether
    somebody has to see to it yet; `seq` is the ledger's number when it was last written, the store's own."""

    kind: str
    key: bytes
    thread: bytes
    body: bytes
    live: bool = False
    seq: int = 0
    family: bytes = b""


class Ledger(msgspec.Struct, frozen=True):
    """Cells of a family are written, each in place of the one of its kind and key, and the ledger's number
    goes up by one. Guard: it is `seq`; None for no guard."""

    family: ThreadUid
    seq: int | None
    cells: list[Cell]
    wakes: bool = False  # others may wait for this: where a store can tell them at once, it does


class Within(msgspec.Struct, frozen=True):
    """Work of the caller's in this very transaction: called with the database's connection, it gives the rows
    that come next. What it raises ends the transaction and reaches the caller."""

    work: Callable[[Any], list[Row]]


class Audit(msgspec.Struct, frozen=True):
    """An entry of the audit log."""

    entry: AuditEntry


class PutWrites(msgspec.Struct, frozen=True):
    """What a graph's tasks wrote. One with a negative number takes the place of the one of its key, task and
    number; of others the first stays. Guard: the thread lives."""

    uid: ThreadUid
    writes: list[GraphWrite]


class Hide(msgspec.Struct, frozen=True):
    """A graph no longer sees these of its checkpoints, (version, namespace). Guard: the thread lives."""

    uid: ThreadUid
    places: list[tuple[int, str]]


class NewEpoch(msgspec.Struct, frozen=True):
    """A collection begins. An epoch is a minute: that in which an object was brought last, by the writer's
    clock. From now on it is a later one than any before, whatever a clock says."""


class Forget(msgspec.Struct, frozen=True):
    """Objects go, but those that were brought in this epoch or later; their space goes back to the system
    where the engine can do that a piece at a time."""

    digests: list[bytes]
    epoch: int


class Prune(msgspec.Struct, frozen=True):
    """The files of the versions low to high are given up for good. Guard: the thread lives."""

    uid: ThreadUid
    low: int
    high: int
    time_us: int


class FilesKept(msgspec.Struct, frozen=True):
    """Writes nothing: what is written beside it takes up the files of this version. Guard: the thread lives,
    and they were not given up."""

    uid: ThreadUid
    version: int


Row: TypeAlias = (
    "NewThread | NewCheckpoint | History | PutLabel | DropLabel | Tombstone | Lock | Still | Ledger | Within"
    " | Audit | NewEpoch | Forget | Prune | FilesKept | ItemsRow | PutWrites | Hide"
)


class Batch(msgspec.Struct, frozen=True):
    """What one transaction writes: objects first, then rows in this order."""

    tenant: str
    rows: list[Row]
    objects: dict[bytes, bytes] = {}


class HeadMoved(msgspec.Struct, frozen=True):
    """Refused: the head is another."""

    head: int
    head_digest: bytes


class NameTaken(msgspec.Struct, frozen=True):
    """Refused: a living thread has this name, or this uid."""

    name: str


class ThreadGone(msgspec.Struct, frozen=True):
    """Refused: the thread was deleted, or never was."""

    deleted_us: int | None


class ThreadLocked(msgspec.Struct, frozen=True):
    """Refused: what locks the thread is another plan, or none."""

    lock: bytes | None


class LedgerMoved(msgspec.Struct, frozen=True):
    """Refused: the family's ledger has another number."""

    seq: int


class FilesGone(msgspec.Struct, frozen=True):
    """Refused: the files of this version were given up, and when."""

    version: int
    time_us: int


def files_kept(row: FilesKept, runs: list[tuple[int, int, int]]) -> FilesGone | None:
    """What a thread's runs of pruned versions say to the guard."""
    gone = (time_us for low, high, time_us in runs if low <= row.version <= high)
    return next((FilesGone(row.version, time_us) for time_us in gone), None)


Refusal: TypeAlias = "FilesGone | HeadMoved | NameTaken | ThreadGone | ThreadLocked | LedgerMoved | ItemMoved"


class ThreadQuery(msgspec.Struct, frozen=True):
    """Which threads to list: newest first, from `after` (a thread's `key`) on."""

    agent: str | None = None
    user: str | None = None
    meta: dict[str, Any] = {}
    created_after_us: int | None = None
    created_before_us: int | None = None
    limit: int | None = None
    after: int | None = None


class Query(Generic[T]):
    """What to look for, for `find`: each kind says what its rows are."""


F = TypeVar("F")


def finder(known: Mapping[type, F], query: object) -> F:
    """What a backend does for this kind of query."""
    found = known.get(type(query))
    if found is None:
        raise BadRequest(f"this store has nothing that answers {type(query).__name__}")
    return found


class Labels(msgspec.Struct, Query[tuple[str, int]], frozen=True):
    """The labels of a thread, each with the version that it names, by name."""

    uid: bytes


class Found(msgspec.Struct, frozen=True):
    """One of a graph's checkpoints: its number in the store's order, and the row that stands for it."""

    seq: int
    namespace: str
    checkpoint: Checkpoint
    hidden: bool = False


class Places(msgspec.Struct, Query[Found], frozen=True):
    """A graph's checkpoints, newest first: those of a thread by version, those of all by the store's order.

    `hash` and `run` are of names (`graphs.index_key`), which are to be compared on a hit. `before` is a
    version with a thread, else a number of the store: only what came earlier.
    """

    uid: bytes | None = None
    namespace: str | None = None
    hash: int | None = None
    run: int | None = None
    source: str | None = None
    step: int | None = None
    before: int | None = None
    hidden: bool = False
    limit: int | None = None


class Buried(msgspec.Struct, Query[ThreadInfo], frozen=True):
    """The deleted threads that had a name."""

    name: str


class Writes(msgspec.Struct, Query[GraphWrite], frozen=True):
    """What tasks wrote at these of a thread's checkpoints (None: at all), by key, and within one in the order
    in which a graph applies them."""

    uid: bytes
    keys: list[bytes] | None = None


class Now(msgspec.Struct, Query[int], frozen=True):
    """The clock of the store, in microseconds since 1970, on which several machines can agree; nothing where
    it has none but that of the machine."""


class Told(msgspec.Struct, Query[tuple[int, bool]], frozen=True):
    """Waits for so many seconds, or until something was written that `wakes`, by any process of this tenant.
    A number that is then another than `seen`, and whether the store can tell at all; it may also be another
    for nothing."""

    seen: int = 0
    seconds: float = 0.0


def no_clock(*_: Any) -> list[int]:
    """For stores of one machine."""
    return []


def untold(*asked: Any) -> list[tuple[int, bool]]:
    """For stores that tell nobody: whoever waits looks again. The query is the last that is given."""
    query: Told = asked[-1]
    time.sleep(query.seconds)
    return [(query.seen, False)]


class Epochs(msgspec.Struct, Query[int], frozen=True):
    """The epoch in which the last collection began, alone; 0 before the first."""


def epoch_after(last: int) -> int:
    """The epoch of what is written now."""
    return max(last, int(time.time() // 60))


class Stored(msgspec.Struct, frozen=True):
    """An object as it is kept: its own size, and what it takes; `key` is where the listing goes on."""

    key: int
    digest: bytes
    epoch: int
    size: int
    kept: int


class Objects(msgspec.Struct, Query[Stored], frozen=True):
    """The tenant's objects, a page at a time, from `after` (the last one's `key`) on. One that is brought
    while the pages are read may be missed; one that was there before the first is not."""

    after: int = 0
    limit: int = 1000


class Sizes(msgspec.Struct, Query[Stored], frozen=True):
    """What these objects take, in no order; what is absent is left out."""

    digests: list[bytes]


class Pruned(msgspec.Struct, Query[tuple[int, int, int]], frozen=True):
    """Runs of versions whose files were given up, each with when: (low, high, time_us), by version."""

    uid: bytes


def has_meta(info: ThreadInfo, query: ThreadQuery) -> bool:
    """Whether the thread has all the metadata that is asked for, each with exactly this value."""
    has = info.meta
    return all(key in has and canonical.equal(has[key], value) for key, value in query.meta.items())


class StoreInfo(msgspec.Struct, frozen=True):
    """What a store says of itself."""

    kind: str
    location: str
    uid: str
    schema: int
    read_only: bool
    durability: str
    details: dict[str, Any]


@runtime_checkable
class Storage(Protocol):
    """A backend. Every method may raise a `StoreError`; none changes anything when it does, but `apply`,
    whose outcome may then be unknown (`UnknownOutcome`)."""

    def apply(self, batch: Batch) -> Refusal | None:
        """Write the whole batch in one transaction, or nothing: None, or why not. When it returns None, the
        batch survives `kill -9` and, with durability `full`, a power cut. Objects that are there already are
        kept as they are. A checkpoint that is its thread's head already, with the same digest, counts as
        written."""
        ...

    def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
        """The payloads of those objects that the tenant has; what is absent is left out. Each payload has the
        digest it is asked for, or `CorruptObject`."""
        ...

    def thread(self, tenant: str, name: str) -> tuple[ThreadInfo, Checkpoint] | None:
        """The living thread of this name with its head, both of one moment."""
        ...

    def thread_by_uid(self, tenant: str, uid: bytes) -> ThreadInfo | None:
        """The thread of this uid, also when it was deleted."""
        ...

    def threads(self, tenant: str, query: ThreadQuery) -> list[ThreadInfo]:
        """Living threads, newest first."""
        ...

    def checkpoint(self, tenant: str, uid: bytes, version: int) -> Checkpoint | None:
        """One checkpoint as it was written; None when there is none."""
        ...

    def checkpoints(
        self,
        tenant: str,
        uid: bytes,
        low: int,
        high: int,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        merges: bool = False,
    ) -> list[Checkpoint]:
        """The checkpoints with low ≤ version ≤ high, in order; with `merges`, those alone, without a look at
        the others. What queries need must be what the record says: a row that differs is `CorruptObject`."""
        ...

    def cells(
        self, tenant: str, *, family: bytes | None = None, after: int = 0, live: bool = False
    ) -> list[Cell]:
        """Cells of a family that were written after this number of its ledger; with `live`, those alone that
        somebody has to see to. Without a family those of all, and then `live` is asked for. In order of their
        numbers, and of their keys within one."""
        ...

    def find(self, tenant: str, query: Query[T]) -> list[T]:
        """The rows that a query is for, of one moment and in the order that it promises; `BadRequest` for a
        kind of query that the backend does not know."""
        ...

    def audit(
        self, tenant: str, *, uid: bytes | None = None, after: int = 0, limit: int | None = None
    ) -> list[AuditEntry]:
        """Entries of the audit log in the order in which they were written, after this `key`."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads of this thread of execution inside see one moment. Keep it short."""
        ...

    def tenants(self) -> list[str]:
        """The tenants that have written anything."""
        ...

    def info(self) -> StoreInfo:
        """What the store is and where; cheap enough for every `doctor`."""
        ...

    def damage(self) -> list[str]:
        """What the engine underneath finds wrong with its own file; empty when it is sound."""
        ...

    def close(self) -> None:
        """Let go of everything; a second call does nothing, any other call raises `StoreClosed`."""
        ...
