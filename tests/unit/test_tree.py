"""The value tree: a pure function of its value, however that value came about."""

from __future__ import annotations

import copy
import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.errors import BadPath, CorruptObject, TooDeep, TooLarge, Unstorable
from takeback.model import canonical
from takeback.model.canonical import equal, pack
from takeback.model.tree import build, edit, nodes, walk
from takeback.model.tree import format as f
from takeback.model.tree.read import read, read_at


class Memory:
    """A store of objects that counts reads, and now and then has one at hand."""

    def __init__(self, seed: int = 0) -> None:
        self.held: dict[bytes, bytes] = {}
        self.reads = 0
        self.random = random.Random(seed)

    def get(self, digest: bytes) -> bytes:
        self.reads += 1
        return self.held[digest]

    def get_many(self, digests: list[bytes]) -> list[bytes]:
        return [self.get(digest) for digest in digests]

    def peek(self, digest: bytes) -> bytes | None:
        return self.held.get(digest) if self.random.random() < 0.5 else None

    def writer(self) -> nodes.Writer:
        return nodes.Writer(self)

    def keep(self, writer: nodes.Writer) -> None:
        self.held |= writer.new


def made(store: Memory, value: Any, prior: bytes | None = None) -> bytes:
    """The tree of a value, kept in the store."""
    writer = store.writer()
    size, payload = build.build(value, prior, writer)
    assert size == len(pack(value)) == nodes.value_size(payload)
    store.keep(writer)
    return payload


def reached(payload: bytes, store: Memory) -> set[bytes]:
    seen: set[bytes] = set()
    todo = walk.references(payload)
    while todo:
        digest = todo.pop()
        if digest not in seen:
            seen.add(digest)
            todo += walk.references(store.held[digest])
    return seen


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            found += paths(item, (*path, place))
    return found


def check(store: Memory, payload: bytes, value: Any) -> None:
    """The tree reads back as the value, and is the one that the value has when built from nothing."""
    assert equal(read(payload, store), value)
    fresh = Memory()
    assert made(fresh, value) == payload
    needed = reached(payload, store)
    assert needed == reached(payload, fresh) == fresh.held.keys()


def check_regions(store: Memory, before: bytes, after: bytes, a: Any, b: Any) -> None:
    """The differing regions of two trees, applied to one value, give the other."""
    patched = {"root": copy.deepcopy(a)}
    for region in walk.differing(before, after, store):
        path = ("root", *region.path)
        holder, last = at(patched, path[:-1]), path[-1]
        if region.offset is not None:
            end = region.offset + len(region.before)
            assert equal(holder[last][region.offset : end], region.before)
            holder[last][region.offset : end] = copy.deepcopy(region.after)
        elif region.after is walk.MISSING:
            assert equal(holder.pop(last), region.before)
        else:
            assert region.before is walk.MISSING or equal(holder[last], region.before)
            assert (region.before is walk.MISSING) == (last not in holder)
            holder[last] = copy.deepcopy(region.after)
    assert equal(patched["root"], b)


# --- random values under random edits


