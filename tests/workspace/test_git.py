"""A repository's own: read without git, said in words, taken back with every commit still reachable."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from takeback.errors import CorruptObject, GitRefused
from takeback.workspace import git as facts
from takeback.workspace import git_program
from takeback.workspace.git import Facts, Reader, decode, told


class Repository:
    """A real one, driven by the real git."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, *words: str, at: Path | None = None) -> str:
        environment = os.environ | {
            "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_{what}": f"{who}@example.org".lower() for who in ("AUTHOR", "COMMITTER")
               for what in ("NAME", "EMAIL")},
        }  # fmt: skip
        done = subprocess.run(
            ["git", *words], cwd=at or self.path, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, name: str, text: str) -> str:
        (self.path / name).write_text(text)
        self("add", "-A")
        self("commit", "-qm", f"{name}: {text}")
        return self("rev-parse", "HEAD")

    def now(self) -> Facts:
        found = Reader(str(self.path)).read()
        assert found is not None
        return found

    def as_git_says(self) -> dict[str, str]:
        lines = self("for-each-ref", "--format=%(refname) %(objectname) %(symref)").splitlines()
        found = {}
        for line in lines:
            name, sha, *symref = line.split(" ")
            if not name.startswith("refs/takeback/"):
                found[name] = f"ref: {symref[0]}" if symref and symref[0] else sha
        return found


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a tester")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "tester@example.org")
    path = tmp_path / "repo"
    path.mkdir()
    made = Repository(path)
    made("init", "-q", "-b", "main")
    made.commit("a.txt", "one")
    return made


# --- reading


def test_it_says_what_git_says(repo: Repository) -> None:
    """Branches, tags, the stash, branches with slashes, a remote and its default branch; loose and packed."""
    repo("branch", "feature/x")
    repo("tag", "-a", "v1", "-m", "first")
    repo("tag", "light")
    repo("pack-refs", "--all")
    repo.commit("b.txt", "two")
    repo("branch", "feature/y")
    repo("branch", "-D", "feature/x")
    (repo.path / "a.txt").write_text("staged")
    repo("stash")
    repo("remote", "add", "origin", str(repo.path))
    repo("fetch", "-q", "origin")
    repo("remote", "set-head", "origin", "main")
    now = repo.now()
    assert now.refs == repo.as_git_says()
    assert (now.head, now.branch) == ("refs/heads/main", "main")
    assert now.commit == repo("rev-parse", "HEAD")
    assert decode(now.encode()) == now


def test_a_reader_sees_every_change(repo: Repository) -> None:
    """What it remembers of one reading must not hide the next, however soon it comes."""
    reader = Reader(str(repo.path))
    for number in range(25):
        repo("branch", f"b/{number}")
        if number % 3 == 0:
            repo("branch", "-D", f"b/{number}")
        if number % 7 == 0:
            repo("pack-refs", "--all")
        found = reader.read()
        assert found is not None
        assert found.refs == repo.as_git_says()


def test_a_detached_head_and_a_branch_without_commits(repo: Repository) -> None:
    sha = repo("rev-parse", "HEAD")
    repo("checkout", "-q", "--detach")
    assert (repo.now().branch, repo.now().commit) == (None, sha)
    repo("checkout", "-q", "--orphan", "fresh")
    assert (repo.now().branch, repo.now().commit) == ("fresh", None)


def test_a_worktree_has_a_head_of_its_own_and_shares_the_rest(repo: Repository, tmp_path: Path) -> None:
    other = tmp_path / "other"
    repo("worktree", "add", "-q", "-b", "side", str(other))
    found = Reader(str(other)).read()
    assert found is not None
    assert (found.branch, repo.now().branch) == ("side", "main")
    assert found.refs == repo.now().refs == repo.as_git_says()


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: /nowhere", "nonsense"])
def test_what_is_no_repository_says_nothing(tmp_path: Path, text: str) -> None:
    assert Reader(str(tmp_path)).read() is None
    (tmp_path / ".git").write_text(text)
    assert Reader(str(tmp_path)).read() is None


