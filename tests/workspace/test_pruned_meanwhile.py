"""Files of a real directory that are given up between a plan and its carrying out."""

from __future__ import annotations

from pathlib import Path

import pytest

import takeback
from takeback.errors import FilesPruned


def test_the_directory_stays_as_it_is(tmp_path: Path, store_path: Path) -> None:
    """The plan is refused before a file is touched, and nothing holds the thread."""
    root = tmp_path / "work"
    root.mkdir()
    with takeback.open(store_path) as tb:
        thread = tb.thread("t", initial={})
        thread.workspace(root, watch=False)
        for number in range(4):
            (root / "f").write_text(str(number) * 100)
            thread.capture(step=f"step {number}")
        plan = thread.plan_rollback(2)
        assert plan.files is not None
        tb.thread("t").prune(0, keep=1)
        tb.gc(grace=0)
        with pytest.raises(FilesPruned):
            plan.apply()
        assert (root / "f").read_text() == "3" * 100
        thread.refresh().commit({"a": 1})
        assert thread.verify().ok


def test_a_plan_under_way_keeps_what_it_needs(tmp_path: Path, store_path: Path) -> None:
    """What it began to bring back is given up, and collected, before it is done: it still has it."""
    root = tmp_path / "work"
    root.mkdir()
    with takeback.open(store_path) as tb:
        thread = tb.thread("t", initial={})
        workspace = thread.workspace(root, watch=False)
        for number in range(4):
            (root / "f").write_text(str(number) * 100)
            thread.capture(step=f"step {number}")
        directory, put_back = workspace.directory, workspace.directory.put_back

        def meanwhile(*args, **options):
            tb.thread("t").prune(0, keep=1)
            tb.gc(grace=0)
            return put_back(*args, **options)

        directory.put_back = meanwhile
        thread.rollback(2)
        del directory.put_back
        assert (root / "f").read_text() == "0" * 100
        assert thread.verify().ok
