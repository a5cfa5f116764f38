"""Paths into a value: JSON Pointers (RFC 6901), tuples, and bare words for top-level keys."""

from __future__ import annotations

from typing import TypeAlias

from takeback.errors import BadPath

Part: TypeAlias = "str | int"
Path: TypeAlias = "tuple[Part, ...]"
PathLike: TypeAlias = "str | Part | tuple[Part, ...] | list[Part]"
_DIGITS = 20  # more than any position has; Python does not read numbers of many thousands
_HUGE = 1 << 64


def parse(path: PathLike) -> Path:
    """`/plan/steps/3`, `("plan", "steps", 3)` and `plan` alike; digits in a pointer stay text until they meet
    a list."""
    if isinstance(path, str):
        if not path:
            return ()
        if path[0] != "/":
            return (path,)
        return tuple(_unescape(part, path) for part in path[1:].split("/"))
    if isinstance(path, int) and not isinstance(path, bool):
        path = (path,)
    if isinstance(path, (tuple, list)) and all(isinstance(p, str) or type(p) is int for p in path):
        if any(isinstance(p, int) and abs(p) >= _HUGE for p in path):
            raise BadPath("a path with a position that no list has")
        return tuple(path)
    raise BadPath(
        f"{path!r} is no path", hint="Use a JSON Pointer ('/a/0'), a tuple ('a', 0) or a top-level key"
    )


def pointer(path: Path) -> str:
    """The JSON Pointer of a path; the whole value is the empty string."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def index(part: Part, length: int, *, at: Path, end: bool = False) -> int:
    """A part as a position in a list of `length`; `end` also allows the place after the last."""
    limit = length + 1 if end else length
    if end and part == "-":
        return length
    if isinstance(part, int):
        number = part
    elif part.isascii() and part.isdigit() and (part == "0" or part[0] != "0"):
        number = int(part[:_DIGITS])
    else:
        raise BadPath(f"a list has positions, not {part!r}", path=pointer(at))
    if not 0 <= number < limit:
        named = number if abs(number) < _HUGE else "of so many digits"
        raise BadPath(f"position {named} is outside a list of {length}", path=pointer(at))
    return number


def _unescape(part: str, whole: str) -> str:
    plain = part.replace("~1", "").replace("~0", "")
    if "~" in plain:
        raise BadPath(f"{whole!r} is no JSON Pointer: '~' must be '~0' or '~1'")
    return part.replace("~1", "/").replace("~0", "~")
