"""The commands that move threads between stores, and remove them: export, import, copy, delete."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, add_reason, completes

if TYPE_CHECKING:
    from takeback import CopyReport
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    export = to.add(
        "export",
        export_thread,
        "move",
        "Write a thread to one file, or a version's files as a git commit",
        more="Its whole history, with labels; checkpoints keep their digests, so that seals still hold.\n\n"
        "With --git, the files of one version become a commit on a new branch of the workspace's repository, "
        "after the commit that was checked out then. Neither the files nor the index are touched.",
        example="takeback export trip.takeback",
    )
    file = export.add_argument("file", metavar="FILE", nargs="?", help="the file to write")
    completes(file, "file")
    branch = export.add_argument("--git", metavar="BRANCH", help="write a commit on this new branch instead")
    completes(branch, "none")
    completes(
        export.add_argument("--ref", metavar="REF", help="with --git, which version (default: head)"), "ref"
    )
    export.add_argument("--force", action="store_true", help="write over a file that is there")
    bring = to.add(
        "import",
        import_thread,
        "move",
        "Bring a thread in from a file",
        more="All of it is verified before any of it is written. Or all threads of LangGraph's own savers: "
        "`import langgraph-sqlite FILE`, `import langgraph-postgres DSN`, each compared with what was read; "
        "what they are brought from is not changed, and run again it goes on where it was broken off.",
        example="takeback import trip.takeback --name travel/42-copy",
    )
    completes(
        bring.add_argument(
            "file", metavar="FILE", nargs="+", help="a file that `takeback export` wrote, or KIND FILE"
        ),
        "file",
    )
    bring.add_argument("--name", metavar="NAME", help="its name here (default: the one that it had)")
    copy = to.add(
        "copy",
        copy_threads,
        "move",
        "Copy threads to another store",
        more="History, labels, effects, approvals and the audit log, with their uids, ids and digests, and "
        "verified there. Run again, it adds what has come since, or goes on where it was broken off. What "
        "cannot be copied is named, and does not stop the rest. A thread that shares effects with its forks "
        "takes them along.",
        example="takeback copy agent.db other.db travel/42",
    )
    completes(copy.add_argument("source", metavar="SRC", help="the store to copy from"), "file")
    completes(copy.add_argument("destination", metavar="DST", help="the store to copy to"), "file")
    which = copy.add_argument("names", metavar="NAME", nargs="*", help="only these threads (default: all)")
    completes(which, "thread")
    copy.add_argument("--to-tenant", metavar="NAME", help="whose they are there (default: as here)")
    delete = to.add(
        "delete",
        delete_thread,
        "move",
        "Remove a thread for good",
        more="The one thing that cannot be taken back: its versions and labels go. Forks of it keep "
        "what they share. Asks; the audit log remembers. The thread must be named.",
        example="takeback delete --thread travel/42 -m 'the customer asked'",
    )
    delete.add_argument("--yes", action="store_true", help="do not ask")
    add_reason(delete)


def export_thread(session: Session) -> int:
    from takeback.cli.words import count, runs
    from takeback.errors import BadRequest

    args, out, thread = session.args, session.out, session.thread()
    if (args.file is None) == (args.git is None) or (args.ref and not args.git):
        raise BadRequest("export takes a FILE, or --git with a branch and perhaps --ref", hint="Give either")
    if args.git is not None:
        return _export_commit(session)
    if os.path.exists(args.file) and not args.force:
        raise BadRequest(f"{args.file} exists already", hint="Give --force to write over it")
    written, gone = session.repo().export(thread.name, args.file), thread.pruned()
    if out.json:
        said = {"thread": thread.name, "file": args.file, "checkpoints": written}
        out.document(said | {"pruned": [{"from": low, "to": high} for low, high in gone]})
        return 0
    out.line((thread.name, "bold"), f": {count(written, 'checkpoint')} in {args.file}")
    if gone:
        out.line(f"without the files of versions {runs(gone)}, which were given up to save space")
    return 0


def _export_commit(session: Session) -> int:
    from takeback.surroundings import export_commit

    args, out, thread = session.args, session.out, session.thread()
    made = export_commit(thread, args.ref or "head", args.git)
    if out.json:
        out.document({"thread": thread.name, "branch": args.git} | made.as_dict())
        return 0
    out.line(
        (args.git, "green"), f" is commit {made.commit[:12]}: {made.files:,} files of version {made.version}"
    )
    out.lines([f"left out {path}: {why}" for path, why in made.left_out.items()])
    return 0


def import_thread(session: Session) -> int:
    from takeback.cli.values import file_bytes
    from takeback.cli.words import count

    args, out = session.args, session.out
    if len(args.file) > 1:
        return _import_graphs(session)
    (file,) = args.file
    if not os.path.isfile(file):
        file_bytes(file)  # says why it cannot be read, before a store is made for it
    thread = session.repo(create=True).import_(file, name=args.name)
    if out.json:
        out.document({"thread": thread.info.as_dict()})
    else:
        out.line(
            (thread.name, "bold"), f": {count(thread.info.versions, 'checkpoint')}, verified and brought in"
        )
    return 0


def _import_graphs(session: Session) -> int:
    from takeback.cli.words import count
    from takeback.errors import BadRequest

    args, out = session.args, session.out
    kinds = ("langgraph-sqlite", "langgraph-postgres")
    if len(args.file) != 2 or args.file[0] not in kinds or args.name:
        raise BadRequest(
            "import takes one file, or where LangGraph's savers wrote to",
            hint=f"takeback import {' FILE, or '.join(kinds)} DSN; without --name",
        )
    kind, where = args.file
    if kind == "langgraph-sqlite" and not os.path.isfile(where):
        raise BadRequest(f"there is no file {where}")
    from takeback.adapters.langgraph import TakebackSaver, bring_in

    wanted = [args.thread] if args.thread else None
    moved = bring_in(TakebackSaver(session.repo(create=True)), kind, where, thread_ids=wanted)
    if out.json:
        out.document(moved.as_dict())
    else:
        said = (
            count(moved.threads, "thread"),
            count(moved.checkpoints, "checkpoint"),
            count(moved.writes, "write"),
        )
        out.line(f"brought in {', '.join(said)}; compared with what was read, and verified")
    return 0


def copy_threads(session: Session) -> int:
    from takeback.errors import BadRequest, NotCopied

    args, out = session.args, session.out
    if args.db:
        raise BadRequest("copy is told both its stores", hint="takeback copy SRC DST, without --db")
    args.db = args.source
    names = list(dict.fromkeys([*args.names, *([args.thread] if args.thread else [])])) or None
    problem: NotCopied | None = None
    with out.progress("checkpoints") as progress:
        try:
            report = session.repo().copy(
                args.destination, threads=names, tenant=args.to_tenant, progress=progress
            )
        except NotCopied as error:
            problem, report = error, error.report
    if out.json:
        out.document(report.as_dict())
        return 0 if problem is None else problem.exit_code
    _show_copy(session, report)
    return 0 if problem is None else problem.exit_code


def _show_copy(session: Session, report: CopyReport) -> None:
    from takeback.cli.words import count, size

    out = session.out
    changed = [each for each in report.threads if each.outcome != "same"]
    if changed:
        rows = [(each.thread, each.outcome, f"{each.added:,}", f"{each.versions:,}") for each in changed]
        out.table(("thread", "", "added", "versions"), rows, folds=(0,))
    for each in changed:
        out.lines([f"{each.thread}: {note}" for note in each.notes])
        if each.problem is not None:
            out.line((f"{each.thread}: ", "bold"), (each.problem.what, "red"))
            out.lines([each.problem.hint] if each.problem.hint else [])
    out.lines(report.notes, indent="")
    same = len(report.threads) - len(changed)
    unchanged = f"nothing new in {count(same, 'thread')}" if same else ""
    said = [count(report.checkpoints, "checkpoint"), count(report.objects, "object"), size(report.bytes)]
    written = f"copied {', '.join(said)}, verified, to {report.destination}" if report.checkpoints else ""
    if report.threads:
        out.line("; ".join(filter(None, [written, unchanged])) or "nothing was copied")
    else:
        out.line("there is nothing to copy")


def delete_thread(session: Session) -> int:
    from takeback.cli.ask import confirmed, reason
    from takeback.cli.words import count
    from takeback.errors import BadRequest

    args, out = session.args, session.out
    if not session.named:
        raise BadRequest("delete removes a thread for good, so it must be named", hint="Give --thread")
    thread = session.thread()
    versions = thread.info.versions
    why = args.reason
    if not args.yes:
        question = f"Remove {thread.name!r} with its {count(versions, 'version')}? This cannot be undone."
        if not confirmed(session, question, "delete"):
            return 1
        why = why if why is not None else reason(session)
    thread.delete(reason=why)
    if out.json:
        out.document({"thread": thread.name, "deleted": True, "versions": versions})
    else:
        out.line("removed ", (thread.name, "bold"), f" with its {count(versions, 'version')}")
    return 0
