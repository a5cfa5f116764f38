"""Opening a SQLite file: what is made, what is refused before it is touched, and who may share it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from takeback.errors import (
    NetworkFilesystem,
    NewerStore,
    NotAStore,
    ReadOnlyStore,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TakebackError,
)
from takeback.storage import connect, sqlite_file
from takeback.storage.base import Batch, NewCheckpoint, ThreadQuery
from takeback.storage.memory import MemoryStorage
from takeback.storage.migrate import migrations
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Child, Running, in_child
from takeback.testing.rows import following, new_thread

NOBODY = 65534


@contextlib.contextmanager
def store(path: Path | str, **options: Any) -> Iterator[SqliteStorage]:
    opened = SqliteStorage(os.fspath(path), **options)
    try:
        yield opened
    finally:
        opened.close()


def made(path: Path, *names: str) -> Path:
    """A closed store with these threads."""
    with store(path) as opened:
        for name in names:
            assert opened.apply(Batch("a", [new_thread(name)])) is None
    return path


def sql(path: Path, *statements: str) -> list[Any]:
    """What somebody else's program does to the file."""
    connection = apsw.Connection(os.fspath(path))
    rows = [row for statement in statements for row in connection.execute(statement)]
    connection.close()
    return rows


def names(opened: SqliteStorage) -> list[str]:
    return [info.name for info in opened.threads("a", ThreadQuery())]


def beside(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir())


# --- making


def test_a_new_file_is_marked_and_in_wal_mode(store_path: Path) -> None:
    """Other programs can tell whose it is; readers and a writer do not wait for one another."""
    made(store_path)
    pragmas = ("application_id", "user_version", "journal_mode", "auto_vacuum")
    assert [row[0] for row in sql(store_path, *(f"PRAGMA {name}" for name in pragmas))] == [
        sqlite_file.APPLICATION_ID, migrations("sqlite")[-1][0], "wal", 2,
    ]  # fmt: skip
    assert beside(store_path) == ["store.db"]


def test_an_empty_file_becomes_a_store(store_path: Path) -> None:
    store_path.touch()
    made(store_path, "t")
    with store(store_path, create=False) as opened:
        assert names(opened) == ["t"]


def test_an_empty_database_becomes_a_store(store_path: Path) -> None:
    """As one that another process has just made and not yet filled."""
    sql(store_path, "PRAGMA journal_mode = WAL", "CREATE TABLE x (y)", "DROP TABLE x")
    made(store_path, "t")
    with store(store_path) as opened:
        assert names(opened) == ["t"]


@pytest.mark.parametrize("name", ["a b.db", "q?mode=memory", "h#ash", "100%25", "naïve.db", "file:x.db", "-"])
def test_names_that_mean_something_in_a_url(tmp_path: Path, name: str) -> None:
    """A file is called what it is called."""
    made(tmp_path / name, "t")
    assert beside(tmp_path / name) == [name]
    with store(tmp_path / name, create=False) as opened:
        assert (names(opened), opened.info().location) == (["t"], str(tmp_path / name))


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path, sqlite:/// with a relative or an absolute path, and memory; nothing else is guessed."""
    monkeypatch.chdir(tmp_path)
    for url, location in [
        ("plain.db", tmp_path / "plain.db"),
        ("sqlite:///relative.db", tmp_path / "relative.db"),
        (f"sqlite:///{tmp_path}/absolute.db", tmp_path / "absolute.db"),
    ]:
        opened = connect(url)
        assert opened.info().location == str(location)
        opened.close()
    assert isinstance(connect(":memory:"), MemoryStorage)
    with pytest.raises(StoreUnavailable, match="mysql"):
        connect("mysql://host/db")


@pytest.mark.parametrize(("durability", "synchronous"), [("full", "full"), ("relaxed", "normal")])
def test_durability(store_path: Path, durability: str, synchronous: str) -> None:
    """Full waits for the disk at each commit; both the reader and the writer are set up so."""
    with store(store_path, durability=durability) as opened:
        assert opened.info().details["synchronous"] == synchronous
        assert opened.info().durability == durability
        assert opened._connections.writer().pragma("synchronous") == {"full": 2, "normal": 1}[synchronous]


# --- what is no store


