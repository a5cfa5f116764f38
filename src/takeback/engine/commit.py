"""The central act: a checkpoint joins its thread. Every verb that makes a version ends here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from takeback.engine import reach
from takeback.engine.carrying import carried
from takeback.engine.context import BUILD, Context, Tip, current_trace
from takeback.engine.merge3 import merge_values
from takeback.engine.patch import DELETE
from takeback.errors import (
    BadRequest,
    Conflict,
    MergeConflict,
    RollbackInProgress,
    StepLost,
    ThreadDeleted,
    ThreadExists,
    TooLarge,
    Unstorable,
)
from takeback.model import canonical
from takeback.model.graphs import MARK
from takeback.model.ids import ThreadUid, checkpoint_id, thread_uid
from takeback.model.manifest.nodes import BLOB_HEAD
from takeback.model.paths import Path
from takeback.model.records import OPERATIONS, Checkpoint, FileRoot, Pointer, ThreadInfo, sign
from takeback.model.records import make as make_checkpoint
from takeback.model.refs import check_name
from takeback.model.tree import edit
from takeback.model.tree.build import build
from takeback.model.tree.nodes import Payload, Writer, value_size
from takeback.storage.base import (
    Batch,
    FilesGone,
    FilesKept,
    HeadMoved,
    LedgerMoved,
    NameTaken,
    NewCheckpoint,
    NewThread,
    Refusal,
    Row,
    ThreadGone,
    ThreadLocked,
)
from takeback.storage.items import ItemMoved


class Said(msgspec.Struct, frozen=True):
    """What a caller says about a version: why, by whom, and anything else."""

    reason: str | None = None
    actor: str | None = None
    step: str | None = None
    meta: dict[str, Any] = {}


def metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as a dict of its own; what it holds is checked when it is stored."""
    if given is not None and not isinstance(given, Mapping):
        raise BadRequest(f"metadata is a mapping, not {type(given).__name__}", path="/meta")
    return dict(given or {})


class Identity(msgspec.Struct, frozen=True):
    """What a thread is given when it comes into being."""

    name: str
    agent: str | None = None
    user: str | None = None
    meta: dict[str, Any] = {}
    uid: ThreadUid | None = None
    family: ThreadUid | None = None


class Draft(msgspec.Struct, frozen=True):
    """A version before it has a place: what it holds and, for those that go back, where from."""

    kind: str
    root: bytes
    said: Said
    objects: dict[bytes, bytes] = {}
    origin: Pointer | None = None
    merged: Pointer | None = None
    undoes: int | None = None
    ledger: str = ""
    uses: bytes = b""
    files: list[FileRoot] | None = None  # None: those of the head
    namespace: str = ""
    graph: dict[str, Any] | None = None  # what it says to a graph; None: what the head's thread makes of it
    contents: dict[bytes, bytes] = {}  # objects of its files: contents are not kept at hand
    stack: tuple[int | None, int | None] | None = None  # undo and redo tops; None: a new operation


class LedgerStale(Exception):
    """The ledger moved while a version was made that says something to it: to be tried again."""


class ItemStale(Exception):
    """An item of memory moved while a version was made that writes to it, or goes back over it: likewise."""


Beside: TypeAlias = Callable[[Checkpoint], list[Row]]
"""The rows that go with a version, once it has its place."""


def publish(
    ctx: Context, tip: Tip, draft: Draft, beside: Beside | None = None, *, lock: bytes | None = None
) -> Tip:
    """Append a version to a thread, if its head is still the one that the draft was made for."""
    checkpoint = _signed(ctx, _placed(ctx, tip, _said_to_graph(ctx, tip.head, draft)))
    rows = [] if beside is None else beside(checkpoint)
    objects = draft.objects | draft.contents if draft.contents else draft.objects
    batch = Batch(ctx.tenant, [NewCheckpoint(checkpoint, lock), *rows], objects)
    refusal = ctx.storage.apply(batch)
    if refusal is not None:
        raise _moved(ctx, tip, refusal)
    ctx.cache.put(draft.objects.items())
    ctx.cache.put(pair for pair in draft.contents.items() if pair[1][:2] != BLOB_HEAD)
    ctx.remember(checkpoint)
    return Tip(_advanced(tip.info, checkpoint), checkpoint)


