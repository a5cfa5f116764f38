"""The saver under others' hands: late and concurrent writers, clocks, kills, tampering, types, encryption."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import apsw
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel
from tests.adapters.langgraph_graphs import STORES, chat, on, said, say, url_of

import takeback
from takeback.adapters.langgraph import TakebackSaver
from takeback.errors import BadRequest, BadState, Conflict, CorruptObject, ThreadDeleted, ThreadExists

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=STORES)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TakebackSaver]:
    with TakebackSaver(url_of(request.param, tmp_path), durability="relaxed") as made:
        yield made


def put(saver: TakebackSaver, config: Any, values: dict[str, Any], version: int = 1, **metadata: Any) -> Any:
    """A checkpoint whose channels are all new."""
    checkpoint = empty_checkpoint() | {"id": str(uuid6()), "channel_values": values}
    checkpoint["channel_versions"] = dict.fromkeys(values, version)
    config = {"configurable": {"checkpoint_ns": ""} | config["configurable"]}
    return saver.put(
        config, checkpoint, {"source": "loop", "step": 0} | metadata, dict.fromkeys(values, version)
    )


def values(saver: TakebackSaver, config: Any) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


# --- writers


def test_what_a_run_changes_is_its_own(saver: TakebackSaver) -> None:
    """A run changes the versions of its checkpoint in place; what is stored and remembered stays."""
    checkpoint = empty_checkpoint() | {"channel_values": {"n": 1}, "channel_versions": {"n": 1}}
    checkpoint["versions_seen"] = {"node": {"n": 1}}
    metadata: Any = {"source": "loop", "step": 0, "more": {"a": [1]}}
    saver.put(on("t", checkpoint_ns=""), checkpoint, metadata, {"n": 1})
    checkpoint["channel_versions"]["n"] = 7
    checkpoint["versions_seen"]["node"]["n"] = 7
    metadata["more"]["a"].append(7)
    for _ in range(2):
        found = saver.get_tuple(on("t"))
        assert found is not None
        assert found.checkpoint["channel_versions"] == {"n": 1}
        assert found.checkpoint["versions_seen"] == {"node": {"n": 1}}
        assert dict(found.metadata)["more"] == {"a": [1]}
        found.checkpoint["channel_versions"]["n"] = 8
        found.checkpoint["versions_seen"]["node"]["n"] = 8
        dict(found.metadata)["more"]["a"].append(8)


def test_two_threads_on_one_conversation(saver: TakebackSaver) -> None:
    """Each turn that was acknowledged is in the head's history, or its branch is listed."""
    graph = chat(saver)
    acknowledged: list[str] = []

    def turns(name: str) -> None:
        for n in range(25):
            say(graph, "t", f"{name}{n}")
            acknowledged.append(f"{name}{n}")

    threads = [threading.Thread(target=turns, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(acknowledged) == 50
    ends = [{"checkpoint_id": fork["checkpoint_id"]} for fork in saver.forks(thread_id="t")]
    seen = set(said(graph, "t"))
    for end in ends:
        seen |= {m.content for m in values(saver, on("t", **end)).get("messages", [])}
    assert set(acknowledged) <= seen
    assert saver.verify(thread_id="t").problems == []


def test_a_clock_that_is_ahead_hides_nothing(tmp_path: Path) -> None:
    """The order is the store's: what is written after a writer from the future is newer all the same."""
    late = TakebackSaver(str(tmp_path / "a.db"))
    ahead = TakebackSaver(
        takeback.open(tmp_path / "a.db", clock=lambda: time.time_ns() // 1000 + 3_600_000_000)
    )
    config = put(late, on("t"), {"n": 1})
    future = (0xFFFF << 112) + uuid4().int % 2**64
    checkpoint = empty_checkpoint() | {"id": str(UUID(int=future)), "channel_values": {"n": 2}}
    checkpoint["channel_versions"] = {"n": 2}
    config["configurable"].setdefault("checkpoint_ns", "")
    config = ahead.put(config, checkpoint, {"source": "loop", "step": 1}, {"n": 2})
    put(late, config, {"n": 3}, 3)
    assert values(late, on("t")) == {"n": 3}
    assert [found.checkpoint["channel_values"]["n"] for found in ahead.list(on("t"))] == [3, 2, 1]
    assert [f.checkpoint["channel_values"]["n"] for f in ahead.list(on("t"), before=config)] == [1]
    assert late.verify(thread_id="t").problems == []


def test_expecting_a_head(saver: TakebackSaver) -> None:
    """Who says which head is expected is refused when it is another; nothing is written then."""
    graph = chat(saver)
    say(graph, "t", "a")
    head = graph.get_state(on("t")).config["configurable"]["checkpoint_id"]
    say(graph, "t", "b", takeback_expect=head)
    before = saver.thread("t").version
    with pytest.raises(Conflict, match=head):
        say(graph, "t", "c", takeback_expect=head)
    assert saver.thread("t").version == before
    say(graph, "t", "c", takeback_expect=True)
    past = on("t", checkpoint_id=head, takeback_expect=True)
    with pytest.raises(Conflict):
        graph.invoke({"messages": [HumanMessage("d", id="d")]}, past)
    assert said(graph, "t")[-1] == "5 before c"


def test_late_writers_do_not_bring_a_thread_back(saver: TakebackSaver) -> None:
    """Neither a checkpoint nor a write, from this handle or another; also when the name is in use again."""
    other = TakebackSaver(saver.repo)
    config = put(saver, on("t"), {"n": 1})
    saver.put_writes(config, [("n", 2)], "task")
    saver.delete_thread("t")
    for late in (saver, other):
        with pytest.raises(ThreadDeleted):
            put(late, config, {"n": 2}, 2)
    with pytest.raises(ThreadDeleted):
        saver.put_writes(config, [("n", 2)], "task")
    assert saver.get_tuple(on("t")) is None
    assert list(saver.list(None)) == []
    put(saver, on("t"), {"n": 10})
    for late in (saver, other):
        with pytest.raises(ThreadDeleted):
            put(late, config, {"n": 3}, 3)
    with pytest.raises(ThreadDeleted):
        saver.put_writes(config, [("n", 2)], "task")
    assert values(saver, on("t")) == {"n": 10}


def test_writes_come_before_their_checkpoint_and_from_many_threads(saver: TakebackSaver) -> None:
    """All are there, in the order of path, task and number; of a task's the first, of an error the last."""
    checkpoint = str(uuid6())
    config = on("t", checkpoint_ns="", checkpoint_id=checkpoint)

    def work(n: int) -> None:
        saver.put_writes(config, [("a", n), ("b", [n])], f"task{n}", f"~{9 - n}")
        saver.put_writes(config, [("a", -n)], f"task{n}", f"~{9 - n}")
        saver.put_writes(config, [("__error__", f"first {n}")], f"task{n}", f"~{9 - n}")
        saver.put_writes(config, [("__error__", f"last {n}")], f"task{n}", f"~{9 - n}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = empty_checkpoint() | {"id": checkpoint}
    saver.put(on("t", checkpoint_ns=""), made, {"source": "loop", "step": 0}, {})
    found = saver.get_tuple(on("t"))
    assert found is not None
    assert found.pending_writes == [
        write
        for n in range(5, -1, -1)
        for write in [(f"task{n}", "__error__", f"last {n}"), (f"task{n}", "a", n), (f"task{n}", "b", [n])]
    ]


def test_copies_of_a_saver_share_what_they_know(saver: TakebackSaver) -> None:
    """LangGraph copies a saver to give it another serialiser; both go on with the same threads."""
    config = put(saver, on("t"), {"n": 1})
    other = copy.copy(saver)
    other.serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    config = put(other, config, {"n": 2}, 2)
    assert values(saver, on("t")) == {"n": 2}
    assert saver.with_allowlist([("some.module", "Name")]) is not saver


def test_a_copy_of_a_thread_is_a_thread(saver: TakebackSaver) -> None:
    """With its branches; what stands in its way is said."""
    graph = chat(saver)
    say(graph, "t", "a", "b")
    saver.undo(thread_id="t")
    saver.copy_thread("t", "u")
    assert said(graph, "u") == ["a", "1 before a"]
    saver.redo(thread_id="u")
    assert said(graph, "u")[-1] == "3 before b"
    assert said(graph, "t")[-1] == "1 before a"
    assert saver.verify(thread_id="u").problems == []
    with pytest.raises(ThreadExists):
        saver.copy_thread("t", "u")
    with pytest.raises(BadRequest):
        saver.copy_thread("t", "t")


def test_listing(saver: TakebackSaver) -> None:
    """By namespace or without, by nested metadata, from all threads, over many pages."""
    config = on("t")
    for n in range(60):
        config = put(saver, config, {"n": n}, n + 1, step=n, tags={"a": n % 2, "b": [1, n]}, note="x" * 600)
        put(saver, on("t", checkpoint_ns=f"sub:{n}"), {"n": n})
    put(saver, on("u"), {"n": 1})
    everything = list(saver.list(None))
    assert len(everything) == 121
    assert everything[0].config["configurable"]["thread_id"] == "u"
    assert len(list(saver.list(on("t")))) == 120
    assert len(list(saver.list(on("t", checkpoint_ns="")))) == 60
    assert len(list(saver.list(on("t"), filter={"tags": {"a": 1}}))) == 30
    found = list(saver.list(on("t"), filter={"tags": {"b": [7]}, "source": "loop"}))
    assert [each.metadata["step"] for each in found] == [7]
    assert found[0].metadata["note"] == "x" * 600
    assert list(saver.list(on("t"), filter={"step": 7, "note": "other"})) == []
    sub = saver.get_tuple(on("t", checkpoint_ns="sub:30"))
    assert sub is not None
    older = list(saver.list(on("t"), before=sub.config, filter={"source": "loop"}))
    assert len(older) == 61
    assert list(saver.list(on("t"), limit=0)) == []
    assert list(saver.list(on("none"))) == []
    with pytest.raises(BadRequest):
        list(saver.list(on("t"), limit=-1))


# --- values


class Model(BaseModel):
    name: str
    count: int = 1


@dataclasses.dataclass
class Data:
    items: list[Any]


TOOL: Any = {"name": "t", "args": {"z": 1}, "id": "c"}
EVERYTHING: dict[str, Any] = {
    "plain": {"a": [1, 2.5, None, True, "x", b"y"], "-0": -0.0},
    "messages": [HumanMessage("é", id="1"), AIMessage("b", tool_calls=[TOOL])],
    "model": Model(name="m"),
    "data": Data([Model(name="inner"), {"deep": Data([1])}]),
    "set": {3, 1, 2},
    "time": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "uuid": UUID(int=7),
    "numbers": {1: "one", (2, 3): "pair"},
    "tagged": {"$type": "not a type", "$ext": 1, "$dict": 2, "$sealed": 3},
    "big": 2**63,
    "float": float("inf"),
    "surrogate": "\ud800",
    "deep": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],
    "none": None,
    "long": [{"n": n, "of": Model(name=str(n))} for n in range(100)],
}  # fmt: skip


def test_values_come_back(saver: TakebackSaver) -> None:
    """What the serialiser would give back, whatever it is; also where it changes a little each time."""
    saver = TakebackSaver(saver.repo, allow=[Model, Data])
    serde = JsonPlusSerializer(allowed_msgpack_modules=[Model, Data])
    config = on("t")
    for turn in range(3):
        now = EVERYTHING | {"long": [*EVERYTHING["long"][turn:], {"turn": turn}], "turn": turn}
        config = put(saver, config, now, turn + 1)
        wanted = {name: serde.loads_typed(serde.dumps_typed(value)) for name, value in now.items()}
        assert values(saver, on("t")) == wanted
        assert values(TakebackSaver(saver.repo, allow=[Model, Data]), on("t")) == wanted
    assert saver.thread("t").get("/values/model/name") == "m"
    assert saver.thread("t").get("/values/messages/1/tool_calls/0/args/z") == 1


def test_a_change_deep_inside_is_seen(saver: TakebackSaver) -> None:
    """A long list that was changed in place is not taken for what it was."""
    messages: list[Any] = [AIMessage("x" * 50, id=str(n)) for n in range(200)]
    config = put(saver, on("t"), {"messages": messages})
    messages.append(AIMessage("more", id="200"))
    config = put(saver, config, {"messages": messages}, 2)
    messages[70].additional_kwargs["deep"] = {"list": [1]}
    config = put(saver, config, {"messages": messages}, 3)
    messages[70].additional_kwargs["deep"]["list"].append(2)
    config = put(saver, config, {"messages": messages}, 4)
    assert values(saver, on("t"))["messages"] == messages
    del messages[3:150]
    put(saver, config, {"messages": messages}, 5)
    assert values(saver, on("t"))["messages"] == messages
    assert saver.verify(thread_id="t").problems == []


def test_a_type_that_nobody_named_is_not_made(saver: TakebackSaver) -> None:
    """Reading it is an error that says what to write, not a half-made value."""
    put(saver, on("t"), {"model": Model(name="m")})
    with pytest.raises(BadState, match=r"Model.*allow="):
        saver.get_tuple(on("t"))
    assert values(TakebackSaver(saver.repo, allow=[Model]), on("t")) == {"model": Model(name="m")}


class Cipher:
    """Turns bytes around: enough to see that nothing readable is stored."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "turn", os.urandom(8) + plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[8:][::-1]


def test_an_encrypting_serialiser(tmp_path: Path) -> None:
    """Nothing that a channel holds or a task wrote is in the file; an append still costs the item."""
    serde = EncryptedSerializer(Cipher(), JsonPlusSerializer(allowed_msgpack_modules=None))
    saver = TakebackSaver(str(tmp_path / "a.db"), serde=serde)
    messages = [f"secret {n}" for n in range(100)]
    config = put(saver, on("t"), {"messages": messages, "one": "secret"})
    saver.put_writes(config, [("messages", "secret")], "task")
    before = saver.repo.info().details["objects"]
    config = put(saver, config, {"messages": [*messages, "secret again"], "one": "secret"}, 2)
    assert saver.repo.info().details["objects"] - before <= 4
    assert values(saver, on("t")) == {"messages": [*messages, "secret again"], "one": "secret"}
    assert saver.verify(thread_id="t").problems == []
    saver.close()
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"secret" not in raw
    assert b"messages" in raw


# --- trust


def test_tampering_is_found(tmp_path: Path) -> None:
    """A state, a checkpoint's record, what a task wrote, and where the graph finds what."""
    path = str(tmp_path / "a.db")
    changes = {
        "UPDATE graph_writes SET data = x'a178', size = 2, codec = 0": "is not what was stored",
        "UPDATE graph_writes SET channel = 'other'": "is not what was stored",
        "DELETE FROM graph_places WHERE version = 2": "does not find",
        "UPDATE graph_places SET version = 1 WHERE version = 2": "does not",
        "UPDATE objects SET data = x'80', size = 1, codec = 0": "",
    }
    with TakebackSaver(path, key=b"k" * 32) as saver:
        graph = chat(saver)
        say(graph, "t", "a")
        assert saver.verify(thread_id="t").problems == []
    whole = (tmp_path / "a.db").read_bytes()
    for sql, said_ in changes.items():
        (tmp_path / "a.db").write_bytes(whole)
        connection = apsw.Connection(path)
        connection.execute(sql)
        connection.close()
        with TakebackSaver(path, key=b"k" * 32) as saver:
            found = saver.verify(thread_id="t").problems
            assert found, sql
            assert any(said_ in str(problem) for problem in found), sql
            if "channel" in sql:
                with pytest.raises(CorruptObject):
                    list(saver.list(on("t")))


def test_a_write_that_was_forged_without_the_key_is_found(tmp_path: Path) -> None:
    """Whoever only has the file cannot make a write that passes."""
    with TakebackSaver(str(tmp_path / "a.db"), key=b"k" * 32) as signed:
        config = put(signed, on("t"), {"n": 1})
    with TakebackSaver(str(tmp_path / "a.db")) as forger:
        forger.put_writes(config, [("n", 2)], "task")
    with TakebackSaver(str(tmp_path / "a.db"), key=b"k" * 32) as signed:
        assert any("not signed" in str(problem) for problem in signed.verify(thread_id="t").problems)


def test_export_import_and_copy_bring_all(saver: TakebackSaver, tmp_path: Path) -> None:
    """Writes that wait, what was hidden, and the graph's names go with a thread wherever it goes."""
    graph = chat(saver)
    say(graph, "t", "a", "b")
    head = saver.get_tuple(on("t"))
    assert head is not None
    saver.put_writes(head.config, [("messages", "waits")], "task")
    saver.prune(["t"])
    saver.repo.export("t", tmp_path / "t.takeback")
    with takeback.open(":memory:") as imported, takeback.open(":memory:") as copied:
        imported.import_(tmp_path / "t.takeback")
        saver.repo.copy(copied)
        for repo in (imported, copied):
            other = TakebackSaver(repo)
            assert list(other.list(on("t"))) == list(saver.list(on("t")))
            found = other.get_tuple(on("t"))
            assert found is not None
            assert found.pending_writes == [("task", "messages", "waits")]
            assert other.verify(thread_id="t").problems == []


# --- crashes

CHILD = """
import sys
sys.path.insert(0, {root!r})
from takeback.adapters.langgraph import TakebackSaver
from tests.adapters.langgraph_graphs import chat, say, said
graph = chat(TakebackSaver(sys.argv[1]))
n = len(said(graph, "t")) // 2
while True:
    say(graph, "t", f"m{{n}}")
    print(n, flush=True)
    n += 1
"""


def test_a_killed_writer_loses_no_turn(tmp_path: Path) -> None:
    """What was acknowledged is there after kill -9, and the graph goes on from it."""
    path, acknowledged = str(tmp_path / "a.db"), -1
    for _ in range(3):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(root=root), path], stdout=subprocess.PIPE, text=True, cwd=root
        )
        assert child.stdout is not None
        for line in child.stdout:
            acknowledged = int(line)
            if acknowledged % 4 == 3:
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with TakebackSaver(path) as saver:
            graph = chat(saver)
            if graph.get_state(on("t")).next:
                graph.invoke(None, on("t"))
            texts = said(graph, "t")
            asked = [text for text in texts if text.startswith("m")]
            assert asked == [f"m{n}" for n in range(len(asked))]
            assert len(asked) > acknowledged
            assert len(texts) == 2 * len(asked)
            assert saver.verify(thread_id="t").problems == []


def test_an_async_saver_is_a_context(tmp_path: Path) -> None:
    """`from_conn_string` gives the saver itself, for `with`, for `async with`, and for an assignment."""

    async def go() -> None:
        async with TakebackSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
            await saver.asetup()
            config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
            await saver.aput(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
            assert [found async for found in saver.alist(None, limit=5)]
            assert await saver.aforks(thread_id="t") == []

    asyncio.run(go())
    with TakebackSaver.from_conn_string(str(tmp_path / "a.db")) as saver:
        assert saver.get(on("t")) is not None
    plain = TakebackSaver.from_conn_string(str(tmp_path / "a.db"))
    plain.setup()
    with pytest.raises(BadRequest, match="names no thread"):
        plain.get_tuple({"configurable": {}})
    plain.close()
