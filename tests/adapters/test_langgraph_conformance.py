"""LangGraph's own conformance suite: every capability, on every store; awaited, and by the sync methods."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from tests.adapters.langgraph_graphs import STORES, url_of

from takeback.adapters.langgraph import TakebackSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class Sync(TakebackSaver):
    """The awaited methods by way of the synchronous ones: the suite knows only the former."""

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def alist(self, config: Any, **asked: Any) -> AsyncIterator[Any]:
        for each in self.list(config, **asked):
            yield each

    async def aput(self, *args: Any) -> Any:
        return self.put(*args)

    async def aput_writes(self, *args: Any, **more: Any) -> None:
        self.put_writes(*args, **more)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.prune(thread_ids, strategy=strategy)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("saver", [TakebackSaver, Sync])
def test_conformance(kind: str, saver: type[TakebackSaver], tmp_path: Path) -> None:
    """All eight capabilities are found and pass; none is skipped."""
    folders = iter(range(100))

    @checkpointer_test(name="takeback")
    async def make() -> AsyncIterator[TakebackSaver]:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        async with saver.from_conn_string(url_of(kind, folder)) as made:
            yield made

    report = asyncio.run(validate(make))
    assert {name: (each.detected, each.failures) for name, each in report.results.items()} == {
        name: (True, [])
        for name in (
            "put",
            "put_writes",
            "get_tuple",
            "list",
            "delete_thread",
            "delete_for_runs",
            "copy_thread",
            "prune",
        )
    }
    assert sum(each.tests_passed for each in report.results.values()) == 81