class Driver:
    """A value and its tree under the same random changes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = Memory(seed)
        self.value: Any = self.state()
        self.payload = made(self.store, self.value)

    def scalar(self) -> Any:
        size = self.random.choice([0, 1, 5, 60, 61, 250, 256, 300, 1000])
        big = self.random.choice([4090, 4100, 17_000]) if self.random.random() < 0.05 else size
        return self.random.choice(
            [None, True, 1.5, -0.0, self.random.randrange(-(2**63), 2**63), b"ab" * (size // 2),
             "é" * (size // 2), "y" * big, f"{self.random.random()}"]
        )  # fmt: skip

    def mixed(self) -> str:
        """An item of a list in which big ones close leaves that would have gone on."""
        return "m" * self.random.choice([100, 400, 900, 900, 17_000]) + str(self.random.random())

    def some(self, depth: int = 0) -> Any:
        kind, count = self.random.random(), self.random.choice([0, 1, 3, 15, 16, 17])
        if depth > 2 or kind < 0.4:
            return self.scalar()
        if kind < 0.7:
            return [self.some(depth + 1) for _ in range(count)]
        return {f"k{self.random.randrange(999)}é": self.some(depth + 1) for _ in range(count)}

    def state(self) -> Any:
        messages = self.random.choice([0, 3, 50, 300])
        wide = self.random.choice([0, 5, 100, 1500])
        return {
            "messages": [{"role": "user", "text": "z" * self.random.randrange(900)} for _ in range(messages)],
            "same": ["again"] * self.random.choice([0, 9, 700]),
            "numbers": list(range(self.random.choice([0, 500]))),
            "mixed": [self.mixed() for _ in range(self.random.choice([0, 60]))],
            "wide": {f"w{self.random.randrange(10**6)}": self.scalar() for _ in range(wide)},
            "x": self.some(),
            "y": self.some(),
        }

    def pick(self, kind: type | tuple[type, ...] = object, longest: int = 9) -> tuple[Any, ...]:
        every = [path for path in paths(self.value) if isinstance(at(self.value, path), kind)]
        short = [path for path in every if len(path) <= longest]
        return self.random.choice(short or every)

    def put(self, writer: nodes.Writer) -> None:
        path, new = self.pick(longest=self.random.choice([2, 9])), self.some(1)
        if path:
            at(self.value, path[:-1])[path[-1]] = copy.deepcopy(new)
            self.payload = edit.put(self.payload, path, new, writer)

    def put_new(self, writer: nodes.Writer) -> None:
        path, new = self.pick(dict, 2), self.some(1)
        key = f"new{self.random.randrange(999)}"
        at(self.value, path)[key] = copy.deepcopy(new)
        self.payload = edit.put(self.payload, (*path, key), new, writer)

    def push(self, writer: nodes.Writer) -> None:
        path, new = self.pick(list), self.some(1)
        held = at(self.value, path)
        end = self.random.choice(["-", len(held), str(len(held))])
        held.append(copy.deepcopy(new))
        self.payload = edit.put(self.payload, (*path, end), new, writer)

    def remove(self, writer: nodes.Writer) -> None:
        path = self.pick(longest=self.random.choice([2, 9]))
        if path:
            del at(self.value, path[:-1])[path[-1]]
            self.payload = edit.remove(self.payload, path, writer)

    def extend(self, writer: nodes.Writer) -> None:
        path = self.pick(list, self.random.choice([1, 9]))
        new = [self.some(2) for _ in range(self.random.choice([0, 1, 1, 5, 40]))]
        at(self.value, path).extend(copy.deepcopy(new))
        self.payload = edit.extend(self.payload, path, new, writer)

    def rebuild_list(self, writer: nodes.Writer) -> None:
        held = at(self.value, self.pick(list, self.random.choice([1, 9])))
        place = self.random.randrange(len(held) + 1)
        new = [self.some(2) for _ in range(self.random.choice([0, 1, 1, 30]))]
        held[place : place + self.random.choice([0, 1, 3, 100])] = new
        self.payload = build.build(self.value, self.payload, writer)[1]

    def rebuild_dict(self, writer: nodes.Writer) -> None:
        held = at(self.value, self.pick(dict, 1))
        for key in list(held)[: self.random.choice([0, 1, 40, 1400])]:
            del held[key]
        for _ in range(self.random.choice([0, 1, 200])):
            held[f"q{self.random.randrange(10**5)}"] = self.scalar()
        self.payload = build.build(self.value, self.payload, writer)[1]

    def edit_dict(self, writer: nodes.Writer) -> None:
        """Many single keys of the widest dict, those that end leaves among them."""
        held = self.value.get("wide")
        for _ in range(40 if isinstance(held, dict) and held else 0):
            key = self.random.choice(list(held)) if held and self.random.random() < 0.6 else f"v{len(held)}"
            if key in held and self.random.random() < 0.7:
                del held[key]
                self.payload = edit.remove(self.payload, ("wide", key), writer)
            else:
                held[key] = self.scalar()
                self.payload = edit.put(self.payload, ("wide", key), held[key], writer)

    def edit_list(self, writer: nodes.Writer) -> None:
        """Single items of a list in which small ones and big ones take each other's places."""
        held = self.value.get("mixed")
        for _ in range(12 if isinstance(held, list) else 0):
            place = self.random.randrange(len(held) + 1)
            if place < len(held) and self.random.random() < 0.4:
                del held[place]
                self.payload = edit.remove(self.payload, ("mixed", place), writer)
            else:
                held[place : place + 1] = [self.mixed()]
                self.payload = edit.put(self.payload, ("mixed", place), held[place], writer)

    def rebuild_mixed(self, writer: nodes.Writer) -> None:
        held = self.value.get("mixed")
        if isinstance(held, list):
            place = self.random.randrange(len(held) + 1)
            held[place : place + self.random.choice([0, 1, 1])] = [self.mixed()] * self.random.choice([0, 1])
            held[: self.random.choice([0, 0, 1])] = []
            self.payload = build.build(self.value, self.payload, writer)[1]

    def step(self) -> None:
        before, old = self.payload, copy.deepcopy(self.value)
        change = self.random.choice(
            [
                self.put,
                self.put_new,
                self.push,
                self.remove,
                self.extend,
                self.rebuild_list,
                self.rebuild_dict,
                self.edit_dict,
                self.edit_list,
                self.rebuild_mixed,
            ]
        )
        if not any(isinstance(at(self.value, path), list) for path in paths(self.value)):
            change = self.put_new
        writer = self.store.writer()
        change(writer)
        self.store.keep(writer)
        check(self.store, self.payload, self.value)
        check_regions(self.store, before, self.payload, old, self.value)
        assert equal(read(before, self.store), old)
        for path in self.random.sample(paths(self.value), k=3) if len(paths(self.value)) > 3 else []:
            assert equal(read_at(self.payload, path, self.store), at(self.value, path))


