"""The real engine under the same random programs as its model: the same answers, and the same ledger after.

Steps, leases, runs, guard, approvals with facts and expiry, budgets, plans, forks and merges are in the
programs; workers that die, are stopped and come back too. Whatever differs is a bug in one of the two.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from takeback.engine import approvals, calls, lines, plans, steps
from takeback.engine.book import Book
from takeback.storage.memory import MemoryStorage
from takeback.storage.sqlite import SqliteStorage
from takeback.testing.effects.compare import difference
from takeback.testing.effects.drive import Drive
from takeback.testing.effects.engine import Engine
from takeback.testing.effects.model import Model
from takeback.testing.effects.mutations import program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from takeback.storage.base import Storage
    from takeback.testing.effects.world import World


def model(world: World, money: int, attempts: int) -> Model:
    return Model(world, money=money, attempts=attempts)


@contextmanager
def engines(storage: Callable[[], Storage]) -> Iterator[Callable[[World, int, int], Engine]]:
    """Makes engines, and lets go of them."""
    made: list[Engine] = []

    def make(world: World, money: int, attempts: int) -> Engine:
        made.append(Engine(storage(), world, money, attempts))
        return made[-1]

    yield make
    for engine in made:
        engine.end()


def first_difference(seeds: Iterable[int], storage: Callable[[], Storage] = MemoryStorage) -> str | None:
    for seed in seeds:
        with engines(storage) as make:
            found = difference(program(seed), model, make)
        if found is not None:
            return f"seed {seed}:\n{found}"
    return None


class Files:
    """A new store file for each program; durability is another test's."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0

    def __call__(self) -> SqliteStorage:
        self._count += 1
        return SqliteStorage(str(self._folder / f"{self._count}.db"), durability="relaxed")


def test_the_engine_answers_as_its_model_does() -> None:
    assert first_difference(range(150)) is None


def test_the_engine_answers_as_its_model_does_on_a_file(tmp_path: Path) -> None:
    assert first_difference(range(10_000, 10_030), Files(tmp_path)) is None


@pytest.mark.soak
@pytest.mark.parametrize("part", range(8))
def test_the_engine_answers_as_its_model_does_in_many_programs(part: int) -> None:
    assert first_difference(range(1_000_000 + part, 1_040_000, 8)) is None


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_the_engine_answers_as_its_model_does_in_many_programs_on_a_file(part: int, tmp_path: Path) -> None:
    assert first_difference(range(2_000_000 + part, 2_004_000, 4), Files(tmp_path)) is None


def test_the_programs_come_everywhere_in_the_engine() -> None:
    """Programs that the engine met with one and the same refusal would compare nothing."""
    met: Counter[str] = Counter()
    for seed in range(150):
        with engines(MemoryStorage) as make:
            met += Drive(program(seed), make).run().tally
    words = {
        "called", "recorded", "reused", "retried", "replayed", "closed", "died", "stopped", "woken",
        "granted", "resolved", "merged", "applied", "paused", "aborted", "waits", "open", "nothing",
    }  # fmt: skip
    assert {word for word in words if not met[word]} == set()
    refusals = {
        "step_in_progress", "step_lost", "effect_unknown", "effect_stands", "effects_denied",
        "cannot_undo", "not_undone", "replay_diverged", "approval_required", "same_person",
        "budget_exceeded", "rollback_in_progress", "merged", "undecided", "plan_stale",
        "plan_required", "not_acknowledged", "too_early",
    }  # fmt: skip
    assert {kind for kind in refusals if not met[f"refused {kind}"]} == set()


# --- the comparison notices

_real_standing, _real_closing = Book.standing, steps.closing


def _no_line(approval: Any, effect: Any, plan: Any) -> bool:
    return bool(approval.tool == effect.tool and approval.plan == plan)


def _settled(effect: Any, state: str, book: Any, **fields: Any) -> Any:
    return calls._replace(effect, state=state, dirty=False, settled_us=book.clock(), **fields)


WRONG: dict[str, tuple[Any, str, Any]] = {
    "no guard": (Book, "standing", lambda *_: []),
    "a guard of one's own line alone": (
        Book, "standing",
        lambda self, target, lineage: [e for e in _real_standing(self, target, lineage) if not e.uses],
    ),
    "a yes for any such call": (approvals, "_is_for", _no_line),
    "a yes without end": (approvals, "expired", lambda *_: False),
    "a failed retry settles": (calls, "settle", _settled),
    "no budget": (calls, "afford", lambda *_: None),
    "a close that uses nothing": (steps, "_used", lambda effect, _: effect),
    "a close over unknowns": (steps, "check_close", lambda session: session.still_mine()),
    "everything that stands undone": (
        plans, "_group", lambda effect, *_: "compensate" if effect.state == "done" else "never",
    ),
    "a plan that voids nothing": (approvals, "void", lambda *_, **__: []),
    "an undo that is repeated though it is not safe": (
        lines, "_abandoned", lambda line, effect, _: (calls._replace(line, state="todo"), effect),
    ),
}  # fmt: skip
"""Parts of the engine done wrongly: what, where, and how."""


BEGIN = {"a yes without end": 440}
"""Where to begin looking for what is seldom met."""


@pytest.mark.parametrize("name", WRONG)
def test_an_engine_that_does_it_wrongly_differs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the comparison would pass whatever the engine did."""
    place, what, instead = WRONG[name]
    monkeypatch.setattr(place, what, instead)
    begin = BEGIN.get(name, 0)
    assert first_difference(range(begin, begin + 60)) is not None
