"""The real engine as a subject: the façade's verbs, worker for worker, on a storage of one's choice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from takeback import calling
from takeback.engine import lines, owners, undoing
from takeback.engine.book import believed, book_of
from takeback.engine.context import pointer
from takeback.errors import NotDone, PlanPaused, TakebackError
from takeback.errors.effects import EffectUnreadable, StepInProgress
from takeback.model.ids import bookmark
from takeback.model.ledger import Effect, PlanCell, effect_key
from takeback.recovery import PendingPlan
from takeback.testing.effects.declared import arguments, tool
from takeback.testing.effects.plans import GROUPS
from takeback.testing.effects.processes import Process, Store
from takeback.testing.effects.subject import Answer, ApprovalSeen, EffectSeen, PlanSeen, ThreadSeen
from takeback.testing.effects.tools import TOOLS
from takeback.tools import registry

if TYPE_CHECKING:
    from takeback.engine.book import Book
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


class Engine:
    """See `Subject`. `end` closes the storage."""

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

    # --- steps

    def enter(self, worker: str, thread: str, label: str, take_over: bool) -> Answer:
        one = self._workers.get(worker)
        if one is None or one.name != thread:
            one = self._workers[worker] = Worker(self.store, thread)
        if one.step is not None:
            return ("refused", "step_open")
        step = one.handle.refresh().step(label, take_over=take_over)

        def work() -> Answer:
            try:
                one.process.context.run(step.__enter__)
            except StepInProgress:
                return ("refused", "step_in_progress", self._in_it(one, label))
            one.step = step
            session = step._session
            assert session is not None
            if session.replays:
                return ("replays",)
            self._owners[session.cell.owner] = worker
            return ("resumed" if session.stored else "new",)

        return self._answer(work, worker, thread)

    def call(self, worker: str, tool: str, args: str, choice: str) -> Answer:
        one = self._workers.get(worker)
        if one is None or (one.step is None and TOOLS[tool].repeat != "free"):
            return ("refused", "no_step")
        return self._answer(lambda: self._call(one, tool, args, choice), worker, one.name, (tool, args))

    def close(self, worker: str) -> Answer:
        one = self._workers.get(worker)
        if one is None or one.step is None:
            return ("refused", "no_step")
        step = one.step

        def work() -> Answer:
            self._refresh(one)
            self._versions += 1
            step.state[f"step {self._versions}"] = 1
            replays = step.replayed
            one.step = None
            one.process.context.run(step.__exit__, None, None, None)
            assert step.made is not None
            return ("replayed",) if replays else ("closed", step.made.version)

        return self._answer(work, worker, one.name)

    def leave(self, worker: str) -> Answer:
        one = self._workers.get(worker)
        if one is None or one.step is None:
            return ("refused", "no_step")
        step, one.step = one.step, None
        session = step._session
        assert session is not None
        stored, replays, owner, cell = session.stored, session.replays, session.cell.owner, session.cell.id
        mine = stored and not replays and self._book().steps[cell].owner == owner
        raised = RuntimeError("the body raised")
        one.process.context.run(step.__exit__, RuntimeError, raised, None)
        return ("nothing",) if not stored else ("open",) if mine else ("left",)

    def start_run(self, worker: str, thread: str, run: str) -> Answer:
        self.leave(worker)
        self._workers[worker] = Worker(self.store, thread, run)
        return ("run",)

    def crash(self, worker: str) -> Answer:
        self._workers.pop(worker, None)
        return ("crashed",)

    def wake(self, hanging: int) -> Answer:
        hung = self.store.hung[hanging - 1]
        if hung.times_out:
            hung.over = True
            book = book_of(self._others.ctx, self._family).refresh()
            result = self.world.finish(hung.call)
            if hung.back:
                undoing.late(book, hung.effect, "undone")
            else:
                handler = f"{hung.effect.tool}@{hung.effect.version}"
                calling._late(registry.tool(handler), hung.effect, book, [result], [])
        else:
            hung.process.wake(hung)
        number = hung.effect.number
        return ("woken", number, self._effect(number).state if hung.reached else "gave up")

    # --- other people

    def commit(self, thread: str) -> Answer:
        def work() -> Answer:
            handle = self._others.repo.thread(thread)
            self._versions += 1
            return ("committed", handle.patch({f"commit {self._versions}": 1}).version)

        return self._answer(work, "", thread)

    def grant(self, approval: int, by_asker: bool) -> Answer:
        def work() -> Answer:
            self._main().approval(approval).grant(actor=AGENT if by_asker else PERSON)
            return ("granted",)

        return self._answer(work, "", "main", (approval,))

    def resolve(self, effect: int, happened: bool) -> Answer:
        def work() -> Answer:
            return ("resolved", self._main().resolve(effect, happened=happened, actor=PERSON).state)

        return self._answer(work, "", "main", (effect,))

    def fork(self, thread: str, version: int, rights: str) -> Answer:
        name = f"fork {len(self._names)}"
        self._others.repo.thread(thread).fork(version, name, effects=rights)  # type: ignore[arg-type]  # any of them
        self._made(name, rights)
        return ("forked", name)

    def merge(self, thread: str, other: str) -> Answer:
        def work() -> Answer:
            return ("merged", self._others.repo.thread(thread).merge(other).version)

        return self._answer(work, "", thread, (other,))

    # --- plans

    def plan(
        self, thread: str, target: int, *, scope: str, shared: bool, orphans: bool, redo: bool
    ) -> Answer:
        process = Process(self.store, PERSON)
        every = [one.number for one in self.effects()]
        plan = process.repo.thread(thread).plan_rollback(
            target,
            scope={"all": None, "state": ["state"], "effects": ["effects"]}[scope],
            take_shared=every if shared else (),
            orphans=orphans,
            redo=every if redo and scope != "state" else (),
        )
        self._plans.append(Made(process, plan, target, scope))
        return ("planned", len(self._plans))

    def apply(self, plan: int, *, acknowledge: bool, here: bool) -> Answer:
        made = self._plans[plan - 1]

        def work() -> Answer:
            if self._state(made) != "open":
                return ("refused", "plan_over", plan)
            made.process.repo.thread(made.plan.thread)  # the process looks again before it acts
            book_of(made.process.ctx, self._family).refresh()
            with _no_hands(not here):
                return self._run(made, lambda: made.plan.apply(acknowledge=acknowledge, wait=0))

        return self._answer(work, "", made.plan.thread, (plan,))

    def undo(self, thread: str, version: int) -> Answer:
        process = Process(self.store, PERSON)
        handle = process.repo.thread(thread)
        mark = bookmark(handle.at(version).checkpoint.id)
        self._plans.append(Made(process, handle.plan_undo(mark), version, "all"))
        made, number = self._plans[-1], len(self._plans)
        return self._answer(lambda: self._run(made, lambda: handle.undo(mark)), "", thread, (number,))

    def go_on(self, plan: int, decision: str) -> Answer:
        made = self._plans[plan - 1]
        process = Process(self.store, PERSON)
        book = book_of(process.ctx, self._family).refresh()

        def work() -> Answer:
            if self._state(made) not in ("applying", "paused") or made.cell is None:
                return ("refused", "plan_over", plan)
            pending = PendingPlan(process.ctx, book, book.plans[made.cell])
            return self._heard(made, process.run(lambda: self._gone_on(pending, book, decision)))

        return self._answer(work, "", made.plan.thread, (plan,))

    def _gone_on(self, pending: PendingPlan, book: Book, decision: str) -> None:
        lines.recover(book, pending._cell)
        if pending.state == "paused":
            if decision == "abort":
                pending.abort()
                return
            for line in pending._cell.lines:
                if line.state == "failed":
                    lines.decide_line(book, pending._cell, book.effects[line.effect], decision)
        pending.resume()

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
                book.effects[one.slot].number if one.state == "used" else None,
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

    # --- inside: calling

    def _call(self, one: Worker, name: str, args: str, choice: str) -> Answer:
        called = tool(name, self.world)
        step = one.step
        if step is None or TOOLS[name].repeat == "free":
            one.process.context.run(lambda: called(**arguments(name, args)))
            return ("free",)
        self._refresh(one)
        session = step._session
        assert session is not None
        reused = set(session.cell.reused)

        def work() -> None:
            if choice == "stop":
                called(**arguments(name, args))
                return
            with step.deciding(choice):
                called(**arguments(name, args))

        word, what = one.process.run(work)
        if word == "stopped":
            return ("stopped", what.effect.number, "undo" if what.back else "call")
        if word == "died":
            raise _Died(what)
        begun = [(old, new) for old, new in one.process.intents if new.state == "begun"]
        if begun:
            old, new = begun[-1]
            return ("called" if old is None else "retried", new.number, self._effect(new.number).state)
        if word == "raised" and not isinstance(what, NotDone | EffectUnreadable):
            raise what
        claimed = self._book().effects[list(session.claimed)[-1]]
        if session.replays:
            return ("replayed", claimed.number)
        if claimed.id in session.cell.reused and claimed.id not in reused:
            return ("reused", claimed.number)
        return ("recorded", claimed.number, "failed" if claimed.state == "failed" else "done")

    def _run(self, made: Made, work: Callable[[], Any]) -> Answer:
        """Apply, in the plan's own process."""
        before = set(self._book().plans)
        heard = made.process.run(work)
        begun = set(self._book().plans) - before
        made.cell = begun.pop() if begun else None
        made.at_once = made.cell is None and heard[0] == "returned"
        return self._heard(made, heard)

    def _heard(self, made: Made, heard: tuple[str, Any]) -> Answer:
        word, what = heard
        if word == "stopped":
            owners.release(what.effect.executor)  # whoever goes on is sure that it is gone
            return ("stopped", what.effect.number, "undo" if what.back else "call")
        if word == "died":
            raise _Died(what)
        stuck = word == "raised" and self._state(made) == "paused" and what.kind in ("undecided",)
        if word == "raised" and not isinstance(what, PlanPaused) and not stuck:
            raise what
        state = self._state(made)
        head = self._others.repo.thread(made.plan.thread).version
        return {"applied": ("applied", head), "aborted": ("aborted", head), "paused": ("paused",)}.get(
            state, ("waits",)
        )

    def _answer(
        self, work: Callable[[], Answer], worker: str, thread: str, about: tuple[Any, ...] = ()
    ) -> Answer:
        try:
            return work()
        except _Died as died:
            self._workers.pop(worker, None)
            return ("died", died.args[0].number)
        except TakebackError as refused:
            kind, *detail = self._refusal(refused, thread, about)
            if kind == "step_lost":
                self.leave(worker)
                self._workers.pop(worker, None)
            return ("refused", kind, *detail)

    def _refusal(self, error: TakebackError, thread: str, about: tuple[Any, ...]) -> tuple[Any, ...]:
        """What a refusal is called here, and what it is about."""
        numbers = tuple(int(each) for each in re.findall(r"#(\d+)", error.what))
        kind = error.kind
        if kind == "step_in_progress":  # not on entering, so somebody was faster
            return ("step_lost",)
        if kind == "rollback_in_progress":
            held_by = [n for n, made in enumerate(self._plans, 1) if self._holds(made, thread)]
            return (kind, *held_by)
        if kind == "effects_denied":
            return ("merged",) if "merged" in error.what else (kind,)
        if kind == "approval_required":
            return (kind, error.approval.number)  # type: ignore[attr-defined]  # it is one
        if kind == "budget_exceeded":
            return (kind, "attempts" if "attempts" in error.what else "money")
        if kind == "replay_diverged":
            return (kind, *about) if about else ("run_lost", self._run_of(error))
        if kind == "effect_stands":
            return (kind, *(one.number for one in error.standing))  # type: ignore[attr-defined]  # it has some
        if kind == "undecided":
            return _undecided(error, numbers)
        renamed = {
            "not_for_agents": "same_person", "approval_stale": "approval_over",
            "unacknowledged": "not_acknowledged", "bad_request": "open_step",
        }.get(kind, kind)  # fmt: skip
        if kind in ("plan_stale", "plan_required", "not_for_agents", "approval_stale", "bad_request"):
            return (renamed, *about)
        return (renamed, *numbers)

    # --- inside: looking

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


class _Died(Exception):
    """The process that acted is dead."""


class _no_hands:
    """For so long nobody here has any tool, if that is so."""

    def __init__(self, so: bool) -> None:
        self._so = so

    def __enter__(self) -> None:
        if self._so:
            self._held = registry._tools, registry._undos
            registry._tools, registry._undos = {}, {}

    def __exit__(self, *_: object) -> None:
        if self._so:
            registry._tools, registry._undos = self._held


def groups_of(found: dict[str, list[Effect]]) -> dict[str, tuple[int, ...]]:
    """A plan's groups by the model's names."""
    named = {"nothing": "never"}
    return {key: tuple(sorted(e.number for e in found.get(named.get(key, key), []))) for key in GROUPS}


def _undecided(error: TakebackError, numbers: tuple[int, ...]) -> tuple[Any, ...]:
    words = {
        "may still be on its way": "too_early",
        "nothing to resolve": "nothing_to_resolve",
        "relies on": "shared",
        "cannot be undone first": "cannot_undo",
        "before this can go back": "undecided",
    }
    for word, kind in words.items():
        if word in error.what:
            return (kind, *numbers)
    return ("not_undone", *numbers[:1])
