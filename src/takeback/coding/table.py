"""The coding agents that takeback installs itself into: a row each."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass

COMMAND = "takeback-hook"


@dataclass(frozen=True)
class Agent:
    """Where an agent keeps its hooks, and which of its events takeback wants to hear of.

    All of them so far share one shape: `{"hooks": {event: [{"matcher": …, "hooks": [{…}]}]}}`.
    """

    name: str
    title: str
    project: str  # the file below a project's root
    home: str  # the directory of the user's own configuration, below the home directory …
    home_variable: str  # … unless this variable names it
    user: str  # the file in there
    events: dict[str, str | None]  # event → matcher; None where the event takes none
    timeout: int = 60  # seconds after which the agent gives a hook up
    then: str = ""  # what a person has to do once it is installed

    def path(self, root: str, *, user: bool) -> str:
        """The configuration file: the project's, or the user's own."""
        if not user:
            return os.path.join(root, self.project)
        home = os.environ.get(self.home_variable) or os.path.join(os.path.expanduser("~"), self.home)
        return os.path.join(home, self.user)


_EVERY_TOOL = "*"
_SHARED = {
    "SessionStart": None,
    "UserPromptSubmit": None,
    "PreToolUse": _EVERY_TOOL,
    "PostToolUse": _EVERY_TOOL,
    "Stop": None,
}

AGENTS = {
    agent.name: agent
    for agent in (
        Agent(
            "claude-code",
            "Claude Code",
            project=".claude/settings.json",
            home=".claude",
            home_variable="CLAUDE_CONFIG_DIR",
            user="settings.json",
            events=_SHARED | {"PostToolUseFailure": _EVERY_TOOL, "SessionEnd": None},
            then="Sessions that are open now do not know of it: start a new one",
        ),
        Agent(
            "codex",
            "Codex",
            project=".codex/hooks.json",
            home=".codex",
            home_variable="CODEX_HOME",
            user="hooks.json",
            events=_SHARED,
            then="Codex runs new hooks once you have trusted them: type /hooks in it. Versions before "
            "May 2026 also need `codex_hooks = true` under [features] in config.toml",
        ),
    )
}


def command(agent: Agent) -> str:
    """What the agent is to call: by its bare name where that finds us, so that a team can share the file."""
    ours = os.path.join(os.path.dirname(sys.executable), COMMAND)
    found = shutil.which(COMMAND)
    by_name = found is not None and os.path.realpath(found) == os.path.realpath(ours)
    program = COMMAND if by_name or not os.path.exists(ours) else ours
    quoted = program if program.replace("/", "").replace("-", "").isalnum() else _quoted(program)
    return f"{quoted} {agent.name}"


def is_ours(command: object) -> bool:
    """Whether a hook's command is one that some version of takeback wrote."""
    return isinstance(command, str) and COMMAND in command


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
