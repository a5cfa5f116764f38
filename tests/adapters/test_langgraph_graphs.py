"""Real graphs on the saver: turns, time travel, subgraphs, interrupts, branches, streams, delta channels."""

from __future__ import annotations

import asyncio
import operator
import time
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from tests.adapters.langgraph_graphs import STORES, Chat, Notes, chat, chat_within, on, said, say, url_of

from takeback.adapters.langgraph import TakebackSaver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fold(state: list[Any], writes: Any) -> list[Any]:
    return [*state, *(each for write in writes for each in write)]


class Folded(TypedDict):
    notes: Annotated[list[Any], DeltaChannel(fold, snapshot_frequency=5)]
    count: Annotated[int, operator.add]


@pytest.fixture(params=STORES)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TakebackSaver]:
    with TakebackSaver(url_of(request.param, tmp_path), durability="relaxed") as made:
        yield made


def wait_for_writes(saver: TakebackSaver, tasks: int) -> None:
    """Until so many tasks' notes are stored at the newest checkpoint."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = saver.get_tuple(on("t"))
        if found and len({task for task, name, _ in found.pending_writes or () if name == "notes"}) == tasks:
            return
        time.sleep(0.002)
    raise AssertionError("the other branches' writes were never stored")


def sound(saver: TakebackSaver, *threads: str) -> None:
    for thread in threads:
        assert saver.verify(thread_id=thread).problems == []


def test_turns(saver: TakebackSaver) -> None:
    """A conversation goes on where it stopped; its checkpoints are one thread of takeback's."""
    graph = chat(saver)
    say(graph, "t", "a", "b")
    assert said(graph, "t") == ["a", "1 before a", "b", "3 before b"]
    steps = [state.metadata["step"] for state in graph.get_state_history(on("t"))]
    assert steps == [4, 3, 2, 1, 0, -1]
    assert saver.thread("t").version == 6
    assert saver.thread("t").get("/values/messages/3/content") == "3 before b"
    sound(saver, "t")


def test_time_travel_opens_a_line(saver: TakebackSaver) -> None:
    """A graph that goes on from an older checkpoint leaves the newer ones as they are, and says so."""
    graph = chat(saver)
    say(graph, "t", "a", "b")
    past = next(s for s in graph.get_state_history(on("t")) if len(s.values["messages"]) == 2 and not s.next)
    graph.invoke({"messages": [HumanMessage("c", id="c")]}, past.config)
    assert said(graph, "t") == ["a", "1 before a", "c", "3 before c"]
    left = saver.forks(thread_id="t")
    assert [fork["metadata"]["step"] for fork in left] == [4]
    assert graph.get_state(on("t", checkpoint_id=left[0]["checkpoint_id"])).values["messages"][
        -1
    ].content == ("3 before b")
    assert saver.thread("t").at(7).checkpoint.origin is not None
    sound(saver, "t")


@pytest.mark.parametrize("remembers", [True, False])
def test_rolling_back_the_root_rolls_back_its_subgraphs(saver: TakebackSaver, remembers: bool) -> None:
    """A subgraph with a memory of its own forgets as well: nothing of the undone turns is left."""
    graph = chat_within(saver, remembers=remembers)
    say(graph, "t", "a")
    target = graph.get_state(on("t")).config["configurable"]["checkpoint_id"]
    say(graph, "t", "secret")
    plan = saver.plan_rollback(thread_id="t", checkpoint_id=target)
    assert "values/messages: −2 items" in str(plan)
    done = saver.rollback_to(thread_id="t", checkpoint_id=target, reason="wrong")
    assert (done["restored_from"], done["rolled_back_from"]) == (target, target)
    assert done["checkpoint_id"] not in (target, done["previous_head"])
    head = graph.get_state(on("t"))
    assert (head.config["configurable"]["checkpoint_id"], head.metadata["source"]) == (
        done["checkpoint_id"],
        "fork",
    )
    assert head.parent_config == graph.get_state(on("t", checkpoint_id=target)).parent_config
    say(graph, "t", "b")
    assert "secret" not in str(said(graph, "t"))
    for namespace in {tup.config["configurable"]["checkpoint_ns"] for tup in saver.list(on("t"))}:
        newest = saver.get_tuple(on("t", checkpoint_ns=namespace))
        if newest is not None and ":" not in namespace:
            assert "secret" not in str(newest.checkpoint["channel_values"])
    sound(saver, "t")


