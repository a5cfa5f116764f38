"""Space: what takes it, giving up the files of old versions, and removing objects that nothing reaches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import msgspec

from takeback.engine import items, reach, trusting
from takeback.engine.context import Context, Tip
from takeback.errors import BadRequest, CorruptObject, ThreadDeleted
from takeback.model.records import Checkpoint, ThreadInfo
from takeback.storage.base import (
    Batch,
    Epochs,
    FilesGone,
    Forget,
    NewEpoch,
    Objects,
    Prune,
    Pruned,
    Row,
    Sizes,
    ThreadQuery,
)

_PAGE = 500
_LAST = 2**63 - 1  # no version is greater
GRACE_MINUTES = 60
KEEP = 20

Progress = Callable[[str, int], None]
"""Told what is being done, and how far it is."""


class Collected(msgspec.Struct, frozen=True):
    """What a collection found and removed."""

    objects: int
    removed: int
    freed: int

    def as_dict(self) -> dict[str, Any]:
        return {"objects": self.objects, "removed": self.removed, "freed_bytes": self.freed}


class Weight(msgspec.Struct, frozen=True):
    """What a thread takes. What it shares with others is counted for each of them."""

    thread: str
    versions: int
    state: int
    files: int
    pruned: list[tuple[int, int]]

    def as_dict(self) -> dict[str, Any]:
        runs = [{"from": low, "to": high} for low, high in self.pruned]
        return {
            "thread": self.thread,
            "versions": self.versions,
            "state_bytes": self.state,
            "files_bytes": self.files,
            "pruned": runs,
        }


class Pruning(msgspec.Struct, frozen=True):
    """Which versions' files are to go, so that what stays is within a budget."""

    runs: list[tuple[int, int]]
    kept: int  # bytes of files that stay, as they are stored
    budget: int

    @property
    def versions(self) -> int:
        return sum(high - low + 1 for low, high in self.runs)

    def as_dict(self) -> dict[str, Any]:
        runs = [{"from": low, "to": high} for low, high in self.runs]
        return {"runs": runs, "versions": self.versions, "kept_bytes": self.kept, "budget": self.budget}


def collect(
    ctx: Context, *, grace: int = GRACE_MINUTES, batch: int = _PAGE, progress: Progress | None = None
) -> Collected:
    """Remove what nothing reaches, a batch at a time; may be interrupted at any moment, and begun again.

    What a writer brings while this runs is safe: what it writes, or finds there and refers to, gets this
    epoch. What it does not bring hangs below a version that was there before, and that is marked. `grace` is
    for those who write objects first and the version that needs them later.
    """
    tell = progress or (lambda *_: None)
    refused = ctx.storage.apply(Batch(ctx.tenant, [NewEpoch()]))
    assert refused is None
    epoch = ctx.storage.find(ctx.tenant, Epochs())[0] - grace
    live = _marked(ctx, tell)
    seen = removed = freed = after = 0
    while page := ctx.storage.find(ctx.tenant, Objects(after, batch)):
        after, seen = page[-1].key, seen + len(page)
        garbage = [kept for kept in page if kept.epoch < epoch and kept.digest[:8] not in live]
        if garbage:
            ctx.storage.apply(Batch(ctx.tenant, [Forget([kept.digest for kept in garbage], epoch)]))
            removed, freed = removed + len(garbage), freed + sum(kept.kept for kept in garbage)
        tell("swept", seen)
    ctx.forget_objects()
    return Collected(seen, removed, freed)


def weigh(ctx: Context, infos: Iterable[ThreadInfo]) -> list[Weight]:
    """What each thread takes, biggest first."""
    found = [_weight(ctx, info) for info in infos]
    return sorted(found, key=lambda weight: weight.state + weight.files, reverse=True)


def stored(ctx: Context) -> tuple[int, int]:
    """How many objects there are, and what they take."""
    count = taken = after = 0
    while page := ctx.storage.find(ctx.tenant, Objects(after)):
        after, count, taken = page[-1].key, count + len(page), taken + sum(kept.kept for kept in page)
    return count, taken


def plan_pruning(ctx: Context, tip: Tip, labelled: Iterable[int], budget: int, keep: int = KEEP) -> Pruning:
    """The oldest versions whose files do not fit into the budget, newest first. The newest `keep`, and what
    a label names, stay whatever they take."""
    if budget < 0 or keep < 1:
        raise BadRequest(
            f"a budget of {budget} bytes and {keep} versions to keep is none", thread=tip.info.name
        )
    gone, named = pruned(ctx, tip.info.uid), set(labelled)
    seen: set[bytes] = set()
    taken, full, give_up = 0, False, list[int]()
    for checkpoint in _newest_first(ctx, tip.info):
        version = checkpoint.version
        if not checkpoint.files or _within(version, gone):
            continue
        fixed = version > tip.head.version - keep or version in named
        fresh: set[bytes] = set()
        size = _new_bytes(ctx, reach.files(checkpoint), fresh, seen)
        if not fixed and size and (full or taken + size > budget):
            full = True
            give_up.append(version)
        else:  # what only shares with those that stay costs nothing
            taken += size
            seen |= fresh
    return Pruning(_runs(give_up[::-1]), taken, budget)


