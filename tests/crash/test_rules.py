"""The twenty rules of storage, each from a failure that was seen or constructed, and the test that would fail
without it. Rules that wait for a capability say for which."""

from __future__ import annotations

import ast
import math
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import ormsgpack
import pytest
import zstandard
from blake3 import blake3
from tests.crash.stores import incompressible, sound

import takeback
from takeback.errors import (
    BadExport,
    BadName,
    BadReference,
    MergeConflict,
    NetworkFilesystem,
    TooDeep,
    TooLarge,
    Unstorable,
)
from takeback.model import canonical
from takeback.repo import Repo
from takeback.storage import objects, sqlite_file

ROOT = Path(__file__).resolve().parents[2]
HERE = "tests/crash"

RULES: dict[int, tuple[str, list[str]]] = {
    1: (
        "a compressor for each thread",
        [f"{HERE}/test_many_processes.py::test_threads_of_one_handle",
         f"{HERE}/test_rules.py::test_no_two_threads_share_a_compressor"],
    ),
    2: (
        "the file is opened through one library alone",
        [f"{HERE}/test_many_processes.py::test_opening_the_store_twice_keeps_the_locks_of_the_first",
         f"{HERE}/test_rules.py::test_nothing_here_opens_a_database_another_way"],
    ),
    3: (
        "what cannot be stored exactly is refused; values cannot forge references",
        [f"{HERE}/test_rules.py::test_what_cannot_be_stored_exactly_is_refused",
         f"{HERE}/test_rules.py::test_no_value_can_forge_a_reference"],
    ),
    4: (
        "what is reused is there: nobody remembers as written what was refused",
        [f"{HERE}/test_faults.py::test_what_a_refused_commit_brought_is_written_by_the_next"],
    ),
    5: (
        "after an unknown outcome the same commit is tried again; after an I/O error the file is opened anew",
        [f"{HERE}/test_faults.py::test_the_same_commit_tried_again",
         f"{HERE}/test_faults.py::test_each_call_to_the_disk_that_fails",
         f"{HERE}/test_faults.py::test_a_sync_that_failed_is_not_made_good_by_looking"],
    ),
    6: (
        "the chain goes by rows, not by logical parents: a removed side branch is missed",
        [f"{HERE}/test_attacks.py::test_what_is_found"],
    ),
    9: (
        "sharing objects tells nobody anything",
        [f"{HERE}/test_rules.py::test_a_tenant_reads_no_object_of_another",
         f"{HERE}/test_rules.py::test_an_import_brings_every_byte"],
    ),
    11: (
        "equality is that of canonical bytes",
        [f"{HERE}/test_rules.py::test_equal_to_python_is_not_equal_here",
         f"{HERE}/test_rules.py::test_a_merge_compares_as_the_store_does"],
    ),
    12: (
        "times are aware, to the microsecond, with their offset",
        [f"{HERE}/test_rules.py::test_times_keep_their_offset"],
    ),
    13: (
        "two equal appends are two appends",
        [f"{HERE}/test_rules.py::test_equal_appends_on_two_sides_both_stay",
         f"{HERE}/test_rules.py::test_other_overlapping_edits_of_a_list_conflict"],
    ),
    14: (
        "a late writer does not bring back what was deleted",
        [f"{HERE}/test_many_processes.py::test_a_late_writer_does_not_bring_a_thread_back",
         f"{HERE}/test_many_processes.py::test_a_name_is_given_once"],
    ),
    15: (
        "a reference means one thing; recorded time does not go back",
        [f"{HERE}/test_rules.py::test_a_reference_means_one_thing",
         f"{HERE}/test_faults.py::test_a_clock_that_goes_back"],
    ),
    16: (
        "a reader sees one moment, and is told removed, not corrupt",
        [f"{HERE}/test_many_processes.py::test_readers_see_one_moment",
         f"{HERE}/test_many_processes.py::test_a_thread_that_was_deleted_meanwhile_is_removed_not_corrupt"],
    ),
    17: (
        "many processes on one file",
        [f"{HERE}/test_many_processes.py::test_appends_of_many_processes_make_one_chain",
         f"{HERE}/test_many_processes.py::test_a_handle_is_not_carried_over_a_fork",
         f"{HERE}/test_linearizable.py::test_the_head_is_one_register",
         f"{HERE}/test_rules.py::test_a_network_file_system_is_refused"],
    ),
    20: (
        "limits are part of the format",
        [f"{HERE}/test_rules.py::test_limits"],
    ),
}  # fmt: skip

LATER: dict[int, str] = {
    7: "retention: nothing removes checkpoints of a living thread yet",
    8: "encryption and erasure: nothing is encrypted yet",
    10: "group commit: each batch is a transaction of its own yet",
    18: "PostgreSQL",
    19: "the LangGraph adapter",
}