def test_a_subgraph_that_began_after_the_target_is_gone(saver: TakebackSaver) -> None:
    """Going back to before a subgraph's first checkpoint leaves none for it to remember."""
    inner = (
        StateGraph(Chat).add_node("keep", lambda state: {}).add_edge(START, "keep").compile(checkpointer=True)
    )
    builder = StateGraph(Chat).add_node("model", lambda state: {}).add_node("inner", inner)
    builder.add_conditional_edges(START, lambda state: "inner" if len(state["messages"]) > 1 else "model")
    graph = builder.compile(checkpointer=saver)
    say(graph, "t", "a")
    target = graph.get_state(on("t")).config["configurable"]["checkpoint_id"]
    say(graph, "t", "b")
    assert saver.get_tuple(on("t", checkpoint_ns="inner")) is not None
    saver.rollback_to(thread_id="t", checkpoint_id=target)
    assert saver.get_tuple(on("t", checkpoint_ns="inner")) is None
    say(graph, "t", "c")
    newest = saver.get_tuple(on("t", checkpoint_ns="inner"))
    assert newest is not None
    assert [m.content for m in newest.checkpoint["channel_values"]["messages"]] == ["a", "c"]
    sound(saver, "t")


def test_undo_takes_back_a_whole_turn(saver: TakebackSaver) -> None:
    """However many checkpoints a run made, it is one operation; redo brings it again."""
    graph = chat_within(saver, remembers=True)
    say(graph, "t", "a", "b")
    done = saver.undo(thread_id="t", reason="no")
    assert said(graph, "t") == ["a", "1 before a"]
    assert saver.thread("t").head.reason == "no"
    saver.redo(thread_id="t")
    assert said(graph, "t") == ["a", "1 before a", "b", "3 before b"]
    saver.undo(thread_id="t")
    saver.undo(thread_id="t", bookmark=done["bookmark"])
    assert said(graph, "t") == ["a", "1 before a", "b", "3 before b"]
    sound(saver, "t")


def test_the_first_turn_can_be_taken_back(saver: TakebackSaver) -> None:
    """Then the thread is empty, and the graph begins anew."""
    graph = chat(saver)
    say(graph, "t", "a")
    saver.undo(thread_id="t")
    assert saver.get_tuple(on("t")) is None
    say(graph, "t", "b")
    assert said(graph, "t") == ["b", "1 before b"]
    sound(saver, "t")


def test_a_fork_is_a_thread_of_its_own(saver: TakebackSaver) -> None:
    """It goes on from the checkpoint; the original does not hear of it."""
    graph = chat_within(saver, remembers=True)
    say(graph, "t", "a", "b")
    past = next(s for s in graph.get_state_history(on("t")) if len(s.values["messages"]) == 2 and not s.next)
    saver.fork(
        thread_id="t", checkpoint_id=past.config["configurable"]["checkpoint_id"], new_thread_id="other"
    )
    assert said(graph, "other") == ["a", "1 before a"]
    say(graph, "other", "c")
    assert said(graph, "other") == ["a", "1 before a", "c", "3 before c"]
    assert said(graph, "t")[-1] == "3 before b"
    sound(saver, "t", "other")


def test_what_takeback_changes_the_graph_sees(saver: TakebackSaver) -> None:
    """A patch by hand is an update in the graph's eyes: a checkpoint of its own, from which it goes on."""
    graph = chat(saver)
    say(graph, "t", "a")
    before = graph.get_state(on("t"))
    saver.thread("t").patch({"/values/messages/1/content": "corrected"}, reason="a lie")
    after = graph.get_state(on("t"))
    assert after.values["messages"][1].content == "corrected"
    assert (after.metadata["source"], after.metadata["step"]) == ("update", 2)
    assert after.parent_config == before.config
    say(graph, "t", "b")
    assert said(graph, "t")[1] == "corrected"
    sound(saver, "t")


def test_an_interrupt_waits_and_goes_on(saver: TakebackSaver) -> None:
    """What a person answers reaches the node, also from another handle to the store."""

    def ask(state: Notes) -> dict[str, Any]:
        return {"notes": [interrupt({"question": "really?"})]}

    builder = StateGraph(Notes).add_node("ask", ask).add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"notes": ["begin"]}, on("t"))
    waiting = graph.get_state(on("t"))
    assert waiting.next == ("ask",)
    assert waiting.tasks[0].interrupts[0].value == {"question": "really?"}
    other = builder.compile(checkpointer=TakebackSaver(saver.repo))
    assert other.invoke(Command(resume="yes"), on("t"))["notes"] == ["begin", "yes"]
    assert graph.get_state(on("t")).next == ()
    sound(saver, "t")


def test_an_interrupt_can_be_answered_again_after_a_rollback(saver: TakebackSaver) -> None:
    """Going back to a question gives the question back, with no answer pending."""

    def ask(state: Notes) -> dict[str, Any]:
        return {"notes": [interrupt("really?")]}

    graph = StateGraph(Notes).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    graph.invoke({"notes": []}, on("t"))
    asked = graph.get_state(on("t")).config["configurable"]["checkpoint_id"]
    graph.invoke(Command(resume="yes"), on("t"))
    saver.rollback_to(thread_id="t", checkpoint_id=asked)
    assert graph.get_state(on("t")).next == ("ask",)
    graph.invoke(None, on("t"))
    assert graph.invoke(Command(resume="no"), on("t"))["notes"] == ["no"]
    sound(saver, "t")


