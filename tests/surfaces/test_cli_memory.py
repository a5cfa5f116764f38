"""memory list, show and history on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback


@pytest.fixture
def remembered(store_path: Path) -> Path:
    """An item that was written at once and then in a step, which was taken back; and another below it."""
    with takeback.open(store_path, actor="me") as repo:
        repo.store.put(("users", "ann"), "home", {"city": "Bern"}, reason="she said so")
        thread = repo.thread("t", initial={})
        with thread.step("learn"):
            repo.store.put(("users", "ann"), "home", {"city": "Rome"})
        thread.undo()
        repo.store.put(("users", "ann", "notes"), "1", "likes trains")
    return store_path


def test_list(cli: Cli, remembered: Path) -> None:
    said = cli("--db", str(remembered), "memory", "list").out
    assert "users/ann/home" in said
    assert "Bern" in said
    assert "Rome" not in said
    assert "likes trains" in cli("--db", str(remembered), "memory", "list", "users/ann/notes").out
    assert "nothing is remembered below none" in cli("--db", str(remembered), "memory", "list", "none").out
    found = cli("--db", str(remembered), "--json", "memory", "list").json
    assert [item["key"] for item in found] == ["home", "1"]


def test_show(cli: Cli, remembered: Path) -> None:
    assert cli("--db", str(remembered), "memory", "show", "users/ann/home").out == '{\n  "city": "Bern"\n}\n'
    found = cli("--db", str(remembered), "--json", "memory", "show", "users/ann/home").json
    assert (found["value"], found["version"]) == ({"city": "Bern"}, 1)


def test_history(cli: Cli, remembered: Path) -> None:
    said = cli("--db", str(remembered), "memory", "history", "users/ann/home").out
    assert "taken back" in said
    assert "t, version 1" in said
    assert "she said so" in said
    found = cli("--db", str(remembered), "--json", "memory", "history", "users/ann/home").json
    assert [(one["number"], one["held"]) for one in found] == [(2, False), (1, True)]
