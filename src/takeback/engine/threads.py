"""Threads as a whole: opening, listing, labelling, deleting, and the log of what was done to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeback.engine import items
from takeback.engine.book import book_of
from takeback.engine.context import Context, Tip
from takeback.errors import Conflict, RollbackInProgress, ThreadDeleted, UnknownLabel, WrongOwner
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo
from takeback.model.refs import check_label
from takeback.storage.base import (
    Batch,
    DropLabel,
    HeadMoved,
    Labels,
    PutLabel,
    Row,
    Still,
    ThreadLocked,
    ThreadQuery,
    Tombstone,
)
from takeback.storage.items import FreeItems


def check_owner(tip: Tip, agent: str | None, user: str | None) -> None:
    """Two conversations never mix: an existing thread is opened with its own agent and user, or none."""
    for what, asked, has in (("agent", agent, tip.info.agent), ("user", user, tip.info.user)):
        if asked is not None and asked != has:
            raise WrongOwner(
                f"the thread belongs to {what} {has!r}, not {asked!r}"
                if has
                else f"the thread has no {what}",
                thread=tip.info.name,
                hint="Choose another name, or leave it out to open the thread as it is",
            )


def listed(ctx: Context, query: ThreadQuery | None = None) -> list[ThreadInfo]:
    return ctx.storage.threads(ctx.tenant, query or ThreadQuery())


def latest(ctx: Context) -> ThreadInfo | None:
    """The thread that was written to last."""
    return max(listed(ctx), key=lambda info: info.updated_us, default=None)


def label(ctx: Context, tip: Tip, name: str, target: Checkpoint) -> None:
    """A label names a checkpoint, in place of what it named before; the audit log remembers."""
    check_label(name)
    info = tip.info
    entry = ctx.audit("label.put", info, ctx.actor, label=name, version=target.version)
    _write(ctx, info, [PutLabel(info.uid, name, target.version), entry])


def unlabel(ctx: Context, tip: Tip, name: str) -> None:
    """A label names nothing any more; what is no label of the thread is refused."""
    info = tip.info
    if name not in labels(ctx, info.uid):
        raise UnknownLabel(f"there is no label {name!r}", thread=info.name)
    entry = ctx.audit("label.removed", info, ctx.actor, label=name)
    _write(ctx, info, [DropLabel(info.uid, name), entry])


def labels(ctx: Context, uid: bytes) -> dict[str, int]:
    """Label → version."""
    return dict(ctx.storage.find(ctx.tenant, Labels(uid)))


def delete(ctx: Context, tip: Tip, reason: str | None) -> None:
    """A tombstone takes the thread's place: late writers cannot pass it, and forks keep what they share."""
    info, head = tip.info, tip.head
    entry = ctx.audit(
        "thread.deleted", info, ctx.actor, reason=reason, versions=head.version + 1, head_digest=head.digest
    )
    # What showed of its memory goes on to show: that outlives a thread.
    kept = items.held_by(ctx, book_of(ctx, info.family), info.uid)
    still: list[Row] = [Still(info.uid, head.line, head.digest), FreeItems(kept)] if kept else []
    try:
        _write(ctx, info, [*still, Tombstone(info.uid, ctx.clock()), entry])
    except Conflict:
        fresh = ctx.tip(info.name)
        if fresh is None or fresh.info.uid != info.uid:
            raise ThreadDeleted("the thread was deleted", thread=info.name) from None
        delete(ctx, fresh, reason)


def audit(ctx: Context, uid: bytes | None) -> Iterator[AuditEntry]:
    """The audit log, oldest first, a page at a time."""
    after = 0
    while True:
        page = ctx.storage.audit(ctx.tenant, uid=uid, after=after, limit=200)
        if not page:
            return
        yield from page
        after = page[-1].key


def record(ctx: Context, tip: Tip, action: str, **detail: Any) -> None:
    """An entry of the audit log by itself."""
    ctx.storage.apply(Batch(ctx.tenant, [ctx.audit(action, tip.info, ctx.actor, **detail)]))


def _write(ctx: Context, info: ThreadInfo, rows: list[Row]) -> None:
    refusal = ctx.storage.apply(Batch(ctx.tenant, rows))
    if isinstance(refusal, ThreadLocked):
        raise RollbackInProgress(
            "a plan is being applied to the thread", thread=info.name, hint="`takeback recover` shows it"
        )
    if isinstance(refusal, HeadMoved):
        raise Conflict("the head moved meanwhile", thread=info.name)
    if refusal is not None:
        raise ThreadDeleted("the thread was deleted", thread=info.name)
