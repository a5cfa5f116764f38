"""Errors: each is raised by something that people do, and says what is wrong, where and what to do."""

from __future__ import annotations

import inspect
import json
import os
import sys
from dataclasses import dataclass

import apsw
import pytest
from tests.unit import effect_errors, file_errors
from tests.unit.error_cases import CASES, World, case

import takeback
from takeback import errors
from takeback.storage import sqlite_file
from takeback.testing.postgres import fresh_url

# Caught to handle a whole group; what is raised is always one of those below them.
GROUPS = {
    errors.TakebackError, errors.NotFound, errors.Removed, errors.Moved, errors.IntegrityError,
}  # fmt: skip


@pytest.fixture
def world(store_path, monkeypatch):
    with takeback.open(store_path) as tb:
        tb.thread("t", agent="a", initial={"n": 0, "log": []}).patch({"n": 1})
        yield World(str(store_path), tb, monkeypatch)


# --- the request is wrong


@case(errors.BadRequest, "nothing stood before it", thread="t", checkpoint=0)
def bad_request(w):
    w.trip.revert(0)


@case(errors.Unstorable, "set", "sorted list", thread="t", path="/plan/0/days")
def unstorable(w):
    w.trip.commit({"plan": [{"days": {1, 2}}]})


@case(errors.TooDeep, "128", thread="t", path="/deep/0/0/0/0/0/0/0/…")
def too_deep(w):
    value = []
    for _ in range(200):
        value = [value]
    w.trip.patch({"deep": value})


@case(errors.TooLarge, "5,000", "4,096", thread="t", path="/a")
def too_large(w):
    w.trip.commit({"a": {"k" * 5000: 1}})


@case(errors.ReadOnlyState, "cannot be changed", "step")
def read_only_state(w):
    w.trip.state["n"] = 2


@case(errors.BadReference, "'head^' is no reference", "head~2")
def bad_reference(w):
    w.trip.at("head^")


@case(errors.AmbiguousReference, "'c1' begins the ids of version 1 and of 10", "or the version 1", thread="t")
def ambiguous_reference(w):
    for n in range(10):
        w.trip.patch({"n": n})
    w.trip.at("c1")


@case(errors.BadPath, "'nope'", thread="t", checkpoint=1, path="")
def bad_path(w):
    w.trip.get("/nope")


@case(errors.BadPatch, "lies within", "Make one edit", path="/log/0")
def bad_patch(w):
    w.trip.patch({"log": [], "/log/0": 1})


@case(errors.BadName, "'head' cannot be a label", "looks like")
def bad_name(w):
    w.trip.label("head")


@case(errors.BadSettings, "no JSON", "line 1", "left as it is")
def bad_settings(w):
    from takeback.coding import settings
    from takeback.coding.table import AGENTS

    settings.with_hooks(b"{,", AGENTS["codex"], "takeback-hook codex", "/p/.codex/hooks.json")


@case(errors.FilesPruned, "given up to save space", "state", thread="t", checkpoint=2)
def files_pruned(w):
    folder = w.path + "-files"
    os.mkdir(folder)
    thread = w.trip
    thread.workspace(folder, watch=False)
    for text in "ab":
        with open(folder + "/a.txt", "w") as file:
            file.write(text)
        thread.capture(step=text)
    thread.prune(0, keep=1)
    w.tb.gc(grace=0)
    thread.rollback(2)


@case(errors.GitRefused, "git rev-parse refused")
def git_refused(w):
    from takeback.workspace import git_program

    git_program.git(os.path.dirname(w.path), "rev-parse", "--verify", "nothing")


@case(errors.WatcherFailed, "the store is damaged")
def watcher_failed(w):
    from takeback import hook
    from takeback.coding import client

    w.patch.setattr(hook, "ask", lambda *_: b"1\ntakeback: the store is damaged")
    client.asked("/project", "/folder", b"status\n")


@case(errors.BadState, "does not fit", "without model=", thread="t", checkpoint=1, path="/n")
def bad_state(w):
    @dataclass
    class Trip:
        n: str

    _ = w.tb.thread("t", model=Trip).state


