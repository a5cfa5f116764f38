"""What needs the git program: counting commits, taking refs back, and writing files as a commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator

import msgspec

from takeback.errors import GitRefused
from takeback.workspace.git import OURS, Facts, Reader, moves

_NAME = "The git program is needed for this"


class File(msgspec.Struct, frozen=True):
    """A file as a commit holds it: its name in bytes, one of git's modes, and its content."""

    path: bytes
    mode: str
    content: bytes


def count_commits(root: str, old: str, new: str) -> int | None:
    try:
        back = git(root, "rev-list", "--count", f"{new}..{old}")
        ahead = git(root, "rev-list", "--count", f"{old}..{new}")
    except GitRefused:  # no git, or an object that is gone: then the two ids are said instead
        return None
    return int(ahead) if int(back) == 0 else None


def take_back(root: str, target: Facts, now: Facts, mark: str) -> list[str]:
    """Set refs, HEAD and index to what they were; what they were set away from stays under refs/takeback.

    Refuses, before it moves anything, what moved since it was looked at, a commit that is gone, and a
    branch that another working tree has checked out. `mark` names the refs that are kept.
    """
    _unmoved(root, now)
    changed = moves(target, now)
    _there(root, [move.before for move in changed if move.before is not None])
    busy = _checked_out_elsewhere(root)
    for move in changed:
        if move.ref in busy:
            raise GitRefused(f"{move.noun} is checked out in {busy[move.ref]}; nothing was moved")
    kept = [(f"{OURS}{mark}/{move.ref.removeprefix('refs/')}", move.after) for move in changed if move.after]
    detached = now.commit if not now.head.startswith("refs/") else None
    if detached is not None and detached != target.commit:
        kept.append((f"{OURS}{mark}/HEAD", detached))
    lines = ["start", *(f"update {ref} {sha}" for ref, sha in kept if not sha.startswith("ref:"))]
    for move in changed:
        if (move.before or move.after or "").startswith("ref:"):
            continue  # a remote's default branch is a name, and moves nothing that could be lost
        now_there = move.after or "0" * len(move.before or "")
        if move.before is None:
            lines.append(f"delete {move.ref} {now_there}")
        else:
            lines.append(f"update {move.ref} {move.before} {now_there}")
    # In one transaction of git's own: all of them move, or none.
    git(root, "update-ref", "--no-deref", "--stdin", stdin="\n".join([*lines, "prepare", "commit", ""]))
    _set_head(root, target, now)
    return [ref for ref, sha in kept if not sha.startswith("ref:")]


def _set_head(root: str, target: Facts, now: Facts) -> None:
    if target.head != now.head:
        if target.head.startswith("refs/"):
            git(root, "symbolic-ref", "-m", "takeback", "HEAD", target.head)
        else:
            git(root, "update-ref", "--no-deref", "-m", "takeback", "HEAD", target.head)
    if (target.commit, target.index) != (now.commit, now.index):
        # What was staged is in no checkpoint; the files are, and stay as they are.
        git(root, "read-tree", "HEAD" if target.commit else "--empty")


def export(root: str, branch: str, files: Iterable[File], message: str, parent: str | None) -> str:
    """A commit of exactly these files on a new branch. Neither the working tree nor the index is touched."""
    ref = f"refs/heads/{branch}"
    git(root, "check-ref-format", "--branch", branch)
    if _resolves(root, ref):
        raise GitRefused(f"there is a branch {branch} already", hint="Choose another name")
    who = git(root, "var", "GIT_COMMITTER_IDENT")
    stream = b"".join(_stream(ref, files, message, parent, who))
    _run(root, ["fast-import", "--quiet", "--date-format=raw"], stream)
    return git(root, "rev-parse", ref)


def _stream(ref: str, files: Iterable[File], message: str, parent: str | None, who: str) -> Iterator[bytes]:
    said = message.encode(errors="surrogateescape")
    yield f"feature done\ncommit {ref}\ncommitter {who}\ndata {len(said)}\n".encode() + said + b"\n"
    if parent is not None:
        yield f"from {parent}\n".encode()
    yield b"deleteall\n"
    for file in files:
        yield b"M %s inline %s\ndata %d\n" % (file.mode.encode(), _quoted(file.path), len(file.content))
        yield file.content + b"\n"
    yield b"done\n"


def _quoted(path: bytes) -> bytes:
    """A name in git's quotes: any byte but null may be in it."""
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def git(root: str, *words: str, stdin: str = "") -> str:
    """One call of git, in this repository and no other that the environment may name."""
    return _run(root, list(words), stdin.encode(errors="surrogateescape")).strip()


def _run(root: str, words: list[str], stdin: bytes) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_DIR")}
    for name in (
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
        "GIT_NAMESPACE",
    ):
        environment.pop(name, None)
    # A hook of the repository's may do anything, and it was written for what people do with git.
    command = ["git", "-c", "core.hooksPath=/dev/null", "-C", root, *words]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, check=False, env=environment | {"LC_ALL": "C"}
        )
    except FileNotFoundError:
        raise GitRefused("git is not installed", hint=_NAME) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitRefused(f"git {words[0]} refused: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.decode(errors="surrogateescape")


def _unmoved(root: str, now: Facts) -> None:
    found = Reader(root).read()
    if found is None or (found.head, found.refs) != (now.head, now.refs):
        raise GitRefused("branches moved while this was looked at; nothing was moved", hint="Try again")


def _there(root: str, shas: list[str]) -> None:
    wanted = [sha for sha in shas if not sha.startswith("ref:")]
    answers = (
        git(root, "cat-file", "--batch-check=%(objecttype)", stdin="\n".join([*wanted, ""])) if wanted else ""
    )
    missing = [sha for sha, answer in zip(wanted, answers.splitlines(), strict=False) if "missing" in answer]
    if missing:
        raise GitRefused(f"commit {missing[0]} is no longer in the repository; nothing was moved")


def _checked_out_elsewhere(root: str) -> dict[str, str]:
    """Branch → the other working tree that stands on it."""
    here, found, path = os.path.realpath(root), dict[str, str](), ""
    for line in git(root, "worktree", "list", "--porcelain").splitlines():
        word, _, rest = line.partition(" ")
        if word == "worktree":
            path = rest
        elif word == "branch" and os.path.realpath(path) != here:
            found[rest] = path
    return found


def _resolves(root: str, ref: str) -> bool:
    try:
        git(root, "rev-parse", "--verify", "--quiet", ref)
    except GitRefused:
        return False
    return True
