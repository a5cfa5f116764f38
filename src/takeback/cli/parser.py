"""The parser: global options, commands in groups, help pages, and mistakes that say what was meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from takeback._version import __version__

if TYPE_CHECKING:
    from takeback.cli.session import Session
    from takeback.errors import BadRequest

Run: TypeAlias = "Callable[[Session], int]"

GROUPS = {
    "look": "Look",
    "make": "Make versions",
    "back": "Take back",
    "world": "Effects and people",
    "lines": "Other lines",
    "agents": "Coding agents",
    "trust": "Trust",
    "move": "Move and remove",
    "help": "Help",
}

_INTRO = "A durable undo for AI agents: see what an agent did, and take it back."

_EXAMPLES = """\
Examples:
  takeback log --graph                  what happened, newest first
  takeback diff 5 head                  what changed since version 5
  takeback rollback 5 --plan            what going back would do; changes nothing
  takeback rollback 5 -m "wrong city"   go back; asks first
  takeback undo                         take the last operation back
  takeback effects                      what the agent did to the world
  takeback recover                      what waits for somebody after a crash
  takeback demo                         see all of it, on a store of its own
"""

_REFERENCES = """\
A REF names a checkpoint: a version (5), an id or its beginning (c5-4f9a), head,
head~2, a label, a bookmark (b5-…) or an ISO time with its zone. The thread is
the one that was written to last, unless --thread or TAKEBACK_THREAD names one.
"""

_EXIT_CODES = """\
Exit codes:
    0  done
    1  not done: an internal error, or a question that was answered with no
    2  wrong request: usage, a bad reference, a value that cannot be stored
    3  not found: no such thread, checkpoint or label
    4  something moved, or somebody has to decide first: look again, then decide
    5  the store cannot be opened, read or written
    6  integrity: what is stored is not what was written
  130  interrupted
"""


class Parser(argparse.ArgumentParser):
    """argparse, with its mistakes as errors of ours, and pages that put what is particular first."""

    def __init__(self, prog: str, *, more: str = "", **options: Any) -> None:
        super().__init__(prog, add_help=False, allow_abbrev=False, formatter_class=_Formatter, **options)
        self.more = more
        self._positionals.title = "arguments"
        self.add_argument("-h", "--help", action="help", help="show this page")

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, list(actions(self)), [])
        formatter.add_text("\n\n".join(map(_filled, [self.description or "", *self.more.split("\n\n")])))
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        raise _mistake(message[:1].lower() + message[1:], self.prog)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise _mistake(f"there is no command {value!r}", self.prog, nearest(value, list(action.choices)))
        super()._check_value(action, value)


class RootParser(Parser):
    """The parser of `takeback` itself, whose help shows the commands in groups."""

    commands: dict[str, list[tuple[str, str]]]

    def format_help(self) -> str:
        width = max(len(name) for group in self.commands.values() for name, _ in group)
        blocks = [f"usage: takeback [OPTION…] COMMAND [ARGUMENT…]\n\n{_INTRO}\n"]
        for key, title in GROUPS.items():
            rows = [f"  {name.ljust(width)}  {text}" for name, text in self.commands[key]]
            blocks.append("\n".join([f"{title}:", *rows, ""]))
        blocks += [self._options_help(), _EXAMPLES, _REFERENCES, _EXIT_CODES]
        return "\n".join(blocks) + "\n`takeback COMMAND --help` tells more of a command.\n"

    def _options_help(self) -> str:
        formatter = self._get_formatter()
        formatter.start_section("Options, before or after the command")
        formatter.add_arguments([a for a in self._actions if a.option_strings])
        formatter.end_section()
        return formatter.format_help()


class Commands:
    """Where each family of commands adds its own."""

    def __init__(self, listed: dict[str, list[tuple[str, str]]], made: Any, family: str = "") -> None:
        self._listed, self._made, self._family = listed, made, family

    def add(self, name: str, run: Run, group: str, text: str, *, more: str = "", example: str = "") -> Parser:
        """A command: its name, what runs it, its line in `takeback --help`, and its page."""
        parser: Parser = self._made.add_parser(
            name,
            help=text,
            description=f"{text}.",
            more=more,
            epilog=f"example:\n  {example}" if example else None,
        )
        parser.set_defaults(run=run, command=f"{self._family}{name}")
        _add_globals(parser.add_argument_group("options of every command"), argparse.SUPPRESS)
        self._listed[group].append((f"{self._family}{name}", text))
        return parser

    def family(self, name: str, text: str) -> Commands:
        """Commands of two words, of which this is the first; alone, it runs the first that is added."""
        parser: Parser = self._made.add_parser(name, help=text, description=f"{text}.")
        _add_globals(parser.add_argument_group("options of every command"), argparse.SUPPRESS)
        made = parser.add_subparsers(
            metavar="COMMAND", dest=argparse.SUPPRESS, parser_class=Parser, title="commands"
        )
        return Commands(self._listed, made, f"{name} ")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def build() -> RootParser:
    """The whole parser. Nothing here loads the library: a command does, when it runs."""
    from takeback.cli import (
        agents,
        approvals,
        back,
        completions,
        doctor,
        effects,
        files,
        guide,
        lines,
        log,
        look,
        make,
        memory,
        move,
        recover,
        space,
        tools,
        trust,
        worker,
    )

    effectful = (effects, approvals, recover, worker, tools)
    root = RootParser("takeback")
    root.add_argument(
        "--version", action="version", version=f"takeback {__version__}", help="show the version"
    )
    _add_globals(root, None)
    root.commands = {group: [] for group in GROUPS}
    commands = Commands(
        root.commands, root.add_subparsers(metavar="COMMAND", dest="command", parser_class=Parser)
    )
    for family in (
        log,
        look,
        files,
        memory,
        make,
        back,
        *effectful,
        lines,
        agents,
        trust,
        move,
        space,
        doctor,
        completions,
        guide,
    ):
        family.add(commands)
    return root


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The words of a command line, or the mistake in them."""
    root = build()
    args, extra = root.parse_known_args(words)
    if "run" not in args and args.command in families(root):  # the first word alone: its first command
        first = families(root)[args.command][0]
        at = _place_of(root, words, args.command)
        args, extra = root.parse_known_args([*words[: at + 1], first, *words[at + 1 :]])
    command = subparsers(root).get(args.command or "", root)
    if extra:
        known = [option for action in command._actions for option in action.option_strings]
        word = extra[0].partition("=")[0]
        what = f"there is no option {word}" if word.startswith("-") else f"{word!r} is one argument too many"
        raise _mistake(what, command.prog, nearest(word, known) if word.startswith("-") else None)
    if args.command is None:
        args.run = _print_help(root)
    return args


