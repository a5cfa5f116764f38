"""Group commit: threads of execution that write at the same moment share one transaction and one sync.

Whoever finds nobody writing writes at once, for itself; nobody waits for company. Those who come meanwhile
wait, and the first of them then writes for all that wait. Each is answered when the transaction that judged
its batch is durable, and not before: a refusal too may rest on what others of the same transaction wrote.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from takeback.errors import BadRequest
from takeback.storage.base import Batch, Refusal, Within

MEMBERS = 64
BYTES = 1 << 20  # of objects: beyond it those who wait would wait for others' bytes, not for a sync
_NOBODY_YET = 0  # the number of no thread: somebody was chosen to write next and has not begun


class Member:
    """A batch on its way, and what became of it: written, a refusal, or an error."""

    __slots__ = ("alone", "answered", "batch", "chosen", "error", "gate", "left", "packed", "refusal", "size")

    def __init__(self, batch: Batch, packed: Any) -> None:
        self.batch, self.packed = batch, packed
        self.size = sum(map(len, batch.objects.values()))
        # Work of a caller's may raise, take long, or end the transaction: nobody else's batch is in it.
        self.alone = any(isinstance(row, Within) for row in batch.rows)
        self.refusal: Refusal | None = None
        self.error: BaseException | None = None
        self.answered = self.chosen = False
        self.left: str | None = None  # why it is left to be written by its own thread, once it is answered
        self.gate: Any = None

    def answer(self, refusal: Refusal | None) -> None:
        self.refusal, self.answered = refusal, True

    def fail(self, error: BaseException) -> None:
        self.error, self.answered = error, True

    def said(self) -> Refusal | None:
        if self.error is not None:
            raise self.error
        return self.refusal


class Group:
    """A queue whose head writes. `write` answers every member that it is given, or is interrupted."""

    def __init__(self, write: Callable[[list[Member]], None]) -> None:
        self._write = write
        self._mutex = threading.Lock()
        self._queue: list[Member] = []
        self._leader: int | None = None

    def apply(self, member: Member) -> Refusal | None:
        me = threading.get_ident()
        with self._mutex:
            writes = self._leader is None
            if writes:
                self._leader = me
            elif self._leader == me:
                raise BadRequest(
                    "a write to a store inside another write to it",
                    hint="In a transactional tool use the connection that it is given, and commit after it",
                )
            else:
                self._wait(member)
        if writes:
            self._lead([member])
            return member.said()
        try:
            member.gate.acquire()
        except BaseException:  # a signal's: nobody may wait for a writer who has gone
            self._give_up(member)
            raise
        if not member.answered:
            self._lead(self._taken(me))
        return member.said()

    def _wait(self, member: Member) -> None:
        member.gate = threading.Lock()
        member.gate.acquire()
        self._queue.append(member)

    def _lead(self, members: list[Member]) -> None:
        """Write for them; the first is the caller's own."""
        try:
            self._write(members)
        finally:
            with self._mutex:
                # Those without an answer were not judged: the writing was interrupted. They come first.
                self._queue[:0] = [each for each in members[1:] if not each.answered]
                self._choose()
            for each in members[1:]:
                if each.answered:
                    each.gate.release()

    def _choose(self) -> None:
        """The first who waits writes next."""
        self._leader = _NOBODY_YET if self._queue else None
        if self._queue:
            self._queue[0].chosen = True
            self._queue[0].gate.release()

    def _taken(self, me: int) -> list[Member]:
        """The first who waits, and those behind it that fit into one transaction with it."""
        with self._mutex:
            self._leader = me
            queue, count = self._queue, 1
            size = queue[0].size
            while not queue[0].alone and count < min(len(queue), MEMBERS):
                size += queue[count].size
                if queue[count].alone or size > BYTES:
                    break
                count += 1
            members = queue[:count]
            del queue[:count]
        return members

    def _give_up(self, member: Member) -> None:
        """Whoever waits was interrupted: it leaves the queue, or is answered in a moment."""
        while True:
            with self._mutex:
                if member.answered:
                    return
                if member in self._queue:
                    self._queue.remove(member)
                    if member.chosen:
                        self._choose()
                    return
            time.sleep(0.0005)
