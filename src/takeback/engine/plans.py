"""What a plan says of effects: the difference between what stands and what a history believes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from blake3 import blake3

from takeback.engine.book import Book, Lineage, believed
from takeback.engine.context import Context, Tip, pointer
from takeback.engine.rollback import Move
from takeback.model.ids import shown
from takeback.model.ledger import Effect
from takeback.model.records import Pointer

GROUPS = (
    "blocked", "decide", "compensate", "stays", "local", "orphan", "shared", "foreign", "missing", "same",
    "never",
)  # fmt: skip
_LAST = 2**63 - 1
_DIFFERS = {
    "decide": "may stand: nobody knows",
    "blocked": "is in flight",
    "compensate": "stands, and this history does not know of it",
    "stays": "stands, and this history does not know of it",
    "orphan": "stands, and no step claimed it",
    "shared": "stands for a fork, and this history does not know of it",
    "local": "ran here, and this history does not know of it",
    "missing": "was taken back, and this history counts on it",
}


class Wish(msgspec.Struct, frozen=True):
    """What was asked for beside the target: whether effects go back, and what else is to be undone or redone,
    by number."""

    effects: bool = True
    take_shared: list[int] = []
    orphans: bool = False
    redo: list[int] = []
    keep: list[int] = []
    memory: bool = True


class EffectsPart:
    """What a plan does to effects, and what it leaves standing."""

    name = "effects"

    def __init__(
        self,
        groups: dict[str, list[Effect]],
        wish: Wish,
        notes: list[str] | None = None,
        owner: bytes | None = None,
        seq: int = 0,
    ) -> None:
        self.groups, self.wish, self.notes, self._owner = groups, wish, notes or [], owner
        self.seq = seq  # the ledger's number when it was looked at

    def __getattr__(self, name: str) -> list[Effect]:
        if name in GROUPS:
            return self.groups.get(name, [])
        raise AttributeError(name)

    @property
    def undone(self) -> list[Effect]:
        """What is taken back, newest outcome first."""
        return sorted(self.groups.get("compensate", []), key=lambda e: -e.order) if self.wish.effects else []

    @property
    def redone(self) -> list[Effect]:
        """What is done again, because it was asked for; another thread's is for that one to do again."""
        missing = (e for e in self.groups.get("missing", []) if e.owner == self._owner)
        return sorted((e for e in missing if e.number in self.wish.redo), key=lambda e: e.order)

    @property
    def handlers(self) -> list[str]:
        """The tools that it takes, in the order of its lines."""
        return [e.undo or "" for e in self.undone] + [f"{e.tool}@{e.version}" for e in self.redone]

    @property
    def standing(self) -> list[Effect]:
        """What stays standing although the target knows nothing of it: this has to be acknowledged."""
        held = [] if self.wish.effects else self.groups.get("compensate", [])
        return [*held, *self.groups.get("stays", [])]

    @property
    def unsettled(self) -> list[Effect]:
        """What has to be waited for or decided first."""
        return [*self.groups.get("blocked", []), *self.groups.get("decide", [])]

    @property
    def calm(self) -> bool:
        """Whether nothing is done to the world, and nothing has to be said before."""
        return not (self.undone or self.redone or self.standing or self.unsettled)

    @property
    def digest(self) -> bytes:
        """Of what was seen: every effect in its group and state."""
        seen = [
            [name, sorted([e.id.hex(), e.state, e.redo] for e in effects)]
            for name, effects in sorted(self.groups.items())
            if effects
        ]
        return blake3(msgspec.msgpack.encode([seen, self.wish])).digest()

    def summary(self, limit: int = 4) -> str:
        lines = self.lines()
        more = f" · and {len(lines) - limit} more" if len(lines) > limit else ""
        return " · ".join(lines[:limit]) + more

    def lines(self, limit: int | None = None) -> list[str]:
        said = [f"{doing(e.undo or '')} {_named(e)}" for e in self.undone]
        said += [f"does {_named(e)} again" for e in self.redone]
        said += [f"{_named(e)} stays{_why(e)}" for e in self.standing]
        unknown = self.groups.get("decide", [])
        if unknown:
            calls = "1 call is" if len(unknown) == 1 else f"{len(unknown)} calls are"
            said.append(f"{calls} unknown, decide first: " + ", ".join(map(_named, unknown[:3])))
        local = self.groups.get("local", [])
        if local:
            calls = "1 shell command" if len(local) == 1 else f"{len(local)} shell commands"
            said.append(f"{calls} may have reached the network")
        said += [f"{_named(e)} is in flight: wait" for e in self.groups.get("blocked", [])]
        said += [f"{_named(e)} stands, and no step claimed it" for e in self.groups.get("orphan", [])]
        said += [f"{_named(e)} stays: a fork relies on it" for e in self.groups.get("shared", [])]
        said += [f"{_named(e)} belongs to another thread" for e in self.groups.get("foreign", [])]
        redone = self.redone
        said += [
            f"{_named(e)} stays undone: not done again by itself"
            for e in self.groups.get("missing", [])
            if e not in redone
        ]
        return [*said, *self.notes][:limit]

    def as_dict(self) -> dict[str, Any]:
        groups = {name: [_dict(e) for e in self.groups.get(name, [])] for name in GROUPS if name != "never"}
        return {
            "part": self.name,
            "undo": [e.number for e in self.undone],
            "redo": [e.number for e in self.redone],
            "standing": [e.number for e in self.standing],
            "groups": {name: effects for name, effects in groups.items() if effects},
            "notes": self.notes,
        }


