"""The command line: running a command, and what every outcome means to the shell."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from takeback.cli.output import Output
    from takeback.errors import TakebackError

__all__ = ["main"]

INTERNAL, INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it went (`takeback --help` lists them)."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _guarded(words)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        sys.stderr.write("\ntakeback: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return 0


def _guarded(words: list[str]) -> int:
    from takeback.cli.output import Output
    from takeback.errors import TakebackError

    _never_fail_to_print()
    # Before the words are parsed, a mistake in them has to know how it is to be told.
    out = Output(json="--json" in words, color="--no-color" not in words)
    try:
        return _run(words)
    except TakebackError as error:
        return _told(out, error)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except SystemExit as leaving:  # argparse, after --help and --version
        return int(leaving.code or 0)
    except Exception as error:
        return _internal(out, error)


def _run(words: list[str]) -> int:
    from takeback.cli.parser import parse
    from takeback.cli.session import Session

    args = parse(words)
    with Session(args) as session:
        code: int = args.run(session)
        return code


def _told(out: Output, error: TakebackError) -> int:
    from takeback.cli.hints import for_the_shell

    for_the_shell(error)
    out.error(error)
    return error.exit_code


def _internal(out: Output, error: Exception) -> int:
    """A defect of takeback: said in a line, with the traceback for whoever asks for it."""
    from takeback.errors import TakebackError

    if os.environ.get("TAKEBACK_TRACEBACK"):
        import traceback

        traceback.print_exc()
    return _told(
        out,
        TakebackError(
            f"internal error: {type(error).__name__}: {error}",
            hint="This is a defect of takeback; TAKEBACK_TRACEBACK=1 shows where it is",
        ),
    )


def _never_fail_to_print() -> None:
    """A terminal that cannot show a character gets an escape for it, not a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _forget_stdout() -> None:
    """Whoever read our output has left; what is still buffered must not fail again at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no real file, in a test or a notebook: nothing is flushed at exit
        return
