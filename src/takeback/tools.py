"""Tools: functions that touch the world, declared once with what may be repeated and how it is undone."""

from __future__ import annotations

import difflib
import functools
import inspect
import string
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_type_hints, overload

import msgspec

from takeback.engine.calls import TIMEOUT_US, Spec
from takeback.errors import BadTool, HandlerMissing, Unstorable
from takeback.model import canonical
from takeback.model.ledger import args_hash

P = ParamSpec("P")
R = TypeVar("R")

PRESETS: dict[str, dict[str, Any]] = {
    "pure": {"repeat": "free"},
    "idempotent": {"repeat": "keyed"},
    "compensable": {"repeat": "once", "needs_undo": True},
    "transactional": {"repeat": "once", "within": True},
    "local": {"repeat": "once", "local": True},
    "irreversible": {"repeat": "once", "no_undo": True},
}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_SECOND = 1_000_000


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a tool."""

    name: str
    version: str
    preset: str
    repeat: str
    within: bool = False
    local: bool = False
    undo: Callable[..., Any] | None = None
    undo_name: str | None = None
    undo_safe: bool = True
    probe: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    write: Callable[..., Any] | None = None
    describe: str | None = None
    target: str | None = None
    key_ttl: float | None = None
    facts: Callable[..., Mapping[str, Any]] | None = None
    requires_approval: bool | Callable[..., bool] = False
    timeout: float | None = None
    owner: str | None = None
    cost: dict[str, str] = {}

    def as_dict(self) -> dict[str, Any]:
        """For listing and export: names, not code."""
        said = {
            "name": self.name, "version": self.version, "preset": self.preset, "repeat": self.repeat,
            "undo": self.undo_name, "undo_safe": self.undo_safe if self.undo_name else None,
            "probe": self.probe is not None, "target": self.target, "describe": self.describe,
            "key_ttl": self.key_ttl, "timeout": self.timeout, "owner": self.owner, "cost": self.cost or None,
            "requires_approval": bool(self.requires_approval) or None, "within": self.within or None,
        }  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}


class Tool(Generic[P, R]):
    """A function that is recorded where a step is open. Call it as it is; `raw` is the function itself."""

    def __init__(self, function: Callable[P, R], declared: Declared) -> None:
        self.raw, self.declared = function, declared
        self.signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self._object = _object_of(function, self.signature)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        from takeback import calling

        if self.declared.repeat == "free":
            return self.raw(*args, **kwargs)
        if self.is_async:
            return cast(R, calling.acall(self, args, kwargs))
        return cast(R, calling.call(self, args, kwargs))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: its object is passed on, and is no part of what is recorded."""
        return self if instance is None else functools.partial(self, instance)

    @property
    def handler(self) -> str:
        """The name under which a plan finds it."""
        return f"{self.declared.name}@{self.declared.version}"

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, as they are recorded."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named |= value
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                named[name] = list(value)
            elif name != self._object:
                named[name] = value
        return named

    def spec(self, named: Mapping[str, Any]) -> Spec:
        """The call as the engine sees it."""
        d = self.declared
        try:
            args = canonical.encode(dict(named))
        except Unstorable as error:
            raise Unstorable(
                f"{d.name}: an argument cannot be recorded: {error.what}", path=error.path, hint=error.hint
            ) from None
        approve = d.requires_approval
        if callable(approve):
            approve = bool(approve(**given(approve, named)))
        return Spec(
            tool=d.name, version=d.version, args=args, hashed=args_hash(d.name, args),
            target="\0" + d.name if d.target is None else _filled(d.target, named),
            shown=_filled(d.describe, named) if d.describe else _call_text(d.name, named),
            repeat=d.repeat, undo=d.undo_name, undo_safe=d.undo_safe, within=d.within, local=d.local,
            timeout_us=TIMEOUT_US if d.timeout is None else int(d.timeout * _SECOND),
            key_ttl_us=None if d.key_ttl is None else int(d.key_ttl * _SECOND),
            cost={name: int(named[argument]) for name, argument in d.cost.items()},
            approve=bool(approve),
            look=None if d.facts is None else functools.partial(_facts, d.facts, named),
        )  # fmt: skip

    @functools.cached_property
    def _returns(self) -> Any:
        """What the function says that it returns; a type that only type checkers see is not looked for."""
        try:
            return get_type_hints(self.raw).get("return")
        except (NameError, AttributeError, TypeError):
            return None

    def load(self, value: Any) -> Any:
        """A recorded result as what the function says that it returns."""
        returns = self._returns
        if returns in (inspect.Signature.empty, None, Any):
            return value
        if hasattr(returns, "model_validate"):
            return returns.model_validate(value)
        if hasattr(returns, "__struct_fields__") or hasattr(returns, "__dataclass_fields__"):
            return msgspec.convert(value, returns)
        return value

    def __repr__(self) -> str:
        return f"<Tool {self.handler} ({self.declared.preset})>"


