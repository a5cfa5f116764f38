"""approvals: what waits for a person is listed, decided by another than who asked, and signed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.cli import Cli
from tests.surfaces.shop import Shop

import takeback
from takeback.cli.values import public_key


def test_what_waits_is_listed_with_what_to_type(shop: Shop) -> None:
    assert isinstance(shop.agent("seat"), takeback.ApprovalRequired)
    assert isinstance(shop.agent("ask"), takeback.errors.Paused)
    lines = shop.ok("approvals").lines
    assert lines[:3] == [
        "#1 seat 12A  requested",
        "    trip · the tool asks for approval · asked by bot",
        "    price = 20",
    ]
    assert lines[3].endswith("--thread trip approvals grant 1")
    assert lines[4:7] == [
        "#2 Which seat?  requested",
        "    trip · question · asked by bot",
        '    aisle = "+$20"',
    ]
    assert lines[7].endswith("--thread trip approvals answer 2 TEXT")


def test_as_json(shop: Shop) -> None:
    shop.agent("seat")
    (listed,) = shop.ok("approvals", "list", "--json").json["approvals"]
    assert (listed["number"], listed["thread"], listed["args"]) == (1, "trip", {"seat": "12A"})
    assert (
        shop.ok("approvals", "grant", "1", "--actor", "ada", "--json").json["approval"]["state"] == "granted"
    )


def test_nothing_waits(shop: Shop) -> None:
    shop.agent("think")
    assert shop.ok("approvals").lines == ["nobody waits for an answer"]


def test_a_grant_lets_the_call_through_once(shop: Shop) -> None:
    shop.agent("seat")
    ran = shop.ok("approvals", "grant", "1", "--actor", "ada")
    assert ran.lines[0] == "#1 seat 12A is granted"
    assert shop.agent("seat") is None
    assert shop.world == ["seat"]
    assert "used" in shop.ok("approvals", "list", "--all").out
    assert isinstance(shop.agent("seat"), takeback.ApprovalRequired), "the next call asks anew"


def test_a_denial_tells_the_agent_why(shop: Shop) -> None:
    shop.agent("seat")
    shop.ok("approvals", "deny", "1", "-m", "too dear", "--actor", "ada")
    stopped = shop.agent("seat")
    assert isinstance(stopped, takeback.errors.ApprovalDenied)
    assert "ada refused seat 12A: too dear" in str(stopped)
    assert shop.world == []


def test_an_answer_is_there_when_the_step_is_entered_again(shop: Shop) -> None:
    shop.agent("ask")
    assert shop.ok("approvals", "answer", "1", "the aisle").lines[0] == "#1 Which seat? is answered"
    assert shop.agent("ask") is None
    assert shop.ok("state").json["answer"] == "the aisle"


def test_an_answer_may_be_any_value(shop: Shop) -> None:
    shop.agent("ask")
    bad = shop("approvals", "answer", "1", "{", "--as-json")
    assert (bad.code, "is no JSON" in bad.err) == (2, True)
    shop.ok("approvals", "answer", "1", '{"row": 12}', "--as-json")
    shop.agent("ask")
    assert shop.ok("state").json["answer"] == {"row": 12}


@pytest.mark.parametrize("agent", ["bot", "planner"])
@pytest.mark.parametrize(
    ("asks", "words"), [("seat", ["grant", "1"]), ("seat", ["deny", "1"]), ("ask", ["answer", "1", "aisle"])]
)
def test_who_asked_does_not_decide(shop: Shop, asks: str, words: list[str], agent: str) -> None:
    shop.agent(asks)
    ran = shop("approvals", *words, "--actor", agent)
    assert (ran.code, "who asks does not" in ran.err) == (2, True)
    assert "requested" in shop.ok("approvals").out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["grant", "9"], 3, "there is no request #9"),
        (["grant", "2"], 2, "#2 is a question"),
        (["answer", "1", "yes"], 2, "asks for a yes or a no"),
        (["answer", "1"], 2, "ANSWER"),
        (["grant", "1", "--private-key", "missing.key"], 2, "missing.key cannot be read"),
        (["grant", "1", "--private-key", "shop.py"], 2, "holds no private key"),
    ],
)
def test_a_mistake_is_told_with_what_to_do(shop: Shop, words: list[str], code: int, says: str) -> None:
    shop.agent("seat")
    shop.agent("ask")
    ran = shop("approvals", *words, "--actor", "ada")
    assert (ran.code, says in ran.err) == (code, True), ran


def test_a_decided_request_is_not_decided_again(shop: Shop) -> None:
    shop.agent("seat")
    shop.ok("approvals", "grant", "1", "--actor", "ada")
    ran = shop("approvals", "deny", "1", "--actor", "grace")
    assert (ran.code, "the request #1 (seat 12A) is granted" in ran.err) == (4, True)


def test_everything_of_a_thread_needs_its_name(cli: Cli, shop: Shop) -> None:
    shop.agent("seat")
    ran = cli("--db", shop.store, "approvals", "list", "--all")
    assert (ran.code, "Name it: --thread" in ran.err) == (2, True)


def test_a_number_that_one_thread_alone_has_needs_no_name(cli: Cli, shop: Shop) -> None:
    shop.agent("seat")
    with takeback.open(shop.store) as repo:
        repo.thread("newer", initial={})
    cli.ok("--db", shop.store, "approvals", "grant", "1", "--actor", "ada")
    assert shop.agent("seat") is None


def test_a_number_that_two_threads_have_needs_one(cli: Cli, shop: Shop) -> None:
    for name in ("one", "two"):
        with shop.tools() as (repo, app):
            thread = repo.thread(name, initial={})
            with pytest.raises(takeback.ApprovalRequired), thread.step("sit"):
                app.seat("12A")
    ran = cli("--db", shop.store, "approvals", "grant", "1", "--actor", "ada")
    assert ran.code == 2
    assert "'one'" in ran.err
    assert "'two'" in ran.err
    assert len(cli.ok("--db", shop.store, "approvals", "list", "--json").json["approvals"]) == 2
    cli.ok("--db", shop.store, "approvals", "grant", "1", "--actor", "ada", "--thread", "two")
    assert len(cli.ok("--db", shop.store, "approvals", "list", "--json").json["approvals"]) == 1


# --- signed


@pytest.fixture
def keys(cli: Cli, tmp_path: Path) -> tuple[Path, Path]:
    """Ada's, who may grant, and Eve's, who may not."""
    cli.ok("keygen", "ada.key")
    cli.ok("keygen", "eve.key")
    return tmp_path / "ada.key", tmp_path / "eve.key"


def approvers(key: Path) -> dict[str, Any]:
    return {"approvers": [public_key(f"{key}.pub")]}


def test_where_grants_are_signed_another_is_none(shop: Shop, keys: tuple[Path, Path]) -> None:
    """What somebody without the key wrote into the store lets nothing through."""
    ada, eve = keys
    shop.agent("seat", **approvers(ada))
    shop.ok("approvals", "grant", "1", "--actor", "eve", "--private-key", eve)
    stopped = shop.agent("seat", **approvers(ada))
    assert isinstance(stopped, takeback.errors.BadSeal)
    assert "has no signature of an approver" in str(stopped)
    assert shop.world == []


def test_a_signed_grant_counts(shop: Shop, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    ada, eve = keys
    shop.agent("seat", **approvers(ada))
    monkeypatch.setenv("TAKEBACK_APPROVERS", f"{ada}.pub")
    unsigned = shop("approvals", "grant", "1", "--actor", "ada")
    assert (unsigned.code, "--private-key" in unsigned.err) == (6, True)
    wrong = shop("approvals", "grant", "1", "--actor", "ada", "--private-key", eve)
    assert (wrong.code, "none of the approvers'" in wrong.err) == (6, True)
    shop.ok("approvals", "grant", "1", "--actor", "ada", "--private-key", ada)
    assert shop.agent("seat", **approvers(ada)) is None
    assert shop.world == ["seat"]


def test_the_public_half_signs_nothing(shop: Shop, keys: tuple[Path, Path]) -> None:
    shop.agent("seat")
    ran = shop("approvals", "grant", "1", "--actor", "ada", "--private-key", f"{keys[0]}.pub")
    assert (ran.code, "holds no private key" in ran.err) == (2, True)
