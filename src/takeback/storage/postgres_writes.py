"""A batch on PostgreSQL: in one statement where it is of a common form, else row by row in a transaction.

Both take their locks in one order, or transactions would wait for one another in a circle: threads by uid,
then ledgers by family, then objects by digest, and the audit log last. A thread's row is locked by every
write about it, so that no late one passes a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from psycopg.pq import TransactionStatus

from takeback.errors import StoreError
from takeback.model import canonical
from takeback.model.graphs import is_marked
from takeback.storage.base import (
    Audit,
    Batch,
    DropLabel,
    FilesKept,
    HeadMoved,
    Hide,
    History,
    Ledger,
    LedgerMoved,
    Lock,
    NameTaken,
    NewCheckpoint,
    NewThread,
    Prune,
    PutLabel,
    PutWrites,
    Refusal,
    Row,
    Still,
    ThreadGone,
    ThreadLocked,
    Tombstone,
    Within,
)
from takeback.storage.postgres_graphs import GRAPH_WRITERS, write_places
from takeback.storage.postgres_items import ITEM_WRITERS
from takeback.storage.postgres_listen import address
from takeback.storage.postgres_rows import (
    Packed,
    cell_values,
    checkpoint_values,
    object_values,
    thread_values,
)
from takeback.storage.postgres_space import SPACE_WRITERS

if TYPE_CHECKING:
    from takeback.model.records import Checkpoint
    from takeback.storage.postgres_server import Wire


class Held(msgspec.Struct):
    """A thread's row as this transaction, which has it locked, knows it."""

    head: int
    digest: bytes
    deleted: int | None
    lock: bytes | None


class Mark(msgspec.Struct):
    """A writer, and the number of its write: by them an attempt whose answer was lost is found again."""

    writer: bytes
    number: int = 0


# --- in one statement


def single(batch: Batch, packed: Packed, mark: Mark) -> tuple[str, dict[str, Any]] | None:
    """The name of the statement that writes this batch, and its values; None where there is none."""
    make = _SINGLE.get(tuple(type(row) for row in batch.rows))
    values = None if make is None else make(batch.tenant, *batch.rows)
    if values is None:
        return None
    name, given = values
    return name, given | object_values(packed) | {"writer": mark.writer, "number": mark.number}


_Single = tuple[str, dict[str, Any]] | None


def _commit(tenant: str, row: NewCheckpoint) -> _Single:
    if is_marked(row.checkpoint):
        return None  # a graph's: it also stands for some of the graph's own
    return "commit", checkpoint_values(tenant, row.checkpoint) | {"lock": row.lock}


def _commit_with_ledger(tenant: str, row: NewCheckpoint, ledger: Ledger) -> _Single:
    if ledger.seq is None or not ledger.cells or ledger.wakes or is_marked(row.checkpoint):
        return None
    values = checkpoint_values(tenant, row.checkpoint) | cell_values(ledger.cells)
    values |= {"lock": row.lock, "family": ledger.family, "seq": ledger.seq}
    return "commit_with_ledger", values


def _ledger(tenant: str, ledger: Ledger) -> _Single:
    return _ledger_still(tenant, None, ledger)


def _ledger_still(tenant: str, row: Still | None, ledger: Ledger) -> _Single:
    if ledger.seq is None or not ledger.cells or ledger.wakes:
        return None
    values = {"tenant": tenant, "family": ledger.family, "seq": ledger.seq} | cell_values(ledger.cells)
    values |= {"uid": None, "line": None, "digest": None}
    if row is not None:
        values |= {"uid": row.uid, "line": row.line, "digest": row.digest}
    return "ledger", values


def _create(tenant: str, row: NewThread) -> _Single:
    if is_marked(row.first):
        return None
    return "create", thread_values(tenant, row)


