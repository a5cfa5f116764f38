"""The commands that look: threads, show, state, diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_ref, completes

if TYPE_CHECKING:
    from takeback import Checkpoint, Diff, Thread
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    _add_threads(to)
    show = to.add(
        "show",
        show_checkpoint,
        "look",
        "Show a checkpoint, and what it changed",
        more="Everything that the checkpoint says, and its difference from what stood before it; that of "
        "text files line by line.",
        example="takeback show head~2",
    )
    add_ref(show, "the checkpoint (default: head)", default="head")
    state = to.add(
        "state",
        show_state,
        "look",
        "Print a state, or one path of it, as JSON",
        more='Bytes are printed as {"$bytes": "base64"}, times as ISO text. What is printed can be '
        "edited and committed again with `takeback commit --file`.",
        example="takeback state 5 --path /plan/days",
    )
    add_ref(state, "the checkpoint whose state it is (default: head)", default="head")
    state.add_argument(
        "--path", metavar="PATH", help="print only this: a key, or a JSON Pointer such as /a/0"
    )
    diff = to.add(
        "diff",
        show_diff,
        "look",
        "Show what leads from one state to another",
        more="With one REF, from there to the head. With none, what the last version changed.",
        example="takeback diff 3 head",
    )
    add_ref(diff, "from here", name="a", default="")
    add_ref(diff, "to here (default: head)", name="b", default="head")
    diff.add_argument("--json-patch", action="store_true", help="print it as a JSON Patch (RFC 6902)")
    diff.add_argument("--files", action="store_true", help="print the changes of files as text, line by line")
    path = diff.add_argument("--path", metavar="FILE", help="with --files, of this file alone")
    completes(path, "file")


def _add_threads(to: Commands) -> None:
    parser = to.add(
        "threads",
        list_threads,
        "look",
        "List the threads, newest first",
        example="takeback threads --agent travel-agent --meta customer=acme",
    )
    parser.add_argument("--agent", metavar="NAME", help="only threads of this agent")
    parser.add_argument("--user", metavar="NAME", help="only threads of this user")
    parser.add_argument(
        "--meta",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="only threads with this in their metadata",
    )
    limit = parser.add_argument("--limit", metavar="N", type=int, help="at most so many")
    completes(limit, "none")
    parser.add_argument("--names", action="store_true", help="print names alone, one a line")


def list_threads(session: Session) -> int:
    from takeback.cli.values import pairs
    from takeback.cli.words import ago

    args, out = session.args, session.out
    found = session.repo().threads(
        agent=args.agent, user=args.user, meta=pairs(args.meta, "--meta"), limit=positive(args.limit)
    )
    if out.json:
        out.document({"threads": [info.as_dict() for info in found]})
    elif args.names:
        out.lines([info.name for info in found], indent="")
    elif not found:
        out.line("no threads")
    else:
        rows = [
            ((info.name, "bold"), info.agent or "", info.user or "", f"{info.versions:,}", ago(info.updated))
            for info in found
        ]
        out.table(("thread", "agent", "user", "versions", "last written"), rows, folds=(0, 1, 2))
    return 0


def show_checkpoint(session: Session) -> int:
    thread = session.thread()
    checkpoint = thread.at(session.args.ref).checkpoint
    diff = before(thread, checkpoint)
    names, effects = names_of(thread, checkpoint), thread.effect_notes().get(checkpoint.version, [])
    files = files_changed(thread, checkpoint)
    if session.out.json:
        said = checkpoint.as_dict() | {"names": names, "effects": effects, "changed_files": files}
        session.out.document({"checkpoint": said, "diff": diff.as_dict() if diff else None})
        return 0
    _print_facts(session, checkpoint, names, effects)
    session.out.line()
    if diff is None:
        session.out.lines([beginning(session, thread, checkpoint)])
    else:
        session.out.lines(diff.lines() or ([] if files else ["the state did not change"]))
    if files:
        from takeback.cli.files import show_text

        session.out.lines(files)
        show_text(session, thread, thread.at(checkpoint.before).checkpoint, checkpoint, None)
    return 0


def show_state(session: Session) -> int:
    thread = session.thread()
    view = thread.at(session.args.ref)
    value = view.state if session.args.path is None else view.get(session.args.path)
    if view.checkpoint.version == thread.version:
        note_differences(session, thread)
    if session.out.json:
        session.out.document(value)
    else:
        session.out.value(value)
    return 0


def show_diff(session: Session) -> int:
    from takeback.errors import BadRequest

    args, out, thread = session.args, session.out, session.files_thread("before a diff")
    diff = thread.diff(args.a, args.b) if args.a else before(thread, thread.head)
    if diff is None:
        raise BadRequest(
            "version 0 changed nothing: nothing stood before it",
            thread=thread.name,
            hint="`takeback state` shows it",
        )
    if args.path and not args.files:
        raise BadRequest("--path names a file whose text is shown", hint="Give --files with it")
    if args.json_patch:
        out.document(diff.as_json_patch())
    elif out.json:
        out.document({"thread": thread.name} | diff.as_dict() | {"files": _files_dict(thread, diff)})
    elif args.files:
        from takeback.cli.files import show_text

        show_text(session, thread, diff.before, diff.after, args.path)
    else:
        from takeback.cli.files import shown

        out.line((f"{thread.name}  ", "bold"), (f"{diff.before.version} → {diff.after.version}", "cyan"))
        out.lines([*diff.lines(), *shown(thread, diff.before, diff.after)] or ["no difference"])
    return 0


def _files_dict(thread: Thread[Any], diff: Diff) -> list[dict[str, Any]]:
    from takeback.cli.files import changes, given_up

    if given_up(thread, diff.before, diff.after):
        return []
    return [each.as_dict() for each in changes(thread, diff.before, diff.after)]


def files_changed(thread: Thread[Any], checkpoint: Checkpoint) -> list[str]:
    """What a checkpoint changed of files, a line each."""
    from takeback.cli.files import shown

    if checkpoint.before is None:
        return []
    return shown(thread, thread.at(checkpoint.before).checkpoint, checkpoint)


def note_differences(session: Session, thread: Thread[Any]) -> None:
    """Beside a state or a history: that the world is not what they say."""
    if session.out.json:
        return
    part = thread.discrepancies()
    part.groups.pop("stays", None)  # it had to be acknowledged, and will differ for ever
    lines = part.lines()
    if lines:
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        session.out.note(f"{lines[0]}{more}; see `{session.again('effects')}`")


def before(thread: Thread[Any], checkpoint: Checkpoint) -> Diff | None:
    """What a checkpoint changed; None for the first, before which nothing stood."""
    return None if checkpoint.before is None else thread.diff(checkpoint.before, checkpoint)


def names_of(thread: Thread[Any], checkpoint: Checkpoint) -> list[str]:
    """What points at a checkpoint: the head, and labels."""
    head = ["head"] if checkpoint.version == thread.head.version else []
    return head + sorted(name for name, version in thread.labels.items() if version == checkpoint.version)


def beginning(session: Session, thread: Thread[Any], checkpoint: Checkpoint) -> str:
    """What a first version began with: a state, or that of the checkpoint that it was forked from."""
    from takeback.cli import words

    if checkpoint.origin is not None:
        source = name_of(session)(checkpoint.origin)
        return f"begins with the state of {source} at version {checkpoint.origin.version}"
    return words.beginning(thread.at(checkpoint).state)


def name_of(session: Session) -> Any:
    """From a pointer to the name of its thread, which the store is asked for once."""
    known: dict[bytes, str] = {}

    def find(pointer: Any) -> str:
        if not known:
            known.update((info.uid, info.name) for info in session.repo().threads())
        return known.get(pointer.uid, "a thread that is gone")

    return find


def positive(number: int | None) -> int | None:
    from takeback.errors import BadRequest

    if number is not None and number < 1:
        raise BadRequest(f"--limit {number} is less than 1", hint="Leave it out to see all")
    return number


def _print_facts(session: Session, c: Checkpoint, names: list[str], effects: list[str]) -> None:
    from takeback.cli.output import dumps
    from takeback.cli.words import ago, deed, local

    trace = " ".join(part for part in (c.trace_id, c.span_id) if part)
    meta = {key: value for key, value in c.meta.items() if not key.startswith("takeback.")}
    session.out.facts(
        [
            ("thread", (c.thread, "bold")),
            ("version", str(c.version)),
            ("id", (c.id, "cyan")),
            ("names", (", ".join(names), "green")),
            ("kind", deed(c, name_of(session))),
            ("when", f"{local(c.time)} ({ago(c.time)})"),
            ("actor", c.actor),
            ("reason", c.reason),
            ("trace", trace),
            ("metadata", dumps(meta, indent=None) if meta else None),
            ("bookmark", c.bookmark),
            ("written by", c.build),
            *[("effect", (note, "magenta")) for note in effects],
        ]
    )
