"""An agent's configuration file as text: what it says with our hooks in it, and without them."""

from __future__ import annotations

import json
import re
from typing import Any

from takeback.coding.table import Agent, is_ours
from takeback.errors import BadSettings

_BOM = "\ufeff"
_INDENT = re.compile(r"^\{[^\S\n]*\n([ \t]+)", re.M)


def with_hooks(raw: bytes | None, agent: Agent, command: str, path: str) -> bytes:
    """The file with our hooks, each once; everything else in it as it was."""
    text, document = _read(raw, path)
    if _ours(document) == _wanted(agent, command):
        return raw or b""
    _drop(document)
    hooks = document.setdefault("hooks", {})
    for event, group in _wanted(agent, command).items():
        hooks.setdefault(event, []).extend(group)
    return _written(document, text)


def without_hooks(raw: bytes, path: str) -> bytes:
    """The file without our hooks, and without the lists that only they were in."""
    text, document = _read(raw, path)
    return _written(document, text) if _drop(document) else raw


def has_hooks(raw: bytes | None, path: str) -> bool:
    return bool(_ours(_read(raw, path)[1]))


def _wanted(agent: Agent, command: str) -> dict[str, list[dict[str, Any]]]:
    handler = {"type": "command", "command": command, "timeout": agent.timeout}
    return {
        event: [({"matcher": matcher} if matcher is not None else {}) | {"hooks": [dict(handler)]}]
        for event, matcher in agent.events.items()
    }


def _read(raw: bytes | None, path: str) -> tuple[str, dict[str, Any]]:
    """The text and what it says; an empty file says nothing, anything else must have the known shape."""
    try:
        text = "" if raw is None else raw.decode()
        document = json.loads(text.removeprefix(_BOM)) if text.removeprefix(_BOM).strip() else {}
    except UnicodeDecodeError as error:
        raise _refused(path, f"is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise _refused(
            path, f"is no JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise _refused(path, "is nested too deeply") from None
    if not isinstance(document, dict):
        raise _refused(path, f"holds {_kind(document)} and no object")
    hooks = document.get("hooks", {})
    if not isinstance(hooks, dict):
        raise _refused(path, f"has {_kind(hooks)} under hooks, and no object")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise _refused(path, f"has {_kind(groups)} under hooks.{event}, and no list")
    return text, document


def _refused(path: str, what: str) -> BadSettings:
    return BadSettings(f"{path} {what}; it was left as it is", hint="Put it right, then try again")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _ours(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Our groups by event; one in which somebody put a hook of theirs is not the group that we wrote."""
    found: dict[str, list[Any]] = {}
    for event, groups in document.get("hooks", {}).items():
        ours = [group for group in groups if any(is_ours(hook.get("command")) for hook in _handlers(group))]
        if ours:
            found[event] = ours
    return found


def _handlers(group: Any) -> list[dict[str, Any]]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []


def _drop(document: dict[str, Any]) -> bool:
    """Take our handlers out, and what is left empty by that; whether there were any."""
    dropped = False
    for event, groups in list(document.get("hooks", {}).items()):
        kept = []
        for group in groups:
            handlers = _handlers(group)
            if not any(is_ours(hook.get("command")) for hook in handlers):
                kept.append(group)
                continue
            dropped = True
            others = [
                hook for hook in group["hooks"] if hook not in handlers or not is_ours(hook.get("command"))
            ]
            if others:
                kept.append(group | {"hooks": others})
        if kept or not groups:
            document["hooks"][event] = kept
        else:
            del document["hooks"][event]
    if dropped and not document["hooks"]:
        del document["hooks"]
    return dropped


def _written(document: dict[str, Any], like: str) -> bytes:
    """The document in the manner of the text that it comes from: indent, line ends, the last line's end."""
    found = _INDENT.search(like)
    indent = found[1] if found else "  "
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    if not like or like.endswith("\n"):
        text += "\n"
    if "\r\n" in like:
        text = text.replace("\n", "\r\n")
    return ((_BOM if like.startswith(_BOM) else "") + text).encode()
