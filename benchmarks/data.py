"""What is written: messages and states of random letters, the same in every process and every run."""

from __future__ import annotations

import random
import string
from typing import Any

Message = dict[str, Any]

_LETTERS = string.ascii_letters


def text(length: int, seed: int) -> str:
    return "".join(random.Random(seed).choices(_LETTERS, k=length))


def message(number: int) -> Message:
    """About 1 KB. Random letters hold 5.7 of 8 bits, so compression has little to win here."""
    role = "user" if number % 2 else "assistant"
    return {"role": role, "id": f"m{number}", "content": text(1000, number)}


def messages(count: int, start: int = 0) -> list[Message]:
    return [message(number) for number in range(start, start + count)]


def small_state(step: int) -> dict[str, Any]:
    """About 2 KB: an agent with a goal, its last two messages, and a note to itself."""
    return {
        "goal": text(60, 0),
        "messages": [
            {"role": "user", "content": text(750, step % 64)},
            {"role": "assistant", "content": text(750, 64 + step % 64)},
        ],
        "scratch": text(340, 128 + step % 64),
        "step": step,
    }
