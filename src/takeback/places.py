"""Where things are kept: the user's data directory, a folder in it for each workspace, and its socket.

A hook imports this on every tool call, so it needs nothing but what the interpreter has loaded already.
"""

import os
import sys

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter without the bare module; the other takes some milliseconds longer
    from hashlib import blake2b

_LONGEST_SOCKET = 100  # bytes; the system takes 107 on Linux and 103 on macOS
STORE, ROOT = "takeback.db", "root"
SOCKET, LOCK, LOG, FAILURES = "watcher.sock", "watcher.lock", "watcher.log", "failures.log"


def data_home() -> str:
    """The user's data directory for takeback; it may not be there yet."""
    if found := os.environ.get("XDG_DATA_HOME"):
        home = found
    elif sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Application Support")
    else:
        home = os.path.expanduser("~/.local/share")
    return os.path.join(home, "takeback")


def short_hash(path: str) -> str:
    return blake2b(os.fsencode(path), digest_size=8).hexdigest()


def folder_of(root: str) -> str:
    """The folder of a workspace, by its real path; whether it is there or not."""
    name = "".join(sign if sign.isalnum() else "-" for sign in os.path.basename(root))[:32]
    return os.path.join(data_home(), "workspaces", f"{name}-{short_hash(root)}")


def find(path: str) -> tuple[str, str] | None:
    """The workspace that a path lies in, the innermost one, with its folder."""
    root = os.path.realpath(path)
    while True:
        folder = folder_of(root)
        if os.path.exists(os.path.join(folder, ROOT)):
            return root, folder
        above = os.path.dirname(root)
        if above == root:
            return None
        root = above


def project_of(path: str) -> str:
    """The directory that a new workspace is made for: the repository around a path, else the path itself."""
    start = root = os.path.realpath(path)
    while not os.path.exists(os.path.join(root, ".git")):
        above = os.path.dirname(root)
        if above == root:
            return start
        root = above
    return root


def socket_of(folder: str) -> str:
    """Where the watcher of a workspace listens: in its folder, or where that path would be too long."""
    path = os.path.join(folder, SOCKET)
    if len(os.fsencode(path)) <= _LONGEST_SOCKET:
        return path
    base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"  # who binds there checks its owner and mode
    return os.path.join(base, f"takeback-{os.getuid()}", f"{short_hash(folder)}.sock")


def login_name() -> str | None:
    """Who is at work, where the system knows a name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container's user may have no name: then nobody is named
        return None


def thread_name(root: str) -> str:
    """What the thread of a directory is called: as the directory, as far as a name may be so."""
    bare = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in os.path.basename(root))
    return bare.strip("-.") or "workspace"
