"""Records of a family's ledger: steps, effects, plans, approvals, what is said of threads; and their keys."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec
from blake3 import blake3

from takeback.errors import CorruptObject
from takeback.model import canonical
from takeback.model.ids import shown
from takeback.model.records import FileRoot, Pointer, instant

_SLOT = "takeback effect slot, format 1"
_KEY = "takeback effect key, format 1"
INLINE = 1024  # bytes of an argument list or result that stand in the cell; a longer one is an object

MAY_STAND = frozenset({"begun", "unknown", "done", "undoing", "undo_failed", "undo_unknown"})
"""States in which something of the effect may stand in the world."""
IN_FLIGHT = frozenset({"begun", "undoing"})
UNDECIDED = frozenset({"unknown", "undo_unknown"})
_ATTENTION = IN_FLIGHT | UNDECIDED | {"undo_failed"}


class Blob(msgspec.Struct, frozen=True, array_like=True):
    """Encoded bytes that stand here, or the digest of the object that holds them."""

    raw: bytes = b""
    digest: bytes = b""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A step that closed with the effect: the history at that checkpoint believes in it."""

    thread: bytes
    line: int
    version: int


class Decision(msgspec.Struct, frozen=True, array_like=True):
    """Somebody's answer: run beside what stands, reuse it, what happened to an unknown one."""

    what: str
    by: str | None
    time_us: int
    about: list[int] = []  # numbers of effects


class StepCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A step that has effects, or belongs to a run."""

    id: bytes
    thread: bytes
    line: int
    run: str | None
    label: str
    ord: int
    base: int
    attempt: int = 1
    state: str = "open"  # open, closed, abandoned
    owner: str = ""
    lease_us: int = 0
    reused: list[bytes] = []  # effects of other steps that this one took for its own
    closed: int | None = None
    claims: list[bytes] = []  # what it closed with, in the order of its calls
    instead: dict[bytes, bytes] = {}  # of what was reused by decision: the hash of the call it was taken for

    @property
    def live(self) -> bool:
        return self.state == "open"


class Effect(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A call that touches the world, from its intent on."""

    id: bytes
    number: int
    thread: bytes
    owner: bytes
    line: int
    run: str | None
    label: str
    ord: int
    step: bytes
    tool: str
    version: str
    args: Blob
    args_hash: bytes
    occurrence: int
    target: str  # what the tool names; with a zero before it the tool itself, where it names none
    shown: str
    repeat: str  # keyed, once
    undo: str | None  # the handler that undoes it
    undo_safe: bool
    within: bool  # whether it happens in the store's own transaction
    local: bool  # whether what it did goes back with the files
    key_ttl_us: int | None
    cost: dict[str, int] = {}
    state: str = "begun"
    redo: int = 0
    attempts: int = 1
    result: Blob | None = None
    error: str | None = None
    unreadable: str | None = None  # why its result could not be kept
    before: Blob | None = None  # what stood at the target, where the tool can read it
    after: Blob | None = None
    intent_us: int = 0
    first_us: int = 0  # the first try with the present key
    deadline_us: int = 0
    settled_us: int = 0
    order: int = 0
    dirty: bool = False  # an attempt with the present key ended unknown
    orphan: bool = False
    approval: bytes | None = None
    facts: dict[str, Any] = {}
    decisions: list[Decision] = []
    uses: list[Use] = []
    late: list[str] = []
    executor: str = ""
    actor: str | None = None
    trace_id: str | None = None
    span_id: str | None = None

    def __repr__(self) -> str:
        return f"<Effect #{self.number} {self.state}: {self.shown}>"

    @property
    def live(self) -> bool:
        return self.state in _ATTENTION

    @property
    def may_stand(self) -> bool:
        return self.state in MAY_STAND

    @property
    def key(self) -> str:
        """The provider's idempotency key of the present attempt."""
        return effect_key(self.id, self.redo)

    @property
    def undo_key(self) -> str:
        return undo_key(self.key)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "number": self.number, "id": shown(self.id), "tool": self.tool, "version": self.version,
            "shown": self.shown, "state": self.state, "step": self.label, "run": self.run,
            "target": None if self.target.startswith("\0") else self.target, "repeat": self.repeat,
            "undo": self.undo, "redo": self.redo, "attempts": self.attempts, "key": self.key,
            "orphan": self.orphan, "error": self.error, "unreadable": self.unreadable,
            "intent": shown_time(self.intent_us), "deadline": shown_time(self.deadline_us),
            "settled": shown_time(self.settled_us) if self.settled_us else None, "cost": self.cost,
            "facts": self.facts, "decisions": [[d.what, d.by, d.about] for d in self.decisions],
            "versions": [use.version for use in self.uses], "late": self.late, "actor": self.actor,
            "trace_id": self.trace_id,
        }  # fmt: skip


