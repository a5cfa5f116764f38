"""What the crash tests share: what a store holds, as plain values, and whether it is sound."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from takeback.model.frozen import thawed
from takeback.repo import Repo
from takeback.storage.base import Places, Writes
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.faults import Child, Disk, Kill, Life, Running


def on(disk: Disk, path: Path, **options: Any) -> Repo:
    """A store on a disk that remembers."""
    key = options.pop("key", None)
    return Repo(SqliteStorage(os.fspath(path), vfs=disk.label, **options), key=key)


def holds(repo: Repo) -> dict[str, Any]:
    """Everything that a caller could see, without the ids and times that differ from run to run."""
    threads = {}
    for info in repo.threads():
        thread = repo.thread(info.name)
        rows = list(thread.history(newest_first=False))
        threads[info.name] = {
            "rows": [(row.version, row.kind, row.reason) for row in rows],
            "states": [thawed(thread.at(row.version).state) for row in rows],
            "labels": thread.labels,
            "effects": [(e.number, e.state, e.redo, len(e.uses)) for e in thread.effects()],
            "approvals": [(each.number, each.state) for each in thread.approvals(None)],
            "budget": thread.budget(),
        }
    audit = [(entry.action, entry.thread) for entry in repo.audit()]
    return {"threads": threads, "audit": audit, "memory": remembered(repo), "graphs": graphs(repo)}


def graphs(repo: Repo) -> list[Any]:
    """What graphs see of their threads, and what their tasks wrote."""
    tenant, storage = repo.tenant, repo._ctx.storage
    places = [(found.namespace, found.checkpoint.id) for found in storage.find(tenant, Places())]
    return [places, [storage.find(tenant, Writes(info.uid)) for info in repo.threads()]]


def remembered(repo: Repo) -> list[Any]:
    """What shows of every item, and which versions are held."""
    store, found = repo.store, []
    for item in store.search(limit=None):
        versions = [(one.number, one.held) for one in store.history(item.namespace, item.key)]
        later = item.expires and (item.expires - item.updated).total_seconds() > 10**8
        found.append((item.namespace, item.key, item.value, versions, later))
    return found


def sound(repo: Repo) -> None:
    """Every record, object and page is what it should be."""
    problems = [str(report) for report in repo.verify() if not report.ok]
    assert problems == []
    assert repo.store.verify() == []
    assert repo.damage() == []


def writable(repo: Repo) -> None:
    """The next write of each thread, and a new thread, succeed; plans that hold one can be given up."""
    for plan in repo.recover(settle=False).plans:
        plan.abort("for the next write")
    for info in repo.threads():
        thread = repo.thread(info.name)
        before = thread.version
        assert thread.commit({"after": "the fault"}).version == before + 1
    repo.thread("made after the fault").commit({"one": 1})
    sound(repo)


def copy(source: Path, folder: Path) -> Path:
    """A closed store, copied: one file."""
    assert not os.path.exists(f"{source}-wal"), "the store was not closed"
    target = folder / "store.db"
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
    shutil.copy(source, target)
    return target


def together(
    count: int,
    opens: Callable[[], Repo],
    work: Callable[[Child, Repo, int], None],
    kills: dict[int, Kill] | None = None,
) -> list[Life]:
    """So many children at once, each with its number; they begin when all have opened the store."""
    ready, go = os.pipe(), os.pipe()

    def begin(child: Child, number: int) -> None:
        with opens() as repo:
            os.write(ready[1], b"r")
            os.read(go[0], 1)
            work(child, repo, number)

    children = [
        Running(lambda child, number=number: begin(child, number), (kills or {}).get(number))
        for number in range(count)
    ]
    os.close(ready[1])  # so that children that fail before they are ready are not waited for
    for _ in children:
        os.read(ready[0], 1)
    os.write(go[1], b"g" * count)
    lives = [child.wait() for child in children]
    for end in (ready[0], *go):
        os.close(end)
    return lives


def incompressible(size: int, seed: int = 1) -> str:
    """Text that takes as much room as it is long."""
    return random.Random(seed).randbytes(size // 2).hex()
