"""What is right in a synchronous program. A comment behind `reveal_type` says what a checker finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import reveal_type

import takeback


@dataclass
class Trip:
    to: str = ""
    messages: list[str] = field(default_factory=list)


def travel(path: str) -> Sequence[takeback.Checkpoint]:
    with takeback.open(path, actor="planner") as tb:
        reveal_type(tb)  # Repo
        reveal_type(tb.thread("any"))  # Thread[Any]
        trip = tb.thread("travel/42", model=Trip, initial={"to": "NYC"})
        reveal_type(trip)  # Thread[Trip]
        reveal_type(trip.state)  # Trip
        reveal_type(trip.state.to)  # str
        reveal_type(trip.refresh())  # Thread[Trip]
        reveal_type(trip.fork("head~1"))  # Thread[Trip]
        reveal_type(trip.at(0))  # View[Trip]
        reveal_type(trip.at(0).state)  # Trip
        with trip.step("book", reason="cheaper") as s:
            reveal_type(s)  # Step[Trip]
            reveal_type(s.state)  # Trip
            s.state.messages.append("booked")
            s.state = Trip(to="SFO")
        reveal_type(s.made)  # Checkpoint | None
        reveal_type(trip.commit(Trip(), on_conflict="merge"))  # Checkpoint
        reveal_type(trip.patch({"to": takeback.DELETE}))  # Checkpoint
        reveal_type(trip.plan_undo())  # Plan
        reveal_type(trip.plan_merge("other"))  # Plan | None
        reveal_type(trip.undo())  # Receipt
        reveal_type(trip.undo().done)  # list[str]
        reveal_type(trip.labels)  # dict[str, int]
        reveal_type(trip.diff(0).changes)  # list[Change]
        reveal_type(tb.threads(limit=3))  # list[ThreadInfo]
        for report in tb.verify():
            reveal_type(report)  # Report
        return list(trip.history(newest_first=False))
