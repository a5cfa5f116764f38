"""The threads of an async store: calls run in a few of its own, those of one handle in their order."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeAlias, TypeVar

from takeback.errors import ForkedProcess, StoreClosed

R = TypeVar("R")
Job: TypeAlias = Callable[[], R]

WORKERS = 4  # SQLite writes one at a time, and Python computes one at a time: more would only wait


class Pool:
    """The threads of one store. They belong to no event loop: a handle may be used in one after another."""

    def __init__(self) -> None:
        self.pool = self
        self._pid, self._closed = os.getpid(), False
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="takeback")

    def check(self) -> None:
        if self._closed:
            raise StoreClosed("the store was closed", hint="Open it again")
        if os.getpid() != self._pid:  # its threads, and whoever held its locks, stayed in the parent
            raise ForkedProcess(
                "the store was opened before this process was forked",
                hint="Open the store again in each process",
            )

    def submit(self, job: Job[R]) -> Future[R]:
        self.check()
        return self._executor.submit(job)

    def again(self, job: Job[None]) -> bool:
        """Whether the job could go to the back of the queue; not once the store was closed."""
        try:
            self._executor.submit(job)
        except RuntimeError:  # what the executor says when it was shut down, or Python is
            return False
        return True

    async def close(self, close: Job[None]) -> None:
        if self._closed:
            return
        if os.getpid() != self._pid:
            self._closed = True
            close()
            return
        try:
            await run(self, close)
        finally:
            self._closed = True
            self._executor.shutdown(wait=False)  # what still waits is answered, by a closed store


class Line:
    """Calls that run one after another, in their order, on any thread of the pool: those of one handle."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Job[Any]]] = deque()
        self._busy = False

    def submit(self, job: Job[R]) -> Future[R]:
        self.pool.check()
        future: Future[R] = Future()
        with self._lock:
            self._waiting.append((future, job))
            start, self._busy = not self._busy, True
        if start and not self.pool.again(self._work):
            self._work()
        return future

    def _work(self) -> None:
        """One call; the next goes behind what others ask for, so that no handle keeps a thread to itself."""
        while True:
            _settle(*self._waiting.popleft())
            with self._lock:
                self._busy = bool(self._waiting)
                if not self._busy:
                    return
            if self.pool.again(self._work):
                return


def _settle(future: Future[R], job: Job[R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


async def run(queue: Pool | Line, job: Job[R], context: Context | None = None) -> R:
    """The one way into the threads.

    When it is cancelled, what has not begun never begins, and what has begun is waited for: nothing of a
    call goes on after its await has ended, and the handle knows what was written.
    """
    work = queue.submit(partial((copy_context() if context is None else context).run, job))
    mirror = asyncio.wrap_future(work)
    try:
        await asyncio.wait([mirror])
    except asyncio.CancelledError:
        work.cancel()
        await _over(mirror)
        raise
    return mirror.result()


async def _over(mirror: asyncio.Future[Any]) -> None:
    while not mirror.done():
        try:
            await asyncio.wait([mirror])
        except asyncio.CancelledError:
            continue  # the first cancellation is under way already, and is raised when this is over
    if not mirror.cancelled():
        mirror.exception()  # looked at, or asyncio reports it as lost; the cancellation is what is raised
