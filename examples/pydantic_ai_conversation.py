"""Pydantic AI on takeback: a conversation is saved, taken back by a person, and goes on from there.

Needs no key and no network: the model is a function. `pip install 'takeback[pydantic-ai]'`
"""

import asyncio

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.models.function import AgentInfo, FunctionModel

from takeback.adapters.pydantic_ai import TakebackConversationStore


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    return ModelResponse(parts=[TextPart(f"answer after {len(messages)} messages")])


async def main() -> None:
    agent = Agent(FunctionModel(answer), name="travel")
    async with TakebackConversationStore(":memory:", actor="travel-agent") as store:
        conversation = Conversation(conversation_id="travel/42")
        for prompt in ("Book me a trip", "Boston, please", "For two nights"):
            result = await agent.run(prompt, conversation=conversation)
            await store.save(result, scope="ann")
            conversation = result.conversation

        # A person takes the last save back: `takeback undo`, or here.
        thread = await store.thread("travel/42")
        print(await thread.plan_undo())
        await thread.undo(reason="three nights", actor="ann")

        # What the agent still holds is stale, and a save of it is refused.
        try:
            await store.save(await agent.run("And the hotel?", conversation=conversation))
        except ConversationConflict as conflict:
            print("refused:", str(conflict).partition(".")[0])

        # It loads the conversation again, and is told.
        loaded = await store.load("travel/42", scope="ann")
        assert loaded is not None
        assert len(loaded.messages) == 4
        told = await store.taken_back("travel/42")
        print(told)
        result = await agent.run("And the hotel?", conversation=loaded, instructions=told)
        await store.save(result)

        # Another way from an earlier message, beside it; what both share is stored once.
        fork = await store.fork("travel/42", at=2, new_conversation_id="travel/42-rome")
        print(len(fork.messages), "messages in the fork")
        print(await store.export_messages("travel/42", "messages.json"), "messages written")


asyncio.run(main())
