"""Space: nothing that is needed goes, everything that is not does, and what was given up says so."""

from __future__ import annotations

import random

import pytest

import takeback
from takeback import errors
from takeback.engine import commit as commits
from takeback.engine import retention
from takeback.model import canonical
from takeback.model.records import FileRoot
from takeback.storage.base import Batch, Objects, Prune


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, actor="ada", durability="relaxed") as repo:
        yield repo


def noise(size, seed=1):
    return random.Random(seed).randbytes(size // 2).hex()


def objects(tb):
    return {kept.digest for kept in tb._ctx.storage.find("default", Objects(limit=10_000))}


def with_files(thread, payload, workspace="w"):
    """A version whose files are one object: what takes the space is all that matters here."""
    ctx, tip = thread._ctx, thread.refresh()._tip
    digest = canonical.digest(payload)
    draft = commits.Draft(
        "commit", tip.head.state_root, commits.Said(), {digest: payload}, files=[FileRoot(workspace, digest)]
    )
    thread._tip = commits.publish(ctx, tip, draft)
    return digest


def test_a_sound_store_loses_nothing(tb):
    """Every version, what steps closed with, forks, and results that are kept beside their cells."""
    thread = tb.thread("t", initial={"items": []})
    for number in range(300):
        thread.append("items", {"text": noise(200, number)})
    thread.rollback(5)
    fork = thread.fork(7, "fork")
    fork.patch({"x": noise(9000)})

    @takeback.tool(name="retention_long", undo=lambda text: None)
    def long(text: str) -> str:
        return text * 2

    with thread.step("call"):
        long(noise(20_000))
    before = objects(tb)
    done = tb.gc(grace=0)
    assert (done.removed, objects(tb)) == (0, before)
    assert all(report.ok for report in tb.verify())
    assert thread.at(299).state["items"][298] == {"text": noise(200, 298)}


def test_what_a_deleted_thread_alone_had_goes(tb):
    """What a fork of it still needs stays."""
    thread = tb.thread("t", initial={"a": noise(5000, 1)})
    thread.patch({"b": noise(5000, 2)})
    fork = thread.fork(0, "fork")
    thread.delete()
    before = objects(tb)
    done = tb.gc(grace=0)
    assert done.removed == len(before - objects(tb)) > 0
    assert done.freed > 0
    assert fork.at(0).state == {"a": noise(5000, 1)}
    assert fork.verify().ok
    assert tb.gc(grace=0).removed == 0


def test_what_was_just_written_is_given_time(tb):
    """A writer may bring objects first and the version that needs them in a later batch."""
    tb.thread("t", initial={"a": noise(5000)}).delete()
    assert tb.gc().removed == 0
    assert tb.gc(grace=0).removed > 0


def test_another_tenants_objects_are_not_touched(store_path):
    with takeback.open(store_path) as ours, takeback.open(store_path, tenant="other") as theirs:
        theirs.thread("t", initial={"a": noise(5000)})
        ours.thread("t", initial={"a": noise(5000)}).delete()
        assert ours.gc(grace=0).removed > 0
        assert theirs.thread("t").verify().ok


def test_a_state_that_comes_back_while_a_collection_runs_is_whole(tb):
    """The commit finds its objects there, and the collection has already found them unreachable."""
    state = {"a": noise(70_000)}
    tb.thread("gone", initial=state).delete()
    thread = tb.thread("t", initial={})

    def between(what, _):
        if what == "marked" and thread.version == 0:
            thread.commit(state)

    tb.gc(grace=0, progress=between)
    assert thread.refresh().state == state
    assert tb.thread("t").verify().ok


def test_a_rollback_while_a_collection_runs_is_whole(tb):
    """A version that only refers to what is there, and writes nothing."""
    thread = tb.thread("t", initial={"a": noise(9000)})
    thread.commit({})

    def between(what, _):
        if what == "marked" and thread.version == 1:
            thread.rollback(0)

    tb.gc(grace=0, progress=between)
    assert thread.refresh().state == {"a": noise(9000)}
    assert thread.verify().ok


def test_it_may_be_interrupted_and_begun_again(tb):
    """What was removed so far is removed; the rest goes the next time."""
    for number in range(5):
        tb.thread(f"t{number}", initial={"a": [noise(9000, number * 50 + n) for n in range(20)]}).delete()
    kept = tb.thread("kept", initial={"a": noise(9000)})

    def stop(what, so_far):
        if what == "swept" and so_far >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retention.collect(tb._ctx, grace=0, batch=10, progress=stop)
    left = objects(tb)
    assert kept.verify().ok
    assert retention.collect(tb._ctx, grace=0, batch=10).removed > 0
    assert len(objects(tb)) < len(left)
    assert kept.verify().ok


def test_a_damaged_store_loses_nothing(tb):
    """What hangs below an object that cannot be read cannot be told, and might be needed."""
    thread = tb.thread("t", initial={"a": noise(90_000)})
    root = thread.head.state_root
    storage = tb._ctx.storage
    if tb.info().kind == "memory":
        storage._tenants["default"].objects[root] = b"forged"
    else:
        storage._connections.writer().execute(
            "UPDATE objects SET data = x'00', codec = 0, size = 1 WHERE digest = ?", (root,)
        )
    tb._ctx.cache.clear()
    before = objects(tb)
    with pytest.raises(errors.CorruptObject, match="nothing is removed"):
        tb.gc(grace=0)
    assert objects(tb) == before


def test_the_file_shrinks_and_never_takes_twice_the_space(store_path):
    """Space goes back a piece at a time, where a VACUUM would write all of it anew."""
    with takeback.open(store_path) as tb:
        tb.thread("kept", initial={"a": noise(1_000_000)})
        tb.thread("gone", initial={"a": [noise(30_000, n) for n in range(300)]}).delete()
    full = store_path.stat().st_size
    peaks = []

    def measure(*_):
        peaks.append(sum(path.stat().st_size for path in store_path.parent.glob(f"{store_path.name}*")))

    with takeback.open(store_path) as tb:
        retention.collect(tb._ctx, grace=0, batch=100, progress=measure)
    assert store_path.stat().st_size < full / 3
    assert full <= max(peaks) < 2 * full
    assert [path.name for path in store_path.parent.glob(f"{store_path.name}*")] == [store_path.name]


# --- files that are given up


@pytest.fixture
def filed(tb):
    """Ten versions with 1,000 bytes of files each, after version 0 that has none."""
    thread = tb.thread("t", initial={"n": 0})
    digests = [with_files(thread, random.Random(n).randbytes(1000)) for n in range(10)]
    return thread, digests


def test_the_oldest_files_go_first(tb, filed):
    thread, digests = filed
    plan = thread.prune(4500, keep=2, reason="no space")
    assert plan.runs == [(1, 6)]
    assert plan.kept == 4000
    tb.gc(grace=0)
    left = objects(tb)
    assert [digest in left for digest in digests] == [False] * 6 + [True] * 4


def test_the_newest_and_what_a_label_names_stay_whatever_they_take(tb, filed):
    thread, digests = filed
    thread.label("good", 3)
    plan = thread.prune(0, keep=3)
    assert plan.runs == [(1, 2), (4, 7)]
    tb.gc(grace=0)
    assert [digest in objects(tb) for digest in digests] == [n in (3, 8, 9, 10) for n in range(1, 11)]


def test_what_newer_versions_share_with_old_ones_stays(tb):
    thread = tb.thread("t", initial={})
    shared = [with_files(thread, b"same" * 300) for _ in range(5)]
    assert thread.prune(10_000, keep=1).runs == []
    assert thread.prune(0, keep=1).runs == []  # the same bytes: giving up the old ones would free nothing
    assert shared[0] in objects(tb)


def test_it_is_written_down_and_verify_still_passes(tb, filed):
    """Without the record, what is gone on purpose would be damage."""
    thread, _ = filed
    thread.prune(0, keep=1, reason="no space")
    tb.gc(grace=0)
    report = tb.thread("t").verify()
    assert report.ok
    assert report.notes == ["the files of versions 1 to 9 were given up to save space"]
    entry = next(entry for entry in thread.audit() if entry.action == "files.pruned")
    assert entry.detail["runs"] == [[1, 9]]
    assert entry.detail["reason"] == "no space"
    assert retention.pruned_at(tb._ctx, thread.at(5).checkpoint) is not None
    assert retention.pruned_at(tb._ctx, thread.head) is None


def test_files_that_are_gone_without_a_record_are_damage(tb, filed):
    """Pruning in the record is what tells the two apart."""
    _, digests = filed
    storage = tb._ctx.storage
    if tb.info().kind == "memory":
        del storage._tenants["default"].objects[digests[2]]
    else:
        storage._connections.writer().execute("DELETE FROM objects WHERE digest = ?", (digests[2],))
    assert not tb.thread("t").verify().ok


def test_a_second_time_goes_on_where_the_first_ended(tb, filed):
    thread, _ = filed
    assert thread.prune(5000, keep=1).runs == [(1, 5)]
    assert thread.prune(5000, keep=1).runs == []
    assert thread.prune(2000, keep=1).runs == [(6, 8)]


def test_a_plan_changes_nothing(tb, filed):
    thread, _ = filed
    assert thread.plan_prune(0, keep=1).versions == 9
    assert retention.pruned(tb._ctx, thread.info.uid) == []


@pytest.mark.parametrize(("budget", "keep"), [(-1, 1), (0, 0)])
def test_a_budget_that_is_none_is_refused(filed, budget, keep):
    with pytest.raises(errors.BadRequest, match="none"):
        filed[0].prune(budget, keep=keep)


def test_what_takes_space(tb, filed):
    """By thread, the biggest first; what the database says as a whole is no less."""
    tb.thread("small", initial={"n": 1})
    heavy, light = tb.du()
    assert (heavy.thread, heavy.versions, light.thread) == ("t", 11, "small")
    assert heavy.files == 10_000
    assert 0 < light.state < 200
    assert light.files == 0


# --- what takes up files that are given up meanwhile


@pytest.mark.parametrize("collected", [False, True])
def test_a_plan_does_not_bring_back_files_that_were_given_up_since(tb, filed, collected):
    """Refused in the very transaction, whether or not they are still there; the state can go back."""
    thread, _ = filed
    plan, before = thread.plan_rollback(2), thread.version
    tb.thread("t").prune(0, keep=1)
    if collected:
        tb.gc(grace=0)
    with pytest.raises(errors.FilesPruned, match="given up") as refused:
        plan.apply()
    assert (refused.value.thread, refused.value.checkpoint) == ("t", 2)
    assert thread.refresh().version == before
    thread.rollback(2, scope=["state"])
    assert thread.head.files == thread.at(10).checkpoint.files
    assert thread.verify().ok


def test_a_plan_that_leaves_files_as_they_are_is_not_refused(tb, filed):
    thread, digests = filed
    thread.patch({"n": 1})
    plan = thread.plan_undo()
    tb.thread("t").prune(0, keep=1)
    assert plan.apply().checkpoint.files[0].manifest == digests[-1]


def test_a_fork_of_a_version_whose_files_were_given_up_has_none(tb, filed):
    """And nothing in it is missing: it says the same of itself after a collection."""
    thread, digests = filed
    whole = thread.fork(3, "whole")
    thread.prune(0, keep=1)
    bare = thread.fork(3, "bare")
    tb.gc(grace=0)
    assert [root.manifest for root in whole.head.files] == [digests[2]]
    assert (bare.head.files, bare.state) == ([], thread.at(3).state)
    bare.patch({"n": 2})
    assert digests[2] in objects(tb)
    assert all(report.ok for report in tb.verify())


# --- files that are given up, in an export


def test_an_export_says_whose_files_are_not_in_it(tb, filed, tmp_path):
    """And what comes in from it says the same, and is sound; also where nothing was collected yet."""
    thread, digests = filed
    thread.prune(4500, keep=2)
    tb.export("t", tmp_path / "before.takeback")
    tb.gc(grace=0)
    tb.export("t", tmp_path / "after.takeback")
    assert (tmp_path / "before.takeback").read_bytes() == (tmp_path / "after.takeback").read_bytes()
    with takeback.open(":memory:") as fresh:
        came = fresh.import_(tmp_path / "after.takeback")
        assert came.pruned() == [(1, 6)]
        assert came.verify().ok
        assert not objects(fresh) & set(digests[:6])
        assert objects(fresh) >= set(digests[6:])
        with pytest.raises(errors.FilesPruned):
            came.rollback(3)
        assert fresh.gc(grace=0).removed == 0


def test_an_export_cannot_give_up_what_it_does_not_hold(tb, filed, tmp_path):
    """Versions beyond its head: they would be without files before they are there."""
    thread, _ = filed
    tb._ctx.storage.apply(Batch("default", [Prune(thread.info.uid, 9, 40, 1)]))
    tb.export("t", tmp_path / "t.takeback")
    with takeback.open(":memory:") as fresh, pytest.raises(errors.BadExport, match="does not hold"):
        fresh.import_(tmp_path / "t.takeback")
