"""Looking back: which checkpoint a reference means, what came before, and how lines hang together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeback.engine.context import Context, Tip
from takeback.errors import (
    AmbiguousReference,
    CorruptObject,
    ThreadDeleted,
    UnknownCheckpoint,
    UnknownLabel,
    WrongThread,
)
from takeback.model import refs
from takeback.model.records import Checkpoint, Pointer
from takeback.storage.base import Labels

_PAGE = 200


def resolve(ctx: Context, tip: Tip, ref: Any) -> Checkpoint:
    """The checkpoint of this thread that a reference names."""
    if isinstance(ref, Checkpoint):
        return _same_thread(tip, ref)
    parsed = refs.parse(ref)
    found = _found(ctx, tip, parsed, ref)
    if not parsed.back:
        return found
    if parsed.back > found.version:
        raise UnknownCheckpoint(
            f"{ref!r} goes back beyond version 0", thread=tip.info.name, checkpoint=found.version
        )
    return at_version(ctx, tip, found.version - parsed.back)


def target(ctx: Context, tip: Tip, ref: Any) -> Checkpoint:
    """What a reference names, as the target of a write that is refused when the thread was deleted: so what
    is remembered will do, and spares a look."""
    if type(ref) is not int:
        return resolve(ctx, tip, ref)
    found = ctx.remembered(tip.info.uid, ref)
    if found is None:
        found = resolve(ctx, tip, ref)
        ctx.remember(found)
    return found


def at_version(ctx: Context, tip: Tip, version: int) -> Checkpoint:
    if version == tip.head.version:
        return tip.head
    found = ctx.storage.checkpoint(ctx.tenant, tip.info.uid, version)
    if found is None:
        raise _absent(ctx, tip, version)
    return found


def _absent(ctx: Context, tip: Tip, version: int) -> Exception:
    """Never there, removed on purpose, or lost: three different things to be told."""
    name, head = tip.info.name, tip.head.version
    if version > head:
        return UnknownCheckpoint(f"there is no version {version}: the head is {head}", thread=name)
    info = ctx.storage.thread_by_uid(ctx.tenant, tip.info.uid)
    if info is None or info.deleted_us is not None:
        return ThreadDeleted("the thread was deleted", thread=name, checkpoint=version)
    return CorruptObject(
        "the checkpoint is missing", thread=name, checkpoint=version, hint="Run `takeback verify`"
    )


def walk(
    ctx: Context, tip: Tip, *, newest_first: bool = True, inherited: bool = False
) -> Iterator[Checkpoint]:
    """The versions of a thread, a page at a time; `inherited` goes on with what a fork came from."""
    if not newest_first and inherited and tip.info.origin is not None:
        yield from _before(ctx, tip.info.origin, newest_first=False)
    yield from _pages(ctx, tip.info.uid, 0, tip.head.version, newest_first=newest_first)
    if newest_first and inherited and tip.info.origin is not None:
        yield from _before(ctx, tip.info.origin, newest_first=True)


def lineage(ctx: Context, start: Pointer) -> list[tuple[bytes, int, int]]:
    """L(start), start and its logical ancestors, as intervals (thread, line, up to version)."""
    highest: dict[tuple[bytes, int], int] = {}
    todo = [(start.uid, start.version)]
    while todo:
        uid, version = todo.pop()
        checkpoint = ctx.storage.checkpoint(ctx.tenant, uid, version)
        if checkpoint is None:
            continue  # of a thread that was deleted: its history went with it
        line = checkpoint.line
        had = highest.get((uid, line), line - 1)
        if version <= had:
            continue
        highest[uid, line] = version
        if had < line:
            opening = ctx.storage.checkpoint(ctx.tenant, uid, line)
            if opening is not None and opening.origin is not None:
                todo.append((opening.origin.uid, opening.origin.version))
        merges = ctx.storage.checkpoints(ctx.tenant, uid, had + 1, version, merges=True)
        todo += [(merge.merged.uid, merge.merged.version) for merge in merges if merge.merged is not None]
    return [(uid, line, version) for (uid, line), version in highest.items()]


def common_ancestors(ctx: Context, one: Pointer, two: Pointer) -> list[Checkpoint]:
    """The last checkpoints that both descend from: one, or several where two lines merged each other."""
    other = {(uid, line): version for uid, line, version in lineage(ctx, two)}
    shared = [
        ctx.storage.checkpoint(ctx.tenant, uid, min(version, other[uid, line]))
        for uid, line, version in lineage(ctx, one)
        if (uid, line) in other
    ]
    found = [checkpoint for checkpoint in shared if checkpoint is not None]
    last: list[tuple[Checkpoint, set[tuple[bytes, int, int]]]] = []
    # The newest first: what came before it is then passed over without a look at its own ancestors.
    for one_of in sorted(found, key=lambda c: (c.time_us, c.version), reverse=True):
        if not any(_within(one_of, before) for _, before in last):
            before = set(lineage(ctx, Pointer(one_of.uid, one_of.version, one_of.digest)))
            last = [(other, its) for other, its in last if not _within(other, before)]
            last.append((one_of, before))
    return [checkpoint for checkpoint, _ in last]


def _within(checkpoint: Checkpoint, ancestors: set[tuple[bytes, int, int]]) -> bool:
    return any(
        uid == checkpoint.uid and line == checkpoint.line and checkpoint.version <= version
        for uid, line, version in ancestors
    )


def earlier(ctx: Context, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
    """A version and those before it in its thread, newest first."""
    yield checkpoint
    yield from _pages(ctx, checkpoint.uid, 0, checkpoint.version - 1, newest_first=True)


def left_behind(ctx: Context, head: Pointer, target: Pointer) -> Iterator[Checkpoint]:
    """What a head's history has and the target's has not: what going there takes back, and nothing twice."""
    kept = {(uid, line): version for uid, line, version in lineage(ctx, target)}
    for uid, line, version in lineage(ctx, head):
        low = max(line, kept.get((uid, line), line - 1) + 1)
        yield from _pages(ctx, uid, low, version, newest_first=True)


def descends(ctx: Context, start: Pointer, ancestor: Pointer) -> bool:
    checkpoint = ctx.storage.checkpoint(ctx.tenant, ancestor.uid, ancestor.version)
    return checkpoint is not None and any(
        uid == ancestor.uid and line == checkpoint.line and ancestor.version <= version
        for uid, line, version in lineage(ctx, start)
    )


def _found(ctx: Context, tip: Tip, ref: refs.Ref, said: Any) -> Checkpoint:
    if isinstance(ref, refs.ByHead):
        return tip.head
    if isinstance(ref, refs.ByVersion):
        return at_version(ctx, tip, ref.version)
    if isinstance(ref, refs.ById):
        return _by_id(ctx, tip, ref)
    if isinstance(ref, refs.ByTime):
        return _by_time(ctx, tip, ref.micros, said)
    version = dict(ctx.storage.find(ctx.tenant, Labels(tip.info.uid))).get(ref.name)
    if version is None:
        raise UnknownLabel(
            f"there is no label {ref.name!r}", thread=tip.info.name, hint="`takeback log` shows them"
        )
    return at_version(ctx, tip, version)


def _by_id(ctx: Context, tip: Tip, ref: refs.ById) -> Checkpoint:
    name = tip.info.name
    if "-" not in ref.prefix and 0 < ref.version * 10 <= tip.head.version:
        found = at_version(ctx, tip, ref.version)
        raise AmbiguousReference(
            f"{ref.prefix!r} begins the ids of version {ref.version} and of {ref.version * 10} and others",
            thread=name,
            hint=f"Say {found.id[: len(ref.prefix) + 4]!r} or the version {ref.version}",
        )
    if ref.version > tip.head.version:
        raise UnknownCheckpoint(
            f"there is no checkpoint {ref.prefix}: the head is {tip.head.version}", thread=name
        )
    found = at_version(ctx, tip, ref.version)
    if found.id.startswith(ref.prefix):
        return found
    raise UnknownCheckpoint(
        f"{ref.prefix} is no checkpoint of this thread: its version {ref.version} is {found.id}", thread=name
    )


def _by_time(ctx: Context, tip: Tip, micros: int, said: Any) -> Checkpoint:
    """The newest version that is not younger; recorded times never go back, so halving finds it."""
    low, high = 0, tip.head.version
    if at_version(ctx, tip, 0).time_us > micros:
        raise UnknownCheckpoint(f"the thread began after {said}", thread=tip.info.name)
    while low < high:
        middle = (low + high + 1) // 2
        if at_version(ctx, tip, middle).time_us <= micros:
            low = middle
        else:
            high = middle - 1
    return at_version(ctx, tip, low)


def _same_thread(tip: Tip, checkpoint: Checkpoint) -> Checkpoint:
    if checkpoint.uid != tip.info.uid:
        raise WrongThread(
            f"{checkpoint.id} is a checkpoint of thread {checkpoint.thread!r}",
            thread=tip.info.name,
            hint="A state moves between threads by fork and merge",
        )
    return checkpoint


def _pages(ctx: Context, uid: bytes, low: int, high: int, *, newest_first: bool) -> Iterator[Checkpoint]:
    while low <= high:
        page = ctx.storage.checkpoints(ctx.tenant, uid, low, high, newest_first=newest_first, limit=_PAGE)
        if not page:
            return
        yield from page
        if newest_first:
            high = page[-1].version - 1
        else:
            low = page[-1].version + 1


def _before(ctx: Context, origin: Pointer, *, newest_first: bool) -> Iterator[Checkpoint]:
    info = ctx.storage.thread_by_uid(ctx.tenant, origin.uid)
    if info is None or info.deleted_us is not None:
        return
    if not newest_first and info.origin is not None:
        yield from _before(ctx, info.origin, newest_first=False)
    yield from _pages(ctx, origin.uid, 0, origin.version, newest_first=newest_first)
    if newest_first and info.origin is not None:
        yield from _before(ctx, info.origin, newest_first=True)
