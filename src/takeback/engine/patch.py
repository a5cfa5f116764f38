"""Ways to say a change: by key, as an RFC 7396 merge patch, as an RFC 6902 JSON Patch.

Nothing here changes what it is given. A result shares with its inputs the parts that stayed the same.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from takeback.errors import BadPatch, BadPath
from takeback.model.canonical import equal
from takeback.model.paths import Part, Path, index, parse, pointer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class Delete(enum.Enum):
    """The type of `DELETE`. An enum, because its members stay one object through copy and pickle."""

    DELETE = "delete"

    def __repr__(self) -> str:
        return "takeback.DELETE"


DELETE: Literal[Delete.DELETE] = Delete.DELETE


# --- by key -------------------------------------------------------------------------------------------


def edits(changes: Mapping[str, Any]) -> list[tuple[Path, Any]]:
    """A patch by key as edits to apply one after another.

    A bare word is a top-level key, a key that starts with "/" is a JSON Pointer. A mapping has no order, so
    every position in it means the list as it was: values are set first, then items removed from the back,
    then items appended.
    """
    if not isinstance(changes, Mapping):
        raise BadPatch(
            f"a patch is a mapping of keys or JSON Pointers, not {type(changes).__name__}",
            hint="Write {'to': 'BOS', '/plan/steps/0/done': True}",
        )
    found = [(_edit_path(key), value) for key, value in changes.items()]
    _refuse_overlaps([path for path, _ in found])
    removed = sorted((edit for edit in found if edit[1] is DELETE), key=_place, reverse=True)
    written = sorted((edit for edit in found if edit[1] is not DELETE), key=_place)
    appended = [edit for edit in written if edit[0][-1] == "-"]
    return [edit for edit in written if edit[0][-1] != "-"] + removed + appended


def apply_edits(value: Any, edits: Iterable[tuple[Path, Any]]) -> Any:
    """The value with the edits made, one after another."""
    draft = Draft(value)
    for path, new in edits:
        if new is DELETE:
            draft.remove(path)
        else:
            draft.put(path, new)
    return draft.value


def _edit_path(key: Any) -> Path:
    if not isinstance(key, str):
        raise BadPatch(f"the key {key!r} of a patch is no text", hint="Name a key, or write a JSON Pointer")
    if not key:
        # As a bare word it would be the key "", as a JSON Pointer the whole state: too far apart to guess.
        raise BadPatch("the empty key of a patch has two meanings", hint="The key '' is written '/'")
    return parse(key)


def _refuse_overlaps(found: list[Path]) -> None:
    """In sorted order, a path stands right before one of those that it is a prefix of."""
    ordered = sorted(found, key=lambda path: [str(part) for part in path])
    for outer, inner in pairwise(ordered):
        if inner[: len(outer)] == outer:
            raise BadPatch(
                f"{pointer(inner)} lies within {pointer(outer)}, which the same patch also sets",
                path=pointer(inner),
                hint="Make one edit of the two",
            )


def _place(edit: tuple[Path, Any]) -> list[tuple[int, str]]:
    """A sort key in which positions of one list stand in the order of their numbers."""
    return [(len(text) if text.isdigit() else 0, text) for text in map(str, edit[0])]


# --- RFC 7396 -----------------------------------------------------------------------------------------


def merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7396: dicts are merged key by key, None removes a key, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, new in patch.items():
        if new is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), new)
    return merged


# --- RFC 6902 -----------------------------------------------------------------------------------------


def json_patch(value: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """RFC 6902: all operations hold, in order, or `BadPatch` says which did not and nothing is changed."""
    if not isinstance(operations, (list, tuple)):
        raise BadPatch(f"a JSON Patch is a list of operations, not {type(operations).__name__}")
    draft = Draft(value)
    for number, operation in enumerate(operations):
        _operate(draft, operation, number)
    return draft.value


def _operate(draft: Draft, operation: Any, number: int) -> None:
    if not isinstance(operation, Mapping):
        raise BadPatch(f"operation {number} is no object but {type(operation).__name__}")
    name, at = operation.get("op"), operation.get("path")
    run = _OPERATIONS.get(name) if isinstance(name, str) else None
    if run is None:
        raise BadPatch(f"operation {number} has no known op: {name!r}", hint=f"Use {', '.join(_OPERATIONS)}")
    try:
        run(draft, _target(operation, "path"), operation)
    except (BadPath, BadPatch) as error:
        where = at if isinstance(at, str) else None
        raise BadPatch(f"operation {number} ({name}): {error.what}", path=where, hint=error.hint) from None


def _target(operation: Mapping[str, Any], member: str) -> Path:
    text = operation.get(member)
    if not isinstance(text, str) or (text and text[0] != "/"):
        raise BadPatch(f"{member!r} is to be a JSON Pointer, not {text!r}")
    return parse(text)


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise BadPatch("'value' is missing")
    return operation["value"]


def _add(draft: Draft, at: Path, operation: Mapping[str, Any]) -> None:
    draft.add(at, _value(operation))


def _replace(draft: Draft, at: Path, operation: Mapping[str, Any]) -> None:
    new = _value(operation)
    draft.get(at)  # the target must exist, which `put` does not ask of a dict's key
    draft.put(at, new)


def _move(draft: Draft, at: Path, operation: Mapping[str, Any]) -> None:
    source = _target(operation, "from")
    moved = draft.get(source)
    if at == source:
        return
    if at[: len(source)] == source:
        raise BadPatch(f"{pointer(source)!r} cannot be moved into itself")
    draft.remove(source)
    draft.add(at, moved)


def _copy(draft: Draft, at: Path, operation: Mapping[str, Any]) -> None:
    # One object at two places would let a later operation on the one reach the other.
    draft.add(at, _copied(draft.get(_target(operation, "from"))))


def _test(draft: Draft, at: Path, operation: Mapping[str, Any]) -> None:
    expected = _value(operation)
    if not _matches(draft.get(at), expected):
        raise BadPatch("the value there is another one than the test expects")


_OPERATIONS: dict[str, Callable[[Draft, Path, Mapping[str, Any]], None]] = {
    "add": _add,
    "remove": lambda draft, at, _: draft.remove(at),
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _matches(a: Any, b: Any) -> bool:
    """Equality as `test` has it (section 4.6): that of canonical bytes, but numbers by numeric value."""
    if _is_number(a) and _is_number(b):
        return bool(a == b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_matches(item, b[key]) for key, item in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_matches, a, b))
    return equal(a, b)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


# --- the value being changed --------------------------------------------------------------------------


class Draft:
    """A value being changed: what is written to is copied first, once, so that the original stays as it was.

    Every path that does not lead anywhere is a `BadPath` that names the deepest place that exists.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        # The copies made so far, by id. They are kept alive, for an id may be used again after its object.
        self._own: dict[int, Any] = {}

    def get(self, path: Path) -> Any:
        """What stands at the path."""
        value = self.value
        for depth, part in enumerate(path):
            value = value[_spot(value, part, path[:depth])]
        return value

    def put(self, path: Path, new: Any) -> None:
        """Set a key of a dict or an existing item of a list; "-" appends."""
        if not path:
            self.value = new
            return
        into, part = self._writable(path[:-1]), path[-1]
        if isinstance(into, list) and part == "-":
            into.append(new)
        else:
            into[_place_for(into, part, path[:-1])] = new

    def add(self, path: Path, new: Any) -> None:
        """Set a key of a dict, or insert before an item of a list (RFC 6902's "add")."""
        into = self._writable(path[:-1]) if path else None
        if isinstance(into, list):
            into.insert(index(path[-1], len(into), at=path[:-1], end=True), new)
        else:
            self.put(path, new)

    def remove(self, path: Path) -> None:
        """Remove what stands at the path."""
        if not path:
            raise BadPath("the whole value cannot be removed", path="")
        parent = self._writable(path[:-1])
        del parent[_spot(parent, path[-1], path[:-1])]

    def _writable(self, path: Path) -> Any:
        self.value = value = self._owned(self.value)
        for depth, part in enumerate(path):
            spot = _spot(value, part, path[:depth])
            child = value[spot] = self._owned(value[spot])
            value = child
        return value

    def _owned(self, value: Any) -> Any:
        if id(value) in self._own or not isinstance(value, (dict, list)):
            return value
        copy: Any = dict(value) if isinstance(value, dict) else list(value)
        self._own[id(copy)] = copy
        return copy


def _spot(value: Any, part: Part, at: Path) -> Part:
    """The key or position of a part that exists."""
    spot = _place_for(value, part, at)
    if isinstance(value, dict) and spot not in value:
        raise BadPath(f"there is no key {part!r}", path=pointer(at))
    return spot


def _place_for(value: Any, part: Part, at: Path) -> Part:
    """The key or position that a part names: any key of a dict, an existing position of a list."""
    if isinstance(value, list):
        return index(part, len(value), at=at)
    if not isinstance(value, dict):
        raise BadPath(f"{type(value).__name__} has nothing inside, so no {part!r}", path=pointer(at))
    if not isinstance(part, str):
        raise BadPath(f"a dict has keys that are text, not {part!r}", path=pointer(at))
    return part
