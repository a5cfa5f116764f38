"""How objects are stored: compressed where it pays, checked against their digest when they are read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from blake3 import blake3

from takeback.errors import CorruptObject
from takeback.model.ids import shown
from takeback.model.tree.nodes import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import zstandard

RAW, ZSTD = 0, 1
_SMALL = 96  # below this a frame's header eats what compression saves
_SMALL_NODE = 2048
_LEVEL = 1


class _PerThread(threading.local):
    """One compressor and decompressor per thread: one shared between threads crashes the process."""

    def __init__(self) -> None:
        import zstandard

        self.packer: zstandard.ZstdCompressor = zstandard.ZstdCompressor(
            level=_LEVEL, write_checksum=False, write_content_size=True
        )
        self.unpacker: zstandard.ZstdDecompressor = zstandard.ZstdDecompressor()
        self.frame_size = zstandard.frame_content_size
        self.error = zstandard.ZstdError


_local: _PerThread | None = None


def prepare() -> None:
    """Load the compressor now: when a store is opened, rather than in its first read."""
    _tools()


def pack(payload: bytes) -> tuple[int, bytes]:
    """(codec, stored bytes): compressed only where that is shorter. A small node is mostly digests."""
    if len(payload) >= _SMALL and (payload[0] != MARK or len(payload) >= _SMALL_NODE):
        packed = _tools().packer.compress(payload)
        if len(packed) < len(payload):
            return ZSTD, packed
    return RAW, payload


def unpack(digest: bytes, codec: int, size: int, data: bytes) -> bytes:
    """The payload; refuses bytes that do not have the digest they are stored under."""
    payload = _expanded(codec, size, data, lambda: f"object {shown(digest)}")
    if len(payload) != size or blake3(payload).digest() != digest:
        raise CorruptObject(f"object {shown(digest)} does not hold what it is stored under")
    return payload


def unpacked(codec: int, size: int, data: bytes) -> bytes:
    """Stored bytes that no digest names; whoever reads them checks them."""
    return _expanded(codec, size, data, lambda: "what a task wrote")


def _expanded(codec: int, size: int, data: bytes, name: Callable[[], str]) -> bytes:
    if codec != ZSTD:
        return data
    tools = _tools()
    try:
        # A forged frame may claim any size, and the library would make room for it first.
        if tools.frame_size(data) != size:
            raise CorruptObject(f"{name()} is not of the size that it is stored with")
        return tools.unpacker.decompress(data, max_output_size=size)
    except (tools.error, MemoryError) as error:  # a damaged header may ask for any size
        raise CorruptObject(f"{name()} cannot be unpacked: {error}") from None


def index_key(digest: bytes) -> int:
    """Eight bytes of a digest, as a signed integer: a small index. The whole digest is compared on a hit."""
    return int.from_bytes(digest[:8], "big", signed=True)


class ObjectCache:
    """The payloads read or written last, up to a number of bytes; shared by the threads of a handle."""

    def __init__(self, limit: int = 64 << 20) -> None:
        self._limit, self._held = limit, 0
        self._items: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: bytes) -> bytes | None:
        with self._lock:
            payload = self._items.get(digest)
            if payload is not None:
                self._items.move_to_end(digest)
            return payload

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._held = 0

    def put(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        with self._lock:
            for digest, payload in items:
                if digest not in self._items:
                    self._items[digest] = payload
                    self._held += len(payload)
            while self._held > self._limit:
                _, dropped = self._items.popitem(last=False)
                self._held -= len(dropped)


def _tools() -> _PerThread:
    global _local  # noqa: PLW0603 (made when first needed: zstandard is slow to import)
    if _local is None:
        _local = _PerThread()
    return _local
