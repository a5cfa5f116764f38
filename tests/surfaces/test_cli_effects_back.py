"""rollback, undo, redo where effects are concerned: the plan says it, people agree, exactly that happens."""

from __future__ import annotations

import pytest
from tests.surfaces.shop import Shop

CHARGE, MAIL = "#1 (charge $42.00 to ACME)", "#2 (e-mail to j@example.com)"


def test_the_plan_says_what_is_undone_and_what_stays(shop: Shop) -> None:
    shop.agent("charge", "mail")
    assert shop.ok("rollback", "0", "--plan", "--app", "shop").lines == [
        "plan: roll back trip to version 0",
        "  state",
        "    n: 2 → 0",
        "  effects",
        f"    refunds {CHARGE}",
        f"    {MAIL} stays: it cannot be undone",
    ]
    assert shop.world == ["charge", "mail"]


def test_a_plan_without_the_tools_says_who_it_waits_for(shop: Shop) -> None:
    shop.agent("charge")
    assert shop.ok("rollback", "0", "--plan").lines[-1] == "  1 waits for a worker with refund@1"
    assert shop.ok("rollback", "0", "--plan", "--json").json["waits"] == {"refund@1": 1}


def test_a_plan_as_json_names_groups(shop: Shop) -> None:
    shop.agent("charge", "mail", "think")
    shop.agent("wire")
    part = shop.ok("rollback", "0", "--plan", "--json").json["parts"][1]
    assert part["part"] == "effects"
    assert (part["undo"], part["standing"]) == ([1], [2])
    assert sorted(part["groups"]) == ["compensate", "decide", "stays"]


def test_the_yes_at_the_terminal_agrees_to_what_was_shown(shop: Shop) -> None:
    shop.agent("charge", "mail")
    ran = shop.ok("rollback", "0", "--app", "shop", typed="y\nwrong city\n", terminal=True)
    assert f"{MAIL} stays" in ran.out
    assert "Go ahead? [y/N]" in ran.err
    assert shop.world == ["charge", "mail", "refund"]
    assert shop.states() == ["undone", "done"]


def test_a_no_does_nothing(shop: Shop) -> None:
    shop.agent("charge", "mail")
    assert shop("rollback", "0", "--app", "shop", typed="n\n", terminal=True).code == 1
    assert shop.world == ["charge", "mail"]


def test_a_script_acknowledges_what_stays(shop: Shop) -> None:
    """`--yes` alone is not enough: nobody has seen what stays."""
    shop.agent("charge", "mail")
    refused = shop("rollback", "0", "--yes", "--app", "shop")
    assert refused.code == 4
    assert f"this stays: {MAIL}" in refused.err
    assert "--acknowledge all" in refused.err
    assert shop("rollback", "0", "--yes", "--app", "shop", "--acknowledge", "1").code == 4
    assert shop.world == ["charge", "mail"]
    ran = shop.ok("rollback", "0", "--yes", "--app", "shop", "--acknowledge", "2", "--json")
    assert ran.json["standing"] == [MAIL]
    assert shop.world == ["charge", "mail", "refund"]


def test_what_the_apps_code_prints_is_beside_the_output(shop: Shop) -> None:
    """One JSON document stays one, whatever a tool prints."""
    shop.agent("charge")
    ran = shop.ok("rollback", "0", "--yes", "--app", "shop", "--json")
    assert ran.json["checkpoint"]["kind"] == "rollback"
    assert "the bank's module prints this" in ran.err


def test_the_app_is_found_by_the_environment_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.agent("charge")
    monkeypatch.setenv("TAKEBACK_APP", "shop:setup")
    shop.ok("rollback", "0", "--yes")
    assert shop.world == ["charge", "refund"]
    assert (shop.folder / "was-set-up").exists()


def test_without_the_tools_it_is_refused_before_anybody_is_asked(shop: Shop) -> None:
    shop.agent("charge")
    ran = shop("rollback", "0", terminal=True)
    assert (ran.code, "Go ahead?" in ran.err) == (4, False)
    assert "1 waits for a worker with refund@1" in ran.err
    assert "--app module:name" in ran.err
    assert "--wait SECONDS" in ran.err


def test_unknown_calls_are_decided_first(shop: Shop) -> None:
    shop.agent("wire")
    ran = shop("rollback", "head", terminal=True)
    assert (ran.code, "Go ahead?" in ran.err) == (4, False)
    assert "#1 (wire to BANK) is unknown" in ran.err
    assert "effects resolve" in ran.err
    assert "1 call is unknown, decide first" in shop.ok("rollback", "head", "--plan").out


