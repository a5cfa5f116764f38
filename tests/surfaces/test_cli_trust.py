"""verify, seal, keygen, audit: what was stored is what was written, and can be shown to be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.surfaces.cli import Cli

import takeback


@pytest.fixture
def keys(cli: Cli, tmp_path: Path) -> tuple[str, str]:
    cli.ok("keygen", "seal.key")
    return "seal.key", "seal.key.pub"


def tamper(store: Path, sql: str) -> None:
    """Change a store behind takeback's back, in a process of its own: two SQLites in one would clash."""
    script = (
        f"import sqlite3; c = sqlite3.connect({str(store)!r})\n"
        "for (name,) in c.execute(\"SELECT name FROM sqlite_schema WHERE type = 'trigger'\").fetchall():\n"
        "    c.execute(f'DROP TRIGGER {name}')\n"
        f"c.execute({sql!r}); c.commit()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def cut_off(store: Path) -> None:
    """What somebody does who has the file: give the thread an older head, and remove what came after."""
    with takeback.open(store) as repo:
        digest = repo.thread("travel/42").at(2).checkpoint.digest.hex()
    tamper(store, "DELETE FROM checkpoints WHERE version > 2")
    columns = "head = 2, head_digest = x'" + digest + "'"
    tamper(store, f"UPDATE threads SET {columns}")


# --- verify


def test_a_sound_thread(cli: Cli, trip: Path) -> None:
    ran = cli.ok("verify")
    assert ran.out.startswith("✓ sound  travel/42  (8 checkpoints, ")


def test_a_sound_thread_as_json(cli: Cli, trip: Path) -> None:
    said = cli.ok("verify", "--json").json
    assert said["ok"] is True
    assert said["threads"][0]["checkpoints"] == 8
    assert said["threads"][0]["problems"] == []


def test_every_thread(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("other", initial={})
    assert [line.split()[2] for line in cli.ok("verify", "--all").lines] == ["other", "travel/42"]
    assert len(cli.ok("verify", "--all", "--json").json["threads"]) == 2


def test_an_empty_store_is_sound(cli: Cli, trip: Path) -> None:
    assert cli.ok("verify", "--all", "--tenant", "nobody").out == "no threads\n"


def test_a_missing_checkpoint_is_found(cli: Cli, trip: Path) -> None:
    tamper(trip, "DELETE FROM checkpoints WHERE version = 3")
    ran = cli("verify")
    assert ran.code == 6
    assert ran.out.startswith("✗ ")
    assert "version 4: versions 3 to 3 are missing" in ran.out
    assert "Traceback" not in ran.err
    said = cli("verify", "--all", "--json")
    assert said.code == 6
    assert said.json["ok"] is False
    assert said.json["threads"][0]["problems"][0]["kind"] == "gap"


def test_the_thread_of_a_damaged_head(cli: Cli, trip: Path) -> None:
    tamper(trip, "UPDATE checkpoints SET digest = zeroblob(32) WHERE version = 7")
    assert cli("verify").code == 6
    assert cli("log").code == 6
    assert cli("log", "--json").error["kind"] in {"corrupt_object", "store_corrupt"}


# --- the signing key


def test_signed_checkpoints_are_counted(cli: Cli, trip: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret\n")
    cli.ok("commit", "--set", "x=1", "--key-file", "key")
    assert "1 signed" in cli.ok("verify", "--key-file", "key").out


def test_the_key_may_come_from_the_environment(
    cli: Cli, trip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the same key as that of a file with the same words, whose line ends."""
    monkeypatch.setenv("TAKEBACK_KEY", "a secret")
    cli.ok("commit", "--set", "x=1")
    monkeypatch.delenv("TAKEBACK_KEY")
    (tmp_path / "key").write_text("a secret\n")
    assert "1 signed" in cli.ok("verify", "--key-file", "key").out


def test_another_key_finds_forgery(cli: Cli, trip: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret\n")
    (tmp_path / "other").write_text("another\n")
    cli.ok("commit", "--set", "x=1", "--key-file", "key")
    ran = cli("verify", "--key-file", "other")
    assert ran.code == 6
    assert "signed with another key, or forged" in ran.out


@pytest.mark.parametrize("content", [b"", b"\n"])
def test_an_empty_key_is_no_key(cli: Cli, trip: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    ran = cli("verify", "--key-file", "key")
    assert ran.code == 2
    assert "key holds no key" in ran.err


def test_an_empty_key_in_the_environment(cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset by mistake in a script, it must not quietly mean unsigned."""
    monkeypatch.setenv("TAKEBACK_KEY", "")
    assert cli("verify").code == 2


def test_a_missing_key_file(cli: Cli, trip: Path) -> None:
    assert "missing cannot be read" in cli("verify", "--key-file", "missing").err


# --- seals


def test_a_seal_is_printed_or_written(cli: Cli, trip: Path, tmp_path: Path) -> None:
    printed = json.loads(cli.ok("seal").out)
    assert (printed["thread"], printed["version"]) == ("travel/42", 7)
    ran = cli.ok("seal", "--out", "trip.seal")
    assert ran.lines[0] == "seal of travel/42 at version 7: trip.seal"
    written = json.loads((tmp_path / "trip.seal").read_text())
    assert written["digest"] == printed["digest"]
    assert cli.ok("seal", "--json").json["digest"] == printed["digest"]


def test_a_seal_is_verified_against(cli: Cli, trip: Path) -> None:
    cli.ok("seal", "--out", "trip.seal")
    cli.ok("commit", "--set", "x=1")
    assert "as sealed at version 7" in cli.ok("verify", "--seal", "trip.seal").out


def test_a_history_that_was_cut_off_is_found(cli: Cli, trip: Path) -> None:
    """The chain that is left is sound in itself: only the seal tells."""
    cli.ok("seal", "--out", "trip.seal")
    cut_off(trip)
    ran = cli("verify", "--seal", "trip.seal")
    assert ran.code == 6
    assert "the end was cut off" in ran.out


def test_a_signed_seal(cli: Cli, trip: Path, keys: tuple[str, str]) -> None:
    private, public = keys
    assert cli.ok("seal", "--out", "s", "--private-key", private).lines[0].startswith("signed seal of")
    cli.ok("verify", "--seal", "s", "--public-key", public)


def test_a_seal_that_somebody_else_signed(cli: Cli, trip: Path, keys: tuple[str, str]) -> None:
    cli.ok("keygen", "mallory")
    cli.ok("seal", "--out", "s", "--private-key", "mallory")
    ran = cli("verify", "--seal", "s", "--public-key", keys[1], "--json")
    assert (ran.code, ran.error["kind"]) == (6, "bad_seal")


def test_an_unsigned_seal_where_a_signature_is_asked_for(cli: Cli, trip: Path, keys: tuple[str, str]) -> None:
    cli.ok("seal", "--out", "s")
    ran = cli("verify", "--seal", "s", "--public-key", keys[1])
    assert ran.code == 6
    assert "not signed" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["verify", "--seal", "missing"], 2, "missing cannot be read"),
        (["verify", "--seal", "noise"], 6, "no seal"),
        (["verify", "--all", "--seal", "noise"], 2, "of one thread"),
        (["verify", "--public-key", "seal.key.pub"], 2, "--seal"),
        (["verify", "--seal", "s", "--public-key", "seal.key"], 2, "no public key"),
        (["verify", "--seal", "s", "--public-key", "noise"], 2, "no public key"),
        (["seal", "--private-key", "seal.key.pub"], 2, "no private key"),
        (["seal", "--private-key", "missing"], 2, "cannot be read"),
        (["seal", "--out", "s"], 2, "exists already"),
        (["seal", "--out", "no/such/folder"], 2, "cannot be written"),
    ],
)
def test_mistakes_with_seals(
    cli: Cli, trip: Path, keys: tuple[str, str], tmp_path: Path, words: list[str], code: int, says: str
) -> None:
    (tmp_path / "noise").write_text('{"format": "noise"}')
    cli.ok("seal", "--out", "s")
    ran = cli(*words)
    assert ran.code == code, ran
    assert says in ran.err


# --- keys


def test_the_private_key_is_for_its_owner_alone(cli: Cli, tmp_path: Path) -> None:
    ran = cli.ok("keygen", "k")
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "k").read_text().startswith("takeback-ed25519-private:")
    assert (tmp_path / "k.pub").read_text().startswith("takeback-ed25519-public:")
    assert "k.pub" in ran.lines[1]
    assert cli.ok("keygen", "j", "--json").json == {"private": "j", "public": "j.pub"}


