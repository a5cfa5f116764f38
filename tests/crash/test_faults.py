"""Disks that are full, fail or are read-only, clocks that go back, processes that die while a store is made:
a write is acknowledged and there, refused and nowhere, or its outcome is said to be unknown."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.crash.stores import holds, incompressible, on, sound, writable

import takeback
from takeback.errors import (
    Conflict,
    NewerStore,
    NotAStore,
    ReadOnlyStore,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownOutcome,
)
from takeback.repo import Repo
from takeback.storage import migrate, sqlite_file
from takeback.storage.base import Batch, HeadMoved, NameTaken, NewCheckpoint
from takeback.storage.sqlite import SqliteStorage
from takeback.testing import rows
from takeback.testing.faults import Child, Disk, Kill, in_child, power_cuts

# --- a disk that fails

FAILS = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "create": apsw.SQLITE_IOERR,
}


def broken(what: str) -> Exception:
    error = apsw.IOError(f"no {what} on this disk today")
    error.extendedresult = FAILS[what.partition(" ")[0]]
    return error


def full(what: str) -> Exception:
    """What a write gets on a full disk; syncs and reads go on."""
    return apsw.FullError(f"no room for {what}")


class Failing:
    """A hook of a disk: the n-th armed operation fails, or it and all after it."""

    def __init__(self, n: int | None, make: Callable[[str], Exception], *, lasting: bool) -> None:
        self.n, self.make, self.lasting = n, make, lasting
        self.passed: list[str] = []
        self.armed = False

    def __call__(self, what: str) -> None:
        if not self.armed or what.startswith("read") or (self.make is full and not what.startswith("write")):
            return
        self.passed.append(what)
        at = len(self.passed) - 1
        if self.n is not None and (at == self.n or (self.lasting and at > self.n)):
            raise self.make(what)


ACTS: dict[str, Callable[[Repo], Any]] = {
    "thread": lambda repo: repo.thread("new", initial={"a": 1}),
    "commit": lambda repo: repo.thread("main").commit({"much": [incompressible(9_000, n) for n in range(5)]}),
    "append": lambda repo: repo.thread("main").append("/items", 1),
    "label": lambda repo: repo.thread("main").label("good"),
    "delete": lambda repo: repo.thread("main").delete(),
}


def made(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with takeback.open(path) as repo:
        repo.thread("main", initial={"items": []}).append("/items", 0)


@contextlib.contextmanager
def failing(path: Path, name: str, hook: Failing, others: int) -> Iterator[tuple[Disk, str]]:
    """Do the act on a disk that fails, with so many other connections open; yields what came of it. When the
    store was closed, the disk works again."""
    made(path)
    disk = Disk()
    disk.hook = hook
    connections = [apsw.Connection(os.fspath(path), vfs=disk.label) for _ in range(others)]
    for connection in connections:
        connection.execute("SELECT count(*) FROM threads").fetchone()
    with on(disk, path) as repo:
        repo.threads()
        hook.armed = True
        try:
            ACTS[name](repo)
            outcome = "acknowledged"
        except UnknownOutcome:
            outcome = "unknown"
        except StoreError:
            outcome = "refused"
        disk.note(outcome)
        yield disk, outcome
        hook.armed = False
    for connection in connections:
        connection.close()


def both(path: Path, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    made(path)
    with takeback.open(path) as repo:
        before = holds(repo)
        ACTS[name](repo)
        return before, holds(repo)


@pytest.mark.parametrize(("make", "others"), [(broken, 0), (broken, 1), (full, 0)])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("name", ACTS)
def test_each_call_to_the_disk_that_fails(
    store_path: Path, name: str, make: Callable[[str], Exception], lasting: bool, others: int
) -> None:
    """Acknowledged and there, also after a power cut at that moment; or refused and nowhere, also later."""
    before, after = both(store_path, name)
    n, seen = 0, set()
    while True:
        hook = Failing(n, make, lasting=lasting)
        with failing(store_path, name, hook, others) as (disk, outcome):
            if len(hook.passed) <= n:
                assert outcome == "acknowledged"
                break
            with on(Disk(), store_path) as other:
                found = holds(other)
            check(found, outcome, before, after)
            cut(disk, outcome, before, after, store_path.parent / "cut")
        with takeback.open(store_path) as repo:
            check(holds(repo), outcome, before, after)
            writable(repo)
        seen.add(outcome)
        n += 1
    assert n > 2, f"nothing ever failed: {hook.passed}"
    assert seen - {"acknowledged"}, "no failure was ever noticed"


def check(found: dict[str, Any], outcome: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    expected = {"acknowledged": [after], "refused": [before], "unknown": [before, after]}[outcome]
    assert found in expected, outcome


def cut(disk: Disk, outcome: str, before: dict[str, Any], after: dict[str, Any], folder: Path) -> None:
    """Power goes just after the caller was answered."""
    (answered,) = [index for index, event in enumerate(disk.events) if event.kind == "note"]
    folder.mkdir(exist_ok=True)
    for image in power_cuts(disk.events, [answered] * 2, seed=answered):
        for left in folder.iterdir():
            left.unlink()
        image.lay(folder)
        with takeback.open(folder / "store.db") as repo:
            check(holds(repo), outcome, before, after)
            sound(repo)


def test_a_sync_that_failed_is_not_made_good_by_looking(store_path: Path) -> None:
    """The disk takes the frames and not the sync: what can be seen of them then is not safe."""
    made(store_path)
    disk = Disk()
    with on(disk, store_path) as repo:
        repo.thread("main").append("/items", 1)

        def refuse(what: str) -> None:
            if what.startswith("sync"):
                raise broken(what)

        disk.hook = refuse
        with pytest.raises(UnknownOutcome, match="look before you write"):
            repo.thread("main").commit({"items": ["seen, perhaps"]})
        disk.hook = None
        thread = repo.thread("main")
        assert thread.version in (2, 3)
        assert thread.commit({"items": ["again"]}).version == thread.version


# --- a disk that is full


def test_a_full_disk_for_real(store_path: Path) -> None:
    """The system refuses to let any file grow: commits fail, reads go on, and with room again all is well."""

    def work(child: Child) -> None:
        with takeback.open(store_path) as repo:
            thread = repo.thread("main", initial={"n": 0, "text": ""})
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            for room in (4_096, 20_000, 50_000, 100_001, 200_000):
                size = max(path.stat().st_size for path in store_path.parent.glob("store.db*"))
                resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
                refused = 0
                for number in range(100):
                    state = {"n": number, "text": incompressible(9_000, number)}
                    try:
                        child.say(["there", thread.commit(state).id])
                    except UnknownOutcome:
                        child.say(["unknown"])
                        thread.refresh()
                    except StoreError as error:
                        refused += 1
                        child.say(["refused", str(error)])
                        assert thread.refresh().state["n"] == thread.at("head").state["n"]
                        if refused == 3:
                            break
                assert refused == 3, "the limit was never reached"
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                child.say(["there", thread.commit({"n": -1, "text": ""}).id])

    said = in_child(work).said
    there = [what[1] for what in said if what[0] == "there"]
    assert not [what for what in said if what[0] == "unknown"]
    with takeback.open(store_path) as repo:
        assert [row.id for row in repo.thread("main").history(newest_first=False)][1:] == there
        writable(repo)


def test_a_database_that_may_not_grow(store_path: Path) -> None:
    """SQLite's own FULL: named, and nothing of the commit stays."""
    with takeback.open(store_path) as repo:
        thread = repo.thread("main", initial={"n": 0})
        storage = repo._ctx.storage
        assert isinstance(storage, SqliteStorage)
        writer = storage._connections.writer()
        writer.execute(f"PRAGMA max_page_count = {writer.pragma('page_count') + 5}")
        before = holds(repo)
        with pytest.raises(StoreFull, match="no space is left"):
            thread.commit({"much": [incompressible(9_000, number) for number in range(9)]})
        assert holds(repo) == before
        assert thread.commit({"n": 1}).version == 1
        writer.execute("PRAGMA max_page_count = 1000000")
        writable(repo)


