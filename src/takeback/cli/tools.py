"""tools: what a module declares, with what may be repeated and how each is undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_app

if TYPE_CHECKING:
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    parser = to.add(
        "tools",
        list_tools,
        "world",
        "List the tools that a module declares",
        more="What each may do to the world: whether it may be repeated, how it is undone, who is asked. "
        "With --json, everything that is declared, for a release's records.",
        example="takeback tools --app shop.tools",
    )
    add_app(parser)


def list_tools(session: Session) -> int:
    from takeback import registry
    from takeback.errors import BadRequest

    out = session.out
    if not session.load_app():
        raise BadRequest("which tools?", hint="Give --app module:name, or set TAKEBACK_APP")
    found = registry.listed()
    if out.json:
        out.document({"tools": found})
    elif not found:
        out.line("the module declares no tools")
    else:
        columns = ("tool", "kind", "repeat", "undo", "target", "owner", "asks")
        out.table(columns, [_row(tool) for tool in found], folds=(0, 3, 4))
    return 0


def _row(tool: dict[str, Any]) -> tuple[Any, ...]:
    undo = tool.get("undo") or {"transactional": "with the transaction", "pure": "none needed"}.get(
        tool["preset"], "–"
    )
    asks = "a person" if tool.get("requires_approval") else ""
    name, owner = f"{tool['name']}@{tool['version']}", tool.get("owner") or ""
    return ((name, "bold"), tool["preset"], tool["repeat"], undo, tool.get("target") or "", owner, asks)
