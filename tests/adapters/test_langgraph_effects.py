"""Effects in graphs: a charge is made once, whatever the graph goes through; and a plan takes it back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import interrupt
from tests.adapters.langgraph_graphs import on, url_of

from takeback.adapters.langgraph import TakebackSaver, effectful
from takeback.errors import BadTool, NoStep, PlanRequired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_names = itertools.count()


class World:
    """What was really done."""

    def __init__(self) -> None:
        self.charges: list[int] = []
        self.broken = False


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TakebackSaver]:
    with TakebackSaver(url_of(request.param, tmp_path), durability="relaxed") as made:
        yield made


def charging(world: World, **said: Any) -> Any:
    """A tool that charges, and one that refunds."""
    name = f"charge{next(_names)}"

    def refund(cents: int, result: str) -> None:
        world.charges.remove(cents)

    refund.__name__ = f"refund_{name}"

    def charge(cents: int) -> str:
        """Charge the card."""
        world.charges.append(cents)
        if world.broken:
            world.broken = False
            raise SystemExit  # the process ends between the call and its outcome
        return f"charged {cents}"

    return effectful(tool(name)(charge), undo=refund, describe="charge {cents:money}", **said)


def buying(saver: TakebackSaver, *tools: Any, between: Any = None, amounts: tuple[int, ...] = (4200,)) -> Any:
    """A graph that asks a scripted model, which calls the tool, and then goes on."""

    def model(state: MessagesState) -> dict[str, Any]:
        calls = [
            {"name": each.name, "args": {"cents": cents}, "id": f"{each.name}-{cents}-{n}"}
            for each in tools
            for n, cents in enumerate(amounts)
        ]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState).add_node("model", model).add_node("tools", ToolNode(list(tools)))
    builder.add_node("after", between or (lambda state: {}))
    builder.add_edge(START, "model").add_edge("model", "tools").add_edge("tools", "after")
    return builder.compile(checkpointer=saver)


def answers(graph: Any, thread: str = "t") -> list[str]:
    found = graph.get_state(on(thread)).values["messages"]
    return [message.content for message in found if isinstance(message, ToolMessage)]


ASK = {"messages": [HumanMessage("buy", id="1")]}


def test_a_charge_is_recorded_and_taken_back(saver: TakebackSaver, world: World) -> None:
    """It is an effect of the thread; going back to before it needs the plan, which refunds."""
    graph = buying(saver, charging(world))
    graph.invoke(ASK, on("t"))
    assert answers(graph) == ["charged 4200"]
    (effect,) = saver.thread("t").effects()
    assert effect.shown == "charge $42.00"
    first = list(graph.get_state_history(on("t")))[-1].config["configurable"]["checkpoint_id"]
    with pytest.raises(PlanRequired):
        saver.rollback_to(thread_id="t", checkpoint_id=first)
    plan = saver.plan_rollback(thread_id="t", checkpoint_id=first)
    assert "charge $42.00" in str(plan)
    plan.apply(reason="no")
    assert world.charges == []
    assert saver.verify(thread_id="t").problems == []


def test_time_travel_does_not_charge_again(saver: TakebackSaver, world: World) -> None:
    """Running again from the checkpoint before the call gives the recorded result."""
    graph = buying(saver, charging(world))
    graph.invoke(ASK, on("t"))
    before = next(s for s in graph.get_state_history(on("t")) if s.next == ("tools",))
    graph.invoke(None, before.config)
    graph.invoke(None, before.config)
    assert world.charges == [4200]
    assert answers(graph) == ["charged 4200"]
    assert saver.verify(thread_id="t").problems == []


def test_another_line_meets_the_guard(saver: TakebackSaver, world: World) -> None:
    """A graph that thinks anew comes to the same call on another line: it gets what stands."""
    graph = buying(saver, charging(world))
    graph.invoke(ASK, on("t"))
    begin = next(s for s in graph.get_state_history(on("t")) if s.next == ("model",))
    graph.invoke(
        None, graph.update_state(begin.config, {"messages": [HumanMessage("again", id="1")]}, "__start__")
    )
    assert world.charges == [4200]
    assert answers(graph) == ["charged 4200"]
    assert saver.verify(thread_id="t").problems == []


def test_a_crash_after_the_tool_does_not_charge_again(saver: TakebackSaver, world: World) -> None:
    """The node that comes next fails; the graph goes on, and the tool's result is the recorded one."""
    failing = [True]

    def after(state: MessagesState) -> dict[str, Any]:
        if failing[0]:
            raise RuntimeError("a crash in the middle")
        return {"messages": [AIMessage("done")]}

    graph = buying(saver, charging(world), between=after)
    with pytest.raises(RuntimeError):
        graph.invoke(ASK, on("t"))
    failing[0] = False
    assert graph.invoke(None, on("t"))["messages"][-1].content == "done"
    assert world.charges == [4200]


