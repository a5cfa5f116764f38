"""The fake provider: it counts what really happened, fails as it is told, and outlives its clients."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from takeback.testing.faults import Child, Running
from takeback.testing.provider import SERVER, WAYS, Client, NoAnswer, Provider, Refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def books(tmp_path: Path) -> Path:
    return tmp_path / "provider.db"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """One for many tests, which use keys of their own: starting a process takes longer than a test."""
    with Provider(tmp_path_factory.mktemp("shop") / "provider.db") as provider:
        yield provider


# --- what it does


def test_a_charge_is_counted_and_has_a_receipt(running: Provider) -> None:
    before, stood = running.executed(), running.stands()
    receipt = running.charge("charge 1", "ann", 4200)
    assert receipt.startswith("charge-")
    assert running.find("charge 1") == receipt
    assert running.executed("charge 1") == 1
    assert running.executed() == before + 1
    assert running.stands() == stood + 4200


def test_a_refund_gives_back_what_was_charged(running: Provider) -> None:
    stood = running.stands()
    receipt = running.charge("charge 2", "ann", 100)
    running.refund("refund 2", receipt)
    assert running.stands() == stood
    assert (running.executed("charge 2"), running.undone("charge 2")) == (1, 1)
    assert running.executed("refund 2") == 0


def test_a_refund_of_nothing_is_refused(running: Provider) -> None:
    before = running.undone()
    with pytest.raises(Refused, match="nothing was charged under receipt 'charge-none'"):
        running.refund("refund none", "charge-none")
    assert running.undone() == before


def test_messages_and_settings(running: Provider) -> None:
    running.send("message 1", "ann@example.org", "hello")
    assert running.get("colour") is None
    running.put("setting 1", "colour", "blue")
    running.put("setting 2", "colour", "red")
    assert running.get("colour") == "red"
    deed = next(deed for deed in running.deeds() if deed["key"] == "message 1")
    assert deed["verb"] == "send"
    assert deed["asked"] == {"to": "ann@example.org", "text": "hello"}
    assert running.find("nobody used this") is None


def test_what_it_does_not_know_is_refused(running: Provider) -> None:
    with pytest.raises(Refused, match="no 'dance' here"):
        running._ask("dance")


# --- keys


def test_a_key_that_is_honoured_is_done_once(running: Provider) -> None:
    first = running.charge("key 1", "ann", 5)
    assert running.charge("key 1", "ann", 5) == first
    assert running.executed("key 1") == 1
    assert "key 1" not in running.twice()
    receipt = running.refund("undo key 1", first)
    assert running.refund("undo key 1", first) == receipt
    assert running.undone("key 1") == 1


def test_a_key_for_something_else_is_refused(running: Provider) -> None:
    """An answer to another question would be taken for a success of this one."""
    running.charge("key 2", "ann", 5)
    with pytest.raises(Refused, match="was used for something else: charge"):
        running.charge("key 2", "ann", 6)
    with pytest.raises(Refused, match="was used for something else: charge"):
        running.send("key 2", "ann", "5")
    assert running.executed("key 2") == 1


def test_without_honouring_keys_it_does_everything_and_counts(books: Path) -> None:
    with Provider(books, honours_keys=False) as provider:
        receipt = provider.charge("key", "ann", 5)
        assert provider.charge("key", "ann", 5) != receipt
        assert (provider.executed("key"), provider.stands()) == (2, 10)
        assert provider.twice() == ["key"]


def test_two_refunds_of_one_charge_are_noticed_under_whatever_keys(running: Provider) -> None:
    stood = running.stands()
    receipt = running.charge("key 3", "ann", 5)
    running.refund("undo 3", receipt)
    running.refund("undo 3 again", receipt)
    assert running.undone("key 3") == 2
    assert "key 3" in running.twice()
    assert running.stands() == stood - 5


def test_a_key_is_forgotten_after_its_time(books: Path) -> None:
    with Provider(books, key_memory=3600) as provider:
        first = provider.charge("key", "ann", 5)
        provider.advance(1800)
        assert provider.charge("key", "ann", 5) == first
        provider.advance(1801)
        assert provider.charge("key", "ann", 5) != first
        assert provider.twice() == ["key"]


def test_many_at_once_with_one_key_are_one(running: Provider) -> None:
    with ThreadPoolExecutor(8) as pool:
        receipts = {
            one.result() for one in [pool.submit(running.charge, "key 4", "ann", 5) for _ in range(24)]
        }
    assert len(receipts) == 1
    assert running.executed("key 4") == 1


def test_many_at_once_are_all_counted(running: Provider) -> None:
    before = running.executed()
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(running.charge, f"many {n}", "ann", 1) for n in range(40)]
        assert len({call.result() for call in calls}) == 40
    assert running.executed() == before + 40


# --- how its calls fail


def test_a_refusal_does_nothing(running: Provider) -> None:
    running.arm("charge", "refuse")
    with pytest.raises(Refused, match="charge was refused"):
        running.charge("refused", "ann", 5)
    assert running.executed("refused") == 0
    running.charge("refused", "ann", 5)
    assert running.executed("refused") == 1


def test_an_answer_that_is_dropped_was_done(running: Provider) -> None:
    running.arm("charge", "drop")
    with pytest.raises(NoAnswer):
        running.charge("dropped", "ann", 5)
    assert running.executed("dropped") == 1
    assert running.charge("dropped", "ann", 5) == running.find("dropped")


def test_what_is_armed_is_used_in_order_and_for_its_verb_alone(running: Provider) -> None:
    running.arm("send", "refuse", "ok", "refuse")
    running.charge("in order", "ann", 5)
    outcomes = []
    for number in range(4):
        try:
            running.send(f"in order {number}", "ann", "hello")
            outcomes.append("ok")
        except Refused:
            outcomes.append("refused")
    assert outcomes == ["refused", "ok", "refused", "ok"]


def test_a_way_that_does_not_exist_is_refused_at_once(running: Provider) -> None:
    with pytest.raises(ValueError, match="explode"):
        running.arm("charge", "ok", "explode")
    running.charge("nothing was armed", "ann", 5)


@pytest.mark.parametrize(("way", "done_meanwhile"), [("hang before", 0), ("hang after", 1)])
def test_a_call_that_hangs_goes_on_when_it_is_released(
    running: Provider, way: str, done_meanwhile: int
) -> None:
    key = f"hangs {way}"
    running.arm("charge", way)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(running.charge, key, "ann", 5)
        running.hanging(1)
        assert running.executed(key) == done_meanwhile
        assert not call.done()
        running.release()
        assert call.result() == running.find(key)
    assert running.executed(key) == 1


def test_a_client_that_waits_no_longer_has_no_answer_and_is_counted(running: Provider) -> None:
    running.arm("charge", "hang before")
    with pytest.raises(NoAnswer):
        running.client(timeout=0.05).charge("impatient", "ann", 5)
    running.hanging(1)
    assert running.executed("impatient") == 0
    running.arm("send", "hang after")
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(running.send, "another hangs", "ann", "hello")
        running.hanging(2)
        running.release()
        sent.result()
    # The call of who had gone is on its way still, or over: the same key says which, and is done once.
    running.charge("impatient", "ann", 5)
    assert running.executed("impatient") == 1


@pytest.mark.parametrize(("way", "done"), [("die before", 0), ("die after", 1)])
def test_a_provider_that_dies_knows_what_it_did(books: Path, way: str, done: int) -> None:
    with Provider(books) as provider:
        provider.charge("before", "ann", 1)
        provider.arm("charge", way, "ok")
        port, client = provider.port, provider.client()
        with pytest.raises(NoAnswer):
            client.charge("key", "ann", 5)
        assert provider.wait() == 1
        with pytest.raises(NoAnswer):
            client.find("key")
        provider.start()
        assert provider.port == port
        assert (client.find("key") is not None) == bool(done)
        assert (provider.executed("before"), provider.executed("key")) == (1, done)
        client.charge("key", "ann", 5)
        assert provider.executed("key") == 1


def test_every_way_is_tried_here() -> None:
    assert set(WAYS) == {"ok", "refuse", "drop", "hang before", "hang after", "die before", "die after"}


# --- who calls it


def test_it_outlives_clients_that_are_killed_while_they_wait(running: Provider) -> None:
    """What they asked for happens all the same, and is counted: that is what it is there for."""
    port = running.port
    running.arm("charge", "hang before", "hang after")

    def work(child: Child) -> None:
        child.say("asks")
        Client(port, timeout=None).charge(f"killed {os.getpid()}", "ann", 5)

    first = Running(work)
    running.hanging(1)
    second = Running(work)
    running.hanging(2)
    for child in (first, second):
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait().killed
    running.release()
    # Both were on their way: a question that comes later is answered when they are over.
    assert running.charge(f"killed {first.pid}", "ann", 5) == running.find(f"killed {first.pid}")
    assert running.executed(f"killed {first.pid}") == 1
    assert running.executed(f"killed {second.pid}") == 1


def test_half_a_question_is_none(running: Provider) -> None:
    """A client that is killed while it writes has asked for nothing."""
    before = running.executed()
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(b'{"verb": "charge", "key": "half", "account": "ann", "cents": 5}')
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert running.executed() == before


def test_it_ends_when_its_test_is_gone(books: Path) -> None:
    """A test process that was killed leaves no provider behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", SERVER, str(books)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert int(process.stdout.readline()) > 0
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdout.close()


