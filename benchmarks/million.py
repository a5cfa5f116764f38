"""A store of a million checkpoints against one of a thousand, both open at once and used by turns.

It is built through the storage's own protocol: real records, a hundred to a transaction, with relaxed
durability, thread after thread by turns, so that the rows of one thread lie as far apart as they would
if its agent had worked beside others. Measured is with full durability.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

import takeback
from benchmarks import data
from benchmarks.measure import Measure, Timing, Work, interleave
from benchmarks.sizes import Sizes
from takeback.model import canonical, ids
from takeback.model.records import Checkpoint, seal_record
from takeback.storage import connect
from takeback.storage.base import Batch, NewCheckpoint, NewThread, Row

_PAGE = 200  # what a history reads at once
_RUN = 100  # checkpoints of one thread in a transaction
_BEGAN = 1_700_000_000_000_000


class Store(msgspec.Struct, frozen=True):
    """How many threads a store has, and how many versions each."""

    path: Path
    threads: int
    versions: int


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    """Nothing, unless the size is asked for."""
    if sizes.store_large is None:
        return
    stores = [
        _store(folder / "small.db", 4, sizes.store_small),
        _store(folder / "large.db", min(1_000, sizes.store_large // 10), sizes.store_large),
    ]
    for store in stores:
        build(store)
    small, large = (takeback.open(store.path) for store in stores)
    against = f"at {sizes.store_small:,}"
    size = f"{sizes.store_large:,}"
    with small, large:
        found = _commits(small, large, sizes)
        yield Measure("hot_commit", f"commit at {size} checkpoints", found["large"], found["small"], against)
        found = _histories(small, large, sizes)
        yield Measure(
            "hot_history", f"first page of history at {size}", found["large"], found["small"], against
        )
        found = _random_reads((small, stores[0]), (large, stores[1]), sizes)
        yield Measure(
            "random_reads", f"states of random threads at {size}", found["large"], found["small"], against
        )


def build(store: Store) -> None:
    """Write a store of many threads; `verify` finds nothing to say against what comes out."""
    storage = connect(str(store.path), create=True, durability="relaxed")
    heads: list[Checkpoint | None] = [None] * store.threads
    for first in range(0, store.versions, _RUN):
        for number in range(store.threads):
            rows, objects, heads[number] = _some(number, heads[number], min(_RUN, store.versions - first))
            refusal = storage.apply(Batch("default", rows, objects))
            assert refusal is None
    storage.close()


def _store(path: Path, threads: int, checkpoints: int) -> Store:
    return Store(path, threads, checkpoints // threads)


def _some(
    number: int, head: Checkpoint | None, count: int
) -> tuple[list[Row], dict[bytes, bytes], Checkpoint | None]:
    """The next versions of a thread, and their states."""
    rows: list[Row] = []
    objects: dict[bytes, bytes] = {}
    uid = ids.thread_uid() if head is None else head.uid
    for _ in range(count):
        version = 0 if head is None else head.version + 1
        state = canonical.encode(_state(number, version))
        root = canonical.digest(state)
        objects[root] = state
        made = _checkpoint(number, uid, version, root, head)
        rows.append(NewCheckpoint(made) if head else _thread(made))
        head = made
    return rows, objects, head


def _checkpoint(
    number: int, uid: ids.ThreadUid, version: int, root: bytes, head: Checkpoint | None
) -> Checkpoint:
    time_us = _BEGAN + version * 1_000_000 + number
    return seal_record(
        Checkpoint(
            thread=_name(number), uid=uid, version=version, id=ids.checkpoint_id(version),
            kind="commit", line=0, digest=b"", state_root=root, time_us=time_us, clock_us=time_us,
            previous=head.digest if head else b"", before=head.version if head else None,
            undo_top=version or None,
        )
    )  # fmt: skip


def _thread(first: Checkpoint) -> NewThread:
    meta = canonical.encode({})
    return NewThread(first.thread, first.uid, "agent", None, meta, first.time_us, first, first.uid)


def _state(number: int, version: int) -> dict[str, object]:
    return {"step": version, "note": data.text(160, number * 1_000_003 + version)}


def _name(number: int) -> str:
    return f"agent-{number}"


def _commits(small: takeback.Repo, large: takeback.Repo, sizes: Sizes) -> dict[str, Timing]:
    return interleave(
        {"small": _committing(small), "large": _committing(large)},
        rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm,
    )  # fmt: skip


def _committing(repo: takeback.Repo) -> Work:
    thread = repo.thread(_name(1))
    steps = itertools.count(1)
    return Work(thread.commit, lambda: data.small_state(next(steps)))


def _histories(small: takeback.Repo, large: takeback.Repo, sizes: Sizes) -> dict[str, Timing]:
    def reading(repo: takeback.Repo) -> Work:
        return Work(lambda _: list(itertools.islice(repo.thread(_name(1)).history(), _PAGE)))

    works = {"small": reading(small), "large": reading(large)}
    return interleave(works, rounds=sizes.big_rounds, batch=sizes.batch, warm=sizes.batch)


def _random_reads(
    small: tuple[takeback.Repo, Store], large: tuple[takeback.Repo, Store], sizes: Sizes
) -> dict[str, Timing]:
    """Each state once, so that no handle's cache answers in either store."""

    def reading(repo: takeback.Repo, store: Store) -> Work:
        pairs = _pairs(store)

        def read(pair: tuple[int, int]) -> None:
            assert repo.thread(_name(pair[0])).at(pair[1]).state["step"] == pair[1]

        return Work(read, lambda: next(pairs))

    works = {"small": reading(*small), "large": reading(*large)}
    runs = sizes.store_small // sizes.batch
    return interleave(works, rounds=runs * 9 // 10, batch=sizes.batch, warm=0)


def _pairs(store: Store) -> Iterator[tuple[int, int]]:
    every = store.threads * store.versions
    for place in random.Random(3).sample(range(every), min(every, 10_000)):
        yield divmod(place, store.versions)