class PlanLine(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """One thing that a plan does to an effect."""

    effect: bytes
    do: str  # undo, redo
    handler: str
    state: str = "todo"  # todo, running, done, failed, accepted
    error: str | None = None
    owner: str = ""
    lease_us: int = 0


class PlanCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A plan that is being applied: what it is to do, how far it came, and the checkpoint it ends with."""

    id: bytes
    thread: bytes
    kind: str
    head: Pointer
    target: Pointer
    digest: str
    root: bytes
    lines: list[PlanLine] = []
    acknowledged: list[bytes] = []
    state: str = "applying"  # applying, paused, applied, aborted
    undoes: int | None = None
    stack: list[int | None] | None = None
    files: list[FileRoot] | None = None
    reason: str | None = None
    actor: str | None = None
    meta: bytes = b""
    summary: str = ""
    created_us: int = 0
    version: int | None = None
    moves: list[FileRoot] = []  # workspaces whose files it puts back: as they were when it began
    memory: Pointer | None = None  # as of which checkpoint memory is to show

    @property
    def live(self) -> bool:
        return self.state in ("applying", "paused")


class ApprovalCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A person's yes to one exact call, or a question to a person."""

    id: bytes
    number: int
    thread: bytes
    line: int
    step: bytes
    slot: bytes  # the effect that the call would be
    redo: int = 0
    tool: str = ""
    version: str = ""
    shown: str = ""
    args: Blob = Blob()
    facts: dict[str, Any] = {}
    why: str = ""
    state: str = "requested"  # requested, granted, denied, void, used, expired
    asked_by: str | None = None
    asked_us: int = 0
    expires_us: int | None = None
    decided_by: str | None = None
    decided_us: int = 0
    answer: bytes | None = None  # a denial's reason; what a question was answered with
    signature: bytes | None = None
    plan: bytes | None = None  # the plan in which the call is to be made again

    @property
    def live(self) -> bool:
        return self.state == "requested"

    def signed(self) -> bytes:
        """What a grant's signature covers: this call, and nothing else."""
        return canonical.encode(
            ["takeback grant 2", self.id, self.thread, self.line, self.step, self.slot, self.redo, self.tool,
             self.version, self.args.raw or self.args.digest, self.facts, self.decided_by or "",
             self.expires_us, self.plan]
        )  # fmt: skip


class ThreadCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What is said of a thread beside its history."""

    id: bytes
    thread: bytes
    rights: str | None = None  # deny, guard, allow; None: as it was made
    merged_into: bytes | None = None
    autopilot: bool = False

    @property
    def live(self) -> bool:
        return False


class BudgetCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A limit for the whole family: on what stands, or (`attempts`) on how often it was tried."""

    id: bytes
    thread: bytes
    name: str
    limit: int

    @property
    def live(self) -> bool:
        return False


class WorkspaceCell(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A directory whose files are checkpointed with the thread: where it is, and what of it is captured."""

    id: bytes
    thread: bytes
    name: str
    path: bytes
    host: str
    device: int
    inode: int
    shared: bool = False
    rules: bytes = b""
    attached_us: int = 0
    detached: bool = False

    @property
    def live(self) -> bool:
        return False


Entry: TypeAlias = "StepCell | Effect | PlanCell | ApprovalCell | ThreadCell | BudgetCell | WorkspaceCell"
E = TypeVar("E", StepCell, Effect, PlanCell, ApprovalCell, ThreadCell, BudgetCell, WorkspaceCell)

KINDS: dict[str, type[Any]] = {
    "step": StepCell, "effect": Effect, "plan": PlanCell, "approval": ApprovalCell, "thread": ThreadCell,
    "budget": BudgetCell, "workspace": WorkspaceCell,
}  # fmt: skip
KIND_OF = {kind: name for name, kind in KINDS.items()}
_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in KINDS.items()}
_ENCODER = msgspec.msgpack.Encoder()


def encode(entry: Entry) -> bytes:
    return _ENCODER.encode(entry)


def decode(kind: str, body: bytes) -> Any:
    """An entry from its cell; a kind that this build does not know is none of its business."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return None
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptObject(f"a {kind} of the ledger cannot be read: {error}") from None


def args_hash(tool: str, args: bytes) -> bytes:
    return blake3(tool.encode() + b"\0" + args).digest()


def slot(step: StepCell, tool: str, hashed: bytes, occurrence: int) -> bytes:
    """An effect's id: which call of which step of which line it is. A copy of the thread keeps it."""
    raw = canonical.encode([step.thread, step.line, step.run, step.label, step.ord, tool, hashed, occurrence])
    return blake3(raw, derive_key_context=_SLOT).digest(16)


def effect_key(effect: bytes, redo: int) -> str:
    """What a provider is told, so that it does the same thing once."""
    return "tb_" + blake3(effect + redo.to_bytes(4, "big"), derive_key_context=_KEY).hexdigest()[:40]


def undo_key(key: str) -> str:
    return "tbu_" + blake3(key.encode() + b"undo", derive_key_context=_KEY).hexdigest()[:40]


def shown_time(micros: int) -> str:
    return instant(micros).isoformat(timespec="seconds")
