"""Power cuts: what is on the disk afterwards is any mixture of what was not synced, sector by sector, some
of it garbage. Every acknowledged commit is found in every such image, and the store is sound."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.crash.stores import incompressible, on

import takeback
from takeback.errors import TakebackError
from takeback.model.records import Checkpoint
from takeback.repo import Repo
from takeback.storage import sqlite_file
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Disk, Event, Image, power_cuts, sync_moments

PASSIVE, RESTART, TRUNCATE = (
    apsw.SQLITE_CHECKPOINT_PASSIVE,
    apsw.SQLITE_CHECKPOINT_RESTART,
    apsw.SQLITE_CHECKPOINT_TRUNCATE,
)


class Work:
    """A run of writes, each noted on the disk once it is acknowledged."""

    def __init__(self, disk: Disk, path: Path, rng: random.Random, durability: str) -> None:
        self.disk, self.path, self.rng, self.durability = disk, path, rng, durability
        self.repo = self.opened()

    def opened(self) -> Repo:
        return on(self.disk, self.path, durability=self.durability)

    def acknowledged(self, checkpoint: Checkpoint) -> None:
        self.disk.note((checkpoint.thread, checkpoint.version, checkpoint.digest))

    def run(self, steps: int) -> None:
        main = self.repo.thread("main", initial={"items": [], "n": -1})
        self.acknowledged(main.head)
        self.acknowledged(main.fork("head", "side").head)
        for step in range(steps):
            thread = self.repo.thread(self.rng.choice(["main", "main", "side"]))
            self.acknowledged(self.write(thread, step))
            self.between(step)
        self.repo.close()

    def write(self, thread: takeback.Thread[Any], step: int) -> Checkpoint:
        match self.rng.randrange(4):
            case 0:
                return thread.append("/items", incompressible(self.rng.choice((100, 400, 3_000)), step))
            case 1:
                return thread.patch({"n": step})
            case 2:
                return thread.commit({"items": [], "n": step, "big": incompressible(30_000, step)})
        return thread.rollback(self.rng.randint(0, thread.version)).checkpoint

    def between(self, step: int) -> None:
        """What else happens to the files: frames are moved in each way, the store is closed and opened."""
        mode = {3: PASSIVE, 6: RESTART, 7: TRUNCATE, 8: PASSIVE}.get(step % 10)
        if mode is not None:
            storage = self.repo._ctx.storage
            assert isinstance(storage, SqliteStorage)
            connection = storage._file.connect()
            connection.wal_checkpoint(mode=mode)
            connection.close()
        if step % 10 == 9:
            self.repo.close()
            self.repo = self.opened()


def recorded(
    path: Path, *, seed: int, steps: int, honest: bool = True, durability: str = "full"
) -> list[Event]:
    disk = Disk(honest=honest)
    Work(disk, path, random.Random(seed), durability).run(steps)
    return disk.events


def moments_of(events: list[Event], *, repeats: int, between: int, seed: int) -> list[int]:
    """At every sync boundary, repeatedly, and at so many random moments."""
    rng = random.Random(seed)
    return sync_moments(events) * repeats + [rng.randint(0, len(events)) for _ in range(between)]


def found_in(image: Image, events: list[Event], folder: Path) -> list[str]:
    """What is wrong with an image: acknowledged commits that are not there, and damage."""
    for left in folder.iterdir():
        left.unlink()
    image.lay(folder)
    acknowledged = [event.what for event in events[: image.moment] if event.kind == "note"]
    try:
        with takeback.open(folder / "store.db") as repo:
            lost = [f"lost: {name} {version}" for name, version, digest in acknowledged
                    if digest_at(repo, name, version) != digest]  # fmt: skip
            return lost + unsound(repo, acknowledged)
    except TakebackError as error:
        return [f"{type(error).__name__}: {error}"]


def digest_at(repo: Repo, name: str, version: int) -> bytes | None:
    found = repo.thread(name)
    if not found.exists or found.version < version:
        return None
    return found.at(version).checkpoint.digest


def unsound(repo: Repo, acknowledged: list[Any]) -> list[str]:
    problems = [f"damage: {what}" for what in repo.damage()]
    problems += [f"verify: {report}" for report in repo.verify() if not report.ok]
    for info in repo.threads():
        said = max((version for name, version, _ in acknowledged if name == info.name), default=-1)
        if info.head > said + 1:
            problems.append(
                f"{info.name} is at {info.head}; only {said} was acknowledged, one more was begun"
            )
    return problems


def sweep(
    events: list[Event],
    folder: Path,
    *,
    repeats: int,
    between: int,
    seed: int,
    sectors: tuple[int, ...] = (512, 4096),
) -> tuple[int, list[tuple[int, list[str]]]]:
    """How many images were looked at, and what was wrong with which."""
    folder.mkdir(exist_ok=True)
    looked, wrong = 0, []
    for sector in (512, 4096):
        moments = moments_of(events, repeats=repeats, between=between, seed=seed + sector)
        for image in power_cuts(events, moments, seed=seed + sector, sector=sector):
            looked += 1
            problems = found_in(image, events, folder)
            if problems:
                wrong.append((image.moment, problems))
    return looked, wrong


def test_no_power_cut_loses_what_was_acknowledged(tmp_path: Path) -> None:
    events = recorded(tmp_path / "store.db", seed=1, steps=40)
    assert sum(event.kind == "note" for event in events) == 42
    assert {"main", "wal", "journal"} == {
        event.file.rpartition("-")[2] if "-" in event.file.rpartition("/")[2] else "main"
        for event in events
        if event.kind == "sync"
    }
    looked, wrong = sweep(events, tmp_path / "image", repeats=1, between=150, seed=7)
    assert wrong == []
    assert looked > 500


def test_nor_one_while_frames_are_moved_by_the_stores_own_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_WAL_PAGES", 20)
    monkeypatch.setattr(Work, "between", lambda self, step: None)
    store = str(tmp_path / "store.db")
    events = recorded(tmp_path / "store.db", seed=2, steps=40)
    notes = [index for index, event in enumerate(events) if event.kind == "note"]
    moved = [event for event in events[notes[0] : notes[-1]] if event.kind == "write" and event.file == store]
    assert moved, "nothing was moved during the run"
    looked, wrong = sweep(events, tmp_path / "image", repeats=1, between=100, seed=8)
    assert wrong == []
    assert looked > 200


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_many_power_cuts(tmp_path: Path, seed: int) -> None:
    events = recorded(tmp_path / "store.db", seed=seed, steps=60)
    _, wrong = sweep(events, tmp_path / "image", repeats=4, between=500, seed=seed)
    assert wrong == []


# --- the harness itself


def test_a_disk_that_lies_about_syncs_is_found_out(tmp_path: Path) -> None:
    """The images would be worth nothing if they did not lose commits where nothing is ever synced."""
    events = recorded(tmp_path / "store.db", seed=1, steps=20, honest=False)
    assert not any(event.kind == "sync" for event in events)
    _, wrong = sweep(events, tmp_path / "image", repeats=1, between=60, seed=7)
    assert len(wrong) > 20


def test_relaxed_durability_loses_the_newest_and_nothing_else(tmp_path: Path) -> None:
    """What `durability="relaxed"` says of itself, both halves: newest commits may go; the rest is sound."""
    events = recorded(tmp_path / "store.db", seed=1, steps=30, durability="relaxed")
    looked, wrong = sweep(events, tmp_path / "image", repeats=1, between=150, seed=7)
    assert [what for _, what in wrong if not all(one.startswith("lost:") for one in what)] == []
    assert 0 < len(wrong) < looked


def test_synchronous_off_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite without syncs, on an honest disk: commits go, or the file breaks."""
    connect = sqlite_file.SqliteFile.connect

    def careless(self: sqlite_file.SqliteFile) -> apsw.Connection:
        connection = connect(self)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(sqlite_file.SqliteFile, "connect", careless)
    events = recorded(tmp_path / "store.db", seed=1, steps=20)
    monkeypatch.undo()
    _, wrong = sweep(events, tmp_path / "image", repeats=1, between=60, seed=7)
    assert len(wrong) > 20


