"""What a git repository says of itself: HEAD, refs and the index, read from its files without git."""

from __future__ import annotations

import contextlib
import os
import re
import time

import msgspec

from takeback.errors import CorruptObject
from takeback.model import canonical

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_RACY_NS = 100_000_000
"""A directory that changed this recently may change again within the same tick of its clock."""
OURS = "refs/takeback/"


class Facts(msgspec.Struct, frozen=True):
    """A repository at one moment. `head` is the ref that HEAD names, or a commit where it names one."""

    head: str
    refs: dict[str, str]
    index: str  # the checksum that the index ends with; empty where there is none

    @property
    def commit(self) -> str | None:
        """What is checked out; None on a branch without a commit."""
        return self.refs.get(self.head) if self.head.startswith("refs/") else self.head

    @property
    def branch(self) -> str | None:
        """The branch that is checked out, in short; None when HEAD is detached."""
        return self.head.removeprefix("refs/heads/") if self.head.startswith("refs/heads/") else None

    def encode(self) -> bytes:
        return canonical.encode({"git": 1, "head": self.head, "refs": self.refs, "index": self.index})


def decode(payload: bytes) -> Facts:
    try:
        said = canonical.decode(payload)
        return msgspec.convert({name: said[name] for name in ("head", "refs", "index")}, Facts)
    except (msgspec.ValidationError, KeyError, TypeError) as error:
        raise CorruptObject(f"a record of a repository that cannot be read: {error}") from None


class Places(msgspec.Struct, frozen=True):
    """Where a repository keeps its own: a worktree has HEAD and index alone, the rest is shared."""

    own: str
    common: str

    @property
    def is_readable(self) -> bool:
        """Whether its refs lie in files; a newer format keeps them in tables."""
        return not os.path.isdir(os.path.join(self.common, "reftable"))


def places(root: str) -> Places | None:
    """The repository whose working tree this is; None when it is none."""
    own = os.path.join(root, ".git")
    if os.path.isfile(own):
        said = _text(own)
        if not said.startswith("gitdir:"):
            return None
        own = os.path.normpath(os.path.join(root, said.removeprefix("gitdir:").strip()))
    if not os.path.isfile(os.path.join(own, "HEAD")):
        return None
    common = _text(os.path.join(own, "commondir")).strip()
    return Places(own, os.path.normpath(os.path.join(own, common)) if common else own)


class Reader:
    """Reads one repository again and again; directories of refs that did not change are not read again."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._folders: dict[str, tuple[int, dict[str, str], list[str]]] = {}
        self._packed: tuple[tuple[int, int], dict[str, str]] = ((0, 0), {})

    def read(self) -> Facts | None:
        """As it is now; None where there is no repository, or one whose refs do not lie in files."""
        found = places(self.root)
        if found is None or not found.is_readable:
            return None
        head = _text(os.path.join(found.own, "HEAD")).strip()
        refs = self._packed_refs(found.common) | self._loose(found.common, "refs")
        if found.own != found.common and os.path.isdir(os.path.join(found.own, "refs")):
            refs |= self._loose(found.own, "refs")
        return Facts(head.removeprefix("ref:").strip(), dict(sorted(refs.items())), _index(found.own))

    def _loose(self, base: str, name: str) -> dict[str, str]:
        path = os.path.join(base, name)
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:  # removed since its parent was listed
            self._folders.pop(path, None)
            return {}
        known = self._folders.get(path)
        if known is None or known[0] != changed or time.time_ns() - changed < _RACY_NS:
            known = self._folders[path] = (changed, *_listed(base, name))
        refs = dict(known[1])
        for folder in known[2]:
            if f"{folder}/" != OURS:
                refs |= self._loose(base, folder)
        return refs

    def _packed_refs(self, common: str) -> dict[str, str]:
        path = os.path.join(common, "packed-refs")
        try:
            status = os.stat(path)
        except OSError:
            return {}
        key = (status.st_mtime_ns, status.st_size)
        if self._packed[0] != key or time.time_ns() - status.st_mtime_ns < _RACY_NS:
            lines = (line.split(" ", 1) for line in _text(path).splitlines() if line[:1] not in "#^")
            found = {pair[1]: pair[0] for pair in lines if len(pair) == 2 and _SHA.fullmatch(pair[0])}
            kept = {name: sha for name, sha in found.items() if not name.startswith(OURS)}
            self._packed = (key, kept)
        return self._packed[1]


def _listed(base: str, name: str) -> tuple[dict[str, str], list[str]]:
    """The refs in a directory, and the directories in it. Files that are no refs (locks) are passed over."""
    refs, folders = {}, []
    with contextlib.suppress(OSError), os.scandir(os.path.join(base, name)) as entries:
        for entry in entries:
            full = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                folders.append(full)
            elif not entry.name.endswith(".lock"):
                said = _text(entry.path).strip()
                if _SHA.fullmatch(said) or said.startswith("ref:"):
                    refs[full] = said
    return refs, folders


def _index(own: str) -> str:
    try:
        with open(os.path.join(own, "index"), "rb") as file:
            file.seek(-20, os.SEEK_END)
            return file.read().hex()
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


# --- what moved


class Move(msgspec.Struct, frozen=True):
    """A ref that is not where it was; None where it was not, or is not any more."""

    ref: str
    before: str | None
    after: str | None

    @property
    def short(self) -> str:
        for kind in ("heads", "tags", "remotes"):
            if self.ref.startswith(f"refs/{kind}/"):
                return self.ref.removeprefix(f"refs/{kind}/")
        return self.ref

    @property
    def noun(self) -> str:
        if self.ref == "refs/stash":
            return "the stash"
        kind = self.ref.split("/")[1]
        nouns = {"heads": "branch", "tags": "tag", "remotes": "remote branch"}
        return f"{nouns.get(kind, 'ref')} {self.short}"


def moves(before: Facts, after: Facts) -> list[Move]:
    """The refs that differ, in order."""
    names = sorted(before.refs.keys() | after.refs.keys())
    found = [Move(name, before.refs.get(name), after.refs.get(name)) for name in names]
    return [move for move in found if move.before != move.after]


def commits_between(root: str, old: str, new: str) -> int | None:
    """How many commits lead from one to the other; None where one does not follow from the other, or git
    cannot say."""
    from takeback.workspace.git_program import count_commits

    return count_commits(root, old, new)


def told(root: str, before: Facts, after: Facts) -> list[str]:
    """What moved, a line each: "branch feature-x created, 2 commits on main"."""
    said = []
    if before.head != after.head:
        said.append(f"switched from {_head(before)} to {_head(after)}")
    for move in moves(before, after):
        if move.before is None:
            said.append(f"{move.noun} created")
        elif move.after is None:
            said.append(f"{move.noun} deleted")
        else:
            said.append(_moved(root, move, move.before, move.after))
    if before.index != after.index and before.commit == after.commit:
        said.append("the index changed")
    return said


def _moved(root: str, move: Move, before: str, after: str) -> str:
    forward = commits_between(root, before, after)
    if forward:
        return f"{forward} commit{'s' if forward > 1 else ''} on {move.short}"
    backward = commits_between(root, after, before)
    if backward:
        return f"{move.noun} set back by {backward} commit{'s' if backward > 1 else ''}"
    return f"{move.noun} moved from {before[:9]} to {after[:9]}"


def _head(facts: Facts) -> str:
    return facts.branch or facts.head[:9]
