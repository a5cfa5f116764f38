"""Makes src/takeback/aio.pyi: the types of the async façade, from the signatures of the synchronous one.

    python scripts/make_aio_stub.py

What is awaited, walked or plain is asked of takeback.aio itself, which decides it when it makes the classes.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

STUB = Path(__file__).resolve().parents[1] / "src" / "takeback" / "aio.pyi"
SAYS = '"""The types of the async façade. Made by scripts/make_aio_stub.py: change that, or the classes."""'
WIDTH = 110

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> None:
    STUB.write_text(stub(), encoding="utf-8")


def stub() -> str:
    aio: Any = import_module("takeback.aio")
    maker = Maker(aio)
    body = [maker.made(aio.AsyncItems), *map(maker.made, aio.FACES.values()), maker.opening()]
    exported = ["__all__ = [", *(f'    "{name}",' for name in aio.__all__), "]"]
    head = [SAYS, "", *maker.imports(), "", *exported, "", *maker.variables()]
    return "\n".join([*head, "", *("\n".join(lines) + "\n" for lines in body)])


class Maker:
    """Writes the classes, and remembers where the names in them come from."""

    def __init__(self, aio: Any) -> None:
        self._aio = aio
        self._renamed = {sync.__name__: face.__name__ for sync, face in aio.FACES.items()}
        self._own = {*self._renamed.values(), "AsyncItems"}
        self._imports = {("typing", "TypeVar")}
        self._variables: set[str] = set()

    # --- the parts of the file

    def made(self, cls: Any) -> list[str]:
        """One class: what it holds, what is written by hand in takeback.aio, and what is mirrored."""
        node, aio = class_node(cls), self._aio.__name__
        bases = ", ".join(self._type(base, aio) for base in node.bases if ast.unparse(base) != "_Face")
        by_hand = [item for item in functions(node) if is_public(item.name) and item.name != "__init__"]
        lines = [f"class {node.name}({bases}):" if bases else f"class {node.name}:", *doc_lines(node)]
        attributes = list(self._attributes(cls._of)) if hasattr(cls, "_of") else []
        lines += ["", *attributes] if attributes else []
        for item in by_hand:
            prefix = "async def" if isinstance(item, ast.AsyncFunctionDef) else "def"
            lines += self._function(item, aio, prefix)
        if hasattr(cls, "_of"):
            lines += self._mirrored(cls, {item.name for item in by_hand})
        return [lines[0], *(f"    {line}" if line else "" for line in lines[1:])]

    def opening(self) -> list[str]:
        """`aopen`, with the parameters of `takeback.open`."""
        node = named(tree(self._aio.repo).body, self._aio.repo.open.__name__)
        node.name, node.returns = "aopen", ast.Name("Repo")
        node.body[:1] = named(tree(self._aio).body, "aopen").body[:1]
        return self._function(node, self._aio.repo.__name__, "async def", indent="")

    def imports(self) -> list[str]:
        plain = sorted(f"import {module}" for module, name in self._imports if not name)
        wanted: dict[str, set[str]] = {}
        for module, name in self._imports:
            if name:
                wanted.setdefault(module, set()).add(name)
        lines = [from_line(module, names) for module, names in sorted(wanted.items())]
        own = [line for line in lines if line.startswith("from takeback")]
        return [*plain, *(line for line in lines if line not in own), "", *own]

    def variables(self) -> list[str]:
        return [f'{name} = TypeVar("{name}")' for name in sorted(self._variables)]

    # --- what stands in a class

    def _attributes(self, sync: type) -> Iterator[str]:
        """What the objects hold themselves: declared in the class, or set by the constructor."""
        for name, annotation in held(class_node(sync)).items():
            if annotation is None:
                raise TypeError(f"{sync.__name__}.{name} is set without a type: annotate it")
            yield f"{name}: {self._type(annotation, sync.__module__)}"

    def _mirrored(self, face: Any, by_hand: set[str]) -> Iterator[str]:
        for base in face._of.__mro__:
            if base.__module__.startswith("takeback"):
                yield from self._mirrored_from(face, base, by_hand)

    def _mirrored_from(self, face: Any, base: type, by_hand: set[str]) -> Iterator[str]:
        items = [item for item in functions(class_node(base)) if item.name not in by_hand]
        overloaded = {item.name for item in items if "overload" in decorators(item)}
        for item in items:
            implements = item.name in overloaded and "overload" not in decorators(item)
            sets = f"{item.name}.setter" in decorators(item)
            if not (item.name.startswith("_") or implements or sets):
                yield from self._member(face, item, base.__module__)

    def _member(self, face: Any, item: Function, module: str) -> list[str]:
        """A function as the face gives it; the classes that its annotations name are renamed by `_type`."""
        kind = self._aio.kind(face, item.name)
        assert item.returns is not None, item.name
        if kind == "asked":
            item.returns = ast.Subscript(ast.Name("Awaitable"), item.returns)
            self._imports.add(("collections.abc", "Awaitable"))
        if kind == "walked":
            assert isinstance(item.returns, ast.Subscript), item.name
            item.returns = ast.Subscript(ast.Name("AsyncItems"), item.returns.slice)
        return self._function(item, module, "async def" if kind == "awaited" else "def")

    def _function(self, item: Function, module: str, prefix: str, indent: str = "    ") -> list[str]:
        decorated = [f"@{name}" for name in decorators(item)]
        for name in decorators(item):
            self._resolve(name, module)
        assert item.returns is not None, item.name
        returns = self._type(item.returns, module)
        doc = doc_lines(item)
        width = WIDTH - len(indent) - (0 if doc else len(" ..."))
        lines = signature(f"{prefix} {item.name}", list(self._parameters(item.args, module)), returns, width)
        if not doc:
            return [*decorated, *lines[:-1], lines[-1] + " ..."]
        return [*decorated, *lines, *(f"    {line}" if line else "" for line in doc)]

    def _parameters(self, args: ast.arguments, module: str) -> Iterator[str]:
        if args.posonlyargs or args.vararg or args.kwarg:
            raise TypeError("a signature of the façade names its parameters")
        unsaid = len(args.args) - len(args.defaults)
        for place, arg in enumerate(args.args):
            yield self._parameter(arg, args.defaults[place - unsaid] if place >= unsaid else None, module)
        if args.kwonlyargs:
            yield "*"
        for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
            yield self._parameter(arg, default, module)

    def _parameter(self, arg: ast.arg, default: ast.expr | None, module: str) -> str:
        said = arg.arg if arg.annotation is None else f"{arg.arg}: {self._type(arg.annotation, module)}"
        if default is None:
            return said
        return said + (" = " if arg.annotation else "=") + ast.unparse(default).replace("'", '"')

    # --- names

    def _type(self, annotation: ast.expr, module: str) -> str:
        """An annotation as the stub says it."""
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name):
                node.id = self._renamed.get(node.id, node.id)
                self._resolve(node.id, module)
        return ast.unparse(annotation).replace("'", '"')

    def _resolve(self, name: str, module: str) -> None:
        """Remember where a name comes from that a module uses."""
        if name in self._own or hasattr(builtins, name) or ("collections.abc", name) in self._imports:
            return
        found = imported(sys.modules[module]).get(name)
        if found is not None:
            self._imports.add(found)
        elif type(getattr(sys.modules[module], name)).__name__ == "TypeVar":
            self._variables.add(name)
        else:
            self._imports.add((module, name))


# --- reading sources


def tree(module: Any) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def named(body: list[ast.stmt], name: str) -> Any:
    return next(node for node in body if getattr(node, "name", None) == name)


def class_node(cls: type) -> ast.ClassDef:
    node = named(tree(sys.modules[cls.__module__]).body, cls.__name__)
    assert isinstance(node, ast.ClassDef)
    return node


def functions(node: ast.ClassDef) -> list[Function]:
    return [item for item in node.body if isinstance(item, Function)]


def decorators(item: Function) -> list[str]:
    return [ast.unparse(decorator) for decorator in item.decorator_list]


def is_public(name: str) -> bool:
    return not name.startswith("_") or name.startswith("__")


def held(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    """The public attributes that are declared in a class or set by its constructor, with their types."""
    found: dict[str, ast.expr | None] = {}
    for item in [*node.body, *(line for start in constructor(node) for line in start.body)]:
        for target, annotation in assigned(item, class_parameters(node)):
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "_")
            if not name.startswith("_"):
                found[name] = annotation
    return found


def class_parameters(node: ast.ClassDef) -> dict[str, ast.expr | None]:
    return {
        arg.arg: arg.annotation
        for start in constructor(node)
        for arg in [*start.args.args, *start.args.kwonlyargs]
    }


def constructor(node: ast.ClassDef) -> list[Function]:
    return [item for item in functions(node) if item.name == "__init__"]


def assigned(item: ast.stmt, types: dict[str, ast.expr | None]) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target of a statement with its type, where it says one or is given what a parameter brought."""
    if isinstance(item, ast.AnnAssign):
        yield item.target, item.annotation
    elif isinstance(item, ast.Assign):
        target, value = item.targets[0], item.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for place, given in pairs:
            yield place, types.get(given.id) if isinstance(given, ast.Name) else None


