"""Copying between stores: everything arrives as it was, again and again, and what cannot is named."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import takeback
from takeback import errors
from takeback.engine import commit, copying, retention
from takeback.model import canonical
from takeback.model.records import FileRoot
from takeback.repo import Repo
from takeback.storage.base import Batch, Refusal, Storage
from takeback.storage.wrappers import Wrapper
from takeback.testing.postgres import fresh_url


@takeback.tool(name="copied_booking", undo=lambda receipt: None, describe="book {receipt}")
def booking(receipt: str) -> str:
    return receipt * 3_000


@takeback.tool(name="copied_charge", requires_approval=True)
def charge(cents: int) -> int:
    return cents


@takeback.tool(name="copied_call")
def call(fails: bool) -> str:
    if fails:
        raise TimeoutError("no answer")
    return "done"


PAIRS = [("memory", "file"), ("file", "memory"), ("file", "postgres"), ("postgres", "file")]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Which two kinds of store are copied between: from, to."""
    found: tuple[str, str] = request.param
    return found


def url(kind: str, path: Path) -> str:
    return {"memory": lambda: ":memory:", "file": lambda: str(path), "postgres": fresh_url}[kind]()


@pytest.fixture
def tb(pair: tuple[str, str], tmp_path: Path) -> Iterator[Repo]:
    with takeback.open(
        url(pair[0], tmp_path / "source.db"), actor="ada", durability="relaxed", key=b"secret"
    ) as repo:
        yield repo


@pytest.fixture
def there(pair: tuple[str, str], tmp_path: Path) -> Iterator[Repo]:
    with takeback.open(
        url(pair[1], tmp_path / "there.db"), actor="bob", durability="relaxed", key=b"secret"
    ) as repo:
        yield repo


def filled(tb: Repo) -> None:
    """Threads with all that threads can have."""
    trip = tb.thread("trip", agent="a", user="u", meta={"k": [1, None]}, initial={"log": []})
    trip.extend("log", [{"n": n, "text": random.Random(n).randbytes(40).hex()} for n in range(300)])
    with trip.step("book") as step:
        step.state["receipt"] = len(booking("R1"))
    alt = trip.fork(name="trip alt")
    alt.patch({"alt": 1})
    trip.merge(alt)
    trip.rollback("head~1", reason="why")
    trip.undo()
    trip.label("good", 1)
    trip.label("now")
    trip.budget({"money": 7})
    with pytest.raises(errors.ApprovalRequired), trip.step("pay"):
        charge(42)
    with pytest.raises(TimeoutError), tb.thread("calls", initial={}).step("call"):
        call(True)
    gone = tb.thread("gone", initial={"a": 1})
    gone.delete(reason="the customer asked")
    other = tb.thread("plain", initial={"n": 0})
    for n in range(30):
        other.commit({"n": n, "text": "x" * n}, meta={"n": n})


def everything(repo: Repo) -> dict[str, Any]:
    """All that a store holds of its tenant, as bytes; without the notes that copies leave."""
    ctx = repo._ctx
    threads = {}
    for info in repo.threads():
        thread = repo.thread(info.name)
        rows = list(thread.history(newest_first=False))
        cells = ctx.storage.cells(ctx.tenant, family=info.family)
        threads[info.name] = (
            [(row.record, row.digest, row.mac) for row in rows],
            [canonical.encode(thread.at(row).state) for row in rows],
            thread.labels,
            (info.uid, info.agent, info.user, info.meta, info.created_us, info.family, info.origin),
            sorted((cell.kind, cell.key, cell.thread, cell.body, cell.live) for cell in cells),
            [(each.number, each.state) for each in thread.approvals(None)],
        )
    audit = [
        canonical.encode([e.time_us, e.action, e.thread, e.uid, e.actor, e.detail])
        for e in repo.audit()
        if not e.action.endswith(".copied")
    ]
    return {"threads": threads, "order": [info.name for info in repo.threads()], "audit": sorted(audit)}


def outcomes(report: takeback.CopyReport) -> dict[str, str]:
    return {each.thread: each.outcome for each in report.threads}


# --- there


def test_everything_arrives_as_it_was(tb: Repo, there: Repo) -> None:
    filled(tb)
    report = tb.copy(there)
    assert set(outcomes(report).values()) == {"copied"}
    assert [each.notes for each in report.threads if each.notes] == [], "all that they point to came along"
    assert everything(there) == everything(tb)
    assert all(found.ok for found in there.verify())
    seal = tb.thread("trip").seal()
    assert there.thread("trip").verify(seal).ok


