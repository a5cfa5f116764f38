"""What the state machine compares after each step: everything that is promised of what is stored."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import msgspec
from hypothesis.stateful import RuleBasedStateMachine, invariant

from takeback.errors import MergeConflict, TakebackError
from takeback.model.records import Checkpoint
from takeback.repo import Repo
from takeback.testing.model import Line, Model, Outcome, Refused, edited, fingerprint
from takeback.testing.places import StorePlace
from takeback.thread import Thread

_TENANT = "machine"
_BEGIN = 1_750_000_000_000_000


class Holding(msgspec.Struct):
    """A handle that is kept, and the version that it has seen."""

    handle: Thread[Any]
    number: int
    version: int
    value: Any


def is_true(holds: bool, what: str) -> None:
    """A promise; said in words where it does not hold."""
    if not holds:
        raise AssertionError(what)


class Checks(RuleBasedStateMachine):
    """The store, the model beside it, and what must hold between them."""

    make: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.now = _BEGIN
        self.place: StorePlace = self.make()
        self.model = Model()
        self.handles: dict[str, Thread[Any]] = {}
        self.held: list[Holding] = []
        self.written: dict[tuple[bytes, int], tuple[bytes, bytes]] = {}
        self.prints: dict[tuple[int, int], Any] = {}
        self.value_of: dict[bytes, Any] = {}
        self.root_of: dict[Any, bytes] = {}
        self.repo = self._open()

    def teardown(self) -> None:
        try:
            self.everything_holds()
        finally:
            self.repo.close()
            self.place.discard()

    def open_again(self) -> None:
        self.repo.close()
        self.held.clear()
        self.repo = self._open()
        self.handles = {name: self.repo.thread(name) for name in self.model.threads}

    # --- after each step

    @invariant()
    def threads_are_those_of_the_model(self) -> None:
        listed = self.repo.threads()
        is_true({info.name for info in listed} == set(self.model.threads), f"the threads are {listed}")
        done = [(entry.action, entry.thread) for entry in self.repo.audit()]
        is_true(done == self.model.audit, f"the audit log is {done}")

    @invariant()
    def each_thread_is_as_in_the_model(self) -> None:
        for name, line in self.model.threads.items():
            thread = self.repo.thread(name)
            rows = list(thread.history(newest_first=False))
            kinds = [version["kind"] for version in line["versions"]]
            is_true([c.kind for c in rows] == kinds, f"{name} is {rows}, and should be {kinds}")
            is_true(len(thread.history()) == len(rows), "a history's length is not that of what it gives")
            is_true(
                [c.version for c in rows] == list(range(len(rows))), f"versions of {name} are not gapless"
            )
            is_true(thread.head == rows[-1], f"the head of {name} is not its last version")
            is_true(thread.labels == line["labels"], f"the labels of {name} are {thread.labels}")
            if self._rows(rows, line):
                self._reads(thread, line, len(rows) - 1)
                self._reads(thread, line, len(self.written) % len(rows))
            handle = self.handles[name]
            is_true(handle.head == rows[-1], f"the handle of {name} that wrote last is at {handle.head}")

    def _rows(self, rows: list[Checkpoint], line: Line) -> bool:
        """Nothing that was written changes; what is new has its time, its chain and its state's address."""
        before: Checkpoint | None = None
        known = len(self.written)
        for row in rows:
            said = (row.record, row.digest)
            if (row.uid, row.version) not in self.written:
                self.written[row.uid, row.version] = said
                self._new(row, before, self._print(line, row.version))
            is_true(self.written[row.uid, row.version] == said, f"{row} is not what was written")
            before = row
        return len(self.written) > known

    def _new(self, row: Checkpoint, before: Checkpoint | None, value: Any) -> None:
        is_true(row.clock_us == self.now, f"{row} was written at another time")
        is_true(row.time_us == max(self.now, before.time_us if before else 0), f"the time of {row} went back")
        is_true(
            row.previous == (before.digest if before else b""), f"{row} does not follow the one before it"
        )
        root = row.state_root
        is_true(self.root_of.setdefault(value, root) == root, f"{row} has another root than an equal value")
        is_true(self.value_of.setdefault(root, value) == value, f"{row} has the root of another value")

    def _reads(self, thread: Thread[Any], line: Line, version: int) -> None:
        state = thread.at(version).state
        if fingerprint(state) != self._print(line, version):
            value = line["versions"][version]["value"]
            raise AssertionError(f"version {version} reads as {state!r}, and was written as {value!r}")

    def _print(self, line: Line, version: int) -> Any:
        node = (line["number"], version)
        if node not in self.prints:
            self.prints[node] = fingerprint(line["versions"][version]["value"])
        return self.prints[node]

    # --- now and then

    def everything_holds(self) -> None:
        """Every version reads back, and every thread verifies."""
        for name, line in self.model.threads.items():
            thread = self.repo.thread(name)
            for version in range(len(line["versions"])):
                self._reads(thread, line, version)
            report = thread.verify()
            is_true(report.ok, str(report))
            is_true(report.checkpoints == len(line["versions"]), "verify passed a version over")
        is_true(self.repo.damage() == [], "the store's own file is damaged")

    def travels(self, name: str) -> None:
        """A thread that was exported is, in another store, the thread that it was."""
        from takeback.storage.memory import MemoryStorage

        with tempfile.TemporaryDirectory(prefix="tb-") as folder, Repo(MemoryStorage()) as elsewhere:
            path = os.path.join(folder, "thread")
            count = self.repo.export(name, path)
            is_true(count == len(self.model.threads[name]["versions"]), f"{count} versions were exported")
            there = elsewhere.import_(path, name="there")
            here = self.repo.thread(name)
            is_true(_shown(there) == _shown(here), f"{name} came out as another thread")
            is_true(there.verify().ok, f"{name} does not verify where it was brought in")

    # --- one act on both sides

    def both(self, act: Callable[[], Any], expect: Callable[[], Any]) -> Any:
        """Done on both sides, or refused on both with one kind of error."""
        try:
            expect()
        except Refused as refusal:
            with self.expecting(refusal.kind):
                act()
            return None
        return act()

    @contextlib.contextmanager
    def expecting(self, kind: str, family: type[TakebackError] | None = None) -> Iterator[None]:
        try:
            yield
        except TakebackError as error:
            fits = error.kind == kind or (family is not None and isinstance(error, family))
            is_true(fits, f"refused as {error.kind}, and not as {kind}: {error}")
        else:
            is_true(False, f"done, and should have been refused as {kind}")

    def merge_or_clash(
        self,
        name: str,
        act: Callable[[], Checkpoint],
        expect: Callable[[], Outcome | None],
        kind: str,
        merges: tuple[int, int] | None = None,
    ) -> None:
        """A merge: refused, nothing to do, a clash, or a value."""
        try:
            outcome = expect()
        except Refused as refusal:
            with self.expecting(refusal.kind):
                act()
            return
        try:
            made = act()
        except MergeConflict as error:
            is_true(outcome is not None, f"a clash where there was nothing to merge: {error}")
            assert outcome is not None
            self.clashes(outcome, error)
            return
        if outcome is None:
            is_true(made.version == self.model.last(name), "a merge of nothing made a version")
            return
        self.settle(name, outcome, kind, merges)

    def clashes(self, outcome: Outcome, error: MergeConflict) -> None:
        is_true(bool(outcome.clashes) or outcome.unsure, f"a clash where there is none: {error}")
        if not outcome.unsure:
            found = [clash.path for clash in error.conflicts]
            is_true(found == outcome.clashes, f"clashes at {found}, and not at {outcome.clashes}")

    def settle(self, name: str, outcome: Outcome, kind: str, merges: tuple[int, int] | None = None) -> None:
        """The merge was made: with the model's value or, where more than one is right, the store's."""
        is_true(not outcome.clashes, f"both changed {outcome.clashes}, and one was overwritten")
        value = edited(self.repo.thread(name).state, {}) if outcome.unsure else outcome.value
        self.model.write(name, value, kind, merges=merges)

    # --- inside

    def _open(self) -> Repo:
        return Repo(self.place.open(), tenant=_TENANT, actor="machine", clock=lambda: self.now)


def _shown(thread: Thread[Any]) -> Any:
    rows = [(c.record, c.digest) for c in thread.history(newest_first=False)]
    states = [fingerprint(thread.at(version).state) for version in range(len(rows))]
    return rows, states, thread.labels, thread.info.meta
