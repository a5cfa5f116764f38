"""The rules as a subject: each verb is one or two transactions on the modelled ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from takeback.testing.effects import apply, approvals, calls, outcomes, plans, steps
from takeback.testing.effects.ledger import Ledger
from takeback.testing.effects.records import Plan, Refused
from takeback.testing.effects.steps import Session
from takeback.testing.effects.subject import Answer, ApprovalSeen, EffectSeen, PlanSeen, ThreadSeen
from takeback.testing.effects.world import Died, Stopped

if TYPE_CHECKING:
    from takeback.testing.effects.rules import Rules
    from takeback.testing.effects.world import World


class Model:
    """A `Subject` made of nothing but the rules."""

    def __init__(
        self, world: World, rules: Rules | None = None, *, money: int = 1_000, attempts: int = 1_000
    ) -> None:
        self.ledger = Ledger(world, rules, money, attempts)
        self.ledger.make_thread("main")
        self._sessions: dict[str, Session] = {}

    # --- steps

    def enter(self, worker: str, thread: str, label: str, take_over: bool) -> Answer:
        def work() -> Answer:
            session = self._session(worker, thread)
            return (steps.enter(self.ledger, worker, session, label, take_over),)

        return self._answer(work, worker)

    def call(self, worker: str, tool: str, args: str, choice: str) -> Answer:
        def work() -> Answer:
            return calls.call(self.ledger, worker, self._in_hand(worker), tool, args, choice=choice)

        return self._answer(work, worker)

    def close(self, worker: str) -> Answer:
        def work() -> Answer:
            session = self._in_hand(worker)
            ref = steps.close(self.ledger, worker, session)
            return ("replayed",) if ref is None else ("closed", ref[1])

        return self._answer(work, worker)

    def leave(self, worker: str) -> Answer:
        return self._answer(lambda: (steps.leave(self.ledger, worker, self._in_hand(worker)),), worker)

    def start_run(self, worker: str, thread: str, run: str) -> Answer:
        self._let_go(worker)
        self._sessions[worker] = Session(thread, run)
        return ("run",)

    def crash(self, worker: str) -> Answer:
        self._sessions.pop(worker, None)
        return ("crashed",)

    def wake(self, hanging: int) -> Answer:
        one = self.ledger.hanging[hanging - 1]
        return ("woken", one.effect, apply.wake(self.ledger, one))

    # --- other people

    def commit(self, thread: str) -> Answer:
        return self._answer(lambda: ("committed", steps.commit(self.ledger, thread)[1]))

    def grant(self, approval: int, by_asker: bool) -> Answer:
        by = approvals.ASKER if by_asker else "person"
        return self._answer(lambda: (approvals.grant(self.ledger, approval, by),))

    def resolve(self, effect: int, happened: bool) -> Answer:
        def work() -> Answer:
            return ("resolved", outcomes.resolve(self.ledger, self.ledger.effects[effect], happened))

        return self._answer(work)

    def fork(self, thread: str, version: int, rights: str) -> Answer:
        name = f"fork {len(self.ledger.threads)}"
        self.ledger.make_thread(name, (thread, version), rights)
        return ("forked", name)

    def merge(self, thread: str, other: str) -> Answer:
        return self._answer(lambda: ("merged", merge(self.ledger, thread, other)))

    def end(self) -> None:
        pass

    # --- plans

    def plan(
        self, thread: str, target: int, *, scope: str, shared: bool, orphans: bool, redo: bool
    ) -> Answer:
        plan = plans.make(self.ledger, thread, target, scope, shared=shared, orphans=orphans, redo=redo)
        return ("planned", plan.number)

    def apply(self, plan: int, *, acknowledge: bool, here: bool) -> Answer:
        def work() -> Answer:
            one = self.ledger.plans[plan]
            apply.start(self.ledger, one, acknowledge)
            return self._go(one) if here or not one.lines else ("waits",)

        return self._answer(work)

    def undo(self, thread: str, version: int) -> Answer:
        def work() -> Answer:
            plan = plans.make(self.ledger, thread, version, "all", shared=False, orphans=False, redo=False)
            asks = ("blocked", "decide", "compensate", "stays")
            if any(plan.groups[key] for key in asks) and self.ledger.rules.undo_asks_first:
                raise Refused("plan_required", plan.number)
            apply.start(self.ledger, plan, acknowledge=not self.ledger.rules.undo_asks_first)
            return self._go(plan)

        return self._answer(work)

    def go_on(self, plan: int, decision: str) -> Answer:
        def work() -> Answer:
            one = self.ledger.plans[plan]
            if one.state not in ("applying", "paused"):
                raise Refused("plan_over", plan)
            apply.recover(self.ledger, one)
            if one.state == "paused":
                apply.decide(self.ledger, one, decision)
            if one.state == "aborted":
                return ("aborted", self.ledger.threads[one.thread].head)
            return self._go(one)

        return self._answer(work)

    # --- what can be seen

    def effects(self) -> list[EffectSeen]:
        return [
            EffectSeen(
                effect.number, effect.thread, effect.owner, effect.tool, effect.args, effect.state,
                tuple(effect.keys), bool(effect.decisions),
            )
            for effect in self.ledger.effects.values()
        ]  # fmt: skip

    def approvals(self) -> list[ApprovalSeen]:
        return [
            ApprovalSeen(one.number, one.thread, one.slot[5], one.state, one.facts, one.used_by)
            for one in self.ledger.approvals.values()
        ]

    def threads(self) -> list[ThreadSeen]:
        return [
            ThreadSeen(one.name, one.head, one.rights, one.plan is not None, one.read_only)
            for one in self.ledger.threads.values()
        ]

    def plans(self) -> list[PlanSeen]:
        return [
            PlanSeen(
                one.number, one.thread, one.target, one.scope, one.state, one.groups,
                tuple((line.effect, line.do, line.state) for line in one.lines),
            )
            for one in self.ledger.plans.values()
        ]  # fmt: skip

    def hanging(self) -> list[int]:
        return [number for number, one in enumerate(self.ledger.hanging, 1) if not one.over]

    def believed(self, thread: str, version: int) -> frozenset[int]:
        return self.ledger.believed((thread, version))

    def lineage(self, thread: str, version: int) -> frozenset[tuple[str, int]]:
        intervals = self.ledger.intervals((thread, version)).items()
        return frozenset((name, one) for (name, line), last in intervals for one in range(line, last + 1))

    def discrepancies(self, thread: str) -> dict[str, tuple[int, ...]]:
        return plans.discrepancies(self.ledger, thread)

    # --- inside

    def _session(self, worker: str, thread: str) -> Session:
        session = self._sessions.get(worker)
        if session is None or session.thread != thread:
            session = self._sessions[worker] = Session(thread)
        if session.step is not None or session.pending is not None:
            raise Refused("step_open")
        return session

    def _in_hand(self, worker: str) -> Session:
        if worker not in self._sessions:
            raise Refused("no_step")
        return self._sessions[worker]

    def _let_go(self, worker: str) -> None:
        """The body of its step ends, with the error."""
        session = self._sessions.pop(worker, None)
        if session is not None and (session.step is not None or session.pending is not None):
            steps.leave(self.ledger, worker, session)

    def _go(self, plan: Plan) -> Answer:
        ref = apply.go(self.ledger, plan)
        return ("paused",) if ref is None else ("applied", ref[1])

    def _answer(self, work: Callable[[], tuple[Any, ...]], worker: str = "") -> Answer:
        """A refusal is an answer too. Who died holds nothing any more; who was stopped still does."""
        try:
            return work()
        except Refused as refused:
            if refused.kind == "step_lost":
                self._let_go(worker)
            return ("refused", refused.kind, *refused.detail)
        except Died as died:
            self._sessions.pop(worker, None)
            return ("died", self._with_key(died.args[0]))
        except Stopped as stopped:
            return ("stopped", self._with_key(stopped.call.key), "undo" if stopped.call.back else "call")

    def _with_key(self, key: str) -> int:
        return next(effect.number for effect in reversed(self.ledger.effects.values()) if key in effect.keys)


def merge(ledger: Ledger, name: str, other: str) -> int:
    """Take the other's history in. A fork that comes home leaves its effects to its ancestor and ends."""
    if brings_nothing(ledger, name, other):
        return ledger.threads[name].head
    source = ledger.threads[other]
    comes_home = ledger.descends(other, name)
    if comes_home and any(
        step.state == "open" and step.calls and (step.thread, step.line) == (other, source.line)
        for step in ledger.steps.values()
    ):
        raise Refused("open_step", other)
    if comes_home:
        ledger.writable(other)
    thread = ledger.writable(name)
    if comes_home or not ledger.rules.only_ancestors_inherit:
        for effect in ledger.effects.values():
            if effect.owner == other:
                effect.owner = name
    if comes_home and ledger.rules.merged_is_read_only:
        source.read_only = True
    return ledger.append(thread, source=ledger.head(other))[1]


def brings_nothing(ledger: Ledger, name: str, other: str) -> bool:
    """Whether a history holds all of the other; one that went back, or has just parted, is there."""
    ref = ledger.head(other)
    while (origin := ledger.checkpoints[ref].origin) is not None:
        ref = origin
    return ledger.holds(ledger.intervals(ledger.head(name)), ref)
