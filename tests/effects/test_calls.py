"""Calls inside a step: matched by content, recorded with their outcome, repeated only where that is safe."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import msgspec
import pytest

import takeback
from takeback import NotDone, calling, errors


def attempt(thread, *calls, label="book", fails=False, **options):
    """Enter the step, make the calls; and fail at its end, so that it stays open."""
    came = []
    try:
        with thread.step(label, **options) as s:
            for call in calls:
                came.append(call())
            s.state["n"] = len(calls)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return came


def test_a_call_is_recorded_and_its_step_closes_with_it(trip, do, world):
    with trip.step("book", reason="asked") as s:
        s.state["n"] = 1
        assert do.charge("ACME", 4200) == {"id": 1}
    (effect,) = trip.effects()
    assert (effect.number, effect.state, effect.shown) == (1, "done", "charge $42.00 to ACME")
    assert (effect.target, effect.cost, effect.undo, effect.actor) == (
        "ACME", {"money": 4200}, "refund@1", "bot",
    )  # fmt: skip
    assert [(use.thread, use.version) for use in effect.uses] == [(trip.info.uid, 1)]
    assert (s.made.version, s.made.kind, bool(s.made.uses), trip.head.ledger) == (1, "step", True, "")
    assert effect.key == world.keys[0]
    assert trip.verify().ok


def test_a_step_that_called_something_makes_a_version_though_nothing_changed(trip, do):
    with trip.step("mail") as s:
        do.mail("ada")
    assert (s.made.version, trip.state["n"]) == (1, 0)
    with trip.step("look") as s:
        assert do.look("x") == "X"
    assert (s.made, trip.version, len(trip.effects())) == (None, 1, 1)


def test_without_a_step_a_call_is_refused_and_raw_makes_it(trip, do, world):
    """Nothing would record it; `raw` says so."""
    with pytest.raises(errors.NoStep, match=r"charge was called where no step is open.*charge.raw"):
        do.charge("ACME", 1)
    assert world.log == []
    with pytest.raises(errors.NoStep, match="no tool is being called"):
        takeback.effect_key()


def test_a_tool_inside_a_tool_is_refused(trip, do):
    @takeback.tool
    def outer():
        do.mail("ada")

    with pytest.raises(errors.ToolInTool, match="mail was called inside another tool"):
        attempt(trip, outer)
    assert [effect.state for effect in trip.effects()] == ["unknown"]


def test_after_an_exception_the_same_calls_give_what_they_gave(trip, do, world):
    """Matched by content: the order may be another."""
    first = attempt(trip, lambda: do.charge("A", 1), lambda: do.charge("B", 2), fails=True)
    assert trip.version == 0
    second = attempt(trip, lambda: do.charge("B", 2), lambda: do.charge("A", 1))
    assert (second, len(world.log)) == (first[::-1], 2)
    assert (trip.version, [effect.state for effect in trip.effects()]) == (1, ["done", "done"])


def test_two_equal_calls_in_one_step_are_two(trip, do, world):
    """Two identical orders: both are made, and both are found again, in their order."""
    first = attempt(trip, lambda: do.order("chair"), lambda: do.order("chair"), fails=True)
    assert first == ["order 1", "order 2"]
    assert attempt(trip, *[lambda: do.order("chair")] * 3) == ["order 1", "order 2", "order 3"]
    assert [effect.occurrence for effect in trip.effects()] == [0, 1, 2]
    assert len({effect.key for effect in trip.effects()}) == 3


def test_a_repeat_of_what_ones_history_knows_is_made(trip, do, world):
    """A closed step's call is no answer to another step's."""
    for _ in range(3):
        attempt(trip, lambda: do.charge("ACME", 5))
    assert len(world.log) == 3
    assert [effect.ord for effect in trip.effects()] == [0, 1, 2]


def test_not_done_is_a_failure_that_is_told_again(trip, do, world):
    """Nothing happened: the step may close over it, and the same call is not made again in it."""
    world.fates["charge"] = [NotDone("card declined")]
    said = []
    for fails in (True, False):

        def call():
            try:
                return do.charge("ACME", 5)
            except NotDone as refused:
                return said.append(str(refused))

        attempt(trip, call, fails=fails)
    assert (said, world.log) == (["card declined"] * 2, [])
    (effect,) = trip.effects()
    assert (effect.state, effect.error, effect.uses) == ("failed", "card declined", [])
    assert attempt(trip, lambda: do.charge("ACME", 5)) == [{"id": 1}]


def test_any_other_exception_leaves_it_unknown(trip, do, world):
    """It is not made again by itself, and the step cannot close over it."""
    world.fates["charge"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError) as broken, trip.step("book"):
        do.charge("ACME", 5)
    assert broken.value.__notes__ == [
        "takeback: whether #1 (charge $0.05 to ACME) happened is not known; `takeback effects resolve 1`"
    ]
    (effect,) = trip.effects()
    assert (effect.state, effect.error) == ("unknown", "ConnectionError: line cut")
    with pytest.raises(errors.EffectUnknown, match="is not made again by itself"):
        attempt(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(errors.EffectUnknown, match="cannot close"), trip.step("book"):
        pass
    assert (len(world.log), trip.version) == (1, 0)


def test_a_keyed_call_is_tried_again_with_its_key(trip, do, world):
    world.fates["put"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError):
        attempt(trip, lambda: do.put("limit", 5))
    assert attempt(trip, lambda: do.put("limit", 5)) == [2]
    assert len(set(world.keys)) == 1
    assert [(e.state, e.attempts) for e in trip.effects()] == [("done", 2)]


def test_a_refused_retry_does_not_settle_an_unknown_try(trip, do, world):
    """The first try may stand; only success, a probe or a person says."""
    world.fates["put"] = [ConnectionError("line cut"), NotDone("try later")]
    for kind in (ConnectionError, NotDone):
        with pytest.raises(kind):
            attempt(trip, lambda: do.put("limit", 5))
    assert [effect.state for effect in trip.effects()] == ["unknown"]
    assert attempt(trip, lambda: do.put("limit", 5)) == [2]


def test_a_key_is_not_sent_when_the_provider_has_forgotten_it(trip, do, world, clock):
    world.fates["put"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError):
        attempt(trip, lambda: do.put("limit", 5))
    clock.passes(hours=1.1)
    with pytest.raises(errors.EffectUnknown):
        attempt(trip, lambda: do.put("limit", 5))
    assert len(world.log) == 1


# --- people settle


@pytest.mark.parametrize("happened", [True, False])
def test_a_person_says_what_happened(trip, do, world, clock, happened):
    world.fates["charge"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError):
        attempt(trip, lambda: do.charge("ACME", 5))
    clock.passes(hours=1)
    settled = trip.resolve(1, happened=happened, actor="ada")
    assert settled.state == ("done" if happened else "failed")
    assert [(said.what, said.by) for said in settled.decisions] == [
        (f"resolved unknown: {'happened' if happened else 'did not'}", "ada")
    ]
    assert [entry.action for entry in trip.audit()][-1] == "effect.resolved"
    if happened:  # it did, and what came back nobody knows
        with pytest.raises(errors.EffectUnreadable, match="nobody has recorded it"):
            attempt(trip, lambda: do.charge("ACME", 5))
    else:
        with pytest.raises(NotDone):
            attempt(trip, lambda: do.charge("ACME", 5))


def test_that_it_did_not_happen_is_refused_before_the_deadline(trip, do, world, clock):
    """The call may still be on its way; that it happened may be said at once."""
    world.fates["charge"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError):
        attempt(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(errors.Undecided, match=r"may still be on its way for (300|299) s"):
        trip.resolve(1, happened=False, actor="ada")
    clock.passes(seconds=301)
    assert trip.resolve(1, happened=False, actor="ada").state == "failed"
    with pytest.raises(errors.Undecided, match="nothing to resolve"):
        trip.resolve(1, happened=True, actor="ada")


@pytest.mark.parametrize("who", [None, "bot", "planner"])
def test_what_happened_is_not_for_the_agent_to_say(trip, do, world, who):
    """Neither for the thread's agent, nor for whoever made the call."""
    world.fates["charge"] = [ConnectionError("line cut")]
    with pytest.raises(ConnectionError):
        attempt(trip, lambda: do.charge("ACME", 5))
    with pytest.raises(errors.NotForAgents, match="for a person to say"):
        trip.resolve(1, happened=True, actor=who)
    assert trip.effect(1).state == "unknown"


