"""recover, worker, tools: what a crash left is seen to; plans are carried out where the tools are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli
from tests.surfaces.shop import Shop

import takeback

SRC = Path(__file__).resolve().parents[2] / "src"


# --- recover


def test_nothing_is_left(shop: Shop) -> None:
    shop.agent("charge")
    assert shop.ok("recover").lines == ["nothing waits for anybody"]
    assert shop.ok("recover", "list", "--json").json["clean"] is True


def test_what_is_left_is_listed_with_what_to_type(shop: Shop) -> None:
    shop.agent("wire")
    shop.agent("seat")
    lines = shop.ok("recover").lines
    assert lines[0] == "step     trip: 'wire' (#1), nobody is in it; enter it again, or roll back"
    assert "effect   trip: #1 (wire to BANK): unknown: ConnectionError: no answer" in lines
    assert any(line.endswith("effects resolve 1 --happened   or --did-not") for line in lines)
    assert "asked    trip: #1 seat 12A" in lines
    left = shop.ok("recover", "--json").json
    assert left["clean"] is False
    assert (left["effects"][0]["thread"], left["effects"][0]["state"]) == ("trip", "unknown")


def test_listing_settles_nothing(shop: Shop) -> None:
    shop.agent("fax")
    (shop.folder / "was-sent").touch()
    shop.ok("recover", "list")
    assert shop.states() == ["unknown"]


def test_settling_asks_the_provider_where_a_tool_can(shop: Shop) -> None:
    shop.agent("fax")
    assert "settled" not in shop.ok("recover", "settle", "--app", "shop").out, "its probe does not know yet"
    (shop.folder / "was-sent").touch()
    ran = shop.ok("recover", "settle", "--app", "shop")
    assert ran.lines[0] == "settled  #1 (fax to BANK): its probe says done"
    assert shop.states() == ["done"]


def test_a_worker_that_was_killed_leaves_an_unknown_call(shop: Shop) -> None:
    """The process dies in the middle of the call: what it left says so, in another process."""
    script = (
        "import os, takeback\n"
        "@takeback.tool(describe='e-mail')\n"
        "def mail(): os._exit(9)\n"
        f"with takeback.open({str(shop.store)!r}, actor='bot') as tb:\n"
        "    trip = tb.thread('trip', initial={})\n"
        "    with trip.step('tell'): mail()\n"
    )
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, check=False).returncode == 9
    assert "#1 (e-mail): begun" in shop.ok("recover").out
    for words in (["effects", "resolve", "1", "--happened"], ["rollback", "head", "--yes"]):
        refused = shop(*words)
        assert (refused.code, "`takeback recover settle`" in refused.err) == (4, True), refused
    ran = shop.ok("recover", "settle")
    assert ran.lines[0] == "settled  #1 (e-mail): its worker is gone, so it is unknown"
    assert "#1 (e-mail): unknown" in ran.out
    shop.ok("effects", "resolve", "1", "--happened")


@pytest.fixture
def paused(shop: Shop) -> Shop:
    """A rollback that stopped because the bank is closed."""
    shop.agent("charge", "charge")
    (shop.folder / "bank-closed").touch()
    assert shop("rollback", "0", "--yes", "--app", "shop").code == 4
    return shop


def test_a_paused_plan_is_listed(paused: Shop) -> None:
    lines = paused.ok("recover").lines
    assert any(line.startswith("plan     the plan is paused at #2 (charge $42.00 to ACME)") for line in lines)
    assert any("undo #1 (charge $42.00 to ACME) with refund@1: todo" in line for line in lines)
    assert any(line.endswith("recover retry 2   or accept, or abort") for line in lines)


def test_retrying_goes_on(paused: Shop) -> None:
    still = paused("recover", "retry", "2", "--app", "shop")
    assert (still.code, "is paused" in still.out) == (4, True)
    (paused.folder / "bank-closed").unlink()
    ran = paused.ok("recover", "retry", "2", "--app", "shop")
    assert ran.lines[0] == "the rollback of 'trip' is done: version 3"
    assert paused.world == ["charge", "charge", "refund", "refund"]
    assert paused.ok("recover").lines == ["nothing waits for anybody"]


def test_retrying_without_the_tools_waits_for_a_worker(paused: Shop) -> None:
    (paused.folder / "bank-closed").unlink()
    ran = paused("recover", "retry", "2")
    assert (ran.code, "waits: 2 for a worker with refund@1" in ran.out) == (4, True)
    ran = paused.ok("worker", "--app", "shop", "--once")
    assert ran.lines == ["did 2 lines of plans"]
    assert paused.ok("state").json == {"n": 0}


def test_accepting_goes_on_without_it(paused: Shop) -> None:
    """The second charge stays, and the bank opens for the first."""
    ran = paused("recover", "accept", "2", "--app", "shop", "--json")
    assert (ran.code, ran.json["plan"]["state"]) == (4, "paused"), "the first is refused too"
    paused.ok("recover", "accept", "1", "--app", "shop")
    assert paused.ok("state").json == {"n": 0}
    assert paused.world == ["charge", "charge"]
    assert "#1 (charge $42.00 to ACME) left as it is" in paused.ok("log").out
    assert "#1 (charge $42.00 to ACME) stands" in paused.ok("effects").out


def test_aborting_restores_nothing_and_frees_the_thread(paused: Shop) -> None:
    refused = paused("recover", "abort", typed="n\n", terminal=True)
    assert (refused.code, "plan     the plan is paused" in refused.out) == (1, True)
    ran = paused.ok("recover", "abort", "--yes", "-m", "the bank is gone")
    assert ran.lines[0] == "the rollback of 'trip' was given up: version 3"
    assert paused.ok("state").json == {"n": 2}
    assert "note" in paused.ok("log", "--limit", "1").out
    paused.ok("commit", "--set", "n=3")


def test_an_unknown_undo_is_resolved_before_the_plan_goes_on(shop: Shop) -> None:
    shop.agent("charge")
    (shop.folder / "bank-breaks").touch()
    ran = shop("rollback", "0", "--yes", "--app", "shop")
    assert "undo_unknown: OSError: the line is dead" in ran.err
    (shop.folder / "bank-breaks").unlink()
    shop.ok("effects", "resolve", "1", "--happened", "--actor", "ada")
    shop.ok("recover", "retry", "1", "--app", "shop")
    assert shop.world == ["charge"], "a person said that it was refunded, so it is not again"
    assert shop.states() == ["undone"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["retry", "9"], 3, "there is no effect #9"),
        (["retry", "1"], 4, "no failed line for #1"),
        (["accept", "x"], 2, "invalid int value"),
        (["retry", "2", "--app", "nowhere"], 2, "cannot be imported"),
        (["abort"], 2, "nobody to ask"),
        (["settel"], 2, "there is no command 'settel'"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(paused: Shop, words: list[str], code: int, says: str) -> None:
    ran = paused("recover", *words)
    assert (ran.code, says in ran.err) == (code, True), ran
    assert len(ran.err.splitlines()) == 2


def test_nothing_to_recover(shop: Shop) -> None:
    shop.agent("charge")
    for words in (["retry", "1"], ["accept", "1"], ["abort", "--yes"]):
        ran = shop("recover", *words)
        assert (ran.code, "no plan has stopped on its way" in ran.err) == (3, True)


# --- worker


def test_a_rollback_waits_for_a_worker_and_a_worker_does_it(shop: Shop) -> None:
    shop.agent("charge", "mail")
    ran = shop("rollback", "0", "--yes", "--acknowledge", "all", "--wait", "0")
    assert (ran.code, "the plan waits: 1 for a worker with refund@1" in ran.err) == (4, True)
    assert "waits: 1 for a worker with refund@1" in shop.ok("recover").out
    ran = shop.ok("worker", "--app", "shop", "--once")
    assert ran.lines == ["did 1 line of plans"]
    assert "undo #1 (charge $42.00 to ACME) with refund@1: done" in ran.err
    assert shop.world == ["charge", "mail", "refund"]
    assert shop.ok("state").json == {"n": 0}
    assert shop.ok("worker", "--app", "shop", "--once", "--json").json == {"done": 0, "lines": []}


def test_a_worker_says_what_failed(shop: Shop) -> None:
    shop.agent("charge")
    shop("rollback", "0", "--yes", "--wait", "0")
    (shop.folder / "bank-closed").touch()
    ran = shop.ok("worker", "--app", "shop", "--once")
    assert "with refund@1: failed: the bank is closed" in ran.err


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_cleanly(shop: Shop, by: signal.Signals) -> None:
    """A process of its own, asked to stop after it did something: it says what it did, and leaves with 0."""
    shop.agent("charge")
    shop("rollback", "0", "--yes", "--wait", "0")
    words = ["worker", "--db", str(shop.store), "--app", "shop", "--poll", "0.02"]
    with subprocess.Popen(
        [sys.executable, "-m", "takeback", *words],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        cwd=shop.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        for line in worker.stderr:
            if "refund@1: done" in line:
                break
        worker.send_signal(by)
        out, _ = worker.communicate(timeout=60)
    assert (worker.returncode, out) == (0, "did 1 line of plans\n")
    assert shop.world == ["charge", "refund"]


def test_a_worker_that_is_told_to_stop_leaves_the_rest_to_another(shop: Shop) -> None:
    """It stops between two calls of one plan, not only between two plans."""
    shop.agent("charge", "charge")
    shop("rollback", "0", "--yes", "--wait", "0")
    stop = threading.Event()
    with shop.tools() as (repo, app):
        happens = app.happens
        app.happens = lambda *what: (happens(*what), stop.set())
        assert repo.work(stop=stop) == 1
    assert shop.world == ["charge", "charge", "refund"]
    assert shop.ok("worker", "--app", "shop", "--once").lines == ["did 1 line of plans"]
    assert shop.world == ["charge", "charge", "refund", "refund"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a worker without tools has nothing to work with"),
        (["--app", "nowhere"], "No module named 'nowhere'"),
        (["--app", "shop", "--poll", "0"], "--poll 0 is no time"),
    ],
)
def test_a_worker_that_cannot_begin_says_why(shop: Shop, words: list[str], says: str) -> None:
    shop.agent("think")
    ran = shop("worker", *words)
    assert (ran.code, says in ran.err) == (2, True), ran


# --- tools


def test_tools_are_listed(cli: Cli, shop: Shop) -> None:
    lines = shop.ok("tools", "--app", "shop").lines
    assert lines[0].split() == ["tool", "kind", "repeat", "undo", "target", "owner", "asks"]
    assert any(
        line.split()[:5] == ["charge@1", "compensable", "once", "refund@1", "{account}"] for line in lines
    )
    assert any(line.startswith("seat@1") and line.endswith("sales  a person") for line in lines)
    exported = shop.ok("tools", "--app", "shop", "--json").json["tools"]
    assert [tool["name"] for tool in exported] == ["charge", "fax", "mail", "seat", "wire"]
    assert json.dumps(exported)


def test_tools_of_nothing(shop: Shop) -> None:
    assert shop("tools").code == 2
    (shop.folder / "empty.py").write_text("")
    assert shop.ok("tools", "--app", "empty").lines == ["the module declares no tools"]


def test_in_python_a_plan_that_stops_is_held_by_its_error(shop: Shop) -> None:
    """Whoever catches it can go on with it at once."""
    shop.agent("charge")
    (shop.folder / "bank-closed").touch()
    with shop.tools() as (repo, _):
        trip = repo.thread("trip")
        with pytest.raises(takeback.errors.PlanPaused) as caught:
            trip.plan_rollback(0).apply()
        (shop.folder / "bank-closed").unlink()
        pending = caught.value.plan
        assert (pending.state, pending.stuck) == ("paused", [1])
        assert pending.retry(1).state == "applied"
        assert trip.refresh().state == {"n": 0}
