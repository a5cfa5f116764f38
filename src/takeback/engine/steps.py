"""Steps that are recorded: entering, resuming, taking over and closing one; and replaying one of a run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from takeback.engine import owners
from takeback.engine.book import Book, Change, Lineage, book_of
from takeback.engine.commit import Draft, ItemStale, LedgerStale, Said, draft_state, publish_or_merge
from takeback.engine.context import Context, Tip
from takeback.engine.items import MEMORY, Buffer
from takeback.errors import (
    EffectUndone,
    EffectUnknown,
    ReplayDiverged,
    RollbackInProgress,
    StepInProgress,
    StepLost,
)
from takeback.model import canonical
from takeback.model.ledger import Effect, Entry, StepCell, Use
from takeback.model.records import Checkpoint
from takeback.storage.base import Row

_POLL = 0.05
_LAST = 2**63 - 1  # no version is greater
_replace = msgspec.structs.replace


class Session:
    """One attempt at a step: what it holds, and which effects it has claimed so far."""

    def __init__(
        self, ctx: Context, tip: Tip, cell: StepCell, *, stored: bool, replays: bool = False
    ) -> None:
        self.ctx, self.tip, self.cell = ctx, tip, cell
        self.book: Book = book_of(ctx, tip.info.family)
        self.stored, self.replays = stored, replays
        self.kin: Callable[[Effect], bool] | None = None  # what the guard passes over: calls of the same work
        self.claimed: dict[bytes, None] = {}
        self.lock = threading.RLock()

    @property
    def lineage(self) -> Lineage:
        """L(head) as it was when the step was entered: what others commit meanwhile changes no beliefs."""
        return self.book.lineage(self.tip.pointer)

    @property
    def recorded(self) -> bool:
        """Whether closing it has something to say to the ledger."""
        return self.stored or bool(self.claimed) or self.cell.run is not None

    def calls(self) -> list[Effect]:
        """The step's effects in the order in which a call is matched: its own, then those it took over."""
        if self.replays:
            return [self.book.effects[each] for each in self.cell.claims]
        own = self.book.of_step(self.cell.id)
        return own + [self.book.effects[each] for each in self.cell.reused]

    def claim(self, effect: Effect) -> None:
        self.claimed[effect.id] = None

    def still_mine(self) -> StepCell:
        """The step's cell, if this attempt still holds it, as far as is known here."""
        if self.book.held(self.cell.thread):
            raise in_progress(self.tip.info.name)
        if not self.stored:
            return self._still_new()
        now = self.book.steps[self.cell.id]
        if now.state != "open":
            raise self.lost(f"the step {now.label!r} was {now.state} meanwhile")
        if now.owner != self.cell.owner:
            who = owners.described(now.owner) if now.owner else "another worker"
            raise self.lost(f"the step {now.label!r} was taken over by {who}")
        return now

    def _still_new(self) -> StepCell:
        """The cell of a step that nothing is written of yet, if nobody else has begun the same one."""
        cell, book = self.cell, self.book
        if book.open_step(cell.thread, cell.line, cell.run, cell.label) is not None:
            raise StepInProgress(
                f"another worker has begun the step {cell.label!r} meanwhile",
                thread=self.tip.info.name,
                hint="Enter it again",
            )
        if cell.run is not None:
            now = self.lineage | {(cell.thread, cell.line): _LAST}
            if book.ordinal(cell.run, cell.label, now, cell.thread, cell.line) != cell.ord:
                raise self.lost(f"another worker has recorded the step {cell.label!r} of the run meanwhile")
        return cell

    def still_here(self) -> None:
        """Refuse where the line of the step is over: before something else is said of a call in it."""
        info = self.tip.info
        at = self.ctx.storage.thread_by_uid(self.ctx.tenant, info.uid)
        if at is not None and (at.head_digest, at.lock, at.deleted_us) == (info.head_digest, None, None):
            return  # nothing at all has happened, which costs less to see
        now = self.ctx.tip(info.name)
        if now is None or now.info.uid != self.tip.info.uid or now.head.line != self.tip.head.line:
            raise self.lost(f"the thread went back while the step {self.cell.label!r} was open")
        if now.info.lock is not None and not self.replays:  # looking back is possible throughout
            raise in_progress(self.tip.info.name)

    def took(self, cell: StepCell) -> None:
        self.cell, self.stored = cell, True

    def lost(self, what: str) -> StepLost:
        return StepLost(
            what, thread=self.tip.info.name, hint="What it did is recorded; enter the step again to go on"
        )


