"""The grammar of manifests: how their objects are written and read, and which names they may hold.

An object is the byte that no value begins with, a kind, and a body. Names and paths are bytes. What is
read here may come from anybody: a name that could lead out of the workspace is refused, wherever it
stands, before anything is done with it.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import msgspec
from blake3 import blake3

from takeback.errors import CorruptObject
from takeback.model.tree.nodes import MARK

Digest: TypeAlias = bytes
FORMAT = 1
FILE, LINK, DIR, CHUNKED = range(4)
"""Kinds of entries: contents in one object, a symbolic link, a directory, contents in several objects."""

_ROOT, _LEAF, _INDEX, BLOB, _CHUNKS, _GROUPS, _LEFT = range(16, 23)
_KINDS = range(16, 23)
_HEAD = {kind: bytes((MARK, kind)) for kind in _KINDS}
BLOB_HEAD = _HEAD[BLOB]
NAME_MAX = 255
_MODES = 0o7777
_DIGEST = 32
_NO_NAMES = frozenset({b"", b".", b".."})
_REMEMBERED = 2_048  # directories that were read last


class Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One name in a directory. `data` is the digest of its contents, or where a link leads."""

    name: bytes
    kind: int
    mode: int
    size: int
    data: bytes

    @property
    def is_dir(self) -> bool:
        return self.kind == DIR

    @property
    def is_file(self) -> bool:
        return self.kind in (FILE, CHUNKED)


