"""Three attempts from one version, each in a fork of its own; the best one is merged."""

from concurrent.futures import ThreadPoolExecutor

import takeback
from takeback import Thread

with takeback.open("attempts.db") as tb:
    plan = tb.thread("essay", initial={"draft": "", "log": ["outline agreed"]})

    def attempt(style: str) -> tuple[int, "Thread[dict[str, object]]"]:
        """A stand-in for an agent: writes in a fork, so that the others see nothing of it."""
        fork = plan.fork(name=f"essay-{style}")
        with fork.step("write", reason=f"try it {style}") as step:
            step.state["draft"] = f"a {style} draft"
        fork.append("log", f"wrote a {style} draft")
        return len(style), fork

    with ThreadPoolExecutor() as pool:
        scored = list(pool.map(attempt, ["terse", "flowery", "plain"]))

    _, best = max(scored, key=lambda pair: pair[0])
    print(plan.plan_merge(best))
    plan.merge(best, reason="the longest wins")
    assert plan.state["draft"] == "a flowery draft"
    assert plan.verify().ok
    print([info.name for info in tb.threads()])
