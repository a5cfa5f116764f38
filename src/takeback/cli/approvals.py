"""The commands for people who are asked: approvals of one exact call, and questions of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from takeback.cli.parser import Commands, add_number, completes

if TYPE_CHECKING:
    from takeback import Approval
    from takeback.cli.session import Session

_WAITS = "Numbers are of a thread and its forks; a number that only one thread has needs no --thread. "


def add(to: Commands) -> None:
    family = to.family("approvals", "What waits for a person's yes, no, or answer")
    listed = family.add(
        "list",
        list_approvals,
        "world",
        "List what waits for a person",
        more="Of the whole store, or of one thread if it is named. The facts are those that a yes rests on: "
        "where they are others when the call is made, it is void.",
        example="takeback approvals list",
    )
    listed.add_argument("--all", action="store_true", help="also what was decided, used or void")
    grant = family.add(
        "grant",
        grant_request,
        "world",
        "Say yes to one exact call",
        more=_WAITS + "Who asked is refused. Where the agent's store is opened with approvers, the grant "
        "has to be signed; with their public keys in TAKEBACK_APPROVERS, the signature is checked here "
        "too.",
        example="takeback approvals grant 3 --private-key ada.key",
    )
    add_number(grant, "the number of the request")
    key = grant.add_argument("--private-key", metavar="FILE", help="the key to sign with, from keygen")
    completes(key, "file")
    deny = family.add(
        "deny",
        deny_request,
        "world",
        "Say no to one exact call",
        more=_WAITS + "The agent is told, with the reason.",
        example="takeback approvals deny 3 -m 'ask the hotel first'",
    )
    add_number(deny, "the number of the request")
    deny.add_argument("-m", "--reason", metavar="TEXT", help="why; the agent is told")
    answer = family.add(
        "answer",
        answer_question,
        "world",
        "Answer a question of the agent",
        more=_WAITS + "The answer is text, or with --as-json any value. It is kept until the step that "
        "asked is entered again, across restarts.",
        example="takeback approvals answer 4 'the aisle, please'",
    )
    add_number(answer, "the number of the question")
    completes(answer.add_argument("answer", metavar="ANSWER", help="the answer"), "none")
    answer.add_argument("--as-json", action="store_true", help="the answer is JSON, not text")


def list_approvals(session: Session) -> int:
    from takeback.errors import BadRequest

    out = session.out
    if session.args.all and not session.named:
        raise BadRequest("--all lists what was decided on one thread", hint="Name it: --thread")
    found = _all(session) if session.args.all else _waiting(session)
    if out.json:
        out.document({"approvals": [approval.as_dict() for approval in found]})
    elif not found:
        out.line("nobody waits for an answer")
    else:
        for approval in found:
            _show(session, approval)
    return 0


def grant_request(session: Session) -> int:
    from takeback.cli.values import private_key

    file = session.args.private_key
    key = private_key(file) if file else None
    return _decided(session, _found(session, question=False).grant(private_key=key))


def deny_request(session: Session) -> int:
    return _decided(session, _found(session, question=False).deny(session.args.reason))


def answer_question(session: Session) -> int:
    from takeback.cli.values import from_json
    from takeback.errors import BadRequest

    answer: Any = session.args.answer
    if session.args.as_json:
        try:
            answer = from_json(answer)
        except ValueError as error:
            raise BadRequest(f"{answer!r} is no JSON: {error}", hint="Leave --as-json out for text") from None
    asked = _found(session, question=True)
    session.repo().thread(asked.thread).resume(answer, number=asked.number)
    return _decided(session, asked.refresh())


def _found(session: Session, *, question: bool) -> Approval:
    """The request of this number: on the thread that was named, or the only one where it waits."""
    from takeback.errors import BadRequest

    number = session.args.number
    waiting = [each for each in _waiting(session) if each.number == number]
    if len(waiting) > 1:
        threads = ", ".join(repr(each.thread) for each in waiting)
        raise BadRequest(f"#{number} waits on more than one thread: {threads}", hint="Name one: --thread")
    found = waiting[0] if waiting else session.thread().approval(number)
    if found.is_question != question:
        raise BadRequest(
            f"#{number} is a question" if found.is_question else f"#{number} asks for a yes or a no",
            thread=found.thread,
            hint=f"`takeback approvals answer {number} TEXT`"
            if found.is_question
            else f"`takeback approvals grant {number}`, or deny",
        )
    return found


def _waiting(session: Session) -> list[Approval]:
    found = session.repo().approvals()
    return [each for each in found if each.thread == session.named] if session.named else found


def _all(session: Session) -> list[Approval]:
    thread = session.thread()
    return [each for each in thread.approvals(None) if each.thread == thread.name]


def _show(session: Session, approval: Approval) -> None:
    from takeback.cli.output import dumps

    out, said = session.out, approval.as_dict()
    kind = "question" if approval.is_question else said["why"]
    out.line((f"#{approval.number} ", "bold"), approval.shown, "  ", (approval.state, "yellow"))
    out.line("    ", f"{approval.thread} · {kind} · asked by {said['asked_by'] or 'nobody named'}")
    if approval.facts:
        facts = ", ".join(f"{name} = {dumps(value, indent=None)}" for name, value in approval.facts.items())
        out.line("    ", (facts, "cyan"))
    if approval.state == "requested":
        verb = "answer" if approval.is_question else "grant"
        more = ["TEXT"] if approval.is_question else []
        typed = session.again("approvals", verb, str(approval.number), *more, thread=approval.thread)
        out.line("    ", (typed, "dim"))


def _decided(session: Session, approval: Approval) -> int:
    if session.out.json:
        session.out.document({"approval": approval.as_dict()})
        return 0
    state = "answered" if approval.is_question else approval.state
    session.out.line((f"#{approval.number} ", "bold"), approval.shown, " is ", (state, "bold green"))
    if state != "denied":
        session.out.line(("the agent goes on when it enters the step again", "dim"))
    return 0