@pytest.mark.parametrize(
    "content",
    [b"x", b"hello", b"# notes\n" * 40, b"\0" * 100, b"SQLite format 3\0" + b"x" * 90, b"%PDF" * 9_000],
)
def test_another_kind_of_file(store_path: Path, content: bytes) -> None:
    """It is refused, and stays as it is: nothing is written into it or beside it."""
    store_path.write_bytes(content)
    with pytest.raises(NotAStore) as caught:
        SqliteStorage(os.fspath(store_path))
    assert (store_path.read_bytes(), beside(store_path)) == (content, ["store.db"])
    assert str(store_path) in str(caught.value)


OURS = ("store", "threads", "checkpoints", "objects")
FOREIGN = {
    "other tables": ["CREATE TABLE notes (x)", "CREATE TABLE more (x)"],
    "other tables and a version": ["CREATE TABLE notes (x)", "PRAGMA user_version = 1"],
    "our table names": [f"CREATE TABLE {name} (x)" for name in (*OURS, "audit")],
    "our table names and a version": [
        *(f"CREATE TABLE {name} (x)" for name in OURS),
        "PRAGMA user_version = 1", "PRAGMA application_id = 252006675",
    ],
    "our mark alone": ["CREATE TABLE notes (x)", f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}"],
}  # fmt: skip


@pytest.mark.parametrize("case", FOREIGN)
def test_another_programs_database(store_path: Path, case: str) -> None:
    """It is refused and not changed, even where its tables happen to be called as ours are."""
    sql(store_path, *FOREIGN[case])
    before = store_path.read_bytes()
    with pytest.raises(NotAStore) as caught:
        SqliteStorage(os.fspath(store_path))
    assert (store_path.read_bytes(), beside(store_path)) == (before, ["store.db"])
    assert "choose another" in str(caught.value).lower()


def test_a_store_that_was_not_marked_yet_is_ours(store_path: Path) -> None:
    """The mark comes after the tables; whoever died in between is finished by the next."""
    made(store_path, "t")
    sql(store_path, "PRAGMA application_id = 0")
    with store(store_path) as opened:
        assert names(opened) == ["t"]
    assert sql(store_path, "PRAGMA application_id") == [(sqlite_file.APPLICATION_ID,)]


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="folder"):
        SqliteStorage(os.fspath(tmp_path))


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no folder"):
        SqliteStorage(os.fspath(tmp_path / "missing" / "store.db"))
    assert beside(tmp_path / "missing") == []


def test_no_store_and_none_wanted(store_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no store at"):
        SqliteStorage(os.fspath(store_path), create=False)
    assert beside(store_path) == []


def test_a_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable):
        SqliteStorage(os.fspath(tmp_path / "file" / "store.db"))


# --- damage


