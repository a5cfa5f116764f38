"""The canonical encoding of values: one value, one byte string, and nothing that could not be read back.

A value is a dict with string keys, list, str, int, float, bool, None, bytes or an aware datetime.
Dataclasses, msgspec structs and pydantic models are taken apart on the way in. Everything else is
refused with the path at which it stands. Two values are equal when their encodings are: 1, 1.0 and
True are three values, 0.0 and -0.0 are two.
"""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NoReturn

import ormsgpack
from blake3 import blake3

from takeback.errors import CorruptObject, TooDeep, TooLarge, Unstorable
from takeback.model.paths import Path, pointer

# Limits of the format: a store written with others could not be read back by this build.
MAX_DEPTH = 128
MAX_KEY = 4096  # characters
MAX_ITEM = 64 << 20  # bytes of one string
MAX_STATE = 512 << 20  # bytes of one encoded state
MAX_META = 64 << 10  # bytes of a checkpoint's or thread's metadata

_OPTIONS = (
    ormsgpack.OPT_SORT_KEYS
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_EXT_TIME = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NONE = type(None)


def digest(payload: bytes) -> bytes:
    """The address of a stored object."""
    return blake3(payload).digest()


def encode(value: Any, at: Path = ()) -> bytes:
    """The one encoding of a value; refuses, with the path, what could not be read back exactly."""
    raw = pack(value, at)
    check(value, at)
    return raw


def pack(value: Any, at: Path = ()) -> bytes:
    """Encode without looking for what the encoder lets through; `check` what is new afterwards."""
    try:
        return ormsgpack.packb(value, _default, _OPTIONS)
    except (TypeError, ValueError, RecursionError):
        _refuse(value, at)


def check(value: Any, at: Path = ()) -> None:
    """Refuse what the encoder lets through: NaN, infinities, extension values, big integers, great depth."""
    if not _sound(value, MAX_DEPTH - len(at)):
        _refuse(value, at)


def decode(raw: bytes) -> Any:
    """The value that was encoded; a fresh one on each call."""
    try:
        return ormsgpack.unpackb(raw, ext_hook=_extension)
    except ValueError as error:
        raise CorruptObject(f"stored bytes are no encoded value: {error}") from None


def equal(a: Any, b: Any) -> bool:
    """Equality of values is equality of canonical bytes."""
    return a is b or pack(a) == pack(b)


def micros(value: datetime) -> int:
    """An aware datetime as microseconds since 1970."""
    return (value - _EPOCH) // _MICROSECOND


def take_apart(value: Any) -> Any:
    """A model object as the plain value that it stands for; plain values come back as they are."""
    if type(value) in _PLAIN or isinstance(value, datetime):
        return value
    return _model(value)


def _sound(value: Any, room: int) -> bool:
    kind = type(value)
    if kind is str or kind is bool or kind is _NONE:
        return True
    if kind is dict:
        if room <= 0:
            return False
        for key, item in value.items():
            if len(key) > MAX_KEY or (type(item) is not str and not _sound(item, room - 1)):
                return False
        return True
    if kind is list:
        return room > 0 and all(type(item) is str or _sound(item, room - 1) for item in value)
    if kind is int:
        number: int = value
        return -0x8000_0000_0000_0000 <= number <= 0x7FFF_FFFF_FFFF_FFFF
    if kind is float:
        return math.isfinite(value)
    if kind is bytes or isinstance(value, datetime):
        return True
    plain = _model(value)
    return (plain is not value) and _sound(plain, room)


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return ormsgpack.Ext(_EXT_TIME, _time_bytes(value))
    plain = _model(value)
    if plain is value:
        raise TypeError("unstorable")
    return plain


def _model(value: Any) -> Any:
    """One level of a dataclass, msgspec struct or pydantic model; anything else unchanged."""
    kind = type(value)
    if isinstance(value, dict) and getattr(kind, "__takeback_view__", False):
        return dict(value)
    if isinstance(value, list) and getattr(kind, "__takeback_view__", False):
        return list(value)
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(kind, "__struct_fields__"):
        return {name: getattr(value, name) for name in kind.__struct_fields__}
    if hasattr(kind, "model_fields") and hasattr(kind, "model_dump"):
        return dict(value)
    return value


def _time_bytes(value: datetime) -> bytes:
    offset = value.utcoffset()
    if offset is None:
        raise TypeError("naive datetime")
    seconds, rest = divmod(offset, timedelta(seconds=1))
    if rest:
        raise TypeError("offset below a second")
    return micros(value).to_bytes(8, "big", signed=True) + seconds.to_bytes(4, "big", signed=True)


def _extension(tag: int, data: bytes) -> Any:
    if tag != _EXT_TIME or len(data) != 12:
        raise ValueError(f"unknown extension {tag}")
    offset = timedelta(seconds=int.from_bytes(data[8:], "big", signed=True))
    # What the clock showed there: in UTC the first and last hours that Python knows would be out of reach.
    local = int.from_bytes(data[:8], "big", signed=True) * _MICROSECOND + offset
    return datetime(1970, 1, 1, tzinfo=timezone(offset)) + local


def _refuse(value: Any, at: Path) -> NoReturn:
    """Find the offender; only failures pay for this walk."""
    _search(value, at)
    raise Unstorable("this value cannot be encoded", path=pointer(at))


def _search(value: Any, at: Path) -> None:
    if len(at) > MAX_DEPTH:
        raise TooDeep(f"nested deeper than {MAX_DEPTH} levels", path=pointer(at[:8]) + "/…")
    if isinstance(value, (str, bytes)) and len(value) > MAX_ITEM:
        raise TooLarge(f"a string of {len(value):,} bytes; the limit is {MAX_ITEM:,}", path=pointer(at))
    reason = _reason(value)
    if reason:
        raise Unstorable(f"{_shown(value)} cannot be stored: {reason}", path=pointer(at))
    plain = value if type(value) in _PLAIN or isinstance(value, datetime) else _model(value)
    if isinstance(plain, dict):
        if len(at) >= MAX_DEPTH:
            _search_depth(at)
        for key, item in plain.items():
            check_key(key, at)
            _search(item, (*at, key))
    elif isinstance(plain, list):
        if len(at) >= MAX_DEPTH:
            _search_depth(at)
        for position, item in enumerate(plain):
            _search(item, (*at, position))


def _search_depth(at: Path) -> NoReturn:
    raise TooDeep(f"nested deeper than {MAX_DEPTH} levels", path=pointer(at[:8]) + "/…")


def check_key(key: Any, at: Path) -> None:
    """Refuse a key that is no plain string, too long, or not to be encoded."""
    if type(key) is not str:
        raise Unstorable(f"the key {_shown(key)} cannot be stored: keys are strings", path=pointer(at))
    if len(key) > MAX_KEY:
        raise TooLarge(f"a key of {len(key):,} characters; the limit is {MAX_KEY:,}", path=pointer(at))
    if _surrogate(key):
        raise Unstorable("a key has a lone surrogate, which no encoding can hold", path=pointer(at))


def _reason(value: Any) -> str | None:
    kind = type(value)
    if kind in (dict, list, bool, bytes, _NONE):
        return None
    if kind is str:
        return "it has a lone surrogate, which no encoding can hold" if _surrogate(value) else None
    if kind is int:
        return None if -(2**63) <= value < 2**63 else "integers are signed 64-bit; keep it as text"
    if kind is float:
        return None if math.isfinite(value) else "NaN and infinities are refused; use None"
    if isinstance(value, datetime):
        return _time_reason(value)
    if _model(value) is not value:
        return None
    return _ADVICE.get(
        kind.__name__, "use dict, list, str, int, float, bool, None, bytes or an aware datetime"
    )


def _time_reason(value: datetime) -> str | None:
    if value.utcoffset() is None:
        return "it is naive; give it a time zone"
    try:
        _time_bytes(value)
    except TypeError as error:
        return str(error)
    return None


def _surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of somebody else's class, or an integer too long for Python to show
        text = "…"
    return f"{type(value).__name__} {text[:40] + '…' if len(text) > 40 else text}"


_PLAIN = frozenset({dict, list, str, int, float, bool, bytes, _NONE})
_ADVICE = {
    "tuple": "use a list",
    "set": "sets have no order; use a sorted list",
    "frozenset": "sets have no order; use a sorted list",
    "bytearray": "use bytes",
    "memoryview": "use bytes",
    "Decimal": "keep it as text, or as an integer of its smallest unit",
    "UUID": "keep it as text",
    "date": "keep it as text (isoformat)",
    "function": "code is not state; store its name",
}
