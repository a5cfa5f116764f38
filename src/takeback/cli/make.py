"""The commands that make versions and name them: commit, label, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_reason, add_ref, completes

if TYPE_CHECKING:
    import argparse

    from takeback import Checkpoint, Thread
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    _add_commit(to)
    label = to.add(
        "label",
        put_label,
        "make",
        "Name a checkpoint, or take a name away",
        more="A label moves if it named another checkpoint; the audit log remembers.",
        example="takeback label before-the-trip 5",
    )
    completes(label.add_argument("name", metavar="NAME", help="the label"), "label")
    add_ref(label, "the checkpoint that it names (default: head)", default="")
    label.add_argument("--delete", action="store_true", help="take the label away; the checkpoint stays")
    labels = to.add("labels", list_labels, "make", "List the labels of a thread", example="takeback labels")
    labels.add_argument("--names", action="store_true", help="print names alone, one a line")


def _add_commit(to: Commands) -> None:
    parser = to.add(
        "commit",
        commit,
        "make",
        "Make a version: a whole state, or some changes to it",
        more="Without a state, or changes to one: the files of the workspace as they are; with -m it begins "
        "one in this directory. A PATH is a top-level key, or a JSON Pointer such as /plan/days/0. The first "
        "commit makes the thread, and the store. --set, --delete and --append may be given more than "
        "once and make one version.",
        example="""takeback commit --set 'to="NYC"' --append 'days="museum"' -m "the user asked\"""",
    )
    completes(
        parser.add_argument("--file", metavar="FILE", help="the whole state, as JSON; - is standard input"),
        "file",
    )
    parser.add_argument(
        "--set", metavar="PATH=JSON", action="append", default=[], help="what stands at a path from now on"
    )
    parser.add_argument("--delete", metavar="PATH", action="append", default=[], help="what to remove")
    parser.add_argument(
        "--append", metavar="PATH=JSON", action="append", default=[], help="an item for the end of a list"
    )
    add_reason(parser)
    parser.add_argument(
        "--meta", metavar="KEY=VALUE", action="append", default=[], help="metadata, kept with the new version"
    )
    expect = parser.add_argument("--expect", metavar="REF", help="only if this is still the head")
    completes(expect, "ref")
    parser.add_argument("--agent", metavar="NAME", help="whose thread it is; another's is refused")
    parser.add_argument("--user", metavar="NAME", help="for whom; a thread for another is refused")


def commit(session: Session) -> int:
    from takeback.cli.values import assignment, pairs, state_from

    args = session.args
    if not (args.file or args.set or args.delete or args.append) and _commits_files(session):
        return _commit_files(session)
    _check_what(args)
    # All of it is read before the store is opened: a mistake in a value makes no store and no thread.
    said = {"reason": args.reason, "meta": pairs(args.meta, "--meta")}
    said |= {"expect": args.expect} if args.expect else {}
    if args.file:
        state = state_from(args.file)
        thread = session.thread_to_write(args.agent, args.user)
        return _made(session, thread, thread.commit(state, **said))
    put = [assignment(text, "--set") for text in args.set]
    added = [assignment(text, "--append") for text in args.append]
    _refuse_twice([path for path, _ in put] + args.delete + list({path for path, _ in added}))
    thread = session.thread_to_write(args.agent, args.user)
    return _made(session, thread, _edited(thread, put, args.delete, added, said))


def _commits_files(session: Session) -> bool:
    """Whether a commit without a state is one of files: in a workspace, or where it would begin one."""
    place = session.place()
    return place.workspace is not None or (place.ours and session.args.reason is not None)


def _commit_files(session: Session) -> int:
    """The files of the directory one stands in, which becomes a workspace with its first version."""
    import os
    from json import dumps

    from takeback import places
    from takeback.cli import files
    from takeback.cli.values import pairs
    from takeback.coding import client

    args, around = session.args, session.place().workspace
    if around is None:
        around = client.enrol(places.project_of(os.getcwd()))
        session.out.note(f"{around[0]} is a workspace from now on")
    files.told_failures(session, around[1])
    said = {
        "reason": args.reason,
        "actor": args.actor or places.login_name(),
        "meta": pairs(args.meta, "--meta"),
    }
    version = client.asked(*around, b"commit\n" + dumps(said).encode())
    thread = session.thread()
    return _made(session, thread, thread.at(int(version)).checkpoint)


