"""Many processes on one store: no commit is lost or doubled, names are given once, readers see one moment,
and whoever dies or stops takes nobody along."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.crash.stores import incompressible, sound, together

import takeback
from takeback.errors import (
    Conflict,
    CorruptObject,
    ForkedProcess,
    Moved,
    NotFound,
    Removed,
    StoreBusy,
    ThreadDeleted,
    ThreadExists,
)
from takeback.repo import Repo
from takeback.storage import sqlite_file
from takeback.storage.postgres import PostgresStorage
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Child, Kill, Life, Running, in_child
from takeback.testing.postgres import fresh_url

WRITERS, EACH = 8, 250


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, store_path: Path) -> str:
    """Where a store may be made."""
    return fresh_url() if request.param == "postgres" else os.fspath(store_path)


def asked(repo: Repo, sql: str) -> list[tuple[Any, ...]]:
    """What the database itself says."""
    storage = repo._ctx.storage
    if isinstance(storage, PostgresStorage):
        return storage._connections.ask(storage._server.placed(sql), {})
    assert isinstance(storage, SqliteStorage)
    with storage._reading() as connection:
        return connection.execute(sql.replace("takeback.", "")).fetchall()


def at_once(path: str | Path, count: int, work: Callable[[Child, Repo, int], None]) -> list[Life]:
    return together(count, lambda: takeback.open(path), work)


def made(path: str | Path, **initial: Any) -> None:
    with takeback.open(path) as repo:
        repo.thread("t", initial=initial)


def test_appends_of_many_processes_make_one_chain(place: str) -> None:
    """Merged appends: none lost, none twice, each process's own in its order."""

    def work(child: Child, repo: Repo, number: int) -> None:
        thread = repo.thread("t")
        for turn in range(EACH):
            checkpoint = thread.append("/items", [number, turn])
            child.say([checkpoint.version, number, turn])

    made(place, items=[])
    lives = at_once(place, WRITERS, work)
    said = [tuple(what) for life in lives for what in life.said]
    assert len(said) == WRITERS * EACH
    with takeback.open(place) as repo:
        thread = repo.thread("t")
        assert thread.version == WRITERS * EACH
        items = [tuple(item) for item in thread.state["items"]]
        assert sorted(said) == [(version, *item) for version, item in enumerate(items, 1)]
        sound(repo)


def test_a_commit_is_refused_or_there_and_nothing_in_between(place: str) -> None:
    """`on_conflict="raise"`, tried again after each refusal: what was refused is nowhere."""

    def work(child: Child, repo: Repo, number: int) -> None:
        thread = repo.thread("t")
        for turn in range(40):
            tries = 0
            while True:
                mark = f"{number}/{turn}/{tries}"
                try:
                    checkpoint = thread.commit({"last": mark, "text": mark * 30}, reason=mark)
                except Conflict:
                    child.say(["refused", mark])
                    tries += 1
                    thread.refresh()
                    continue
                child.say(["there", mark, checkpoint.version, checkpoint.id])
                break

    made(place)
    said = [what for life in at_once(place, WRITERS, work) for what in life.said]
    there = {what[1]: what[2:] for what in said if what[0] == "there"}
    refused = {what[1] for what in said if what[0] == "refused"}
    assert len(there) == WRITERS * 40
    assert refused, "nobody was ever in anybody's way: this run shows nothing"
    with takeback.open(place) as repo:
        rows = list(repo.thread("t").history(newest_first=False))[1:]
        assert {row.reason: [row.version, row.id] for row in rows} == there
        assert [row.version for row in rows] == list(range(1, len(there) + 1))
        states = [repo.thread("t").at(row.version).state["last"] for row in rows]
        assert states == [row.reason for row in rows]
        sound(repo)


def test_readers_see_one_moment(place: str) -> None:
    """While others write: each version's state is the one that its root names, heads never go back, and what
    is read in one snapshot fits together."""

    def work(child: Child, repo: Repo, number: int) -> None:
        if number < 3:
            thread = repo.thread("t")
            for turn in range(80):
                thread.append("/items", [number, turn])
            child.say("wrote")
            return
        last, ctx = -1, repo._ctx
        while last < 3 * 80:
            thread = repo.thread("t").refresh()
            assert thread.version >= last
            last = thread.version
            assert len(thread.state["items"]) == last
            with ctx.storage.snapshot():
                tip = ctx.tip("t")
                assert tip is not None
                rows = ctx.storage.checkpoints("default", tip.info.uid, 0, tip.info.head + 100)
                assert (rows[-1].version, rows[-1].digest) == (tip.info.head, tip.info.head_digest)
                assert len(ctx.state(rows[-1])["items"]) == tip.info.head
            child.say(last)

    made(place, items=[])
    lives = at_once(place, 5, work)
    seen = {what for life in lives[3:] for what in life.said}
    assert len(seen) > 10, "the readers saw too little of the writing"