def prune(ctx: Context, info: ThreadInfo, plan: Pruning, reason: str | None) -> None:
    """Write down that these files are given up; a collection then removes what nothing else needs."""
    if not plan.runs:
        return
    now = ctx.clock()
    rows: list[Row] = [Prune(info.uid, low, high, now) for low, high in plan.runs]
    said = {"runs": [list(run) for run in plan.runs], "budget": plan.budget, "reason": reason}
    refusal = ctx.storage.apply(
        Batch(ctx.tenant, [*rows, ctx.audit("files.pruned", info, ctx.actor, **said)])
    )
    if refusal is not None:
        raise ThreadDeleted("the thread was deleted", thread=info.name)


def pruned(ctx: Context, uid: bytes) -> list[tuple[int, int, int]]:
    """Runs of versions whose files were given up, with when."""
    return ctx.storage.find(ctx.tenant, Pruned(uid))


def pruned_at(ctx: Context, checkpoint: Checkpoint) -> int | None:
    """When the files of a checkpoint were given up; None when they were not."""
    for low, high, time_us in pruned(ctx, checkpoint.uid):
        if low <= checkpoint.version <= high:
            return time_us
    return None


@contextlib.contextmanager
def named(ctx: Context, *checkpoints: Checkpoint) -> Iterator[None]:
    """Files that are missing inside because they were given up are said to be that, and not damage."""
    try:
        yield
    except CorruptObject:
        for checkpoint in checkpoints:
            when = pruned_at(ctx, checkpoint)
            if when is not None:
                raise reach.files_pruned(FilesGone(checkpoint.version, when), checkpoint.thread) from None
        raise


# --- marking


def _marked(ctx: Context, tell: Progress) -> set[bytes]:
    """The beginnings of the digests of all that is reached. A chance likeness keeps an object too long."""
    live: set[bytes] = set()
    families: set[bytes] = set()
    infos = ctx.storage.threads(ctx.tenant, ThreadQuery())
    # In this order: a plan that took up files before they were given up is seen to be under way, or has made
    # a version that is seen after it.
    given_up = [pruned(ctx, info.uid) for info in infos]
    _mark(ctx, reach.kept_beside(ctx.storage.cells(ctx.tenant, live=True)), live)
    for info, gone in zip(infos, given_up, strict=True):
        families.add(info.family)
        for checkpoint in _newest_first(ctx, info):
            files = [] if _within(checkpoint.version, gone) else reach.files(checkpoint)
            _mark(ctx, [*reach.state(checkpoint), *files], live)
        tell("marked", len(live))
    for family in families:
        _mark(ctx, reach.kept_beside(ctx.storage.cells(ctx.tenant, family=family)), live)
    _mark(ctx, reach.kept_beside(ctx.storage.cells(ctx.tenant, live=True)), live)
    for row in trusting.all_versions(ctx):
        _mark(ctx, items.roots(items.version(row).record), live)
    return live


def _mark(ctx: Context, digests: Iterable[bytes], live: set[bytes]) -> None:
    for payloads in _walked(ctx, digests, live):
        del payloads  # only what is below matters here


def _walked(
    ctx: Context, roots: Iterable[bytes], seen: set[bytes], known: Container[bytes] = ()
) -> Iterator[dict[bytes, bytes]]:
    """What is reached from the roots, neither seen yet nor known, level by level."""
    todo = [*roots]
    while todo:
        todo = [
            digest for digest in dict.fromkeys(todo) if digest[:8] not in seen and digest[:8] not in known
        ]
        seen.update(digest[:8] for digest in todo)
        below: list[bytes] = []
        for start in range(0, len(todo), _PAGE):
            try:
                found = ctx.storage.objects(ctx.tenant, todo[start : start + _PAGE])
            except CorruptObject as error:
                raise CorruptObject(
                    f"{error.what}; what hangs below it cannot be told, so nothing is removed",
                    hint="Run `takeback verify`",
                ) from None
            yield found
            below += [digest for payload in found.values() for digest in reach.below(payload)]
        todo = below


# --- weighing


def _weight(ctx: Context, info: ThreadInfo) -> Weight:
    gone, seen = pruned(ctx, info.uid), set[bytes]()
    state = files = 0
    for checkpoint in _newest_first(ctx, info):
        state += _new_bytes(ctx, reach.state(checkpoint), seen)
        if not _within(checkpoint.version, gone):
            files += _new_bytes(ctx, reach.files(checkpoint), seen)
    beside = reach.kept_beside(ctx.storage.cells(ctx.tenant, family=info.family))
    state += _new_bytes(ctx, beside, seen)
    return Weight(info.name, info.versions, state, files, [(low, high) for low, high, _ in gone])


def _new_bytes(ctx: Context, roots: Iterable[bytes], seen: set[bytes], known: Container[bytes] = ()) -> int:
    """What the objects take that are reached and were neither seen before nor known."""
    taken = 0
    for found in _walked(ctx, roots, seen, known):
        taken += sum(kept.kept for kept in ctx.storage.find(ctx.tenant, Sizes([*found])))
    return taken


def _newest_first(ctx: Context, info: ThreadInfo) -> Iterator[Checkpoint]:
    high = _LAST
    while page := ctx.storage.checkpoints(ctx.tenant, info.uid, 0, high, newest_first=True, limit=_PAGE):
        yield from page
        high = page[-1].version - 1
        if high < 0:
            return


def _within(version: int, runs: Iterable[tuple[int, int, int]]) -> bool:
    return any(low <= version <= high for low, high, _ in runs)


def _runs(versions: list[int]) -> list[tuple[int, int]]:
    """Versions in order, as runs without gaps."""
    runs: list[tuple[int, int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs
