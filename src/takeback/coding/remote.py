"""The watcher process as somebody who knows what has changed, for a command that looks at files itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from takeback.coding import client
from takeback.workspace.watch import Changed

if TYPE_CHECKING:
    from takeback import Thread


class Remote:
    """See `takeback.workspace.watch.Watcher`. What is told here stays to be told to the watcher itself."""

    def __init__(self, root: str, folder: str) -> None:
        self._around = (root, folder)
        self.since: bytes | None = None

    def changed(self) -> Changed:
        paths, everything, mark, self.since = msgspec.msgpack.decode(
            client.asked(*self._around, b"changed\n")
        )
        return Changed(frozenset(paths), everything, mark)

    def settled(self, mark: int) -> None:
        """The watcher looks at these paths once more, which costs it little, and cannot go wrong."""

    def close(self) -> None:
        """The watcher stays."""


def attend(thread: Thread[Any], root: str, folder: str) -> None:
    """Have the watcher of a directory say what changes in the thread's workspace there."""
    for workspace in thread.workspaces():
        if workspace.path == root:
            remote = Remote(root, folder)
            remote.changed()
            if remote.since is not None:
                workspace.directory.watch(remote, remote.since)
