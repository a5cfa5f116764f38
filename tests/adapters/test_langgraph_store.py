"""LangGraph's store on takeback: beside LangGraph's own on the same operations, and in a real graph."""

from __future__ import annotations

import asyncio
import random
from typing import TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

import takeback
from takeback.adapters.langgraph import TakebackStore
from takeback.errors import BadRequest, StoreClosed


@pytest.fixture(params=["memory", "file", "postgres"])
def tb(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


def embed(texts):
    return [[float(text.count(word)) + 0.01 * len(text) for word in ("a", "b", "c")] for text in texts]


INDEX = {"dims": 3, "embed": embed, "fields": ["text"]}


# --- beside LangGraph's own


def operation(source):
    namespaces = [("a",), ("a", "b"), ("a", "b", "c"), ("x", "b"), ("x",)]
    namespace, key = source.choice(namespaces), source.choice("kl")
    kind = source.choice(["get", "put", "put", "put", "delete", "search", "list"])
    if kind == "get":
        return GetOp(namespace, key)
    if kind == "put":
        # LangGraph's own takes no two equal texts in one batch.
        text = source.choice("abc") * source.randrange(1, 4) + str(source.random())
        value = {"n": source.randrange(5), "text": text}
        value |= {"deep": {"n": source.randrange(3)}, "tags": [source.choice("ab")]}
        return PutOp(namespace, key, value)
    if kind == "delete":
        return PutOp(namespace, key, None)
    if kind == "search":
        filters = [
            None, {"n": 1}, {"n": {"$gt": 2}}, {"n": {"$gte": 1, "$lt": 4}}, {"n": {"$ne": 0}},
            {"deep": {"n": 1}}, {"tags": ["a"]}, {"n": {"$eq": 2}, "deep": {"n": {"$lte": 1}}},
        ]  # fmt: skip
        prefix = source.choice([(), ("a",), ("a", "b"), ("x",), ("none",)])
        return SearchOp(prefix, source.choice(filters), 50, 0, source.choice([None, None, "abc"]))
    conditions = [
        (), (MatchCondition("prefix", ("a",)),), (MatchCondition("suffix", ("b",)),),
        (MatchCondition("prefix", ("*", "b")),), (MatchCondition("suffix", ("*",)),),
        (MatchCondition("prefix", ("a", "*")), MatchCondition("suffix", ("c",))),
    ]  # fmt: skip
    return ListNamespacesOp(source.choice(conditions), source.choice([None, 1, 2]), 50, 0)


def said(op, result):
    """An answer as far as both stores promise the same, which is no order."""
    if isinstance(op, GetOp):
        return None if result is None else (result.namespace, result.key, result.value)
    if isinstance(op, SearchOp):
        found = [(i.namespace, i.key, i.value, i.score and round(i.score, 4)) for i in result]
        if op.query is None:
            return sorted(found, key=str)
        scores = [score for *_, score in found if score is not None]
        assert scores == sorted(scores, reverse=True)
        return sorted(found, key=str)
    return result


def listed(store, op, living):
    """What LangGraph's own lists, without the namespaces whose items are gone."""
    found = store.batch([op._replace(max_depth=None)])[0]
    return sorted({labels[: op.max_depth] for labels in found if labels in living})


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.parametrize("indexed", [False, True])
def test_it_answers_as_langgraph_s_own_store(seed, indexed):
    """Random operations, one at a time and in batches, with an index and without."""
    source = random.Random(seed)
    theirs = InMemoryStore(index=INDEX if indexed else None)
    with TakebackStore(index=INDEX if indexed else None) as ours:
        for _ in range(25):
            ops = [operation(source) for _ in range(source.choice([1, 1, 3]))]
            living = {item.namespace for item in theirs.search((), limit=100)}
            before = {str(op): listed(theirs, op, living) for op in ops if isinstance(op, ListNamespacesOp)}
            got, expected = ours.batch(ops), theirs.batch(ops)
            for op, mine, other in zip(ops, got, expected, strict=True):
                assert said(op, mine) == (before[str(op)] if str(op) in before else said(op, other)), op
        assert ours.store.verify() == []


def test_what_is_not_indexed_comes_last(tb):
    """`index=False` leaves an item out, a list of fields chooses others than the store's."""
    store = TakebackStore(tb, index=INDEX)
    store.put(("n",), "1", {"text": "aaa"})
    store.put(("n",), "2", {"text": "aaa"}, index=False)
    store.put(("n",), "3", {"text": "c", "more": [{"x": "aaa"}, {"x": "b"}]}, index=["more[*].x"])
    found = store.search(("n",), query="aaa")
    assert [item.key for item in found] in (["1", "3", "2"], ["3", "1", "2"])
    assert found[-1].score is None
    assert found[0].score == pytest.approx(found[1].score)


def test_it_is_a_base_store(tb):
    store = TakebackStore(tb)
    assert isinstance(store, BaseStore)
    assert store.supports_ttl
    store.put(("users", "ann"), "k", {"v": 1})
    item = store.get(("users", "ann"), "k")
    assert (item.namespace, item.key, item.value) == (("users", "ann"), "k", {"v": 1})
    assert item.created_at == item.updated_at
    store.put(("users", "ann"), "k", {"v": 2})
    again = store.get(("users", "ann"), "k")
    assert again.created_at == item.created_at < again.updated_at
    assert [i.key for i in store.search(("users",))] == ["k"]
    assert store.list_namespaces(prefix=("users", "*")) == [("users", "ann")]
    store.delete(("users", "ann"), "k")
    assert store.get(("users", "ann"), "k") is None
    store.delete(("users", "ann"), "k")


@pytest.mark.parametrize("bad", [("a.b",), (), ("",), ("langgraph", "x")])
def test_namespaces_that_langgraph_refuses(tb, bad):
    with pytest.raises(InvalidNamespaceError):
        TakebackStore(tb).put(bad, "k", {"v": 1})


def test_what_cannot_be_stored_leaves_nothing_of_its_batch(tb):
    store = TakebackStore(tb)
    with pytest.raises(BadRequest):
        store.batch([PutOp(("a",), "k", {"v": 1}), PutOp(("a",), "l", {"v": object()})])
    assert store.search(("a",)) == []


def test_async_and_with_an_embedder_that_is_only_async(tb):
    """The embedder runs in the caller's loop; the rest in the store's threads."""

    async def aembed(texts):
        await asyncio.sleep(0)
        return embed(texts)

    async def go():
        store = TakebackStore(tb, index={"dims": 3, "embed": aembed, "fields": ["text"]})
        await store.aput(("n",), "1", {"text": "aaa"})
        await store.aput(("n",), "2", {"text": "ccc"})
        assert (await store.aget(("n",), "1")).value == {"text": "aaa"}
        assert [item.key for item in await store.asearch(("n",), query="c")] == ["2", "1"]
        assert await store.alist_namespaces() == [("n",)]
        await store.adelete(("n",), "1")
        return await store.aget(("n",), "1")

    assert asyncio.run(go()) is None


def test_time_to_live():
    """In minutes, and put off by reading unless the store or the call says otherwise."""
    now = [1_800_000_000_000_000]

    def clock():
        now[0] += 1
        return now[0]

    with TakebackStore(ttl={"default_ttl": 1, "refresh_on_read": False}, clock=clock) as store:
        store.put(("a",), "k", {"v": 1})
        store.put(("a",), "l", {"v": 1}, ttl=None)
        now[0] += 50_000_000
        assert store.get(("a",), "k", refresh_ttl=True).value == {"v": 1}
        now[0] += 50_000_000
        assert [item.key for item in store.search(("a",))] == ["k", "l"]
        now[0] += 11_000_000
        assert store.get(("a",), "k") is None
        assert store.get(("a",), "l") is not None


def test_a_value_and_a_context_manager(tmp_path):
    """By a string, which it opens and closes; or by a store that stays open."""
    path = str(tmp_path / "agent.db")
    with TakebackStore.from_conn_string(path) as store:
        store.setup()
        store.put(("a",), "k", {"v": 1})
    with pytest.raises(StoreClosed):
        store.get(("a",), "k")
    with takeback.open(path) as tb:
        with TakebackStore(tb) as store:
            assert store.get(("a",), "k").value == {"v": 1}
        assert tb.store.get("a", "k").value == {"v": 1}


# --- in a graph


class State(TypedDict):
    said: str


def graph(tb, remember):
    builder = StateGraph(State)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    return builder.compile(store=TakebackStore(tb))


def test_what_a_node_puts_in_a_step_goes_back_with_it(tb):
    """A node of a real graph, run inside a step of a takeback thread: committed with it, and taken back."""
    thread = tb.thread("travel/42", initial={})

    def remember(state: State, runtime: Runtime) -> State:
        runtime.store.put(("users", "ann"), "home", {"city": state["said"]})
        assert runtime.store.get(("users", "ann"), "home").value == {"city": state["said"]}
        return state

    app = graph(tb, remember)
    tb.store.put(("users", "ann"), "home", {"city": "Bern"})
    with thread.step("turn") as step:
        step.state["said"] = app.invoke({"said": "Rome"})["said"]
        assert tb.store.get(("users", "ann"), "home").version is None
    assert tb.store.get(("users", "ann"), "home").value == {"city": "Rome"}
    assert "memory users/ann/home/city: 'Rome' → 'Bern'" in str(thread.plan_undo())
    thread.undo()
    assert tb.store.get(("users", "ann"), "home").value == {"city": "Bern"}


def test_an_async_graph(tb):
    async def remember(state: State, runtime: Runtime) -> State:
        await runtime.store.aput(("users", "ann"), "home", {"city": state["said"]})
        return state

    async def go():
        async with await takeback.aopen(":memory:") as far:
            app = graph(far, remember)
            thread = await far.thread("t", initial={})
            async with thread.step("turn"):
                await app.ainvoke({"said": "Rome"})
            assert (await far.store.get(("users", "ann"), "home")).value == {"city": "Rome"}
            await thread.undo()
            return await far.store.get(("users", "ann"), "home")

    assert asyncio.run(go()) is None