def test_refs_in_tables_are_not_misread(repo: Repository) -> None:
    """A repository of the newer format has a HEAD that names nothing; then nothing is said at all."""
    (repo.path / ".git" / "reftable").mkdir()
    assert Reader(str(repo.path)).read() is None


def test_a_damaged_record_is_named() -> None:
    with pytest.raises(CorruptObject, match="repository"):
        decode(b"\x80")


# --- in words


def test_what_moved_in_words(repo: Repository) -> None:
    before = repo.now()
    repo.commit("a.txt", "two")
    repo.commit("a.txt", "three")
    repo("checkout", "-q", "-b", "feature-x")
    repo("tag", "v1")
    assert told(str(repo.path), before, repo.now()) == [
        "switched from main to feature-x",
        "branch feature-x created",
        "2 commits on main",
        "tag v1 created",
    ]
    assert "branch main set back by 2 commits" in told(str(repo.path), repo.now(), before)
    assert told(str(repo.path), before, before) == []
    now = repo.now()
    (repo.path / "a.txt").write_text("staged")
    repo("add", "a.txt")
    assert told(str(repo.path), now, repo.now()) == ["the index changed"]


def test_a_rewritten_branch_is_said_with_both_commits(repo: Repository) -> None:
    before = repo.now()
    repo("commit", "-q", "--amend", "-m", "other words")
    after = repo.now()
    said = (
        f"branch main moved from {before.refs['refs/heads/main'][:9]} to {after.refs['refs/heads/main'][:9]}"
    )
    assert said in told(str(repo.path), before, after)