def test_a_half_done_step_is_taken_back(shop: Shop) -> None:
    """A rollback to the head: the state does not change, what the open step did goes."""
    shop.agent("think")
    shop.agent("wire")
    shop.ok("effects", "resolve", "1", "--happened", "--actor", "ada")
    ran = shop.ok("rollback", "head", "--yes", "--acknowledge", "1")
    assert "#1 (wire to BANK) stays: it cannot be undone" in ran.out
    assert shop.ok("recover").lines == ["nothing waits for anybody"]


def test_the_undo_of_a_rollback_names_what_is_not_done_again(shop: Shop) -> None:
    shop.agent("charge")
    shop.ok("rollback", "0", "--yes", "--app", "shop")
    ran = shop.ok("undo")
    assert f"    {CHARGE} stays undone: not done again by itself" in ran.lines
    assert shop.world == ["charge", "refund"]


def test_an_undo_that_does_more_than_restore_asks(shop: Shop) -> None:
    shop.agent("charge")
    ran = shop("undo", "--app", "shop")
    assert (ran.code, "nobody to ask" in ran.err) == (2, True)
    ran = shop.ok("undo", "--app", "shop", typed="y\n\n", terminal=True)
    assert f"refunds {CHARGE}" in ran.out
    assert shop.world == ["charge", "refund"]


def test_effects_are_done_again_where_that_is_asked_for(shop: Shop) -> None:
    shop.agent("charge")
    shop.ok("undo", "--yes", "--app", "shop")
    ran = shop.ok("redo", "--redo-effects", "1", "--yes", "--app", "shop")
    assert f"does {CHARGE} again" in ran.out
    assert shop.world == ["charge", "refund", "charge"]


def test_what_could_be_undone_can_be_kept(shop: Shop) -> None:
    shop.agent("charge")
    shop.ok("rollback", "0", "--yes", "--keep", "#1", "--acknowledge", "all")
    assert shop.world == ["charge"]


def test_state_alone_goes_back(shop: Shop) -> None:
    shop.agent("charge")
    refused = shop("rollback", "0", "--yes", "--scope", "state")
    assert (refused.code, f"this stays: {CHARGE}" in refused.err) == (4, True)
    shop.ok("rollback", "0", "--yes", "--scope", "state", "--acknowledge", "all")
    assert shop.world == ["charge"]
    assert shop.ok("state").json == {"n": 0}


def test_a_fork_acts_only_with_the_right_to(shop: Shop) -> None:
    shop.agent("think")
    assert shop("fork", "--effects", "everything").code == 2
    shop.ok("fork", "--name", "other", "--effects", "guard")
    with shop.tools() as (repo, app):
        other = repo.thread("other")
        with other.step("pay"):
            app.charge("ACME", 100)
    assert shop.world == ["charge"]


def test_a_plan_that_stops_says_how_to_go_on(shop: Shop) -> None:
    shop.agent("charge")
    (shop.folder / "bank-closed").touch()
    ran = shop("rollback", "0", "--yes", "--app", "shop")
    assert ran.code == 4
    assert f"the plan is paused at {CHARGE}, which is undo_failed: the bank is closed" in ran.err
    assert "takeback recover" in ran.err
    blocked = shop("commit", "--set", "n=9")
    assert (blocked.code, "a plan is being applied" in blocked.err) == (4, True)
    assert "the plan is paused at" in shop.ok("log").err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--app", "nowhere"], 2, "--app nowhere cannot be imported: No module named 'nowhere'"),
        (["--app", "shop:nothing"], 2, "shop has no nothing"),
        (["--app", "broken"], 2, "--app broken cannot be imported: SyntaxError"),
        (["--app", "shop:setup"], 2, "RuntimeError: no database"),
        (["--acknowledge", "everything"], 2, "names no effects"),
        (["--acknowledge", ""], 2, "names no effects"),
        (["--keep", "x"], 2, "names no effects"),
        (["--scope", "stat"], 2, "is not of effects, files, memory, state"),
        (["--wait", "long"], 2, "invalid float value"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(shop: Shop, words: list[str], code: int, says: str) -> None:
    shop.agent("charge")
    (shop.folder / "broken.py").write_text("def (")
    (shop.folder / "no-setup").touch()
    ran = shop("rollback", "0", "--yes", *words)
    assert (ran.code, says in ran.err) == (code, True), ran
    assert len(ran.err.splitlines()) == 2, "what is wrong, and what to do"
    assert shop.world == ["charge"]


def test_numbers_that_no_effect_has(shop: Shop) -> None:
    """A wrong number is told, not passed over."""
    shop.agent("charge")
    for option in ("--keep", "--redo-effects", "--take-shared"):
        ran = shop("rollback", "0", "--plan", option, "7")
        assert (ran.code, "there is no effect #7" in ran.err) == (3, True), ran
    ran = shop("rollback", "0", "--yes", "--app", "shop", "--acknowledge", "7")
    assert (ran.code, "there is no effect #7" in ran.err) == (3, True)
    assert shop.world == ["charge"]
