"""Items of memory: which version of an item shows, what a write comes to, and who holds what.

An item shows its newest version whose writer's head still holds it. Going back moves a head, and what it no
longer holds is not shown any more; what others wrote since stands where it stood.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from takeback.engine.book import Book, Lineage, book_of
from takeback.engine.context import Context
from takeback.errors import CorruptObject, EffectsDenied, MemoryConflict, TooLarge
from takeback.model import canonical, items
from takeback.model.items import INLINE, ItemRecord
from takeback.model.records import Checkpoint, Pointer, ThreadInfo
from takeback.model.tree.build import build
from takeback.model.tree.nodes import Writer, value_size
from takeback.model.tree.read import read
from takeback.model.tree.walk import references
from takeback.storage.base import Batch, Row
from takeback.storage.items import (
    ItemMoved,
    ItemRow,
    ItemVersion,
    NewestUnder,
    NewVersion,
    PutItems,
    Seen,
    VersionsBy,
    VersionsOf,
)

Expected: TypeAlias = int | Literal["any"] | None
"""The number of the version that shows; None where nothing does; "any" where it does not matter."""
Name: TypeAlias = tuple[str, str]
MEMORY = "memory"
"""What stands first in what a checkpoint covers of an item, where effects have their id."""


class Write(msgspec.Struct, frozen=True):
    """A version of an item before it has a place: what it says, and what it rests on."""

    namespace: str
    key: str
    kind: str = "put"
    root: bytes = b""
    inline: bytes = b""
    vectors: bytes = b""
    ttl_us: int | None = None
    reason: str | None = None
    actor: str | None = None
    expect: Expected = "any"
    seen: Seen | None = None
    created_us: int | None = None
    objects: dict[bytes, bytes] = {}

    @property
    def name(self) -> Name:
        return self.namespace, self.key

    @property
    def covered(self) -> list[Any]:
        """What a step's checkpoint says of it, under its digest."""
        return [MEMORY, self.namespace, self.key, self.kind, self.root]


class Ahead(msgspec.Struct, frozen=True):
    """A version of a thread that is not there yet: the next one, whose writes are stored before it."""

    uid: bytes
    line: int
    version: int
    time_us: int
    step: str | None = None
    reason: str | None = None
    actor: str | None = None


class Version(msgspec.Struct, frozen=True):
    """A version that is stored: its row, and what its record says."""

    row: ItemRow
    record: ItemRecord

    @property
    def name(self) -> Name:
        return self.row.namespace, self.row.key

    @property
    def gone(self) -> bool:
        return self.record.kind == "delete"

    def expires_us(self) -> int | None:
        """When it is over; reading it may have put that off."""
        ttl = self.record.ttl_us
        return None if ttl is None else max(self.row.at_us, self.row.touched_us) + ttl


# --- writing


def put(ctx: Context, name: Name, value: Any, **said: Any) -> Write:
    """A write of a value; what cannot be stored is refused with its path."""
    writer = Writer(ctx)
    _, payload = build(value, None, writer)
    size = value_size(payload)
    if size > canonical.MAX_STATE:
        raise TooLarge(f"a value of {size:,} bytes; the limit is {canonical.MAX_STATE:,}", path="")
    if len(payload) <= INLINE and not references(payload):
        return Write(*name, root=canonical.digest(payload), inline=payload, **said)
    root = writer.put(payload)
    return Write(*name, root=root, objects=writer.new, **said)


def with_vectors(write: Write, found: list[tuple[str, bytes]]) -> Write:
    """The write with what an index found in the value."""
    if not found:
        return write
    raw = canonical.encode([[path, vector] for path, vector in found])
    digest = canonical.digest(raw)
    return msgspec.structs.replace(write, vectors=digest, objects=write.objects | {digest: raw})


def decided(ctx: Context, write: Write) -> Write:
    """The write with what it was decided on: the item as it is seen now, refused where it is another."""
    seen, now = _seen(ctx, write.name)
    number = None if now is None else now.row.number
    if write.expect not in ("any", number):
        raise MemoryConflict(
            f"{items.shown(*write.name)} is at {_named(number)}, not at {_named(write.expect)}",
            hint="Get it again, and decide on what it says now",
        )
    created = None if now is None else now.record.created_us
    guard = None if write.expect == "any" else seen
    return msgspec.structs.replace(write, seen=guard, created_us=created)