class Registry:
    """The tools of this process, by the names under which effects know them."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        self._undos: dict[str, Tool[..., Any]] = {}

    def add(self, tool: Tool[..., Any]) -> None:
        """A tool, and its undo; one of the same name and version takes the place of the old one."""
        self._tools[tool.handler] = tool
        if tool.declared.undo_name:
            self._undos[tool.declared.undo_name] = tool

    def has(self, handler: str) -> bool:
        """Whether this process has a tool, or an undo, of this name: `charge@1`, `refund@1`."""
        return handler in self._undos or handler in self._tools

    def undoing(self, handler: str) -> Tool[..., Any]:
        """The tool whose undo has this name."""
        return _found(self._undos, handler)

    def tool(self, handler: str) -> Tool[..., Any]:
        """The tool of this name."""
        return _found(self._tools, handler)

    def listed(self) -> list[dict[str, Any]]:
        """Every tool as plain data, by name: what is exported."""
        return [self._tools[name].declared.as_dict() for name in sorted(self._tools)]


registry = Registry()


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    preset: str | None = None,
    /,
    *,
    name: str | None = None,
    version: str | int = 1,
    repeat: str | None = None,
    undo: Callable[..., Any] | None = None,
    undo_safe: bool | None = None,
    probe: Callable[..., Any] | None = None,
    read: Callable[..., Any] | None = None,
    write: Callable[..., Any] | None = None,
    describe: str | None = None,
    target: str | None = None,
    key_ttl: float | None = None,
    facts: Callable[..., Mapping[str, Any]] | None = None,
    requires_approval: bool | Callable[..., bool] = False,
    timeout: float | None = None,
    owner: str | None = None,
    cost: str | Mapping[str, str] | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(preset: Any = None, /, **said: Any) -> Any:
    """Declare a function as a tool: `@tool`, `@tool("idempotent")`, `@tool(undo=refund, target="{account}")`.

    Presets: pure · idempotent · compensable · transactional · local · irreversible (what is not declared).

    `undo` is called with those of the call's arguments that it names, and `result`; `undo_safe=False`
    says that it must not be called twice. Or `read` and `write` of a setting: what stood there is written
    again, with `value=`, if what stands now is what the call left. `probe` asks the provider what became
    of a call: True, False, the result, or None. `describe` words the call for people, `target` says what
    it is about; both may name arguments, `{cents:money}` as an amount. `repeat` is free, keyed or once;
    `key_ttl`, in seconds, is for how long the provider honours `takeback.effect_key()`. After `timeout`
    seconds the outcome is unknown. `requires_approval` (or a function of the arguments) asks a person,
    who is shown `facts`; if they are others when the call is made, the yes is void. `cost` names the
    argument that counts against the budget `money`, or is {budget: argument}. `owner` is for lists;
    `version` is part of the handler's name.
    """
    if callable(preset):
        return declare(preset, None)
    return functools.partial(declare, preset=preset, **said)


def declare(function: Callable[P, R], preset: str | None = None, **said: Any) -> Tool[P, R]:
    """A function as a tool, and in the registry."""
    made = Tool(function, _declared(function, preset, dict(said)))
    _check(made)
    registry.add(made)
    return made


def from_mcp(
    function: Callable[P, R], annotations: Any = None, *, trusted: bool = True, **said: Any
) -> Tool[P, R]:
    """A tool from what an MCP server says of it; what is said here counts for more. `trusted=False` is for a
    server whose word is not taken: its tools count as irreversible."""
    hinted = mcp_options(annotations) if trusted else {"preset": "irreversible"}
    if hinted["preset"] == "irreversible" and (said.get("undo") or said.get("write")):
        hinted["preset"] = "compensable"
    return declare(function, **(hinted | said))


def mcp_options(annotations: Any) -> dict[str, Any]:
    """An MCP server's hints as options of a tool: {"preset": …}. `annotations` is a mapping or the SDK's
    ToolAnnotations; a hint that is missing has the protocol's default, which is the worst.

    Read-only is pure. Idempotent is repeated without harm. Whether something is destructive says nothing
    about taking it back, and so is everything else irreversible: only an undo= makes it compensable.
    """
    if annotations is None:
        hints: Mapping[str, Any] = {}
    elif isinstance(annotations, Mapping):
        hints = annotations
    else:
        hints = {name: getattr(annotations, name, None) for name in _HINTS}
    for name in _HINTS:
        if hints.get(name) not in (None, True, False):
            raise BadTool(f"the MCP annotation {name}={hints[name]!r} is neither true nor false")
    if hints.get("readOnlyHint"):
        return {"preset": "pure"}
    return {"preset": "idempotent" if hints.get("idempotentHint") else "irreversible"}


def given(function: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that a function names."""
    parameters = inspect.signature(function).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return dict(named)
    return {name: named[name] for name in parameters if name in named}


