"""Pydantic AI's conversation store on takeback: its contract, beside the framework's own store, and runs."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RunUsage

import takeback
from takeback.adapters.pydantic_ai import TakebackConversationStore
from takeback.errors import BadRequest, StoreUnavailable, UnknownThread


def run(coroutine):
    return asyncio.run(coroutine)


@pytest.fixture(params=["memory", "file", "postgres"])
def tb(request, tmp_path):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        url = ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
    with takeback.open(url, durability="relaxed") as repo:
        yield repo


@pytest.fixture
def store(tb):
    return TakebackConversationStore(tb)


def asks(text):
    return ModelRequest(parts=[UserPromptPart(text)])


def says(text):
    return ModelResponse(parts=[TextPart(text)], model_name="m")


def chain(*messages, parent=None):
    found = []
    for message in messages:
        found.append(ConversationEntry(parent_id=parent, message=message))
        parent = found[-1].id
    return found


def record(name, entries, **fields):
    return ConversationRecord(conversation_id=name, head_id=entries[-1].id if entries else None, **fields)


agent = Agent(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(f"after {len(messages)}")])))


# --- the five primitives


def test_it_is_a_conversation_store(store):
    assert isinstance(store, ConversationStore)


def test_a_record_and_its_entries_come_back_as_they_went(store):
    """Equal in every field, also those that JSON has no type for, and the caller's own."""
    pending = DeferredToolRequests(approvals=[ToolCallPart("buy", {"cents": 4200}, "call-1")])

    async def go():
        entries = chain(asks("hello"), says("hi"))
        written = record(
            "c", entries, usage=RunUsage(requests=2, input_tokens=7), deferred_tool_requests=pending,
            scope="ann", branches=[entries[0].id],
        )  # fmt: skip
        await store.write_record(written, new_entries=entries, expected_revision=None)
        found = await store.read_record("c")
        assert found == written
        assert found.deferred_tool_requests.approvals[0].args == {"cents": 4200}
        found.branches.clear()
        assert (await store.read_record("c")).branches == [entries[0].id]
        assert [await store.read_entry(entry.id) for entry in entries] == entries
        assert await store.read_history(entries[-1].id) == entries
        assert await store.read_history(entries[-1].id, limit=1) == entries[-1:]
        assert await store.read_history(None) == []
        assert await store.read_record("other") is None

    run(go())


def test_a_revision_is_a_compare_and_swap(store):
    """Only from the stored revision; a refused write leaves nothing, not even its entries."""

    async def go():
        entries = chain(asks("1"))
        one = record("c", entries)
        await store.write_record(one, new_entries=entries, expected_revision=None)
        late = chain(asks("2"), parent=entries[-1].id)
        for expected in (None, "other"):
            with pytest.raises(ConversationConflict):
                await store.write_record(record("c", late), new_entries=late, expected_revision=expected)
        with pytest.raises(ConversationConflict):
            await store.write_record(record("new", late), new_entries=late, expected_revision="any")
        with pytest.raises(KeyError):
            await store.read_entry(late[0].id)
        assert await store.read_record("new") is None
        two = record("c", late)
        await store.write_record(two, new_entries=late, expected_revision=one.revision)
        assert (await store.read_record("c")).revision == two.revision

    run(go())


def test_a_head_that_nobody_has_is_refused(store):
    async def go():
        entries = chain(asks("1"), says("2"))
        for forked in (None, "gone"):
            with pytest.raises(ConversationConflict):
                await store.write_record(record("c", entries, forked_from=forked), expected_revision=None)
        one = record("c", entries[:1])
        await store.write_record(one, new_entries=entries[:1], expected_revision=None)
        with pytest.raises(ConversationConflict):
            await store.write_record(record("c", entries), expected_revision=one.revision)

    run(go())


def test_deleting_needs_the_revision_and_frees_the_name(store, tb):
    async def go():
        entries = chain(asks("1"))
        one = record("c", entries)
        await store.write_record(one, new_entries=entries, expected_revision=None)
        with pytest.raises(ConversationConflict):
            await store.delete_record("c", expected_revision="other")
        await store.delete_record("c", expected_revision=one.revision)
        with pytest.raises(ConversationConflict):
            await store.delete_record("c", expected_revision=one.revision)
        assert await store.read_record("c") is None
        assert await store.list_conversations() == []
        with pytest.raises(KeyError):
            await store.read_entry(entries[0].id)
        await store.write_record(record("c", entries), new_entries=entries, expected_revision=None)
        assert len(await store.load_entries("c")) == 1

    run(go())


