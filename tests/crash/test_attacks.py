"""Somebody who can write the file, knows this code and has no key: what `verify` finds of what they do, and
what it does not find. `EXPECTED` says both; the documentation quotes it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import apsw
import msgspec
import ormsgpack
import pytest
from tests.crash.stores import copy

import takeback
from takeback.engine import seals
from takeback.errors import TakebackError
from takeback.model import canonical, records
from takeback.model.ids import checkpoint_id, random_part

KEY = b"kept where the store is not"
SEALED, HEAD = 6, 8  # the seal was made at version 6; two more versions followed

DEFENCES = {
    "nothing": "verify() alone",
    "key": "the signing key, kept outside the store",
    "seal": "a seal, kept where the intruder cannot write",
    "key and seal": "both",
    "seal beside the store": "a seal without a signature, where the intruder can write it too",
    "signed seal beside the store": "an Ed25519-signed seal where the intruder can write, and the public key",
}

BY_DIGESTS = frozenset(DEFENCES)
BY_KEY_OR_SEAL = frozenset({"key", "seal", "key and seal", "signed seal beside the store"})
BY_KEY = frozenset({"key", "key and seal"})
BY_SEAL = frozenset({"seal", "key and seal", "signed seal beside the store"})
BY_NOTHING: frozenset[str] = frozenset()

EXPECTED: dict[str, frozenset[str]] = {
    "change a record": BY_DIGESTS,
    "change a record and its digest": BY_DIGESTS,
    "change a record and every digest after it": BY_KEY_OR_SEAL,
    "change the head's record and its digest": BY_KEY,
    "change a column beside the record": BY_DIGESTS,
    "change a signature": BY_KEY,
    "cut the end off, below the seal": BY_SEAL,
    "cut the end off, above the seal": BY_NOTHING,
    "cut the end off and forge another": BY_KEY_OR_SEAL,
    "remove a record": BY_DIGESTS,
    "remove a record and move the others up": BY_DIGESTS,
    "remove a record and make every later one anew": BY_KEY_OR_SEAL,
    "remove the branch that a rollback left": BY_DIGESTS,
    "swap two records": BY_DIGESTS,
    "swap two records and make every later one anew": BY_KEY_OR_SEAL,
    "insert a record": BY_DIGESTS,
    "insert a record and make every later one anew": BY_KEY_OR_SEAL,
    "append a forged record": BY_KEY,
    "change an object": BY_DIGESTS,
    "remove an object": BY_DIGESTS,
    "put another object in an object's place": BY_DIGESTS,
    "swap a state": BY_DIGESTS,
    "swap a state and make every later record anew": BY_KEY_OR_SEAL,
    "point the head at an older version": BY_DIGESTS,
    "point the head at a version that is not there": BY_DIGESTS,
    "put a record far beyond the end": BY_DIGESTS,
    "put the head far beyond the end": BY_DIGESTS,
    "strip every signature": BY_KEY,
    "strip the signatures from the middle on": BY_KEY,
    "strip the signatures of the first versions": BY_NOTHING,  # their digests are under the later ones
    "strip every signature and rewrite history": BY_KEY_OR_SEAL,
    "take the records of another thread": BY_DIGESTS,
    "change the thread a fork came from": BY_DIGESTS,
    "give the thread another's name": BY_SEAL,
    "move a label": BY_NOTHING,
    "change whose thread it is": BY_NOTHING,
    "remove entries of the audit log": BY_NOTHING,
    "delete the thread": BY_DIGESTS,
}
"""Which defences find an attack. What a seal finds it finds up to the version that was sealed."""


class Row(msgspec.Struct):
    """A stored checkpoint, taken apart."""

    said: dict[str, Any]
    digest: bytes
    mac: bytes | None

    def sealed(self) -> None:
        self.digest = records.record_digest(self.record)

    @property
    def record(self) -> bytes:
        return ormsgpack.packb([self.said[name] for name in records._FIELDS])


class Intruder:
    """Writes into a store's file, past the library and its trigger, and leaves both as they were."""

    def __init__(self, path: Path, name: str = "main") -> None:
        self.db = apsw.Connection(os.fspath(path))
        self.name = name

    def __enter__(self) -> Self:
        self.db.execute("BEGIN IMMEDIATE")
        (self.trigger,) = self.db.execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").fetchone()
        self.db.execute("DROP TRIGGER checkpoints_never_change")
        return self

    def __exit__(self, *_: object) -> None:
        self.db.execute(self.trigger)
        self.db.execute("COMMIT")
        self.db.close()

    def one(self, sql: str, *values: Any) -> Any:
        return self.db.execute(sql, values).fetchone()[0]

    def id(self, name: str | None = None) -> int:
        return self.one("SELECT id FROM threads WHERE name = ? AND deleted IS NULL", name or self.name)

    def run(self, sql: str, *values: Any) -> None:
        self.db.execute(sql, values)
        assert self.db.changes() > 0, f"the attack did nothing: {sql}"

    def rows(self, name: str | None = None) -> list[Row]:
        sql = "SELECT record, digest, mac FROM checkpoints WHERE thread = ? ORDER BY version"
        return [
            Row(dict(zip(records._FIELDS, ormsgpack.unpackb(record), strict=True)), digest, mac)
            for record, digest, mac in self.db.execute(sql, (self.id(name),))
        ]

    def write(self, rows: list[Row], *, head: bool = True) -> None:
        """These records instead of what there was, with columns that agree."""
        thread = self.id()
        self.run("DELETE FROM checkpoints WHERE thread = ?", thread)
        for row in rows:
            self.insert(thread, row)
        if head:
            last = rows[-1]
            self.run("UPDATE threads SET head = ?, head_digest = ?, updated = ? WHERE id = ?",
                     last.said["version"], last.digest, last.said["time_us"], thread)  # fmt: skip

    def insert(self, thread: int, row: Row) -> None:
        said = row.said
        columns = {
            "thread": thread, "version": said["version"], "namespace": said["namespace"],
            "kind": said["kind"], "line": said["line"],
            "origin_version": said["origin"] and said["origin"][1],
            "merged_version": said["merged"] and said["merged"][1], "undoes": said["undoes"],
            "time": said["time_us"], "digest": row.digest, "mac": row.mac, "record": row.record,
        }  # fmt: skip
        marks = ", ".join("?" * len(columns))
        self.run(f"INSERT INTO checkpoints ({', '.join(columns)}) VALUES ({marks})", *columns.values())