@case(errors.WrongThread, "of thread 'other'", "fork and merge", thread="t")
def wrong_thread(w):
    w.trip.rollback(w.tb.thread("other", initial={}).head)


@case(errors.WrongOwner, "agent 'a', not 'b'", "Choose another name", thread="t")
def wrong_owner(w):
    w.tb.thread("t", agent="b")


@case(errors.StepOpen, "'book'", "step.state", thread="t")
def step_open(w):
    with w.trip.step("book"):
        w.trip.commit({})


@case(errors.MissingExtra, "cryptography", "pip install 'takeback[crypto]'")
def missing_extra(w):
    w.patch.setitem(sys.modules, "cryptography", None)
    w.trip.seal(private_key=bytes(32))


# --- it is not there


@case(errors.UnknownThread, "'nobody'", "first commit")
def unknown_thread(w):
    _ = w.tb.thread("nobody").state


@case(errors.UnknownCheckpoint, "no version 7", "head is 1", thread="t")
def unknown_checkpoint(w):
    w.trip.rollback(7)


@case(errors.UnknownLabel, "'before-booking'", thread="t")
def unknown_label(w):
    w.trip.at("before-booking")


@case(errors.ThreadDeleted, "was deleted", "late", thread="t")
def thread_deleted(w):
    late = w.trip
    w.trip.delete()
    late.commit({})


# --- something moved


@case(errors.Conflict, "the head is c2-", "not c1-", "refresh()", thread="t", checkpoint=1)
def conflict(w):
    stale = w.trip
    w.trip.patch({"n": 2})
    stale.commit({})


@case(errors.ThreadExists, "'t' exists already", "another name", thread="t")
def thread_exists(w):
    w.trip.fork(name="t")


@case(errors.NotCopied, "1 of 1 threads could not be copied", "taken there", "another tenant")
def not_copied(w):
    with takeback.open(":memory:") as other:
        other.thread("t", initial={})
        w.tb.copy(other)


@case(errors.MergeConflict, "both changed n", "merge again", thread="t", checkpoint=2)
def merge_conflict(w):
    alt = w.trip.fork(name="alt")
    alt.patch({"n": 5})
    w.trip.patch({"n": 6})
    w.trip.merge(alt)


@case(errors.PlanStale, "made at c1-", "is c2-", "new plan", thread="t", checkpoint=1)
def plan_stale(w):
    plan = w.trip.plan_undo()
    w.trip.patch({"n": 2})
    plan.apply()


@case(errors.NothingToUndo, "no operation is left", thread="t", checkpoint=2)
def nothing_to_undo(w):
    w.trip.undo()
    w.trip.undo()


@case(errors.NothingToRedo, "no undo is left", "ends the redo", thread="t", checkpoint=1)
def nothing_to_redo(w):
    w.trip.redo()


# --- the store


@case(errors.StoreError, "store.db", "disk I/O")
def store_error(w):
    def fail(place):
        if place == "commit":
            raise apsw.IOError("disk I/O error")

    w.storage.point = fail
    w.trip.patch({"n": 2})


@case(errors.StoreUnavailable, "there is no folder")
def store_unavailable(w):
    takeback.open(os.path.join(w.path + " nowhere", "store.db"))


@case(errors.StoreClosed, "was closed", "Open it again")
def store_closed(w):
    trip = w.trip
    w.tb.close()
    trip.patch({"n": 2})


@case(errors.NotAStore, "no takeback store", "Choose another")
def not_a_store(w):
    text = w.path + ".txt"
    with open(text, "w") as file:
        file.write("a letter")
    takeback.open(text)


@case(errors.NewerStore, "schema 99", "newer takeback")
def newer_store(w):
    w.sql("PRAGMA user_version = 99")
    takeback.open(w.path)


