"""Memory: items with history, written at once or with a step, and taken back with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import takeback
from takeback.errors import BadName, BadRequest, EffectsDenied, MemoryConflict, PlanStale, Unstorable
from takeback.store import Store

CITY = (("users", "ann"), "city")


class Clock:
    now = 1_800_000_000_000_000

    def __call__(self):
        self.now += 1
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file", "postgres"])
def tb(request, store_path, clock):
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    else:
        url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, durability="relaxed", clock=clock, actor="me") as repo:
        yield repo


@pytest.fixture
def store(tb):
    return tb.store


def remember(thread, value, key="city", label="remember"):
    """A step that does nothing but write an item."""
    with thread.step(label) as step:
        _put(thread, value, key)
    return step.made


def _put(thread, value, key):
    store = Store(thread._ctx)
    if value is None:
        store.delete(CITY[0], key)
    else:
        store.put(CITY[0], key, value)


def shown(store, key="city"):
    found = store.get(CITY[0], key)
    return None if found is None else found.value


# --- one item


def test_an_item_comes_back_as_it_went(store):
    """With its name, number, times and writer; its value is the caller's own."""
    value = {"city": "Rome", "n": [1, 2.5, None, True, b"x"]}
    made = store.put(*CITY, value, reason="she said so")
    found = store.get(*CITY)
    assert found == made
    assert (found.namespace, found.key, found.value, found.version) == (("users", "ann"), "city", value, 1)
    assert (found.reason, found.actor, found.thread, found.checkpoint) == ("she said so", "me", None, None)
    assert found.created == found.updated
    found.value["city"] = "mine"
    assert store.get(*CITY).value == value
    assert store.get("users", "ann") is None


def test_a_large_value_is_a_tree(tb, store):
    """Beyond what a record holds; equal parts are stored once."""
    value = {"text": "x" * 100_000, "items": list(range(5000))}
    store.put(*CITY, value)
    before = tb.info().details["objects"]
    store.put(CITY[0], "other", value)
    assert store.get(CITY[0], "other").value == value
    assert tb.info().details["objects"] == before


def test_writing_again_and_deleting_keep_the_history(store):
    """The newest shows; all versions stay, with when, why and by whom; what comes again is a new item."""
    store.put(*CITY, "Rome", reason="one", actor="ann")
    created = store.get(*CITY).created
    store.put(*CITY, "Oslo", reason="two")
    assert (store.get(*CITY).value, store.get(*CITY).version) == ("Oslo", 2)
    assert store.get(*CITY).created == created
    assert store.get(*CITY).updated > created
    assert store.delete(*CITY, reason="three") is True
    assert store.get(*CITY) is None
    assert store.delete(*CITY) is False
    store.put(*CITY, "Bern")
    assert store.get(*CITY).created > created
    assert [(v.number, v.value, v.deleted, v.reason, v.actor, v.held) for v in store.history(*CITY)] == [
        (4, "Bern", False, None, "me", True), (3, None, True, "three", "me", True),
        (2, "Oslo", False, "two", "me", True), (1, "Rome", False, "one", "ann", True),
    ]  # fmt: skip
    assert store.history("none", "x") == []


def test_compare_and_swap(store):
    """Only from the version that shows; None for nothing there. The error says what is there."""
    first = store.put(*CITY, "Rome", expect=None)
    with pytest.raises(MemoryConflict, match="users/ann/city is at version 1, not at no version"):
        store.put(*CITY, "Oslo", expect=None)
    second = store.put(*CITY, "Oslo", expect=first.version)
    with pytest.raises(MemoryConflict, match="at version 2, not at version 1"):
        store.put(*CITY, "Bern", expect=first.version)
    with pytest.raises(MemoryConflict):
        store.delete(*CITY, expect=1)
    store.delete(*CITY, expect=second.version)
    store.put(*CITY, "Bern", expect=None)
    with pytest.raises(BadRequest, match="no version of an item"):
        store.put(*CITY, "x", expect="2")


