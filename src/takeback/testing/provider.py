"""A payment provider to test against, seen from its clients: what it does, and how to make it fail.

It runs in a process of its own, on a database of its own, and counts what really happened, whoever was
killed meanwhile. This module needs nothing but the standard library.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

SERVER = "takeback.testing.provider_server"
HOST = "127.0.0.1"
PATIENCE = 60
"""Seconds after which a provider that says nothing is given up: a test fails rather than hangs."""

WAYS = ("ok", "refuse", "drop", "hang before", "hang after", "die before", "die after")
"""What may become of a call. Drop: it is done and the answer is lost. Hang: until it is released. Die: the
provider's process ends."""


class Refused(Exception):
    """The provider says that nothing happened, and why."""


class NoAnswer(ConnectionError):
    """The connection ended without an answer: nobody knows what happened."""


class Client:
    """The provider's interface. One connection for each call, so that it may be used from anywhere."""

    def __init__(self, port: int, *, timeout: float | None = PATIENCE) -> None:
        self.port, self._timeout = port, timeout

    # --- what a tool calls

    def charge(self, key: str, account: str, cents: int) -> str:
        """Take money; the receipt."""
        return str(self._ask("charge", key=key, account=account, cents=cents))

    def refund(self, key: str, receipt: str) -> str:
        """Give back what was charged under a receipt. It counts, and does not refuse, a second one."""
        return str(self._ask("refund", key=key, receipt=receipt))

    def send(self, key: str, to: str, text: str) -> str:
        """A message, which nothing takes back."""
        return str(self._ask("send", key=key, to=to, text=text))

    def put(self, key: str, name: str, value: str) -> str:
        """Change a setting."""
        return str(self._ask("put", key=key, name=name, value=value))

    def get(self, name: str) -> str | None:
        """What a setting is now."""
        found: str | None = self._ask("get", name=name)
        return found

    def find(self, key: str) -> str | None:
        """The receipt of what was done under a key, however long ago; None if nothing was."""
        found: str | None = self._ask("find", key=key)
        return found

    # --- inside

    def _ask(self, verb: str, **what: Any) -> Any:
        line = json.dumps({"verb": verb, **what}).encode() + b"\n"
        try:
            with socket.create_connection((HOST, self.port), self._timeout) as connection:
                connection.sendall(line)
                with connection.makefile("rb") as answers:
                    answer = answers.readline()
        except OSError as error:
            raise NoAnswer(f"{verb}: {error}") from error
        if not answer.endswith(b"\n"):
            raise NoAnswer(f"{verb}: the connection ended before an answer came")
        found = json.loads(answer)
        if "refused" in found:
            raise Refused(found["refused"])
        return found["answer"]


class Provider(Client):
    """A provider that this test started, with what only the judge may ask.

    `honours_keys`: a call with a key that it remembers is answered as before and not done again. It forgets
    a key after `key_memory` seconds of its own clock, which `advance` moves.
    """

    def __init__(self, database: Path, *, honours_keys: bool = True, key_memory: float | None = None) -> None:
        super().__init__(0)
        self._arguments = [str(database)]
        self._arguments += [] if honours_keys else ["--forgets-keys"]
        self._arguments += [] if key_memory is None else ["--key-memory", str(key_memory)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Until it answers. After it has died it starts on what it had done, at the same port."""
        self.stop()
        # It ends when its standard input does, so that it never outlives a test that was killed.
        self._process = subprocess.Popen(
            [sys.executable, "-m", SERVER, "--port", str(self.port), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said.strip().isdigit():
            self.stop()
            raise NoAnswer(f"the provider did not start; it said {said!r}")
        self.port = int(said)
        return self

    def stop(self) -> None:
        """As a crash: it counts what it did in its database, and not in its memory."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self, *, timeout: float | None = PATIENCE) -> Client:
        return Client(self.port, timeout=timeout)

    def wait(self) -> int:
        """Until its process ends by itself; its exit code."""
        assert self._process is not None, "the provider was not started"
        return self._process.wait(PATIENCE)

    # --- the judge

    def arm(self, verb: str, *ways: str) -> None:
        """How the next calls of a verb go, one after another; then they go well."""
        unknown = set(ways) - set(WAYS)
        if unknown:
            raise ValueError(f"a call cannot go {sorted(unknown)}; there are: {', '.join(WAYS)}")
        self._ask("arm", of=verb, ways=list(ways))

    def hanging(self, count: int) -> None:
        """Wait until so many calls hang."""
        self._ask("hanging", count=count)

    def release(self) -> None:
        """Whatever hangs goes on."""
        self._ask("release")

    def advance(self, seconds: float) -> None:
        """Let its clock go on, as far as the memory of keys is concerned."""
        self._ask("advance", seconds=seconds)

    def executed(self, key: str | None = None) -> int:
        """How many times something was done: under a key, or in all."""
        return int(self._ask("executed", key=key))

    def undone(self, key: str | None = None) -> int:
        """How many refunds there were: of what was charged under a key, or in all."""
        return int(self._ask("undone", key=key))

    def twice(self) -> list[str]:
        """The keys under which something was done, or refunded, more than once."""
        return list(self._ask("twice"))

    def stands(self) -> int:
        """Cents that were taken and not given back. Below nothing: more was given back than taken."""
        return int(self._ask("stands"))

    def deeds(self) -> list[dict[str, Any]]:
        """All that was done, in order: verb, key, what was asked, receipt."""
        return list(self._ask("deeds"))
