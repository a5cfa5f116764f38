"""The provider's own process: its database, its memory of keys, and how its calls are made to fail."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import apsw

from takeback.testing.provider import HOST, PATIENCE, Refused

_TABLES = """
CREATE TABLE IF NOT EXISTS deeds (
    id INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,
    key TEXT NOT NULL,
    asked TEXT NOT NULL,
    receipt TEXT NOT NULL,
    at REAL NOT NULL,
    cents INTEGER NOT NULL DEFAULT 0,
    of TEXT
);
CREATE INDEX IF NOT EXISTS deeds_by_key ON deeds (key);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS armed (id INTEGER PRIMARY KEY, verb TEXT NOT NULL, way TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clock (ahead REAL NOT NULL);
INSERT INTO clock SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM clock);
"""

DOES = frozenset({"charge", "refund", "send", "put"})
"""Verbs that do something, and so have a key."""


class Books:
    """What was done, and what is known of it. One transaction for each deed."""

    def __init__(self, database: str, *, honours_keys: bool, key_memory: float | None) -> None:
        self._lock = threading.Lock()
        self._honours_keys, self._key_memory = honours_keys, key_memory
        self._db = apsw.Connection(database)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(_TABLES)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._db:
            yield

    def way(self, verb: str) -> str:
        """How this call is to go: what was armed first, used up."""
        with self._transaction():
            way = self._one(
                "DELETE FROM armed WHERE id = (SELECT min(id) FROM armed WHERE verb = ?) RETURNING way",
                (verb,),
            )
        return "ok" if way is None else str(way)

    def do(self, verb: str, key: str, asked: dict[str, Any]) -> str:
        """Once, or once more: whether the key is looked at is up to whoever started the provider."""
        text = json.dumps(asked, sort_keys=True)
        with self._transaction():
            return self._known(verb, key, text) or self._anew(verb, key, asked, text)

    def _anew(self, verb: str, key: str, asked: dict[str, Any], text: str) -> str:
        number = int(self._one("SELECT count(*) FROM deeds", ())) + 1
        receipt, cents, of = f"{verb}-{number}", 0, None
        if verb == "charge":
            cents = int(asked["cents"])
        elif verb == "refund":
            of = asked["receipt"]
            cents = -self._charged(of)
        elif verb == "put":
            self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (asked["name"], asked["value"]))
        self._db.execute(
            "INSERT INTO deeds (verb, key, asked, receipt, at, cents, of) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (verb, key, text, receipt, self._now(), cents, of),
        )
        return receipt

    def _known(self, verb: str, key: str, text: str) -> str | None:
        """The receipt of the newest deed under this key, while it is remembered."""
        if not self._honours_keys:
            return None
        rows = list(
            self._db.execute(
                "SELECT verb, asked, receipt, at FROM deeds WHERE key = ? ORDER BY id DESC LIMIT 1", (key,)
            )
        )
        if not rows or (self._key_memory is not None and self._now() >= rows[0][3] + self._key_memory):
            return None
        if rows[0][:2] != (verb, text):
            raise Refused(f"key {key!r} was used for something else: {rows[0][0]} {rows[0][1]}")
        return str(rows[0][2])

    def _charged(self, receipt: str) -> int:
        cents = self._one("SELECT cents FROM deeds WHERE receipt = ? AND verb = 'charge'", (receipt,))
        if cents is None:
            raise Refused(f"nothing was charged under receipt {receipt!r}")
        return int(cents)

    def _now(self) -> float:
        return time.time() + float(self._one("SELECT ahead FROM clock", ()))

    def _one(self, sql: str, values: tuple[Any, ...]) -> Any:
        row = next(iter(self._db.execute(sql, values).fetchall()), None)
        return None if row is None else row[0]

    # --- what is asked of them

    def tell(self, verb: str, asked: dict[str, Any]) -> Any:
        """Questions, and what the judge arranges. One method a line."""
        tell = getattr(self, f"_tell_{verb}", None)
        if tell is None:
            raise Refused(f"there is no {verb!r} here")
        with self._transaction():
            return tell(**asked)

    def _tell_get(self, name: str) -> Any:
        return self._one("SELECT value FROM settings WHERE name = ?", (name,))

    def _tell_find(self, key: str) -> Any:
        return self._one("SELECT receipt FROM deeds WHERE key = ? ORDER BY id DESC LIMIT 1", (key,))

    def _tell_arm(self, of: str, ways: list[str]) -> None:
        self._db.executemany("INSERT INTO armed (verb, way) VALUES (?, ?)", [(of, way) for way in ways])

    def _tell_advance(self, seconds: float) -> None:
        self._db.execute("UPDATE clock SET ahead = ahead + ?", (seconds,))

    def _tell_executed(self, key: str | None) -> Any:
        return self._one(
            "SELECT count(*) FROM deeds WHERE verb != 'refund' AND (?1 IS NULL OR key = ?1)", (key,)
        )

    def _tell_undone(self, key: str | None) -> Any:
        return self._one(
            "SELECT count(*) FROM deeds AS refund LEFT JOIN deeds AS charge ON refund.of = charge.receipt"
            " WHERE refund.verb = 'refund' AND (?1 IS NULL OR charge.key = ?1)",
            (key,),
        )

    def _tell_twice(self) -> list[Any]:
        """A key under which there are several deeds, or refunds of one charge under several keys."""
        return [
            row[0]
            for row in self._db.execute(
                "SELECT key FROM deeds GROUP BY key HAVING count(*) > 1 UNION SELECT charge.key"
                " FROM deeds AS refund JOIN deeds AS charge ON refund.of = charge.receipt"
                " GROUP BY charge.id HAVING count(*) > 1 ORDER BY 1"
            )
        ]

    def _tell_stands(self) -> Any:
        return self._one("SELECT coalesce(sum(cents), 0) FROM deeds", ())

    def _tell_deeds(self) -> list[dict[str, Any]]:
        rows = self._db.execute("SELECT verb, key, asked, receipt FROM deeds ORDER BY id")
        return [
            {"verb": verb, "key": key, "asked": json.loads(asked), "receipt": receipt}
            for verb, key, asked, receipt in rows
        ]


class Hanging:
    """The calls that wait, and whoever waits for them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._round = 0

    def hang(self) -> None:
        """Until the next release. No patience here: whoever is to be kept waiting is kept waiting."""
        with self._changed:
            mine = self._round
            self._count += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._round > mine)

    def release(self) -> None:
        with self._changed:
            self._count, self._round = 0, self._round + 1
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._count >= count, PATIENCE / 2):
                raise Refused(f"{self._count} calls hang, not {count}")


