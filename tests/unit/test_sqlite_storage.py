"""The SQLite backend at work: damage in its rows, a full disk, I/O errors, threads, and its own SQL."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import takeback.storage
from takeback.errors import CorruptObject, StoreCorrupt, StoreError, StoreFull, UnknownOutcome
from takeback.model import canonical
from takeback.model.graphs import GraphWrite, Place, marked
from takeback.storage import objects as codec
from takeback.storage import sqlite, sqlite_file
from takeback.storage.base import (
    Batch,
    Buried,
    DropLabel,
    Epochs,
    Forget,
    HeadMoved,
    Hide,
    Lock,
    NameTaken,
    NewCheckpoint,
    NewEpoch,
    NewThread,
    Objects,
    Places,
    Prune,
    Pruned,
    PutLabel,
    PutWrites,
    Row,
    Sizes,
    Still,
    ThreadGone,
    ThreadQuery,
    Tombstone,
    Writes,
)
from takeback.storage.items import (
    AllVersions,
    FreeItems,
    NewestUnder,
    PutItems,
    Seen,
    TouchItems,
    TurnItems,
    VersionsBy,
    VersionsOf,
)
from takeback.storage.migrate import queries
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Disk
from takeback.testing.handles import labels, together
from takeback.testing.items import NS, version
from takeback.testing.rows import audit, blobs, cell, following, ledger, merging, new_thread, run

A = "a"
SCHEMA = Path(takeback.storage.__file__).parent / "schema" / "sqlite"


@pytest.fixture
def store(store_path: Path) -> Iterator[SqliteStorage]:
    opened = SqliteStorage(os.fspath(store_path))
    yield opened
    opened.close()


def ok(store: SqliteStorage, *rows: Row, objects: dict[bytes, bytes] | None = None) -> None:
    assert store.apply(Batch(A, list(rows), objects or {})) is None


def tamper(store: SqliteStorage, statement: str, values: tuple[Any, ...] = ()) -> None:
    """What somebody with the file does; the trigger is no obstacle to them."""
    connection = store._connections.writer()
    connection.execute("DROP TRIGGER IF EXISTS checkpoints_never_change")
    connection.execute(statement, values)
    assert connection.changes() > 0


def flipped(raw: bytes, place: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


# --- what was tampered with


def test_a_checkpoint_is_never_updated(store: SqliteStorage) -> None:
    """The database itself refuses, whoever asks."""
    row = new_thread("t")
    ok(store, row)
    for column in ("kind", "record", "digest", "time", "version"):
        with pytest.raises(apsw.ConstraintError, match="never changes"):
            store._connections.writer().execute(f"UPDATE checkpoints SET {column} = {column}")
    assert store.checkpoint(A, row.uid, 0) == row.first


COLUMNS = {
    "namespace": "'other'", "kind": "'commit'", "line": "7", "origin_version": "5", "merged_version": "NULL",
    "undoes": "5", "time": "time + 1",
}  # fmt: skip


def test_every_repeated_column_has_a_case() -> None:
    schema = (SCHEMA / "0001_first.sql").read_text(encoding="utf-8")
    table = schema.split("CREATE TABLE checkpoints (")[1].split("PRIMARY KEY")[0]
    columns = set(re.findall(r"^    (\w+)", table, re.MULTILINE))
    assert columns - {"thread", "version", "digest", "mac", "record"} == COLUMNS.keys()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_row_that_says_other_than_its_record(store: SqliteStorage, column: str) -> None:
    """Queries go by columns; one that was changed is found by every way of reading, and named."""
    row, other = new_thread("t"), new_thread("other")
    merge = merging(row.first, other.first)
    ok(store, row, other, NewCheckpoint(merge), NewCheckpoint(following(merge)))
    tamper(store, f"UPDATE checkpoints SET {column} = {COLUMNS[column]} WHERE thread = 1 AND version = 1")
    for read in (
        lambda: store.checkpoint(A, row.uid, 1),
        lambda: store.checkpoints(A, row.uid, 0, 9),
        lambda: store.checkpoints(A, row.uid, 1, 1, newest_first=True),
    ):
        with pytest.raises(CorruptObject) as caught:
            read()
        assert (caught.value.thread, caught.value.checkpoint) == ("t", 1)
    assert store.checkpoint(A, row.uid, 0) == row.first


@pytest.mark.parametrize("column", ["record", "digest"])
def test_a_flipped_bit(store: SqliteStorage, column: str) -> None:
    """Anywhere in a record or its digest: found when the head is read, and when the row is."""
    row = new_thread("t", reason="why", meta={"k": 1})
    ok(store, row)
    raw = getattr(row.first, column)
    for place in {0, 1, len(raw) // 2, len(raw) - 1, *range(2, len(raw), 17)}:
        tamper(store, f"UPDATE checkpoints SET {column} = ?", (flipped(raw, place),))
        for read in (lambda: store.thread(A, "t"), lambda: store.checkpoint(A, row.uid, 0)):
            with pytest.raises(CorruptObject) as caught:
                read()
            assert (caught.value.thread, caught.value.checkpoint) == ("t", 0)
    tamper(store, f"UPDATE checkpoints SET {column} = ?", (raw,))
    assert store.checkpoint(A, row.uid, 0) == row.first


def test_a_record_of_another_thread(store: SqliteStorage) -> None:
    """A row that is sound in itself, but was another thread's."""
    row, other = new_thread("t"), new_thread("other")
    ok(store, row, other)
    tamper(store, "DELETE FROM checkpoints WHERE thread = 1")
    tamper(store, "UPDATE checkpoints SET thread = 1 WHERE thread = 2")
    for read in (
        lambda: store.thread(A, "t"), lambda: store.checkpoint(A, row.uid, 0),
        lambda: store.checkpoints(A, row.uid, 0, 9)
    ):  # fmt: skip
        with pytest.raises(CorruptObject) as caught:
            read()
        assert (caught.value.thread, caught.value.checkpoint) == ("t", 0)


