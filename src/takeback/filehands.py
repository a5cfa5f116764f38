"""Hands for files: what this machine can do for a plan that puts some back. Loads little before its use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from takeback.errors import ThreadDeleted
from takeback.model.manifest.nodes import shown

if TYPE_CHECKING:
    from takeback.attached import Attached, Seen
    from takeback.engine.context import Context
    from takeback.model.ledger import PlanCell


class FileHands:
    """The files of this machine, for plans that put some back."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[bytes, str]] = {}
        """What was kept as others have it: by workspace and path, and why."""

    @property
    def kept_paths(self) -> dict[str, str]:
        """The same by path alone, as people see it."""
        return {shown(path): why for kept in self.kept.values() for path, why in kept.items()}

    def reaches(self, ctx: Context, plan: PlanCell) -> bool:
        """Whether all the workspaces whose files the plan puts back lie here."""
        if not plan.moves:
            return True
        here = _of_plan(ctx, plan).here()
        return all(start.workspace in here for start in plan.moves)

    @contextlib.contextmanager
    def put_back(self, ctx: Context, plan: PlanCell) -> Iterator[Seen]:
        """See `takeback.engine.files`."""
        with _of_plan(ctx, plan).put_back(plan) as (seen, outcomes):
            self.kept = {name: outcome.kept for name, outcome in outcomes.items() if outcome.kept}
            yield seen


def _of_plan(ctx: Context, plan: PlanCell) -> Attached:
    from takeback.attached import Attached

    info = ctx.storage.thread_by_uid(ctx.tenant, plan.thread)
    if info is None:
        raise ThreadDeleted("the thread was deleted")
    return Attached(ctx, info)
