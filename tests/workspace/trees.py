"""A plain model of a directory: what stands on the disk, random edits, and a store in a dict."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import stat
from pathlib import Path
from typing import Any

from takeback.workspace.content import Store
from takeback.workspace.directory import Directory

NAMES = [b"a", b"b", b"A", b"c.py", b"d e", b"new\nline", b"\xff\xfe", b"-", b"..x", b"\xc3\xa9"]
SIZES = [0, 1, 10, 4095, 4096, 4097, 9000]


class Objects:
    """A content-addressed store in a dict, as a source of objects."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def get(self, digest: bytes) -> bytes:
        return self.held[digest]

    def get_many(self, digests: list[bytes]) -> list[bytes]:
        return [self.held[digest] for digest in digests]

    def peek(self, digest: bytes) -> bytes | None:
        return self.held.get(digest)


class Place:
    """A directory with the captures that were made of it."""

    def __init__(self, path: Path, objects: Objects | None = None) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.objects = objects or Objects()
        self.directory = Directory(str(path))
        self.root: bytes | None = None

    def capture(self, **how: Any) -> bytes:
        store = Store(self.objects)
        look = self.directory.look(self.root, store, **how)
        if look is not None:
            self.objects.held |= store.new
            self.directory.settle(look)
            self.root = look.captured.root
        assert self.root is not None
        return self.root

    def restore(self, root: bytes) -> dict[bytes, str]:
        assert self.root is not None
        kept = self.directory.restore(self.root, root, self.objects)
        self.root = root if not kept else self.root
        return kept


def snapshot(path: Path) -> dict[bytes, Any]:
    """Everything below a directory: kind, mode, contents, and which names are one file."""
    root = os.fsencode(path)
    found: dict[bytes, Any] = {}
    inodes: dict[int, list[bytes]] = {}
    for at, folders, files in os.walk(root):
        for name in [*folders, *files]:
            full = os.path.join(at, name)
            st = os.lstat(full)
            short = os.path.relpath(full, root)
            if stat.S_ISLNK(st.st_mode):
                found[short] = ("link", os.readlink(full))
            elif stat.S_ISDIR(st.st_mode):
                found[short] = ("dir", stat.S_IMODE(st.st_mode))
            else:
                found[short] = ("file", stat.S_IMODE(st.st_mode), Path(os.fsdecode(full)).read_bytes())
                if st.st_nlink > 1:
                    inodes.setdefault(st.st_ino, []).append(short)
    found[b"/groups"] = sorted(sorted(names) for names in inodes.values() if len(names) > 1)
    return found


def edit(path: Path, rng: random.Random) -> str:
    """One random change, as an agent, a shell or a person makes it; what cannot be done is not done."""
    root = os.fsencode(path)
    act = rng.choice(ACTS)
    with contextlib.suppress(OSError, shutil.Error, ValueError):
        act(root, rng)
    return act.__name__


def _any(root: bytes, rng: random.Random, kind: str | None = None) -> bytes:
    paths = []
    for at, folders, files in os.walk(root):
        paths += [
            os.path.join(at, name)
            for name in (folders if kind == "dir" else files if kind else [*folders, *files])
        ]
    if not paths:
        raise ValueError("nothing there")
    return rng.choice(sorted(paths))


def _folder(root: bytes, rng: random.Random) -> bytes:
    folders = sorted(at for at, _, _ in os.walk(root))
    return rng.choice(folders)


def _new(root: bytes, rng: random.Random) -> bytes:
    return os.path.join(_folder(root, rng), rng.choice(NAMES))


def _content(rng: random.Random) -> bytes:
    return (
        rng.randbytes(rng.choice(SIZES))
        if rng.random() < 0.3
        else rng.choice([b"x\n", b"\xc1\x10", b"y" * 50])
    )


def make_file(root: bytes, rng: random.Random) -> None:
    with open(_new(root, rng), "wb") as file:
        file.write(_content(rng))


def make_large(root: bytes, rng: random.Random) -> None:
    if rng.random() < 0.9:
        raise ValueError("seldom")
    with open(_new(root, rng), "wb") as file:
        file.write(rng.randbytes((1 << 20) + rng.randrange(200_000)))


def write_over(root: bytes, rng: random.Random) -> None:
    with open(_any(root, rng, "file"), "r+b") as file:
        file.write(_content(rng))


def append(root: bytes, rng: random.Random) -> None:
    with open(_any(root, rng, "file"), "ab") as file:
        file.write(_content(rng))


def truncate(root: bytes, rng: random.Random) -> None:
    os.truncate(_any(root, rng, "file"), rng.choice(SIZES))


def save_as_editors_do(root: bytes, rng: random.Random) -> None:
    path = _any(root, rng, "file")
    with open(path + b"~", "wb") as file:
        file.write(_content(rng))
    os.replace(path + b"~", path)


def make_folder(root: bytes, rng: random.Random) -> None:
    os.mkdir(_new(root, rng))


def make_deep(root: bytes, rng: random.Random) -> None:
    os.makedirs(os.path.join(_new(root, rng), rng.choice(NAMES), rng.choice(NAMES)))


def make_link(root: bytes, rng: random.Random) -> None:
    os.symlink(rng.choice([b"a", b"../a", b"/etc/passwd", b"nowhere", b"."]), _new(root, rng))


def make_hard_link(root: bytes, rng: random.Random) -> None:
    os.link(_any(root, rng, "file"), _new(root, rng), follow_symlinks=False)


def remove(root: bytes, rng: random.Random) -> None:
    path = _any(root, rng)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def rename(root: bytes, rng: random.Random) -> None:
    os.rename(_any(root, rng), _new(root, rng))


def change_mode(root: bytes, rng: random.Random) -> None:
    path = _any(root, rng)
    if not os.path.islink(path):
        os.chmod(path, rng.choice([0o644, 0o755, 0o600, 0o444, 0o555, 0o700]))


def folder_for_file(root: bytes, rng: random.Random) -> None:
    path = _any(root, rng)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        with open(path, "wb") as file:
            file.write(b"was a directory")
    else:
        os.unlink(path)
        os.mkdir(path)


def swap_folders(root: bytes, rng: random.Random) -> None:
    one, two = _any(root, rng, "dir"), _any(root, rng, "dir")
    os.rename(one, root + b"/swap")
    os.rename(two, one)
    os.rename(root + b"/swap", two)


ACTS = [
    make_file, make_file, make_large, write_over, write_over, append, truncate, save_as_editors_do,
    make_folder, make_deep, make_link, make_hard_link, remove, rename, rename, change_mode, folder_for_file,
    swap_folders,
]  # fmt: skip