def test_parallel_branches_keep_what_was_done(saver: TakebackSaver) -> None:
    """When one branch fails, the others' writes stay pending, and are not done again."""
    runs: list[str] = []
    broken = [True]

    def work(state: dict[str, Any]) -> dict[str, Any]:
        runs.append(state["name"])
        if state["name"] == "c" and broken[0]:
            wait_for_writes(saver, 3)  # the others' are lost on LangGraph's side if the run ends before
            raise RuntimeError("c fails once")
        return {"notes": [state["name"]]}

    builder = StateGraph(Notes).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", {"name": name}) for name in "abcd"])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(RuntimeError, match="c fails once"):
        graph.invoke({"notes": []}, on("t"))
    broken[0] = False
    assert graph.invoke(None, on("t"))["notes"] == ["a", "b", "c", "d"]
    assert sorted(runs) == ["a", "b", "c", "c", "d"]
    sound(saver, "t")


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_durability(saver: TakebackSaver, durability: str) -> None:
    """However LangGraph hands its checkpoints over, the end is the same."""
    graph = chat_within(saver, remembers=True)
    for text in "abc":
        graph.invoke({"messages": [HumanMessage(text, id=text)]}, on("t"), durability=durability)
    assert said(graph, "t")[-1] == "5 before c"
    sound(saver, "t")


def test_streams_and_commands(saver: TakebackSaver) -> None:
    """Streaming, and nodes that say where to go."""

    def go(state: Notes) -> Command[Any]:
        return Command(
            goto="end" if len(state["notes"]) > 1 else "go", update={"notes": [len(state["notes"])]}
        )

    builder = StateGraph(Notes).add_node("go", go, destinations=("go", "end"))
    graph = builder.add_node("end", lambda state: {}).add_edge(START, "go").add_edge("end", END)
    app = graph.compile(checkpointer=saver)
    parts = list(app.stream({"notes": []}, on("t"), stream_mode=["updates", "checkpoints"]))
    assert [part["go"]["notes"] for mode, part in parts if mode == "updates" and "go" in part] == [
        [0],
        [1],
        [2],
    ]
    assert app.get_state(on("t")).values["notes"] == [0, 1, 2]


def test_awaited(saver: TakebackSaver) -> None:
    """The same graph, awaited: turns, history, going back."""
    graph = chat_within(saver, remembers=True)

    async def go() -> list[str]:
        for text in "ab":
            await graph.ainvoke({"messages": [HumanMessage(text, id=text)]}, on("t"))
        states = [state async for state in graph.aget_state_history(on("t"))]
        assert len(states) == 6
        assert await saver.aundo(thread_id="t")
        assert (await saver.averify(thread_id="t")).ok
        return [message.content for message in (await graph.aget_state(on("t"))).values["messages"]]

    assert asyncio.run(go()) == ["a", "1 before a"]


def test_many_at_once(saver: TakebackSaver) -> None:
    """Runs of many threads on one saver do not mix."""
    graph = chat(saver)

    async def go() -> None:
        await asyncio.gather(
            *(
                graph.ainvoke({"messages": [HumanMessage(f"m{n}", id=f"m{n}")]}, on(f"t{n}"))
                for n in range(12)
            )
        )

    asyncio.run(go())
    for n in range(12):
        assert said(graph, f"t{n}") == [f"m{n}", f"1 before m{n}"]


def test_a_channel_that_keeps_changes(saver: TakebackSaver) -> None:
    """Where the writes are the state, it comes back: across turns, rollbacks, forks, copies and pruning."""

    def note(state: Folded) -> dict[str, Any]:
        return {"notes": [f"n{state['count']}"], "count": 1}

    graph = StateGraph(Folded).add_node("note", note).add_edge(START, "note").compile(checkpointer=saver)

    def notes(thread: str) -> list[Any]:
        return graph.get_state(on(thread)).values["notes"]

    whole: list[str] = []
    ids = []
    for n in range(9):
        graph.invoke({"notes": [f"i{n}"], "count": 0}, on("t"))
        whole += [f"i{n}", f"n{n}"]
        assert notes("t") == whole
        ids.append(graph.get_state(on("t")).config["configurable"]["checkpoint_id"])
    saver.copy_thread("t", "copy")
    saver.fork(thread_id="t", checkpoint_id=ids[6], new_thread_id="fork")
    saver.rollback_to(thread_id="t", checkpoint_id=ids[3])
    assert notes("t") == whole[:8]
    graph.invoke({"notes": ["again"], "count": 0}, on("t"))
    assert notes("t") == [*whole[:8], "again", "n4"]
    assert notes("copy") == whole
    assert notes("fork") == whole[:14]
    graph.invoke({"notes": ["forked"], "count": 0}, on("fork"))
    assert notes("fork") == [*whole[:14], "forked", "n7"]
    saver.prune(["copy"])
    assert notes("copy") == whole
    sound(saver, "t", "copy", "fork")