def enter(
    ctx: Context,
    tip: Tip,
    label: str,
    run: str | None = None,
    *,
    entry: int = 0,
    wait: float | None = None,
    take_over: bool = False,
) -> Session:
    """Begin a step, resume the one that is open, or (in a run) replay the one that was recorded."""
    book = book_of(ctx, tip.info.family).refresh()
    if tip.info.lock is not None:
        raise in_progress(tip.info.name)
    if run is not None:
        done = book.closed_steps(run, label, book.lineage(tip.pointer))
        if entry < len(done):
            return Session(ctx, tip, book.steps[done[entry]], stored=True, replays=True)
        if entry > len(done):
            raise ReplayDiverged(
                f"steps {label!r} that the run {run!r} has been through were taken back meanwhile",
                thread=tip.info.name,
                hint="Start it again from its first line",
            )
    found = book.open_step(tip.info.uid, tip.head.line, run, label)
    if found is None:
        return Session(ctx, tip, _new(ctx, tip, book, label, run), stored=False)
    until = None if wait is None else time.monotonic() + wait
    while True:
        try:
            return _resume(ctx, tip, book, found, take_over=take_over)
        except StepInProgress:
            if until is None or time.monotonic() >= until:
                raise
        time.sleep(_POLL)
        book.refresh()
        if book.steps[found.id].state != "open":
            fresh = ctx.tip(tip.info.name)
            return enter(ctx, fresh or tip, label, run, entry=entry, wait=wait, take_over=take_over)


def in_progress(thread: str) -> RollbackInProgress:
    return RollbackInProgress(
        "a plan is being applied to the thread",
        thread=thread,
        hint="It can be read and forked meanwhile; `takeback recover` shows how far the plan came",
    )


def release(session: Session) -> None:
    """The attempt is over."""
    owners.release(session.cell.owner)


def leave(session: Session) -> None:
    """The attempt ended without closing the step: others need not wait for its lease."""
    owners.release(session.cell.owner)
    if not session.stored or session.replays:
        return

    def decide() -> Change:
        now = session.book.steps[session.cell.id]
        if now.state != "open" or now.owner != session.cell.owner:
            return Change()
        return Change([_replace(now, owner="", lease_us=0)])

    session.book.change(decide)


def close(
    session: Session,
    tip: Tip,
    state: Any,
    said: Said,
    memory: Buffer,
    dress: Callable[[Tip, Draft], Draft] = lambda _, draft: draft,
) -> Tip:
    """The step ends as a version; ledger and memory say so in its transaction. `dress` adds its files."""
    ctx, book = session.ctx, session.book
    entries: list[Entry] = []

    def make(at: Tip) -> Draft:
        draft = dress(at, draft_state(ctx, at, state, "step", said))
        return covering(draft, claims_of(session), memory)

    def beside(checkpoint: Checkpoint) -> list[Row]:
        entries[:] = closing(session, checkpoint)
        return [book.row(entries), *memory.rows(checkpoint)]

    while True:
        with book.lock:
            check_close(session)
            try:
                after = publish_or_merge(ctx, tip, make, "merge", lambda: state, beside)
            except LedgerStale:
                book.refresh()
                continue
            except ItemStale:
                memory.again()
                continue
            book.took(entries)
            return after


def check_close(session: Session) -> None:
    """Refuse to close over what nobody knows, or what was taken back."""
    session.still_mine()
    own = session.book.of_step(session.cell.id)
    for effect in own + [e for e in session.calls() if e not in own and e.id in session.claimed]:
        if effect.state in ("begun", "unknown", "undoing", "undo_unknown"):
            raise EffectUnknown(
                f"the step {session.cell.label!r} cannot close: the outcome of #{effect.number} "
                f"({effect.shown}) is not known",
                thread=session.tip.info.name,
                hint=f"`takeback effects resolve {effect.number} --happened` or --did-not, when you know; "
                "or roll back to the head",
            )
        if effect.state == "undone" and effect.id in session.claimed:
            raise EffectUndone(
                f"the step {session.cell.label!r} cannot close: #{effect.number} ({effect.shown}) was "
                "taken back meanwhile",
                thread=session.tip.info.name,
                hint="Enter the step again",
            )


