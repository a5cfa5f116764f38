"""Transactions of the SQLite backend: one batch by itself, or several with a savepoint each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw

from takeback.storage.base import Batch, Refusal
from takeback.storage.group import Member
from takeback.storage.sqlite_connections import Connections
from takeback.storage.sqlite_file import SqliteFile, meaning

Packed = dict[bytes, tuple[int, bytes]]


class Transactions:
    """Writes the batches of members and answers each of them. What a batch does is the backend's to say:

    `write` writes one; `met` are the threads that the open transaction has looked up, and `committed` is
    called when they may be remembered; `at` is called at each labelled place; `settle` finds out what became
    of a batch whose writing failed in the midst of it.
    """

    def __init__(
        self,
        connections: Connections,
        file: SqliteFile,
        *,
        write: Callable[[apsw.Connection, Batch, Packed], Refusal | None],
        met: dict[Any, Any],
        committed: Callable[[], None],
        at: Callable[[str], None],
        settle: Callable[[Batch, apsw.Error], Refusal | None],
    ) -> None:
        self._connections, self._file = connections, file
        self._write_one, self._met, self._committed = write, met, committed
        self._at, self._settle = at, settle

    def write(self, members: list[Member]) -> None:
        """All in one transaction. Where one batch raises, none of it stays, and each is written by itself:
        whose fault it was, and what becomes of the others, is then as if they had never met."""
        with self._connections.lock:
            if len(members) > 1:
                self._together(members)
            for member in members:
                if not member.answered:
                    self._single(member)

    def _single(self, member: Member) -> None:
        try:
            self._transaction([member])
        except apsw.IOError as error:
            self._unknown([member], error)
        except apsw.Error as error:
            member.fail(self._meaning(error))
        except Exception as error:
            member.fail(error)

    def _together(self, members: list[Member]) -> None:
        try:
            self._transaction(members)
        except apsw.IOError as error:
            self._unknown(members, error)
        except apsw.BusyError as error:  # they have waited for it, together
            for member in members:
                member.fail(self._meaning(error))
        except Exception:
            # Nothing of it stays, and whose it was shows when each is written by itself.
            pass

    def _transaction(self, members: list[Member]) -> None:
        self._connections.alive()
        connection = self._connections.writer()
        answers: list[Refusal | None] = []
        self._met.clear()
        self._at("begin")
        connection.execute("BEGIN IMMEDIATE")
        committing = False
        try:
            answers = self._judged(connection, members)
            if None in answers:
                self._at("commit")
                committing = True
                connection.execute("COMMIT")
                self._at("committed")
                self._committed()
            self._answer(members, answers)
        except apsw.Error:
            raise
        except BaseException:
            # Interrupted beside the commit, by a signal or a fail-point: SQLite knows on which side.
            if committing and not connection.in_transaction:
                self._answer(members, answers)
            raise
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _judged(self, connection: apsw.Connection, members: list[Member]) -> list[Refusal | None]:
        if len(members) == 1:
            return [self._write_one(connection, members[0].batch, members[0].packed)]
        answers = []
        for member in members:
            met = dict(self._met)
            self._at("member")
            connection.execute("SAVEPOINT member")
            refusal = self._write_one(connection, member.batch, member.packed)
            if refusal is not None:
                connection.execute("ROLLBACK TO member")
                self._met.clear()
                self._met.update(met)
            connection.execute("RELEASE member")
            answers.append(refusal)
        return answers

    @staticmethod
    def _answer(members: list[Member], answers: list[Refusal | None]) -> None:
        for member, refusal in zip(members, answers, strict=True):
            member.answer(refusal)

    def _unknown(self, members: list[Member], error: apsw.IOError) -> None:
        """Nothing that the connection said is to be believed, refusals included: each looks for its own."""
        self._connections.drop()
        for member in members:
            try:
                member.answer(self._settle(member.batch, error))
            except Exception as found:
                member.fail(found)

    def _meaning(self, error: apsw.Error) -> Exception:
        return meaning(error, self._file.path)
