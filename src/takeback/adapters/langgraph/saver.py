"""LangGraph's checkpointer on takeback: one class, sync and async, for every kind of store."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Self, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from takeback.adapters.langgraph.going import Going
from takeback.adapters.langgraph.values import Values, allowing
from takeback.engine.channels import Channels
from takeback.errors import BadRequest
from takeback.graphs import GraphThreads, Seen
from takeback.model import canonical
from takeback.model.graphs import GraphWrite, Place, write_key
from takeback.pool import Pool
from takeback.repo import Repo
from takeback.repo import open as open_repo

_CHECKPOINT = frozenset({"channel_values", "id", "ts"})
_PAGE = 50  # checkpoints that an async list reads at once


class TakebackSaver(Going, BaseCheckpointSaver[Any]):
    """LangGraph's checkpointer, whose threads are takeback's: with log, plans, rollback, verification.

        saver = TakebackSaver("agent.db")            # or "postgresql://…", ":memory:", or an open Repo
        graph = builder.compile(checkpointer=saver)

    What is read is made back only into types that LangGraph knows, and those in `allow`.
    """

    def __init__(
        self,
        store: str | os.PathLike[str] | Repo = ":memory:",
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, str]] = (),
        tenant: str = "default",
        actor: str | None = None,
        key: bytes | None = None,
        durability: str = "full",
    ) -> None:
        strict = serde or JsonPlusSerializer(allowed_msgpack_modules=None)
        super().__init__(serde=allowing(strict, allow))
        self._owns = not isinstance(store, Repo)
        self.repo = (
            store
            if isinstance(store, Repo)
            else open_repo(store, tenant=tenant, actor=actor, key=key, durability=durability)
        )
        self._graphs = GraphThreads(self.repo._ctx)
        self._pool = Pool()
        self._ledgers: dict[str, str] = {}
        self._expected: dict[tuple[str, str], str] = {}

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The same as the constructor; for `with` as well as for an assignment."""
        return cls(conn_string, **options)

    def setup(self) -> None:
        """Does nothing: a store is made and brought up to date when it is opened."""

    async def asetup(self) -> None:
        """Does nothing, see `setup`."""

    def close(self) -> None:
        """Let go of the store, unless it was given open."""
        if self._owns:
            self.repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run(self.close)

    # --- what a checkpointer has to do

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its namespace."""
        thread, namespace, checkpoint = _named(config)
        seen = self._graphs.get(thread, namespace, checkpoint)
        if seen is None:
            return None
        found = self._tuple(seen)
        return found._replace(config=config) if checkpoint else found

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first in the order in which the store got them, whatever clocks say."""
        if limit is not None and limit < 0:
            raise BadRequest(f"a limit of {limit} is none", hint="Leave it out to list all")
        own = config["configurable"] if config else {}
        found = self._graphs.listed(
            _thread(config) if own else None,
            namespace=own.get("checkpoint_ns"),
            checkpoint=own.get("checkpoint_id"),
            metadata=self._metadata(dict(filter or {})),
            before=get_checkpoint_id(before) if before else None,
            limit=limit,
        )
        for seen in found:
            yield self._tuple(seen)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; the config's is its parent. The answer names it."""
        thread, namespace, parent = _named(config)
        said = config.get("metadata") or {}
        alone = self._alone(config, thread, namespace, parent, cast(dict[str, Any], metadata))
        place = Place(
            namespace,
            checkpoint["id"],
            parent,
            checkpoint["ts"],
            self._metadata(get_checkpoint_metadata(config, metadata)),
        )
        beside = {key: value for key, value in checkpoint.items() if key not in _CHECKPOINT}
        plain, tagged = self._values.tree(beside)
        channels = Channels(
            checkpoint["channel_values"],
            {"also": plain} if tagged else plain,
            dict(checkpoint["channel_versions"]),
            dict(new_versions),
        )
        self._graphs.put(
            thread,
            place,
            channels,
            self._values,
            reason=_text(said.get("reason")),
            actor=_text(said.get("actor")),
            alone=alone,
            ledger=self._ledger(thread),
        )
        if alone and not namespace:
            self._expected[thread, str(config["configurable"]["takeback_expect"])] = checkpoint["id"]
        return _config(thread, namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote at the config's checkpoint, which may come later."""
        thread, namespace, checkpoint = _named(config)
        if checkpoint is None:
            raise BadRequest("writes name the checkpoint that they were made at", thread=thread)
        key = write_key(namespace, checkpoint)
        made = [
            GraphWrite(
                key,
                task_id,
                WRITES_IDX_MAP.get(channel, number),
                channel,
                task_path,
                canonical.encode(self._values.tree(value)[0]),
            )
            for number, (channel, value) in enumerate(writes)
        ]
        self._graphs.put_writes(thread, checkpoint, made)

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread for good: what is written late to it is refused."""
        self._graphs.delete(str(thread_id))

    # --- what it may do

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """What these runs made is no longer seen. The thread's chain keeps it until retention removes it."""
        self._graphs.delete_runs(list(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A second thread with the same checkpoints, writes and order."""
        self._graphs.copy(str(source_thread_id), str(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Only the newest checkpoint of each namespace is seen from now on; with `delete`, none."""
        if strategy not in ("keep_latest", "delete"):
            raise BadRequest(f"strategy={strategy!r} is neither 'keep_latest' nor 'delete'")
        for thread in map(str, thread_ids):
            if strategy == "delete":
                self._graphs.delete(thread)
            else:
                self._graphs.prune(thread)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What was written to channels that keep changes alone, and what they last held before it."""
        thread, namespace, checkpoint = _named(config)
        found = self._graphs.history(thread, namespace, checkpoint, channels) if channels else {}
        result: dict[str, DeltaChannelHistory] = {}
        for name in channels:
            writes, seed, seeded = found.get(name, ([], None, False))
            entry: DeltaChannelHistory = {"writes": [self._write(write) for write in writes]}
            if seeded:
                entry["seed"] = self._values.value(seed)
            result[name] = entry
        return result

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Versions count from 1; a thread that came from another saver goes on with that one's kind."""
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}.{random.random():016}"
        return super().get_next_version(current, channel)

    # --- the same, awaited

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._run(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while True:
            page = await self._run(partial(_page, found))
            for each in page:
                yield each
            if len(page) < _PAGE:
                return

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await self._run(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._run(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._run(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._run(partial(self.delete_for_runs, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._run(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._run(partial(self.prune, thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._run(partial(self.get_delta_channel_history, config=config, channels=channels))

    # --- inside

    @property
    def _values(self) -> Values:
        """By the serialiser of this very copy: LangGraph gives copies of a saver other ones."""
        held: Values | None = self.__dict__.get("_codec")
        if held is None or held.serde is not self.serde:
            held = self.__dict__["_codec"] = Values(self.serde)
        return held

    def _tuple(self, seen: Seen) -> CheckpointTuple:
        place, values, make = seen.place, dict(seen.values), self._values.value
        for name in seen.tagged:
            values[name] = make(values[name])
        beside = make(seen.beside["also"]) if "also" in seen.beside else seen.beside
        checkpoint = {
            "v": 4, "updated_channels": None, "channel_versions": {}, "versions_seen": {},
            **beside, "id": place.id, "ts": place.ts, "channel_values": values,
        }  # fmt: skip
        return CheckpointTuple(
            _config(seen.thread, place.namespace, place.id),
            cast(Checkpoint, checkpoint),
            cast(CheckpointMetadata, make(seen.metadata)),
            _config(seen.thread, place.namespace, place.parent) if place.parent else None,
            [self._write(write) for write in seen.writes],
        )

    def _write(self, write: GraphWrite) -> PendingWrite:
        return write.task, write.channel, self._values.value(canonical.decode(write.data))

    def _metadata(self, metadata: Any) -> dict[str, Any]:
        """Never sealed: it is what a list is filtered by."""
        plain: dict[str, Any] = Values(_PLAIN).tree(metadata)[0]
        return plain

    def _ledger(self, thread: str) -> str:
        """What a checkpoint says of the effects before it: without effectful tools, that none are seen."""
        return self._ledgers.get(thread, "none")

    def _saw_effects(self, thread: str) -> None:
        """One of the graph's tools records what it does; whether all do is not known."""
        if len(self._ledgers) > 10_000:
            self._ledgers.clear()
        self._ledgers[thread] = "partial"

    def _alone(
        self,
        config: RunnableConfig,
        thread: str,
        namespace: str,
        parent: str | None,
        metadata: dict[str, Any],
    ) -> bool:
        """Whether the caller wants no fork, and goes on from what it expects."""
        expect = config["configurable"].get("takeback_expect")
        if expect is None or namespace:
            return False
        own = self._expected.get((thread, str(expect)))
        begins = metadata.get("source") != "loop"
        if expect is not True and parent != expect and (begins or parent != own):
            raise self._unexpected(thread, str(expect), parent)
        return True


_PLAIN = JsonPlusSerializer(allowed_msgpack_modules=None)


def _page(found: Iterator[CheckpointTuple]) -> list[CheckpointTuple]:
    return list(islice(found, _PAGE))


def _named(config: RunnableConfig) -> tuple[str, str, str | None]:
    """(thread, namespace, the checkpoint's id) of a config."""
    own = config["configurable"]
    return _thread(config), own.get("checkpoint_ns") or "", own.get("checkpoint_id") or None


def _thread(config: RunnableConfig | None) -> str:
    own = (config or {}).get("configurable") or {}
    thread = own.get("thread_id")
    if thread is None:
        raise BadRequest("the config names no thread", hint='config={"configurable": {"thread_id": "…"}}')
    return str(thread)


def _config(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
