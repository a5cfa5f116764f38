"""The tools of the modelled agent: one for each way in which an effect can be repeated and undone."""

from __future__ import annotations

import msgspec

TIMEOUT = 3
"""How long a call may take; afterwards it is unknown, and its caller does not begin it any more."""
LEASE = 5
"""How long a step stays its owner's without a sign of life."""
KEY_MEMORY = 4
"""How long the provider remembers a key. Longer than a timeout, or a key would protect nothing."""
APPROVAL_LIFE = 8
"""How long a granted approval may be used."""


class Tool(msgspec.Struct, frozen=True):
    """What is declared of a tool."""

    name: str
    target: str
    repeat: str = "once"
    """free · keyed · once"""
    undo: str = ""
    """safe (may be repeated) · once · nothing at all"""
    approval: bool = False
    facts: bool = False
    """An approval shows the price, which is looked up again before the intent."""
    money: bool = False

    def cost(self, args: str) -> int:
        """What a call spends: x costs one, y two."""
        return " xy".index(args) if self.money else 0


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("pay", "account", undo="safe", money=True),
        Tool("keyed", "account", repeat="keyed", undo="safe", money=True),
        Tool("once", "account", undo="once", money=True),
        Tool("mail", "post", approval=True),
        Tool("order", "shop", undo="safe", approval=True, facts=True, money=True),
        Tool("look", "account", repeat="free"),
    )
}
