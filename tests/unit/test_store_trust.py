"""Memory that somebody changed behind the store's back: what verification finds, and what it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import takeback
from takeback.errors import CorruptObject, NotCopied
from takeback.model import canonical, items
from takeback.model.records import sign

ANN = ("users", "ann")
BIG = {"text": "x" * 5_000}
KEY = b"k" * 32


def learned(path: Path, key: bytes | None = None) -> None:
    """Version 1 wrote two items; `loose` belongs to nobody's history."""
    with takeback.open(path, durability="relaxed", key=key) as tb:
        tb.store.put(ANN, "loose", "Bern")
        tb.store.put(ANN, "loose", "Genf")
        thread = tb.thread("t", initial={"n": 0})
        with thread.step("learn") as step:
            step.state["n"] = 1
            tb.store.put(ANN, "city", "Rome")
            tb.store.put(ANN, "big", BIG)


def tampered(path: Path, act: Callable[[apsw.Connection], object]) -> None:
    connection = apsw.Connection(os.fspath(path))
    with connection:
        act(connection)
    connection.close()


def found(path: Path, key: bytes | None = None) -> tuple[list[str], list[str]]:
    """What the thread's verification finds, and the store's own of all items."""
    with takeback.open(path, durability="relaxed", key=key) as tb:
        problems = tb.thread("t").verify().problems
        return [str(each) for each in problems], [str(each) for each in tb.store.verify()]


def row_of(connection: apsw.Connection, key: str) -> tuple[int, items.ItemRecord]:
    """The newest version of an item."""
    sql = """SELECT v.id, v.record, v.digest FROM item_versions v JOIN items i ON i.id = v.item
        WHERE i.key = ? ORDER BY v.at DESC LIMIT 1"""
    row: Any = connection.execute(sql, (key,)).fetchone()
    return row[0], items.read(row[1], row[2])


def forge(connection: apsw.Connection, key: str, signed: bytes | None = None, **other: Any) -> None:
    """A record that says something else, with every digest of its own computed anew."""
    number, record = row_of(connection, key)
    said = msgspec.structs.asdict(record) | other
    said.pop("nonce")
    raw, digest = items.make(**said)
    mac = None if signed is None else sign(digest, signed)
    connection.execute(
        "UPDATE item_versions SET record = ?, digest = ?, mac = ? WHERE id = ?", (raw, digest, mac, number)
    )


def value(said: Any) -> dict[str, bytes]:
    """A value as a record holds it."""
    raw = canonical.encode(said)
    return {"inline": raw, "root": canonical.digest(raw)}


def test_what_nobody_touched(store_path):
    learned(store_path, KEY)
    assert found(store_path, KEY) == ([], [])


@pytest.mark.parametrize("key", ["city", "loose"])
def test_a_changed_record(store_path, key):
    """Its digest is another; reading the item says so as well."""
    learned(store_path)
    tampered(
        store_path,
        lambda c: c.execute(
            "UPDATE item_versions SET record = CAST(record || x'00' AS BLOB) WHERE id = ?",
            (row_of(c, key)[0],),
        ),
    )
    of_thread, of_store = found(store_path)
    assert bool(of_thread) is (key == "city")
    assert "does not have its digest" in of_store[0]
    with takeback.open(store_path) as tb, pytest.raises(CorruptObject, match=key):
        tb.store.get(ANN, key)


def test_a_changed_value_of_a_longer_item(store_path):
    """An object that the item rests on."""
    learned(store_path)
    tampered(store_path, lambda c: c.execute("UPDATE objects SET data = x'00' WHERE size > 4000"))
    of_thread, of_store = found(store_path)
    assert of_thread
    assert of_store


def test_a_row_that_claims_another_writer(store_path):
    """The record says who wrote it, under the digest."""
    learned(store_path)
    tampered(store_path, lambda c: c.execute("UPDATE item_versions SET thread = x''"))
    of_thread, of_store = found(store_path)
    assert any("users/ann/city is not there" in each for each in of_thread)
    assert sum("the row says other than its record" in each for each in of_store) == 2


