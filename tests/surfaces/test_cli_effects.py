"""effects, log, show, state: what was done to the world is seen where a person looks, and people decide."""

from __future__ import annotations

import json

import pytest
from tests.surfaces.cli import Cli
from tests.surfaces.shop import Shop

import takeback

# --- looking


def test_effects_are_listed(shop: Shop) -> None:
    shop.agent("charge", "mail")
    ran = shop.ok("effects", "list")
    assert ran.lines == [
        "#  what                     state  step    version  undo",
        "1  charge $42.00 to ACME    done   charge  1        refund@1",
        "2  e-mail to j@example.com  done   mail    2        –",
    ]
    assert shop.ok("effects").out == ran.out, "the first word alone lists"


def test_nothing_is_said_to_be_nothing(shop: Shop) -> None:
    shop.agent("think")
    assert shop.ok("effects").lines == ["no effects are recorded"]
    assert shop.ok("effects", "--open").lines == ["nothing waits for anybody"]


def test_effects_as_json(shop: Shop) -> None:
    shop.agent("charge")
    shop.ok("effects", "limits", "--budget", "money=10000")
    listed = shop.ok("effects", "list", "--json").json
    assert listed["thread"] == "trip"
    assert (listed["effects"][0]["shown"], listed["effects"][0]["state"]) == ("charge $42.00 to ACME", "done")
    assert listed["budgets"] == {"money": {"spent": 4200, "limit": 10000}}
    shown = shop.ok("effects", "show", "1", "--json").json["effect"]
    assert (shown["args"], shown["result"]) == ({"account": "ACME", "cents": 4200}, {"id": "ch_1"})


def test_an_effect_is_shown_with_all_that_is_recorded(shop: Shop) -> None:
    shop.agent("charge")
    out = shop.ok("effects", "show", "1").out
    for said in (
        "#1 charge $42.00 to ACME  done",
        '{"account": "ACME", "cents": 4200}',
        "refund@1",
        "key  ",
        "bot",
    ):
        assert said in out


def test_only_what_waits(shop: Shop) -> None:
    shop.agent("charge")
    shop.agent("wire")
    out = shop.ok("effects", "--open").out
    assert "wire to BANK" in out
    assert "charge" not in out
    assert "#2 (wire to BANK) may stand: nobody knows" in out


def test_the_log_says_what_a_version_did_to_the_world(shop: Shop) -> None:
    shop.agent("charge", "mail")
    shop.ok("rollback", "1", "--yes", "--acknowledge", "all")
    shop.ok("rollback", "0", "--yes", "--acknowledge", "all", "--app", "shop")
    lines = [line.strip() for line in shop.ok("log").lines if "◆" in line]
    assert lines == [
        "◆ refunds #1 (charge $42.00 to ACME)",
        "◆ #2 (e-mail to j@example.com)",
        "◆ #1 (charge $42.00 to ACME), undone",
    ]
    told = shop.ok("log", "--json").json["checkpoints"]
    assert told[0]["effects"] == ["refunds #1 (charge $42.00 to ACME)"]
    assert "effect      #1 (charge $42.00 to ACME), undone" in shop.ok("show", "1").lines
    assert shop.ok("show", "2", "--json").json["checkpoint"]["effects"] == ["#2 (e-mail to j@example.com)"]


def test_a_state_that_the_world_does_not_match_says_so_beside_it(shop: Shop) -> None:
    shop.agent("mail", "charge")
    shop.ok("rollback", "0", "--yes", "--keep", "2", "--acknowledge", "all")
    ran = shop.ok("state")
    assert json.loads(ran.out) == {"n": 0}
    assert "#2 (charge $42.00 to ACME) stands, and this history does not know of it;" in ran.err
    assert "takeback --db" in ran.err
    assert "effects`" in ran.err
    assert shop.ok("state", "1").err == "", "an older state is not compared with the world of today"
    assert shop.ok("state", "--json").err == ""


def test_the_log_says_that_a_step_is_open(shop: Shop) -> None:
    shop.agent("wire")
    err = shop.ok("log").err
    assert "the step 'wire' is open; see" in err
    assert "recover`" in err


# --- people decide


@pytest.mark.parametrize(("word", "state"), [("--happened", "done"), ("--undone", "undone")])
def test_a_person_says_what_happened(shop: Shop, word: str, state: str) -> None:
    shop.agent("wire")
    if word == "--undone":
        shop.ok("effects", "resolve", "1", "--happened", "--actor", "ada")
    ran = shop.ok("effects", "resolve", "1", word, "--actor", "ada")
    assert ran.lines == [f"#1 wire to BANK is {state}"]
    assert shop.states() == [state]
    assert "ada" in shop.ok("effects", "show", "1").out
    assert "effect." in shop.ok("audit").out


