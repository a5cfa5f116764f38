"""What workers do in a random program: entering, calling, closing, dying, sleeping, waking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from takeback.testing.effects import checks
from takeback.testing.effects.tools import TIMEOUT, TOOLS
from takeback.testing.effects.witness import Hand, Opened, Witness, need

if TYPE_CHECKING:
    from takeback.testing.effects.subject import Answer, ApprovalSeen, Subject
    from takeback.testing.effects.world import World


class Working(ABC):
    """The half of a driver that plays the workers. Two at a time for each thread, each with many lives."""

    subject: Subject
    world: World
    seen: Witness
    _lives: dict[str, int]
    _asleep: dict[int, str]
    money: int
    attempts: int

    def __init__(self) -> None:
        self._approvals: list[ApprovalSeen] = []

    @abstractmethod
    def pick(self, count: int) -> int:
        """The next choice of the program, below `count`."""

    def one_of(self, *options: str) -> str:
        return options[self.pick(len(options))]

    @abstractmethod
    def check(self) -> None:
        """All that must hold after each verb."""

    @abstractmethod
    def said(self, verb: str, answer: Answer) -> Answer:
        """Note an answer."""

    # --- workers

    def worker(self, thread: str, slot: int) -> str:
        """The one that is alive."""
        place = f"{thread}/{slot}"
        name = f"{place}.{self._lives.setdefault(place, 0)}"
        self.seen.hands.setdefault(name, Hand(thread))
        return name

    def bury(self, worker: str) -> None:
        """It is dead or asleep; another takes its place."""
        place = worker.rpartition(".")[0]
        if self.worker(*_parts(place)) == worker:
            self._lives[place] += 1

    def pick_worker(self, thread: str) -> str:
        return self.worker(thread, int(self.pick(4) == 0))

    # --- verbs

    def work(self, thread: str) -> None:
        """Whatever a worker does next: go into a step, call, or close."""
        slot = int(self.pick(4) == 0)
        for _ in range(1 + self.pick(4)):
            worker = self.worker(thread, slot)
            hand = self.seen.hands[worker]
            if hand.opened is None and not hand.replays:
                self._enter(worker, thread)
            elif self.pick(5) == 0:
                self._close(worker)
            else:
                self._call(worker)
            self.check()

    def _enter(self, worker: str, thread: str) -> None:
        label, take_over = self.one_of("a", "b"), self.pick(3) == 0
        answer = self.subject.enter(worker, thread, label, take_over)
        self.said(f"{worker} enters {label}{' by force' * take_over}", answer)
        if answer[0] != "refused":
            self._entered(worker, thread, label, answer, take_over)

    def _entered(self, worker: str, thread: str, label: str, answer: Answer, take_over: bool) -> None:
        self.seen.entered(worker, thread, label, answer[0], now=self.world.now, take_over=take_over)
        step = self.seen.hands[worker].opened
        flying = [
            one.number
            for one in self.subject.effects()
            if one.state == "begun" and step and one.number in step.made
        ]
        need(not flying, "lease", flying, "are still in flight for the one who was replaced")

    def _call(self, worker: str) -> None:
        hand = self.seen.hands[worker]
        tool, args = self._pick_call(hand)
        choice = self.one_of("reuse", "undo", "beside", "stop")
        before = {one.number: one.state for one in self.subject.effects()}
        stands: list[int] = []
        if hand.opened is not None:
            stands = checks.unknown_to(self.subject, self.seen, self.world, hand.opened, TOOLS[tool].target)
        answer = self.subject.call(worker, tool, args, choice)
        self.said(f"{worker} calls {tool} {args} ({choice})", answer)
        self._undone_first(worker, before)
        if answer[0] == "refused":
            self._refused_call(worker, tool, args, answer)
            return
        new = [one for one in self.subject.effects() if one.number not in before]
        if answer[0] == "free":
            return
        if hand.replays:
            self._replayed(worker, answer, bool(new))
            return
        step = self.seen.rightful(worker)
        if answer[0] in ("called", "retried", "died", "stopped"):
            step.lease = max(step.lease, self.world.now + TIMEOUT)
        for one in new:
            rights = next(t.rights for t in self.subject.threads() if t.name == hand.thread)
            acts = rights != "deny" and hand.thread not in self.seen.read_only
            need(acts, "rights", "a fork without a right to effects made", one.number)
            free = one.decided or rights == "allow"
            need(free or not stands, "guard", one.number, "begins while", stands, "stands, undecided")
            self._approved(step, one.number, tool, args)
            step.made = [*step.made, one.number]
        if answer[0] in ("called", "retried", "recorded", "reused") or answer[2:] == ("call",):
            step.claims = {**step.claims, answer[1]: step.attempt}
        if answer[0] == "reused":
            self._reused(answer[1], tool, args, choice)
        self._gone(worker, answer)

    def _pick_call(self, hand: Hand) -> tuple[str, str]:
        """Often what this step, or a recorded one, has called before; or what has just been approved."""
        known = [(one.tool, one.args) for one in self.subject.effects() if self._made_here(hand, one.number)]
        if known and self.pick(3) == 0:
            return known[self.pick(len(known))]
        approved = [one.tool for one in self.subject.approvals() if one.state == "granted"]
        tool = self.one_of("pay", "pay", "keyed", "keyed", "once", "mail", "order", "look", *approved)
        return tool, self.one_of("x", "x", "y")

    def _made_here(self, hand: Hand, number: int) -> bool:
        return bool(hand.replays) or (hand.opened is not None and number in hand.opened.made)

    def _refused_call(self, worker: str, tool: str, args: str, answer: Answer) -> None:
        hand = self.seen.hands[worker]
        if answer[1] == "step_lost":
            self.seen.ends(worker)
            self.seen.hands[worker] = Hand(hand.thread)
        if answer[1] == "not_undone":
            self.seen.rightful(worker)
        if answer[1] == "budget_exceeded":
            checks.budget_refuses(self.subject, answer[2], TOOLS[tool].cost(args), self.money, self.attempts)
        if answer[1] == "effect_stands" and hand.opened is not None:
            may = checks.may_stand(self.subject, self.seen, hand.opened, TOOLS[tool].target)
            need(sorted(answer[2:]) == may, "guard", "asks about", answer[2:], "where there is", may)
        if answer[1] == "approval_required" and hand.opened is not None:
            asked = self._for(self.seen.rightful(worker), tool, args)
            if not self.seen.asked.get(answer[2]):
                self.seen.asked[answer[2]] = asked

    def _for(self, step: Opened, tool: str, args: str) -> tuple[object, ...]:
        """What an approval of the next such call is bound to."""
        made = {one.number: (one.tool, one.args) for one in self.subject.effects()}
        occurrence = sum(made[number] == (tool, args) for number in step.made)
        return (step.serial, tool, args, occurrence, self.world.versions[tool])

    def _approved(self, step: Opened, effect: int, tool: str, args: str) -> None:
        """The approval that a call used was asked for at this very step, for this call of this tool."""
        for one in self.subject.approvals():
            if one.used_by == effect:
                asked, wanted = self.seen.asked.get(one.number), self._for(step, tool, args)
                need(asked == wanted, "approval", one.number, "was for", asked, "and is used for", wanted)

    def _replayed(self, worker: str, answer: Answer, new: bool) -> None:
        """A recorded step gives what is recorded, of what the head believes; it never calls."""
        hand = self.seen.hands[worker]
        need(hand.line == self.seen.lines[hand.thread], "run", worker, "replays what was left behind")
        need(answer[0] == "replayed" and not new, "run", worker, "called inside a recorded step:", answer)
        effect = next(one for one in self.subject.effects() if one.number == answer[1])
        believed = self.seen.believed(self.seen.head(self.seen.hands[worker].thread))
        held = effect.state == "failed" or effect.number in believed
        need(held, "run", effect.number, "is replayed and not part of this history")

    def _undone_first(self, worker: str, before: dict[int, str]) -> None:
        """What a call has taken back, whatever became of that."""
        for one in self.subject.effects():
            was = before.get(one.number, one.state)
            if one.state != was and one.state in ("undoing", "undone", "undo_failed", "undo_unknown"):
                checks.undone_by_its_owner(
                    self.subject, self.seen, one.number, self.seen.hands[worker].thread
                )
                step = self.seen.rightful(worker)
                step.lease = max(step.lease, self.world.now + TIMEOUT)

    def _reused(self, number: int, tool: str, args: str, choice: str) -> None:
        effect = next(one for one in self.subject.effects() if one.number == number)
        fits = effect.tool == tool and (effect.args == args or choice == "reuse")
        need(fits and self.world.stands(list(effect.keys)) == 1, "guard", number, "is reused for", tool, args)

    def _gone(self, worker: str, answer: Answer) -> None:
        """Whoever died is replaced; whoever stopped is too, and may come back."""
        if answer[0] == "stopped":
            self._asleep[self.subject.hanging()[-1]] = worker
        if answer[0] in ("died", "stopped"):
            self.bury(worker)

    def _close(self, worker: str) -> None:
        hand = self.seen.hands[worker]
        answer = self.said(f"{worker} closes", self.subject.close(worker))
        if answer[0] == "replayed":
            need(bool(hand.replays), "run", worker, "closed a step as if it were recorded")
            need(hand.line == self.seen.lines[hand.thread], "run", worker, "replayed what was left behind")
            hand.positions = {**hand.positions, hand.replays: hand.positions.get(hand.replays, 0) + 1}
            hand.replays = ""
        elif answer[0] == "closed":
            need(not hand.replays, "run", worker, "made a checkpoint of a replay")
            if self.seen.was_a_commit(worker, answer[1]):
                return
            states = {one.number: one.state for one in self.subject.effects()}
            self.seen.closes(worker, answer[1], states)
        elif answer[1] == "step_lost":
            self.seen.ends(worker)
            self.seen.hands[worker] = Hand(hand.thread)
        elif answer[0] == "refused":
            self.seen.ends(worker)

    def leave(self, thread: str) -> None:
        """The body of a step raises."""
        worker = self.pick_worker(thread)
        hand = self.seen.hands[worker]
        if hand.opened is None and not hand.replays:
            return
        answer = self.said(f"{worker} leaves", self.subject.leave(worker))
        if answer[0] == "refused":
            if answer[1] == "step_lost":
                self.seen.ends(worker)
                self.seen.hands[worker] = Hand(hand.thread)
            return
        if not hand.replays and answer[0] == "open":
            step = self.seen.rightful(worker)
            step.owner = ""
        hand.opened, hand.replays = None, ""

    def begin_run(self, thread: str) -> None:
        """A script starts from its first line, or a worker goes on outside any run."""
        worker = self.pick_worker(thread)
        self._drop(worker)
        worker = self.pick_worker(thread)
        run = self.one_of("r", "r", "r", "")
        self.said(f"{worker} runs {run!r}", self.subject.start_run(worker, thread, run))
        self.seen.ends(worker)
        self.seen.hands[worker] = Hand(thread, run)

    def crash(self, thread: str) -> None:
        self._drop(self.pick_worker(thread))

    def _drop(self, worker: str) -> None:
        self.said(f"{worker} dies", self.subject.crash(worker))
        self.bury(worker)

    def wake(self, _: str) -> None:
        """A caller that was stopped goes on, and then with its step, as if it were still its own."""
        hanging = self.subject.hanging()
        if not hanging:
            return
        number = hanging[self.pick(len(hanging))]
        answer = self.said(f"call {number} goes on", self.subject.wake(number))
        self._heard(answer)
        worker = self._asleep.pop(number, None)
        if worker is not None:
            after = self.pick(3)
            if after == 0:
                self._call(worker)
            elif after == 1:
                self._close(worker)
            # Whatever became of that: it is not the one that works here now.
            if worker not in self._asleep.values():
                self.subject.crash(worker)

    def _heard(self, answer: Answer) -> None:
        """A late outcome is evidence: whoever brings it, the effect is not unknown any more."""
        one = next(one for one in self.subject.effects() if one.number == answer[1])
        key, back = self.world.woken
        if answer[2] != "gave up" and one.keys[-1] == key:
            open_ = ("undoing", "undo_unknown") if back else ("begun", "unknown")
            need(one.state not in open_, "evidence", one.number, "is", one.state, "after its outcome")

    def _take_over_all(self, thread: str) -> None:
        """Somebody goes into every step that is open, so that nothing in it is in flight any more."""
        for place in [place for place in self.seen.open if place[0] == thread]:
            worker = self.worker(thread, 0)
            self._drop(worker)
            worker = self.worker(thread, 0)
            self.subject.start_run(worker, thread, place[2])
            self.seen.hands[worker] = Hand(thread, place[2])
            answer: Answer = ("replays",)
            while answer[0] == "replays":  # through what is recorded, as the script would
                answer = self.subject.enter(worker, thread, place[3], True)
                self.said(f"{worker} takes over {place}", answer)
                if answer[0] != "refused":
                    self._entered(worker, thread, place[3], answer, True)
                if answer[0] == "replays":
                    self._close(worker)


def _parts(place: str) -> tuple[str, int]:
    thread, _, slot = place.rpartition("/")
    return thread, int(slot)
