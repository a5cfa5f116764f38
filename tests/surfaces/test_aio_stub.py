"""The types of the async façade are those of the synchronous one: aio.pyi is what its script makes."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from takeback import aio
from takeback.plan import Receipt

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    path = ROOT / "scripts" / "make_aio_stub.py"
    spec = importlib.util.spec_from_file_location("make_aio_stub", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def classes(stub: str) -> dict[str, dict[str, ast.AST]]:
    """From class to member, of a stub."""
    return {
        node.name: {item.name: item for item in node.body if hasattr(item, "name")}
        for node in ast.parse(stub).body
        if isinstance(node, ast.ClassDef)
    }


def test_the_stub_is_what_the_script_makes(script: Any) -> None:
    """Whoever changes a signature of the façade runs `python scripts/make_aio_stub.py`."""
    assert script.STUB.read_text(encoding="utf-8") == script.stub()


def test_another_signature_makes_the_stub_stale(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = script.tree

    def changed(module: Any) -> ast.Module:
        return ast.parse(ast.unparse(tree(module)).replace("public_key", "with_key"))

    monkeypatch.setattr(script, "tree", changed)
    assert "with_key: bytes | None = None" in script.stub()
    assert script.STUB.read_text(encoding="utf-8") != script.stub()


def test_an_attribute_without_a_type_is_refused(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub would have to guess; the script names the attribute instead."""
    tree = script.tree

    def changed(module: Any) -> ast.Module:
        text = ast.unparse(tree(module))
        assert "self.standing: list[str] = " in text
        return ast.parse(text.replace("self.standing: list[str] = ", "self.standing = "))

    monkeypatch.setattr(script, "tree", changed)
    with pytest.raises(TypeError, match=r"Receipt\.standing is set without a type"):
        list(script.Maker(aio)._attributes(Receipt))


def test_every_class_is_in_the_stub_with_every_member(script: Any) -> None:
    found = classes(script.stub())
    assert {*found, "aopen"} == set(aio.__all__)
    for face in aio.FACES.values():
        mirrored = {name for name in dir(face._of) if not name.startswith("_")}
        held = {name for name in mirrored if aio.kind(face, name) is None}
        assert mirrored - held <= found[face.__name__].keys()


def test_what_is_awaited_is_so_in_the_stub(script: Any) -> None:
    found = classes(script.stub())
    for face in aio.FACES.values():
        for name, item in found[face.__name__].items():
            if not name.startswith("_") and name in dir(face._of):
                is_async = isinstance(item, ast.AsyncFunctionDef)
                assert is_async == (aio.kind(face, name) == "awaited"), f"{face.__name__}.{name}"
