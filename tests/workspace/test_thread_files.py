"""A thread's workspace: captured with its steps, put back by its undo, and what others did is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import takeback
from takeback.errors import PlanRequired, PlanStale, WorkspaceRefused


def test_a_step_ends_with_its_files_and_undo_brings_them_back(trip, project) -> None:
    with trip.step("edit"):
        project.write("auth.py", "def login():\n    return False\n")
        project.write("new.py", "x = 1\n")
        (project.path / "db.py").unlink()
    assert trip.head.kind == "step"
    plan = trip.plan_undo()
    assert str(plan) == "reverts auth.py (+1 −1), removes new.py, brings back db.py"
    receipt = plan.apply()
    assert sorted(receipt.files) == ["auth.py", "db.py", "new.py"]
    assert project.names() == ["README.md", "auth.py", "db.py"]
    assert project.read("auth.py").endswith("True\n")
    assert trip.verify().ok


def test_redo_and_undo_of_a_rollback_bring_files_back(trip, project) -> None:
    with trip.step("edit"):
        project.write("auth.py", "broken")
    trip.undo()
    trip.redo()
    assert project.read("auth.py") == "broken"
    trip.rollback(1)
    assert "True" in project.read("auth.py")
    trip.undo()
    assert project.read("auth.py") == "broken"


def test_what_the_user_changed_is_kept(trip, project) -> None:
    """An edit that was made outside of steps is somebody else's: going back past it leaves it."""
    with trip.step("edit"):
        project.write("auth.py", "broken")
    project.write("README.md", "# Project\nmine\n")
    plan = trip.plan_undo()
    assert "keeps your edit of README.md" in str(plan)
    plan.apply()
    assert project.read("README.md") == "# Project\nmine\n"
    assert "True" in project.read("auth.py")


def test_entering_a_step_records_what_others_did(trip, project) -> None:
    project.write("README.md", "mine")
    with trip.step("edit"):
        project.write("auth.py", "broken")
    kinds = [checkpoint.kind for checkpoint in trip.history(newest_first=False)]
    assert kinds == ["initial", "capture", "capture", "step"]
    trip.rollback(1)
    assert project.read("README.md") == "mine"
    assert "True" in project.read("auth.py")


def test_a_file_that_both_changed_is_a_conflict_and_stays(trip, project) -> None:
    """It is never overwritten unasked: the plan has to be looked at, and says whose version holds."""
    with trip.step("edit"):
        project.write("auth.py", "the agent's")
    project.write("auth.py", "mine instead")
    with pytest.raises(PlanRequired, match=r"conflict: you and the agent changed auth\.py"):
        trip.undo()
    plan = trip.plan_undo()
    assert plan.files.conflicts == ["auth.py"]
    plan.apply()
    assert project.read("auth.py") == "mine instead"
    trip.rollback(1, ours=["auth.py"])
    assert "True" in project.read("auth.py")
    trip.undo()
    assert project.read("auth.py") == "mine instead"


def test_edits_of_other_lines_are_taken_apart(trip, project) -> None:
    """The agent's lines go, the user's lines in the same file stay."""
    text = [f"line {n}\n" for n in range(20)]
    project.write("auth.py", "".join(text))
    with trip.step("edit"):
        project.write("auth.py", "".join(["agent\n", *text[1:]]))
    project.write("auth.py", "".join(["agent\n", *text[1:-1], "user\n"]))
    plan = trip.plan_undo()
    assert "takes the agent's lines out of auth.py" in str(plan)
    plan.apply()
    assert project.read("auth.py") == "".join([*text[:-1], "user\n"])


def test_a_plan_is_stale_when_files_change_after_it(trip, project) -> None:
    with trip.step("edit"):
        project.write("auth.py", "broken")
    plan = trip.plan_undo()
    project.write("db.py", "mine")
    with pytest.raises(PlanStale, match="files of 'project' have changed"):
        plan.apply()
    assert project.read("auth.py") == "broken"


