"""A workspace's directory as a resource: how its changes are found, and capturing and restoring it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator

import msgspec
from blake3 import blake3

from takeback.errors import CorruptObject, WorkspaceMissing
from takeback.model.manifest import read
from takeback.model.manifest.nodes import Left
from takeback.model.manifest.read import Difference
from takeback.model.tree.nodes import Getter, Writer
from takeback.workspace.capture import Capture, Captured
from takeback.workspace.home import Home
from takeback.workspace.ignore import RULE_FILES, Ignore, Rules
from takeback.workspace.resource import Kept
from takeback.workspace.restore import Outcome, Restore
from takeback.workspace.scan import Index, Inode, read_rules, rule_files
from takeback.workspace.tree import Tree
from takeback.workspace.watch import Changed, Watch, Watcher

NAMED, WATCHED, SWEPT, AUDITED = "named", "watch", "sweep", "audit"


class Look(msgspec.Struct, frozen=True):
    """A capture that is not settled yet: what was found, and what the watcher is told once it is recorded."""

    captured: Captured
    mark: int | None = None
    why: str = ""  # why a sweep was made where there is a watcher


class Directory:
    """One directory. Captures go on from a manifest; what was captured is remembered when it is settled."""

    def __init__(
        self,
        path: str,
        rules: Rules | None = None,
        *,
        identity: tuple[int, int] | None = None,
        own: Collection[str] = (),
        scope: str = "",
    ) -> None:
        self.path, self.rules, self.identity = path, rules or Rules(), identity
        self.home = Home(path, scope)
        self.watcher: Watcher | None = None
        self.in_place = True
        self.missed = 0
        """Changes that an audit has found and watching had not told of."""
        self.point: Callable[[str], None] | None = None
        self._own = frozenset(own)
        self._ignore: Ignore | None = None
        self._index: Index | None = None
        self._left: list[Left] | None = None
        self._short: dict[Inode, int] = {}  # files that have names outside, as the last sweep met them
        self._settled: bytes | None = None  # the manifest that the watcher's answers go on from

    # --- the resource

    def capture(self, base: bytes | None, store: Writer) -> Kept:
        """See `Resource`."""
        found = self.look(base, store)
        if found is None:
            assert base is not None
            return Kept(base, WATCHED)
        self.settle(found)
        return Kept(found.captured.root, found.captured.tier)

    def diff(self, before: bytes, after: bytes, source: Getter) -> list[Difference]:
        """See `Resource`."""
        one, two = read.root_of(before, source), read.root_of(after, source)
        return read.differing(one.tree, two.tree, source)

    def restore(self, before: bytes, after: bytes, source: Getter) -> dict[bytes, str]:
        """See `Resource`."""
        return self.put_back(before, after, source).kept

    # --- looking

    def look(
        self,
        base: bytes | None,
        store: Writer,
        *,
        named: Collection[bytes] | None = None,
        audit: bool = False,
        exactly: bool = False,
    ) -> Look | None:
        """What the directory holds now; None when a watcher knows that nothing has changed.

        With `named`, these paths are looked at, and beside them only what a watcher tells; `exactly` these
        alone. An audit looks at everything and counts what watching missed.
        """
        if exactly and base is not None:
            return self._these(base, store, frozenset(named or ()), None)
        told = self.watcher.changed() if self.watcher is not None else None
        if told is not None and base is not None and self._settled == base and not audit:
            if not (told.paths or told.everything or named):
                return None
            if told.everything is None:
                return self._these(base, store, told.paths | frozenset(named or ()), told)
        if named is not None and base is not None and not audit:
            return self._these(base, store, frozenset(named), None)
        if told is not None and told.everything is None and base is not None and not audit:
            apart = self._apart(base, store)
            if apart is not None:
                return self._these(base, store, told.paths | apart, told)
        return self._everything(base, store, told, audit=audit)

    def settle(self, look: Look) -> None:
        """What was looked at is recorded: the next look goes on from it."""
        captured = look.captured
        self._left = captured.left
        if look.mark is not None and self.watcher is not None:
            self.watcher.settled(look.mark)
            self._settled = captured.root
        elif self._settled is not None:
            self._settled = captured.root if captured.tier == NAMED else None
        if self._index is not None:
            captured.remember(self._index)
        if captured.swept and self._index is not None:
            self.home.keep(self._index)

    @property
    def settled_at(self) -> bytes | None:
        """The manifest that the watcher's answers go on from; None where they go on from nothing."""
        return self._settled

    def watch(self, watcher: Watcher | None = None, since: bytes | None = None) -> Watcher:
        """Have changes told from now on, by a watch in this process, or by somebody else who knows them: then
        also those since a manifest."""
        if watcher is None:
            with self.opened() as tree:
                watcher = Watch(self.path, self._rules_now(tree))
        if self.watcher is not None:
            self.watcher.close()
        self.watcher, self._settled = watcher, since
        return watcher

    def close(self) -> None:
        if self.watcher is not None:
            self.watcher.close()
            self.watcher = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[Tree]:
        """The directory, if it is the one that was attached."""
        with Tree(self.path) as tree:
            if self.identity is not None and tree.identity() != self.identity:
                raise WorkspaceMissing(
                    f"{self.path} is not the directory that was attached: that was moved, or removed",
                    hint="If it is the workspace, attach it again: thread.workspace(path, name)",
                )
            yield tree

    def _these(self, base: bytes, store: Writer, paths: frozenset[bytes], told: Changed | None) -> Look:
        if any(map(_is_rule, paths)):
            return self._everything(base, store, told, why="what is left out has changed")
        with self.opened() as tree:
            ignore = self._ignore or self._rules_now(tree)
            tier = WATCHED if told is not None else NAMED
            captured = Capture(tree, ignore, base, store).these(set(paths), tier, self._left)
        if told is not None and any(self._short.get(i) != names for i, names in captured.short.items()):
            # A new name of a file is told of that name alone; where its others are, only a sweep finds.
            return self._everything(base, store, told, why="a file has names that were not told of")
        return Look(captured, None if told is None else told.mark)

    def _everything(
        self, base: bytes | None, store: Writer, told: Changed | None, *, audit: bool = False, why: str = ""
    ) -> Look:
        index, met = self._known(), set[bytes]()
        with self.opened() as tree:
            while True:
                ignore = self._rules_now(tree)
                recheck = index.rules != self._rules_digest
                capture = Capture(tree, ignore, base, store)
                captured = capture.everything(index, AUDITED if audit else SWEPT, recheck=recheck)
                new = {path for path in captured.changes if _is_rule(path)} - set(index.rule_files) - met
                if not new:
                    break
                # What a new file with patterns says was not known yet when names were looked at.
                met |= new
                index.rule_files = sorted({*index.rule_files, *new})
            index.rules = self._rules_digest
        self._short = captured.short
        if isinstance(self.watcher, Watch):
            self.watcher.follow(ignore)
        if audit and told is not None and told.everything is None:
            self.missed += sum(not _told(path, told.paths) for path in captured.changes)
        mark = None if told is None else told.mark
        return Look(captured, mark, why or (told.everything or "" if told is not None else ""))

    def _apart(self, base: bytes, store: Writer) -> frozenset[bytes] | None:
        """Where the manifest that the watcher's answers go on from differs from this one; None if unknown."""
        if self._settled is None:
            return None
        try:
            return frozenset(each.path for each in self.diff(self._settled, base, store.source))
        except CorruptObject:
            return None

    def _known(self) -> Index:
        if self._index is None:
            self._index = self.home.index()
        return self._index

    # --- rules

    _rules_digest = b""

    def _rules_now(self, tree: Tree) -> Ignore:
        """The rules as their files say them now; these are looked for once, and then known from the index."""
        index = self._known()
        if index.rule_files or index.root:
            files = read_rules(tree, index.rule_files)
        else:
            files = rule_files(tree, self.rules)
        index.rule_files = sorted(files)
        said = msgspec.msgpack.encode([self.rules, sorted(files.items()), sorted(self._own)])
        self._rules_digest = blake3(said).digest()
        own = frozenset(os.fsencode(os.path.relpath(each, self.path)) for each in self._own)
        self._ignore = Ignore(self.rules, files, own)
        return self._ignore

    # --- putting back

    def put_back(self, before: bytes, after: bytes, source: Getter, *, name: str = "") -> Outcome:
        """Bring the directory from one manifest to another; what is not as the first says is kept."""
        with self.opened() as tree:
            restore = Restore(
                tree, source, before, after, name=name, in_place=self.in_place, point=self.point
            )
            return restore.run()


def _is_rule(path: bytes) -> bool:
    return path.rpartition(b"/")[2] in RULE_FILES


def _told(path: bytes, paths: Collection[bytes]) -> bool:
    """Whether watching named a path, or all below a directory above it."""
    if path in paths or path + b"/" in paths:
        return True
    at = path.rfind(b"/")
    while at > 0:
        if path[: at + 1] in paths:
            return True
        at = path.rfind(b"/", 0, at)
    return False
