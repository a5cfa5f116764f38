"""One thread as one portable file: written from the store's bytes, and verified before it is brought in.

The file is a zstd stream of MessagePack values: a header, the rows in order, every object that they rest
on, and a closing digest over all of it. Its checkpoints keep their digests, so that seals still hold.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeAlias

import msgspec
import ormsgpack
from blake3 import blake3

from takeback.engine import bringing, graph_beside, reach
from takeback.engine.context import Context
from takeback.engine.items import roots
from takeback.errors import (
    BadExport,
    BadRequest,
    CorruptObject,
    StoreUnavailable,
    ThreadDeleted,
    ThreadExists,
)
from takeback.model import canonical, items
from takeback.model.graphs import GraphWrite
from takeback.model.ids import ThreadUid
from takeback.model.records import Checkpoint, ThreadInfo, read_record, record_digest
from takeback.model.refs import check_label, check_name
from takeback.storage.base import (
    Batch,
    Cell,
    History,
    Labels,
    Ledger,
    NameTaken,
    NewThread,
    Prune,
    Pruned,
    PutLabel,
    Row,
)
from takeback.storage.items import NewVersion, PutItems

_FORMAT = "takeback export 1"
_FRAME_MAX = 1 << 30
_CHUNK = 1 << 20


class _Header(msgspec.Struct, array_like=True, tag="header", forbid_unknown_fields=True):
    format: str
    name: str
    uid: bytes
    agent: str | None
    user: str | None
    meta: bytes
    created_us: int
    head: int
    family: bytes


class _Row(msgspec.Struct, array_like=True, tag="row", forbid_unknown_fields=True):
    record: bytes
    digest: bytes
    mac: bytes | None


class _Object(msgspec.Struct, array_like=True, tag="object", forbid_unknown_fields=True):
    digest: bytes
    payload: bytes


class _Cell(msgspec.Struct, array_like=True, tag="cell", forbid_unknown_fields=True):
    kind: str
    key: bytes
    body: bytes
    live: bool


class _Item(msgspec.Struct, array_like=True, tag="item", forbid_unknown_fields=True):
    at_us: int
    record: bytes
    digest: bytes
    mac: bytes | None


class _Write(msgspec.Struct, array_like=True, tag="write", forbid_unknown_fields=True):
    key: bytes
    task: str
    number: int
    channel: str
    path: str
    data: bytes
    digest: bytes


class _Hidden(msgspec.Struct, array_like=True, tag="hidden", forbid_unknown_fields=True):
    version: int
    namespace: str


class _Pruned(msgspec.Struct, array_like=True, tag="pruned", forbid_unknown_fields=True):
    low: int
    high: int
    time_us: int


class _Label(msgspec.Struct, array_like=True, tag="label", forbid_unknown_fields=True):
    name: str
    version: int


class _End(msgspec.Struct, array_like=True, tag="end", forbid_unknown_fields=True):
    digest: bytes


_Inner: TypeAlias = "_Header | _Row | _Object | _Cell | _Item | _Write | _Hidden | _Pruned | _Label"
_Frame: TypeAlias = "_Inner | _End"
_FRAMES = msgspec.msgpack.Decoder(
    _Header | _Row | _Object | _Cell | _Item | _Write | _Hidden | _Pruned | _Label | _End
)


class _Content(msgspec.Struct):
    """What was read of a file so far."""

    header: _Header | None = None
    rows: list[_Row] = []
    labels: dict[str, int] = {}
    cells: list[_Cell] = []
    items: list[_Item] = []
    writes: list[GraphWrite] = []
    hidden: list[tuple[int, str]] = []
    pruned: list[tuple[int, int, int]] = []
    objects: dict[bytes, bytes] = {}


def export(ctx: Context, info: ThreadInfo, path: str) -> int:
    """Write beside the place and move there: the file is whole or not there."""
    partial = path + ".partial"
    try:
        with open(partial, "wb") as file:
            count = _write(ctx, info, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}", thread=info.name) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
    return count


def bring_in(ctx: Context, path: str, name: str | None) -> ThreadInfo:
    """Read all, verify all, write all in one transaction."""
    with _judged(path):
        content = _read(path)
        info, rows = _rows(content, name, path)
    entry = ctx.audit("thread.imported", info, ctx.actor, versions=info.versions)
    if isinstance(ctx.storage.apply(Batch(ctx.tenant, [*rows, entry], content.objects)), NameTaken):
        raise _taken(ctx, info)
    return info


def _rows(content: _Content, name: str | None, path: str) -> tuple[ThreadInfo, list[Row]]:
    """What the file holds, verified, as what is written."""
    header = content.header
    assert header is not None
    name = name or check_name(header.name)
    checkpoints = [_checkpoint(name, row, path) for row in content.rows]
    _verify(checkpoints, content, path)
    first, last, uid = checkpoints[0], checkpoints[-1], ThreadUid(header.uid)
    meta = canonical.decode(header.meta)
    info = msgspec.convert(
        {
            "name": name, "uid": uid, "agent": header.agent, "user": header.user, "meta": meta,
            "created_us": header.created_us, "head": last.version, "head_digest": last.digest,
            "updated_us": last.time_us, "origin": first.origin, "family": header.family,
        },
        ThreadInfo,
    )  # fmt: skip
    new = NewThread(
        name, uid, info.agent, info.user, canonical.encode(meta), info.created_us, first,
        ThreadUid(header.family), first.origin,
    )  # fmt: skip
    labels = [PutLabel(uid, check_label(label), version) for label, version in content.labels.items()]
    cells = [Cell(cell.kind, cell.key, uid, cell.body, cell.live) for cell in content.cells]
    ledger: list[Row] = [Ledger(new.family, None, cells)] if cells else []
    versions = [_item(item, uid, content.objects, path) for item in content.items]
    memory: list[Row] = [PutItems(versions)] if versions else []
    graph = graph_beside.rows_of(uid, content.writes, content.hidden)
    gone = [Prune(uid, *run) for run in content.pruned]
    return info, [new, History(checkpoints[1:]), *gone, *labels, *ledger, *memory, *graph]


def _taken(ctx: Context, info: ThreadInfo) -> Exception:
    known = ctx.storage.thread_by_uid(ctx.tenant, info.uid)
    if known is None:
        what = f"a thread {info.name!r} exists already"
        return ThreadExists(what, thread=info.name, hint="Give it another name")
    if known.deleted_us is not None:
        return ThreadDeleted("this thread was deleted from the store, for good", thread=known.name)
    return ThreadExists(f"this thread is in the store already, as {known.name!r}", thread=info.name)


def _write(ctx: Context, info: ThreadInfo, file: BinaryIO) -> int:
    import zstandard

    seen: set[bytes] = set()
    running = blake3()
    count = 0
    with (
        ctx.storage.snapshot(),
        zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as stream,
    ):

        def emit(*parts: Any) -> None:
            raw = ormsgpack.packb(list(parts))
            framed = len(raw).to_bytes(4, "big") + raw
            running.update(framed)
            stream.write(framed)

        meta = canonical.encode(info.meta)
        emit("header", _FORMAT, info.name, bytes(info.uid), info.agent, info.user, meta,
             info.created_us, info.head, bytes(info.family))  # fmt: skip
        pruned = ctx.storage.find(ctx.tenant, Pruned(info.uid))
        for run in pruned:  # first of all: whose files are not in it
            emit("pruned", *run)
        for row in reach.rows(ctx, info):
            count += 1
            emit("row", row.record, row.digest, row.mac)
            for digest, payload in reach.objects(ctx, reach.kept(row, pruned), seen):
                emit("object", digest, payload)
        cells = [
            cell for cell in ctx.storage.cells(ctx.tenant, family=info.family) if cell.thread == info.uid
        ]
        for digest, payload in reach.objects(ctx, reach.kept_beside(cells), seen):
            emit("object", digest, payload)
        for cell in cells:
            emit("cell", cell.kind, cell.key, cell.body, cell.live)
        for item in bringing.of_thread(ctx, info.uid):
            for digest, payload in reach.objects(ctx, bringing.objects_of([item]), seen):
                emit("object", digest, payload)
            emit("item", item.at_us, item.record, item.digest, item.mac)
        for write in graph_beside.writes_of(ctx, info.uid):
            emit("write", *msgspec.structs.astuple(write))
        for version, namespace in graph_beside.hidden_of(ctx, info.uid):
            emit("hidden", version, namespace)
        for label, version in ctx.storage.find(ctx.tenant, Labels(info.uid)):
            emit("label", label, version)
        closing = ormsgpack.packb(["end", running.digest()])
        stream.write(len(closing).to_bytes(4, "big") + closing)
    return count


def _read(path: str) -> _Content:
    content = _Content()
    running = blake3()
    for framed, frame in _frames(path):
        if isinstance(frame, _End):
            if frame.digest != running.digest():
                raise BadExport(f"{path} is damaged: its closing digest is another")
            if content.header is None or not content.rows:
                raise BadExport(f"{path} holds no thread")
            return content
        running.update(framed)
        _take(content, frame, path)
    raise BadExport(f"{path} is cut short", hint="Export it again")


def _take(content: _Content, frame: _Inner, path: str) -> None:
    if isinstance(frame, _Row):
        content.rows.append(frame)
    elif isinstance(frame, _Cell):
        content.cells.append(frame)
    elif isinstance(frame, _Item):
        content.items.append(frame)
    elif isinstance(frame, _Write):
        content.writes.append(GraphWrite(*msgspec.structs.astuple(frame)))
    elif isinstance(frame, _Hidden):
        content.hidden.append((frame.version, frame.namespace))
    elif isinstance(frame, _Pruned):
        content.pruned.append((frame.low, frame.high, frame.time_us))
    elif isinstance(frame, _Label):
        content.labels[frame.name] = frame.version
    elif isinstance(frame, _Object):
        if blake3(frame.payload).digest() != frame.digest:
            raise BadExport(f"{path} holds an object that is not what it says")
        content.objects[frame.digest] = frame.payload
    elif frame.format == _FORMAT and content.header is None:
        content.header = frame
    else:
        raise BadExport(f"{path} is no export of this format", hint="`takeback export` writes one")


@contextlib.contextmanager
def _judged(path: str) -> Iterator[None]:
    """Whatever the content of a damaged or forged file makes its readers stumble over, is said as that."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, CorruptObject, BadRequest) as error:
        raise BadExport(f"{path} is no export, or damaged: {error}") from None


