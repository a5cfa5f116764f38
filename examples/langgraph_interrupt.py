"""LangGraph: a graph waits for a person, the answer is taken back, and given again otherwise."""

from typing import TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from takeback.adapters.langgraph import TakebackSaver


class Trip(TypedDict):
    to: str
    booked: bool


def book(state: Trip) -> dict[str, bool]:
    return {"booked": interrupt(f"Book {state['to']}?") == "yes"}


saver = TakebackSaver("agent.db")
graph = StateGraph(Trip).add_node(book).add_edge(START, "book").compile(checkpointer=saver)
config = {"configurable": {"thread_id": "trip"}}

graph.invoke({"to": "New York", "booked": False}, config)
question = graph.get_state(config)
print("the graph asks:", question.tasks[0].interrupts[0].value)

graph.invoke(Command(resume="yes"), config)
print("booked:", graph.get_state(config).values["booked"])

saver.rollback_to(
    thread_id="trip",
    checkpoint_id=question.config["configurable"]["checkpoint_id"],
    reason="it was a mistake",
)
graph.invoke(None, config)  # it asks again
print("asked again:", graph.get_state(config).tasks[0].interrupts[0].value)
graph.invoke(Command(resume="no"), config)
assert graph.get_state(config).values["booked"] is False
print("booked:", graph.get_state(config).values["booked"])
print(saver.thread("trip").verify())
