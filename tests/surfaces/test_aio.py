"""The async façade does what the synchronous one does, in threads of its own that no caller notices."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import takeback
from takeback import aio, files
from takeback.errors import (
    BadState,
    ReadOnlyState,
    TakebackError,
    UnknownCheckpoint,
    UnknownThread,
)
from takeback.model.records import AuditEntry, Checkpoint, ThreadInfo

MEMBERS = [(face, name) for face in aio.FACES.values() for name in dir(face._of) if not name.startswith("_")]


class Trip(msgspec.Struct):
    to: str = ""
    messages: list[str] = []


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


async def numbers(tb: Any, name: str = "t") -> Any:
    return await tb.thread(name, initial={"n": []})


# --- the same names


def test_every_class_of_the_facade_has_a_counterpart() -> None:
    homes = {f"takeback.{name}" for name in (
        "repo", "thread", "view", "step", "plan", "asking", "recovery", "files", "store",
    )}  # fmt: skip
    classes = {
        value for name in takeback.__all__ if inspect.isclass(value := getattr(takeback, name))
        and value.__module__ in homes
    }  # fmt: skip
    records = {takeback.Item, takeback.ItemVersion}
    assert {*classes, takeback.Diff, files.Files, files.FilesDiff} - records == set(aio.FACES)
    assert {face.__name__ for face in aio.FACES.values()} == {f"Async{c.__name__}" for c in aio.FACES}


@pytest.mark.parametrize(("face", "name"), MEMBERS, ids=[f"{face.__name__}.{name}" for face, name in MEMBERS])
def test_every_public_member_has_a_counterpart(face: Any, name: str) -> None:
    """With the same parameters, and awaited unless it is one of the few kinds that cannot be."""
    kind, sync, mirrored = aio.kind(face, name), getattr(face._of, name), getattr(face, name, None)
    if kind is None:
        return  # what objects hold themselves is looked up on them
    assert mirrored is not None
    assert isinstance(mirrored, property) == (kind in ("plain", "asked"))
    assert inspect.iscoroutinefunction(mirrored) == (kind == "awaited")
    if kind not in ("plain", "asked"):
        assert list(inspect.signature(mirrored).parameters) == list(inspect.signature(sync).parameters)


def test_aopen_takes_what_open_takes() -> None:
    assert inspect.signature(aio.aopen).parameters == inspect.signature(takeback.open).parameters
    assert takeback.aopen is aio.aopen


# --- the same behaviour

Asked = Generator[Any, Any, list[Any]]


def scenario(tb: Any, folder: Path) -> Asked:
    """One program for both façades: what is yielded is settled by the driver and sent back."""
    trip = yield tb.thread("trip", agent="planner", meta={"n": 1}, initial={"messages": [], "to": ""})
    said: list[Any] = [trip.name, trip.info, trip.exists, trip.head, trip.version, tb.tenant, tb.actor]
    s = yield entered(trip.step("book", reason="cheaper", meta={"by": "test"}))
    s.state["to"] = "NYC"
    said += [s.label, s.thread.name, (yield from refused(lambda: trip.commit({})))]
    yield left(s)
    said += [s.made, (yield trip.append("messages", "hello", actor="somebody")), (yield trip.state)]
    said += [(yield trip.extend("messages", ["a", "b"])), (yield trip.patch({"/messages/0": "hi"}))]
    said += [(yield trip.merge_patch({"plan": {"x": 1}})), (yield trip.get("/plan/x"))]
    said += [(yield trip.json_patch([{"op": "replace", "path": "/to", "value": "SFO"}]))]
    said += [(yield trip.label("good")), (yield trip.labels)]
    view = yield trip.at(1)
    said += [view.version, view.checkpoint, (yield view.state), (yield view.get("/to"))]
    diff = yield trip.diff(1)
    said += [(yield diff.changes), (yield diff.lines()), (yield diff.as_dict()), (yield diff.summary())]
    said += [(yield diff.as_json_patch()), len(diff), bool(diff), str(diff), diff.before, diff.after]
    said += [(yield from taken_back(trip)), (yield from other_lines(tb, trip))]
    said += [(yield from whole(tb, trip, folder)), (yield from mistakes(tb, trip))]
    said += [(yield from acting(tb)), (yield from asking(tb)), (yield from pending(tb))]
    said += [
        (yield from remembering(tb)),
        (yield from with_files(tb, folder)),
        (yield from space(tb, folder)),
    ]
    return [*said, (yield trip.history()), (yield trip.history(newest_first=False, inherited=True))]


def remembering(tb: Any) -> Asked:
    store, at = tb.store, ("users", "ann")
    trip = yield tb.thread("remembering", agent="planner", initial={})
    s = yield entered(trip.step("learn"))
    said: list[Any] = [(yield store.put(at, "city", "Rome")), (yield store.get(at, "city"))]
    yield left(s)
    yield store.put(at, "nights", {"n": 3}, expect=None)
    yield store.index(lambda texts: [[float(len(text))] for text in texts])
    said += [(yield store.search("users", where={"n": 3})), (yield store.namespaces())]
    said += [(yield store.history(at, "city")), (yield store.delete(at, "nights")), (yield store.verify())]
    yield store.write([(yield store.draft(at, "x", 1)), (yield store.draft(at, "y", 2))])
    yield store.write([(yield store.removal(at, "x"))])
    said += [(yield store.get(at, "x")), (yield store.get(at, "y")).value, (yield store.removal(at, "x"))]
    plan = yield trip.plan_undo()
    return [*said, plan.memory.lines(), (yield trip.undo()).checkpoint, (yield store.get(at, "city"))]


def taken_back(trip: Any) -> Asked:
    plan = yield trip.plan_undo()
    said = [plan.thread, plan.kind, plan.head, plan.target, plan.undoes, str(plan), plan.conflicts]
    said += [(yield plan.lines()), (yield plan.as_dict()), [part.name for part in plan.parts]]
    receipt = yield plan.apply("not there", meta={"m": 1})
    said += [receipt.checkpoint, receipt.standing, (yield receipt.done), (yield receipt.state)]
    said += [(yield receipt.as_dict()), (yield from refused(plan.apply))]
    said += [(yield trip.redo(reason="after all")).checkpoint]
    undone = yield trip.undo()
    said += [undone.checkpoint, str((yield trip.plan_redo())), (yield trip.undo(undone.bookmark)).checkpoint]
    one = yield trip.patch({"one": 1})
    yield trip.patch({"two": 2})
    said += [
        str((yield trip.plan_revert(one))),
        (yield trip.revert(one, reason="one alone")),
        (yield trip.state),
    ]
    said += [str((yield trip.plan_rollback("good"))), (yield trip.rollback(1)).checkpoint]
    return [*said, str((yield trip.taken_back_since())), (yield trip.taken_back_since(trip.version))]


def other_lines(tb: Any, trip: Any) -> Asked:
    fork = yield trip.fork(1, "other", agent="second")
    said = [fork.info, (yield fork.is_same(trip)), (yield fork.append("messages", "forked"))]
    said += [str((yield trip.plan_merge(fork))), (yield trip.merge(fork, reason="good")), (yield trip.state)]
    said += [(yield trip.plan_merge("other")), (yield fork.history(inherited=True))]
    again = yield tb.thread("trip")
    yield again.append("messages", "elsewhere")
    return [*said, trip.version, (yield trip.refresh()).version, (yield trip.refresh()) is trip]


def whole(tb: Any, trip: Any, folder: Path) -> Asked:
    said = [(yield tb.export("trip", str(folder / "trip.tb"))), (yield trip.unlabel("good"))]
    said += [(yield from refused(lambda: tb.import_(folder / "trip.tb", name="again")))]
    brought = yield tb.import_(folder / "far.tb", name="brought")
    seal = yield trip.seal()
    said += [brought.version, (yield trip.verify()), (yield trip.verify(seal)), (yield tb.verify())]
    said += [(yield tb.threads(limit=2)), (yield tb.latest()), (yield tb.damage()), (yield tb.info()).kind]
    said += [len((yield tb.copy(":memory:", threads=["brought"])).threads)]
    yield brought.delete(reason="enough")
    said += [brought.exists, (yield from refused(lambda: brought.head))]
    return [*said, (yield tb.audit()), (yield trip.audit())]


def mistakes(tb: Any, trip: Any) -> Asked:
    said = [(yield from refused(lambda: trip.at(99))), (yield from refused(lambda: trip.get("/no/such")))]
    said += [(yield from refused(lambda: trip.commit({"x": {1}})))]
    said += [(yield from refused(lambda: trip.commit({}, expect=0)))]
    said += [(yield from refused(lambda: tb.thread("trip", agent="stranger")))]
    said += [(yield from refused(lambda: setattr(trip, "state", {})))]
    new = yield tb.thread("nothing yet")
    return [*said, (yield from refused(new.history)), (yield from refused(lambda: new.state))]


def _cancel(seat: str, result: str) -> None:
    assert result == f"ticket {seat}"


@takeback.tool(name="aio_book", undo=_cancel, cost={"money": "cents"})
def book(seat: str, cents: int) -> str:
    return f"ticket {seat}"


@takeback.tool(name="aio_post")
def post(text: str) -> None:
    raise OSError("the line is dead")


def acting(tb: Any) -> Asked:
    trip = yield tb.thread("acting", agent="planner", initial={"n": 0})
    said: list[Any] = [(yield trip.budget({"money": 90})), (yield trip.autopilot)]
    for _ in range(2):  # the second time it is gone through again
        job = yield entered(trip.run("job"))
        s = yield entered(trip.step("book"))
        said += [s.attempt, s.replayed, book("1A", 40)]
        with s.deciding("beside"):
            said += [s.bind(book)("1B", 50)]
        yield left(s)
        yield left(job)
    said += [len((yield trip.effects())), (yield trip.effect(1)).shown, (yield trip.budget())]
    said += [(yield trip.effect_record(1))["result"]]
    said += [(yield trip.undo_effect(2)).state, (yield trip.discrepancies()).lines()]
    plan = yield trip.plan_undo()
    said += [
        plan.calm,
        (yield plan.git),
        plan.waits,
        plan.obstacles,
        [effect.number for effect in plan.effects.undone],
        str((yield plan.apply()))[:9],
    ]
    s = yield entered(trip.step("post"))
    try:
        post("hello")
    except OSError as broken:
        said += [str(broken), len(broken.__notes__)]
    said += [
        (yield from refused(lambda: left(s))),
        (yield from refused(lambda: trip.resolve(3, happened=True))),
    ]
    said += [(yield trip.resolve(3, happened=True, actor="ada")).state, (yield tb.work())]
    return [*said, [effect.number for effect in (yield tb.recover()).effects]]


def asking(tb: Any) -> Asked:
    trip = yield tb.thread("asking", agent="planner", initial={"n": 0})
    yield trip.set_autopilot()
    said: list[Any] = [(yield trip.autopilot)]
    s = yield entered(trip.step("ask"))
    asked = yield from refused(lambda: trip.pause("Which?", {"a": 1}))
    said += [(yield from paused(post, "x"))]
    said += [asked]
    yield left(s, asked)
    said += [(yield trip.resume("a", actor="ada")).state, len((yield trip.approvals()))]
    asked = yield trip.approval(2)
    said += [asked.shown, len((yield tb.approvals())), asked.number, asked.state, asked.is_question]
    said += [(yield asked.thread), asked.facts, (yield asked.as_dict())["tool"]]
    said += [(yield asked.wait(0)), (yield asked.refresh()).number]
    said += [(yield from refused(asked.grant)), (yield asked.grant(actor="ada")).state]
    said += [(yield from refused(lambda: asked.deny("late", actor="ada")))]
    s = yield entered(trip.step("ask"))
    said += [s.attempt, (yield trip.pause("Which?", {"a": 1}))]
    yield left(s)
    return said


def _refuse(item: str) -> None:
    raise takeback.NotDone(f"{item} was eaten")


@takeback.tool(name="aio_order", undo=_refuse)
def order(item: str) -> str:
    return item


def with_files(tb: Any, folder: Path) -> Asked:
    """A directory goes along: attached, captured, looked at, put back, and let go."""
    trip = yield tb.thread("files", agent="planner", initial={})
    place = folder / "project"
    place.mkdir(exist_ok=True)
    (place / "a.txt").write_text("one\n")
    ws = yield trip.workspace(place, watch=False)
    said: list[Any] = [ws.name, (yield ws.shared), (yield ws.path).endswith("project")]
    said += [
        (yield ws.host) != "",
        (yield ws.directory).missed,
        (yield ws.watch()),
        (yield ws.status()).clean,
    ]
    (place / "a.txt").write_text("two\n")
    said += [[str(each) for each in (yield trip.changed_files())], (yield trip.capture("by hand")).kind]
    (place / "b.txt").write_text("new\n")
    said += [(yield trip.capture(step="edit")).step, len((yield trip.workspaces()))]
    files = yield trip.files()
    said += [[path for path, _ in (yield files.items())], (yield files.read("a.txt")), files.workspace]
    said += [(yield files.left_out), (yield files.linked), (yield files.get("nope"))]
    said += [sorted((yield files.as_dict())), (yield trip.read_file(1, "a.txt"))]
    diff = yield trip.diff_files(1)
    said += [bool(diff), len(diff), [each.what for each in (yield diff.changes)], (yield diff.text("a.txt"))]
    said += [(yield diff.as_dict())["workspace"]]
    plan = yield trip.plan_undo()
    said += [str(plan), plan.files.touched, (yield plan.apply()).checkpoint.kind]
    yield ws.detach()
    said += [len((yield trip.workspaces()))]
    said += [(yield trip.plan_prune(0, keep=1)).versions > 0, (yield trip.prune(0, keep=1)).versions > 0]
    said += [len((yield trip.pruned())), (yield tb.gc(grace=0)).removed > 0, len((yield tb.du()))]
    return said


def space(tb: Any, folder: Path) -> Asked:
    """What threads take, giving some of it up, and a copy elsewhere."""
    trip = yield tb.thread("space", initial={"n": 0})
    plan = yield trip.plan_prune(1_000)
    said: list[Any] = [plan.versions, (yield trip.prune(1_000)).versions, (yield tb.gc()).as_dict().keys()]
    copied = yield tb.copy(str(folder / f"{trip.info.uid.hex()}.db"), threads=["space"])
    return [*said, sorted(weight.thread for weight in (yield tb.du())), copied.checkpoints]


def pending(tb: Any) -> Asked:
    """Plans that stop at a line: tried again, given up, and gone on with without it."""
    trip = yield tb.thread("pending", agent="planner", initial={"n": 0})
    said: list[Any] = []
    for end in ("abort", "accept"):
        s = yield entered(trip.step("order"))
        said += [order(end)]
        yield left(s)
        plan = yield trip.plan_undo()
        said += [(yield from refused(lambda plan=plan: plan.apply("enough")))]
        found = yield tb.recover()
        said += [found.clean, found.settled, found.steps, len((yield found.as_dict())["plans"])]
        (held,) = found.plans
        said += [held.stuck, sorted(found.names.values()), (yield found.thread_of(found.effects[0]))]
        said += [held.state, len(held.id), (yield held.thread), (yield held.lines()), without_ids(str(held))]
        number = len(said) and (yield trip.effects())[-1].number
        said += [(yield held.resume()).state, (yield held.retry(number)).state]
        done = yield (held.abort("no") if end == "abort" else held.accept(number))
        said += [done.state, sorted((yield done.as_dict())), (yield trip.refresh()).version]
        said += [(yield trip.effect_notes())]
    return said


def paused(call: Callable[..., Any], *args: Any) -> Asked:
    try:
        call(*args)
    except TakebackError as error:
        return [type(error).__name__, error.what]
    yield


def refused(ask: Callable[[], Any]) -> Generator[Any, Any, TakebackError]:
    try:
        yield ask()
    except TakebackError as error:
        return error
    raise AssertionError("it was not refused")


def entered(step: Any) -> Any:
    return step.__enter__() if hasattr(type(step), "__enter__") else step.__aenter__()


def left(step: Any, error: BaseException | None = None) -> Any:
    """Its end, or what a body that raised comes to."""
    end = step.__exit__ if hasattr(type(step), "__exit__") else step.__aexit__
    return end(None if error is None else type(error), error, None)


def settled(program: Asked) -> list[Any]:
    """Drive a program of the synchronous façade."""
    given = None
    try:
        while True:
            given = program.send(given)
            if isinstance(given, Iterator | takeback.History):
                given = list(given)
    except StopIteration as end:
        return list(end.value)


async def awaited(program: Asked) -> list[Any]:
    """Drive the same program with the async façade."""
    step = partial(program.send, None)
    try:
        while True:
            asked = step()
            try:
                given = await asked if isinstance(asked, Awaitable) else asked
            except TakebackError as error:
                step = partial(program.throw, error)
            else:
                step = partial(program.send, given)
    except StopIteration as end:
        return list(end.value)


VARYING = {"id", "digest", "thread_uid", "uid", "bookmark", "origin"}


def as_json(value: Any) -> str:
    return json.dumps(plain(value), indent=1, ensure_ascii=False)


def plain(value: Any) -> Any:
    """For comparing: without ids, and errors as what they say."""
    if isinstance(value, TakebackError):
        return [type(value).__name__, without_ids(json.dumps(value.as_dict()))]
    if isinstance(value, Checkpoint | ThreadInfo | AuditEntry | takeback.Change):
        return plain(value.as_dict())
    if isinstance(value, msgspec.Struct):
        return plain({name: getattr(value, name) for name in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in dict.items(value) if key not in VARYING}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return without_ids(value) if isinstance(value, str) else repr(value)


def without_ids(text: str) -> str:
    return re.sub(r"\b[bc]\d+-[0-9a-z]+", "…", text)


def ticking() -> Callable[[], int]:
    ticks = iter(range(1, 1_000_000))
    return lambda: next(ticks)


def test_the_same_program_gives_the_same(tmp_path: Path, url: str) -> None:
    """Every value, version, error and entry of the audit log."""
    with takeback.open(":memory:", clock=ticking()) as far:
        far.thread("far", initial={"n": 1}).commit({"n": 2})
        far.export("far", tmp_path / "far.tb")
    with takeback.open(":memory:", actor="me", clock=ticking()) as tb:
        expected = as_json(settled(scenario(tb, tmp_path)))

    async def main() -> str:
        async with await takeback.aopen(url, actor="me", clock=ticking()) as tb:
            return as_json(await awaited(scenario(tb, tmp_path)))

    assert run(main()).replace("sqlite", "memory") == expected
    assert len(expected) > 10_000


def test_the_program_uses_every_member() -> None:
    """A verb that is new must be added to it, or its async form is tried nowhere."""
    program = "".join(
        inspect.getsource(part)
        for part in (
            scenario,
            remembering,
            taken_back,
            other_lines,
            whole,
            mistakes,
            acting,
            asking,
            pending,
            with_files,
            space,
        )
    )
    # Below, and what differs from run to run.
    elsewhere = {"close", "digest"}
    assert {name for _, name in MEMBERS if not re.search(rf"\.{name}\b", program)} <= elsewhere


# --- what the loop does not wait for


class Untouchable:
    """A storage that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the store was asked for {name} on the event loop's thread")


