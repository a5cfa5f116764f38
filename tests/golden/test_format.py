"""The stored format, held to fixed bytes: a change to any constant, cut or encoding shows here.

A vector that no longer holds is not to be replaced: stores have been written with it. What changes it
is another format, with a number of its own, beside this one.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from xxhash import xxh3_64_intdigest

from takeback.model import canonical, records
from takeback.model.records import Checkpoint, FileRoot, Pointer, read_record, seal_record, sign
from takeback.model.tree import build, nodes
from takeback.model.tree import format as f
from takeback.model.tree.read import read
from takeback.storage import objects

VECTORS = json.loads((Path(__file__).parent / "vectors.json").read_text(encoding="utf-8"))


def text(size: int, seed: int) -> str:
    """So many characters without a pattern, the same everywhere and for ever."""
    return blake3(b"%d" % seed).digest(size).hex()[:size]


ENCODINGS: dict[str, Any] = {
    "none": None,
    "true": True,
    "false": False,
    "zero": 0,
    "int 127": 127,
    "int 128": 128,
    "int 65536": 65536,
    "int max": 2**63 - 1,
    "int -1": -1,
    "int -33": -33,
    "int min": -(2**63),
    "float 0": 0.0,
    "float -0": -0.0,
    "float": 0.1,
    "float whole": 1.0,
    "text": "naïve 🧵",
    "text 32": "a" * 32,
    "text 256": "a" * 256,
    "bytes": b"\x00\xff",
    "bytes 256": b"a" * 256,
    "list": [1, [2.5, []]],
    "list 16": list(range(16)),
    "dict": {"b": 1, "a": {"é": None, "z": [True]}, "": 0, "B": -0.0},
    "dict 16": {f"{n:02}": n for n in range(16)},
    "time": dt.datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=dt.UTC),
    "time offset": dt.datetime(2026, 3, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30))),
    "time before 1970": dt.datetime(1890, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=1050))),
}

TREES: dict[str, Any] = {
    "plain": {"plan": ["one", "two"], "n": 1},
    "long text": "x" * 50_000,
    "dict, children inside": {"small": 1, "text": text(900, 1), "list": [text(90, n) for n in range(60)]},
    "dict, children apart": {f"key {n}": [text(200, m) for m in range(40)] for n in range(6)},
    "list, open leaf": [text(300, n) for n in range(15)],
    "list, leaves": [text(40, n) for n in range(900)],
    "list, index nodes": [{"n": n, "text": text(n % 700, n)} for n in range(6_000)],
    "list, big items": [text(20_000, 1), 1, {"deep": [text(20_000, 2)] * 2}, *range(20)],
    "list, all the same": ["again"] * 40_000,
    "wide dict": {f"key {n}": text(60, n) for n in range(400)},
    "wide dict, index nodes": {f"key {n}": n for n in range(6_000)},
    "wide dict, no cuts": {
        key: 1 for key in map(str, range(2_000)) if xxh3_64_intdigest(key.encode(), 0x7B) % 32
    },
    "wide dict, children": {f"key {n}": [text(300, n)] * 20 for n in range(200)},
}


def tree(value: Any) -> tuple[bytes, dict[bytes, bytes]]:
    writer = nodes.Writer(Nothing())
    return build.build(value, None, writer)[1], writer.new


class Nothing:
    """A store without objects: a tree from nothing must not read any."""

    def get(self, digest: bytes) -> bytes:
        raise KeyError(digest)

    def get_many(self, digests: list[bytes]) -> list[bytes]:
        return [self.get(digest) for digest in digests]

    def peek(self, digest: bytes) -> bytes | None:
        return None


class Held(Nothing):
    """The objects of a stored tree."""

    def __init__(self, held: dict[bytes, bytes]) -> None:
        self.held = held

    def get(self, digest: bytes) -> bytes:
        return self.held[digest]


def root(value: Any) -> dict[str, Any]:
    payload, new = tree(value)
    every = blake3(b"".join(sorted(new))).hexdigest()
    return {"root": canonical.digest(payload).hex(), "objects": len(new), "all": every}


def sweep() -> str:
    """One digest over the roots of values on both sides of every limit."""
    values: list[Any] = []
    for limit in (f.INLINE_MAX, f.PLAIN_MAX, f.NODE_MAX, f.LEAF_MIN_BYTES, f.ITEM_BIG, f.LEAF_MAX_BYTES):
        for size in range(limit - 60, limit + 6):
            values += [
                {"k": "x" * size},
                {"a": "x" * size, "b": "y" * 300},
                ["x" * size] * 2,
                {"k": ["x" * (size // 8)] * 8},
            ]
    for size in range(250):
        flat = {f"k{n}": "x" * 200 for n in range(39)} | {"last": "y" * size}
        tall = {"list": [text(200, n) for n in range(29)], "last": "y" * size}
        values += [flat, tall | dict(list(flat.items())[:10]), tall | dict(list(flat.items())[:38])]
    values += [{f"{n}": n for n in range(count)} for count in range(1_700, 2_300, 20)]
    for size in range(240, 270):
        values += [["x" * size] * 20, {"k": ["x" * size, 1], "pad": "x" * 5_000}]
    for count in (15, 16, f.LEAF_MIN_ITEMS, f.LEAF_MAX_ITEMS, f.LEAF_MAX_ITEMS + 1, 1_000):
        values += [
            ["same"] * count,
            [text(12, n) for n in range(count)],
            {f"{n}": text(50, n) for n in range(count)},
        ]
    return blake3(b"".join(canonical.digest(tree(value)[0]) for value in values)).hexdigest()


RECORD = Checkpoint(
    thread="t", uid=records.ThreadUid(bytes(range(16))), version=7,
    id=records.CheckpointId("c7-0123456789ab"),
    kind="merge", line=2, digest=b"", state_root=b"s" * 32, time_us=1_772_366_400_000_001,
    clock_us=1_772_366_400_000_000, previous=b"p" * 32, before=6, origin=Pointer(b"o" * 16, 3, b"d" * 32),
    merged=Pointer(b"m" * 16, 4, b"e" * 32), undoes=5, undo_top=4, redo_top=3, step="a step",
    reason="why · ü",
    actor="ada", trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331", build="takeback 1",
    meta={"b": 1, "a": [None, 1.5]}, namespace="sub", ledger="partial", uses=b"u" * 32,
    files=[FileRoot("src", b"f" * 32, "watch")],
)  # fmt: skip


@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings(name: str) -> None:
    """Each kind of value has these bytes, and these bytes have this value."""
    expected = bytes.fromhex(VECTORS["encodings"][name])
    assert canonical.encode(ENCODINGS[name]).hex() == expected.hex()
    assert repr(canonical.decode(expected)) == repr(
        dict(sorted(ENCODINGS[name].items()))
        if name == "dict 16"
        else canonical.decode(canonical.encode(ENCODINGS[name]))
    )


@pytest.mark.parametrize("name", TREES)
def test_roots(name: str) -> None:
    """Each layout has this root, and rests on these objects."""
    assert root(TREES[name]) == VECTORS["roots"][name]


def test_every_kind_of_node_has_a_vector() -> None:
    kinds = set()
    for value in TREES.values():
        payload, new = tree(value)
        kinds |= {type(nodes.parse(raw)) for raw in [payload, *new.values()] if nodes.is_node(raw)}
    assert kinds == set(nodes._KINDS)


def test_constants() -> None:
    assert {name: value for name, value in vars(f).items() if name.isupper()} == VECTORS["constants"]


def test_limits() -> None:
    """Where one layout ends and the next begins."""
    assert sweep() == VECTORS["sweep"]


def test_a_stored_tree_is_read() -> None:
    """Objects as a store of this format holds them; reading must not depend on how they are written now."""
    stored = {key: base64.b64decode(raw) for key, raw in VECTORS["stored"]["objects"].items()}
    held = {canonical.digest(raw): raw for raw in stored.values()}
    assert [digest.hex() for digest in held] == list(stored)
    value = read(base64.b64decode(VECTORS["stored"]["root"]), Held(held))
    assert canonical.equal(value, STORED)


STORED = {
    "list": [text(n % 50, n) for n in range(400)],
    "big": [text(17_000, 1)],
    "wide": {f"key {n}": n for n in range(1_000)},
    "when": dt.datetime(2026, 3, 1, tzinfo=dt.UTC),
}


def test_a_record() -> None:
    """The bytes that a checkpoint's digest covers, the digest, and its signature."""
    expected = VECTORS["record"]
    made = seal_record(RECORD)
    assert made.record.hex() == expected["record"]
    assert made.digest.hex() == expected["digest"]
    assert sign(made.digest, b"key").hex() == expected["signature"]
    assert read_record("t", bytes.fromhex(expected["record"]), made.digest) == made


def test_addresses() -> None:
    """How an object is named, and the index key that SQLite finds it by."""
    assert canonical.digest(b"takeback").hex() == VECTORS["digest"]
    assert objects.index_key(bytes.fromhex(VECTORS["digest"])) == VECTORS["index_key"]
