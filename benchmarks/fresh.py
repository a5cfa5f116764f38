"""The first act of a process: a child opens the store of 1 MB, does one thing, and says how long it took."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from benchmarks import data
from benchmarks.measure import Work, timing

ROOT = Path(__file__).resolve().parents[1]


def run(act: str, folder: Path, count: int) -> dict[str, float]:
    """Do it in a child: milliseconds of each thing."""
    command = [sys.executable, "-m", "benchmarks.fresh", act, str(folder), str(count)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return msgspec.json.decode(done.stdout, type=dict[str, float])


def prepare(folder: Path, count: int) -> None:
    """The store and the raw file that children open."""
    import takeback
    from benchmarks.raw import Raw
    from takeback.model import canonical

    state = {"messages": data.messages(count)}
    with takeback.open(folder / "fresh.db") as repo:
        thread = repo.thread("big")
        if not thread.exists:
            thread.commit(state)
    raw = Raw(folder / "fresh-raw.db")
    raw.insert(canonical.encode(state))
    raw.close()


def commit(folder: Path, count: int) -> dict[str, float]:
    """One message more than the thread has; then raw inserts of that message, warm."""
    import takeback
    from benchmarks.raw import Raw

    state = {"messages": data.messages(count + 1)}
    with takeback.open(folder / "fresh.db") as repo:
        ours = Work(repo.thread("big").commit, lambda: state).timed()
    raw = Raw(folder / "fresh-warm.db")
    times = [raw.inserting(json.dumps(state["messages"][-1]).encode()).timed() for _ in range(50)]
    raw.close()
    return {"ours": ours, "raw": timing(times).p50}


def read(folder: Path, count: int) -> dict[str, float]:
    """Open, then read the head; then the same from one row of MessagePack."""
    import ormsgpack

    import takeback
    from benchmarks.raw import Raw

    began = time.perf_counter_ns()
    repo = takeback.open(folder / "fresh.db")
    opened = (time.perf_counter_ns() - began) / 1e6
    ours = Work(lambda _: repo.thread("big").state["messages"][count - 1]).timed()
    repo.close()
    raw = Raw(folder / "fresh-raw.db")
    plain = Work(lambda _: ormsgpack.unpackb(raw.last())).timed()
    raw.close()
    return {"open": opened, "ours": ours, "raw": plain}


if __name__ == "__main__":
    act = {"commit": commit, "read": read}[sys.argv[1]]
    print(json.dumps(act(Path(sys.argv[2]), int(sys.argv[3]))))