def create(ctx: Context, identity: Identity, draft: Draft, source: Checkpoint | None = None) -> Tip:
    """A thread comes into being with its first version; `source` is where it starts from."""
    for what, owner in (("agent", identity.agent), ("user", identity.user)):
        if owner is not None:
            check_name(owner, f"thread's {what}")
    uid = identity.uid or thread_uid()
    meta = _limited(canonical.encode(identity.meta, ("meta",)), "a thread's metadata")
    draft = draft if source is None else _said_to_graph(ctx, source, draft)
    first = _signed(ctx, _first(ctx, identity.name, uid, draft))
    family = identity.family or uid
    row = NewThread(
        identity.name, uid, identity.agent, identity.user, meta, first.time_us, first, family, draft.origin,
        None if source is None else source.uid,
    )  # fmt: skip
    taken: list[Row] = [FilesKept(source.uid, source.version)] if source is not None and draft.files else []
    refusal = ctx.storage.apply(Batch(ctx.tenant, [*taken, row], draft.objects))
    if isinstance(refusal, FilesGone):
        raise reach.files_pruned(refusal, identity.name if source is None else source.thread)
    if source is not None and isinstance(refusal, ThreadGone):
        raise ThreadDeleted("the thread was deleted", thread=source.thread, checkpoint=source.version)
    if refusal is not None:
        raise ThreadExists(
            f"a thread {identity.name!r} exists already",
            thread=identity.name,
            hint="Open it, or choose another name",
        )
    ctx.cache.put(draft.objects.items())
    info = ThreadInfo(
        name=identity.name, uid=uid, agent=identity.agent, user=identity.user, meta=canonical.decode(meta),
        created_us=first.time_us, head=0, head_digest=first.digest, updated_us=first.time_us,
        origin=draft.origin, family=family,
    )  # fmt: skip
    return Tip(info, first)


def draft_state(ctx: Context, tip: Tip | None, state: Any, kind: str, said: Said) -> Draft:
    """A version that holds this state; along the boundaries of the head's, so that little is hashed."""
    writer, prior = _writer(ctx, tip)
    _, payload = build(state, prior, writer)
    return _drafted(writer, payload, kind, said)


def draft_edits(ctx: Context, tip: Tip, edits: list[tuple[Path, Any]], kind: str, said: Said) -> Draft:
    """A version in which some paths differ from the head; nothing else is loaded."""
    writer, payload = _writer(ctx, tip)
    assert payload is not None
    for path, value in edits:
        if value is DELETE:
            payload = edit.remove(payload, path, writer)
        else:
            payload = edit.put(payload, path, value, writer)
    return _drafted(writer, payload, kind, said)


def draft_extend(ctx: Context, tip: Tip, path: Path, values: list[Any], said: Said) -> Draft:
    """A version in which the list at a path has more items; its others are not loaded."""
    writer, payload = _writer(ctx, tip)
    assert payload is not None
    return _drafted(writer, edit.extend(payload, path, values, writer), "append", said)


def publish_or_merge(
    ctx: Context,
    tip: Tip,
    make: Callable[[Tip], Draft],
    on_conflict: str,
    state: Callable[[], Any] | None,
    beside: Beside | None = None,
    *,
    one_line: bool = False,
) -> Tip:
    """Publish; when the head moved and merging is asked for, make the change again on the new head.

    Edits and appends are made again as they are. A whole `state` is merged three ways first. `one_line`
    refuses to do so over a rollback: what was begun before it is over.
    """
    base = tip
    draft = make(tip)
    while True:
        try:
            return publish(ctx, tip, draft, beside)
        except Conflict:
            if on_conflict != "merge":
                raise
        found = ctx.tip(tip.info.name)
        if found is None or found.info.uid != base.info.uid:
            raise ThreadDeleted("the thread was deleted", thread=base.info.name)
        tip = found
        if one_line and tip.info.lock is not None:
            raise _moved(ctx, tip, ThreadLocked(tip.info.lock))
        if one_line and tip.head.line != base.head.line:
            raise StepLost(
                "the thread went back while the step was open: what it did to the state is discarded",
                thread=base.info.name,
                checkpoint=tip.head.version,
                hint="thread.refresh(), look, and enter the step anew",
            )
        if state is None:
            draft = make(tip)
            continue
        merged, clashes = merge_values(
            ctx.state(base.head), canonical.decode(canonical.encode(state())), ctx.state(tip.head)
        )
        if clashes:
            raise MergeConflict(
                f"the head moved from {base.head.version} to {tip.head.version}, and both changed "
                + ", ".join(str(clash) for clash in clashes[:3]),
                conflicts=clashes,
                thread=tip.info.name,
                checkpoint=tip.head.version,
            )
        again = draft_state(ctx, tip, merged, draft.kind, draft.said)
        # What the version covers beside the state goes with it.
        draft = msgspec.structs.replace(draft, root=again.root, objects=draft.objects | again.objects)


def _writer(ctx: Context, tip: Tip | None) -> tuple[Writer, Payload | None]:
    writer = Writer(ctx)
    if tip is None:
        return writer, None
    writer.known.add(tip.head.state_root)
    return writer, ctx.get(tip.head.state_root)


def _drafted(writer: Writer, payload: Payload, kind: str, said: Said) -> Draft:
    size = value_size(payload)
    if size > canonical.MAX_STATE:
        raise TooLarge(f"a state of {size:,} bytes; the limit is {canonical.MAX_STATE:,}", path="")
    return Draft(kind, writer.put(payload), said, writer.new)


