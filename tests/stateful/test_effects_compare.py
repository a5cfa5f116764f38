"""Two subjects on the same programs: what differs is shown, and where it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from takeback.testing.effects.compare import Difference, difference
from takeback.testing.effects.model import Model
from takeback.testing.effects.mutations import MUTATIONS, mutated, program, shrink

if TYPE_CHECKING:
    from takeback.testing.effects.drive import Make
    from takeback.testing.effects.rules import Rules
    from takeback.testing.effects.world import World


def made(rules: Rules | None = None) -> Make:
    def make(world: World, money: int, attempts: int) -> Model:
        return Model(world, rules, money=money, attempts=attempts)

    return make


def test_the_same_rules_give_the_same_answers() -> None:
    for seed in range(60):
        assert difference(program(seed), made(), made()) is None


@pytest.mark.parametrize(
    "name",
    [
        "guard within one thread",
        "a replay calls",
        "any commit absorbs",
        "a stale plan",
        "an approval not bound to its call",
        "did not happen before the deadline",
        "two owners of one step",
        "money spent is gone",
        "a key without occurrence",
    ],
)
def test_other_rules_give_other_answers_sooner_or_later(name: str) -> None:
    """What a driver sees of a rule, a comparison sees too, at the first answer that it changes."""
    found = (difference(program(seed), made(), made(mutated(name))) for seed in range(60))
    assert any(one is not None for one in found)


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTATIONS)
def test_all_other_rules_give_other_answers(name: str) -> None:
    found = (difference(program(seed), made(), made(mutated(name))) for seed in range(6_000))
    assert any(one is not None for one in found)


def test_a_difference_says_what_was_alike_before_it() -> None:
    rules = mutated("guard only after a rollback")

    def differs(choices: list[int]) -> bool:
        return difference(choices, made(), made(rules)) is not None

    short = shrink(next(program(seed) for seed in range(20) if differs(program(seed))), differs)
    found = difference(short, made(), made(rules))
    assert isinstance(found, Difference)
    assert "calls" in found.verb
    assert found.one[:2] == ("refused", "effect_stands")
    assert found.other[0] == "called"
    assert found.before
    assert str(found).splitlines()[-3:] == [
        found.verb, f"  one:   {found.one}", f"  other: {found.other}",
    ]  # fmt: skip


def test_a_subject_that_stops_earlier_differs() -> None:
    """One that breaks a promise has no more answers; that is a difference and no crash of the comparison."""

    class Forgetful(Model):
        def believed(self, thread: str, version: int) -> frozenset[int]:
            return frozenset()

    def forgetful(world: World, money: int, attempts: int) -> Model:
        return Forgetful(world, money=money, attempts=attempts)

    found = next(
        one for seed in range(20) if (one := difference(program(seed), made(), forgetful)) is not None
    )
    assert found.other == ("broken", "belief")


def test_ledgers_are_compared_when_all_answers_were_alike() -> None:
    class Vain(Model):
        def discrepancies(self, thread: str) -> dict[str, tuple[int, ...]]:
            return {}

    def vain(world: World, money: int, attempts: int) -> Model:
        return Vain(world, money=money, attempts=attempts)

    found = [difference(program(seed), made(), vain) for seed in range(60)]
    told = [one for one in found if one is not None]
    assert told
    assert {one.verb for one in told} == {"discrepancies"}
