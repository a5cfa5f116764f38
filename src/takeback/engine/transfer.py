"""One thread as one portable file: written from the store's bytes, and verified before it is brought in.

The file is a zstd stream of MessagePack values: a header, the rows in order, every object that they rest
on, and a closing digest over all of it. Its checkpoints keep their digests, so that seals still hold.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import ormsgpack
from blake3 import blake3

from takeback.engine.context import Context
from takeback.errors import BadExport, StoreUnavailable, ThreadExists
from takeback.model import canonical
from takeback.model.ids import ThreadUid
from takeback.model.records import Checkpoint, ThreadInfo, read_record, record_digest
from takeback.model.tree.walk import references
from takeback.storage.base import Batch, History, NameTaken, NewThread, PutLabel, Row

_FORMAT = "takeback export 1"
_PAGE = 500
_FRAME_MAX = 1 << 30


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
    content = _read(path)
    header, rows, labels, objects = content["header"], content["rows"], content["labels"], content["objects"]
    name = name or str(header["name"])
    checkpoints = [_checkpoint(name, row, path) for row in rows]
    _verify(checkpoints, header, objects, path)
    origin = checkpoints[0].origin
    uid = ThreadUid(header["uid"])
    new = NewThread(
        name, uid, header["agent"], header["user"], canonical.encode(header["meta"]), header["created_us"],
        checkpoints[0], origin,
    )  # fmt: skip
    info = ThreadInfo(
        name=name, uid=uid, agent=new.agent, user=new.user, meta=header["meta"], created_us=new.created_us,
        head=checkpoints[-1].version, head_digest=checkpoints[-1].digest, updated_us=checkpoints[-1].time_us,
    )  # fmt: skip
    batch_rows: list[Row] = [new, History(checkpoints[1:])]
    batch_rows += [PutLabel(uid, label, version) for label, version in labels.items()]
    batch_rows.append(ctx.audit("thread.imported", info, ctx.actor, versions=len(checkpoints)))
    if isinstance(ctx.storage.apply(Batch(ctx.tenant, batch_rows, objects)), NameTaken):
        known = ctx.storage.thread_by_uid(ctx.tenant, uid)
        raise ThreadExists(
            f"this thread is in the store already, as {known.name!r}"
            if known
            else f"a thread {name!r} exists already",
            thread=name,
            hint=None if known else "Give it another name",
        )
    return info


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
             info.created_us, info.head)  # fmt: skip
        for row in _stored(ctx, info):
            count += 1
            emit("row", row.record, row.digest, row.mac)
            for digest, payload in _objects(ctx, row.state_root, seen):
                emit("object", digest, payload)
        for label, version in ctx.storage.labels(ctx.tenant, info.uid).items():
            emit("label", label, version)
        closing = ormsgpack.packb(["end", running.digest()])
        stream.write(len(closing).to_bytes(4, "big") + closing)
    return count


def _stored(ctx: Context, info: ThreadInfo) -> Iterator[Checkpoint]:
    for low in range(0, info.head + 1, _PAGE):
        yield from ctx.storage.checkpoints(ctx.tenant, info.uid, low, min(low + _PAGE - 1, info.head))


def _objects(ctx: Context, root: bytes, seen: set[bytes]) -> Iterator[tuple[bytes, bytes]]:
    todo = [root]
    while todo:
        fresh = [digest for digest in dict.fromkeys(todo) if digest not in seen]
        seen.update(fresh)
        todo = []
        for digest, payload in zip(fresh, ctx.get_many(fresh), strict=True):
            yield digest, payload
            todo += references(payload)


def _read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = {"rows": [], "labels": {}, "objects": {}}
    running = blake3()
    for framed, parts in _frames(path):
        if parts[0] == "end":
            if parts[1] != running.digest():
                raise BadExport(f"{path} is damaged: its closing digest is another")
            if "header" not in content or not content["rows"]:
                raise BadExport(f"{path} holds no thread")
            return content
        running.update(framed)
        _take(content, parts, path)
    raise BadExport(f"{path} is cut short", hint="Export it again")


def _take(content: dict[str, Any], parts: list[Any], path: str) -> None:
    kind, *rest = parts
    if kind == "header" and rest[0] == _FORMAT:
        names = ("name", "uid", "agent", "user", "meta", "created_us", "head")
        header = dict(zip(names, rest[1:], strict=True))
        content["header"] = header | {"meta": canonical.decode(header["meta"])}
    elif kind == "row":
        content["rows"].append(rest)
    elif kind == "object":
        digest, payload = rest
        if blake3(payload).digest() != digest:
            raise BadExport(f"{path} holds an object that is not what it says")
        content["objects"][digest] = payload
    elif kind == "label":
        content["labels"][rest[0]] = rest[1]
    else:
        raise BadExport(f"{path} is no export of this format", hint="`takeback export` writes one")


def _frames(path: str) -> Iterator[tuple[bytes, list[Any]]]:
    import zstandard

    try:
        with open(path, "rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            while True:
                length = _exactly(stream, 4)
                size = int.from_bytes(length, "big")
                if size > _FRAME_MAX:
                    raise BadExport(f"{path} is damaged: a frame of {size:,} bytes")
                raw = _exactly(stream, size)
                parts = ormsgpack.unpackb(raw)
                if not isinstance(parts, list) or not parts:
                    raise BadExport(f"{path} is damaged: a frame that is no list")
                yield length + raw, parts
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from None
    except EOFError:
        return
    except (zstandard.ZstdError, ValueError, TypeError, KeyError) as error:
        raise BadExport(f"{path} is no export, or damaged: {error}") from None


def _exactly(stream: Any, size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _checkpoint(name: str, row: list[Any], path: str) -> Checkpoint:
    record, digest, mac = row
    if record_digest(record) != digest:
        raise BadExport(f"{path} holds a checkpoint that is not what it says")
    return read_record(name, record, digest, mac)


def _verify(rows: list[Checkpoint], header: dict[str, Any], objects: dict[bytes, bytes], path: str) -> None:
    """The chain from version 0 to the head, and every object that the states rest on."""
    previous = b""
    for version, row in enumerate(rows):
        if row.version != version or row.uid != header["uid"] or row.previous != previous:
            raise BadExport(f"{path}: the chain breaks", checkpoint=version)
        previous = row.digest
        _reachable(row, objects, path)
    if header["head"] != rows[-1].version:
        raise BadExport(f"{path} ends at version {rows[-1].version}, and should at {header['head']}")


def _reachable(row: Checkpoint, objects: dict[bytes, bytes], path: str) -> None:
    todo, seen = [row.state_root], set[bytes]()
    while todo:
        digest = todo.pop()
        if digest in seen:
            continue
        seen.add(digest)
        if digest not in objects:
            raise BadExport(f"{path} lacks an object of version {row.version}", checkpoint=row.version)
        todo += references(objects[digest])