def test_a_name_is_given_once(place: str) -> None:
    """Creating, forking to and deleting the same few names at once: at most one living thread of each, and
    every refusal says why."""

    def work(child: Child, repo: Repo, number: int) -> None:
        source = repo.thread("source")
        for turn in range(60):
            name = f"n{turn % 3}"
            try:
                if number % 2:
                    thread = source.fork("head", name)
                else:
                    thread = repo.thread(name)
                    thread.commit({"by": number})
                child.say(["made" if thread.version == 0 else "written", name])
                repo.thread(name).delete(reason=f"{number}")
                child.say(["deleted", name])
            except (ThreadExists, Moved, Removed, NotFound):
                child.say(["refused", name])

    with takeback.open(place) as repo:
        repo.thread("source", initial={"a": 1})
    counts = Counter(tuple(what) for life in at_once(place, 4, work) for what in life.said)
    assert counts["refused", "n0"] > 0
    with takeback.open(place) as repo:
        living = [info.name for info in repo.threads()]
        assert len(living) == len(set(living))
        for name in ("n0", "n1", "n2"):
            rows = asked(repo, f"SELECT deleted IS NULL FROM takeback.threads WHERE name = '{name}'")
            assert len(rows) == counts["made", name]
            assert sum(row[0] for row in rows) == counts["made", name] - counts["deleted", name] <= 1
        ((count,),) = asked(repo, "SELECT count(*) FROM takeback.checkpoints")
        assert count == sum(info.head + 1 for info in repo.threads())
        sound(repo)


def test_a_late_writer_does_not_bring_a_thread_back(place: str) -> None:
    """A name made again is another thread: handles of the first are refused, with every kind of write."""
    made(place, items=[])
    with takeback.open(place) as repo:
        late = [repo.thread("t") for _ in range(4)]

        def again(child: Child) -> None:
            with takeback.open(place) as other:
                other.thread("t").delete()
                other.thread("t", initial={"items": ["new"]})

        in_child(again)
        writes = [
            lambda: late[0].commit({"items": ["late"]}),
            lambda: late[1].append("/items", "late"),
            lambda: late[2].label("late"),
            late[3].delete,
        ]
        for write in writes:
            with pytest.raises(ThreadDeleted):
                write()
        assert repo.thread("t").state == {"items": ["new"]}
        assert repo.thread("t").labels == {}


def test_a_thread_that_was_deleted_meanwhile_is_removed_not_corrupt(place: str) -> None:
    """A reader that held on to a handle is told what happened."""
    made(place, items=list(range(10)))
    with takeback.open(place) as repo:
        thread = repo.thread("t")
        for number in range(20):
            thread.commit({"items": [incompressible(9_000, number)]})
    with takeback.open(place) as repo:
        reader = repo.thread("t")

        def delete(child: Child) -> None:
            with takeback.open(place) as other:
                other.thread("t").delete()

        in_child(delete)
        for read in (
            lambda: reader.at(3).state,
            lambda: list(reader.history()),
            lambda: reader.diff(2, 3).changes,
        ):
            try:
                read()
            except (CorruptObject, AssertionError) as error:
                raise AssertionError("it was called corrupt") from error
            except (Removed, NotFound):
                pass


# --- locks


def test_a_process_killed_inside_a_transaction_blocks_nobody(store_path: Path) -> None:
    made(store_path, n=0)

    def work(child: Child) -> None:
        with takeback.open(store_path) as repo:
            storage = repo._ctx.storage
            assert isinstance(storage, SqliteStorage)
            storage.point = child.point
            with child.armed():
                repo.thread("t").commit({"n": -1})

    for n in range(1, 5):
        assert in_child(work, Kill(n)).killed
        with takeback.open(store_path) as repo:
            thread = repo.thread("t")
            assert thread.commit({"n": n}).version == n
            sound(repo)


def holding(path: str | Path, inside: bool) -> Running:
    """A child that stops itself: in the middle of a transaction, or between two."""

    def work(child: Child) -> None:
        with takeback.open(path) as repo:
            thread = repo.thread("t")
            assert thread.state is not None
            if inside:
                storage = repo._ctx.storage
                assert isinstance(storage, SqliteStorage)
                storage.point = lambda label: (
                    os.kill(os.getpid(), signal.SIGSTOP) if label == "commit" else None
                )
            else:
                thread.commit({"n": "before"})
                os.kill(os.getpid(), signal.SIGSTOP)
                thread.refresh()
            thread.commit({"n": "woken"}, on_conflict="merge")
            child.say("woken")

    child = Running(work)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    return child


def test_a_stopped_process_that_holds_nothing_blocks_nobody(place: str) -> None:
    made(place, n=0)
    child = holding(place, inside=False)
    with takeback.open(place) as repo:
        thread = repo.thread("t")
        for number in range(5):
            thread.commit({"n": number})
        assert thread.version == 6
    child.signal(signal.SIGCONT)
    assert child.wait().said == ["woken"]


