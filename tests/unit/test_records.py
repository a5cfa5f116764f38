"""Records: what the digest covers, what is read back, and what people are shown of it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec
import ormsgpack
import pytest

from takeback.errors import CorruptObject
from takeback.model import canonical, records
from takeback.model.records import (
    AuditEntry,
    Checkpoint,
    FileRoot,
    Pointer,
    ThreadInfo,
    instant,
    read_record,
    record_digest,
    seal_record,
    sign,
)
from takeback.testing.rows import T0, first, following, merging, new_thread

OTHER = Pointer(b"u" * 16, 3, b"d" * 32)
FULL = following(
    first("t"), kind="merge", line=2, origin=OTHER, merged=OTHER, undoes=0, undo_top=0, redo_top=1, step="s",
    reason="why · ü", actor="ada", trace_id="t" * 32, span_id="s" * 16, build="takeback 1.0",
    meta={"k": [1, None, {"x": 1.5}]}, namespace="sub", ledger="partial", uses=b"u" * 32,
    files=[FileRoot("src", b"m" * 32, "watch")],
)  # fmt: skip
OTHERS: dict[str, Any] = {
    "uid": b"v" * 16, "version": 2, "id": "c1-000000000000", "kind": "commit", "line": 3,
    "previous": b"p" * 32,
    "before": None, "origin": None, "merged": Pointer(OTHER.uid, 4, OTHER.digest), "undoes": None,
    "undo_top": 7,
    "redo_top": None, "step": None, "state_root": b"r" * 32, "time_us": 1, "clock_us": 2, "reason": "",
    "actor": None,
    "trace_id": None, "span_id": None, "build": "", "meta": {"k": [True, None, {"x": 1.5}]}, "namespace": "",
    "ledger": "", "uses": b"", "files": [FileRoot("src", b"m" * 32, "sweep")],
}  # fmt: skip
OUTSIDE = {"thread", "digest", "record", "mac", "format"}


def covered() -> set[str]:
    return set(Checkpoint.__struct_fields__) - OUTSIDE


def test_every_field_has_a_case_here() -> None:
    """A new field must say whether the digest covers it: nothing of a checkpoint is outside by accident."""
    assert covered() == OTHERS.keys() == set(records._FIELDS) - {"format"}


@pytest.mark.parametrize("name", OTHERS)
def test_the_digest_covers_each_field(name: str) -> None:
    """Nobody can change what a checkpoint says and keep its digest."""
    other = seal_record(msgspec.structs.replace(FULL, **{name: OTHERS[name]}))
    assert getattr(other, name) != getattr(FULL, name) or name == "meta"
    assert other.digest != FULL.digest


def test_the_name_of_the_thread_is_outside() -> None:
    """A copy or an import under another name has the same history."""
    assert seal_record(msgspec.structs.replace(FULL, thread="renamed")).digest == FULL.digest


@pytest.mark.parametrize(
    "made",
    [FULL, first("t"), following(first("t")), merging(first("t"), FULL)],
    ids=["full", "first", "next", "merge"],
)
def test_a_record_is_read_as_it_was_written(made: Checkpoint) -> None:
    back = read_record(made.thread, made.record, made.digest, made.mac)
    assert back == made
    assert canonical.equal(back.meta, made.meta)
    assert seal_record(back).record == made.record
    assert record_digest(made.record) == made.digest


def test_the_order_of_metadata_does_not_count() -> None:
    one, two = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert following(FULL, id="c2-00", meta=one).digest == following(FULL, id="c2-00", meta=two).digest


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\xc1",
        b"\x05",
        ormsgpack.packb([]),
        ormsgpack.packb([1, 2, 3]),
        ormsgpack.packb(["x"] * len(records._FIELDS)),
        ormsgpack.packb([None] * (len(records._FIELDS) + 1)),
        ormsgpack.packb({"format": 1}),
        FULL.record[:-1],
        FULL.record.replace(b"\xa1k", b"\xc1k"),
    ],
    ids=range(10),
)
def test_bytes_that_are_no_record(record: bytes) -> None:
    """The error names the thread."""
    with pytest.raises(CorruptObject) as caught:
        read_record("t", record, b"d" * 32)
    assert caught.value.thread == "t"


def test_damage_anywhere_in_a_record_shows_in_its_digest() -> None:
    for place in range(len(FULL.record)):
        damaged = bytearray(FULL.record)
        damaged[place] ^= 1
        assert record_digest(bytes(damaged)) != FULL.digest


def test_a_record_is_small() -> None:
    """Checkpoints are clustered by thread and version; a plain one stays within a tenth of a page."""
    assert len(following(first("t")).record) < 400


def test_signatures() -> None:
    """The same for one digest and key, another for any other; and no plain hash of either."""
    mac = sign(FULL.digest, b"key")
    assert mac == sign(FULL.digest, b"key")
    assert len({mac, sign(FULL.digest, b"kez"), sign(b"x" * 32, b"key"), canonical.digest(FULL.digest)}) == 4


def test_hashes_of_records_and_of_objects_are_apart() -> None:
    """No state can be made whose address is a checkpoint's digest."""
    assert record_digest(FULL.record) != canonical.digest(FULL.record)