def test_the_copy_goes_on_as_the_original_would(tb: Repo, there: Repo) -> None:
    """Effects are known there: a call is not made anew, a plan compensates it, an approval can be given."""
    filled(tb)
    tb.copy(there)
    trip = there.thread("trip")
    assert [effect.key for effect in trip.effects()] == [effect.key for effect in tb.thread("trip").effects()]
    trip.approvals()[0].grant(actor="carol")
    with trip.step("pay"):
        assert charge(42) == 42
    assert "book R1" in str(trip.plan_rollback(0))
    assert there.thread("calls").effects()[0].state == "unknown"


def test_a_second_copy_writes_nothing(tb: Repo, there: Repo) -> None:
    filled(tb)
    tb.copy(there)
    before = there.info().details, len(list(there.audit()))
    again = tb.copy(there)
    assert set(outcomes(again).values()) == {"same"}
    assert (again.checkpoints, again.objects, again.cells, again.audit) == (0, 0, 0, 0)
    assert (there.info().details, len(list(there.audit()))) == before


def test_a_later_copy_adds_what_has_come_since(tb: Repo, there: Repo) -> None:
    filled(tb)
    tb.copy(there)
    tb.thread("plain").patch({"later": 1})
    tb.thread("plain").label("later")
    trip = tb.thread("trip")
    trip.unlabel("good")
    trip.label("now", 0)
    trip.approvals()[0].grant(actor="carol")
    with trip.step("pay"):
        charge(42)
    tb.thread("new", initial={"n": 1})
    report = tb.copy(there)
    assert outcomes(report) == {
        "trip": "grown", "trip alt": "same", "calls": "same", "plain": "grown", "new": "copied"
    }  # fmt: skip
    assert report.checkpoints == 3
    assert report.objects < 12, "what was there already was written again"
    assert everything(there) == everything(tb)


def test_only_the_threads_that_are_named(tb: Repo, there: Repo) -> None:
    filled(tb)
    assert outcomes(tb.copy(there, threads=["plain"])) == {"plain": "copied"}
    assert [info.name for info in there.threads()] == ["plain"]
    with pytest.raises(errors.UnknownThread, match="nix"):
        tb.copy(there, threads=["trip", "nix"])
    assert len(there.threads()) == 1


def test_threads_that_share_effects_come_together(tb: Repo, there: Repo) -> None:
    """A fork relies on what its parent did; a fork without effects does not."""
    filled(tb)
    assert set(outcomes(tb.copy(there, threads=["trip alt"]))) == {"trip", "trip alt"}
    plain = tb.thread("plain").fork(at=3, name="plain fork")
    plain.patch({"f": 1})
    (said,) = tb.copy(there, threads=["plain fork"]).threads
    assert said.outcome == "copied"
    assert said.notes == ["version 0 points to a thread that is not in this store"]
    assert there.thread("plain fork").state == plain.state


def test_to_another_tenant_of_the_same_store(tb: Repo) -> None:
    filled(tb)
    with pytest.raises(errors.BadRequest, match="the same store"):
        tb.copy(tb)
    other = Repo(tb._ctx.storage, tenant="other", key=b"secret")
    tb.copy(other)
    assert everything(other) == everything(tb)


def test_to_a_url(tb: Repo, tmp_path: Path) -> None:
    filled(tb)
    tb.copy(tmp_path / "url.db", tenant="elsewhere")
    with takeback.open(tmp_path / "url.db", tenant="elsewhere", key=b"secret", create=False) as repo:
        assert everything(repo) == everything(tb)
    with takeback.open(":memory:") as repo, pytest.raises(errors.BadRequest, match="tenant 'default'"):
        tb.copy(repo, tenant="elsewhere")


def test_effects_of_a_deleted_thread_are_seen_to_there_too(tb: Repo, there: Repo) -> None:
    calls = tb.thread("calls", initial={})
    with pytest.raises(TimeoutError), calls.step("call"):
        call(True)
    calls.delete()
    report = tb.copy(there)
    assert (report.threads, report.cells > 0) == ([], True)
    assert [e.action for e in there.audit()] == ["ledger.copied", *(e.action for e in tb.audit())]


def test_progress_is_told(tb: Repo, there: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tb)
    monkeypatch.setattr(copying, "_ROWS", 7)
    heard: list[tuple[str, int, int]] = []
    report = tb.copy(there, progress=lambda *what: heard.append(what))
    assert heard[-1][1:] == (report.checkpoints, report.checkpoints)
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)
    assert len(heard) > 6


