"""A process that is killed around and inside calls of tools, rollbacks, undos and workers, beside a provider
that counts: nothing is executed or compensated twice without a decision, nothing that was acknowledged is
lost, what is unknown is parked, and the history verifies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.effect_sweep import (
    TOOLS,
    Act,
    Facts,
    Mending,
    Sweep,
    charge,
    charge_once,
    keys,
)

import takeback
from takeback import calling, errors
from takeback.engine import book, lines
from takeback.model.ledger import Effect, effect_key, slot
from takeback.testing.faults import Child, Kill, Life
from takeback.testing.provider import Provider
from takeback.thread import Thread
from takeback.tools import Tool, registry

COUNTS: Counter[str] = Counter()


@pytest.fixture(scope="module", params=["honours keys", "ignores keys"])
def provider(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder = tmp_path_factory.mktemp("provider")
    honours = request.param == "honours keys"
    with Provider(folder / "provider.db", honours_keys=honours) as running:
        running.honours = honours  # type: ignore[attr-defined]  # for the tests
        yield running


def honours(provider: Provider) -> bool:
    return bool(provider.honours)  # type: ignore[attr-defined]  # see the fixture


def nothing(thread: Thread[Any], child: Child) -> None:
    """No setup."""


# --- a call


def calls(tool: Tool[..., Any]) -> Act:
    def act(thread: Thread[Any], child: Child) -> None:
        with thread.run("job"), thread.step("act") as step:
            answer = tool(thread.name, 42)
            child.say(["answered", answer])
            step.state["answer"] = answer
        child.say(["closed", thread.version])

    return act


def calls_again(tool: Tool[..., Any]) -> Any:
    """The same script from its first line; what is unknown is decided, and it runs once more."""

    def again(mending: Mending) -> None:
        act = calls(tool)
        mending.recover()
        try:
            act(mending.thread, mending.child)
            return
        except errors.NotDone:
            mending.said.append("did not happen")
            return
        except errors.EffectUnknown:
            mending.said.append("parked")
        mending.resolve()
        try:
            act(mending.thread.refresh(), mending.child)
        except errors.NotDone:
            mending.said.append("did not happen")

    return again


def judge(provider: Provider, life: Life, facts: Facts, at: str) -> None:
    """The ledger against what was counted."""
    assert facts.problems == [], at
    for effect in facts.effects:
        judge_effect(provider, effect, at)
    mine = {key for effect in facts.effects for key in keys(effect)}
    here = (facts.name, f"{facts.name}/")
    deeds = [deed for deed in provider.deeds() if about(deed).startswith(here[1]) or about(deed) == here[0]]
    assert {deed["key"] for deed in deeds} <= mine, f"{at}: done without an intent"
    unknown = [number for seen in facts.found[:1] for number, state in seen if "unknown" in state]
    assert set(unknown) <= set(facts.parked), at


def about(deed: dict[str, Any]) -> str:
    """The account that was charged, written to or set."""
    asked = deed["asked"]
    return str(asked.get("account") or asked.get("to") or asked.get("name") or "")


def judge_effect(provider: Provider, effect: Effect, at: str) -> None:
    executed = sum(provider.executed(key) for key in keys(effect))
    undone = sum(provider.undone(key) for key in keys(effect))
    by_key = effect.repeat == "keyed" and not honours(provider)
    assert executed <= (effect.attempts if by_key else 1), f"{at}: executed {executed} times"
    assert undone <= 1, f"{at}: compensated {undone} times"
    if effect.within:
        return
    if effect.state in ("done", "failed"):
        assert (executed > 0) == (effect.state == "done"), f"{at}: {effect.state}, {executed} counted"
        assert undone == 0, f"{at}: {effect.state}, and it was compensated"
    if effect.state == "undone":
        assert undone == 1, f"{at}: undone, and {undone} compensations were counted"


def judge_call(provider: Provider, preset: str, life: Life, facts: Facts, at: str) -> None:
    """After the script ran again: what was answered or closed before the kill is there, and once."""
    judge(provider, life, facts, at)
    words = [each[0] for each in life.said]
    if preset == "pure":
        assert facts.effects == [], at
        return
    first = facts.found[0]
    if "answered" in words:  # acknowledged: it is done, and nobody is asked
        assert all(state == "done" for _, state in first), f"{at}: {first} after an answer"
        assert "parked" not in facts.said, at
    assert len(facts.effects) <= 1, f"{at}: {len(facts.effects)} effects of one call"
    for effect in facts.effects:
        assert effect.state in ("done", "failed"), at
        assert effect.uses or effect.state == "failed", at
        if effect.within:
            assert facts.notes == 1, f"{at}: {facts.notes} rows"
    if "parked" in facts.said:
        assert facts.parked, f"{at}: nobody was told of an unknown"


def sweep_call(
    provider: Provider, folder: Path, preset: str, step: int, late: tuple[bool, ...], first: int = 0
) -> int:
    tool = TOOLS[preset]
    sweep = Sweep(folder, provider, setup=nothing, act=calls(tool), again=calls_again(tool))
    points = sweep.points()
    around = [label for label in points if label.startswith(("before", "after"))]
    assert around, preset
    kills = 0
    for n in range(first, len(points), step):
        for after in late:
            at = f"{preset} at {points[n]} ({n}, {'after' if after else 'before'})"
            life, facts = sweep.kill(Kill(n, after=after))
            assert life.killed, at
            judge_call(provider, preset, life, facts, at)
            kills += 1
    COUNTS["points"] += len(points)
    COUNTS["kills"] += kills
    return kills


@pytest.mark.parametrize("preset", TOOLS)
def test_killed_around_a_call(provider: Provider, tmp_path: Path, preset: str) -> None:
    """A kill before one point is a kill after the one before it; each third one here, others for the other
    provider, and all under soak."""
    assert sweep_call(provider, tmp_path, preset, 3, (False,), first=int(honours(provider))) >= 2


@pytest.mark.soak
@pytest.mark.parametrize("preset", TOOLS)
def test_killed_at_every_point_around_a_call(provider: Provider, tmp_path: Path, preset: str) -> None:
    for _ in range(3):
        sweep_call(provider, tmp_path, preset, 1, (False, True))


# --- a rollback of five, of which one compensation fails


def charging(provider: Provider) -> Tool[..., Any]:
    """Where keys are not honoured, an undo is not safe to repeat, and has to be declared so."""
    return charge if honours(provider) else charge_once


def five_charges(provider: Provider, count: int = 5) -> Act:
    tool = charging(provider)

    def setup(thread: Thread[Any], child: Child) -> None:
        with thread.step("pay") as step:
            for number in range(count):
                tool(f"{thread.name}/{number}", 100 + number)
            step.state["paid"] = count

    return setup


def rolls_back(thread: Thread[Any], child: Child) -> None:
    """To the end: what the provider refuses once is tried again."""
    try:
        thread.plan_rollback(0).apply("wrong city", acknowledge=True)
    except errors.PlanPaused:
        end_of(thread)
    child.say(["applied", thread.refresh().version])


def end_of(thread: Thread[Any]) -> None:
    from takeback.recovery import PendingPlan

    held = thread._book()
    plan = next(one for one in held.plans.values() if one.live)
    failed = next(line for line in plan.lines if line.state == "failed")
    PendingPlan(thread._ctx, held, plan).retry(held.effects[failed.effect].number)


def rolls_back_again(mending: Mending) -> None:
    mending.bring_to_an_end()
    thread = mending.thread.refresh()
    if thread.head.kind != "rollback":  # it was killed before it had begun
        try:
            thread.plan_rollback(0).apply("wrong city", acknowledge=True)
        except errors.PlanPaused:
            mending.bring_to_an_end()


def sweep_rollback(sweep: Sweep, count: int, step: int, late: tuple[bool, ...], first: int = 0) -> int:
    provider = sweep.provider
    points = arm_and(sweep, sweep.points, count)
    kills = 0
    for n in range(first, len(points), step):
        for after in late:
            at = f"{points[n]} ({n}, {'after' if after else 'before'})"
            life, facts = arm_and(sweep, lambda n=n, after=after: sweep.kill(Kill(n, after=after)), count)
            assert life.killed, at
            judge(provider, life, facts, at)
            states = [effect.state for effect in facts.effects]
            assert states == ["undone"] * count, f"{at}: {states}"
            assert facts.head in ("rollback", "undo"), at
            kills += 1
    COUNTS["points"] += len(points)
    COUNTS["kills"] += kills
    return kills


def arm_and(sweep: Sweep, act: Any, count: int) -> Any:
    """The middle one of the refunds is refused, once."""
    sweep.provider.arm("refund", *["ok"] * (count // 2), "refuse")
    return act()


def rollback(provider: Provider, folder: Path) -> Sweep:
    return Sweep(folder, provider, setup=five_charges(provider), act=rolls_back, again=rolls_back_again)


def test_killed_in_a_rollback_of_five(provider: Provider, tmp_path: Path) -> None:
    first = 3 + 4 * honours(provider)
    assert sweep_rollback(rollback(provider, tmp_path), 5, 9, (False,), first) >= 5


@pytest.mark.soak
def test_killed_at_every_point_of_a_rollback_of_five(provider: Provider, tmp_path: Path) -> None:
    sweep_rollback(rollback(provider, tmp_path), 5, 1, (False, True))


# --- an undo


def takes_one_back(thread: Thread[Any], child: Child) -> None:
    try:
        thread.undo_effect(1)
    except errors.Undecided:  # the provider refuses once
        thread.undo_effect(1)
    child.say(["undone", 1])


def takes_one_back_again(mending: Mending) -> None:
    mending.recover()
    mending.resolve()
    for _ in range(3):
        if mending.thread.effect(1).state == "undone":
            return
        try:
            mending.thread.undo_effect(1)
        except errors.Undecided:
            mending.resolve()


def undoing_one(provider: Provider, folder: Path) -> Sweep:
    setup = five_charges(provider, 1)
    return Sweep(folder, provider, setup=setup, act=takes_one_back, again=takes_one_back_again)


def sweep_undo(sweep: Sweep, step: int, late: tuple[bool, ...]) -> int:
    points = arm_and(sweep, sweep.points, 1)
    kills = 0
    for n in range(0, len(points), step):
        for after in late:
            at = f"undo at {points[n]} ({n}, {'after' if after else 'before'})"
            life, facts = arm_and(sweep, lambda n=n, after=after: sweep.kill(Kill(n, after=after)), 1)
            assert life.killed, at
            judge(sweep.provider, life, facts, at)
            assert [effect.state for effect in facts.effects] == ["undone"], at
            kills += 1
    COUNTS["points"] += len(points)
    COUNTS["kills"] += kills
    return kills


def test_killed_while_one_effect_is_undone(provider: Provider, tmp_path: Path) -> None:
    assert sweep_undo(undoing_one(provider, tmp_path), 3, (False,)) >= 4


@pytest.mark.soak
def test_killed_at_every_point_while_one_effect_is_undone(provider: Provider, tmp_path: Path) -> None:
    sweep_undo(undoing_one(provider, tmp_path), 1, (False, True))


def goes_back_one(thread: Thread[Any], child: Child) -> None:
    try:
        thread.plan_undo().apply("wrong")
    except errors.PlanPaused:
        end_of(thread)
    child.say(["applied", thread.refresh().version])


def goes_back_one_again(mending: Mending) -> None:
    mending.bring_to_an_end()
    thread = mending.thread.refresh()
    if thread.head.kind != "undo":
        try:
            thread.plan_undo().apply("wrong")
        except errors.PlanPaused:
            mending.bring_to_an_end()


def test_killed_in_an_undo_of_a_step(provider: Provider, tmp_path: Path) -> None:
    setup = five_charges(provider, 1)
    sweep = Sweep(tmp_path, provider, setup=setup, act=goes_back_one, again=goes_back_one_again)
    assert sweep_rollback(sweep, 1, 6, (False,), 2 + honours(provider)) >= 3


@pytest.mark.soak
def test_killed_at_every_point_of_an_undo_of_a_step(provider: Provider, tmp_path: Path) -> None:
    setup = five_charges(provider, 1)
    sweep = Sweep(tmp_path, provider, setup=setup, act=goes_back_one, again=goes_back_one_again)
    sweep_rollback(sweep, 1, 1, (False, True))


# --- a worker


def leaves_it_to_a_worker(provider: Provider) -> Act:
    """A plan is begun where the tools are not."""
    pay = five_charges(provider, 3)

    def setup(thread: Thread[Any], child: Child) -> None:
        pay(thread, child)
        held = registry._tools, registry._undos
        registry._tools, registry._undos = {}, {}
        with pytest.raises(errors.PlanPaused, match="for a worker"):
            thread.plan_rollback(0).apply("wrong city", wait=0)
        registry._tools, registry._undos = held

    return setup


def works(thread: Thread[Any], child: Child) -> None:
    repo = takeback.Repo(thread._ctx.storage, actor="worker")
    repo.work()
    for plan in repo.recover().plans:
        if plan.thread == thread.name and plan.state == "paused":
            end_of(thread.refresh())
    repo.work()
    child.say(["worked", thread.refresh().version])


def works_again(mending: Mending) -> None:
    """Another worker takes over; then a person sees to what is left."""
    mending.repo.work()
    mending.bring_to_an_end()


def working(provider: Provider, folder: Path) -> Sweep:
    return Sweep(folder, provider, setup=leaves_it_to_a_worker(provider), act=works, again=works_again)


def test_a_worker_that_is_killed(provider: Provider, tmp_path: Path) -> None:
    assert sweep_rollback(working(provider, tmp_path), 3, 9, (False,), 2 + 3 * honours(provider)) >= 3


@pytest.mark.soak
def test_a_worker_that_is_killed_at_every_point(provider: Provider, tmp_path: Path) -> None:
    sweep_rollback(working(provider, tmp_path), 3, 1, (False, True))


# --- the sweep notices


def calls_before_intent(tool: Any, args: Any, kwargs: Any) -> Any:
    """What many do: call, and write down afterwards that it was done."""
    session, named = calling._entered(tool, args, kwargs)
    if session.stored:
        return REAL_CALL(tool, args, kwargs)
    spec = tool.spec(named)
    with calling._keyed(effect_key(slot(session.cell, spec.tool, spec.hashed, 0), 0)):
        answer = tool.raw(*args, **kwargs)
    raw, tool.raw = tool.raw, lambda *_, **__: answer
    try:
        return REAL_CALL(tool, args, kwargs)
    finally:
        tool.raw = raw


REAL_CALL = calling.call
REAL_ABANDONED = lines._abandoned


def failed_when_lost(effect: Effect) -> Effect:
    return book.msgspec.structs.replace(effect, state="failed")


def safe_to_repeat(line: Any, effect: Effect, clock: int) -> Any:
    return REAL_ABANDONED(line, book.msgspec.structs.replace(effect, undo_safe=True), clock)


def a_call(provider: Provider, folder: Path) -> None:
    sweep_call(provider, folder, "compensable", 1, (False,), first=4)


def a_rollback(provider: Provider, folder: Path) -> None:
    sweep_rollback(rollback(provider, folder), 5, 3, (False,))


BROKEN: dict[str, tuple[Any, Any, str, Any, str]] = {
    "outcome before intent": (a_call, calling, "call", calls_before_intent, "executed 2 times"),
    "lost taken for failed": (a_call, book, "lost", failed_when_lost, "failed, 1 counted"),
    "an undo repeated that is not safe": (
        a_rollback, lines, "_abandoned", safe_to_repeat, "compensated 2 times",
    ),
}  # fmt: skip
"""Which sweep it is for, what is done wrongly where, and what is found."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_sweep_catches_an_engine_that_does_it_wrongly(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same sweeps over engines that are broken on purpose fail, and say why."""
    sweep, place, what, instead, complaint = BROKEN[name]
    monkeypatch.setattr(place, what, instead)
    with Provider(tmp_path / "provider.db", honours_keys=False) as provider:
        provider.honours = False  # type: ignore[attr-defined]  # see the fixture
        with pytest.raises(AssertionError, match=complaint):
            sweep(provider, tmp_path)


def test_what_is_swept_is_what_it_is_called(tmp_path: Path) -> None:
    """Each preset's points: its intent and outcome with the call between them, or nothing but the call."""
    with Provider(tmp_path / "provider.db") as provider:
        provider.honours = True  # type: ignore[attr-defined]  # see the fixture
        for preset in ("pure", "compensable", "transactional"):
            tool = TOOLS[preset]
            sweep = Sweep(tmp_path, provider, setup=nothing, act=calls(tool), again=calls_again(tool))
            points = sweep.points()
            around = [n for n, label in enumerate(points) if label.startswith(("before", "after"))]
            commits = [n for n, label in enumerate(points) if label == "committed"]
            before = sum(n < around[0] for n in commits)
            wanted = int(preset == "compensable")
            assert before == wanted, f"{preset}: {points}"