def test_time_to_live(store, clock):
    """Over when it is over, also in lists; refreshed by reading where that is asked for."""
    store.put(*CITY, "Rome", ttl=60)
    store.put(CITY[0], "other", "stays", ttl=timedelta(days=1))
    assert store.get(*CITY).expires > store.get(*CITY).updated
    clock.now += 50_000_000
    assert store.get(*CITY, refresh=True).value == "Rome"
    clock.now += 50_000_000
    assert store.search(CITY[0], refresh=True)[0].value == "Rome"
    clock.now += 61_000_000
    assert store.get(*CITY) is None
    assert [item.key for item in store.search()] == ["other"]
    store.put(*CITY, "Rome again", expect=None)
    assert store.get(*CITY).value == "Rome again"
    for bad in (0, -1, 1e12):
        with pytest.raises(BadRequest, match="no time to live"):
            store.put(*CITY, "x", ttl=bad)


@pytest.mark.parametrize(
    "bad", [(), ("",), ("a", ""), ("a\nb",), ("a\x1fb",), (1,), ("x" * 2000,), ("\ud800",)]
)
def test_bad_namespaces_are_refused(store, bad):
    with pytest.raises(BadName):
        store.put(bad, "k", 1)


def test_bad_keys_and_values_are_refused(store):
    for key in ("", "a\0b", "x" * 2000, 5, "\ud800"):
        with pytest.raises(BadName):
            store.put("a", key, 1)
    with pytest.raises(Unstorable) as refused:
        store.put("a", "k", {"b": [object()]})
    assert refused.value.path == "/b/0"
    assert store.search() == []


def test_tenants_do_not_meet(store_path):
    with takeback.open(store_path, "a") as one, takeback.open(store_path, "b") as two:
        one.store.put("ns", "k", 1)
        assert two.store.get("ns", "k") is None
        assert two.store.search() == two.store.namespaces() == []


# --- many


@pytest.fixture
def people(store):
    for name, age, city in (("ann", 30, "Rome"), ("bob", 17, "Oslo"), ("cy", 45, "Rome")):
        store.put(("users", name), "profile", {"age": age, "city": city, "tags": ["x", name], "no": None})
    store.put(("users", "ann", "notes"), "1", {"text": "likes trains"})
    store.put("users2", "k", {"age": 1})
    return store


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"city": "Rome"}, ["ann", "cy"]),
        ({"age": {"$gte": 18}}, ["ann", "cy"]),
        ({"age": {"$gt": 17, "$lt": 45}}, ["ann"]),
        ({"age": {"$lte": 17.0}}, ["bob"]),
        ({"age": {"$ne": 30}, "city": {"$exists": True}}, ["bob", "cy"]),
        ({"age": 30.0}, ["ann"]),
        ({"city": {"$in": ["Oslo", "Bern"]}}, ["bob"]),
        ({"city": {"$nin": ["Oslo"]}, "age": {"$exists": True}}, ["ann", "cy"]),
        ({"tags": {"$contains": "cy"}}, ["cy"]),
        ({"tags": ["x", "bob"]}, ["bob"]),
        ({"age": {"$gt": "a"}}, []),
        ({"age": True}, []),
        ({"city": {"$eq": "Rome"}, "age": {"$gt": 40}}, ["cy"]),
        ({"absent": {"$exists": False}, "city": "Oslo"}, ["bob"]),
    ],
)
def test_filters(people, where, expected):
    found = people.search("users", where=where)
    names = [item.namespace[1] for item in found]
    assert names == expected


def test_an_unknown_operator_is_named(people):
    with pytest.raises(BadRequest, match=r"'\$like' is no operator"):
        people.search("users", where={"city": {"$like": "R%"}})


def test_search_is_by_namespace_in_order_and_in_parts(people):
    """A prefix is whole labels; a page goes on where the last one ended."""
    everything = [(item.namespace, item.key) for item in people.search(limit=None)]
    assert everything == sorted(everything)
    assert len(everything) == 5
    assert [item.key for item in people.search(("users", "ann"))] == ["profile", "1"]
    assert len(people.search("users")) == 4
    parts = [people.search("users", limit=3), people.search("users", limit=3, offset=3)]
    assert [len(part) for part in parts] == [3, 1]
    assert [*parts[0], *parts[1]] == people.search("users", limit=None)
    assert people.search("none") == people.search("users", limit=0) == []
    with pytest.raises(BadRequest):
        people.search(limit=-1)


