"""A file's contents as objects: read so that what is kept is what stood there at one moment, or refused."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from takeback.errors import MissingExtra
from takeback.model.manifest import nodes
from takeback.model.manifest.nodes import Chunk, Entry
from takeback.model.tree.nodes import Source, Writer
from takeback.workspace.tree import Tree

Key: TypeAlias = tuple[int, int, int, int]
"""What an unchanged file keeps: mtime_ns, ctime_ns, size, inode."""

UNKNOWN: Key = (-1, -1, -1, -1)
"""No file's: what is captured and may change without a sign is looked at again."""
LARGE = 1 << 20
"""Above it a file is cut where its content says, so that one change in it writes little. Format 1."""
_CUT = {"avg_size": 64 << 10, "min_size": 16 << 10, "max_size": 256 << 10}
_TRIES = 5
_GRAIN_NS = 30_000_000  # clocks of file systems go on in steps of up to 10 ms
_COARSE_NS = 2_100_000_000  # and where they keep whole seconds, of up to 2 s
_MOMENT = 0.002


class Unsettled(Exception):
    """A file that cannot be kept now: it changes while it is read, or cannot be read at all."""


class Store(Writer):
    """Collects a capture's objects, and writes them out ahead when they become many: a tree may be larger
    than the memory."""

    __slots__ = ("_flush", "_held", "_limit", "flushed")

    def __init__(
        self,
        source: Source,
        flush: Callable[[dict[bytes, bytes]], None] | None = None,
        limit: int = 32 << 20,
    ) -> None:
        super().__init__(source)
        self._flush, self._held, self._limit = flush, 0, limit
        self.flushed: set[bytes] = set()

    def put(self, payload: bytes) -> bytes:
        digest = nodes.digest(payload)
        if digest in self.known or digest in self.new or digest in self.flushed:
            return digest
        self.new[digest] = payload
        self._held += len(payload)
        if self._flush is not None and self._held > self._limit:
            self._flush(self.new)
            self.flushed |= self.new.keys()
            self.new = {}
            self._held = 0
        return digest


def key_of(found: os.stat_result) -> Key:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def racy(key: Key, now_ns: int) -> bool:
    """Whether a write just after could leave the same times: then the key says nothing, and is not kept."""
    newest = max(key[0], key[1])
    coarse = key[0] % 1_000_000_000 == 0 and key[1] % 1_000_000_000 == 0
    return newest + (_COARSE_NS if coarse else _GRAIN_NS) > now_ns


def read_file(tree: Tree, path: bytes, store: Writer) -> tuple[Entry, Key, os.stat_result]:
    """A regular file as an entry, with the key under which it is known again; `Unsettled` if it cannot be."""
    name = path.rpartition(b"/")[2]
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_MOMENT * attempt)
        fd = tree.open_file(path)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise Unsettled("became something else while it was looked at")
            made = _large(fd, before, store) if before.st_size > LARGE else _small(fd, before, store)
            after = os.fstat(fd)
        finally:
            os.close(fd)
        if made is not None and key_of(before) == key_of(after):
            kind, size, digest = made
            key = key_of(after)
            kept = UNKNOWN if racy(key, time.time_ns()) else key
            return Entry(name, kind, after.st_mode & 0o777, size, digest), kept, after
    raise Unsettled("kept changing while it was read")


def _small(fd: int, found: os.stat_result, store: Writer) -> tuple[int, int, bytes] | None:
    data = _all(fd, found.st_size)
    if len(data) != found.st_size:
        return None
    # Two writes within one tick of the clock look like one: a second look tells them apart.
    if racy(key_of(found), time.time_ns()) and data:
        os.lseek(fd, 0, os.SEEK_SET)
        if _all(fd, found.st_size) != data:
            return None
    return nodes.FILE, len(data), store.put(nodes.blob(data))


def _all(fd: int, size: int) -> bytes:
    """The whole file: one byte more is asked for, so that one that grew shows."""
    data = os.read(fd, size + 1)
    if len(data) in (size, size + 1):
        return data
    parts = [data]
    while part := os.read(fd, 1 << 20):
        parts.append(part)
        if sum(map(len, parts)) > size:
            break
    return b"".join(parts)


def _large(fd: int, found: os.stat_result, store: Writer) -> tuple[int, int, bytes] | None:
    chunks: list[Chunk] = []
    with os.fdopen(os.dup(fd), "rb", buffering=0) as stream:
        stream.seek(0)
        for cut in _cutter().cut_stream(stream):
            payload = nodes.blob(bytes(cut.data))
            chunks.append(Chunk(store.put(payload), cut.length))
    size = sum(chunk.size for chunk in chunks)
    if size != found.st_size:
        return None
    return nodes.CHUNKED, size, store.put(nodes.chunks_node(chunks))


def _cutter() -> Any:
    try:
        from pyfastcdc import FastCDC
    except ImportError:
        raise MissingExtra(
            "files above 1 MiB are cut by their content, which needs the pyfastcdc package",
            hint="pip install 'takeback[workspace]'",
        ) from None
    return FastCDC(**_CUT)  # type: ignore[arg-type]  # a table of integers, as it takes them
