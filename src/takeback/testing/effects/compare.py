"""The same program on two subjects, answer by answer: where they first differ."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.testing.effects.drive import Drive, Make
from takeback.testing.effects.witness import Broken

if TYPE_CHECKING:
    from takeback.testing.effects.subject import Answer, Subject


class Difference(msgspec.Struct, frozen=True):
    """The first place at which two subjects part."""

    verb: str
    """What was asked, or what was looked at when all was over."""
    one: Any
    other: Any
    before: tuple[str, ...]
    """What was asked and answered up to there, alike by both."""

    def __str__(self) -> str:
        return "\n".join([*self.before, f"{self.verb}", f"  one:   {self.one}", f"  other: {self.other}"])


def difference(choices: Iterable[int], one: Make, other: Make) -> Difference | None:
    """Nothing if every answer is the same, and the ledgers are when the program has ended.

    A promise that one of them breaks is its last answer: only a difference if the other keeps it.
    Keys are not compared, as they are random where threads are: each run checks that its own are unique.
    """
    program = list(choices)
    first, second = _through(program, one), _through(program, other)
    before: list[str] = []
    for mine, theirs in zip_longest(first.answers, second.answers, fillvalue=("the end", ())):
        if mine != theirs:
            verb = mine[0] if mine[0] == theirs[0] else f"{mine[0]} | {theirs[0]}"
            return Difference(verb, mine[1], theirs[1], tuple(before))
        before.append(f"{mine[0]} -> {mine[1]}")
    for name in LEDGER:
        left, right = shown(first.subject, name), shown(second.subject, name)
        if left != right:
            return Difference(name, left, right, tuple(before))
    return None


LEDGER = ("effects", "approvals", "threads", "plans", "discrepancies")


def shown(subject: Subject, name: str) -> Any:
    """A part of what can be seen, as values that are the same for the same history."""
    if name == "discrepancies":
        return {one.name: subject.discrepancies(one.name) for one in subject.threads()}
    rows = getattr(subject, name)()
    return [msgspec.structs.replace(row, keys=()) for row in rows] if name == "effects" else rows


def _through(program: list[int], make: Make) -> Drive:
    drive = Drive(program, make)
    try:
        drive.run()
    except Broken as found:
        answer: Answer = ("broken", found.promise)
        drive.answers.append(("all that was promised", answer))
    return drive