@pytest.mark.parametrize("seed", range(24))
def test_random_changes(seed: int) -> None:
    """Edits, appends and full builds in any order give the tree that the value has by itself, all of it can
    be read, its objects are all reached, older trees stay readable, and a diff tells what changed."""
    driver = Driver(seed)
    check(driver.store, driver.payload, driver.value)
    for _ in range(14):
        driver.step()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_random_changes_for_long(seed: int) -> None:
    """The same, for longer."""
    driver = Driver(seed)
    for _ in range(40):
        driver.step()


SMALL = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False)
SIZES = st.sampled_from([0, 1, 55, 60, 61, 240, 255, 256, 257, 1000, 4080, 4096, 4097, 8190, 16_390])
LEAVES = SMALL | st.text(max_size=5) | st.builds(lambda n, c: c * n, SIZES, st.sampled_from(["a", "é", b"b"]))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=4), inner, max_size=8),
    max_leaves=30,
)


@given(TREES, TREES)
def test_building_along_any_prior(value: Any, prior: Any) -> None:
    """The version before decides what is read and written, never what comes out."""
    store = Memory()
    before = made(store, prior)
    after = made(store, value, before)
    check(store, after, value)
    check_regions(store, before, after, prior, value)


@given(st.dictionaries(st.text(max_size=3), TREES, min_size=1, max_size=6), TREES, st.randoms())
def test_putting_anywhere(value: dict[str, Any], new: Any, random: Any) -> None:
    store = Memory()
    payload = made(store, value)
    path = random.choice(paths(value)[1:])
    writer = store.writer()
    payload = edit.put(payload, path, new, writer)
    store.keep(writer)
    at(value, path[:-1])[path[-1]] = new
    check(store, payload, value)


@given(
    st.lists(
        st.sampled_from(["", "x" * 100, "x" * 300, "x" * 3000, "x" * 17_000]) | st.integers(0, 9), max_size=60
    )
)
def test_appending_one_by_one(items: list[Any]) -> None:
    """A list that grew by single items is the list that was written at once."""
    store = Memory()
    payload = made(store, {"l": []})
    for item in items:
        writer = store.writer()
        payload = edit.extend(payload, ("l",), [item], writer)
        store.keep(writer)
    assert payload == made(Memory(), {"l": items})


