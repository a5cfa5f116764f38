"""A network that fails on purpose: a proxy before a server, which cuts connections where it is told."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Literal, Self

Cut = Literal["before", "in", "after", "late", "gone"]
"""What becomes of a message of the client: it never arrives; it arrives and its answer is not waited for; its
answer is lost; it arrives when the client has long given up; its answer is lost, and with it the server,
until `disarm`."""
_LATE = 0.25
_CHUNK = 1 << 20


class Proxy:
    """Passes on what is said, until a cut is due. Counts the messages of all clients."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.messages = 0
        self.cuts = 0
        self._cut: tuple[Cut, int] | None = None
        self._gone = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def url(self, schema: str) -> str:
        return (
            f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
            f"?sslmode=disable&gssencmode=disable&schema={schema}"
        )

    def arm(self, cut: Cut, message: int) -> None:
        """Cut at the message of this number, counted from now."""
        with self._lock:
            self.messages, self._cut = 0, (cut, message)

    def disarm(self) -> None:
        with self._lock:
            self.messages, self._cut, self._gone = 0, None, False

    def settle(self) -> None:
        """Wait until what is late has arrived."""
        time.sleep(_LATE + 0.1)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            if self._gone:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._upstream)
            self._sockets |= {client, server}
            for work in (self._client_speaks, self._server_speaks):
                thread = threading.Thread(target=work, args=(client, server), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _client_speaks(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                cut = self._due(client, server)
                if cut is None:
                    server.sendall(data)
                    continue
                if cut == "late":
                    _end(client)
                    time.sleep(_LATE)
                if cut in ("after", "gone"):
                    client.shutdown(socket.SHUT_WR)  # no answer passes from here on
                if cut != "before":
                    server.sendall(data)
                if cut in ("after", "gone"):
                    time.sleep(_LATE)
                break
        _end(client, server)

    def _server_speaks(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                client.sendall(data)
        _end(client, server)

    def _due(self, client: socket.socket, server: socket.socket) -> Cut | None:
        with self._lock:
            number, self.messages = self.messages, self.messages + 1
            if self._cut is None or self._cut[1] != number:
                return None
            cut, _ = self._cut
            self._cut, self.cuts = None, self.cuts + 1
            if cut == "gone":
                self._gone = True
                _end(*(self._sockets - {client, server}))
            return cut

    def close(self) -> None:
        _end(self._listener, *self._sockets)
        for thread in self._threads:
            thread.join(timeout=5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
