"""Checkpoints, times and sizes in a few words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from takeback import Checkpoint

_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86400, 3600, "h"), (30 * 86400, 86400, "days"))


def ago(time: datetime, now: datetime | None = None) -> str:
    """How long ago; after a month, the date."""
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    if seconds < 0:
        return local(time)
    if seconds < 5:
        return "just now"
    for below, unit, name in _STEPS:
        if seconds < below:
            count = int(seconds // unit)
            return f"{count} {'day' if name == 'days' and count == 1 else name} ago"
    return f"{time.astimezone():%Y-%m-%d}"


def local(time: datetime) -> str:
    """The time here, with its zone."""
    return f"{time.astimezone():%Y-%m-%d %H:%M:%S %z}"


def size(count: int) -> str:
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def short(identity: str) -> str:
    """The beginning of an id, enough to be told from others and to be typed."""
    head, _, tail = identity.partition("-")
    return f"{head}-{tail[:4]}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def deed(checkpoint: Checkpoint, name_of: Callable[[Any], str]) -> str:
    """What a checkpoint did: its kind, and to or of which other."""
    kind, origin = checkpoint.kind, checkpoint.origin
    if checkpoint.merged is not None:
        return f"{kind} of {name_of(checkpoint.merged)}@{checkpoint.merged.version}"
    if kind == "fork" and origin is not None:
        return f"fork of {name_of(origin)}@{origin.version}"
    if kind in ("undo", "revert") and checkpoint.undoes is not None:
        return f"{kind} of {checkpoint.undoes}"
    if origin is not None:
        return f"{kind} to {origin.version}"
    return f"{kind} {checkpoint.step!r}" if checkpoint.step else kind


def beginning(state: Any) -> str:
    """The first state of a thread, in a line."""
    if isinstance(state, dict):
        keys = list(state)
        shown = ", ".join(keys[:6]) + (f" and {len(keys) - 6} more" if len(keys) > 6 else "")
        return f"begins with {shown}" if keys else "begins empty"
    from takeback.cli.output import dumps

    text = dumps(state, indent=None)
    return "begins with " + (text if len(text) <= 60 else text[:59] + "…")


def runs(found: list[tuple[int, int]]) -> str:
    """Versions in words: 1–6, 9."""
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in found)
