"""Hypothesis strategies: all that can be stored, states as agents have them, edits, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from takeback.testing.model import GONE, Place

_WORDS = ["log", "n", "plan", "to", "", "a/b", "~", "-", "0", "é", "k" * 40]
_FAR = timedelta(hours=23, minutes=59, seconds=59)


def keys() -> st.SearchStrategy[str]:
    """Often the same few, so that edits and merges meet; among them those that pointers must escape."""
    return st.sampled_from(_WORDS) | st.text(max_size=6)


def times() -> st.SearchStrategy[datetime]:
    """Aware, to the microsecond, with any offset of whole seconds."""
    offsets = st.timedeltas(min_value=-_FAR, max_value=_FAR).map(
        lambda d: timedelta(seconds=d // timedelta(seconds=1))
    )
    zones = offsets.map(timezone)
    return st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=zones)


def scalars() -> st.SearchStrategy[Any]:
    """Each type that holds no others; those that Python takes for equal, often."""
    return st.one_of(
        st.sampled_from([None, True, False, 0, 1, 0.0, -0.0, 1.0, "", b"", 2**63 - 1, -(2**63)]),
        st.integers(min_value=-(2**63), max_value=2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=20),
        st.binary(max_size=20),
        times(),
    )


def values(max_leaves: int = 12) -> st.SearchStrategy[Any]:
    """Any value that can be stored, nested; now and then one that takes many objects."""
    small: st.SearchStrategy[Any] = st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys(), inner, max_size=5),
        max_leaves=max_leaves,
    )
    return st.one_of([small] * 9 + [big()])


def big() -> st.SearchStrategy[Any]:
    """Values beyond the sizes at which a tree begins new nodes: long lists, wide dicts, long strings."""
    return st.builds(
        _big,
        st.sampled_from(["list", "dict", "text", "nested"]),
        st.sampled_from([20, 90, 300, 500]),
        st.integers(min_value=0, max_value=3),
    )


def _big(kind: str, count: int, seed: int) -> Any:
    if kind == "list":
        return long_list(count, seed)
    if kind == "dict":
        return {f"key {number}": item for number, item in enumerate(long_list(count, seed))}
    if kind == "text":
        return f"{seed}" * count * 40
    return [{"rows": long_list(count, seed)}, long_list(count // 2, seed)]


def long_list(count: int, seed: int) -> list[Any]:
    """The same for the same numbers; items of several sizes, some of them equal."""
    return [{"n": (n * 7919 + seed) % 97, "text": "x" * ((n * n + seed) % 180)} for n in range(count)]


def states() -> st.SearchStrategy[Any]:
    """Mostly what agents have: a dict with a list that grows; sometimes anything."""
    common: st.SearchStrategy[Any] = st.fixed_dictionaries(
        {"log": st.lists(scalars(), max_size=4)},
        optional={
            "n": scalars(),
            "to": st.sampled_from(["NYC", "BOS", None]),
            "plan": st.dictionaries(keys(), values(4), max_size=3),
            "more": values(),
        },
    )
    return st.one_of(common, common, common, values())


def plain_values() -> st.SearchStrategy[Any]:
    """Few and small, so that much is done in little time, and what is done meets."""
    return st.sampled_from([0, 1, 1.0, -0.0, "x", None, [], [1], {"a": 1}])


def plain_states() -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({"log": st.lists(plain_values(), max_size=3), "n": plain_values()})


def places(value: Any, place: Place = ()) -> list[Place]:
    """Every place in a value, the whole first; of a long list only some."""
    found: list[Place] = [place]
    if isinstance(value, dict):
        inside: list[str | int] = [*sorted(value)[:20]]
    elif isinstance(value, list):
        inside = [*range(min(len(value), 6)), *range(max(6, len(value) - 2), len(value))]
    else:
        inside = []
    for part in inside:
        found += places(value[part], (*place, part))
    return found


@st.composite
def edits(draw: st.DrawFn, value: Any, new: st.SearchStrategy[Any]) -> dict[Place, Any]:
    """Edits of a value that all lead somewhere, and of which none lies within another; one per list."""
    there = places(value)
    inside = [place for place in there if place]
    containers = [place for place in there if isinstance(_at(value, place), (dict, list))]
    found: dict[Place, Any] = {}
    for _ in range(draw(st.integers(min_value=0, max_value=4))):
        if inside and (not containers or draw(st.booleans())):
            place: Place = draw(st.sampled_from(inside))
        elif containers:
            parent: Place = draw(st.sampled_from(containers))
            place = (*parent, "-" if isinstance(_at(value, parent), list) else draw(keys()))
        else:
            break
        if not any(_meet(place, other, value) for other in found):
            gone = place in there and draw(st.booleans())
            found[place] = GONE if gone else draw(new)
    return found


def _meet(a: Place, b: Place, value: Any) -> bool:
    shorter = min(len(a), len(b))
    if a[:shorter] == b[:shorter]:
        return True
    lists = [n for n in range(shorter) if a[:n] == b[:n] and isinstance(_at(value, a[:n]), list)]
    return bool(lists)


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def refused_values() -> st.SearchStrategy[Any]:
    """What no store keeps, at some depth."""
    bad: st.SearchStrategy[Any] = st.sampled_from(
        [float("nan"), float("inf"), 2**63, {1}, (1,), bytearray(b"x"), "\ud800", {1: 2}, {"\udfff": 1},
         datetime(2026, 1, 1), object(), len]
    )  # fmt: skip
    return st.recursive(
        bad,
        lambda inner: (
            st.builds(lambda item, rest: [*rest, item], inner, st.lists(scalars(), max_size=3))
            | st.builds(lambda item, key: {key: item}, inner, keys())
        ),
        max_leaves=3,
    )
