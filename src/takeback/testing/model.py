"""A model of threads in dicts and lists: what the documentation promises, written without the engine.

It is what a store is compared with, so nothing here knows how versions are stored, found or merged. Where
the documentation leaves more than one result open (the merge of two different edits of one list), the
model says that it is unsure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias, TypedDict

import msgspec

Place: TypeAlias = "tuple[str | int, ...]"
Node: TypeAlias = "tuple[int, int]"  # a thread's number and a version of it


class Gone:
    """The type of `GONE`: nothing stands there, or what stands there is to go."""

    def __repr__(self) -> str:
        return "GONE"


GONE: Final = Gone()


class Refused(Exception):
    """What was asked is refused, with an error of this kind, and changes nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


class Outcome(msgspec.Struct):
    """What a merge comes to: a value, unless there are clashes; more than one value is right if `unsure`."""

    value: Any
    clashes: list[Place] = []
    unsure: bool = False


class Version(TypedDict):
    """One version. `undo` and `redo` are the versions that each further call goes to, the next one last."""

    kind: str
    value: Any
    undo: list[int]
    redo: list[int]
    parents: list[Node]
    restores: Node | None


class Line(TypedDict):
    """One thread: its number is never given again."""

    number: int
    versions: list[Version]
    labels: dict[str, int]


# --- values -------------------------------------------------------------------------------------------


def fingerprint(value: Any) -> Any:
    """The same for equal values alone: 1, 1.0 and True are three, 0.0 and -0.0 two, keys have no order."""
    if isinstance(value, dict):
        return ("dict", tuple((key, fingerprint(value[key])) for key in sorted(value)))
    if isinstance(value, list):
        return ("list", tuple(fingerprint(item) for item in value))
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, datetime):
        offset = value.utcoffset()
        assert offset is not None
        return ("time", (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), offset)
    return (type(value).__name__, value)


def same(a: Any, b: Any) -> bool:
    """Equality as a store has it."""
    return bool(fingerprint(a) == fingerprint(b))


def fresh(value: Any) -> Any:
    """A copy that shares nothing, not even with itself, as what was encoded and read again."""
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    return [fresh(item) for item in value] if isinstance(value, list) else value


def at(value: Any, place: Place) -> Any:
    """What stands at a place."""
    for part in place:
        value = value[_spot(value, part)]
    return value


def edited(value: Any, edits: Mapping[Place, Any]) -> Any:
    """A copy with the edits made: values are set first, then items removed from the back, then appended."""
    whole = {"": fresh(value)}
    for place, new in sorted(edits.items(), key=lambda edit: _turn(*edit)):
        parent = at(whole, ("", *place[:-1]))
        if isinstance(parent, list) and place[-1] in ("-", len(parent)) and new is not GONE:
            parent.append(fresh(new))
        elif new is GONE:
            del parent[_spot(parent, place[-1])]
        else:
            parent[_spot(parent, place[-1], new=True)] = fresh(new)
    return whole[""]


def extended(value: Any, place: Place, items: Iterable[Any]) -> Any:
    """A copy with items added to the list at a place."""
    whole = {"": fresh(value)}
    target = at(whole, ("", *place))
    if not isinstance(target, list):
        raise Refused("bad_path")
    target.extend(fresh(list(items)))
    return whole[""]


def _turn(place: Place, new: Any) -> tuple[int, int]:
    if new is GONE:
        return (1, -place[-1] if isinstance(place[-1], int) else 0)
    return (2, 0) if place[-1] == "-" else (0, 0)


def _spot(value: Any, part: str | int, *, new: bool = False) -> Any:
    if isinstance(value, dict) and isinstance(part, str) and (new or part in value):
        return part
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return part
    raise Refused("bad_path")


# --- merging ------------------------------------------------------------------------------------------


