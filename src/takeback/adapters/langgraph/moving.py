"""Threads from LangGraph's own savers and back: every checkpoint and every write, and compared."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import msgspec
import ormsgpack
from langgraph.checkpoint.base import BaseCheckpointSaver

from takeback.adapters.langgraph.saver import TakebackSaver
from takeback.adapters.langgraph.values import raw_value
from takeback.engine.channels import Channels
from takeback.errors import BadRequest, CorruptObject
from takeback.model import canonical
from takeback.model.graphs import GraphWrite, Place, write_key
from takeback.storage.foreign import Foreign, ForeignWrite, Source, Typed, opened


class Moved(msgspec.Struct):
    """What was brought in, or out."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0

    def as_dict(self) -> dict[str, int]:
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]  # a dict of the fields above

    def __str__(self) -> str:
        return f"{self.threads} threads, {self.checkpoints} checkpoints, {self.writes} writes"


def bring_in(
    saver: TakebackSaver, kind: str, where: str, *, thread_ids: Iterable[str] | None = None
) -> Moved:
    """Bring threads in from a SqliteSaver's file (`langgraph-sqlite`) or a PostgresSaver's database
    (`langgraph-postgres`), which are only read. Run again, it goes on where it was broken off. Each thread is
    compared with what was read, and verified. Nothing of the graph's types is made for it."""
    moved = Moved()
    with opened(kind, where) as source:
        for thread in source.threads() if thread_ids is None else thread_ids:
            _Thread(saver, source, thread).bring(moved)
    return moved


def give_back(
    saver: TakebackSaver, target: BaseCheckpointSaver[Any], *, thread_ids: Iterable[str] | None = None
) -> Moved:
    """Write threads into another saver: what the graph sees of them, oldest first."""
    moved = Moved()
    wanted = [info.name for info in saver.repo.threads()] if thread_ids is None else list(thread_ids)
    for thread in wanted:
        found = list(saver.list({"configurable": {"thread_id": thread}}))
        moved.threads += bool(found)
        for each in reversed(found):
            own = each.config["configurable"]
            parent = each.parent_config["configurable"]["checkpoint_id"] if each.parent_config else None
            config = {"configurable": {**own, "checkpoint_id": parent}}
            checkpoint = _versioned(each.checkpoint, target)
            target.put(config, checkpoint, each.metadata, checkpoint["channel_versions"])  # type: ignore[arg-type]  # a config as LangGraph makes them
            moved.checkpoints += 1
            seen = saver._graphs.get(thread, own["checkpoint_ns"], own["checkpoint_id"])
            writes = [] if seen is None else seen.writes
            for (path, task), group in groupby(writes, key=lambda write: (write.path, write.task)):
                made = [(write.channel, saver._write(write)[2]) for write in group]
                target.put_writes(each.config, made, task, path)
                moved.writes += len(made)
    return moved


def _versioned(checkpoint: Any, target: BaseCheckpointSaver[Any]) -> Any:
    """With versions of the kind that the other saver counts with: a graph compares old ones with new ones."""
    if not isinstance(target.get_next_version(None, None), str):
        return checkpoint

    def text(versions: dict[str, Any]) -> dict[str, Any]:
        return {
            name: version if isinstance(version, str) else f"{int(version):032}.{0:016}"
            for name, version in versions.items()
        }

    seen = {node: text(versions) for node, versions in checkpoint["versions_seen"].items()}
    return checkpoint | {"channel_versions": text(checkpoint["channel_versions"]), "versions_seen": seen}


