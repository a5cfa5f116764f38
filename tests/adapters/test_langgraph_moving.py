"""Threads from SqliteSaver and PostgresSaver and back: nothing is lost, and nothing there is touched."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.adapters.langgraph_graphs import chat, chat_within, on, said, say
from tests.adapters.test_langgraph_saver import EVERYTHING, Cipher, Data, Model, put

import takeback
from takeback.adapters.langgraph import TakebackSaver, bring_in, give_back
from takeback.errors import BadRequest, NotAStore, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path


def theirs(path: Path, **options: Any) -> SqliteSaver:
    made = SqliteSaver(sqlite3.connect(path, check_same_thread=False), **options)
    made.setup()
    return made


def same(one: Any, other: Any, thread: str) -> None:
    """Everything that a graph sees of a thread is equal in two savers."""
    namespaces = {found.config["configurable"]["checkpoint_ns"] for found in one.list(on(thread))}
    for namespace in namespaces:
        config = on(thread, checkpoint_ns=namespace)
        assert list(one.list(config)) == list(other.list(config))


def filled(path: Path) -> SqliteSaver:
    """Two conversations, one with a subgraph that remembers and a branch; and values of every kind."""
    old = theirs(path)
    say(chat(old), "plain", "a", "b")
    graph = chat_within(old, remembers=True)
    say(graph, "within", "a", "b")
    past = next(
        s for s in graph.get_state_history(on("within")) if len(s.values["messages"]) == 2 and not s.next
    )
    graph.invoke({"messages": [HumanMessage("c", id="c")]}, past.config)
    values = {name: value for name, value in EVERYTHING.items() if name != "numbers"}
    put(old, put(old, on("values"), values), values | {"none": 1}, 2)
    return old


def test_from_sqlite(tmp_path: Path) -> None:
    """All checkpoints, writes and branches; the graph goes on; and the file is what it was."""
    old = filled(tmp_path / "old.db")
    old.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = hashlib.sha256((tmp_path / "old.db").read_bytes()).digest()
    saver = TakebackSaver(str(tmp_path / "new.db"), allow=[Model, Data])
    moved = bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"))
    assert moved.threads == 3
    for thread in ("plain", "within", "values"):
        same(old, saver, thread)
        assert saver.verify(thread_id=thread).problems == []
    assert hashlib.sha256((tmp_path / "old.db").read_bytes()).digest() == before
    say(chat(saver), "plain", "c")
    assert said(chat(saver), "plain")[-1] == "5 before c"
    assert len(saver.forks(thread_id="within", checkpoint_ns="")) == 1
    versions = saver.thread("plain").version
    assert bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"), thread_ids=["within"]).threads == 1
    assert saver.thread("plain").version == versions


def test_what_was_broken_off_goes_on(tmp_path: Path) -> None:
    """A second run adds what is missing, and nothing twice."""
    old = filled(tmp_path / "old.db")
    saver = TakebackSaver(str(tmp_path / "new.db"), allow=[Model, Data])
    whole = saver._graphs.put
    count = iter(range(7))

    def broken(*args: Any, **kwargs: Any) -> Any:
        next(count)
        return whole(*args, **kwargs)

    saver._graphs.put = broken  # type: ignore[method-assign]  # the power goes after seven checkpoints
    with pytest.raises(StopIteration):
        bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"))
    saver._graphs.put = whole  # type: ignore[method-assign]  # and comes back
    bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"))
    for thread in ("plain", "within", "values"):
        same(old, saver, thread)


def test_from_an_encrypted_one(tmp_path: Path) -> None:
    """With the same serialiser; without it, the error says so, and pickles are never read."""
    serde = EncryptedSerializer(Cipher(), JsonPlusSerializer(allowed_msgpack_modules=None))
    old = theirs(tmp_path / "old.db", serde=serde)
    say(chat(old), "t", "a")
    saver = TakebackSaver(str(tmp_path / "new.db"), serde=serde)
    bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"))
    same(old, saver, "t")
    with pytest.raises(BadRequest, match="serde="):
        bring_in(TakebackSaver(), "langgraph-sqlite", str(tmp_path / "old.db"))
    old.conn.execute("UPDATE checkpoints SET type = 'pickle'")
    old.conn.commit()
    with pytest.raises(BadRequest, match="pickled"):
        bring_in(TakebackSaver(), "langgraph-sqlite", str(tmp_path / "old.db"))


def test_from_postgres_and_back(postgres_url: str, tmp_path: Path) -> None:
    """The same with PostgresSaver's tables; and what is given back is what was there."""
    from langgraph.checkpoint.postgres import PostgresSaver

    dsn = re.sub(r"schema=\w+&?", "", postgres_url)
    with PostgresSaver.from_conn_string(dsn) as old:
        old.setup()
        say(chat_within(old, remembers=True), "t", "a", "b")
        saver = TakebackSaver(str(tmp_path / "new.db"))
        assert bring_in(saver, "langgraph-postgres", dsn, thread_ids=["t"]).threads == 1
        same(old, saver, "t")
        say(chat_within(saver, remembers=True), "t", "c")
        old.delete_thread("t")
        give_back(saver, old)
        assert said(chat_within(old, remembers=True), "t") == said(chat_within(saver, remembers=True), "t")
        old.delete_thread("t")


