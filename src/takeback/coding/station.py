"""What the watcher does when it is asked: a workspace's store, thread and watch, and whose a change is.

Between two tool calls a change is somebody else's; while a call is under way it is the agent's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from takeback import places
from takeback.coding import events
from takeback.coding.events import Event
from takeback.coding.project import Project
from takeback.errors import TakebackError

_RUN_SECONDS = 2.0  # how often it is looked whether the command of a run still lives


class Run(msgspec.Struct):
    """A command under `takeback run`."""

    pid: int
    name: str


class Workshop:
    """See `takeback.coding.watcher.Station`."""

    def __init__(self, root: str, folder: str) -> None:
        self.root, self.folder = root, folder
        self.project = Project(root, folder)
        self.project.watch()
        self._calls: dict[tuple[str, str], Event] = {}  # that are under way, by conversation and call
        self._runs: dict[int, Run] = {}
        self._told = _Told(os.path.join(folder, "told"))
        self.project.capture(None, "what others changed before")

    def answer(self, words: list[str], body: bytes) -> bytes:
        """The reply: 0 and what is to be printed, or 1 and what went wrong."""
        try:
            known: dict[str, Callable[[list[str], bytes], bytes]] = {
                "hook": self._hook, "capture": self._capture, "changed": self._changed,
                "run": self._run, "status": self._status, "commit": self._commit,
            }  # fmt: skip
            if words[0] not in known:
                return b"1\nthe watcher knows no request " + words[0].encode()
            return b"0\n" + known[words[0]](words[1:], body)
        except Exception as error:  # one request that fails must not end the watcher
            return b"1\n" + self._failed(" ".join(words[:2]), error)

    def fileno(self) -> int | None:
        return self.project.fileno()

    def quiet(self) -> None:
        """A command under `takeback run` has changed something and rests."""
        for run in self._runs.values():
            self.project.capture(run.name, f"{run.name}: a quiet moment", {"agent": run.name})
            return

    def busy(self) -> bool:
        for pid in [pid for pid in self._runs if not _lives(pid)]:
            run = self._runs.pop(pid)
            self.project.capture(run.name, f"{run.name} was killed", {"agent": run.name})
        return bool(self._runs)

    def close(self) -> None:
        self.project.close()

    # --- hooks

    def _hook(self, words: list[str], body: bytes) -> bytes:
        event = events.read(words[0], body, self.root)
        if event.only_looks:
            return b""
        if event.kind == "begins":
            return self._begins(event)
        if event.kind == "ends":
            return self._ends(event)
        self._over(event)
        return self._tell(event) if event.kind in ("prompt", "opens") else b""

    def _begins(self, event: Event) -> bytes:
        self._catch_up(f"before {event.label}")
        self._calls[event.conversation, event.call] = event
        return b""

    def _ends(self, event: Event) -> bytes:
        begun = self._calls.pop((event.conversation, event.call), None) or event
        label = (event if event.about else begun).label
        if begun.is_shell:
            self.project.shells += 1
        self.project.capture(event.agent, label, event.meta())
        return b""

    def _over(self, event: Event) -> None:
        """A turn has ended, or one begins: so have its calls that were not heard of again."""
        self._catch_up("between turns")
        self._calls = {key: call for key, call in self._calls.items() if key[0] != event.conversation}

    def _catch_up(self, why: str) -> None:
        """What has changed since the last look: by the calls that are under way, else by others."""
        for call in self._calls.values():
            self.project.capture(call.agent, call.label, call.meta())
            return
        self.project.capture(None, f"what others changed {why}")

    # --- what was taken back

    def _tell(self, event: Event) -> bytes:
        """What people took back since this conversation was last told."""
        thread = self.project.thread.refresh()
        since = self._told.version(event.conversation)
        said = None if since is None else self.project.taken_back(since)
        self._told.keep(event.conversation, thread.version)
        return b"" if said is None else events.context(event, said)

    # --- commands

    def _capture(self, words: list[str], _: bytes) -> bytes:
        """For a command that is about to look: what changed by now is in a version, and whose it is."""
        self._catch_up(" ".join(words) or "before a command")
        return str(self.project.thread.version).encode()

    def _commit(self, _: list[str], body: bytes) -> bytes:
        """A person's version of the files as they are."""
        said = msgspec.json.decode(body)
        return str(self.project.commit(said["reason"], said["actor"], said["meta"]).version).encode()

    def _changed(self, _: list[str], __: bytes) -> bytes:
        changed, settled = self.project.changed()
        return msgspec.msgpack.encode([[*changed.paths], changed.everything, changed.mark, settled])

    def _run(self, words: list[str], body: bytes) -> bytes:
        """`run begin PID` and `run end PID`, with the command's name as the body."""
        what, pid, name = words[0], int(words[1]), body.decode(errors="replace")
        if what == "begin":
            self._catch_up(f"before {name}")
            self._runs[pid] = Run(pid, name)
        else:
            self._runs.pop(pid, None)
            self.project.capture(name, f"{name} ended", {"agent": name})
        return str(self.project.thread.version).encode()

    def _status(self, _: list[str], __: bytes) -> bytes:
        said = {"pid": os.getpid(), "runs": [run.name for run in self._runs.values()]}
        return msgspec.json.encode(said | self.project.describe())

    def _failed(self, what: str, error: Exception) -> bytes:
        """What the caller is told; the log has it too, and the next command says so."""
        import sys
        import traceback

        told = str(error) if isinstance(error, TakebackError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what} failed\n")
        traceback.print_exc()
        sys.stderr.flush()
        with open(os.path.join(self.folder, places.FAILURES), "a", encoding="utf-8") as file:
            file.write(
                f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {told}\n".replace("\n", " ").strip() + "\n"
            )
        return f"takeback: not recorded: {told}\n".encode()


class _Told:
    """Up to which version each conversation knows what was taken back."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._versions: dict[str, int] = {}
        try:
            with open(path, "rb") as file:
                self._versions = msgspec.json.decode(file.read(), type=dict[str, int])
        except (OSError, msgspec.MsgspecError):  # then a conversation may be told once more
            self._versions = {}

    def version(self, conversation: str) -> int | None:
        return self._versions.get(conversation)

    def keep(self, conversation: str, version: int) -> None:
        self._versions[conversation] = version
        while len(self._versions) > 200:
            del self._versions[next(iter(self._versions))]
        with open(f"{self._path}.new", "wb") as file:
            file.write(msgspec.json.encode(self._versions))
        os.replace(file.name, self._path)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
