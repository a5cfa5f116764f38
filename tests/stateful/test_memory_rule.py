"""The real store of memory beside the executable rule: random programs of two agents, and of their forks."""

from __future__ import annotations

import random

import pytest

import takeback
from takeback.testing.effects.memory import Memory

SEEDS = range(150)


def drive(seed, url):
    """One program on both; after each move they show the same, also what plans foretell. Goings back."""
    source, rule, backs = random.Random(seed), Memory(), 0
    with takeback.open(url, durability="relaxed") as tb:
        threads = {name: tb.thread(name, initial={}) for name in rule.origins}
        for number in range(source.randrange(4, 16)):
            writer = source.choice([*threads])
            thread = threads[writer]
            if source.random() < 0.6:
                value = f"{writer} {number}" if source.random() < 0.8 else None
                item = source.choice(["x", "y"])
                write(tb, thread, item, value, number)
                rule.commit(writer, item, value)
            else:
                backs += 1
                version = source.randrange(rule.head(writer) + 1)
                plan = thread.plan_rollback(version)
                before = rule.shown()
                rule.go_back(writer, version)
                changed = {change.path[1] for change in plan.memory.changes}
                after = rule.shown()
                assert changed == {k for k in {*before, *after} if before.get(k) != after.get(k)}
                plan.apply()
            assert showing(tb) == rule.shown(), f"seed {seed}, move {number}"
            assert thread.version == rule.head(writer)
        held = [(one.item, one.value) for one in rule.held()]
        for item in ("x", "y"):
            versions = [(item, v.value) for v in reversed(tb.store.history("m", item)) if v.held]
            assert versions == [one for one in held if one[0] == item]
        assert all(report.ok for report in tb.verify())
        assert tb.store.verify() == []
    return backs


def write(tb, thread, item, value, number):
    with thread.step() as step:
        step.state["n"] = number
        if value is None:
            # The rule knows removals of what is not there; the store leaves those out.
            tb.store.put("m", item, "to be removed")
            tb.store.delete("m", item)
        else:
            tb.store.put("m", item, value)


def showing(tb):
    return {item.key: item.value for item in tb.store.search("m", limit=None)}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_store_keeps_the_rule(seed):
    """An item shows its newest version whose writer's head holds it, and a plan foretells what changes."""
    drive(seed, ":memory:")


@pytest.mark.parametrize("seed", range(150, 160))
def test_the_store_keeps_the_rule_on_a_file(seed, store_path):
    drive(seed, store_path)


@pytest.mark.parametrize("seed", range(160, 170))
def test_the_store_keeps_the_rule_on_postgresql(seed, postgres_url):
    drive(seed, postgres_url)


@pytest.mark.soak
def test_the_store_keeps_the_rule_in_many_programs():
    assert sum(drive(seed, ":memory:") for seed in range(1_000, 21_000)) > 10_000


@pytest.mark.parametrize("seed", range(60))
def test_undo_and_redo_bring_back_what_showed(seed):
    """Any number of undos, then as many redos, with two agents: what shows at the end is what showed before,
    and a person who never went back sees their own last words throughout, unless another wrote after them."""
    source = random.Random(seed)
    with takeback.open(":memory:") as tb:
        threads = [tb.thread(name, initial={}) for name in "ab"]
        for number in range(10):
            thread = source.choice(threads)
            write(tb, thread, source.choice("xy"), source.choice([f"{thread.name}{number}", None]), number)
        before, thread = showing(tb), source.choice(threads)
        top, count = thread.version, source.randrange(thread.version + 1)
        for _ in range(count):
            thread.undo()
        held = [v for item in "xy" for v in tb.store.history("m", item) if v.held]
        assert all(v.checkpoint <= top - count for v in held if v.thread == thread.name)
        for _ in range(count):
            thread.redo()
        assert showing(tb) == before
