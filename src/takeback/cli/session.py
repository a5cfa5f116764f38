"""What a command line asks for, opened when it is needed: the store, the thread, the actor, the keys."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from takeback import places
from takeback.cli.output import Output

if TYPE_CHECKING:
    import argparse

    from takeback import Repo, Thread


class Place(NamedTuple):
    """Where the store is, and why there."""

    url: str
    why: str
    ours: bool = False  # the default place, whose folder we may make
    workspace: tuple[str, str] | None = None  # the directory that one stands in, and its folder


class Session:
    """One run of one command."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.out = Output(json=bool(args.json), color=not args.no_color)
        self._repo: Repo | None = None

    def place(self) -> Place:
        if self.args.db:
            return Place(self.args.db, "--db names it")
        if found := os.environ.get("TAKEBACK_DB"):
            return Place(found, "TAKEBACK_DB names it")
        if around := places.find(os.getcwd()):
            url = os.path.join(around[1], places.STORE)
            return Place(url, f"the store of the workspace {around[0]}", workspace=around)
        return Place(
            _default_place(), "the default place; neither --db nor TAKEBACK_DB names another", ours=True
        )

    def repo(self, *, create: bool = False) -> Repo:
        """The store; only a command that writes its first version makes one."""
        if self._repo is None:
            import takeback

            place = self.place()
            if create and place.ours:
                _make_folder(os.path.dirname(place.url))
            self._repo = takeback.open(
                place.url,
                tenant=self.args.tenant or "default",
                actor=self.args.actor or places.login_name(),
                key=self._key(),
                approvers=_approvers(),
                create=create,
            )
        return self._repo

    @property
    def named(self) -> str | None:
        """The thread that was named, if one was."""
        return self.args.thread or os.environ.get("TAKEBACK_THREAD") or None

    def thread(self) -> Thread[Any]:
        """The thread that was named, else the one written to last; it exists."""
        from takeback import UnknownThread

        name = self.thread_name()
        thread = self.repo().thread(name)
        if not thread.exists:
            raise UnknownThread(f"there is no thread {name!r}", hint="`takeback threads` lists them")
        return thread

    def files_thread(self, why: str) -> Thread[Any]:
        """The same; in a workspace, with all that has changed in its files by now in a version, and with
        somebody at hand who knows what changes from now on."""
        from takeback.cli import files

        files.catch_up(self, why)
        thread = self.thread()
        files.attend(self, thread)
        return thread

    def thread_name(self) -> str:
        """The name of the thread that was named, else of the one written to last."""
        from takeback import UnknownThread

        name = self.named or self._latest()
        if name is None:
            raise UnknownThread(
                "there is no thread in this store yet", hint="`takeback commit` makes one: see its --help"
            )
        return name

    def thread_to_write(self, agent: str | None, user: str | None) -> Thread[Any]:
        """The same, or a new one: what commits may begin a thread, and a store."""
        repo = self.repo(create=True)
        thread: Thread[Any] = repo.thread(self.named or self._latest(), agent=agent, user=user)
        if not thread.exists:
            self.out.note(f"{thread.name!r} is a new thread")
        return thread

    def again(self, *words: str, thread: str | None = None) -> str:
        """A command on the same store and thread, as one would type it; or on another thread."""
        named = self.args.thread if thread in (None, self.named) else thread
        given = [("--db", self.args.db), ("--thread", named), ("--tenant", self.args.tenant)]
        options = [word for name, value in given if value for word in (name, value)]
        return shlex.join(["takeback", *options, *words])

    def load_app(self) -> bool:
        """Import the module that declares the tools, if one is named; what it prints is no output of ours."""
        from takeback.worker import load

        app = getattr(self.args, "app", None) or os.environ.get("TAKEBACK_APP")
        if app:
            with self.out.aside():
                load(app)
        return bool(app)

    def interactive(self) -> bool:
        """Whether there is somebody to ask."""
        return not self.args.json and sys.stdin is not None and sys.stdin.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._repo is not None:
            self._repo.close()

    def _latest(self) -> str | None:
        latest = self.repo().latest()
        if latest is None:
            return None
        if self.place().workspace is None:
            self.out.note(f"on thread {latest.name!r}, the one written to last")
        return latest.name

    def _key(self) -> bytes | None:
        from takeback.cli.values import file_bytes
        from takeback.errors import BadRequest

        if self.args.key_file:
            key, where = file_bytes(self.args.key_file).rstrip(b"\r\n"), self.args.key_file
        elif "TAKEBACK_KEY" in os.environ:
            key, where = os.fsencode(os.environ["TAKEBACK_KEY"]), "TAKEBACK_KEY"
        else:
            return None
        if not key:
            raise BadRequest(f"{where} holds no key", hint="A signing key is any secret text or bytes")
        return key


def _approvers() -> list[bytes]:
    """The public keys of those who may grant: files, as PATH names folders."""
    from takeback.cli.values import public_key

    named = os.environ.get("TAKEBACK_APPROVERS", "").split(os.pathsep)
    return [public_key(name) for name in named if name]


def _default_place() -> str:
    return os.path.join(places.data_home(), places.STORE)


def _make_folder(path: str) -> None:
    """A folder for the store, for its owner alone: states hold what people told their agents."""
    from takeback.errors import StoreError

    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}", hint="Give another --db") from None
