"""Writes docs/api.md from the public names, their signatures and docstrings."""

from __future__ import annotations

import inspect
import pathlib
import re
import typing
from typing import Any

import takeback
from takeback import errors

TARGET = pathlib.Path(__file__).parent.parent / "docs" / "api.md"
MAIN = (
    "open", "Repo", "Thread", "Step", "Run", "View", "History", "Plan", "Receipt", "tool", "Tool", "Approval",
    "Recovery", "PendingPlan", "aopen",
)  # fmt: skip
INTRO = """\
# Python API

Made from the docstrings by `scripts/make_api_docs.py`; a test keeps it complete and fresh.
`import takeback` is all that is needed. The async façade has the same names: see [the end](#async).
"""
ASYNC = """\
## Async

`tb = await takeback.aopen(…)` gives the same names, with `await` before what touches the store,
`async with` for steps and for the store, and `async for` over a history. The work runs in a few threads
of its own.

```python
async with await takeback.aopen("agent.db") as tb:
    trip = await tb.thread("travel/42", initial={"messages": []})
    async with trip.step("book") as s:
        s.state["to"] = "NYC"
    print(await trip.plan_undo())
    assert (await trip.state)["to"] == "NYC"
```
"""


def page() -> str:
    parts = [INTRO]
    parts += [_entry(name, getattr(takeback, name)) for name in MAIN if name != "aopen"]
    parts.append("## Values\n")
    rest = [n for n in takeback.__all__ if n not in MAIN and not n.startswith("__") and n != "errors"]
    parts += [
        _value(name, getattr(takeback, name)) for name in rest if not _is_error(getattr(takeback, name))
    ]
    parts.append(
        "## Errors\n\nAll are `TakebackError`s, in `takeback.errors`; the commonest also in `takeback`.\n"
    )
    parts.append("| error | kind | exit code | when |\n| --- | --- | --- | --- |")
    parts += [_error(cls, depth) for cls, depth in _tree(errors.TakebackError, 0)]
    parts.append("\n" + ASYNC)
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        return f"## takeback.{name}\n\n```python\n{name}{_signature(thing)}\n```\n\n{_doc(thing)}\n"
    lines = [f"## {name}\n", f"{_doc(thing)}\n"]
    for member, value in _members(thing):
        if isinstance(value, property):
            lines.append(f"- **`.{member}`**: {_doc(value)}")
        else:
            lines.append(f"- **`.{member}{_signature(value)}`**  \n  {_doc(value)}")
    return "\n".join(lines) + "\n"


def _value(name: str, thing: Any) -> str:
    if inspect.isfunction(thing):
        return f"### {name}\n\n`{name}{_signature(thing)}`\n\n{_doc(thing)}\n"
    if not inspect.isclass(thing):
        return f"### {name}\n\n`{_shown(thing)}`: {_doc(type(thing))}\n"
    fields = [f"`{field}`" for field in getattr(thing, "__struct_fields__", ())]
    members = [f"`{m}`" if isinstance(v, property) else f"`{m}()`" for m, v in _members(thing)]
    lines = [f"### {name}\n", f"{_doc(thing)}\n"]
    if fields:
        lines.append("Fields: " + " · ".join(fields) + "\n")
    if members:
        lines.append("Also: " + " · ".join(members) + "\n")
    return "\n".join(lines)


def _members(cls: type) -> list[tuple[str, Any]]:
    ours = [base for base in cls.__mro__ if base.__module__.startswith("takeback")]
    public = [(n, v) for base in ours for n, v in vars(base).items() if not n.startswith("_")]
    return [(n, v) for n, v in public if isinstance(v, property) or inspect.isfunction(v)]


def _tree(cls: type[errors.TakebackError], depth: int) -> list[tuple[type[errors.TakebackError], int]]:
    found = [(cls, depth)]
    for below in cls.__subclasses__():
        found += _tree(below, depth + 1)
    return found


def _error(cls: type[errors.TakebackError], depth: int) -> str:
    return f"| {'· ' * depth}`{cls.__name__}` | `{cls.kind}` | {cls.exit_code} | {_doc(cls)} |"


def _is_error(thing: Any) -> bool:
    return inspect.isclass(thing) and issubclass(thing, Exception)


def _signature(thing: Any) -> str:
    told = typing.get_overloads(thing) if inspect.isfunction(thing) else []
    text = str(inspect.signature(told[-1] if told else thing))  # the last one is the one with everything
    text = re.sub(r"\(self(, )?", "(", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _shown(thing: Any) -> str:
    """A value as the page names it: without the address that `object.__repr__` gives."""
    plain = type(thing).__repr__ is object.__repr__
    return f"<{type(thing).__name__}>" if plain else repr(thing)


def _doc(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split())


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
