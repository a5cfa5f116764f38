"""Pydantic AI: a conversation store whose saves can be taken back; revisions are its compare-and-swap."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from takeback.adapters.stores import Adapter, Given, known, needed, plain, told
from takeback.engine.patch import DELETE
from takeback.errors import BadPath, BadRequest, Conflict, StoreUnavailable, ThreadDeleted, ThreadExists
from takeback.model.paths import pointer

try:
    from pydantic import TypeAdapter
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
        ConversationStore,
    )
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
except ImportError as error:
    raise needed("pydantic-ai", error) from None

if TYPE_CHECKING:
    from takeback.aio import AsyncThread
    from takeback.repo import Repo
    from takeback.thread import Thread

_META = {"framework": "pydantic-ai"}
_RECORDS = TypeAdapter(ConversationRecord)
_KNOWN = 10_000  # entries whose conversation is remembered
_SHORT = 60  # characters of a message in the log


class TakebackConversationStore(Adapter, ConversationStore):
    """`TakebackConversationStore("agent.db")`: a conversation is a thread of its name, each save a version.

    A save that is not from the stored revision raises `ConversationConflict`, also after a person took the
    conversation back. A fork is a fork of the thread and shares what it stores. Deleting a conversation
    removes its thread and all that only it stores from what can be read; forks keep what they share.
    """

    def __init__(self, store: Given = ":memory:", **options: Any) -> None:
        super().__init__(store, options)
        self._homes: OrderedDict[str, str] = OrderedDict()

    # --- what the framework asks for

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The record as it was last saved, or taken back to."""
        return await self.tb.call(lambda tb: self._record(_stored(known(tb, conversation_id))))

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Those of a scope, the newest save first."""

        def read(tb: Repo) -> list[ConversationRecord]:
            names = [info.name for info in tb.threads(meta=_META)]
            found = [record for name in names if (record := self._record(_stored(known(tb, name))))]
            found = [record for record in found if scope is None or record.scope == scope]
            return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

        return await self.tb.call(read)

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Record and entries as one version, if the stored revision is the expected one."""
        entries = {
            entry.id: {"parent": entry.parent_id, "message": _dumped(entry.message)} for entry in new_entries
        }
        dumped = _RECORDS.dump_python(record, mode="json")
        said = _said([entry.message for entry in new_entries])
        await self.tb.call(lambda tb: self._write(tb, dumped, entries, expected_revision, said))
        self._at_home(record.conversation_id, [*entries, record.head_id])

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """The conversation and its thread go for good, if the stored revision is the expected one."""
        await self.tb.call(lambda tb: self._delete(tb, conversation_id, expected_revision))

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """One entry; `KeyError` when no conversation holds it."""
        return (await self.tb.call(lambda tb: self._chain(tb, entry_id, 1)))[0]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries up to one, oldest first, in one read."""
        if head_id is None or limit == 0:
            return []
        return await self.tb.call(lambda tb: self._chain(tb, head_id, limit))

    # --- what takeback adds

    async def thread(self, conversation_id: str) -> AsyncThread[Any]:
        """What the conversation is kept in: `undo()`, `plan_rollback(…)`, `history()`, awaited."""
        thread: AsyncThread[Any] = await self.tb.thread(conversation_id)
        return thread

    async def taken_back(self, conversation_id: str) -> str | None:
        """What a person took back since the last save, in words for the agent's next turn."""
        back = await self.tb.call(lambda tb: told(known(tb, conversation_id)))
        return None if back is None else str(back)

    async def export_messages(self, conversation_id: str, path: str | os.PathLike[str]) -> int:
        """Write the messages as `ModelMessagesTypeAdapter` reads them back."""
        entries = await self.load_entries(conversation_id)
        if entries is None:
            raise BadRequest(f"there is no conversation {conversation_id!r}")
        raw = ModelMessagesTypeAdapter.dump_json([entry.message for entry in entries], indent=1)
        await self.tb.call(lambda _: _write_file(path, raw))
        return len(entries)

    # --- inside: synchronous, in the store's threads

    def _record(self, stored: dict[str, Any] | None) -> ConversationRecord | None:
        if stored is None:
            return None
        record = _RECORDS.validate_python(plain(stored))
        self._at_home(record.conversation_id, [record.head_id, *record.branches])
        return record

    def _write(
        self, tb: Repo, record: dict[str, Any], entries: dict[str, Any], expected: str | None, said: str
    ) -> None:
        name = record["conversation_id"]
        while True:
            thread = known(tb, name)
            stored = _stored(thread)
            if (None if stored is None else stored["revision"]) != expected:
                raise ConversationConflict(name)
            try:
                if thread is not None and _abandoned(thread):
                    thread.delete(reason="a deletion that had begun")
                    continue
                thread = thread or self._made(tb, record, entries, said)
                if thread is None:
                    return
                head = record["head_id"]
                if head is not None and head not in entries and _entry(thread, head) is None:
                    raise ConversationConflict(name)
                added = {pointer(("entries", id_)): entry for id_, entry in entries.items()}
                thread.patch({"record": record, **added}, reason=said)
                return
            except (Conflict, ThreadExists, ThreadDeleted):
                continue  # somebody else was faster: the revision says whether this still holds

    def _made(
        self, tb: Repo, record: dict[str, Any], entries: dict[str, Any], said: str
    ) -> Thread[Any] | None:
        """A new conversation's thread: made whole, and then None; or a fork that is yet to be written."""
        name, head = record["conversation_id"], record["head_id"]
        if head is None or head in entries:
            made = tb.thread(name, meta=_META)
            if made.exists:
                raise ThreadExists(f"a thread {name!r} exists already", thread=name)
            made.commit({"record": record, "entries": entries}, reason=said)
            return None
        source = self._home(tb, head)
        if source is None:
            raise ConversationConflict(name)
        at = _holding(source, head)
        fork = source.fork(at, name, reason=said, meta=_META)
        kept = {entry_id for entry_id, _ in _walk(fork, head)}
        beyond = [entry_id for entry_id in fork.state["entries"] if entry_id not in kept]
        if beyond:
            fork.patch({pointer(("entries", id_)): DELETE for id_ in beyond}, reason="only what is forked")
        return fork

    def _delete(self, tb: Repo, name: str, expected: str) -> None:
        """First a version without a record, by compare-and-swap; then the thread itself."""
        while True:
            thread = known(tb, name)
            stored = _stored(thread)
            if thread is None or stored is None or stored["revision"] != expected:
                raise ConversationConflict(name)
            try:
                thread.patch({"record": DELETE}, reason="conversation deleted")
                thread.delete(reason="conversation deleted")
            except Conflict:
                continue
            except ThreadDeleted:
                pass  # a new save of the name has finished what had begun here
            return

    def _chain(self, tb: Repo, head: str, limit: int | None) -> list[ConversationEntry]:
        home = self._home(tb, head)
        if home is None:
            raise KeyError(head)
        found = []
        for entry_id, entry in _walk(home, head):
            found.append((entry_id, entry))
            if len(found) == limit:
                break
        found.reverse()
        messages = ModelMessagesTypeAdapter.validate_python([plain(entry["message"]) for _, entry in found])
        return [
            ConversationEntry(id=entry_id, parent_id=entry["parent"], message=message)
            for (entry_id, entry), message in zip(found, messages, strict=True)
        ]

    def _home(self, tb: Repo, entry_id: str) -> Thread[Any] | None:
        """A conversation that holds the entry: where it was last seen, else all are asked."""
        names = [self._homes[entry_id]] if entry_id in self._homes else []
        names += [info.name for info in tb.threads(meta=_META)]
        for name in names:
            thread = known(tb, name)
            if thread is not None and _entry(thread, entry_id) is not None:
                self._at_home(name, [entry_id])
                return thread
        return None

    def _at_home(self, name: str, entries: Sequence[str | None]) -> None:
        for entry_id in entries:
            if entry_id is not None:
                self._homes[entry_id] = name
        while len(self._homes) > _KNOWN:
            self._homes.popitem(last=False)


