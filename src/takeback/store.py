"""The façade of memory: items that outlive a thread, with their history, taken back with the steps that wrote
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from takeback.engine import finding, items
from takeback.engine.context import Context
from takeback.engine.finding import Embed
from takeback.engine.items import Ahead, Expected, Name, Version, Write
from takeback.engine.verify import Problem, memory_problems
from takeback.errors import BadName, BadRequest
from takeback.errors.base import naming
from takeback.model.items import Namespace, NamespaceLike, check_key, checked, joined, namespace, split
from takeback.model.records import instant
from takeback.step import Step, open_steps
from takeback.storage.items import TouchItems

Place: TypeAlias = Callable[[Context, list[Name]], Ahead | None]


class Item(msgspec.Struct, frozen=True):
    """An item of memory as it shows. Its value is yours to change; that changes nothing in the store."""

    namespace: Namespace
    key: str
    value: Any
    version: int | None
    """Its number, for `expect=`; None for what the open step has written and not yet committed."""
    created: datetime
    updated: datetime
    thread: str | None = None
    """The thread whose step wrote it; None for what was written outside of steps."""
    checkpoint: int | None = None
    reason: str | None = None
    actor: str | None = None
    expires: datetime | None = None
    score: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        times = {name: getattr(self, name) for name in ("created", "updated", "expires")}
        said = {name: getattr(self, name) for name in self.__struct_fields__ if name not in times}
        said |= {"namespace": list(self.namespace)}
        return said | {name: time and time.isoformat() for name, time in times.items()}


class ItemVersion(msgspec.Struct, frozen=True):
    """A version of an item: what it said, who wrote it and why, and whether it is held or was taken back."""

    number: int
    value: Any
    deleted: bool
    held: bool
    time: datetime
    thread: str | None
    checkpoint: int | None
    step: str | None
    reason: str | None
    actor: str | None

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        said = {name: getattr(self, name) for name in self.__struct_fields__}
        return said | {"time": self.time.isoformat()}


class Index(msgspec.Struct, frozen=True):
    """How items are found by meaning: a function from texts to vectors, and the fields with the texts."""

    embed: Embed
    fields: tuple[str, ...] = ("$",)


class Store:
    """`tb.store`: items by namespace and key.

    Inside a step (of the same store and tenant), writes are kept until its end, committed with it, and taken
    back with it. Outside of one, each is written at once, and belongs to no thread's history.
    """

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._index: Index | None = None
        self._names: dict[bytes, str] = {}

    # --- one item

    def put(
        self,
        namespace: NamespaceLike,
        key: str,
        value: Any,
        *,
        expect: Expected = "any",
        ttl: float | timedelta | None = None,
        index: bool | Sequence[str] = True,
        reason: str | None = None,
        actor: str | None = None,
    ) -> Item:
        """Write an item; what it said before stays in its history.

        `expect` is the number of the version that shows now, or None where nothing may: `MemoryConflict` when
        it is another. `ttl` is how long it shows, in seconds. With an index, `index` names the fields to find
        it by, or leaves it out.
        """
        vectors: list[tuple[str, Sequence[float]]] = []
        if self._index is not None and index is not False:
            fields = self._index.fields if index is True else _labels(index)
            vectors = self._vectors(self._index, value, fields)
        write = self.draft(
            namespace, key, value, expect=expect, ttl=ttl, vectors=vectors, reason=reason, actor=actor
        )
        self.write([write])
        found = self._get(write.name)
        assert found is not None or ttl is not None
        return found or self._buffered(write)

    def get(self, namespace: NamespaceLike, key: str, *, refresh: bool = False) -> Item | None:
        """The item as it shows, None for none; `refresh` lets its time to live begin again."""
        name = _name(namespace, key)
        found = self._get(name)
        if refresh and found is not None and found.expires is not None and found.version is not None:
            self._touch([name])
            found = self._get(name)
        return found

    def delete(
        self,
        namespace: NamespaceLike,
        key: str,
        *,
        expect: Expected = "any",
        reason: str | None = None,
        actor: str | None = None,
    ) -> bool:
        """The item shows no longer; its history stays. Whether there was one."""
        name = _name(namespace, key)
        there = self._get(name) is not None
        if there or expect != "any":
            gone = Write(*name, kind="delete", expect=_expected(expect), reason=reason, actor=actor)
            self.write([gone])
        return there

    def history(self, namespace: NamespaceLike, key: str) -> list[ItemVersion]:
        """Every version of an item, newest first, also those that were taken back."""
        return [self._version(found) for found in items.versions(self._ctx, _name(namespace, key))]

    # --- many

    def search(
        self,
        prefix: NamespaceLike = (),
        *,
        where: Mapping[str, Any] | None = None,
        query: str | None = None,
        limit: int | None = 10,
        offset: int = 0,
        refresh: bool = False,
    ) -> list[Item]:
        """Items in a namespace and all below it, by name; with a `query`, the nearest first, by the index.

        `where` is what their values have: `{"city": "Rome", "age": {"$gte": 18}}`. Operators: $eq, $ne, $gt,
        $gte, $lt, $lte, $in, $nin, $contains, $exists.
        """
        if not _count(offset) or not (limit is None or _count(limit)):
            raise BadRequest(f"limit={limit} and offset={offset} are no part of a list")
        vector = None if query is None else self._query(query)
        end = None if limit is None else offset + limit
        found = self._found(_prefix(prefix), where or {}, vector, None if vector is not None else end)
        chosen = found[offset:end]
        if refresh:
            self._touch([_name(item.namespace, item.key) for item in chosen if item.expires is not None])
        return chosen

    def namespaces(
        self,
        *,
        prefix: NamespaceLike = (),
        suffix: NamespaceLike = (),
        depth: int | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Namespace]:
        """The namespaces that hold items, in order. In `prefix` and `suffix`, `*` is any label; `depth` cuts
        them to so many labels."""
        begins, ends = _labels(prefix), _labels(suffix)
        stem = begins[: begins.index("*")] if "*" in begins else begins
        names = {name[0] for name, _ in self._shown(stem)}
        found = {labels for labels in map(split, names) if finding.fits(labels, begins, ends)}
        cut = sorted({labels[:depth] for labels in found})
        return cut[offset : None if limit is None else offset + limit]

    # --- the store as a whole

    def index(self, embed: Embed, *, fields: Sequence[str] = ("$",)) -> None:
        """Find items by meaning from now on: `embed` makes vectors of texts, of what is put and asked here.

        `fields` says which texts of a value: `$` all of it, `text`, `notes[*].text`. Vectors are kept with
        the items, and compared one by one: good for thousands of items in a namespace, not for millions.
        """
        if not callable(embed):
            raise BadRequest(f"embed={embed!r} is no function", hint="It makes vectors of a list of texts")
        self._index = Index(embed, (fields,) if isinstance(fields, str) else tuple(fields))

    def verify(self) -> list[Problem]:
        """What does not hold of all versions of all items: recomputed from the stored bytes."""
        return memory_problems(self._ctx)

    def __repr__(self) -> str:
        return f"<Store of tenant {self._ctx.tenant!r}>"

    # --- inside

    def draft(
        self,
        namespace: NamespaceLike,
        key: str,
        value: Any,
        *,
        expect: Expected = "any",
        ttl: float | timedelta | None = None,
        vectors: Sequence[tuple[str, Sequence[float]]] = (),
        reason: str | None = None,
        actor: str | None = None,
    ) -> Write:
        """A write that is not made yet, for `write`; `vectors` by what they were made of."""
        made = items.put(
            self._ctx, _name(namespace, key), value, expect=_expected(expect), ttl_us=_micros(ttl),
            reason=reason, actor=actor,
        )  # fmt: skip
        return items.with_vectors(made, [(path, finding.packed(vector)) for path, vector in vectors])

    def removal(self, namespace: NamespaceLike, key: str) -> Write | None:
        """A deletion that is not made yet; None where there is nothing to delete."""
        name = _name(namespace, key)
        return None if self._get(name) is None else Write(*name, kind="delete")

    def write(self, writes: Sequence[Write], ahead: Place | None = None) -> None:
        """Make several writes together: with the innermost step that is open here, or at once.

        `ahead` says which version of which thread they come with, where they are written before it.
        """
        if not writes:
            return
        step = next(reversed(self._steps()), None)
        if step is None:
            place = None if ahead is None else ahead(self._ctx, [write.name for write in writes])
            items.publish(self._ctx, list(writes), place)
            return
        with naming(step.thread.name):
            if step._base is not None:
                items.refuse_merged(self._ctx, step._base.info)
            for write in writes:
                step._remembers().add(write)

    def _steps(self) -> list[Step[Any]]:
        """The steps that are open here on this store, the innermost last."""
        ctx = self._ctx
        return [
            step
            for step in open_steps()
            if step.thread._ctx.storage is ctx.storage and step.thread._ctx.tenant == ctx.tenant
        ]

    def _pending(self) -> dict[Name, Write]:
        """What the open steps have written."""
        found: dict[Name, Write] = {}
        for step in self._steps():
            found |= step._remembers().writes
        return found

    def _get(self, name: Name) -> Item | None:
        pending = self._pending().get(name) if self._steps() else None
        if pending is not None:
            return None if pending.kind == "delete" else self._buffered(pending)
        found = items.showing(self._ctx, name)
        if found is None or items.live(self._ctx, found) is None:
            return None
        return self._item(found)

    def _shown(self, stem: Namespace) -> Iterator[tuple[Name, Version | Write]]:
        """What shows below a namespace, in order; of the open steps what they have written."""
        pending = {
            name: write for name, write in self._pending().items() if split(name[0])[: len(stem)] == stem
        }
        for found in items.below(self._ctx, stem):
            if found.name not in pending:
                yield found.name, found
        yield from ((name, write) for name, write in sorted(pending.items()) if write.kind != "delete")

    def _found(
        self, stem: Namespace, where: Mapping[str, Any], vector: bytes | None, end: int | None
    ) -> list[Item]:
        found: list[Item] = []
        ordered = not self._pending()
        for _, one in self._shown(stem):
            item = self._item(one) if isinstance(one, Version) else self._buffered(one)
            if where and not finding.matches(item.value, where):
                continue
            found.append(
                item if vector is None else msgspec.structs.replace(item, score=self._score(one, vector))
            )
            if ordered and end is not None and len(found) == end:
                return found
        if vector is not None:
            return sorted(found, key=lambda item: -2.0 if item.score is None else item.score, reverse=True)
        return sorted(found, key=lambda item: (joined(item.namespace), item.key))

    def _score(self, one: Version | Write, vector: bytes) -> float | None:
        if isinstance(one, Version):
            kept = items.vectors(self._ctx, one.record)
        else:
            kept = items.pending_vectors(one)
        return finding.nearness(vector, [each for _, each in kept])

    def _query(self, query: str) -> bytes:
        if self._index is None:
            raise BadRequest("a query needs an index", hint="tb.store.index(embed=…), before items are put")
        return finding.packed(finding.embedded(self._index.embed, [query])[0])

    def _vectors(self, index: Index, value: Any, fields: Sequence[str]) -> list[tuple[str, Sequence[float]]]:
        texts = finding.texts(value, fields)
        if not texts:
            return []
        vectors = finding.embedded(index.embed, [text for _, text in texts])
        return [(field, vector) for (field, _), vector in zip(texts, vectors, strict=True)]

    def _touch(self, names: list[Name]) -> None:
        if names:
            self._ctx.storage.apply(items.batch(self._ctx, [TouchItems(names, self._ctx.clock())]))

    def _item(self, found: Version) -> Item:
        row, record, until = found.row, found.record, found.expires_us()
        return Item(
            split(row.namespace), row.key, items.value(self._ctx, record), row.number,
            instant(record.created_us), instant(row.at_us), self._thread(record.thread),
            record.version if record.thread else None, record.reason, record.actor,
            None if until is None else instant(until),
        )  # fmt: skip

    def _buffered(self, write: Write) -> Item:
        now = self._ctx.clock()
        until = None if write.ttl_us is None else instant(now + write.ttl_us)
        return Item(
            split(write.namespace), write.key, items.pending_value(self._ctx, write), None,
            instant(write.created_us or now), instant(now), reason=write.reason, actor=write.actor,
            expires=until,
        )  # fmt: skip

    def _version(self, found: Version) -> ItemVersion:
        row, record = found.row, found.record
        return ItemVersion(
            row.number, None if found.gone else items.value(self._ctx, record), found.gone,
            items.held(self._ctx, row), instant(row.at_us), self._thread(record.thread),
            record.version if record.thread else None, record.step, record.reason, record.actor,
        )  # fmt: skip

    def _thread(self, uid: bytes) -> str | None:
        """A thread's name never changes, so it is looked up once."""
        if uid and uid not in self._names:
            info = self._ctx.storage.thread_by_uid(self._ctx.tenant, uid)
            if info is None:
                return None
            self._names[uid] = info.name
        return self._names.get(uid)


def _name(given: NamespaceLike, key: str) -> Name:
    return joined(namespace(_labels(given))), check_key(key)


def _count(given: object) -> bool:
    return isinstance(given, int) and given >= 0


def _labels(given: NamespaceLike) -> tuple[str, ...]:
    """Several texts, or one by itself."""
    if not isinstance(given, Iterable):
        raise BadName(f"{given!r} is no namespace", hint="For example ('users', 'ann')")
    return (given,) if isinstance(given, str) else tuple(given)


def _prefix(given: NamespaceLike) -> Namespace:
    labels = _labels(given)
    return checked(labels) if labels else ()


def _expected(given: Expected) -> Expected:
    if given == "any" or given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    raise BadRequest(f"expect={given!r} is no version of an item", hint="Use item.version, or None")


def _micros(ttl: float | timedelta | None) -> int | None:
    if ttl is None:
        return None
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not isinstance(seconds, int | float) or not 0 < seconds < 10**9:
        raise BadRequest(f"ttl={ttl!r} is no time to live", hint="In seconds, or a timedelta")
    return int(seconds * 1_000_000)
