"""A state machine: the façade on any storage, driven together with the model and compared after each step.

    TestMine = build_machine(lambda: FolderPlace(lambda folder: MyStorage(f"{folder}/store"))).TestCase

What is compared after each step is in `Checks`; what is done, here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from takeback.engine.patch import DELETE
from takeback.errors import Conflict, MergeConflict, Unstorable
from takeback.model.records import Checkpoint
from takeback.testing import strategies
from takeback.testing.checks import Checks, Holding, is_true
from takeback.testing.model import GONE, Outcome, Place, Refused, edited, extended, merged, same
from takeback.testing.places import StorePlace
from takeback.thread import Thread

_NAMES = ["a", "b", "c"]
_LABELS = ["good", "v1"]
_MOVES = [
    ["undo"],
    ["undo", "undo"],
    ["redo"],
    ["redo", "redo"],
    ["write"],
    ["rollback"],
    ["bookmark", "undo"],
]


class StoreMachine(Checks):
    """Every verb of a thread, alone and beside others. `make` gives an empty place for each run."""

    make: ClassVar[Callable[[], StorePlace]]
    states: ClassVar[st.SearchStrategy[Any]]
    values: ClassVar[st.SearchStrategy[Any]]

    # --- threads come into being

    @rule(data=st.data(), how=st.sampled_from(["initial", "commit", "step"]))
    def create(self, data: st.DataObject, how: str) -> None:
        name, value = data.draw(st.sampled_from(_NAMES), label="name"), data.draw(self.states, label="state")
        if name in self.model.threads:
            self.handles[name] = self.repo.thread(name, initial={"ignored": True})
            return
        if how == "initial" and value is not None:
            self.handles[name] = self.repo.thread(name, initial=value)
            self.model.create(name, value)
            return
        handle = self.handles[name] = self.repo.thread(name)
        if how == "step":
            with handle.step() as s:
                s.state["log"] = value
            self.model.create(name, {"log": value}, "step")
        else:
            handle.commit(value)
            self.model.create(name, value, "commit")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        name, version = self.some_version(data)
        new = data.draw(st.sampled_from(_NAMES), label="new name")
        made = self.both(
            lambda: self.thread(name).fork(version, new), lambda: self.model.fork(name, version, new)
        )
        if made is not None:
            self.handles[new] = made

    @precondition(lambda self: len(self.model.threads) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = self.some_thread(data)
        self.thread(name).delete()
        self.model.delete(name)
        del self.handles[name]

    # --- versions are made

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """Also of the state as it is, as it was read."""
        name, value = self.some_thread(data), data.draw(self.states | st.just(GONE), label="state")
        thread = self.thread(name)
        made = thread.commit(thread.state if value is GONE else value, reason="because", meta={"n": 1})
        is_true((made.reason, made.meta) == ("because", {"n": 1}), "what was said is not what was recorded")
        self.model.write(name, self.model.value(name) if value is GONE else value, "commit")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def patch(self, data: st.DataObject) -> None:
        name = self.some_thread(data)
        edits = data.draw(strategies.edits(self.model.value(name), self.values), label="edits")
        self.thread(name).patch(as_patch(edits))
        self.model.write(name, edited(self.model.value(name), edits), "patch")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        """Also to what is no list, which is refused."""
        name = self.some_thread(data)
        value, items = self.model.value(name), data.draw(st.lists(self.values, max_size=5), label="items")
        place = data.draw(st.sampled_from(list_places(value) or strategies.places(value)), label="place")
        self.both(
            lambda: self.thread(name).extend(place, items),
            lambda: self.model.write(name, extended(value, place, items), "append"),
        )

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), ends=st.sampled_from(["well", "raising", "unchanged", "beside another"]))
    def step(self, data: st.DataObject, ends: str) -> None:
        name = self.some_thread(data)
        value = self.model.value(name)
        edits = data.draw(strategies.edits(value, self.values), label="edits")
        theirs = (
            data.draw(strategies.edits(value, self.values), label="theirs")
            if ends == "beside another"
            else None
        )
        ours = value if ends == "unchanged" else edited(value, edits)
        with self.merging_end(name, value, ours, theirs), self.thread(name).step("s") as s:
            s.state = edited(s.state, edits)
            if theirs is not None:
                Context().run(self.repo.thread(name).patch, as_patch(theirs))
            if ends == "raising":
                raise _Stop
            if ends == "unchanged":
                s.state = edited(value, {})

    @contextlib.contextmanager
    def merging_end(
        self, name: str, base: Any, ours: Any, theirs: Mapping[Place, Any] | None
    ) -> Iterator[None]:
        """What the end of a step comes to, by the number of versions that are there afterwards."""
        before = self.thread(name).refresh().version
        if theirs is not None:
            self.model.write(name, edited(base, theirs), "patch")
            before += 1
        clashed = stopped = False
        try:
            yield
        except _Stop:
            stopped = True
        except MergeConflict as error:
            clashed = True
            self.clashes(merged(base, ours, self.model.value(name)), error)
        made = self.thread(name).refresh().version - before
        outcome = merged(base, ours, self.model.value(name))
        is_true(made <= (not stopped and not clashed), "a step that failed made a version")
        if made:
            self.settle(name, outcome, "step")
        elif not stopped and not clashed:
            is_true(not outcome.clashes, "a clash at the end of a step was passed over")
            is_true(same(base, ours), "a step that changed something made no version")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), value=strategies.refused_values())
    def refuse(self, data: st.DataObject, value: Any) -> None:
        """Nothing of what cannot be stored stays, whichever way it came."""
        thread = self.thread(self.some_thread(data))
        with self.expecting(Unstorable.kind, Unstorable):
            data.draw(st.sampled_from([thread.commit, lambda v: thread.commit({"x": v})]), label="how")(value)

    # --- and taken back

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), planned=st.booleans())
    def rollback(self, data: st.DataObject, planned: bool) -> None:
        name, version = self.some_version(data)
        thread = self.thread(name)
        receipt = thread.plan_rollback(version).apply() if planned else thread.rollback(version)
        self.model.rollback(name, version)
        is_true(receipt.checkpoint.origin is not None, "a rollback that does not say where to")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), moves=st.lists(st.sampled_from(_MOVES), max_size=6))
    def walk(self, data: st.DataObject, moves: list[list[str]]) -> None:
        """Back and forth on one thread, and new operations in between."""
        name = self.some_thread(data)
        for number, move in enumerate(move for several in moves for move in several):
            self.move(name, move, number)

    def move(self, name: str, move: str, number: int) -> None:
        thread, version = self.thread(name), number * 3 % (self.model.last(name) + 1)
        if move == "undo":
            self.both(thread.undo, lambda: self.model.undo(name))
        elif move == "redo":
            self.both(thread.redo, lambda: self.model.redo(name))
        elif move == "bookmark":
            thread.undo(thread.at(version).checkpoint.bookmark)
            self.model.undo_to(name, version)
        elif move == "rollback":
            thread.rollback(version)
            self.model.rollback(name, version)
        else:
            thread.commit({"move": number})
            self.model.write(name, {"move": number}, "commit")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def undo_to_a_bookmark(self, data: st.DataObject) -> None:
        name, version = self.some_version(data)
        mark = self.thread(name).at(version).checkpoint.bookmark
        self.thread(name).undo(mark)
        self.model.undo_to(name, version)

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        name, version = self.some_version(data)
        self.merge_or_clash(
            name,
            lambda: self.thread(name).revert(version),
            lambda: self.model.reverting(name, version),
            "revert",
        )

    @precondition(lambda self: len(self.model.threads) > 1)
    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        self.merge_of(self.some_thread(data), self.some_thread(data))

    def merge_of(self, name: str, other: str) -> None:
        node = None if name == other else (self.model.threads[other]["number"], self.model.last(other))
        thread = self.thread(name)
        self.merge_or_clash(
            name, lambda: thread.merge(other), lambda: self.model.merging(name, other), "merge", merges=node
        )

    @precondition(lambda self: 0 < len(self.model.threads) < len(_NAMES))
    @rule(data=st.data(), rounds=st.integers(min_value=1, max_value=3), after=st.sampled_from(["", "undo"]))
    def part_and_meet(self, data: st.DataObject, rounds: int, after: str) -> None:
        """A fork, work on both sides, and merges in either direction; the second of two brings nothing."""
        name = self.some_thread(data)
        new = next(free for free in _NAMES if free not in self.model.threads)
        self.handles[new] = self.thread(name).fork(name=new)
        self.model.fork(name, self.model.last(name), new)
        for number in range(rounds):
            for side in (name, new):
                place = next(iter(list_places(self.model.value(side))), None)
                if place is not None:
                    self.thread(side).append(place, f"{side} {number}")
                    self.model.write(
                        side, extended(self.model.value(side), place, [f"{side} {number}"]), "append"
                    )
            one, other = data.draw(st.permutations([name, new]), label="into and from")
            for _ in range(2):
                self.merge_of(one, other)
        if after:
            self.move(name, after, 0)

    # --- labels

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), label=st.sampled_from(_LABELS))
    def label(self, data: st.DataObject, label: str) -> None:
        name, version = self.some_version(data)
        self.thread(name).label(label, version)
        self.model.label(name, label, version)
        is_true(self.thread(name).at(label).version == version, "a label names another version")

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data(), label=st.sampled_from(_LABELS))
    def unlabel(self, data: st.DataObject, label: str) -> None:
        name = self.some_thread(data)
        self.both(lambda: self.thread(name).unlabel(label), lambda: self.model.unlabel(name, label))

    # --- others write too

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        """Keep a handle, which grows stale while others write."""
        name = self.some_thread(data)
        handle = self.repo.thread(name)
        self.held.append(
            Holding(handle, self.model.threads[name]["number"], self.model.last(name), self.model.value(name))
        )

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), how=st.sampled_from(["commit", "patch", "append", "rollback"]), merging=st.booleans()
    )
    def write_late(self, data: st.DataObject, how: str, merging: bool) -> None:
        """What a stale handle writes is refused, or merged when that was asked for; never written over."""
        held = self.held.pop(data.draw(st.integers(0, len(self.held) - 1), label="which"))
        name = held.handle.name
        line = self.model.threads.get(name)
        if line is None or line["number"] != held.number:
            with self.expecting("thread_deleted"):
                held.handle.commit({}, on_conflict="merge" if merging else "raise")
        elif how == "rollback":
            self.both(lambda: held.handle.rollback(held.version), lambda: self.late_rollback(name, held))
        elif how == "commit":
            self.late_commit(name, held, data.draw(self.states, label="state"), merging=merging)
        else:
            self.late_edit(name, held, data, how, merging=merging)
        if name in self.model.threads:
            self.thread(name).refresh()

    def late_rollback(self, name: str, held: Holding) -> None:
        if self.model.last(name) != held.version:
            raise Refused("plan_stale")
        self.model.rollback(name, held.version)

    def late_commit(self, name: str, held: Holding, state: Any, *, merging: bool) -> None:
        def outcome() -> Outcome:
            if self.model.last(name) == held.version:
                return Outcome(state)
            if not merging:
                raise Refused(Conflict.kind)
            return merged(held.value, state, self.model.value(name))

        on = "merge" if merging else "raise"
        self.merge_or_clash(name, lambda: held.handle.commit(state, on_conflict=on), outcome, "commit")  # type: ignore[arg-type]  # either of its two

    def late_edit(self, name: str, held: Holding, data: st.DataObject, how: str, *, merging: bool) -> None:
        on: Any = "merge" if merging else "raise"
        if how == "patch":
            edits = data.draw(strategies.edits(held.value, self.values), label="edits")
            act: Callable[[], Checkpoint] = lambda: held.handle.patch(as_patch(edits), on_conflict=on)  # noqa: E731 (one of two)
            change: Callable[[Any], Any] = lambda value: edited(value, edits)  # noqa: E731 (one of two)
        else:
            place = data.draw(st.sampled_from(list_places(held.value) or [("log",)]), label="place")
            act = lambda: held.handle.append(place, "late", on_conflict=on)  # noqa: E731 (one of two)
            change = lambda value: extended(value, place, ["late"])  # noqa: E731 (one of two)

        def expect() -> None:
            change(held.value)
            if self.model.last(name) != held.version and not merging:
                raise Refused(Conflict.kind)
            self.model.write(name, change(self.model.value(name)), how)

        self.both(act, expect)

    # --- the store as a whole

    @rule()
    def reopen(self) -> None:
        """Everything is there again, for new handles of a new process as far as there is one."""
        self.open_again()
        self.everything_holds()

    @rule(seconds=st.integers(min_value=-100, max_value=100))
    def clock_moves(self, seconds: int) -> None:
        """Also back."""
        self.now += seconds * 1_000_000

    @precondition(lambda self: self.model.threads)
    @rule(data=st.data())
    def export_and_import(self, data: st.DataObject) -> None:
        self.travels(self.some_thread(data))

    # --- helpers

    def some_thread(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.threads)), label="thread")

    def some_version(self, data: st.DataObject) -> tuple[str, int]:
        name = self.some_thread(data)
        return name, data.draw(st.integers(0, self.model.last(name)), label="version")

    def thread(self, name: str) -> Thread[Any]:
        return self.handles[name]


class _Stop(Exception):
    """What a step's body raises."""


def as_patch(edits: Mapping[Place, Any]) -> dict[str, Any]:
    """Edits as `patch` takes them: JSON Pointers, or a bare word where one will do."""
    return {_key(place): DELETE if new is GONE else new for place, new in edits.items()}


def _key(place: Place) -> str:
    first = place[0]
    if len(place) == 1 and isinstance(first, str) and first and first[0] != "/":
        return first
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def list_places(value: Any) -> list[Place]:
    return [place for place in strategies.places(value) if isinstance(_value_at(value, place), list)]


def _value_at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def build_machine(
    make: Callable[[], StorePlace],
    *,
    states: st.SearchStrategy[Any] | None = None,
    values: st.SearchStrategy[Any] | None = None,
) -> type[StoreMachine]:
    """The machine for a kind of storage; its `TestCase` is what a test file names."""
    members = {
        "make": staticmethod(make),
        "states": strategies.states() if states is None else states,
        "values": strategies.values(4) if values is None else values,
    }
    return type("StoreMachine", (StoreMachine,), members)
