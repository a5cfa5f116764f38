"""LangChain tools as effects: what a graph does to the world is recorded, and not done again in time travel.

A call is a step of the thread, whose label says where the graph was: namespace, node, task, tool, arguments.
A task's id follows from the checkpoint that it started from. So a graph that runs again from the same one
(after a crash, or in time travel) gets the recorded result; one that comes to the same call on another line
meets the guard.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as langchain_tool

from takeback.adapters.langgraph.nodes import saver_of, wait_until_stored
from takeback.errors import BadTool, NoStep
from takeback.model import canonical
from takeback.model.ledger import args_hash
from takeback.tools import Tool, declare

if TYPE_CHECKING:
    from takeback.model.ledger import Effect
    from takeback.thread import Thread

R = TypeVar("R")
_RUN = "langgraph"
_PATIENCE = 10.0  # seconds for the task's own checkpoint to be stored, with durability="async"
_REMEMBERED = 1000
Raw = Callable[..., Any]


class _Call(msgspec.Struct, frozen=True):
    """One call of a tool as the graph makes it: what it hands in beside, and how the function is run."""

    beside: dict[str, Any]
    run: Callable[[Raw, dict[str, Any]], Any]


_current: ContextVar[_Call | None] = ContextVar("takeback_langgraph_call", default=None)


def effectful(
    tool: BaseTool | Callable[..., Any],
    preset: str | None = None,
    /,
    *,
    repeat: str | None = None,
    undo: Callable[..., Any] | None = None,
    **said: Any,
) -> StructuredTool:
    """The tool as an effect: recorded before and after each call, guarded, and undone by plans.

    `repeat`, `undo` and the other options are those of `takeback.tool`. The graph has to have a
    `TakebackSaver`; outside of a graph the tool is what it was.
    """
    base = tool if isinstance(tool, BaseTool) else langchain_tool(tool)
    plain = base.func if isinstance(base, StructuredTool) else base._run
    awaited = base.coroutine if isinstance(base, StructuredTool) else None
    function = plain or awaited
    if function is None:
        raise BadTool(f"{base.name}: a tool without a function cannot be an effect")
    options = {name: value for name, value in (("repeat", repeat), ("undo", undo)) if value is not None}
    kept = _Kept(base, function, preset, options | said)
    made: dict[str, Any] = {"func": None, "coroutine": None}
    if plain is not None:
        made["func"] = kept.plain(plain)
    if awaited is not None:
        made["coroutine"] = kept.awaited(awaited)
    if isinstance(base, StructuredTool):
        return base.model_copy(update=made)
    return StructuredTool(
        name=base.name, description=base.description, args_schema=base.args_schema or base.get_input_schema(),
        return_direct=base.return_direct, response_format=base.response_format, func=made["func"],
    )  # fmt: skip


class _Kept:
    """A tool with its declaration."""

    def __init__(self, base: BaseTool, function: Raw, preset: str | None, said: dict[str, Any]) -> None:
        self.name = said.pop("name", base.name)
        self.injected = base._injected_args_keys | {"config", "run_manager", "callbacks", "runtime"}
        self.artifact = base.response_format == "content_and_artifact"
        self.declared: Tool[..., Any] = declare(
            _recorded(function, self.injected), preset, **({"name": self.name} | said)
        )

    def plain(self, function: Raw) -> Raw:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            config = var_child_runnable_config.get()
            if not config:
                return function(*args, **kwargs)
            return self._within(config, kwargs, lambda raw, named: raw(**named))

        return call

    def awaited(self, function: Raw) -> Raw:
        """The step, and whatever waits for the disk, in a thread; the function itself where it was called."""

        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            config = var_child_runnable_config.get()
            if not config:
                return await function(*args, **kwargs)
            loop, context = asyncio.get_running_loop(), copy_context()

            def run(_: Raw, named: dict[str, Any]) -> Any:
                return asyncio.run_coroutine_threadsafe(function(**named), loop).result()

            work = functools.partial(self._within, config, kwargs, run)
            return await loop.run_in_executor(None, context.run, work)

        return call

    def _within(self, config: Mapping[str, Any], given: dict[str, Any], run: Any) -> Any:
        beside = {name: value for name, value in given.items() if name in self.injected}
        named = {name: _plain(value) for name, value in given.items() if name not in self.injected}
        token = _current.set(_Call(beside, run))
        try:
            found = _in_step(config, self.name, named, functools.partial(self.declared, **named))
        finally:
            _current.reset(token)
        return tuple(found) if self.artifact and isinstance(found, list) else found


def _recorded(function: Raw, injected: frozenset[str] | set[str]) -> Raw:
    """The function as the ledger knows it: what the graph hands in (state, store, config) is no argument."""
    import inspect

    signature = inspect.signature(function)
    parameters = [each for name, each in signature.parameters.items() if name not in injected]

    @functools.wraps(function)
    def call(**named: Any) -> Any:
        now = _current.get()
        if now is None:
            return function(**named)
        found = now.run(function, named | now.beside)
        return list(found) if isinstance(found, tuple) else found

    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what `inspect` looks for
    return call


def _in_step(config: Mapping[str, Any], name: str, named: dict[str, Any], call: Callable[[], R]) -> R:
    """The call as a step of the graph's thread."""
    own = config.get("configurable") or {}
    saver = saver_of(own)
    if saver is None:
        raise NoStep(
            f"{name} is an effect, and the graph that calls it has no TakebackSaver to record it",
            hint="builder.compile(checkpointer=TakebackSaver(…))",
        )
    thread_id = str(own["thread_id"])
    wait_until_stored(saver, thread_id, own)  # or the effect would be nobody's, after a crash
    saver._saw_effects(thread_id)
    where, task = _place(config, own)
    hashed = args_hash(name, canonical.encode(named))
    number = _attempts.number(own.get("__pregel_scratchpad"), hashed)
    label = f"{where} {task} {name} {hashed[:4].hex()}" + (f" {number + 1}" if number else "")
    thread = saver.thread(thread_id)
    said = config.get("metadata") or {}
    step = thread.step(label, reason=said.get("reason"), actor=said.get("actor"), wait=_PATIENCE)
    step._kin = _Kin(thread, where, task, hashed, number)
    with thread.run(_RUN), step:
        return call()