def test_a_deletion_that_was_cut_short_is_finished_by_the_next_save(store, tb):
    """A crash between its two writes leaves a conversation that reads as gone and does not come back."""

    async def go():
        entries = chain(asks("secret"))
        await store.write_record(record("c", entries), new_entries=entries, expected_revision=None)
        tb.thread("c").patch({"record": takeback.DELETE})
        assert await store.read_record("c") is None
        fresh = chain(asks("new"))
        await store.write_record(record("c", fresh), new_entries=fresh, expected_revision=None)
        assert [entry.message for entry in await store.load_entries("c")] == [fresh[0].message]
        with pytest.raises(KeyError):
            await store.read_entry(entries[0].id)

    run(go())


def test_a_fork_that_was_cut_short_reads_as_not_made(store, tb):
    async def go():
        entries = chain(asks("1"))
        await store.write_record(record("c", entries), new_entries=entries, expected_revision=None)
        tb.thread("c").fork(name="f")
        assert await store.read_record("f") is None
        fork = record("f", entries, forked_from="c")
        await store.write_record(fork, expected_revision=None)
        assert (await store.read_record("f")).forked_from == "c"

    run(go())


def test_listing_is_newest_first_within_a_scope(store):
    async def go():
        for name, scope in (("a", "x"), ("b", "y"), ("c", "x")):
            await store.save(Conversation(conversation_id=name, messages=[asks(name)]), scope=scope)
        first = await store.load("a")
        first.messages.append(says("more"))
        await store.save(first)
        assert [each.conversation_id for each in await store.list_conversations()] == ["a", "c", "b"]
        assert [each.conversation_id for each in await store.list_conversations(scope="x")] == ["a", "c"]
        assert len(await store.list_conversations(limit=2)) == 2

    run(go())


# --- the framework's own verbs on it, and its runner


def test_runs_go_on_from_what_was_saved(store):
    async def go():
        first = await agent.run("one", conversation=Conversation(conversation_id="c"))
        saved = await store.save(first)
        assert [entry.message for entry in saved] == first.all_messages()
        loaded = await store.load("c")
        second = await agent.run("two", conversation=loaded)
        assert second.output == "after 3"
        await store.save(second)
        assert (await store.load("c")).messages == second.all_messages()
        assert len(await store.load_entries("c", limit=1)) == 1

    run(go())


def test_two_saves_from_one_load(store):
    """The second is refused as the framework's own store refuses it."""

    async def go():
        await store.save(Conversation(conversation_id="c", messages=[asks("1")]))
        one, two = await store.load("c"), await store.load("c")
        one.messages.append(says("from one"))
        two.messages.append(says("from two"))
        results = await asyncio.gather(store.save(one), store.save(two), return_exceptions=True)
        assert sum(isinstance(result, ConversationConflict) for result in results) == 1
        assert len((await store.load("c")).messages) == 2

    run(go())


def test_branches_and_forks(store, tb):
    """A fork is a fork of the thread, holds no more than it forked, and outlives what it came from."""

    async def go():
        conversation = Conversation(conversation_id="c")
        for text in ("one", "two"):
            result = await agent.run(text, conversation=conversation)
            await store.save(result)
            conversation = result.conversation
        entries = await store.load_entries("c")
        fork = await store.fork("c", at=1, new_conversation_id="f")
        assert len(fork.messages) == 1
        assert set(tb.thread("f").state["entries"]) == {entries[0].id}
        assert tb.thread("f").info.origin is not None
        fork.messages.append(says("another way"))
        await store.save(fork)
        branched = await store.branch("c", at=2, expected_revision=conversation.revision)
        assert len(branched.messages) == 2
        back = await store.branch("c", from_entry=entries[-1].id, expected_revision=branched.revision)
        assert len(back.messages) == 4
        await store.delete("c")
        assert len((await store.load("f")).messages) == 2
        with pytest.raises(ConversationConflict):
            await store.fork("f", new_conversation_id="f")
        with pytest.raises(UserError):
            await store.fork("c")

    run(go())


OPS = st.lists(
    st.tuples(st.sampled_from(["append", "rewrite", "branch", "fork", "delete", "stale"]), st.integers(0, 5)),
    max_size=10,
)