def merged(base: Any, ours: Any, theirs: Any, place: Place = ()) -> Outcome:
    """Both sides' changes: dicts key by key, lists by what was appended, theirs first; else a clash."""
    if _alike(base, ours):
        return Outcome(theirs)
    if _alike(base, theirs):
        return Outcome(ours)
    if isinstance(base, list) and isinstance(ours, list) and isinstance(theirs, list):
        return _merged_lists(base, ours, theirs)
    was = {} if base is GONE else base
    if isinstance(was, dict) and isinstance(ours, dict) and isinstance(theirs, dict):
        return _merged_dicts(was, ours, theirs, place)
    if _alike(ours, theirs):
        return Outcome(theirs)
    return Outcome(theirs, [place])


def _alike(a: Any, b: Any) -> bool:
    return a is b if a is GONE or b is GONE else same(a, b)


def _merged_dicts(
    base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], place: Place
) -> Outcome:
    whole = Outcome({})
    for key in sorted({*base, *ours, *theirs}):
        was, mine, other = (side.get(key, GONE) for side in (base, ours, theirs))
        found = merged(was, mine, other, (*place, key))
        whole.clashes = whole.clashes + found.clashes
        whole.unsure = whole.unsure or found.unsure
        if found.value is not GONE:
            whole.value[key] = found.value
    return whole


def _merged_lists(base: list[Any], ours: list[Any], theirs: list[Any]) -> Outcome:
    if _begins(ours, base) and _begins(theirs, base):
        return Outcome(theirs + ours[len(base) :])
    for shorter, longer in ((ours, theirs), (theirs, ours)):
        if _begins(base, shorter) and _begins(longer, base):
            return Outcome(shorter + longer[len(base) :])
    return Outcome(theirs, unsure=True)


def _begins(items: list[Any], start: list[Any]) -> bool:
    return same(items[: len(start)], start)


# --- threads ------------------------------------------------------------------------------------------