def test_namespaces(people):
    assert people.namespaces() == [
        ("users", "ann"), ("users", "ann", "notes"), ("users", "bob"), ("users", "cy"), ("users2",),
    ]  # fmt: skip
    assert people.namespaces(prefix=("users", "*"), depth=2) == [("users", n) for n in ("ann", "bob", "cy")]
    assert people.namespaces(suffix="notes") == [("users", "ann", "notes")]
    assert people.namespaces(prefix=("*", "ann")) == [("users", "ann"), ("users", "ann", "notes")]
    assert people.namespaces(limit=2, offset=3) == [("users", "cy"), ("users2",)]
    people.delete("users2", "k")
    assert ("users2",) not in people.namespaces()


def embed(texts):
    """Vectors by what the texts are about."""
    return [[float(text.count(word)) + 0.01 for word in ("train", "food", "sea")] for text in texts]


def test_by_meaning(store):
    """The nearest first, with a score; fields say what counts; what has no vector comes last."""
    store.put("notes", "0", {"text": "before there was an index"})
    store.index(embed, fields=["text", "more[*].text"])
    store.put("notes", "1", {"text": "train train"})
    store.put("notes", "2", {"text": "nothing", "more": [{"text": "food"}, {"text": "sea"}]})
    store.put("notes", "3", {"text": "train"}, index=False)
    store.put("notes", "4", {"other": "train"}, index=["other"])
    found = store.search("notes", query="sea")
    assert found[0].key == "2"
    assert found[0].score > 0.9 > found[1].score
    assert {item.key for item in found if item.score is None} == {"0", "3"}
    assert {item.key for item in store.search("notes", query="train", limit=2)} == {"1", "4"}
    assert [i.key for i in store.search("notes", query="train", where={"text": "train train"})] == ["1"]


def test_a_query_needs_an_index(store):
    with pytest.raises(BadRequest, match="needs an index"):
        store.search(query="x")


def test_mistakes_with_many_and_with_an_index_are_named(people):
    """What is no list, filter, number or function, and what an embedder cannot have meant."""
    for bad in ({"where": 3}, {"where": {"age": {"$in": 3}}}, {"limit": "3"}, {"offset": None}):
        with pytest.raises(BadRequest):
            people.search("users", **bad)
    with pytest.raises(BadName, match="None is no namespace"):
        people.get(None, "k")
    with pytest.raises(BadRequest, match="no time to live"):
        people.put("a", "k", 1, ttl="5")
    with pytest.raises(BadRequest, match="is no function"):
        people.index(None)
    for vectors, said in ([], "made 0 vectors of 1 texts"), ([[float("nan")]], "not finite"):
        people.index(lambda _, vectors=vectors: vectors)
        with pytest.raises(BadRequest, match=said):
            people.put("a", "k", "text")
    people.index(embed, fields="text")
    people.put("a", "k", {"text": "train"})
    assert people.search("a", query="train")[0].score > 0.9


# --- with steps


def test_a_step_s_writes_are_committed_with_it(tb, store):
    """Seen inside before, and outside only afterwards; one version of the thread for all of them."""
    thread = tb.thread("t", initial={})
    with (
        takeback.open(tb.info().location)
        if tb.info().kind == "sqlite"
        else takeback.open(":memory:") as other,
        thread.step("learn", reason="she said so") as step,
    ):
        step.state["n"] = 1
        made = store.put(*CITY, "Rome")
        assert made.version is None
        assert (store.get(*CITY).value, store.get(*CITY).version) == ("Rome", None)
        assert [item.value for item in store.search("users")] == ["Rome"]
        assert store.namespaces() == [("users", "ann")]
        assert other.store.get(*CITY) is None
        store.put(CITY[0], "x", 1)
        store.delete(CITY[0], "x")
        assert store.get(CITY[0], "x") is None
    found = store.get(*CITY)
    assert (found.thread, found.checkpoint, found.reason, found.version) == ("t", 1, "she said so", 1)
    assert store.history(*CITY)[0].step == "learn"
    assert thread.version == 1


