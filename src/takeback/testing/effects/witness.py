"""What a driver knows of a history from the answers alone: the definition that a subject is held to."""

from __future__ import annotations

import msgspec

from takeback.testing.effects.records import Ref
from takeback.testing.effects.tools import LEASE

Place = tuple[str, int, str, str]
"""Where one step may be open: thread, line, run, label."""


class Broken(AssertionError):
    """A promise that was not kept; `promise` is one word for it."""

    def __init__(self, promise: str, *what: object) -> None:
        self.promise = promise
        super().__init__(" ".join(map(str, (promise + ":", *what))))


def need(holds: bool, promise: str, *what: object) -> None:
    if not holds:
        raise Broken(promise, *what)


class Opened(msgspec.Struct):
    """An open step; one that nobody has recorded yet is known to its worker alone."""

    place: Place
    serial: int
    owner: str = ""
    attempt: int = 0
    base: int = 0
    """The head that the last attempt began with."""
    lease: int = 0
    made: list[int] = []
    claims: dict[int, int] = {}

    def claimed(self) -> set[int]:
        """In the last attempt."""
        return {effect for effect, attempt in self.claims.items() if attempt == self.attempt}


class Hand(msgspec.Struct):
    """What a worker was told that it has in hand."""

    thread: str
    run: str = ""
    positions: dict[str, int] = {}
    opened: Opened | None = None
    attempt: int = 0
    line: int = 0
    replays: str = ""
    """The label of a recorded step that it goes through again."""


