"""Being told at once: one connection of a process listens, and wakes whoever waits here.

Only what others may wait for is told (`Ledger.wakes`): each commit that tells something waits for the others
that do. Where a server cannot tell, or as long as the connection is away, whoever waits looks now and then.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import psycopg
from blake3 import blake3

from takeback.errors import StoreError

if TYPE_CHECKING:
    from takeback.storage.postgres_server import Server

_SLICE = 0.2  # seconds after which a listener looks whether it is still wanted
_AGAIN = 1.0


def address(tenant: str) -> str:
    """A tenant as others may hear of it: whoever uses the database can listen."""
    return blake3(tenant.encode()).hexdigest(8)


class Listener:
    """Begins to listen when somebody first waits."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._changed = threading.Condition()
        self._numbers: Counter[str] = Counter()
        self._all = 0  # grows when something may have been missed
        self._hears = False
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def told(self, tenant: str, seen: int, seconds: float) -> tuple[int, bool]:
        where = address(tenant)
        with self._changed:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="takeback-listens", daemon=True)
                self._thread.start()
            self._changed.wait_for(lambda: self._number(where) != seen or self._stop.is_set(), seconds)
            return self._number(where), self._hears

    def close(self) -> None:
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _number(self, where: str) -> int:
        return self._all + self._numbers[where]

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except (psycopg.Error, StoreError):
                # Nobody loses anything but time: `told` says that it does not hear, and they look again.
                self._heard(None, hears=False)
                self._stop.wait(_AGAIN)

    def _listen(self) -> None:
        with self._server.connect() as wire:
            wire.execute(f'LISTEN "{self._server.channel}"'.encode())
            self._heard(None, hears=True)
            while not self._stop.is_set():
                for told in wire.notifies(timeout=_SLICE):
                    self._heard(told.payload, hears=True)

    def _heard(self, where: str | None, *, hears: bool) -> None:
        with self._changed:
            self._hears = hears
            if where is None:
                self._all += 1
            else:
                self._numbers[where] += 1
            self._changed.notify_all()
