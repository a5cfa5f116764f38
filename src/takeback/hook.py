"""The hook's entry point: hands what a coding agent says to the watcher of its directory.

It runs before and after every tool call, so it imports next to nothing: no json, no socket, no takeback
beside `places`. Only when no watcher answers does it load what starts one. Whatever goes wrong, the agent
goes on: an exit code of 1 is shown to people and blocks nothing.
"""

import os
import sys

from takeback import places

_SECONDS = 50  # an agent gives a hook up after a minute
MORE = 1 << 16


def main() -> int:
    words = sys.argv[1:]
    agent = words[0] if words else "agent"
    try:
        said = sys.stdin.buffer.read()
        request = b"hook %s %s\n" % (agent.encode(), os.fsencode(os.getcwd())) + said
        start = os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
        found = places.find(start)
        answer = None if found is None else ask(places.socket_of(found[1]), request)
        if answer is None:
            from takeback.coding.client import ask_by_need

            answer = ask_by_need(start, request, found)
        code, _, printed = answer.partition(b"\n")
        stream = sys.stdout if code == b"0" else sys.stderr
        stream.buffer.write(printed)
        stream.flush()
        return 0 if code == b"0" else 1
    except Exception as error:  # an agent must not be held up by us, whatever it is
        sys.stderr.write(f"takeback: this step was not recorded: {type(error).__name__}: {error}\n")
        _log(f"hook: {type(error).__name__}: {error}")
        return 1


def ask(path: str, request: bytes, seconds: float = _SECONDS) -> bytes | None:
    """What the watcher answers; None when there is none, or it left before it answered."""
    from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket

    link = socket(AF_UNIX, SOCK_STREAM)
    try:
        link.settimeout(seconds)
        link.connect(path)
        if not is_ours(link):
            raise PermissionError(f"{path} is another user's")
        _send(link, request)
        link.shutdown(SHUT_WR)
        parts = []
        while part := link.recv(MORE):
            parts.append(part)
        return b"".join(parts) or None
    except (FileNotFoundError, ConnectionError, NotADirectoryError):
        return None
    finally:
        link.close()


def is_ours(link: object) -> bool:
    """Whether the process at the other end is this user's."""
    import _socket

    if not hasattr(_socket, "SO_PEERCRED"):  # macOS: the socket lies in a folder that only we can enter
        return True
    said = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # type: ignore[attr-defined]  # a socket
    return int.from_bytes(said[4:8], sys.byteorder) == os.getuid()


def _send(link: object, request: bytes) -> None:
    rest = memoryview(request)
    while rest:
        rest = rest[link.send(rest[:MORE]) :]  # type: ignore[attr-defined]  # a socket


def _log(text: str) -> None:
    """For the next command, which says so."""
    import time

    try:
        os.makedirs(places.data_home(), mode=0o700, exist_ok=True)
        with open(os.path.join(places.data_home(), "hook.log"), "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {os.getcwd()}: {text}\n")
    except OSError:  # nowhere to write: it was said on standard error
        return


if __name__ == "__main__":
    sys.exit(main())
