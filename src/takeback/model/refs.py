"""References: how people and programs name a checkpoint, and which labels are free of doubt."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypeAlias

import msgspec

from takeback.errors import BadName, BadReference
from takeback.model.ids import BOOKMARK, CHECKPOINT_PREFIX, CheckpointId

_HEAD = re.compile(r"head((?:~\d*)*)", re.IGNORECASE)
_BACK = re.compile(r"(.+?)((?:~\d*)+)")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[Tt].*")
_LABEL = re.compile(r"[^\W\d][\w.:/@+-]*")
MAX_NAME = 512
_MAX_VERSION = 2**63 - 1
_DIGITS = 20  # more than a version has; Python does not read numbers of many thousands


class ByVersion(msgspec.Struct, frozen=True):
    version: int
    back: int = 0


class ByHead(msgspec.Struct, frozen=True):
    back: int = 0


class ById(msgspec.Struct, frozen=True):
    """An id or the beginning of one: the version is in it, the rest must fit what stands there."""

    version: int
    prefix: str
    whole: bool
    back: int = 0


class ByTime(msgspec.Struct, frozen=True):
    micros: int
    back: int = 0


class ByLabel(msgspec.Struct, frozen=True):
    name: str
    back: int = 0


Ref: TypeAlias = "ByVersion | ByHead | ById | ByTime | ByLabel"


def parse(ref: object) -> Ref:
    """`3`, an id or its prefix, `head`, `head~2`, a label, a bookmark, an ISO time with a zone."""
    if isinstance(ref, bool) or not isinstance(ref, (int, str, datetime)):
        raise BadReference(f"{ref!r} is no reference", hint=_HINT)
    if isinstance(ref, int):
        return _version(ref)
    if isinstance(ref, datetime):
        return ByTime(_micros(ref, ref.isoformat()))
    return _parse_text(ref.strip())


def check_label(label: str) -> str:
    """A label that can be taken for nothing else."""
    if not isinstance(label, str) or not _LABEL.fullmatch(label) or len(label) > 128:
        raise BadName(
            f"{label!r} cannot be a label", hint="Begin with a letter; then letters, digits and . _ - : / @ +"
        )
    if _HEAD.fullmatch(label) or CHECKPOINT_PREFIX.fullmatch(label) or BOOKMARK.fullmatch(label):
        raise BadName(f"{label!r} cannot be a label: it looks like another kind of reference")
    return label


def check_name(name: str, what: str = "thread") -> str:
    """A thread's or tenant's name: any text that prints and fits."""
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        raise BadName(f"{name!r} cannot be the name of a {what}", hint=f"Use 1 to {MAX_NAME} characters")
    if any(ord(char) < 32 or ord(char) == 127 or 0xD800 <= ord(char) < 0xE000 for char in name):
        raise BadName(f"{name!r} cannot be the name of a {what}: it holds characters that do not print")
    return name


def _parse_text(text: str) -> Ref:
    back = 0
    match = _BACK.fullmatch(text)
    if match:
        text = match[1]
        back = sum(_number(part or "1") for part in match[2].split("~")[1:])
    if re.fullmatch(r"-?\d+", text):
        found: Ref = _version(_number(text))
    elif text.lower() == "head":
        found = ByHead()
    elif BOOKMARK.fullmatch(text):
        found = _by_id("c" + text[1:])
    elif CHECKPOINT_PREFIX.fullmatch(text):
        found = _by_id(text)
    elif _TIME.fullmatch(text):
        found = ByTime(_time(text))
    elif _LABEL.fullmatch(text):
        found = ByLabel(text)
    else:
        raise BadReference(f"{text!r} is no reference", hint=_HINT)
    return msgspec.structs.replace(found, back=back) if back else found


def _number(digits: str) -> int:
    number = int(digits[:_DIGITS])
    if abs(number) > _MAX_VERSION:
        raise BadReference(f"{digits[:_DIGITS]}… is more than any thread has versions", hint=_HINT)
    return number


def _version(number: int) -> Ref:
    if abs(number) > _MAX_VERSION:
        raise BadReference("a number that is more than any thread has versions", hint=_HINT)
    if number < 0:
        raise BadReference(
            f"there is no version {number}", hint=f"For {-number} before the head say head~{-number}"
        )
    return ByVersion(number)


def _by_id(text: str) -> ById:
    match = CHECKPOINT_PREFIX.fullmatch(text)
    assert match is not None
    return ById(_number(match[1]), CheckpointId(text), whole=match[2] is not None and len(match[2]) == 12)


def _time(text: str) -> int:
    try:
        return _micros(datetime.fromisoformat(text.upper()), text)
    except ValueError:
        raise BadReference(f"{text!r} is no ISO time", hint="For example 2026-03-01T12:00:00+00:00") from None


def _micros(time: datetime, text: str) -> int:
    from takeback.model.canonical import micros

    if time.utcoffset() is None:
        raise BadReference(f"{text!r} has no time zone", hint="Add one, for example +00:00 or Z")
    return micros(time)


_HINT = "Use a version (3), an id (c3-…), head, head~2, a label, a bookmark or an ISO time with its zone"
