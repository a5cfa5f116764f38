"""Group commit on PostgreSQL: commits of threads of execution that come at one moment are one statement.

Plain commits alone, of one tenant: everything else goes its own way, on a connection of its own. A member
that the statement left out, and every member of one whose answer was lost, is then written by itself, by its
own thread of execution: so the reasons for refusals, and the search for what became of a commit, stay in one
place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.numeric import Int8

from takeback.errors import TakebackError
from takeback.model.graphs import is_marked
from takeback.storage.base import Batch, NewCheckpoint, Refusal
from takeback.storage.group import Group, Member
from takeback.storage.postgres_rows import Packed, object_values
from takeback.storage.postgres_server import lost
from takeback.storage.rows import repeated

if TYPE_CHECKING:
    from takeback.model.records import Checkpoint
    from takeback.storage.postgres_connections import Connections
    from takeback.storage.postgres_settle import Writer

ALONE, UNSURE = "alone", "unsure"
_COLUMNS = (
    "versions",
    "namespaces",
    "kinds",
    "lines",
    "origin_versions",
    "merged_versions",
    "undoes",
    "times",
)


class Grouped:
    """Writes batches through the writer, several commits at once where several wait."""

    def __init__(
        self, writer: Writer, connections: Connections, sql: dict[str, str], at: Callable[[str], None]
    ) -> None:
        self._writer, self._connections, self._sql, self._at = writer, connections, sql, at
        self._group = Group(self._write)

    def write(self, batch: Batch, packed: Packed) -> Refusal | None:
        row = batch.rows[0] if len(batch.rows) == 1 else None
        # A graph's checkpoint is more than one row: it also stands for some of the graph's own.
        if not isinstance(row, NewCheckpoint) or is_marked(row.checkpoint):
            return self._writer.write(batch, packed)
        member = Member(batch, packed)
        refusal = self._group.apply(member)
        if member.left is None:
            return refusal
        return self._writer.write(batch, packed, unsure=member.left == UNSURE)

    def _write(self, members: list[Member]) -> None:
        if len(members) == 1:
            members[0].answer(self._writer.write(members[0].batch, members[0].packed))
            return
        for member in members:
            member.left = ALONE
        together = _first_of_each_thread(members)
        try:
            with self._connections.wire() as wire:
                self._at("begin")
                moved = {row[0] for row in wire.ask(self._sql["commit_many"], _values(together)).fetchall()}
            for member in together:
                if _checkpoint(member).uid in moved:
                    member.left = None
            self._at("committed")
        except psycopg.Error as error:
            if lost(error):
                for member in together:
                    member.left = UNSURE
        except TakebackError:
            pass  # no connection was to be had: each finds that out for itself, and says so
        for member in members:
            member.answer(None)


def _first_of_each_thread(members: list[Member]) -> list[Member]:
    """Of two for one head one is refused, and which is refused is not for the statement to choose."""
    tenant = members[0].batch.tenant
    first: dict[bytes, Member] = {}
    for member in members:
        if member.batch.tenant == tenant:
            first.setdefault(_checkpoint(member).uid, member)
    return list(first.values())


def _row(member: Member) -> NewCheckpoint:
    row = member.batch.rows[0]
    assert isinstance(row, NewCheckpoint)
    return row


def _checkpoint(member: Member) -> Checkpoint:
    return _row(member).checkpoint


def _values(members: list[Member]) -> dict[str, Any]:
    """Columns rather than rows."""
    checkpoints = [_checkpoint(member) for member in members]
    columns = zip(*(map(_sized, repeated(c)) for c in checkpoints), strict=True)
    values: dict[str, Any] = dict(zip(_COLUMNS, map(list, columns), strict=True))
    packed: Packed = {}
    for member in members:
        packed |= member.packed
    objects = object_values(packed)
    needs = [(c.uid, digest) for c, m in zip(checkpoints, members, strict=True) for digest in m.packed]
    return values | {
        "tenant": members[0].batch.tenant,
        "uids": [c.uid for c in checkpoints],
        "locks": [_row(member).lock for member in members],
        "previous": [c.previous for c in checkpoints],
        "digests": [c.digest for c in checkpoints],
        "macs": [c.mac for c in checkpoints],
        "records": [c.record for c in checkpoints],
        "objects": objects["digests"],
        "codecs": objects["codecs"],
        "sizes": objects["sizes"],
        "datas": objects["datas"],
        "needers": [uid for uid, _ in needs],
        "needed": [digest for _, digest in needs],
    }


def _sized(value: Any) -> Any:
    """Whole numbers in an array all have eight bytes."""
    return Int8(value) if isinstance(value, int) else value
