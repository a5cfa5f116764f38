"""The canonical encoding: what goes in comes back exactly, and what would not is refused with its path."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
import struct
import uuid
import zoneinfo
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any

import msgspec
import ormsgpack
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import CorruptObject, TooDeep, TooLarge, Unstorable
from takeback.model import canonical
from takeback.model.canonical import decode, encode, equal, pack
from takeback.model.frozen import view

UTC = dt.UTC
INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def zone(**offset: int) -> dt.timezone:
    return dt.timezone(dt.timedelta(**offset))


TIMES = st.datetimes(
    timezones=st.builds(
        lambda s: zone(seconds=s), st.integers(-86399, 86399) | st.sampled_from([0, 3600, -19800, 1, -86399])
    )
)
TEXT = st.text(max_size=20)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(INT_MIN, INT_MAX)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.binary(max_size=40)
    | TIMES
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=25,
)


def strict(value: Any) -> Any:
    """A value with its types, so that == does not take 1, 1.0 and True for one another."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, float):
        return float, struct.pack(">d", value)
    if isinstance(value, dt.datetime):
        return dt.datetime, value.replace(tzinfo=None), value.utcoffset()
    return type(value), value


def nested(levels: int, inside: Any = 1) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


# --- there and back


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    """Types, bits of floats, offsets and microseconds: nothing is rounded, normalised or dropped."""
    assert strict(decode(encode(value))) == strict(value)


@given(VALUES)
def test_one_value_has_one_encoding(value: Any) -> None:
    """What was read encodes to the bytes it was read from, so a digest says something about the value."""
    assert encode(decode(encode(value))) == encode(value)


@given(st.dictionaries(TEXT, LEAVES, max_size=8), st.randoms())
def test_the_order_of_keys_does_not_count(value: dict[str, Any], random: Any) -> None:
    """Keys are sorted by code point; insertion order is not kept."""
    keys = list(value)
    random.shuffle(keys)
    assert encode({key: value[key] for key in keys}) == encode(value)
    assert list(decode(encode(value))) == sorted(value)


@given(VALUES, VALUES)
def test_equal_is_equal_bytes(a: Any, b: Any) -> None:
    assert equal(a, b) == (pack(a) == pack(b)) == (strict(a) == strict(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True), (0, False), (1, 1.0), (0.0, -0.0), ("1", 1), (b"a", "a"), (None, False), ([], {}),
        ("é", "e\u0301"),
        (dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 1, 1, tzinfo=zone(hours=1))),
        ({"a": 1}, {"a": True}), ([0.0], [-0.0]), ({"a": None}, {}),
    ],
)  # fmt: skip
def test_values_that_python_takes_for_one_another(a: Any, b: Any) -> None:
    """Diff, merge and the model tell them apart by their bytes."""
    assert not equal(a, b)
    assert canonical.digest(pack(a)) != canonical.digest(pack(b))
    assert strict(decode(encode([a, b]))) == [strict(a), strict(b)]


@given(VALUES)
def test_each_reading_is_fresh(value: Any) -> None:
    """What a caller does with a value that it read does not show in the next reading."""
    raw = encode([value])
    first = decode(raw)
    first.append("changed")
    if isinstance(first[0], dict):
        first[0]["changed"] = 1
    if isinstance(first[0], list):
        first[0].append("changed")
    assert strict(decode(raw)) == strict([value])


def test_edges_of_numbers() -> None:
    """All of 64 bits signed, and every finite double, subnormals among them."""
    for value in (INT_MIN, INT_MAX, -1, 0, 2**53 + 1, 5e-324, -5e-324, 1.7976931348623157e308, 0.1):
        assert strict(decode(encode(value))) == strict(value)


# --- times


