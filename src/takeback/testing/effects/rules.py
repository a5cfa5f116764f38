"""The rules that can be taken away, one flag each; all hold unless a mutation says otherwise."""

from __future__ import annotations

import msgspec


class Rules(msgspec.Struct, frozen=True):
    # guard
    guards_everywhere: bool = True
    guards_family: bool = True
    guards_by_what_was_seen: bool = True
    undoes_first_its_own: bool = True
    rights_are_kept: bool = True
    # what a call may have come to
    exception_is_unknown: bool = True
    refused_retry_settles_nothing: bool = True
    deadline_before_did_not: bool = True
    deadline_before_undo_did_not: bool = True
    deadline_before_call: bool = True
    late_is_evidence: bool = True
    failed_redo_is_undone: bool = True
    retry_while_remembered: bool = True
    retry_ends_with_memory: bool = True
    undo_once_not_repeated: bool = True
    # keys
    key_has_occurrence: bool = True
    key_has_line: bool = True
    key_has_redos: bool = True
    key_has_run: bool = True
    # steps and runs
    only_close_uses: bool = True
    close_needs_outcomes: bool = True
    owner_is_fenced: bool = True
    one_open_step: bool = True
    lease_is_exclusive: bool = True
    take_over_loses_calls: bool = True
    runs_follow_lineage: bool = True
    replay_commits_nothing: bool = True
    replay_runs_nothing: bool = True
    replay_is_fenced: bool = True
    run_needs_its_past: bool = True
    position_counts_closed: bool = True
    # plans
    plan_by_belief: bool = True
    plan_holds_thread: bool = True
    undo_asks_first: bool = True
    plan_is_current: bool = True
    owner_alone_undoes: bool = True
    shared_is_kept: bool = True
    orphans_are_listed: bool = True
    stays_is_acknowledged: bool = True
    # threads
    only_ancestors_inherit: bool = True
    merged_is_read_only: bool = True
    # approvals
    approval_has_line: bool = True
    approval_has_slot: bool = True
    approval_has_version: bool = True
    rollback_voids: bool = True
    void_is_for_good: bool = True
    approval_is_used_once: bool = True
    approval_expires: bool = True
    asker_never_grants: bool = True
    facts_are_recomputed: bool = True
    redo_needs_approval: bool = True
    # budgets
    budget_is_the_familys: bool = True
    unknown_is_spent: bool = True
    undone_comes_back: bool = True
    attempts_stay_spent: bool = True
