"""The commands of trust: verify, seal, keygen, audit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, completes

if TYPE_CHECKING:
    from takeback import Report
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    _add_verify(to)
    seal = to.add(
        "seal",
        seal_head,
        "trust",
        "Write down the head, to verify against later",
        more="Keep a seal where whoever can write the store cannot: verify then finds a history that "
        "was cut off or rewritten. Signed with a private key, it can be checked by those who "
        "cannot make one.",
        example="takeback seal --out trip.seal --private-key seal.key",
    )
    completes(
        seal.add_argument("--out", metavar="FILE", help="where to write it (default: print it)"), "file"
    )
    key = seal.add_argument("--private-key", metavar="FILE", help="the Ed25519 key to sign with, from keygen")
    completes(key, "file")
    keygen = to.add(
        "keygen",
        make_keys,
        "trust",
        "Make an Ed25519 key pair for seals and approvals",
        more="Writes FILE, which only you can read, and FILE.pub for whoever verifies. Writes over nothing.",
        example="takeback keygen seal.key",
    )
    completes(keygen.add_argument("file", metavar="FILE", help="where the private key goes"), "file")
    to.add(
        "audit",
        show_audit,
        "trust",
        "List what was done beside checkpoints",
        more="Labels, seals, imports and deletions, oldest first: of the whole store, or of one thread "
        "if it is named.",
        example="takeback audit --json",
    )


def _add_verify(to: Commands) -> None:
    parser = to.add(
        "verify",
        verify,
        "trust",
        "Recompute everything that a history rests on",
        more="Finds what was changed, removed, reordered or inserted; with the signing key also what "
        "was forged, and against a seal what was cut off. Exit code 6 when something does not "
        "hold.",
        example="takeback verify --seal trip.seal --public-key seal.key.pub",
    )
    parser.add_argument("--all", action="store_true", help="every thread of the store")
    completes(parser.add_argument("--seal", metavar="FILE", help="a seal of this thread"), "file")
    key = parser.add_argument(
        "--public-key", metavar="FILE", help="the key that the seal must be signed with"
    )
    completes(key, "file")


def verify(session: Session) -> int:
    from takeback.cli.values import file_bytes, public_key
    from takeback.errors import BadRequest, IntegrityError

    args = session.args
    if args.all and args.seal:
        raise BadRequest("a seal is of one thread", hint="Leave --all out")
    if args.public_key and not args.seal:
        raise BadRequest("--public-key checks the signature of a seal", hint="Give --seal too")
    seal = file_bytes(args.seal).decode("utf-8", "replace") if args.seal else None
    key = public_key(args.public_key) if args.public_key else None
    name = None if args.all else session.thread_name()
    reports = list(session.repo().verify(name, seal=seal, public_key=key))
    sound = all(report.ok for report in reports)
    if session.out.json:
        session.out.document({"ok": sound, "threads": [report.as_dict() for report in reports]})
    else:
        _show_reports(session, reports)
    return 0 if sound else IntegrityError.exit_code


def seal_head(session: Session) -> int:
    from takeback.cli.values import private_key, refuse_existing, write_new

    args, out = session.args, session.out
    key = private_key(args.private_key) if args.private_key else None
    if args.out:
        refuse_existing(args.out)  # before the audit log says that there is a seal
    seal = session.thread().seal(private_key=key)
    if args.out:
        write_new(args.out, seal.dumps())
    if out.json:
        out.document(seal.as_dict())
    elif args.out:
        signed = "signed " if seal.signature else ""
        out.line(f"{signed}seal of ", (seal.thread, "bold"), f" at version {seal.version}: {args.out}")
        out.line("keep it where whoever can write the store cannot")
    else:
        out.lines(seal.dumps().splitlines(), indent="")
    return 0


def make_keys(session: Session) -> int:
    from takeback import new_key
    from takeback.cli.values import key_texts, write_new
    from takeback.errors import BadRequest

    name, out = session.args.file, session.out
    private, public = key_texts(*new_key())
    write_new(name + ".pub", public)
    try:
        write_new(name, private, private=True)
    except BadRequest:  # then the other half would be of no use
        os.unlink(name + ".pub")
        raise
    if out.json:
        out.document({"private": name, "public": name + ".pub"})
    else:
        out.line(
            "private key  ", (name, "bold"), "  (signs seals and approvals; keep it away from the store)"
        )
        out.line("public key   ", (name + ".pub", "bold"), "  (checks them; give it to whoever verifies)")
    return 0


def show_audit(session: Session) -> int:
    from takeback.cli.words import local

    out, repo = session.out, session.repo()
    entries = session.thread().audit() if session.named else repo.audit()
    if out.json:
        out.document({"entries": [entry.as_dict() for entry in entries]})
        return 0
    rows = [
        (
            local(entry.time),
            (entry.action, "bold"),
            entry.thread or "",
            entry.actor or "",
            _detail(entry.detail),
        )
        for entry in entries
    ]
    if rows:
        out.table(("when", "what", "thread", "actor", "detail"), rows, folds=(2, 3, 4))
    else:
        out.line("nothing was done beside checkpoints")
    return 0


def _detail(detail: dict[str, object]) -> str:
    said = {
        name: value for name, value in detail.items() if value is not None and not isinstance(value, bytes)
    }
    return ", ".join(f"{name} {value}" for name, value in said.items())


def _show_reports(session: Session, reports: list[Report]) -> None:
    from takeback.cli.words import count

    out = session.out
    for report in reports:
        looked = f"{count(report.checkpoints, 'checkpoint')}, {count(report.objects, 'object')}"
        signed = f", {report.signed:,} signed" if report.signed else ""
        sealed = f", as sealed at version {report.sealed_to}" if report.sealed_to is not None else ""
        verdict = "sound" if report.ok else count(len(report.problems), "problem")
        style = "green" if report.ok else "bold red"
        sign = "✓" if report.ok else "✗"
        out.line((f"{sign} {verdict}", style), "  ", (report.thread, "bold"), f"  ({looked}{signed}{sealed})")
        for problem in report.problems:
            out.line("  ", (str(problem), "red"))
        out.lines([f"note: {note}" for note in report.notes])
    if not reports:
        out.line("no threads")
