"""A long run of writers that are killed, stopped and woken, on a store whose server, where it has one, is
killed under them. After each round all that was acknowledged is looked for.

`python -m tests.crash.soaking --help` runs it by itself."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import takeback
from takeback.errors import Moved, StoreError, UnknownOutcome
from takeback.repo import Repo
from takeback.testing.faults import Child, Running

T = TypeVar("T")
WRITERS = 8
SHARED = 3
HOUR_US = 3_600_000_000
Opens = Callable[..., Repo]
_numbers = itertools.count(1)


class Server(Protocol):
    """What a store's server can have done to it."""

    def kill(self) -> None: ...
    def start(self) -> None: ...


@dataclass
class Tally:
    """What a run did, and what it found. `lost`, `twice` and `unsound` are to stay empty."""

    seconds: float = 0.0
    rounds: int = 0
    kills: int = 0
    server_kills: int = 0
    stops: int = 0
    acknowledged: int = 0
    unknown: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    recovery_ms: list[float] = field(default_factory=list)
    server_recovery_ms: list[float] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        return not (self.lost or self.twice or self.unsound)

    def as_dict(self) -> dict[str, Any]:
        times = {name: _spread(getattr(self, name)) for name in ("recovery_ms", "server_recovery_ms")}
        found = asdict(self) | times
        return found | {name: len(found[name]) for name in ("lost", "twice", "unsound")}

    def __str__(self) -> str:
        counts = (
            f"{self.seconds:.0f} s, {self.rounds} rounds: {self.kills} writers killed, {self.stops} stopped "
            f"and woken, the server killed {self.server_kills} times; {self.acknowledged:,} writes "
            f"acknowledged, {self.unknown} of unknown outcome, {self.refused} refused while it was away; "
            f"{len(self.lost)} lost, {len(self.twice)} there twice, {len(self.unsound)} unsound"
        )
        spans = [("a first write after all were killed", self.recovery_ms),
                 ("after the server was killed", self.server_recovery_ms)]  # fmt: skip
        for name, times in spans:
            if times:
                found = _spread(times)
                counts += f"; {name} {found['p50']:.0f} ms (at most {found['max']:.0f})"
        return "\n".join([counts, *self.lost[:5], *self.twice[:5], *self.unsound[:5]])