def subparsers(root: Parser) -> dict[str, Parser]:
    """Each command's own parser; a command of two words is named by both."""
    found: dict[str, Parser] = {}
    for name, parser in _children(root).items():
        below = _children(parser)
        found |= {f"{name} {word}": each for word, each in below.items()} or {name: parser}
    return found


def families(root: Parser) -> dict[str, list[str]]:
    """The first words of commands of two, and for each the second ones."""
    found = {name: list(_children(parser)) for name, parser in _children(root).items()}
    return {name: words for name, words in found.items() if words}


def page(root: Parser, name: str) -> Parser | None:
    """The parser whose help page has this name: a command's, or that of a family."""
    found: Parser | None = root
    for word in name.split():
        found = _children(found).get(word) if found else None
    return found


def _children(parser: Parser) -> dict[str, Parser]:
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return next((dict(action.choices) for action in found), {})


def _place_of(root: Parser, words: Sequence[str], command: str) -> int:
    """Where the command stands; what looks like it may be the value of an option before it."""
    valued = {option for action in root._actions if action.nargs != 0 for option in action.option_strings}
    place = 0
    while words[place] != command:
        place += 2 if words[place] in valued else 1
    return place


def actions(parser: Parser) -> Iterator[argparse.Action]:
    """A command's arguments and options, without those that every command has."""
    shared = {option for action in _globals() for option in action[0]}
    for action in parser._actions:
        if not shared.intersection(action.option_strings) and "--help" not in action.option_strings:
            yield action


def add_reason(parser: Parser) -> None:
    parser.add_argument("-m", "--reason", metavar="TEXT", help="why; kept with the new version")


def add_app(parser: Parser) -> None:
    parser.add_argument(
        "--app",
        metavar="MODULE",
        help="the module that declares the tools, or module:name (else TAKEBACK_APP)",
    )


def add_number(parser: Parser, text: str) -> None:
    """The number by which people call an effect, or a request."""
    completes(parser.add_argument("number", metavar="NUMBER", type=int, help=text), "none")


def add_ref(parser: Parser, text: str, *, name: str = "ref", default: str | None = None) -> None:
    """A reference to a checkpoint; with a default it may be left out."""
    argument = parser.add_argument(
        name, metavar=name.upper(), nargs="?" if default is not None else None, default=default, help=text
    )
    completes(argument, "ref")


def completes(action: argparse.Action, kind: str) -> None:
    """What a shell offers for it: file, ref, label or thread."""
    action.completes = kind  # type: ignore[attr-defined]  # argparse has no place for what belongs to us


def nearest(word: str, known: list[str]) -> str | None:
    """What was probably meant; dashes, which all options have in common, make none alike."""
    from difflib import get_close_matches

    bare = {name.lstrip("-"): name for name in known}
    return next((bare[name] for name in get_close_matches(word.lstrip("-"), list(bare), 1)), None)


def _add_globals(parser: argparse._ActionsContainer, default: Any) -> None:
    for flags, options in _globals():
        kind = completion_of(options)
        action = parser.add_argument(*flags, default=default, **options)
        if kind is not None:
            completes(action, kind)


def completion_of(options: dict[str, Any]) -> str | None:
    return {"THREAD": "thread", "FILE": "file", "URL": "file"}.get(options.get("metavar", ""))


def _globals() -> list[tuple[list[str], dict[str, Any]]]:
    return [
        (["--db"], {"metavar": "URL", "help": "the store (else TAKEBACK_DB, else the one of this user)"}),
        (
            ["--thread"],
            {"metavar": "THREAD", "help": "the thread (else TAKEBACK_THREAD, else the one written to last)"},
        ),
        (["--tenant"], {"metavar": "NAME", "help": "whose threads these are (default: default)"}),
        (["--actor"], {"metavar": "NAME", "help": "who acts (default: your login name)"}),
        (
            ["--key-file"],
            {"metavar": "FILE", "help": "the key that signs checkpoints (else what TAKEBACK_KEY holds)"},
        ),
        (["--json"], {"action": "store_true", "help": "print one JSON document, errors too"}),
        (["--no-color"], {"action": "store_true", "help": "print without colours, as NO_COLOR does"}),
    ]


def _filled(paragraph: str) -> str:
    """A paragraph within 80 columns; an indented one is a listing and stays as it is."""
    from textwrap import fill

    return paragraph if paragraph.startswith(" ") else fill(paragraph, 80)


def _print_help(root: Parser) -> Run:
    def run(_: Session) -> int:
        root.print_help()
        return 0

    return run


def _mistake(what: str, prog: str, meant: str | None = None) -> BadRequest:
    from takeback.errors import BadRequest

    hint = f"Did you mean {meant}?" if meant else f"See `{prog} --help`"
    return BadRequest(what, hint=hint)
