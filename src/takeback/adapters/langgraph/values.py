"""What a graph holds as plain values, and back.

JSON-like values stay as they are. What LangGraph's serialiser knows beyond them (messages, pydantic models,
dataclasses, sets, …) is kept with its type's name and its fields, so that it can be read, compared and
searched like the rest; it is made back by that serialiser, with its list of allowed types. What any other
serialiser writes, an encrypting one for example, is kept as its bytes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any
from uuid import UUID

import ormsgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from takeback.errors import BadState, Unstorable
from takeback.model import canonical

TYPE, EXT, PAIRS, SEALED = "$type", "$ext", "$dict", "$sealed"
_PYDANTIC = 5  # the serialiser's code for a pydantic model: module, name, fields, how to make it
_METHOD = 3  # … and for what a method of the type makes: module, name, argument, method
_VALIDATE = "model_validate_json"
_SCALARS = frozenset({str, int, bool, type(None), bytes})
_PRINT = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
)
_BACK = ormsgpack.OPT_NON_STR_KEYS
_MESSAGES = "langchain_core.messages."


class _Opaque(Exception):
    """Not to be taken apart: kept as the serialiser's bytes."""


class _Ext:
    """What the serialiser wrote for one object."""

    def __init__(self, code: int, of: Any) -> None:
        self.code, self.of = code, of


class Blocked(threading.local):
    """The types that the serialiser refused to make in this thread of execution, since it last was asked."""

    def __init__(self) -> None:
        self.types: list[tuple[str, str]] = []


_blocked = Blocked()


def _listen(event: Any) -> None:
    if event["kind"] in ("msgpack_blocked", "msgpack_method_blocked"):
        _blocked.types.append((event["module"], event["name"]))


register_serde_event_listener(_listen)


class Values:
    """A codec of values by one serialiser."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self.readable = type(serde) is JsonPlusSerializer and not serde.pickle_fallback

    def tree(self, value: Any) -> tuple[Any, bool]:
        """See `Codec`."""
        if type(value) is list:
            found = [self._item(item) for item in value]
            return [plain for plain, _ in found], any(tagged for _, tagged in found)
        return self._item(value)

    def value(self, tree: Any) -> Any:
        """What `tree` was made of."""
        if type(tree) is list and any(_is_sealed(item) for item in tree):
            return [self.value(item) for item in tree]
        if _is_sealed(tree):
            return self._made((tree[SEALED][0], tree[SEALED][1]))
        return self._made(("msgpack", ormsgpack.packb(_back(tree), option=_BACK)))

    def fingerprint(self, items: list[Any]) -> bytes | None:
        """See `Codec`."""
        try:
            return ormsgpack.packb(items, default=_printed, option=_PRINT)
        except (TypeError, ValueError, RecursionError):
            return None

    def _item(self, value: Any) -> tuple[Any, bool]:
        if self.readable:
            try:
                plain = self._apart(value, canonical.MAX_DEPTH - 8)
                return plain, plain is not value or _has_tags(plain)
            except _Opaque:
                pass
        kind, raw = self.serde.dumps_typed(value)
        return {SEALED: [kind, bytes(raw)]}, True

    def _apart(self, value: Any, room: int) -> Any:
        """The value with everything in it that is not plain taken apart; itself where nothing is."""
        kind = type(value)
        if kind in _SCALARS:
            return _scalar(value)
        if room <= 0 or (kind is float and not math.isfinite(value)):
            raise _Opaque
        if kind is float:
            return value
        if kind is dict:
            return self._dict(value, room)
        if kind is list:
            found = [self._apart(item, room - 1) for item in value]
            return value if all(a is b for a, b in zip(found, value, strict=True)) else found
        if isinstance(value, BaseModel):
            nested: Any = _Ext(_PYDANTIC, [kind.__module__, kind.__name__, value.model_dump(), _VALIDATE])
        elif kind is _Ext:
            nested = value
        else:
            nested = self._taken(value)
        return self._ext(nested, room) if type(nested) is _Ext else self._apart(nested, room - 1)

    def _dict(self, value: dict[Any, Any], room: int) -> Any:
        if any(type(key) is not str or key[:1] == "$" or len(key) > 256 for key in value):
            pairs = [[self._apart(key, room - 2), self._apart(item, room - 3)] for key, item in value.items()]
            return {PAIRS: pairs}
        found = {_scalar(key): self._apart(item, room - 1) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found

    def _ext(self, nested: _Ext, room: int) -> Any:
        of = nested.of
        if nested.code == _PYDANTIC and type(of) is list and len(of) == 4 and of[3] == _VALIDATE:
            fields = self._apart(of[2], room - 1)
            if type(fields) is dict and PAIRS not in fields:
                return {TYPE: f"{of[0]}:{of[1]}", **fields}
        return {EXT: nested.code, "of": self._apart(of, room - 2)}

    def _taken(self, value: Any) -> Any:
        """What the serialiser writes for an object, as far as MessagePack can be read without making it."""
        kind, raw = self.serde.dumps_typed(value)
        if kind != "msgpack":
            raise _Opaque
        return ormsgpack.unpackb(raw, ext_hook=_unpacked, option=_BACK)

    def _made(self, typed: tuple[str, bytes]) -> Any:
        _blocked.types = []
        found = self.serde.loads_typed(typed)
        if _blocked.types:
            raise BadState(
                "a value of type "
                + ", ".join(sorted({".".join(each) for each in _blocked.types}))
                + " is stored, which is not in the serialiser's list of types that may be made",
                hint=f"Say so when the saver is made: TakebackSaver(…, allow={sorted(set(_blocked.types))}); "
                "with LANGGRAPH_STRICT_MSGPACK=true LangGraph lists the types of a graph's state itself",
            )
        return found


def allowing(serde: SerializerProtocol, allow: Iterable[type | tuple[str, str]]) -> SerializerProtocol:
    """The serialiser, which may also make these types."""
    names = [(each.__module__, each.__name__) if isinstance(each, type) else each for each in allow]
    if names and isinstance(serde, JsonPlusSerializer):
        return serde.with_msgpack_allowlist(names)
    return serde


def raw_value(raw: bytes) -> Any:
    """What the serialiser's MessagePack says, without making anything of it: `Values.tree` takes it."""
    return ormsgpack.unpackb(raw, ext_hook=_unpacked, option=_BACK)


