"""The ledgers of families in SQLite: cells that change, under a number that counts their writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.storage.base import Cell, HeadMoved, LedgerMoved, ThreadGone, ThreadLocked

if TYPE_CHECKING:
    import apsw

    from takeback.storage.base import Ledger, Refusal, Still


def write_ledger(
    connection: apsw.Connection, sql: dict[str, str], tenant: int, row: Ledger
) -> LedgerMoved | None:
    """The row's cells under the next number, if the last one is the one that they were made for."""
    found: Any = connection.execute(sql["ledger_seq"], (tenant, row.family)).fetchone()
    seq = int(found[0])
    if row.seq is not None and seq != row.seq:
        return LedgerMoved(seq)
    for c in row.cells:
        values = (tenant, row.family, c.kind, c.key, c.thread, seq + 1, c.live, c.body)
        connection.execute(sql["put_cell"], values)
    return None


def still(connection: apsw.Connection, sql: dict[str, str], thread: int, row: Still) -> Refusal | None:
    """Whether a thread's head is where a write beside it supposes."""
    found: Any = connection.execute(sql["still"], (thread,)).fetchone()
    line, head, digest, deleted, lock = found
    if deleted is not None:
        return ThreadGone(deleted)
    if lock is not None:
        return ThreadLocked(lock)
    if line != row.line or row.digest not in (None, digest):
        return HeadMoved(head, digest)
    return None


def ledger_landed(row: Ledger, after: list[Cell]) -> bool:
    """Whether a write whose outcome is not known is there: cells keep the number that they were written with,
    and no two writers get one. Looked for before anything else is written."""
    wanted = {(c.kind, c.key, c.body) for c in row.cells}
    seq = None if row.seq is None else row.seq + 1
    return bool(wanted & {(c.kind, c.key, c.body) for c in after if c.seq == seq})


def cell(row: Any) -> Cell:
    kind, key, thread, body, live, seq, family = row
    return Cell(kind, key, thread, body, bool(live), seq, family)
