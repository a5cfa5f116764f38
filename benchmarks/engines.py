"""The engines that are compared, each in a process of its own, which is told how many turns to do.

A turn adds one message of 1 KB to a conversation and makes the result durable. No two of them ever have the
same file open, and none shares a process with another library's SQLite.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import data

_SYNC = {0: "off", 1: "normal", 2: "full", 3: "extra"}


class Engine:
    """What is asked of each. Times are in milliseconds; what prepares a turn is not in them."""

    path: Path
    settings = ""

    def turns(self, count: int) -> list[float]:
        raise TypeError(f"{type(self).__name__} was asked for {count} turns and does none")

    def read(self) -> None:
        """The newest state, whole."""

    def ten(self) -> None:
        """The ten newest states, whole."""

    def settle(self) -> None:
        """Move what lies in a write-ahead file into the file, so that its size can be compared.

        The write-ahead file is not cut short: one that has to grow again makes every sync dearer.
        """

    def size(self) -> int:
        """Bytes that its data takes."""
        return self.path.stat().st_size


class RawEngine(Engine):
    """An insert of the message alone: the least that a durable turn can cost here."""

    def __init__(self, path: Path) -> None:
        from benchmarks.raw import Raw

        self.path, self._raw, self._numbers = path, Raw(path), itertools.count()
        self.settings = "WAL, sync full"

    def turns(self, count: int) -> list[float]:
        items = [json.dumps(data.message(next(self._numbers))).encode() for _ in range(count)]
        return [_timed(partial(self._raw.insert, item)) for item in items]

    def settle(self) -> None:
        self._raw.connection.wal_checkpoint()


class TakebackEngine(Engine):
    """takeback, appending the message or committing the whole state anew."""

    def __init__(self, path: Path, *, whole: bool) -> None:
        import takeback

        self.path, self._whole, self._held = path, whole, list[data.Message]()
        self._repo = takeback.open(path)
        self._thread = self._repo.thread("talk", initial={"messages": []})
        self.settings = "WAL, sync full"

    def turns(self, count: int) -> list[float]:
        return [self._turn() for _ in range(count)]

    def _turn(self) -> float:
        item = data.message(len(self._held))
        self._held.append(item)
        if self._whole:
            return _timed(lambda: self._thread.commit({"messages": self._held}))
        return _timed(lambda: self._thread.append("messages", item))

    def read(self) -> None:
        assert self._repo.thread("talk").state["messages"][-1]

    def ten(self) -> None:
        thread = self._repo.thread("talk")
        for checkpoint in itertools.islice(thread.history(), 10):
            assert thread.at(checkpoint).state is not None

    def settle(self) -> None:
        import apsw

        # The same library that holds the file open: its locks are not lost when this connection closes.
        connection = apsw.Connection(str(self.path))
        connection.pragma("schema_version")  # a connection that has read nothing yet would move nothing
        connection.wal_checkpoint()
        connection.close()


class LangGraphEngine(Engine):
    """LangGraph's SqliteSaver, as its own graphs call it: one `put` of the whole checkpoint a turn."""

    def __init__(self, path: Path) -> None:
        import sqlite3

        from langgraph.checkpoint.sqlite import SqliteSaver

        self.path = path
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        default = _pragmas(self._connection)
        self._connection.execute("PRAGMA synchronous = FULL")
        self.settings = f"{_pragmas(self._connection)} (by default: {default})"
        graph = Graph(self._saver)
        self.turns, self.read, self.ten = graph.turns, graph.read, graph.ten  # type: ignore[method-assign]  # the saver's own

    def settle(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class Graph:
    """What a graph asks of its saver, whichever database it writes."""

    def __init__(self, saver: Any) -> None:
        self._saver = saver
        self._config: Any = {"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}
        self._held: list[data.Message] = []

    def turns(self, count: int) -> list[float]:
        return [self._turn() for _ in range(count)]

    def _turn(self) -> float:
        from langgraph.checkpoint.base import empty_checkpoint

        step = len(self._held)
        self._held.append(data.message(step))
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(self._held)}
        checkpoint["channel_versions"] = {"messages": step + 1}
        versions = checkpoint["channel_versions"]

        def put() -> None:
            self._config = self._saver.put(
                self._config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions
            )

        return _timed(put)

    def read(self) -> None:
        assert self._saver.get_tuple({"configurable": {"thread_id": "talk", "checkpoint_ns": ""}})

    def ten(self) -> None:
        found = self._saver.list({"configurable": {"thread_id": "talk", "checkpoint_ns": ""}}, limit=10)
        assert all(each.checkpoint for each in found)


class DbosEngine(Engine):
    """DBOS: a step of a workflow, returning the message. It keeps steps' results, no state to go back to."""

    def __init__(self, path: Path, *, wal: bool) -> None:
        import sqlite3

        self.path = path
        with sqlite3.connect(path) as connection:
            if wal:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE IF NOT EXISTS made_for_the_journal_mode (x)")
        connection.close()
        self._work = dbos_work(f"sqlite:///{path}")
        self._numbers = itertools.count()
        with sqlite3.connect(path) as connection:
            # DBOS sets neither of the two, so its connections have what a new connection has.
            self.settings = _pragmas(connection)
        connection.close()

    def turns(self, count: int) -> list[float]:
        return self._work([next(self._numbers) for _ in range(count)])

    def settle(self) -> None:
        import sqlite3

        with sqlite3.connect(self.path) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        connection.close()


def dbos_work(url: str) -> Callable[[list[int]], list[float]]:
    """A workflow that times each of its steps."""
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
    step = DBOS.step()(data.message)

    @DBOS.workflow()
    def work(numbers: list[int]) -> list[float]:
        return [_timed(partial(step, number)) for number in numbers]

    DBOS.launch()
    return work


class NaiveEngine(Engine):
    """What tutorials show: the whole state as JSON in one row a step, here with WAL and full sync."""

    def __init__(self, path: Path) -> None:
        import sqlite3

        self.path = path
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE steps (id INTEGER PRIMARY KEY, state TEXT NOT NULL)")
        self._held: list[data.Message] = []
        self.settings = _pragmas(self._connection)

    def turns(self, count: int) -> list[float]:
        return [self._turn() for _ in range(count)]

    def _turn(self) -> float:
        self._held.append(data.message(len(self._held)))

        def insert() -> None:
            with self._connection:
                state = json.dumps({"messages": self._held})
                self._connection.execute("INSERT INTO steps (state) VALUES (?)", (state,))

        return _timed(insert)

    def read(self) -> None:
        assert self._states(1)

    def ten(self) -> None:
        assert self._states(10)

    def _states(self, count: int) -> list[Any]:
        rows = self._connection.execute("SELECT state FROM steps ORDER BY id DESC LIMIT ?", (count,))
        return [json.loads(row[0]) for row in rows]

    def settle(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class OnServer(Engine):
    """An engine on PostgreSQL: what stands in the file is the address of its database."""

    def __init__(self, path: Path) -> None:
        import psycopg

        self.path, self.url = path, path.read_text()
        self._look: Any = psycopg.connect(self.url, autocommit=True)
        ((fsync,),) = self._look.execute("SHOW fsync").fetchall()
        ((commit,),) = self._look.execute("SHOW synchronous_commit").fetchall()
        self.settings = f"fsync {fsync}, synchronous_commit {commit}"

    def size(self) -> int:
        """All tables with their indexes, and the room that their rows have not given back."""
        ((found,),) = self._look.execute(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c "
            "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        return int(found)


class TakebackOnServer(OnServer):
    """takeback on PostgreSQL, appending the message."""

    def __init__(self, path: Path) -> None:
        import takeback

        super().__init__(path)
        self._repo = takeback.open(self.url)
        self._thread = self._repo.thread("talk", initial={"messages": []})
        self._numbers = itertools.count()

    def turns(self, count: int) -> list[float]:
        items = [data.message(next(self._numbers)) for _ in range(count)]
        return [_timed(partial(self._thread.append, "messages", item)) for item in items]

    def read(self) -> None:
        assert self._repo.thread("talk").state["messages"][-1]

    def ten(self) -> None:
        thread = self._repo.thread("talk")
        for checkpoint in itertools.islice(thread.history(), 10):
            assert thread.at(checkpoint).state is not None


class LangGraphOnServer(OnServer):
    """LangGraph's PostgresSaver on one connection, set up as its own `from_conn_string` does."""

    def __init__(self, path: Path) -> None:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row

        super().__init__(path)
        self._saver = PostgresSaver(
            psycopg.connect(self.url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        )
        self._saver.setup()
        self._graph = Graph(self._saver)
        self.turns, self.read, self.ten = self._graph.turns, self._graph.read, self._graph.ten  # type: ignore[method-assign]  # the saver's own


class DbosOnServer(OnServer):
    """The same step of a workflow as on SQLite, with DBOS's tables on PostgreSQL."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._work = dbos_work(self.url.replace("postgresql://", "postgresql+psycopg://", 1))
        self._numbers = itertools.count()

    def turns(self, count: int) -> list[float]:
        return self._work([next(self._numbers) for _ in range(count)])


POSTGRES, SAVER = "takeback, append, PostgreSQL", "LangGraph PostgresSaver"
ENGINES: dict[str, Callable[[Path], Engine]] = {
    "raw insert of the message": RawEngine,
    "takeback, append": lambda path: TakebackEngine(path, whole=False),
    "takeback, commit": lambda path: TakebackEngine(path, whole=True),
    "LangGraph SqliteSaver": LangGraphEngine,
    "DBOS step": lambda path: DbosEngine(path, wal=False),
    "DBOS step, file set to WAL": lambda path: DbosEngine(path, wal=True),
    "a JSON row a step": NaiveEngine,
    POSTGRES: TakebackOnServer,
    SAVER: LangGraphOnServer,
    "DBOS step, PostgreSQL": DbosOnServer,
}
OURS = ("raw insert of the message", "takeback, append", "takeback, commit", POSTGRES)
ON_POSTGRES = (POSTGRES, SAVER, "DBOS step, PostgreSQL")


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    act()
    return (time.perf_counter_ns() - began) / 1e6


def _pragmas(connection: Any) -> str:
    journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
    sync = connection.execute("PRAGMA synchronous").fetchone()[0]
    return f"{'WAL' if journal == 'wal' else 'rollback journal'}, sync {_SYNC[sync]}"


def _answer(engine: Engine, request: dict[str, Any]) -> Any:
    if request["do"] == "turns":
        return engine.turns(request["count"])
    if request["do"] == "size":
        engine.settle()
        return engine.size()
    act = engine.read if request["do"] == "read" else engine.ten
    return [_timed(act) for _ in range(request["count"])]


def serve(name: str, path: Path) -> None:
    """Answer one JSON line with another, until there are no more. What a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = ENGINES[name](path)
    print(json.dumps(engine.settings), file=answers)
    for line in sys.stdin:
        print(json.dumps(_answer(engine, json.loads(line))), file=answers)
    os._exit(0)  # some of them have threads that would keep the process


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