def named_in(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_rule_has_its_test() -> None:
    assert sorted(RULES.keys() | LATER.keys()) == list(range(1, 21))
    assert not RULES.keys() & LATER.keys()
    named = [test for _, tests in RULES.values() for test in tests]
    missing = [test for test in named if test.split("::")[1] not in named_in(ROOT / test.split("::")[0])]
    assert missing == []


# --- 1, 2: libraries that are used as they must be


def test_no_two_threads_share_a_compressor() -> None:
    found, wait = [], threading.Barrier(4)

    def one() -> None:
        tools = objects._tools()
        found.append((tools.packer, tools.unpacker))
        wait.wait()  # so that none ends, and no address is used again, before all have theirs

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(tool) for pair in found for tool in pair}) == 8


def test_nothing_here_opens_a_database_another_way() -> None:
    """The standard sqlite3 beside apsw drops its locks. No file imports it, nor these tests."""
    offenders = [
        str(path.relative_to(ROOT))
        for folder in ("src", "tests", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "sqlite3" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlite3")
    ]
    # The benchmarks measure plain sqlite3 beside takeback, in files of its own that takeback never opens;
    # LangGraph's own saver writes with it what is then brought in: a file that is no store of takeback's.
    allowed = ("benchmarks/", "tests/adapters/test_langgraph_moving.py")
    assert [path for path in offenders if not path.startswith(allowed)] == []


# --- 3, 11, 12, 20: values


class Colour(Enum):
    RED = "red"


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2}, frozenset(), Decimal("1.0"), UUID(int=1), date(2026, 1, 1), Colour.RED, math.nan, math.inf,
        -math.inf, bytearray(b"x"), memoryview(b"x"), 1 << 63, -(1 << 63) - 1, "\ud800", {"\udfff": 1},
        {1: "key"}, {None: 1}, (1, 2), object(), ormsgpack.Ext(5, b"x"), datetime(2026, 1, 1), 1j, range(3),
        LOOP,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_cannot_be_stored_exactly_is_refused(value: Any) -> None:
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={"a": {"b": [0]}})
        for state in ({"a": {"b": [0, value]}}, {"a": {"b": [0] * 50 + [value]}, "big": "x" * 10_000}):
            with pytest.raises(Unstorable) as refused:
                thread.commit(state)
            path = refused.value.path or ""
            assert path.startswith("/a/b/")
            assert thread.refresh().version == 0


def test_no_value_can_forge_a_reference(store_path: Path) -> None:
    """Bytes that look like a node, or like a reference to a secret, are bytes."""
    with takeback.open(store_path) as repo:
        secret = repo.thread("secret", initial={"text": incompressible(20_000)})
        root = secret.head.state_root
        stored = repo._ctx.storage.objects(repo.tenant, [root])[root]
        forgeries = [stored, stored[:40], b"\xc7\x20\x05" + root, b"\xc1" + root, root, b"\xd8\x05" + root]
        forgeries += [bytes([first]) + root for first in range(0xC0, 0xE0)]
        for forgery in forgeries:
            state = {"a": forgery, "list": [forgery] * 20, "pad": "x" * 9_000}
            thread = repo.thread(f"t{len(repo.threads())}", initial=state)
            assert thread.state == state
            assert repo.thread(thread.name).get("/a") == forgery
        sound(repo)


SAME_TO_PYTHON = [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (1.0, True), ("é", "e\u0301")]


@pytest.mark.parametrize(("one", "other"), SAME_TO_PYTHON)
def test_equal_to_python_is_not_equal_here(one: Any, other: Any) -> None:
    assert canonical.encode(one) != canonical.encode(other)
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={"a": one, "items": [one] * 30})
        thread.commit({"a": other, "items": [one] * 29 + [other]})
        assert {str(change.pointer) for change in thread.diff(0, 1).changes} == {"/a", "/items/29"}
        for version, value in ((0, one), (1, other)):
            stored = thread.at(version).state["a"]
            assert (type(stored), str(stored)) == (type(value), str(value))


def test_a_merge_compares_as_the_store_does() -> None:
    """One side makes 1 a float, the other True: both changed it, to different values."""
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={"a": 1})
        fork = thread.fork("head", "fork")
        thread.patch({"a": 1.0})
        fork.patch({"a": True})
        with pytest.raises(MergeConflict):
            thread.merge("fork")


