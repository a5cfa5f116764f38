"""What is wrong in an async program, and the error that a checker gives for the line."""

from __future__ import annotations

from dataclasses import dataclass

import takeback


@dataclass
class Trip:
    to: str = ""


async def travel(path: str) -> None:
    async with takeback.aopen(path):  # refused: attr-defined
        pass
    tb = await takeback.aopen(path)
    tb.thread("travel/42").name  # refused: attr-defined
    trip = await tb.thread("travel/42", model=Trip)
    trip.commit(Trip())  # refused: unused-coroutine
    trip.state.to  # refused: attr-defined
    (await trip.state).from_  # refused: attr-defined
    await trip.name  # refused: misc
    await trip.version  # refused: misc
    trip.state = Trip()  # refused: misc, assignment
    await trip.undo(3)  # refused: arg-type
    await trip.commit(Trip(), on_conflict="overwrite")  # refused: arg-type
    await trip.commit(Trip(), because="cheaper")  # refused: call-arg
    with trip.step("book"):  # refused: attr-defined
        pass
    async with trip.step("book") as s:
        s.state = {"to": "NYC"}  # refused: assignment
    for _ in trip.history():  # refused: attr-defined
        pass
    await trip.merge(takeback.open(path).thread("other"))  # refused: arg-type
    other: takeback.Thread[Trip] = trip  # refused: assignment
    other.refresh()
    await takeback.aopen(path, durability=1)  # refused: arg-type
