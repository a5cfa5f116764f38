"""A store that somebody made to do harm: nothing is written outside of the workspace, and it is said why."""

from __future__ import annotations

import contextlib
import os

import msgspec
import pytest
from tests.workspace.trees import Objects, Place, snapshot

from takeback.engine import reach
from takeback.errors import CorruptObject
from takeback.model.manifest import nodes, read
from takeback.model.manifest.nodes import Child, Entry, Root

BAD = [b"../x", b"..", b".", b"", b"/etc/passwd", b"a/b", b"nul\0", b"x" * 256]


def stored(objects: Objects, payload: bytes) -> bytes:
    digest = nodes.digest(payload)
    objects.held[digest] = payload
    return digest


def manifest(objects: Objects, entries: list[Entry], groups: list[list[bytes]] | None = None) -> bytes:
    tree = stored(objects, nodes.leaf_node(entries))
    grouped = stored(objects, nodes.groups_node(groups)) if groups else b""
    return stored(objects, nodes.root_node(Root(nodes.FORMAT, tree, grouped)))


@pytest.fixture
def place(tmp_path) -> Place:
    (tmp_path / "outside").write_text("precious")
    made = Place(tmp_path / "tree")
    (made.path / "a.txt").write_text("a")
    made.capture()
    return made


def file_entry(place: Place, name: bytes, text: bytes = b"harm", **fields) -> Entry:
    digest = stored(place.objects, nodes.blob(text))
    return msgspec.structs.replace(Entry(name, nodes.FILE, 0o644, len(text), digest), **fields)


def refused(place: Place, root: bytes, match: str) -> None:
    was, outside = snapshot(place.path), (place.path.parent / "outside").read_text()
    with pytest.raises(CorruptObject, match=match):
        place.restore(root)
    assert snapshot(place.path) == was
    assert (place.path.parent / "outside").read_text() == outside


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_leads_out_is_refused(place, name) -> None:
    refused(place, manifest(place.objects, [file_entry(place, name)]), "no name in a directory")


@pytest.mark.parametrize("name", BAD)
def test_a_part_of_a_directory_with_such_a_name_is_refused(place, name) -> None:
    leaf = stored(place.objects, nodes.leaf_node([file_entry(place, b"ok")]))
    tree = stored(place.objects, nodes.index_node([Child(name, leaf)]))
    refused(place, stored(place.objects, nodes.root_node(Root(1, tree))), "no name in a directory")


@pytest.mark.parametrize("path", [b"../outside", b"/etc/passwd", b"a/../../outside"])
def test_one_file_with_something_outside_is_refused(place, path) -> None:
    refused(
        place, manifest(place.objects, [file_entry(place, b"x")], [[path, b"x"]]), "no name in a directory"
    )


def test_names_twice_or_out_of_order_are_refused(place) -> None:
    one, two = file_entry(place, b"x"), file_entry(place, b"a")
    refused(place, manifest(place.objects, [one, one]), "twice")
    refused(place, manifest(place.objects, [one, two]), "not in order")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"kind": 9}, "of kind 9"),
        ({"mode": 0o10000}, "mode or size"),
        ({"size": -1}, "mode or size"),
        ({"data": b"short"}, "by no digest"),
        ({"size": 3}, "not of the recorded size"),
        ({"size": 9}, "not of the recorded size"),
        ({"kind": nodes.LINK, "data": b""}, "leads nowhere"),
        ({"kind": nodes.LINK, "data": b"a\0b"}, "leads nowhere"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused(place, fields, match) -> None:
    refused(place, manifest(place.objects, [file_entry(place, b"x", **fields)]), match)


def test_a_directory_that_is_a_file_and_a_file_that_is_a_directory(place) -> None:
    blob = stored(place.objects, nodes.blob(b"harm"))
    refused(place, manifest(place.objects, [Entry(b"d", nodes.DIR, 0o755, 0, blob)]), "another kind")
    empty = stored(place.objects, nodes.leaf_node([]))
    refused(place, manifest(place.objects, [Entry(b"f", nodes.FILE, 0o644, 4, empty)]), "no file's contents")


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\xff" * 9, msgspec.msgpack.encode([["x"]]), b"\x91\x91\x01"]
)
@pytest.mark.parametrize("kind", range(16, 24))
def test_damaged_objects_are_told(kind, body) -> None:
    """Whatever stands in an object of a manifest, reading it raises what says so, or reads it."""
    payload = bytes((0xC1, kind)) + body
    with contextlib.suppress(CorruptObject):
        assert isinstance(reach.below(payload), list)


def test_a_link_in_the_way_is_not_followed(place, tmp_path) -> None:
    """A directory became a link out of the root: what should be written below it is kept back and named."""
    (place.path / "d").mkdir()
    (place.path / "d" / "f").write_text("one")
    first = place.capture()
    (place.path / "d" / "f").write_text("two")
    place.capture()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "f").write_text("precious")
    os.rename(place.path / "d", tmp_path / "d-moved")
    os.symlink(tmp_path / "target", place.path / "d")
    kept = place.directory.restore(place.root, first, place.objects)
    assert set(kept) == {b"d/f"}
    assert (tmp_path / "target" / "f").read_text() == "precious"


def test_a_link_out_of_the_workspace_is_captured_as_a_link(place, tmp_path) -> None:
    os.symlink(tmp_path / "outside", place.path / "link")
    root = place.capture()
    tree = read.root_of(root, place.objects).tree
    found = read.find(tree, b"link", place.objects)
    assert found.kind == nodes.LINK
    assert b"precious" not in b"".join(place.objects.held.values())


def test_contents_that_look_like_a_node_are_only_contents(place) -> None:
    """A file may hold any bytes: verifying, collecting and restoring never read it as a node."""
    for n, data in enumerate([b"\xc1\x10", b"\xc1\x01\x90", nodes.root_node(Root(1, b"x" * 32)), b"\xc1"]):
        (place.path / f"f{n}").write_bytes(data)
    was = snapshot(place.path)
    root = place.capture()
    for payload in place.objects.held.values():
        reach.below(payload)
    for n in range(4):
        (place.path / f"f{n}").unlink()
    place.capture()
    place.restore(root)
    assert snapshot(place.path) == was