def test_a_step_that_raises_writes_nothing(tb, store):
    thread = tb.thread("t", initial={})

    def broken():
        with thread.step("learn"):
            store.put(*CITY, "Rome")
            1 / 0

    with pytest.raises(ZeroDivisionError):
        broken()
    assert store.get(*CITY) is None
    assert store.history(*CITY) == []
    assert thread.refresh().version == 0


def test_a_step_that_only_remembers_makes_a_version(tb, store):
    """It is something that can be taken back; also on a thread that has no version yet."""
    thread = tb.thread("t")
    with thread.step("learn") as step:
        store.put(*CITY, "Rome")
    assert step.made is not None
    assert thread.refresh().head.kind == "step"
    thread.undo()
    assert store.get(*CITY) is None


def test_a_step_s_checkpoint_splits_what_is_remembered(tb, store):
    thread = tb.thread("t", initial={})
    with thread.step("learn") as step:
        store.put(*CITY, "Rome")
        step.checkpoint()
        store.put(*CITY, "Oslo")
    assert [(v.checkpoint, v.value) for v in store.history(*CITY)] == [(2, "Oslo"), (1, "Rome")]
    thread.undo()
    assert store.get(*CITY).value == "Rome"


def test_taking_back_and_bringing_again(tb, store):
    """Memory goes back and forth with the steps that wrote it, and the plan says so before."""
    thread = tb.thread("t", initial={})
    store.put(*CITY, "Bern")
    for city in ("Rome", "Oslo"):
        with thread.step(city):
            store.put(*CITY, city)
            store.put(CITY[0], "in " + city, {"since": 1})
    plan = thread.plan_rollback(0)
    assert str(plan) == (
        "memory users/ann/city: 'Oslo' → 'Bern' · memory users/ann/in Oslo: removed"
        " · memory users/ann/in Rome: removed"
    )
    assert plan.as_dict()["parts"][-1]["part"] == "memory"
    receipt = plan.apply("wrong")
    assert "memory users/ann/city: 'Oslo' → 'Bern'" in receipt.done[0]
    assert [item.key for item in store.search("users")] == ["city"]
    assert shown(store) == "Bern"
    thread.undo()
    assert shown(store) == "Oslo"
    thread.undo()
    assert shown(store) == "Rome"
    thread.redo()
    assert shown(store) == "Oslo"
    thread.undo(receipt.bookmark)
    assert shown(store) == "Oslo"
    assert thread.verify().ok
    assert [(v.value, v.held) for v in store.history(*CITY)] == [
        ("Oslo", True), ("Rome", True), ("Bern", True)
    ]  # fmt: skip


def test_another_s_later_write_is_never_destroyed(tb, store):
    """The rule: the newest version that its writer's head holds. The plan says what stays, and why."""
    ann, bob = tb.thread("ann", initial={}), tb.thread("bob", initial={})
    store.put(*CITY, "Bern")
    remember(ann, "Rome")
    remember(bob, "Oslo")
    plan = ann.plan_rollback(0)
    assert plan.memory.lines() == [
        "memory users/ann/city: version 3 stays; it was written over version 2, which is taken back"
    ]
    plan.apply()
    assert shown(store) == "Oslo"
    assert [v.held for v in store.history(*CITY)] == [True, False, True]
    bob.undo()
    assert shown(store) == "Bern"
    ann.undo()
    assert shown(store) == "Rome"


def test_compare_and_swap_after_going_back(tb, store):
    """What shows is what is compared, and what is written is newer than all that was taken back."""
    thread = tb.thread("t", initial={})
    store.put(*CITY, "Bern")
    remember(thread, "Rome")
    thread.undo()
    with pytest.raises(MemoryConflict, match="is at version 1, not at version 2"):
        store.put(*CITY, "x", expect=2)
    assert store.put(*CITY, "Oslo", expect=1).version == 3
    thread.redo()
    assert shown(store) == "Oslo"