def anew(rows: list[Row], since: int = 0) -> list[Row]:
    """Versions, lines, links and digests made to fit from there on: all that can be done without a key."""
    for version in range(since, len(rows)):
        said, before = rows[version].said, rows[version - 1] if version else None
        said["version"] = version
        said["before"] = version - 1 if before else None
        said["previous"] = before.digest if before else b""
        said["time_us"] = max(said["time_us"], before.said["time_us"] if before else 0)
        opens = before is None or said["origin"] is not None
        said["line"] = version if opens else before.said["line"]
        rows[version].sealed()
    return repointed(rows)


def repointed(rows: list[Row]) -> list[Row]:
    """Origins inside the thread name the digests that those versions have now."""
    for row in rows:
        origin = row.said["origin"]
        if origin is not None and origin[0] in (b"", row.said["uid"]) and origin[2] != rows[origin[1]].digest:
            row.said["origin"] = [origin[0], origin[1], rows[origin[1]].digest]
            return anew(rows, row.said["version"])
    return rows


def forged(row: Row, **said: Any) -> Row:
    """Another record much like this one."""
    plain = {"id": random_part(checkpoint_id(row.said["version"])), "reason": "quite true", "kind": "commit"}
    return Row(row.said | plain | {"origin": None, "undoes": None} | said, row.digest, row.mac)


# --- attacks


def change_record(it: Intruder, since: str, at: int = 4) -> None:
    rows = it.rows()
    rows[at].said["reason"] = "never said"
    if since == "own":
        rows[at].sealed()
    elif since == "all":
        anew(rows, at)
    it.write(rows)


def cut(it: Intruder, keep: int) -> list[Row]:
    rows = it.rows()[: keep + 1]
    it.write(rows)
    return rows


def cut_and_forge(it: Intruder) -> None:
    rows = it.rows()[:5]
    while len(rows) <= HEAD:
        rows.append(forged(rows[-1], line=rows[-1].said["line"]))
    it.write(anew(rows, 5))