# --- a file that is not ours to write


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that others can reach, and a library that was read before: its files may be out of reach."""
    for name in ("migrations", "queries"):
        read = getattr(migrate, name)("sqlite")
        monkeypatch.setattr(migrate, name, lambda engine, read=read: read)
    monkeypatch.setattr("takeback.storage.sqlite.queries", migrate.queries)
    folder = Path(tempfile.mkdtemp(prefix="tb-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], None]) -> list[Any]:
    """What the function says as a user who owns nothing; root may write everywhere."""

    def drop(child: Child) -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        work()
        child.say("done")

    return in_child(drop).said


def test_a_file_that_may_only_be_read(shelf: Path) -> None:
    path = shelf / "store.db"
    made(path)
    path.chmod(0o444)
    shelf.chmod(0o555)

    def work() -> None:
        with takeback.open(path) as repo:
            thread = repo.thread("main")
            assert thread.state == {"items": [0]}
            assert len(list(thread.history())) == 2
            assert repo.info().read_only
            sound(repo)
            for write in (lambda: thread.commit({}), thread.delete, thread.seal, lambda: thread.label("x")):
                with pytest.raises(ReadOnlyStore):
                    write()
        with pytest.raises((ReadOnlyStore, StoreUnavailable)):
            takeback.open(shelf / "another.db")

    assert as_nobody(work) == ["done"]
    assert sorted(os.listdir(shelf)) == ["store.db"]


def test_a_file_that_may_not_be_read(shelf: Path) -> None:
    path = shelf / "store.db"
    made(path)
    path.chmod(0)

    def work() -> None:
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            takeback.open(path)

    assert as_nobody(work) == ["done"]


def test_a_reader_without_rights_beside_a_writer(shelf: Path) -> None:
    """What was committed and not yet moved into the file is seen too, or the store says that it cannot."""
    path = shelf / "store.db"
    made(path)
    with takeback.open(path) as repo:
        repo.thread("main").append("/items", 1)

        def work() -> None:
            with takeback.open(path) as other:
                assert other.thread("main").state == {"items": [0, 1]}

        for file in shelf.iterdir():
            file.chmod(0o444)
        shelf.chmod(0o555)
        assert as_nobody(work) == ["done"]


# --- a store that is being made, or brought up to date


def test_killed_while_the_store_is_made(store_path: Path) -> None:
    """Between any two calls to the disk: whoever opens it next finishes it, and it is as any other."""

    def work(child: Child) -> None:
        disk = Disk()
        disk.hook = child.point
        with child.armed(), on(disk, store_path) as repo:
            repo.thread("main", initial={"items": []})
            child.say("there")

    points = [what for what in in_child(work).points if not what.startswith("read")]
    assert {"create main", "create journal", "write main", "create wal", "sync wal"} <= set(points)
    labels = in_child_points(store_path, work)
    landed = 0
    for n, label in enumerate(labels):
        if label.startswith("read") or (label.startswith("write") and n % 3):
            continue
        remove(store_path)
        life = in_child(work, Kill(n))
        assert life.killed, label
        with takeback.open(store_path) as repo:
            landed += repo.thread("main").exists
            assert repo.thread("main").exists or life.said == []
            assert repo.info().details["journal_mode"] == "wal"
            writable(repo)
        db = apsw.Connection(os.fspath(store_path))
        assert (db.pragma("auto_vacuum"), db.pragma("application_id")) == (2, sqlite_file.APPLICATION_ID)
        db.close()
    assert 0 < landed < len(labels)


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def in_child_points(path: Path, work: Callable[[Child], None]) -> list[str]:
    remove(path)
    return in_child(work).points


def test_killed_while_the_schema_is_migrated(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration and its number come together or not at all; whoever opens the store next does it."""
    newer = "CREATE TABLE extra (a INTEGER) STRICT; INSERT INTO extra VALUES (1), (2);"
    number = migrate.migrations("sqlite")[-1][0] + 1

    def known(engine: str, real: Any = migrate.migrations) -> list[tuple[int, str]]:
        return [*real(engine), (number, newer)]

    def work(child: Child) -> None:
        disk = Disk()
        disk.hook = child.point
        with child.armed(), on(disk, store_path):
            child.say("migrated")

    made(store_path)
    original = store_path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", known)
        points = in_child(work).points
        assert "sync wal" in points
    done = 0
    for n in range(len(points)):
        remove(store_path)
        store_path.write_bytes(original)
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "migrations", known)
            life = in_child(work, Kill(n))
            assert life.killed
        try:
            with takeback.open(store_path) as repo:
                assert life.said == []
                sound(repo)
        except NewerStore:
            done += 1
        with monkeypatch.context() as patch:
            patch.setattr(migrate, "migrations", known)
            with takeback.open(store_path) as repo:
                assert repo.info().schema == number
                writable(repo)
        db = apsw.Connection(os.fspath(store_path))
        assert db.execute("SELECT a FROM extra").fetchall() == [(1,), (2,)]
        db.close()
    assert 0 < done < len(points)


