"""A run as tables, for the terminal and for the README; and as the file that both are made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Measure, Timing
from benchmarks.peers import Peer
from benchmarks.targets import Outcome

_WORD = {True: "met", False: "missed", None: "—"}


class Run(msgspec.Struct):
    """Everything that a run found."""

    date: str
    mode: str
    seconds: float
    load: list[float]
    machine: dict[str, str]
    versions: dict[str, str]
    measures: list[Measure]
    peers: list[Peer]
    targets: list[Outcome]


class Sheet(msgspec.Struct):
    title: str
    header: list[str]
    rows: list[list[str]]


def save(run: Run, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run)))


def load(path: Path) -> Run:
    return msgspec.json.decode(path.read_bytes(), type=Run)


def sheets(run: Run) -> Iterator[Sheet]:
    header = ["work", "p50", "p99", "beside", "p50", "p99", "ratio", "difference"]
    yield Sheet("takeback, beside what it is compared with", header, [_measure(m) for m in run.measures])
    turns = run.peers[0].turns[-1]
    header = ["engine", "turn p50", "p99", "last fifth", "read newest", "read ten", "file", "promise"]
    yield Sheet(f"{turns:,} turns of 1 KB", header, [_peer(peer) for peer in run.peers])
    rows = [[each.title, each.target, each.reached, _WORD[each.met]] for each in run.targets]
    yield Sheet("Targets", ["measure", "target", "reached", ""], rows)


def show(run: Run, console: Console) -> None:
    for sheet in sheets(run):
        table = Table(title=sheet.title, title_justify="left", title_style="bold")
        for number, name in enumerate(sheet.header):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)
    console.print(_about(run))


def markdown(run: Run) -> str:
    parts = [_about(run)]
    for sheet in sheets(run):
        lines = [sheet.header, ["---"] + ["---:"] * (len(sheet.header) - 1), *sheet.rows]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(f"### {sheet.title}\n\n{table}")
    return "\n\n".join(parts)


def _about(run: Run) -> str:
    machine = ", ".join(
        f"{value} {name}" if name in ("cores", "memory") else value for name, value in run.machine.items()
    )
    packages = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    busy = f"load {run.load[0]} before and {run.load[1]} after"
    return f"{run.date}, {run.mode}, {run.seconds:.0f} s, {busy}. {machine}. {packages}."


def _measure(measure: Measure) -> list[str]:
    base = measure.base
    ratio, over = measure.ratio, measure.over
    timed = measure.unit == "ms" and over is not None
    return [
        measure.title,
        *_both(measure.ours, measure.unit),
        measure.base_name if base else "",
        *(_both(base, measure.unit) if base else ["", ""]),
        "" if ratio is None else f"{ratio:.2f} ×",
        f"{over:+.3f} ms" if timed else "",
    ]


def _peer(peer: Peer) -> list[str]:
    turn = _both(peer.turn, "ms")
    others = [_shown(each.p50, "ms") if each else "" for each in (peer.late, peer.read, peer.ten)]
    return [peer.name, *turn, *others, f"{peer.size[-1] / 1e6:.2f} MB", peer.settings]


def _both(timing: Timing, unit: str) -> list[str]:
    return [_shown(timing.p50, unit), "" if timing.p99 is None else _shown(timing.p99, unit)]


def _shown(number: float, unit: str) -> str:
    if unit in ("B", "/s"):
        return f"{number:,.0f} {unit}"
    return f"{number:.3f} {unit}" if number < 10 else f"{number:.1f} {unit}"