@pytest.mark.parametrize(
    "time",
    [
        dt.datetime(2026, 3, 1, 12, 0, 0, 1, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        dt.datetime(2026, 3, 1, 12, tzinfo=zone(hours=5, minutes=45)),
        dt.datetime(2026, 3, 1, 12, tzinfo=zone(hours=-23, minutes=-59)),
        dt.datetime(1890, 1, 1, tzinfo=zone(minutes=17, seconds=30)),
        dt.datetime.min.replace(tzinfo=UTC),
        dt.datetime.max.replace(tzinfo=UTC),
        dt.datetime.min.replace(tzinfo=zone(hours=14)),
        dt.datetime.max.replace(tzinfo=zone(hours=-12)),
    ],
    ids=str,
)
def test_a_time_keeps_its_offset_and_microseconds(time: dt.datetime) -> None:
    """From the first moment that Python knows to the last: what can be written can be read."""
    back = decode(encode(time))
    assert (back, back.utcoffset(), back.replace(tzinfo=None)) == (
        time,
        time.utcoffset(),
        time.replace(tzinfo=None),
    )


def test_a_time_of_a_place_keeps_what_its_clock_showed() -> None:
    """The name of a zone is not kept; the offset that held at that moment is."""
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for month, hours in ((1, 1), (7, 2)):
        back = decode(encode(dt.datetime(2026, month, 1, 12, tzinfo=berlin)))
        assert back == dt.datetime(2026, month, 1, 12, tzinfo=zone(hours=hours))
        assert back.utcoffset() == dt.timedelta(hours=hours)


def test_micros() -> None:
    assert canonical.micros(dt.datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert canonical.micros(dt.datetime(1970, 1, 1, 1, 0, 0, 7, tzinfo=zone(hours=1))) == 7
    assert canonical.micros(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


# --- what is refused


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Plain:
    def __repr__(self) -> str:
        return "<plain>"


Pair = namedtuple("Pair", "a b")

REFUSED = {
    "set": ({1}, "sorted list"),
    "frozenset": (frozenset({1}), "sorted list"),
    "function": (lambda: 1, "store its name"),
    "builtin": (len, "use dict, list"),
    "class": (Plain, "use dict, list"),
    "instance": (Plain(), "use dict, list"),
    "nan": (float("nan"), "use None"),
    "inf": (float("inf"), "use None"),
    "-inf": (float("-inf"), "use None"),
    "tuple": ((1, 2), "use a list"),
    "namedtuple": (Pair(1, 2), "use dict, list"),
    "naive datetime": (dt.datetime(2026, 1, 1), "time zone"),
    "offset below a second": (dt.datetime(2026, 1, 1, tzinfo=zone(microseconds=1)), "offset"),
    "date": (dt.date(2026, 1, 1), "isoformat"),
    "time": (dt.time(1), "use dict, list"),
    "timedelta": (dt.timedelta(1), "use dict, list"),
    "surrogate": ("a\ud800b", "surrogate"),
    "int 2**63": (2**63, "64-bit"),
    "int 2**64": (2**64, "64-bit"),
    "int -2**63-1": (-(2**63) - 1, "64-bit"),
    "int 10**5000": (10**5000, "64-bit"),
    "bytearray": (bytearray(b"x"), "use bytes"),
    "memoryview": (memoryview(b"x"), "use bytes"),
    "Ext": (ormsgpack.Ext(1, b"\0" * 12), "use dict, list"),
    "Ext that forges a reference": (ormsgpack.Ext(3, b"\0" * 32), "use dict, list"),
    "Fragment": (ormsgpack.Fragment(b"\x01"), "use dict, list"),
    "msgspec raw": (msgspec.Raw(b"\x01"), "use dict, list"),
    "StrEnum": (Colour.RED, "use dict, list"),
    "IntEnum": (Number.ONE, "use dict, list"),
    "str subclass": (Text("x"), "use dict, list"),
    "int subclass": (Whole(1), "use dict, list"),
    "dict subclass": (OrderedDict(a=1), "use dict, list"),
    "list subclass": (type("Rows", (list,), {})([1]), "use dict, list"),
    "Decimal": (Decimal("1.10"), "text"),
    "UUID": (uuid.UUID(int=1), "text"),
    "complex": (1j, "use dict, list"),
    "generator": ((x for x in [1]), "use dict, list"),
    "ellipsis": (..., "use dict, list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stored_is_refused_where_it_stands(name: str) -> None:
    """The error names the path, the kind of value and what to do; nothing is converted in silence."""
    value, advice = REFUSED[name]
    for whole, path in [
        (value, ""),
        ([1, value], "/1"),
        ({"a": {"b": [0, {"c/d~": value}]}}, "/a/b/1/c~1d~0"),
        ({"many": [1] * 500 + [value]}, "/many/500"),
    ]:
        with pytest.raises(Unstorable) as caught:
            encode(whole)
        assert (caught.value.path, caught.value.kind) == (path, "unstorable")
        assert advice in str(caught.value)
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("key", [1, 1.0, True, None, b"a", ("a",), Text("a"), Colour.RED, "\ud800"], ids=repr)
def test_keys_are_plain_strings(key: Any) -> None:
    with pytest.raises(Unstorable, match="key") as caught:
        encode({"a": [{key: 1}]})
    assert caught.value.path == "/a/0"


def test_where_a_value_is_said_to_stand() -> None:
    """A path that was given goes in front: parts of a state are encoded one by one."""
    with pytest.raises(Unstorable) as caught:
        encode({"x": {1}}, ("plan", 3))
    assert caught.value.path == "/plan/3/x"


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x92\x01", b"\xd4\x09\x00", b"\xa1\xff"], ids=bytes.hex)
def test_bytes_that_are_no_value(raw: bytes) -> None:
    """Damaged bytes are said to be damaged, never read as something else."""
    with pytest.raises(CorruptObject):
        decode(raw)


@pytest.mark.parametrize(
    ("tag", "data"),
    [
        (2, b"\0" * 12),
        (1, b"\0" * 11),
        (1, b"\x7f" * 12),
        (1, b"\x7f" + b"\0" * 11),
        (1, b"\0" * 8 + b"\x7f\0\0\0"),
    ],
)
def test_extensions_that_are_no_time(tag: int, data: bytes) -> None:
    with pytest.raises(CorruptObject):
        decode(ormsgpack.packb(ormsgpack.Ext(tag, data)))


# --- limits


def test_depth() -> None:
    """128 levels are stored and read, 129 are refused, however deep it goes on below."""
    assert decode(encode(nested(128))) == nested(128)
    wrapped: Any = 1
    for _ in range(128):
        wrapped = {"k": wrapped}
    assert decode(encode(wrapped)) == wrapped
    for value in (nested(129), {"k": wrapped}, nested(5_000), nested(200_000), nested(129, {"a": {1}})):
        with pytest.raises(TooDeep, match="128 levels"):
            encode(value)


def test_depth_counts_from_where_the_value_stands() -> None:
    at = ("k",) * 100
    assert encode(nested(28), at) == encode(nested(28))
    with pytest.raises(TooDeep):
        encode(nested(29), at)


def test_a_value_that_holds_itself_is_refused() -> None:
    """An error, not an endless walk."""
    loop: list[Any] = [1]
    loop.append(loop)
    knot: dict[str, Any] = {"a": {}}
    knot["a"]["b"] = [knot]
    for value in (loop, knot, {"x": loop}):
        with pytest.raises(TooDeep):
            encode(value)


def test_keys_have_a_limit() -> None:
    assert decode(encode({"k" * 4096: 1})) == {"k" * 4096: 1}
    assert decode(encode({"線" * 4096: 1})) == {"線" * 4096: 1}
    with pytest.raises(TooLarge, match="4,097 characters") as caught:
        encode({"a": [{"k" * 4097: 1}]})
    assert caught.value.path == "/a/0"


# --- models


@dataclasses.dataclass
class Step:
    name: str
    done: bool = False
    inner: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    b: int
    a: list[Any]


class Message(msgspec.Struct):
    role: str
    parts: list[Any] = []


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", populate_by_name=True)
    name: str = pydantic.Field(alias="fullName")
    born: dt.datetime | None = None
    friends: list[Person] = []


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        (Step("a"), {"name": "a", "done": False, "inner": None}),
        (Slotted(1, [Slotted(2, [])]), {"b": 1, "a": [{"b": 2, "a": []}]}),
        (Message("user", [Step("x", inner=Message("m"))]), None),
        (Person(name="Ada"), {"name": "Ada", "born": None, "friends": []}),
        (Person(name="Ada", extra=[1], friends=[Person(name="Bob")]), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_are_taken_apart(model: Any, plain: Any) -> None:
    """A model object is stored as the dict of its fields, at every depth; private parts are no state."""
    if plain is None:
        plain = (
            json.loads(msgspec.json.encode(model, enc_hook=lambda p: p.model_dump()).decode())
            if isinstance(model, msgspec.Struct)
            else model.model_dump()
        )
    assert strict(decode(encode(model))) == strict(plain)
    assert encode({"a": [model]}) == encode({"a": [plain]})
    assert equal(model, plain)
    assert decode(pack(canonical.take_apart(model))) == plain


def test_what_a_model_holds_is_looked_at() -> None:
    """A refusal inside a model names the field."""
    for model in (Step("a", inner=[{1}]), Message("a", [Step("b", inner=float("nan"))])):
        with pytest.raises(Unstorable) as caught:
            encode({"m": model})
        assert caught.value.path in {"/m/inner/0", "/m/parts/0/inner"}


def test_a_model_counts_as_a_level() -> None:
    deep: Any = 1
    for _ in range(128):
        deep = Step("x", inner=deep)
    assert encode(deep)
    with pytest.raises(TooDeep):
        encode(Step("x", inner=deep))
    knot = Step("x")
    knot.inner = [knot]
    with pytest.raises(TooDeep):
        encode(knot)


def test_plain_values_are_not_taken_apart() -> None:
    for value in ({"a": 1}, [1], "a", 1, dt.datetime(2026, 1, 1, tzinfo=UTC), Plain):
        assert canonical.take_apart(value) is value


@given(VALUES)
def test_views_are_what_they_show(value: Any) -> None:
    """A state that was read can be committed again as it is."""
    assert encode(view(value)) == encode(value)


def test_a_digest_is_of_the_bytes() -> None:
    assert canonical.digest(b"") != canonical.digest(b"\0")
    assert len(canonical.digest(b"")) == 32
