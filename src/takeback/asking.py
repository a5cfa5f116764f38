"""Approvals as callers hold them: a request to a person, its answer, and waiting for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from takeback.engine import approvals
from takeback.errors.base import naming
from takeback.model.ids import shown

if TYPE_CHECKING:
    from takeback.engine.book import Book
    from takeback.engine.context import Context
    from takeback.model.ledger import ApprovalCell

_POLL = 0.1


class Approval:
    """A person's yes to one exact call, or an answer to a question; asked for, and perhaps decided."""

    def __init__(self, ctx: Context, book: Book, cell: ApprovalCell) -> None:
        self._ctx, self._book, self._id = ctx, book, cell.id

    @property
    def number(self) -> int:
        """What people call it by."""
        return self._cell.number

    @property
    def shown(self) -> str:
        """The call, or the question, in words."""
        return self._cell.shown

    @property
    def thread(self) -> str:
        """The thread whose call it is."""
        info = self._ctx.storage.thread_by_uid(self._ctx.tenant, self._cell.thread)
        return info.name if info else shown(self._cell.thread)

    @property
    def facts(self) -> dict[str, Any]:
        """What the decision rests on: if they are others when the call is made, it is void."""
        return dict(self._cell.facts)

    @property
    def state(self) -> str:
        """requested, granted, denied, used, void or expired, as last read."""
        late = approvals.expired(self._cell, self._book.clock())
        return "expired" if late else self._cell.state

    @property
    def is_question(self) -> bool:
        """Whether it asks for an answer rather than for a yes."""
        return not self._cell.tool

    def wait(self, timeout: float | None = None) -> str:
        """Wait until somebody decides, or for so many seconds; the state then. Call the tool again after."""
        until = None if timeout is None else time.monotonic() + timeout
        told = self._ctx.waiter(_POLL)
        while self.refresh().state == "requested":
            if until is not None and time.monotonic() >= until:
                break
            told.wait(until=until)
        return self.state

    def grant(self, *, actor: str | None = None, private_key: bytes | None = None) -> Approval:
        """Say yes, as somebody other than who asked; signed, where the store's grants are."""
        return self._decide(True, actor, None, private_key)

    def deny(self, reason: str | None = None, *, actor: str | None = None) -> Approval:
        """Say no."""
        return self._decide(False, actor, reason, None)

    def refresh(self) -> Approval:
        """Read it again."""
        self._book.refresh()
        return self

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        cell = self._cell
        return {
            "number": cell.number, "id": shown(cell.id), "thread": self.thread,
            "tool": cell.tool or None, "shown": cell.shown, "facts": cell.facts, "why": cell.why or None,
            "state": self.state, "asked_by": cell.asked_by, "decided_by": cell.decided_by,
            "args": self._book.load(cell.args) if cell.tool else None,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"<Approval #{self.number} {self.state}: {self.shown}>"

    @property
    def _cell(self) -> ApprovalCell:
        return self._book.approvals[self._id]

    def _decide(self, granted: bool, actor: str | None, note: str | None, key: bytes | None) -> Approval:
        self._book.refresh()
        by = actor or self._ctx.actor
        with naming(self.thread):
            approvals.decide(self._ctx, self._book, self._cell, granted=granted, by=by, note=note, sign=key)
        return self