def test_a_provider_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match="did not start"), Provider(tmp_path / "no" / "such" / "folder.db"):
        pass


def test_nobody_answers_where_nobody_listens(books: Path) -> None:
    provider = Provider(books).start()
    provider.stop()
    with pytest.raises(NoAnswer):
        provider.charge("key", "ann", 5)


def test_its_client_needs_the_standard_library_alone(running: Provider) -> None:
    """A tool in another environment can call it: the module is read there as a file, with no package."""
    from takeback.testing import provider as module

    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('alone', {module.__file__!r})\n"
        "alone = importlib.util.module_from_spec(spec); sys.modules['alone'] = alone\n"
        "spec.loader.exec_module(alone)\n"
        f"print(alone.Client({running.port}).charge('alone', 'ann', 5))\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))\n"
    )
    told = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    receipt, modules = told.stdout.splitlines()
    assert receipt == running.find("alone")
    assert set(modules.split()) <= {"__main__", "alone"}


def test_who_waits_for_a_call_to_hang_may_come_before_it(running: Provider) -> None:
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(running.hanging, 1)
        running.arm("charge", "hang after")
        charge = pool.submit(running.charge, "waited for", "ann", 5)
        waiting.result()
        running.release()
        charge.result()
    assert running.executed("waited for") == 1