class Differences(EffectsPart):
    """What stands and a history does not know of, and what it counts on and is gone."""

    def lines(self, limit: int | None = None) -> list[str]:
        said = [
            f"{_named(e)} {words}" for group, words in _DIFFERS.items() for e in self.groups.get(group, [])
        ]
        return said[:limit]


def effects_of(ctx: Context, book: Book, tip: Tip, move: Move, wish: Wish) -> EffectsPart:
    """What a move does to effects; a merge does nothing to them, a revert names what it leaves."""
    if move.kind == "merge" or not book.effects:
        return EffectsPart({}, wish, _unseen(ctx, tip, pointer(move.target)), seq=book.seq)
    if move.kind == "revert":
        return _of_revert(book, tip, move.target.version, wish)
    target = pointer(move.target)
    groups = _groups(ctx, book, tip, target, wish)
    return EffectsPart(groups, wish, _unseen(ctx, tip, target), tip.info.uid, book.seq)


def discrepancies(ctx: Context, book: Book, tip: Tip) -> EffectsPart:
    """What stands and the head does not know of, and the other way round."""
    groups = _groups(ctx, book, tip, tip.pointer, Wish()) if book.effects else {}
    groups.pop("same", None)
    return Differences(groups, Wish(effects=False))


def waits(lacking: Mapping[str, int]) -> list[str]:
    """What nobody here can do, a line a handler."""
    return [
        f"{count} {'waits' if count == 1 else 'wait'} for a worker with {handler}"
        for handler, count in lacking.items()
    ]


def doing(handler: str) -> str:
    """What an undo does, as a word for people: refund@1 → refunds, cancel_booking@2 → cancels booking."""
    verb, _, rest = handler.partition("@")[0].rpartition(":")[2].lstrip("_").replace("_", " ").partition(" ")
    if not verb:
        return "undoes"
    if verb.endswith(("s", "sh", "ch", "x", "z", "o")):
        verb += "es"
    elif verb.endswith("y") and verb[-2:-1] not in "aeiou":
        verb = verb[:-1] + "ies"
    else:
        verb += "s"
    return f"{verb} {rest}".strip()


def _groups(ctx: Context, book: Book, tip: Tip, target: Pointer, wish: Wish) -> dict[str, list[Effect]]:
    aim = book.lineage(target)
    relying = [book.lineage(pointer) for pointer in _relying(ctx, book, tip)]
    merged = [book.lineage(pointer) for pointer in _merged(ctx, tip)]
    groups: dict[str, list[Effect]] = {name: [] for name in GROUPS}
    uid = tip.info.uid
    for effect in sorted(book.effects.values(), key=lambda e: e.number):
        known = believed(effect, aim)
        if known or _concerns(effect, uid, merged):
            groups[_group(effect, uid, known, relying, wish)].append(effect)
    for effects in groups.values():
        effects.sort(key=lambda e: e.number)
    return groups


