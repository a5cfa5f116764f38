"""What `import takeback` loads: a hook or a short command pays it each time, so nothing before its use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"

# Each belongs to one part: the async façade, what draws, the command line, seals, typed states. The other
# surfaces and drivers are optional packages, whose absence would be found on import.
LATER = ("asyncio", "rich", "argparse", "cryptography", "pydantic")


def loaded_by(statement: str) -> set[str]:
    """The top-level modules that the statement adds in an interpreter of its own."""
    script = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout))


def test_import_loads_nothing_before_its_use() -> None:
    assert loaded_by("import takeback") & set(LATER) == set()


@pytest.mark.parametrize("name", LATER)
def test_a_module_loaded_too_early_would_be_seen(name: str) -> None:
    """All of them can be imported here, so their absence above is takeback's doing."""
    assert name in loaded_by(f"import {name}")
