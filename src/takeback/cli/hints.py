"""What to type next, where an error that the library raises says what to call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from takeback.errors import TakebackError

_HINTS = {
    "handler_missing": "--app module:name brings the tools; or --wait SECONDS, with `takeback worker` where "
    "they are; or --keep NUMBERS leaves effects standing",
    "plan_stale": "Run it again, and look at the plan: something moved meanwhile",
    "unacknowledged": "--acknowledge all, or the numbers of those that you know of: --acknowledge 2,5",
}


def for_the_shell(error: TakebackError) -> None:
    """The error with a hint that can be typed."""
    error.hint = _HINTS.get(error.kind, error.hint)
