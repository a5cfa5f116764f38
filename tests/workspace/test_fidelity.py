"""Fidelity: a directory goes out and comes back identical, whatever was done to it in between."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import SOAK
from tests.workspace.trees import Place, edit, snapshot

from takeback.model.manifest import read

EDITS = 12


def run(seed: int, how: str, steps: int) -> None:
    """Edits, captures and restores, each compared with what the disk held then."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder, "tree"))
        if how != "sweep":
            place.directory.watch()
        place.directory.in_place = rng.random() < 0.7
        captures: list[tuple[bytes, dict]] = [(place.capture(), snapshot(place.path))]
        for _ in range(steps):
            done = [edit(place.path, rng) for _ in range(rng.randrange(1, EDITS))]
            captures.append((place.capture(), snapshot(place.path)))
            assert as_captured(place, captures[-1][0]) == captures[-1][1], done
            if rng.random() < 0.6:
                root, was = rng.choice(captures)
                assert place.restore(root) == {}
                assert snapshot(place.path) == was, (seed, how, done)
                assert not [name for name in os.listdir(place.path) if name.startswith(".takeback")]
                place.root = root
        place.capture(audit=True)
        assert place.directory.missed == 0
        place.directory.close()


def as_captured(place: Place, root: bytes) -> dict:
    """A manifest as a snapshot."""
    found: dict = {}
    top = read.root_of(root, place.objects)
    for path, entry in read.walk(top.tree, place.objects):
        if entry.is_dir:
            found[path] = ("dir", entry.mode)
        elif entry.is_file:
            found[path] = ("file", entry.mode, read.contents(entry, place.objects))
        else:
            found[path] = ("link", entry.data)
    found[b"/groups"] = read.groups_of(top, place.objects)
    return found


@pytest.mark.parametrize("how", ["sweep", "watch"])
@settings(max_examples=1_000 if SOAK else 40)
@given(seed=st.integers(0, 2**32))
def test_a_directory_comes_back_identical(how: str, seed: int) -> None:
    """Content, kind, mode, where links lead, and which names are one file, against a plain model."""
    run(seed, how, steps=4)
