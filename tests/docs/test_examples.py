"""What README and the guides show runs, and says what they say."""

from __future__ import annotations

import asyncio
import pathlib
import re
import runpy

import pytest

from takeback.tools import registry

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/effects.md",
    "docs/frameworks.md",
    "docs/memory.md",
    "docs/langgraph.md",
    "docs/api.md",
]


@pytest.fixture(autouse=True)
def tools_of_this_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is a program of its own: it declares its own `refund`."""
    monkeypatch.setattr(registry, "_tools", {})
    monkeypatch.setattr(registry, "_undos", {})


def _blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    return [block for block in blocks if "->" not in block.splitlines()[0]]  # a signature is no program


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(
    page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page are one program, run in order in an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = _blocks(page)
    assert blocks
    program = "\n".join(blocks)
    if "await " in program:
        indented = "\n".join("    " + line for line in program.splitlines())
        program = f"import takeback\nasync def main():\n{indented}\n"
        space: dict[str, object] = {}
        exec(compile(program, page, "exec"), space)
        asyncio.run(space["main"]())  # type: ignore[operator]  # the function that the program defined
    else:
        exec(compile(program, page, "exec"), {})


def test_the_readme_prints_what_it_says(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plans in the examples of README and guide are the plans that are printed."""
    monkeypatch.chdir(tmp_path)
    for page in ("README.md", "docs/effects.md"):
        exec(compile("\n".join(_blocks(page)), page, "exec"), {})
        said = re.search(r"print\(plan\)\s+# (.*)", (ROOT / page).read_text())
        assert said is not None
        assert said[1] in capsys.readouterr().out
        (tmp_path / "agent.db").unlink()


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_run(
    example: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file in examples/ is a program that ends well."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


def test_the_links_of_every_page_lead_somewhere() -> None:
    """A page that names a file that is not there fails here."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"]
    dead = [
        f"{page.relative_to(ROOT)} → {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert dead == []