def remove(it: Intruder, how: str, at: int = 3) -> None:
    rows = it.rows()
    del rows[at]
    if how == "leave":
        it.write(rows)
    elif how == "move up":
        for version, row in enumerate(rows):
            row.said["version"] = version
        it.write(rows)
    else:
        it.write(anew(rows, at))


def remove_branch(it: Intruder) -> None:
    """Versions 3 and 4 were left by the rollback at 5, and no logical parent of the head leads to them."""
    rows = it.rows()
    assert rows[5].said["kind"] == "rollback"
    assert rows[5].said["origin"][1] == 2
    it.write(rows[:3] + rows[5:])


def swap(it: Intruder, how: str) -> None:
    rows = it.rows()
    rows[1], rows[2] = rows[2], rows[1]
    if how == "leave":
        rows[1].said["version"], rows[2].said["version"] = 1, 2
        it.write(rows)
    else:
        it.write(anew(rows, 1))


def insert(it: Intruder, how: str) -> None:
    rows = it.rows()
    rows.insert(3, forged(rows[2]))
    if how == "leave":
        for version, row in enumerate(rows):
            row.said["version"] = version
            row.sealed()
        it.write(rows)
    else:
        it.write(anew(rows, 3))


def append(it: Intruder) -> None:
    rows = it.rows()
    it.write(anew([*rows, forged(rows[-1])], len(rows)))


def swap_state(it: Intruder, how: str) -> None:
    rows = it.rows()
    rows[4].said["state_root"] = rows[0].said["state_root"]
    if how == "leave":
        rows[4].sealed()
        it.write(rows)
    else:
        it.write(anew(rows, 4))