# --- declaring

_OPTIONS = (
    "cost", "describe", "facts", "key_ttl", "name", "owner", "probe", "read", "repeat", "requires_approval",
    "target", "timeout", "undo", "undo_safe", "version", "write",
)  # fmt: skip


def _declared(function: Callable[..., Any], preset: str | None, said: dict[str, Any]) -> Declared:
    name = said.pop("name", None) or function.__name__
    for option in said:
        if option not in _OPTIONS:
            meant = difflib.get_close_matches(option, _OPTIONS, 1)
            raise BadTool(
                f"{name}: a tool has no option {option!r}",
                hint=f"Did you mean {meant[0]}?" if meant else "Its options: " + ", ".join(_OPTIONS),
            )
    undo, write = said.get("undo"), said.get("write")
    if preset is None:
        preset = "compensable" if undo or write else "irreversible"
    if preset not in PRESETS:
        raise BadTool(f"{name}: there is no preset {preset!r}", hint="One of " + ", ".join(PRESETS))
    rules = PRESETS[preset]
    if rules.get("needs_undo") and not (undo or write):
        raise BadTool(f"{name}: a compensable tool says how it is undone", hint="undo=, or read= and write=")
    if rules.get("no_undo") and (undo or write):
        raise BadTool(f"{name}: what has an undo is not irreversible", hint="Leave the preset out")
    if bool(write) != bool(said.get("read")):
        raise BadTool(f"{name}: read= and write= come together", hint="One reads what the other writes")
    if undo and write:
        raise BadTool(f"{name}: undo= and write= are two ways to take it back", hint="Give one")
    repeat = said.pop("repeat", None) or rules["repeat"]
    if repeat not in ("free", "keyed", "once"):
        raise BadTool(f"{name}: repeat={repeat!r} is none of free, keyed, once")
    version, safe, cost = str(said.pop("version", 1)), said.pop("undo_safe", None), said.pop("cost", None)
    if isinstance(undo, Tool):
        said["undo"] = undo = undo.raw
    return Declared(
        name=name, version=version, preset=preset, repeat=repeat, within=bool(rules.get("within")),
        local=bool(rules.get("local")), undo_name=_undo_name(name, version, undo, write),
        undo_safe=True if safe is None else safe,
        cost={"money": cost} if isinstance(cost, str) else dict(cost or {}), **said,
    )  # fmt: skip


