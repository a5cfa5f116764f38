"""Errors about effects: tools, steps, plans and approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.errors.base import BadRequest, Moved, TakebackError

if TYPE_CHECKING:
    from collections.abc import Sequence


class NotDone(TakebackError):
    """What a tool raises to say that nothing happened."""

    kind = "not_done"


# --- the request is wrong: change it -----------------------------------------------------------------


class NoStep(BadRequest):
    """A tool that has effects was called where no step is open, so nothing would record it."""

    kind = "no_step"


class BadTool(BadRequest):
    """A tool that is declared wrongly: a template that names no argument, an undo that cannot be called."""

    kind = "bad_tool"


class ToolInTool(BadRequest):
    """A tool with effects was called inside another, whose effect it would be part of."""

    kind = "tool_in_tool"


class EffectsDenied(BadRequest):
    """The thread has no right to effects: a fork that was made without, or one that was merged."""

    kind = "effects_denied"


class NotForAgents(BadRequest):
    """Only a person may do this, and not the one who asked."""

    kind = "not_for_agents"


class BudgetExceeded(BadRequest):
    """The call would cost more than the family may spend."""

    kind = "budget_exceeded"


class ReplayDiverged(BadRequest):
    """A run that is gone through again made a call that it did not make the first time."""

    kind = "replay_diverged"


# --- something moved, or somebody must decide ---------------------------------------------------------


class PlanRequired(Moved):
    """Taking this back does more than restore: look at `plan`, then apply it."""

    kind = "plan_required"

    def __init__(self, what: str, *, plan: Any = None, **where: Any) -> None:
        self.plan = plan
        super().__init__(what, **where)

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | ({} if self.plan is None else {"plan": self.plan.as_dict()})


class Unacknowledged(Moved):
    """Something stays standing and nobody has said that this is known."""

    kind = "unacknowledged"


class Undecided(Moved):
    """A person, a probe or time has to settle an effect first."""

    kind = "undecided"


class RollbackInProgress(Moved):
    """A plan is being applied to the thread; it can be read and forked, not written."""

    kind = "rollback_in_progress"


class PlanPaused(Moved):
    """A line of a plan failed, or waits for a worker: `plan` can be retried, gone on without, or aborted."""

    kind = "plan_paused"

    def __init__(self, what: str, *, plan: Any = None, **where: Any) -> None:
        self.plan = plan
        super().__init__(what, **where)


class HandlerMissing(Moved):
    """A plan needs a tool that this process does not have."""

    kind = "handler_missing"


class StepInProgress(Moved):
    """Another worker is in this step; wait for it, or take it over."""

    kind = "step_in_progress"


class StepLost(Moved):
    """The step was taken over, or its line is over: what it did is recorded, and it cannot end here."""

    kind = "step_lost"


class EffectUnknown(Moved):
    """Whether a call happened is not known, and it is not made again by itself."""

    kind = "effect_unknown"


class EffectTimeout(EffectUnknown, TimeoutError):
    """A call took longer than it may; whether it happens yet is not known."""

    kind = "effect_timeout"


class EffectUndone(Moved):
    """The call was made in this step and taken back since."""

    kind = "effect_undone"


class EffectUnreadable(Moved):
    """The call happened, and its result could not be kept."""

    kind = "effect_unreadable"


class EffectStands(Moved):
    """Something stands at the same target of which this history knows nothing: `standing` lists it."""

    kind = "effect_stands"

    def __init__(self, what: str, *, standing: Sequence[Any] = (), **where: Any) -> None:
        self.standing = list(standing)
        super().__init__(what, **where)


class ApprovalRequired(Moved):
    """A person has to approve this call; `approval` is the request."""

    kind = "approval_required"

    def __init__(self, what: str, *, approval: Any = None, **where: Any) -> None:
        self.approval = approval
        super().__init__(what, **where)


class ApprovalDenied(Moved):
    """A person has refused this call."""

    kind = "approval_denied"


class ApprovalStale(Moved):
    """The request is over: decided, expired, or of a line that was taken back."""

    kind = "approval_stale"


class Paused(Moved):
    """A question waits for a person's answer."""

    kind = "paused"
