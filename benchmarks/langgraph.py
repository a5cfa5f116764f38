"""LangGraph's checkpointers on one conversation, side by side: `python -m benchmarks.langgraph [TURNS]`.

What a graph of one node writes in a turn: three checkpoints and two writes; the third checkpoint has one
message of 1 KB more. Savers take turns, so that a busy machine is busy for all of them.
"""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import string
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from takeback.adapters.langgraph import TakebackSaver

_LAST = 50  # turns that the figures of a put are of
_LIST_ALL_UP_TO = 300  # turns; with more, listing all states takes SqliteSaver minutes


class Conversation:
    """One thread in one saver."""

    def __init__(self, saver: Any, kind: str) -> None:
        self.saver, self.kind = saver, kind
        self.random = random.Random(1)
        self.config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        self.messages: list[Any] = []
        self.versions: dict[str, Any] = {}
        self.seen: dict[str, dict[str, Any]] = {"__input__": {}}
        self.step = -1
        self.times: dict[str, list[float]] = {"append": [], "other put": [], "write": []}

    def turn(self) -> None:
        self._put({"__start__": {"messages": []}}, "other put", "input", "__start__")
        self._write([("branch:to:a", None)])
        self.seen["__start__"] = {"__start__": self.versions["__start__"]}
        self._put({"branch:to:a": None}, "other put", "loop", "__start__", "branch:to:a")
        message = self._message()
        self._write([("messages", [message])])
        self.messages = [*self.messages, message]
        self.seen["a"] = {"branch:to:a": self.versions["branch:to:a"]}
        self._put({}, "append", "loop", "messages", "branch:to:a")

    def _put(self, values: dict[str, Any], name: str, source: str, *changed: str) -> None:
        version = self.saver.get_next_version(max(self.versions.values(), default=None), None)
        new = dict.fromkeys(changed, version)
        self.versions |= new
        held = {"messages": list(self.messages)} if self.messages else {}
        checkpoint: Any = {
            "v": 4, "id": str(uuid6(clock_seq=self.step)), "ts": "2026-01-02T03:04:05.060708+00:00",
            "channel_values": held | values, "channel_versions": dict(self.versions),
            "versions_seen": {node: dict(seen) for node, seen in self.seen.items()},
            "updated_channels": list(changed),
        }  # fmt: skip
        said: Any = {"source": source, "step": self.step, "parents": {}}
        began = time.perf_counter()
        self.config = self.saver.put(self.config, checkpoint, said, new)
        self.times[name].append(time.perf_counter() - began)
        self.step += 1

    def _write(self, writes: list[tuple[str, Any]]) -> None:
        began = time.perf_counter()
        self.saver.put_writes(self.config, writes, str(uuid.UUID(int=self.random.getrandbits(128))))
        self.times["write"].append(time.perf_counter() - began)

    def _message(self) -> Any:
        text = "".join(self.random.choices(string.ascii_letters, k=1000))
        id_ = str(uuid.UUID(int=self.random.getrandbits(128)))
        return (
            {"role": "user", "content": text, "id": id_} if self.kind == "dicts" else AIMessage(text, id=id_)
        )

    def figures(self, turns: int) -> Iterator[tuple[str, float]]:
        """(what, milliseconds)."""
        for name, times in self.times.items():
            yield f"{name}, last {_LAST} turns", statistics.median(times[-_LAST:]) * 1e3
        here = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        yield "get_tuple of the head", _took(lambda: self.saver.get_tuple(here), 9)
        yield (
            "list(limit=10), no namespace",
            _took(lambda: list(self.saver.list({"configurable": {"thread_id": "t"}}, limit=10)), 3),
        )
        if turns <= _LIST_ALL_UP_TO:
            yield "list of all", _took(lambda: list(self.saver.list(here)), 1)


def _took(work: Callable[[], Any], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found) * 1e3


def main(turns: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("dicts", "messages"):
            ours, theirs = os.path.join(folder, f"{kind}.tb"), os.path.join(folder, f"{kind}.lg")
            saver = SqliteSaver(sqlite3.connect(theirs, check_same_thread=False))
            saver.setup()
            both = Conversation(TakebackSaver(ours), kind), Conversation(saver, kind)
            for _ in range(turns):
                for each in both:
                    each.turn()
            print(f"\n{turns} turns of 1 KB as {kind}, milliseconds: takeback · SqliteSaver")
            for (name, mine), (_, other) in zip(*(each.figures(turns) for each in both), strict=True):
                print(f"  {name:32}{mine:10.2f}{other:10.2f}")
            gone = [_took(lambda each=each: each.saver.delete_thread("t"), 1) for each in _closed(both, ours)]  # type: ignore[misc]  # a lambda's default
            print(f"  {'delete_thread':32}{gone[0]:10.2f}{gone[1]:10.2f}")


def _closed(both: tuple[Conversation, Conversation], path: str) -> tuple[Conversation, Conversation]:
    """Say what the files take, once all that was written is in them; and what a new process finds."""
    ours, theirs = both
    ours.saver.repo._ctx.storage._file.settle()
    theirs.saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (row,) = list(theirs.saver.conn.execute("PRAGMA database_list"))
    sizes = [os.path.getsize(each) / 1e6 for each in (path, row[2])]
    print(f"  {'file, MB':32}{sizes[0]:10.2f}{sizes[1]:10.2f}")
    ours.saver.close()
    ours.saver = TakebackSaver(path)
    ours.config = ours.saver.get_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}).config
    ours.times["append"].clear()
    ours.turn()
    print(f"  {'first append after a restart':32}{ours.times['append'][0] * 1e3:10.2f}")
    return both


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
