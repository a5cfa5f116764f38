"""What the hooks of coding agents say, as one kind of event, and what they are answered."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec

_BEGINS, _ENDS = frozenset({"PreToolUse"}), frozenset({"PostToolUse", "PostToolUseFailure"})
_LOOKS = frozenset(
    {"Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite", "TodoRead", "ToolSearch"}
)
"""Tools that change no file: nothing is looked at before and after them."""
_SHELLS = frozenset({"Bash", "shell", "local_shell", "exec_command", "BashOutput", "KillShell"})
_PLACES = ("file_path", "notebook_path", "path")
_LONGEST = 120
_TOLD = 4000  # characters of what an agent is told


class Event(msgspec.Struct, frozen=True):
    """Something that an agent has just done or is about to do."""

    kind: str  # begins or ends a tool call; prompt, opens (a session), rests (a turn); run (of a command)
    agent: str
    conversation: str
    name: str  # the agent's own name for it
    tool: str = ""
    call: str = ""
    about: str = ""

    @property
    def is_shell(self) -> bool:
        return self.tool in _SHELLS

    @property
    def only_looks(self) -> bool:
        return self.tool in _LOOKS

    @property
    def label(self) -> str:
        """What a step is called: the tool, and what it was used on."""
        return f"{self.tool} {self.about}".strip() if self.tool else self.name

    def meta(self) -> dict[str, Any]:
        """What is kept with a version: whose conversation, and which call of it."""
        said = {"agent": self.agent, "conversation": self.conversation, "tool": self.tool, "call": self.call}
        return {name: value for name, value in said.items() if value}


def read(agent: str, body: bytes, root: str) -> Event:
    """What an agent said; what is missing or of another shape is taken as not said."""
    said = json.loads(body) if body.strip() else {}
    if not isinstance(said, dict):
        said = {}
    name = _text(said.get("hook_event_name"))
    kinds = {"UserPromptSubmit": "prompt", "SessionStart": "opens"}
    kind = "begins" if name in _BEGINS else "ends" if name in _ENDS else kinds.get(name, "rests")
    tool, given = _text(said.get("tool_name")), said.get("tool_input")
    return Event(
        kind,
        agent,
        _text(said.get("session_id")),
        name or "hook",
        tool,
        _text(said.get("tool_use_id")),
        _about(given if isinstance(given, dict) else {}, root),
    )


def context(event: Event, text: str) -> bytes:
    """Text for the agent to read, in the shape in which these agents take it."""
    said = {"hookEventName": event.name, "additionalContext": text[:_TOLD]}
    return json.dumps({"hookSpecificOutput": said}).encode()


def _about(given: dict[str, Any], root: str) -> str:
    """What a tool is used on, in a line: a file, or a command."""
    for name in _PLACES:
        if place := _text(given.get(name)):
            inside = os.path.relpath(place, root) if os.path.isabs(place) else place
            return _line(inside if not inside.startswith("..") else place)
    return _line(_text(given.get("command")) or _text(given.get("description")))


def _line(text: str) -> str:
    """One line, that can be printed."""
    bare = " ".join(text.split())
    return bare if len(bare) <= _LONGEST else bare[: _LONGEST - 1] + "…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
