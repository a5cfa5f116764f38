"""Items of memory as a storage keeps them: the rows and queries about them, beside those in `base`.

An item has a namespace and a key; each write is one version of it and stays. A version says by which
checkpoint of which thread it was written; whether that history still holds it is not the storage's to say.
Namespaces are joined labels (`model.items`); in their order, all below a namespace stand in one run.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from takeback.model.records import Pointer
from takeback.storage.base import Query

ItemVersion: TypeAlias = tuple[str, str, int]
"""(namespace, key, number)."""


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """An item as it was when something was decided about it: how many versions were written, and how often a
    history has gone back over one of them."""

    namespace: str
    key: str
    count: int
    turn: int


class NewVersion(msgspec.Struct, frozen=True):
    """A version of an item, in the order of its time: after all others, unless it is `brought` from elsewhere
    with what is known of it. Guard: the item is as it was `seen`; None for no guard."""

    namespace: str
    key: str
    at_us: int
    digest: bytes
    record: bytes
    mac: bytes | None = None
    thread: bytes = b""
    line: int = 0
    version: int = 0
    free: bool = False
    brought: bool = False
    seen: Seen | None = None


class PutItems(msgspec.Struct, frozen=True):
    """Versions are written. A brought one that is there already, by its digest, counts as written."""

    versions: list[NewVersion]


class TurnItems(msgspec.Struct, frozen=True):
    """A history goes back, or forth, over versions of these items. Guard: each is as it was seen."""

    items: list[Seen]


class FreeItems(msgspec.Struct, frozen=True):
    """Versions are no history's any more, and stay for good: their thread is about to go."""

    versions: list[ItemVersion]


class TouchItems(msgspec.Struct, frozen=True):
    """Items were read in a way that their time to live counts from."""

    items: list[tuple[str, str]]
    time_us: int


class ItemMoved(msgspec.Struct, frozen=True):
    """Refused: the item is not as it was seen."""

    namespace: str
    key: str


class ItemRow(msgspec.Struct, frozen=True):
    """A version of an item, with what is known of the item and of the thread that wrote it."""

    namespace: str
    key: str
    count: int
    turn: int
    touched_us: int
    number: int
    at_us: int
    thread: bytes
    line: int
    version: int
    free: bool
    digest: bytes
    mac: bytes | None
    record: bytes
    head: Pointer | None = None
    """Where its writer stands; None for no writer, or one that was deleted."""
    head_line: int = 0
    family: bytes = b""

    @property
    def seen(self) -> Seen:
        return Seen(self.namespace, self.key, self.count, self.turn)


class VersionsOf(msgspec.Struct, Query[ItemRow], frozen=True):
    """The versions of an item, newest first."""

    namespace: str
    key: str
    limit: int | None = None


class NewestUnder(msgspec.Struct, Query[ItemRow], frozen=True):
    """The newest version of each item in namespaces from `low` on and before `high`, in their order and that
    of keys; `after` goes on behind an item."""

    low: str
    high: str
    after: tuple[str, str] = ("", "")
    limit: int = 500


class VersionsBy(msgspec.Struct, Query[ItemRow], frozen=True):
    """The versions that a thread wrote with its checkpoints from `low` to `high`, in the order of these, then
    of namespaces, keys and times."""

    thread: bytes
    low: int = 0
    high: int = 2**63 - 1
    limit: int | None = None


class AllVersions(msgspec.Struct, Query[ItemRow], frozen=True):
    """Every version of every item, in the order of namespaces, keys and times, `after` one of them."""

    after: tuple[str, str, int] = ("", "", 0)
    limit: int = 500


ItemsRow: TypeAlias = PutItems | TurnItems | FreeItems | TouchItems
