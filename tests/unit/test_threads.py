"""Threads of a store: opening, owners, listing, tenants, and who and what caused a version."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from opentelemetry import trace

import takeback
from takeback import errors
from takeback.storage.memory import MemoryStorage

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def micros(time):
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = BEGIN

    def __call__(self):
        return micros(self.now)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "file"])
def tb(request, store_path, clock):
    url = ":memory:" if request.param == "memory" else store_path
    with takeback.open(url, clock=clock, durability="relaxed") as repo:
        yield repo


# --- opening ------------------------------------------------------------------------------------------


def test_reading_never_creates(tb):
    """A thread comes into being with its first version; until then it is a name."""
    new = tb.thread("new", agent="a")
    assert not new.exists
    assert (new.name, repr(new)) == ("new", "<Thread 'new' without versions>")
    assert not new.refresh().exists
    for look in (lambda: new.state, lambda: new.head, lambda: new.info, new.history,
                 lambda: new.at(0), lambda: new.labels, new.verify, new.seal,
                 lambda: list(new.audit()), new.delete, lambda: new.rollback(0)):  # fmt: skip
        with pytest.raises(errors.UnknownThread, match="'new'") as caught:
            look()
        assert caught.value.hint
    assert tb.threads() == []
    assert tb.latest() is None
    new.commit({})
    assert new.exists
    assert [info.name for info in tb.threads()] == ["new"]


def test_initial_is_version_0_once(tb):
    """initial= makes the first version of a thread that has none, and is ignored ever after."""
    trip = tb.thread("t", agent="a", user="u", meta={"k": [1]}, initial={"n": 0})
    assert (trip.version, trip.head.kind) == (0, "initial")
    again = tb.thread("t", initial={"n": 1}, meta={"other": 1})
    assert (again.state, again.version, again.info.meta) == ({"n": 0}, 0, {"k": [1]})
    for empty in ({}, [], 0, "", False):
        assert tb.thread(f"empty {empty!r}", initial=empty).state == empty


def test_a_thread_without_a_name_is_given_a_good_one(tb):
    """Names that are made are new each time, printable, and open the same thread again."""
    made = [tb.thread(initial={"n": n}) for n in range(20)]
    assert len({thread.name for thread in made}) == 20
    assert tb.thread(made[7].name).state == {"n": 7}


def test_info_tells_what_is_known_of_a_thread(tb, clock):
    """Owner, metadata, times and length; as JSON too."""
    trip = tb.thread("t", agent="a", user="u", meta={"k": 1}, initial={})
    clock.now += timedelta(hours=1)
    trip.commit({})
    for info in (trip.info, tb.thread("t").info, tb.threads()[0]):
        assert (info.name, info.agent, info.user, info.meta) == ("t", "a", "u", {"k": 1})
        assert (info.created, info.updated, info.versions) == (BEGIN, BEGIN + timedelta(hours=1), 2)
        assert info.as_dict()["created"] == "2026-03-01T12:00:00+00:00"
        assert info.as_dict()["head"] == 1


@pytest.mark.parametrize("name", ["", "a\nb", "\x00", "x" * 513, "\ud800", 5, b"t", "a\x7f"])
def test_names_that_cannot_be_used(tb, name):
    """A name must print, fit, and be text."""
    with pytest.raises(errors.BadName, match="thread"):
        tb.thread(name)


@pytest.mark.parametrize(
    "name", ["t", "travel/42", "été 😀", " spaces ", "x" * 512, "head", "3", "'; DROP TABLE"]
)
def test_names_that_can(tb, name):
    """Any text else is a name, and comes back as it is."""
    tb.thread(name, initial={})
    assert tb.thread(name).exists
    assert tb.threads()[0].name == name


# --- whose --------------------------------------------------------------------------------------------


def test_two_conversations_never_mix(tb):
    """An existing thread is opened with its own agent and user, or with none given."""
    tb.thread("t", agent="a", user="u", initial={})
    tb.thread("free", initial={})
    assert tb.thread("t").exists
    assert tb.thread("t", agent="a").exists
    assert tb.thread("t", user="u").exists
    for wrong in ({"agent": "b"}, {"user": "v"}, {"agent": "a", "user": "v"}):
        with pytest.raises(errors.WrongOwner, match="belongs to") as caught:
            tb.thread("t", **wrong, initial={"mine": 1})
        assert caught.value.thread == "t"
    with pytest.raises(errors.WrongOwner, match="has no agent"):
        tb.thread("free", agent="a")
    assert tb.thread("t").version == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.refresh().commit({"by": "b"}),
        lambda t: t.step().__enter__(),
        lambda t: t.append("log", "b"),
        lambda t: t.patch({"by": "b"}),
    ],
)
def test_a_handle_opened_before_the_thread_was_there_does_not_mix_either(tb, use):
    """Another agent may have made the thread since: the handle finds out when it looks again."""
    early = tb.thread("t", agent="b")
    tb.thread("t", agent="a", initial={"log": []})
    with pytest.raises(errors.WrongOwner):
        use(early)
    assert tb.thread("t").version == 0


@pytest.mark.parametrize(("what", "value"), [("agent", 5), ("user", b"u"), ("agent", "\ud800"), ("user", "")])
def test_agents_and_users_have_names(tb, what, value):
    """They are compared when a thread is opened, so they are text that is kept exactly."""
    with pytest.raises(errors.BadName, match=what):
        tb.thread("t", **{what: value}, initial={})
    assert tb.threads() == []


def test_tenants_do_not_see_each_other():
    """One store, many tenants: neither names, states, ids, labels, audit nor imports cross over."""
    storage = MemoryStorage()
    one, two = takeback.Repo(storage, tenant="one"), takeback.Repo(storage, tenant="two")
    mine = one.thread("t", initial={"secret": "one"})
    mine.label("x")
    mine.fork(name="alt")
    assert two.threads() == []
    assert two.latest() is None
    assert list(two.audit()) == []
    assert not two.thread("t").exists
    other = two.thread("t", initial={"n": 2})
    other.commit({"n": 3})
    assert (mine.refresh().state, mine.version) == ({"secret": "one"}, 0)
    assert other.labels == {}
    for ref in (mine.head, mine.head.id, mine.head.bookmark, "x"):
        with pytest.raises((errors.WrongThread, errors.NotFound)):
            other.at(ref)
    with pytest.raises(errors.UnknownThread):
        other.merge("alt")
    with pytest.raises(errors.TakebackError):
        other.merge(one.thread("alt"))
    other.delete()
    assert one.thread("t").exists
    assert [report.thread for report in two.verify()] == []


def test_tenants_of_one_file_do_not_see_each_other(store_path):
    """The same through two handles to one file, also for objects: a digest is no key to a state."""
    with takeback.open(store_path, tenant="one") as one, takeback.open(store_path, tenant="two") as two:
        mine = one.thread("t", initial={"secret": "x" * 9000})
        assert two.threads() == []
        assert not two.thread("t").exists
        assert two._ctx.storage.objects("two", [mine.head.state_root]) == {}
        assert two.thread("t", initial={"secret": "x" * 9000}).head.state_root == mine.head.state_root
        assert two._ctx.storage.objects("two", [mine.head.state_root])


# --- listing ------------------------------------------------------------------------------------------


@pytest.fixture
def listed(tb, clock):
    """Ten threads, a minute apart, of two agents, three users and two projects."""
    for n in range(10):
        clock.now = BEGIN + timedelta(minutes=n)
        meta = {"project": "xy"[n % 2], "n": n}
        tb.thread(f"t{n}", agent="ab"[n % 2], user="uvw"[n % 3], meta=meta, initial={})
    return tb


def names(found):
    return [int(info.name[1:]) for info in found]


def test_threads_are_listed_newest_first_and_filtered(listed):
    """By agent, user, metadata and time of creation, alone and together."""
    assert names(listed.threads()) == list(range(9, -1, -1))
    assert names(listed.threads(agent="a")) == [8, 6, 4, 2, 0]
    assert names(listed.threads(user="w")) == [8, 5, 2]
    assert names(listed.threads(agent="b", user="w")) == [5]
    assert names(listed.threads(meta={"project": "x"})) == [8, 6, 4, 2, 0]
    assert names(listed.threads(meta={"project": "x", "n": 4})) == [4]
    assert names(listed.threads(meta={"nope": None})) == []
    after, before = BEGIN + timedelta(minutes=3), BEGIN + timedelta(minutes=6)
    assert names(listed.threads(created_after=after, created_before=before)) == [6, 5, 4, 3]
    assert names(listed.threads(agent="c")) == []


@pytest.mark.parametrize(
    "filters", [{}, {"agent": "a"}, {"meta": {"project": "y"}}, {"user": "u", "agent": "a"}]
)
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_join_without_gap_or_double(listed, filters, limit):
    """after= goes on exactly where a page ended, also when threads come and go in between."""
    whole = names(listed.threads(**filters))
    found, after = [], None
    while page := listed.threads(**filters, limit=limit, after=after):
        assert len(page) <= limit
        found += names(page)
        after = page[-1]
        listed.thread(f"t{100 + len(found)}", agent="a", user="u", meta={"project": "y"}, initial={})
    assert found == whole


def test_listing_what_cannot_be(listed):
    """A time without a zone is not guessed; a limit of none lists none."""
    with pytest.raises(errors.BadRequest, match="no time zone"):
        listed.threads(created_after=datetime(2026, 3, 1))
    assert listed.threads(limit=0) == []
    with pytest.raises(errors.BadRequest, match="limit"):
        listed.threads(limit=-1)


def test_latest_is_the_thread_that_was_written_to_last(listed, clock):
    """Not the one that was made last."""
    assert listed.latest().name == "t9"
    clock.now += timedelta(minutes=1)
    listed.thread("t4").commit({})
    assert listed.latest().name == "t4"
    listed.thread("t4").delete()
    assert listed.latest().name == "t9"


def test_a_store_verifies_thread_by_thread(listed):
    """One report each, sound."""
    reports = list(listed.verify())
    assert len(reports) == 10
    assert all(report.ok and str(report).endswith("objects)") for report in reports)


# --- what caused a version ----------------------------------------------------------------------------


def test_the_trace_and_span_that_caused_a_version(tb):
    """Where OpenTelemetry has a current span, every kind of version carries its W3C ids."""
    context = trace.SpanContext(trace_id=0xABC, span_id=0x12, is_remote=False)
    trip = tb.thread("t", initial={})
    assert (trip.head.trace_id, trip.head.span_id) == (None, None)
    with trace.use_span(trace.NonRecordingSpan(context)):
        trip.commit({"a": 1})
        with trip.step() as s:
            s.state["b"] = 1
        trip.undo()
        alt = trip.fork(name="alt")
    trip.redo()
    seen = [(c.trace_id, c.span_id) for c in (*trip.history(newest_first=False), alt.head)]
    ids = (f"{0xABC:032x}", f"{0x12:016x}")
    assert seen == [(None, None), ids, ids, ids, (None, None), ids]
    assert tb.thread("t").at(1).checkpoint.as_dict()["trace_id"] == ids[0]
    with trace.use_span(trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)):
        assert trip.commit({}).trace_id is None


def test_time_never_goes_back(tb, clock):
    """Recorded time is monotone within a thread; what the clock said stands beside it."""
    trip = tb.thread("t", initial=0)
    clock.now = BEGIN - timedelta(days=1)
    trip.commit(1)
    trip.undo()
    clock.now = BEGIN + timedelta(hours=1)
    trip.commit(2)
    clock.now = BEGIN
    trip.commit(3)
    seen = [(c.time, c.clock) for c in trip.history(newest_first=False)]
    hour, day = timedelta(hours=1), timedelta(days=1)
    assert seen == [
        (BEGIN, BEGIN), (BEGIN, BEGIN - day), (BEGIN, BEGIN - day), (BEGIN + hour, BEGIN + hour),
        (BEGIN + hour, BEGIN),
    ]  # fmt: skip
    assert trip.at(BEGIN + timedelta(minutes=30)).state == 0
    assert trip.at(BEGIN).version == 2
    assert trip.verify().ok


def test_the_build_that_wrote_a_version_is_recorded(tb):
    """What wrote a state is asked when it cannot be read."""
    assert tb.thread("t", initial={}).head.build.endswith(takeback.__version__)


def test_metadata_is_kept_exactly_and_belongs_to_the_version(tb):
    """Any storable value; what the caller does to its own copy afterwards does not show."""
    meta = {"when": BEGIN, "raw": b"\x00", "n": 1.0, "deep": {"l": [1, None]}}
    trip = tb.thread("t", meta=meta, initial={})
    made = trip.commit({}, meta=meta)
    expected = {"when": BEGIN, "raw": b"\x00", "n": 1.0, "deep": {"l": [1, None]}}
    meta["deep"]["l"].append(2)
    for seen in (
        made.meta,
        trip.head.meta,
        trip.info.meta,
        tb.thread("t").head.meta,
        tb.thread("t").info.meta,
    ):
        assert seen == expected


@pytest.mark.parametrize("meta", [{"f": print}, {"a": {1}}, {1: 1}, {"x": "x" * 70_000}])
def test_metadata_that_cannot_be_stored(tb, meta):
    """It is refused when the thread would be made, and nothing is made."""
    with pytest.raises(errors.Unstorable) as caught:
        tb.thread("t", meta=meta, initial={})
    assert caught.value.path.startswith("/meta")
    assert not tb.thread("t").exists