def imported(module: Any) -> dict[str, tuple[str, str]]:
    """Every name that a module imports at its top, or for type checkers: where it comes from."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return found


# --- writing


def doc_lines(node: ast.ClassDef | Function) -> list[str]:
    doc = ast.get_docstring(node)
    if doc is None:
        return []
    lines = f'"""{doc}'.splitlines()
    return [*lines[:-1], lines[-1] + '"""'] if len(lines) == 1 else [*lines, '"""']


def signature(start: str, parameters: list[str], returns: str, width: int) -> list[str]:
    """On one line, on a line of its own, or a line each, as the formatter would break it."""
    joined = ", ".join(parameters)
    one = f"{start}({joined}) -> {returns}:"
    if len(one) <= width:
        return [one]
    if 4 + len(joined) <= width:
        return [f"{start}(", f"    {joined}", f") -> {returns}:"]
    return [f"{start}(", *(f"    {parameter}," for parameter in parameters), f") -> {returns}:"]


def from_line(module: str, names: set[str]) -> str:
    # Constants, then classes, then the rest: the order in which imports are sorted. One capital letter alone
    # counts as a class.
    def place(name: str) -> tuple[bool, bool, str]:
        return (not (name.isupper() and len(name) > 1), not name[0].isupper(), name)

    ordered = sorted(names, key=place)
    return f"from {module} import {', '.join(ordered)}"


if __name__ == "__main__":
    main()