def _frames(path: str) -> Iterator[tuple[bytes, _Frame]]:
    import zstandard

    try:
        with open(path, "rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            while True:
                length = _exactly(stream, 4)
                size = int.from_bytes(length, "big")
                if size > _FRAME_MAX:
                    raise BadExport(f"{path} is damaged: a frame of {size:,} bytes")
                raw = _exactly(stream, size)
                yield length + raw, _FRAMES.decode(raw)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from None
    except EOFError:
        return
    except zstandard.ZstdError as error:
        raise BadExport(f"{path} is no export, or damaged: {error}") from None


def _exactly(stream: Any, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(min(size, _CHUNK))  # a damaged length must not claim memory
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _checkpoint(name: str, row: _Row, path: str) -> Checkpoint:
    if record_digest(row.record) != row.digest:
        raise BadExport(f"{path} holds a checkpoint that is not what it says")
    found = read_record(name, row.record, row.digest, row.mac)
    return msgspec.convert(msgspec.structs.asdict(found), Checkpoint)  # a digest says nothing about types


def _verify(rows: list[Checkpoint], content: _Content, path: str) -> None:
    """The chain from version 0 to the head, every object that the states rest on, and the labels."""
    header = content.header
    assert header is not None
    previous = b""
    seen: set[bytes] = set()
    for version, row in enumerate(rows):
        if row.version != version or row.uid != header.uid or row.previous != previous:
            raise BadExport(f"{path}: the chain breaks", checkpoint=version)
        previous = row.digest
        lacks = f"{path} lacks an object of version {row.version}"
        _reachable(reach.kept(row, content.pruned), content.objects, seen, lacks)
    if header.head != rows[-1].version:
        raise BadExport(f"{path} ends at version {rows[-1].version}, and should at {header.head}")
    if not all(0 <= low <= high <= header.head for low, high, _ in content.pruned):
        raise BadExport(f"{path} gives up the files of versions that it does not hold")
    if not all(0 <= version <= header.head for version in content.labels.values()):
        raise BadExport(f"{path} has a label for a version that it does not hold")


def _item(item: _Item, uid: bytes, objects: dict[bytes, bytes], path: str) -> NewVersion:
    """What the thread wrote into memory, and nothing that another did."""
    record = items.read(item.record, item.digest)
    if record.thread != uid:
        raise BadExport(f"{path} holds an item that another thread wrote")
    items.check_key(record.key)
    items.checked(items.split(record.namespace))
    _reachable(roots(record), objects, set(), f"{path} lacks an object of an item")
    return bringing.written(record, item.at_us, item.digest, item.record, item.mac)


def _reachable(todo: list[bytes], objects: dict[bytes, bytes], seen: set[bytes], lacks: str) -> None:
    while todo:
        digest = todo.pop()
        if digest in seen:
            continue
        seen.add(digest)
        if digest not in objects:
            raise BadExport(lacks)
        todo += reach.below(objects[digest])
