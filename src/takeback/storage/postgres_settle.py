"""Writing on PostgreSQL so that the outcome is known: tried again where that is safe, found out where an
answer was lost.

A connection that ends during a commit leaves its outcome open, and not to find the commit proves nothing: it
may still be on its way. So the same write is tried again in a transaction that would collide with the first.
Its checkpoint has a place that only one can have; a write without one leaves its writer's mark, whose row
the first attempt has locked for as long as it is undecided. Whoever comes through finds the traces of the
first one, or makes sure that it comes too late.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import msgspec
import psycopg

from takeback.errors import BadRequest, StoreUnavailable, UnknownOutcome
from takeback.storage.postgres_connections import Connections, Patience
from takeback.storage.postgres_server import Wire, away, lost, meaning, passing
from takeback.storage.postgres_writes import Mark, Transaction, moved, single

if TYPE_CHECKING:
    from collections.abc import Callable

    from takeback.storage.base import Batch, Refusal
    from takeback.storage.postgres_rows import Packed

_NEEDS_NO_TENANT = frozenset({"commit", "commit_with_ledger"})  # a thread that is there has one


class Attempt(msgspec.Struct):
    """A batch on its way. `unsure` while an answer is awaited that says whether it is written; `again` once
    one was lost."""

    batch: Batch
    packed: Packed
    mark: Mark
    unsure: bool = False
    again: bool = False
    landed: bool = False  # an earlier attempt was found to be there
    worked: bool = False  # the caller's own work was done in it
    theirs: bool = False  # what was raised is the caller's own


class _Here(threading.local):
    """Whether this thread of execution is in a write."""

    writes = False


class Writer:
    """Writes batches, each by whichever of its marks is free."""

    def __init__(self, connections: Connections, sql: dict[str, str], at: Callable[[str], None]) -> None:
        self._connections, self._sql, self._at = connections, sql, at
        self._marks: list[Mark] = []
        self._tenants: set[str] = set()
        self._here = _Here()

    def write(self, batch: Batch, packed: Packed, *, unsure: bool = False) -> Refusal | None:
        """`unsure` where an attempt was made already whose answer was lost."""
        if self._here.writes:
            raise BadRequest(
                "a write to a store inside another write to it",
                hint="In a transactional tool use the connection that it is given, and commit after it",
            )
        self._here.writes = True
        try:
            return self._marked(batch, packed, unsure)
        finally:
            self._here.writes = False

    def _marked(self, batch: Batch, packed: Packed, unsure: bool) -> Refusal | None:
        try:
            mark = self._marks.pop()
        except IndexError:
            mark = Mark(os.urandom(8))
        mark.number += 1
        try:
            return self._patiently(Attempt(batch, packed, mark, unsure=unsure, again=unsure))
        finally:
            self._marks.append(mark)

    def _patiently(self, attempt: Attempt) -> Refusal | None:
        patience = Patience()
        while True:
            try:
                with self._connections.wire() as wire:
                    return self._once(attempt, wire)
            except StoreUnavailable as error:  # no connection could be made
                if (attempt.unsure or away(error)) and patience.lasts():
                    continue
                if attempt.unsure:
                    raise self._unknown() from error
                raise
            except psycopg.Error as error:
                if attempt.landed:
                    return None
                if attempt.theirs:
                    raise
                self._after(attempt, error, patience)

    def _after(self, attempt: Attempt, error: psycopg.Error, patience: Patience) -> None:
        """Nothing, where it is to be tried again."""
        location = self._connections.server.location
        attempt.unsure = attempt.unsure and lost(error)
        attempt.again = attempt.again or attempt.unsure
        if not attempt.unsure and (attempt.worked or not (lost(error) or passing(error))):
            raise meaning(error, location) from error
        if not patience.lasts():
            raise (self._unknown() if attempt.unsure else meaning(error, location)) from error
        if lost(error):
            self._connections.renew()

    def _once(self, attempt: Attempt, wire: Wire) -> Refusal | None:
        form = None if attempt.again else single(attempt.batch, attempt.packed, attempt.mark)
        if form is not None and (form[0] in _NEEDS_NO_TENANT or attempt.batch.tenant in self._tenants):
            name, values = form
            self._at("begin")
            attempt.unsure = True
            written = wire.ask(self._sql[name], values).rowcount > 0
            attempt.unsure = False
            self._at("committed")
            if written:
                return None
            refusal = moved(wire, self._sql, attempt.batch)
            if refusal is not None:
                return refusal
        return self._transaction(attempt, wire)

    def _transaction(self, attempt: Attempt, wire: Wire) -> Refusal | None:
        """Row by row: for what has no statement of its own, and for why that one refused."""
        tenant = attempt.batch.tenant
        transaction = Transaction(wire, self._sql, tenant, self._connections.server.channel)
        refusal: Refusal | None = None
        self._at("begin")
        try:
            # A connection that is lost while a refused batch is taken back takes it back too.
            with contextlib.suppress(psycopg.Rollback), wire.transaction() as whole:
                known = tenant in self._tenants
                if not transaction.begin(attempt.mark, known) or (
                    attempt.again and transaction.landed(attempt.batch)
                ):
                    attempt.unsure, attempt.landed = False, True
                    return None
                # The mark was free, so the first attempt is over, or will find that it is not.
                attempt.unsure = False
                if attempt.again and attempt.worked:
                    raise self._not_written()
                refusal = transaction.write(attempt.batch, attempt.packed)
                if refusal is not None:
                    raise psycopg.Rollback(whole)
                transaction.whole()
                self._at("commit")
                attempt.unsure = True
            attempt.unsure = False
        finally:
            attempt.worked, attempt.theirs = attempt.worked or transaction.worked, transaction.working
        if refusal is None:
            self._at("committed")
            self._tenants.add(tenant)
        return refusal

    def _not_written(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the connection to {self._connections.server.location} was lost in a commit, and nothing of it "
            "is there",
            hint="The tool's own work in the transaction was taken back with it; call it again",
        )

    def _unknown(self) -> UnknownOutcome:
        return UnknownOutcome(
            f"the connection to {self._connections.server.location} was lost during a write, and did not "
            "come back in time to find out whether it is there",
            hint="Open the store again and look before you write",
        )
