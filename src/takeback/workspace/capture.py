"""Capturing: the next manifest of a directory from the last one and the paths that may have changed.

Hints say where to look; what is kept is what `lstat` and the contents say. What is not captured is named.
"""

from __future__ import annotations

import os
import stat

import msgspec

from takeback.errors import CorruptObject
from takeback.model.manifest import edit, nodes, read
from takeback.model.manifest.nodes import Entry, Left, Root
from takeback.model.tree.nodes import Writer
from takeback.workspace.content import UNKNOWN, Key, Unsettled, key_of, racy, read_file
from takeback.workspace.ignore import Ignore
from takeback.workspace.scan import Index, Inode, directory_key, sweep
from takeback.workspace.tree import GONE, Tree, is_link_error, special

_NOTHING = Root(nodes.FORMAT, nodes.EMPTY)


class Captured(msgspec.Struct):
    """A directory as it was found: its manifest, the entries that changed, and what is remembered of it."""

    root: bytes
    tier: str
    changes: dict[bytes, Entry | None]
    left: list[Left]
    keys: dict[bytes, Key]
    gone: list[bytes]
    swept: bool = False
    short: dict[Inode, int] = {}
    """Files with more names than were met here, and how many they have."""

    def remember(self, index: Index) -> None:
        """Bring the index to this manifest."""
        for path in self.gone:
            index.drop(path)
        for path, key in self.keys.items():
            index.put(path, key)
        if self.swept:
            index.left.clear()
            for each in self.left:
                parent, _, name = os.fsdecode(each.path).rpartition("/")
                index.left.setdefault(parent, {})[name] = each.why
        index.root = self.root