def change_object(it: Intruder) -> None:
    root = root_of(it)
    data = bytearray(it.one("SELECT data FROM objects WHERE digest = ?", root))
    data[len(data) // 2] ^= 1
    it.run("UPDATE objects SET data = ? WHERE digest = ?", bytes(data), root)


def root_of(it: Intruder) -> bytes:
    """A state that no other version has."""
    return it.rows()[3].said["state_root"]


def replace_object(it: Intruder) -> None:
    """A whole other object, in good order, under the digest that the record names."""
    root, lie = root_of(it), canonical.encode({"balance": 1_000_000})
    it.run("UPDATE objects SET data = ?, size = ?, codec = 0 WHERE digest = ?", lie, len(lie), root)


def point_head(it: Intruder, version: int) -> None:
    digest = it.rows()[min(version, HEAD)].digest
    it.run("UPDATE threads SET head = ?, head_digest = ? WHERE id = ?", version, digest, it.id())


def put_far(it: Intruder) -> None:
    """Farther than a reader could count."""
    row = forged(it.rows()[-1], version=1 << 62)
    row.sealed()
    it.insert(it.id(), row)


def strip(it: Intruder, low: int, high: int) -> None:
    it.run(
        "UPDATE checkpoints SET mac = NULL WHERE thread = ? AND version BETWEEN ? AND ?", it.id(), low, high
    )


def strip_and_rewrite(it: Intruder) -> None:
    change_record(it, "all", 0)
    strip(it, 0, HEAD)


def take_over(it: Intruder) -> None:
    """Signed with the right key, every one of them; but another thread's."""
    it.write(it.rows("other"))


def move_origin(it: Intruder) -> None:
    """What the first record of the fork points at, in the other thread, is made another."""
    rows = it.rows("other")
    it.name = "other"
    rows[0].said["reason"] = "never said"
    it.write(anew(rows, 0))


def swap_names(it: Intruder) -> None:
    ours, theirs = it.id("main"), it.id("other")
    it.run("UPDATE threads SET name = 'x' WHERE id = ?", ours)
    it.run("UPDATE threads SET name = 'main' WHERE id = ?", theirs)
    it.run("UPDATE threads SET name = 'other' WHERE id = ?", ours)


def delete(it: Intruder) -> None:
    thread = it.id()
    it.run("DELETE FROM checkpoints WHERE thread = ?", thread)
    it.run("DELETE FROM threads WHERE id = ?", thread)


def statement(sql: str) -> Callable[[Intruder], None]:
    return lambda it: it.run(sql, it.id())


ATTACKS: dict[str, Callable[[Intruder], Any]] = {
    "change a record": lambda it: change_record(it, "nothing"),
    "change a record and its digest": lambda it: change_record(it, "own"),
    "change a record and every digest after it": lambda it: change_record(it, "all"),
    "change the head's record and its digest": lambda it: change_record(it, "all", HEAD),
    "change a column beside the record": statement(
        "UPDATE checkpoints SET time = time - 1 WHERE thread = ? AND version = 4"
    ),
    "change a signature": statement(
        "UPDATE checkpoints SET mac = randomblob(32) WHERE thread = ? AND version = 4"
    ),
    "cut the end off, below the seal": lambda it: cut(it, 4),
    "cut the end off, above the seal": lambda it: cut(it, 7),
    "cut the end off and forge another": cut_and_forge,
    "remove a record": lambda it: remove(it, "leave"),
    "remove a record and move the others up": lambda it: remove(it, "move up"),
    "remove a record and make every later one anew": lambda it: remove(it, "anew"),
    "remove the branch that a rollback left": remove_branch,
    "swap two records": lambda it: swap(it, "leave"),
    "swap two records and make every later one anew": lambda it: swap(it, "anew"),
    "insert a record": lambda it: insert(it, "leave"),
    "insert a record and make every later one anew": lambda it: insert(it, "anew"),
    "append a forged record": append,
    "change an object": change_object,
    "remove an object": lambda it: it.run(
        "DELETE FROM objects WHERE digest = ?", it.rows()[3].said["state_root"]
    ),
    "put another object in an object's place": replace_object,
    "swap a state": lambda it: swap_state(it, "leave"),
    "swap a state and make every later record anew": lambda it: swap_state(it, "anew"),
    "point the head at an older version": lambda it: point_head(it, 5),
    "point the head at a version that is not there": lambda it: point_head(it, HEAD + 3),
    "put a record far beyond the end": put_far,
    "put the head far beyond the end": lambda it: (put_far(it), point_head(it, 1 << 62)),
    "strip every signature": lambda it: strip(it, 0, HEAD),
    "strip the signatures from the middle on": lambda it: strip(it, 5, HEAD),
    "strip the signatures of the first versions": lambda it: strip(it, 0, 3),
    "strip every signature and rewrite history": strip_and_rewrite,
    "take the records of another thread": take_over,
    "change the thread a fork came from": move_origin,
    "give the thread another's name": swap_names,
    "move a label": statement("UPDATE labels SET version = 1 WHERE thread = ?"),
    "change whose thread it is": statement("UPDATE threads SET user = 'mallory' WHERE id = ?"),
    "remove entries of the audit log": lambda it: it.run("DELETE FROM audit"),
    "delete the thread": delete,
}


# --- what is found


class Kept(msgspec.Struct, frozen=True):
    """What whoever checks holds besides the store."""

    seal: str
    signed_seal: str
    public_key: bytes


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Kept]:
    """A signed store: a fork with a rollback, a label, and a seal at version 6 of 8."""
    path = tmp_path_factory.mktemp("attacks") / "before.db"
    private, public = seals.new_key()
    with takeback.open(path, actor="ada", key=KEY) as repo:
        other = repo.thread("other", initial={"balance": 0, "steps": []})
        for number in range(1, HEAD + 1):
            other.patch({"balance": number * 100})
        thread = other.fork("head", "main", user="ada")
        for number in range(1, 5):
            thread.patch({"balance": number}, reason=f"step {number}")
        thread.rollback(2)
        thread.append("/steps", "six")
        thread.label("good", 4)
        seal, signed = thread.seal().dumps(), thread.seal(private_key=private).dumps()
        thread.append("/steps", "seven")
        thread.append("/steps", "eight")
        assert (thread.version, seals.loads(seal).version) == (HEAD, SEALED)
    return path, Kept(seal, signed, public)


def finds(path: Path, **defence: Any) -> bool:
    """Whether whoever checks learns that something is wrong."""
    try:
        with takeback.open(path, key=defence.pop("key", None)) as repo:
            return not repo.thread("main").verify(**defence).ok
    except TakebackError:
        return True


