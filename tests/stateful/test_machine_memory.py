"""The façade on the memory backend against the model; and that the machine finds what it is there to find.

Each mutation below breaks one promise on purpose. A machine that passed any of them would be one that
cannot fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from takeback.engine import commit, context, fork, history, merge3, rollback, threads, transfer
from takeback.errors import TakebackError
from takeback.model import records
from takeback.storage.base import DropLabel, HeadMoved, Labels, NewCheckpoint, PutLabel, Tombstone
from takeback.storage.memory import MemoryStorage
from takeback.storage.wrappers import Wrapper
from takeback.testing import strategies
from takeback.testing.places import MemoryPlace
from takeback.testing.stateful import build_machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from takeback.storage.base import Batch

TestMachine = build_machine(MemoryPlace).TestCase
TestMachine.settings = settings(max_examples=settings.default.max_examples // 2)


# What finding looks like: a promise that does not hold, or an error that nobody should have been told.
FOUND = (AssertionError, TakebackError)


def run(make: Callable[[], Any] = MemoryStorage) -> None:
    """A small budget, always the same examples, and no time spent on making them smaller."""
    machine = build_machine(
        lambda: MemoryPlace(make), states=strategies.plain_states(), values=strategies.plain_values()
    )
    run_state_machine_as_test(
        seed(2026)(machine),
        settings=settings(
            max_examples=120,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
            report_multiple_bugs=False,
        ),
    )


# --- storages that break a promise ----------------------------------------------------------------------


class Breaking(Wrapper):
    """Passes each batch on, changed by `broken`; None is a batch that is not written."""

    def apply(self, batch: Batch) -> Any:
        changed = self.broken(batch)
        return None if changed is None else self.inner.apply(changed)

    def broken(self, batch: Batch) -> Batch | None:
        return batch

    def only(self, batch: Batch, kind: type) -> Any:
        return next((row for row in batch.rows if isinstance(row, kind)), None)


class DropsAnAppend(Breaking):
    """Says that an append was written, and does not write it."""

    def broken(self, batch):
        row = self.only(batch, NewCheckpoint)
        return None if row is not None and row.checkpoint.kind == "append" else batch


class OverwritesOthers(Breaking):
    """Takes a stale commit for one on the head: the guard is not looked at."""

    def broken(self, batch):
        row = self.only(batch, NewCheckpoint)
        if row is None:
            return batch
        c = row.checkpoint
        head = self.inner.checkpoints(batch.tenant, c.uid, 0, 10**6)[-1:]
        if not head or head[0].digest == c.previous:
            return batch
        moved = msgspec.structs.replace(
            c, version=head[0].version + 1, previous=head[0].digest, before=head[0].version
        )
        return msgspec.structs.replace(batch, rows=[NewCheckpoint(records.seal_record(moved))])


class LosesObjects(Breaking):
    """Keeps a version's row and forgets what it rests on."""

    def broken(self, batch):
        row = self.only(batch, NewCheckpoint)
        lost = row is not None and row.checkpoint.version == 2
        return msgspec.structs.replace(batch, objects={}) if lost else batch


class KeepsTheDead(Breaking):
    """A deletion is logged and not done."""

    def broken(self, batch):
        return msgspec.structs.replace(batch, rows=[r for r in batch.rows if not isinstance(r, Tombstone)])


class MisplacesLabels(Breaking):
    """A label that moves stays where it was."""

    def broken(self, batch):
        row = self.only(batch, PutLabel)
        if row is None or row.label not in dict(self.inner.find(batch.tenant, Labels(row.uid))):
            return batch
        return msgspec.structs.replace(batch, rows=[r for r in batch.rows if r is not row])


class KeepsLabels(Breaking):
    """A label that is taken away stays."""

    def broken(self, batch):
        return msgspec.structs.replace(batch, rows=[r for r in batch.rows if not isinstance(r, DropLabel)])


class RewritesHistory(Breaking):
    """The reason of an old version reads differently after a while, soundly sealed."""

    def checkpoints(self, tenant, uid, low, high, **options):
        rows = self.inner.checkpoints(tenant, uid, low, high, **options)
        if len(rows) < 4:
            return rows
        changed = records.seal_record(msgspec.structs.replace(rows[1], reason="never said"))
        return [changed if row is rows[1] else row for row in rows]


