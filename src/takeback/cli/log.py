"""The log: a thread's checkpoints, newest first, with or without the lines on which they stand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from takeback.cli.look import beginning, name_of, note_differences, positive
from takeback.cli.parser import Commands, completes

if TYPE_CHECKING:
    from takeback import Checkpoint, Thread
    from takeback.cli.graph import Drawn, Key
    from takeback.cli.output import Part
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    parser = to.add(
        "log",
        show_log,
        "look",
        "List the checkpoints of a thread, newest first",
        more="Versions that no longer count (they were undone, or rolled back) are dimmed; --graph "
        "marks them with ○, and draws which checkpoint each goes on from. A merge also shows the "
        "line that it brought in.",
        example="takeback log --graph --limit 20",
    )
    parser.add_argument("--graph", action="store_true", help="draw the lines: what follows from what")
    completes(parser.add_argument("--limit", metavar="N", type=int, help="at most so many"), "none")
    parser.add_argument("--inherited", action="store_true", help="go on with what a fork came from")


def show_log(session: Session) -> int:
    args, out = session.args, session.out
    log = _Log(session, session.files_thread("before the log"))
    limit = positive(args.limit)
    if out.json:
        entries = [log.as_dict(c) for c in islice(log.checkpoints(), limit)]
        out.document({"thread": log.thread.name, "head": log.thread.version, "checkpoints": entries})
        return 0
    _note_unfinished(session, log.thread)
    note_differences(session, log.thread)
    for checkpoint in islice(log.checkpoints(), limit):
        log.show(checkpoint)
    return 0


def _note_unfinished(session: Session, thread: Thread[Any]) -> None:
    """What is under way on the thread, and in no version yet."""
    found = session.repo().recover(settle=False)
    said = [f"the step {step.label!r} is open" for step in found.steps if step.thread == thread.name]
    said += [str(plan) for plan in found.plans if plan.thread == thread.name]
    for text in said:
        session.out.note(f"{text}; see `{session.again('recover')}`")


class _Log:
    """What is carried from one checkpoint to the next while the log is printed."""

    def __init__(self, session: Session, thread: Thread[Any]) -> None:
        self.session, self.thread = session, thread
        self.name_of = name_of(session)
        self._threads: dict[bytes, Thread[Any]] = {thread.info.uid: thread}
        self._counts: set[Key] = {_key(thread.head)}
        self._lanes = None
        if session.args.graph:
            from takeback.cli.graph import Lanes

            self._lanes = Lanes()
        self._effects = {thread.info.uid: thread.effect_notes()}
        self._names: dict[int, list[str]] = {thread.version: ["head"]}
        for label, version in sorted(thread.labels.items()):
            self._names.setdefault(version, []).append(label)

    def checkpoints(self) -> Iterator[Checkpoint]:
        own = iter(self.thread.history(inherited=self.session.args.inherited))
        return self._with_merged(own) if self.session.args.graph else own

    def show(self, c: Checkpoint) -> None:
        """Two lines: what it is, and why it came to be and what it changed."""
        out, counts = self.session.out, self._count(c)
        style = "" if counts else "dim"
        drawn = self._draw(c, "●" if counts else "○")
        if drawn and drawn.join:
            out.line((drawn.join, "dim"))
        foreign = c.uid != self.thread.info.uid
        version = (
            f"{c.thread}@{c.version}" if foreign else str(c.version).rjust(len(str(self.thread.version)))
        )
        indent = " " * (len(str(self.thread.version)) + 2)
        out.line(
            *([(drawn.node, style or "yellow")] if drawn else []),
            (version, style or "bold"),
            "  ",
            (_short(c), style or "cyan"),
            ("  " + "  ".join(self._said(c)), style),
            *self._marks(c),
            crop=True,
        )
        told = self._told(c)
        if told or (drawn and drawn.parted):
            below = [(drawn.below.ljust(len(drawn.node)), "dim")] if drawn else []
            out.line(*below, indent, *((text, style or look) for text, look in told), crop=True)
        for note in self._did(c):
            beside = [(drawn.below.ljust(len(drawn.node)), "dim")] if drawn else []
            out.line(*beside, indent, (f"◆ {note}", style or "magenta"), crop=True)

    def as_dict(self, c: Checkpoint) -> dict[str, Any]:
        changes = self._change(c)
        counts = self._count(c)
        said = {"undone": not counts, "names": self._marked(c), "summary": changes, "effects": self._did(c)}
        return c.as_dict() | said | {"changed_files": self._files(c)}

    def _count(self, c: Checkpoint) -> bool:
        """Whether the head rests on it: what was undone, or rolled back, no line leads to."""
        counts = _key(c) in self._counts
        if counts:
            self._counts.update((bytes(parent.uid), parent.version) for parent in c.parents)
        return counts

    def _draw(self, c: Checkpoint, sign: str) -> Drawn | None:
        if self._lanes is None:
            return None
        shown = [parent for parent in c.parents if self._is_shown(c, parent.uid)]
        return self._lanes.draw(_key(c), [(bytes(p.uid), p.version) for p in shown], sign)

    def _is_shown(self, c: Checkpoint, uid: bytes) -> bool:
        """Whether a parent comes later in this log."""
        if uid == c.uid or uid in self._threads:
            return True
        return self.session.args.inherited and c.kind == "fork"

    def _said(self, c: Checkpoint) -> list[str]:
        from takeback.cli.words import ago, deed, local

        when = ago(c.time) if self.session.out.terminal else local(c.time)
        return [text for text in (deed(c, self.name_of), when, c.actor) if text]

    def _marks(self, c: Checkpoint) -> list[Part]:
        marked = self._marked(c)
        return [("  (" + ", ".join(marked) + ")", "bold green")] if marked else []

    def _marked(self, c: Checkpoint) -> list[str]:
        return self._names.get(c.version, []) if c.uid == self.thread.info.uid else []

    def _told(self, c: Checkpoint) -> list[tuple[str, str]]:
        change = self._change(c)
        change = ", ".join(text for text in (change, self._files(c)) if text)
        reason = [(c.reason, "")] if c.reason else []
        between = [(" — ", "dim")] if reason and change else []
        return [*reason, *between, *([(change, "dim")] if change else [])]

    def _change(self, c: Checkpoint) -> str:
        thread = self._thread(c)
        if c.before is not None:
            return thread.diff(c.before, c).summary()
        return "" if c.origin is not None else beginning(self.session, thread, c)

    def _did(self, c: Checkpoint) -> list[str]:
        """What it did to the world, in words."""
        if c.uid not in self._effects:
            self._effects[c.uid] = self._thread(c).effect_notes()
        return self._effects[c.uid].get(c.version, [])

    def _files(self, c: Checkpoint) -> str:
        """What it changed of files, in a line."""
        if c.before is None or not c.files:
            return ""
        from takeback.cli.files import brief

        thread = self._thread(c)
        return brief(thread, thread.at(c.before).checkpoint, c)

    def _thread(self, c: Checkpoint) -> Thread[Any]:
        if c.uid not in self._threads:
            self._threads[c.uid] = self.session.repo().thread(c.thread)
        return self._threads[c.uid]

    def _with_merged(self, own: Iterator[Checkpoint]) -> Iterator[Checkpoint]:
        """The checkpoints, and those of each merged thread from the merge on, newest first among all."""
        waiting = [(own, found) for found in islice(own, 1)]
        seen: set[Key] = set()  # a fork that merged its origin inherits what that merge brings in
        while waiting:
            # Of two with one time, the thread that was merged later: a fork comes before what it left.
            place = max(range(len(waiting)), key=lambda n: (waiting[n][1].time_us, n))
            source, checkpoint = waiting[place]
            following = next(source, None)
            waiting[place : place + 1] = [] if following is None else [(source, following)]
            if _key(checkpoint) in seen:
                continue
            seen.add(_key(checkpoint))
            if (merged := self._merged(checkpoint)) is not None:
                waiting += [(merged, found) for found in islice(merged, 1)]
            yield checkpoint

    def _merged(self, c: Checkpoint) -> Iterator[Checkpoint] | None:
        """The history of what a merge brought in, up to there; None where it is gone, or drawn already."""
        if c.merged is None or c.merged.uid in self._threads:
            return None
        found = [info for info in self.session.repo().threads() if info.uid == c.merged.uid]
        if not found:
            return None
        thread = self._threads[c.merged.uid] = self.session.repo().thread(found[0].name)
        upto = c.merged.version
        return (checkpoint for checkpoint in thread.history() if checkpoint.version <= upto)


def _key(c: Checkpoint) -> Key:
    return (bytes(c.uid), c.version)


def _short(c: Checkpoint) -> str:
    from takeback.cli.words import short

    return short(c.id)