def test_a_process_stopped_inside_a_transaction_is_waited_for_and_named(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers go on; a writer waits, then says that the store is busy; and nothing of either is lost."""
    made(store_path, n=0)
    child = holding(store_path, inside=True)
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.2)
    with takeback.open(store_path) as repo:
        thread = repo.thread("t")
        assert thread.state == {"n": 0}
        with pytest.raises(StoreBusy):
            thread.commit({"n": 1})
        monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 30.0)
        child.signal(signal.SIGCONT)
        assert child.wait().said == ["woken"]
        assert thread.refresh().state == {"n": "woken"}
        thread.commit({"n": 2})
        assert thread.version == 2
        sound(repo)


def test_opening_the_store_twice_keeps_the_locks_of_the_first(store_path: Path) -> None:
    """Closing any descriptor of a file drops all locks that the process has on it: so the library may open
    the file through SQLite alone."""
    made(store_path, n=0)
    with takeback.open(store_path) as first:
        assert first.thread("t").state == {"n": 0}
        for use in (Repo.info, Repo.damage, lambda again: again.thread("t").verify()):
            with takeback.open(store_path) as second:
                use(second)
            assert in_child(lambda child: child.say(shared_lock_is_free(store_path))).said == [False]
    assert in_child(lambda child: child.say(shared_lock_is_free(store_path))).said == [True]


def shared_lock_is_free(path: Path) -> bool:
    """Whether nobody else has SQLite's shared lock on the file: 510 bytes above the first gigabyte."""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000000 + 2)
        except OSError:
            return False
        return True


def test_a_handle_is_not_carried_over_a_fork(place: str) -> None:
    made(place, n=0)
    with takeback.open(place) as repo:
        thread = repo.thread("t")

        def work(child: Child) -> None:
            for use in (thread.refresh, lambda: thread.commit({}), repo.threads):
                with pytest.raises(ForkedProcess):
                    use()
            repo.close()  # lets go without touching what is the parent's
            child.say("refused")

        assert in_child(work).said == ["refused"]
        assert thread.commit({"n": 1}).version == 1
        sound(repo)


# --- making a store, and threads of one process


@pytest.mark.parametrize("round_", range(5))
def test_many_processes_make_the_store_at_once(store_path: Path, round_: int) -> None:
    """One store comes of it, with everybody's first thread in it, set up as any other."""

    def work(child: Child, repo: Repo, number: int) -> None:
        repo.thread(f"t{number}", initial={"by": number})
        child.say(repo.info().uid)

    lives = at_once(store_path, 6, work)
    assert len({life.said[0] for life in lives}) == 1
    with takeback.open(store_path) as repo:
        assert sorted(info.name for info in repo.threads()) == [f"t{number}" for number in range(6)]
        assert repo.info().details["journal_mode"] == "wal"
        sound(repo)
    db = apsw.Connection(os.fspath(store_path))
    assert (db.pragma("auto_vacuum"), db.pragma("application_id")) == (2, sqlite_file.APPLICATION_ID)
    db.close()


def test_making_a_store_waits_for_another_who_makes_it(store_path: Path) -> None:
    """SQLite itself does not wait where the journal changes: the file is there, locked, without tables."""
    held, ours = os.pipe()

    def work(child: Child) -> None:
        connection = apsw.Connection(os.fspath(store_path))
        connection.execute("PRAGMA user_version = 0")  # writes the first page, and no table
        connection.execute("BEGIN IMMEDIATE")
        os.write(ours, b"h")
        time.sleep(0.3)
        connection.execute("ROLLBACK")
        connection.close()

    child = Running(work)
    os.close(ours)
    assert os.read(held, 1) == b"h"
    with takeback.open(store_path) as repo:
        assert repo.thread("t", initial={}).version == 0
    os.close(held)
    child.wait()


def test_threads_of_one_handle(place: str) -> None:
    """Eight threads commit, read and compress through one handle. In a child: what goes wrong may crash."""

    def work(child: Child) -> None:
        sys.setswitchinterval(1e-5)
        failures: list[BaseException] = []

        def one(repo: Repo, number: int) -> None:
            try:
                thread = repo.thread(f"t{number}", initial={"items": []})
                for turn in range(25):
                    thread.commit({"text": [incompressible(200, turn + place) * 20 for place in range(9)]})
                    assert len(repo.thread(f"t{number}").at("head~1").state) == 1
                    repo.thread("shared").append("/items", [number, turn])
            except BaseException as error:
                failures.append(error)
                raise

        with takeback.open(place) as repo:
            repo.thread("shared", initial={"items": []})
            workers = [threading.Thread(target=one, args=(repo, number)) for number in range(8)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert failures == []
            items = repo.thread("shared").state["items"]
            assert Counter(number for number, _ in items) == dict.fromkeys(range(8), 25)
            sound(repo)
        child.say("sound")

    assert in_child(work).said == ["sound"]
