"""OpenAI Agents' session on takeback: the framework's own type, its own runner, and what takeback adds."""

from __future__ import annotations

import asyncio

import pytest
from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import takeback
from takeback.adapters.openai_agents import TakebackSession
from takeback.errors import BadRequest, Conflict, StoreClosed, StoreUnavailable

set_tracing_disabled(True)


def user(text):
    return {"role": "user", "content": text}


@pytest.fixture(params=["memory", "file", "postgres"])
def tb(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def session(tb):
    return TakebackSession("s", tb)


def run(coroutine):
    return asyncio.run(coroutine)


class Scripted(Model):
    """Gives what it was told to give; an entry that is an exception is raised."""

    def __init__(self, *outputs):
        self.outputs, self.asked = list(outputs), []

    async def get_response(self, *args, **named):
        self.asked.append(named.get("input", args[1] if len(args) > 1 else None))
        output = self.outputs.pop(0)
        if isinstance(output, Exception):
            raise output
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    stream_response = None


def says(text):
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


# --- the framework's contract


def test_it_is_a_session(session):
    """The framework's own protocol takes it."""
    assert isinstance(session, Session)
    assert session.session_id == "s"
    assert isinstance(session.session_settings, SessionSettings)


def test_items_come_back_as_they_went(session):
    """In order, equal, and the caller's own to change."""

    async def go():
        assert await session.get_items() == []
        await session.add_items([])
        assert not session.thread.exists
        items = [user("a"), {"type": "function_call", "arguments": '{"x": 1}', "call_id": "c", "name": "f"}]
        await session.add_items(items)
        await session.add_items([user("ü\n")])
        found = await session.get_items()
        assert found == [*items, user("ü\n")]
        found[0]["content"] = "mine"
        assert (await session.get_items())[0] == user("a")

    run(go())


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [0, 1, 2]), (2, [1, 2]), (0, []), (9, [0, 1, 2]), (-1, [0, 1, 2])]
)
def test_a_limit_gives_the_newest_in_order(tb, limit, expected):
    """As the framework's own sessions: negative is no limit."""
    session = TakebackSession("s", tb)

    async def go():
        await session.add_items([user(str(n)) for n in range(3)])
        assert await session.get_items(limit) == [user(str(n)) for n in expected]
        limited = TakebackSession("s", tb, session_settings={"limit": 1})
        assert await limited.get_items() == [user("2")]
        assert await limited.get_items(limit=2) == [user("1"), user("2")]

    run(go())


def test_popping_is_a_step_that_can_be_taken_back(session):
    """The newest item goes; an undo brings it back; there is nothing to pop of nothing."""

    async def go():
        assert await session.pop_item() is None
        await session.add_items([user("a"), user("b")])
        assert await session.pop_item() == user("b")
        assert await session.get_items() == [user("a")]
        await session.thread.undo()
        assert await session.get_items() == [user("a"), user("b")]
        assert [await session.pop_item() for _ in range(3)] == [user("b"), user("a"), None]

    run(go())


def test_clearing_keeps_the_history(session):
    async def go():
        await session.clear_session()
        assert not session.thread.exists
        await session.add_items([user("a")])
        await session.clear_session()
        assert await session.get_items() == []
        await session.thread.undo()
        assert await session.get_items() == [user("a")]

    run(go())


def test_the_framework_s_runner(tb):
    """A turn with a tool call through the real runner: what the next turn is given is what was stored."""
    calls = []

    @function_tool
    def weather(city: str) -> str:
        """The weather."""
        calls.append(city)
        return "rain"

    model = Scripted(
        ResponseFunctionToolCall(
            type="function_call", call_id="c1", name="weather", arguments='{"city": "Rome"}'
        ),
        says("It rains."),
        says("You are welcome."),
    )
    agent = Agent(name="a", model=model, tools=[weather])
    session = TakebackSession("s", tb)

    async def go():
        result = await Runner.run(agent, "Weather in Rome?", session=session)
        assert result.final_output == "It rains."
        stored = await session.get_items()
        assert [item.get("type", item.get("role")) for item in stored] == [
            "user", "function_call", "function_call_output", "message",
        ]  # fmt: skip
        await Runner.run(agent, "Thanks", session=session)
        assert model.asked[-1] == [*stored, user("Thanks")]
        assert calls == ["Rome"]

    run(go())


