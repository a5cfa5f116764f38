"""The outside world: what was really executed and undone, counted per key, and how each call goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from takeback.testing.effects.tools import KEY_MEMORY, TOOLS, Tool

FATES = (
    *("ok",) * 9,
    "refused",
    "lost after",
    "lost before",
    "dies before",
    "dies after",
    "stops before",
    "stops after",
    "times out",
)
"""What may become of a call. Lost: an exception that does not say whether it happened. Stops: its caller
is stopped, and may be woken later; the last word says on which side of the deed."""


class NotDone(Exception):
    """The provider refused: nothing happened."""


class Lost(Exception):
    """An exception of any other kind: nobody knows."""


class Died(Exception):
    """The caller is dead. Whoever catches this writes nothing more in its name."""


class Stopped(Exception):
    """The caller stands still with its call; `call` is what it will do when it is woken.

    `times_out` says that only the function hangs: its caller lives and has stopped to wait for it.
    """

    def __init__(self, call: Call, *, times_out: bool = False) -> None:
        self.call, self.times_out = call, times_out
        super().__init__(call.key)


class Call(msgspec.Struct):
    """A call on its way to the provider."""

    tool: Tool
    key: str
    back: bool
    """An undo of what was done under the key."""
    result: str | None = None
    """Set once it is done."""


class World:
    """Provider, clock and prices. It honours keys of tools that are `keyed` and of undos that are `safe`."""

    def __init__(self) -> None:
        self.now = 0
        self.price = 1
        self.versions: Counter[str] = Counter()
        """How often each tool was deployed anew."""
        self.fate: Callable[[], str] = lambda: "ok"
        self.executed: Counter[str] = Counter()
        self.undone: Counter[str] = Counter()
        self.tried: set[str] = set()
        """Keys with which somebody called, whatever came of it."""
        self.stale: list[str] = []
        """Keys under which the provider answered with an old success although it had been undone since."""
        self.woken: tuple[str, bool] = ("", False)
        """Of the last call that was ended by a woken caller: its key, and whether it was an undo."""
        self._memory: dict[str, tuple[str, int]] = {}
        self._undos: set[str] = set()

    def stands(self, keys: list[str]) -> int:
        """How many times over what was done under these keys stands now."""
        return sum(self.executed[key] - self.undone[key] for key in keys)

    def call(self, tool: str, key: str) -> str:
        """Do it, in the way that fate has for it; the result is the provider's receipt."""
        return self._meet(Call(TOOLS[tool], key, back=False))

    def take_back(self, tool: str, key: str) -> None:
        """Undo what was done under `key`, in the way that fate has for it."""
        self._meet(Call(TOOLS[tool], key, back=True))

    def finish(self, call: Call) -> str:
        """What a woken caller does: the rest of its call."""
        self.woken = (call.key, call.back)
        if call.result is None:
            # A woken caller's answer is evidence, and nobody acts on it: it may be an old one.
            call.result = self._undo(call) if call.back else self._execute(call, may_be_old=True)
        return call.result

    def _meet(self, call: Call) -> str:
        fate = self.fate()
        if not call.back:
            self.tried.add(call.key)
        if fate == "refused":
            raise NotDone(call.key)
        if fate not in ("lost before", "dies before", "stops before"):
            call.result = self._undo(call) if call.back else self._execute(call)
        if fate.startswith("lost"):
            raise Lost(call.key)
        if fate.startswith("dies"):
            raise Died(call.key)
        if fate.startswith("stops") or fate == "times out":
            raise Stopped(call, times_out=fate == "times out")
        return str(call.result)

    def _execute(self, call: Call, *, may_be_old: bool = False) -> str:
        keyed = call.tool.repeat == "keyed"
        known, until = self._memory.get(call.key, ("", 0))
        if keyed and known and self.now < until:
            if self.undone[call.key] and not may_be_old:
                self.stale.append(known)
            return known
        self.executed[call.key] += 1
        receipt = f"receipt {self.executed.total()}"
        self._memory[call.key] = (receipt, self.now + KEY_MEMORY)
        return receipt

    def _undo(self, call: Call) -> str:
        """Undoing what never happened does nothing; a safe undo is done once per key."""
        if self.executed[call.key] and not (call.tool.undo == "safe" and call.key in self._undos):
            self._undos.add(call.key)
            self.undone[call.key] += 1
        return "undone"
