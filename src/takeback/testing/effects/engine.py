"""The real engine as a subject: the façade's verbs, worker for worker, on a storage of one's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback import calling
from takeback.engine import lines, owners, undoing
from takeback.engine.book import book_of
from takeback.errors import EffectUnreadable, NotDone, PlanPaused, StepInProgress, TakebackError
from takeback.model.ids import bookmark
from takeback.recovery import PendingPlan
from takeback.testing.effects.declared import arguments, tool
from takeback.testing.effects.looking import AGENT, PERSON, Made, Worker
from takeback.testing.effects.processes import Process
from takeback.testing.effects.refusals import Refusing
from takeback.testing.effects.subject import Answer
from takeback.testing.effects.tools import TOOLS
from takeback.tools import registry

if TYPE_CHECKING:
    from takeback.engine.book import Book


class Engine(Refusing):
    """See `Subject`. `end` closes the storage."""

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
