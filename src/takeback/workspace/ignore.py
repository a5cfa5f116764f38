"""Which paths are left out, and why: by .gitignore and .takebackignore, as secrets, by size, as our own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from takeback.errors import BadRequest, MissingExtra

SECRETS = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist", "*.pem", "*.key",
    "*.p12", "*.pfx", "*.jks", "*.keystore", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".netrc",
    ".pgpass", ".npmrc", ".pypirc", ".aws/credentials", ".ssh/", ".gnupg/",
)  # fmt: skip
"""Left out by default: what must not lie in a second place. `!.env` in .takebackignore takes one in."""
OWN = b".takeback-restore-"
"""Begins the name of the directory in which new contents wait to be put in their places."""
MAX_FILE = 256 << 20
_GIT, _OWN_RULES = ".gitignore", ".takebackignore"
RULE_FILES = frozenset({_GIT.encode(), _OWN_RULES.encode()})


class Rules(msgspec.Struct, frozen=True):
    """What of a directory is captured."""

    gitignore: bool = True
    secrets: bool = True
    max_file: int = MAX_FILE
    extra: Any = []  # patterns, as in .gitignore; the last that fits decides

    def checked(self) -> Rules:
        if self.max_file < 0:
            raise BadRequest(f"max_file={self.max_file} is no size")
        if not isinstance(self.extra, list) or not all(isinstance(each, str) for each in self.extra):
            raise BadRequest("ignore= is a list of patterns", hint='ignore=["*.log", "build/"]')
        _compiled(self.extra, "ignore=")
        return self


class Layer(msgspec.Struct, frozen=True):
    """Patterns that hold below one directory, and where they come from."""

    base: bytes
    source: str
    any_of: Any  # whether some pattern may fit; most paths fit none, and then the rest is spared
    patterns: list[Any]


class Ignore:
    """The rules of one workspace with the files that hold them, as they were when it was made."""

    def __init__(self, rules: Rules, files: dict[bytes, bytes], own: frozenset[bytes] = frozenset()) -> None:
        self.rules, self.own = rules, own
        layers = [_layer(b"", "secrets are left out", SECRETS)] if rules.secrets else []
        for name in (_GIT, _OWN_RULES):
            if name == _GIT and not rules.gitignore:
                continue
            for path in sorted(files, key=lambda each: each.count(b"/")):
                if path.rpartition(b"/")[2] == name.encode():
                    layers.append(_of_file(path, files[path]))
        if rules.extra:
            layers.append(_layer(b"", "ignore=", rules.extra))
        self._layers = [layer for layer in layers if layer.patterns]
        self._above: dict[bytes, str | None] = {b"": None}

    def why(self, path: bytes, *, is_dir: bool) -> str | None:
        """Why a path is left out, itself or with a directory above it; None for what is captured."""
        at = path.find(b"/")
        above = b""
        while at >= 0:  # from the top down, however deep it is
            parent = path[:at]
            if parent not in self._above:
                self._above[parent] = self._above[above] or self.why_here(parent, is_dir=True)
            above, at = parent, path.find(b"/", at + 1)
        return self._above[above] or self.why_here(path, is_dir=is_dir)

    def why_here(self, path: bytes, *, is_dir: bool) -> str | None:
        """The same for a path whose directory is known to be captured."""
        return self.own_reason(path) or self._by_pattern(path, is_dir=is_dir)

    def own_reason(self, path: bytes) -> str | None:
        """What is never captured, whatever the rules say."""
        if path == b".git":
            return "your own repository; git keeps it"
        if path in self.own:
            return "the store itself"
        if path.startswith(OWN):
            return "takeback's own"
        return None

    def _by_pattern(self, path: bytes, *, is_dir: bool) -> str | None:
        reason = None
        for layer in self._layers:
            if not layer.base:
                below = path
            elif path.startswith(layer.base):
                below = path[len(layer.base) :]
            else:
                continue
            text = os.fsdecode(below) + "/" * is_dir
            if layer.any_of is not None and layer.any_of.search(text) is None:
                continue
            for pattern in reversed(layer.patterns):
                if pattern.match_file(text) is not None:
                    reason = layer.source if pattern.include else None
                    break
        return reason


def _of_file(path: bytes, content: bytes) -> Layer:
    base = path.rpartition(b"/")[0]
    lines = content.decode("utf-8", "surrogateescape").splitlines()
    return _layer(base + b"/" if base else b"", os.fsdecode(path), lines)


def _layer(base: bytes, source: str, lines: Sequence[str]) -> Layer:
    patterns = [pattern for pattern in _compiled(lines, source) if pattern.include is not None]
    return Layer(base, source, _any_of(patterns), patterns)


def _compiled(lines: Sequence[str], source: str) -> list[Any]:
    if not any(line.strip() and not line.startswith("#") for line in lines):
        return []
    try:
        import pathspec
    except ImportError:
        raise MissingExtra(
            "files are left out by patterns, which needs the pathspec package",
            hint="pip install 'takeback[workspace]'",
        ) from None
    found: list[Any] = []
    for line in lines:
        try:
            found.extend(pathspec.GitIgnoreSpec.from_lines([line]).patterns)
        except ValueError as error:
            if source == "ignore=":
                raise BadRequest(f"{line!r} is no pattern: {error}") from None
            # In a file of the user's own, git passes over what it cannot read; so the path is captured.
    return found


def _any_of(patterns: list[Any]) -> Any:
    """One expression for all patterns."""
    import re

    try:
        return re.compile("|".join(f"(?:{_unnamed(each.regex.pattern)})" for each in patterns))
    except (re.error, AttributeError):
        return None


def _unnamed(expression: str) -> str:
    """pathspec names a group in each; one expression cannot have a name twice."""
    import re

    return re.sub(r"\(\?P<\w+>", "(?:", expression)
