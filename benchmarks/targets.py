"""What the numbers are meant to be, and whether a run reached it. Nothing fails when it did not."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.measure import Measure


class Target(msgspec.Struct, frozen=True):
    """A limit for one number of a measure."""

    key: str
    title: str
    limit: float
    of: str  # "over" the base, "ratio" to it, its "p99", or the "value" itself
    unit: str = "ms"
    at_least: bool = False


class Outcome(msgspec.Struct, frozen=True):
    title: str
    target: str
    reached: str
    met: bool | None  # None: not measured


TARGETS = (
    Target("commit", "commit 2 KB", 0.17, "over"),
    Target("append", "append 1 KB at 1,000 items", 2, "ratio"),
    Target("append_growth", "… at 10,000 against 1,000", 1.3, "ratio"),
    Target("whole", "commit 1 MB, one message more", 0.8, "over"),
    Target("whole_first", "… first in a process", 5, "over"),
    Target("rollback", "rollback", 1.6, "ratio"),
    Target("fork", "fork", 1.6, "ratio"),
    Target("rollback_bytes", "rollback, on disk", 300, "value", "B"),
    Target("fork_bytes", "fork, on disk", 300, "value", "B"),
    Target("disk_append", "1,000 turns × 1 KB, appended", 3.5, "value", "MB"),
    Target("disk_commit", "1,000 turns × 1 KB, whole states", 3.5, "value", "MB"),
    Target("read_cold", "read 1 MB, first in a process", 3, "value"),
    Target("read_warm", "read 1 MB, warm", 1, "value"),
    Target("diff", "diff, one key of 1 MB", 0.4, "value"),
    Target("files_capture", "capture, 10 of 20,000 files, watched", 1.5, "value"),
    Target("files_capture", "… against git", 1 / 40, "ratio"),
    Target("files_empty", "capture, nothing changed", 0.2, "value"),
    Target("files_restore", "restore of 10 files, in place", 3, "value"),
    Target("files_restore", "… against git", 1 / 25, "ratio"),
    Target("files_replace", "… replaced", 1 / 10, "ratio"),
    Target("files_sweep", "capture by sweep, against tuned git", 1.3, "ratio"),
    Target("files_first", "first capture, against git add -A", 1, "ratio"),
    Target("files_disk", "one capture on disk, against git repacked", 1.5, "ratio"),
    Target("files_many", "capture, 1,000 files", 60, "value"),
    Target("files_restore_many", "restore of 1,000 files", 120, "value"),
    Target("effect", "a call: intent and outcome", 2.2, "ratio"),
    Target("effect_step", "a step with one call, against a DBOS step", 1 / 1.5, "ratio"),
    Target("replayed", "a replayed call", 0.05, "value"),
    Target("plan", "a plan over 1,000 effects", 50, "value"),
    Target("agents", "8 agents against one, a second", 2, "ratio", at_least=True),
    Target("dbos", "append beside a DBOS step", 1 / 4, "ratio"),
    Target("pg_commit", "PostgreSQL: commit 2 KB", 1.9, "ratio"),
    Target("pg_append", "PostgreSQL: append 1 KB at 1,000 items", 2, "ratio"),
    Target("pg_agents_raw", "PostgreSQL: 8 agents against 8 raw inserters", 0.7, "ratio", at_least=True),
    Target("saver_read", "PostgreSQL: read the head, beside PostgresSaver", 1 / 3, "ratio"),
    Target("saver_disk", "PostgreSQL: on disk, beside PostgresSaver", 1 / 90, "ratio"),
    Target("pg_dbos", "PostgreSQL: append beside a DBOS step", 1 / 3, "ratio"),
    Target("import", "import takeback", 60, "value"),
    Target("version", "takeback --version", 120, "value"),
    Target("hook_before", "a hook before a tool, process start included", 60, "value"),
    Target("hook_after", "… after 10 changed files", 60, "value"),
    Target("hook_large", "… in a tree five times as large", 1.2, "ratio"),
    Target("hot_commit", "commit at 1,000,000 against 1,000", 1.2, "ratio"),
    Target("hot_commit", "… p99", 3, "p99"),
    Target("hot_history", "first page of history, likewise", 1.6, "ratio"),
    Target("random_reads", "states of random threads, likewise", 3, "ratio"),
)

_NUMBER: dict[str, Callable[[Measure], float | None]] = {
    "over": lambda measure: measure.over,
    "ratio": lambda measure: measure.ratio,
    "p99": lambda measure: measure.p99_ratio,
    "value": lambda measure: measure.ours.p50,
}


def outcomes(measures: list[Measure]) -> list[Outcome]:
    held = {measure.key: measure for measure in measures}
    return [_outcome(target, held.get(target.key)) for target in TARGETS]


def _outcome(target: Target, measure: Measure | None) -> Outcome:
    number = None if measure is None else _NUMBER[target.of](measure)
    said = _said(target, target.limit)
    if number is None:
        return Outcome(target.title, said, "not measured", None)
    met = number >= target.limit if target.at_least else number <= target.limit
    return Outcome(target.title, said, _said(target, number), met)


def _said(target: Target, number: float) -> str:
    if target.of in ("ratio", "p99"):
        return f"{number:.3g} ×"
    shown = f"{number:,.0f}" if target.unit == "B" else f"{number:.3g}"
    return f"{'raw + ' if target.of == 'over' else ''}{shown} {target.unit}"
