"""Resources: a directory and a browser's storage state are captured, compared and put back in one way."""

from __future__ import annotations

import json

import pytest
from tests.workspace.trees import Objects

from takeback.engine import reach
from takeback.errors import BadState
from takeback.workspace.browser import StorageState
from takeback.workspace.content import Store
from takeback.workspace.directory import Directory
from takeback.workspace.resource import Resource

LOGGED_IN = {
    "cookies": [{"name": "sid", "value": "1", "domain": "a.example", "path": "/"}],
    "origins": [{"origin": "https://a.example", "localStorage": [{"name": "cart", "value": "3"}]}],
}
LOGGED_OUT = {"cookies": [], "origins": LOGGED_IN["origins"]}


def directory(path):
    path.mkdir()

    def put(text: str) -> None:
        (path / "a").write_text(text)

    return Directory(str(path)), put, (path / "a").read_text, [b"a"]


def browser(path):
    def put(text: str) -> None:
        path.write_text(json.dumps(LOGGED_IN if text == "one" else LOGGED_OUT))

    def look() -> str:
        return "one" if json.loads(path.read_text()) == LOGGED_IN else "two"

    return StorageState(path), put, look, [b"cookies"]


@pytest.mark.parametrize("make", [directory, browser])
def test_a_resource_goes_out_and_comes_back(make, tmp_path) -> None:
    """The same root for the same thing, a diff by path, and a restore that can be done again."""
    resource, put, look, paths = make(tmp_path / "it")
    kind: Resource = resource
    objects = Objects()

    def capture(base: bytes | None) -> bytes:
        store = Store(objects)
        kept = kind.capture(base, store)
        objects.held |= store.new
        return kept.root

    put("one")
    first = capture(None)
    assert capture(first) == first
    put("two")
    second = capture(first)
    assert [each.path for each in kind.diff(first, second, objects)] == paths
    for _ in range(2):
        assert kind.restore(second, first, objects) == {}
        assert look() == "one"
    assert set(reach.below(objects.get(first))) <= objects.held.keys()
    put("two")
    assert kind.restore(first, first, objects) is not None
    assert look() == "two"


def test_what_somebody_did_in_the_browser_meanwhile_is_kept(tmp_path) -> None:
    path, objects = tmp_path / "state.json", Objects()
    resource, roots = StorageState(path), []
    for state in (LOGGED_IN, LOGGED_OUT):
        path.write_text(json.dumps(state))
        store = Store(objects)
        roots.append(resource.capture(None, store).root)
        objects.held |= store.new
    other = {"cookies": [], "origins": []}
    path.write_text(json.dumps(other))
    assert resource.restore(roots[1], roots[0], objects) == {b"cookies": "was changed meanwhile"}
    assert json.loads(path.read_text()) == other


def test_a_file_that_is_no_storage_state_is_refused(tmp_path) -> None:
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(BadState, match="is no storage state"):
        StorageState(tmp_path / "x.json").capture(None, Store(Objects()))