def test_a_damaged_file_says_so(store_path: Path) -> None:
    """Garbage in its pages is found by reading or by asking, and is never an answer."""
    with store(store_path) as opened:
        for n in range(60):
            assert opened.apply(Batch("a", [new_thread(f"t{n}", meta={"pad": "x" * 300})])) is None
        assert opened.damage() == []
    content = bytearray(store_path.read_bytes())
    page = 4096
    for number in range(3, len(content) // page):
        content[number * page : number * page + 200] = b"\xa5" * 200
    store_path.write_bytes(content)
    said: list[str] = []
    try:
        with store(store_path) as opened:
            said = opened.damage()
            names(opened)
    except StoreCorrupt as error:
        said.append(str(error))
    assert said


def test_every_read_of_a_damaged_page_is_refused(store_path: Path) -> None:
    """With the pages of the table itself gone, what is read is an error that says what to do."""
    made(store_path, *(f"t{n}" for n in range(200)))
    ((root,),) = sql(store_path, "SELECT rootpage FROM sqlite_schema WHERE name = 'threads'")
    content = bytearray(store_path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xa5" * 4096
    store_path.write_bytes(content)
    with store(store_path) as opened:
        with pytest.raises(StoreCorrupt, match="doctor"):
            names(opened)
        with pytest.raises(StoreCorrupt):
            opened.apply(Batch("a", [new_thread("new")]))
        assert opened.damage() != []


def test_a_file_cut_short(store_path: Path) -> None:
    made(store_path, *(f"t{n}" for n in range(200)))
    os.truncate(store_path, 3 * 4096)
    with pytest.raises(StoreCorrupt), store(store_path) as opened:
        names(opened)


# --- other versions


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_store(store_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool) -> None:
    """Its meaning is not known here, so nothing in it is read or written."""
    made(store_path, "t")
    sql(store_path, "PRAGMA user_version = 99")
    before = store_path.read_bytes()
    monkeypatch.setattr(sqlite_file, "_writable", lambda path: not read_only)
    with pytest.raises(NewerStore, match=rf"schema 99.*up to {migrations('sqlite')[-1][0]}"):
        SqliteStorage(os.fspath(store_path))
    assert store_path.read_bytes() == before


# --- permissions


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp(prefix="tb-shared-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(work: Callable[[], list[Any]]) -> list[Any]:
    """What a user without rights sees: permission bits do not bind root, who runs tests on some machines."""

    def child(child: Child) -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        for answer in work():
            child.say(answer)

    return in_child(child).said


def outcome(call: Callable[[], Any]) -> str:
    try:
        call()
    except TakebackError as error:
        return error.kind
    return "ok"


def look(path: Path) -> list[Any]:
    """What can be done with a store."""
    opened = SqliteStorage(os.fspath(path))
    info = opened.info()
    return [
        names(opened), info.read_only, outcome(lambda: opened.apply(Batch("a", [new_thread("new")]))),
        info.uid,
        opened.damage(), outcome(opened.close), outcome(opened.info),
    ]  # fmt: skip


@pytest.mark.parametrize("folder", [0o755, 0o777], ids=["folder of others", "shared folder"])
def test_a_file_that_may_only_be_read(shared: Path, folder: int) -> None:
    """Everything can be read; a write is refused and names the file; the owner is not disturbed."""
    path = made(shared / "store.db", "t")
    path.chmod(0o444)
    if folder == 0o755 or os.geteuid() != 0:
        shared.chmod(0o555)
    with store(path) if os.geteuid() == 0 else contextlib.nullcontext() as owner:
        uid = owner.info().uid if owner else None
    said = as_nobody(lambda: look(path))
    assert said[:3] == [["t"], True, "read_only_store"]
    assert uid in (None, said[3])
    assert said[4:] == [[], "ok", "store_closed"]


def test_a_writable_file_in_a_folder_that_is_not(shared: Path) -> None:
    """WAL needs the folder, so this is a store that may only be read."""
    path = made(shared / "store.db", "t")
    path.chmod(0o666)
    shared.chmod(0o555)
    assert as_nobody(lambda: look(path))[:3] == [["t"], True, "read_only_store"]


def test_a_store_in_use_by_its_owner(shared: Path) -> None:
    """Whoever may only read sees what was committed, also what is not yet in the main file."""
    if os.geteuid() != 0:
        return  # without a second user there is no reader of another's store
    path = shared / "store.db"
    with store(path) as opened:
        assert opened.apply(Batch("a", [new_thread("t")])) is None
        assert os.path.getsize(f"{path}-wal") > 0
        path.chmod(0o444)
        Path(f"{path}-wal").chmod(0o444)
        Path(f"{path}-shm").chmod(0o444)
        said = as_nobody(lambda: [outcome(lambda: look(path)), *look(path)[:3]])
        assert said == ["ok", ["t"], True, "read_only_store"]


def test_frames_that_cannot_be_read_are_not_passed_over(shared: Path) -> None:
    """After a crash the newest commits lie beside the file. Who may not look at them gets an error: the file
    alone would be an old state, shown as the present one."""
    source, path = shared / "source.db", shared / "folder" / "store.db"
    path.parent.mkdir()
    with store(source) as opened:
        assert opened.apply(Batch("a", [new_thread("t")])) is None
        shutil.copy(source, path)
        shutil.copy(f"{source}-wal", f"{path}-wal")
    for each in path.parent.iterdir():
        each.chmod(0o444)
    path.parent.chmod(0o555)
    assert as_nobody(lambda: [outcome(lambda: look(path))]) == ["store_unavailable"]
    path.parent.chmod(0o755)


def test_what_is_not_ours_to_read_or_to_make(shared: Path) -> None:
    path = made(shared / "store.db", "t")
    path.chmod(0o000)
    shared.chmod(0o555)
    assert as_nobody(
        lambda: [
            outcome(lambda: SqliteStorage(os.fspath(path))),
            outcome(lambda: SqliteStorage(f"{shared}/new.db")),
        ]
    ) == ["store_unavailable", "read_only_store"]


def test_an_empty_database_that_cannot_be_filled(shared: Path) -> None:
    path = shared / "store.db"
    sql(path, "CREATE TABLE x (y)", "DROP TABLE x")
    path.chmod(0o444)
    shared.chmod(0o555)
    assert as_nobody(lambda: [outcome(lambda: SqliteStorage(os.fspath(path)))]) == ["not_a_store"]


def test_a_store_without_a_uid_that_cannot_be_given_one(shared: Path) -> None:
    """Seals name the store; one that was never finished is opened first by whoever may write."""
    path = made(shared / "store.db", "t")
    sql(path, "DELETE FROM store")
    path.chmod(0o444)
    shared.chmod(0o555)
    assert as_nobody(lambda: [outcome(lambda: SqliteStorage(os.fspath(path)))]) == ["store_error"]


# --- others at the same file


def test_a_store_held_by_another_process(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends with an error that says what it waited for; nothing was written, and then all works."""
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    made(store_path, "t")
    held, release = os.pipe(), os.pipe()

    def hold(_: Child) -> None:
        connection = apsw.Connection(os.fspath(store_path))
        connection.execute("BEGIN IMMEDIATE")
        os.write(held[1], b"x")
        os.read(release[0], 1)

    other = Running(hold)
    os.read(held[0], 1)
    with store(store_path) as opened:
        with pytest.raises(StoreBusy, match="another process"):
            opened.apply(Batch("a", [new_thread("late")]))
        assert names(opened) == ["t"]
        os.write(release[1], b"x")
        other.wait()
        assert opened.apply(Batch("a", [new_thread("late")])) is None
    for end in (*held, *release):
        os.close(end)


def test_a_wait_ends_when_the_other_is_done(store_path: Path) -> None:
    """A short transaction of another connection is waited for, not reported."""
    made(store_path, "t")
    other = apsw.Connection(os.fspath(store_path))
    other.execute("BEGIN IMMEDIATE")
    patience = sqlite_file._Patience()
    waits = []

    def wait(tries: int) -> bool:
        waits.append(tries)
        if tries == 2:
            other.execute("COMMIT")
        return patience(tries)

    with store(store_path) as opened:
        opened._connections.writer().set_busy_handler(wait)
        assert opened.apply(Batch("a", [new_thread("u")])) is None
    other.close()
    assert waits == [0, 1, 2]


def test_a_handle_is_of_no_use_after_a_fork(store_path: Path) -> None:
    """SQLite's locks do not survive a fork. The child is told, may close, and does the parent no harm."""
    with store(store_path) as opened:
        row = new_thread("t")
        assert opened.apply(Batch("a", [row])) is None

        def child(child: Child) -> None:
            def snapshot() -> None:
                with opened.snapshot():
                    pass

            calls: list[Callable[[], Any]] = [
                lambda: opened.apply(Batch("a", [new_thread("child")])), lambda: opened.thread("a", "t"),
                lambda: opened.objects("a", []), lambda: opened.checkpoint("a", row.uid, 0), opened.info,
                opened.tenants, opened.damage, snapshot, opened.close, opened.info,
            ]  # fmt: skip
            for call in calls:
                child.say(outcome(call))
            with store(store_path) as own:
                child.say(outcome(lambda: own.apply(Batch("a", [new_thread("child's own")]))))

        assert in_child(child).said == ["forked_process"] * 8 + ["ok", "store_closed", "ok"]
        assert opened.apply(Batch("a", [NewCheckpoint(following(row.first))])) is None
        assert names(opened) == ["child's own", "t"]
        assert opened.damage() == []


def test_six_processes_make_one_store(store_path: Path) -> None:
    """Whoever comes first makes it, the others find it made: one schema, one uid, no error."""
    start = os.pipe()

    def child(child: Child, number: int) -> None:
        os.read(start[0], 1)
        with store(store_path) as opened:
            assert opened.apply(Batch("a", [new_thread(f"t{number}")])) is None
            child.say(opened.info().uid)

    children = [Running(lambda c, number=number: child(c, number)) for number in range(6)]
    os.write(start[1], b"xxxxxx")
    uids = {uid for running in children for uid in running.wait().said}
    os.close(start[0])
    os.close(start[1])
    with store(store_path) as opened:
        assert sorted(names(opened)) == [f"t{number}" for number in range(6)]
        assert uids == {opened.info().uid}
        assert opened.info().details["journal_mode"] == "wal"
    fresh = made(store_path.with_name("fresh.db"))
    schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
    assert sql(store_path, schema) == sql(fresh, schema)


def test_sqlite_of_the_standard_library_can_read_it(store_path: Path) -> None:
    """It is an ordinary database: in another process, any tool may look."""
    made(store_path, "t")
    query = "sqlite3.connect(sys.argv[1]).execute('SELECT name FROM threads').fetchall()"
    script = f"import sqlite3, sys; print({query})"
    command = [sys.executable, "-c", script, os.fspath(store_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[('t',)]"


# --- network file systems

LOCAL = ("/", "ext4")


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p2000.L", "ceph", "lustre"])
def test_a_network_file_system_is_refused(kind: str) -> None:
    """Its locks cannot be trusted, and two writers would destroy the file."""
    with pytest.raises(NetworkFilesystem, match=kind):
        sqlite_file._refuse_network("/mnt/team/store.db", [LOCAL, ("/mnt/team", kind)])


@pytest.mark.parametrize(
    ("path", "mounts", "refused"),
    [
        ("/mnt/team/a/b.db", [LOCAL, ("/mnt", "nfs"), ("/mnt/team", "xfs")], False),
        ("/mnt/team/a/b.db", [LOCAL, ("/mnt", "xfs"), ("/mnt/team/", "nfs")], True),
        ("/mnt/teams/b.db", [LOCAL, ("/mnt/team", "nfs")], False),
        ("/any/b.db", [("/", "nfs")], True),
        ("/any/b.db", [LOCAL], False),
        ("/any/b.db", [], False),
    ],
)
def test_the_innermost_mount_decides(path: str, mounts: list[tuple[str, str]], refused: bool) -> None:
    with pytest.raises(NetworkFilesystem) if refused else contextlib.nullcontext():
        sqlite_file._refuse_network(path, mounts)


def test_links_are_followed(tmp_path: Path) -> None:
    """A link on a local disk into a network share is a network file."""
    (tmp_path / "link").symlink_to("/mnt/share")
    with pytest.raises(NetworkFilesystem):
        sqlite_file._refuse_network(str(tmp_path / "link" / "x.db"), [LOCAL, ("/mnt/share", "nfs")])


def test_opening_looks_at_the_mounts(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "_mounts", lambda: [("/", "nfs4")])
    with pytest.raises(NetworkFilesystem):
        SqliteStorage(os.fspath(store_path))
    assert beside(store_path) == []


def test_mounts_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system tells, the root is among them; where it does not, nothing is refused."""
    found = sqlite_file._mounts()
    assert not os.path.exists("/proc/self/mountinfo") or "/" in [point for point, _ in found]

    def missing(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(sqlite_file, "open", missing, raising=False)
    assert sqlite_file._mounts() == []


# --- SQLite's errors in takeback's words


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.BusyError, StoreBusy), (apsw.LockedError, StoreBusy), (apsw.FullError, StoreFull),
        (apsw.ReadOnlyError, ReadOnlyStore), (apsw.CorruptError, StoreCorrupt), (apsw.NotADBError, NotAStore),
        (apsw.CantOpenError, StoreUnavailable), (apsw.PermissionsError, StoreUnavailable),
        (apsw.IOError, StoreError),
        (apsw.SQLError, StoreError), (apsw.ConstraintError, StoreError),
        (apsw.ThreadingViolationError, StoreError),
    ],
)  # fmt: skip
def test_meanings(error: type[apsw.Error], kind: type[TakebackError]) -> None:
    """Each says where, and each is of the kind that its handler would look for."""
    meaning = sqlite_file.meaning(error("boo"), "/data/store.db")
    assert type(meaning) is kind
    assert "/data/store.db" in str(meaning)


def test_errors_keep_their_cause() -> None:
    with pytest.raises(StoreBusy) as caught, sqlite_file.translated("here"):
        raise apsw.BusyError("boo")
    assert isinstance(caught.value.__cause__, apsw.BusyError)


def test_closed_means_closed(store_path: Path) -> None:
    """Nothing of the store is open any more, and only one file is left of it."""
    with store(store_path) as opened:
        assert opened.apply(Batch("a", [new_thread("t")])) is None
    with pytest.raises(StoreClosed, match="Open it again"):
        opened.info()
    assert beside(store_path) == ["store.db"]
    assert stat.S_ISREG(store_path.stat().st_mode)
    fds = Path("/proc/self/fd")
    held = [os.readlink(fd) for fd in fds.iterdir() if fd.is_symlink()] if fds.exists() else []
    assert [link for link in held if link.startswith(str(store_path))] == []