def test_that_nothing_happened_is_believed_after_the_deadline(shop: Shop) -> None:
    shop.agent("wire")
    ran = shop("effects", "resolve", "1", "--did-not", "--actor", "ada")
    assert ran.code == 4
    assert "may still be on its way for" in ran.err
    assert shop.states() == ["unknown"]


@pytest.mark.parametrize("agent", ["bot", "planner"])
def test_the_agent_does_not_say_what_happened(shop: Shop, agent: str) -> None:
    """Neither as who made the call nor as the agent that the thread belongs to."""
    shop.agent("wire")
    ran = shop("effects", "resolve", "1", "--happened", "--actor", agent)
    assert ran.code == 2
    assert "for a person to say, not for" in ran.err
    assert shop.states() == ["unknown"]


def test_one_effect_is_undone_alone(shop: Shop) -> None:
    shop.agent("charge")
    ran = shop.ok("effects", "undo", "1", "--app", "shop", typed="y\n", terminal=True)
    assert "Call refund@1 for #1 (charge $42.00 to ACME)?" in ran.err
    assert ran.lines == ["#1 charge $42.00 to ACME is undone"]
    assert shop.world == ["charge", "refund"]
    assert (
        "#1 (charge $42.00 to ACME) was taken back, and this history counts on it" in shop.ok("effects").out
    )


def test_undoing_one_asks(shop: Shop) -> None:
    shop.agent("charge")
    assert shop("effects", "undo", "1", "--app", "shop", typed="n\n", terminal=True).code == 1
    assert shop("effects", "undo", "1", "--app", "shop").code == 2
    assert shop.world == ["charge"]


def test_an_undo_that_fails_says_so(shop: Shop) -> None:
    shop.agent("charge")
    (shop.folder / "bank-closed").touch()
    ran = shop("effects", "undo", "1", "--yes", "--app", "shop")
    assert (ran.code, "undo_failed: the bank is closed" in ran.err) == (4, True)
    assert shop.states() == ["undo_failed"]


def test_limits_are_shown_and_set(shop: Shop) -> None:
    shop.agent("charge")
    assert shop.ok("effects", "limits").lines == ["autopilot off", "no budgets"]
    ran = shop.ok(
        "effects", "limits", "--budget", "money=4000", "--budget", "attempts=9", "--autopilot", "on"
    )
    assert ran.lines == ["autopilot on", "budget attempts: 1 of 9", "budget money: 4,200 of 4,000"]
    stopped = shop.agent("charge")
    assert isinstance(stopped, takeback.errors.BudgetExceeded)
    waits = shop.agent("mail")
    assert isinstance(waits, takeback.ApprovalRequired)
    assert shop.ok("effects", "limits", "--autopilot", "off", "--json").json["autopilot"] is False
    assert shop.agent("mail") is None


@pytest.mark.parametrize("limit", ["x", -1, 1.5, True, None])
def test_a_limit_that_is_none_is_refused_by_the_library_too(shop: Shop, limit: object) -> None:
    """A budget that reads as no limit would let everything through, or nothing."""
    shop.agent("think")
    with takeback.open(shop.store) as repo:
        trip = repo.thread("trip")
        with pytest.raises(takeback.errors.BadRequest, match="is no limit"):
            trip.budget({"money": limit})  # type: ignore[dict-item]  # the mistake
        assert trip.budget() == {}


# --- mistakes


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["effects", "show", "9"], 3, "there is no effect #9"),
        (["effects", "show", "x"], 2, "invalid int value"),
        (["effects", "resolve", "1"], 2, "--happened"),
        (["effects", "resolve", "9", "--happened"], 3, "there is no effect #9"),
        (["effects", "resolve", "1", "--happened"], 4, "there is nothing to resolve"),
        (["effects", "resolve", "1", "--happened", "--did-not"], 2, "not allowed with"),
        (["effects", "undo", "2", "--yes"], 4, "cannot be undone"),
        (["effects", "undo", "1", "--yes"], 4, "this process has no refund@1"),
        (["effects", "undo", "1", "--yes", "--app", "nowhere"], 2, "No module named 'nowhere'"),
        (["effects", "lst"], 2, "there is no command 'lst'"),
        (["effects", "list", "--opne"], 2, "there is no option --opne"),
        (["effects", "limits", "--budget", "money=lots"], 2, "is no limit"),
        (["effects", "limits", "--budget", "money"], 2, "KEY=VALUE"),
        (["effects", "limits", "--autopilot", "maybe"], 2, "maybe"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(shop: Shop, words: list[str], code: int, says: str) -> None:
    shop.agent("charge", "mail")
    ran = shop(*words, "--actor", "ada")
    assert (ran.code, says in ran.err) == (code, True), ran
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 2, "what is wrong, and what to do"
    assert shop.world == ["charge", "mail"]


def test_a_family_has_a_page(cli: Cli) -> None:
    out = cli.ok("help", "effects").out
    for word in ("list", "show", "resolve", "undo", "limits"):
        assert word in out
    assert cli.ok("effects", "--help").out == out