def test_a_missing_head(store: SqliteStorage) -> None:
    row = new_thread("t")
    ok(store, row, *map(NewCheckpoint, run(row.first, 2)))
    tamper(store, "DELETE FROM checkpoints WHERE version = 2")
    with pytest.raises(CorruptObject, match="missing") as caught:
        store.thread(A, "t")
    assert (caught.value.thread, caught.value.checkpoint) == ("t", 2)


@pytest.mark.parametrize(
    "payload", [b"", b"short", b"compressible " * 200, random.Random(1).randbytes(3_000)], ids=len
)
def test_a_damaged_object(store: SqliteStorage, payload: bytes) -> None:
    """Stored bytes are checked on every reading: a flipped bit, a wrong size or codec is never an answer."""
    (digest,) = objects = blobs(payload)
    ok(store, objects=objects)
    ((codec_, size, data),) = store._connections.writer().execute("SELECT codec, size, data FROM objects")
    damaged = [("data", flipped(data, place)) for place in range(0, len(data), 1 + len(data) // 60)]
    damaged += [("data", data + b"x"), ("data", data[:-1] or b"x"), ("size", size + 1), ("size", 2**40)]
    damaged += [("codec", 1 - codec_), ("codec", 9)] if codec_ or payload else []
    for column, value in damaged:
        if codec_ == codec.ZSTD and column == "data" and _same(digest, size, value):
            continue  # a bit of the frame's header that means nothing
        tamper(store, f"UPDATE objects SET {column} = ?", (value,))
        if (column, value) == ("codec", 9) and codec_ == codec.RAW:
            pass  # an unknown codec is taken for none, and the digest decides
        else:
            with pytest.raises(CorruptObject, match="object"):
                store.objects(A, [digest])
        tamper(store, "UPDATE objects SET codec = ?, size = ?, data = ?", (codec_, size, data))
    assert store.objects(A, [digest]) == objects


def _same(digest: bytes, size: int, data: bytes) -> bool:
    try:
        return canonical.digest(codec.unpack(digest, codec.ZSTD, size, data)) == digest
    except CorruptObject:
        return False


def test_any_damage_to_a_frame_is_found() -> None:
    """Each bit of a compressed object: what comes out is the payload, or an error of ours."""
    payload = b"hello world " * 500
    kind, data = codec.pack(payload)
    digest = canonical.digest(payload)
    assert kind == codec.ZSTD
    refusals = 0
    for place in range(len(data)):
        for bit in range(8):
            damaged = data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
            try:
                assert codec.unpack(digest, kind, len(payload), damaged) == payload
            except CorruptObject:
                refusals += 1
    assert refusals > 8 * len(data) - 16


def test_two_digests_with_one_index_key(store: SqliteStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bytes of a digest find an object; all of it decides."""
    monkeypatch.setattr(codec, "index_key", lambda digest: 7)
    objects = blobs(*(b"object %d" % n for n in range(20)))
    digests = list(objects)
    ok(store, objects={digest: objects[digest] for digest in digests[:10]})
    assert store.objects(A, digests) == {digest: objects[digest] for digest in digests[:10]}
    ok(store, objects=objects)
    assert store.objects(A, digests) == objects
    assert store.objects_there(A, [*digests, canonical.digest(b"absent")]) == set(digests)
    assert store.info().details["objects"] == 20


# --- a disk that fails


def test_a_full_disk(store: SqliteStorage) -> None:
    """Nothing of what did not fit is left; what was there can be read; with space again, all works."""
    row = new_thread("t")
    ok(store, row)
    writer = store._connections.writer()
    ((pages,),) = writer.execute("PRAGMA page_count")
    writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    objects = blobs(*(random.Random(n).randbytes(4_000) for n in range(20)))
    batch = Batch(A, [NewCheckpoint(following(row.first)), new_thread("u"), audit("x")], objects)
    for _ in range(2):
        with pytest.raises(StoreFull, match="no space"):
            store.apply(batch)
        assert store.objects(A, list(objects)) == {}
        assert [info.name for info in store.threads(A, ThreadQuery())] == ["t"]
        assert (store.thread(A, "t") or [None])[1] == row.first
        assert store.audit(A) == []
    writer.execute("PRAGMA max_page_count = 1000000")
    assert store.apply(batch) is None
    assert store.objects(A, list(objects)) == objects
    assert store.damage() == []


class Failing:
    """A disk whose chosen call fails, once or from then on."""

    def __init__(self, path: Path) -> None:
        self.disk = Disk()
        self.path = path
        self.store = SqliteStorage(os.fspath(path), vfs=self.disk.label)
        self.seen: list[str] = []

    def when(self, chosen: Callable[[str], bool], *, once: bool = True) -> None:
        def hook(call: str) -> None:
            self.seen.append(call)
            if chosen(call):
                if once:
                    self.disk.hook = None
                raise apsw.IOError("the disk failed")

        self.disk.hook = hook

    def close(self) -> None:
        self.disk.hook = None
        self.store.close()


@pytest.fixture
def failing(store_path: Path) -> Iterator[Failing]:
    made = Failing(store_path)
    yield made
    made.close()


@pytest.mark.parametrize("call", ["write wal", "sync wal"])
def test_a_commit_that_fails_on_disk(failing: Failing, call: str) -> None:
    """There is an error and no row; then the same commit is written. An error for what is there would be
    as wrong as success for what is not."""
    row = new_thread("t")
    ok(failing.store, row)
    mine = following(row.first)
    failing.when(lambda seen: seen == call)
    with pytest.raises(StoreError) as caught:
        failing.store.apply(Batch(A, [NewCheckpoint(mine)], blobs(b"x" * 9_000)))
    assert "disk failed" in str(caught.value.__cause__) or "I/O" in str(caught.value)
    assert failing.store.checkpoint(A, row.uid, 1) is None
    ok(failing.store, NewCheckpoint(mine), objects=blobs(b"x" * 9_000))
    assert failing.store.checkpoint(A, row.uid, 1) == mine
    assert failing.store.damage() == []


@pytest.mark.parametrize("place", ["begin", "object", "NewCheckpoint", "head", "commit"])
def test_an_error_before_the_commit_leaves_nothing(store: SqliteStorage, place: str) -> None:
    row = new_thread("t")
    ok(store, row)
    objects = blobs(b"never")

    def fail(label: str) -> None:
        if label == place:
            raise apsw.IOError("the disk failed")

    store.point = fail
    with pytest.raises(StoreError, match="cannot be read or written"):
        store.apply(Batch(A, [NewCheckpoint(following(row.first))], objects))
    store.point = None
    assert (store.thread(A, "t") or [None])[1] == row.first
    assert store.objects(A, list(objects)) == {}


@pytest.mark.parametrize("kind", ["commit", "thread"])
def test_an_error_after_the_commit_is_settled_by_looking(store: SqliteStorage, kind: str) -> None:
    """The answer of the disk was lost, the row is there: the caller hears that it was written."""
    row = new_thread("t")
    ok(store, row)
    mine: Row = NewCheckpoint(following(row.first)) if kind == "commit" else new_thread("u")

    def fail(label: str) -> None:
        if label == "committed":
            raise apsw.IOError("the disk failed")

    store.point = fail
    ok(store, mine)
    store.point = None
    uid = mine.first.uid if isinstance(mine, NewThread) else row.uid
    assert store.checkpoint(A, uid, 1 if kind == "commit" else 0) is not None
    (again,) = together([lambda: store.apply(Batch(A, [mine]))])
    assert (again is None) == (kind == "commit")


def test_an_error_after_the_commit_of_what_leaves_no_trace(store: SqliteStorage) -> None:
    """A label or an audit entry is not to be told from one that was there before: nobody knows."""
    row = new_thread("t")
    ok(store, row, PutLabel(row.uid, "x", 0))

    def fail(label: str) -> None:
        if label == "committed":
            raise apsw.IOError("the disk failed")

    store.point = fail
    for late in (PutLabel(row.uid, "x", 0), DropLabel(row.uid, "y"), audit("x")):
        with pytest.raises(UnknownOutcome):
            store.apply(Batch(A, [late]))
    ok(store, Tombstone(row.uid, 7))
    store.point = None
    assert store.thread(A, "t") is None


def test_an_outcome_that_cannot_be_found_out(failing: Failing) -> None:
    """The write failed, and so does looking: the error says that nobody knows, not that nothing happened."""
    row = new_thread("t")
    ok(failing.store, row)
    failing.when(lambda seen: True, once=False)
    with pytest.raises(UnknownOutcome, match="cannot be told"):
        failing.store.apply(Batch(A, [NewCheckpoint(following(row.first))]))
    failing.disk.hook = None
    head = (failing.store.thread(A, "t") or [None, None])[1]
    assert head is not None
    assert head.version in (0, 1)
    ok(failing.store, NewCheckpoint(following(head)))


def test_another_threads_snapshot_survives_a_failure_elsewhere(failing: Failing) -> None:
    """Settling drops connections. Who was reading gets an error at most; the next snapshot is one moment."""
    row = new_thread("t")
    ok(failing.store, row)
    store = failing.store

    def fail_inside() -> None:
        with store.snapshot():
            assert store.thread(A, "t") is not None
            failing.when(lambda seen: seen == "write wal")
            store.apply(Batch(A, [NewCheckpoint(following(row.first))]))

    with pytest.raises(StoreError):
        fail_inside()
    failing.disk.hook = None
    mine = following(row.first)
    with store.snapshot():
        before = store.thread(A, "t")
        together([lambda: ok(store, NewCheckpoint(mine))])
        assert store.thread(A, "t") == before
    assert (store.thread(A, "t") or [None])[1] == mine


def test_an_io_error_while_reading(failing: Failing) -> None:
    """A read that fails is an error of the store, and the next may succeed."""
    row = new_thread("t")
    ok(failing.store, row, objects=blobs(b"x" * 100_000))
    failing.store.close()
    failing.store = SqliteStorage(os.fspath(failing.path), vfs=failing.disk.label)
    failing.when(lambda seen: seen == "read main")
    with pytest.raises((StoreError, StoreCorrupt)):
        failing.store.objects(A, list(blobs(b"x" * 100_000)))
    assert failing.store.objects(A, list(blobs(b"x" * 100_000))) == blobs(b"x" * 100_000)


# --- the write-ahead file


def test_frames_are_moved_into_the_file(
    store: SqliteStorage, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a thread of its own, while commits go on: the write-ahead file begins anew, and nothing is lost."""
    monkeypatch.setattr(sqlite_file, "_WAL_PAGES", 50)
    row = new_thread("t")
    ok(store, row)
    written, head, rounds = 0, row.first, 0
    wal = Path(f"{store_path}-wal")
    while written < 2 * wal.stat().st_size and rounds < 3_000:
        head, rounds = following(head), rounds + 1
        payload = random.Random(rounds).randbytes(12_000)
        ok(store, NewCheckpoint(head), objects=blobs(payload))
        written += len(payload)
        if rounds % 20 == 0:
            time.sleep(0.005)  # on a busy machine the other thread gets its turn
    assert written >= 2 * wal.stat().st_size
    assert threading.current_thread().name != "takeback-wal"
    assert "takeback-wal" in [thread.name for thread in threading.enumerate()]
    assert store_path.stat().st_size > 4096 * 50
    assert (store.thread(A, "t") or [None])[1] == head
    assert store.info().details["objects"] == rounds
    assert store.damage() == []
    store.close()
    assert "takeback-wal" not in [thread.name for thread in threading.enumerate()]
    assert not wal.exists()


def test_more_than_a_thousand_frames(store: SqliteStorage, store_path: Path) -> None:
    """With the sizes that are shipped: the frames reach the file before the store is closed."""
    row = new_thread("t")
    ok(store, row)
    before = store_path.stat().st_size
    for n in range(40):
        ok(store, objects=blobs(*(random.Random(100 * n + m).randbytes(40_000) for m in range(4))))
    thread = next(thread for thread in threading.enumerate() if thread.name == "takeback-wal")
    store._connections._mover.close()
    assert not thread.is_alive()
    # A thousand frames are fewer pages: some were written more than once.
    assert store_path.stat().st_size > before + 900 * 4096
    assert store.info().details["objects"] == 160
    assert store.damage() == []


# --- threads


def test_compressors_are_not_shared_between_threads() -> None:
    """One that is used by two threads at once crashes the process."""
    codec.prepare()
    payloads = [random.Random(n).randbytes(60) * 400 + b"%d" % n for n in range(24)]
    digests = [canonical.digest(payload) for payload in payloads]
    tools: set[int] = set()

    def work() -> bool:
        tools.add(id(codec._tools().packer))
        for _ in range(40):
            for payload, digest in zip(payloads, digests, strict=True):
                kind, data = codec.pack(payload)
                if (kind, codec.unpack(digest, kind, len(payload), data)) != (codec.ZSTD, payload):
                    return False
        return True

    assert together([work] * 8) == [True] * 8
    assert len(tools) == 8


def test_what_does_not_shrink_is_kept_as_it_is() -> None:
    for payload in (b"", b"x" * 95, random.Random(1).randbytes(5_000)):
        assert codec.pack(payload) == (codec.RAW, payload)
    assert codec.pack(b"x" * 200)[0] == codec.ZSTD


def test_threads_read_and_write_one_handle(store: SqliteStorage) -> None:
    """Each thread has its reader, all share one writer; no row is lost and no read fails."""
    rows = [new_thread(f"t{n}") for n in range(8)]
    ok(store, *rows)

    def work(row: NewThread) -> int:
        head = row.first
        for n in range(25):
            head = following(head)
            ok(store, NewCheckpoint(head), objects=blobs(b"%d of %s" % (n, row.uid)))
            assert store.checkpoints(A, row.uid, 0, 99)[-1] == head
            assert store.thread(A, row.name) is not None
        return head.version

    assert together([lambda row=row: work(row) for row in rows]) == [25] * 8
    assert store.info().details == store.info().details | {"checkpoints": 8 * 26, "objects": 200}


def test_readers_of_threads_that_ended_are_let_go(store: SqliteStorage) -> None:
    """A server starts many threads; each takes its connection with it when it ends."""
    ok(store, new_thread("t"))
    for _ in range(30):
        together([lambda: store.thread(A, "t")])
    assert len(store._connections._readers) < 5


# --- the cache of objects


def test_the_cache_has_a_limit() -> None:
    """What was used last stays; one too large for it passes through; what it holds never grows beyond."""
    cache = codec.ObjectCache(limit=100)
    items = {bytes([n]): bytes([n]) * 30 for n in range(5)}
    cache.put(list(items.items())[:3])
    assert cache.get(b"\0") == items[b"\0"]
    cache.put([(b"\3", items[b"\3"])])
    assert [key for key in items if cache.get(key) is not None] == [b"\0", b"\2", b"\3"]
    cache.put([(b"\3", items[b"\3"])] * 50)
    assert [key for key in items if cache.get(key) is not None] == [b"\0", b"\2", b"\3"]
    cache.put([(b"big", b"x" * 101)])
    assert cache.get(b"big") is None
    assert cache.get(b"absent") is None


def test_the_cache_is_shared_by_threads() -> None:
    cache = codec.ObjectCache(limit=1_000)

    def work(seed: int) -> bool:
        random_ = random.Random(seed)
        for _ in range(3_000):
            key = bytes([random_.randrange(60)])
            held = cache.get(key)
            if held not in (None, key * 50):
                return False
            cache.put([(key, key * 50)])
        return True

    assert together([lambda n=n: work(n) for n in range(8)]) == [True] * 8
    assert cache._held == sum(map(len, cache._items.values())) <= 1_000


# --- reading many objects


def test_many_objects_are_read_in_one_transaction(store: SqliteStorage) -> None:
    """Of one moment, and the locks of a read are taken once; inside a snapshot its transaction does."""
    held = blobs(*(b"%d" % n * 200 for n in range(20)))
    ok(store, new_thread("t"), objects=held)
    absent = next(iter(blobs(b"absent")))
    asked: list[str] = []
    with store._reading() as connection:
        connection.exec_trace = lambda _cursor, sql, _values: asked.append(sql.split()[0]) or True
    assert store.objects(A, [*held, absent]) == held
    assert asked == ["BEGIN", *["SELECT"] * (len(asked) - 2), "COMMIT"]
    asked.clear()
    with store.snapshot():
        assert store.objects(A, [absent, *held]) == held
        assert store.objects(A, list(held)[:2]) == dict(list(held.items())[:2])
    assert (asked[0], asked[-1], asked.count("BEGIN"), asked.count("COMMIT")) == ("BEGIN", "COMMIT", 1, 1)
    asked.clear()
    assert store.objects(A, list(held)[:1]) == dict(list(held.items())[:1])
    assert (store.objects(A, [absent]), store.objects(A, [])) == ({}, {})
    assert "BEGIN" not in asked


def test_one_damaged_object_among_many(store: SqliteStorage) -> None:
    """It is refused, and the transaction that it was read in is over."""
    held = blobs(*(b"%d" % n * 200 for n in range(20)))
    ok(store, new_thread("t"), objects=held)
    tamper(store, "UPDATE objects SET data = x'00' WHERE id = 7")
    with pytest.raises(CorruptObject):
        store.objects(A, list(held))
    with store._reading() as connection:
        assert not connection.in_transaction
    assert len(store.objects(A, list(held)[:6])) == 6


# --- what is remembered of threads


def test_a_thread_made_here_is_not_looked_up_again(store: SqliteStorage) -> None:
    """Its number is known from the transaction that made it, so a commit is spared a statement."""
    row = new_thread("t")
    ok(store, row)
    asked: list[str] = []
    store._connections.writer().exec_trace = lambda _cursor, sql, _values: asked.append(sql) or True
    ok(store, NewCheckpoint(following(row.first)))
    assert asked
    assert not [sql for sql in asked if "FROM threads" in sql]
    assert store._threads[1, row.uid] == (1, "t")


def test_a_thread_of_a_transaction_that_failed_is_not_remembered(store: SqliteStorage) -> None:
    """The number that it had there goes to the next thread: remembered, it would lead a write astray."""
    ok(store, new_thread("before"))
    lost, made = new_thread("lost"), new_thread("made")
    assert isinstance(store.apply(Batch(A, [lost, new_thread("before")])), NameTaken)

    def fail(label: str) -> None:
        if label == "commit":
            raise RuntimeError(label)

    store.point = fail
    with pytest.raises(RuntimeError):
        store.apply(Batch(A, [lost]))
    store.point = None
    assert {uid for _, uid in store._threads}.isdisjoint({lost.uid})
    ok(store, made)
    assert store._threads[1, made.uid] == (2, "made")
    assert store.apply(Batch(A, [NewCheckpoint(following(lost.first))])) == ThreadGone(None)
    assert store.thread(A, "made") is not None


# --- its own SQL


def test_every_named_statement_is_used(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement that nothing runs would be kept right for nobody."""
    used: set[str] = set()

    class Watched(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            used.add(name)
            return super().__getitem__(name)

    monkeypatch.setattr(sqlite, "queries", lambda engine: Watched(queries(engine)))
    store = SqliteStorage(os.fspath(store_path))
    row = new_thread("t")
    ok(store, row, PutLabel(row.uid, "x", 0), DropLabel(row.uid, "x"), audit("x"), objects=blobs(b"x"))
    ok(store, NewCheckpoint(following(row.first)), objects=blobs(*(b"%d" % n for n in range(9)), b"x"))
    assert isinstance(store.apply(Batch(A, [NewCheckpoint(following(row.first))])), HeadMoved)
    store.thread(A, "t")
    store.thread_by_uid(A, row.uid)
    store.threads(A, ThreadQuery())
    store.checkpoint(A, row.uid, 0)
    for newest_first in (False, True):
        for merges in (False, True):
            store.checkpoints(A, row.uid, 0, 9, newest_first=newest_first, merges=merges)
    labels(store, row.uid, A)
    ok(store, Still(row.uid, 0), ledger(row.uid, 0, cell()), Lock(row.uid, b"plan"))
    store.cells(A, family=row.uid)
    store.cells(A, live=True)
    for query in (
        Places(row.uid), Places(row.uid, ""), Places(row.uid, "sub"), Places(row.uid, hash=1), Places(),
        Places(run=1), Writes(row.uid), Writes(row.uid, [b"k"]), Buried("t"),
    ):  # fmt: skip
        store.find(A, query)
    write = GraphWrite(b"k", "task", -1, "channel", "", b"data", b"digest")
    other = new_thread("g")
    placed = following(other.first, meta=marked([Place("", "id")]))
    ok(store, other, NewCheckpoint(placed), PutWrites(other.uid, [write]), Hide(other.uid, [(1, "")]))
    store.audit(A)
    store.objects(A, list(blobs(b"x")))
    store.tenants()
    store.info()
    ok(store, NewEpoch(), Forget([*blobs(b"x")], 1), Prune(row.uid, 0, 0, 1))
    for query in (Epochs(), Objects(), Sizes([*blobs(b"x")]), Pruned(row.uid)):
        store.find(A, query)
    old = version(b"old", brought=True, at_us=1)
    ok(store, PutItems([version(b"1", seen=Seen(NS, "k", 0, 0)), old]), TurnItems([Seen(NS, "k", 2, 0)]))
    ok(store, FreeItems([(NS, "k", 1)]), TouchItems([(NS, "k")], 1))
    for query in (VersionsOf(NS, "k"), NewestUnder("", NS), VersionsBy(row.uid), AllVersions()):
        store.find(A, query)
    ok(store, Lock(row.uid, None, was=b"plan"), Tombstone(row.uid, 1))
    store.close()
    assert queries("sqlite").keys() == used


def test_every_named_statement_says_what_it_is_for() -> None:
    """One sentence each, under a name of its own; and every statement is one that SQLite takes."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(SCHEMA.glob("queries*.sql")))
    names = re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)
    explained = re.findall(r"^-- name: (\w+)\n-- [A-Z][^\n]*\.$", text, re.MULTILINE)
    assert names == explained
    assert len(names) == len(set(names)) == len(queries("sqlite"))
    assert all(
        statement and "--" not in statement and ";" not in statement
        for statement in queries("sqlite").values()
    )


PLANS = {
    "read_object": "objects_hash", "find_object": "objects_hash", "living_thread": "threads_living",
    "thread_by_uid": "threads_uid", "merges": "checkpoints_merges",
    "merges_newest_first": "checkpoints_merges",
    "checkpoint": "PRIMARY KEY", "checkpoints": "PRIMARY KEY", "checkpoints_newest_first": "PRIMARY KEY",
    "labels": "PRIMARY KEY", "cells": "cells_seq", "ledger_seq": "cells_seq",
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_reads_go_by_an_index(store: SqliteStorage, name: str) -> None:
    """With a million checkpoints a scan or a sort would be felt; the plan shows it with none."""
    statement = queries("sqlite")[name]
    values = (0,) * len(re.findall(r"\?", statement))
    plan = [row[3] for row in store._connections.writer().execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert any(PLANS[name] in line for line in plan), plan
    assert not any(line.startswith("SCAN") or "TEMP B-TREE" in line for line in plan), plan