@pytest.mark.parametrize("there", ["k", "k.pub"])
def test_a_key_is_never_written_over(cli: Cli, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("precious")
    ran = cli("keygen", "k")
    assert ran.code == 2
    assert "exists already" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


def test_raw_keys_are_taken_too(cli: Cli, trip: Path, keys: tuple[str, str], tmp_path: Path) -> None:
    """32 bytes, as other tools write them."""
    from base64 import b64decode

    for name in keys:
        text = (tmp_path / name).read_text().strip().partition(":")[2]
        (tmp_path / f"raw-{name}").write_bytes(b64decode(text))
    cli.ok("seal", "--out", "s", "--private-key", "raw-seal.key")
    cli.ok("verify", "--seal", "s", "--public-key", "raw-seal.key.pub")


def test_without_cryptography(
    cli: Cli, trip: Path, keys: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    ran = cli("seal", "--private-key", keys[0])
    assert ran.code == 2
    assert "takeback[crypto]" in ran.err
    assert cli("keygen", "other").code == 2
    cli.ok("seal")


# --- audit


def test_the_audit_log_of_the_store_and_of_a_thread(
    cli: Cli, trip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with takeback.open(trip, actor="ada") as repo:
        repo.thread("other", initial={}).label("mine")
        repo.thread("gone", initial={}).delete(reason="the customer asked")
    own = cli.ok("audit").lines
    assert len(own) == 2
    assert own[1].split()[3:] == ["label.put", "travel/42", "ada", "label", "good,", "version", "3"]
    monkeypatch.delenv("TAKEBACK_THREAD")
    lines = cli.ok("audit").lines
    assert lines[0].split() == ["when", "what", "thread", "actor", "detail"]
    assert [line.split()[3] for line in lines[1:]] == ["label.put", "label.put", "thread.deleted"]
    assert "reason the customer asked" in lines[3]


def test_the_audit_log_as_json(cli: Cli, trip: Path) -> None:
    (entry,) = cli.ok("audit", "--json").json["entries"]
    assert (entry["action"], entry["thread"], entry["actor"]) == ("label.put", "travel/42", "ada")
    assert entry["detail"] == {"label": "good", "version": 3}


def test_an_empty_audit_log(cli: Cli, trip: Path) -> None:
    with takeback.open(trip) as repo:
        repo.thread("young", initial={})
    assert cli.ok("audit", "--thread", "young").out == "nothing was done beside checkpoints\n"
