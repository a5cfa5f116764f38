"""worker: a process that has the tools, and does what plans wait for."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_app

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from takeback.cli.session import Session


def add(to: Commands) -> None:
    parser = to.add(
        "worker",
        work,
        "world",
        "Do what plans wait for, where the tools are",
        more="A rollback that has to undo effects is made anywhere, and carried out where their tools are: "
        "here. Several workers may run. SIGTERM and Ctrl-C end it after the call that it is at; a second "
        "one at once.",
        example="takeback worker --app shop.tools",
    )
    add_app(parser)
    parser.add_argument("--once", action="store_true", help="do what there is to do, and end")
    parser.add_argument(
        "--poll", metavar="SECONDS", type=float, default=0.5, help="how often to look (default: 0.5)"
    )


def work(session: Session) -> int:
    from threading import Event

    from takeback.errors import BadRequest

    if session.args.poll <= 0:
        raise BadRequest(f"--poll {session.args.poll:g} is no time", hint="A number of seconds, such as 0.5")
    if not session.load_app():
        raise BadRequest(
            "a worker without tools has nothing to work with",
            hint="Give --app module:name, or set TAKEBACK_APP",
        )
    said: list[str] = []
    stop = Event()
    repo = session.repo()

    def told(text: str) -> None:
        said.append(text)
        session.out.note(text)

    if not session.args.once:
        session.out.note("waits for plans; Ctrl-C ends it")
    with _until_signalled(stop), session.out.aside():
        if session.args.once:
            done = repo.work(told=told)
        else:
            done = repo.work(stop=stop, poll=session.args.poll, told=told)
    if session.out.json:
        session.out.document({"done": done, "lines": said})
    else:
        session.out.line(f"did {done} {'line' if done == 1 else 'lines'} of plans")
    return 0


@contextlib.contextmanager
def _until_signalled(stop: threading.Event) -> Iterator[None]:
    """The first signal asks it to stop, and gives the next one its old meaning back."""
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)

    def asked(*_: object) -> None:
        restore()
        stop.set()

    before |= {each: signal.signal(each, asked) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        restore()
