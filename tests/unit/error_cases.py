"""What the tests of errors share: a store to go wrong in, and how an error comes about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import apsw

import takeback
from takeback import errors

if TYPE_CHECKING:
    import pytest


@dataclass
class World:
    """What a scenario has at hand: a store in a file, a thread of two versions, a way to bend the rules."""

    path: str
    tb: takeback.Repo
    patch: pytest.MonkeyPatch

    @property
    def trip(self):
        return self.tb.thread("t")

    @property
    def storage(self):
        return self.tb._ctx.storage

    def sql(self, text):
        """A change behind the library's back."""
        self.tb.close()
        connection = apsw.Connection(self.path)
        connection.execute(text)
        connection.close()


@dataclass
class Case:
    """How an error comes about, and what it says: words of its text, and the fields that name the place."""

    cause: Callable[[World], object]
    words: tuple[str, ...]
    where: dict = field(default_factory=dict)


CASES: dict[type[errors.TakebackError], Case] = {}


def case(error, *words, **where):
    def register(cause):
        CASES[error] = Case(cause, words, where)
        return cause

    return register
