"""What is done to files, in words: the part of a plan that is about them, and diffs of text by lines."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher, unified_diff
from typing import Any

import msgspec
from blake3 import blake3

from takeback.engine.context import Context
from takeback.engine.files import Choice, Filing, text_of
from takeback.model.manifest import nodes
from takeback.model.manifest.nodes import Entry, shown
from takeback.model.records import FileRoot
from takeback.model.tree.nodes import Writer

_FEW = 3  # names in a summary
_WORDS = {
    "revert": "reverts", "remove": "removes", "return": "brings back", "mode": "reverts the mode of",
    "merge": "takes the agent's lines out of",
}  # fmt: skip


class FileChange(msgspec.Struct, frozen=True):
    """One path that is another in one place than in another; lines are counted where both sides are text."""

    path: bytes
    before: Entry | None
    after: Entry | None
    added: int | None = None
    removed: int | None = None

    @property
    def name(self) -> str:
        """The path for people."""
        return shown(self.path)

    @property
    def what(self) -> str:
        """added, removed, changed, or became another kind."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "removed"
        if kind_name(self.before) != kind_name(self.after):
            return f"{kind_name(self.before)} became {kind_name(self.after)}"
        if (self.before.data, self.before.size) == (self.after.data, self.after.size):
            return "mode changed"
        return "changed"

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        sides = {"before": self.before, "after": self.after}
        return {
            "path": self.name, "what": self.what, "added": self.added, "removed": self.removed,
            **{side: entry_dict(entry) for side, entry in sides.items() if entry is not None},
        }  # fmt: skip

    def __str__(self) -> str:
        return f"{self.name}: {self.what}{counted(self.added, self.removed)}"


class FilesPart:
    """What a plan does to files: per workspace, path by path."""

    name = "files"

    def __init__(
        self,
        ctx: Context,
        filings: list[Filing],
        present: dict[str, FileRoot],
        notes: list[str],
        objects: dict[bytes, bytes],
    ) -> None:
        self._ctx, self.filings, self.present, self.notes = ctx, filings, present, notes
        self._objects = objects  # of what is on the disk and in no version yet
        self._counts: dict[bytes, tuple[int, int] | None] = {}

    @property
    def choices(self) -> list[Choice]:
        """Every path that differs from the target, with what happens to it."""
        return [choice for filing in self.filings for choice in filing.choices]

    @property
    def touched(self) -> list[str]:
        """What is put back."""
        return [shown(each.path) for each in self.choices if not each.kept]

    @property
    def kept(self) -> list[str]:
        """What stays as others have it."""
        return [shown(each.path) for each in self.choices if each.kept]

    @property
    def conflicts(self) -> list[str]:
        """What the agent and others have both changed, so that it stays unless it is said whose holds."""
        return [shown(each.path) for each in self.choices if each.do == "conflict"]

    @property
    def calm(self) -> bool:
        """Whether nothing has to be said before."""
        return not self.conflicts

    @property
    def digest(self) -> bytes:
        """Of what was seen, and of what is chosen."""
        seen = [[filing.name, filing.present, filing.result] for filing in self.filings]
        return blake3(msgspec.msgpack.encode(seen)).digest()

    def summary(self, limit: int = 4) -> str:  # noqa: ARG002 (it is one line however many files there are)
        said = []
        for do, verb in _WORDS.items():
            found = self._of(do)
            if found:
                said.append(f"{verb} {_named(found)}{self._sum(found) if do in ('revert', 'merge') else ''}")
        keeps = self._of("keep")
        if keeps:
            said.append(f"keeps your edit of {_named(keeps)}")
        both = self._of("conflict")
        if both:
            said.append(f"conflict: you and the agent changed {_named(both)}; yours stays")
        return ", ".join([*said, *self.notes])

    def lines(self, limit: int | None = None) -> list[str]:
        said = [self._line(each) for each in self.choices if not _implied(each)] + self.notes
        if limit is None or len(said) <= limit:
            return said
        return [*said[:limit], f"and {len(said) - limit} more"]

    def as_dict(self) -> dict[str, Any]:
        choices = []
        for each in self.choices:
            counts = self._count(each)
            choices.append(
                {
                    "path": shown(each.path), "do": each.do,
                    "added": counts[0] if counts else None, "removed": counts[1] if counts else None,
                }
            )  # fmt: skip
        return {"part": self.name, "files": choices, "conflicts": self.conflicts, "notes": self.notes}

    def _of(self, do: str) -> list[Choice]:
        return [each for each in self.choices if each.do == do and not _implied(each)]

    def _line(self, each: Choice) -> str:
        name = shown(each.path) + ("/" if (each.now or each.target or each.after).is_dir else "")  # type: ignore[union-attr]  # one of them is there
        if each.do == "keep":
            return f"keeps your edit of {name}"
        if each.do == "conflict":
            return f"conflict: you and the agent changed {name}; yours stays (ours= takes the checkpoint's)"
        counts = self._count(each)
        text = f"{_WORDS[each.do]} {name}{counted(*counts) if counts else ''}"
        if each.do == "merge":
            text += ", and keeps yours"
        if each.after is not None and each.after.kind == nodes.LINK:
            text += f" (a link to {shown(each.after.data)}{_outside(each)})"
        return text

    def _sum(self, found: list[Choice]) -> str:
        counts = [self._count(each) for each in found]
        known = [each for each in counts if each is not None]
        return counted(sum(a for a, _ in known), sum(r for _, r in known)) if known else ""

    def _count(self, each: Choice) -> tuple[int, int] | None:
        if each.path not in self._counts:
            writer = Writer(self._ctx)
            writer.new = dict(self._objects)
            for filing in self.filings:
                writer.new |= filing.objects
            self._counts[each.path] = line_counts(each.now, each.after, writer)
        return self._counts[each.path]