def test_expectations_in_a_step_are_looked_at_in_its_transaction(tb, store):
    """Somebody who writes meanwhile wins, and the step's end is refused whole; without one, both stay."""
    thread = tb.thread("t", initial={"n": 0})
    store.put(*CITY, "Bern")

    def learn(n, meanwhile, **expected):
        with thread.step() as s:
            s.state["n"] = n
            store.put(*CITY, "Rome", **expected)
            _outside(tb.store.put, *CITY, meanwhile)

    with pytest.raises(MemoryConflict, match="is at version 2, not at version 1") as refused:
        learn(1, "Oslo", expect=1)
    assert refused.value.thread == "t"
    assert (thread.refresh().state["n"], shown(store)) == (0, "Oslo")
    learn(2, "Bern")
    assert (thread.state["n"], shown(store)) == (2, "Rome")


def test_what_a_step_has_written_has_no_number_yet(tb, store):
    with tb.thread("t", initial={}).step():
        store.put(*CITY, "a")
        with pytest.raises(MemoryConflict, match="was written in this step already"):
            store.put(*CITY, "b", expect=1)
        store.delete(*CITY)
        store.put(*CITY, "c", expect=None)
    assert shown(store) == "c"


def _outside(call, *args, **named):
    """The call as somebody makes it who is in no step."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args, **named).result()


def test_a_step_that_merges_brings_its_memory(tb, store):
    """Somebody committed meanwhile: state and memory both arrive, whole."""
    thread = tb.thread("t", initial={"a": 0, "b": 0})
    big = {"text": "x" * 5000, "n": list(range(3000))}
    with thread.step() as s:
        s.state["a"] = 1
        store.put(*CITY, big)
        _outside(lambda: tb.thread("t").patch({"b": 1}))
    assert thread.state == {"a": 1, "b": 1}
    assert shown(store) == big
    assert thread.verify().ok
    assert thread.head.uses


def test_a_plan_is_stale_when_memory_moved(tb, store):
    """Apply does exactly what the plan says, or refuses."""
    thread = tb.thread("t", initial={})
    remember(thread, "Rome")
    plan = thread.plan_undo()
    store.put(*CITY, "Oslo")
    with pytest.raises(PlanStale, match="memory has changed since the plan was made"):
        plan.apply()
    thread.plan_undo().apply()
    assert shown(store) == "Oslo"


def test_scope(tb, store):
    """Memory alone, or all but memory; what is kept goes on to show, and can be taken back later."""
    thread = tb.thread("t", initial={"n": 0})
    with thread.step() as s:
        s.state["n"] = 1
        store.put(*CITY, "Rome")
    thread.rollback(0, scope="memory")
    assert (thread.state["n"], shown(store)) == (1, None)
    thread.undo()
    plan = thread.plan_rollback(0, scope=["state", "effects", "files"])
    assert "memory stays as it is" in str(plan)
    plan.apply()
    assert (thread.state["n"], shown(store)) == (0, "Rome")
    assert store.get(*CITY).checkpoint == thread.version
    thread.undo()
    assert shown(store) == "Rome"


def test_a_revert_takes_back_state_alone(tb, store):
    thread = tb.thread("t", initial={"n": 0})
    with thread.step() as s:
        s.state["n"] = 1
        store.put(*CITY, "Rome")
    plan = thread.plan_revert(1)
    assert "memory users/ann/city stays: a revert takes back state alone" in str(plan)
    plan.apply()
    assert shown(store) == "Rome"


def test_a_fork_that_came_home(tb, store):
    """What it wrote is the ancestor's to take back, and comes again with the merge."""
    thread = tb.thread("t", initial={})
    fork = thread.fork(name="f")
    with fork.step() as s:
        s.state["x"] = 1
        store.put(*CITY, "Rome")
    assert thread.plan_rollback(0).memory.changes == []
    thread.merge(fork)
    assert shown(store) == "Rome"
    plan = thread.plan_undo()
    assert "memory users/ann/city: removed" in str(plan)
    plan.apply()
    assert shown(store) is None
    thread.redo()
    assert shown(store) == "Rome"
    thread.delete()
    assert shown(store) == "Rome"


