"""Read-only views of a state: dicts and lists in all but writing, which says how it is done instead."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NoReturn, SupportsIndex, overload

from takeback.errors import ReadOnlyState

_HINT = "Change it in a step (with thread.step(…) as s: s.state[…] = …), with patch, or commit a changed copy"


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise ReadOnlyState("a state that was read cannot be changed", hint=_HINT)


def view(value: Any) -> Any:
    """The value, with its dicts and lists read-only; children follow when they are looked at."""
    if type(value) is dict:
        return ReadOnlyDict(value)
    if type(value) is list:
        return ReadOnlyList(value)
    return value


def thawed(value: Any) -> Any:
    """A copy that may be changed."""
    if isinstance(value, dict):
        return {key: thawed(item) for key, item in dict.items(value)}
    if isinstance(value, list):
        return [thawed(item) for item in list.__iter__(value)]
    return value


class ReadOnlyDict(dict[str, Any]):
    """A dict that is not written to; its children turn into views when they are first looked at."""

    __slots__ = ()
    __takeback_view__ = True

    def __getitem__(self, key: str) -> Any:
        item = dict.__getitem__(self, key)
        if type(item) is dict or type(item) is list:
            item = view(item)
            dict.__setitem__(self, key, item)
        return item

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 (get itself)

    def __iter__(self) -> Iterator[str]:  # overridden, so that dict(view) asks for each child
        return dict.__iter__(self)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]

    def copy(self) -> dict[str, Any]:
        return {key: thawed(item) for key, item in dict.items(self)}

    def __copy__(self) -> dict[str, Any]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return (copy.copy, (self.copy(),))

    def __or__(self, other: Any) -> Any:
        return self.copy() | other

    def __ror__(self, other: Any) -> Any:
        return other | self.copy()

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse


class ReadOnlyList(list[Any]):
    """A list that is not written to; its children turn into views when they are first looked at."""

    __slots__ = ()
    __takeback_view__ = True

    @overload
    def __getitem__(self, place: SupportsIndex) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if isinstance(place, slice):
            return [view(item) for item in list.__getitem__(self, place)]
        item = list.__getitem__(self, place)
        if type(item) is dict or type(item) is list:
            item = view(item)
            list.__setitem__(self, place, item)
        return item

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self) - 1, -1, -1))

    def copy(self) -> list[Any]:
        return [thawed(item) for item in list.__iter__(self)]

    def __copy__(self) -> list[Any]:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return self.copy()

    def __reduce__(self) -> Any:
        return (copy.copy, (self.copy(),))

    def __add__(self, other: Any) -> list[Any]:
        return [*self.copy(), *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self.copy()] if isinstance(other, list) else NotImplemented

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return self.copy() * times

    __rmul__ = __mul__

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __iadd__ = __imul__ = _refuse