def test_back_out(tmp_path: Path) -> None:
    """The way out is as easy: any other saver takes them, and its graph goes on."""
    saver = TakebackSaver(str(tmp_path / "new.db"))
    say(chat_within(saver, remembers=True), "t", "a", "b")
    saver.undo(thread_id="t")
    for other in (theirs(tmp_path / "old.db"), InMemorySaver()):
        moved = give_back(saver, other, thread_ids=["t"])
        assert moved.threads == 1
        graph = chat_within(other, remembers=True)
        assert said(graph, "t") == ["a", "1 before a"]
        say(graph, "t", "c")
        assert said(graph, "t")[-1] == "3 before c"


def test_another_savers_file_is_left_alone(tmp_path: Path) -> None:
    """Opening it says what it is, and the line to run; and the line works."""
    path = tmp_path / "old.db"
    old = theirs(path)
    say(chat(old), "t", "a")
    old.conn.close()
    before = path.read_bytes()
    with pytest.raises(NotAStore, match="SqliteSaver") as error:
        TakebackSaver(str(path))
    line = f"takeback --db NEW.db import langgraph-sqlite {path}"
    assert line in str(error.value)
    assert path.read_bytes() == before
    command = [sys.executable, "-m", *line.replace("NEW.db", str(tmp_path / "new.db")).split()]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"threads": 1, "checkpoints": 3, "writes": 3}
    with takeback.open(tmp_path / "new.db") as tb:
        assert said(chat(TakebackSaver(tb)), "t") == ["a", "1 before a"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "1 thread, 3 checkpoints, 3 writes" in done.stdout


def test_mistakes_are_said(tmp_path: Path) -> None:
    """A file that is not there, or is something else; a thread that is not in it; a kind that is none."""
    saver = TakebackSaver()
    with pytest.raises(StoreUnavailable):
        bring_in(saver, "langgraph-sqlite", str(tmp_path / "none.db"))
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with pytest.raises(NotAStore):
        bring_in(saver, "langgraph-sqlite", str(tmp_path / "other.db"))
    with pytest.raises(BadRequest):
        bring_in(saver, "langgraph-oracle", "x")
    with pytest.raises(StoreUnavailable):
        bring_in(saver, "langgraph-postgres", "host=127.0.0.1 port=1 connect_timeout=1")
    theirs(tmp_path / "old.db").conn.close()
    with pytest.raises(BadRequest, match="no thread 'none'"):
        bring_in(saver, "langgraph-sqlite", str(tmp_path / "old.db"), thread_ids=["none"])
    command = [sys.executable, "-m", "takeback", "--db", str(tmp_path / "new.db"), "import"]
    done = subprocess.run([*command, "langgraph-oracle", "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "langgraph-sqlite FILE" in done.stderr
