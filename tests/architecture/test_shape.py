"""The shape of the project: sizes, docstrings, cycles, and what no file may contain.

Each rule is a function from text to complaints, so that it is also tried on text that breaks it:
a rule that finds nothing anywhere would pass just as well.
"""

from __future__ import annotations

import ast
import graphlib
import io
import os
import re
import subprocess
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src" / "takeback"

MAX_FILE = 500
MAX_FUNCTION = 70

# Written by tools, and ignored by git; used where there is no git to ask (a source archive).
MADE = {"__pycache__", "build", "dist", "node_modules", "results"}
SHOWN = {".ci", ".github"}

# Brackets, and hosts without their ends, keep these patterns from finding themselves here.
UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b|NotImplementedErro[r]")
# A path of somebody's machine. A bare directory, as in a list of places that are refused, is none.
MACHINE_PATH = re.compile(
    rb"(?<![\w.~}\-])(?:/(?:work|root)/|/(?:home|Users)/(?!you\b|<|\{|\$)[A-Za-z0-9_][\w.\-]*)"
)
REGISTRIES = {
    "org": ("pypi", "pythonhosted", "piwheels", "anaconda", "npmjs", "rubygems"),
    "com": ("anaconda", "npmjs", "yarnpkg", "unpkg"),
    "net": ("jsdelivr",),
    "io": ("crates", "jsr", "jfrog"),
}
REGISTRY = re.compile(
    "|".join(rf"\b(?:{'|'.join(names)})\.{top}\b" for top, names in REGISTRIES.items()).encode(),
    re.IGNORECASE,
)
EXEMPTION = re.compile(
    r"type:\s*ignore(?:\[[\w\s,\-]*\])?"
    r"|noqa(?::\s*[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*)?"
    r"|pragma:\s*no\s*(?:cover|branch)"
)


def sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def shipped() -> list[Path]:
    """All that people wrote under src/takeback: Python, SQL, pages and their scripts."""
    return [
        path
        for path in project_files()
        if path.is_relative_to(SRC) and is_text(path) and b"Made by scripts/" not in path.read_bytes()[:200]
    ]


def python_files() -> list[Path]:
    return [path for path in project_files() if path.suffix == ".py"]


def project_files() -> list[Path]:
    """What belongs to the project: what git keeps or would keep, else all that no tool has made."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if (ROOT / ".git").exists() and listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = list(walk(ROOT))
    return sorted(path for path in found if path.is_file())  # git still lists what was just deleted


def walk(top: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(top):
        folders[:] = [
            name
            for name in folders
            if name in SHOWN or not (name in MADE or name.startswith(".") or name.endswith(".egg-info"))
        ]
        yield from (Path(folder, name) for name in names)


def is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def matches(pattern: re.Pattern[bytes], text: bytes) -> list[str]:
    return [
        f"line {number}: {found.group().decode()}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.finditer(line)
    ]


def test_there_is_something_to_look_at() -> None:
    """Every rule below holds for an empty list; the lists are not empty."""
    assert len(sources()) >= 4
    known = {".ci/run", "src/takeback/errors/__init__.py"}
    assert {"LICENSE", "Makefile", *known} <= set(map(place, project_files()))
    assert known <= set(map(place, walk(ROOT)))


# --- sizes and docstrings


def long_functions(source: str) -> list[str]:
    return [
        f"{node.name} has {length} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION
    ]


def test_every_module_says_first_what_it_owns() -> None:
    silent = [place(path) for path in sources() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_no_file_grows_into_the_place_where_everything_is() -> None:
    lengths = {place(path): len(path.read_text().splitlines()) for path in shipped()}
    assert {name: length for name, length in lengths.items() if length > MAX_FILE} == {}


def test_every_function_fits_on_a_screen() -> None:
    found = {place(path): long_functions(path.read_text()) for path in sources()}
    assert {name: what for name, what in found.items() if what} == {}


def test_a_long_function_would_be_found() -> None:
    body = "    pass\n" * MAX_FUNCTION
    assert long_functions(f"async def grown():\n{body}") == [f"grown has {MAX_FUNCTION + 1} lines"]
    assert long_functions("def fits():\n" + body.removeprefix("    pass\n")) == []


def test_tests_are_at_least_as_long_as_the_code() -> None:
    """Not a measure of quality, but an early sign that code came in without its tests.

    What `takeback.testing` ships (the contract suite, the models, the strategies) is tests too: the
    files below tests/ only run it.
    """

    def lines(paths: list[Path]) -> int:
        return sum(bool(line.strip()) for path in paths for line in path.read_text().splitlines())

    shipped = {path for path in sources() if "testing" in path.parts}
    tests = lines([*sorted((ROOT / "tests").rglob("*.py")), *shipped])
    code = lines([path for path in sources() if path not in shipped])
    assert tests >= code, f"{tests} lines of tests for {code} lines of code: {tests / code:.2f}"


# --- import cycles


def at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the module is imported: those in functions or for type checkers do not."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from at_import(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                for child in getattr(node, field, []):
                    yield from at_import([child] if isinstance(child, ast.stmt) else child.body)


def imported(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool) -> Iterator[str]:
    """Every name that the statement may have loaded, modules and their members alike."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        package = module.split(".") if is_package else module.split(".")[:-1]
        package = package[: len(package) - (node.level - 1)]
        base = ".".join([*package, base]).rstrip(".")
    yield from (f"{base}.{alias.name}" for alias in node.names)


