"""The modelled agent's tools, declared for the real engine: their bodies are calls to the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import takeback
from takeback.testing.effects.processes import UNIT, current
from takeback.testing.effects.tools import KEY_MEMORY, TOOLS
from takeback.tools import Tool, declare

if TYPE_CHECKING:
    from takeback.testing.effects.world import World

_SECOND = 1_000_000
_declared: dict[tuple[str, int], Tool[..., Any]] = {}


def tool(name: str, world: World) -> Tool[..., Any]:
    """As it is deployed now; what was deployed before stays registered, for what it has done."""
    version = world.versions[name]
    if (name, version) not in _declared:
        _declared[name, version] = _declare(name, version)
    return _declared[name, version]


def arguments(name: str, args: str) -> dict[str, Any]:
    """The call's arguments."""
    return {"args": args, "cents": TOOLS[name].cost(args)}


def _undo() -> None:
    current.get().reach(takeback.effect_key())


def _undoing(name: str) -> Callable[[], None]:
    def undo() -> None:
        _undo()

    undo.__name__ = f"undo_{name}"
    return undo


_UNDOS = {name: _undoing(name) for name, one in TOOLS.items() if one.undo}


def _price() -> dict[str, Any]:
    return {"price": current.get().store.world.price}


def _declare(name: str, version: int) -> Tool[..., Any]:
    one = TOOLS[name]

    def body(args: str, cents: int) -> str:  # noqa: ARG001 (they are recorded)
        return str(current.get().reach(takeback.effect_key()))

    said: dict[str, Any] = {"name": name, "version": version, "target": one.target, "repeat": one.repeat}
    if one.repeat == "free":
        return takeback.tool("pure", name=name, version=version)(lambda args, cents: None)  # noqa: ARG005 (it has its arguments)
    if one.undo:
        said |= {"undo": _UNDOS[name], "undo_safe": one.undo == "safe"}
    if one.repeat == "keyed":
        said["key_ttl"] = KEY_MEMORY * UNIT / _SECOND
    if one.money:
        said["cost"] = "cents"
    if one.facts:
        said["facts"] = _price
    return declare(body, **said, requires_approval=one.approval)
