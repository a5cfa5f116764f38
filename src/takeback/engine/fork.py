"""Other lines: forks, merges of threads, and taking one step alone back by merging its inverse."""

from __future__ import annotations

import os
from itertools import takewhile
from typing import Any

import msgspec

from takeback.engine import history
from takeback.engine.changes import MISSING
from takeback.engine.commit import Draft, Identity, Said, create
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.merge3 import MergeClash, merge_values
from takeback.engine.patch import apply_edits
from takeback.engine.rollback import Move
from takeback.errors import BadPath, BadRequest, FilesPruned, MergeConflict
from takeback.model.canonical import equal
from takeback.model.records import Checkpoint, Pointer
from takeback.model.tree.build import build
from takeback.model.tree.nodes import Writer
from takeback.model.tree.read import read_at

_SCAN = 500  # versions that are looked through for what depends on a step


class MergePlan(msgspec.Struct, frozen=True):
    """What a merge or a revert would do: the move, unless there are clashes."""

    move: Move
    clashes: list[MergeClash]


def fork(ctx: Context, source: Checkpoint, identity: Identity, said: Said) -> Tip:
    """A new thread that starts at a checkpoint of another; its state is not written again. Files that were
    given up are not the fork's either."""
    draft = Draft("fork", source.state_root, said, origin=pointer(source), files=source.files)
    try:
        return create(ctx, identity, draft, source)
    except FilesPruned:
        return create(ctx, identity, msgspec.structs.replace(draft, files=[]), source)


def plan_merge(ctx: Context, tip: Tip, other: Tip) -> MergePlan | None:
    """Bring in what another thread did since both were one; None when it did nothing."""
    if other.info.uid == tip.info.uid:
        raise BadRequest("a thread cannot be merged into itself", thread=tip.info.name)
    if history.descends(ctx, tip.pointer, _restored(ctx, other.head)):
        return None
    shared = history.common_ancestors(ctx, tip.pointer, other.pointer)
    if not shared:
        raise BadRequest(
            f"{other.info.name!r} and {tip.info.name!r} have no checkpoint in common",
            thread=tip.info.name,
            hint="Only a fork, or the thread it came from, can be merged",
        )
    draft, clashes = _merged(ctx, tip, _base(ctx, shared), other.head, "merge")
    draft = msgspec.structs.replace(draft, merged=other.pointer)
    return MergePlan(Move("merge", tip.head, other.head, draft), clashes)


def _restored(ctx: Context, head: Checkpoint) -> Pointer:
    """What a head that is a fork or went back stands for: its state is that of where it came from."""
    found = pointer(head)
    while head.origin is not None:
        found = head.origin
        before = ctx.storage.checkpoint(ctx.tenant, found.uid, found.version)
        if before is None:
            break
        head = before
    return found


def plan_revert(ctx: Context, tip: Tip, step: Checkpoint) -> MergePlan:
    """Take one version alone back: a merge in which the other side goes from it to what stood before it."""
    if step.before is None:
        raise BadRequest(
            "version 0 cannot be reverted: nothing stood before it",
            thread=tip.info.name,
            checkpoint=step.version,
        )
    parent = history.at_version(ctx, tip, step.before)
    draft, clashes = _merged(ctx, tip, ctx.state(step), parent, "revert")
    draft = msgspec.structs.replace(draft, undoes=step.version)
    return MergePlan(Move("revert", tip.head, step, draft, step), clashes)


def conflict(ctx: Context, tip: Tip, plan: MergePlan) -> MergeConflict:
    """The error of a plan that has clashes; for a revert it names what was built on the step."""
    move = plan.move
    places = ", ".join(_place(ctx, tip, move, clash) for clash in plan.clashes[:5])
    more = f" and {len(plan.clashes) - 5} more" if len(plan.clashes) > 5 else ""
    if move.kind == "revert":
        what, hint = (
            f"version {move.target.version} cannot be taken back alone: {places}{more} was changed since",
            "Revert the later versions first, or roll back",
        )
    else:
        what, hint = (
            f"{move.target.thread!r} and {tip.info.name!r} both changed {places}{more}",
            "Commit the value that should hold on one of them, and merge again",
        )
    return MergeConflict(
        what, conflicts=plan.clashes, thread=tip.info.name, checkpoint=tip.head.version, hint=hint
    )


def _base(ctx: Context, shared: list[Checkpoint]) -> Any:
    """The state that both sides started from.

    Lines that merged each other have several: these are merged first, as if that had been done before the
    lines parted; with one of them alone, what the other brought would look new, and come twice. Where
    they clash, no value is what both sides started from, so a value that nobody has stands there.
    """
    value = ctx.state(shared[0])
    for other in shared[1:]:
        below = history.common_ancestors(ctx, pointer(shared[0]), pointer(other))
        start = _base(ctx, below) if below else MISSING
        value, clashes = merge_values(start, ctx.state(other), value)
        for clash in clashes:
            keys = tuple(takewhile(lambda part: isinstance(part, str), clash.path))
            value = apply_edits(value, [(keys, os.urandom(16))])
    return value


def _merged(
    ctx: Context, tip: Tip, base: Any, other: Checkpoint, kind: str
) -> tuple[Draft, list[MergeClash]]:
    """The head is the side that was first: what the other appends comes after."""
    merged, clashes = merge_values(base, ctx.state(other), ctx.state(tip.head))
    writer = Writer(ctx)
    writer.known.add(tip.head.state_root)
    _, payload = build(merged, ctx.get(tip.head.state_root), writer)
    return Draft(kind, writer.put(payload), Said(), writer.new), clashes


def _place(ctx: Context, tip: Tip, move: Move, clash: MergeClash) -> str:
    shown = "/".join(str(part) for part in clash.path) or "the state"
    if move.kind != "revert":
        return shown
    version = _last_change(ctx, tip, move.target, clash)
    return shown if version is None else f"{shown} (by version {version})"


def _last_change(ctx: Context, tip: Tip, step: Checkpoint, clash: MergeClash) -> int | None:
    """The newest version after the step that changed what stands at the path."""
    newer = tip.head
    for checkpoint in history.walk(ctx, tip):
        if checkpoint.version == newer.version:
            continue
        if checkpoint.state_root != newer.state_root and _differ(ctx, checkpoint, newer, clash):
            return newer.version
        if checkpoint.version <= step.version or tip.head.version - checkpoint.version > _SCAN:
            return None
        newer = checkpoint
    return None


def _differ(ctx: Context, one: Checkpoint, two: Checkpoint, clash: MergeClash) -> bool:
    values = []
    for checkpoint in (one, two):
        try:
            values.append(read_at(ctx.get(checkpoint.state_root), clash.path, ctx))
        except BadPath:
            values.append(MISSING)
    old, new = values
    return old is not new and (old is MISSING or new is MISSING or not equal(old, new))
