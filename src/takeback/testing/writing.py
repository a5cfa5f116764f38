"""The contract, of what is written: batches, their guards, and objects."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from takeback.errors import CorruptObject, TakebackError
from takeback.model import canonical
from takeback.model.ids import thread_uid
from takeback.model.records import Pointer
from takeback.storage.base import (
    Batch,
    DropLabel,
    HeadMoved,
    History,
    NameTaken,
    NewCheckpoint,
    PutLabel,
    Row,
    Storage,
    ThreadGone,
    ThreadQuery,
    Tombstone,
)
from takeback.testing.handles import A, Handles, everything, found, head_of, labels, ok, refused, together
from takeback.testing.rows import T0, audit, blobs, first, following, new_thread, run, with_record

AWKWARD = ["naïve · 線 · 🧵", 'it\'s "quoted"; DROP TABLE threads --', "x" * 512, "%_\\", " a b ", "/../"]


class Writing(Handles):
    """What `apply` promises, and what it leaves behind."""

    # --- apply

    def test_is_a_storage(self, store: Storage) -> None:
        """The protocol can be checked at run time, and a made store satisfies it."""
        assert isinstance(store, Storage)

    def test_a_batch_is_written(self, store: Storage, again: Callable[[], Storage]) -> None:
        """What apply acknowledged is there: thread, head, objects, label, audit entry."""
        row = new_thread("t", agent="planner", user="ada", meta={"n": 1, "deep": {"x": [1, 2]}}, reason="why")
        objects = blobs(b"one", b"two")
        ok(store, row, PutLabel(row.uid, "start", 0), audit("thread.new", row.uid, n=1), objects=objects)
        seen = again()
        info, head = found(seen, "t")
        assert head == row.first
        assert (info.name, info.uid, info.agent, info.user) == ("t", row.uid, "planner", "ada")
        assert info.meta == {"n": 1, "deep": {"x": [1, 2]}}
        assert (info.created_us, info.updated_us, info.head, info.head_digest) == (T0, T0, 0, head.digest)
        assert (info.origin, info.deleted_us) == (None, None)
        assert seen.objects(A, list(objects)) == objects
        assert labels(seen, row.uid) == {"start": 0}
        assert [entry.action for entry in seen.audit(A)] == ["thread.new"]
        assert seen.checkpoint(A, row.uid, 0) == row.first

    def test_every_field_comes_back(self, store: Storage, again: Callable[[], Storage]) -> None:
        """A checkpoint and a thread's origin are read as they were written, field by field."""
        other = Pointer(thread_uid(), 7, canonical.digest(b"other"))
        row = new_thread("t", origin=other)
        full = following(
            row.first, kind="merge", merged=other, undoes=0, undo_top=0, redo_top=3, reason="because · ü",
            actor="ada", trace_id="0af7", span_id="b7ad", build="takeback 1", meta={"k": [None, True]},
            namespace="sub", line=4, mac=b"m" * 32,
        )  # fmt: skip
        opens = following(full, origin=Pointer(row.uid, 0, row.first.digest))
        ok(store, row, NewCheckpoint(full), NewCheckpoint(opens))
        seen = again()
        assert seen.checkpoints(A, row.uid, 0, 9) == [row.first, full, opens]
        info = seen.thread_by_uid(A, row.uid)
        assert info is not None
        assert info.origin == other

    def test_an_empty_batch_is_no_error(self, store: Storage) -> None:
        """Nothing to write is written."""
        ok(store)
        assert store.threads(A, ThreadQuery()) == []

    def test_a_refused_batch_leaves_nothing(self, store: Storage, again: Callable[[], Storage]) -> None:
        """One guard that fails takes the whole batch back, whatever came before it in the batch."""
        kept, doomed, extra = new_thread("kept"), new_thread("doomed"), new_thread("extra")
        ok(store, kept, doomed, PutLabel(kept.uid, "old", 0), audit("before"))
        before = everything(store, kept.uid, doomed.uid, extra.uid)
        objects = blobs(b"never")
        late = NewCheckpoint(following(following(kept.first)))
        rows: list[Row] = [
            extra, History(run(extra.first, 2)), PutLabel(extra.uid, "x", 0), audit("never", extra.uid),
            NewCheckpoint(following(kept.first)), PutLabel(kept.uid, "new", 0), PutLabel(kept.uid, "old", 1),
            DropLabel(kept.uid, "old"), Tombstone(doomed.uid, T0), late,
        ]  # fmt: skip
        refusal = store.apply(Batch(A, rows, objects))
        assert isinstance(refusal, HeadMoved)
        seen = again()
        assert everything(seen, kept.uid, doomed.uid, extra.uid) == before
        assert seen.objects(A, list(objects)) == {}

    def test_a_refused_batch_makes_no_tenant(self, store: Storage, again: Callable[[], Storage]) -> None:
        """A tenant that has written nothing is not listed."""
        assert isinstance(store.apply(Batch("b", [NewCheckpoint(first("t"))], blobs(b"x"))), ThreadGone)
        assert again().tenants() == []

    def test_a_batch_that_raises_leaves_nothing(self, store: Storage) -> None:
        """Not only a refusal takes a batch back, but an error in the middle of it too."""
        row = new_thread("t")
        objects = blobs(b"never")
        with pytest.raises(TakebackError):
            store.apply(Batch(A, [row, audit("bad", row.uid, n=float("nan"))], objects))
        assert store.thread(A, "t") is None
        assert everything(store, row.uid) == everything(store)
        assert (store.objects(A, list(objects)), store.tenants()) == ({}, [])
        ok(store, row)

    def test_a_thread_that_was_refused_can_be_made(self, store: Storage) -> None:
        """What a refused batch tried to make is not in the way of the next attempt."""
        row = new_thread("t")
        gone = NewCheckpoint(following(first("nobody")))
        assert isinstance(store.apply(Batch(A, [row, gone])), ThreadGone)
        ok(store, row)
        assert store.checkpoints(A, row.uid, 0, 9) == [row.first]

    def test_several_rows_of_one_thread(self, store: Storage) -> None:
        """Rows see what rows before them in the batch have written."""
        row = new_thread("t")
        more = run(row.first, 3)
        ok(store, row, *map(NewCheckpoint, more), PutLabel(row.uid, "last", 3), DropLabel(row.uid, "none"))
        assert store.checkpoints(A, row.uid, 0, 9) == [row.first, *more]
        assert head_of(store, "t") == more[-1]

    def test_history_comes_in_with_its_thread(self, store: Storage, again: Callable[[], Storage]) -> None:
        """An import writes a whole thread in one batch; a gap in it is refused."""
        row = new_thread("t")
        more = run(row.first, 300)
        gap = store.apply(Batch(A, [row, History([more[0], more[2]])]))
        assert gap == HeadMoved(1, more[0].digest)
        assert store.thread(A, "t") is None
        ok(store, row, History(more))
        seen = again()
        assert head_of(seen, "t") == more[-1]
        assert seen.checkpoints(A, row.uid, 0, 1000) == [row.first, *more]

    # --- guards

    def test_head_moved(self, store: Storage) -> None:
        """A commit for a head that is gone is told the head that is there, and changes nothing."""
        row = new_thread("t")
        mine, theirs = following(row.first), following(row.first, reason="theirs")
        ok(store, row, NewCheckpoint(theirs))
        assert refused(store, NewCheckpoint(mine)) == HeadMoved(1, theirs.digest)
        assert refused(store, NewCheckpoint(following(following(theirs)))) == HeadMoved(1, theirs.digest)
        assert head_of(store, "t") == theirs

    def test_the_head_is_compared_by_digest(self, store: Storage) -> None:
        """The right version after the wrong row is refused: a chain cannot be continued from another."""
        row = new_thread("t")
        stranger = with_record(row.first, reason="another beginning")
        ok(store, row)
        assert refused(store, NewCheckpoint(following(stranger))) == HeadMoved(0, row.first.digest)
        assert refused(store, NewCheckpoint(stranger)) == HeadMoved(0, row.first.digest)

    def test_the_same_commit_again_counts_as_written(self, store: Storage) -> None:
        """Whoever lost the answer asks again; once others have written after it, the answer is the head."""
        row = new_thread("t")
        mine = following(row.first)
        ok(store, row, NewCheckpoint(mine))
        ok(store, NewCheckpoint(mine), objects=blobs(b"with it"))
        assert store.checkpoints(A, row.uid, 0, 9) == [row.first, mine]
        ok(store, NewCheckpoint(following(mine)))
        assert isinstance(refused(store, NewCheckpoint(mine)), HeadMoved)

    def test_a_name_is_taken(self, store: Storage) -> None:
        """Two living threads of a tenant never share a name or a uid; another tenant may have both."""
        row = new_thread("t")
        ok(store, row)
        assert refused(store, new_thread("t")) == NameTaken("t")
        assert refused(store, new_thread("u", row.uid)) == NameTaken("u")
        assert refused(store, row) == NameTaken("t")
        assert refused(store, new_thread("v"), new_thread("v")) == NameTaken("v")
        assert store.apply(Batch("tenant b", [row])) is None
        assert [info.name for info in store.threads(A, ThreadQuery())] == ["t"]

    @pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "never was"])
    def test_a_thread_is_gone(self, store: Storage, deleted: bool) -> None:
        """Every row for a thread that was deleted, or never was, is refused, and says which."""
        row = new_thread("t")
        if deleted:
            ok(store, row)
            ok(store, Tombstone(row.uid, T0 + 5))
        rows: list[Row] = [
            NewCheckpoint(following(row.first)), PutLabel(row.uid, "x", 0), DropLabel(row.uid, "x"),
            Tombstone(row.uid, T0 + 9), History(run(row.first, 1)), NewCheckpoint(row.first),
            new_thread("fork", source=row.uid),
        ]  # fmt: skip
        for late in rows:
            assert refused(store, late) == ThreadGone(T0 + 5 if deleted else None), late
        assert refused(store, rows[0], tenant="nobody") == ThreadGone(None)
        assert store.thread(A, "fork") is None

    def test_a_name_used_again_is_another_thread(self, store: Storage, again: Callable[[], Storage]) -> None:
        """The new incarnation has none of the old one's history, and late writers reach neither."""
        old = new_thread("t")
        ok(store, old, *map(NewCheckpoint, run(old.first, 3)), PutLabel(old.uid, "x", 2))
        ok(store, Tombstone(old.uid, T0 + 5))
        assert store.thread(A, "t") is None
        new = new_thread("t")
        ok(store, new)
        seen = again()
        assert isinstance(refused(seen, NewCheckpoint(following(old.first))), ThreadGone)
        assert head_of(seen, "t") == new.first
        assert seen.checkpoints(A, new.uid, 0, 99) == [new.first]
        assert (seen.checkpoints(A, old.uid, 0, 99), seen.checkpoint(A, old.uid, 0)) == ([], None)
        assert (labels(seen, new.uid), labels(seen, old.uid)) == ({}, {})
        buried = seen.thread_by_uid(A, old.uid)
        assert buried is not None
        assert (buried.name, buried.deleted_us) == ("t", T0 + 5)
        assert [info.uid for info in seen.threads(A, ThreadQuery())] == [new.uid]
        assert isinstance(refused(seen, new_thread("u", old.uid)), NameTaken)

    def test_one_winner_of_a_race(self, store: Storage) -> None:
        """Of eight writers for one head exactly one is let in, each time; the others are told its head."""
        row = new_thread("t")
        ok(store, row)
        head = row.first
        for _ in range(6):
            tries = [following(head, actor=f"writer {n}") for n in range(8)]
            answers = together([partial(store.apply, Batch(A, [NewCheckpoint(c)])) for c in tries])
            winners = [c for c, answer in zip(tries, answers, strict=True) if answer is None]
            assert len(winners) == 1
            head = winners[0]
            losers = [answer for answer in answers if answer is not None]
            assert losers == [HeadMoved(head.version, head.digest)] * 7
        assert store.checkpoint(A, row.uid, 6) == head

    def test_two_handles_see_one_head(self, store: Storage) -> None:
        """What one handle wrote, the next read and the next guard of another handle know."""
        other = self.reopen(store)
        if other is None:
            return  # a backend without a second handle promises nothing about one
        row = new_thread("t")
        ok(store, row)
        mine = following(row.first)
        ok(other, NewCheckpoint(mine))
        assert head_of(store, "t") == mine
        assert refused(store, NewCheckpoint(following(row.first))) == HeadMoved(1, mine.digest)
        other.close()
        ok(store, NewCheckpoint(following(mine)))

    # --- objects

    def test_objects(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Any bytes come back as they were: none, one, those that shrink, those that do not, a megabyte."""
        noise = b"".join(canonical.digest(b"%d" % n) for n in range(1 << 15))
        objects = blobs(b"", b"\0", b"a" * 95, b"a" * 96, b"a" * 100_000, noise)
        absent = canonical.digest(b"absent")
        ok(store, objects=objects)
        seen = again()
        assert seen.objects(A, [absent, *objects, next(iter(objects))]) == objects
        assert (seen.objects(A, []), seen.objects(A, [absent])) == ({}, {})

    def test_objects_of_many_batches(self, store: Storage) -> None:
        """What is there already is kept as it is, beside what is new, in small batches and large ones."""
        every = [blobs(*(b"object %d " % n * n for n in range(low, low + 20))) for low in (0, 10, 20)]
        for objects in every:
            ok(store, objects=objects)
        union = every[0] | every[1] | every[2]
        assert store.objects(A, list(union)) == union

    def test_an_object_has_its_digest(self, store: Storage) -> None:
        """Bytes under a digest that is not theirs are never given out."""
        digest = canonical.digest(b"honest")
        ok(store, objects={digest: b"forged"})
        with pytest.raises(CorruptObject):
            store.objects(A, [digest])

    def test_tenants_do_not_reach_one_another(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Not by name, uid or digest: to know a digest is not to have the object."""
        row, objects = new_thread("t"), blobs(b"secret")
        ok(store, row, PutLabel(row.uid, "x", 0), audit("x", row.uid), objects=objects)
        assert store.apply(Batch("b", [new_thread("u")])) is None
        seen = again()
        for tenant in ("b", "nobody", ""):
            assert seen.objects(tenant, list(objects)) == {}
            assert seen.thread(tenant, "t") is None
            assert seen.thread_by_uid(tenant, row.uid) is None
            assert seen.checkpoint(tenant, row.uid, 0) is None
            assert seen.checkpoints(tenant, row.uid, 0, 9) == []
            assert (labels(seen, row.uid, tenant), seen.audit(tenant)) == ({}, [])
            assert isinstance(refused(seen, NewCheckpoint(following(row.first)), tenant=tenant), ThreadGone)
        assert seen.apply(Batch("b", [], objects)) is None
        assert seen.objects("b", list(objects)) == objects
        assert sorted(seen.tenants()) == ["b", A]

    @pytest.mark.parametrize("name", AWKWARD, ids=range(len(AWKWARD)))
    def test_awkward_names(self, store: Storage, again: Callable[[], Storage], name: str) -> None:
        """A name is any text, kept as it is and never part of a statement or a path."""
        row = new_thread(name, agent=name, user=name, meta={name: name}, reason=name)
        assert store.apply(Batch(name, [row, PutLabel(row.uid, name, 0), audit(name, note=name)])) is None
        seen = again()
        info, head = found(seen, name, tenant=name)
        assert (info.name, info.agent, info.meta, head) == (
            name,
            name,
            {name: name},
            row.first,
        )
        assert (labels(seen, row.uid, name), seen.tenants()) == ({name: 0}, [name])
        query = ThreadQuery(agent=name, user=name, meta={name: name})
        assert [info.name for info in seen.threads(name, query)] == [name]
        assert [(e.action, e.detail) for e in seen.audit(name)] == [(name, {"note": name})]
