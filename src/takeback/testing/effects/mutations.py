"""The rules taken away one at a time, by name, and the search for a program that notices."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from takeback.testing.effects.drive import Drive
from takeback.testing.effects.model import Model
from takeback.testing.effects.rules import Rules
from takeback.testing.effects.witness import Broken
from takeback.testing.effects.world import World

MUTATIONS = {
    "guard only after a rollback": "guards_everywhere",
    "guard within one thread": "guards_family",
    "guard by what others closed meanwhile": "guards_by_what_was_seen",
    "another's effect undone first": "undoes_first_its_own",
    "a fork without rights makes effects": "rights_are_kept",
    "an exception taken for did not happen": "exception_is_unknown",
    "a failed retry settles an earlier unknown": "refused_retry_settles_nothing",
    "did not happen before the deadline": "deadline_before_did_not",
    "an undo did not happen before its deadline": "deadline_before_undo_did_not",
    "a call after its deadline": "deadline_before_call",
    "late evidence refused": "late_is_evidence",
    "a failed redo counts as failed": "failed_redo_is_undone",
    "a retry when the key is forgotten": "retry_while_remembered",
    "a retry that outlives the key": "retry_ends_with_memory",
    "an undo repeated that is not safe": "undo_once_not_repeated",
    "a key without occurrence": "key_has_occurrence",
    "a key without its line": "key_has_line",
    "the same key after a compensation": "key_has_redos",
    "a key without its run": "key_has_run",
    "any commit absorbs": "only_close_uses",
    "a close over an unknown": "close_needs_outcomes",
    "an owner that was replaced writes on": "owner_is_fenced",
    "two open steps of one label": "one_open_step",
    "two owners of one step": "lease_is_exclusive",
    "calls in flight survive a takeover": "take_over_loses_calls",
    "a run replays what was taken back": "runs_follow_lineage",
    "a replay commits": "replay_commits_nothing",
    "a replay calls": "replay_runs_nothing",
    "a replay outlives what it replays": "replay_is_fenced",
    "a run goes on without its past": "run_needs_its_past",
    "an entry that was left counts": "position_counts_closed",
    "a plan by version range": "plan_by_belief",
    "others write during a plan": "plan_holds_thread",
    "an undo that does not ask": "undo_asks_first",
    "a stale plan": "plan_is_current",
    "anybody undoes": "owner_alone_undoes",
    "what a fork relies on is undone": "shared_is_kept",
    "orphans are undone": "orphans_are_listed",
    "what stays is not acknowledged": "stays_is_acknowledged",
    "any merge inherits": "only_ancestors_inherit",
    "a merged fork goes on": "merged_is_read_only",
    "an approval not bound to its line": "approval_has_line",
    "an approval not bound to its call": "approval_has_slot",
    "an approval for older code": "approval_has_version",
    "an approval outlives a rollback": "rollback_voids",
    "an undo revives approvals": "void_is_for_good",
    "an approval used twice": "approval_is_used_once",
    "an approval without end": "approval_expires",
    "the asker grants": "asker_never_grants",
    "facts as they were": "facts_are_recomputed",
    "a redo without approval": "redo_needs_approval",
    "a budget for each thread": "budget_is_the_familys",
    "an unknown costs nothing": "unknown_is_spent",
    "money spent is gone": "undone_comes_back",
    "attempts come back": "attempts_stay_spent",
}
"""From what goes wrong to the rule that prevents it."""


def mutated(name: str) -> Rules:
    """The rules without one. A name that is not known is an error: it would pass for a rule nobody needs."""
    if name not in MUTATIONS:
        raise ValueError(f"no mutation is called {name!r}; there are: {', '.join(sorted(MUTATIONS))}")
    return Rules(**{MUTATIONS[name]: False})


def program(seed: int) -> list[int]:
    """A random program, always the same for a seed."""
    source = random.Random(seed)
    return [source.randrange(5040) for _ in range(source.choice([100, 250, 500]))]


def drive(
    choices: Iterable[int], rules: Rules | None = None, trace: Callable[[str], None] | None = None
) -> Drive:
    """Run a program on the model."""

    def make(world: World, money: int, attempts: int) -> Model:
        return Model(world, rules, money=money, attempts=attempts)

    return Drive(choices, make, trace).run()


def broken(choices: Iterable[int], rules: Rules | None = None) -> Broken | None:
    """The promise that a program sees broken, if it does."""
    try:
        drive(choices, rules)
    except Broken as found:
        return found
    return None


def shrink(choices: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """A program that fails too and cannot be made smaller in one move: by leaving out, or by a zero."""
    while True:
        smaller = _zeroed(_without(choices, fails), fails)
        if smaller == choices:
            return choices
        choices = smaller


def _without(choices: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """What can be left out is, the largest parts first."""
    size = len(choices) // 2
    while size:
        start = 0
        while start < len(choices):
            shorter = choices[:start] + choices[start + size :]
            if fails(shorter):
                choices = shorter
            else:
                start += size
        size //= 2
    return choices


def _zeroed(choices: list[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """The first option wherever it does as well: what is left then says something."""
    for place, choice in enumerate(choices):
        simpler = [*choices[:place], 0, *choices[place + 1 :]]
        if choice and fails(simpler):
            choices = simpler
    return choices
