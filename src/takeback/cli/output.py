"""What is printed: lines and tables for people, plain text for files, one JSON document for programs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

    from takeback.errors import TakebackError

Part: TypeAlias = "str | tuple[str, str]"
"""Text, or text and how it looks on a terminal."""

# For a terminal or file whose encoding lacks them.
_ASCII = str.maketrans(
    dict(zip("●○◆│─├┤┼┴╯╮╭·–−", "*o+|-||++'..---", strict=True))
    | {"→": "->", "…": "...", "—": "--", "✓": "ok", "✗": "!!"}
)


class Output:
    """Where a command's words go. Colour and cutting to the terminal's width are for terminals alone."""

    def __init__(self, *, json: bool, color: bool) -> None:
        self.json = json
        self.terminal = not json and sys.stdout.isatty()
        self.color = color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._ascii = not (sys.stdout.encoding or "utf-8").lower().replace("-", "").startswith("utf")
        self._made: Console | None = None

    def line(self, *parts: Part, crop: bool = False) -> None:
        """One line; `crop` cuts it at a terminal's edge, else the terminal folds it."""
        cleaned = [self._clean(part) for part in parts]
        if self.terminal:
            self._draw(cleaned, crop=crop)
        else:
            sys.stdout.write("".join(text for text, _ in cleaned).rstrip() + "\n")

    def lines(self, texts: Sequence[str], indent: str = "  ") -> None:
        for text in texts:
            self.line(indent, text)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Part]], *, folds: Sequence[int]) -> None:
        """Rows under headers; on a narrow terminal the columns of `folds` give way, in a file none does."""
        cleaned = [[self._clean(cell) for cell in row] for row in rows]
        if self.terminal:
            self._draw_table(headers, cleaned, folds)
            return
        texts = [list(headers), *([text for text, _ in row] for row in cleaned)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        for row in texts:
            padded = (text.ljust(width) for text, width in zip(row, widths, strict=True))
            sys.stdout.write("  ".join(padded).rstrip() + "\n")

    def facts(self, pairs: Sequence[tuple[str, Part | None]]) -> None:
        """Names and values, one a line; what has no value is left out."""
        shown = [(name, value) for name, value in pairs if (value[0] if isinstance(value, tuple) else value)]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.line((name.ljust(width + 2), "dim"), value or "")

    def value(self, value: Any) -> None:
        """A stored value, as the JSON that it is."""
        text = dumps(value)
        if self.terminal and self.color:
            from rich.highlighter import JSONHighlighter
            from rich.text import Text

            self._console().print(JSONHighlighter()(Text(text)), soft_wrap=True)
        else:
            sys.stdout.write(text + "\n")

    def document(self, value: Any) -> None:
        """The one JSON document of `--json`."""
        sys.stdout.write(dumps(value) + "\n")

    @contextlib.contextmanager
    def progress(self, what: str) -> Iterator[Callable[[str, int, int], None] | None]:
        """A bar for whoever looks on, told (what it is at, how many are done, of how many); else None."""
        if not self.terminal or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(what))
        console = Console(file=sys.stderr, no_color=not self.color)
        with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
            task = bar.add_task("", total=None)

            def told(at: str, done: int, total: int) -> None:
                bar.update(task, description=self._clean(at)[0][:40], completed=done, total=total)

            yield told

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """While code of others runs, what it prints goes beside the output, not into it."""
        sys.stdout.flush()
        with contextlib.redirect_stdout(sys.stderr):
            yield

    def note(self, text: str) -> None:
        """Something beside the output, for whoever looks on."""
        sys.stderr.write(f"takeback: {self._clean(text)[0]}\n")

    def error(self, error: TakebackError) -> None:
        """What went wrong, where, and in a second line what to do."""
        if self.json:
            sys.stdout.write(dumps({"error": error.as_dict()}) + "\n")
            return
        hint, error.hint = error.hint, None  # its text would put the hint on the same line
        sys.stderr.write(f"takeback: {self._clean(str(error))[0]}\n")
        error.hint = hint
        if hint:
            sys.stderr.write(f"  {self._clean(hint)[0]}\n")

    def _clean(self, part: Part) -> tuple[str, str]:
        text, style = part if isinstance(part, tuple) else (part, "")
        text = printable(text)
        return (text.translate(_ASCII) if self._ascii else text), style

    def _draw(self, parts: list[tuple[str, str]], *, crop: bool) -> None:
        from rich.text import Text

        line = Text.assemble(*parts)
        if crop:
            self._console().print(line, no_wrap=True, overflow="ellipsis")
        else:
            self._console().print(line, soft_wrap=True)

    def _draw_table(
        self, headers: Sequence[str], rows: list[list[tuple[str, str]]], folds: Sequence[int]
    ) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table(*headers, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for place, column in enumerate(table.columns):
            column.no_wrap = place not in folds
            column.overflow = "fold" if place in folds else "ellipsis"
        for row in rows:
            table.add_row(*(Text(text, style) for text, style in row))
        self._console().print(table)

    def _console(self) -> Console:
        if self._made is None:
            from rich.console import Console

            self._made = Console(
                file=sys.stdout, no_color=not self.color, highlight=False, markup=False, emoji=False
            )
        return self._made


def dumps(value: Any, indent: int | None = 2) -> str:
    """JSON as people read it too; what a terminal would obey rather than show is escaped."""
    text = json.dumps(value, default=_plain, ensure_ascii=False, indent=indent)
    return text if text.replace("\n", "").isprintable() else "".join(map(_escaped, text))


def printable(text: str) -> str:
    """Names, reasons and values are an agent's data: an escape sequence in one must not reach a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _escaped(char: str) -> str:
    return char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