def version_of(ctx: Context, write: Write, at: Checkpoint | Ahead | None) -> NewVersion:
    """The write with its place: the checkpoint that it comes with, or none."""
    time_us = ctx.clock() if at is None else at.time_us
    said: dict[str, Any] = {"thread": b"", "line": 0, "version": 0}
    if at is not None:
        said = {"thread": at.uid, "line": at.line, "version": at.version, "step": at.step}
    record, digest = items.make(
        namespace=write.namespace, key=write.key, kind=write.kind, root=write.root, inline=write.inline,
        vectors=write.vectors, ttl_us=write.ttl_us, time_us=time_us, created_us=write.created_us or time_us,
        reason=write.reason or (at.reason if at else None),
        actor=write.actor or (at.actor if at else ctx.actor), **said,
    )  # fmt: skip
    new = NewVersion(
        write.namespace, write.key, time_us, digest, record, items.signature(digest, ctx.key),
        seen=write.seen,
    )  # fmt: skip
    if at is None:
        return new
    return msgspec.structs.replace(new, thread=at.uid, line=at.line, version=at.version)


def anew(found: Version) -> Write:
    """What a version says, to be written again."""
    said = found.record
    return Write(
        *found.name, kind=said.kind, root=said.root, inline=said.inline, vectors=said.vectors,
        ttl_us=said.ttl_us, created_us=said.created_us,
    )  # fmt: skip


def is_at(found: Version, place: Ahead) -> bool:
    """Whether it was written there."""
    row = found.row
    return (row.thread, row.line, row.version) == (place.uid, place.line, place.version)


def publish(ctx: Context, writes: list[Write], at: Ahead | None = None) -> None:
    """Write outside of any step, all or none: as part of the version that comes next (`at`), or of nobody's
    history, so that nobody's going back takes it away."""
    while True:
        ready = [decided(ctx, write) for write in writes]
        rows: list[Row] = [PutItems([version_of(ctx, write, at) for write in ready])]
        objects = {digest: raw for write in ready for digest, raw in write.objects.items()}
        refusal = ctx.storage.apply(Batch(ctx.tenant, rows, objects))
        if refusal is None:
            ctx.cache.put(objects.items())
            return
        assert isinstance(refusal, ItemMoved)  # and what was expected is looked at again


class Buffer:
    """What a step has written so far: read by it, and stored with its checkpoint or not at all."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.writes: dict[Name, Write] = {}

    def __bool__(self) -> bool:
        return bool(self.writes)

    def add(self, write: Write) -> None:
        before = self.writes.get(write.name)
        if before is None:
            self.writes[write.name] = decided(self._ctx, write)
            return
        if write.expect != "any" and not (write.expect is None and before.kind == "delete"):
            raise MemoryConflict(
                f"{items.shown(*write.name)} was written in this step already, and has no number yet"
            )
        kept = msgspec.structs.replace(
            write, expect=before.expect, seen=before.seen, created_us=before.created_us
        )
        self.writes[write.name] = kept

    def again(self) -> None:
        """Somebody wrote meanwhile: refused, unless all is still as it was expected."""
        self.writes = {name: decided(self._ctx, write) for name, write in self.writes.items()}

    @property
    def objects(self) -> dict[bytes, bytes]:
        return {digest: raw for write in self.writes.values() for digest, raw in write.objects.items()}

    @property
    def covered(self) -> list[list[Any]]:
        return [write.covered for write in self.writes.values()]

    def rows(self, checkpoint: Checkpoint) -> list[Row]:
        if not self.writes:
            return []
        return [PutItems([version_of(self._ctx, each, checkpoint) for each in self.writes.values()])]


# --- reading


def version(row: ItemRow) -> Version:
    """A row with its record; a row that says other than its record is damaged."""
    try:
        record = items.read(row.record, row.digest)
    except CorruptObject as error:
        raise _damaged(row, error.what) from None
    said = (record.namespace, record.key, record.thread, record.line, record.version)
    if said != (row.namespace, row.key, row.thread, row.line, row.version):
        raise _damaged(row, "the row says other than its record")
    return Version(row, record)


def versions(ctx: Context, name: Name, limit: int | None = None) -> list[Version]:
    """An item's versions, newest first."""
    return [version(row) for row in ctx.storage.find(ctx.tenant, VersionsOf(*name, limit))]


def showing(ctx: Context, name: Name) -> Version | None:
    """The version that shows, also when it says that the item is gone."""
    newest = versions(ctx, name, 1)
    if not newest or held(ctx, newest[0].row):
        return newest[0] if newest else None
    return next((each for each in versions(ctx, name) if held(ctx, each.row)), None)


def _seen(ctx: Context, name: Name) -> tuple[Seen, Version | None]:
    """The item as a guard sees it, and what shows of it."""
    newest = versions(ctx, name, 1)
    if not newest:
        return Seen(*name, 0, 0), None
    found = newest[0] if held(ctx, newest[0].row) else showing(ctx, name)
    return newest[0].row.seen, None if found is None else live(ctx, found)


def live(ctx: Context, found: Version) -> Version | None:
    """The version, unless it says that the item is gone, or is over."""
    return None if found.gone or expired(ctx, found) else found


