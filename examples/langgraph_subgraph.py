"""LangGraph: a rollback across a subgraph that has a memory of its own. It forgets what was taken back."""

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from takeback.adapters.langgraph import TakebackSaver


def researcher(state: MessagesState) -> dict[str, list[AIMessage]]:
    """A scripted model: it says how much it remembers."""
    return {"messages": [AIMessage(f"I know {len(state['messages'])} messages")]}


inner = (
    StateGraph(MessagesState).add_node(researcher).add_edge(START, "researcher").compile(checkpointer=True)
)
saver = TakebackSaver("agent.db")
graph = StateGraph(MessagesState).add_node("team", inner).add_edge(START, "team").compile(checkpointer=saver)
config = {"configurable": {"thread_id": "research"}}


def ask(text: str) -> None:
    graph.invoke({"messages": [HumanMessage(text)]}, config)
    print(f"{text:28} → {graph.get_state(config).values['messages'][-1].content}")


ask("What is a checkpoint?")
good = graph.get_state(config).config["configurable"]["checkpoint_id"]
ask("My card is 4111 1111")  # this should never have been said

print("plan:", saver.plan_rollback(thread_id="research", checkpoint_id=good))
saver.rollback_to(thread_id="research", checkpoint_id=good, reason="a card number")

ask("And a bookmark?")
memory = saver.get_tuple({"configurable": {"thread_id": "research", "checkpoint_ns": "team"}})
assert memory is not None
assert "4111" not in str(memory.checkpoint["channel_values"])
assert saver.verify(thread_id="research").ok
print("neither the graph nor the subgraph remembers the card")
