"""Calling a tool: into the open step's record, through the function, and what came of it into the ledger."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from takeback.asking import Approval
from takeback.engine import calls, undoing
from takeback.engine.book import Book, Change
from takeback.engine.calls import Answer, Execute, Replay, Spec
from takeback.errors import (
    ApprovalRequired,
    BadRequest,
    EffectStands,
    EffectTimeout,
    NoStep,
    NotDone,
    StoreClosed,
    TakebackError,
    ToolInTool,
    Undecided,
)
from takeback.errors.base import naming
from takeback.filehands import FileHands
from takeback.model import canonical
from takeback.model.ledger import Blob, Effect, Entry
from takeback.step import current, decided
from takeback.tools import Tool, given, registry

if TYPE_CHECKING:
    from takeback.engine.steps import Session

T = TypeVar("T")
_key: contextvars.ContextVar[str | None] = contextvars.ContextVar("takeback_effect_key", default=None)
_connection: contextvars.ContextVar[Any] = contextvars.ContextVar("takeback_connection", default=None)
_LARGEST = 64 << 20


def effect_key() -> str:
    """Inside a tool: the key to give to the provider, so that it does the same thing once; in an
    undo, the key of that."""
    found = _key.get()
    if found is None:
        raise NoStep("no tool is being called here", hint="Ask for the key inside the tool's function")
    return found


def connection() -> Any:
    """Inside a transactional tool: the database connection whose transaction it is part of."""
    found = _connection.get()
    if found is None:
        raise BadRequest(
            "no transactional tool is being called here",
            hint="Declare the tool as 'transactional', on a store that has a database",
        )
    return found


def call(tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A synchronous call inside a step."""
    session, named = _entered(tool, args, kwargs)
    spec = _spec(tool, named)
    if tool.declared.within and not session.replays:
        return _within(tool, session, spec, args, kwargs)
    ticket = _begun(session, functools.partial(calls.begin, session, spec))
    if isinstance(ticket, Replay):
        return tool.load(ticket.value)
    book, effect = session.book, ticket.effect
    _on_time(book, effect)
    try:
        with _late_named(session):
            value = _run(tool, effect, book, args, kwargs)
    except BaseException as broken:
        raise _failed(book, effect, broken) from broken.__cause__
    _succeeded(tool, book, effect, value, named)
    return value


