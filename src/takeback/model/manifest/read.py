"""Looking into a manifest: one path, one directory, all of it, or only what differs between two."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from takeback.errors import CorruptObject
from takeback.model.manifest import nodes
from takeback.model.manifest.nodes import Child, Digest, Entry, Left, Root
from takeback.model.tree.nodes import Getter


class Difference(msgspec.Struct, frozen=True, order=True):
    """A path whose entry is another; a side where nothing stands is None."""

    path: bytes
    before: Entry | None
    after: Entry | None


def root_of(digest: Digest, source: Getter) -> Root:
    return nodes.read_root(source.get(digest))


def groups_of(root: Root, source: Getter) -> list[list[bytes]]:
    """Names that are one file."""
    return nodes.read_groups(source.get(root.groups)) if root.groups else []


def left_of(root: Root, source: Getter) -> list[Left]:
    """What stood there and was not captured."""
    return nodes.read_left(source.get(root.left)) if root.left else []


def entries(digest: Digest, source: Getter) -> list[Entry]:
    """All entries of a directory, by name."""
    found = nodes.read_directory(source.get(digest)) if digest != nodes.EMPTY else []
    if found and isinstance(found[0], Child):
        return [entry for leaf in leaves(digest, source) for entry in leaf_entries(leaf.digest, source)]
    return found  # type: ignore[return-value]  # a list of children was just told apart


def leaves(digest: Digest, source: Getter) -> list[Child]:
    """The parts of a directory that hold entries, below as many levels of index as there are."""
    found = nodes.read_directory(source.get(digest))
    if not found or isinstance(found[0], Entry):
        return [Child(b"", digest)]  # alone, it is asked for whatever the name
    level: list[Child] = found  # told apart above
    for _ in range(16):
        below = [nodes.read_directory(payload) for payload in source.get_many([c.digest for c in level])]
        if all(not part or isinstance(part[0], Entry) for part in below):
            return level
        if not all(part and isinstance(part[0], Child) for part in below):
            break
        level = [child for part in below for child in part]  # type: ignore[misc]  # all are children
    raise CorruptObject("a directory whose parts are not of one level")


def leaf_entries(digest: Digest, source: Getter) -> list[Entry]:
    found = nodes.read_directory(source.get(digest))
    if found and isinstance(found[0], Child):
        raise CorruptObject("a directory whose parts are not of one level")
    return found  # type: ignore[return-value]  # told apart above


def find_in(digest: Digest, name: bytes, source: Getter) -> Entry | None:
    """The entry of this name in a directory; of a large one, only the part that may hold it is read."""
    if digest == nodes.EMPTY:
        return None
    found = nodes.read_directory(source.get(digest))
    while found and isinstance(found[0], Child):
        place = bisect_left(found, name, key=lambda child: child.last)
        if place == len(found):
            return None
        found = nodes.read_directory(source.get(found[place].digest))
    place = bisect_left(found, name, key=lambda entry: entry.name)
    if place < len(found) and found[place].name == name:  # type: ignore[union-attr]  # an entry
        return found[place]  # type: ignore[return-value]  # an entry
    return None


def find(tree: Digest, path: bytes, source: Getter) -> Entry | None:
    """The entry at a path below a directory."""
    *above, last = path.split(b"/")
    for name in above:
        entry = find_in(tree, name, source)
        if entry is None or not entry.is_dir:
            return None
        tree = entry.data
    return find_in(tree, last, source)


def walk(tree: Digest, source: Getter, at: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Every entry below a directory with its path, a directory before what is in it."""
    todo = [(at, tree)]
    while todo:
        at, tree = todo.pop()
        below = []
        for entry in entries(tree, source):
            path = join(at, entry.name)
            yield path, entry
            if entry.is_dir:
                below.append((path, entry.data))
        todo += reversed(below)


def differing(one: Digest, two: Digest, source: Getter, at: bytes = b"") -> list[Difference]:
    """What leads from one directory to another, by path; equal parts are passed over by their digests."""
    found: list[Difference] = []
    level = [(at, one, two)]
    while level:
        below: list[tuple[bytes, Digest, Digest]] = []
        source.get_many([each for _, a, b in level for each in (a, b) if each != nodes.EMPTY])
        for path, a, b in level:
            _compare(path, a, b, source, found, below)
        level = below
    return sorted(found, key=lambda each: each.path)


def _compare(
    at: bytes,
    one: Digest,
    two: Digest,
    source: Getter,
    found: list[Difference],
    below: list[tuple[bytes, Digest, Digest]],
) -> None:
    before, after = _unshared(one, two, source)
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        path = join(at, name)
        old_dir, new_dir = old is not None and old.is_dir, new is not None and new.is_dir
        if not (old_dir and new_dir and old.mode == new.mode):  # type: ignore[union-attr]  # both are there
            found.append(Difference(path, old, new))
        if old_dir or new_dir:
            below.append((path, old.data if old_dir else nodes.EMPTY, new.data if new_dir else nodes.EMPTY))  # type: ignore[union-attr]  # where it is a directory, it is there


def _unshared(one: Digest, two: Digest, source: Getter) -> tuple[dict[bytes, Entry], dict[bytes, Entry]]:
    """The entries of two directories, less those parts that both share."""
    if nodes.EMPTY in (one, two):
        return _named(entries(one, source)), _named(entries(two, source))
    first, second = leaves(one, source), leaves(two, source)
    shared = {leaf.digest for leaf in first} & {leaf.digest for leaf in second}
    sides = []
    for side in (first, second):
        own = [leaf.digest for leaf in side if leaf.digest not in shared]
        sides.append(_named([entry for leaf in own for entry in leaf_entries(leaf, source)]))
    return sides[0], sides[1]


def _named(found: list[Entry]) -> dict[bytes, Entry]:
    return {entry.name: entry for entry in found}


def contents(entry: Entry, source: Getter) -> bytes:
    """A file's contents, whole."""
    return b"".join(parts(entry, source))


def parts(entry: Entry, source: Getter) -> Iterator[memoryview]:
    """A file's contents, a part at a time; they must come to the size that the entry says."""
    size = 0
    for digest in part_digests(entry, source):
        part = nodes.content(source.get(digest))
        size += len(part)
        if size > entry.size:
            break
        yield part
    if size != entry.size:
        raise CorruptObject(f"the contents of {nodes.shown(entry.name)!r} are not of the recorded size")


def part_digests(entry: Entry, source: Getter) -> list[Digest]:
    """The objects that hold a file's contents."""
    if entry.kind == nodes.FILE:
        return [entry.data]
    return [chunk.digest for chunk in nodes.read_chunks(source.get(entry.data))]


def join(at: bytes, name: bytes) -> bytes:
    return at + b"/" + name if at else name
