"""Timing: several pieces of work by turns, in small batches, so that what drifts hits all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Half of the times are below p50, 99 of 100 are below p99. An amount has p50 alone."""

    p50: float
    p99: float | None = None
    count: int = 1


class Measure(msgspec.Struct, frozen=True):
    """A number of ours, beside what it is compared with."""

    key: str
    title: str
    ours: Timing
    base: Timing | None = None
    base_name: str = "raw"
    unit: str = "ms"

    @property
    def ratio(self) -> float | None:
        return self.ours.p50 / self.base.p50 if self.base else None

    @property
    def over(self) -> float | None:
        return self.ours.p50 - self.base.p50 if self.base else None

    @property
    def p99_ratio(self) -> float | None:
        if self.base is None or self.base.p99 is None or self.ours.p99 is None:
            return None
        return self.ours.p99 / self.base.p99


class Work(msgspec.Struct, frozen=True):
    """What is timed, `act`, and what makes its argument beforehand, which is not."""

    act: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None

    def timed(self) -> float:
        """One run, in milliseconds."""
        argument = self.prepare()
        began = time.perf_counter_ns()
        self.act(argument)
        return (time.perf_counter_ns() - began) / 1e6


def timing(times: Sequence[float]) -> Timing:
    ordered = sorted(times)
    return Timing(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], len(ordered))


def amount(key: str, title: str, value: float, unit: str) -> Measure:
    return Measure(key, title, Timing(value), unit=unit)


def interleave(works: dict[str, Work], *, rounds: int, batch: int, warm: int) -> dict[str, Timing]:
    """Batch by batch, each round beginning with another one; first so many runs of each that are not counted.

    The warm-up is long enough for write-ahead files to reach the length at which they are used again: a
    file that still grows makes every sync dearer.
    """
    for _ in range(warm):
        for work in works.values():
            work.timed()
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            times[name] += [works[name].timed() for _ in range(batch)]
    return {name: timing(found) for name, found in times.items()}