async def acall(tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The same for a coroutine function; what waits for the disk does so in a thread."""
    session, named = await _aside(_entered, tool, args, kwargs)
    spec = await _aside(_spec, tool, named)
    ticket = await _begun_aside(session, spec)
    if isinstance(ticket, Replay):
        return tool.load(ticket.value)
    book, effect = session.book, ticket.effect
    _on_time(book, effect)
    token = _key.set(effect.key)
    try:
        value = await asyncio.wait_for(tool.raw(*args, **kwargs), tool.declared.timeout)
    except TimeoutError as late:
        with _late_named(session):
            raise await _aside(_failed, book, effect, _timeout(effect, late)) from late
    except BaseException as broken:
        raise _failed(book, effect, broken) from broken.__cause__
    finally:
        _key.reset(token)
    await _aside(_succeeded, tool, book, effect, value, named)
    return value


class Hands(FileHands):
    """What this process can do for a plan: the tools that are registered here, the files that lie here."""

    def has(self, handler: str) -> bool:
        return registry.has(handler)

    def undo(self, effect: Effect, book: Book) -> None:
        tool = registry.undoing(effect.undo or "")
        _in_time(book, effect)
        with _keyed(effect.undo_key):
            _taken_back(tool, effect, book)

    def undo_within(self, effect: Effect, book: Book) -> Callable[[Any], None]:
        tool = registry.undoing(effect.undo or "")

        def work(database: Any) -> None:
            with _keyed(effect.undo_key), _connected(database):
                _taken_back(tool, effect, book)

        return work

    def redo(self, effect: Effect, book: Book) -> bytes:
        tool = registry.tool(f"{effect.tool}@{effect.version}")
        _in_time(book, effect)
        with _keyed(effect.key):
            value = _finished(tool.raw(**book.load(effect.args)))
        return canonical.encode(value)

    def facts(self, effect: Effect, book: Book) -> dict[str, Any]:
        tool = registry.tool(f"{effect.tool}@{effect.version}")
        look = tool.declared.facts
        return {} if look is None else dict(look(**given(look, book.load(effect.args))))


def probe(book: Book, effect: Effect) -> Effect | None:
    """Ask the provider what became of an unknown effect, where the tool can; None when that tells nothing."""
    handler = f"{effect.tool}@{effect.version}"
    tool = registry.tool(handler) if registry.has(handler) else None
    if tool is None or tool.declared.probe is None or effect.state not in ("unknown", "undo_unknown"):
        return None
    try:
        with _keyed(effect.key):
            said = _finished(tool.declared.probe(**given(tool.declared.probe, book.load(effect.args))))
    except Exception:  # a probe that fails tells nothing; the effect stays unknown, and is listed as that
        return None
    if said is None:
        return None
    return _settled_by_probe(book, effect, said)


# --- one call


def _entered(
    tool: Tool[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Session, dict[str, Any]]:
    name, step = tool.declared.name, current()
    if _key.get() is not None:
        raise ToolInTool(
            f"{name} was called inside another tool",
            thread=None if step is None else step.thread.name,
            hint=f"Call {name}.raw(…): it is part of the outer call",
        )
    if step is None:
        raise NoStep(
            f"{name} was called where no step is open, so nothing would record it",
            hint=f"with thread.step('…'): {name}(…) — or {name}.raw(…), which records nothing",
        )
    return step._recorder(), tool.bind(args, kwargs)


def _spec(tool: Tool[..., Any], named: dict[str, Any]) -> Spec:
    spec, read = tool.spec(named), tool.declared.read
    if read is None:
        return spec
    return msgspec.structs.replace(spec, read=lambda: canonical.encode(_finished(read(**given(read, named)))))


def _begun(session: Session, begin: Callable[[Answer | None], T]) -> T:
    try:
        with naming(session.tip.info.name):
            return _begun_or_asked(session, begin)
    except ApprovalRequired as asked:
        asked.approval = Approval(session.ctx, session.book, asked.approval)
        raise


async def _begun_aside(session: Session, spec: Spec) -> Replay | Execute:
    """The intent of a coroutine; where it is cancelled meanwhile, it is known that nothing was called."""
    work = asyncio.ensure_future(_aside(_begun, session, functools.partial(calls.begin, session, spec)))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        if not work.cancelled() and work.exception() is None:
            ticket = work.result()
            if isinstance(ticket, Execute):
                _failed(session.book, ticket.effect, NotDone("cancelled before it was called"))
        raise


def _begun_or_asked(session: Session, begin: Callable[[Answer | None], T]) -> T:
    answer = decided()
    if answer is None or answer.what != "undo":
        return begin(answer)
    undone: list[int] = []
    while True:
        try:
            return begin(Answer("undo", answer.by, undone))
        except EffectStands as stands:
            undoing.undo_first(session, stands.standing, Hands())
            undone += [effect.number for effect in stands.standing]


def _on_time(book: Book, effect: Effect) -> None:
    """The process may have been stopped since the intent, and somebody have decided meanwhile."""
    try:
        _in_time(book, effect)
    except NotDone as over:
        raise _failed(book, effect, over) from None


def _in_time(book: Book, effect: Effect) -> None:
    if book.clock() > effect.deadline_us:
        raise NotDone(
            f"#{effect.number} ({effect.shown}) was not called: its deadline has passed since the intent"
        )


def _run(
    tool: Tool[..., Any], effect: Effect, book: Book, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    with _keyed(effect.key):
        if tool.declared.timeout is None:
            return tool.raw(*args, **kwargs)
        return _timed(tool, effect, book, lambda: tool.raw(*args, **kwargs))


def _timed(tool: Tool[..., Any], effect: Effect, book: Book, work: Callable[[], Any]) -> Any:
    """A function cannot be stopped from outside: it runs on, and what comes of it late is evidence."""
    came: list[Any] = []
    failed: list[BaseException] = []
    over = threading.Event()
    gave_up = threading.Event()

    def run() -> None:
        try:
            came.append(work())
        except BaseException as broken:
            failed.append(broken)
        over.set()
        if gave_up.is_set():
            _late(tool, effect, book, came, failed)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name=f"takeback {effect.tool}").start()
    if not over.wait(tool.declared.timeout):
        gave_up.set()
        if not over.is_set():
            raise _timeout(effect, None)
    if failed:
        raise failed[0]
    return came[0]


def _late(
    tool: Tool[..., Any], effect: Effect, book: Book, came: list[Any], failed: list[BaseException]
) -> None:
    with suppress(StoreClosed):  # then nobody can be told: it stays unknown, and is listed as that
        if came:
            _succeeded(tool, book, effect, came[0], None)
        elif isinstance(failed[0], NotDone):
            calls.outcome(book, effect, "failed", error=str(failed[0]))


def _failed(book: Book, effect: Effect, broken: BaseException) -> BaseException:
    """Only `NotDone` says that nothing happened; after anything else nobody knows."""
    if isinstance(broken, NotDone):
        settled = calls.outcome(book, effect, "failed", error=str(broken))
        if settled.state == "failed":
            return broken
    else:
        calls.outcome(book, effect, "unknown", error=f"{type(broken).__name__}: {broken}")
    broken.add_note(
        f"takeback: whether #{effect.number} ({effect.shown}) happened is not known; "
        f"`takeback effects resolve {effect.number}`"
    )
    return broken


def _succeeded(
    tool: Tool[..., Any], book: Book, effect: Effect, value: Any, named: dict[str, Any] | None
) -> None:
    result, unreadable, after = None, None, None
    try:
        encoded = canonical.encode(value)
        if len(encoded) <= _LARGEST:
            result = encoded
        else:
            unreadable = f"a result of {len(encoded):,} bytes; {_LARGEST:,} are kept"
    except TakebackError as error:
        unreadable = str(error)
    if tool.declared.read is not None and named is not None:
        try:
            after = canonical.encode(_finished(tool.declared.read(**given(tool.declared.read, named))))
        except Exception as error:  # it was written: that it cannot be read back now is said by its undo
            unreadable = unreadable or f"what it left could not be read: {error}"
    calls.outcome(book, effect, "done", result=result, unreadable=unreadable, after=after)


def _within(
    tool: Tool[..., Any],
    session: Session,
    spec: Spec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """The tool writes in our transaction: it and its record are there together, or neither is."""
    kept: list[Any] = []

    def work(effect: Effect, database: Any) -> bytes:
        with _keyed(effect.key), _connected(database), _as_work():
            value = tool.raw(*args, **kwargs)
        kept[:] = [value]
        return canonical.encode(value)

    try:
        made = _begun(session, functools.partial(calls.within, session, spec, work))
    except _WorkFailed as failed:
        raise failed.cause from None
    return tool.load(made.value) if isinstance(made, Replay) else kept[0]


class _WorkFailed(Exception):
    """Carries what a tool raised out of the transaction, past the storage, which would take it for its."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def _as_work() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise _WorkFailed(error) from error


# --- taking back


def undo_one(book: Book, effect: Effect) -> Effect:
    """One effect alone, outside a plan: what `effects undo` and deciding('undo') do."""
    hands = Hands()
    if effect.undo is None:
        raise Undecided(
            f"#{effect.number} ({effect.shown}) cannot be undone: its tool has no undo",
            hint=f"Once you took it back by hand: `takeback effects resolve {effect.number} --undone`",
        )
    if not hands.has(effect.undo):
        registry.undoing(effect.undo)
    return undoing.undo_alone(book, effect, hands)


def _taken_back(tool: Tool[..., Any], effect: Effect, book: Book) -> None:
    named = book.load(effect.args)
    d = tool.declared
    if d.write is not None:
        _put_back(d.read, d.write, effect, book, named)
        return
    assert d.undo is not None
    result = None if effect.result is None else tool.load(book.load(effect.result))
    _finished(d.undo(**given(d.undo, named | {"result": result})))


def _put_back(
    read: Callable[..., Any] | None,
    write: Callable[..., Any],
    effect: Effect,
    book: Book,
    named: dict[str, Any],
) -> None:
    """What stood before is written again, if what stands now is what the call left."""
    assert read is not None
    if effect.before is None or effect.after is None:
        raise NotDone(f"what #{effect.number} left is not known, so it is not overwritten")
    now = canonical.encode(_finished(read(**given(read, named))))
    before, after = book.load(effect.before), canonical.encode(book.load(effect.after))
    if now == canonical.encode(before):
        return
    if now != after:
        raise NotDone(
            f"{effect.target.lstrip(chr(0))} is not what #{effect.number} left: somebody changed it"
        )
    _finished(write(**given(write, named | {"value": before})))  # `value` is what is to stand there


def _settled_by_probe(book: Book, effect: Effect, said: Any) -> Effect:
    def decide() -> Change:
        now = book.effects[effect.id]
        if now.state not in ("unknown", "undo_unknown"):
            return Change(answer=now)
        happened = said is not False
        if now.state == "undo_unknown":
            state = "done" if happened else "undone"
        else:
            state = "done" if happened else "undone" if now.redo else "failed"
        clean = msgspec.structs.replace(now, dirty=False)
        result = {} if said in (True, False) else {"result": Blob(raw=canonical.encode(said))}
        entry: Entry = calls.settle(clean, state, book, **result)
        return Change([entry], answer=entry)

    settled: Effect = book.change(decide)
    return settled


def _finished(value: Any) -> Any:
    """The value, or what the coroutine comes to, wherever this runs."""
    if not asyncio.iscoroutine(value):
        return value
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(value)
    came: list[Any] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(asyncio.run(value))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return came[0]


@contextmanager
def _late_named(session: Session) -> Iterator[None]:
    """Whatever a tool raises is its own; only that it took too long is said by us."""
    try:
        yield
    except EffectTimeout as late:
        late.thread = late.thread or session.tip.info.name
        raise


def _timeout(effect: Effect, cause: BaseException | None) -> EffectTimeout:
    late = EffectTimeout(
        f"#{effect.number} ({effect.shown}) took too long, and whether it happens is not known",
        hint=f"`takeback effects resolve {effect.number}`, when you know",
    )
    late.__cause__ = cause
    return late


async def _aside(function: Callable[..., Any], *args: Any) -> Any:
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(function, *args))


@contextmanager
def _keyed(key: str) -> Iterator[None]:
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


@contextmanager
def _connected(database: Any) -> Iterator[None]:
    token = _connection.set(database)
    try:
        yield
    finally:
        _connection.reset(token)


__all__ = ["Answer", "Hands", "acall", "call", "connection", "effect_key", "probe", "undo_one"]