class _Thread:
    """One thread on its way in."""

    def __init__(self, saver: TakebackSaver, source: Source, name: str) -> None:
        self.saver, self.source, self.name = saver, source, name
        self.graphs, self.values = saver._graphs, saver._values

    def bring(self, moved: Moved) -> None:
        writes = self.source.writes(self.name)
        count = 0
        for each in self.source.checkpoints(self.name):
            count += 1
            if not self.graphs.has(self.name, each.namespace, each.id):
                self._put(each)
        if not count:
            raise BadRequest(f"there is no thread {self.name!r} to bring in")
        for (_, checkpoint), group in groupby(writes, key=lambda write: (write.namespace, write.checkpoint)):
            self.graphs.put_writes(self.name, checkpoint, [self._write(each) for each in group])
        self._compare(writes)
        moved.threads += 1
        moved.checkpoints += count
        moved.writes += len(writes)

    def _put(self, each: Foreign) -> None:
        values, beside = self._parts(each)
        place = Place(each.namespace, each.id, each.parent, beside.pop("ts", ""), each.metadata)
        versions = dict(beside.get("channel_versions", {}))
        plain, tagged = self.values.tree({key: value for key, value in beside.items() if key != "id"})
        said = {"also": plain} if tagged else plain
        # All channels count as new: that one was changed in place under an old version is then seen as well.
        channels = Channels(values, said, versions, dict.fromkeys(values, 0))
        self.graphs.put(self.name, place, channels, self.values, reason="brought in from LangGraph")

    def _parts(self, each: Foreign) -> tuple[dict[str, Any], dict[str, Any]]:
        """(channels, what the graph keeps beside)."""
        parts = dict(each.parts) if each.packed is None else dict(self._value(each.packed))
        values = dict(parts.pop("channel_values", {}))
        values |= {name: self._value(typed) for name, typed in each.channels.items()}
        return values, parts

    def _write(self, each: ForeignWrite) -> GraphWrite:
        data = canonical.encode(self.values.tree(self._value(each.typed))[0])
        key = write_key(each.namespace, each.checkpoint)
        return GraphWrite(key, each.task, each.number, each.channel, each.path, data)

    def _value(self, typed: Typed) -> Any:
        kind, raw = typed
        if kind == "msgpack" and self.values.readable:
            return raw_value(raw)
        if kind == "pickle":
            raise BadRequest("a value was pickled, which takeback never reads", thread=self.name)
        try:
            return self.saver.serde.loads_typed(typed)
        except (RuntimeError, ValueError, ormsgpack.MsgpackDecodeError) as error:
            raise BadRequest(
                f"a value of kind {kind!r} cannot be read: {error}",
                thread=self.name,
                hint="Where it is encrypted: bring_in(TakebackSaver(…, serde=…), …) with the same serialiser",
            ) from None

    def _compare(self, writes: list[ForeignWrite]) -> None:
        wanted = {(w.namespace, w.checkpoint, w.task, w.number): w for w in writes}
        for each in self.source.checkpoints(self.name):
            seen = self.graphs.get(self.name, each.namespace, each.id)
            values, _ = self._parts(each)
            whole = seen is not None and seen.place.parent == each.parent and seen.metadata == each.metadata
            if seen is None or not whole or not self._same(seen.values, values):
                raise CorruptObject(f"checkpoint {each.id} is not here what it is there", thread=self.name)
            for write in seen.writes:
                other = wanted.pop((each.namespace, each.id, write.task, write.number), None)
                if other is not None and not self._same_write(write, other):
                    raise CorruptObject(
                        f"a write at {each.id} is not here what it is there", thread=self.name
                    )
        report = self.saver.verify(thread_id=self.name)
        if not report.ok:
            raise CorruptObject(
                f"what was brought in does not verify: {report.problems[0]}", thread=self.name
            )

    def _same(self, stored: dict[str, Any], values: dict[str, Any]) -> bool:
        if not self.values.readable:
            return stored.keys() == values.keys()  # each writing of it is encrypted anew
        made = {name: self.values.tree(value)[0] for name, value in values.items()}
        return canonical.equal(stored, made)

    def _same_write(self, stored: GraphWrite, other: ForeignWrite) -> bool:
        made = self._write(other)
        said = (stored.channel, stored.path) == (made.channel, made.path)
        return said and (not self.values.readable or stored.data == made.data)