def test_what_is_plain_asks_no_store() -> None:
    """Properties without await, str, len and bool run on the event loop: nothing there may wait."""

    async def main() -> None:
        async with await takeback.aopen(":memory:") as tb:
            thread = await numbers(tb)
            await thread.append("n", 1)
            objects = [tb, thread, thread.step(), thread.history(), await thread.at(0)]
            objects += [await thread.diff(0), await thread.plan_undo(), await thread.undo(), tb.verify()]
            context = tb._inner._ctx
            context.storage, context.cache, storage = Untouchable(), Untouchable(), context.storage
            for face in objects:
                seen = [getattr(face, name) for name in getattr(face, "_plain", ())]
                assert [*seen, str(face), repr(face), bool(face)]
            assert len(objects[5]) == len([change async for change in objects[5]]) == 1
            context.storage = storage

    run(main())


def test_the_work_is_done_in_the_threads_of_the_store() -> None:
    async def main() -> set[str]:
        seen: set[str] = set()

        def clock() -> int:
            seen.add(threading.current_thread().name.partition("_")[0])
            return 1

        async with await takeback.aopen(":memory:", clock=clock) as tb:
            thread = await numbers(tb)
            async with thread.step() as s:
                s.state["n"].append(1)
            await (await thread.plan_undo()).apply()
        return seen

    assert run(main()) == {"takeback"}