@given(OPS)
@settings(deadline=None)
def test_it_does_what_the_framework_s_own_store_does(ops):
    """Any program of saves, rewrites, branches, forks and deletions: equal answers, equal refusals."""

    async def drive(store):
        log = []
        names = ["c0"]
        for number, (op, arg) in enumerate(ops):
            name = names[arg % len(names)]
            try:
                log.append(await step(store, names, name, op, arg, number))
            except (ConversationConflict, UserError) as error:
                log.append(type(error).__name__)
            for each in names:
                loaded = await store.load(each)
                log.append(None if loaded is None else [str(m.parts[0].content) for m in loaded.messages])
                kept = await store.read_record(each)
                log.append(None if kept is None else (len(kept.branches), kept.forked_from))
        return log

    async def step(store, names, name, op, arg, number):
        conversation = await store.load(name) or Conversation(conversation_id=name)
        if op == "append":
            conversation.messages += [asks(f"{number}")]
            return len(await store.save(conversation))
        if op == "rewrite":
            rewritten = [*conversation.messages[: arg // 2], asks(f"re {number}")]
            again = dataclasses.replace(conversation, messages=rewritten, new_message_index=None)
            return len(await store.save(again))
        if op == "branch":
            branched = await store.branch(name, at=arg, expected_revision=conversation.revision)
            return len(branched.messages)
        if op == "fork":
            fork = await store.fork(name, at=arg, new_conversation_id=f"c{len(names)}")
            names.append(fork.conversation_id)
            return len(fork.messages)
        if op == "delete":
            return await store.delete(name)
        conversation.revision = "stale"
        return await store.save(conversation)

    async def both():
        expected = await drive(InMemoryConversationStore())
        async with TakebackConversationStore() as store:
            assert await drive(store) == expected

    run(both())


# --- what takeback adds


def test_a_person_takes_a_save_back(store, tb):
    """What the agent still holds is refused; what it loads again is what is left; and it is told."""

    async def go():
        result = await agent.run("one", conversation=Conversation(conversation_id="c"))
        await store.save(result)
        held = await agent.run("two", conversation=result.conversation)
        await store.save(held)
        tb.thread("c").undo(actor="ann", reason="no")
        with pytest.raises(ConversationConflict):
            await store.save(await agent.run("three", conversation=held.conversation))
        told = await store.taken_back("c")
        assert told.startswith('ann took back version 1 ("2 messages · user: two") (no)')
        loaded = await store.load("c")
        assert len(loaded.messages) == 2
        await store.save(await agent.run("three", conversation=loaded))
        assert await store.taken_back("c") is None
        thread = await store.thread("c")
        assert [row.kind for row in await thread.history()] == ["patch", "undo", "patch", "commit"]
        assert (await thread.history(newest_first=False))[0].reason == "2 messages · user: one"
        assert (await thread.verify()).ok

    run(go())


def test_the_way_out(store, tmp_path):
    path = tmp_path / "messages.json"

    async def go():
        result = await agent.run("one", conversation=Conversation(conversation_id="c"))
        await store.save(result)
        assert await store.export_messages("c", path) == 2
        assert ModelMessagesTypeAdapter.validate_json(path.read_bytes()) == result.all_messages()
        with pytest.raises(BadRequest, match="no conversation 'x'"):
            await store.export_messages("x", path)
        with pytest.raises(StoreUnavailable):
            await store.export_messages("c", tmp_path / "no" / "folder")

    run(go())


def test_a_thread_that_is_no_conversation_is_named(store, tb):
    tb.thread("t", initial={"n": 1})
    with pytest.raises(BadRequest, match="holds no conversation"):
        run(store.load("t"))

    async def history():
        return await (await store.thread("none")).history()

    with pytest.raises(UnknownThread):
        run(history())
    assert run(store.taken_back("none")) is None


def test_another_process_reads_what_one_wrote(tmp_path):
    """Entries are found by their ids alone, in whichever conversation they are."""

    async def go():
        async with TakebackConversationStore(tmp_path / "a.db") as one:
            await one.save(Conversation(conversation_id="x", messages=[asks("0")]))
            saved = await one.save(Conversation(conversation_id="c", messages=[asks("1"), says("2")]))
        async with TakebackConversationStore(tmp_path / "a.db") as two:
            assert await two.read_entry(saved[0].id) == saved[0]
            assert len((await two.load("c")).messages) == 2

    run(go())
