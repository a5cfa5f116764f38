"""Values on their way in: JSON text, `path=json`, `key=value`, files, and Ed25519 keys."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from takeback.errors import BadRequest

_PRIVATE, _PUBLIC = "takeback-ed25519-private:", "takeback-ed25519-public:"


def assignment(text: str, option: str) -> tuple[str, Any]:
    """`path=json`; text without quotes is refused, because 42, true and null would not be text."""
    path, separator, value = text.partition("=")
    if not separator or not path:
        raise _bad(f"{option} {text!r} is not PATH=JSON", f"For example {option} 'to=\"NYC\"'")
    try:
        return path, from_json(value)
    except ValueError as error:
        raise _bad(
            f"{option} {path}: {value!r} is no JSON: {error}",
            f"""Text needs its quotes: {option} '{path}="…"'""",
        ) from None


def numbers(text: str | None, option: str) -> list[int]:
    """`2,5`: the numbers by which effects are called."""
    found = [part.strip().lstrip("#") for part in (text or "").split(",") if part.strip()]
    if text is not None and not (found and all(part.isdecimal() for part in found)):
        raise _bad(
            f"{option} {text!r} names no effects", f"By number: {option} 2,5 (`takeback effects list`)"
        )
    return [int(part) for part in found]


def pairs(texts: list[str], option: str) -> dict[str, Any]:
    """`key=value` each; a value that is JSON is that, anything else is text."""
    return dict(_pair(text, option) for text in texts)


def state_from(name: str) -> Any:
    """The JSON in a file, or on standard input."""
    raw = sys.stdin.buffer.read() if name == "-" else file_bytes(name)
    where = "standard input" if name == "-" else name
    if not raw.strip():
        raise _bad(f"{where} is empty", "A state is JSON, for example {}")
    try:
        return from_json(raw)
    except ValueError as error:
        raise _bad(f"{where} holds no JSON: {error}") from None


def from_json(text: str | bytes) -> Any:
    """JSON, with bytes written as `takeback state` prints them; ValueError says what is wrong."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def file_bytes(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        raise _bad(f"{name} cannot be read: {error.strerror}") from None


def refuse_existing(name: str) -> None:
    """Nothing is written over; said before anything else is done."""
    if os.path.lexists(name):
        raise _bad(f"{name} exists already", "Choose another name; nothing is written over")


def write_new(name: str, text: str, *, private: bool = False) -> None:
    """A new file, which only its owner reads if it is private; an old one is never written over."""
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise _bad(f"{name} exists already", "Choose another name; nothing is written over") from None
    except OSError as error:
        raise _bad(f"{name} cannot be written: {error.strerror}") from None


def key_texts(private: bytes, public: bytes) -> tuple[str, str]:
    """A pair as the text of its files: each says which half it is, so that they are not mixed up."""
    from base64 import b64encode

    return _PRIVATE + b64encode(private).decode() + "\n", _PUBLIC + b64encode(public).decode() + "\n"


def private_key(name: str) -> bytes:
    return _key(name, _PRIVATE, "private")


def public_key(name: str) -> bytes:
    return _key(name, _PUBLIC, "public")


def _key(name: str, prefix: str, which: str) -> bytes:
    """The 32 bytes of a key file, as `keygen` wrote it or raw."""
    from base64 import b64decode

    raw = file_bytes(name)
    if len(raw) == 32:
        return raw
    text = raw.decode("ascii", "replace").strip()
    try:
        if text.startswith(prefix):
            return b64decode(text.removeprefix(prefix), validate=True)
    except ValueError:  # told below, with what is expected
        pass
    raise _bad(f"{name} holds no {which} key", f"`takeback keygen` writes a pair; give its {which} half")


def _pair(text: str, option: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise _bad(f"{option} {text!r} is not KEY=VALUE", f"For example {option} customer=acme")
    try:
        return key, from_json(value)
    except ValueError:
        return key, value


def _object(members: list[tuple[str, Any]]) -> Any:
    found = dict(members)
    if len(found) < len(members):
        names = [name for name, _ in members]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    if list(found) == ["$bytes"] and isinstance(found["$bytes"], str):
        from base64 import b64decode

        return b64decode(found["$bytes"], validate=True)
    return found


def _bad(what: str, hint: str | None = None) -> BadRequest:
    from takeback.errors import BadRequest

    return BadRequest(what, hint=hint)
