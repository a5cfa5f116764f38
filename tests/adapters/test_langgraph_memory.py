"""What a graph's nodes put into the store belongs to the graph's thread, and goes back and forth with it."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from tests.adapters.langgraph_graphs import STORES, Chat, on, say, url_of

import takeback
from takeback.adapters.langgraph import TakebackSaver, TakebackStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from langgraph.runtime import Runtime

USER = ("users", "ann")
Both = tuple[TakebackSaver, TakebackStore]


@pytest.fixture(params=STORES)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Both]:
    with takeback.open(url_of(request.param, tmp_path), durability="relaxed") as tb:
        yield TakebackSaver(tb), TakebackStore(tb)


def remember(state: Chat, runtime: Runtime) -> dict[str, Any]:
    """`k=v` puts, `-k` deletes; the node reads at once what it wrote."""
    assert runtime.store is not None
    said = str(state["messages"][-1].content)
    key, _, value = said.partition("=")
    if said.startswith("-"):
        runtime.store.delete(USER, said[1:])
    else:
        runtime.store.put(USER, key, {"is": value})
        found = runtime.store.get(USER, key)
        assert found is not None
        assert found.value == {"is": value}
    return {"messages": [AIMessage(said, id=f"a-{state['messages'][-1].id}")]}


async def aremember(state: Chat, runtime: Runtime) -> dict[str, Any]:
    assert runtime.store is not None
    key, _, value = str(state["messages"][-1].content).partition("=")
    await asyncio.gather(*(runtime.store.aput(USER, f"{key}{n}", {"is": value}) for n in range(3)))
    assert len(await runtime.store.asearch(USER)) >= 3
    return {"messages": [AIMessage("done", id=f"a-{state['messages'][-1].id}")]}


def compiled(both: Both, node: Any = remember, *, within: bool = False) -> Any:
    saver, store = both
    inner = StateGraph(Chat).add_node("memory", node).add_edge(START, "memory")
    if not within:
        return inner.compile(checkpointer=saver, store=store)
    outer = StateGraph(Chat).add_node("inner", inner.compile(checkpointer=True)).add_edge(START, "inner")
    return outer.compile(checkpointer=saver, store=store)


def shown(store: TakebackStore) -> dict[str, str]:
    return {item.key: item.value["is"] for item in store.store.search(USER, limit=None)}


def at(graph: Any, thread: str = "t") -> str:
    return str(graph.get_state(on(thread)).config["configurable"]["checkpoint_id"])


@pytest.mark.parametrize("within", [False, True], ids=["root", "persistent subgraph"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_going_back_takes_back_what_nodes_put(both: Both, within: bool, durability: str) -> None:
    """After rollback, undo and redo the store shows what belongs to where the thread stands."""
    saver, store = both
    graph = compiled(both, within=within)
    turn = {"durability": durability}

    def tell(text: str) -> str:
        graph.invoke({"messages": [("user", text)]}, on("t"), **turn)
        return at(graph)

    first = tell("home=Bern")
    tell("home=Rome")
    tell("likes=trains")
    last = tell("-home")
    assert shown(store) == {"likes": "trains"}
    plan = saver.plan_rollback(thread_id="t", checkpoint_id=first)
    assert "memory users/ann/likes: removed" in str(plan)
    saver.rollback_to(thread_id="t", checkpoint_id=first)
    assert shown(store) == {"home": "Bern"}
    saver.undo(thread_id="t")
    assert shown(store) == {"likes": "trains"}
    saver.redo(thread_id="t")
    assert shown(store) == {"home": "Bern"}
    tell("food=rice")
    assert shown(store) == {"home": "Bern", "food": "rice"}
    saver.undo(thread_id="t")
    assert shown(store) == {"home": "Bern"}
    saver.rollback_to(thread_id="t", checkpoint_id=last)
    assert shown(store) == {"likes": "trains"}
    assert saver.verify(thread_id="t").problems == []
    assert store.store.verify() == []


def test_async_nodes(both: Both) -> None:
    """The same for nodes that await several puts at once."""
    saver, store = both

    async def run() -> None:
        graph = compiled(both, aremember)
        await graph.ainvoke({"messages": [("user", "a=1")]}, on("t"))
        first = (await graph.aget_state(on("t"))).config["configurable"]["checkpoint_id"]
        await graph.ainvoke({"messages": [("user", "b=2")]}, on("t"))
        assert len(shown(store)) == 6
        await saver.arollback_to(thread_id="t", checkpoint_id=first)
        assert shown(store) == {"a0": "1", "a1": "1", "a2": "1"}
        await saver.aundo(thread_id="t")
        assert len(shown(store)) == 6

    asyncio.run(run())


def test_each_node_has_its_own_place(both: Both) -> None:
    """Going back to between two nodes of one turn keeps what the first put, with every durability."""
    saver, store = both

    def put(key: str) -> Any:
        def node(state: Chat, runtime: Runtime) -> dict[str, Any]:
            assert runtime.store is not None
            runtime.store.put(USER, key, {"is": key})
            return {"messages": [AIMessage(key)]}

        return node

    made = StateGraph(Chat).add_sequence([("a", put("a")), ("b", put("b"))]).add_edge(START, "a")
    graph: Any = made.compile(checkpointer=saver, store=store)
    for thread, durability in (("s", "sync"), ("t", "async")):
        graph.invoke({"messages": [("user", "go")]}, on(thread), durability=durability)
        assert shown(store) == {"a": "a", "b": "b"}
        states = {state.next: state.config["configurable"] for state in graph.get_state_history(on(thread))}
        saver.rollback_to(thread_id=thread, checkpoint_id=states["b",]["checkpoint_id"])
        assert shown(store) == {"a": "a"}
        saver.rollback_to(thread_id=thread, checkpoint_id=states["a",]["checkpoint_id"])
        assert shown(store) == {}


def test_another_threads_later_put_survives(both: Both) -> None:
    """Taking back what one thread put never takes away what another wrote over it; the plan says so."""
    saver, store = both
    graph = compiled(both)
    say(graph, "t", "x=0")
    first = at(graph)
    say(graph, "t", "home=Rome")
    say(graph, "other", "home=Oslo")
    plan = saver.plan_rollback(thread_id="t", checkpoint_id=first)
    assert "version 2 stays; it was written over version 1" in str(plan)
    saver.rollback_to(thread_id="t", checkpoint_id=first)
    assert shown(store) == {"x": "0", "home": "Oslo"}
    saver.undo(thread_id="other")
    assert shown(store) == {"x": "0"}


def test_time_travel_and_interrupts(both: Both) -> None:
    """A run from an older checkpoint has the items of its own branch; an interrupted node puts as it ends."""
    _, store = both

    def ask(state: Chat, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        answer = interrupt("well?")
        runtime.store.put(USER, "answer", {"is": answer})
        return {"messages": [AIMessage(answer)]}

    graph = compiled(both, ask)
    graph.invoke({"messages": [("user", "go")]}, on("t"))
    asked = at(graph)
    graph.invoke(Command(resume="yes"), on("t"))
    assert shown(store) == {"answer": "yes"}
    graph.invoke(None, on("t", checkpoint_id=asked))
    assert shown(store) == {}
    graph.invoke(Command(resume="no"), on("t"))
    assert shown(store) == {"answer": "no"}
    assert [version.held for version in store.store.history(USER, "answer")] == [True, False]


def test_a_node_that_fails(both: Both) -> None:
    """What it put shows, as LangGraph's stores have it; going back takes it back, and the plan says so."""
    saver, store = both

    def fail(state: Chat, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        said = str(state["messages"][-1].content)
        runtime.store.put(USER, said, {"is": "put"})
        if said == "bad":
            raise RuntimeError(said)
        return {"messages": [AIMessage("ok")]}

    graph = compiled(both, fail)
    say(graph, "t", "good")
    first = at(graph)
    with pytest.raises(RuntimeError):
        say(graph, "t", "bad")
    assert shown(store) == {"good": "put", "bad": "put"}
    assert "memory users/ann/bad: removed" in str(saver.plan_rollback(thread_id="t", checkpoint_id=first))
    saver.rollback_to(thread_id="t", checkpoint_id=first)
    assert shown(store) == {"good": "put"}


def test_where_nothing_is_tied(both: Both) -> None:
    """A graph whose saver keeps another store, and code outside of graphs, put for good."""
    _, store = both
    elsewhere = TakebackSaver(":memory:")
    graph = compiled((elsewhere, store))
    say(graph, "t", "home=Rome")
    store.put(USER, "food", {"is": "rice"})
    elsewhere.undo(thread_id="t")
    assert shown(store) == {"home": "Rome", "food": "rice"}
    assert [version.thread for version in store.store.history(USER, "home")] == [None]


def test_two_handles_on_one_store(tmp_path: Path) -> None:
    """Saver and store need not share a handle: the same file is the same store."""
    url = str(tmp_path / "agent.db")
    with TakebackSaver(url) as saver, TakebackStore(url) as store:
        graph = compiled((saver, store))
        say(graph, "t", "home=Bern", "home=Rome")
        saver.undo(thread_id="t")
        assert shown(store) == {"home": "Bern"}
        assert [v.thread for v in store.store.history(USER, "home")] == ["t", "t"]


def test_two_runs_from_one_checkpoint(both: Both) -> None:
    """A run that was overtaken opens a line: what its nodes put goes along, the other run's stays there."""
    saver, store = both
    putting, go_on = threading.Event(), threading.Event()

    def slow(state: Chat, runtime: Runtime) -> dict[str, Any]:
        assert runtime.store is not None
        said = str(state["messages"][-1].content)
        runtime.store.put(USER, said, {"is": said})
        if said == "second":
            putting.set()
            assert go_on.wait(60)
        return {"messages": [AIMessage(said)]}

    graph = compiled(both, slow)
    say(graph, "t", "first")
    second = threading.Thread(target=say, args=(graph, "t", "second"))
    second.start()
    assert putting.wait(60)
    say(graph, "t", "third")
    third = at(graph)
    go_on.set()
    second.join()
    assert shown(store) == {"first": "first", "second": "second"}
    graph.invoke(None, on("t", checkpoint_id=third))
    assert shown(store) == {"first": "first", "second": "second", "third": "third"}
    saver.undo(thread_id="t")
    assert shown(store) == {"first": "first", "second": "second"}
    assert saver.forks(thread_id="t")
    assert saver.verify(thread_id="t").problems == []