def test_a_removed_version(store_path):
    """The checkpoint of its step misses it; what no step wrote is missed by nobody, key or not."""
    learned(store_path, KEY)
    tampered(
        store_path, lambda c: c.execute("DELETE FROM item_versions WHERE id = ?", (row_of(c, "city")[0],))
    )
    (problem,) = found(store_path, KEY)[0]
    assert "what its step wrote to memory as users/ann/city is not there" in problem
    tampered(store_path, lambda c: c.execute("DELETE FROM item_versions WHERE thread = x''"))
    assert found(store_path, KEY)[1] == []


@pytest.mark.parametrize("other", [value("Oslo"), {"kind": "delete"}, {"inline": canonical.encode("Oslo")}])
def test_a_step_s_version_that_was_forged(store_path, other):
    """With all its digests computed anew: it is not what the step's checkpoint covers. A value in the record
    that is not the digest's is damage."""
    learned(store_path)
    tampered(store_path, lambda c: forge(c, "city", **other))
    of_thread, of_store = found(store_path)
    assert any("users/ann/city" in each for each in of_thread)
    assert bool(of_store) is ("root" not in other and "kind" not in other)


def test_a_version_that_a_step_never_wrote(store_path):
    """Put below a step's checkpoint, which does not know of it."""
    learned(store_path)

    def act(c):
        _, record = row_of(c, "city")
        forge(c, "loose", thread=record.thread, line=record.line, version=record.version)
        c.execute(
            "UPDATE item_versions SET thread = ?, line = ?, version = ? WHERE id = ?",
            (record.thread, record.line, record.version, row_of(c, "loose")[0]),
        )

    tampered(store_path, act)
    (problem,) = found(store_path)[0]
    assert "memory has a version of users/ann/loose that its step did not write" in problem


def test_a_forged_version_of_nobody_s(store_path):
    """No checkpoint covers it: it takes a signing key to find it."""
    learned(store_path, KEY)
    tampered(store_path, lambda c: forge(c, "loose", **value("Oslo")))
    assert found(store_path) == ([], [])
    (problem,) = found(store_path, KEY)[1]
    assert "users/ann/loose" in problem
    assert "forged" in problem


def test_what_a_step_s_checkpoint_does_not_cover(store_path):
    """The reason of a version and its time to live are in its record alone: found with a key."""
    learned(store_path, KEY)
    tampered(store_path, lambda c: forge(c, "city", reason="none", ttl_us=10**15))
    assert found(store_path) == ([], [])
    of_thread, of_store = found(store_path, KEY)
    assert "forged" in of_thread[0]
    assert "forged" in of_store[0]


def test_what_no_digest_covers(store_path):
    """Whether a version is nobody's to take back, and how often an item was read: not found, and said so in
    docs/format.md."""
    learned(store_path, KEY)
    tampered(store_path, lambda c: c.execute("UPDATE item_versions SET free = 1"))
    tampered(store_path, lambda c: c.execute("UPDATE items SET touched = 9000000000000000"))
    assert found(store_path, KEY) == ([], [])


def test_plans_that_write_anew_are_no_forgers(store_path):
    """What a plan writes so that memory stays as it is, is not taken for something that nobody wrote."""
    learned(store_path)
    with takeback.open(store_path, durability="relaxed") as tb:
        thread = tb.thread("t")
        thread.rollback(0, scope="state")
        assert tb.store.get(ANN, "city").checkpoint == thread.version
        thread.undo()
        thread.rollback(0, scope="memory")
        assert thread.verify().problems == []


def test_import_refuses_what_does_not_hold(store_path, tmp_path):
    """A file whose item another thread wrote, or whose value is not the record's."""
    learned(store_path)
    with takeback.open(store_path) as tb:
        tb.export("t", tmp_path / "whole")
    tampered(store_path, lambda c: forge(c, "city", inline=canonical.encode("Oslo")))
    with takeback.open(store_path) as tb, pytest.raises(CorruptObject):
        tb.export("t", tmp_path / "t")
    with takeback.open(":memory:") as other:
        other.import_(tmp_path / "whole")
        assert other.store.get(ANN, "city").value == "Rome"


def test_a_copy_refuses_what_does_not_hold(store_path):
    """Nothing of a thread with a damaged item; the others, and what belongs to none, arrive."""
    learned(store_path)
    tampered(store_path, lambda c: forge(c, "city", inline=canonical.encode("Oslo")))
    with takeback.open(store_path) as tb, takeback.open(":memory:") as other:
        with pytest.raises(NotCopied):
            tb.copy(other)
        assert [item.key for item in other.store.search()] == ["loose"]