def test_nothing_changed_makes_no_version(trip, project) -> None:
    before = trip.version
    assert trip.capture() is None
    with trip.step("look"):
        pass
    assert trip.version == before


def test_scope_leaves_files_or_state_alone(trip, project) -> None:
    with trip.step("edit") as s:
        s.state["n"] = 1
        project.write("auth.py", "broken")
    trip.rollback(1, scope="state")
    assert trip.state["n"] == 0
    assert project.read("auth.py") == "broken"
    trip.rollback(2, scope="state")
    trip.rollback(1, scope="files")
    assert trip.state["n"] == 1
    assert "True" in project.read("auth.py")


def test_files_of_a_checkpoint_are_read_without_restoring(trip, project) -> None:
    with trip.step("edit"):
        project.write("auth.py", "broken")
    assert trip.read_file(1, "auth.py").startswith(b"def login")
    assert trip.read_file("head", "auth.py") == b"broken"
    assert "auth.py" in trip.files(1)
    diff = trip.diff_files(1)
    assert [str(each) for each in diff] == ["auth.py: changed (+1 −2)"]
    assert "-def login():" in diff.text()


def test_a_step_that_raises_with_on_error_rollback_takes_its_files_back(trip, project) -> None:
    def fails() -> None:
        with trip.step("edit", on_error="rollback"):
            project.write("auth.py", "broken")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    assert "True" in project.read("auth.py")


def test_what_a_failed_step_left_is_the_agents(trip, project) -> None:
    """It is recorded as the step's own, so going back takes it back."""

    def fails() -> None:
        with trip.step("edit"):
            project.write("auth.py", "broken")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fails()
    assert (trip.head.kind, trip.head.step) == ("capture", "edit")
    project.write("db.py", "mine")
    plan = trip.plan_rollback(1)
    assert str(plan) == "reverts auth.py (+2 −1), keeps your edit of db.py"


def test_another_process_goes_on_with_what_is_attached(tb, trip, project, tmp_path) -> None:
    """The workspace is recorded with the thread: a handle that never named it captures it too."""
    project.write("auth.py", "by hand")
    with takeback.open(tmp_path / "store.db") as other:
        thread = other.thread("code")
        assert [ws.name for ws in thread.workspaces()] == ["project"]
        with thread.step("edit"):
            project.write("db.py", "agent")
        assert thread.plan_undo().files.touched == ["db.py"]
        thread.undo()
    assert project.read("db.py") == "rows = []\n"
    assert project.read("auth.py") == "by hand"


def test_what_is_left_out_is_named_and_never_touched(trip, project) -> None:
    project.write(".gitignore", "build/\n*.log\n")
    project.write(".env", "SECRET=1")
    project.write("build/out.o", "binary")
    project.write("a.log", "log")
    with trip.step("edit"):
        project.write("auth.py", "broken")
        project.write("build/out.o", "more")
    left = trip.files().left_out
    assert left == {".env": "secrets are left out", "build": ".gitignore", "a.log": ".gitignore"}
    trip.undo()
    assert project.read("build/out.o") == "more"
    assert project.read(".env") == "SECRET=1"


def test_a_directory_that_holds_what_no_checkpoint_holds_stays(trip, project) -> None:
    """The agent's directory goes, but not with an ignored file in it."""
    project.write(".gitignore", "*.log\n")
    with trip.step("edit"):
        project.write("made/a.py", "x")
        project.write("made/a.log", "log")
    receipt = trip.undo()
    assert project.names() == [".gitignore", "README.md", "auth.py", "db.py", "made", "made/a.log"]
    assert receipt.kept == {"made": "holds what no checkpoint holds"}


