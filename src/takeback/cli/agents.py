"""The commands for coding agents: install, run."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, completes

if TYPE_CHECKING:
    from takeback.cli.output import Part
    from takeback.cli.session import Session
    from takeback.coding.install import Change
    from takeback.coding.table import Agent


def add(to: Commands) -> None:
    parser = to.add(
        "install",
        install,
        "agents",
        "Have a coding agent tell takeback of every step",
        more="Writes hooks into the agent's configuration: that of this project or, with --user, yours for "
        "all projects. Shows the change and asks. Without AGENT, lists the agents and where takeback is "
        "installed. --uninstall puts the file back as it was, byte for byte; if somebody has changed it "
        "since, it takes out only what takeback wrote.",
        example="takeback install claude-code",
    )
    agent = parser.add_argument("agent", metavar="AGENT", nargs="?", help="claude-code or codex")
    completes(agent, "none")
    parser.add_argument("--user", action="store_true", help="in your own configuration, for all projects")
    parser.add_argument("--uninstall", action="store_true", help="take it out again")
    parser.add_argument("--plan", action="store_true", help="only print what it would do")
    parser.add_argument("--yes", action="store_true", help="do not ask")

    run = to.add(
        "run",
        run_command,
        "agents",
        "Run any command, and be able to take back what it does to files",
        more="The files of this directory (of the repository around it) are captured before the command "
        "begins, whenever it rests, and after it has ended. Nothing has to be configured: the store and the "
        "thread are found, or made. The terminal is the command's, and its exit code is ours. What you "
        "change yourself meanwhile counts as the command's.",
        example="takeback run claude",
    )
    run.add_argument("--force", action="store_true", help="also in the root or the home directory")
    words = run.add_argument("words", metavar="COMMAND", nargs=argparse.REMAINDER, help="the command to run")
    completes(words, "none")


def run_command(session: Session) -> int:
    """Tell the watcher, run it, tell the watcher; the command's exit code."""
    from takeback import places
    from takeback.cli import files
    from takeback.coding import client, running
    from takeback.errors import BadRequest

    words = session.args.words[1:] if session.args.words[:1] == ["--"] else session.args.words
    if not words:
        raise BadRequest("there is no command to run", hint="For example `takeback run claude`")
    around = session.place().workspace
    if around is None:
        if not session.place().ours:
            raise BadRequest("run keeps a directory's own store", hint="Leave --db and TAKEBACK_DB out")
        around = client.enrol(places.project_of(os.getcwd()), force=session.args.force)
    files.told_failures(session, around[1])
    name, pid = os.path.basename(words[0]), os.getpid()
    before = int(client.asked(*around, f"run begin {pid}\n{name}".encode()))
    try:
        code = running.run(words, {"TAKEBACK_RUN": str(pid)})
    finally:
        after = int(client.asked(*around, f"run end {pid}\n{name}".encode()))
    _tell_run(session, before, after)
    return code


def _tell_run(session: Session, before: int, after: int) -> None:
    """What the command did to files, for who looks on; the command's own output is left alone."""
    from takeback.cli.files import brief

    if before == after:
        session.out.note("no file has changed")
        return
    thread = session.thread()
    ends = [thread.at(version).checkpoint for version in (before, after)]
    session.out.note(f"{brief(thread, *ends)}: versions {before + 1} to {after} of {thread.name}")
    session.out.note(f"`takeback rollback {before}` takes all of it back, `takeback undo` the last of it")


def install(session: Session) -> int:
    """Show the change, ask, do exactly that; or only the first of these."""
    from takeback import places
    from takeback.cli.ask import confirmed
    from takeback.coding import install as installing

    args = session.args
    if args.agent is None:
        return _list(session)
    agent, root = _agent(args.agent), places.project_of(os.getcwd())
    make = installing.plan_uninstall if args.uninstall else installing.plan_install
    change = make(agent, root, user=args.user)
    asks = not (args.plan or args.yes or change.is_none)
    if not session.out.json and (args.plan or asks):
        _show(session, change)
    if asks and not confirmed(session, "Go ahead?", "uninstall" if args.uninstall else "install"):
        return 1
    if not args.plan:
        installing.apply(change)
    _tell(session, change)
    return 0


def _agent(name: str) -> Agent:
    from takeback.cli.parser import nearest
    from takeback.coding.table import AGENTS
    from takeback.errors import BadRequest

    if name not in AGENTS:
        meant = nearest(name, list(AGENTS))
        known = ", ".join(AGENTS)
        raise BadRequest(
            f"takeback knows no coding agent {name!r}",
            hint=f"Did you mean {meant}?" if meant else f"It knows {known}; `takeback run` works with any",
        )
    return AGENTS[name]


def _list(session: Session) -> int:
    from takeback import places
    from takeback.coding.table import AGENTS

    root, out = places.project_of(os.getcwd()), session.out
    found = [
        {"agent": agent.name, "path": (path := agent.path(root, user=user)), "installed": _has(path)}
        for agent in AGENTS.values()
        for user in (False, True)
    ]
    if out.json:
        out.document({"agents": found})
        return 0
    rows: list[list[Part]] = [
        [(str(entry["agent"]), "bold"), str(entry["path"]), _word(entry["installed"])] for entry in found
    ]
    out.table(("agent", "configuration", "takeback"), rows, folds=(1,))
    return 0


def _has(path: str) -> bool | None:
    """Whether takeback is in a file; None where it cannot be read."""
    from takeback.coding.install import installed
    from takeback.errors import BadSettings

    try:
        return installed(path)
    except BadSettings:
        return None


def _word(installed: Any) -> Part:
    if installed is None:
        return "cannot be read", "yellow"
    return ("installed", "green") if installed else ("", "")


def _show(session: Session, change: Change) -> None:
    looks = {"+": "green", "-": "red", "@": "cyan"}
    for note in change.notes:
        session.out.line((f"note: {note}", "yellow"))
    if change.after is None and change.before is not None:
        session.out.line((f"removes {change.path}, which was made by the installation", "bold"))
    for line in change.diff():
        session.out.line((line, looks.get(line[:1], "")))


def _tell(session: Session, change: Change) -> None:
    args, out = session.args, session.out
    if out.json:
        done = not (args.plan or change.is_none)
        said = {"agent": change.agent.name, "path": change.path, "changed": done, "diff": change.diff()}
        out.document(said | {"notes": change.notes, "then": _then(session, change)})
        return
    if change.is_none:
        state = "is not installed in" if args.uninstall else "is already installed in"
        out.line(f"takeback {state} ", (change.path, "bold"), "; nothing to change")
        return
    if args.plan:
        return
    verb = "taken out of" if args.uninstall else "installed into"
    out.line(f"✓ {verb} {change.agent.title}: ", (change.path, "bold"))
    out.lines([*([] if args.yes is False else change.notes), *_then(session, change)])


def _then(session: Session, change: Change) -> list[str]:
    """What is left for a person to do."""
    installs = not session.args.uninstall and not change.is_none
    return [change.agent.then] if installs and change.agent.then else []