def _spread(times: list[float]) -> dict[str, float]:
    ordered = sorted(times) or [0.0]
    return {"n": len(times), "p50": ordered[len(ordered) // 2], "max": ordered[-1]}


class Soak:
    """One run: where the store is, how it is opened, and whether its server is there to be killed."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        seed: int = 1,
        server: Server | None = None,
        opens: Opens = takeback.open,
    ) -> None:
        self.url, self.folder, self.server, self.opens = url, folder, server, opens
        self.rng = random.Random(seed)
        self.tally = Tally()
        self.acknowledged: dict[str, list[Any]] = {}
        self._lives = 0

    def run(self, seconds: float, told: Callable[[str], object] = lambda text: None) -> Tally:
        began = time.monotonic()
        while time.monotonic() - began < seconds or self.tally.rounds < 2:
            self.round(min(2.5, max(seconds / 3, 0.4)))
            self.tally.seconds = time.monotonic() - began
            told(str(self.tally))
        with takeback.open(self.url) as repo:
            self._judge_all(repo)
        return self.tally

    def round(self, seconds: float) -> None:
        """Writers at work, and what befalls them; at last all of them are killed at once."""
        name = f"r{self.tally.rounds}"
        self._begin(name)
        lives = [self._writer(name, number) for number in range(WRITERS)]
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                time.sleep(self.rng.uniform(0.05, 0.3))
                self._befalls(name, lives)
        finally:
            killed = time.monotonic()
            for running, _ in lives:
                running.signal(signal.SIGKILL)
        for running, log in lives:
            self._ended(running, log)
        self._recover(name, killed)
        self.tally.rounds += 1

    def _begin(self, name: str) -> None:
        with takeback.open(self.url) as repo:
            for number in range(SHARED):
                repo.thread(f"{name}/shared{number}", initial={"items": []})

    def _befalls(self, name: str, lives: list[tuple[Running, Path]]) -> None:
        number = self.rng.randrange(WRITERS)
        running, log = lives[number]
        what = self.rng.choice(["kill", "kill", "stop", "server"])
        if what == "stop":
            running.signal(signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.01, 0.2))
            running.signal(signal.SIGCONT)
            self.tally.stops += 1
        elif what == "server" and self.server is not None:
            self._kill_server(lives)
        else:
            running.signal(signal.SIGKILL)
            self._ended(running, log)
            lives[number] = self._writer(name, number)

    def _kill_server(self, lives: list[tuple[Running, Path]]) -> None:
        """The writers live on; how long until one of them is answered again."""
        assert self.server is not None
        at = time.monotonic()
        self.server.kill()
        self.server.start()
        self.tally.server_kills += 1
        # What was on its way when the server died may be heard of after it: only what comes now counts.
        ready = time.monotonic()
        while time.monotonic() < ready + 60:
            first = min((last for _, log in lives if (last := _last(log) or 0) > ready), default=None)
            if first is not None:
                self.tally.server_recovery_ms.append((first - at) * 1e3)
                return
            time.sleep(0.005)
        self.tally.unsound.append("no write succeeded for a minute after the server was killed")

    def _writer(self, name: str, number: int) -> tuple[Running, Path]:
        self._lives += 1
        log = self.folder / f"{name}-{number}-{self._lives}.log"
        log.touch()
        mark = f"{number}.{self._lives}"
        seed = self.rng.random()
        return Running(lambda child: _write(child, self, name, number, mark, log, seed)), log

    def _ended(self, running: Running, log: Path) -> None:
        assert running.wait().killed, "a writer ended by itself"
        self.tally.kills += 1
        for line in log.read_text().splitlines():
            try:
                kind, _, thread, version, identity, mark = json.loads(line)
            except json.JSONDecodeError:  # the last one, cut short by the kill
                continue
            if kind == "there":
                self.acknowledged[mark] = [thread, version, identity]
                self.tally.acknowledged += 1
            elif kind == "unknown":
                self.tally.unknown += 1
            else:
                self.tally.refused += 1

    def _recover(self, name: str, killed: float) -> None:
        """Whoever comes next can write; then all that this round was told is looked for."""
        with takeback.open(self.url) as repo:
            repo.thread(f"{name}/after", initial={"alive": True})
            self.tally.recovery_ms.append((time.monotonic() - killed) * 1e3)
            for number in range(SHARED):
                before = repo.thread(f"{name}/shared{number}").version
                made = repo.thread(f"{name}/shared{number}").append("items", f"after {number}")
                if made.version != before + 1:
                    self.tally.unsound.append(f"{name}: the write after it made version {made.version}")
            self._judge(repo, name)

    def _judge(self, repo: Repo, name: str) -> None:
        for info in repo.threads():
            if info.name.startswith(f"{name}/"):
                self._judge_thread(repo, info.name)
        mine = {mark: what for mark, what in self.acknowledged.items() if what[0].startswith(f"{name}/")}
        self._look_for(repo, mine)

    def _judge_all(self, repo: Repo) -> None:
        for info in repo.threads():
            self._judge_thread(repo, info.name)
        self._look_for(repo, self.acknowledged)
        self.tally.unsound += repo.damage()

    def _judge_thread(self, repo: Repo, name: str) -> None:
        report = repo.thread(name).verify()
        self.tally.unsound += [f"{name}: {problem}" for problem in report.problems]
        thread = repo.thread(name)
        marks = Counter(row.reason for row in thread.history() if row.reason)
        if "/shared" in name:
            items = list(thread.state["items"])
            if len(items) != thread.version:
                self.tally.unsound.append(f"{name}: {len(items)} items in {thread.version} versions")
            marks = Counter(items)
        self.tally.twice += [f"{name}: {mark}" for mark, count in marks.items() if count > 1]

    def _look_for(self, repo: Repo, wanted: dict[str, list[Any]]) -> None:
        held: dict[str, dict[str, tuple[int, str]]] = {}
        for mark, (name, version, identity) in wanted.items():
            if name not in held:
                rows = repo.thread(name).history() if repo.thread(name).exists else []
                held[name] = {row.reason or "": (row.version, row.id) for row in rows}
            if held[name].get(mark) != (version, identity):
                self.tally.lost.append(f"{name}: version {version}, {identity}, {mark}")
        self.tally.lost = sorted(set(self.tally.lost))


def _last(log: Path) -> float | None:
    """When the writer was last answered."""
    with suppress(json.JSONDecodeError, IndexError, OSError):
        lines = log.read_text().splitlines()
        for line in reversed(lines):
            kind, at, *_ = json.loads(line)
            if kind == "there":
                return float(at)
    return None


def _write(child: Child, soak: Soak, name: str, number: int, mark: str, log: Path, seed: float) -> None:
    """A process that writes until it is killed: one thread of execution, or three that share commits. The
    clock of the first is an hour behind."""
    signal.alarm(0)
    clock = (lambda: time.time_ns() // 1000 - HOUR_US) if number == 0 else None
    with _patiently(lambda: soak.opens(soak.url, clock=clock)) as repo:
        count = 3 if number % 2 else 1
        failures: list[BaseException] = []

        def work(place: int) -> None:
            try:
                _turns(repo, name, f"{mark}.{place}", log, random.Random(seed + place))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(count)]
        for thread in threads:
            thread.start()
        parent = os.getppid()
        while not failures and os.getppid() == parent:
            time.sleep(0.01)
        if failures:
            raise failures[0]


def _turns(repo: Repo, name: str, mark: str, log: Path, rng: random.Random) -> None:
    mine = _patiently(lambda: repo.thread(f"{name}/w{mark}"))
    shared = _patiently(lambda: [repo.thread(f"{name}/shared{number}") for number in range(SHARED)])
    with log.open("ab", buffering=0) as file:
        turn = 0
        while True:
            turn += 1
            said = f"{mark}.{turn}"
            thread = mine if rng.random() < 0.6 else rng.choice(shared)
            try:
                if thread is mine:
                    made = mine.commit({"turn": turn, "text": "x" * rng.randrange(2_000)}, reason=said)
                else:
                    made = thread.append("items", said, reason=said)
                what = ["there", time.monotonic(), thread.name, made.version, made.id, said]
            except UnknownOutcome:
                what = ["unknown", time.monotonic(), thread.name, 0, "", said]
            except (StoreError, Moved):
                what = ["away", time.monotonic(), thread.name, 0, "", said]
                time.sleep(0.01)
            file.write(json.dumps(what).encode() + b"\n")
            if what[0] != "there":
                with suppress(StoreError):
                    thread.refresh()


def _patiently(act: Callable[[], T]) -> T:
    """Even if the server is away just now."""
    while True:
        try:
            return act()
        except StoreError:
            time.sleep(0.02)


# --- an owner that is stopped


def stopped_owner(opens: Callable[[], Repo]) -> list[str]:
    """A worker is stopped in the middle of a step; another takes it over and ends it; the first one wakes.
    What its writes come to: the kinds of the errors."""
    with opens() as repo:
        repo.thread("owned", initial={"by": "nobody"})
    sent: list[str] = []

    def mail(to: str) -> str:
        sent.append(to)
        return f"sent to {to}"

    tool = takeback.tool(name=f"soak_mail_{next(_numbers)}")(mail)

    def work(child: Child) -> None:
        with opens() as repo:
            thread = repo.thread("owned")
            try:
                with thread.step("book") as step:
                    step.state["by"] = tool("ann")
                    os.kill(os.getpid(), signal.SIGSTOP)
                child.say("written")
            except Moved as error:
                child.say(error.kind)
            try:
                thread.commit({"by": "the first, late"})
                child.say("written")
            except Moved as error:
                child.say(error.kind)

    child = Running(work)
    assert os.WIFSTOPPED(os.waitpid(child.pid, os.WUNTRACED)[1])
    with opens() as repo:
        thread = repo.thread("owned")
        with thread.step("book", take_over=True) as step:
            step.state["by"] = tool("ann")
            step.state["then"] = "the second"
        child.signal(signal.SIGCONT)
        said: list[str] = child.wait().said
        assert sent == [], "what the first one did was done again"
        assert thread.refresh().state == {"by": "sent to ann", "then": "the second"}
        assert thread.verify().ok
    return said


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soaking", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    asked = parser.parse_args()
    found = {}
    for name, run in (("SQLite", _on_sqlite), ("PostgreSQL", _on_postgres)):
        with tempfile.TemporaryDirectory(prefix="tb-soak-") as folder:
            tally = found[name] = run(Path(folder), asked.seconds, asked.seed)
        if not asked.json:
            print(f"{name}, seed {asked.seed}: {tally}", flush=True)
    if asked.json:
        print(json.dumps({name: tally.as_dict() for name, tally in found.items()}, indent=2))
    sys.exit(0 if all(tally.sound for tally in found.values()) else 1)


def _on_sqlite(folder: Path, seconds: float, seed: int) -> Tally:
    return Soak(os.fspath(folder / "store.db"), folder, seed=seed).run(seconds, _shown)


def _on_postgres(folder: Path, seconds: float, seed: int) -> Tally:
    from takeback.testing.postgres import Server as Postgres

    with Postgres(fsync=True) as server:
        return Soak(server.url(), folder, seed=seed, server=server).run(seconds, _shown)


def _shown(text: str) -> None:
    print(text.splitlines()[0], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
