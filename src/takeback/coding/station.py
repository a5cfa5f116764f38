"""What the watcher does when it is asked: a workspace's store, thread and watch, and whose a change is.

Between two tool calls a change is somebody else's; while a call is under way it is the agent's.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import msgspec

from takeback.coding import budget, events
from takeback.coding.events import Event
from takeback.coding.notes import Calls, Told, failed
from takeback.coding.project import Project

_RUN = "run"


class Workshop:
    """See `takeback.coding.watcher.Station`."""

    def __init__(self, root: str, folder: str) -> None:
        self.root, self.folder = root, folder
        self.project = Project(root, folder)
        self.project.watch()
        self._calls, self._told = Calls(folder), Told(folder)

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
            traceback.print_exc()
            return b"1\n" + failed(self.folder, " ".join(words[:2]), error)

    def fileno(self) -> int | None:
        return self.project.fileno()

    def quiet(self) -> None:
        self._catch_up("meanwhile")

    def busy(self) -> bool:
        """While a command under `takeback run` lives. One that was killed together with `run` has ended."""
        for run in self._calls.of_kind(_RUN):
            if _lives(int(run.call)):
                return True
            self._catch_up("")
            self._calls.over(run.conversation)
        return False

    def tidy(self, asked: Callable[[], bool]) -> str | None:
        """Keep to the budget, if there is one."""
        return budget.keep_to(self.folder, self.project.thread, self.project.collect, asked)

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
        self._calls.begin(event)
        return b""

    def _ends(self, event: Event) -> bytes:
        begun = self._calls.end(event) or event
        label = (event if event.about else begun).label
        if begun.is_shell:
            self.project.shells += 1
        self.project.capture(event.agent, label, event.meta())
        return b""

    def _over(self, event: Event) -> None:
        """A turn has ended, or one begins: so have its calls that were not heard of again."""
        self._catch_up("between turns")
        self._calls.over(event.conversation)

    def _catch_up(self, why: str) -> None:
        """What has changed since the last look: by the calls that are under way, else by others."""
        call = self._calls.one()
        if call is not None:
            self.project.capture(call.agent, call.label, call.meta())
        else:
            self.project.capture(None, f"changed by others {why}")

    # --- what was taken back

    def _tell(self, event: Event) -> bytes:
        """What people took back since this conversation was last told."""
        thread = self.project.thread.refresh()
        since = self._told.version(event.conversation)
        said = None if since is None else self.project.taken_back(since)
        self._told.put(event.conversation, thread.version)
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
        what, pid, name = words[0], words[1], body.decode(errors="replace")
        run = Event(_RUN, name, f"run-{pid}", name, call=pid)
        if what == "begin":
            self._catch_up(f"before {name}")
            self._calls.begin(run)
        else:
            self._catch_up(f"after {name}")
            self._calls.over(run.conversation)
        return str(self.project.thread.version).encode()

    def _status(self, _: list[str], __: bytes) -> bytes:
        said = {"pid": os.getpid(), "runs": [run.name for run in self._calls.of_kind(_RUN)]}
        return msgspec.json.encode(said | self.project.describe())


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