class Capture:
    """One capture: what it has looked at so far."""

    def __init__(self, tree: Tree, ignore: Ignore, base: bytes | None, store: Writer) -> None:
        self.tree, self.ignore, self.store = tree, ignore, store
        self.base = _NOTHING if base is None else read.root_of(base, store)
        self.base_digest = base
        self.changes: dict[bytes, Entry | None] = {}
        self.keys: dict[bytes, Key] = {}
        self.gone: list[bytes] = []
        self.linked: dict[Inode, set[bytes]] = {}
        self.names: dict[Inode, int] = {}
        self.left: dict[bytes, str] = {}
        self.looked: set[bytes] = set()
        self._dirs: dict[bytes, dict[bytes, Entry]] = {}

    # --- what is asked for

    def everything(self, index: Index, tier: str = "sweep", *, recheck: bool = False) -> Captured:
        """By a sweep: everything that the index does not know as it is."""
        if index.root and index.root != self.base_digest:
            self._against(index)
        found = sweep(self.tree, self.ignore, index, recheck=recheck)
        self.left = dict(found.left)
        for path in found.gone:
            self._look(path)
        for path in found.suspects:
            self._look(path)
        if not index.dirs:
            self._removed()
        self.linked = {inode: set(paths) for inode, paths in found.linked.items()}
        self.names = found.names
        groups = self._groups({p for paths in self.linked.values() for p in paths})
        return self._made(groups, tier, swept=True)

    def these(self, paths: set[bytes], tier: str, left: list[Left] | None = None) -> Captured:
        """Only these paths; one that ends with a slash stands for all below it too. `left` is what the last
        look left out, where the manifest does not say it yet."""
        old = read.groups_of(self.base, self.store)
        known = read.left_of(self.base, self.store) if left is None else left
        self.left = {each.path: each.why for each in known}
        for path in sorted(paths):
            self._named(path)
        # What was written through one name of a file is told of that name alone.
        beside = {path for group in old if not self.looked.isdisjoint(group) for path in group}
        for path in sorted(beside - self.looked):
            self._named(path)
        kept = [[p for p in group if self._holds(p)] for group in old if self.looked.isdisjoint(group)]
        groups = [*(group for group in kept if len(group) > 1), *self._groups(self.looked)]
        return self._made(sorted(groups), tier, swept=False)

    def _against(self, index: Index) -> None:
        """The index is of another manifest than the one that is gone on from: what differs is looked at."""
        try:
            # Not through the store: what only the index rests on may go, and is not to be relied on.
            other = read.root_of(index.root, self.store.source)
            for each in read.differing(other.tree, self.base.tree, self.store.source):
                index.put(each.path, UNKNOWN)
        except CorruptObject:  # it was never committed, or is gone: then nothing is known
            index.dirs.clear()

    def _removed(self) -> None:
        """Without an index, what the manifest holds and the sweep has not met is gone."""
        if self.base.tree != nodes.EMPTY:
            for path, _ in read.walk(self.base.tree, self.store):
                if path not in self.looked:
                    self._look(path)

    # --- looking

    def _named(self, path: bytes) -> None:
        deep = path.endswith(b"/")
        path = path.rstrip(b"/")
        for each in [p for p in self.left if p == path or p.startswith(path + b"/")]:
            del self.left[each]
        known = self.base_entry(path) if path else None
        if path and not self._stands_in_directories(path):
            return
        if path:
            self._look(path)
        now = self.changes.get(path, known)
        if not path or (now is not None and now.is_dir and (deep or known is None or not known.is_dir)):
            self._below(path)

    def _stands_in_directories(self, path: bytes) -> bool:
        """What is above a path may itself have changed: then that is what is looked at."""
        at = path.find(b"/")
        while at >= 0:
            above = path[:at]
            entry = self.changes.get(above, ...)
            if entry is ...:
                entry = self.base_entry(above)
            if entry is None or not entry.is_dir:
                if above not in self.looked:
                    self._named(above + b"/")
                return False
            at = path.find(b"/", at + 1)
        return True

    def _below(self, path: bytes) -> None:
        """Every path below a directory, on the disk and in the manifest."""
        found = sweep(self.tree, self.ignore, Index(), os.fsdecode(path))
        self.left |= found.left
        for each in found.suspects:
            self._look(each)
        entry = self.base_entry(path) if path else None
        below = entry.data if entry is not None and entry.is_dir else self.base.tree if not path else None
        if below is not None and below != nodes.EMPTY:
            for each, _ in read.walk(below, self.store, path):
                if each not in self.looked:
                    self._look(each)

    def _look(self, path: bytes) -> None:
        """What stands at a path now, as an entry; a change if it is another than it was."""
        self.looked.add(path)
        try:
            found = self.tree.lstat(path)
            entry = None if found is None else self._entry(path, found)
        except Unsettled as why:
            self._keep(path, str(why))
            return
        except OSError as error:
            if isinstance(error, GONE) or is_link_error(error):
                entry = None
            else:
                self._keep(path, f"cannot be read: {error.strerror}")
                return
        was = self.base_entry(path)
        if entry is None or (was is not None and was.is_dir and not entry.is_dir):
            self.gone.append(path)
        if was == entry or (was is not None and entry is not None and _same_directory(was, entry)):
            return
        self.changes[path] = entry

    def _keep(self, path: bytes, why: str) -> None:
        """What cannot be read now stays as it was last captured, and is named."""
        self.left[path] = why
        self.keys[path] = UNKNOWN

    def _entry(self, path: bytes, found: os.stat_result) -> Entry | None:
        mode, name = found.st_mode, path.rpartition(b"/")[2]
        is_dir = stat.S_ISDIR(mode)
        why = self.ignore.why(path, is_dir=is_dir) or special(mode)
        if why is None and stat.S_ISREG(mode) and found.st_size > self.ignore.rules.max_file:
            why = f"{found.st_size:,} bytes; the limit is {self.ignore.rules.max_file:,}"
        if why is not None:
            self.left[path] = why
            return None
        if is_dir:
            self.keys[path] = directory_key(found)
            return Entry(name, nodes.DIR, mode & 0o7777, 0, b"")
        if stat.S_ISLNK(mode):
            key = key_of(found)
            self.keys[path] = UNKNOWN if racy(key, _now()) else key
            return Entry(name, nodes.LINK, 0o777, 0, self.tree.readlink(path))
        entry, self.keys[path], read_as = read_file(self.tree, path, self.store)
        if read_as.st_nlink > 1:
            inode = (read_as.st_dev, read_as.st_ino)
            self.linked.setdefault(inode, set()).add(path)
            self.names[inode] = read_as.st_nlink
        return entry

    def base_entry(self, path: bytes) -> Entry | None:
        """What the manifest that is gone on from holds at a path."""
        if self.base.tree == nodes.EMPTY:
            return None
        parent, _, name = path.rpartition(b"/")
        held = self._dirs.get(parent)
        if held is None:
            held = self._dirs[parent] = self._base_directory(parent)
        return held.get(name)

    def _base_directory(self, path: bytes) -> dict[bytes, Entry]:
        tree = self.base.tree
        if path:
            entry = read.find(tree, path, self.store)
            if entry is None or not entry.is_dir:
                return {}
            tree = entry.data
        return {entry.name: entry for entry in read.entries(tree, self.store)}

    # --- what comes of it

    def _groups(self, among: set[bytes]) -> list[list[bytes]]:
        """Names that are one file, of those that are captured."""
        found = []
        for paths in self.linked.values():
            held = sorted(path for path in paths if path in among and self._holds(path))
            if len(held) > 1:
                found.append(held)
        return sorted(found)

    def _holds(self, path: bytes) -> bool:
        entry = self.changes.get(path, ...)
        if entry is not ...:
            return entry is not None and entry.is_file
        at = path.find(b"/")
        while at >= 0:  # it may have gone with a directory above it
            above = self.changes.get(path[:at], ...)
            if above is None or (isinstance(above, Entry) and not above.is_dir):
                return False
            at = path.find(b"/", at + 1)
        entry = self.base_entry(path)
        return entry is not None and entry.is_file

    def _made(self, groups: list[list[bytes]], tier: str, *, swept: bool) -> Captured:
        tree = self.base.tree
        if self.changes or self.base_digest is None:
            tree = edit.edited(tree, self.changes, self.store)
        left = [Left(path, why) for path, why in sorted(self.left.items())]
        root = edit.make_root(tree, groups, left, self.store)
        if self.base_digest is not None and self._only_left_differs(root, tree, groups):
            root = self.base_digest  # what is left out is said with the next change
        short = {
            inode: self.names[inode] for inode, met in self.linked.items() if len(met) < self.names[inode]
        }
        return Captured(root, tier, self.changes, left, self.keys, self.gone, swept, short)

    def _only_left_differs(self, root: bytes, tree: bytes, groups: list[list[bytes]]) -> bool:
        if root == self.base_digest or tree != self.base.tree:
            return False
        return groups == read.groups_of(self.base, self.store)


def _same_directory(was: Entry, now: Entry) -> bool:
    return was.is_dir and now.is_dir and was.mode == now.mode


def _now() -> int:
    import time

    return time.time_ns()
