"""After a write that failed in the midst of it: whether it is there, found out from the file itself."""

from __future__ import annotations

import apsw

from takeback.errors import TakebackError, UnknownOutcome
from takeback.storage.base import Batch, Ledger, NewThread, Refusal, Storage, Tombstone
from takeback.storage.items import PutItems, VersionsOf
from takeback.storage.sqlite_file import SqliteFile, meaning
from takeback.storage.sqlite_ledger import ledger_landed

# Errors of a transaction that had not come to its commit mark: what they leave never counts.
_BEFORE_COMMIT = frozenset({apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_WRITE})


def settle(store: Storage, file: SqliteFile, batch: Batch, error: apsw.Error) -> Refusal | None:
    """After an I/O error nothing that the connection says can be believed: once it is dropped, look whether
    what was to be written is there.

    A sync that failed leaves frames that may be lost although they are seen, or come back although they
    are not. Only when the write-ahead file has been moved and emptied is it decided.
    """
    written: bool | None
    try:
        written = landed(store, batch) or False
        if written or getattr(error, "extendedresult", None) not in _BEFORE_COMMIT:
            file.settle()
            written = landed(store, batch)
    except TakebackError:
        written = None
    if written:
        return None
    if written is None:
        raise UnknownOutcome(
            f"{file.path} failed during a write, and it cannot be told whether that is there",
            hint="Open the store again and look before you write",
        ) from error
    raise meaning(error, file.path) from error


def landed(store: Storage, batch: Batch) -> bool | None:
    """Whether the batch is there; None where nothing in it would tell."""
    for row in batch.rows:
        if isinstance(row, Ledger) and row.cells and row.seq is not None:
            return ledger_landed(row, store.cells(batch.tenant, family=row.family, after=row.seq))
        if isinstance(row, PutItems) and row.versions:
            new = row.versions[-1]
            rows = store.find(batch.tenant, VersionsOf(new.namespace, new.key))
            return any(version.digest == new.digest for version in rows)
        if isinstance(row, Tombstone):
            info = store.thread_by_uid(batch.tenant, row.uid)
            return info is not None and info.deleted_us == row.deleted_us
        checkpoint = row.first if isinstance(row, NewThread) else getattr(row, "checkpoint", None)
        if checkpoint is not None:
            found = store.checkpoint(batch.tenant, checkpoint.uid, checkpoint.version)
            return found is not None and found.digest == checkpoint.digest
    return None
