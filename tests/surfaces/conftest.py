"""What the tests of surfaces share: the command line in this process, and a store to try it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.surfaces.cli import Cli, make_trip
from tests.surfaces.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """`takeback …`, in an empty folder and with no store named."""
    monkeypatch.chdir(tmp_path)
    return Cli(capsys, monkeypatch)


@pytest.fixture
def trip(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with the thread travel/42 (see `make_trip`), named by the environment."""
    make_trip(store_path)
    monkeypatch.setenv("TAKEBACK_DB", str(store_path))
    monkeypatch.setenv("TAKEBACK_THREAD", "travel/42")
    return store_path


@pytest.fixture
def shop(cli: Cli, tmp_path: Path) -> Shop:
    """An app with tools, and an agent that uses them, in the empty folder."""
    return Shop(tmp_path, cli)