@pytest.mark.parametrize("content", [b"\n", b"notes\n", b"x" * 600, bytes(4096), bytes(range(256)) * 40])
def test_another_kind_of_file_is_left_alone(store_path: Path, content: bytes) -> None:
    """It is not opened to look (see the locks), and so SQLite must refuse it before it writes."""
    store_path.write_bytes(content)
    with pytest.raises(NotAStore):
        takeback.open(store_path)
    assert store_path.read_bytes() == content
    assert os.listdir(store_path.parent) == ["store.db"]


def test_a_first_page_of_garbage_is_repaired_from_the_write_ahead_file(store_path: Path) -> None:
    """As a power cut leaves it that comes while frames are moved: all is in the write-ahead file."""
    disk = Disk()
    with on(disk, store_path) as repo:
        repo.thread(
            "main", initial={"text": incompressible(60_000)}
        )  # the file grows: its first page says so
        for suffix in ("", "-wal"):
            shutil.copy(f"{store_path}{suffix}", f"{store_path.parent / 'cut.db'}{suffix}")
    cut_path = store_path.parent / "cut.db"
    with cut_path.open("r+b") as file:
        file.write(os.urandom(512))
    with takeback.open(cut_path) as repo:
        writable(repo)


# --- killed while frames are moved


@pytest.mark.parametrize("n", [0, 1, 40, 300, 700])
def test_killed_while_a_long_write_ahead_file_is_moved(store_path: Path, n: int) -> None:
    """Over a thousand frames, moved by the store's own thread while the writer goes on."""

    def work(child: Child) -> None:
        disk = Disk()
        with on(disk, store_path) as repo:
            thread = repo.thread("main", initial={"text": []})
            disk.hook = lambda what: child.point(what) if what in ("write main", "sync main") else None
            with child.armed():
                for number in range(10_000):
                    text = [incompressible(9_000, number * 20 + place) for place in range(20)]
                    checkpoint = thread.commit({"text": text})
                    child.say([checkpoint.version, checkpoint.id, os.path.getsize(f"{store_path}-wal")])

    life = in_child(work, Kill(n))
    assert life.killed
    assert max(size for _, _, size in life.said) > 1_000 * 4_096
    assert len(life.points) == n + 1
    with takeback.open(store_path) as repo:
        ids = [row.id for row in repo.thread("main").history(newest_first=False)]
        assert [ids[version] for version, _, _ in life.said] == [made for _, made, _ in life.said]
        assert len(ids) in (len(life.said) + 1, len(life.said) + 2)
        writable(repo)