def put_label(session: Session) -> int:
    from takeback.errors import BadRequest

    args, out = session.args, session.out
    if args.delete and args.ref:
        raise BadRequest("a label is taken away from wherever it is", hint="Leave the REF out")
    thread = session.thread()
    if args.delete:
        thread.unlabel(args.name)
        if out.json:
            out.document({"thread": thread.name, "label": args.name, "version": None})
        else:
            out.line("took away the label ", (args.name, "green"), " of ", (thread.name, "bold"))
        return 0
    named = thread.label(args.name, args.ref or "head")
    if out.json:
        out.document({"thread": thread.name, "label": args.name, "version": named.version, "id": named.id})
    else:
        out.line((args.name, "green"), f" is version {named.version} of ", (thread.name, "bold"))
    return 0


def list_labels(session: Session) -> int:
    out, thread = session.out, session.thread()
    labels = dict(sorted(thread.labels.items(), key=lambda item: (item[1], item[0])))
    if out.json:
        out.document({"thread": thread.name, "labels": labels})
    elif session.args.names:
        out.lines(list(labels), indent="")
    elif not labels:
        out.line(f"{thread.name} has no labels")
    else:
        rows = [((name, "green"), str(version)) for name, version in labels.items()]
        out.table(("label", "version"), rows, folds=(0,))
    return 0


def _check_what(args: argparse.Namespace) -> None:
    from takeback.errors import BadRequest

    edits = bool(args.set or args.delete or args.append)
    if args.file and edits:
        raise BadRequest(
            "--file is the whole state; --set, --delete and --append change one", hint="Give either"
        )
    if not args.file and not edits:
        raise BadRequest(
            "nothing to commit", hint="Give a state with --file, or changes with --set, --delete or --append"
        )


def _refuse_twice(paths: list[str]) -> None:
    """Which of two edits of one place should hold is not ours to say."""
    from takeback.errors import BadRequest

    pointers = [_pointer(path) for path in paths]
    for place in pointers:
        if pointers.count(place) > 1:
            raise BadRequest(f"{place} is given twice", hint="Make one edit of the two")


def _edited(
    thread: Thread[Any], put: list[tuple[str, Any]], gone: list[str], added: list[tuple[str, Any]], said: Any
) -> Checkpoint:
    """One version of all the edits: by the verb that is meant for them, where one is enough."""
    from takeback import DELETE
    from takeback.errors import BadPath

    if not thread.exists:
        return thread.json_patch(_first(put, gone, added), **said)
    paths = {path for path, _ in added}
    if not put and not gone and len(paths) == 1:
        return thread.extend(paths.pop(), [item for _, item in added], **said)
    changes = dict(put) | dict.fromkeys(gone, DELETE)
    for path in paths:
        held = thread.get(path)
        if not isinstance(held, list):
            raise BadPath("no list stands here to append to", thread=thread.name, path=_pointer(path))
        changes[path] = [*held, *(item for place, item in added if place == path)]
    return thread.patch(changes, **said)


def _first(put: list[tuple[str, Any]], gone: list[str], added: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    """The edits as operations on the empty state that a new thread starts from."""
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": _pointer(p), "value": value} for p, value in put
    ]
    operations += [{"op": "remove", "path": _pointer(path)} for path in gone]
    return operations + [{"op": "add", "path": f"{_pointer(p)}/-", "value": item} for p, item in added]


def _pointer(path: str) -> str:
    return path if path.startswith("/") else "/" + path.replace("~", "~0").replace("/", "~1")


def _made(session: Session, thread: Thread[Any], made: Checkpoint) -> int:
    from takeback.cli.look import before, beginning, files_changed

    out = session.out
    if out.json:
        out.document(made.as_dict())
        return 0
    diff = before(thread, made)
    out.line((thread.name, "bold"), f" is at version {made.version} (", (made.id, "cyan"), ")")
    if diff is None:
        out.lines([beginning(session, thread, made)])
    else:
        out.lines([*diff.lines(20), *files_changed(thread, made)] or ["the state did not change"])
    return 0
