"""What is wrong in a synchronous program, and the error that a checker gives for the line."""

from __future__ import annotations

from dataclasses import dataclass

import takeback


@dataclass
class Trip:
    to: str = ""


def travel(tb: takeback.Repo) -> None:
    trip = tb.thread("travel/42", model=Trip)
    trip.state.from_  # refused: attr-defined
    trip.version = 3  # refused: misc
    trip.undo(3)  # refused: arg-type
    trip.undo("b1", "because")  # refused: call-arg
    trip.commit(Trip(), on_conflict="overwrite")  # refused: arg-type
    trip.commit(Trip(), because="cheaper")  # refused: call-arg
    trip.plan_merge("other").apply()  # refused: union-attr
    trip.step("book").state = {"to": "NYC"}  # refused: assignment
    other: takeback.Thread[int] = trip  # refused: assignment
    other.name.upper(1)  # refused: call-arg
    takeback.open("agent.db", durability=1)  # refused: arg-type
