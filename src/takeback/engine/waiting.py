"""Waiting for what others write, and agreeing with them on the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from takeback.errors import StoreError
from takeback.storage.base import Now, Told

if TYPE_CHECKING:
    import threading

    from takeback.storage.base import Storage

_SLICE = 0.1  # seconds after which it is looked whether to go on waiting
_CALM = 10  # so much less often it is looked where a store tells at once
_AGREED = 60.0  # seconds after which the store is asked again what time it is


class Waiter:
    """Made before the first look, so that nothing that comes after that is missed."""

    def __init__(self, storage: Storage, tenant: str, poll: float) -> None:
        self._storage, self._tenant, self._poll = storage, tenant, poll
        self._seen, self._tells = self._told(0.0)

    def wait(self, *, until: float | None = None, stop: threading.Event | None = None) -> None:
        """Until something was told, or it is time to look all the same."""
        end = time.monotonic() + self._poll * (_CALM if self._tells else 1)
        end = end if until is None else min(end, until)
        while (left := end - time.monotonic()) > 0 and not (stop is not None and stop.is_set()):
            seen, self._tells = self._told(min(left, _SLICE))
            if seen != self._seen:
                self._seen = seen
                return

    def _told(self, seconds: float) -> tuple[int, bool]:
        seen = self._seen if hasattr(self, "_seen") else 0
        ((number, tells),) = self._storage.find(self._tenant, Told(seen, seconds))
        return number, tells


class SharedClock:
    """What time it is for all who use the store: leases and limits are compared by several machines, of which
    one may be an hour behind. Between two answers of the store only time that has passed counts, whatever is
    done to this machine's clock."""

    def __init__(self, storage: Storage, tenant: str) -> None:
        self._storage, self._tenant = storage, tenant
        self._own = True  # until the store says that it has a clock of its own
        self._ahead = 0
        self._asked: float | None = None

    def __call__(self) -> int:
        if self._asked is None or time.monotonic() - self._asked > _AGREED:
            self._ask()
        return _now() if self._own else _passed() + self._ahead

    def _ask(self) -> None:
        before = _passed()
        try:
            found = self._storage.find(self._tenant, Now())
        except StoreError:  # whoever writes next is told so; until then the last answer must do
            return
        self._asked = time.monotonic()
        self._own = not found
        if found:
            self._ahead = found[0] - (before + _passed()) // 2


def _now() -> int:
    return time.time_ns() // 1000


def _passed() -> int:
    return time.monotonic_ns() // 1000
