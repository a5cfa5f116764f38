"""Records: what a checkpoint, a thread and their kin say; and the bytes that a checkpoint's digest covers."""

# Annotations are real types here, not text: text would be evaluated in the first read of a process.
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import ormsgpack
from blake3 import blake3

from takeback.errors import CorruptObject
from takeback.model import canonical
from takeback.model.ids import CheckpointId, ThreadUid, random_part, shown, whole_id

RECORD_FORMAT = 1
_CONTEXT = "takeback checkpoint record, format 1"
_SIGNED = "takeback checkpoint signature, format 1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

OPERATIONS = frozenset(
    {"initial", "commit", "patch", "append", "step", "rollback", "merge", "revert", "fork"}
)
"""Kinds that an undo can take back; `initial` and `fork` have nothing before them."""


class Pointer(msgspec.Struct, frozen=True, array_like=True):
    """A checkpoint of any thread, by the thread's uid, with the digest it had when it was pointed at."""

    uid: bytes
    version: int
    digest: bytes


class FileRoot(msgspec.Struct, frozen=True, array_like=True):
    """The files of one workspace as they were: its manifest, and how the changes were found."""

    workspace: str
    manifest: bytes
    tier: str = ""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One immutable version of a thread."""

    thread: str
    uid: ThreadUid
    version: int
    id: CheckpointId
    kind: str
    line: int
    digest: bytes
    state_root: bytes
    time_us: int
    clock_us: int
    previous: bytes = b""  # digest of the row before it in the thread
    before: int | None = None  # the head that it followed, in its namespace
    origin: Pointer | None = None  # its logical parent, where it opens a line
    merged: Pointer | None = None
    undoes: int | None = None
    undo_top: int | None = None  # the operation that the next undo takes back
    redo_top: int | None = None  # the undo that the next redo takes back
    step: str | None = None  # the label of the step that it ends
    reason: str | None = None
    actor: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    build: str = ""
    meta: dict[str, Any] = {}
    namespace: str = ""
    ledger: str = ""  # what of the effects before it is recorded: "" all, "partial", "none"
    uses: bytes = b""  # digest of the effects that its step closed with
    files: list[FileRoot] = []
    format: int = RECORD_FORMAT
    record: bytes = b""
    mac: bytes | None = None

    @property
    def time(self) -> datetime:
        """When it was recorded: never before the checkpoint that it follows."""
        return instant(self.time_us)

    @property
    def clock(self) -> datetime:
        """What the writer's clock said."""
        return instant(self.clock_us)

    @property
    def parents(self) -> list[Pointer]:
        """The checkpoints that this one's history rests on: first its logical parent, then what it merged."""
        found = [] if self.origin is None else [self.origin]
        if self.origin is None and self.before is not None:
            found = [Pointer(self.uid, self.before, self.previous)]
        return found if self.merged is None else [*found, self.merged]

    @property
    def bookmark(self) -> str:
        """Names exactly this checkpoint, for `undo(bookmark)`."""
        return "b" + self.id[1:]

    @property
    def blob_id(self) -> str:
        """The content address of the state."""
        return shown(self.state_root)

    def __repr__(self) -> str:
        return f"<Checkpoint {self.id} ({self.kind}) of {self.thread!r}>"

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "thread": self.thread,
            "version": self.version,
            "id": self.id,
            "kind": self.kind,
            "line": self.line,
            "parents": [{"thread_uid": shown(p.uid), "version": p.version} for p in self.parents],
            "undoes": self.undoes,
            "digest": shown(self.digest),
            "state_root": shown(self.state_root),
            "time": self.time.isoformat(),
            "clock": self.clock.isoformat(),
            "step": self.step,
            "reason": self.reason,
            "actor": self.actor,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "build": self.build,
            "meta": _shown(self.meta),
            "namespace": self.namespace,
            "ledger": self.ledger or "full",
            "files": [{"workspace": root.workspace, "manifest": shown(root.manifest)} for root in self.files],
        }


def _shown(meta: dict[str, Any]) -> dict[str, Any]:
    from takeback.model import graphs

    return graphs.shown(meta)


_FIELDS = (
    "format", "uid", "version", "id", "kind", "line", "previous", "before", "origin", "merged", "undoes",
    "undo_top", "redo_top", "state_root", "time_us", "clock_us", "step", "reason", "actor", "trace_id",
    "span_id", "build", "meta", "namespace", "ledger", "uses", "files",
)  # fmt: skip