def _group(effect: Effect, uid: bytes, known: bool, relying: Collection[Lineage], wish: Wish) -> str:
    state = effect.state
    if effect.owner != uid:
        if state == "undone":
            return "missing" if known else "never"
        if state == "failed":
            return "never"
        return "same" if known else "foreign"
    if state in ("begun", "undoing"):
        return "blocked"
    if state in ("unknown", "undo_unknown"):
        return "decide"
    if state == "undone":
        return "missing" if known else "never"
    if state == "failed":
        return "never"
    if known:
        return "same"
    if effect.orphan and not effect.uses and not wish.orphans:
        return "orphan"
    if effect.number not in wish.take_shared and any(believed(effect, lineage) for lineage in relying):
        return "shared"
    if effect.local:
        return "local"
    return "compensate" if effect.undo is not None and effect.number not in wish.keep else "stays"


def _concerns(effect: Effect, uid: bytes, merged: Collection[Lineage]) -> bool:
    """R(thread): what it began, owns or used, or what it was told by a merge."""
    return (
        uid in (effect.thread, effect.owner)
        or any(use.thread == uid for use in effect.uses)
        or any(believed(effect, lineage) for lineage in merged)
    )


def relied_on(ctx: Context, book: Book, tip: Tip, effect: Effect) -> bool:
    """Whether another thread of the family that has a right to effects believes in it."""
    return any(believed(effect, book.lineage(head)) for head in _relying(ctx, book, tip))


def _relying(ctx: Context, book: Book, tip: Tip) -> list[Pointer]:
    """The heads of the family's other threads that have a right to effects."""
    said = book.threads.values()
    able = {cell.id for cell in said if cell.rights in ("guard", "allow") and not cell.merged_into}
    found = []
    for uid in (able | {tip.info.family}) - {tip.info.uid}:
        info = ctx.storage.thread_by_uid(ctx.tenant, uid)
        if info is not None and info.deleted_us is None:
            found.append(Pointer(info.uid, info.head, info.head_digest))
    return found


def _merged(ctx: Context, tip: Tip) -> list[Pointer]:
    merges = ctx.storage.checkpoints(ctx.tenant, tip.info.uid, 0, _LAST, merges=True)
    return [merge.merged for merge in merges if merge.merged is not None]


def _of_revert(book: Book, tip: Tip, version: int, wish: Wish) -> EffectsPart:
    """A revert takes no effects back: those of its step are named, and `effects undo` is for each."""
    uid = tip.info.uid
    of_step = [
        e
        for e in book.effects.values()
        if e.may_stand and any(use.thread == uid and use.version == version for use in e.uses)
    ]
    notes = [f"{_named(e)} stays: a revert takes back state alone" for e in of_step]
    return EffectsPart({}, wish, notes, seq=book.seq)


def _unseen(ctx: Context, tip: Tip, target: Pointer) -> list[str]:
    """Checkpoints on the way whose effects nobody recorded: said, rather than passed over."""
    if target.uid != tip.info.uid or not tip.head.ledger:
        return []
    rows = ctx.storage.checkpoints(ctx.tenant, tip.info.uid, target.version + 1, tip.head.version)
    unseen = [row.version for row in rows if row.ledger]
    if not unseen:
        return []
    span = f"#{unseen[0]}" if len(unseen) == 1 else f"#{unseen[0]}–#{unseen[-1]}"
    return [f"versions {span}: effects not recorded"]


def _named(effect: Effect) -> str:
    return f"#{effect.number} ({effect.shown})"


def _why(effect: Effect) -> str:
    return "" if effect.undo else ": it cannot be undone"


def _dict(effect: Effect) -> dict[str, Any]:
    return {"number": effect.number, "shown": effect.shown, "state": effect.state, "id": shown(effect.id)}
