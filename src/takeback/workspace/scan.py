"""The sweep: which paths of a tree may have changed since an index of it was made.

The index holds what `lstat` said of every path when it was captured. What says the same now is the same;
all else is looked at. Losing the index costs a look at every file, nothing more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from takeback.workspace.content import Key, key_of
from takeback.workspace.ignore import OWN, RULE_FILES, Ignore, Rules
from takeback.workspace.tree import Tree

Inode: TypeAlias = tuple[int, int]
_RULE_NAMES = frozenset(map(os.fsdecode, RULE_FILES))
_OWN_NAME = os.fsdecode(OWN)


class Index(msgspec.Struct):
    """What `lstat` said of a workspace's paths when `root` was captured. Directories and names are text."""

    root: bytes = b""
    rules: bytes = b""  # digest of the rules by which names were left out
    rule_files: list[bytes] = []
    dirs: dict[str, dict[str, Key]] = {}
    left: dict[str, dict[str, str]] = {}

    def put(self, path: bytes, key: Key) -> None:
        """What a path was captured with."""
        parent, _, name = os.fsdecode(path).rpartition("/")
        self.dirs.setdefault(parent, {})[name] = key

    def drop(self, path: bytes) -> None:
        """A path that is gone, and all below it: what comes there again is new, however old its times are."""
        text = os.fsdecode(path)
        parent, _, name = text.rpartition("/")
        self.dirs.get(parent, _NOTHING).pop(name, None)
        if text not in self.dirs and text not in self.left:
            return
        below = text + "/"
        self.dirs = {d: held for d, held in self.dirs.items() if d != text and not d.startswith(below)}
        self.left = {d: held for d, held in self.left.items() if d != text and not d.startswith(below)}


class Swept(msgspec.Struct):
    """What a sweep found: paths to look at, paths that are gone, what is left out, names of one file."""

    suspects: list[bytes] = []
    gone: list[bytes] = []
    left: dict[bytes, str] = {}
    linked: dict[Inode, list[bytes]] = {}
    names: dict[Inode, int] = {}  # of those: how many names each has, also outside
    looked: int = 0


def read_rules(tree: Tree, paths: list[bytes]) -> dict[bytes, bytes]:
    """The files with patterns that are known, as they are now."""
    return {path: _text(tree, path) for path in paths if tree.lstat(path) is not None}


def rule_files(tree: Tree, rules: Rules) -> dict[bytes, bytes]:
    """Every file with patterns below the root, outside of what those above it leave out."""
    found: dict[bytes, bytes] = {}
    todo = [b""]
    ignore = Ignore(rules, found)
    while todo:
        at = todo.pop()
        below, here = [], {}
        for entry in _entries(tree, at):
            if entry.name in _RULE_NAMES and entry.is_file(follow_symlinks=False):
                path = _join(at, os.fsencode(entry.name))
                here[path] = _text(tree, path)
            elif entry.is_dir(follow_symlinks=False):
                below.append(_join(at, os.fsencode(entry.name)))
        if here:
            found |= here
            ignore = Ignore(rules, found)
        todo += [path for path in below if ignore.why_here(path, is_dir=True) is None]
    return found


def _text(tree: Tree, path: bytes) -> bytes:
    try:
        fd = tree.open_file(path)
    except OSError:
        return b""  # it is named as unreadable when it is captured itself
    with os.fdopen(fd, "rb") as file:
        return file.read(1 << 20)


def _entries(tree: Tree, at: bytes) -> Iterator[os.DirEntry[str]]:
    try:
        with tree.listing(at) as found:
            yield from found
    except OSError:
        return  # named when it is captured


def sweep(tree: Tree, ignore: Ignore, index: Index, at: str = "", *, recheck: bool = False) -> Swept:
    """Look at every path below a directory with `lstat` alone. `recheck`: the rules are others now."""
    swept = Swept()
    todo = [at]
    while todo:
        here = todo.pop()
        prefix = here + "/" if here else ""
        try:
            with tree.listing(os.fsencode(here)) as found:
                _directory(found, prefix, here, ignore, index, swept, todo, recheck=recheck)
        except OSError as error:
            swept.left[os.fsencode(here)] = f"cannot be read: {error.strerror}"
    return swept


def _directory(
    found: Iterator[os.DirEntry[str]],
    prefix: str,
    here: str,
    ignore: Ignore,
    index: Index,
    swept: Swept,
    todo: list[str],
    *,
    recheck: bool,
) -> None:
    known = index.dirs.get(here, _NOTHING)
    out = _NOWHERE if recheck else index.left.get(here, _NOWHERE)
    seen = set()
    for entry in found:
        name = entry.name
        was = known.get(name)
        is_dir = entry.is_dir(follow_symlinks=False)
        if was is None or recheck:
            path = os.fsencode(prefix + name)
            why = out.get(name) or ignore.why_here(path, is_dir=is_dir)
            if why is not None:
                swept.left[path] = why
                continue
        try:
            st = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone between the listing and the look
        seen.add(name)
        key = (st.st_mode, 0, 0, st.st_ino) if is_dir else key_of(st)
        if key != was:
            swept.suspects.append(os.fsencode(prefix + name))
        if is_dir:
            todo.append(prefix + name)
        elif st.st_nlink > 1 and stat.S_ISREG(st.st_mode):
            swept.linked.setdefault((st.st_dev, st.st_ino), []).append(os.fsencode(prefix + name))
            swept.names[st.st_dev, st.st_ino] = st.st_nlink
    swept.looked += len(seen)
    if len(seen) < len(known) or known.keys() - seen:
        swept.gone += [os.fsencode(prefix + name) for name in known.keys() - seen]


def directory_key(found: os.stat_result) -> Key:
    return found.st_mode, 0, 0, found.st_ino


def _join(at: bytes, name: bytes) -> bytes:
    return at + b"/" + name if at else name


_NOTHING: dict[str, Key] = {}
_NOWHERE: dict[str, str] = {}
