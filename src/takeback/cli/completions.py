"""completions: scripts for bash, zsh and fish, generated from the parser."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from takeback.cli.parser import Commands, Parser, build, families, subparsers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from takeback.cli.session import Session


def add(to: Commands) -> None:
    parser = to.add(
        "completions",
        print_script,
        "help",
        "Print a completion script for a shell",
        more="Completes commands, options, files, and the names of threads and labels in the store.\n\n"
        '  bash   eval "$(takeback completions bash)"                     in ~/.bashrc\n'
        '  zsh    eval "$(takeback completions zsh)"                      in ~/.zshrc, after compinit\n'
        "  fish   takeback completions fish > ~/.config/fish/completions/takeback.fish",
        example='eval "$(takeback completions bash)"',
    )
    parser.add_argument("shell", metavar="SHELL", choices=sorted(_SCRIPTS), help="bash, fish or zsh")


def print_script(session: Session) -> int:
    shell = session.args.shell
    script = _SCRIPTS[shell](build())
    if session.out.json:
        session.out.document({"shell": shell, "script": script})
    else:
        session.out.lines(script.splitlines(), indent="")
    return 0


def kind(action: argparse.Action) -> str:
    """What a shell offers as the value of an argument: command, file, label, ref, thread; or none."""
    return str(getattr(action, "completes", "none"))


def valued(parser: Parser) -> Iterator[argparse.Action]:
    """The options that take a value."""
    return (action for action in parser._actions if action.option_strings and action.nargs != 0)


def options(parser: Parser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings]


def positional(parser: Parser) -> argparse.Action | None:
    """The argument that is completed: all further ones are of the same kind in every command."""
    return next((action for action in parser._actions if not action.option_strings), None)


# Both ask the store for names with the options that choose it; the words after them are not theirs.
_BASH = r"""# bash completion of takeback
_takeback_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2"); }
_takeback_names() {
    local IFS=$'\n' list
    list=$(takeback "$1" --names "${given[@]}" 2>/dev/null) || return 0
    mapfile -t COMPREPLY < <(
        compgen -W "$list"$'\n'"$2" -- "$3" | while read -r name; do printf '%q\n' "$name"; done
    )
}
_takeback_offer() {
    case $1 in
        command) _takeback_words "@COMMANDS@" "$2" ;;
        file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        label) _takeback_names labels "" "$2" ;;
        ref) _takeback_names labels head "$2" ;;
        thread) _takeback_names threads "" "$2" ;;
        none) ;;
        *) _takeback_words "$1" "$2" ;;
    esac
}
_takeback() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command="" place
    local -a given=()
    COMPREPLY=()
    for ((place = 1; place < COMP_CWORD; place++)); do
        case ${COMP_WORDS[place]} in
            --db|--thread|--tenant) given+=("${COMP_WORDS[place]}" "${COMP_WORDS[place+1]}"); ((place++)) ;;
            @VALUED@) ((place++)) ;;
            -*) ;;
            *) case $command in
                "") command=${COMP_WORDS[place]} ;;
                @FAMILIES@) command="$command ${COMP_WORDS[place]}" ;;
            esac ;;
        esac
    done
    case "$command $before" in
@VALUES@
    esac
    case $command in
@ARGUMENTS@
    esac
}
complete -F _takeback takeback
"""

_ZSH = r"""#compdef takeback
# zsh completion of takeback
_takeback_names() {
    local -a names
    names=(${(f)"$(takeback $1 --names $given 2>/dev/null)"} $2)
    compadd -a names
}
_takeback_offer() {
    case $1 in
        command) compadd -- @COMMANDS@ ;;
        file) _files ;;
        label) _takeback_names labels ;;
        ref) _takeback_names labels head ;;
        thread) _takeback_names threads ;;
        none) ;;
        *) compadd -- ${=1} ;;
    esac
}
_takeback() {
    local word=$words[CURRENT] before=$words[CURRENT-1] command="" place
    local -a given
    for ((place = 2; place < CURRENT; place++)); do
        case $words[place] in
            --db|--thread|--tenant) given+=($words[place] ${(Q)words[place+1]}); ((place++)) ;;
            @VALUED@) ((place++)) ;;
            -*) ;;
            *) case $command in
                "") command=$words[place] ;;
                @FAMILIES@) command="$command $words[place]" ;;
            esac ;;
        esac
    done
    case "$command $before" in
@VALUES@
    esac
    case $command in