def test_a_fork_that_came_home_writes_no_more(tb, store):
    """What it wrote would hang on the head of the thread it was merged into, and never show: refused at
    once, and where it was merged meanwhile at the step's end."""
    thread = tb.thread("t", initial={})
    fork = thread.fork(name="f")
    with fork.step() as s:
        s.state["x"] = 1
        store.put(*CITY, "Rome")

    def late(meanwhile):
        with fork.step():
            store.put(CITY[0], "late", 1)
            meanwhile()

    with pytest.raises(EffectsDenied, match="the fork was merged"):
        late(lambda: _outside(thread.merge, fork))
    with pytest.raises(EffectsDenied, match="what it remembers belongs to the thread") as refused:
        late(lambda: None)
    assert refused.value.thread == "f"
    assert (shown(store), store.history(CITY[0], "late")) == ("Rome", [])
    plan = fork.plan_rollback(0)
    assert plan.memory.changes == []
    plan.apply()
    assert shown(store) == "Rome"
    fork.delete()
    assert shown(store) == "Rome"


def test_a_fork_s_own_going_back(tb, store):
    """A fork takes back what it wrote, and never what it came from wrote."""
    thread = tb.thread("t", initial={})
    remember(thread, "Rome")
    fork = thread.fork(name="f")
    remember(fork, "Oslo")
    fork.undo()
    assert shown(store) == "Rome"
    thread.undo()
    assert shown(store) is None


def test_memory_outlives_its_thread(tb, store):
    """What showed goes on to show when the thread is deleted; what was taken back does not come back."""
    thread = tb.thread("t", initial={})
    store.put(*CITY, "Bern")
    remember(thread, "Rome")
    remember(thread, "gone", key="other")
    thread.undo()
    thread.delete()
    assert shown(store) == "Rome"
    assert shown(store, "other") is None
    assert store.history(*CITY)[0].thread == "t"
    assert store.verify() == []


def test_a_deletion_that_is_overtaken_looks_again(tb, store):
    """What another handle remembered just before goes on to show too."""
    thread = tb.thread("t", initial={})
    remember(thread, "Rome")
    remember(tb.thread("t"), "Oslo", key="other")
    thread.delete()
    assert (shown(store), shown(store, "other")) == ("Rome", "Oslo")


def test_the_agent_hears_of_it(tb, store):
    thread = tb.thread("t", initial={})
    remember(thread, "Rome")
    thread.undo(actor="ann")
    assert "memory users/ann/city was taken back" in str(thread.taken_back_since())


def test_runs_that_are_gone_through_again_write_nothing(tb, store):
    """A recorded step of a run is replayed: its writes are there already."""
    thread = tb.thread("t", initial={})
    for _ in range(2):
        with thread.run("job"), thread.step("learn"):
            store.put(*CITY, "Rome")
    assert len(store.history(*CITY)) == 1


def test_effects_and_memory_go_back_together(tb, store):
    """A plan with lines ends in one transaction: the charge refunded, the item gone."""
    world = []

    @takeback.tool(undo=lambda n: world.append(-n), name="store_charge")
    def charge(n: int) -> None:
        world.append(n)

    thread = tb.thread("t", initial={})
    with thread.step():
        charge(5)
        store.put(*CITY, "Rome")
    assert shown(store) == "Rome"
    thread.plan_undo().apply()
    assert (world, shown(store)) == ([5, -5], None)
    assert thread.verify().ok
    with thread.step():
        charge(6)
        store.put(*CITY, "Oslo")
    thread.plan_rollback(0, scope=["state", "effects"]).apply()
    assert (world, shown(store)) == ([5, -5, 6, -6], "Oslo")
