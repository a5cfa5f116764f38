"""Effects: recording one, a step with one, a replayed call, and a plan over a thousand of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import takeback
from benchmarks import peers
from benchmarks.measure import Measure, Timing, Work, interleave, timing
from benchmarks.raw import Raw
from benchmarks.sizes import Sizes
from takeback.tools import registry

_INTENT = 500  # bytes: about what an effect's cell takes
_FORKS, _LINES = 10, 50
_PEER = "DBOS step"


def run(folder: Path, sizes: Sizes) -> Iterator[Measure]:
    tools = dict(registry._tools), dict(registry._undos)
    with takeback.open(folder / "effects.db") as repo:
        raw = Raw(folder / "effects-raw.db")
        yield recorded(repo, raw, sizes)
        yield from steps(repo, raw, folder, sizes)
        yield replayed(repo, sizes)
        raw.close()
    yield plan(folder, sizes)
    registry._tools, registry._undos = tools


def _noted(account: str, cents: int) -> dict[str, Any]:
    return {"account": account, "cents": cents}


def _unnoted(result: Any) -> None:
    """Nothing has to be taken back here."""


def recorded(repo: takeback.Repo, raw: Raw, sizes: Sizes) -> Measure:
    """A call in an open step: its intent and its outcome, each durable. Raw is two inserts.

    Steps of ten calls; the first intent carries the step's row.
    """
    pay = takeback.tool(name="bench_pay", undo=_unnoted, target="{account}")(_noted)
    thread = repo.thread("recorded", initial={})
    numbers = itertools.count()
    held: list[Any] = []

    def inside() -> int:
        number = next(numbers)
        if number % 10 == 0:
            if held:
                held.pop().__exit__(None, None, None)
            held.append(thread.step("pay"))
            held[-1].__enter__()
        return number

    def twice(_: Any) -> None:
        raw.insert(bytes(_INTENT))
        raw.insert(bytes(_INTENT))

    works = {"ours": Work(lambda number: pay("ACME", number), inside), "raw": Work(twice)}
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    held.pop().__exit__(None, None, None)
    return Measure("effect", "a call: intent and outcome", found["ours"], found["raw"], "two raw inserts")


def steps(repo: takeback.Repo, raw: Raw, folder: Path, sizes: Sizes) -> Iterator[Measure]:
    """A step with one effect, closed as a checkpoint: beside three raw inserts, and a step of DBOS, which
    writes its result down and no intent."""
    pay = takeback.tool(name="bench_step", undo=_unnoted, target="{account}")(_noted)
    thread = repo.thread("stepped", initial={"n": 0})

    def whole(number: int) -> None:
        with thread.step("pay") as one:
            one.state["n"] = pay("ACME", number)["cents"]

    def thrice(_: Any) -> None:
        for _ in range(3):
            raw.insert(bytes(_INTENT))

    numbers = itertools.count()
    works = {"ours": Work(whole, lambda: next(numbers)), "raw": Work(thrice)}
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    title = "a step with one call, closed"
    yield Measure("effect_step_raw", title, found["ours"], found["raw"], "three raw inserts")
    if sizes.peers and peers.installed(_PEER):
        ours, theirs = _beside_peer(works["ours"], folder / "beside", sizes)
        yield Measure("effect_step", title, ours, theirs, "a DBOS step")


def _beside_peer(ours: Work, folder: Path, sizes: Sizes) -> tuple[Timing, Timing]:
    """By turns, batch by batch, with a peer that times its own steps."""
    folder.mkdir()
    child = peers.Child(_PEER, folder)
    child.ask("turns", sizes.warm)
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(sizes.rounds):
        mine += [ours.timed() for _ in range(sizes.batch)]
        theirs += child.ask("turns", sizes.batch)
    child.close()
    return timing(mine), timing(theirs)


def replayed(repo: takeback.Repo, sizes: Sizes) -> Measure:
    """A call of a step of a run that is gone through again: what is recorded comes back."""
    pay = takeback.tool(name="bench_replay", undo=_unnoted, target="{account}")(_noted)
    thread = repo.thread("replayed", initial={})
    with thread.run("job"), thread.step("pay"):
        for number in range(100):
            pay("ACME", number)
    held: list[Any] = []
    numbers = itertools.count()

    def inside() -> int:
        number = next(numbers) % 100
        if number == 0:
            while held:
                held.pop().__exit__(None, None, None)
            for each in (thread.refresh().run("job"), thread.step("pay")):
                held.append(each)
                each.__enter__()
        return number

    works = {"ours": Work(lambda number: pay("ACME", number), inside)}
    found = interleave(works, rounds=sizes.rounds, batch=sizes.batch, warm=sizes.warm)
    while held:
        held.pop().__exit__(None, None, None)
    return Measure("replayed", "a replayed call, warm", found["ours"])


def plan(folder: Path, sizes: Sizes) -> Measure:
    """A plan over many effects of a thread with forks, over many lines."""
    pay = takeback.tool(name="bench_plan", undo=_unnoted, target="{account}")(_noted)
    with takeback.open(folder / "plan.db", durability="relaxed") as repo:
        thread = repo.thread("planned", initial={"n": 0})
        for line in range(_LINES):
            with thread.step("pay") as one, one.deciding("beside"):
                for number in range(sizes.effects // _LINES):
                    pay(f"{line}/{number}", number)
            if line % (_LINES // _FORKS) == 0:
                thread.fork(effects="guard")
            thread.plan_rollback(thread.version - 1, scope="state").apply(acknowledge=True)
        works = {"ours": Work(lambda _: str(thread.plan_rollback(0)))}
        found = interleave(works, rounds=sizes.big_rounds, batch=1, warm=2)
    return Measure("plan", f"a plan over {sizes.effects:,} effects", found["ours"])
