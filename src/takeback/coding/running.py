"""`takeback run`: any command, with its files captured before it, whenever it rests, and after it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from types import FrameType

from takeback.errors import BadRequest

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)


def run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command on this terminal, as if it had been typed: its exit code, or 128 and its signal.

    It stays in our process group, so that the terminal's keys reach it, and stopping and going on concern
    both; we ignore what the terminal sends to all, and pass on what is sent to us alone.
    """
    handlers = {number: signal.getsignal(number) for number in (*_OF_THE_TERMINAL, *_PASSED_ON)}
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # what came before there was a command to pass it on to

    def pass_on(number: int, _: FrameType | None) -> None:
        if not children:
            early.append(number)
        for child in children:
            child.send_signal(number)

    try:
        for number in _OF_THE_TERMINAL:
            # Not SIG_IGN, which the command would inherit.
            signal.signal(number, _nothing)
        for number in _PASSED_ON:
            signal.signal(number, pass_on)
        children.append(_start(command, environment))
        for each in early:
            children[0].send_signal(each)
        code = _wait(children[0])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(command), env=os.environ | environment)
    except FileNotFoundError:
        raise BadRequest(
            f"there is no command {command[0]!r}", hint="Is it installed, and on PATH?"
        ) from None
    except OSError as error:
        raise BadRequest(f"{command[0]} cannot be run: {error.strerror}") from None


def _wait(child: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return child.wait()
        except InterruptedError:
            continue


def _nothing(*_: object) -> None:
    """The terminal's signal is for the command."""
