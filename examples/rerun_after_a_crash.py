"""An agent that is killed while it pays, and is run again from its first line: the bank is paid once.

The bank honours idempotency keys, as most do. The agent dies at the worst moment: the bank has paid, and the
answer is lost. Nothing in `agent` knows of that: it is an ordinary script inside `thread.run(…)`.
"""

import json
import os
import pathlib
import subprocess
import sys

import takeback

BANK = pathlib.Path("bank.json")  # key → payment: it stands for a server elsewhere


def bank() -> dict[str, str]:
    found: dict[str, str] = json.loads(BANK.read_text()) if BANK.exists() else {}
    return found


def refund(to: str, cents: int) -> None:
    """Called with those of the call's arguments that it names; repeated with the same key after a crash."""
    BANK.write_text(json.dumps(bank() | {takeback.effect_key(): f"{to} gave {cents} back"}))


@takeback.tool("idempotent", undo=refund, target="{to}", describe="{cents:money} to {to}")
def pay(to: str, cents: int) -> str:
    payments = bank()
    first_time = takeback.effect_key() not in payments
    payments.setdefault(takeback.effect_key(), f"{to} got {cents}")
    BANK.write_text(json.dumps(payments))
    if first_time and os.environ.get("AGENT_DIES"):
        os._exit(9)  # as `kill -9` would: no exception, no goodbye
    return payments[takeback.effect_key()]


def agent() -> None:
    with takeback.open("agent.db", actor="travel-agent") as tb:
        trip = tb.thread("travel/42", agent="travel-agent", initial={"plan": None, "paid": None})
        with trip.run("job-7"):
            with trip.step("plan", reason="the user asked") as step:
                step.state["plan"] = ["NYC", "Hudson Inn"]
            with trip.step("pay", reason="book it") as step:
                step.state["paid"] = pay("Hudson Inn", 69_000)


def person() -> None:
    with takeback.open("agent.db", actor="ada") as tb:
        trip = tb.thread("travel/42")
        plan = trip.plan_rollback(1)
        print(plan)
        plan.apply(reason="another hotel")


def main() -> None:
    killed = subprocess.run([sys.executable, __file__], env=os.environ | {"AGENT_DIES": "1"}, check=False)
    print(f"the agent was killed ({killed.returncode}); the bank says {list(bank().values())}")
    with takeback.open("agent.db") as tb:
        print(f"the store says {tb.recover(settle=False).effects}")

    agent()  # the same script, from its first line
    assert list(bank().values()) == ["Hudson Inn got 69000"], "paid once"
    agent()  # and once more: all of it is recorded, so nothing is called
    assert len(bank()) == 1

    person()
    assert list(bank().values()) == ["Hudson Inn got 69000", "Hudson Inn gave 69000 back"]


if __name__ == "__main__":
    if os.environ.get("AGENT_DIES"):
        agent()
    else:
        main()