def test_an_interrupt_inside_the_node_does_not_charge_again(saver: TakebackSaver, world: World) -> None:
    """The node runs again from its first line when the person has answered."""
    charge = charging(world)

    def buy(state: MessagesState) -> dict[str, Any]:
        said = charge.invoke({"cents": 100})
        return {"messages": [AIMessage(f"{said}, {interrupt('ok?')}")]}

    graph = StateGraph(MessagesState).add_node("buy", buy).add_edge(START, "buy").compile(checkpointer=saver)
    graph.invoke(ASK, on("t"))
    from langgraph.types import Command

    assert graph.invoke(Command(resume="yes"), on("t"))["messages"][-1].content == "charged 100, yes"
    assert world.charges == [100]


def test_equal_calls_of_one_node_are_two(saver: TakebackSaver, world: World) -> None:
    """Two parallel calls with the same arguments are two charges, and both are replayed."""
    graph = buying(saver, charging(world), amounts=(100, 100, 7))
    graph.invoke(ASK, on("t"))
    assert sorted(world.charges) == [7, 100, 100]
    before = next(s for s in graph.get_state_history(on("t")) if s.next == ("tools",))
    graph.invoke(None, before.config)
    assert sorted(world.charges) == [7, 100, 100]
    assert answers(graph) == ["charged 100", "charged 100", "charged 7"]
    assert saver.verify(thread_id="t").problems == []


def test_undo_takes_back_the_whole_turn(saver: TakebackSaver, world: World) -> None:
    """Effects are part of the run that made them."""
    graph = buying(saver, charging(world))
    graph.invoke(ASK, on("t"))
    with pytest.raises(PlanRequired):
        saver.undo(thread_id="t")
    saver.thread("t").plan_undo().apply()
    assert world.charges == []
    assert saver.get_tuple(on("t")) is None


def test_checkpoints_say_what_is_recorded_of_effects(saver: TakebackSaver, world: World) -> None:
    """Without effectful tools, nothing; with some, a part, since others may not be."""
    plain = buying(saver)
    plain.invoke(ASK, on("plain"))
    assert {row.ledger for row in saver.thread("plain").history()} == {"none"}
    buying(saver, charging(world)).invoke(ASK, on("t"))
    assert [row.ledger for row in saver.thread("t").history()][:2] == ["partial", "partial"]


async def _awaited(graph: Any) -> None:
    await graph.ainvoke(ASK, on("t"))
    states = [state async for state in graph.aget_state_history(on("t"))]
    await graph.ainvoke(None, next(state for state in states if state.next == ("tools",)).config)


def test_awaited(saver: TakebackSaver, world: World) -> None:
    """A coroutine runs in the graph's own loop, once."""
    import asyncio

    seen: list[Any] = []

    async def charge(cents: int) -> str:
        """Charge the card."""
        seen.append(asyncio.get_running_loop())
        world.charges.append(cents)
        return f"charged {cents}"

    graph = buying(saver, effectful(tool(f"acharge{next(_names)}")(charge)))
    asyncio.run(_awaited(graph))
    assert world.charges == [4200]
    assert answers(graph) == ["charged 4200"]


def test_what_the_graph_hands_in_is_no_argument(saver: TakebackSaver, world: World) -> None:
    """State and whatever else is injected reaches the function, and is not recorded; artifacts come back."""

    def charge(
        cents: int,
        state: Annotated[dict[str, Any], InjectedState],
        extra: Annotated[Any, InjectedToolArg] = None,
    ) -> tuple[str, dict[str, Any]]:
        """Charge the card."""
        world.charges.append(cents)
        return f"{len(state['messages'])} messages", {"cents": cents}

    made = effectful(tool(f"charge{next(_names)}", response_format="content_and_artifact")(charge))
    graph = buying(saver, made)
    graph.invoke(ASK, on("t"))
    (message,) = (m for m in graph.get_state(on("t")).values["messages"] if isinstance(m, ToolMessage))
    assert (message.content, message.artifact) == ("2 messages", {"cents": 4200})
    (effect,) = saver.thread("t").effects()
    assert saver.thread("t").effect_record(effect.number)["args"] == {"cents": 4200}


class Old(BaseTool):
    """A tool of the older kind."""

    name: str = "old"
    description: str = "Charge the card."
    done: Any

    def _run(self, cents: int) -> str:
        self.done.append(cents)
        return f"charged {cents}"


def test_tools_of_any_kind(saver: TakebackSaver) -> None:
    """Classes and plain functions; outside of a graph they are what they were."""
    old = Old(name=f"old{next(_names)}", done=[])
    graph = buying(saver, effectful(old))
    graph.invoke(ASK, on("t"))
    before = next(s for s in graph.get_state_history(on("t")) if s.next == ("tools",))
    graph.invoke(None, before.config)
    assert old.done == [4200]

    def plain(cents: int) -> str:
        """Charge the card."""
        return f"charged {cents}"

    assert effectful(plain).func(cents=5) == "charged 5"


def test_mistakes_are_said(world: World) -> None:
    """A graph without the saver, and declarations that do not fit."""
    graph = buying(None, charging(world))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(NoStep, match="TakebackSaver"):
        graph.invoke(ASK)
    assert world.charges == []
    with pytest.raises(BadTool):
        charging(world, target="{nobody}")
