"""LangGraph: time travel does not charge the card again, and a rollback gives the money back."""

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from takeback.adapters.langgraph import TakebackSaver, effectful

charged: list[int] = []  # the world outside


def refund(cents: int) -> None:
    charged.remove(cents)


@tool
def charge(cents: int) -> str:
    """Charge the customer's card."""
    charged.append(cents)
    return f"charged {cents}"


card = effectful(charge, undo=refund, describe="charge {cents:money}")


def model(_: MessagesState) -> dict[str, list[AIMessage]]:
    """A scripted model: it always charges the card."""
    return {"messages": [AIMessage("", tool_calls=[{"name": "charge", "args": {"cents": 4200}, "id": "1"}])]}


saver = TakebackSaver("agent.db")
builder = StateGraph(MessagesState).add_node(model).add_node("tools", ToolNode([card]))
graph = builder.add_edge(START, "model").add_edge("model", "tools").compile(checkpointer=saver)
config = {"configurable": {"thread_id": "shop"}}

graph.invoke({"messages": [HumanMessage("Buy it")]}, config)
print("charged:", charged)

history = list(graph.get_state_history(config))
before = next(state for state in history if state.next == ("tools",))
graph.invoke(None, before.config)  # time travel: the node with the tool runs again
print("after time travel:", charged)
assert charged == [4200]

plan = saver.plan_rollback(
    thread_id="shop", checkpoint_id=history[-1].config["configurable"]["checkpoint_id"]
)
print("plan:", plan)
plan.apply(reason="the customer changed her mind")
print("after the rollback:", charged)
assert charged == []
