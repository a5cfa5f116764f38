"""The commands about memory: the items that outlive threads, and what became of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, completes
from takeback.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from takeback.cli.session import Session

_WIDTH = 60


def add(to: Commands) -> None:
    family = to.family("memory", "What agents remember beyond a thread")
    listed = family.add(
        "list",
        list_items,
        "look",
        "List items of memory",
        more="Items in a namespace and all below it. What was taken back, or is over, does not show.",
        example="takeback memory list users/ann",
    )
    namespace = listed.add_argument("namespace", metavar="NAMESPACE", nargs="?", help="labels with / between")
    completes(namespace, "none")
    for name, run, what in (
        ("show", show_item, "Show an item of memory"),
        ("history", show_history, "Show every version of an item, also those that were taken back"),
    ):
        one = family.add(
            name,
            run,
            "look",
            what,
            more="An item is named by its namespace and its key, with / between: users/ann/home.",
            example=f"takeback memory {name} users/ann/home",
        )
        item = one.add_argument("item", metavar="NAMESPACE/KEY", help="the item")
        completes(item, "none")


def list_items(session: Session) -> int:
    out, given = session.out, session.args.namespace
    found = session.repo().store.search(tuple(given.split("/")) if given else (), limit=None)
    if out.json:
        out.document([item.as_dict() for item in found])
        return 0
    if not found:
        out.line("nothing is remembered" + (f" below {given}" if given else ""))
        return 0
    rows: list[list[Any]] = [
        ["/".join((*i.namespace, i.key)), _short(i.value), f"v{i.version}", _writer(i.thread, i.checkpoint)]
        for i in found
    ]
    out.table(("item", "value", "version", "written by"), rows, folds=(1,))
    return 0


def show_item(session: Session) -> int:
    namespace, key = _named(session)
    found = session.repo().store.get(namespace, key)
    if found is None:
        raise NotFound(f"nothing is remembered as {session.args.item}", hint="`takeback memory list`")
    if session.out.json:
        session.out.document(found.as_dict())
        return 0
    for line in json.dumps(found.value, indent=2, ensure_ascii=False, default=str).split("\n"):
        session.out.line(line)
    return 0


def show_history(session: Session) -> int:
    namespace, key = _named(session)
    found = session.repo().store.history(namespace, key)
    if not found:
        raise NotFound(f"nothing was ever remembered as {session.args.item}", hint="`takeback memory list`")
    if session.out.json:
        session.out.document([version.as_dict() for version in found])
        return 0
    rows: list[list[Any]] = [
        [
            f"v{one.number}", "deleted" if one.deleted else _short(one.value),
            "" if one.held else "taken back", _writer(one.thread, one.checkpoint), one.reason or "",
        ]
        for one in found
    ]  # fmt: skip
    out = session.out
    out.table(("version", "value", "", "written by", "reason"), rows, folds=(1, 4))
    return 0


def _named(session: Session) -> tuple[tuple[str, ...], str]:
    *labels, key = session.args.item.split("/")
    if not labels:
        raise BadRequest(f"{key!r} names no item: a namespace comes first", hint="For example users/ann/home")
    return tuple(labels), key


def _writer(thread: str | None, checkpoint: int | None) -> str:
    return "" if thread is None else f"{thread}, version {checkpoint}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