class Model:
    """Threads by name. Every method that is refused raises `Refused` and changes nothing."""

    def __init__(self) -> None:
        self.threads: dict[str, Line] = {}
        self.gone: set[int] = set()
        self.audit: list[tuple[str, str]] = []
        self._lines: list[Line] = []

    def head(self, name: str) -> Version:
        return self.threads[name]["versions"][-1]

    def value(self, name: str, version: int = -1) -> Any:
        return self.threads[name]["versions"][version]["value"]

    def last(self, name: str) -> int:
        """The head's version number."""
        return len(self.threads[name]["versions"]) - 1

    def create(self, name: str, value: Any, kind: str = "initial", source: Node | None = None) -> None:
        """A thread comes into being; nothing stood before its first version, so nothing undoes it."""
        if name in self.threads:
            raise Refused("thread_exists")
        first = Version(
            kind=kind,
            value=fresh(value),
            undo=[],
            redo=[],
            parents=[] if source is None else [source],
            restores=source,
        )
        line = Line(number=len(self._lines), versions=[first], labels={})
        self._lines.append(line)
        self.threads[name] = line

    def write(self, name: str, value: Any, kind: str, *, merges: Node | None = None) -> None:
        """A new operation: an undo goes back to what stands now, and there is nothing forward any more."""
        number, last = self.threads[name]["number"], self.last(name)
        parents = [(number, last)] if merges is None else [(number, last), merges]
        self._add(name, kind, value, undo=[*self.head(name)["undo"], last], redo=[], parents=parents)

    def rollback(self, name: str, version: int) -> None:
        """Going back is an operation like any other."""
        undo = [*self.head(name)["undo"], self.last(name)]
        self._restore(name, version, "rollback", undo=undo, redo=[])

    def undo(self, name: str) -> None:
        """One operation back."""
        head = self.head(name)
        if not head["undo"]:
            raise Refused("nothing_to_undo")
        back = head["undo"][-1]
        self._restore(name, back, "undo", undo=head["undo"][:-1], redo=[*head["redo"], self.last(name)])

    def redo(self, name: str) -> None:
        """What stood before the last undo comes again, with all that could be undone and redone then."""
        head = self.head(name)
        if not head["redo"]:
            raise Refused("nothing_to_redo")
        self._back_to(name, head["redo"][-1], "redo")

    def undo_to(self, name: str, version: int) -> None:
        """Exactly what a bookmark names; forward again leads to where it was called."""
        redo = [*self.head(name)["redo"], self.last(name)]
        self._back_to(name, version, "undo", redo=redo)

    def fork(self, name: str, version: int, new: str) -> None:
        """Another thread that starts there, with nothing to undo."""
        self.create(new, self.value(name, version), "fork", (self.threads[name]["number"], version))

    def label(self, name: str, label: str, version: int) -> None:
        self.threads[name]["labels"][label] = version
        self.audit.append(("label.put", name))

    def unlabel(self, name: str, label: str) -> None:
        if label not in self.threads[name]["labels"]:
            raise Refused("unknown_label")
        del self.threads[name]["labels"][label]
        self.audit.append(("label.removed", name))

    def delete(self, name: str) -> None:
        """The thread, its versions and labels go; its name is free."""
        self.gone.add(self.threads.pop(name)["number"])
        self.audit.append(("thread.deleted", name))

    # --- what merges come to

    def reverting(self, name: str, version: int) -> Outcome:
        """One version alone taken back: its inverse, merged into the head."""
        if version == 0:
            raise Refused("bad_request")
        return merged(self.value(name, version), self.value(name, version - 1), self.value(name))

    def merging(self, name: str, other: str) -> Outcome | None:
        """What another thread did since both were one; None when there is nothing that is not in already."""
        if name == other:
            raise Refused("bad_request")
        mine, theirs = self._node(name), self._node(other)
        before = self._before(mine)
        if self._stands_for(theirs) in before:
            return None
        shared = before & self._before(theirs)
        last = [node for node in shared if not any(node in self._before(one) - {one} for one in shared)]
        if not last:
            raise Refused("bad_request")
        if len(last) > 1:
            return Outcome(self.value(name), unsure=True)
        base = self._lines[last[0][0]]["versions"][last[0][1]]["value"]
        return merged(base, self.value(other), self.value(name))

    # --- inside

    def _add(self, name: str, kind: str, value: Any, *, undo: list[int], redo: list[int],
             parents: list[Node], restores: Node | None = None) -> None:  # fmt: skip
        made = Version(kind=kind, value=fresh(value), undo=undo, redo=redo, parents=parents,
                       restores=restores)  # fmt: skip
        self.threads[name]["versions"].append(made)

    def _restore(self, name: str, version: int, kind: str, *, undo: list[int], redo: list[int]) -> None:
        source = (self.threads[name]["number"], version)
        value = self.value(name, version)
        self._add(name, kind, value, undo=undo, redo=redo, parents=[source], restores=source)

    def _back_to(self, name: str, version: int, kind: str, redo: list[int] | None = None) -> None:
        then = self.threads[name]["versions"][version]
        self._restore(name, version, kind, undo=then["undo"], redo=then["redo"] if redo is None else redo)

    def _node(self, name: str) -> Node:
        return (self.threads[name]["number"], self.last(name))

    def _before(self, node: Node) -> set[Node]:
        """A version and all that it descends from; what was deleted, and what led to it, is forgotten."""
        found: set[Node] = set()
        todo = [node]
        while todo:
            number, version = here = todo.pop()
            if here not in found and number not in self.gone:
                found.add(here)
                todo += self._lines[number]["versions"][version]["parents"]
        return found

    def _stands_for(self, node: Node) -> Node:
        """Where the state of a version that went back, or of a fork, came from."""
        while node[0] not in self.gone:
            source = self._lines[node[0]]["versions"][node[1]]["restores"]
            if source is None:
                break
            node = source
        return node