def _scalar(value: Any) -> Any:
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise _Opaque
    if type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Opaque from None
    if type(value) in (str, bytes) and len(value) > canonical.MAX_ITEM // 4:
        raise Unstorable(f"a value of {len(value):,} bytes is more than one item can hold")
    return value


def _has_tags(plain: Any) -> bool:
    """Whether a plain value is one only because a tag stands for what it was: it then is a dict."""
    return type(plain) is dict and bool(plain.keys() & {TYPE, EXT, PAIRS, SEALED})


def _is_sealed(tree: Any) -> bool:
    return type(tree) is dict and len(tree) == 1 and SEALED in tree


def _unpacked(code: int, data: bytes) -> _Ext:
    return _Ext(code, ormsgpack.unpackb(data, ext_hook=_unpacked, option=_BACK))


def _back(tree: Any) -> Any:
    """The tree as what the serialiser's MessagePack is packed from."""
    kind = type(tree)
    if kind is list:
        return [_back(item) for item in tree]
    if kind is not dict:
        return _dated(tree) if isinstance(tree, date) else tree
    if TYPE in tree:
        module, _, name = tree[TYPE].partition(":")
        fields = {
            key: item if type(item) in _SCALARS else _back(item) for key, item in tree.items() if key != TYPE
        }
        return _packed(_PYDANTIC, (module, name, fields, _VALIDATE))
    if EXT in tree:
        return _packed(tree[EXT], _back(tree["of"]))
    if PAIRS in tree:
        return {_key(_back(key)): _back(item) for key, item in tree[PAIRS]}
    return {key: _back(item) for key, item in tree.items()}


def _key(value: Any) -> Any:
    return tuple(map(_key, value)) if type(value) is list else value


def _packed(code: int, of: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, ormsgpack.packb(of, option=_BACK))


def _dated(value: date) -> Any:
    """A time that a state got by hand: as the serialiser keeps them."""
    return _packed(_METHOD, ("datetime", type(value).__name__, value.isoformat(), "fromisoformat"))


def _printed(value: Any) -> Any:
    """For a fingerprint: all that says what the object is. What is not known here is left to the slow way."""
    kind = type(value)
    if kind is tuple:
        return ["tuple", list(value)]
    if kind is _Ext:
        return ["ext", value.code, value.of]
    if isinstance(value, BaseModel) and kind.__module__.startswith(_MESSAGES):
        return [kind.__name__, value.__dict__, value.__pydantic_extra__]
    if kind is datetime or kind is UUID:
        return [kind.__name__, str(value), getattr(value, "fold", 0)]
    raise TypeError
