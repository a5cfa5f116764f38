"""Random programs from a list of integers, on any subject, each answer checked as soon as it is given."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from takeback.testing.effects import checks
from takeback.testing.effects.witness import Witness, need
from takeback.testing.effects.working import Working
from takeback.testing.effects.world import FATES, World

if TYPE_CHECKING:
    from takeback.testing.effects.subject import Answer, PlanSeen, Subject

MONEY, ATTEMPTS = 5, 6
"""What a family may spend where the program has a tight budget."""
AMPLE = 1_000

MOODS = (
    (20, 5, 4, 3, 3, 1, 1, 4, 2, 1, 1, 2, 1, 1, 1, 1),
    (12, 6, 3, 1, 6, 1, 2, 6, 1, 0, 1, 0, 1, 1, 1, 0),
    (16, 2, 2, 2, 3, 1, 1, 3, 1, 1, 4, 6, 0, 1, 1, 1),
    (16, 2, 4, 5, 3, 1, 1, 4, 6, 3, 0, 1, 0, 0, 0, 0),
)
"""How often each verb is used in a program: everything; going back; runs; faults and late callers.
What seldom meets by chance meets where other things are left out."""
GOING_BACK = 1

Make = Callable[[World, int, int], "Subject"]
"""Makes a subject for a world, an amount of money and a number of attempts."""


class Drive(Working):
    """One program on one subject. `answers` is what to compare with another subject's."""

    def __init__(
        self, choices: Iterable[int], make: Make, trace: Callable[[str], None] | None = None
    ) -> None:
        super().__init__()
        self._choices = iter(choices)
        self.world = World()
        self._trace = trace
        self.answers: list[tuple[str, Answer]] = []
        self.tally: Counter[str] = Counter()
        self.seen = Witness()
        self._lives: dict[str, int] = {}
        self._asleep: dict[int, str] = {}
        tight = next(iter(self._choices), 0) % 3 == 0
        self.money, self.attempts = (MONEY, ATTEMPTS) if tight else (AMPLE, AMPLE)
        self.mood = next(self._choices, 0) % len(MOODS)
        calm = ("ok",) * 20 if self.mood == GOING_BACK else ()
        fates = (*calm, *FATES)
        # A program that ends in the middle of a call ends after it: nobody dies of that.
        self.world.fate = lambda: fates[next(self._choices, 0) % len(fates)]
        self.subject = make(self.world, self.money, self.attempts)

    def pick(self, count: int) -> int:
        return next(self._choices) % count

    def said(self, verb: str, answer: Answer) -> Answer:
        """Note an answer."""
        self.answers.append((verb, answer))
        self.tally[" ".join(map(str, answer[:2])) if answer[0] == "refused" else str(answer[0])] += 1
        if self._trace is not None:
            self._trace(f"{self.world.now:3} {verb} -> {answer}")
        return answer

    # --- the program

    def run(self) -> Drive:
        """To the end of the choices; then everything must come to rest, and every undo be undone."""
        verbs = self._verbs()
        try:
            while True:
                verbs[self.pick(len(verbs))](self.pick_thread())
                self.check()
        except StopIteration:
            pass
        self.check()
        self.come_to_rest()
        return self

    def _verbs(self) -> list[Callable[[str], None]]:
        verbs = (
            self.work, self.grant, self.resolve, self.pass_time,
            self.plan, self.apply, self.undo, self.go_on,
            self.wake, self.crash, self.leave, self.begin_run,
            self.fork, self.merge, self.beside, self.change,
        )  # fmt: skip
        return [verb for verb, weight in zip(verbs, MOODS[self.mood], strict=True) for _ in range(weight)]

    def check(self) -> None:
        checks.world_agrees(self.subject, self.world)
        checks.budget_holds(self.subject, self.world, self.money, self.attempts)
        checks.approvals_hold(self.subject, self.seen, self.world, self._approvals)
        checks.histories_agree(self.subject, self.seen)
        self._approvals = self.subject.approvals()

    def pick_thread(self) -> str:
        """Half of what happens, happens on the first thread."""
        names = list(self.seen.heads)
        return names[max(0, self.pick(2 * len(names)) - len(names))]

    # --- other people

    def beside(self, thread: str) -> None:
        answer = self.said(f"commit on {thread}", self.subject.commit(thread))
        if answer[0] == "committed":
            self.seen.append(thread, answer[1])

    def grant(self, _: str) -> None:
        asked = [one.number for one in self.subject.approvals() if one.state == "requested"]
        if not asked:
            return
        number, by_asker = asked[self.pick(len(asked))], self.pick(6) == 0
        answer = self.said(f"grant {number}{' to oneself' * by_asker}", self.subject.grant(number, by_asker))
        if answer[0] == "granted":
            need(not by_asker, "approval", number, "was granted by the one who asked")
            self.seen.granted[number] = self.world.now

    def resolve(self, _: str) -> None:
        """People look at the provider's list and say what they see there."""
        open_ = [one for one in self.subject.effects() if one.state in ("unknown", "undo_unknown")]
        if open_:
            one = open_[self.pick(len(open_))]
            stands = self.world.stands([one.keys[-1]]) > 0
            happened = stands == (one.state == "unknown")
            self.said(f"resolve {one.number} {happened}", self.subject.resolve(one.number, happened))

    def pass_time(self, _: str) -> None:
        self.world.now += 1 + self.pick(3)

    def change(self, _: str) -> None:
        """The world moves: a price, or the code of a tool."""
        if self.pick(2):
            self.world.price += 1
        else:
            self.world.versions[self.one_of("order", "mail")] += 1

    def fork(self, thread: str) -> None:
        if len(self.seen.heads) > 3:
            return
        version, rights = (
            self.pick(self.seen.heads[thread] + 1),
            self.one_of("deny", "guard", "guard", "allow"),
        )
        answer = self.said(f"fork {thread} at {version} {rights}", self.subject.fork(thread, version, rights))
        self.seen.fork(thread, version, answer[1])

    def merge(self, thread: str) -> None:
        others = [name for name in self.seen.heads if name != thread]
        if others:
            other = others[self.pick(len(others))]
            answer = self.said(f"merge {other} into {thread}", self.subject.merge(thread, other))
            if answer[0] == "merged" and answer[1] > self.seen.heads[thread]:
                self.seen.merge(thread, answer[1], other)

    # --- plans

    def plan(self, thread: str) -> None:
        target = self.pick(self.seen.heads[thread] + 1)
        marks = [version for name, version in self.seen.bookmarks if name == thread]
        if marks and self.pick(3) == 0:
            target = marks[self.pick(len(marks))]
        scope = self.one_of("all", "all", "all", "all", "state", "effects")
        number = self._plan(
            thread, target, scope, shared=not self.pick(3), orphans=not self.pick(3), redo=not self.pick(2)
        )
        if self.pick(3):
            self._apply(number)

    def _plan(self, thread: str, target: int, scope: str, *, shared: bool, orphans: bool, redo: bool) -> int:
        answer = self.subject.plan(thread, target, scope=scope, shared=shared, orphans=orphans, redo=redo)
        number = int(self.said(f"plan {thread} to {target} {scope}", answer)[1])
        plan = self._seen_plan(number)
        checks.plan_is_whole(self.subject, self.seen, self.world, plan, shared=shared, orphans=orphans)
        return number

    def _seen_plan(self, number: int) -> PlanSeen:
        return next(one for one in self.subject.plans() if one.number == number)

    def apply(self, _: str) -> None:
        plans = [one.number for one in self.subject.plans() if one.state == "open"]
        if plans:
            self._apply(plans[self.pick(len(plans))])

    def _apply(self, number: int, *, surely: bool = False) -> None:
        plan = self._seen_plan(number)
        acknowledge, here = surely or self.pick(3) > 0, surely or self.pick(6) > 0
        before = self.seen.heads[plan.thread]
        answer = self.subject.apply(number, acknowledge=acknowledge, here=here)
        self.said(f"apply {number}", answer)
        if answer[0] != "refused":
            left = plan.groups["compensate"] * (plan.scope == "state") + plan.groups["stays"]
            need(acknowledge or not left, "after", "what stays was not acknowledged")
        self._ended(number, answer, before)

    def undo(self, _: str) -> None:
        """Back to where an earlier plan was applied."""
        if self.seen.bookmarks:
            thread, version = self.seen.bookmarks[self.pick(len(self.seen.bookmarks))]
            before = self.seen.heads[thread]
            answer = self.said(f"undo {thread} to {version}", self.subject.undo(thread, version))
            number = self.subject.plans()[-1].number
            if answer[0] == "applied":
                self._free_lunch(self._seen_plan(number))
            self._ended(number, answer, before)

    def _free_lunch(self, plan: PlanSeen) -> None:
        asks = [n for key in ("blocked", "decide", "compensate", "stays") for n in plan.groups[key]]
        need(not asks, "plan", "an undo took", asks, "upon itself")

    def go_on(self, _: str) -> None:
        """Somebody resumes what was interrupted or paused."""
        plans = [one.number for one in self.subject.plans() if one.state in ("applying", "paused")]
        if plans:
            number = plans[self.pick(len(plans))]
            before = self.seen.heads[self._seen_plan(number).thread]
            decision = self.one_of("retry", "accept", "abort")
            answer = self.said(f"go on {number} {decision}", self.subject.go_on(number, decision))
            self._ended(number, answer, before)

    def _ended(self, number: int, answer: Answer, before: int) -> None:
        """What follows from an answer about a plan."""
        plan = self._seen_plan(number)
        if answer[0] == "refused":
            return
        alive = [
            one.number
            for one in self.subject.approvals()
            if one.thread == plan.thread and one.state in ("requested", "granted")
        ]
        need(plan.state in ("applying", "paused") or not alive, "approval", alive, "outlive a rollback")
        if answer[0] == "aborted":
            self.seen.append(plan.thread, answer[1])
        elif answer[0] == "applied":
            self.seen.went(plan.thread, answer[1], before if plan.scope == "effects" else plan.target)
            self.seen.bookmarks.append((plan.thread, before))
            checks.plan_was_kept(self.subject, self.seen, self.world, plan)

    # --- the end

    def come_to_rest(self) -> None:
        """From any state, people and workers get every thread writable again; then every undo is an undo."""
        self.world.fate = lambda: "ok"
        self._choices = itertools.repeat(0)
        for _ in range(4):
            self.world.now += 100
            for one in self.subject.approvals():
                if one.state == "requested" and self.subject.grant(one.number, False)[0] == "granted":
                    self.seen.granted[one.number] = self.world.now
            for thread in self.seen.heads:
                self._take_over_all(thread)
            for _ in self.subject.effects():
                self.resolve("")
            for plan in self.subject.plans():
                self._settle(plan)
            self.check()
        for thread in self.seen.heads:
            self.beside(thread)
            answer = self.answers[-1][1]
            need(answer[0] == "committed", "rest", thread, "cannot be written:", answer)
        for effect in self.subject.effects():
            need(effect.state in checks.MUST_STAND, "rest", effect.number, "is still", effect.state)
        for ref in list(self.seen.bookmarks):
            self._undo_surely(*ref)

    def _settle(self, plan: PlanSeen) -> None:
        for decision in ("retry", *("accept" for _ in plan.lines), "accept"):
            if self._seen_plan(plan.number).state in ("applying", "paused"):
                before = self.seen.heads[plan.thread]
                answer = self.subject.go_on(plan.number, decision)
                self._ended(plan.number, self.said(f"go on {plan.number} {decision}", answer), before)

    def _undo_surely(self, thread: str, version: int) -> None:
        believed = self.seen.believed((thread, version))
        number = self._plan(thread, version, "all", shared=False, orphans=False, redo=False)
        self._apply(number, surely=True)
        need(self._seen_plan(number).state == "applied", "rest", "an undo could not be applied")
        need(self.subject.believed(*self.seen.head(thread)) == believed, "undo", "believes something else")
        self.check()
