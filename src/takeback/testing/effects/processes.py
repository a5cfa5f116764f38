"""Processes of the real engine that are stopped, woken and killed at will, inside one process of a test."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.errors import NotDone
from takeback.model import ledger as records
from takeback.model.ledger import Effect
from takeback.repo import Repo
from takeback.storage.base import Batch, Ledger, NewCheckpoint, Refusal, Storage
from takeback.storage.wrappers import Wrapper
from takeback.testing.effects import world as outside
from takeback.testing.effects.tools import APPROVAL_LIFE, LEASE

if TYPE_CHECKING:
    from takeback.testing.effects.world import World

UNIT = 100_000_000
"""Microseconds of the engine's clock for one of the world's: a call's five minutes are then the model's 3."""

current: contextvars.ContextVar[Process] = contextvars.ContextVar("takeback_testing_process")


class Gone(BaseException):
    """The process writes nothing any more. No `except Exception` of the engine's takes it for a tool's."""


class Hung(msgspec.Struct):
    """A call that somebody began and did not end."""

    process: Process
    call: outside.Call
    effect: Effect
    back: bool
    times_out: bool
    reached: bool = False
    over: bool = False
    woken: threading.Event = msgspec.field(default_factory=threading.Event)


class Store:
    """What all processes share: the storage, the world, the calls that hang."""

    def __init__(self, storage: Storage, world: World) -> None:
        self.storage, self.world = storage, world
        self.writes = 0
        self.hung: list[Hung] = []

    def clock(self) -> int:
        return self.world.now * UNIT

    def end(self) -> None:
        """Whoever stands still ends, without a word."""
        for hung in self.hung:
            if not hung.over and not hung.times_out:
                hung.process.dead = True
                hung.woken.set()
                hung.process.listen()
        self.storage.close()


class Process:
    """A process of its own: what it has read of the ledger, and what it is in the middle of.

    Its calls meet their fate when their intent is written: before that nothing can have happened outside.
    """

    def __init__(self, store: Store, actor: str) -> None:
        self.store = store
        self.repo = Repo(_Way(store.storage, self), actor=actor, clock=store.clock)
        self.ctx = self.repo._ctx
        self.ctx.lease_us, self.ctx.approval_us = LEASE * UNIT + 1, APPROVAL_LIFE * UNIT
        self.context = contextvars.Context()
        self.context.run(current.set, self)
        self.dead = False
        self._evidence: bytes | None = None  # of a caller that was woken: the effect of which it may tell
        self._told = False
        self.intents: list[tuple[Effect | None, Effect]] = []
        self._said: dict[str, Any] = {}
        self._heard: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    # --- its thread of execution

    def run(self, work: Callable[[], Any]) -> tuple[str, Any]:
        """("returned", value) · ("raised", error) · ("died", effect) · ("stopped", the hanging call)"""
        self.intents = []
        threading.Thread(target=self._work, args=(work,), daemon=True).start()
        return self.listen()

    def listen(self) -> tuple[str, Any]:
        """What it does next."""
        return self._heard.get(timeout=60)

    def wake(self, hung: Hung) -> tuple[str, Any]:
        """Let a stopped call go on, to its outcome and no further."""
        hung.over, self._evidence, self._told = True, hung.effect.id, False
        hung.woken.set()
        heard = self.listen()
        self._evidence = None
        return heard

    def _work(self, work: Callable[[], Any]) -> None:
        try:
            heard: tuple[str, Any] = ("returned", self.context.run(work))
        except Gone:
            heard = ("died", self.intents[-1][1] if self.intents else None)
        except BaseException as error:
            heard = ("raised", error)
        self._heard.put(heard)

    def _stand(self, hung: Hung) -> None:
        self._heard.put(("stopped", hung))
        hung.woken.wait()
        if self.dead:
            raise Gone

    # --- what it writes

    def may_write(self, batch: Batch) -> None:
        """Nothing when it is dead; when it was woken, evidence alone."""
        woken = self._evidence is not None
        if self.dead or (woken and (self._told or self._intents(batch) or _moves_head(batch))):
            raise Gone

    def wrote(self, batch: Batch) -> None:
        """Something is written. If it is an intent, its call meets its fate."""
        self.store.writes += 1
        self._told = self._told or self._evidence in _effects(batch)
        for old, effect in self._intents(batch):
            self.intents.append((old, effect))
            self._meet(effect)

    def _intents(self, batch: Batch) -> list[tuple[Effect | None, Effect]]:
        found = []
        for row in batch.rows:
            if not isinstance(row, Ledger):
                continue
            known = self.ctx.books[row.family].effects
            for cell in row.cells:
                entry = records.decode(cell.kind, cell.body)
                if not isinstance(entry, Effect) or entry.state not in ("begun", "undoing"):
                    continue
                old = known.get(cell.key)
                if old is None or _try(old) != _try(entry):
                    found.append((old, entry))
        return found

    def _meet(self, effect: Effect) -> None:
        back = effect.state == "undoing"
        key = effect.undo_key if back else effect.key
        meet = self.store.world.take_back if back else self.store.world.call
        try:
            self._said[key] = meet(effect.tool, effect.key)
        except outside.Died:
            self.dead = True
            raise Gone from None
        except outside.Stopped as stopped:
            hung = Hung(self, stopped.call, effect, back, stopped.times_out)
            self.store.hung.append(hung)
            self._said[key] = hung
            if not stopped.times_out and stopped.call.result is None:
                self._stand(hung)
        except Exception as other:  # refused, or lost: what the tool will raise
            self._said[key] = other

    def reach(self, key: str) -> Any:
        """The tool is being called: what its call comes to."""
        said = self._said.pop(key)
        if isinstance(said, outside.NotDone):
            raise NotDone("the provider refused")
        if isinstance(said, Exception):
            raise said
        if not isinstance(said, Hung):
            return said
        said.reached = True
        if said.times_out:
            raise TimeoutError
        if said.call.result is not None:
            self._stand(said)
        return self.store.world.finish(said.call)


class _Way(Wrapper):
    """A process's way to the store."""

    def __init__(self, inner: Storage, process: Process) -> None:
        super().__init__(inner)
        self._process = process

    def apply(self, batch: Batch) -> Refusal | None:
        self._process.may_write(batch)
        refusal = self.inner.apply(batch)
        if refusal is None:
            self._process.wrote(batch)
        return refusal

    def close(self) -> None:
        """Others use it yet."""


def _try(effect: Effect) -> tuple[Any, ...]:
    return (effect.state, effect.attempts, effect.executor, effect.deadline_us)


def _effects(batch: Batch) -> list[bytes]:
    return [cell.key for row in batch.rows if isinstance(row, Ledger) for cell in row.cells]


def _moves_head(batch: Batch) -> bool:
    return any(isinstance(row, NewCheckpoint) for row in batch.rows)
