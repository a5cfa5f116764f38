"""The connections to one PostgreSQL server: a pool that all threads share, none across a fork."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections.abc import Iterator

import psycopg
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from takeback.errors import ForkedProcess, PoolExhausted, StoreClosed, StoreUnavailable
from takeback.storage.postgres_server import Server, Wire, away, lost, translated

PATIENCE = 30.0  # seconds for which a server that is away is waited for
_SLICE = 0.4  # seconds after which it is looked why no connection came


class Patience:
    """How long what may be tried again is tried again, a little later each time and never in step."""

    def __init__(self, seconds: float | None = None) -> None:
        self._until = time.monotonic() + (PATIENCE if seconds is None else seconds)
        self._tries = 0

    def lasts(self) -> bool:
        """Wait a little; False when it has been long enough."""
        if time.monotonic() >= self._until:
            return False
        time.sleep(random.uniform(0.002, min(0.01 * 2**self._tries, 0.5)))
        self._tries += 1
        return True


class Connections:
    """Takes connections from the pool and puts them back, each set up alike."""

    def __init__(self, server: Server, session: str, *, relaxed: bool) -> None:
        self.server = server
        self._session, self._relaxed = session, relaxed
        self._pid = os.getpid()
        self._closed = False
        self._pinned = _Pinned()
        self._pool = ConnectionPool(
            kwargs={**server.conninfo, "autocommit": True},
            connection_class=Wire,
            configure=self.configure,
            min_size=1,
            max_size=server.pool_size,
            timeout=server.pool_seconds,
            # The pool waits longer after each attempt that fails; it begins again when it has given up.
            reconnect_timeout=_SLICE / 2,
            num_workers=1,
            open=False,
        )

    def open(self) -> None:
        self._pool.open()

    def configure(self, wire: Wire) -> None:
        """What the pool does with each connection that it makes."""
        wire.prepared().ask(self._session, {"relaxed": self._relaxed})

    @property
    def ours(self) -> bool:
        """Whether this process opened it."""
        return os.getpid() == self._pid

    def alive(self) -> None:
        """Refuse what was closed, and what another process opened: its sockets are not ours."""
        if self._closed:
            raise StoreClosed(f"{self.server.location} was closed", hint="Open it again")
        if not self.ours:
            raise ForkedProcess(
                f"{self.server.location} was opened before this process was forked",
                hint="Open the store again in each process",
            )

    @contextlib.contextmanager
    def wire(self) -> Iterator[Wire]:
        """A connection of this thread's for as long as it is inside. One that broke does not go back."""
        self.alive()
        wire = self._take()
        try:
            yield wire
        finally:
            self._pool.putconn(wire)

    def ask(self, sql: str, values: dict[str, object]) -> list[tuple[object, ...]]:
        """The rows of a read. It may be asked again, so a caller need not hear of a connection that broke."""
        self.alive()
        with translated(self.server.location):
            if self._pinned.wire is not None:
                return self._pinned.wire.ask(sql, values).fetchall()
            patience = Patience()
            while True:
                try:
                    with self.wire() as wire:
                        return wire.ask(sql, values).fetchall()
                except (psycopg.OperationalError, StoreUnavailable) as error:
                    if not ((lost(error) or away(error)) and patience.lasts()):
                        raise
                    self.renew()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads of this thread inside see one moment; snapshots may nest."""
        self.alive()
        if self._pinned.wire is not None:
            yield
            return
        with self.wire() as wire:
            with translated(self.server.location):
                wire.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._pinned.wire = wire
            try:
                yield
            finally:
                self._pinned.wire = None
                # On a connection that is lost there is nothing left to end.
                with contextlib.suppress(psycopg.Error):
                    wire.execute("ROLLBACK")

    def renew(self) -> None:
        """After one connection was lost, look which others are, rather than meet them one by one."""
        with contextlib.suppress(psycopg.Error):
            self._pool.check()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self.ours:
            self._pool.close()

    def _take(self) -> Wire:
        """The pool says only that it waited. A connection of our own shows whether the server is to blame."""
        until, failed = time.monotonic() + self.server.pool_seconds, self._failed()
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise self._exhausted()
            try:
                return self._pool.getconn(min(_SLICE, left))
            except PoolTimeout:
                if self._failed() > failed:
                    self.server.connect().close()
            except PoolClosed:
                self.alive()
                raise

    def _failed(self) -> int:
        """How many attempts to connect have failed in all."""
        return self._pool.get_stats().get("connections_errors", 0)

    def _exhausted(self) -> PoolExhausted:
        size, seconds = self.server.pool_size, self.server.pool_seconds
        return PoolExhausted(
            f"all {size} connections to {self.server.location} were in use for {seconds:g} seconds",
            hint="Give a larger ?pool_size=… in the address, or shorten what transactional tools do",
        )


class _Pinned(threading.local):
    """The connection of the snapshot that a thread is in."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
