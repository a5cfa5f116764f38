"""Trust in memory: what does not hold of a stored version of an item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeback.engine import items, reach
from takeback.engine.context import Context
from takeback.errors import CorruptObject
from takeback.model.ids import shown as shown_id
from takeback.model.items import shown
from takeback.model.records import sign
from takeback.storage.items import AllVersions, ItemRow


def all_versions(ctx: Context) -> Iterator[ItemRow]:
    """Every version of every item of the tenant, a page at a time."""
    after = ("", "", 0)
    while page := ctx.storage.find(ctx.tenant, AllVersions(after)):
        yield from page
        after = (page[-1].namespace, page[-1].key, page[-1].at_us)


def problems(ctx: Context, row: ItemRow) -> list[str]:
    """Its bytes, its signature where there is a key, and the objects that it rests on."""
    named = f"{shown(row.namespace, row.key)}, version {row.number}"
    try:
        record = items.version(row).record
    except CorruptObject as error:
        return [error.what]
    found = []
    if ctx.key is not None and row.mac != sign(row.digest, ctx.key):
        found.append(f"{named}: it is not signed, signed with another key, or forged")
    todo, seen = items.roots(record), set[bytes]()
    while todo:
        digest = todo.pop()
        if digest in seen:
            continue
        seen.add(digest)
        try:
            payload = ctx.storage.objects(ctx.tenant, [digest]).get(digest)
        except CorruptObject as error:
            found.append(f"{named}: {error.what}")
            continue
        if payload is None:
            found.append(f"{named}: object {shown_id(digest)} is missing")
        else:
            todo += reach.below(payload)
    return found


def covered(row: ItemRow) -> list[Any]:
    """What the checkpoint of the step that wrote it says of it."""
    record = items.version(row).record
    return [items.MEMORY, row.namespace, row.key, record.kind, record.root]