def test_without_a_cut_everything_is_there(tmp_path: Path) -> None:
    """The recording is the whole truth: all events, all kept, are the very file."""
    events = recorded(tmp_path / "store.db", seed=3, steps=15)
    everything = [
        *events,
        *(Event("sync", path, len(events), what=True) for path in [str(tmp_path / "store.db")]),
    ]
    (image,) = power_cuts(everything, [len(everything)], seed=1)
    assert image.files == {str(tmp_path / "store.db"): (tmp_path / "store.db").read_bytes()}


def test_images_are_torn_in_every_way() -> None:
    """Kept, dropped, garbled, and a size without its bytes: each is seen, sector by sector."""
    old, new = b"o" * 2048, b"n" * 2048
    events = [
        Event("opened", "f", data=old, what=True),
        Event("write", "f", 0, new),
        Event("write", "f", 4096, new),
        Event("truncate", "f", 1024),
    ]
    images = [image.files["f"] for image in power_cuts(events, [4] * 300, seed=5)]
    firsts = {image[:512] for image in images}
    assert {old[:512], new[:512]} < firsts
    assert len(firsts) > 2  # … and garbage
    assert {1024, 2048, 6144} <= {len(image) for image in images}
    assert any(image[4096:4608] == bytes(512) for image in images)
    assert any(image[:512] == new[:512] and image[512:1024] == old[:512] for image in images)


def test_a_sync_makes_safe_what_was_written_before_it_began() -> None:
    events = [
        Event("opened", "f", what=True),
        Event("write", "f", 0, b"safe"),
        Event("write", "f", 4, b"late"),
        Event("sync", "f", 2),
    ]
    images = {image.files["f"] for image in power_cuts(events, [4] * 50, seed=5)}
    assert {image[:4] for image in images} == {b"safe"}
    assert {b"safe", b"safelate"} <= images


def test_a_name_is_safe_once_its_folder_is_synced() -> None:
    opened, deleted = Event("opened", "f", data=b"", what=False), Event("deleted", "f", what=False)
    synced = Event("sync", "f", 1, what=True)
    assert {bool(image.files) for image in power_cuts([opened], [1] * 30, seed=1)} == {True, False}
    assert {bool(image.files) for image in power_cuts([opened, synced], [2] * 30, seed=1)} == {True}
    gone = power_cuts([opened, synced, deleted], [3] * 30, seed=1)
    assert {bool(image.files) for image in gone} == {True, False}