class Witness:
    """Checkpoints, uses, owners and steps, as they follow from what was answered."""

    def __init__(self) -> None:
        self.parents: dict[Ref, list[Ref]] = {("main", 0): []}
        self.heads = {"main": 0}
        self.lines = {"main": 0}
        self.origins: dict[str, str] = {}
        self.uses: set[tuple[int, Ref]] = set()
        self.owners: dict[int, str] = {}
        self.unclaimed: set[int] = set()
        self.open: dict[Place, Opened] = {}
        self.closed: list[tuple[Ref, str, str]] = []
        self.hands: dict[str, Hand] = {}
        self.asked: dict[int, tuple[object, ...]] = {}
        """For which step, call and version of the tool each approval was asked."""
        self.granted: dict[int, int] = {}
        self.bookmarks: list[Ref] = []
        self.read_only: set[str] = set()
        self._serial = 0
        self._recorded: set[int] = set()
        self._lineages: dict[Ref, frozenset[Ref]] = {}

    # --- histories

    def append(self, thread: str, version: int, *parents: Ref) -> None:
        """A checkpoint that was announced; without parents it follows the head."""
        need(version == self.heads[thread] + 1, "history", thread, "moved on behind our back to", version)
        self.parents[thread, version] = list(parents) or [(thread, self.heads[thread])]
        self.heads[thread] = version

    def head(self, thread: str) -> Ref:
        return (thread, self.heads[thread])

    def lineage(self, ref: Ref) -> frozenset[Ref]:
        """A checkpoint and its logical ancestors."""
        if ref not in self._lineages:
            found, todo = set(), [ref]
            while todo:
                one = todo.pop()
                if one not in found:
                    found.add(one)
                    todo += self.parents[one]
            self._lineages[ref] = frozenset(found)
        return self._lineages[ref]

    def believed(self, ref: Ref) -> set[int]:
        held = self.lineage(ref)
        return {effect for effect, at in self.uses if at in held}

    def fork(self, thread: str, version: int, name: str) -> None:
        self.parents[name, 0] = [(thread, version)]
        self.heads[name] = self.lines[name] = 0
        self.origins[name] = thread

    def merge(self, thread: str, version: int, other: str) -> None:
        """A fork that comes home leaves its effects to its ancestor."""
        self.append(thread, version, self.head(thread), self.head(other))
        above = self.origins.get(other)
        while above not in (None, thread):
            above = self.origins.get(str(above))
        if above == thread:
            self.read_only.add(other)
            self.owners = {one: thread if who == other else who for one, who in self.owners.items()}

    def went(self, thread: str, version: int, target: int) -> None:
        """A plan was applied: another line begins at the target, and no step is open there."""
        self.append(thread, version, (thread, target))
        self.lines[thread] = version
        self.open = {place: one for place, one in self.open.items() if place[0] != thread}

    # --- steps

    def recorded(self, thread: str, run: str, label: str) -> int:
        """How many closed steps of this run and label the head's history holds."""
        held = self.lineage(self.head(thread))
        return sum(at in held and (a, b) == (run, label) for at, a, b in self.closed)

    def entered(self, worker: str, thread: str, label: str, word: str, *, now: int, take_over: bool) -> None:
        """Whether the answer to going in is the one that it must be; and what the worker has in hand."""
        hand = self.hands[worker]
        count = self.recorded(thread, hand.run, label)
        replays = bool(hand.run) and hand.positions.get(label, 0) < count
        need((word == "replays") == replays, "run", worker, "was told", word, "with", count, "recorded")
        need(not hand.run or hand.positions.get(label, 0) <= count, "run", worker, "goes on without its past")
        if replays:
            hand.replays, hand.line = label, self.lines[thread]
            return
        place = (thread, self.lines[thread], hand.run, label)
        one = self.open.get(place)
        need((word == "resumed") == (one is not None), "step", place, "was told", word)
        if one is None:
            self._serial += 1
            one = Opened(place, self._serial)
        theirs = one.owner not in ("", worker) and now <= one.lease
        need(not theirs or take_over, "lease", worker, "came in where", one.owner, "is at work")
        one.owner, one.attempt, one.lease = worker, one.attempt + 1, now + LEASE
        one.base = self.heads[thread]
        hand.opened, hand.attempt = one, one.attempt

    def rightful(self, worker: str) -> Opened:
        """The step that the worker just wrote in: it must be its own still."""
        hand = self.hands[worker]
        one = hand.opened
        need(one is not None, "fence", worker, "wrote without a step")
        assert one is not None
        if one.serial not in self._recorded:
            self._record(one, hand)
        owns = (one.owner, one.attempt) == (worker, hand.attempt) and self.open.get(one.place) is one
        need(owns, "fence", worker, "wrote in a step that is not its own any more")
        return one

    def _record(self, one: Opened, hand: Hand) -> None:
        """The first that is written in a new step: there is no other of its label; in a run it is next."""
        thread, line, run, label = one.place
        need(line == self.lines[thread], "fence", one.place, "is on a line that is over")
        need(one.place not in self.open, "step", one.place, "is open twice")
        next_ = hand.positions.get(label, 0) == self.recorded(thread, run, label)
        need(not run or next_, "run", one.place, "was recorded by somebody else meanwhile")
        self._recorded.add(one.serial)
        self.open[one.place] = one

    def ends(self, worker: str) -> None:
        """The worker is out of its step, which is another's to go on with."""
        hand = self.hands[worker]
        one = hand.opened
        if one is not None and (one.owner, one.attempt) == (worker, hand.attempt):
            one.owner, one.lease = "", 0
        hand.opened, hand.replays = None, ""

    def was_a_commit(self, worker: str, version: int) -> bool:
        """The end of a step, outside any run, of which nothing was recorded: a commit like any other."""
        hand = self.hands[worker]
        if hand.run or hand.opened is None or hand.opened.serial in self._recorded:
            return False
        need(hand.opened.place[1] == self.lines[hand.thread], "fence", worker, "is on a line that is over")
        self.append(hand.thread, version)
        hand.opened = None
        return True

    def closes(self, worker: str, version: int, states: dict[int, str]) -> None:
        """The uses that a close writes."""
        one = self.rightful(worker)
        hand = self.hands[worker]
        thread, _, run, label = one.place
        self.append(thread, version)
        ref = (thread, version)
        claimed = one.claimed()
        for effect in claimed:
            settled = states[effect] in ("done", "failed", "undo_failed")
            need(settled, "close", "effect", effect, "is", states[effect])
        self.uses |= {(effect, ref) for effect in claimed if states[effect] != "failed"}
        self.unclaimed |= set(one.made) - claimed
        self.closed.append((ref, run, label))
        del self.open[one.place]
        hand.opened = None
        hand.positions = {**hand.positions, label: hand.positions.get(label, 0) + 1}