def _stored(thread: Thread[Any] | None) -> dict[str, Any] | None:
    """The record that the thread holds; None for one whose fork or deletion has only begun."""
    if thread is None:
        return None
    state = thread.state
    if not isinstance(state, dict) or "entries" not in state:
        raise BadRequest(
            "the thread holds no conversation of Pydantic AI",
            thread=thread.name,
            hint="Choose another conversation_id",
        )
    record = state.get("record")
    return cast("dict[str, Any]", record) if record and record["conversation_id"] == thread.name else None


def _abandoned(thread: Thread[Any]) -> bool:
    """Whether its deletion began and did not end."""
    return "record" not in thread.state


def _entry(thread: Thread[Any], entry_id: str) -> dict[str, Any] | None:
    try:
        return cast("dict[str, Any]", thread.get(("entries", entry_id)))
    except BadPath:
        return None


def _walk(thread: Thread[Any], head: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries from this one back to the first."""
    entry_id: str | None = head
    while entry_id is not None:
        entry = _entry(thread, entry_id)
        if entry is None:
            raise KeyError(entry_id)
        yield entry_id, entry
        entry_id = entry["parent"]


def _holding(source: Thread[Any], entry_id: str) -> int:
    """The oldest version, going back from the head, that still holds the entry: the fork takes no more."""
    at = source.version
    with contextlib.suppress(BadPath):
        for row in source.history():
            source.at(row).get(("entries", entry_id))
            at = row.version
    return at


def _dumped(message: ModelMessage) -> Any:
    return ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]


def _said(messages: list[ModelMessage]) -> str:
    """What a save brings, for the log."""
    if not messages:
        return "conversation saved"
    count = "1 message" if len(messages) == 1 else f"{len(messages)} messages"
    parts = [part for message in messages for part in message.parts]
    for part in parts:
        content = getattr(part, "content", None)
        if part.part_kind == "user-prompt" and isinstance(content, str):
            text = f"{count} · user: {' '.join(content.split())}"
            return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
    return count


def _write_file(path: str | os.PathLike[str], raw: bytes) -> None:
    try:
        with open(path, "wb") as file:
            file.write(raw)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}") from None
