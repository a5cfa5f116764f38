"""What can be seen of the real engine: its ledger and histories, in the words of a subject."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from takeback.engine.book import believed, book_of
from takeback.engine.context import pointer
from takeback.model.ledger import ApprovalCell, Effect, PlanCell, effect_key
from takeback.testing.effects.plans import GROUPS
from takeback.testing.effects.processes import Process, Store
from takeback.testing.effects.subject import ApprovalSeen, EffectSeen, PlanSeen, ThreadSeen

if TYPE_CHECKING:
    from takeback.engine.book import Book
    from takeback.errors import TakebackError
    from takeback.plan import Plan
    from takeback.step import Run, Step
    from takeback.storage.base import Storage
    from takeback.testing.effects.world import World
    from takeback.thread import Thread

T = TypeVar("T")
AGENT, PERSON = "agent", "person"


class Worker:
    """A process of the agent, with the step that it is in."""

    def __init__(self, store: Store, thread: str, run: str = "") -> None:
        self.process, self.name, self.run_id = Process(store, AGENT), thread, run
        self.handle: Thread[Any] = self.process.repo.thread(thread)
        self.step: Step[Any] | None = None
        self.run: Run | None = None
        if run:
            self.run = self.handle.run(run)
            self.run.__enter__()


class Made:
    """A plan that was made, and what became of it."""

    def __init__(self, process: Process, plan: Plan, target: int, scope: str) -> None:
        self.process, self.plan, self.target, self.scope = process, plan, target, scope
        self.cell: bytes | None = None
        self.at_once = False
        self.groups = groups_of(plan.effects.groups)


class Looking:
    """The half of the subject that only looks, in a process of its own."""

    def __init__(self, storage: Storage, world: World, money: int, attempts: int) -> None:
        self.store, self.world = Store(storage, world), world
        self._workers: dict[str, Worker] = {}
        self._owners: dict[str, str] = {}
        self._plans: list[Made] = []
        self._names: dict[bytes, str] = {}
        self._rights: dict[str, str] = {}
        self._versions = 0
        self._seen: tuple[int, dict[str, Any]] = (-1, {})
        self._others = Process(self.store, PERSON)
        main = self._others.repo.thread("main", initial={})
        main.budget({"money": money, "attempts": attempts})
        self._made("main", "guard")

    def end(self) -> None:
        self.store.end()

    # --- what can be seen

    def effects(self) -> list[EffectSeen]:
        def look() -> list[EffectSeen]:
            found = sorted(self._book().effects.values(), key=lambda one: one.number)
            return [self._effect_seen(one) for one in found]

        return self._look("effects", look)

    def approvals(self) -> list[ApprovalSeen]:
        book = self._book()
        return [
            ApprovalSeen(
                one.number, self._names[one.thread], one.tool, one.state, one.facts.get("price"),
                self._used_by(one),
            )
            for one in sorted(book.approvals.values(), key=lambda one: one.number)
        ]  # fmt: skip

    def threads(self) -> list[ThreadSeen]:
        def look() -> list[ThreadSeen]:
            found = []
            for uid, name in self._names.items():
                tip = self._others.ctx.tip(name)
                assert tip is not None
                said = self._book().threads.get(uid)
                merged = said is not None and said.merged_into is not None
                held = tip.info.lock is not None
                found.append(ThreadSeen(name, tip.head.version, self._rights[name], held, merged))
            return found

        return self._look("threads", look)

    def plans(self) -> list[PlanSeen]:
        return [self._plan_seen(number, made) for number, made in enumerate(self._plans, 1)]

    def hanging(self) -> list[int]:
        return [number for number, one in enumerate(self.store.hung, 1) if not one.over]

    def believed(self, thread: str, version: int) -> frozenset[int]:
        def look() -> frozenset[int]:
            lineage = self._lineage(thread, version)
            return frozenset(e.number for e in self._book().effects.values() if believed(e, lineage))

        return self._look(f"believed {thread} {version}", look)

    def lineage(self, thread: str, version: int) -> frozenset[tuple[str, int]]:
        def look() -> frozenset[tuple[str, int]]:
            held = self._lineage(thread, version).items()
            return frozenset(
                (self._names[uid], one) for (uid, line), last in held for one in range(line, last + 1)
            )

        return self._look(f"lineage {thread} {version}", look)

    def discrepancies(self, thread: str) -> dict[str, tuple[int, ...]]:
        found = groups_of(self._others.repo.thread(thread).discrepancies().groups)
        return {key: numbers for key, numbers in found.items() if numbers and key not in ("same", "nothing")}

    # --- inside

    def _in_it(self, one: Worker, label: str) -> str:
        info = one.handle.info
        line = one.handle.head.line
        step = self._book().open_step(info.uid, line, one.run_id or None, label)
        assert step is not None
        return self._owners[step.owner]

    def _run_of(self, error: TakebackError) -> str:
        named = (one.run_id for one in self._workers.values() if one.run_id)
        return next(run for run in named if f"the run {run!r}" in error.what)

    def _made(self, name: str, rights: str) -> None:
        tip = self._others.ctx.tip(name)
        assert tip is not None
        self._names[tip.info.uid], self._rights[name] = name, rights
        self._family = tip.info.family

    def _main(self) -> Thread[Any]:
        return self._others.repo.thread("main")

    def _book(self) -> Book:
        book = book_of(self._others.ctx, self._family)
        if self._seen[0] != self.store.writes:
            self._seen = (self.store.writes, {})
            book.refresh()
        return book

    def _look(self, name: str, look: Callable[[], T]) -> T:
        self._book()
        held = self._seen[1]
        if name not in held:
            held[name] = look()
        found: T = held[name]
        return found

    def _refresh(self, one: Worker) -> None:
        book_of(one.process.ctx, self._family).refresh()

    def _effect(self, number: int) -> EffectSeen:
        return self.effects()[number - 1]

    def _used_by(self, approval: ApprovalCell) -> int | None:
        used = self._book().effects.get(approval.slot) if approval.state == "used" else None
        return None if used is None else used.number

    def _effect_seen(self, one: Effect) -> EffectSeen:
        decided = any(each.what in ("beside", "undo", "reuse") for each in one.decisions) or one.redo > 0
        keys = tuple(effect_key(one.id, redo) for redo in range(one.redo + 1))
        args = self._book().load(one.args)["args"]
        names = self._names
        return EffectSeen(
            one.number, names[one.thread], names[one.owner], one.tool, args, one.state, keys, decided
        )

    def _lineage(self, thread: str, version: int) -> Any:
        checkpoint = self._others.repo.thread(thread).at(version).checkpoint
        return self._book().lineage(pointer(checkpoint))

    def _state(self, made: Made) -> str:
        cell = self._cell(made)
        return cell.state if cell is not None else "applied" if made.at_once else "open"

    def _cell(self, made: Made) -> PlanCell | None:
        return None if made.cell is None else self._book().plans[made.cell]

    def _holds(self, made: Made, thread: str) -> bool:
        return made.plan.thread == thread and self._state(made) in ("applying", "paused")

    def _plan_seen(self, number: int, made: Made) -> PlanSeen:
        cell, effects = self._cell(made), self._book().effects
        done = () if cell is None else tuple((effects[e.effect].number, e.do, e.state) for e in cell.lines)
        return PlanSeen(
            number, made.plan.thread, made.target, made.scope, self._state(made), made.groups, done
        )


def groups_of(found: dict[str, list[Effect]]) -> dict[str, tuple[int, ...]]:
    """A plan's groups by the model's names."""
    named = {"nothing": "never"}
    return {key: tuple(sorted(e.number for e in found.get(named.get(key, key), []))) for key in GROUPS}
