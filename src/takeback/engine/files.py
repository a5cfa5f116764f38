"""What a plan does to files: what the agent did goes back, what others did is kept, and the rest is shown.

Whose a change is, the versions say: a step's or a commit's is the agent's, and what an entering step or a
capture found changed is somebody else's. Paths are compared by what they hold, not by how often they changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

import msgspec

from takeback.engine.context import Context, Tip
from takeback.engine.merge3 import merge_values
from takeback.errors import CorruptObject
from takeback.model.ledger import PlanCell
from takeback.model.manifest import edit, nodes, read
from takeback.model.manifest.nodes import Entry
from takeback.model.manifest.read import Difference
from takeback.model.records import Checkpoint, FileRoot
from takeback.model.tree.nodes import Writer

Side: TypeAlias = "bool | str | bytes | Collection[str | bytes]"
"""For all paths, for none, or for some."""
_TEXT = 1 << 20  # bytes; a larger file is not merged or counted by lines
_replace = msgspec.structs.replace


class Choice(msgspec.Struct, frozen=True):
    """What happens to one path: it is put back, or (`keep`, `conflict`) stays as it is now."""

    path: bytes
    do: str  # revert, remove, return, mode, merge, keep, conflict
    now: Entry | None
    target: Entry | None
    after: Entry | None

    @property
    def kept(self) -> bool:
        return self.do in ("keep", "conflict")


class Wanted(msgspec.Struct, frozen=True):
    """Whose version holds where there is a choice: for all paths, or for those that are named."""

    ours: bool | frozenset[bytes] = False
    theirs: bool | frozenset[bytes] = False

    def takes(self, side: str, path: bytes) -> bool:
        said = self.ours if side == "ours" else self.theirs
        return said if isinstance(said, bool) else path in said


class Filed(Protocol):
    """Files as they are after a plan has put them back."""

    objects: dict[bytes, bytes]

    def over(self, files: list[FileRoot]) -> list[FileRoot]:
        """What a version's files are, with these in their places."""
        ...

    def settle(self) -> None:
        """They are recorded."""
        ...


class FileHands(Protocol):
    """Who puts files back: the machine on which they lie."""

    def reaches(self, ctx: Context, plan: PlanCell) -> bool:
        """Whether the files that the plan puts back, if any, lie on this machine."""
        ...

    def put_back(self, ctx: Context, plan: PlanCell) -> AbstractContextManager[Filed]:
        """Put files back as the plan says; inside, nobody else does so. `WorkspaceFailed` if it cannot be."""
        ...


class Filing(msgspec.Struct, frozen=True):
    """What a plan does to one workspace: from what it holds to what it will hold."""

    name: str
    present: bytes
    result: bytes
    choices: list[Choice]
    objects: dict[bytes, bytes]


def root_named(files: list[FileRoot], name: str) -> bytes | None:
    """A workspace's manifest, where the checkpoint has one."""
    return next((root.manifest for root in files if root.workspace == name), None)


def is_own(checkpoint: Checkpoint) -> bool:
    """Whether what a version changed is the agent's: all but what was found changed."""
    return checkpoint.kind != "capture" or checkpoint.step is not None


def plan_files(
    ctx: Context,
    tip: Tip,
    target: Checkpoint,
    name: str,
    present: bytes,
    objects: dict[bytes, bytes],
    wanted: Wanted,
    *,
    dirty_is_own: bool = False,
) -> Filing | None:
    """What going to a checkpoint does to a workspace; None where the checkpoint knows nothing of it."""
    aim = root_named(target.files, name)
    if aim is None:
        return None
    writer = Writer(ctx)
    writer.new = dict(objects)
    there, goal = read.root_of(present, writer), read.root_of(aim, writer)
    apart = read.differing(goal.tree, there.tree, writer)
    whose = _whose(ctx, tip, target, name, present, writer, {each.path for each in apart}, own=dirty_is_own)
    choices = _consistent([_choice(each, whose, wanted, writer) for each in apart])
    changes = {each.path: _bare(each.after) for each in choices if not each.kept}
    tree = edit.edited(there.tree, changes, writer) if changes else there.tree
    groups = _groups(read.groups_of(there, writer), read.groups_of(goal, writer), choices)
    result = edit.make_root(tree, groups, read.left_of(there, writer), writer)
    if tree == there.tree and groups == read.groups_of(there, writer):
        result = present
    made = {digest: payload for digest, payload in writer.new.items() if digest not in objects}
    return Filing(name, present, result, choices, made)


class _Whose(msgspec.Struct):
    """Whose what stands at a path is, compared with the target, and what the agent left there."""

    own: bool = False
    foreign: bool = False
    left: Entry | None = None  # as it was before others changed it


def _whose(
    ctx: Context,
    tip: Tip,
    target: Checkpoint,
    name: str,
    present: bytes,
    writer: Writer,
    paths: set[bytes],
    *,
    own: bool,
) -> dict[bytes, _Whose]:
    found: dict[bytes, _Whose] = {}
    start: dict[bytes, Entry | None] = {}
    before = root_named(target.files, name)
    for root, is_ours in [*_steps(ctx, tip, target, name), (present, own)]:
        if before is not None and paths and root != before:
            for each in _between(before, root, writer):
                if each.path in paths:
                    start.setdefault(each.path, each.before)
                    _take(found.setdefault(each.path, _Whose()), each, start[each.path], own=is_ours)
        before = root
    return found