def test_a_property_that_may_ask_is_not_asked_until_it_is_awaited() -> None:
    """So that `hasattr`, a debugger or a forgotten await leaves no coroutine behind."""

    async def main() -> None:
        async with await takeback.aopen(":memory:") as tb:
            thread = await tb.thread("t")
            asked = thread.state
            with pytest.raises(TypeError, match="NotAwaited"):
                asked["n"]
            await thread.commit({"n": 1})
            assert [await asked, await asked] == [{"n": 1}, {"n": 1}]

    run(main())


# --- values


def test_a_model_is_what_comes_and_what_a_step_holds(url: str) -> None:
    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            trip = await tb.thread("t", model=Trip, initial=Trip(to="NYC"))
            async with trip.step() as s:
                assert isinstance(s.state, Trip)
                s.state = Trip(to="SFO")
            assert await trip.state == Trip(to="SFO")
            assert await (await trip.at(0)).state == Trip(to="NYC")
            await trip.commit({"to": 3})
            with pytest.raises(BadState):
                await trip.state

    run(main())


def test_what_is_not_there_is_no_attribute() -> None:
    async def main() -> None:
        async with await takeback.aopen(":memory:") as tb:
            thread = await numbers(tb)
            for name in ("stat", "_stat"):
                with pytest.raises(AttributeError, match=name):
                    getattr(thread, name)
            with pytest.raises(ReadOnlyState):
                thread.state = {}

    run(main())


