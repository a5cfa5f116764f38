"""The public surface: what `import takeback` gives, sorted, there, and explained."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import takeback
from takeback import errors

NAMES = [name for name in takeback.__all__ if not name.startswith("__")]


def test_the_public_names_are_sorted():
    """Constants, then classes, then functions, as the linter sorts them: a new name has one place."""

    def rank(name):
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    assert takeback.__all__ == sorted(takeback.__all__, key=rank)
    assert len(set(takeback.__all__)) == len(takeback.__all__)


@pytest.mark.parametrize("name", takeback.__all__)
def test_every_public_name_is_there(name):
    """Each can be taken from the package, by attribute and by a from-import, and is found by dir()."""
    value = getattr(takeback, name)
    found = {}
    exec(f"from takeback import {name}", found)
    assert found[name] is value
    assert name in dir(takeback)


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_is(name):
    """A class, function or module has its own docstring; a constant that of its type."""
    value = getattr(takeback, name)
    own = inspect.getdoc(value if callable(value) or inspect.ismodule(value) else type(value))
    assert own
    assert own != inspect.getdoc(object)


@pytest.mark.parametrize(
    "owner", [takeback.Repo, takeback.Thread, takeback.View, takeback.Plan, takeback.Receipt]
)
def test_every_verb_says_what_it_does(owner):
    """Methods are explained where an editor shows it; names that say all may be silent."""
    plain = {"name", "thread", "version", "tenant", "as_dict"}
    members = {name: value for name, value in vars(owner).items() if not name.startswith("_")}
    silent = {name for name, value in members.items() if callable(value) or isinstance(value, property)}
    silent -= {name for name in silent if inspect.getdoc(getattr(owner, name))}
    assert silent <= plain


def test_what_is_not_public_is_not_there():
    """A misspelt name is an AttributeError like anybody's, and nothing private leaks into dir()."""
    with pytest.raises(AttributeError, match="no attribute 'Treads'"):
        takeback.Treads
    assert sorted(dir(takeback)) == sorted(takeback.__all__)


def test_public_errors_are_those_of_the_tree():
    """Those that most handlers catch are in the package itself; all are in takeback.errors."""
    for name in NAMES:
        value = getattr(takeback, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            assert value is getattr(errors, name)


def test_importing_loads_no_store_and_no_drawing():
    """A hook that runs on every tool call does not pay for what it does not use."""
    script = "import sys, takeback; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"apsw", "rich", "asyncio", "takeback.engine", "takeback.storage"}.isdisjoint(loaded)


def test_the_version_is_a_version():
    """Numbers, as installers compare them."""
    assert all(part.isdigit() for part in takeback.__version__.split(".")[:2])
