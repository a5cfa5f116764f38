"""A limit to what a workspace's files may take, kept beside its store: the watcher applies it at rest."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from takeback import Thread
from takeback.errors import BadRequest, StoreUnavailable

_NAME = "budget.json"


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the files may take, how many of the newest versions stay whole, and what is too new to go."""

    size: int
    keep: int = 20
    grace: int = 60


class Asked(Exception):
    """Somebody needs the watcher: the rest is for later."""


def read(folder: str) -> Budget | None:
    """The limit of a workspace; None where none was set."""
    path = os.path.join(folder, _NAME)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Budget)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise BadRequest(f"{path} is no budget: {error}", hint="Set it anew: takeback gc --always") from None


def write(folder: str, budget: Budget | None) -> None:
    """Set the limit in place of any before, or (None) take it away."""
    path = os.path.join(folder, _NAME)
    try:
        if budget is None:
            if os.path.exists(path):
                os.unlink(path)
            return
        with open(path + ".new", "wb") as file:
            file.write(msgspec.json.encode(budget))
        os.replace(path + ".new", path)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}") from None


def keep_to(folder: str, thread: Thread[Any], collect: Collect, asked: Callable[[], bool]) -> str | None:
    """Give up the files that do not fit, then remove what nothing needs; what was done, in a line.

    Breaks off with `Asked` as soon as somebody asks: what was removed so far is removed.
    """
    budget = read(folder)
    if budget is None:
        return None

    def look(*_: object) -> None:
        if asked():
            raise Asked

    look()
    given_up = thread.refresh().prune(budget.size, keep=budget.keep, reason="the budget")
    done = collect(budget.grace, look)
    runs = ", ".join(f"{low} to {high}" for low, high in given_up.runs)
    what = f"gave up the files of versions {runs}" if runs else "gave up no files"
    return f"budget of {budget.size:,} bytes: {what}; removed {done} objects"


Collect = Callable[[int, Callable[[str, int], None]], int]
"""Removes what nothing needs, by grace and with somebody to tell; how many objects that was."""