def _place(config: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[str, str]:
    """(namespace and node, task): what a label begins with."""
    parts = str(own.get("checkpoint_ns") or "").split("|")
    namespace = "|".join(part.partition(":")[0] for part in parts).replace(" ", "_")
    node = str((config.get("metadata") or {}).get("langgraph_node") or "").replace(" ", "_")
    return namespace if parts[-1].startswith(node) else f"{namespace}|{node}", str(own["__pregel_task_id"])[
        :13
    ]


class _Kin:
    """Which effects are no question before a call: those that the same task makes at this moment, beside it;
    and those that the call's own earlier self was made with. A node that runs again on another line makes all
    its calls again, and each meets the one that it was, not the others."""

    def __init__(self, thread: Thread[Any], where: str, task: str, hashed: bytes, number: int) -> None:
        self._line = thread.head.line if thread.exists else 0
        self._beside = f"{where} {task} "
        self._where, self._hashed, self._number = f"{where} ", hashed, number
        self._book = thread._book() if thread.exists else None

    def __call__(self, effect: Effect) -> bool:
        if effect.run != _RUN or not effect.label.startswith(self._where):
            return False
        if effect.line == self._line and effect.label.startswith(self._beside):
            return True
        earlier = self._earlier
        return earlier is not None and effect.id != earlier.id and _task(effect) == _task(earlier)

    @functools.cached_property
    def _earlier(self) -> Effect | None:
        """This call as it was made before: the one of its number, of the newest task that made such."""
        if self._book is None:
            return None
        like = [
            effect
            for effect in self._book.effects.values()
            if effect.run == _RUN and effect.args_hash == self._hashed and effect.state == "done"
            and effect.label.startswith(self._where)
        ]  # fmt: skip
        if not like:
            return None
        newest = _task(max(like, key=lambda effect: effect.number))
        same = sorted((e for e in like if _task(e) == newest), key=lambda effect: effect.number)
        return same[self._number] if self._number < len(same) else None


def _task(effect: Effect) -> list[str]:
    return effect.label.split(" ")[:2]


class _Attempts:
    """How often each call was made in an attempt at a task, which LangGraph gives an object of its own."""

    def __init__(self) -> None:
        self._held: OrderedDict[int, tuple[Any, Counter[bytes]]] = OrderedDict()

    def number(self, attempt: Any, call: bytes) -> int:
        held = self._held.get(id(attempt))
        if held is None or held[0] is not attempt:
            held = self._held[id(attempt)] = (attempt, Counter())
            while len(self._held) > _REMEMBERED:
                self._held.popitem(last=False)
        held[1][call] += 1
        return held[1][call] - 1


_attempts = _Attempts()


def _plain(value: Any) -> Any:
    """An argument as it is recorded: LangChain hands in models for nested schemas."""
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value