def _steps(ctx: Context, tip: Tip, target: Checkpoint, name: str) -> list[tuple[bytes, bool]]:
    """What the workspace was after each version since the target, and whose that was. The disk has one
    history, also where the thread has several lines: so they are taken in the order of their numbers."""
    if target.uid != tip.info.uid or target.version >= tip.head.version:
        return []
    rows = [tip.head]
    if tip.head.version - target.version > 1:
        rows = ctx.storage.checkpoints(ctx.tenant, tip.info.uid, target.version + 1, tip.head.version)
    roots = [(root_named(row.files, name), is_own(row)) for row in rows]
    return [(root, ours) for root, ours in roots if root is not None]


def _between(one: bytes, two: bytes, writer: Writer) -> list[Difference]:
    try:
        before, after = read.root_of(one, writer), read.root_of(two, writer)
        return read.differing(before.tree, after.tree, writer)
    except CorruptObject:
        return []  # of a version whose files were pruned: what it changed counts as nobody's, and is kept


def _take(whose: _Whose, each: Difference, start: Entry | None, *, own: bool) -> None:
    if _alike(each.after, start):
        whose.own = whose.foreign = False
    elif own:
        whose.own = True
    else:
        if not whose.foreign:
            whose.left = each.before
        whose.foreign = True


def _choice(each: Difference, whose: dict[bytes, _Whose], wanted: Wanted, writer: Writer) -> Choice:
    """`each` leads from the target to the present."""
    target, now, who = each.before, each.after, whose.get(each.path, _Whose())
    back = Choice(each.path, _doing(target, now), now, target, target)
    if wanted.takes("ours", each.path) or (who.own and not who.foreign):
        return back
    keep = _replace(back, do="keep", after=now)
    if not who.own or wanted.takes("theirs", each.path):
        return keep
    merged = _merged(target, who.left, now, writer)
    if merged is not None:
        return _replace(back, do="merge", after=merged)
    return _replace(keep, do="conflict")


def _doing(target: Entry | None, now: Entry | None) -> str:
    if target is None:
        return "remove"
    if now is None:
        return "return"
    return "mode" if _alike(target, _replace(now, mode=target.mode)) else "revert"


def _merged(target: Entry | None, left: Entry | None, now: Entry | None, writer: Writer) -> Entry | None:
    """The target with what others changed since, where their lines and the agent's are apart."""
    sides = [text_of(entry, writer) for entry in (left, target, now)]
    if now is None or any(side is None for side in sides):
        return None
    base, ours, theirs = [side.splitlines(keepends=True) for side in sides if side is not None]
    merged, clashes = merge_values(base, ours, theirs)
    if clashes or merged == theirs:
        return None
    content = "".join(merged).encode()
    return Entry(now.name, nodes.FILE, now.mode, len(content), writer.put(nodes.blob(content)))


def text_of(entry: Entry | None, writer: Writer) -> str | None:
    """A file's contents where they are text, and not too long to be compared by lines."""
    if entry is None or entry.kind != nodes.FILE or entry.size > _TEXT:
        return None
    raw = read.contents(entry, writer)
    if b"\0" in raw:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _consistent(choices: list[Choice]) -> list[Choice]:
    """A directory stays where something in it stays, and comes back where something in it does."""
    held = {each.path for each in choices if each.after is not None}
    needed = {above for path in held for above in _above(path)}
    found: dict[bytes, Choice] = {}
    for each in choices:
        if each.path in needed and each.after is None:
            if each.now is not None and each.now.is_dir:
                each = _replace(each, do="keep", after=each.now)
            elif each.target is not None and each.target.is_dir:
                each = _replace(each, do="return", after=each.target)
        found[each.path] = each
    return [_under(each, found) for each in found.values()]


def _under(each: Choice, found: dict[bytes, Choice]) -> Choice:
    """What goes back below something that is kept and is no directory cannot."""
    for above in _above(each.path):
        over = found.get(above)
        if over is not None and over.kept and not each.kept and not (over.after and over.after.is_dir):
            return _replace(each, do="conflict", after=each.now)
    return each


def _above(path: bytes) -> list[bytes]:
    at, found = path.find(b"/"), []
    while at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found


def _groups(now: list[list[bytes]], goal: list[list[bytes]], choices: list[Choice]) -> list[list[bytes]]:
    """Names that are one file afterwards: as at the target, where none of them is kept as it is."""
    kept = {each.path for each in choices if each.kept or each.do == "merge"}
    changed = {each.path for each in choices if not each.kept}
    back = [group for group in goal if kept.isdisjoint(group)]
    taken = {path for group in back for path in group}
    rest = [[path for path in group if path not in taken | changed] for group in now]
    return sorted([*back, *(group for group in rest if len(group) > 1)])


def _bare(entry: Entry | None) -> Entry | None:
    """A directory without what it holds: that is said path by path."""
    return _replace(entry, data=b"") if entry is not None and entry.is_dir else entry


def _alike(one: Entry | None, two: Entry | None) -> bool:
    """The same, a directory's contents apart."""
    if one is None or two is None or not (one.is_dir and two.is_dir):
        return one == two
    return one.mode == two.mode


def as_paths(given: Side) -> bool | frozenset[bytes]:
    """`ours=` and `theirs=` as callers say them: all, or some paths."""
    if isinstance(given, bool):
        return given
    if isinstance(given, (str, bytes)):
        given = [given]
    return frozenset(os.fsencode(path).strip(b"/") for path in given)