def below(ctx: Context, labels: items.Namespace) -> Iterator[Version]:
    """What shows of each item in a namespace and all below it, in the order of their names."""
    low, high = items.run_below(labels)
    after = ("", "")
    while page := ctx.storage.find(ctx.tenant, NewestUnder(low, high, after)):
        for row in page:
            found = version(row) if held(ctx, row) else showing(ctx, (row.namespace, row.key))
            if found is not None and live(ctx, found) is not None:
                yield found
        after = (page[-1].namespace, page[-1].key)


def expired(ctx: Context, found: Version) -> bool:
    until = found.expires_us()
    return until is not None and ctx.clock() >= until


def value(ctx: Context, record: ItemRecord) -> Any:
    """A version's value, fresh."""
    return read(record.inline or ctx.get(record.root), ctx)


def pending_value(ctx: Context, write: Write) -> Any:
    """The value of a write that is not stored yet."""
    ahead = Writer(ctx)
    ahead.new = write.objects
    return read(write.inline or write.objects[write.root], ahead)


def pending_vectors(write: Write) -> list[tuple[str, bytes]]:
    """What an index found in it."""
    found: list[tuple[str, bytes]] = canonical.decode(write.objects[write.vectors]) if write.vectors else []
    return found


def batch(ctx: Context, rows: list[Row]) -> Batch:
    """Rows of this tenant."""
    return Batch(ctx.tenant, rows)


def vectors(ctx: Context, record: ItemRecord) -> list[tuple[str, bytes]]:
    """What an index found in it."""
    found: list[tuple[str, bytes]] = canonical.decode(ctx.get(record.vectors)) if record.vectors else []
    return found


def roots(record: ItemRecord) -> list[bytes]:
    """The objects that a version rests on."""
    return [
        digest
        for digest in (b"" if record.inline or record.kind == "delete" else record.root, record.vectors)
        if digest
    ]


# --- who holds what


def held(ctx: Context, row: ItemRow) -> bool:
    """Whether the history that wrote it still holds it."""
    if row.free:
        return True
    head = holder(ctx, row)
    if head is None:
        return False
    if head.uid == row.thread and row.head_line == row.line and row.version <= head.version + 1:
        return True  # also what was written ahead of the next version: only a graph's nodes do that
    return holds(book_of(ctx, row.family).lineage(head), row)


def holds(lineage: Lineage, row: ItemRow) -> bool:
    return lineage.get((row.thread, row.line), -1) >= row.version


def holder(ctx: Context, row: ItemRow) -> Pointer | None:
    """The head that a version hangs on: its writer's, or that of the thread that its writer came home to."""
    if row.head is None or row.family == row.thread:  # the first of its family was never merged into another
        return row.head
    owner = owner_of(book_of(ctx, row.family).refresh(), row.thread)
    if owner == row.thread:
        return row.head
    info = ctx.storage.thread_by_uid(ctx.tenant, owner)
    if info is None or info.deleted_us is not None:
        return None
    return Pointer(info.uid, info.head, info.head_digest)


def held_by(ctx: Context, book: Book, uid: bytes) -> list[ItemVersion]:
    """The versions that hang on this thread's head, and are held by it."""
    if not any(ctx.storage.find(ctx.tenant, VersionsBy(each, limit=1)) for each in {uid, *owned(book, uid)}):
        return []
    threads = {uid, *owned(book.refresh(), uid)}  # its own as well where it came home: they lose their writer
    rows = [row for each in threads for row in ctx.storage.find(ctx.tenant, VersionsBy(each))]
    return [(row.namespace, row.key, row.number) for row in rows if not row.free and held(ctx, row)]


def owner_of(book: Book, uid: bytes) -> bytes:
    """Whose going back takes back what this thread wrote: a fork that came home is its ancestor's."""
    seen = {uid}
    while (said := book.threads.get(uid)) is not None and said.merged_into and said.merged_into not in seen:
        uid = said.merged_into
        seen.add(uid)
    return uid


def owned(book: Book, uid: bytes) -> list[bytes]:
    """The threads whose writes are this one's to take back: none, once it came home itself."""
    if owner_of(book, uid) != uid:
        return []
    return [uid, *(each for each in book.threads if each != uid and owner_of(book, each) == uid)]


def refuse_merged(ctx: Context, info: ThreadInfo) -> None:
    """A fork that came home writes no more: it would hang on another's head, which does not hold it."""
    if info.origin is None:
        return
    said = book_of(ctx, info.family).refresh().threads.get(info.uid)
    if said is not None and said.merged_into is not None:
        raise EffectsDenied(
            "the fork was merged: what it remembers belongs to the thread it was merged into",
            thread=info.name,
            hint="Go on there, or fork again",
        )


def _named(number: object) -> str:
    return "no version" if number is None else f"version {number}"


def _damaged(row: ItemRow, what: str) -> CorruptObject:
    return CorruptObject(f"{items.shown(row.namespace, row.key)}, version {row.number}: {what}")
