"""What the tests of effects share: a store, a clock that is set by hand, and a world that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import takeback
from takeback import NotDone
from takeback.testing.postgres import fresh_url
from takeback.tools import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOUR = 3600 * 1_000_000


class Clock:
    """Microseconds; it moves by one a look, and as far as it is told."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now

    def passes(self, *, seconds: float = 0, hours: float = 0) -> None:
        self.now += int(seconds * 1_000_000 + hours * HOUR)


class World:
    """What happened outside, in order; `fates` say what becomes of the next calls of a kind."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.keys: list[str] = []
        self.fates: dict[str, list[Any]] = {}
        self.price = 100
        self.settings: dict[str, Any] = {}

    def happens(self, what: str, *args: Any) -> int:
        """Note it; before that or after, as its fate says: raise it, call it, or go well."""
        self.keys.append(takeback.effect_key())
        fate = self.fates[what].pop(0) if self.fates.get(what) else None
        if isinstance(fate, NotDone):
            raise fate
        self.log.append((what, *args))
        if isinstance(fate, BaseException):
            raise fate
        if callable(fate):
            fate()
        return len(self.log)

    def named(self, what: str) -> list[tuple[Any, ...]]:
        return [each for each in self.log if each[0] == what]


class Tools:
    """One tool of each kind, over a world."""

    def __init__(self, world: World) -> None:
        self.world = world

        def refund(account: str, cents: int, result: dict[str, Any]) -> None:
            world.happens("refund", account, cents, result["id"])

        @takeback.tool(
            undo=refund, target="{account}", describe="charge {cents:money} to {account}", cost="cents"
        )
        def charge(account: str, cents: int) -> dict[str, Any]:
            return {"id": world.happens("charge", account, cents)}

        def cancel(item: str) -> None:
            world.happens("cancel", item)

        @takeback.tool("compensable", undo=cancel, undo_safe=False)
        def order(item: str) -> str:
            return f"order {world.happens('order', item)}"

        @takeback.tool(describe="e-mail to {to}")
        def mail(to: str, text: str = "") -> None:
            world.happens("mail", to, text)

        @takeback.tool("idempotent", target="setting {name}", key_ttl=3600)
        def put(name: str, value: int) -> int:
            return world.happens("put", name, value)

        @takeback.tool("pure")
        def look(name: str) -> str:
            return name.upper()

        @takeback.tool("local")
        def shell(command: str) -> int:
            world.happens("shell", command)
            return 0

        self.charge, self.order, self.mail, self.put, self.look, self.shell = (
            charge, order, mail, put, look, shell,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def tools_of_this_test() -> Iterator[None]:
    """What a test declares is gone after it."""
    tools, undos = dict(registry._tools), dict(registry._undos)
    yield
    registry._tools, registry._undos = tools, undos


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def do(world: World) -> Tools:
    return Tools(world)


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, store_path: str) -> str:
    if request.param == "postgres":
        return fresh_url()
    return ":memory:" if request.param == "memory" else store_path


@pytest.fixture
def tb(url: str, clock: Clock) -> Iterator[takeback.Repo]:
    with takeback.open(url, actor="bot", durability="relaxed", clock=clock) as repo:
        yield repo


@pytest.fixture
def trip(tb: takeback.Repo) -> takeback.Thread[Any]:
    return tb.thread("trip", agent="planner", initial={"n": 0})


@pytest.fixture
def states(trip: takeback.Thread[Any]) -> Callable[[], list[str]]:
    """The states of the thread's effects, by number."""
    return lambda: [effect.state for effect in trip.effects()]
