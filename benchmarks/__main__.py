"""`python -m benchmarks`: run everything, print the tables, and keep them with two charts in results/."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks import (
    chart,
    disk,
    effects,
    hooks,
    machine,
    memory,
    million,
    peers,
    reads,
    report,
    server,
    startup,
    workspaces,
    writes,
)
from benchmarks.measure import Measure
from benchmarks.sizes import DEFAULT, FULL, TINY, Sizes
from benchmarks.targets import outcomes
from takeback.testing.postgres import Server

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    asked = _parser().parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    latest = asked.out / "latest.json"
    if asked.markdown:
        if not latest.exists():
            raise SystemExit("there is no run to show yet: python -m benchmarks")
        print(report.markdown(report.load(latest)))
        return
    console = Console() if sys.stdout.isatty() else Console(width=150)
    mode, sizes = ("full", FULL) if asked.full else ("tiny", TINY) if asked.tiny else ("default", DEFAULT)
    found = run(mode, sizes, asked.out, console)
    report.save(found, latest)
    draw(found.peers, asked.out)
    report.show(found, console)


def run(mode: str, sizes: Sizes, out: Path, console: Console) -> report.Run:
    """Every family, in a folder on the disk of the results: a memory disk would sync for nothing."""
    folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=out))
    began, load = time.monotonic(), machine.load()
    try:
        measures = []
        with Server(fsync=True) as postgres:
            for measure in families(folder, postgres, sizes):
                measures.append(measure)
                console.print(f"[dim]{measure.title}[/]", highlight=False)
            compared = peers.run(folder, postgres, sizes)
        measures += peers.measures(compared)
        return report.Run(
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            mode=mode,
            seconds=time.monotonic() - began,
            load=[load, machine.load()],
            machine=machine.machine(folder),
            versions=machine.versions(),
            measures=measures,
            peers=compared,
            # A tiny thread says nothing of a long one.
            targets=outcomes([] if mode == "tiny" else measures),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def families(folder: Path, postgres: Server, sizes: Sizes) -> Iterator[Measure]:
    yield from writes.run(folder, sizes)
    yield from effects.run(folder, sizes)
    yield from memory.run(folder, sizes)
    yield from server.run(postgres, sizes)
    yield from reads.run(folder, sizes)
    yield from disk.run(folder, sizes)
    yield from startup.run(sizes)
    yield from workspaces.run(folder, sizes)
    yield from hooks.run(folder, sizes)
    yield from million.run(folder, sizes)


def draw(compared: list[peers.Peer], out: Path) -> None:
    about = "a conversation grows by 1 KB a turn; the height is logarithmic"
    cost = [_line(peer, peer.cost) for peer in compared]
    size = [_line(peer, [each / 1e6 for each in peer.size]) for peer in compared]
    for name, title, lines, unit in (
        ("cost", "Milliseconds per turn", cost, "ms"),
        ("size", "Megabytes on disk", size, "MB"),
    ):
        drawn = chart.draw(title, about, lines, lambda value, unit=unit: f"{value:g} {unit}")  # type: ignore[misc]  # a lambda's default
        (out / f"{name}.svg").write_text(drawn, encoding="utf-8")


def _line(peer: peers.Peer, values: list[float]) -> chart.Line:
    return chart.Line(peer.name, list(zip(peer.turns, values, strict=True)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure takeback.")
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--full", action="store_true", help="1,000 turns, and a million checkpoints")
    sizes.add_argument("--tiny", action="store_true", help="a few turns of everything, without peers: a test")
    sizes.add_argument(
        "--markdown", action="store_true", help="print the last run for the README; runs nothing"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results go (benchmarks/results)")
    return parser


if __name__ == "__main__":
    main()