@case(errors.ReadOnlyStore, "can be read and not written")
def read_only_store(w):
    w.tb.close()
    w.patch.setattr(sqlite_file, "_writable", lambda _: False)  # who runs as root may write everything
    with takeback.open(w.path) as tb:
        assert tb.thread("t").state["n"] == 1
        tb.thread("t").patch({"n": 2})


@case(errors.StoreFull, "no space is left", "Free some")
def store_full(w):
    w.tb.close()
    connect = sqlite_file.SqliteFile.connect

    def on_a_small_disk(file):
        connection = connect(file)
        connection.execute("PRAGMA max_page_count = 30")
        return connection

    w.patch.setattr(sqlite_file.SqliteFile, "connect", on_a_small_disk)
    with takeback.open(w.path) as tb:
        tb.thread("t").patch({"big": os.urandom(200_000)})


@case(errors.StoreBusy, "held by another process", "try again")
def store_busy(w):
    w.patch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    trip = w.trip
    other = apsw.Connection(w.path)
    other.execute("BEGIN IMMEDIATE")
    try:
        trip.patch({"n": 2})
    finally:
        other.close()


@case(errors.PoolExhausted, "all 1 connections", "pool_size")
def pool_exhausted(w):
    with takeback.open(fresh_url() + "&pool_size=1&pool_timeout=0.05") as tb, tb._ctx.storage.snapshot():
        tb.thread("t").commit({"n": 1})


@case(errors.ForkedProcess, "before this process was forked", "in each process")
def forked_process(w):
    trip = w.trip
    child = os.getpid() + 1
    w.patch.setattr(os, "getpid", lambda: child)
    trip.patch({"n": 2})


@case(errors.NetworkFilesystem, "nfs4", "local disk")
def network_filesystem(w):
    w.patch.setattr(sqlite_file, "_mounts", lambda: [("/", "ext4"), (os.path.dirname(w.path), "nfs4")])
    takeback.open(w.path)


@case(errors.UnknownOutcome, "during a write", "Open the store again")
def unknown_outcome(w):
    def vanish(place):
        if place == "commit":
            os.replace(w.path, w.path + ".gone")
            os.mkdir(w.path)
            raise apsw.IOError("disk I/O error")

    w.storage.point = vanish
    w.trip.patch({"n": 2})


# --- what is stored is not what was written


@case(errors.StoreCorrupt, "damaged", "restore a copy")
def store_corrupt(w):
    w.tb.close()
    with open(w.path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(os.path.getsize(w.path) - 4096))
    with takeback.open(w.path) as tb:
        tb.thread("t")


@case(errors.CorruptObject, "object", "takeback verify", thread="t", checkpoint=1)
def corrupt_object(w):
    w.sql("UPDATE objects SET data = zeroblob(length(data))")
    with takeback.open(w.path) as tb:
        _ = tb.thread("t").state


@case(errors.BadSeal, "another uid", thread="t")
def bad_seal(w):
    w.trip.verify(w.tb.thread("other", initial={}).seal())


@case(errors.BadExport, "cut short", "Export it again")
def bad_export(w):
    path = w.path + ".export"
    w.tb.export("t", path)
    os.truncate(path, os.path.getsize(path) - 9)
    w.tb.import_(path)


# --- what holds for all of them -----------------------------------------------------------------------

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, errors.TakebackError)]


@pytest.mark.parametrize("error", CASES, ids=lambda error: error.__name__)
def test_it_is_raised_and_says_what_where_and_what_to_do(world, error):
    """Something that people do raises exactly this class; text and fields name the object and the way on."""
    expected = CASES[error]
    with pytest.raises(error) as caught:
        expected.cause(world)
    found = caught.value
    assert type(found) is error
    for word in expected.words:
        assert word in str(found), str(found)
    where = {name: getattr(found, name) for name in ("thread", "checkpoint", "path")}
    assert where == {"thread": None, "checkpoint": None, "path": None} | expected.where
    if found.thread is not None:
        assert f"thread {found.thread!r}" in str(found)
    if found.checkpoint is not None:
        assert f"checkpoint {found.checkpoint}" in str(found)
    if found.path is not None:
        assert f"at {found.path or '/'}" in str(found)
    shown = json.loads(json.dumps(found.as_dict()))
    assert (shown["kind"], shown["message"]) == (error.kind, found.what)
    assert shown.get("hint") == found.hint


