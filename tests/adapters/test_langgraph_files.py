"""Files of a workspace that is attached to a graph's thread go back and forth with its checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, StateGraph
from tests.adapters.langgraph_graphs import Chat, on, say, url_of

from takeback.adapters.langgraph import TakebackSaver

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
@pytest.mark.parametrize("within", [False, True], ids=["root", "persistent subgraph"])
def test_files_go_back_with_the_graph(tmp_path: Path, kind: str, within: bool) -> None:
    """What nodes wrote is captured by the checkpoints, and is as it was after rollback, undo and redo."""
    folder = tmp_path / "work"
    folder.mkdir()

    def write(state: Chat) -> dict[str, Any]:
        said = str(state["messages"][-1].content)
        (folder / "notes.txt").write_text(said)
        (folder / f"{said}.txt").write_text(said)
        return {"messages": [AIMessage("written")]}

    def names() -> list[str]:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))

    with TakebackSaver(url_of(kind, tmp_path), durability="relaxed") as saver:
        builder = StateGraph(Chat).add_node("write", write).add_edge(START, "write")
        if within:
            inner = builder.compile(checkpointer=True)
            builder = StateGraph(Chat).add_node("inner", inner).add_edge(START, "inner")
        graph = builder.compile(checkpointer=saver)
        say(graph, "t", "zero")
        saver.thread("t").workspace(folder, watch=False)
        say(graph, "t", "one")
        first = graph.get_state(on("t")).config["configurable"]["checkpoint_id"]
        say(graph, "t", "two", "three")
        plan = saver.plan_rollback(thread_id="t", checkpoint_id=first)
        assert "three.txt" in str(plan)
        saver.rollback_to(thread_id="t", checkpoint_id=first)
        assert (folder / "notes.txt").read_text() == "one"
        assert names() == ["notes.txt", "one.txt", "zero.txt"]
        saver.undo(thread_id="t")
        assert names() == ["notes.txt", "one.txt", "three.txt", "two.txt", "zero.txt"]
        saver.redo(thread_id="t")
        assert (folder / "notes.txt").read_text() == "one"
        say(graph, "t", "four")
        assert (folder / "notes.txt").read_text() == "four"
        saver.undo(thread_id="t")
        assert names() == ["notes.txt", "one.txt", "zero.txt"]
        assert saver.verify(thread_id="t").problems == []
