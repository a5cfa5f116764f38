"""A worker: carries out what plans wait for, in a process that has the tools."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from takeback.calling import Hands
from takeback.engine import lines, owners
from takeback.engine.book import book_of
from takeback.errors import BadRequest, PlanStale

if TYPE_CHECKING:
    from collections.abc import Callable

    from takeback.engine.book import Book
    from takeback.engine.context import Context
    from takeback.model.ledger import PlanCell


def load(app: str) -> None:
    """Import the module that declares the tools: `module`, or `module:name` for one that has to be called."""
    module, _, name = app.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        loaded = importlib.import_module(module)
    except Exception as error:  # whatever stands in a module that is not ours
        raise _cannot(app, error) from error
    if not name:
        return
    found = getattr(loaded, name, None)
    if found is None:
        raise BadRequest(f"--app {app}: {module} has no {name}", hint="Leave the name out to import it alone")
    if callable(found) and not hasattr(found, "declared"):
        try:
            found()
        except Exception as error:
            raise _cannot(app, error) from error


def round_of_work(
    ctx: Context, *, stop: threading.Event | None = None, told: Callable[[str], None] | None = None
) -> int:
    """Go on with every plan that waits for something that this process can do; how many lines were done."""
    done = 0
    for cell in ctx.storage.cells(ctx.tenant, live=True):
        if cell.kind != "plan":
            continue
        book = book_of(ctx, cell.family).refresh()
        before = book.plans[cell.key]
        if before.state != "applying":
            continue
        with contextlib.suppress(PlanStale):  # another worker ended it meanwhile
            lines.carry_on(ctx, book, before, _Until(stop))
        said = _did(book, before, book.plans[cell.key])
        done += len(said)
        if told is not None:
            for text in said:
                told(text)
    return done


def work(
    ctx: Context,
    *,
    stop: threading.Event,
    poll: float = 0.5,
    told: Callable[[str], None] | None = None,
) -> int:
    """Rounds of work until it is told to stop, which it does after the line that it is at."""
    done, waiter = 0, ctx.waiter(poll)
    while not stop.is_set():
        done += round_of_work(ctx, stop=stop, told=told)
        waiter.wait(stop=stop)
    return done


class _Until(Hands):
    """The tools of this process, until it is to stop: then what is left is for another."""

    def __init__(self, stop: threading.Event | None) -> None:
        self._stop = stop

    def has(self, handler: str) -> bool:
        return not (self._stop is not None and self._stop.is_set()) and super().has(handler)


def _did(book: Book, before: PlanCell, after: PlanCell) -> list[str]:
    """The lines that this process brought to an end, in words."""
    said = []
    for was, line in zip(before.lines, after.lines, strict=True):
        ended = line.state in ("done", "failed") and was.state in ("todo", "running")
        if ended and (not line.owner or owners.ours(line.owner)):
            effect = book.effects[line.effect]
            why = f": {line.error}" if line.error else ""
            said.append(f"{line.do} #{effect.number} ({effect.shown}) with {line.handler}: {line.state}{why}")
    return said


def _cannot(app: str, error: Exception) -> BadRequest:
    said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
    return BadRequest(
        f"--app {app} cannot be imported: {said}",
        hint="Give a module that can be imported from here: --app module, or module:name",
    )
