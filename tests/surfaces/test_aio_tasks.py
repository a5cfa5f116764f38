"""The async façade among tasks: many at once, open steps, cancellation, event loops, processes, closing."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

import takeback
from takeback import aio, pool
from takeback.errors import StepOpen, StoreClosed, StoreUnavailable, TakebackError

SRC = Path(__file__).resolve().parents[2] / "src"


class Gate:
    """A clock, so that a test decides how long a write takes: the next one stops until it is opened."""

    def __init__(self) -> None:
        self.reached, self._open, self._shut, self._now = threading.Event(), threading.Event(), False, 0
        self.open = self._open.set

    def __call__(self) -> int:
        if self._shut:
            self._shut = False
            self.reached.set()
            self._open.wait()
        self._now += 1
        return self._now

    def shut(self) -> None:
        self._shut = True

    async def wait(self) -> None:
        await asyncio.to_thread(self.reached.wait)


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(main)


async def numbers(tb: Any, name: str = "t") -> Any:
    return await tb.thread(name, initial={"n": []})


# --- many at once


def test_fifty_tasks_append_to_one_thread(url: str) -> None:
    """None is lost, whether they share the handle or have their own."""

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread = await numbers(tb)
            own = [await tb.thread("t") for _ in range(25)]
            writers = [*own, *[thread] * 25]
            await asyncio.gather(*(writer.append("n", place) for place, writer in enumerate(writers)))
            await thread.refresh()
            assert (thread.version, sorted((await thread.state)["n"])) == (50, list(range(50)))
            assert not (await thread.verify()).problems

    run(main())


def test_a_handle_does_what_it_is_asked_in_that_order(url: str) -> None:
    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread = await numbers(tb)
            made = await asyncio.gather(*(thread.append("n", place) for place in range(50)))
            assert (await thread.state)["n"] == list(range(50))
            assert [checkpoint.version for checkpoint in made] == list(range(1, 51))
            assert thread.head == made[-1]

    run(main())


def test_twenty_tasks_on_twenty_threads(url: str) -> None:
    async def work(tb: Any, name: str) -> None:
        thread = await numbers(tb, name)
        for turn in range(5):
            async with thread.step(f"turn {turn}") as s:
                s.state["n"].append(turn)
        await thread.undo()
        assert (await thread.state)["n"] == [0, 1, 2, 3]

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            await asyncio.gather(*(work(tb, f"t{place}") for place in range(20)))
            assert {info.versions for info in await tb.threads()} == {7}
            assert [report.problems async for report in tb.verify()] == [[]] * 20

    run(main())


def test_a_handle_that_waits_keeps_no_thread_from_others() -> None:
    """However many calls wait for one slow handle, there are threads for the other handles."""
    gate = Gate()

    async def main() -> None:
        async with await takeback.aopen(":memory:", clock=gate) as tb:
            slow, quick = await numbers(tb, "slow"), await numbers(tb, "quick")
            gate.shut()
            waiting = [asyncio.create_task(slow.append("n", place)) for place in range(20)]
            await gate.wait()
            assert (await quick.append("n", 1)).version == 1
            assert slow.version == 0
            gate.open()
            await asyncio.gather(*waiting)
            assert slow.version == 20

    run(main())


def test_handles_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every thread is busy, a handle's next call goes behind the calls of others."""
    gate, done = Gate(), []

    async def noted(thread: Any) -> None:
        await thread.append("n", 1)
        done.append(thread.name)

    async def main() -> None:
        monkeypatch.setattr(pool, "WORKERS", 1)
        async with await takeback.aopen(":memory:", clock=gate) as tb:
            eager, other = await numbers(tb, "eager"), await numbers(tb, "other")
            gate.shut()
            tasks = [asyncio.create_task(noted(thread)) for thread in (eager, eager, eager, other)]
            await gate.wait()
            await asyncio.sleep(0)
            gate.open()
            await asyncio.gather(*tasks)

    run(main())
    assert done == ["eager", "other", "eager", "eager"]


# --- steps


def test_a_task_of_an_open_step_does_not_pass_it_by(url: str) -> None:
    """The open step is a context variable, which a task inherits, and which the pool's threads see."""

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread, other = await numbers(tb), await numbers(tb, "other")
            async with thread.step("book") as s:
                for ask in (thread.append, (await tb.thread("t")).append):
                    with pytest.raises(StepOpen, match="'book' is open here"):
                        await asyncio.create_task(ask("n", 1))
                with pytest.raises(StepOpen):
                    async with thread.step("again"):
                        raise AssertionError("it was entered")
                await asyncio.create_task(other.append("n", 1))
                s.state["n"].append(2)
            assert (await thread.state, await other.state) == ({"n": [2]}, {"n": [1]})
            await thread.append("n", 3)

    run(main())


