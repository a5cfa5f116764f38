"""Claude Agent SDK: a session store whose transcripts can be taken back, subagents and all."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from takeback.adapters.stores import (
    Adapter,
    Given,
    known,
    needed,
    plain,
    read_lines,
    thread_name,
    told,
    write_lines,
)
from takeback.engine.patch import DELETE
from takeback.errors import BadPath, BadRequest, Conflict, ThreadDeleted
from takeback.model.paths import pointer

try:
    from claude_agent_sdk import SessionStore, fold_session_summary
except ImportError as error:
    raise needed("claude-agent", error) from None

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from takeback.aio import AsyncThread
    from takeback.repo import Repo
    from takeback.thread import Thread

_KNOWN = 256  # sessions whose entries' ids are remembered
_SHORT = 60  # characters of an entry in the log


class _Session:
    """A session's thread, and what is known of its transcripts as long as nobody else writes to it."""

    def __init__(self, thread: AsyncThread[Any]) -> None:
        self.thread = thread
        self.at = b""
        self._known: dict[str, tuple[int, set[str]]] = {}

    def known(self, thread: Thread[Any], subpath: str) -> tuple[int, set[str]] | None:
        """How many entries a transcript has, and the ids of them; None for one that is not there."""
        if thread.head.digest != self.at:
            self._known, self.at = {}, thread.head.digest
        if subpath not in self._known:
            found = _transcript(thread, subpath)
            if found is None:
                return None
            self._known[subpath] = (len(found), _ids(found))
        return self._known[subpath]

    def wrote(self, thread: Thread[Any], subpath: str, count: int, ids: set[str]) -> None:
        self.at = thread.head.digest
        self._known[subpath] = (count, ids)


class TakebackSessionStore(Adapter, SessionStore):
    """`ClaudeAgentOptions(session_store=TakebackSessionStore("agent.db"))`.

    A session with its subagents is one thread, `project_key/session_id`: taken back, and resumed, as one.
    Entries with a `uuid` are stored once, however often they are sent.
    """

    def __init__(self, store: Given = ":memory:", **options: Any) -> None:
        super().__init__(store, options)
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    # --- what the framework asks for

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Entries join a transcript, as one version with the session's summary; in the order of the calls."""
        if entries:
            session, added = self._session(key), list(entries)
            await session.thread.call(lambda thread: self._append(session, thread, key, added))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """A transcript as it stands; None if there is none."""

        def read(thread: Thread[Any]) -> list[Any] | None:
            return _transcript(thread, key.get("subpath", "")) if thread.refresh().exists else None

        return cast("list[SessionStoreEntry] | None", await self._session(key).thread.call(read))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project that have a transcript of their own."""
        summaries = await self.list_session_summaries(project_key)
        return [{"session_id": each["session_id"], "mtime": each["mtime"]} for each in summaries]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Their summaries, which were written with their entries."""

        def read(tb: Repo) -> list[SessionSummaryEntry]:
            infos = tb.threads(meta={"claude_project": project_key})
            threads = [thread for info in infos if (thread := known(tb, info.name)) is not None]
            return [summary for thread in threads if (summary := _listed(thread)) is not None]

        return await self.tb.call(read)

    async def delete(self, key: SessionKey) -> None:
        """A session goes for good, with its subagents; one subagent's transcript by a version without it."""
        await self._session(key).thread.call(lambda thread: _delete(thread, key.get("subpath")))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subagents' transcripts of a session."""

        def read(thread: Thread[Any]) -> list[str]:
            return list(thread.state["subagents"]) if thread.refresh().exists else []

        return await self._session(cast("SessionKey", key)).thread.call(read)

    # --- what takeback adds

    async def thread(self, project_key: str, session_id: str) -> AsyncThread[Any]:
        """What the session is kept in: `undo()`, `plan_rollback(…)`, `history()`, awaited."""
        thread: AsyncThread[Any] = await self.tb.thread(thread_name(project_key, session_id))
        return thread

    async def taken_back(self, project_key: str, session_id: str) -> str | None:
        """What a person took back since the agent's last entry, in words for its next turn."""
        name = thread_name(project_key, session_id)
        back = await self.tb.call(lambda tb: told(known(tb, name)))
        return None if back is None else str(back)

    async def export_session(
        self, project_key: str, session_id: str, folder: str | os.PathLike[str]
    ) -> list[Path]:
        """Write the transcripts as the command line keeps them: `ID.jsonl`, and `ID/subagents/….jsonl`."""

        def write(tb: Repo) -> list[Path]:
            thread = known(tb, thread_name(project_key, session_id))
            if thread is None:
                raise BadRequest(f"there is no session {session_id!r} in project {project_key!r}")
            return _exported(thread, session_id, Path(folder))

        return await self.tb.call(write)

    async def import_session(self, project_key: str, file: str | os.PathLike[str]) -> int:
        """Bring in a transcript `ID.jsonl` of the command line, with the subagents beside it."""
        main = Path(file)
        found = await self.tb.call(lambda _: _transcripts(main))
        for subpath, entries in found.items():
            key: SessionKey = {"project_key": project_key, "session_id": main.stem}
            if subpath:
                key["subpath"] = subpath
            await self.append(key, entries)
        return sum(len(entries) for entries in found.values())

    # --- inside

    def _session(self, key: SessionKey) -> _Session:
        name = thread_name(key["project_key"], key["session_id"])
        found = self._sessions.pop(name, None)
        if found is None:  # nothing is read here, in the event loop
            found = _Session(self.tb.awaited(self.tb.sync._bare(name)))
        self._sessions[name] = found
        while len(self._sessions) > _KNOWN:
            self._sessions.popitem(last=False)
        return found

    def _append(
        self, session: _Session, thread: Thread[Any], key: SessionKey, entries: list[SessionStoreEntry]
    ) -> None:
        subpath = key.get("subpath", "")
        while True:
            if not thread.refresh().exists:
                meta = {"claude_project": key["project_key"], "claude_session": key["session_id"]}
                self.tb.sync.thread(thread.name, meta=meta, initial={"subagents": {}})
                continue
            there = session.known(thread, subpath)
            count, ids = there or (0, set())
            fresh = _fresh(entries, ids)
            if not fresh:
                return
            changes = _added(subpath, None if there is None else count, fresh)
            if not subpath:
                changes["summary"] = _summary(thread, key, fresh)
            try:
                thread.patch(changes, reason=_said(fresh[-1]))
            except (Conflict, ThreadDeleted):
                continue  # another process wrote, or deleted the session: what holds now decides
            session.wrote(thread, subpath, count + len(fresh), ids | _ids(fresh))
            return