def test_every_error_is_reached():
    """An error that nothing raises is a promise that nobody tested; groups are for catching."""
    assert effect_errors.CASES is file_errors.CASES is CASES
    assert {*CASES, *GROUPS} == set(ALL)
    assert GROUPS.isdisjoint(CASES)


@case(errors.MemoryConflict, "users/ann/city is at version 1, not at version 3", "Get it again", thread="t")
def _(world):
    with world.trip.step("learn"):
        world.tb.store.put(("users", "ann"), "city", "Rome", expect=None)
    with world.trip.step("learn"):
        world.tb.store.put(("users", "ann"), "city", "Oslo", expect=3)


def test_kinds_are_unique_and_stable():
    """Programs compare kinds: each class has its own, and this list changes only with a major version."""
    assert sorted(error.kind for error in ALL) == [
        "ambiguous_reference", "approval_denied", "approval_required", "approval_stale", "bad_export",
        "bad_name", "bad_patch", "bad_path", "bad_reference", "bad_request", "bad_seal", "bad_settings",
        "bad_state",
        "bad_tool", "budget_exceeded", "conflict", "corrupt_object", "effect_stands", "effect_timeout",
        "effect_undone", "effect_unknown", "effect_unreadable", "effects_denied", "error",
        "files_pruned", "forked_process", "git_refused", "handler_missing", "integrity",
        "memory_conflict", "merge_conflict", "missing_extra", "moved",
        "network_filesystem", "newer_store", "no_step", "not_a_store", "not_copied", "not_done",
        "not_for_agents",
        "not_found", "nothing_to_redo", "nothing_to_undo", "paused", "plan_paused", "plan_required",
        "plan_stale", "pool_exhausted", "read_only_state", "read_only_store", "removed", "replay_diverged",
        "rollback_in_progress", "step_in_progress", "step_lost", "step_open", "store_busy",
        "store_closed", "store_corrupt", "store_error", "store_full", "store_unavailable",
        "thread_deleted", "thread_exists", "too_deep", "too_large", "tool_in_tool", "unacknowledged",
        "undecided", "unknown_checkpoint", "unknown_file", "unknown_label", "unknown_outcome",
        "unknown_thread", "unstorable", "watcher_failed",
        "workspace_busy", "workspace_failed", "workspace_missing",
        "workspace_refused", "wrong_owner", "wrong_thread",
    ]  # fmt: skip
    assert all("kind" in vars(error) for error in ALL)


def test_each_group_has_its_exit_code():
    """A script tells groups apart without reading text; a class has the code of its group."""
    codes = {
        errors.TakebackError: 1, errors.BadRequest: 2, errors.NotFound: 3, errors.Moved: 4,
        errors.StoreError: 5, errors.IntegrityError: 6,
    }  # fmt: skip
    for error in ALL:
        group = next(base for base in error.__mro__ if base in codes)
        assert error.exit_code == codes[group]


def test_every_error_is_documented():
    """The class says in a sentence when it is raised."""
    assert [error.__name__ for error in ALL if not vars(error).get("__doc__")] == []


def test_conflicts_carry_both_heads_and_clashes(world):
    """What a handler needs is in fields, not in text."""
    with pytest.raises(errors.Conflict) as moved:
        conflict(world)
    assert moved.value.expected == world.trip.at(1).checkpoint.id
    assert moved.value.actual == world.trip.at(2).checkpoint.id
    world.trip.rollback(1)
    with pytest.raises(errors.MergeConflict) as clash:
        merge_conflict(world)
    assert [one.path for one in clash.value.conflicts] == [("n",)]
    assert clash.value.as_dict()["conflicts"] == [{"path": "/n", "base": 1, "ours": 5, "theirs": 6}]