def test_steps_of_two_tasks_do_not_see_each_other(url: str) -> None:
    async def work(thread: Any, other: Any, both: asyncio.Barrier) -> None:
        async with thread.step() as s:
            await both.wait()
            s.state["n"].append(thread.name)
            await other.refresh()
            await both.wait()
        await both.wait()
        await other.append("n", thread.name)

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            one, two, both = await numbers(tb, "one"), await numbers(tb, "two"), asyncio.Barrier(2)
            await asyncio.gather(work(one, two, both), work(two, one, both))
            assert (await one.state, await two.state) == ({"n": ["one", "two"]}, {"n": ["two", "one"]})

    run(main())


def test_steps_of_two_tasks_on_one_thread_are_merged(url: str) -> None:
    async def work(thread: Any, key: str, both: asyncio.Barrier) -> None:
        async with thread.step(key) as s:
            await both.wait()
            s.state[key] = 1
            await both.wait()

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread, both = await numbers(tb), asyncio.Barrier(2)
            await asyncio.gather(*(work(thread, key, both) for key in "ab"))
            assert await thread.state == {"n": [], "a": 1, "b": 1}

    run(main())


def test_a_step_that_fails_or_is_cancelled_commits_nothing(url: str) -> None:
    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread, entered = await numbers(tb), asyncio.Event()

            async def work(error: Exception | None) -> None:
                async with thread.step() as s:
                    s.state["n"].append(1)
                    entered.set()
                    if error is not None:
                        raise error
                    await asyncio.Event().wait()

            with pytest.raises(ZeroDivisionError):
                await work(ZeroDivisionError())
            task = asyncio.create_task(work(None))
            entered.clear()
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (thread.version, await thread.state) == (0, {"n": []})
            await thread.append("n", 2)

    run(main())


def test_a_step_may_end_in_another_context_than_it_began_in(url: str) -> None:
    """As a test fixture's does, whose two halves run in tasks of their own."""

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            step = (await numbers(tb)).step()
            await asyncio.create_task(step.__aenter__())
            step.state["n"].append(1)
            await asyncio.create_task(step.__aexit__(None, None, None))
            assert step.made == step.thread.head

    run(main())


# --- cancellation


def test_a_cancelled_write_is_finished_before_its_await_ends() -> None:
    """Cancelled twice too: what has begun in a thread cannot be stopped, and the handle knows its head."""
    gate = Gate()

    async def main() -> None:
        async with await takeback.aopen(":memory:", clock=gate) as tb:
            thread = await numbers(tb)
            gate.shut()
            task = asyncio.create_task(thread.append("n", 1))
            await gate.wait()
            for _ in range(2):
                task.cancel()
                await asyncio.sleep(0)
                assert not task.done()
            gate.open()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (thread.version, await thread.state) == (1, {"n": [1]})
            assert (await thread.append("n", 2)).version == 2

    run(main())


def test_a_write_that_has_not_begun_never_does() -> None:
    gate = Gate()

    async def main() -> None:
        async with await takeback.aopen(":memory:", clock=gate) as tb:
            thread = await numbers(tb)
            gate.shut()
            first = asyncio.create_task(thread.append("n", 1))
            await gate.wait()
            second, third = (asyncio.create_task(thread.append("n", place)) for place in (2, 3))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            gate.open()
            await asyncio.gather(first, third)
            assert await thread.state == {"n": [1, 3]}

    run(main())


def test_a_cancelled_write_that_fails_is_a_cancellation() -> None:
    """Its error has nobody to go to, and asyncio does not report it as lost."""
    gate, lost = Gate(), []

    async def cancelled(thread: Any) -> None:
        gate.shut()
        task = asyncio.create_task(thread.commit({}))
        await gate.wait()
        task.cancel()
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: lost.append(context))
        async with await takeback.aopen(":memory:", clock=gate) as tb:
            thread = await numbers(tb)
            await (await tb.thread("t")).append("n", 1)
            await cancelled(thread)
            assert thread.version == 0

    run(main())
    gc.collect()
    assert lost == []


def test_a_cancelled_opening_closes_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[takeback.Repo] = []
    reached, release, real = threading.Event(), threading.Event(), takeback.open

    def slow(*args: Any, **named: Any) -> takeback.Repo:
        opened.append(real(*args, **named))
        reached.set()
        release.wait()
        return opened[0]

    async def main() -> None:
        monkeypatch.setattr(aio.repo, "open", slow)
        task = asyncio.create_task(takeback.aopen(":memory:"))
        await asyncio.to_thread(reached.wait)
        task.cancel()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    with pytest.raises(StoreClosed):
        opened[0].threads()


