"""OpenAI Agents: a session whose every item can be taken back."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Literal, cast
from weakref import WeakKeyDictionary

from takeback.adapters.stores import Adapter, Given, needed, plain, read_lines, told, write_lines
from takeback.engine.patch import DELETE
from takeback.errors import BadRequest, Conflict
from takeback.model.paths import pointer

try:
    from agents.memory.session_settings import SessionSettings, coerce_session_settings, resolve_session_limit
except ImportError as error:
    raise needed("openai-agents", error) from None

if TYPE_CHECKING:
    from agents.items import TResponseInputItem

    from takeback.aio import AsyncThread
    from takeback.thread import Thread

_SHORT = 60  # characters of an item in the log


class TakebackSession(Adapter):
    """`TakebackSession("travel/42", "agent.db")`, for `Runner.run(agent, …, session=session)`.

    The items are a list in the state of the thread with the session's name. A session that wrote from the
    head it read is refused with `Conflict` when another wrote meanwhile, so that two runs never interleave;
    with `on_conflict="merge"` it goes behind. `tell` adds what a person took back, as a message of the
    developer at the end of the items, until the agent's next turn.
    """

    session_id: str
    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        store: Given = ":memory:",
        *,
        items: str = "items",
        on_conflict: Literal["raise", "merge"] = "raise",
        tell: bool = False,
        agent: str | None = None,
        user: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if on_conflict not in ("raise", "merge"):
            raise BadRequest(f"on_conflict={on_conflict!r} is neither 'raise' nor 'merge'", thread=session_id)
        super().__init__(store, options)
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        handle = self.tb.sync.thread(session_id, agent=agent, user=user)
        self.thread: AsyncThread[Any] = self.tb.awaited(handle)
        """What the items are kept in: `await session.thread.undo()`, `plan_rollback(…)`, `history()`."""
        self._key, self._merges, self._tells = items, on_conflict == "merge", tell
        self._seen: WeakKeyDictionary[asyncio.Task[Any], int | None] = WeakKeyDictionary()
        self._last: int | None = self._version(handle)

    # --- what the framework asks for

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The newest items, oldest of them first; all without a limit."""
        limit = resolve_session_limit(limit, self.session_settings)
        found, version = await self.thread.call(self._read)
        self._saw(version)
        items = found if limit is None or limit < 0 else found[-limit:] if limit else []
        if self._tells and (back := await self.thread.call(told)) is not None:
            items = [*items, {"role": "developer", "content": f"takeback: {back}"}]
        return cast("list[TResponseInputItem]", items)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """The items join the list as one version."""
        if not items:
            return
        expect = self._expected()
        self._saw(await self.thread.call(lambda thread: self._add(thread, list(items), expect)))

    async def pop_item(self) -> TResponseInputItem | None:
        """The newest item goes, as a version of its own: `undo` brings it back."""
        expect = self._expected()
        item, version = await self.thread.call(lambda thread: self._pop(thread, expect))
        self._saw(version)
        return cast("TResponseInputItem | None", item)

    async def clear_session(self) -> None:
        """No items are left; what was there stays in the history, and `undo` brings it back."""
        self._saw(await self.thread.call(self._clear))

    # --- what takeback adds

    async def fork(self, at: Any = "head", session_id: str | None = None) -> TakebackSession:
        """Another session that starts at a version of this one, which is untouched."""
        forked = await self.thread.fork(at, session_id)
        merges: Literal["raise", "merge"] = "merge" if self._merges else "raise"
        return TakebackSession(
            forked.name, self.tb, items=self._key, on_conflict=merges, tell=self._tells,
            session_settings=self.session_settings,
        )  # fmt: skip

    async def taken_back(self) -> str | None:
        """What a person took back since the agent's last version, in words for its next turn."""
        back = await self.thread.call(told)
        return None if back is None else str(back)

    async def export_items(self, path: str | os.PathLike[str]) -> int:
        """Write the items as JSON lines; any other session takes them with `add_items`."""
        found, _ = await self.thread.call(self._read)
        return await self.tb.call(lambda _: write_lines(path, found))

    async def import_items(self, path: str | os.PathLike[str]) -> int:
        """Add the items of such a file."""
        items = await self.tb.call(lambda _: list(read_lines(path)))
        await self.add_items(items)
        return len(items)

    # --- inside: synchronous, in the store's threads

    @staticmethod
    def _version(thread: Thread[Any]) -> int | None:
        return thread.version if thread.exists else None

    def _read(self, thread: Thread[Any]) -> tuple[list[Any], int | None]:
        if not thread.refresh().exists:
            return [], None
        return self._items(thread), thread.version

    def _items(self, thread: Thread[Any]) -> list[Any]:
        if self._key not in thread.state:
            return []
        items = thread.get((self._key,))
        if not isinstance(items, list):
            raise BadRequest(
                f"{self._key!r} holds no list of items", thread=thread.name, hint="Choose another items="
            )
        return cast("list[Any]", plain(items))

    def _add(self, thread: Thread[Any], items: list[Any], expect: int | None) -> int:
        self._check(thread.refresh(), expect)
        said = _said(items[0])
        mode: Literal["raise", "merge"] = "merge" if self._merges else "raise"
        while True:
            try:
                if not thread.exists:  # version 0 is the empty conversation: what all can be taken back to
                    thread.commit({self._key: []}, reason="a new session")
                if self._key in thread.state:
                    thread.extend((self._key,), items, reason=said, on_conflict=mode)
                else:
                    thread.patch({pointer((self._key,)): items}, reason=said)
            except Conflict:
                if not self._merges:
                    raise self._overtaken(thread) from None
                thread.refresh()
            else:
                return thread.version

    def _pop(self, thread: Thread[Any], expect: int | None) -> tuple[Any, int | None]:
        self._check(thread.refresh(), expect)
        while True:
            items = self._items(thread) if thread.exists else []
            if not items:
                return None, self._version(thread)
            place = pointer((self._key, len(items) - 1))
            try:
                thread.patch({place: DELETE}, reason="item popped")
            except Conflict:
                if not self._merges:
                    raise self._overtaken(thread) from None
                thread.refresh()
            else:
                return items[-1], thread.version

    def _clear(self, thread: Thread[Any]) -> int | None:
        while thread.refresh().exists and self._items(thread):
            try:
                thread.patch({pointer((self._key,)): []}, reason="session cleared")
            except Conflict:
                continue  # whatever came meanwhile is cleared as well
        return self._version(thread)

    def _check(self, thread: Thread[Any], expect: int | None) -> None:
        if not self._merges and self._version(thread) != expect:
            raise self._overtaken(thread)

    def _overtaken(self, thread: Thread[Any]) -> Conflict:
        return Conflict(
            "the session was written to, or taken back, since its items were read here",
            thread=thread.name,
            hint="Run the turn again, which reads them anew; or make the session with on_conflict='merge'",
        )

    # One session may serve several runs at once, each in a task of its own: each is held to what it read.

    def _saw(self, version: int | None) -> None:
        self._last = version
        task = asyncio.current_task()
        if task is not None:
            self._seen[task] = version

    def _expected(self) -> int | None:
        task = asyncio.current_task()
        return self._last if task is None else self._seen.get(task, self._last)


def _said(item: Any) -> str:
    """What an item says, for the log: `user: Book me a trip`."""
    if not isinstance(item, dict):
        return "items added"
    content = item.get("content") or item.get("name") or item.get("output") or ""
    if isinstance(content, list):
        content = next((part["text"] for part in content if isinstance(part, dict) and "text" in part), "")
    words = " ".join(str(content).split())
    text = f"{item.get('role') or item.get('type') or 'item'}: {words}"
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