def test_they_say_what_they_are() -> None:
    async def main() -> list[str]:
        async with await takeback.aopen(":memory:") as tb:
            thread = await numbers(tb)
            await thread.append("n", 1)
            said = [tb, thread, await thread.at(0), await thread.diff(0), await thread.plan_undo()]
            return [*map(repr, said), str(thread), str(said[4]), without_ids(repr(await thread.undo()))]

    assert run(main()) == [
        "<AsyncRepo of tenant 'default'>",
        "<AsyncThread 't' at version 1>",
        "<AsyncView of 't' at version 0>",
        "<AsyncDiff 't' 0 → 1>",
        "<AsyncPlan undo of 't': n/0: removed>",
        "<AsyncThread 't' at version 1>",
        "n/0: removed",
        "<AsyncReceipt version 2 (undo) · bookmark …>",
    ]


# --- items


def test_a_long_history_is_walked_in_few_hops(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hops = 0
    real = aio._batch

    def counted(items: Any) -> list[Any]:
        nonlocal hops
        hops += 1
        return real(items)

    async def main() -> None:
        async with await takeback.aopen(url, durability="relaxed") as tb:
            thread = await tb.thread("t", initial=0)
            await asyncio.gather(*(thread.commit(place) for place in range(1, 1_000)))
            monkeypatch.setattr(aio, "_batch", counted)
            assert [c.version async for c in thread.history()] == list(range(999, -1, -1))
            assert hops < 500
            assert [c.version for c in await thread.history(newest_first=False)] == list(range(1_000))
            async for checkpoint in thread.history():
                assert checkpoint == thread.head
                break

    run(main())


def test_what_takes_long_comes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first report is there before the second thread is verified."""
    monkeypatch.setattr(aio, "_MOMENT", 0)
    assert aio._batch(iter(range(3))) == [0]
    monkeypatch.setattr(aio, "_MOMENT", 3600)
    assert aio._batch(iter(range(3))) == [0, 1, 2]
    assert len(aio._batch(iter(range(5_000)))) == aio._BATCH
    assert aio._batch(iter(())) == []


def test_a_history_stays_what_it_was_when_it_was_asked_for() -> None:
    async def main() -> None:
        async with await takeback.aopen(":memory:") as tb:
            thread = await numbers(tb)
            history = thread.history()
            await thread.append("n", 1)
            assert [c.version for c in await history] == [0]
            assert [c.version for c in await thread.history()] == [1, 0]

    run(main())


def test_errors_are_those_of_the_synchronous_facade() -> None:
    async def main() -> None:
        async with await takeback.aopen(":memory:") as tb:
            thread = await numbers(tb)
            with pytest.raises(UnknownCheckpoint) as refused:
                await thread.at(7)
            assert (refused.value.thread, refused.value.kind) == ("t", "unknown_checkpoint")
            with pytest.raises(UnknownThread):
                (await tb.thread("new")).history()

    run(main())