@ARGUMENTS@
    esac
}
compdef _takeback takeback
"""


def _bash(root: Parser) -> str:
    return _filled(_BASH, root)


def _zsh(root: Parser) -> str:
    return _filled(_ZSH, root)


def _filled(script: str, root: Parser) -> str:
    commands = subparsers(root)
    every = {option for parser in (root, *commands.values()) for option in _names(valued(parser))}
    return (
        script.replace("@COMMANDS@", " ".join(_first_words(commands)))
        .replace("@FAMILIES@", "|".join(families(root)))
        .replace("@VALUED@", "|".join(sorted(every)))
        .replace("@VALUES@", "\n".join(_values(root, commands)))
        .replace("@ARGUMENTS@", "\n".join(_arguments(root, commands)))
    )


def _values(root: Parser, commands: dict[str, Parser]) -> Iterator[str]:
    """A branch for each option that takes a value: what is offered after it."""
    for name, parser in commands.items():
        shared = set(_names(valued(root)))
        for action in valued(parser):
            if not shared.intersection(action.option_strings):
                pattern = "|".join(f'"{name} {option}"' for option in action.option_strings)
                yield f'        {pattern}) _takeback_offer {kind(action)} "$word"; return ;;'
    for action in valued(root):
        pattern = "|".join(f'*" {option}"' for option in action.option_strings)
        yield f'        {pattern}) _takeback_offer {kind(action)} "$word"; return ;;'


def _arguments(root: Parser, commands: dict[str, Parser]) -> Iterator[str]:
    """A branch for each command: its options after a dash, else its argument."""
    for name, parser in commands.items():
        action = positional(parser)
        offered = _offered(action) if action else "none"
        yield f'        "{name}") {_choice(options(parser), offered)} ;;'
    for name, words in families(root).items():
        yield f'        "{name}") {_choice(options(root), " ".join(words))} ;;'
    yield f'        "") {_choice(options(root), "command")} ;;'


def _first_words(commands: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(" ")[0] for name in commands))


def _choice(words: list[str], offered: str) -> str:
    return (
        f'if [[ $word == -* ]]; then _takeback_offer "{" ".join(words)}" "$word"; '
        f'else _takeback_offer "{offered}" "$word"; fi'
    )


def _offered(action: argparse.Action) -> str:
    return " ".join(map(str, action.choices)) if action.choices else kind(action)


def _names(found: Iterable[argparse.Action]) -> Iterator[str]:
    return (option for action in found for option in action.option_strings)


_FISH = r"""# fish completion of takeback
function __takeback_names
    set -l words (commandline -opc)
    set -l given
    for place in (seq 2 (count $words))
        if contains -- $words[$place] --db --thread --tenant; and test $place -lt (count $words)
            set -a given $words[$place] $words[(math $place + 1)]
        end
    end
    takeback $argv[1] --names $given 2>/dev/null
end
complete -c takeback -f
"""


def _fish(root: Parser) -> str:
    commands = subparsers(root)
    lines = [_FISH.rstrip()]
    lines += [_fish_option(action, "") for action in root._actions if action.option_strings]
    shared = {option for action in root._actions for option in action.option_strings}
    for family, words in families(root).items():
        lines.append(f"complete -c takeback -n __fish_use_subcommand -a {family}")
        first = f"__fish_seen_subcommand_from {family}; and not __fish_seen_subcommand_from"
        lines += [
            f"complete -c takeback -n '{first} {' '.join(words)}' -a {word} "
            f"-d {_quoted(_line(commands[f'{family} {word}']))}"
            for word in words
        ]
    for name, parser in commands.items():
        if " " not in name:
            line = f"complete -c takeback -n __fish_use_subcommand -a {name} -d {_quoted(_line(parser))}"
            lines.append(line)
        # Of two words, both have been typed.
        seen = f" -n '__fish_seen_subcommand_from {'; and __fish_seen_subcommand_from '.join(name.split())}'"
        for action in parser._actions:
            if not action.option_strings and _fish_values(action):
                lines.append(f"complete -c takeback{seen}{_fish_values(action)}")
            elif action.option_strings and not shared.intersection(action.option_strings):
                lines.append(_fish_option(action, seen))
    return "\n".join(lines) + "\n"


def _fish_option(action: argparse.Action, seen: str) -> str:
    flags = "".join(f" -l {o[2:]}" if o.startswith("--") else f" -s {o[1:]}" for o in action.option_strings)
    takes = f" -r{_fish_values(action)}" if action.nargs != 0 else ""
    return f"complete -c takeback{seen}{flags}{takes} -d {_quoted(action.help or '')}"


def _fish_values(action: argparse.Action) -> str:
    sources = {
        "command": "-a '(complete -C \"takeback \")'",
        "file": "-F",
        "label": "-a '(__takeback_names labels)'",
        "ref": "-a 'head (__takeback_names labels)'",
        "thread": "-a '(__takeback_names threads)'",
        "none": "",
    }
    offered = _offered(action)
    source = sources.get(offered, f"-a {_quoted(offered)}")
    return f" {source}" if source else ""


def _line(parser: Parser) -> str:
    return (parser.description or "").split("\n", 1)[0]


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS = {"bash": _bash, "fish": _fish, "zsh": _zsh}