def make(thread: str, **said: Any) -> Checkpoint:
    """A checkpoint from what it says, with the bytes that it is stored as and the digest that covers them."""
    uid, meta = said["uid"], said["meta"]
    stored = said | {
        "format": RECORD_FORMAT,
        "id": random_part(said["id"]),
        "clock_us": said["clock_us"] - said["time_us"],
        "meta": canonical.pack(meta) if meta else {},
        "origin": _stored_pointer(said["origin"], uid),
        "merged": _stored_pointer(said["merged"], uid),
        "files": [[root.workspace, root.manifest, root.tier] for root in said["files"]],
    }
    record = ormsgpack.packb([stored[name] for name in _FIELDS])
    return Checkpoint(thread=thread, record=record, digest=record_digest(record), **said)


def _stored_pointer(pointer: Pointer | None, own: bytes) -> list[Any] | None:
    """A pointer into the same thread leaves the uid out."""
    if pointer is None:
        return None
    return [b"" if pointer.uid == own else pointer.uid, pointer.version, pointer.digest]


def seal_record(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with its bytes and digest made anew: after its fields were replaced."""
    said = {name: getattr(checkpoint, name) for name in _FIELDS if name != "format"}
    return make(checkpoint.thread, **said)


def record_digest(record: bytes) -> bytes:
    return blake3(record, derive_key_context=_CONTEXT).digest()


def read_record(thread: str, record: bytes, digest: bytes, mac: bytes | None = None) -> Checkpoint:
    """A checkpoint from its stored bytes. A digest says who wrote them, not that they make sense."""
    try:
        values = dict(zip(_FIELDS, ormsgpack.unpackb(record), strict=True))
        if isinstance(values["meta"], bytes):
            values["meta"] = canonical.decode(values["meta"])
        for name in ("origin", "merged"):
            if values[name] is not None:
                values[name][0] = values[name][0] or values["uid"]
        values["id"] = whole_id(values["version"], values["id"])
        values["clock_us"] += values["time_us"]
        values |= {"thread": thread, "digest": digest, "record": record, "mac": mac}
        return msgspec.convert(values, Checkpoint)
    except (
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        msgspec.ValidationError,
        CorruptObject,
    ) as error:
        raise CorruptObject(f"a checkpoint record that cannot be read: {error}", thread=thread) from None


def prepare() -> None:
    """Have a record's types looked at now: when a store is opened, rather than in its first read."""
    with contextlib.suppress(msgspec.ValidationError):  # nothing is read: types are looked at before values
        msgspec.convert({}, Checkpoint)


def sign(digest: bytes, key: bytes) -> bytes:
    """The keyed digest of a checkpoint: only who holds the key can make it."""
    return blake3(digest, key=signing_key(key)).digest()


def signing_key(key: bytes) -> bytes:
    return blake3(key, derive_key_context=_SIGNED).digest()


class ThreadInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread beside its checkpoints."""

    name: str
    uid: ThreadUid
    agent: str | None
    user: str | None
    meta: dict[str, Any]
    created_us: int
    head: int
    head_digest: bytes
    updated_us: int
    origin: Pointer | None = None
    family: bytes = b""  # the uid of the thread that it and its forks began with
    lock: bytes | None = None  # the plan that is being applied to it
    deleted_us: int | None = None
    key: int = 0  # where the listing goes on; the store's own

    @property
    def created(self) -> datetime:
        return instant(self.created_us)

    @property
    def updated(self) -> datetime:
        return instant(self.updated_us)

    @property
    def versions(self) -> int:
        return self.head + 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "uid": shown(self.uid),
            "agent": self.agent,
            "user": self.user,
            "meta": self.meta,
            "created": self.created.isoformat(),
            "updated": self.updated.isoformat(),
            "head": self.head,
            "versions": self.versions,
            "forked_from": None if self.origin is None else self.origin.version,
        }


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done and is no checkpoint: a deletion, a label, a seal, an import."""

    time_us: int
    action: str
    thread: str | None
    uid: bytes | None = None
    actor: str | None = None
    detail: dict[str, Any] = {}
    key: int = 0

    @property
    def time(self) -> datetime:
        return instant(self.time_us)

    def as_dict(self) -> dict[str, Any]:
        return {
            "time": self.time.isoformat(),
            "action": self.action,
            "thread": self.thread,
            "actor": self.actor,
            "detail": self.detail,
        }


def instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