_SINGLE: dict[tuple[type, ...], Callable[..., _Single]] = {
    (NewCheckpoint,): _commit,
    (NewCheckpoint, Ledger): _commit_with_ledger,
    (Ledger, NewCheckpoint): lambda tenant, ledger, row: _commit_with_ledger(tenant, row, ledger),
    (Ledger,): _ledger,
    (Still, Ledger): _ledger_still,
    (NewThread,): _create,
}


def moved(wire: Wire, sql: dict[str, str], batch: Batch) -> HeadMoved | None:
    """Why a commit was refused, where that is plain without a lock: others have written meanwhile, and may do
    so again before the caller looks."""
    row = next((row for row in batch.rows if isinstance(row, NewCheckpoint)), None)
    if row is None:
        return None
    c = row.checkpoint
    found = wire.ask(sql["head"], {"tenant": batch.tenant, "uid": c.uid}).fetchone()
    if found is None or found[2] is not None or found[1] in (c.digest, c.previous):
        return None
    return HeadMoved(found[0], found[1])


# --- row by row


class Transaction:
    """A batch in a transaction that has begun: guards are looked at in rows that are locked."""

    def __init__(self, wire: Wire, sql: dict[str, str], tenant: str, channel: str) -> None:
        self._wire, self._sql, self._tenant, self._channel = wire, sql, tenant, channel
        self._threads: dict[bytes, Held | None] = {}
        self._ledgers: dict[bytes, int] = {}
        self.worked = False  # work of the caller's has begun: it cannot be done again unasked
        self.working = False  # it is at work: what it raises is the caller's own

    def write(self, batch: Batch, packed: Packed) -> Refusal | None:
        self._hold_all(batch.rows)
        if packed:
            self.ask("new_objects", object_values(packed))
        # An entry of the audit log guards nothing; it comes last, because others wait behind it.
        late = [row for row in batch.rows if isinstance(row, Audit)]
        early = [row for row in batch.rows if not isinstance(row, Audit)]
        return self._rows([*early, *late])

    def begin(self, mark: Mark, known: bool) -> bool:
        """Leave the writer's mark; False when this very write is there already."""
        if not known:
            self.ask("new_tenant", {})
        return self.ask("mark", {"writer": mark.writer, "number": mark.number}) == 1

    def landed(self, batch: Batch) -> bool:
        """Whether an earlier attempt is there, looked for while its threads are locked: by its checkpoint,
        which nothing else can have written."""
        self._hold_all(batch.rows)
        for row in batch.rows:
            made = row.first if isinstance(row, NewThread) else getattr(row, "checkpoint", None)
            if made is not None:
                found = self.one("digest_of", {"uid": made.uid, "version": made.version})
                return found is not None and found[0] == made.digest
        return False

    def _rows(self, rows: list[Row]) -> Refusal | None:
        for row in rows:
            refusal = _WRITERS[type(row)](self, row)
            if refusal is not None:
                return refusal
        return None

    def _new_thread(self, row: NewThread) -> Refusal | None:
        gone = None if row.source is None else self.gone(row.source)
        if gone is not None:
            return gone
        values = thread_values(self._tenant, row) | object_values({})
        while self.ask("create", values) == 0:
            if self.one("taken", values) is not None:
                return NameTaken(row.name)
        first = row.first
        self._threads[row.uid] = Held(first.version, first.digest, None, None)
        write_places(self, first)
        return None

    def _new_checkpoint(self, row: NewCheckpoint) -> Refusal | None:
        refusal = self._joins(row)
        if refusal is None and not self._is_head(row.checkpoint):
            self._write_head(row.checkpoint)
            self.ask("new_checkpoint", checkpoint_values(self._tenant, row.checkpoint))
            write_places(self, row.checkpoint)
        return refusal

    def _joins(self, row: NewCheckpoint) -> Refusal | None:
        checkpoint = row.checkpoint
        held = self._thread(checkpoint.uid)
        if held is None or held.deleted is not None:
            return ThreadGone(held.deleted if held else None)
        if self._is_head(checkpoint):
            return None  # this very commit, asked for again
        if (held.head, held.digest) != (checkpoint.version - 1, checkpoint.previous):
            return HeadMoved(held.head, held.digest)
        return None if held.lock == row.lock else ThreadLocked(held.lock)

    def _is_head(self, checkpoint: Checkpoint) -> bool:
        held = self._thread(checkpoint.uid)
        return held is not None and (held.head, held.digest) == (checkpoint.version, checkpoint.digest)

    def _write_head(self, c: Checkpoint) -> None:
        self.ask("move_head", {"uid": c.uid, "version": c.version, "digest": c.digest, "time": c.time_us})
        held = self._thread(c.uid)
        assert held is not None
        held.head, held.digest = c.version, c.digest

    def _history(self, row: History) -> Refusal | None:
        """Many at once: the chain is looked at here, and the head moves once."""
        if not row.checkpoints:
            return None
        new = []
        for checkpoint in row.checkpoints:
            refusal = self._joins(NewCheckpoint(checkpoint))
            if refusal is not None:
                return refusal
            if not self._is_head(checkpoint):
                held = self._thread(checkpoint.uid)
                assert held is not None
                held.head, held.digest = checkpoint.version, checkpoint.digest
                new.append(checkpoint)
        if new:
            values = [checkpoint_values(self._tenant, checkpoint) for checkpoint in new]
            self._wire.own.executemany(self._sql["new_checkpoint"], values)
            self._write_head(new[-1])
            for checkpoint in new:
                write_places(self, checkpoint)
        return None

    def _put_label(self, row: PutLabel) -> Refusal | None:
        gone = self.gone(row.uid)
        if gone is None:
            self.ask("put_label", {"uid": row.uid, "label": row.label, "version": row.version})
        return gone

    def _drop_label(self, row: DropLabel) -> Refusal | None:
        gone = self.gone(row.uid)
        if gone is None:
            self.ask("drop_label", {"uid": row.uid, "label": row.label})
        return gone

    def _bury(self, row: Tombstone) -> Refusal | None:
        gone = self.gone(row.uid)
        if gone is not None:
            return gone
        held = self._living(row.uid)
        if held.lock is not None:
            return ThreadLocked(held.lock)
        self.ask("bury_thread", {"uid": row.uid, "deleted": row.deleted_us})
        for name in ("drop_checkpoints", "drop_labels", "drop_pruned", "drop_places", "drop_writes"):
            self.ask(name, {"uid": row.uid})
        held.deleted = row.deleted_us
        return None

    def _lock(self, row: Lock) -> Refusal | None:
        gone = self.gone(row.uid)
        if gone is not None:
            return gone
        held = self._living(row.uid)
        if held.lock != row.was:
            return ThreadLocked(held.lock)
        self.ask("lock_thread", {"uid": row.uid, "lock": row.lock})
        held.lock = row.lock
        return None

    def _still(self, row: Still) -> Refusal | None:
        gone = self.gone(row.uid)
        if gone is not None:
            return gone
        held = self._living(row.uid)
        if held.lock is not None:
            return ThreadLocked(held.lock)
        found = self.one("line_of", {"uid": row.uid, "version": held.head})
        if found is None or found[0] != row.line or row.digest not in (None, held.digest):
            return HeadMoved(held.head, held.digest)
        return None

    def _ledger(self, row: Ledger) -> Refusal | None:
        seq = self._seq(row.family)
        if row.seq is not None and seq != row.seq:
            return LedgerMoved(seq)
        if not row.cells:
            return None
        values = {"family": row.family, "seq": seq}
        if self.ask("number_ledger", values) == 0:  # it was new, and another began it meanwhile
            del self._ledgers[row.family]
            return self._ledger(row)
        self.ask("put_cells", values | cell_values(row.cells))
        if row.wakes:
            self.ask("tell", {"channel": self._channel, "address": address(self._tenant)})
        self._ledgers[row.family] = seq + 1
        return None

    def _within(self, row: Within) -> Refusal | None:
        self.ask("usual_plans", {})
        self.worked = self.working = True
        made = row.work(self._wire)
        self.working = False
        self.whole()
        return self._rows(made)

    def _audit(self, row: Audit) -> Refusal | None:
        e = row.entry
        values = {
            "uid": e.uid, "thread": e.thread, "time": e.time_us, "action": e.action, "actor": e.actor,
            "detail": canonical.encode(e.detail),
        }  # fmt: skip
        self.ask("new_audit", values)
        return None

    def whole(self) -> None:
        """PostgreSQL takes the commit of a transaction that has failed for a rollback, and tells nobody."""
        if self._wire.info.transaction_status != TransactionStatus.INTRANS:
            raise StoreError(
                "a statement inside the transaction failed, and the tool went on as if it had not",
                hint="Let the tool raise the database's error, or put the statement into a savepoint",
            )

    # --- what is locked

    def _hold_all(self, rows: list[Row]) -> None:
        uids = {uid for row in rows for uid in _uids(row)} - self._threads.keys()
        if uids:
            self._hold(sorted(uids))
        families = {row.family for row in rows if isinstance(row, Ledger)} - self._ledgers.keys()
        if families:
            self._hold_ledgers(sorted(families))

    def _hold(self, uids: list[bytes]) -> None:
        found = {row[0]: Held(*row[1:]) for row in self.all("hold_threads", {"uids": uids})}
        self._threads |= {uid: found.get(uid) for uid in uids}

    def _hold_ledgers(self, families: list[bytes]) -> None:
        found = dict(self.all("hold_ledgers", {"families": families}))
        self._ledgers |= {family: found.get(family, 0) for family in families}

    def _thread(self, uid: bytes) -> Held | None:
        if uid not in self._threads:
            self._hold([uid])
        return self._threads[uid]

    def gone(self, uid: bytes) -> ThreadGone | None:
        held = self._thread(uid)
        return (
            ThreadGone(held.deleted if held else None) if held is None or held.deleted is not None else None
        )

    def _living(self, uid: bytes) -> Held:
        held = self._thread(uid)
        assert held is not None
        return held

    def _seq(self, family: bytes) -> int:
        if family not in self._ledgers:
            self._hold_ledgers([family])
        return self._ledgers[family]

    def ask(self, name: str, values: dict[str, Any]) -> int:
        return self._wire.ask(self._sql[name], {"tenant": self._tenant, **values}).rowcount

    def one(self, name: str, values: dict[str, Any]) -> Any:
        return self._wire.ask(self._sql[name], {"tenant": self._tenant, **values}).fetchone()

    def all(self, name: str, values: dict[str, Any]) -> list[Any]:
        return self._wire.ask(self._sql[name], {"tenant": self._tenant, **values}).fetchall()


def _uids(row: Row) -> list[bytes]:
    """The threads that a row is about, as far as it says."""
    if isinstance(row, NewThread):
        return [] if row.source is None else [row.source]
    if isinstance(row, NewCheckpoint):
        return [row.checkpoint.uid]
    if isinstance(row, (PutLabel, DropLabel, Tombstone, Lock, Still, Prune, FilesKept, PutWrites, Hide)):
        return [row.uid]
    return []


_WRITERS: dict[type, Callable[[Transaction, Any], Refusal | None]] = {
    NewThread: Transaction._new_thread,
    NewCheckpoint: Transaction._new_checkpoint,
    History: Transaction._history,
    PutLabel: Transaction._put_label,
    DropLabel: Transaction._drop_label,
    Tombstone: Transaction._bury,
    Lock: Transaction._lock,
    Still: Transaction._still,
    Ledger: Transaction._ledger,
    Within: Transaction._within,
    Audit: Transaction._audit,
    **SPACE_WRITERS,
    **GRAPH_WRITERS,
    **ITEM_WRITERS,
}
