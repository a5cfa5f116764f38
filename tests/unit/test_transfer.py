"""Export and import: a thread as one file that comes back exactly, or is refused for what was done to it."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime

import ormsgpack
import pytest
import zstandard
from blake3 import blake3

import takeback
from takeback import errors
from takeback.model import canonical
from takeback.model.records import _FIELDS, record_digest
from takeback.storage.memory import MemoryStorage


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, actor="ada", durability="relaxed") as repo:
        yield repo


@pytest.fixture
def fresh():
    """Another store, which knows nothing of what is exported."""
    with takeback.open(":memory:") as repo:
        yield repo


def made(tb, name="t"):
    """A thread with all that a thread can have: kinds, labels, metadata, a long list, a merge."""
    trip = tb.thread(
        name, agent="a", user="u", meta={"k": datetime(2026, 1, 1, tzinfo=UTC)}, initial={"log": []}
    )
    trip.extend("log", [{"n": n, "text": "x" * (n % 50)} for n in range(700)])
    trip.patch({"raw": b"\x00\xff", "f": -0.0}, reason="why", meta={"deep": [1, 2.0, None]})
    alt = trip.fork(name=f"{name} alt")
    alt.patch({"alt": 1})
    trip.merge(alt)
    trip.rollback(1)
    trip.undo()
    trip.label("good", 2)
    trip.label("now")
    return trip


@pytest.fixture
def trip(tb):
    return made(tb)


@pytest.fixture
def file(tb, trip, tmp_path):
    path = tmp_path / "t.takeback"
    tb.export("t", path)
    return path


def everything(thread):
    """All that a thread shows, values by their canonical bytes."""
    rows = [(c.record, c.digest, c.mac) for c in thread.history(newest_first=False)]
    states = [canonical.encode(thread.at(c).state) for c in thread.history(newest_first=False)]
    info = thread.info
    return rows, states, thread.labels, (info.agent, info.user, info.meta, info.created, info.versions)


# --- there and back -----------------------------------------------------------------------------------


def test_a_thread_comes_back_exactly(tb, fresh, trip, file):
    """Records, states, labels, owner and metadata are those that were exported, and all verifies."""
    back = fresh.import_(file)
    assert back.name == "t"
    assert everything(back) == everything(trip)
    assert back.verify(trip.seal()).ok
    assert fresh.thread("t").undo().checkpoint.version == trip.version + 1
    assert back.refresh().redo().state == trip.state
    entry = next(iter(back.audit()))
    assert (entry.action, entry.detail) == ("thread.imported", {"versions": trip.version + 1})


def test_export_says_how_much_it_wrote_and_leaves_nothing_half(tb, trip, tmp_path):
    """The count of checkpoints; the file is there whole, alone, and a second export replaces it."""
    path = tmp_path / "out" / "t.takeback"
    path.parent.mkdir()
    assert tb.export("t", path) == trip.version + 1
    trip.patch({"more": 1})
    assert tb.export("t", str(path)) == trip.version + 1
    assert os.listdir(path.parent) == ["t.takeback"]


def test_an_export_is_of_one_moment(tb, fresh, trip, tmp_path):
    """What is committed afterwards is not in it."""
    before = everything(trip)
    tb.export("t", tmp_path / "x")
    trip.patch({"later": 1})
    assert everything(fresh.import_(tmp_path / "x")) == before


def test_an_imported_thread_has_another_life(tb, fresh, trip, file):
    """It goes on by itself, in its store, and can be exported from there."""
    back = fresh.import_(file)
    back.patch({"n": "there"})
    trip.patch({"n": "here"})
    assert (trip.state["n"], back.state["n"]) == ("here", "there")
    fresh.export("t", file)
    with takeback.open(":memory:") as third:
        assert everything(third.import_(file)) == everything(back)


def test_import_under_another_name(tb, fresh, trip, file):
    """The name is the store's, not the record's: digests and seals hold under any."""
    back = fresh.import_(file, name="renamed")
    assert back.name == "renamed"
    assert back.head.thread == "renamed"
    assert everything(back) == everything(trip)
    assert back.verify().ok
    assert not fresh.thread("t").exists
    with pytest.raises(errors.BadName):
        fresh.import_(file, name="")


def test_a_signed_thread_keeps_its_signatures(tmp_path):
    """Who holds the key still finds every version signed; who holds another finds that it is not his."""
    with takeback.open(":memory:", key=b"key") as tb:
        trip = made(tb)
        tb.export("t", tmp_path / "x")
    with takeback.open(":memory:", key=b"key") as same:
        assert same.import_(tmp_path / "x").verify().signed == trip.version + 1
    with takeback.open(":memory:", key=b"other") as other:
        assert not other.import_(tmp_path / "x").verify().ok


def test_a_fork_travels_alone_and_says_where_it_came_from(tb, fresh, trip, tmp_path):
    """Its original need not be there; verify notes it, and finds it when it is brought in as well."""
    tb.export("t alt", tmp_path / "alt")
    tb.export("t", tmp_path / "t")
    alt = fresh.import_(tmp_path / "alt")
    report = alt.verify()
    assert report.ok
    assert any("not in this store" in note for note in report.notes)
    assert len(list(alt.history(inherited=True))) == 2
    fresh.import_(tmp_path / "t")
    assert alt.verify().notes == []
    assert len(list(alt.history(inherited=True))) == 2 + 3
    alt.patch({"again": 1})
    assert fresh.thread("t").merge("t alt").kind == "merge"


# --- where something is already -----------------------------------------------------------------------


def test_importing_twice_is_refused(tb, fresh, trip, file):
    """The same thread is one thread: neither its own nor another name makes a second of it."""
    before = everything(fresh.import_(file))
    for name in (None, "other"):
        with pytest.raises(errors.ThreadExists, match="in the store already, as 't'"):
            fresh.import_(file, name=name)
    with pytest.raises(errors.ThreadExists):
        tb.import_(file)
    assert everything(fresh.thread("t")) == before
    assert len(fresh.threads()) == 1


def test_importing_over_another_thread_is_refused(fresh, file):
    """A name that is taken stays whose it is; another name helps."""
    fresh.thread("t", initial={"mine": 1})
    with pytest.raises(errors.ThreadExists, match="exists already") as caught:
        fresh.import_(file)
    assert "another name" in caught.value.hint
    assert fresh.thread("t").state == {"mine": 1}
    assert fresh.import_(file, name="theirs").exists


def test_a_deleted_thread_is_not_brought_back_by_its_export(tb, trip, file):
    """Deleted is for good in that store; the error does not call it present."""
    trip.delete()
    with pytest.raises(errors.ThreadDeleted, match="was deleted"):
        tb.import_(file)
    assert not tb.thread("t").exists


def test_tenants_import_for_themselves(trip, file):
    """One file may be brought in by each tenant."""
    storage = MemoryStorage()
    for tenant in ("one", "two"):
        assert takeback.Repo(storage, tenant=tenant).import_(file).verify().ok


# --- files that are not what they were ----------------------------------------------------------------


def refused(path, error=errors.BadExport):
    """The import is refused, and the store has nothing of it."""
    storage = MemoryStorage()
    with pytest.raises(error) as caught:
        takeback.Repo(storage).import_(path)
    assert str(path) in str(caught.value)
    details = storage.info().details
    assert (details["threads"], details["objects"], details["checkpoints"]) == (0, 0, 0)


def test_every_flipped_byte_is_found_or_harmless(trip, file, tmp_path):
    """Whatever byte differs: BadExport, or exactly the content that was exported; never anything else."""
    whole, expected = file.read_bytes(), everything(trip)
    pick = random.Random(7)
    places = {*range(64), *range(len(whole) - 64, len(whole)), *pick.sample(range(len(whole)), 400)}
    damaged, found = tmp_path / "damaged", 0
    for place in places:
        other = bytearray(whole)
        other[place] ^= 1 << pick.randrange(8)
        damaged.write_bytes(other)
        storage = MemoryStorage()
        try:
            back = takeback.Repo(storage).import_(damaged)
        except errors.BadExport:
            found += 1
            assert storage.info().details["threads"] == 0
        else:
            assert everything(back) == expected
    assert found > len(places) * 0.9


def test_every_cut_is_found(file, tmp_path):
    """A file that ends early is refused, wherever it ends."""
    whole = file.read_bytes()
    cut = tmp_path / "cut"
    for length in {0, 1, 3, 4, 12, len(whole) // 2, *range(len(whole) - 40, len(whole))}:
        cut.write_bytes(whole[:length])
        refused(cut)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"SQLite format 3\x00" * 9, b"\x28\xb5\x2f\xfd", bytes(999)]
)
def test_other_files_are_no_exports(tmp_path, content):
    """Whatever else it is, it is not taken for one."""
    path = tmp_path / "x"
    path.write_bytes(content)
    refused(path)


def test_files_that_cannot_be_read_or_written(tb, trip, tmp_path):
    """The error names the file and what the system says."""
    refused(tmp_path / "nope", errors.StoreUnavailable)
    refused(tmp_path, errors.StoreUnavailable)
    for place in (tmp_path / "no folder" / "x", tmp_path):
        with pytest.raises(errors.StoreUnavailable, match="cannot be written") as caught:
            tb.export("t", place)
        assert caught.value.thread == "t"
    with pytest.raises(errors.UnknownThread):
        tb.export("nobody", tmp_path / "x")
    assert [name for name in os.listdir(tmp_path) if not name.startswith("store.db")] == []


def frames(path):
    raw = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).readall()
    found = []
    while raw:
        size = int.from_bytes(raw[:4], "big")
        found.append(ormsgpack.unpackb(raw[4 : 4 + size]))
        raw = raw[4 + size :]
    return found


def write(path, parts):
    """A file with these frames and a closing digest that is right: as a forger would write it."""
    body = b"".join(len(raw := ormsgpack.packb(part)).to_bytes(4, "big") + raw for part in parts)
    end = ormsgpack.packb(["end", blake3(body).digest()])
    path.write_bytes(zstandard.compress(body + len(end).to_bytes(4, "big") + end))


def places(parts, kind):
    return [place for place, part in enumerate(parts) if part[0] == kind]


def change(kind, field, value, which=0):
    def forge(parts):
        parts[places(parts, kind)[which]][field] = value

    return forge


def drop(kind, which=0):
    def forge(parts):
        del parts[places(parts, kind)[which]]

    return forge


def swap(parts):
    a, b = places(parts, "row")[1:3]
    parts[a], parts[b] = parts[b], parts[a]


def twice(parts):
    parts.insert(places(parts, "row")[1], parts[places(parts, "row")[1]])


def rewrite_one(parts):
    """Another reason, with a digest that fits the record: the rows after it still name the old one."""
    row = parts[places(parts, "row")[2]]
    row[1] = row[1].replace(b"why", b"who")
    row[2] = record_digest(row[1])


def type_in_a_record(parts):
    """A last record whose time is text, under the digest that it then has."""
    row = parts[places(parts, "row")[-1]]
    fields = ormsgpack.unpackb(row[1])
    fields[_FIELDS.index("time_us")] = "now"
    row[1] = ormsgpack.packb(fields)
    row[2] = record_digest(row[1])


def other_object(parts):
    """Another payload under its own digest: then the old one is missing."""
    part = parts[places(parts, "object")[0]]
    part[2] = part[2][:-1] + bytes([part[2][-1] ^ 1])
    part[1] = blake3(part[2]).digest()


FORGERIES = {
    "no header": drop("header"),
    "two kinds of format": change("header", 1, "takeback export 2"),
    "no row": lambda parts: parts.__setitem__(slice(None), [p for p in parts if p[0] != "row"]),
    "the first row missing": drop("row"),
    "a row missing": drop("row", 2),
    "the last row missing": drop("row", -1),
    "rows swapped": swap,
    "a row twice": twice,
    "a row rewritten": rewrite_one,
    "a record changed": lambda parts: parts[places(parts, "row")[2]].__setitem__(1, b"\x90"),
    "a row's digest changed": change("row", 2, b"\x00" * 32),
    "a record's time of another type": type_in_a_record,
    "an object missing": drop("object", 3),
    "an object changed": change("object", 2, b"\xc0"),
    "an object and its digest changed": other_object,
    "an object that is empty": lambda parts: parts.append(["object", blake3(b"").digest(), b"", 1]),
    "another thread's uid": change("header", 3, b"\x00" * 16),
    "another head": change("header", 8, 2),
    "a label beyond the head": change("label", 2, 99),
    "a label that looks like a version": change("label", 1, "head"),
    "a label of another type": change("label", 2, "x"),
    "a name that does not print": change("header", 2, "a\nb"),
    "a name of another type": change("header", 2, 5),
    "an agent of another type": change("header", 4, 5),
    "metadata that is no value": change("header", 6, b"\xc1"),
    "metadata that is no dict": change("header", 6, b"\x90"),
    "metadata of another type": change("header", 6, 5),
    "a time of another type": change("header", 7, "now"),
    "a header too short": lambda parts: parts[0].pop(),
    "a row too short": lambda parts: parts[places(parts, "row")[0]].pop(),
    "a row too long": lambda parts: parts[places(parts, "row")[0]].append(1),
    "a record of another type": change("row", 1, 5),
    "an object too short": lambda parts: parts[places(parts, "object")[0]].pop(),
    "an object of another type": change("object", 2, "text"),
    "a label too short": lambda parts: parts[places(parts, "label")[0]].pop(),
    "a frame of no kind": lambda parts: parts.append(["what"]),
    "an empty frame": lambda parts: parts.append([]),
    "a frame that is no list": lambda parts: parts.append({"a": 1}),
    "an end without a digest": lambda parts: parts.append(["end"]),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_a_forgery_is_found(file, tmp_path, how):
    """A closing digest that fits does not make a file one that this library wrote."""
    parts = frames(file)[:-1]
    FORGERIES[how](parts)
    forged = tmp_path / "forged"
    write(forged, parts)
    refused(forged)


def test_a_whole_history_made_anew_is_found_by_a_seal_or_a_key(fresh, tmp_path):
    """Who rewrites everything makes a sound chain; what he cannot make is the seal, or the signature."""
    with takeback.open(":memory:", key=b"key") as tb:
        trip = tb.thread("t", initial={"n": 0})
        trip.commit({"n": 1}, reason="true")
        seal = trip.seal()
        tb.export("t", tmp_path / "x")
    parts = frames(tmp_path / "x")[:-1]
    row = parts[places(parts, "row")[1]]
    row[1] = row[1].replace(b"true", b"lies")
    row[2] = record_digest(row[1])
    write(tmp_path / "x", parts)
    back = fresh.import_(tmp_path / "x")
    assert back.head.reason == "lies"
    assert back.verify().ok
    assert not back.verify(seal).ok
    with takeback.open(":memory:", key=b"key") as keyed:
        assert not keyed.import_(tmp_path / "x").verify().ok


def test_a_file_that_is_copied_as_it_is_imports(fresh, trip, file, tmp_path):
    """The forger's tools make, with nothing forged, a file that is taken: each refusal has its reason."""
    write(tmp_path / "same", frames(file)[:-1])
    assert everything(fresh.import_(tmp_path / "same")) == everything(trip)