def boundary_values() -> list[tuple[str, Any]]:
    """Values on both sides of each constant of the format."""
    found: list[tuple[str, Any]] = []
    for limit in (f.INLINE_MAX, f.PLAIN_MAX, f.NODE_MAX, f.ITEM_BIG, f.LEAF_MAX_BYTES):
        for size in range(limit - 24, limit + 4):
            found += [
                (f"text {size}", "x" * size),
                (f"items {size}", ["x" * (size // 4)] * 4),
                (f"big item {size}", ["x" * size, 1]),
            ]
            found += [(f"kids {size}", {"a": "x" * (size // 2), "b": "x" * (size // 2)})]
    for size in range(0, 250, 2):
        flat = {f"k{n}": "x" * 200 for n in range(39)} | {"last": "y" * size}
        tall = {"list": [f"{n:05} " * 34 for n in range(29)], "last": "y" * size}
        found += [(f"flat {size}", flat), (f"tall {size}", tall | dict(list(flat.items())[:10]))]
        found += [(f"taller {size}", tall | dict(list(flat.items())[:38]))]
    for count in (15, 16, 17, f.LEAF_MIN_ITEMS, f.LEAF_MAX_ITEMS, f.LEAF_MAX_ITEMS + 1, 3 * f.LEAF_MAX_ITEMS):
        found += [(f"same {count}", ["same"] * count), (f"ints {count}", list(range(count)))]
        found += [(f"keys {count}", {f"key {n:05}": "v" * 40 for n in range(count)})]
        found += [(f"fat keys {count}", {f"{n}": "v" * 300 for n in range(count)})]
    return found


def test_both_sides_of_every_limit() -> None:
    """Where a layout changes, growing into it and shrinking out of it give the same tree."""
    store = Memory()
    values = boundary_values()
    roots = {name: made(store, {"v": value}) for name, value in values}
    order = random.Random(1).sample(values, k=len(values))
    payload = made(store, {"v": None})
    for name, value in values + order:
        writer = store.writer()
        payload = edit.put(payload, ("v",), value, writer)
        store.keep(writer)
        assert payload == roots[name], name
    for name, value in order:
        payload = made(store, {"v": value}, payload)
        assert payload == roots[name], name
        assert equal(read(payload, store), {"v": value})


def test_lists_and_dicts_of_many_thousands() -> None:
    """Several levels of index nodes, built, edited and read at single places."""
    store = Memory()
    value = {"l": [f"item {n}" * 3 for n in range(20_000)], "d": {f"key {n}": n for n in range(20_000)}}
    payload = made(store, value)
    check(store, payload, value)
    for place in (0, 7, 10_000, 19_999):
        value["l"][place] = "changed"
        value["d"][f"key {place}"] = "changed"
        value["d"].pop(f"key {place + 1}", None)
        writer = store.writer()
        payload = edit.put(payload, ("l", place), "changed", writer)
        payload = edit.put(payload, ("d", f"key {place}"), "changed", writer)
        if f"key {place + 1}" in read_at(payload, ("d",), writer):
            payload = edit.remove(payload, ("d", f"key {place + 1}"), writer)
        store.keep(writer)
        assert sum(map(len, writer.new.values())) < 200_000
    check(store, payload, value)
    store.reads = 0
    assert read_at(payload, ("d", "key 777"), store) == 777
    assert read_at(payload, ("l", 12_345), store) == value["l"][12_345]
    assert store.reads < 20


# --- what is written


@pytest.mark.parametrize("items", [0, 3, 40, 1_000, 10_000])
def test_what_has_not_changed_is_not_written(items: int) -> None:
    """A full build of an equal value along its own tree writes nothing, and changes nothing."""
    value = {
        "l": [{"n": n, "text": "x" * (n % 700)} for n in range(items)],
        "d": {f"k{n}": "y" * 50 for n in range(items)},
        "big": ["z" * 20_000, {"inner": ["w" * 5_000] * 3}],
    }
    store = Memory()
    payload = made(store, value)
    writer = store.writer()
    assert build.build(copy.deepcopy(value), payload, writer)[1] == payload
    assert writer.new == {}


@pytest.mark.parametrize("count", [0, 1, 10, 100, 1_000, 10_000])
def test_an_append_writes_little(count: int) -> None:
    """Whatever the length: at most three objects beside the root, and all of them are needed."""
    store = Memory()
    random_ = random.Random(count)
    value = {
        "messages": [{"role": "user", "text": "x" * random_.randrange(1_000)} for _ in range(count)],
        "n": 1,
    }
    payload = made(store, value)
    written = []
    for n in range(60):
        writer = store.writer()
        payload = edit.extend(payload, ("messages",), [{"role": "user", "text": f"{n}" * 300}], writer)
        store.keep(writer)
        written.append(len(writer.new))
        assert writer.new.keys() <= reached(payload, store)
        assert len(payload) < 12_000
    assert max(written) <= 3
    assert len(read(payload, store)["messages"]) == count + 60


def test_a_full_build_with_one_more_item_writes_little() -> None:
    """The same change without saying what changed costs no more objects than the append."""
    value: dict[str, Any] = {
        "messages": [{"text": f"{n} " * 100} for n in range(1_000)],
        "other": ["x" * 5_000] * 20,
    }
    store = Memory()
    payload = made(store, value)
    for n in range(20):
        value["messages"].append({"text": f"more {n}" * 100})
        writer = store.writer()
        payload = build.build(value, payload, writer)[1]
        store.keep(writer)
        assert len(writer.new) <= 3
    check(store, payload, value)


@pytest.mark.parametrize("place", [0, 1, 500, 999])
def test_an_insertion_moves_one_boundary(place: int) -> None:
    """The leaves after an inserted or removed item are those of before."""
    value = {"l": [f"item {n} " * 20 for n in range(1_000)]}
    store = Memory()
    payload = made(store, value)
    changed = {"l": [*value["l"][:place], "inserted", *value["l"][place:]]}
    writer = store.writer()
    build.build(changed, payload, writer)
    assert len(writer.new) <= 8
    writer = store.writer()
    edit.remove(payload, ("l", place), writer)
    assert len(writer.new) <= 8


@pytest.mark.parametrize("before", [0, 1, 7, 8, 30])
@pytest.mark.parametrize("after", [0, 1, 30])
def test_a_big_item_leaves_no_trace(before: int, after: int) -> None:
    """It closes the leaf before it; when it goes or shrinks, those items are one run again."""
    store = Memory()
    low, high = [f"low {n} " * 12 for n in range(before)], [f"high {n} " * 12 for n in range(after)]
    payload = made(store, {"l": [*low, "b" * 17_000, *high], "pad": "x" * 5_000})
    for new in ([], ["small"], ["c" * 18_000]):
        value = {"l": [*low, *new, *high], "pad": "x" * 5_000}
        check(store, made(store, value, payload), value)
        writer = store.writer()
        path = ("l", before)
        edited = edit.put(payload, path, new[0], writer) if new else edit.remove(payload, path, writer)
        store.keep(writer)
        check(store, edited, value)


def test_a_change_in_place_is_seen() -> None:
    """There is no caching by identity: the same object with another content is another value."""
    value: dict[str, Any] = {"l": [{"text": "x" * 300, "tags": ["a"]} for _ in range(200)]}
    store = Memory()
    payload = made(store, value)
    value["l"][77]["tags"].append("b")
    after = made(store, value, payload)
    check(store, after, value)
    (region,) = walk.differing(payload, after, store)
    assert (region.path, region.offset is not None) == (("l",), True)


def test_a_diff_reads_only_what_differs() -> None:
    value = {f"part {n}": [f"{n} {m} " * 30 for m in range(300)] for n in range(20)}
    store = Memory()
    before = made(store, value)
    value["part 7"][3] = "other"
    after = made(store, value, before)
    store.reads = 0
    (region,) = walk.differing(before, after, store)
    assert region.path == ("part 7",)
    assert store.reads < 8
    assert list(walk.differing(after, after, store)) == []


# --- what is refused


@dataclasses.dataclass
class Model:
    text: str
    inner: Any = None


def test_models_are_values() -> None:
    """As a state, as an item and as a big item, with or without a prior."""

    def of(make: Any) -> Any:
        return {
            "m": make(text="x" * 20_000, inner=[make(text="y", inner=None)] * 9),
            "l": [make(text="z" * 17_000, inner=1)] * 3,
        }

    store = Memory()
    plain = made(store, of(dict))
    assert made(store, of(Model)) == made(store, of(Model), plain) == plain
    whole = made(store, Model("x" * 5_000, [Model("y" * 5_000)]))
    assert whole == made(store, {"text": "x" * 5_000, "inner": [{"text": "y" * 5_000, "inner": None}]})
    writer = store.writer()
    assert edit.extend(made(store, []), (), [Model("a")], writer) == made(
        store, [{"text": "a", "inner": None}]
    )


BAD: dict[str, Any] = {
    "set": {1}, "nan": float("nan"), "surrogate": "\ud800", "big int": 2**63, "tuple": (1,),
    "bytearray": bytearray(9),
    "key": {1: 1}, "big bytearray": bytearray(9_000), "in a model": Model("x", {1}),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("size", [0, 5_000, 40_000])
def test_the_offender_is_found_at_every_size(name: str, size: int) -> None:
    """In a state of any size, along a prior or not, by an edit or a build: refused, with its path."""
    store = Memory()
    sound = {"pad": "x" * size, "l": ["y" * size, *range(300)], "d": {"k": "z" * size}}
    payload = made(store, sound)
    inside = "/inner" if name == "in a model" else ""
    for path in (("new",), ("d", "new"), ("l", 150), ("l", 0), ("d", "k")):
        value = copy.deepcopy(sound)
        at(value, path[:-1])[path[-1]] = BAD[name]
        expected = "/" + "/".join(map(str, path)) + inside
        for call in (
            lambda value=value: build.build(value, None, store.writer()),
            lambda value=value: build.build(value, payload, store.writer()),
            lambda path=path: edit.put(payload, path, BAD[name], store.writer()),
        ):
            with pytest.raises(Unstorable) as caught:
                call()
            assert caught.value.path == expected
    with pytest.raises(Unstorable):
        edit.extend(payload, ("l",), [1, BAD[name]], store.writer())


KEYS = {"long": ("k" * 4097, TooLarge), "surrogate": ("\ud800", Unstorable)}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize(
    "item", [1, "x" * 300, "x" * 20_000, ["x" * 300] * 30], ids=["small", "kid", "big", "node"]
)
@pytest.mark.parametrize("beside", [0, 5_000, "wide"])
def test_keys_are_looked_at_wherever_they_stand(name: str, item: Any, beside: Any) -> None:
    """Beside small values, large ones and in wide dicts, by builds and by edits."""
    key, error = KEYS[name]
    sound: Any = {f"k{n}": "v" * 60 for n in range(400)} if beside == "wide" else {"pad": "x" * beside}
    store = Memory()
    payload = made(store, sound)
    for call in (
        lambda: build.build(sound | {key: item}, None, store.writer()),
        lambda: build.build(sound | {key: item}, payload, store.writer()),
        lambda: edit.put(payload, (key,), item, store.writer()),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.path == ""


@pytest.mark.parametrize("filling", [1, "x" * 300, "x" * 17_000], ids=["small", "kid", "big"])
@pytest.mark.parametrize(
    "wrap",
    [lambda v, _: [v], lambda v, _: {"k": v}, lambda v, pad: [pad, v], lambda v, pad: {"p": pad, "k": v}],
    ids=["list", "dict", "padded list", "padded dict"],
)
def test_depth_is_limited_at_every_size(wrap: Any, filling: Any) -> None:
    """128 levels are stored and read back, 129 are refused: as one object or as many."""
    value: Any = filling
    for _ in range(128):
        value = wrap(value, filling)
    store = Memory()
    payload = made(store, value)
    assert equal(read(payload, store), value)
    for deeper in (wrap(value, filling), [{"k": value}]):
        with pytest.raises(TooDeep):
            build.build(deeper, None, store.writer())
        with pytest.raises(TooDeep):
            build.build(deeper, payload, store.writer())


def test_depth_is_limited_for_edits() -> None:
    """An edit cannot carry a state below the limit piece by piece."""
    store = Memory()
    deep: Any = ["x" * 17_000]
    for _ in range(100):
        deep = [deep]
    payload = made(store, {"a": {"b": deep, "pad": "x" * 9_000}})
    path = ("a", "b", *([0] * 100))

    def value(levels: int) -> Any:
        return "x" * 17_000 if levels == 0 else [value(levels - 1)]

    assert edit.put(payload, path, value(128 - len(path)), store.writer())
    with pytest.raises(TooDeep):
        edit.put(payload, path, value(129 - len(path)), store.writer())


def test_a_state_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {"pad": "x" * 9_000}
    loop["self"] = [loop]
    store = Memory()
    for prior in (None, made(store, {"pad": "x" * 9_000, "self": ["y" * 20_000]})):
        with pytest.raises(TooDeep):
            build.build(loop, prior, store.writer())


SMALL_STATE = {"d": {"k": 1}, "l": [1, {"x": 1}], "t": "text", "n": None}
LARGE_STATE = SMALL_STATE | {
    "pad": "p" * 9_000,
    "ll": ["x" * 300] * 200,
    "w": {f"k{n}": "v" * 60 for n in range(400)},
}


@pytest.mark.parametrize("state", [SMALL_STATE, LARGE_STATE], ids=["plain", "tree"])
@pytest.mark.parametrize(
    ("do", "path"),
    [
        ("remove", ()), ("remove", ("zzz",)), ("remove", ("d", "zzz")), ("remove", ("l", 2)),
        ("remove", ("l", "-")),
        ("remove", ("t", "x")), ("remove", ("n", 0)), ("remove", (0,)), ("remove", ("d", 0)),
        ("remove", ("l", "x")),
        ("put", ("zzz", "k")), ("put", ("d", "zzz", "k")), ("put", ("l", 3)), ("put", ("l", -1)),
        ("put", ("l", "01")),
        ("put", ("l", "-", "x")), ("put", ("t", 0)), ("put", (0,)), ("put", ("l", 1, 0)),
        ("extend", ("zzz",)),
        ("extend", ("d",)), ("extend", ("t",)), ("extend", ("n",)), ("extend", ("l", 0)),
        ("extend", ("l", 9)), ("extend", ()),
        ("read", ("zzz",)), ("read", ("d", "zzz")), ("read", ("l", 2)), ("read", ("l", "-")),
        ("read", ("t", 0)),
        ("read", (0,)), ("read", ("l", 1, "y")),
    ],
    ids=repr,
)  # fmt: skip
def test_paths_that_lead_nowhere(state: Any, do: str, path: tuple[Any, ...]) -> None:
    """A bad path like any other, the same for a small state and a large one; nothing is changed."""
    store = Memory()
    payload = made(store, state)
    calls: dict[str, Any] = {
        "remove": lambda: edit.remove(payload, path, store.writer()),
        "put": lambda: edit.put(payload, path, 1, store.writer()),
        "extend": lambda: edit.extend(payload, path, [1], store.writer()),
        "read": lambda: read_at(payload, path, store),
    }
    with pytest.raises(BadPath) as caught:
        calls[do]()
    assert caught.value.path is not None
    assert equal(read(payload, store), state)


@pytest.mark.parametrize(
    ("do", "path"),
    [("put", ("ll", 200, "x")), ("put", ("ll", 201)), ("put", ("w", 1)), ("put", ("w", "zzz", "x")),
    ("extend", ("w",)),
     ("remove", ("w", "zzz")), ("remove", ("ll", 200)), ("read", ("w", "zzz")), ("read", ("w", "zzz" * 9)),
     ("read", ("w", 3)), ("read", ("ll", 200)), ("read", ("w", "k1", "x")), ("read", ("ll", 3, "x"))],
    ids=repr,
)  # fmt: skip
def test_paths_that_lead_nowhere_in_large_parts(do: str, path: tuple[Any, ...]) -> None:
    test_paths_that_lead_nowhere(LARGE_STATE, do, path)


def test_the_whole_can_be_replaced() -> None:
    store = Memory()
    for value in (1, None, [], {"a": "x" * 9_000}, "x" * 9_000):
        writer = store.writer()
        payload = edit.put(made(store, LARGE_STATE), (), value, writer)
        store.keep(writer)
        check(store, payload, value)


# --- nodes


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xc1",
        b"\xc1\x00",
        b"\xc1\x09\x90",
        b"\xc1\x01",
        b"\xc1\x02\xff",
        b"\xc1\x02\x90",
        b"\xc1\x05\x91\xc0",
    ],
    ids=bytes.hex,
)
def test_bytes_that_are_no_tree(raw: bytes) -> None:
    """Forged or damaged objects are said to be damaged."""
    with pytest.raises(CorruptObject):
        read(raw, Memory())


def test_an_index_node_is_no_value() -> None:
    for node in (nodes.IndexNode([]), nodes.WideIndex([])):
        with pytest.raises(CorruptObject):
            read(nodes.write(node), Memory())
        with pytest.raises(CorruptObject):
            nodes.value_size(nodes.write(node))


def test_a_leaf_of_the_wrong_kind_is_damage() -> None:
    """A wide dict whose leaf is a list says so instead of reading on."""
    store = Memory()
    writer = store.writer()
    leaf = writer.put(nodes.write(nodes.ListNode(0, 0, [], [], 0)))
    store.keep(writer)
    wide = nodes.write(nodes.WideNode(1, 9, [nodes.WideEntry("z", leaf, 1, 9, 9)]))
    with pytest.raises(CorruptObject):
        read(wide, store)
    with pytest.raises(CorruptObject):
        edit.put(wide, ("a",), 1, store.writer())


def test_a_value_cannot_be_taken_for_a_node() -> None:
    """References live in the structure of nodes: whatever bytes a value holds, it refers to nothing."""
    store = Memory()
    for value in (
        nodes.ref(b"d" * 32),
        [nodes.ref(b"d" * 32)] * 40,
        {"k": b"\xc1\x03" + b"d" * 32},
        "x" * 300,
    ):
        payload = made(store, {"v": value, "pad": "p" * 9_000})
        assert b"d" * 32 not in reached(payload, store)
        assert equal(read_at(payload, ("v",), store), value)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_headers(count: int) -> None:
    """Sizes are computed without encoding; they must be those of the encoder."""
    assert pack([None] * count)[: nodes.header_size(count)] == nodes.array_header(count)
    encoded = pack({f"{n:05}": None for n in range(count)})
    assert encoded.startswith(nodes.map_header(count))
    assert nodes.map_count(encoded) == count


@pytest.mark.parametrize(
    "key", ["", "a", "é", "a" * 31, "a" * 32, "é" * 16, "a" * 255, "a" * 256, "線" * 4096, "a" * 70_000]
)
def test_sizes_of_keys(key: str) -> None:
    assert nodes.key_size(key) == len(pack(key))


@given(TREES)
def test_reading_gives_a_fresh_value(value: Any) -> None:
    """Two readings share nothing that could be changed."""
    store = Memory()
    payload = made(store, [value, value])
    one = read(payload, store)
    for path in reversed(paths(one)):
        held = at(one, path)
        if isinstance(held, dict):
            held.clear()
        elif isinstance(held, list):
            del held[:]
    assert equal(read(payload, store), [value, value])


def test_limits_of_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A string beyond the limit is refused wherever it stands."""
    monkeypatch.setattr(canonical, "MAX_ITEM", 20_000)
    store = Memory()
    assert made(store, {"s": "x" * 19_000})
    for value in ("x" * 20_001, b"x" * 20_001):
        for state, path in (({"a": value}, "/a"), ([1, value], "/1"), ({"a": [{"b": value}]}, "/a/0/b")):
            with pytest.raises(TooLarge) as caught:
                build.build(state, None, store.writer())
            assert caught.value.path == path