def _transcript(thread: Thread[Any], subpath: str) -> list[Any] | None:
    """The entries of the session, or of one of its subagents."""
    try:
        entries = thread.get(("subagents", subpath) if subpath else ("entries",))
    except BadPath:
        return None
    return cast("list[Any]", plain(entries))


def _ids(entries: Iterable[Any]) -> set[str]:
    return {entry["uuid"] for entry in entries if entry.get("uuid")}


def _fresh(entries: Iterable[Any], ids: set[str]) -> list[Any]:
    """Those that are not stored yet; what has no id is always new."""
    found: dict[Any, Any] = {}
    for number, entry in enumerate(entries):
        if entry.get("uuid") not in ids or not entry.get("uuid"):
            found.setdefault(entry.get("uuid") or number, entry)
    return list(found.values())


def _added(subpath: str, count: int | None, entries: list[Any]) -> dict[str, Any]:
    """The patch that adds entries behind so many; None makes the transcript."""
    at = ("subagents", subpath) if subpath else ("entries",)
    if count is None:
        return {pointer(at): entries}
    return {pointer((*at, count + number)): entry for number, entry in enumerate(entries)}


def _summary(thread: Thread[Any], key: SessionKey, entries: list[Any]) -> dict[str, Any]:
    """The session's summary with these entries. Its time is the thread's, and is not stored a second time."""
    stored = plain(thread.state.get("summary"))
    before = None if stored is None else cast("SessionSummaryEntry", stored | {"mtime": 0})
    folded: dict[str, Any] = {**fold_session_summary(before, key, entries)}
    del folded["mtime"]
    return folded


def _listed(thread: Thread[Any]) -> SessionSummaryEntry | None:
    """A session's summary as the framework knows it; None where only subagents have written."""
    stored = plain(thread.state.get("summary"))
    if stored is None:
        return None
    return cast("SessionSummaryEntry", stored | {"mtime": thread.info.updated_us // 1000})


def _delete(thread: Thread[Any], subpath: str | None) -> None:
    while thread.refresh().exists:
        if not subpath:
            with contextlib.suppress(ThreadDeleted):
                thread.delete(reason="session deleted")
            return
        if subpath not in thread.state["subagents"]:
            return
        try:
            thread.patch({pointer(("subagents", subpath)): DELETE}, reason=f"{subpath} deleted")
        except (Conflict, ThreadDeleted):
            continue


def _said(entry: Any) -> str:
    """What an entry says, for the log."""
    message = entry.get("message")
    content = message.get("content", "") if isinstance(message, dict) else ""
    if isinstance(content, list):
        content = next((part["text"] for part in content if isinstance(part, dict) and "text" in part), "")
    text = f"{entry.get('type', 'entry')}: {' '.join(str(content).split())}".removesuffix(": ")
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _exported(thread: Thread[Any], session_id: str, folder: Path) -> list[Path]:
    """The files of a session, each a line an entry; a key that would leave the folder is refused."""
    transcripts = {"": _transcript(thread, "") or []}
    transcripts |= {subpath: _transcript(thread, subpath) or [] for subpath in thread.state["subagents"]}
    top, made = folder.resolve(), []
    for subpath, entries in transcripts.items():
        path = top / session_id / f"{subpath}.jsonl" if subpath else top / f"{session_id}.jsonl"
        if not path.resolve().is_relative_to(top):
            raise BadRequest(f"{path} is outside {top}", thread=thread.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, entries)
        made.append(path)
    return made


def _transcripts(main: Path) -> dict[str, list[Any]]:
    """The entries of a transcript's file, and of those of its subagents beside it, by subpath."""
    beside = main.with_suffix("")
    found = {"": list(read_lines(main))}
    for path in sorted(beside.rglob("*.jsonl")):
        found[path.relative_to(beside).with_suffix("").as_posix()] = list(read_lines(path))
    return found