def test_an_effect_that_is_not_there(trip):
    with pytest.raises(errors.NotFound, match="no effect #7"):
        trip.resolve(7, happened=True, actor="ada")


@pytest.mark.parametrize(
    ("said", "state"), [(True, "done"), (False, "failed"), ({"id": 9}, "done"), (None, "unknown")]
)
def test_a_probe_asks_the_provider(tb, trip, said, state):
    """A probe that fails, or does not know, tells nothing."""
    asked = []

    def probe(account):
        asked.append((account, takeback.effect_key()))
        return said

    @takeback.tool(probe=probe)
    def charge(account: str) -> Any:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        attempt(trip, lambda: charge("ACME"))
    found = tb.recover()
    effect = trip.effect(1)
    assert (effect.state, asked) == (state, [("ACME", effect.key)])
    assert bool(found.effects) == (state == "unknown")
    if said == {"id": 9}:
        assert attempt(trip, lambda: charge("ACME")) == [{"id": 9}]


def test_a_probe_that_fails_tells_nothing(tb, trip):
    def probe():
        raise OSError

    @takeback.tool(probe=probe)
    def charge():
        raise ConnectionError

    with pytest.raises(ConnectionError):
        attempt(trip, charge)
    assert tb.recover().settled == []
    assert trip.effect(1).state == "unknown"


