"""Workers on several machines: a lease decides who owns a step; whoever lost it writes nothing any more."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import takeback
from takeback.engine import owners
from takeback.errors import EffectUnknown, StepInProgress, TakebackError
from takeback.testing.faults import Child, Running
from takeback.testing.postgres import fresh_url

MINUTES = 60_000_000_000


def paying(path: Path) -> takeback.Tool[..., str]:
    """A tool that notes each call in a file, and stops its process in the middle of one."""

    def refund(name: str) -> None:
        with path.open("a") as file:
            file.write(f"refund {name}\n")

    @takeback.tool(undo=refund)
    def pay(name: str, stops: bool = False) -> str:
        with path.open("a") as file:
            file.write(f"pay {name}\n")
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        return name

    return pay


def test_an_owner_on_another_machine_that_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as its lease runs it is waited for, since nobody here can see whether it lives. Then another
    goes on: the payment is unknown, never made again; and the owner that wakes is told that it lost."""
    url, log = fresh_url(), tmp_path / "log"
    with takeback.open(url) as repo:
        repo.thread("t", initial={"n": 0})

    def there(child: Child) -> None:
        owners._host.cache_clear()
        owners._named.cache_clear()
        owners._host = lambda: "another-machine/1"  # type: ignore[assignment] # as if it ran there
        with takeback.open(url) as repo:
            try:
                with repo.thread("t").step("pay") as step:
                    paying(log)("ada", stops=True)
                    step.state["n"] = 1
            except TakebackError as error:
                child.say(error.kind)
            else:
                child.say("closed")

    stopped = Running(there)
    assert os.WIFSTOPPED(os.waitpid(stopped.pid, os.WUNTRACED)[1])
    pay = paying(log)
    with takeback.open(url) as repo, pytest.raises(StepInProgress, match="another-machine"):
        repo.thread("t").step("pay").__enter__()
    with takeback.open(url, clock=lambda: time.time_ns() // 1000 + 10 * MINUTES // 1000) as later:
        thread = later.thread("t")
        with pytest.raises(EffectUnknown), thread.step("pay"):
            pay("ada", stops=True)
        assert [effect.state for effect in thread.effects()] == ["unknown"]
        stopped.signal(signal.SIGCONT)
        assert stopped.wait().said == ["step_lost"]
        assert thread.refresh().version == 0
        assert log.read_text() == "pay ada\n"