class ForgetsTheLast(Breaking):
    """History ends one version early, once it is long."""

    def checkpoints(self, tenant, uid, low, high, **options):
        rows = self.inner.checkpoints(tenant, uid, low, high, **options)
        return [row for row in rows if row.version < 4 or row.version != high]


class RefusesWithoutCause(Breaking):
    """Says that the head moved, and has written."""

    def apply(self, batch):
        refusal = self.inner.apply(batch)
        row = self.only(batch, NewCheckpoint)
        if refusal is None and row is not None and row.checkpoint.version == 3:
            return HeadMoved(row.checkpoint.version, row.checkpoint.digest)
        return refusal


STORAGES = [
    DropsAnAppend, OverwritesOthers, LosesObjects, KeepsTheDead, MisplacesLabels, KeepsLabels,
    RewritesHistory, ForgetsTheLast, RefusesWithoutCause,
]  # fmt: skip


@pytest.mark.parametrize("broken", STORAGES)
def test_the_machine_finds_a_broken_storage(broken):
    """A storage that loses, keeps, changes or overwrites what it should not does not pass."""
    with pytest.raises(FOUND):
        run(lambda: broken(MemoryStorage()))


# --- an engine that breaks a promise --------------------------------------------------------------------


def undo_skips_one(patch):
    """An undo goes back two operations where it can."""
    back = rollback.back

    def twice(ctx, tip, mark=None):
        move = back(ctx, tip, mark)
        if mark is None and move.target.undo_top is not None:
            return back(ctx, msgspec.structs.replace(tip, head=move.target), None)
        return move

    patch.setattr(rollback, "back", twice)


def rollback_goes_one_too_far(patch):
    """A rollback restores the version after the one that was asked for."""
    exact = rollback.to_checkpoint

    def beside(tip, target, **scope):
        return exact(tip, tip.head if target.version + 1 == tip.head.version else target, **scope)

    patch.setattr(rollback, "to_checkpoint", beside)


def one_reads_as_a_float(patch):
    """A read gives 1.0 where 1 was written."""
    state = context.Context.state

    def loose(value):
        if isinstance(value, dict):
            return {key: loose(item) for key, item in value.items()}
        if isinstance(value, list):
            return [loose(item) for item in value]
        return 1.0 if type(value) is int and value == 1 else value

    patch.setattr(context.Context, "state", lambda self, checkpoint: loose(state(self, checkpoint)))


def minus_zero_loses_its_sign(patch):
    """A read gives 0.0 where -0.0 was written."""
    state = context.Context.state

    def loose(value):
        if isinstance(value, dict):
            return {key: loose(item) for key, item in value.items()}
        if isinstance(value, list):
            return [loose(item) for item in value]
        return value + 0.0 if type(value) is float else value

    patch.setattr(context.Context, "state", lambda self, checkpoint: loose(state(self, checkpoint)))


def a_rollback_is_no_operation(patch):
    """An undo after a rollback takes back what stood before it."""
    patch.setattr(commit, "OPERATIONS", records.OPERATIONS - {"rollback"})


def a_merge_is_no_operation(patch):
    """An undo after a merge takes back something else."""
    patch.setattr(commit, "OPERATIONS", records.OPERATIONS - {"merge"})


def redo_outlives_a_new_operation(patch):
    """What was undone comes forward again over what was done since."""
    placed = commit._placed

    def kept(ctx, tip, draft):
        if draft.stack is None and tip.head.redo_top is not None:
            draft = msgspec.structs.replace(draft, stack=(tip.head.version + 1, tip.head.redo_top))
        return placed(ctx, tip, draft)

    patch.setattr(commit, "_placed", kept)


def redo_forgets_what_is_further_forward(patch):
    """After two undos there is one redo."""
    forth = rollback.forth

    def short(ctx, tip):
        move = forth(ctx, tip)
        return msgspec.structs.replace(
            move, draft=msgspec.structs.replace(move.draft, stack=(move.draft.stack[0], None))
        )

    patch.setattr(rollback, "forth", short)


