"""Whether a recorded history of reads and compare-and-swaps of one register has an order that explains it.

The search is that of Wing and Gong, with Lowe's memory of configurations that were tried: an operation may
come next if none that has not come yet returned before it was called. An operation that never returned (its
process was killed) may have happened at any time after its call, or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """A read that saw `value`, or a swap from `expected` to `value` that was `done`, refused, or neither."""

    kind: str
    called: float
    returned: float
    value: Any
    expected: Any = None
    done: bool | None = None


def read(called: float, returned: float, value: Any) -> Operation:
    return Operation("read", called, returned, value)


def swap(called: float, returned: float, expected: Any, value: Any, done: bool) -> Operation:
    return Operation("swap", called, returned, value, expected, done)


def pending(called: float, expected: Any, value: Any) -> Operation:
    """A swap of whose outcome nobody heard."""
    return Operation("swap", called, math.inf, value, expected)


def after(operation: Operation, state: Any) -> list[Any]:
    """The states that the register may have after it; none, if it cannot have happened in this state."""
    if operation.kind == "read":
        return [state] if operation.value == state else []
    matches = operation.expected == state
    if operation.done is None:
        return [operation.value] if matches else [state]
    if operation.done:
        return [operation.value] if matches else []
    return [] if matches else [state]


def explained(history: Iterable[Operation], initial: Any) -> bool:
    """Whether some order of the operations agrees with their times and with a register."""
    operations = sorted(history, key=lambda operation: operation.called)
    whole = (1 << len(operations)) - 1
    returned = sum(1 << index for index, one in enumerate(operations) if one.returned < math.inf)
    stack, tried = [(0, initial)], set()
    while stack:
        done, state = stack.pop()
        if done & returned == returned:
            return True
        if (done, state) in tried:
            continue
        tried.add((done, state))
        for index in next_ones(operations, whole & ~done):
            stack += [(done | 1 << index, found) for found in after(operations[index], state)]
    return False


def next_ones(operations: list[Operation], left: int) -> list[int]:
    """Those that were called before any of those left had returned."""
    remaining = [index for index in range(len(operations)) if left >> index & 1]
    first = min(operations[index].returned for index in remaining)
    return [index for index in remaining if operations[index].called <= first]