# --- what is shown


def test_parents() -> None:
    """First the logical parent, then what was merged; a first checkpoint has none."""
    begins = first("t")
    then = following(begins)
    row_before = Pointer(begins.uid, 0, begins.digest)
    assert begins.parents == []
    assert then.parents == [row_before]
    assert merging(begins, FULL).parents == [row_before, Pointer(FULL.uid, 1, FULL.digest)]
    assert following(then, origin=OTHER).parents == [OTHER]
    assert FULL.parents == [OTHER, OTHER]


def test_names_of_a_checkpoint() -> None:
    made = following(first("t"))
    assert made.bookmark == "b" + made.id[1:]
    assert len(made.blob_id) == 43


def test_times() -> None:
    """Microseconds are exact, before 1970 and far from it, where floats are not."""
    assert instant(0) == dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert instant(-1) == dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
    for micros in (1_772_366_400_123_457, 253_402_300_799_999_999):
        assert canonical.micros(instant(micros)) == micros
    made = first("t", time_us=T0 + 1)
    assert (made.time - made.clock) == dt.timedelta(microseconds=1)


def test_what_json_gets() -> None:
    """Texts and numbers only, under stable names."""
    shown = FULL.as_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert shown["parents"][0] == {"thread_uid": "dXV1dXV1dXV1dXV1dXV1dQ", "version": 3}
    assert (shown["kind"], shown["reason"], shown["meta"]) == ("merge", "why · ü", FULL.meta)
    row = new_thread("t", agent="a")
    info = ThreadInfo(
        name="t", uid=row.uid, agent="a", user=None, meta={}, created_us=T0, head=4, head_digest=b"",
        updated_us=T0 + 1,
        origin=OTHER,
    )  # fmt: skip
    assert json.loads(json.dumps(info.as_dict()))["forked_from"] == 3
    assert (info.versions, info.updated - info.created) == (5, dt.timedelta(microseconds=1))
    assert msgspec.structs.replace(info, origin=None).as_dict()["forked_from"] is None
    entry = AuditEntry(time_us=0, action="thread.delete", thread=None, detail={"why": ["x"]})
    assert json.loads(json.dumps(entry.as_dict()))["time"] == "1970-01-01T00:00:00+00:00"


def test_what_a_record_consists_of_needs_no_evaluation() -> None:
    """Annotations as text would be evaluated in the first read of each process, which took a millisecond."""
    for kind in (Pointer, Checkpoint, ThreadInfo):
        assert not [name for name, said in kind.__annotations__.items() if isinstance(said, str)]
    records.prepare()
    records.prepare()