# --- time, and asking twice


def test_a_clock_that_goes_back(store_path: Path) -> None:
    """Recorded time never goes back; what the clock said is kept beside it."""
    hour = 3_600_000_000
    now = [rows.T0]
    with takeback.open(store_path, clock=lambda: now[0]) as repo:
        thread = repo.thread("main", initial={"n": 0})
        for step in (hour, -hour, 1, hour * 2):
            now[0] += step
            thread.commit({"n": step})
        found = list(thread.history(newest_first=False))
        assert [row.time_us - rows.T0 for row in found] == [0, hour, hour, hour, 2 * hour + 1]
        assert [row.clock_us - rows.T0 for row in found] == [0, hour, 0, 1, 2 * hour + 1]
        now[0] = 0
        fork = thread.fork("head", "fork")
        assert fork.commit({"n": 1}).time_us >= fork.at(0).checkpoint.time_us
        sound(repo)


def test_the_same_commit_tried_again(store_path: Path) -> None:
    """After an unknown outcome: the same record at the same place is written once, and another is refused."""
    with takeback.open(store_path) as repo:
        thread = repo.thread("main", initial={"n": 0})
        storage, head = repo._ctx.storage, thread.head
        mine = rows.following(head, state_root=head.state_root, time_us=head.time_us + 1)
        batch = Batch(repo.tenant, [NewCheckpoint(mine)])
        assert storage.apply(batch) is None
        assert storage.apply(batch) is None
        assert thread.refresh().head.id == mine.id
        another = rows.following(head, state_root=head.state_root)
        assert storage.apply(Batch(repo.tenant, [NewCheckpoint(another)])) == HeadMoved(1, mine.digest)
        later = thread.commit({"n": 2})
        # Others came after it: the answer is the head, and the writer finds its own record below.
        assert storage.apply(batch) == HeadMoved(later.version, later.digest)
        assert storage.checkpoint(repo.tenant, mine.uid, mine.version) == mine
        assert [row.id for row in thread.history(newest_first=False)] == [head.id, mine.id, later.id]
        new = rows.new_thread("new", state_root=head.state_root)
        assert storage.apply(Batch(repo.tenant, [new])) is None
        assert storage.apply(Batch(repo.tenant, [new])) == NameTaken("new")
        assert storage.checkpoint(repo.tenant, new.uid, 0) == new.first
        sound(repo)


def test_what_a_refused_commit_brought_is_written_by_the_next(store_path: Path) -> None:
    """Objects of a refused batch are not in the store: who remembers them as written leaves a hole."""
    big = {"items": [incompressible(9_000, number) for number in range(6)]}
    with takeback.open(store_path) as repo, takeback.open(store_path) as other:
        thread = repo.thread("main", initial={"n": 0})
        other.thread("main").commit({"n": 1})
        with pytest.raises(Conflict):
            thread.commit(big)
        assert thread.refresh().commit(big).version == 2
        sound(other)
        assert other.thread("main").state == big
