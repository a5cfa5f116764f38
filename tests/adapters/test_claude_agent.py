"""Claude Agent SDK's session store on takeback: the SDK's conformance, its runner, and what takeback adds."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
from claude_agent_sdk import (
    delete_session_via_store,
    fork_session_via_store,
    get_session_messages_from_store,
    list_sessions_from_store,
    project_key_for_directory,
    rename_session_via_store,
)
from claude_agent_sdk.testing import run_session_store_conformance

import takeback
from takeback.adapters.claude_agent import TakebackSessionStore
from takeback.adapters.stores import thread_name
from takeback.errors import BadRequest

KEY = {"project_key": "p", "session_id": "s"}
SUB = KEY | {"subpath": "subagents/agent-1"}


def run(coroutine):
    return asyncio.run(coroutine)


def entry(text, **fields):
    message = {"role": "user", "content": text}
    return {"type": "user", "uuid": str(uuid.uuid4()), "message": message, **fields}


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
    return TakebackSessionStore(tb)


# --- the SDK's contract


def test_the_conformance_suite(tmp_path):
    """All 14 contracts, none left out, on a file and in memory."""
    made = iter(range(100))
    run(run_session_store_conformance(lambda: TakebackSessionStore(tmp_path / f"{next(made)}.db")))
    run(run_session_store_conformance(TakebackSessionStore))


def test_an_entry_that_is_sent_again_is_stored_once(store):
    """A batch that was retried, or overlaps; also in another process, and within one batch."""
    one, two, title = entry("1"), entry("2"), {"type": "title", "title": "t"}

    async def go():
        await store.append(KEY, [one, one, title])
        await store.append(KEY, [one, two, title])
        other = TakebackSessionStore(store.tb)
        await other.append(KEY, [two])
        assert await store.load(KEY) == [one, title, two, title]
        assert len(await (await store.thread("p", "s")).history()) == 3

    run(go())


def test_appends_at_once_keep_the_order_of_the_calls(store):
    """Nobody waits for the one before; the transcript is in the order in which they were asked for."""
    entries = [entry(str(n)) for n in range(20)]

    async def go():
        await asyncio.gather(*(store.append(KEY, [each]) for each in entries))
        assert await store.load(KEY) == entries

    run(go())


def test_two_processes_lose_nothing(tmp_path):
    """Two stores on one file, at once, one session: all entries are there, each batch in one piece, and the
    summary has seen all of them."""

    async def go():
        stores = [TakebackSessionStore(tmp_path / "a.db") for _ in range(2)]
        batches = [[entry(f"{n}a"), entry(f"{n}b", timestamp=f"2026-01-01T00:00:{n:02}Z")] for n in range(10)]
        await asyncio.gather(*(stores[n % 2].append(KEY, batch) for n, batch in enumerate(batches)))
        found = await stores[0].load(KEY)
        pairs = sorted(
            (found[n : n + 2] for n in range(0, 20, 2)), key=lambda two: two[0]["message"]["content"]
        )
        assert pairs == batches
        assert await stores[1].list_session_summaries("p") == await stores[0].list_session_summaries("p")

    run(go())


@pytest.mark.parametrize("odd", ["a/b", "a%2Fb", "ü", "a\nb", "x" * 2000, "..", " "])
def test_no_two_keys_are_one(odd, store):
    """Whatever a project's key holds, its sessions are its own."""

    async def go():
        await store.append({"project_key": odd, "session_id": "c"}, [entry("odd")])
        await store.append({"project_key": "a", "session_id": "b/c"}, [entry("plain")])
        assert [each["session_id"] for each in await store.list_sessions(odd)] == ["c"]
        assert [each["session_id"] for each in await store.list_sessions("a")] == ["b/c"]
        assert (await store.load({"project_key": odd, "session_id": "c"}))[0]["message"]["content"] == "odd"

    run(go())
    assert len(thread_name("x" * 2000, "y")) <= 512
    assert thread_name("x" * 2000, "y") != thread_name("x" * 2001, "y")


