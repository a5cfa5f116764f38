"""The contract's promises about space: epochs, objects that go, what is stored, files that were given up."""

from __future__ import annotations

from collections.abc import Callable

from takeback.storage.base import (
    Batch,
    Epochs,
    FilesGone,
    FilesKept,
    Forget,
    NewEpoch,
    Objects,
    Prune,
    Pruned,
    Sizes,
    Storage,
    Stored,
    ThreadGone,
    Tombstone,
)
from takeback.testing.handles import A, Handles, ok, refused
from takeback.testing.rows import T0, blobs, new_thread


def _all(store: Storage, tenant: str = A, limit: int = 2) -> list[Stored]:
    found: list[Stored] = []
    while page := store.find(tenant, Objects(found[-1].key if found else 0, limit)):
        found += page
    return found


def _epoch(store: Storage) -> int:
    return store.find(A, Epochs())[0]


class Space(Handles):
    """What gives space back, and says what takes it."""

    def test_objects_in_pages(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Each object once, with its own size and what it takes; another tenant's never."""
        objects = blobs(b"", b"x", b"y" * 5000, *(b"%d" % n for n in range(5)))
        ok(store, objects=objects)
        assert store.apply(Batch("b", [], blobs(b"theirs"))) is None
        found = _all(again())
        assert {kept.digest: kept.size for kept in found} == {d: len(p) for d, p in objects.items()}
        assert len(found) == len(objects)
        assert all(kept.kept <= kept.size for kept in found)
        assert store.find("nobody", Objects()) == []

    def test_pages_go_on_where_objects_go(self, store: Storage) -> None:
        """A collection removes what it has just read, and misses nothing that comes after."""
        objects = blobs(*(b"%d" % n for n in range(9)))
        ok(store, objects=objects)
        ok(store, NewEpoch())
        seen, after = set[bytes](), 0
        while page := store.find(A, Objects(after, 2)):
            after = page[-1].key
            seen.update(kept.digest for kept in page)
            ok(store, Forget([kept.digest for kept in page], _epoch(store)))
        assert seen == set(objects)
        assert _all(store) == []

    def test_sizes(self, store: Storage) -> None:
        """Of those that are asked for and there."""
        objects = blobs(b"here", b"and here")
        ok(store, objects=objects)
        absent = next(iter(blobs(b"absent")))
        found = {kept.digest: kept.size for kept in store.find(A, Sizes([*objects, absent]))}
        assert found == {digest: len(payload) for digest, payload in objects.items()}
        assert store.find("b", Sizes([*objects])) == []
        assert store.find(A, Sizes([])) == []

    def test_what_was_brought_before_the_epoch_goes(
        self, store: Storage, again: Callable[[], Storage]
    ) -> None:
        """And only that, only of this tenant, and what is absent is no error."""
        old, kept, absent = blobs(b"old"), blobs(b"kept"), blobs(b"absent")
        ok(store, objects=old | kept)
        assert store.apply(Batch("b", [], old)) is None
        ok(store, NewEpoch())
        ok(store, Forget([*old, *absent], _epoch(store)))
        assert again().objects(A, [*old, *kept]) == kept
        assert again().objects("b", [*old]) == old

    def test_what_is_brought_again_outlives_a_collection_that_has_begun(
        self, store: Storage, again: Callable[[], Storage]
    ) -> None:
        """A commit that finds its object there and the collection that found it unreachable: the object
        stays, whether the commit wrote it or only met it."""
        objects, fresh = blobs(b"found there"), blobs(b"new")
        ok(store, objects=objects)
        ok(store, NewEpoch())
        ok(again(), objects=objects | fresh)
        ok(store, Forget([*objects, *fresh], _epoch(store)))
        assert store.objects(A, [*objects, *fresh]) == objects | fresh

    def test_every_epoch_is_later(self, store: Storage, again: Callable[[], Storage]) -> None:
        """Two collections within a minute, or after a clock was set back, are two."""
        epochs = []
        for handle in (store, again(), store):
            ok(handle, NewEpoch())
            epochs.append(_epoch(again()))
        assert epochs == sorted(set(epochs))

    def test_files_that_were_given_up(self, store: Storage, again: Callable[[], Storage]) -> None:
        """In order, each once; a thread that is gone has none, and a late writer is told so."""
        row = new_thread("t")
        ok(store, row)
        ok(store, Prune(row.uid, 4, 6, T0), Prune(row.uid, 0, 2, T0 + 1))
        assert again().find(A, Pruned(row.uid)) == [(0, 2, T0 + 1), (4, 6, T0)]
        assert store.find("b", Pruned(row.uid)) == []
        ok(store, Tombstone(row.uid, T0 + 2))
        assert refused(store, Prune(row.uid, 7, 8, T0)) == ThreadGone(T0 + 2)
        assert isinstance(refused(store, Prune(new_thread("u").uid, 0, 0, T0)), ThreadGone)

    def test_what_takes_up_files_that_were_given_up_is_refused(self, store: Storage) -> None:
        """With all that is in its batch; other versions' files, and those of other threads, are free."""
        row, other = new_thread("t"), new_thread("u")
        ok(store, row, other)
        ok(store, FilesKept(row.uid, 1))
        ok(store, Prune(row.uid, 1, 2, T0))
        for version in (1, 2):
            again = new_thread("again")
            assert refused(store, FilesKept(row.uid, version), again) == FilesGone(version, T0)
            assert store.thread(A, "again") is None
        ok(store, FilesKept(row.uid, 0), FilesKept(row.uid, 3), FilesKept(other.uid, 1))
        ok(store, Tombstone(row.uid, T0 + 2))
        assert refused(store, FilesKept(row.uid, 0)) == ThreadGone(T0 + 2)
