"""Finding items: filters on their values, texts in them for an index, and how near two vectors are."""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from takeback.errors import BadRequest
from takeback.model.canonical import equal

Embed = Callable[[list[str]], Sequence[Sequence[float]]]


# --- filters


def matches(value: Any, where: Mapping[str, Any]) -> bool:
    """Whether a value has all that is asked for: `{"city": "Rome", "age": {"$gte": 18}}`, nested alike."""
    if not isinstance(where, Mapping):
        raise BadRequest(f"where={where!r} is no filter", hint='For example {"city": "Rome"}')
    return isinstance(value, Mapping) and all(_fits(value.get(key), asked) for key, asked in where.items())


def _fits(value: Any, asked: Any) -> bool:
    if isinstance(asked, Mapping):
        if any(str(key).startswith("$") for key in asked):
            return all(_operator(name)(value, operand) for name, operand in asked.items())
        return matches(value, asked)
    if isinstance(asked, tuple | list):
        return (
            isinstance(value, list)
            and len(value) == len(asked)
            and all(_fits(one, two) for one, two in zip(value, asked, strict=True))
        )
    return _same(value, asked)


def _same(one: Any, two: Any) -> bool:
    if _is_number(one) and _is_number(two):
        return bool(one == two)
    return equal(one, two)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers by value, texts and times by order; what cannot be compared does not fit."""

    def fits(value: Any, operand: Any) -> bool:
        if _is_number(value) and _is_number(operand):
            return compare(value, operand)
        return type(value) is type(operand) and not isinstance(value, dict | list) and compare(value, operand)

    return fits


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _choices(operand: Any) -> Iterable[Any]:
    if not isinstance(operand, list | tuple | set | frozenset):
        raise BadRequest(f"{operand!r} is no list of values", hint='For example {"city": {"$in": ["Rome"]}}')
    return operand


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _same,
    "$ne": lambda value, operand: not _same(value, operand),
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": lambda value, operand: any(_same(value, each) for each in _choices(operand)),
    "$nin": lambda value, operand: not any(_same(value, each) for each in _choices(operand)),
    "$contains": lambda value, operand: isinstance(value, list) and any(_same(e, operand) for e in value),
    "$exists": lambda value, operand: (value is not None) == bool(operand),
}


def _operator(name: str) -> Callable[[Any, Any], bool]:
    found = _OPERATORS.get(name)
    if found is None:
        raise BadRequest(f"{name!r} is no operator of a filter", hint=f"Use {', '.join(_OPERATORS)}")
    return found


# --- texts and vectors


def texts(value: Any, fields: Iterable[str]) -> list[tuple[str, str]]:
    """(field, text) of a value: `$` is all of it, `a.b` a path, `a[*].b` one for each item of a list."""
    found: list[tuple[str, str]] = []
    for field in fields:
        if field == "$":
            found.append((field, _text(value)))
            continue
        parts = [part for part in field.replace("[", ".[").split(".") if part]
        found += [(field, _text(leaf)) for leaf in _leaves(value, parts) if leaf is not None]
    return [(field, text) for field, text in found if text]


def _leaves(value: Any, parts: list[str]) -> list[Any]:
    if not parts:
        return [value]
    first, rest = parts[0], parts[1:]
    if first in ("[*]", "*"):
        items = value if isinstance(value, list) else []
        return [leaf for item in items for leaf in _leaves(item, rest)]
    if first.startswith("["):
        place = int(first[1:-1]) if first[1:-1].lstrip("-").isdigit() else None
        if not isinstance(value, list) or place is None or not -len(value) <= place < len(value):
            return []
        return _leaves(value[place], rest)
    return _leaves(value[first], rest) if isinstance(value, Mapping) and first in value else []


def _text(leaf: Any) -> str:
    if isinstance(leaf, str):
        return leaf
    import json

    return json.dumps(leaf, sort_keys=True, ensure_ascii=False, default=str)


def embedded(embed: Embed, texts: list[str]) -> Sequence[Sequence[float]]:
    """What the caller's function makes of texts, as many vectors as there are texts."""
    vectors = embed(texts)
    if len(vectors) != len(texts):
        raise BadRequest(
            f"the index's embed made {len(vectors)} vectors of {len(texts)} texts",
            hint="It is called with a list of texts, and returns a vector for each",
        )
    return vectors


def packed(vector: Sequence[float]) -> bytes:
    """A vector as it is stored: 32-bit floats, of length one, so that nearness is one product."""
    length = math.sqrt(sum(part * part for part in vector))
    if not math.isfinite(length):
        raise BadRequest("the index's embed made a vector that is not finite")
    return array("f", [part / length if length else 0.0 for part in vector]).tobytes()


def nearness(query: bytes, found: Iterable[bytes]) -> float | None:
    """The cosine of the nearest of the vectors; None without any of the same length."""
    asked = array("f", query)
    scores = [sum(map(operator.mul, asked, array("f", each))) for each in found if len(each) == len(query)]
    return max(scores, default=None)


# --- namespaces


def fits(labels: tuple[str, ...], prefix: Sequence[str], suffix: Sequence[str]) -> bool:
    """Whether a namespace begins and ends so; `*` stands for any one label."""
    if len(labels) < max(len(prefix), len(suffix)):
        return False
    ends = labels[len(labels) - len(suffix) :]
    pairs = [*zip(labels, prefix, strict=False), *zip(ends, suffix, strict=True)]
    return all(asked in ("*", label) for label, asked in pairs)