class Desk(socketserver.ThreadingTCPServer):
    """One thread for each call; a client that is killed leaves the others alone."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, books: Books) -> None:
        super().__init__((HOST, port), _Visit)
        self.books, self.waiting = books, Hanging()

    def serve(self, asked: dict[str, Any]) -> Any:
        """The answer to one question; `ConnectionAbortedError` where there is to be none."""
        verb = asked.pop("verb")
        if verb == "release":
            return self.waiting.release()
        if verb == "hanging":
            return self.waiting.wait_for(asked["count"])
        if verb not in DOES:
            return self.books.tell(verb, asked)
        way = self.books.way(verb)
        if way == "refuse":
            raise Refused(f"{verb} was refused")
        if way == "hang before":
            self.waiting.hang()
        if way == "die before":
            os._exit(1)
        key = asked.pop("key")
        answer = self.books.do(verb, key, asked)
        if way == "hang after":
            self.waiting.hang()
        if way == "die after":
            os._exit(1)
        if way == "drop":
            raise ConnectionAbortedError
        return answer


class _Visit(socketserver.StreamRequestHandler):
    """One call."""

    server: Desk

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line.endswith(b"\n"):
            return  # its client was killed while it asked: nothing was asked
        try:
            answer = {"answer": self.server.serve(json.loads(line))}
        except Refused as refused:
            answer = {"refused": str(refused)}
        except ConnectionAbortedError:
            return
        # Its client was killed while it waited. What was done is done, and is counted.
        with contextlib.suppress(OSError):
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _end_with_parent() -> None:
    """Whoever started this holds the other end of standard input; when that is gone, so is the test."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    """Serve until killed; the port is said first."""
    parser = argparse.ArgumentParser(description="A payment provider to test against.")
    parser.add_argument("database")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--forgets-keys", action="store_true")
    parser.add_argument("--key-memory", type=float)
    options = parser.parse_args()
    books = Books(options.database, honours_keys=not options.forgets_keys, key_memory=options.key_memory)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Desk(options.port, books) as desk:
        print(desk.server_address[1], flush=True)
        desk.serve_forever()


if __name__ == "__main__":
    main()