def test_large_versions_take_several_transactions(
    tb: Repo, there: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects first, so that a version never comes before what it rests on."""
    monkeypatch.setattr(copying, "_BYTES", 5_000)
    thread = tb.thread("large", initial={})
    for n in range(4):
        thread.commit({f"k{m}": random.Random(m + n).randbytes(9_000) for m in range(5)})
    counted = Counted(there._ctx.storage)
    tb.copy(Repo(counted, key=b"secret"))
    assert counted.applied > 8
    assert everything(there) == everything(tb)


# --- what cannot be copied


def refusal(tb: Repo, there: Repo, **options: Any) -> errors.NotCopied:
    with pytest.raises(errors.NotCopied) as caught:
        tb.copy(there, **options)
    return caught.value


def test_a_name_that_another_thread_has(tb: Repo, there: Repo) -> None:
    """Both are named, nothing of it is written, and the others are copied all the same."""
    filled(tb)
    mine, theirs = tb.thread("plain"), there.thread("plain", initial={"their": "own"})
    error = refusal(tb, there)
    (refused,) = error.report.refused
    assert isinstance(refused.problem, errors.ThreadExists)
    assert "'plain'" in str(error)
    for uid in (mine.info.as_dict()["uid"], theirs.info.as_dict()["uid"]):
        assert uid in str(error)
    assert there.thread("plain").state == {"their": "own"}
    assert there.thread("trip").state == tb.thread("trip").state


def test_a_thread_that_went_on_in_both(tb: Repo, there: Repo) -> None:
    filled(tb)
    tb.copy(there)
    there.thread("plain").patch({"there": 1})
    assert outcomes(tb.copy(there))["plain"] == "ahead"
    tb.thread("plain").patch({"here": 1})
    error = refusal(tb, there)
    assert isinstance(error.report.refused[0].problem, errors.Conflict)
    assert "went on in both" in str(error)
    assert there.thread("plain").state["there"] == 1


def test_effects_that_were_seen_to_in_both(tb: Repo, there: Repo) -> None:
    """A ledger that was changed there is not written over."""
    filled(tb)
    tb.copy(there)
    there.thread("trip").approvals()[0].grant(actor="carol")
    assert tb.copy(there).ok, "what was done there alone is nobody's conflict"
    tb.thread("trip").approvals()[0].deny(actor="dave")
    error = refusal(tb, there)
    assert {each.thread for each in error.report.refused} == {"trip", "trip alt"}
    assert "approval" in str(error)
    assert there.thread("trip").approvals(None)[0].state == "granted"


def test_a_label_that_was_moved_there_stays(tb: Repo, there: Repo) -> None:
    filled(tb)
    tb.copy(there)
    there.thread("plain").label("mark", 3)
    tb.thread("plain").label("mark", 5)
    (said,) = [each for each in tb.copy(there).threads if each.thread == "plain"]
    assert said.notes == ["label 'mark' was changed there, and stays as it is there"]
    assert there.thread("plain").labels == {"mark": 3}


def test_a_thread_that_was_deleted_there(tb: Repo, there: Repo) -> None:
    tb.thread("plain", initial={})
    tb.copy(there)
    there.thread("plain").delete()
    assert isinstance(refusal(tb, there).report.refused[0].problem, errors.ThreadDeleted)


def test_a_thread_that_a_plan_holds(tb: Repo, there: Repo) -> None:
    """Neither here nor there, and its family waits with it."""
    filled(tb)

    def broken(receipt: str) -> None:
        raise errors.NotDone("not now")

    trip = tb.thread("held", initial={})
    tool = takeback.tool(name="copied_broken", undo=broken)(lambda receipt: receipt)
    with trip.step("book"):
        tool("R2")
    tb.copy(there)
    with pytest.raises(errors.PlanPaused):
        trip.plan_undo().apply()
    error = refusal(tb, there)
    assert [each.thread for each in error.report.refused] == ["held"]
    assert isinstance(error.report.refused[0].problem, errors.RollbackInProgress)


class Counted(Wrapper):
    """Fails, or does something else, at the n-th write."""

    def __init__(self, inner: Storage, n: int = -1, act: Callable[[], Any] = lambda: None) -> None:
        super().__init__(inner)
        self.n, self.act, self.applied = n, act, 0

    def apply(self, batch: Batch) -> Refusal | None:
        self.applied += 1
        if self.applied == self.n:
            self.act()
        return super().apply(batch)


def stop() -> None:
    raise KeyboardInterrupt


def test_broken_off_anywhere_it_goes_on(tb: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each write there: what is there is the beginning of each thread, and the next copy ends it."""
    monkeypatch.setattr(copying, "_ROWS", 9)
    filled(tb)
    for n in itertools.count(1):
        with takeback.open(":memory:", key=b"secret") as there:
            try:
                tb.copy(Repo(Counted(there._ctx.storage, n, stop), key=b"secret"))
                break
            except KeyboardInterrupt:
                assert all(found.ok for found in there.verify())
            tb.copy(there)
            assert everything(there) == everything(tb)
            assert set(outcomes(tb.copy(there)).values()) == {"same"}
    assert n > 12


def test_a_source_that_is_written_to_is_copied_as_of_one_moment(tb: Repo, there: Repo) -> None:
    """What comes during the copy is left for the next one."""
    filled(tb)
    trip = tb.thread("trip")
    before = trip.version
    target = Repo(Counted(there._ctx.storage, 2, lambda: trip.patch({"meanwhile": 1})), key=b"secret")
    report = tb.copy(target)
    assert report.ok
    assert there.thread("trip").version == before
    assert outcomes(tb.copy(there))["trip"] == "grown"
    assert everything(there) == everything(tb)


def test_two_copies_at_once_make_one(tb: Repo, there: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_ROWS", 9)
    filled(tb)
    for n in (1, 2, 4, 7):
        tb.copy(Repo(Counted(there._ctx.storage, n, lambda: tb.copy(there)), key=b"secret"))
        assert everything(there)["threads"] == everything(tb)["threads"]


def test_somebody_who_writes_there_meanwhile_is_named(tb: Repo, there: Repo) -> None:
    """The name is taken between the look and the write."""
    tb.thread("plain", initial={})
    target = Counted(there._ctx.storage, 1, lambda: there.thread("plain", initial={"their": 1}))
    error = refusal(tb, Repo(target, key=b"secret"))
    assert isinstance(error.report.refused[0].problem, errors.ThreadExists)


def test_damage_is_not_copied(tb: Repo, there: Repo) -> None:
    """A source that lacks an object is found out, and the thread is not there."""
    tb.thread("whole", initial={"n": 1})
    thread = tb.thread("hole", initial={"n": 2})
    root = thread.head.state_root

    class Hole(Wrapper):
        def objects(self, tenant: str, digests: list[bytes]) -> dict[bytes, bytes]:
            return {d: p for d, p in super().objects(tenant, digests).items() if d != root}

    error = refusal(Repo(Hole(tb._ctx.storage), key=b"secret"), there)
    assert [each.thread for each in error.report.refused] == ["hole"]
    assert isinstance(error.report.refused[0].problem, errors.CorruptObject)
    assert [info.name for info in there.threads()] == ["whole"]


def test_a_copy_that_differs_is_found_out(tb: Repo, there: Repo) -> None:
    """All is read again there, and compared."""

    class Loses(Wrapper):
        def apply(self, batch: Batch) -> Refusal | None:
            return super().apply(Batch(batch.tenant, batch.rows, {}))

    tb.thread("t", initial={"n": 1})
    error = refusal(tb, Repo(Loses(there._ctx.storage), key=b"secret"))
    assert "does not verify" in str(error)


def test_a_store_that_fails_ends_the_copy(tb: Repo, there: Repo) -> None:
    """Else a full disk would be told once for each thread."""
    filled(tb)

    def full() -> None:
        raise errors.StoreFull("no space")

    with pytest.raises(errors.StoreFull):
        tb.copy(Repo(Counted(there._ctx.storage, 3, full), key=b"secret"))


# --- files


def with_files(tb: Repo, name: str, count: int) -> None:
    """A thread whose versions have files, one object each."""
    ctx = tb._ctx
    tb.thread(name, initial={"n": 0})
    for number in range(1, count):
        tip = ctx.tip(name)
        assert tip is not None
        payload = canonical.encode([number, "f" * 200])
        digest = canonical.digest(payload)
        draft = commit.draft_state(ctx, tip, {"n": number}, "commit", commit.Said())
        draft = msgspec.structs.replace(
            draft, files=[FileRoot("w", digest)], objects=draft.objects | {digest: payload}
        )
        commit.publish(ctx, tip, draft)


def test_files_come_along_and_those_that_were_given_up_do_not(tb: Repo, there: Repo) -> None:
    """What was pruned here is known as pruned there, also where it was copied before it was pruned."""
    with_files(tb, "t", 8)
    tb.thread("t").prune(budget=0, keep=5)
    tb.gc(grace=-1)
    tb.copy(there)
    mine, theirs = tb._ctx, there._ctx
    uid = tb.thread("t").info.uid
    assert retention.pruned(theirs, uid) == retention.pruned(mine, uid) != []
    files = [row.files[0].manifest for row in there.thread("t").history(newest_first=False) if row.files]
    assert len(theirs.storage.objects("default", files)) == 5
    tb.thread("t").prune(budget=0, keep=2)
    tb.copy(there)
    assert retention.pruned(theirs, uid) == retention.pruned(mine, uid)
    assert there.thread("t").verify().ok
    assert set(outcomes(tb.copy(there)).values()) == {"same"}
