"""The commands that show the way: demo, help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, build, completes, families, nearest, page, subparsers

if TYPE_CHECKING:
    from takeback.cli.session import Session


def add(to: Commands) -> None:
    demo = to.add(
        "demo",
        run_demo,
        "help",
        "See an agent's work go wrong, and be taken back",
        more="Runs on a store of its own, in a few seconds; your store is not touched. Everything that "
        "it prints is what the library returned.",
        example="takeback demo --keep trip.db",
    )
    keep = demo.add_argument(
        "--keep", metavar="FILE", help="where its store is made (default: a temporary folder)"
    )
    completes(keep, "file")
    demo.add_argument("--fast", action="store_true", help="do not pause for reading")
    about = to.add(
        "help", show_help, "help", "Show this page, or that of a command", example="takeback help rollback"
    )
    completes(about.add_argument("about", metavar="ABOUT", nargs="*", help="a command"), "command")


def run_demo(session: Session) -> int:
    from takeback import demo

    return demo.run(session.out, keep=session.args.keep, fast=session.args.fast)


def show_help(session: Session) -> int:
    from takeback.errors import BadRequest

    root, about = build(), " ".join(session.args.about)
    found = page(root, about)
    if found is None:
        meant = nearest(about, [*subparsers(root), *families(root)])
        raise BadRequest(
            f"there is no command {about!r}",
            hint=f"Did you mean {meant}?" if meant else "See `takeback --help`",
        )
    text = found.format_help()
    if session.out.json:
        session.out.document({"help": text})
    else:
        session.out.lines(text.splitlines(), indent="")
    return 0
