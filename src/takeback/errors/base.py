"""The root of the tree of errors, and its groups: what whoever catches one would do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self


class TakebackError(Exception):
    """Something that takeback was asked to do did not happen; nothing was changed."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        thread: str | None = None,
        checkpoint: str | int | None = None,
        path: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what, self.thread, self.checkpoint, self.path, self.hint = what, thread, checkpoint, path, hint
        super().__init__(what)

    def __str__(self) -> str:
        places = [
            f"thread {self.thread!r}" if self.thread is not None else "",
            f"checkpoint {self.checkpoint}" if self.checkpoint is not None else "",
            f"at {self.path or '/'}" if self.path is not None else "",
        ]
        where = ", ".join(place for place in places if place)
        return self.what + (f" ({where})" if where else "") + (f". {self.hint}" if self.hint else "")

    def placed(self, thread: str, checkpoint: int | None = None) -> Self:
        """The same error, with the place that whoever raised it could not know."""
        self.thread = self.thread or thread
        if self.checkpoint is None and self.path is not None:
            self.checkpoint = checkpoint
        return self

    def as_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        fields = {
            "kind": self.kind,
            "message": self.what,
            "thread": self.thread,
            "checkpoint": self.checkpoint,
            "path": self.path,
            "hint": self.hint,
        }
        return {name: value for name, value in fields.items() if value is not None}


class BadRequest(TakebackError):
    """What was asked cannot be done as asked; change the request."""

    kind = "bad_request"
    exit_code = 2


class NotFound(TakebackError):
    """What was named does not exist."""

    kind = "not_found"
    exit_code = 3


class Moved(TakebackError):
    """Somebody else was faster: read again, then decide."""

    kind = "moved"
    exit_code = 4


class StoreError(TakebackError):
    """The store cannot serve this now; the message says why."""

    kind = "store_error"
    exit_code = 5


class IntegrityError(TakebackError):
    """Stored bytes are not those that were written."""

    kind = "integrity"
    exit_code = 6


@contextmanager
def naming(thread: str) -> Iterator[None]:
    """What is refused inside names the thread, where what refuses it knows only a part of it."""
    try:
        yield
    except TakebackError as error:
        # A tool's own word that nothing happened is told again as it was told.
        if error.thread is None and error.kind != "not_done":
            error.thread = thread
        raise