def test_times_keep_their_offset() -> None:
    """What comes back is the same moment to the microsecond, said with the same offset."""
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={})
        for offset in (timedelta(0), timedelta(hours=5, minutes=30), timedelta(hours=-9)):
            moment = datetime(2026, 3, 1, 12, 30, 15, 123_456, timezone(offset))
            thread.commit({"at": moment})
            stored = thread.refresh().state["at"]
            assert (stored, stored.utcoffset()) == (moment, offset)
        with pytest.raises(Unstorable):
            thread.commit({"at": datetime(2026, 3, 1)})
        utc = datetime(2026, 3, 1, tzinfo=UTC)
        elsewhere = utc.astimezone(timezone(timedelta(hours=1)))
        assert utc == elsewhere
        assert canonical.encode(utc) != canonical.encode(elsewhere)


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def test_limits() -> None:
    """At the limit it is stored, one above it is refused; nothing of the refused stays."""
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={})
        deep, key = nested(canonical.MAX_DEPTH - 1), "k" * canonical.MAX_KEY
        room = canonical.MAX_META - len(canonical.encode({"m": "x" * 60_000})) + 60_000
        thread.commit({"deep": deep})
        thread.commit({key: 1}, meta={"m": "x" * room})
        assert thread.version == 2
        for state, meta, error in (
            ({"deep": [[deep]]}, None, TooDeep),
            ({key + "k": 1}, None, TooLarge),
            ({}, {"m": "x" * (room + 1)}, TooLarge),
        ):
            with pytest.raises(error):
                thread.commit(state, meta=meta)
        assert thread.refresh().version == 2


# --- 9: objects


def test_a_tenant_reads_no_object_of_another(store_path: Path) -> None:
    """Not by its digest, and not by the time or room that a second copy would save: each has its own."""
    state = {"text": incompressible(30_000)}
    with takeback.open(store_path, "one") as one, takeback.open(store_path, "two") as two:
        root = one.thread("t", initial=state).head.state_root
        ours = one._ctx.storage.objects("one", [root])
        assert list(ours) == [root]
        assert two._ctx.storage.objects("two", [root]) == {}
        held = one.info().details["objects"]
        assert two.thread("t", initial=state).head.state_root == root
        assert one.info().details["objects"] == 2 * held
        one.thread("t").delete()
        sound(two)


def test_an_import_brings_every_byte(store_path: Path) -> None:
    """An object that the store happens to have is not filled in from it."""
    path = store_path.parent / "t.tbx"
    with takeback.open(store_path) as repo:
        repo.thread("t", initial={"text": incompressible(30_000)})
        repo.export("t", path)
        without(path)
        with pytest.raises(BadExport, match="lacks an object"):
            repo.import_(path, name="again")
        assert [info.name for info in repo.threads()] == ["t"]


def without(path: Path) -> None:
    """Take one object out of an export, and close it again with the right digest."""
    raw = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    frames = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        frames.append(raw[4 : 4 + size])
        raw = raw[4 + size :]
    kinds = [ormsgpack.unpackb(frame)[0] for frame in frames]
    assert kinds[-1] == "end"
    del frames[kinds.index("object")], frames[-1]
    framed = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    closing = ormsgpack.packb(["end", blake3(framed).digest()])
    framed += len(closing).to_bytes(4, "big") + closing
    path.write_bytes(zstandard.ZstdCompressor().compress(framed))


# --- 13, 15, 17


def test_equal_appends_on_two_sides_both_stay() -> None:
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={"items": ["a"]})
        fork = thread.fork("head", "fork")
        for side in (thread, fork):
            side.append("/items", "same")
        thread.merge("fork")
        assert thread.state == {"items": ["a", "same", "same"]}
        late = repo.thread("t")
        thread.append("/items", "again")
        late.append("/items", "again")
        assert late.state["items"][-2:] == ["again", "again"]


def test_other_overlapping_edits_of_a_list_conflict() -> None:
    with takeback.open(":memory:") as repo:
        thread = repo.thread("t", initial={"items": ["a", "b", "c"]})
        fork = thread.fork("head", "fork")
        thread.patch({"/items/1": "x"})
        fork.patch({"/items/1": "y"})
        with pytest.raises(MergeConflict):
            thread.merge("fork")


def test_a_reference_means_one_thing(store_path: Path) -> None:
    with takeback.open(store_path) as repo:
        thread = made(repo)
        head = thread.head
        for ref in (2, "2", head.id, head.id[:8], "head", "good", "good~0", head.bookmark, head.time):
            assert thread.at(ref).version == 2, ref
        assert thread.at("head~1").version == thread.at("2~1").version == 1
        for label in (
            "3",
            "head",
            "HEAD",
            "head~1",
            "c2",
            head.id,
            head.bookmark,
            "2026-01-01T00:00:00Z",
            "",
        ):
            with pytest.raises(BadName):
                thread.label(label)
        for ref in ("2026-01-01", "2026-01-01T00:00:00", -1, "-1", 1.0, True, None, "a b"):
            with pytest.raises(BadReference):
                thread.at(ref)


def made(repo: Repo) -> takeback.Thread[Any]:
    thread = repo.thread("t", initial={"n": 0})
    for number in (1, 2):
        thread.commit({"n": number})
    thread.label("good")
    return thread


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = [("/", "ext4"), (str(tmp_path), "nfs4"), (str(tmp_path / "local"), "xfs")]
    with pytest.raises(NetworkFilesystem, match="nfs4"):
        sqlite_file._refuse_network(str(tmp_path / "store.db"), mounts)
    sqlite_file._refuse_network(str(tmp_path / "local" / "store.db"), mounts)
    sqlite_file._refuse_network("/elsewhere/store.db", mounts)