# --- results


@dataclasses.dataclass
class Ticket:
    seat: str


class Order(msgspec.Struct):
    id: int


@pytest.mark.parametrize("kind", [Ticket, Order])
def test_a_recorded_result_is_what_the_function_says_that_it_returns(trip, kind):
    """The second time as the first: an instance, not its plain value; for the undo too."""
    undone = []

    def cancel(result):
        undone.append(result)

    def order(n: int):
        return kind(str(n) if kind is Ticket else n)

    order.__annotations__["return"] = kind
    book = takeback.tool(undo=cancel)(order)
    first = attempt(trip, lambda: book(1), fails=True)
    assert attempt(trip, lambda: book(1)) == first
    assert isinstance(first[0], kind)
    trip.plan_undo().apply()
    assert undone == first


def later(n: int) -> Ticket:
    return Ticket(str(n))


def test_a_result_whose_type_is_a_string_is_found(trip):
    """Annotations are strings where `from __future__ import annotations` stands, as here."""
    assert isinstance(later.__annotations__["return"], str)
    book = takeback.tool(later)
    first = attempt(trip, lambda: book(1), fails=True)
    assert attempt(trip, lambda: book(1)) == first == [Ticket("1")]


@pytest.mark.parametrize("result", [object(), {1, 2}])
def test_a_result_that_cannot_be_kept_is_given_once(trip, result):
    """It happened; only what came back is not known any more."""

    @takeback.tool
    def fetch() -> Any:
        return result

    assert attempt(trip, fetch, fails=True) == [result]
    effect = trip.effect(1)
    assert (effect.state, bool(effect.unreadable)) == ("done", True)
    with pytest.raises(errors.EffectUnreadable, match="happened, and its result is not known"):
        attempt(trip, fetch)


def test_an_enormous_result_is_not_kept(trip, monkeypatch):
    monkeypatch.setattr(calling, "_LARGEST", 1000)

    @takeback.tool
    def fetch() -> bytes:
        return bytes(2000)

    assert attempt(trip, fetch) == [bytes(2000)]
    assert "2,00" in trip.effect(1).unreadable
    assert "1,000 are kept" in trip.effect(1).unreadable


def test_a_large_result_is_kept_beside_the_ledger(trip):
    @takeback.tool
    def fetch(text: str) -> bytes:
        return bytes(100_000)

    first = attempt(trip, lambda: fetch("x" * 5000), fails=True)
    assert attempt(trip, lambda: fetch("x" * 5000)) == first
    assert trip.verify().ok
    assert trip.effect(1).result.raw == b""


def test_arguments_that_cannot_be_recorded_are_refused_before_the_call(trip, world):
    @takeback.tool
    def send(what):
        world.log.append(what)

    with pytest.raises(errors.Unstorable, match="send: an argument cannot be recorded") as caught:
        attempt(trip, lambda: send({1, 2}))
    assert caught.value.path == "/what"
    assert (world.log, trip.effects()) == ([], [])


def test_unhashable_arguments_are_ordinary(trip, world):
    """Lists and dicts are compared by content: 1 is not 1.0, and the order of keys does not matter."""

    @takeback.tool
    def send(what):
        world.log.append(what)

    calls = [lambda: send([{"a": 1, "b": 2}]), lambda: send([{"a": 1.0, "b": 2}])]
    attempt(trip, *calls, fails=True)
    attempt(trip, lambda: send([{"b": 2, "a": 1}]), calls[1])
    assert world.log == [[{"a": 1, "b": 2}], [{"a": 1.0, "b": 2}]]
    assert len(trip.effects()) == 2


