"""An owner that is stopped (SIGSTOP) and woken when another has taken over: two real processes. What it
learns late is evidence; its step, its head and its plan are another's by then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.effect_sweep import AGENT, PERSON, Here, charge, charge_once, mail

import takeback
from takeback import errors
from takeback.testing.faults import Child, Running, in_child
from takeback.testing.provider import Client, Provider


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    with Provider(tmp_path / "provider.db", honours_keys=False) as running:
        yield running


def stopped(path: Path, provider: Provider, work: Any, point: str) -> Running:
    """A child that does this and stops itself at a point of its call, as if by SIGSTOP from outside."""

    def live(child: Child) -> None:
        Here.client = Client(provider.port)

        def stop(label: str) -> None:
            if label == point:
                child.say("stops")
                os.kill(os.getpid(), signal.SIGSTOP)

        with takeback.open(path, actor=AGENT) as repo:
            thread = repo.thread("trip")
            Here.point = stop
            work(thread, child)

    running = Running(live)
    _, status = os.waitpid(running.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return running


def elsewhere(path: Path, provider: Provider, work: Any) -> list[Any]:
    """Another process does this, while the first stands still."""

    def live(child: Child) -> None:
        Here.client, Here.point = Client(provider.port), lambda _: None
        with takeback.open(path, actor=AGENT) as repo:
            work(repo, repo.thread("trip"), child)

    return in_child(live).said


@pytest.fixture
def path(store_path: Path) -> Path:
    def make(child: Child) -> None:
        with takeback.open(store_path) as repo:
            repo.thread("trip", agent=AGENT, initial={})

    in_child(make)
    return store_path


def books(thread: Any, child: Child) -> None:
    try:
        with thread.step("book") as step:
            child.say(["answered", charge("ACME", 42)])
            step.state["by"] = "the one that was stopped"
    except errors.StepLost as lost:
        child.say(["lost", lost.what])


@pytest.mark.parametrize("point", ["before charge", "after charge"])
def test_a_stopped_owner_brings_evidence_and_moves_no_head(
    path: Path, provider: Provider, point: str
) -> None:
    """It is woken after another took its step over: its call counts once, its end of the step does not."""
    running = stopped(path, provider, books, point)

    def takes_over(repo: Any, thread: Any, child: Child) -> None:
        with pytest.raises(errors.StepInProgress, match="is in the step"):
            thread.step("book").__enter__()
        step = thread.step("book", take_over=True)
        with pytest.raises(errors.EffectUnknown, match="cannot close"), step:
            child.say([e.state for e in thread.effects()])
        child.say(thread.version)

    assert elsewhere(path, provider, takes_over) == [["unknown"], 0]
    running.signal(signal.SIGCONT)
    life = running.wait()
    assert life.said[:2] == ["stops", ["answered", "charge-1"]]
    assert life.said[2][0] == "lost"
    assert "taken over" in life.said[2][1] or "meanwhile" in life.said[2][1]

    def goes_on(repo: Any, thread: Any, child: Child) -> None:
        child.say([[e.state, e.late] for e in thread.effects()])
        with thread.step("book") as step:
            child.say(charge("ACME", 42))
            step.state["by"] = "the other"
        child.say([thread.version, thread.state["by"]])
        child.say([str(report) for report in repo.verify() if not report.ok])

    said = elsewhere(path, provider, goes_on)
    assert said == [[["done", []]], "charge-1", [1, "the other"], []]
    assert provider.twice() == []
    assert provider.executed() == 1


def test_a_stopped_owner_whose_thread_went_back_ends_nothing(path: Path, provider: Provider) -> None:
    """Somebody rolls back past its step while it stands still; what it did shows as a discrepancy."""
    running = stopped(path, provider, books, "after charge")

    def goes_back(repo: Any, thread: Any, child: Child) -> None:
        with pytest.raises(errors.Undecided, match="before this can go back"):
            thread.plan_rollback(0).apply(acknowledge=True)
        with pytest.raises(errors.EffectUnknown), thread.step("book", take_over=True):
            pass
        thread.resolve(1, happened=True, result=Here.client.find(thread.effect(1).key), actor=PERSON)
        child.say(thread.plan_rollback(0).apply(acknowledge=True).checkpoint.version)

    assert elsewhere(path, provider, goes_back) == [1]
    running.signal(signal.SIGCONT)
    life = running.wait()
    assert life.said[-1][0] == "lost"

    def looks(repo: Any, thread: Any, child: Child) -> None:
        effect = thread.effect(1)
        child.say([effect.state, len(effect.late), thread.version, thread.head.kind])

    assert elsewhere(path, provider, looks) == [["undone", 1, 1, "rollback"]]
    assert (provider.executed(), provider.undone()) == (1, 1)


def goes_back(thread: Any, child: Child) -> None:
    try:
        child.say(["applied", thread.plan_rollback(0).apply("wrong").checkpoint.version])
    except errors.TakebackError as error:
        child.say(["refused", error.kind])


def a_charge(path: Path, provider: Provider, tool: Any) -> None:
    def pays(repo: Any, thread: Any, child: Child) -> None:
        with thread.step("pay"):
            tool("ACME", 42)

    elsewhere(path, provider, pays)


def test_a_stopped_applier_of_a_plan_ends_nothing_twice(path: Path, provider: Provider) -> None:
    """Another goes on with its plan when its lease is over; of the refund somebody has to say what it did."""
    a_charge(path, provider, charge_once)
    running = stopped(path, provider, goes_back, "after refund")

    def goes_on(repo: Any, thread: Any, child: Child) -> None:
        repo._ctx.clock = book_clock(repo)
        found = repo.recover()
        child.say([[e.state for e in found.effects], [p.state for p in found.plans]])
        thread.resolve(1, happened=True, actor=PERSON)
        found.plans[0].retry(1)
        child.say([thread.refresh().version, thread.head.kind])

    assert elsewhere(path, provider, goes_on) == [[["undo_unknown"], ["paused"]], [2, "rollback"]]
    running.signal(signal.SIGCONT)
    life = running.wait()
    assert life.said[-1][0] in ("applied", "refused")

    def looks(repo: Any, thread: Any, child: Child) -> None:
        child.say([thread.effect(1).state, thread.version, [p.state for p in repo.recover().plans]])

    assert elsewhere(path, provider, looks) == [["undone", 2, []]]
    assert provider.undone() == 1


def book_clock(repo: Any) -> Any:
    """Ten minutes on: after the lease of whoever stands still."""
    now = repo._ctx.clock
    later = lambda: now() + 10 * 60 * 1_000_000  # noqa: E731 (it is a clock)
    repo._ctx.shared_clock = later
    for book in repo._ctx.books.values():
        book.clock = later
    return later


def test_a_call_that_was_stopped_past_its_deadline_is_not_made(path: Path, provider: Provider) -> None:
    """It was decided meanwhile that the call did not happen; who wakes up then keeps to that."""

    def mails(thread: Any, child: Child) -> None:
        real, done = thread._ctx.storage.apply, []

        def stops_behind_the_intent(batch: Any) -> Any:
            answer = real(batch)
            if not done:
                done.append(True)
                child.say("stops")
                os.kill(os.getpid(), signal.SIGSTOP)
                # A second for each minute that it would have slept.
                now = thread._ctx.clock
                for book in thread._ctx.books.values():
                    book.clock = lambda: now() + 10 * 60 * 1_000_000
            return answer

        thread._ctx.storage.apply = stops_behind_the_intent
        try:
            with thread.step("tell"):
                mail("ada", 1)
        except takeback.NotDone as not_done:
            child.say(["not done", str(not_done)])

    running = stopped(path, provider, mails, "never")

    def decides(repo: Any, thread: Any, child: Child) -> None:
        with pytest.raises(errors.EffectUnknown), thread.step("tell", take_over=True):
            pass
        later = book_clock(repo)
        repo._ctx.clock = later
        child.say(thread.resolve(1, happened=False, actor=PERSON).state)

    assert elsewhere(path, provider, decides) == ["failed"]
    running.signal(signal.SIGCONT)
    life = running.wait()
    assert life.said[1][0] == "not done"
    assert "its deadline has passed" in life.said[1][1]
    assert provider.executed() == 0