class Child(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A part of a directory that is too large for one object: its last name, and where it is."""

    last: bytes
    digest: Digest


class Chunk(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A part of a large file."""

    digest: Digest
    size: int


class Root(msgspec.Struct, array_like=True, frozen=True):
    """A whole manifest: the top directory, names that are one file, and what was left out and why."""

    format: int
    tree: Digest
    groups: Digest = b""
    left: Digest = b""


class Left(msgspec.Struct, array_like=True, frozen=True, order=True):
    """Something that stood there and was not captured."""

    path: bytes
    why: str


_DECODERS: dict[int, Any] = {
    _ROOT: msgspec.msgpack.Decoder(Root),
    _LEAF: msgspec.msgpack.Decoder(list[Entry]),
    _INDEX: msgspec.msgpack.Decoder(list[Child]),
    _CHUNKS: msgspec.msgpack.Decoder(list[Chunk]),
    _GROUPS: msgspec.msgpack.Decoder(list[list[bytes]]),
    _LEFT: msgspec.msgpack.Decoder(list[Left]),
}
_encode = msgspec.msgpack.Encoder().encode


def owns(payload: bytes) -> bool:
    """Whether an object belongs to a manifest."""
    return len(payload) > 1 and payload[0] == MARK and payload[1] in _KINDS


def digest(payload: bytes) -> Digest:
    return blake3(payload).digest()


def blob(content: bytes) -> bytes:
    """A file's contents as an object: never taken for a node, whatever it holds."""
    return BLOB_HEAD + content


def content(payload: bytes) -> memoryview:
    if payload[:2] != BLOB_HEAD:
        raise CorruptObject("an object that holds no file's contents")
    return memoryview(payload)[2:]


def root_node(root: Root) -> bytes:
    return _HEAD[_ROOT] + _encode(root)


def leaf_node(entries: list[Entry]) -> bytes:
    return _HEAD[_LEAF] + _encode(entries)


def index_node(children: list[Child]) -> bytes:
    return _HEAD[_INDEX] + _encode(children)


def chunks_node(chunks: list[Chunk]) -> bytes:
    return _HEAD[_CHUNKS] + _encode(chunks)


def groups_node(groups: list[list[bytes]]) -> bytes:
    return _HEAD[_GROUPS] + _encode(groups)


def left_node(left: list[Left]) -> bytes:
    return _HEAD[_LEFT] + _encode(left)


EMPTY = digest(leaf_node([]))
"""The digest of an empty directory."""


def read_root(payload: bytes) -> Root:
    root: Root = _body(payload, _ROOT)
    if root.format != FORMAT:
        raise CorruptObject(f"a manifest of format {root.format}; this build reads format {FORMAT}")
    for each in (root.tree, root.groups or root.tree, root.left or root.tree):
        _check_digest(each)
    return root


@functools.lru_cache(_REMEMBERED)
def read_directory(payload: bytes) -> list[Entry] | list[Child]:
    """A directory's entries, or the parts that it stands in; not to be changed, since they are remembered."""
    if payload[1:2] == _HEAD[_INDEX][1:]:
        children: list[Child] = _body(payload, _INDEX)
        if not children:
            raise CorruptObject("a directory in no parts")
        _check_names([child.last for child in children])
        for child in children:
            _check_digest(child.digest)
        return children
    entries: list[Entry] = _body(payload, _LEAF)
    _check_names([entry.name for entry in entries])
    for entry in entries:
        if entry.kind or len(entry.data) != _DIGEST or not 0 <= entry.mode <= _MODES or entry.size < 0:
            _check_entry(entry)  # most are files with nothing wrong
    return entries


def read_chunks(payload: bytes) -> list[Chunk]:
    chunks: list[Chunk] = _body(payload, _CHUNKS)
    for chunk in chunks:
        _check_digest(chunk.digest)
        if chunk.size < 0:
            raise CorruptObject("a part of a file with a negative size")
    return chunks


def read_groups(payload: bytes) -> list[list[bytes]]:
    groups: list[list[bytes]] = _body(payload, _GROUPS)
    for path in (path for group in groups for path in group):
        check_path(path)
    if len({path for group in groups for path in group}) != sum(map(len, groups)):
        raise CorruptObject("a name that is two files")
    return groups


def read_left(payload: bytes) -> list[Left]:
    found: list[Left] = _body(payload, _LEFT)
    for each in found:
        check_path(each.path)
    return found


def references(payload: bytes) -> list[Digest]:
    """The objects that an object of a manifest names; all that it says is checked on the way."""
    kind = payload[1]
    if kind == BLOB:
        return []
    if kind == _ROOT:
        root = read_root(payload)
        return [each for each in (root.tree, root.groups, root.left) if each]
    if kind in (_LEAF, _INDEX):
        found = read_directory(payload)
        return [e.digest if isinstance(e, Child) else e.data for e in found if not _is_link(e)]
    if kind == _CHUNKS:
        return [chunk.digest for chunk in read_chunks(payload)]
    if kind == _GROUPS:
        read_groups(payload)
    else:
        read_left(payload)
    return []


def check_path(path: bytes) -> bytes:
    """A path below the root of a workspace, or `CorruptObject`."""
    for name in path.split(b"/"):
        _check_name(name)
    return path


def shown(path: bytes) -> str:
    """A path for people: never more than one line, and nothing that a terminal would obey."""
    text = path.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else repr(text)[1:-1]


def _is_link(entry: Entry | Child) -> bool:
    return isinstance(entry, Entry) and entry.kind == LINK


def _body(payload: bytes, kind: int) -> Any:
    if payload[:2] != _HEAD[kind]:
        raise CorruptObject("an object of a manifest that is of another kind than it should be")
    try:
        return _DECODERS[kind].decode(memoryview(payload)[2:])
    except msgspec.MsgspecError as error:
        raise CorruptObject(f"an object of a manifest that cannot be read: {error}") from None


def _check_names(names: list[bytes]) -> None:
    """Names that are names, each once, in order: what is looked up by halving must be sorted."""
    joined = b"/".join(names)
    if names and (
        joined.count(b"/") != len(names) - 1
        or b"\0" in joined
        or not _NO_NAMES.isdisjoint(names)
        or max(map(len, names)) > NAME_MAX
    ):
        for name in names:
            _check_name(name)
    if sorted(set(names)) != names:
        raise CorruptObject("a directory whose names are not in order, or are there twice")


def _check_name(name: bytes) -> None:
    if not name or len(name) > NAME_MAX or b"/" in name or b"\0" in name or name in (b".", b".."):
        raise CorruptObject(
            f"a manifest holds {shown(name[:80])!r}, which is no name in a directory",
            hint="Nothing was written; whoever made this store may mean harm",
        )


def _check_entry(entry: Entry) -> None:
    if entry.kind == LINK:
        if not entry.data or b"\0" in entry.data or len(entry.data) > 4095:
            raise CorruptObject(f"the link {shown(entry.name)!r} leads nowhere")
    elif entry.kind in (FILE, DIR, CHUNKED):
        _check_digest(entry.data)
    else:
        raise CorruptObject(f"{shown(entry.name)!r} is of kind {entry.kind}, which this build does not know")
    if not 0 <= entry.mode <= _MODES or entry.size < 0:
        raise CorruptObject(f"{shown(entry.name)!r} has a mode or size that no file has")


def _check_digest(found: bytes) -> None:
    if len(found) != _DIGEST:
        raise CorruptObject("an object of a manifest names another by no digest")