@pytest.mark.parametrize("place", ["/", "~"])
def test_the_root_and_the_home_directory_are_refused(tb, place, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(WorkspaceRefused, match="is not attached"):
        tb.thread("t", initial={}).workspace(os.path.expanduser(place))


def test_a_workspace_inside_another_is_refused(tb, trip, project) -> None:
    (project.path / "sub").mkdir()
    with pytest.raises(WorkspaceRefused, match="inside the workspace"):
        trip.workspace(project.path / "sub")
    with pytest.raises(WorkspaceRefused, match="around the workspace"):
        tb.thread("other", initial={}).workspace(project.path.parent)


def test_two_threads_share_a_directory_only_where_both_say_so(tb, trip, project, tmp_path) -> None:
    other = tb.thread("other", initial={})
    with pytest.raises(WorkspaceRefused, match="the thread 'code' uses it"):
        other.workspace(project.path)
    with pytest.raises(WorkspaceRefused, match="shared=True in both"):
        other.workspace(project.path, shared=True)
    trip.workspace(project.path, shared=True)
    assert other.workspace(project.path, shared=True).shared


def test_two_stores_that_share_a_directory_each_hold_all_of_it(tb, trip, project, tmp_path) -> None:
    """What one store knows of a directory is not taken for what another holds."""
    trip.workspace(project.path, shared=True)
    with takeback.open(tmp_path / "other.db") as other:
        thread = other.thread("code", initial={})
        thread.workspace(project.path, shared=True)
        assert thread.verify().ok
        assert thread.read_file("head", "README.md") == b"# Project\n"


def test_what_could_not_be_read_is_written_when_it_is_made_again() -> None:
    """A writer that met a missing object must not take it for one that is there."""
    from takeback.model.tree.nodes import Writer

    class Empty:
        def get(self, digest: bytes) -> bytes:
            raise takeback.errors.CorruptObject("missing")

    writer = Writer(Empty())  # type: ignore[arg-type]  # only get is asked for
    digest = Writer(Empty()).put(b"payload")  # type: ignore[arg-type]  # only put is asked for
    with pytest.raises(takeback.errors.CorruptObject):
        writer.get(digest)
    writer.put(b"payload")
    assert writer.new == {digest: b"payload"}


def test_a_directory_in_the_place_of_the_attached_one_is_not_captured(trip, project, tmp_path) -> None:
    """A workspace that was moved away is missed, not taken for emptied."""
    project.path.rename(tmp_path / "elsewhere")
    project.path.mkdir()
    with pytest.raises(takeback.errors.WorkspaceMissing, match="not the directory that was attached"):
        trip.capture()
    moved = trip.workspace(tmp_path / "elsewhere", "project")
    assert moved.status().clean


def test_the_store_inside_the_workspace_is_left_out(tmp_path) -> None:
    Path(tmp_path, "p").mkdir()
    with takeback.open(tmp_path / "p" / "store.db") as tb:
        thread = tb.thread("t", initial={})
        thread.workspace(tmp_path / "p")
        thread.commit({"n": 1})
        assert thread.files().left_out["store.db"] == "the store itself"
        assert "store.db" not in thread.files()


def test_an_export_carries_the_files(tb, trip, project, tmp_path) -> None:
    with trip.step("edit"):
        project.write("auth.py", "broken")
    tb.export("code", tmp_path / "code.tb")
    with takeback.open(tmp_path / "other.db") as other:
        thread = other.import_(tmp_path / "code.tb")
        assert thread.verify().ok
        assert thread.read_file(1, "auth.py").startswith(b"def login")
        assert thread.read_file("head", "auth.py") == b"broken"


def test_a_thread_without_a_workspace_pays_nothing(tb) -> None:
    """No module of workspaces is loaded, and no version says anything of files."""
    import subprocess
    import sys

    script = (
        "import sys, takeback\n"
        "tb = takeback.open(':memory:')\n"
        "t = tb.thread('t', initial={'n': 0})\n"
        "t.commit({'n': 1})\n"
        "with t.step('x') as s: s.state['n'] = 2\n"
        "t.undo()\n"
        "print([m for m in sys.modules if m.startswith('takeback.workspace')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
