"""Files in a plan: what it would do to directories here, and recording the present before it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine import rollback
from takeback.engine.commit import Draft, Said, publish
from takeback.engine.file_words import FilesPart
from takeback.engine.files import Wanted, plan_files
from takeback.engine.retention import named
from takeback.errors import PlanStale
from takeback.model.records import FileRoot

if TYPE_CHECKING:
    from takeback.attached import Seen
    from takeback.engine.applying import Job
    from takeback.engine.rollback import Move
    from takeback.going_back import GoingBack


def part_of(thread: GoingBack[Any], move: Move, wanted: Wanted, *, own: bool) -> list[FilesPart]:
    """What a move does to files, as they are on the disk now; nothing is recorded."""
    ctx, tip = thread._ctx, thread._need()
    attached = thread._attached()
    if not attached.cells():
        return []
    with attached.seen(tip, store=False) as seen:
        present = _present(tip.head.files, seen)
        planned, notes = [], []
        for name in attached.here():
            root = present.get(name)
            if root is None:
                continue
            with named(ctx, move.target):
                found = plan_files(
                    ctx, tip, move.target, name, root.manifest, seen.objects, wanted, dirty_is_own=own
                )
            if found is None:
                notes.append(f"{name!r} was attached later: its files stay")
            else:
                planned.append(found)
        notes += [
            f"the files of {name!r} lie on {host}, and stay" for name, host in attached.elsewhere().items()
        ]
        return [FilesPart(ctx, planned, present, notes, seen.objects)]


def with_files(thread: GoingBack[Any], job: Job, part: FilesPart) -> Job:
    """The job with its files. What is on the disk now, and in no version yet, becomes one first: so that
    nothing is lost, and undoing this brings it back."""
    if job.tip.head.digest != job.move.head.digest:
        raise rollback.stale(job.tip, job.move)
    with thread._attached().seen(job.tip) as seen:
        _refuse_other(thread, part, _present(job.tip.head.files, seen))
        tip = job.tip
        if seen.changed:
            said = Said(reason=f"before the {job.move.kind}", actor=job.said.actor)
            tip = thread._tip = publish(
                job.ctx, tip, seen.on(tip, Draft("capture", tip.head.state_root, said))
            )
        seen.settle()
    files = {root.workspace: root for root in tip.head.files}
    moves, contents = [], dict[bytes, bytes]()
    for each in part.filings:
        start = files[each.name]
        if each.result != each.present:
            moves.append(start)
            contents |= each.objects
            files[each.name] = FileRoot(each.name, each.result, start.tier)
    move = rollback.onto(job.move, tip, [files[name] for name in sorted(files)])
    return msgspec.structs.replace(job, tip=tip, move=move, moves=moves, contents=contents)


def _present(files: list[FileRoot], seen: Seen) -> dict[str, FileRoot]:
    return {root.workspace: root for root in files} | seen.roots


def _refuse_other(thread: GoingBack[Any], part: FilesPart, now: dict[str, FileRoot]) -> None:
    for planned in part.filings:
        found = now.get(planned.name)
        if found is None or found.manifest != planned.present:
            raise PlanStale(
                f"files of {planned.name!r} have changed since the plan was made",
                thread=thread.name,
                hint="Make a new plan, and look at it",
            )