def test_without_git_the_commits_are_said(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    before = repo.now()
    repo.commit("a.txt", "two")
    after = repo.now()
    monkeypatch.setenv("PATH", "/nowhere")
    assert any(line.startswith("branch main moved from") for line in told(str(repo.path), before, after))


# --- taking back


def test_branches_and_head_go_back_and_every_commit_stays_reachable(repo: Repository) -> None:
    before = repo.now()
    two = repo.commit("a.txt", "two")
    repo("checkout", "-q", "-b", "feature-x")
    three = repo.commit("b.txt", "three")
    now = repo.now()
    kept = git_program.take_back(str(repo.path), before, now, "c5-abcd")
    after = repo.now()
    assert (after.head, after.refs) == (before.head, before.refs)
    assert {repo("rev-parse", ref) for ref in kept} == {two, three}
    repo("gc", "-q", "--prune=now")
    assert repo("cat-file", "-t", three) == "commit"
    # The files are the checkpoint's business: none was touched here.
    assert (repo.path / "b.txt").exists()
    assert repo("diff", "--cached", "--name-only") == ""


def test_a_deleted_branch_comes_again(repo: Repository) -> None:
    repo("branch", "side")
    before = repo.now()
    repo("branch", "-D", "side")
    git_program.take_back(str(repo.path), before, repo.now(), "c1")
    assert repo.now().refs == before.refs


def test_a_detached_head_goes_back_to_its_branch_and_the_other_way(repo: Repository) -> None:
    before = repo.now()
    repo("checkout", "-q", "--detach")
    lost = repo.commit("c.txt", "on no branch")
    detached = repo.now()
    git_program.take_back(str(repo.path), before, detached, "c1")
    assert repo.now().head == "refs/heads/main"
    assert repo("rev-parse", "refs/takeback/c1/HEAD") == lost
    git_program.take_back(str(repo.path), detached, repo.now(), "c2")
    assert repo.now().head == lost


def test_a_branch_that_moved_since_it_was_looked_at_is_left(repo: Repository) -> None:
    before = repo.now()
    repo.commit("a.txt", "two")
    seen = repo.now()
    repo.commit("a.txt", "three")
    latest = repo.now()
    with pytest.raises(GitRefused, match="moved while"):
        git_program.take_back(str(repo.path), before, seen, "c1")
    assert repo.now() == latest


def test_a_commit_that_is_gone_is_named_and_nothing_moves(repo: Repository) -> None:
    now = repo.now()
    gone = Facts(now.head, now.refs | {"refs/heads/main": "1" * 40}, now.index)
    with pytest.raises(GitRefused, match="no longer in the repository"):
        git_program.take_back(str(repo.path), gone, now, "c1")
    assert repo.now() == now


def test_a_branch_that_another_worktree_stands_on_is_left(repo: Repository, tmp_path: Path) -> None:
    """Its files would no longer be those of its branch."""
    before = repo.now()
    repo("worktree", "add", "-q", "-b", "side", str(tmp_path / "other"))
    now = repo.now()
    with pytest.raises(GitRefused, match="checked out in"):
        git_program.take_back(str(repo.path), before, now, "c1")
    assert repo.now() == now


def test_no_hook_of_the_repository_runs(repo: Repository) -> None:
    before = repo.now()
    repo.commit("a.txt", "two")
    hook = repo.path / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\nexit 1\n")
    hook.chmod(0o755)
    git_program.take_back(str(repo.path), before, repo.now(), "c1")
    assert not (repo.path / "ran").exists()


def test_the_environment_of_another_repository_is_ignored(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook that git itself runs has GIT_DIR set."""
    before = repo.now()
    repo.commit("a.txt", "two")
    now = repo.now()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    git_program.take_back(str(repo.path), before, now, "c1")
    monkeypatch.undo()
    assert repo.now().refs == before.refs


# --- export


def test_files_are_written_as_a_commit_on_a_new_branch(repo: Repository) -> None:
    """Any name, any bytes, modes and links; neither the working tree nor the index nor HEAD is touched."""
    names = [b"plain.txt", "Zoë/日本.txt".encode(), b'odd "name"\\ with\nlines', b"not utf-8 \xff", b" lead"]
    files = [git_program.File(name, "100644", name * 3) for name in names]
    files += [
        git_program.File(b"run.sh", "100755", b"#!/bin/sh\n"),
        git_program.File(b"link", "120000", b"plain.txt"),
        git_program.File(b"empty", "100644", b""),
    ]
    (repo.path / "a.txt").write_text("not committed")
    before, status = repo.now(), repo("status", "--porcelain")
    sha = git_program.export(str(repo.path), "undone/work", files, "what it was\n", before.commit)
    after = repo.now()
    assert after.refs == before.refs | {"refs/heads/undone/work": sha}
    assert (after.head, after.index, repo("status", "--porcelain")) == (before.head, before.index, status)
    assert repo("rev-parse", f"{sha}^") == before.commit
    assert repo("log", "-1", "--format=%s", sha) == "what it was"
    listed = subprocess.run(
        ["git", "ls-tree", "-rz", sha], cwd=repo.path, capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    modes = {line.split(b"\t", 1)[1]: line.split(b" ", 1)[0].decode() for line in listed}
    assert modes == {file.path: file.mode for file in files}
    for file in files:
        blob = next(line for line in listed if line.endswith(b"\t" + file.path)).split()[2].decode()
        held = subprocess.run(
            ["git", "cat-file", "blob", blob], cwd=repo.path, capture_output=True, check=True
        )
        assert held.stdout == file.content


def test_a_branch_that_is_there_is_not_written_over(repo: Repository) -> None:
    before = repo.now()
    with pytest.raises(GitRefused, match="a branch main already"):
        git_program.export(str(repo.path), "main", [], "x", None)
    with pytest.raises(GitRefused, match="check-ref-format"):
        git_program.export(str(repo.path), "no..good", [], "x", None)
    assert repo.now() == before


def test_an_export_without_a_parent_begins_a_history(repo: Repository) -> None:
    sha = git_program.export(str(repo.path), "alone", [git_program.File(b"a", "100644", b"x")], "x", None)
    assert repo("rev-list", "--count", sha) == "1"


def test_places_of_a_repository(repo: Repository) -> None:
    found = facts.places(str(repo.path))
    assert found is not None
    assert found.own == found.common == str(repo.path / ".git")