def _placed(ctx: Context, tip: Tip, draft: Draft) -> Checkpoint:
    """The draft with its place in the thread: version, line, chain, time, and the undo stack after it."""
    head = tip.head
    version = head.version + 1
    stack = draft.stack
    if stack is None:
        stack = (version, None) if draft.kind in OPERATIONS else (head.undo_top, head.redo_top)
    return _checkpoint(
        ctx,
        draft,
        thread=tip.info.name,
        uid=tip.info.uid,
        version=version,
        line=head.line if draft.origin is None else version,
        previous=head.digest,
        before=head.version,
        floor_us=head.time_us,
        stack=stack,
        files=head.files if draft.files is None else draft.files,
    )


def _said_to_graph(ctx: Context, head: Checkpoint, draft: Draft) -> Draft:
    if draft.graph is not None or not head.meta:
        return draft
    found = carried(ctx, head, draft.root, draft.objects, draft.origin, draft.kind)
    if draft.kind == head.kind == "step" and found == {MARK: {}} and head.undo_top is not None:
        # What a tool did within a graph's run is part of the run, and goes back with it.
        draft = msgspec.structs.replace(draft, stack=(head.undo_top, None))
    return msgspec.structs.replace(draft, graph=found)


def _first(ctx: Context, name: str, uid: ThreadUid, draft: Draft) -> Checkpoint:
    return _checkpoint(
        ctx,
        draft,
        thread=name,
        uid=uid,
        version=0,
        line=0,
        previous=b"",
        before=None,
        floor_us=0,
        stack=(None, None),
        files=draft.files or [],
    )


def _checkpoint(
    ctx: Context,
    draft: Draft,
    *,
    version: int,
    floor_us: int,
    stack: tuple[int | None, int | None],
    **place: Any,
) -> Checkpoint:
    clock = ctx.clock()
    trace_id, span_id = current_trace()
    said = _sound(draft.said)
    return make_checkpoint(
        version=version,
        id=checkpoint_id(version),
        kind=draft.kind,
        state_root=draft.root,
        time_us=max(clock, floor_us),
        clock_us=clock,
        origin=draft.origin,
        merged=draft.merged,
        undoes=draft.undoes,
        undo_top=stack[0],
        redo_top=stack[1],
        step=said.step,
        reason=said.reason,
        actor=said.actor or ctx.actor,
        trace_id=trace_id,
        span_id=span_id,
        build=BUILD,
        meta=said.meta | draft.graph if draft.graph else said.meta,
        namespace=draft.namespace,
        ledger=draft.ledger,
        uses=draft.uses,
        **place,
    )


def _sound(said: Said) -> Said:
    """What was said, as it will be read: refused where it could not be stored, and no longer the caller's."""
    for name in ("step", "reason", "actor"):
        text = getattr(said, name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise Unstorable(f"a checkpoint's {name} is text, not {type(text).__name__}", path=f"/{name}")
        _limited(canonical.encode(str(text), (name,)), f"a checkpoint's {name}", f"/{name}")
    if not said.meta:
        return said
    meta = _limited(canonical.encode(said.meta, ("meta",)), "a checkpoint's metadata")
    return msgspec.structs.replace(said, meta=canonical.decode(meta))


def _signed(ctx: Context, checkpoint: Checkpoint) -> Checkpoint:
    if ctx.key is None:
        return checkpoint
    return msgspec.structs.replace(checkpoint, mac=sign(checkpoint.digest, ctx.key))


def _limited(raw: bytes, what: str, path: str = "/meta") -> bytes:
    if len(raw) > canonical.MAX_META:
        raise TooLarge(f"{what} takes {len(raw):,} bytes; the limit is {canonical.MAX_META:,}", path=path)
    return raw


def _advanced(info: ThreadInfo, checkpoint: Checkpoint) -> ThreadInfo:
    return msgspec.structs.replace(
        info, head=checkpoint.version, head_digest=checkpoint.digest, updated_us=checkpoint.time_us
    )


def _moved(ctx: Context, tip: Tip, refusal: Refusal) -> Exception:
    name, expected = tip.info.name, tip.head
    if isinstance(refusal, LedgerMoved):
        return LedgerStale()
    if isinstance(refusal, ItemMoved):
        return ItemStale()
    if isinstance(refusal, FilesGone):
        return reach.files_pruned(refusal, name)
    if isinstance(refusal, ThreadLocked):
        return RollbackInProgress(
            "a plan is being applied to the thread" if refusal.lock else "the plan that held it is over",
            thread=name,
            hint="It can be read and forked meanwhile; `takeback recover` shows how far the plan came",
        )
    if isinstance(refusal, ThreadGone):
        return ThreadDeleted(
            "the thread was deleted", thread=name, hint="What is written late does not bring it back"
        )
    if isinstance(refusal, NameTaken):
        return ThreadExists(f"a thread {name!r} exists already", thread=name)
    assert isinstance(refusal, HeadMoved)
    actual = ctx.storage.checkpoint(ctx.tenant, tip.info.uid, refusal.head)
    return Conflict(
        f"the head is {actual.id if actual else refusal.head}, not {expected.id}, for which this was made",
        expected=expected.id,
        actual=actual.id if actual else None,
        thread=name,
        checkpoint=expected.version,
        hint="thread.refresh() and look again, or write with on_conflict='merge'",
    )