def test_the_sdk_s_own_helpers(store, tmp_path):
    """Listing, reading, renaming, forking and deleting through the SDK's functions over a store."""
    folder = str(tmp_path)
    session = str(uuid.uuid4())
    key = {"project_key": project_key_for_directory(folder), "session_id": session}
    first = entry(
        "Rename the module", sessionId=session, parentUuid=None, timestamp="2026-01-01T00:00:00.000Z"
    )
    second = entry(
        "And test it", sessionId=session, parentUuid=first["uuid"], timestamp="2026-01-01T00:00:01.000Z"
    )

    async def go():
        await store.append(key, [first, second])
        await rename_session_via_store(store, session, "A better name", directory=folder)
        listed = await list_sessions_from_store(store, directory=folder)
        assert [each.custom_title for each in listed] == ["A better name"]
        messages = await get_session_messages_from_store(store, session, directory=folder)
        assert [each.message["content"] for each in messages] == ["Rename the module", "And test it"]
        fork = await fork_session_via_store(store, session, directory=folder)
        assert len(await list_sessions_from_store(store, directory=folder)) == 2
        await delete_session_via_store(store, session, directory=folder)
        assert [each.session_id for each in await list_sessions_from_store(store, directory=folder)] == [
            fork.session_id
        ]

    run(go())


# --- what takeback adds


def test_a_session_is_taken_back_with_its_subagents(store, tb):
    """One rollback for both; what resumes afterwards does not know of either; entries may come again."""
    one, two, sub = entry("1"), entry("2"), entry("in the subagent")

    async def go():
        await store.append(KEY, [one])
        await store.append(SUB, [sub])
        await store.append(KEY, [two])
        tb.thread("p/s").rollback(1, actor="ann", reason="wrong turn")
        assert await store.load(KEY) == [one]
        assert await store.load(SUB) is None
        assert await store.list_subkeys(KEY) == []
        told = await store.taken_back("p", "s")
        assert told.startswith("ann took back versions 2–3")
        await store.append(KEY, [two])
        assert await store.load(KEY) == [one, two]
        assert await store.taken_back("p", "s") is None

    run(go())


def test_it_is_an_ordinary_thread(store, tb):
    run(store.append(KEY, [entry("Rename the module")]))
    thread = tb.thread("p/s")
    assert thread.head.reason == "user: Rename the module"
    assert thread.verify().ok
    assert str(thread.plan_undo()) == "entries: removed · summary: removed"


def test_a_deleted_session_comes_back_as_a_new_one(store, tb):
    """Another process' handle of the old one writes to the new, and nothing of the old shows."""
    other = TakebackSessionStore(store.tb)

    async def go():
        await store.append(KEY, [entry("old")])
        await other.append(KEY, [entry("old too")])
        await store.delete(KEY)
        assert await other.load(KEY) is None
        assert await other.list_subkeys(KEY) == []
        await other.append(KEY, [entry("new")])
        assert [each["message"]["content"] for each in await store.load(KEY)] == ["new"]

    run(go())


def test_the_way_out_and_in(store, tmp_path):
    """Files as the command line keeps them, subagents beside; and the same back again."""
    main, sub = [entry("1"), entry("2")], [entry("in the subagent")]

    async def go():
        await store.append(KEY, main)
        await store.append(SUB, sub)
        paths = await store.export_session("p", "s", tmp_path / "out")
        assert [path.relative_to(tmp_path.resolve()).as_posix() for path in paths] == [
            "out/s.jsonl", "out/s/subagents/agent-1.jsonl",
        ]  # fmt: skip
        assert [json.loads(line) for line in paths[0].read_text().splitlines()] == main
        assert await store.import_session("q", paths[0]) == 3
        moved = {"project_key": "q", "session_id": "s"}
        assert await store.load(moved) == main
        assert await store.load(moved | {"subpath": "subagents/agent-1"}) == sub
        with pytest.raises(BadRequest, match="no session 'x'"):
            await store.export_session("p", "x", tmp_path)

    run(go())


def test_an_export_stays_in_its_folder(store, tmp_path):
    """A transcript's name comes from elsewhere, and may not lead out."""
    run(store.append(KEY | {"subpath": "../../../evil"}, [entry("x")]))
    with pytest.raises(BadRequest, match="outside"):
        run(store.export_session("p", "s", tmp_path / "out"))
    assert list(tmp_path.rglob("*evil*")) == []