def a_bookmark_forgets_the_stack(patch):
    """An undo to a bookmark restores the state, and not what could be undone then."""
    undoing = rollback._undoing

    def bare(target, undoes, version):
        draft = undoing(target, undoes, version)
        return draft if undoes is not None else msgspec.structs.replace(draft, stack=(None, version))

    patch.setattr(rollback, "_undoing", bare)


def a_merge_takes_one_side(patch):
    """Where both sides changed, theirs stands and nothing is said."""
    both = merge3.merge_values

    def deaf(base, ours, theirs, at=()):
        return both(base, ours, theirs, at)[0], []

    for module in (fork, commit):
        patch.setattr(module, "merge_values", deaf)


def appends_of_ours_come_first(patch):
    """Two sides' appends stand in the other order."""
    both = merge3.merge_values
    for module in (fork, commit):
        patch.setattr(module, "merge_values", lambda base, ours, theirs, at=(): both(base, theirs, ours, at))


def a_merge_is_not_remembered(patch):
    """Merging again brings in what is in already."""
    placed = commit._placed
    patch.setattr(
        commit,
        "_placed",
        lambda ctx, tip, draft: placed(ctx, tip, msgspec.structs.replace(draft, merged=None)),
    )


def a_fork_is_taken_from_the_head(patch):
    """A fork at an old version starts at the newest."""
    resolve = history.resolve

    def newest(ctx, tip, ref):
        found = resolve(ctx, tip, ref)
        return tip.head if found.version + 2 == tip.head.version else found

    patch.setattr(history, "resolve", newest)


def time_goes_back(patch):
    """The recorded time is what the clock says, whatever stood before."""
    made = commit.make_checkpoint
    patch.setattr(commit, "make_checkpoint", lambda **said: made(**(said | {"time_us": said["clock_us"]})))


def nothing_conflicts(patch):
    """A stale commit is made again on the new head instead of being refused."""
    original = commit.publish_or_merge

    def pushing(ctx, tip, make, on_conflict, state, **rest):
        return original(ctx, ctx.tip(tip.info.name) or tip, make, on_conflict, state, **rest)

    patch.setattr(commit, "publish_or_merge", pushing)


def a_failed_step_commits(patch):
    """What an exception left half done becomes a version."""
    from takeback.step import Step

    leave = Step.__exit__
    patch.setattr(Step, "__exit__", lambda self, kind, error, trace: leave(self, None, None, None))


def labels_are_not_logged(patch):
    """The audit log has holes."""
    patch.setattr(threads, "label", _silently)


def _silently(ctx, tip, name, target):
    threads._write(ctx, tip.info, [PutLabel(tip.info.uid, name, target.version)])


def an_export_leaves_labels_out(patch):
    """What comes out elsewhere is not what went in."""
    rows = transfer._rows

    def bare(*given):
        info, found = rows(*given)
        return info, [row for row in found if not isinstance(row, PutLabel)]

    patch.setattr(transfer, "_rows", bare)


def equal_commits_make_no_version(patch):
    """An explicit commit of an equal state is passed over."""
    publish = commit.publish

    def lazy(ctx, tip, draft, *beside, **lock):
        same = draft.kind == "commit" and draft.root == tip.head.state_root
        return tip if same else publish(ctx, tip, draft, *beside, **lock)

    patch.setattr(commit, "publish", lazy)


ENGINES = [
    undo_skips_one, rollback_goes_one_too_far, one_reads_as_a_float, minus_zero_loses_its_sign,
    a_rollback_is_no_operation, a_merge_is_no_operation, redo_outlives_a_new_operation,
    redo_forgets_what_is_further_forward, a_bookmark_forgets_the_stack, a_merge_takes_one_side,
    appends_of_ours_come_first, a_merge_is_not_remembered, a_fork_is_taken_from_the_head, time_goes_back,
    nothing_conflicts, a_failed_step_commits, labels_are_not_logged, an_export_leaves_labels_out,
    equal_commits_make_no_version,
]  # fmt: skip


@pytest.mark.parametrize("broken", ENGINES)
def test_the_machine_finds_a_broken_engine(monkeypatch, broken):
    """An engine that is wrong about one thing does not pass."""
    broken(monkeypatch)
    with pytest.raises(FOUND):
        run()


def test_the_same_budget_passes_what_is_not_broken():
    """What the mutations fail on is the mutation."""
    run(lambda: Breaking(MemoryStorage()))