def import_graph(modules: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """From module name to what it imports; `modules` gives each its source and whether it is a package."""
    graph: dict[str, set[str]] = {}
    for name, (source, is_package) in modules.items():
        targets = [
            target
            for node in at_import(ast.parse(source).body)
            for target in imported(node, name, is_package=is_package)
        ]
        # A member of a module stands for its module.
        known = {target if target in modules else target.rpartition(".")[0] for target in targets}
        graph[name] = (known & modules.keys()) - {name}
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as found:
        return list(reversed(found.args[1]))
    return []


def test_no_import_cycles() -> None:
    """Within a cycle nothing can be read, tested or imported first."""
    modules = {}
    for path in sources():
        parts = path.relative_to(SRC.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        modules[".".join(parts[:-1] if is_package else parts)] = (path.read_text(), is_package)
    assert cycle(import_graph(modules)) == []


@pytest.mark.parametrize(
    "back",
    [
        "import takeback.a",
        "from takeback import a",
        "from takeback.a import name",
        "from .a import name",
        "from . import a",
        "try:\n    import takeback.a\nexcept ImportError:\n    pass",
        "class C:\n    import takeback.a",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import takeback.a",
        "with x:\n    import takeback.a",
    ],
)
def test_a_cycle_would_be_found(back: str) -> None:
    modules = {
        "takeback": ("", True),
        "takeback.a": ("import takeback.b.c", False),
        "takeback.b": ("", True),
        "takeback.b.c": ("from takeback.d import name", False),
        "takeback.d": (back, False),
    }
    found = cycle(import_graph(modules))
    assert found[0] == found[-1]
    assert set(found) == {"takeback.a", "takeback.b.c", "takeback.d"}


@pytest.mark.parametrize(
    "back",
    [
        "def later():\n    import takeback.a",
        "class C:\n    def later(self):\n        import takeback.a",
        "if TYPE_CHECKING:\n    import takeback.a",
        "if typing.TYPE_CHECKING:\n    import takeback.a",
        "import takeback_a",
    ],
)
def test_what_does_not_run_at_import_makes_no_cycle(back: str) -> None:
    modules = {"takeback.a": ("import takeback.d", False), "takeback.d": (back, False)}
    assert cycle(import_graph(modules)) == []


# --- what no file contains


def bare_exemptions(source: str) -> list[str]:
    """The comments that switch a check off and do not say why, in two words at least."""
    return [
        f"line {token.start[0]}: {token.string}"
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
        and EXEMPTION.search(token.string)
        and len(re.findall(r"[A-Za-z]+", EXEMPTION.sub(" ", token.string))) < 2
    ]


def test_nothing_is_left_to_be_done() -> None:
    """What is not there yet is an issue, where people look for work; not a mark that nobody reads."""
    found = {
        place(path): UNFINISHED.findall(path.read_text())
        for path in {*python_files(), *shipped()}
        if UNFINISHED.search(path.read_text())
    }
    assert found == {}


def test_every_exemption_gives_its_reason() -> None:
    found = {place(path): bare_exemptions(path.read_text()) for path in python_files()}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "comment",
    [
        "type: ignore",
        "type: ignore[arg-type]",
        "noqa",
        "noqa: E501, PLR0915",
        "pragma: no cover",
        "noqa: E501 ok",
    ],
)
def test_an_exemption_without_a_reason_would_be_found(comment: str) -> None:
    assert bare_exemptions(f"x = 1  # {comment}\n") == [f"line 1: # {comment}"]
    assert bare_exemptions(f"x = 1  # {comment}  # the stub is wrong\n") == []
    assert bare_exemptions(f"x = '# {comment}'\n") == []


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    found = {
        place(path): matches(MACHINE_PATH, path.read_bytes()) for path in project_files() if is_text(path)
    }
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize("top", ["work", "root", "home/ada", "Users/ada"])
def test_a_machine_path_would_be_found(top: str) -> None:
    for text in (f"see /{top}/x", f'"/{top}/x"', f"file:///{top}/x"):
        assert matches(MACHINE_PATH, text.encode()), text


@pytest.mark.parametrize(
    "text",
    [
        '{"/", "/home", "/root", "/Users"}',
        "at home/x",
        "/home/you/project",
        "tree/root/x",
        "~/work/",
        "/home/",
    ],
)
def test_an_example_is_no_machine_path(text: str) -> None:
    assert matches(MACHINE_PATH, text.encode()) == []


def test_no_file_names_a_package_registry() -> None:
    """Whoever installs chooses where packages come from; a host in a file chooses for them."""
    found = {place(path): matches(REGISTRY, path.read_bytes()) for path in project_files() if is_text(path)}
    assert {name: what for name, what in found.items() if what} == {}


def test_a_package_registry_would_be_found() -> None:
    for host in (f"{name}.{top}" for top, names in REGISTRIES.items() for name in names):
        assert matches(REGISTRY, f"https://files.{host}/simple".encode())
    assert matches(REGISTRY, b"published on PyPI, npm and crates; see example.org") == []
