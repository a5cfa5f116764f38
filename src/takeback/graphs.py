"""The façade of threads that a graph writes: what an adapter of a graph framework calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine import carrying, graph_threads
from takeback.engine import graphs as engine
from takeback.engine.channels import HELD, TAGGED, Channels, Codec, Prints, filler
from takeback.engine.commit import Said
from takeback.errors import CorruptObject, UnknownCheckpoint
from takeback.model import canonical, graphs
from takeback.model.graphs import VALUES, GraphWrite, Place
from takeback.model.records import Checkpoint
from takeback.model.tree import read

if TYPE_CHECKING:
    from takeback.engine.commit import Draft
    from takeback.engine.context import Context, Tip
    from takeback.engine.items import Ahead, Name

_META_INLINE = 256  # bytes of a metadata value that stands in the record; longer ones are kept by content
METADATA = "metadata"


class Seen(msgspec.Struct, frozen=True):
    """A checkpoint of a graph as it is stored: what its channels hold is plain, and `tagged` names those that
    are to be made back into what they were."""

    thread: str
    place: Place
    row: Checkpoint
    values: dict[str, Any]
    beside: dict[str, Any]
    tagged: list[str]
    metadata: dict[str, Any]
    writes: list[GraphWrite]
    seq: int = 0


class GraphThreads:
    """The threads of one store as a graph sees them."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._desk = engine.Desk(ctx)
        self._prints = Prints()

    # --- writing

    def put(
        self,
        thread: str,
        place: Place,
        channels: Channels,
        codec: Codec,
        *,
        reason: str | None = None,
        actor: str | None = None,
        alone: bool = False,
        ledger: str = "none",
    ) -> Checkpoint:
        """Keep a checkpoint; when somebody else was faster it is written behind theirs."""
        metadata, long = _split(_own(place.metadata))
        beside = _own(channels.beside) | ({METADATA: long} if long else {})
        channels = msgspec.structs.replace(channels, beside=beside)
        place = msgspec.structs.replace(place, metadata=metadata)
        said = Said(reason=reason, actor=actor, step=_label(place))
        fill = filler(channels, codec, self._prints)
        return engine.put(self._desk, thread, place, fill, said, self._with_files, alone=alone, ledger=ledger)

    def tip(self, thread: str) -> Tip:
        """Where a thread stands; it comes into being if it is not there yet."""
        return engine.standing(self._desk, thread)

    def wrote_ahead(self, thread: str, checkpoint: str, place: Ahead, names: list[Name]) -> None:
        """Items were written ahead of the version that goes on from a checkpoint; their place is a guess."""
        self._desk.wrote_ahead(thread, checkpoint, place, names)

    def put_writes(self, thread: str, checkpoint: str, writes: list[GraphWrite]) -> None:
        """Keep what a task wrote at a checkpoint, which may come later."""
        engine.put_writes(self._desk, thread, checkpoint, writes)

    def delete(self, thread: str) -> bool:
        """Remove a thread for good; whether there was one."""
        self._desk.forget(thread)
        return graph_threads.delete(self._ctx, thread)

    def delete_runs(self, runs: Sequence[str]) -> int:
        """The graph no longer sees what these runs made; how many checkpoints."""
        return graph_threads.hide_runs(self._desk, runs)

    def prune(self, thread: str) -> int:
        """Of each namespace the graph sees only the newest checkpoint from now on; how many others."""
        return graph_threads.prune(self._desk, thread)

    def copy(self, source: str, target: str) -> int:
        """A thread of another name with the same checkpoints and writes; how many versions."""
        return graph_threads.copy(self._ctx, source, target)

    # --- reading

    def get(self, thread: str, namespace: str, checkpoint: str | None) -> Seen | None:
        """A checkpoint by the graph's id, or the newest of a namespace."""
        with self._ctx.storage.snapshot():
            found = engine.find(self._desk, thread, namespace, checkpoint)
            return None if found is None else self._seen(thread, *found)

    def has(self, thread: str, namespace: str, checkpoint: str) -> bool:
        """Whether a checkpoint is stored."""
        tip = self._desk.tip(thread, fresh=True)
        return tip is not None and engine.by_id(self._ctx, tip.info.uid, namespace, checkpoint) is not None

    def listed(
        self,
        thread: str | None,
        *,
        namespace: str | None = None,
        checkpoint: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Seen]:
        """Checkpoints, newest first. `before` is an id, of whichever namespace; metadata is asked for by
        equality, and by what nested values hold."""
        return graph_threads.listed(
            self._desk, self._seen, thread, namespace, checkpoint, dict(metadata or {}), before, limit
        )

    def history(
        self, thread: str, namespace: str, checkpoint: str | None, channels: Sequence[str]
    ) -> dict[str, tuple[list[GraphWrite], Any, bool]]:
        """What was written to channels on the way to a checkpoint, oldest first, since each last had a value:
        (writes, that value, whether there is one); for channels that keep changes alone."""
        with self._ctx.storage.snapshot():
            found = engine.find(self._desk, thread, namespace, checkpoint)
            return {} if found is None else graph_threads.deltas(self._desk.ctx, *found, list(channels))

    def forks(self, thread: str, namespace: str | None = None) -> Iterator[Place]:
        """The checkpoints that nothing goes on from and that are not the newest: ends of other branches."""
        return graph_threads.ends(self._desk, thread, namespace)

    def version_of(self, thread: str, checkpoint: str) -> Checkpoint:
        """The version that a graph's id names."""
        tip = self._desk.tip(thread, fresh=True)
        found = None if tip is None else engine.anywhere(self._ctx, tip.info.uid, checkpoint)
        if found is None:
            raise UnknownCheckpoint(
                f"the thread has no checkpoint {checkpoint}",
                thread=thread,
                hint="saver.list(config) shows them",
            )
        return found

    def id_of(self, row: Checkpoint, namespace: str = "") -> str | None:
        """What the graph calls a version, or what stood for the namespace at it."""
        found = carrying.newest(self._ctx, row.uid, namespace, row.version + 1)
        return None if found is None else found[1].id

    @contextmanager
    def _with_files(self, tip: Tip, draft: Draft) -> Iterator[Draft]:
        """The draft with what the thread's workspaces hold now, as a step's end captures it."""
        if not tip.head.files:
            yield draft
            return
        from takeback.attached import Attached

        with Attached(self._ctx, tip.info).seen(tip) as seen:
            yield seen.on(tip, draft)
            seen.settle()

    def _seen(self, thread: str, row: Checkpoint, place: Place, seq: int = 0) -> Seen:
        inside = graphs.inside(place.namespace)
        payload = self._ctx.get(row.state_root)
        try:
            beside = _own(engine.beside(payload, place, self._ctx))
            values = read.read_at(payload, (*inside, VALUES), self._ctx)
        except CorruptObject as error:
            raise self._ctx.explained(error, row) from None
        writes = engine.writes_at(self._ctx, row.uid, [place])[place.id]
        tagged, long = beside.pop(TAGGED, []), beside.pop(METADATA, {})
        values |= beside.pop(HELD, {})
        return Seen(thread, place, row, values, beside, tagged, _own(place.metadata) | long, writes, seq)


def _own(said: dict[str, Any]) -> dict[str, Any]:
    """What a graph says or is told, apart from what is remembered here: a run changes it in place."""
    own: dict[str, Any] = canonical.decode(canonical.pack(said))
    return own


def _label(place: Place) -> str:
    """What the log calls it."""
    source, step = place.metadata.get("source", "graph"), place.metadata.get("step")
    said = f"{source} {step}" if type(step) is int and step > 0 else str(source)
    return f"{place.namespace}: {said}" if place.namespace else said


def _split(metadata: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(short, long): a record is small, and what comes again with every checkpoint is kept once."""
    long = {key: value for key, value in metadata.items() if len(canonical.pack(value)) > _META_INLINE}
    return {key: value for key, value in metadata.items() if key not in long}, long
