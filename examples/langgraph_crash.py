"""LangGraph: the process is killed in the middle of a run; the next one goes on where it stopped."""

import os
import subprocess
import sys

from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from takeback.adapters.langgraph import TakebackSaver


class Work(TypedDict):
    done: list[str]


def first(state: Work) -> Work:
    return {"done": [*state["done"], "first"]}


def second(state: Work) -> Work:
    if os.environ.get("CRASH"):
        os.kill(os.getpid(), 9)  # no goodbye: nothing is flushed, nothing is closed
    return {"done": [*state["done"], "second"]}


builder = StateGraph(Work).add_sequence([first, second]).add_edge(START, "first")
config = {"configurable": {"thread_id": "work"}}

if os.environ.get("CRASH"):
    graph = builder.compile(checkpointer=TakebackSaver("agent.db"))
    graph.invoke({"done": []}, config, durability="sync")

child = subprocess.run(
    [sys.executable, os.path.abspath(__file__)], env={**os.environ, "CRASH": "1"}, check=False
)
print("the first process ended with", child.returncode)

with TakebackSaver("agent.db") as saver:
    graph = builder.compile(checkpointer=saver)
    state = graph.get_state(config)
    print("stored:", state.values["done"], "· to do:", state.next)
    graph.invoke(None, config)
    print("done:", graph.get_state(config).values["done"])
    assert graph.get_state(config).values["done"] == ["first", "second"]
    assert saver.verify(thread_id="work").ok