def rewritten(path: Path, seal: str) -> str:
    """The seal made to fit the store as it is now, as far as it can be without a private key."""
    said = seals.loads(seal)
    db = apsw.Connection(os.fspath(path))
    found = db.execute(
        "SELECT t.uid, c.version, c.digest FROM threads AS t JOIN checkpoints AS c ON c.thread = t.id"
        " WHERE t.name = 'main' AND c.version <= ? ORDER BY c.version DESC LIMIT 1", (said.version,)
    ).fetchone()  # fmt: skip
    db.close()
    if found is None:
        return seal
    uid, version, digest = found
    return msgspec.structs.replace(said, uid=uid, version=version, digest=digest).dumps()


def found_by(path: Path, kept: Kept) -> set[str]:
    """Which defences find what was done. A seal within reach is left or rewritten, whichever is better."""
    seal, signed = kept.seal, kept.signed_seal
    loose = [{"seal": seal}, {"seal": rewritten(path, seal)}]
    bound = [{"seal": text, "public_key": kept.public_key} for text in (signed, rewritten(path, signed))]
    outcomes = {
        "nothing": finds(path),
        "key": finds(path, key=KEY),
        "seal": finds(path, seal=seal),
        "key and seal": finds(path, key=KEY, seal=seal),
        "seal beside the store": all(finds(path, **defence) for defence in loose),
        "signed seal beside the store": all(finds(path, **defence) for defence in bound),
    }
    assert outcomes.keys() == DEFENCES.keys()
    return {name for name, found in outcomes.items() if found}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_found(tmp_path: Path, kept: tuple[Path, Kept], attack: str) -> None:
    path = copy(kept[0], tmp_path)
    with Intruder(path) as it:
        ATTACKS[attack](it)
    assert found_by(path, kept[1]) == EXPECTED[attack]


def test_the_table_is_complete() -> None:
    assert ATTACKS.keys() == EXPECTED.keys()


def test_an_untouched_store_is_sound_by_every_defence(tmp_path: Path, kept: tuple[Path, Kept]) -> None:
    path = copy(kept[0], tmp_path)
    with Intruder(path):
        pass
    left_alone = rewritten(path, kept[1].seal)
    assert seals.loads(left_alone) == seals.loads(kept[1].seal)
    assert not finds(path)
    assert not finds(path, key=KEY, seal=kept[1].seal)
    assert not finds(path, seal=kept[1].signed_seal, public_key=kept[1].public_key)


def test_the_wrong_key_and_the_wrong_seal_are_told(tmp_path: Path, kept: tuple[Path, Kept]) -> None:
    path, holds = copy(kept[0], tmp_path), kept[1]
    assert finds(path, key=b"another")
    assert finds(path, seal=holds.seal, public_key=holds.public_key)  # not signed at all
    assert finds(path, seal=holds.signed_seal, public_key=seals.new_key()[1])


def test_the_file_itself_refuses_an_update(tmp_path: Path, kept: tuple[Path, Kept]) -> None:
    """The trigger stops whoever does not mean to: a tool, a careless query."""
    db = apsw.Connection(os.fspath(copy(kept[0], tmp_path)))
    with pytest.raises(apsw.ConstraintError, match="never changes"):
        db.execute("UPDATE checkpoints SET mac = NULL")
    db.close()


HOSTILE: list[Any] = [
    None, "", "text", b"", b"\xff" * 3, -1, 1 << 62, 1 << 63, 1.5, True, [], [1, 2], [b"", -1, None], {},
    {"a": 1}, [[[]]],
]  # fmt: skip


@pytest.mark.parametrize("field", records._FIELDS)
def test_a_record_of_nonsense_is_reported_and_breaks_nothing(
    tmp_path: Path, kept: tuple[Path, Kept], field: str
) -> None:
    """With all digests made to fit: `verify` answers, whatever the record says."""
    for nonsense in HOSTILE:
        path = copy(kept[0], tmp_path)
        with Intruder(path) as it:
            rows = it.rows()
            if rows[4].said[field] == nonsense:
                continue
            rows[4].said[field] = nonsense
            rows[4].sealed()
            for before, row in itertools.pairwise(rows[4:]):
                row.said["previous"] = before.digest
                row.sealed()
            for version, row in enumerate(rows):
                it.run("UPDATE checkpoints SET record = ?, digest = ? WHERE thread = ? AND version = ?",
                       row.record, row.digest, it.id(), version)  # fmt: skip
            it.run("UPDATE threads SET head_digest = ? WHERE id = ?", rows[-1].digest, it.id())
        assert finds(path, key=KEY), nonsense
        finds(path)
