"""A short soak of what `make soak` does for minutes; and that it would find a store that loses writes."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.crash.soaking import Soak, stopped_owner

import takeback
from takeback.repo import Repo
from takeback.storage.base import Batch, NewCheckpoint, Refusal, Storage
from takeback.storage.wrappers import Wrapper
from takeback.testing.faults import ChildFailed
from takeback.testing.postgres import Server, fresh_url


def test_nothing_acknowledged_is_lost(store_path: Path, tmp_path: Path) -> None:
    """Writers are killed and stopped; all are killed at once; the next finds all that they were told."""
    tally = Soak(os.fspath(store_path), tmp_path, seed=7).run(4)
    assert tally.sound, str(tally)
    assert tally.kills > 2 * 8
    assert tally.acknowledged > 50
    assert len(tally.recovery_ms) == tally.rounds >= 2


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_an_owner_that_was_stopped_is_refused_when_it_wakes(store_path: Path, backend: str) -> None:
    url = os.fspath(store_path) if backend == "sqlite" else fresh_url()
    assert stopped_owner(lambda: takeback.open(url)) == ["step_lost", "conflict"]


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    """Writers live through it, or are killed themselves; with a clock an hour behind among them."""
    with Server(fsync=True) as server:
        tally = Soak(server.url(), tmp_path, seed=5, server=server).run(5)
    assert tally.sound, str(tally)
    assert tally.server_kills > 0
    assert len(tally.server_recovery_ms) == tally.server_kills
    assert tally.acknowledged > 20


def test_a_server_that_answers_before_it_commits_is_found_out(tmp_path: Path) -> None:
    """`synchronous_commit = off`, which a store has only where it was asked for by name."""

    def relaxed(url: str, **options: Any) -> Repo:
        return takeback.open(url, durability="relaxed", **options)

    with Server(fsync=True) as server:
        soak = Soak(server.url(), tmp_path, seed=5, server=server, opens=relaxed)
        for _ in range(12):
            try:
                soak.round(1.5)
            except ChildFailed as found:  # a writer that was still there missed what it had written itself
                if not any(
                    name in str(found) for name in ("CorruptObject", "ThreadDeleted", "UnknownThread")
                ):
                    raise
                return
            if soak.tally.lost:
                return
    raise AssertionError(f"nothing was found: {soak.tally}")


class Early(Wrapper):
    """Says that it is written, and writes it a moment later."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.later: queue.Queue[Batch] = queue.Queue()
        threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        while True:
            self.inner.apply(self.later.get())

    def apply(self, batch: Batch) -> Refusal | None:
        if isinstance(batch.rows[0], NewCheckpoint) and "/w" in batch.rows[0].checkpoint.thread:
            self.later.put(batch)
            return None
        return self.inner.apply(batch)


def early(url: str, **options: Any) -> Repo:
    return Repo(Early(takeback.open(url)._ctx.storage), **options)


def test_a_store_that_answers_before_it_commits_is_found_out(store_path: Path, tmp_path: Path) -> None:
    """Else the soak would show nothing."""
    tally = Soak(os.fspath(store_path), tmp_path, seed=7, opens=early).run(1)
    assert tally.lost
    assert not tally.sound
    assert "lost" in str(tally)
    assert tally.as_dict()["lost"] == len(tally.lost)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200, 204))
def test_nothing_acknowledged_is_lost_in_minutes_of_killed_servers(tmp_path: Path, seed: int) -> None:
    with Server(fsync=True) as server:
        tally = Soak(server.url(), tmp_path, seed=seed, server=server).run(60)
    assert tally.sound, str(tally)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 104))
def test_nothing_acknowledged_is_lost_in_minutes(store_path: Path, tmp_path: Path, seed: int) -> None:
    tally = Soak(os.fspath(store_path), tmp_path, seed=seed).run(60)
    assert tally.sound, str(tally)