def _undo_name(name: str, version: str, undo: Callable[..., Any] | None, write: Any) -> str | None:
    if write is not None:
        return f"restore@{version}:{name}"
    if undo is None:
        return None
    called = getattr(undo, "__name__", "")
    return f"{called if called.isidentifier() else 'undo_' + name}@{version}"


def _check(made: Tool[..., Any]) -> None:
    """Mistakes in a declaration are found where it stands, not in the middle of a step."""
    d, known = made.declared, set(made.signature.parameters)
    for what, template in (("target", d.target), ("describe", d.describe)):
        for field in _fields(template or ""):
            if field not in known:
                raise BadTool(
                    f"{d.name}: {what}={template!r} names {field!r}, which is no argument",
                    hint="Its arguments: " + ", ".join(made.signature.parameters),
                )
    for name, argument in d.cost.items():
        if argument not in known:
            raise BadTool(f"{d.name}: the cost in {name} is of {argument!r}, which is no argument")
    if d.undo is not None:
        _check_undo(d, known)
    if d.within and made.is_async:
        raise BadTool(f"{d.name}: a transactional tool is not async", hint="The transaction waits for it")
    other = registry._undos.get(d.undo_name or "")
    if other is not None and other.declared.undo is not d.undo and other.handler != made.handler:
        raise BadTool(
            f"{d.name}: {other.declared.name} has another undo that is called {d.undo_name}",
            hint="Give one of the functions another name",
        )


def _check_undo(d: Declared, known: set[str]) -> None:
    assert d.undo is not None
    wanted = inspect.signature(d.undo).parameters.values()
    lacking = [
        each.name
        for each in wanted
        if each.default is each.empty
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        and each.name not in known | {"result"}
    ]
    if lacking:
        raise BadTool(
            f"{d.name}: its undo wants {', '.join(lacking)}, which the call does not have",
            hint="An undo is called with those of the call's arguments that it names, and `result`",
        )


def _facts(facts: Callable[..., Mapping[str, Any]], named: Mapping[str, Any]) -> dict[str, Any]:
    return dict(facts(**given(facts, named)))


def _object_of(function: Callable[..., Any], signature: inspect.Signature) -> str | None:
    """The parameter that brings a method its object; None for a function."""
    around = getattr(function, "__qualname__", "").rpartition(".")[0]
    first = next(iter(signature.parameters), None)
    return first if around and not around.endswith("<locals>") and first in ("self", "cls") else None


def _fields(template: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise BadTool(f"{template!r} is no template: {error}") from None
    return [field.partition(".")[0].partition("[")[0] for _, field, _, _ in parts if field is not None]


def _filled(template: str, named: Mapping[str, Any]) -> str:
    try:
        return _Words().vformat(template, (), named)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise BadTool(f"{template!r} does not fit these arguments: {error}") from None


class _Words(string.Formatter):
    """Templates for people: {cents:money} is an amount in hundredths."""

    def format_field(self, value: Any, spec: str) -> str:
        kind, _, currency = spec.partition(":")
        if kind != "money":
            return str(super().format_field(value, spec))
        sign = {"": "$", "USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}.get(currency, currency + " ")
        return f"{'-' if value < 0 else ''}{sign}{abs(value) / 100:,.2f}"


def _call_text(name: str, named: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{key}={_short(value)}" for key, value in named.items())
    return f"{name}({shown})"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _found(held: dict[str, Tool[..., Any]], handler: str) -> Tool[..., Any]:
    found = held.get(handler)
    if found is None:
        raise HandlerMissing(
            f"this process has no {handler}",
            hint="Import the module that declares it: --app module:name, or `takeback worker --app …`; "
            "where it exists no more, resolve the effect by hand",
        )
    return found
