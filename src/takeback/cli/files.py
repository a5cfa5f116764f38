"""Files on the command line: the watcher of the directory one stands in, status, and changes as lines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands

if TYPE_CHECKING:
    from takeback import Checkpoint, Thread
    from takeback.cli.session import Session
    from takeback.engine.file_words import FileChange

_LOOKS = {"+": "green", "-": "red", "@": "cyan"}
_MANY = 6


def add(to: Commands) -> None:
    to.add(
        "status",
        show_status,
        "look",
        "Show what of a workspace's files is in no version yet",
        more="And what is left out, why, and how changes are found. Reads only.",
        example="takeback status",
    )


def show_status(session: Session) -> int:
    from takeback.errors import WorkspaceMissing

    said = _asked(session, b"status\n")
    if said is not None:
        from json import loads

        statuses, extra = loads(said)["workspaces"], loads(said)
    else:
        thread = session.thread()
        here = [workspace for workspace in thread.workspaces() if os.path.isdir(workspace.path)]
        statuses = [workspace.status().as_dict() for workspace in here]
        extra = {"thread": thread.name, "version": thread.version}
    if not statuses:
        raise WorkspaceMissing(
            "no workspace is here",
            hint="`takeback commit -m …` or `takeback run COMMAND` begins one for this directory",
        )
    if session.out.json:
        session.out.document(extra | {"workspaces": statuses})
        return 0
    for status in statuses:
        _show_status(session, status, extra)
    return 0


def _show_status(session: Session, status: dict[str, Any], extra: dict[str, Any]) -> None:
    out, changes = session.out, status["changes"]
    how = "watched" if status["watching"] else "looked at as a whole each time"
    out.line((status["path"], "bold"), f"  thread {extra['thread']}, version {extra['version']}; {how}")
    for change in changes:
        counts = _counts(change["added"], change["removed"])
        out.line("  ", (f"{change['what']:8}", "yellow"), f" {change['path']}{counts}")
    if not changes:
        out.line("  every file is as the last version has it")
    for path, why in sorted(status["left_out"].items())[:20]:
        out.line("  ", (f"left out {path}: {why}", "dim"))
    if len(status["left_out"]) > 20:
        out.line("  ", (f"and {len(status['left_out']) - 20} more are left out", "dim"))
    if status["missed_by_watching"]:
        out.line("  ", (f"watching has missed {status['missed_by_watching']} changes so far", "yellow"))


# --- the watcher


def catch_up(session: Session, why: str) -> None:
    """Have the watcher record what changed by now: it knows whose that is."""
    _asked(session, f"capture {why}\n".encode())


def attend(session: Session, thread: Thread[Any]) -> None:
    """Let the watcher say which files a plan has to look at, where it knows."""
    around = session.place().workspace
    if around is None:
        return
    from takeback.coding.remote import attend as attending
    from takeback.errors import TakebackError

    try:
        attending(thread, *around)
    except (TakebackError, OSError) as error:
        session.out.note(f"every file is looked at: {error}")


def _asked(session: Session, request: bytes) -> bytes | None:
    """What the watcher of this directory says; None outside of workspaces, or where it cannot be asked:
    then the command does what it can by itself, and says so."""
    around = session.place().workspace
    if around is None:
        return None
    told_failures(session, around[1])
    from takeback.coding import client
    from takeback.errors import TakebackError

    try:
        return client.asked(*around, request)
    except (TakebackError, OSError) as error:
        session.out.note(str(error))
        return None


def told_failures(session: Session, folder: str) -> None:
    """What hooks could not do since the last command: said once, loudly."""
    from takeback import places

    for path in (os.path.join(folder, places.FAILURES), os.path.join(places.data_home(), "hook.log")):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            os.replace(path, f"{path}.seen")
        except OSError:  # none, or somebody else has just said it
            continue
        steps = "1 step was" if len(lines) == 1 else f"{len(lines)} steps were"
        session.out.note(f"{steps} not recorded, the last one because of: {lines[-1] if lines else '?'}")
        session.out.note(f"all of it is in {path}.seen")


# --- changes of files


def changes(thread: Thread[Any], before: Checkpoint, after: Checkpoint) -> list[FileChange]:
    """What leads from one version's files to another's; none where neither has any."""
    names = {root.workspace for each in (before, after) for root in each.files}
    one = {root.workspace: root.manifest for root in before.files}
    two = {root.workspace: root.manifest for root in after.files}
    different = sorted(name for name in names if one.get(name) != two.get(name))
    return [each for name in different for each in thread.diff_files(before, after, workspace=name)]


def given_up(thread: Thread[Any], *checkpoints: Checkpoint) -> bool:
    """Whether the files of one of these were given up to save space."""
    runs = thread.pruned()
    return any(low <= c.version <= high for c in checkpoints for low, high in runs)


def shown(thread: Thread[Any], before: Checkpoint, after: Checkpoint) -> list[str]:
    """Changes of files, a line each; or that they are gone."""
    if given_up(thread, before, after):
        return ["the files were given up to save space"]
    return [
        f"{each.name}: {each.what}{_counts(each.added, each.removed)}"
        for each in changes(thread, before, after)
    ]


def brief(thread: Thread[Any], before: Checkpoint, after: Checkpoint) -> str:
    """Changes of files in a line."""
    if before.files == after.files:
        return ""
    if given_up(thread, before, after):
        return "files given up to save space"
    found = [
        f"{'+' if each.before is None else '−' if each.after is None else ''}{each.name}"
        f"{_counts(each.added, each.removed)}"
        for each in changes(thread, before, after)
    ]
    return ", ".join(found[:_MANY]) + (f" and {len(found) - _MANY} more" if len(found) > _MANY else "")


def show_text(
    session: Session, thread: Thread[Any], before: Checkpoint, after: Checkpoint, path: str | None
) -> None:
    """Changes of files as a unified diff."""
    if given_up(thread, before, after):
        session.out.line("the files were given up to save space")
        return
    names = sorted({root.workspace for each in (before, after) for root in each.files})
    for name in names:
        for line in thread.diff_files(before, after, workspace=name).text(path).splitlines():
            session.out.line((line, _LOOKS.get(line[:1], "")))


def _counts(added: int | None, removed: int | None) -> str:
    return f" (+{added} −{removed})" if added or removed else ""
