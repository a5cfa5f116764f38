"""What a thread may do to the world, and what it has done: runs, rights, budgets, questions, effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from takeback.asking import Approval
from takeback.engine import approvals, standing
from takeback.engine.settling import resolve, undone_by_hand
from takeback.errors import ApprovalStale, BadRequest, NotFound, Paused
from takeback.errors.base import naming
from takeback.handle import Handle
from takeback.model import canonical
from takeback.model.ids import ThreadUid
from takeback.model.ledger import ApprovalCell, Effect
from takeback.step import Run, current

S = TypeVar("S")


class Acting(Handle[S]):
    """The verbs about effects."""

    def run(self, name: str) -> Run:
        """`with thread.run("job-7"):` a script that can be run again from its first line."""
        if not name:
            raise BadRequest("a run has a name", thread=self.name)
        return Run(self, name)

    def effects(self) -> list[Effect]:
        """The effects of this thread, and those that it believes in, oldest first."""
        return standing.effects_of(self._book(), self._need())

    def resolve(
        self,
        number: int,
        *,
        happened: bool | None = None,
        undone: bool = False,
        result: Any = None,
        actor: str | None = None,
    ) -> Effect:
        """What happened to an unknown effect, or that one was `undone` by hand: for people to say, never for
        the agent. Of an unknown undo, `happened` says whether that did. With the call's `result`, where it
        is known, the step goes on as if the call had returned it."""
        if (happened is None) == (not undone):
            raise BadRequest("say happened=True, happened=False or undone=True", thread=self.name)
        book = self._book()
        by = actor or self._ctx.actor
        with naming(self.name):
            effect = standing.numbered(book, number)
            if happened is None:
                return undone_by_hand(self._ctx, book, effect, by)
            kept = None if result is None else canonical.encode(result)
            return resolve(self._ctx, book, effect, happened=happened, by=by, result=kept)

    def effect(self, number: int) -> Effect:
        """The effect that people call by this number."""
        with naming(self.name):
            return standing.numbered(self._book(), number)

    def effect_record(self, number: int) -> dict[str, Any]:
        """All that is recorded of an effect, with its arguments and result: for `--json`."""
        effect, book = self.effect(number), self._book()
        blobs = {"args": effect.args, "result": effect.result, "before": effect.before, "after": effect.after}
        kept = {name: book.load(blob) for name, blob in blobs.items() if blob is not None}
        return effect.as_dict() | kept

    def effect_notes(self) -> dict[int, list[str]]:
        """What each version did to the world, in words: the calls of its step, and what a plan took back."""
        return standing.notes(self._book(), self._need().info.uid)

    def undo_effect(self, number: int) -> Effect:
        """Take one effect back by itself; the history that believes in it shows it as a discrepancy."""
        from takeback.calling import undo_one

        book = self._book()
        with naming(self.name):
            effect = standing.numbered(book, number)
            if effect.owner != self._need().info.uid:
                owner = self._ctx.storage.thread_by_uid(self._ctx.tenant, ThreadUid(effect.owner))
                raise BadRequest(
                    f"#{number} ({effect.shown}) belongs to {owner.name if owner else 'another thread'!r}",
                    hint="Only the thread that owns an effect takes it back",
                )
            return undo_one(book, effect)

    def approvals(self, state: str | None = "requested") -> list[Approval]:
        """What waits for a person's decision; with another `state`, or None for all, what did."""
        book = self._book()
        found = [Approval(self._ctx, book, each) for each in book.approvals.values()]
        return [each for each in sorted(found, key=lambda a: a.number) if state in (None, each.state)]

    def approval(self, number: int) -> Approval:
        """The request that people call by this number."""
        found = next((each for each in self.approvals(None) if each.number == number), None)
        if found is None:
            raise NotFound(
                f"there is no request #{number}", thread=self.name, hint="`takeback approvals list`"
            )
        return found

    @property
    def autopilot(self) -> bool:
        """Whether calls that cannot be undone wait for a person's approval; kept with the thread."""
        said = self._book().threads.get(self._need().info.uid)
        return said is not None and said.autopilot

    def set_autopilot(self, on: bool = True) -> None:
        """Refuse from now on what cannot be undone, until it is approved; or no longer."""
        standing.say(self._book(), self._need(), autopilot=on)

    def budget(self, limits: Mapping[str, int] | None = None) -> dict[str, tuple[int, int]]:
        """Limits for the thread and its forks, by name: `{"money": 10_000, "attempts": 50}` sets some. What
        is spent, and the limit, by name."""
        book = self._book()
        standing.limit(book, self._need(), limits or {})
        return standing.budgets(book)

    def pause(self, question: str, options: Mapping[str, Any] | None = None) -> Any:
        """Ask a person: the answer, once there is one; until then `Paused`, across restarts."""
        step = current()
        if step is None or not step.thread.is_same(self):
            raise BadRequest("a question is asked inside a step", thread=self.name)
        asked = standing.ask(step._recorder(), question, dict(options or {}))
        if asked.state != "granted" or asked.answer is None:
            raise Paused(
                f"{question} (question #{asked.number} waits for an answer)",
                thread=self.name,
                hint="thread.resume(answer), then enter the step again",
            )
        return canonical.decode(asked.answer)

    def resume(self, answer: Any, *, number: int | None = None, actor: str | None = None) -> ApprovalCell:
        """Answer the question that waits: the oldest, or the one of this number. Not as the one who asked."""
        book = self._book()
        open_questions = [
            each
            for each in sorted(book.approvals.values(), key=lambda each: each.number)
            if each.thread == self._need().info.uid and not each.tool and each.state == "requested"
        ]
        found = [each for each in open_questions if number in (None, each.number)]
        if not found:
            raise ApprovalStale("no such question waits for an answer", thread=self.name)
        by = actor or self._ctx.actor
        with naming(self.name):
            return approvals.answer(self._ctx, book, found[0], canonical.encode(answer), by)
