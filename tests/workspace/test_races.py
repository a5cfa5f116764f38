"""Others write while files are captured and put back: nothing is torn, nothing of theirs is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from tests.workspace.trees import Place

from takeback.model.manifest import read

ROUNDS = 60
WRITER = """
import os, sys
place, n = sys.argv[1], 0
while True:
    n += 1
    for name in ("over", "swap"):
        path = os.path.join(place, name)
        data = (f"{n:07}\\n" * 512).encode()
        if name == "over":
            fd = os.open(path, os.O_WRONLY)
            os.pwrite(fd, data, 0)
            os.close(fd)
        else:
            with open(path + ".tmp", "wb") as file:
                file.write(data)
            os.replace(path + ".tmp", path)
"""


def whole(data: bytes) -> bool:
    return len(set(data.split(b"\n")) - {b""}) == 1 and len(data) == 4096


def test_a_writer_that_races_a_capture(tmp_path) -> None:
    """What is kept is what stood there at one moment, or the file is named."""
    place = Place(tmp_path / "tree")
    for name in ("over", "swap"):
        (place.path / name).write_bytes(b"0000000\n" * 512)
    place.capture()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(place.path)])
    try:
        for _ in range(ROUNDS):
            place.capture()
            top = read.root_of(place.root, place.objects)
            for name in (b"over", b"swap"):
                entry = read.find(top.tree, name, place.objects)
                if entry is not None:
                    assert whole(read.contents(entry, place.objects)), name
    finally:
        writer.kill()
        writer.wait()


def test_a_writer_that_races_a_restore(tmp_path) -> None:
    """An edit that comes in the middle is kept and named; what is reported as done is what was to be."""
    place = Place(tmp_path / "tree")
    old, new = b"old0000\n" * 512, b"new0000\n" * 512
    names = [f"f{n}" for n in range(8)]
    for in_place in (True, False):
        place.directory.in_place = in_place
        for turn in range(ROUNDS // 4):
            for name in names:
                (place.path / name).write_bytes(old)
            first = place.capture(audit=True)
            for name in names:
                (place.path / name).write_bytes(new)
            second = place.capture(audit=True)
            mine = (f"mine{turn:03}\n" * 512).encode()[:4096]
            go = threading.Event()

            def interfere(go=go, mine=mine) -> None:
                go.wait()
                for name in names[::2]:
                    with open(place.path / (name + "~"), "wb") as file:
                        file.write(mine)
                    os.replace(place.path / (name + "~"), place.path / name)

            other = threading.Thread(target=interfere)
            other.start()
            place.directory.point = lambda _, go=go: go.set()
            kept = place.directory.restore(second, first, place.objects)
            other.join()
            for name in names:
                there = (place.path / name).read_bytes()
                assert there in (old, mine), name
                if os.fsencode(name) in kept:
                    assert there == mine
            place.root = None


def test_a_file_that_somebody_has_open_is_replaced_not_written_over(tmp_path) -> None:
    """A reader that has it open goes on reading what it opened."""
    place = Place(tmp_path / "tree")
    path = place.path / "a"
    path.write_bytes(b"one" * 100)
    first = place.capture()
    path.write_bytes(b"two" * 100)
    place.capture()
    with open(path, "rb") as reader:
        place.restore(first)
        assert reader.read() == b"two" * 100
    assert path.read_bytes() == b"one" * 100
