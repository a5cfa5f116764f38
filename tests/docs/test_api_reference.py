"""docs/api.md says what the library is: complete, and no older than the code."""

from __future__ import annotations

import importlib.util
import pathlib
from types import ModuleType

import takeback
from takeback import errors

ROOT = pathlib.Path(__file__).parents[2]


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_api_docs", ROOT / "scripts" / "make_api_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_code_says() -> None:
    """A changed signature or docstring that is not in the page fails here."""
    fresh = _script().page()
    assert (ROOT / "docs" / "api.md").read_text() == fresh, "run: python scripts/make_api_docs.py"


def test_every_public_name_is_in_it() -> None:
    """Complete without trusting the script: names are looked for in the text."""
    text = (ROOT / "docs" / "api.md").read_text()
    missing = [name for name in takeback.__all__ if name not in ("__version__",) and name not in text]
    assert missing == []


def test_every_error_is_in_it() -> None:
    """All error classes of the tree are listed."""
    text = (ROOT / "docs" / "api.md").read_text()
    names = [n for n, v in vars(errors).items() if isinstance(v, type) and issubclass(v, Exception)]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_public_method_says_what_it_does() -> None:
    """A public method or property without a docstring fails here."""
    bare = [
        f"{cls.__name__}.{name}"
        for cls in (
            takeback.Repo,
            takeback.Thread,
            takeback.Step,
            takeback.View,
            takeback.Plan,
            takeback.Receipt,
        )
        for name, value in vars(cls).items()
        if not name.startswith("_") and (callable(value) or isinstance(value, property)) and not value.__doc__
    ]
    assert bare == []
