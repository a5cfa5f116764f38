"""A worker: carries out what plans wait for, in a process that has the tools."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from takeback.calling import Hands
from takeback.engine import lines
from takeback.engine.book import book_of
from takeback.errors import BadRequest, PlanStale

if TYPE_CHECKING:
    from takeback.engine.context import Context
    from takeback.model.ledger import PlanCell


def load(app: str) -> None:
    """Import the module that declares the tools: `module`, or `module:name` for one that has to be called."""
    module, _, name = app.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise BadRequest(
            f"--app {app}: {error}", hint="Give a module that can be imported from here"
        ) from error
    if not name:
        return
    found = getattr(loaded, name, None)
    if found is None:
        raise BadRequest(f"--app {app}: {module} has no {name}")
    if callable(found) and not hasattr(found, "declared"):
        found()


def round_of_work(ctx: Context) -> int:
    """Go on with every plan that waits for something that this process can do; how many lines were done."""
    hands, done = Hands(), 0
    for cell in ctx.storage.cells(ctx.tenant, live=True):
        if cell.kind != "plan":
            continue
        book = book_of(ctx, cell.family).refresh()
        plan = book.plans[cell.key]
        if plan.state != "applying":
            continue
        before = _left(plan)
        with contextlib.suppress(PlanStale):  # another worker ended it meanwhile
            lines.carry_on(ctx, book, plan, hands)
        done += before - _left(book.plans[cell.key])
    return done


def work(ctx: Context, *, stop: threading.Event, poll: float = 0.5) -> int:
    """Rounds of work until it is told to stop; how many lines were done."""
    done = 0
    while not stop.is_set():
        done += round_of_work(ctx)
        stop.wait(poll)
    return done


def _left(plan: PlanCell) -> int:
    return sum(line.state in ("todo", "running") for line in plan.lines)
