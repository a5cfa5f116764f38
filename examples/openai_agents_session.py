"""OpenAI Agents on takeback: a conversation goes wrong, a person takes it back, and the agent hears of it.

Needs no key and no network: the model is a script. `pip install 'takeback[openai-agents]'`
"""

import asyncio
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

import takeback
from takeback.adapters.openai_agents import TakebackSession


class Scripted(Model):
    """Says its lines, and remembers what it was asked."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.asked = list(lines), list[Any]()

    async def get_response(self, *args: Any, **named: Any) -> ModelResponse:
        self.asked.append(named.get("input", args[1] if len(args) > 1 else None))
        text = ResponseOutputText(type="output_text", text=self.lines.pop(0), annotations=[])
        said = ResponseOutputMessage(
            id=f"msg_{len(self.asked)}", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    stream_response = None  # type: ignore[assignment]  # this example does not stream


async def main() -> None:
    set_tracing_disabled(True)
    model = Scripted("Booked Boston.", "Two nights in Boston.", "Sorry. Where to, then?")
    agent = Agent(name="travel", model=model)

    with takeback.open(":memory:", actor="travel-agent") as tb:
        session = TakebackSession("travel/42", tb, agent="travel", tell=True)
        await Runner.run(agent, "Book me a trip", session=session)
        await Runner.run(agent, "For how long?", session=session)
        assert len(await session.get_items()) == 4

        # A person takes the trip back, in another process or on the command line: `takeback rollback 0`.
        trip = tb.thread("travel/42")
        print(trip.plan_rollback(0))
        trip.rollback(0, reason="not Boston", actor="ann")

        # The agent's next turn starts from what is left, and is told.
        await Runner.run(agent, "Hello?", session=session)
        print(model.asked[-1])
        assert "ann took back" in str(model.asked[-1])
        assert "Boston" not in str(await session.get_items())

        # What was taken back is still there, and any session takes the items as they are.
        print(await session.export_items("items.jsonl"), "items written")
        other = await session.fork(at=4, session_id="travel/42-boston")
        print(len(await other.get_items()), "items in the fork")
        for row in await session.thread.history():
            print(row.version, row.kind, row.actor, row.reason)


asyncio.run(main())
