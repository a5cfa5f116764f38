"""What is right in an async program. A comment behind `reveal_type` says what a checker finds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import reveal_type

import takeback
from takeback.aio import AsyncThread


@dataclass
class Trip:
    to: str = ""
    messages: list[str] = field(default_factory=list)


async def travel(path: str) -> Sequence[takeback.Checkpoint]:
    async with await takeback.aopen(path, actor="planner") as tb:
        reveal_type(tb)  # AsyncRepo
        reveal_type(tb.actor)  # str | None
        reveal_type(await tb.thread("any"))  # AsyncThread[Any]
        trip = await tb.thread("travel/42", model=Trip, initial={"to": "NYC"})
        reveal_type(trip)  # AsyncThread[Trip]
        reveal_type(await trip.state)  # Trip
        reveal_type((await trip.state).to)  # str
        reveal_type(trip.name)  # str
        reveal_type(trip.version)  # int
        reveal_type(trip.head)  # Checkpoint
        reveal_type(trip.exists)  # bool
        reveal_type(await trip.refresh())  # AsyncThread[Trip]
        reveal_type(await trip.fork("head~1"))  # AsyncThread[Trip]
        reveal_type(await trip.at(0))  # AsyncView[Trip]
        reveal_type(await (await trip.at(0)).state)  # Trip
        async with trip.step("book", reason="cheaper") as s:
            reveal_type(s)  # AsyncStep[Trip]
            reveal_type(s.state)  # Trip
            reveal_type(s.thread)  # AsyncThread[Trip]
            s.state.messages.append("booked")
            s.state = Trip(to="SFO")
        reveal_type(s.made)  # Checkpoint | None
        reveal_type(await trip.commit(Trip(), on_conflict="merge"))  # Checkpoint
        reveal_type(await trip.patch({"to": takeback.DELETE}))  # Checkpoint
        plan = await trip.plan_undo()
        reveal_type(plan)  # AsyncPlan
        reveal_type(plan.kind)  # str
        reveal_type(await plan.lines())  # list[str]
        reveal_type(await plan.apply())  # AsyncReceipt
        reveal_type(await trip.plan_merge(trip))  # AsyncPlan | None
        receipt = await trip.undo()
        reveal_type(receipt.checkpoint)  # Checkpoint
        reveal_type(await receipt.done)  # list[str]
        reveal_type(await trip.labels)  # dict[str, int]
        diff = await trip.diff(0)
        reveal_type(await diff.changes)  # list[Change]
        reveal_type(len(diff))  # int
        reveal_type([change async for change in diff])  # list[Change]
        reveal_type(await tb.threads(limit=3))  # list[ThreadInfo]
        reveal_type(await asyncio.gather(trip.state, trip.labels))  # tuple[Trip, dict[str, int]]
        async for report in tb.verify():
            reveal_type(report)  # Report
        reveal_type(await tb.audit())  # list[AuditEntry]
        reveal_type([c.version async for c in trip.history(inherited=True)])  # list[int]
        return await trip.history(newest_first=False)


def name(trip: AsyncThread[Trip]) -> str:
    return trip.name