def closing(session: Session, checkpoint: Checkpoint) -> list[Entry]:
    """What the ledger says once the step has closed as this checkpoint."""
    check_close(session)
    cell, uid = session.cell, session.tip.info.uid
    if checkpoint.line != cell.line:
        raise session.lost(f"the thread went back while the step {cell.label!r} was open")
    claims = [each for each in session.claimed if session.book.effects[each].state != "failed"]
    use = Use(uid, checkpoint.line, checkpoint.version)
    over = {"state": "closed", "closed": checkpoint.version, "owner": "", "lease_us": 0}
    entries: list[Entry] = [_replace(cell, claims=list(session.claimed), **over)]
    entries += [_used(session.book.effects[each], use) for each in claims]
    entries += [
        _replace(effect, orphan=True)
        for effect in session.book.of_step(cell.id)
        if effect.may_stand and effect.id not in session.claimed
    ]
    return entries


def claims_of(session: Session) -> list[list[Any]]:
    """Which calls the step closes with, and what came back."""
    effects = [session.book.effects[each] for each in session.claimed]
    return [
        [e.id, e.state, e.redo, e.args_hash, e.result.raw or e.result.digest if e.result else None]
        for e in effects
    ]


def covering(draft: Draft, claims: list[list[Any]], memory: Buffer) -> Draft:
    """The draft of a step's end, whose digest covers its calls and what it wrote into memory."""
    if not claims and not memory:
        return draft
    covered = canonical.encode([*claims, *memory.covered])
    uses = canonical.digest(covered)
    return _replace(draft, uses=uses, objects=draft.objects | memory.objects | {uses: covered})


def differences(book: Book, closed: list[Any]) -> list[str]:
    """Where the ledger says other of a step's calls than they were when it closed. States move on; which call
    it was, and what came back of that try, does not."""
    found = []
    for id_, _, redo, hashed, result in (each for each in closed if each[0] != MEMORY):
        effect = book.effects.get(id_)
        if effect is None:
            found.append("the ledger lacks an effect that its step closed with")
            continue
        now = effect.result.raw or effect.result.digest if effect.result else None
        if effect.args_hash != hashed or effect.redo < redo or (effect.redo == redo and now != result):
            found.append(
                f"the ledger says other of #{effect.number} ({effect.shown}) than when its step closed"
            )
    return found


def _used(effect: Effect, use: Use) -> Effect:
    return effect if use in effect.uses else _replace(effect, uses=[*effect.uses, use])


def _new(ctx: Context, tip: Tip, book: Book, label: str, run: str | None) -> StepCell:
    lineage = book.lineage(tip.pointer)
    return StepCell(
        id=os.urandom(12), thread=tip.info.uid, line=tip.head.line, run=run, label=label,
        ord=book.ordinal(run, label, lineage, tip.info.uid, tip.head.line), base=tip.head.version,
        owner=owners.claim(), lease_us=ctx.shared_clock() + ctx.lease_us,
    )  # fmt: skip


def _resume(ctx: Context, tip: Tip, book: Book, step: StepCell, *, take_over: bool) -> Session:
    """Go on with an open step: calls of whoever had it that have no outcome are unknown from now on."""
    owner = owners.claim()

    def decide() -> Change:
        now = book.steps[step.id]
        clock = ctx.shared_clock()
        if now.state != "open":
            raise StepLost(f"the step {now.label!r} was {now.state} meanwhile", thread=tip.info.name)
        if not take_over and owners.holds(now.owner, now.lease_us, clock):
            raise StepInProgress(
                f"{owners.described(now.owner)} is in the step {now.label!r}",
                thread=tip.info.name,
                hint="Wait for it (wait=seconds), or take it over (take_over=True)",
            )
        resumed = _replace(now, attempt=now.attempt + 1, owner=owner, lease_us=clock + ctx.lease_us)
        return Change([resumed, *book.in_flight(now)], answer=resumed)

    try:
        cell = book.change(decide)
    except BaseException:
        owners.release(owner)
        raise
    return Session(ctx, tip, cell, stored=True)