def test_a_turn_that_was_taken_back_is_not_there_for_the_next(tb):
    model = Scripted(says("Boston."), says("Rome."))
    agent = Agent(name="a", model=model)
    session = TakebackSession("s", tb, tell=True)

    async def go():
        await Runner.run(agent, "Where?", session=session)
        tb.thread("s").rollback(0, actor="ann", reason="not there")
        await Runner.run(agent, "Again?", session=session)
        assert "Boston" not in str(model.asked[-1][1:])
        assert model.asked[-1][0]["role"] == "developer"
        assert "ann took back" in model.asked[-1][0]["content"]
        assert [item["role"] for item in await session.get_items()] == ["user", "assistant"]
        assert await session.taken_back() is None

    run(go())


# --- two writers


def test_two_writers_from_one_head_do_not_interleave(tb):
    """The second one's items are refused whole; it reads again and goes behind."""
    one, two = TakebackSession("s", tb), TakebackSession("s", tb)

    async def go():
        await one.get_items()
        await two.get_items()
        await one.add_items([user("a1"), user("a2")])
        with pytest.raises(Conflict, match="since its items were read"):
            await two.add_items([user("b1")])
        with pytest.raises(Conflict):
            await two.pop_item()
        assert await two.get_items() == [user("a1"), user("a2")]
        await two.add_items([user("b1")])
        assert await one.get_items() == [user("a1"), user("a2"), user("b1")]

    run(go())


def test_two_runs_on_one_session_do_not_interleave(tb):
    """Each task is held to what it read itself, though both use one object."""
    session = TakebackSession("s", tb)

    async def turn(name, read, go_on):
        await session.get_items()
        read.set()
        await go_on.wait()
        await session.add_items([user(name + "1")])
        await session.add_items([user(name + "2")])

    async def go():
        await session.add_items([user("0")])
        events = [asyncio.Event() for _ in range(4)]
        tasks = [
            asyncio.create_task(turn("a", events[0], events[1])),
            asyncio.create_task(turn("b", events[2], events[3])),
        ]
        await events[0].wait()
        await events[2].wait()
        events[1].set()
        await tasks[0]
        events[3].set()
        with pytest.raises(Conflict):
            await tasks[1]
        assert [item["content"] for item in await session.get_items()] == ["0", "a1", "a2"]

    run(go())


def test_merging_goes_behind(tb):
    """With on_conflict="merge" nothing is refused and nothing lost; each call's items stay together."""
    sessions = [TakebackSession("s", tb, on_conflict="merge") for _ in range(3)]

    async def go():
        for session in sessions:
            await session.get_items()
        batches = [[user(f"{n}{k}") for k in "ab"] for n in range(9)]
        await asyncio.gather(*(sessions[n % 3].add_items(batch) for n, batch in enumerate(batches)))
        found = await sessions[0].get_items()
        pairs = [found[n : n + 2] for n in range(0, len(found), 2)]
        assert sorted(pairs, key=str) == batches
        await asyncio.gather(*(session.pop_item() for session in sessions))
        assert len(await sessions[0].get_items()) == 15

    run(go())


def test_a_person_s_rollback_in_the_middle_of_a_turn_is_not_written_over(tb, session):
    """The agent's next item is refused: what it answers to was taken back."""

    async def go():
        await session.add_items([user("a")])
        tb.thread("s").rollback(0, actor="ann")
        with pytest.raises(Conflict):
            await session.add_items([user("b")])
        assert await session.get_items() == []

    run(go())


# --- where it is kept