def line_counts(before: Entry | None, after: Entry | None, writer: Writer) -> tuple[int, int] | None:
    """(lines added, lines removed) from one to the other; None where that cannot be said."""
    one, two = _lines_of(before, writer), _lines_of(after, writer)
    if one is None or two is None or one == two:
        return None
    added = removed = 0
    for tag, a_lo, a_hi, b_lo, b_hi in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        if tag != "equal":
            added, removed = added + b_hi - b_lo, removed + a_hi - a_lo
    return added, removed


def hunks(change: FileChange, writer: Writer, context: int = 3) -> Iterator[str]:
    """The change as a unified diff; one line that says so where it is no text."""
    one, two = _lines_of(change.before, writer), _lines_of(change.after, writer)
    name = change.name
    if one is None or two is None:
        yield f"{name}: {change.what}\n"
        return
    yield from unified_diff(one, two, f"a/{name}", f"b/{name}", n=context)


def counted(added: int | None, removed: int | None) -> str:
    """(+12 −40); nothing where lines were not counted."""
    return "" if added is None or removed is None or not (added or removed) else f" (+{added} −{removed})"


def kind_name(entry: Entry) -> str:
    return "a directory" if entry.is_dir else "a link" if entry.kind == nodes.LINK else "a file"


def entry_dict(entry: Entry) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": kind_name(entry).removeprefix("a "), "mode": f"{entry.mode:o}"}
    if entry.is_file:
        said["size"] = entry.size
    elif entry.kind == nodes.LINK:
        said["target"] = shown(entry.data)
    return said


def _lines_of(entry: Entry | None, writer: Writer) -> list[str] | None:
    if entry is None:
        return []
    text = text_of(entry, writer)
    return None if text is None else text.splitlines(keepends=True)


def _named(found: list[Choice]) -> str:
    names = [shown(each.path) for each in found]
    if len(names) > _FEW:
        return f"{', '.join(names[:_FEW])} and {len(names) - _FEW} more"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _implied(each: Choice) -> bool:
    """A directory goes with what is in it; one that is kept because something in it is need not be named."""
    sides = [side for side in (each.now, each.target) if side is not None]
    return each.kept and all(side.is_dir for side in sides)


def _outside(each: Choice) -> str:
    """A link out of the workspace that is not there now is named: nothing follows it, but others may."""
    import posixpath

    assert each.after is not None
    target = each.after.data
    at = posixpath.normpath(posixpath.join(posixpath.dirname(each.path), target))
    leads_out = target.startswith(b"/") or at == b".." or at.startswith(b"../")
    return ", out of the workspace" if leads_out and each.after != each.now else ""
