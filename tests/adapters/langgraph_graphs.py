"""Graphs to try the saver with: a scripted model, subgraphs that remember or do not, stores to run on."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from takeback.testing.postgres import fresh_url

if TYPE_CHECKING:
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig

STORES = ("sqlite", "memory", "postgres")


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Notes(TypedDict):
    notes: Annotated[list[Any], operator.add]


def url_of(kind: str, folder: Path) -> str:
    """An empty store of this kind."""
    if kind == "sqlite":
        return str(folder / "graph.db")
    return ":memory:" if kind == "memory" else fresh_url()


def on(thread: str, **more: Any) -> RunnableConfig:
    """A config that names a thread."""
    return {"configurable": {"thread_id": thread, **more}}


def answer(state: Chat) -> dict[str, Any]:
    """The scripted model: says what it was asked, and how much it remembers."""
    asked = state["messages"][-1]
    return {"messages": [AIMessage(f"{len(state['messages'])} before {asked.content}", id=f"a-{asked.id}")]}


def chat(saver: Any) -> Any:
    """One node that answers."""
    return StateGraph(Chat).add_node("model", answer).add_edge(START, "model").compile(checkpointer=saver)


def chat_within(saver: Any, *, remembers: bool) -> Any:
    """A graph whose only node is a subgraph, with or without a memory of its own."""
    inner = StateGraph(Chat).add_node("model", answer).add_edge(START, "model")
    outer = StateGraph(Chat).add_node("inner", inner.compile(checkpointer=True if remembers else None))
    return outer.add_edge(START, "inner").compile(checkpointer=saver)


def say(graph: Any, thread: str, *texts: str, **more: Any) -> None:
    """One turn for each text."""
    for text in texts:
        graph.invoke({"messages": [HumanMessage(text, id=text)]}, on(thread, **more))


def said(graph: Any, thread: str) -> list[str]:
    """What the messages of the graph's state say."""
    return [message.content for message in graph.get_state(on(thread)).values.get("messages", [])]
