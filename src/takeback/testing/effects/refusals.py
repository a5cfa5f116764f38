"""What the real engine refuses, in the words of a subject."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from takeback.testing.effects.looking import Looking

if TYPE_CHECKING:
    from takeback.errors import TakebackError


class Refusing(Looking):
    """Knows what a refusal is called here, and what it is about."""

    def _refusal(self, error: TakebackError, thread: str, about: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a refusal is called here, and what it is about."""
        numbers = tuple(int(each) for each in re.findall(r"#(\d+)", error.what))
        kind = error.kind
        if kind == "step_in_progress":  # not on entering, so somebody was faster
            return ("step_lost",)
        if kind == "rollback_in_progress":
            held_by = [n for n, made in enumerate(self._plans, 1) if self._holds(made, thread)]
            return (kind, *held_by)
        if kind == "effects_denied":
            return ("merged",) if "merged" in error.what else (kind,)
        if kind == "approval_required":
            return (kind, error.approval.number)  # type: ignore[attr-defined]  # it is one
        if kind == "budget_exceeded":
            return (kind, "attempts" if "attempts" in error.what else "money")
        if kind == "replay_diverged":
            return (kind, *about) if about else ("run_lost", self._run_of(error))
        if kind == "effect_stands":
            return (kind, *(one.number for one in error.standing))  # type: ignore[attr-defined]  # it has some
        if kind == "undecided":
            return _undecided(error, numbers)
        renamed = {
            "not_for_agents": "same_person", "approval_stale": "approval_over",
            "unacknowledged": "not_acknowledged", "bad_request": "open_step",
        }.get(kind, kind)  # fmt: skip
        if kind in ("plan_stale", "plan_required", "not_for_agents", "approval_stale", "bad_request"):
            return (renamed, *about)
        return (renamed, *numbers)


def _undecided(error: TakebackError, numbers: tuple[int, ...]) -> tuple[Any, ...]:
    words = {
        "may still be on its way": "too_early",
        "nothing to resolve": "nothing_to_resolve",
        "relies on": "shared",
        "cannot be undone first": "cannot_undo",
        "before this can go back": "undecided",
    }
    for word, kind in words.items():
        if word in error.what:
            return (kind, *numbers)
    return ("not_undone", *numbers[:1])
