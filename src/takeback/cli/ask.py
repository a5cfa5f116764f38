"""Asking the person at the terminal; where there is none, saying what to give instead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from takeback.cli.session import Session


def confirmed(session: Session, question: str, act: str) -> bool:
    """Whether the answer is yes; anything else is no. Refuses where nobody can answer."""
    from takeback.errors import BadRequest

    if not session.interactive():
        raise BadRequest(
            f"{act} asks before it does anything, and there is nobody to ask: standard input is no terminal"
            if not session.args.json
            else f"{act} asks before it does anything, and --json leaves nobody to ask",
            hint="Give --yes to go ahead",
        )
    if _answer(f"{question} [y/N] ").lower() in ("y", "yes"):
        return True
    sys.stderr.write("nothing was changed\n")
    return False


def reason(session: Session) -> str | None:
    """Why, in the person's words; empty is an answer."""
    return _answer("Why? (for the log; may be empty) ") or None if session.interactive() else None


def _answer(prompt: str) -> str:
    # On stderr, so that it is seen when the output goes to a file.
    sys.stdout.flush()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer:  # the end of input: the prompt's line is still open
        sys.stderr.write("\n")
    return answer.strip()
