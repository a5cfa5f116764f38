"""What the watcher keeps in files beside the store, so that it may be killed: calls, who was told, errors."""

from __future__ import annotations

import os
import time
from typing import Generic, TypeVar

import msgspec

from takeback import places
from takeback.coding.events import Event
from takeback.errors import TakebackError

T = TypeVar("T")
_FORGOTTEN = 6 * 3600.0  # seconds after which a call that nobody ended is over
_CONVERSATIONS = 200


class _Kept(Generic[T]):
    """A value in a file. Losing it is survived, so that it is not synced."""

    def __init__(self, path: str, kind: type[T], empty: T) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self.value = msgspec.json.decode(file.read(), type=kind)
        except (OSError, msgspec.MsgspecError):
            self.value = empty

    def keep(self) -> None:
        with open(f"{self._path}.new", "wb") as file:
            file.write(msgspec.json.encode(self.value))
        os.replace(file.name, self._path)


class Calls:
    """The tool calls that are under way: what changes meanwhile is theirs."""

    def __init__(self, folder: str) -> None:
        self._kept = _Kept(os.path.join(folder, "calls"), list[tuple[float, Event]], [])

    def begin(self, event: Event) -> None:
        self._kept.value.append((time.time(), event))
        self._kept.keep()

    def end(self, event: Event) -> Event | None:
        """The call as it was begun; None if that was not heard."""
        for entry in self._kept.value:
            begun = entry[1]
            if (begun.conversation, begun.call, begun.tool) == (event.conversation, event.call, event.tool):
                self._kept.value.remove(entry)
                self._kept.keep()
                return begun
        return None

    def over(self, conversation: str) -> None:
        """No call of a conversation is under way any more."""
        left = [entry for entry in self._kept.value if entry[1].conversation != conversation]
        if len(left) != len(self._kept.value):
            self._kept.value = left
            self._kept.keep()

    def of_kind(self, kind: str) -> list[Event]:
        return [event for _, event in self._kept.value if event.kind == kind]

    def one(self) -> Event | None:
        """One that is under way, if any is: the one that began last."""
        fresh = [event for began, event in self._kept.value if time.time() - began < _FORGOTTEN]
        return fresh[-1] if fresh else None


class Told:
    """Up to which version each conversation knows what was taken back."""

    def __init__(self, folder: str) -> None:
        self._kept = _Kept(os.path.join(folder, "told"), dict[str, int], {})

    def version(self, conversation: str) -> int | None:
        return self._kept.value.get(conversation)

    def put(self, conversation: str, version: int) -> None:
        held = self._kept.value
        held[conversation] = version
        while len(held) > _CONVERSATIONS:
            del held[next(iter(held))]
        self._kept.keep()


def failed(folder: str, what: str, error: BaseException) -> bytes:
    """What whoever asked is told; it is written down too, and the next command says so."""
    told = str(error) if isinstance(error, TakebackError) else f"{type(error).__name__}: {error}"
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {told}".replace("\n", " ")
    with open(os.path.join(folder, places.FAILURES), "a", encoding="utf-8", errors="replace") as file:
        file.write(f"{line}\n")
    return f"takeback: not recorded: {told}\n".encode(errors="replace")