def test_a_method_is_a_tool(trip):
    """Its object is passed on, and is no part of the record."""

    class Desk:
        def __init__(self):
            self.sent = []

        @takeback.tool
        def send(self, to):
            self.sent.append(to)
            return len(self.sent)

    one, two = Desk(), Desk()
    assert attempt(trip, lambda: one.send("ada"), fails=True) == [1]
    assert attempt(trip, lambda: two.send("ada")) == [1]
    assert (one.sent, two.sent) == (["ada"], [])


# --- time


def test_a_synchronous_call_that_takes_too_long_runs_on(trip, clock):
    """Nobody can stop it: it is unknown, and what comes late is evidence."""
    go, came = threading.Event(), threading.Event()

    @takeback.tool(timeout=0.05)
    def slow():
        go.wait(60)
        came.set()
        return "late"

    with pytest.raises(errors.EffectTimeout, match="took too long") as caught:
        attempt(trip, slow)
    assert isinstance(caught.value, TimeoutError)
    assert trip.effect(1).state == "unknown"
    head = trip.head
    go.set()
    came.wait(60)
    until_settled(trip)
    assert (trip.effect(1).state, trip.refresh().head) == ("done", head)
    assert attempt(trip, slow) == ["late"]


def until_settled(trip, tries=600):
    """What another thread of execution writes comes after its work."""
    for _ in range(tries):
        effect = trip.effect(1)
        if effect.state != "unknown" or effect.late:
            return
        time.sleep(0.05)
    raise AssertionError("no outcome came")


def test_a_late_outcome_is_kept_beside_a_persons_word(trip, clock):
    go = threading.Event()

    @takeback.tool(timeout=0.05)
    def slow():
        go.wait(60)
        return "late"

    with pytest.raises(errors.EffectTimeout):
        attempt(trip, slow)
    clock.passes(hours=1)
    trip.resolve(1, happened=False, actor="ada")
    go.set()
    until_late(trip)
    effect = trip.effect(1)
    assert (effect.state, [said.partition(" at ")[0] for said in effect.late]) == ("failed", ["done"])


def until_late(trip):
    for _ in range(600):
        if trip.effect(1).late:
            return
        time.sleep(0.05)
    raise AssertionError("no outcome came")


def test_a_call_within_its_time_is_like_any_other(trip):
    """It runs in another thread of execution, with the caller's context and exceptions."""

    @takeback.tool(timeout=60)
    def quick(n):
        assert takeback.effect_key().startswith("tb_")
        if n < 0:
            raise NotDone("negative")
        return n

    assert attempt(trip, lambda: quick(1)) == [1]
    with pytest.raises(NotDone, match="negative"):
        attempt(trip, lambda: quick(-1))


def test_a_process_that_was_stopped_past_the_deadline_does_not_call(trip, world, clock):
    """Somebody may have said meanwhile that it did not happen."""
    looks = []

    @takeback.tool(timeout=2, facts=dict)
    def send():
        world.log.append("sent")

    original = calling._on_time

    def stopped(book, effect):
        looks.append(effect.number)
        clock.passes(seconds=10)
        original(book, effect)

    calling._on_time = stopped
    try:
        with pytest.raises(NotDone, match="was not called: its deadline has passed"):
            attempt(trip, send)
    finally:
        calling._on_time = original
    assert (looks, world.log, trip.effect(1).state) == ([1], [], "failed")


# --- threads of execution


def test_a_thread_of_execution_is_bound_to_the_step(trip, do, world):
    """A pool's threads know nothing of the step, unless they are told."""
    came: list[Any] = []

    def run(function, *args):
        def body():
            try:
                came.append(function(*args))
            except errors.NoStep:
                came.append("no step")

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    with trip.step("book") as s:
        run(do.order, "chair")
        run(s.bind(do.order), "chair")
    assert came == ["no step", "order 1"]
    assert trip.effect(1).uses


def test_many_threads_of_execution_in_one_step(trip, do, world):
    """Each call is recorded once, under its own key."""
    with trip.step("book") as s:
        threads = [threading.Thread(target=s.bind(do.put), args=(f"name {n}", n)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(world.log) == 16
    assert len({effect.key for effect in trip.effects()}) == 16
    assert {effect.state for effect in trip.effects()} == {"done"}
    assert len({effect.number for effect in trip.effects()}) == 16
    with pytest.raises(errors.StepOpen, match="has ended"):
        s.bind(do.put)("late", 1) if not s._ended else s._recorder()
