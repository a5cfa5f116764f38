"""The next manifest from the last: some paths are put or taken away, the rest is not even read.

A directory of up to 64 names is one object. A larger one is cut after names whose hash ends in zero
bits, so that its parts depend on its names alone, and one more name changes one part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import msgspec
from xxhash import xxh3_64_intdigest

from takeback.model.manifest import nodes
from takeback.model.manifest.nodes import Child, Digest, Entry, Left, Root
from takeback.model.manifest.read import entries, find_in, join, leaf_entries, leaves
from takeback.model.tree.nodes import Writer

ONE_NODE = 64  # names; format 1
_BITS = 5  # a part of a large directory has 32 names, an index 32 parts
_FEW = 8  # parts; with so few, a directory is made anew from all its names

_replace = msgspec.structs.replace


def make_root(tree: Digest, groups: list[list[bytes]], left: list[Left], writer: Writer) -> Digest:
    """A manifest from its parts."""
    grouped = writer.put(nodes.groups_node(sorted(groups))) if groups else b""
    out = writer.put(nodes.left_node(sorted(left))) if left else b""
    return writer.put(nodes.root_node(Root(nodes.FORMAT, tree, grouped, out)))


def edited(tree: Digest, changes: Mapping[bytes, Entry | None], writer: Writer) -> Digest:
    """The top directory with entries put, or (None) taken away with all below them.

    A directory is put with `data` empty: what it held stays. Whatever stood in the way of a path that is
    put must be among the changes, and so must directories that are new.
    """
    by_parent: dict[bytes, dict[bytes, Entry | None]] = defaultdict(dict)
    for path, entry in changes.items():
        parent, _, name = path.rpartition(b"/")
        by_parent[parent][name] = entry
    touched = {parent for path in by_parent for parent in [*_above(path), path]}
    order = sorted(touched, key=lambda path: (path.count(b"/") + bool(path), path))
    old = _standing(tree, order, changes, writer)
    for path in reversed(order):
        if path not in old:
            continue  # it is gone, and all below it
        made = _directory(old[path], by_parent.get(path, {}), writer)
        if not path:
            return made
        parent, _, name = path.rpartition(b"/")
        own = by_parent[parent].get(name)
        if own is None:
            own = find_in(old[parent], name, writer)
        assert own is not None
        by_parent[parent][name] = _replace(own, data=made)
    return tree


def _above(path: bytes) -> list[bytes]:
    """The directories above a path, the top one included."""
    found, at = [b""], path.find(b"/")
    while path and at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found


def _standing(
    tree: Digest, order: list[bytes], changes: Mapping[bytes, Entry | None], writer: Writer
) -> dict[bytes, Digest]:
    """What each directory that is touched held before; those that are taken away are left out."""
    old = {b"": tree}
    for path in order[1:]:
        parent, _, name = path.rpartition(b"/")
        if parent not in old:
            continue
        said = changes.get(path, ...)
        if said is None or (isinstance(said, Entry) and not said.is_dir):
            continue
        there = find_in(old[parent], name, writer)
        if there is not None and there.is_dir:
            old[path] = there.data
        elif isinstance(said, Entry):
            old[path] = nodes.EMPTY
    return old


def _directory(digest: Digest, changes: Mapping[bytes, Entry | None], writer: Writer) -> Digest:
    """A directory with entries put and taken away."""
    if not changes:
        return digest if digest != nodes.EMPTY else writer.put(nodes.leaf_node([]))
    settled = {name: _settled(digest, entry, writer) for name, entry in changes.items()}
    parts = leaves(digest, writer) if digest != nodes.EMPTY else []
    if len(parts) <= _FEW:
        held = {entry.name: entry for entry in entries(digest, writer)}
        return _written(_merged(held, settled), writer)
    return _in_parts(parts, settled, writer)


def _settled(digest: Digest, entry: Entry | None, writer: Writer) -> Entry | None:
    """A directory that was put without saying what it holds keeps what it held."""
    if entry is None or not entry.is_dir or entry.data:
        return entry
    there = find_in(digest, entry.name, writer)
    if there is not None and there.is_dir:
        return _replace(entry, data=there.data)
    return _replace(entry, data=writer.put(nodes.leaf_node([])))


def _merged(held: dict[bytes, Entry], changes: Mapping[bytes, Entry | None]) -> list[Entry]:
    for name, entry in changes.items():
        if entry is None:
            held.pop(name, None)
        else:
            held[name] = entry
    return [held[name] for name in sorted(held)]


def _written(found: list[Entry], writer: Writer) -> Digest:
    if len(found) <= ONE_NODE:
        return writer.put(nodes.leaf_node(found))
    return _indexed([_leaf(part, writer) for part in _cut(found)], writer)


def _in_parts(parts: list[Child], changes: Mapping[bytes, Entry | None], writer: Writer) -> Digest:
    """Of a large directory only those parts are made anew whose names change."""
    lasts = [part.last for part in parts]
    by_part: dict[int, dict[bytes, Entry | None]] = defaultdict(dict)
    for name, entry in changes.items():
        by_part[min(bisect_left(lasts, name), len(parts) - 1)][name] = entry
    made: list[Child] = []
    carried: list[Entry] = []  # of a part whose last name is gone: they belong to the next
    for place, part in enumerate(parts):
        if place not in by_part and not carried:
            made.append(part)
            continue
        held = {entry.name: entry for entry in leaf_entries(part.digest, writer)}
        cut = _cut(carried + _merged(held, by_part.get(place, {})))
        carried = []
        if cut and place < len(parts) - 1 and not _ends(cut[-1][-1].name):
            carried = cut.pop()
        made += [_leaf(each, writer) for each in cut]
    return _indexed(made, writer)


def _cut(found: list[Entry]) -> list[list[Entry]]:
    ends = [0, *(place + 1 for place, entry in enumerate(found) if _ends(entry.name)), len(found)]
    return [found[low:high] for low, high in pairwise(ends) if low < high]


def _ends(name: bytes, level: int = 0) -> bool:
    """Whether a part (or at a higher level, a run of parts) ends after this name."""
    return (xxh3_64_intdigest(name) >> (level * _BITS)) & ((1 << _BITS) - 1) == 0


def _leaf(part: list[Entry], writer: Writer) -> Child:
    return Child(part[-1].name, writer.put(nodes.leaf_node(part)))


def _indexed(children: list[Child], writer: Writer) -> Digest:
    """The parts of a directory below one object, by as many levels as it takes."""
    level = 1
    while len(children) > ONE_NODE:
        runs: list[list[Child]] = [[]]
        for child in children:
            runs[-1].append(child)
            if _ends(child.last, level):
                runs.append([])
        made = [Child(run[-1].last, writer.put(nodes.index_node(run))) for run in runs if run]
        if len(made) == len(children):
            break
        children, level = made, level + 1
    if len(children) == 1:
        return children[0].digest
    return writer.put(nodes.index_node(children) if children else nodes.leaf_node([]))


def paths_below(tree: Digest, path: bytes, writer: Writer) -> list[bytes]:
    """Every path below a directory of the manifest."""
    from takeback.model.manifest.read import find, walk

    entry = find(tree, path, writer) if path else None
    if path and (entry is None or not entry.is_dir):
        return []
    return [each for each, _ in walk(entry.data if entry else tree, writer, path)]


__all__ = ["ONE_NODE", "edited", "join", "make_root", "paths_below"]
