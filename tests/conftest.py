"""What every test stands on: an environment of its own, hypothesis profiles, and the `soak` marker."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from takeback.testing.postgres import fresh_url

if TYPE_CHECKING:
    from pathlib import Path

SOAK = os.environ.get("TAKEBACK_SOAK") == "1"

# No deadline anywhere: a slow machine is not a wrong answer. On a build machine the examples are the
# same in each run, so that a failure belongs to the change that shows it; soaking is for finding new ones.
settings.register_profile("default", deadline=None, max_examples=100, derandomize=bool(os.environ.get("CI")))
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=200,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("soak" if SOAK else "default")

# A short path: the socket of a watcher may lie in the data directory, and a socket's path has about a
# hundred characters at most.
_data = tempfile.TemporaryDirectory(prefix="tb-", ignore_cleanup_errors=True)
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and leave the user's own store out of reach before any test is imported."""
    config.addinivalue_line("markers", "soak: a long sweep; runs only with TAKEBACK_SOAK=1 (make soak)")
    kept = ("TAKEBACK_SOAK", "TAKEBACK_TEST_POSTGRES")
    for name in [name for name in os.environ if name.startswith("TAKEBACK_") and name not in kept]:
        del os.environ[name]
    os.environ["XDG_DATA_HOME"] = os.environ["XDG_STATE_HOME"] = _data.name


def pytest_unconfigure() -> None:
    _data.cleanup()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect long sweeps rather than skip them: a skip in the closing line is a thing to look into."""
    if SOAK:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    if long:
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)


@pytest.fixture(autouse=True)
def data_home(monkeypatch: pytest.MonkeyPatch) -> str:
    """A data directory for this test alone: the latest thread of another test is never found in it."""
    home = os.path.join(_data.name, str(next(_numbers)))
    monkeypatch.setenv("XDG_DATA_HOME", home)
    monkeypatch.setenv("XDG_STATE_HOME", home)
    return home


@pytest.fixture
def postgres_url() -> str:
    """The address of a store that is not there yet, on a real PostgreSQL server that this process's tests
    share. See `takeback.testing.postgres` for servers of a test's own."""
    return fresh_url()


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where a store file may be made; nothing is there yet."""
    return tmp_path / "store.db"
