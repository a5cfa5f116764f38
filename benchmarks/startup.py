"""Starting: processes that import the library or run the command, by turns with one that does nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.fresh import ROOT
from benchmarks.measure import Measure, Work, interleave
from benchmarks.sizes import Sizes

_USE = "import takeback; takeback.open(':memory:').thread('t').commit({})"
# What the installed script says.
_VERSION = "import sys; from takeback.cli import main; sys.argv = ['takeback', '--version']; sys.exit(main())"


def run(sizes: Sizes) -> Iterator[Measure]:
    codes = {"pass": "pass", "import": "import takeback", "use": _USE}
    if _works(_VERSION):
        codes["version"] = _VERSION
    works = {name: Work(_process, partial(str, code)) for name, code in codes.items()}
    found = interleave(works, rounds=sizes.startup, batch=1, warm=2)
    base, base_name = found["pass"], "python -c pass"
    yield Measure("import", "import takeback", found["import"], base, base_name)
    yield Measure("use", "import takeback, open in memory, commit", found["use"], base, base_name)
    if "version" in found:
        yield Measure("version", "takeback --version", found["version"], base, base_name)


def _works(code: str) -> bool:
    """Whether the command runs at all: where it does not, its time is not measured, and the table says so."""
    return _child(code).returncode == 0


def _process(code: str) -> None:
    done = _child(code)
    if done.returncode:
        raise RuntimeError(f"{code!r} failed:\n{done.stderr}")


def _child(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