def test_it_is_an_ordinary_thread(tb, session, tmp_path):
    """Log, diff, plan, verify, export: what works on threads works on sessions."""

    async def go():
        await session.add_items([user("Book me a trip")])

    run(go())
    thread = tb.thread("s")
    assert [row.reason for row in thread.history()] == ["user: Book me a trip", "a new session"]
    assert str(thread.plan_rollback(0)).startswith("items")
    assert thread.verify().ok
    tb.export("s", tmp_path / "s.tbx")
    with takeback.open(":memory:") as other:
        assert other.import_(tmp_path / "s.tbx").get("items") == [user("Book me a trip")]


def test_in_the_state_of_an_agent_s_own_thread(tb):
    """A list of a thread that holds other things as well; these stay."""
    thread = tb.thread("t", initial={"plan": ["x"], "n": 1})
    session = TakebackSession("t", tb, items="messages")

    async def go():
        assert await session.get_items() == []
        await session.add_items([user("a")])
        await session.add_items([user("b")])
        await session.clear_session()

    run(go())
    assert thread.refresh().state == {"plan": ["x"], "n": 1, "messages": []}
    with pytest.raises(BadRequest, match="'n' holds no list"):
        run(TakebackSession("t", tb, items="n").get_items())


def test_forks(session):
    async def go():
        await session.add_items([user("a")])
        await session.add_items([user("b")])
        other = await session.fork(at=1, session_id="s2")
        await other.add_items([user("c")])
        assert await other.get_items() == [user("a"), user("c")]
        assert await session.get_items() == [user("a"), user("b")]

    run(go())


def test_the_way_out_and_in(session, tb, tmp_path):
    """JSON lines; a damaged file says where."""
    path = tmp_path / "items.jsonl"

    async def go():
        await session.add_items([user("a\n"), user("b")])
        assert await session.export_items(path) == 2
        other = TakebackSession("s2", tb)
        assert await other.import_items(path) == 2
        assert await other.get_items() == await session.get_items()
        path.write_text('{"role": "user"}\n{"rol')
        with pytest.raises(BadRequest, match="line 2 is no JSON"):
            await other.import_items(path)
        with pytest.raises(StoreUnavailable):
            await other.import_items(tmp_path / "none")
        with pytest.raises(StoreUnavailable):
            await other.export_items(tmp_path / "no" / "folder")

    run(go())


def test_a_store_by_its_path(tmp_path):
    """Opened by the session, and closed with it; a store that was given stays open."""
    path = tmp_path / "agent.db"

    async def go():
        async with TakebackSession("s", path, actor="me") as session:
            await session.add_items([user("a")])
        with pytest.raises(StoreClosed):
            await session.get_items()
        async with await takeback.aopen(path) as tb:
            async with TakebackSession("s", tb) as session:
                assert await session.get_items() == [user("a")]
            assert (await (await tb.thread("s")).history())[0].actor == "me"

    run(go())


def test_mistakes_are_named(tb):
    with pytest.raises(BadRequest, match="neither 'raise' nor 'merge'"):
        TakebackSession("s", tb, on_conflict="fork")
    with pytest.raises(BadRequest, match="actor cannot be given with a store that is open"):
        TakebackSession("s", tb, actor="me")


@given(st.lists(st.sampled_from(["add", "pop", "clear", "undo", "redo"]), max_size=12))
def test_it_does_what_a_list_does(ops):
    """Any sequence of calls, and of undos and redos between them, against plain lists."""

    async def go():
        with takeback.open(":memory:") as tb:
            session = TakebackSession("s", tb)
            now, back, forth = [], [], []
            for number, op in enumerate(ops):
                before = list(now)
                if op == "add":
                    await session.add_items([user(str(number))])
                    now = [*now, user(str(number))]
                elif op == "pop":
                    assert await session.pop_item() == (now[-1] if now else None)
                    now = now[:-1]
                elif op == "clear":
                    await session.clear_session()
                    now = []
                elif op == "undo" and back:
                    await session.thread.undo()
                    await session.get_items()
                    forth.append(before)
                    now = back.pop()
                elif op == "redo" and forth:
                    await session.thread.redo()
                    await session.get_items()
                    back.append(before)
                    now = forth.pop()
                if op in ("add", "pop", "clear") and (before or op == "add"):
                    back.append(before)
                    forth = []
                assert await session.get_items() == now

    run(go())