# --- loops, processes, closing


def test_one_handle_in_one_loop_after_another(url: str) -> None:
    async def begin() -> tuple[Any, Any]:
        tb = await takeback.aopen(url)
        return tb, await numbers(tb)

    tb, thread = run(begin())
    for place in range(3):
        run(thread.append("n", place))
    assert run(thread.get("n")) == [0, 1, 2]
    run(tb.close())


def test_one_handle_in_two_loops_at_once(url: str) -> None:
    async def work(thread: Any, start: int) -> None:
        await asyncio.gather(*(thread.append("n", place) for place in range(start, start + 20)))

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            thread = await numbers(tb)
            other = asyncio.to_thread(asyncio.run, work(thread, 20))
            await asyncio.gather(work(thread, 0), other)
            assert sorted((await thread.state)["n"]) == list(range(40))

    run(main())


FORKED = """
import asyncio, os, sys, takeback

async def begin(url):
    tb = await takeback.aopen(url)
    return tb, await tb.thread("t", initial={"n": []})

tb, thread = asyncio.run(begin(sys.argv[1]))
child = os.fork()
if child == 0:
    try:
        asyncio.run(thread.append("n", 1))
    except takeback.TakebackError as error:
        print(error.kind, flush=True)
    asyncio.run(tb.close())
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
asyncio.run(thread.append("n", 2))
print(asyncio.run(thread.get("n")))
asyncio.run(tb.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_is_told_to_open_its_own(url: str) -> None:
    """It does not wait for threads that stayed in the parent; and the parent goes on."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, url],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.split("\n"), done.stderr) == (["forked_process", "0", "[2]", ""], "")


def test_after_closing_everything_is_refused(url: str) -> None:
    async def main() -> None:
        tb = await takeback.aopen(url)
        thread = await numbers(tb)
        view, plan = await thread.at(0), await thread.plan_rollback(0)
        await tb.close()
        await tb.close()
        asked: list[Any] = [tb.info(), tb.thread("t"), thread.state, thread.append("n", 1), view.state]
        asked += [plan.apply(), thread.history(), tb.verify(), thread.step().__aenter__(), thread.labels]
        for one in asked:
            with pytest.raises(StoreClosed, match="Open it again"):
                await one
        assert (thread.name, thread.version) == ("t", 0)

    run(main())


def test_what_waits_when_the_store_is_closed_is_answered() -> None:
    gate = Gate()

    async def main() -> list[Any]:
        tb = await takeback.aopen(":memory:", clock=gate)
        thread = await numbers(tb)
        gate.shut()
        waiting = [asyncio.create_task(thread.append("n", place)) for place in range(5)]
        await gate.wait()
        await tb.close()
        gate.open()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert {type(answer) for answer in run(main())} == {StoreClosed}


def test_the_threads_end_with_the_store(url: str) -> None:
    async def main() -> None:
        before = set(threading.enumerate())
        async with await takeback.aopen(url) as tb:
            await numbers(tb)
            own = {t for t in threading.enumerate() if t.name.startswith("takeback")} - before
            assert 1 <= len(own) <= pool.WORKERS
        for one in own:
            await asyncio.to_thread(one.join)

    run(main())


def test_a_store_that_cannot_be_opened_leaves_no_threads(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(StoreUnavailable):
            await takeback.aopen("nowhere://x")
        with pytest.raises(TakebackError):
            await takeback.aopen(tmp_path / "no" / "agent.db", create=False)

    before = set(threading.enumerate())
    run(main())
    for one in set(threading.enumerate()) - before:
        one.join()


# --- what goes along


def span(number: int) -> NonRecordingSpan:
    flags = TraceFlags(TraceFlags.SAMPLED)
    return NonRecordingSpan(SpanContext(number, number + 1, is_remote=False, trace_flags=flags))


def test_the_current_span_goes_along(url: str) -> None:
    """Each task's own, though the threads are shared."""

    async def work(thread: Any, number: int) -> None:
        with use_span(span(number)):
            await asyncio.sleep(0)
            await thread.append("n", number)
            async with thread.step() as s:
                s.state["n"].append(-number)
            await thread.undo()

    async def main() -> None:
        async with await takeback.aopen(url) as tb:
            threads = [await numbers(tb, f"t{number}") for number in range(1, 11)]
            await asyncio.gather(*(work(thread, number) for number, thread in enumerate(threads, 1)))
            for number, thread in enumerate(threads, 1):
                seen = [(c.trace_id, c.span_id) for c in await thread.history()]
                assert seen == [(f"{number:032x}", f"{number + 1:016x}")] * 3 + [(None, None)]

    run(main())
