"""What goes wrong with a PostgreSQL server, reached for real: refused or waited for, and said in words."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import takeback
from takeback import errors
from takeback.errors import (
    BadRequest,
    ForkedProcess,
    NewerStore,
    NotAStore,
    PoolExhausted,
    ReadOnlyStore,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unstorable,
)
from takeback.storage import postgres_connections, postgres_server
from takeback.storage.base import Batch, NewCheckpoint, Row, Within
from takeback.storage.postgres import PostgresStorage
from takeback.testing.faults import Child, in_child
from takeback.testing.handles import A, head_of, ok, together
from takeback.testing.postgres import Server, fresh_url, shared
from takeback.testing.proxy import Proxy
from takeback.testing.rows import audit, blobs, cell, following, ledger, new_thread

_numbers = itertools.count(1)


@pytest.fixture
def url() -> str:
    return shared().url(fresh_url().rpartition("schema=")[2])


@pytest.fixture
def store(url: str) -> Iterator[PostgresStorage]:
    store = PostgresStorage(url)
    yield store
    store.close()


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


# --- addresses, users and servers that are wrong


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://u:secret@[h/d", "no address"),
        ("postgresql://h/d?nonsense=1", "nonsense"),
        ("postgresql://h/d?schema=a-b", "schema"),
        ("postgresql://h/d?pool_size=many", "pool_size"),
        ("postgresql://h/d?pool_timeout=0", "pool_timeout"),
    ],
)
def test_an_address_that_is_none(address: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        takeback.open(address)
    assert "secret" not in str(caught.value)


def test_both_names_of_the_scheme(url: str) -> None:
    with takeback.open(url) as repo:
        repo.thread("t", initial={"n": 1})
    with takeback.open(url.replace("postgresql://", "postgres://")) as repo:
        assert repo.thread("t").state == {"n": 1}


def test_a_server_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"cannot be reached.*Check that the server runs"):
        takeback.open(f"postgresql://postgres@/postgres?host={tmp_path}")


def test_a_database_that_does_not_exist() -> None:
    with pytest.raises(StoreUnavailable, match=r'database "nowhere" does not exist.*createdb'):
        takeback.open(shared().url(database="nowhere"))


def test_a_user_that_does_not_exist() -> None:
    with pytest.raises(StoreUnavailable, match='role "nobody" does not exist'):
        takeback.open(shared().url(user="nobody"))


def opened_until_refused(address: str) -> None:
    """The server reads its rules anew in its own time."""
    for _ in range(500):
        takeback.open(address).close()


def test_a_wrong_password() -> None:
    """Told at once, and without the password."""
    with Server() as server:
        server.sql("CREATE ROLE ada LOGIN PASSWORD 'right'; GRANT CREATE ON DATABASE postgres TO ada")
        rules = Path(server.folder, "data", "pg_hba.conf")
        rules.write_text("local all ada scram-sha-256\n" + rules.read_text())
        server.sql("SELECT pg_reload_conf()")
        address = server.url(user="ada:wrong")
        with pytest.raises(
            StoreUnavailable, match=r"password authentication failed.*Check the user"
        ) as caught:
            opened_until_refused(address)
        assert "wrong" not in str(caught.value)
        with pytest.raises(StoreUnavailable, match="no password"):
            takeback.open(server.url(user="ada"))
        with takeback.open(server.url(user="ada:right")) as repo:
            repo.thread("t", initial={})
            assert "right" not in repo.info().location


def test_a_server_that_is_too_old(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "OLDEST", 990_000)
    with pytest.raises(StoreUnavailable, match=r"is PostgreSQL 1.*needs PostgreSQL 99 or newer"):
        takeback.open(url)


def test_a_database_that_cannot_hold_every_text() -> None:
    shared().sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match=r"holds text as LATIN1.*UTF8"):
        takeback.open(shared().url(database="latin"))


def test_a_store_that_is_not_there_is_not_made_unasked(url: str) -> None:
    with pytest.raises(StoreUnavailable, match="there is no store"):
        takeback.open(url, create=False)
    assert shared().sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema_of(url)}'") == []


@pytest.mark.parametrize(
    "theirs", ["CREATE TABLE {}.threads (id int)", "CREATE TABLE {}.store (key text, value text)",
               "CREATE TABLE {}.store (a int)", "CREATE VIEW {}.invoices AS SELECT 1"],
)  # fmt: skip
def test_tables_of_somebody_else(url: str, theirs: str) -> None:
    """They are left as they are, and another schema is asked for."""
    schema = schema_of(url)
    shared().sql(f"CREATE SCHEMA {schema}; {theirs.format(schema)}")
    for create in (True, False):
        with pytest.raises(NotAStore, match=r"did not make.*\?schema="):
            takeback.open(url, create=create)
    assert len(shared().sql(f"SELECT 1 FROM pg_tables WHERE schemaname = '{schema}'")) <= 1


def test_tables_that_were_dropped_by_hand(store: PostgresStorage, url: str) -> None:
    shared().sql(f"DROP TABLE {schema_of(url)}.threads")
    with pytest.raises(NotAStore, match="lacks tables"):
        store.thread(A, "t")


def test_a_newer_schema_is_refused(store: PostgresStorage, url: str) -> None:
    shared().sql(f"UPDATE {schema_of(url)}.store SET value = '9999' WHERE key = 'schema'")
    with pytest.raises(NewerStore, match="has schema 9999"):
        takeback.open(url)


# --- what may not be written


def reader(url: str, *grants: str) -> str:
    """The address of the same store for a user that has only these rights on it."""
    schema, role = schema_of(url), f"reader{os.getpid()}_{next(_numbers)}"
    shared().sql(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
    for grant in grants:
        shared().sql(f"GRANT {grant} ON ALL TABLES IN SCHEMA {schema} TO {role}")
    return url.replace("postgres@", f"{role}@")


def test_a_user_that_may_only_read(store: PostgresStorage, url: str) -> None:
    takeback.Repo(store).thread("t", initial={"n": 0})
    with takeback.open(reader(url, "SELECT")) as repo:
        thread = repo.thread("t")
        assert repo.info().read_only
        with pytest.raises(ReadOnlyStore, match=r"permission denied.*Grant"):
            thread.commit({"n": 1})
        assert thread.refresh().version == 0


def test_a_user_without_any_rights(store: PostgresStorage, url: str) -> None:
    with pytest.raises(ReadOnlyStore, match="permission denied"):
        takeback.open(reader(url))


def test_a_user_that_may_not_make_schemas(url: str) -> None:
    role = f"guest{os.getpid()}"
    shared().sql(f"CREATE ROLE {role} LOGIN")
    theirs = url.replace("postgres@", f"{role}@")
    with pytest.raises(ReadOnlyStore, match=r"may not make the schema.*CREATE SCHEMA"):
        takeback.open(theirs)
    shared().sql(f"CREATE SCHEMA {schema_of(url)} AUTHORIZATION {role}")
    with takeback.open(theirs) as repo:
        assert repo.thread("t", initial={}).version == 0


def test_a_session_that_is_read_only(store: PostgresStorage, url: str) -> None:
    takeback.Repo(store).thread("t", initial={"n": 0})
    with takeback.open(url + "&options=-c%20default_transaction_read_only%3Don") as repo:
        assert repo.info().read_only
        with pytest.raises(ReadOnlyStore, match="standby"):
            repo.thread("t").commit({"n": 1})


def test_a_standby_is_read_and_not_written() -> None:
    """A copy that follows its primary: it serves what it has received."""
    with Server(wal_level="replica") as primary, takeback.open(primary.url()) as repo:
        thread = repo.thread("t", initial={"n": 0})
        with primary.standby() as standby:
            thread.commit({"n": 1})
            with takeback.open(standby.url()) as copy:
                assert copy.info().read_only
                until = time.monotonic() + 30
                while copy.thread("t").version == 0 and time.monotonic() < until:
                    time.sleep(0.02)
                assert copy.thread("t").state == {"n": 1}
                with pytest.raises(ReadOnlyStore, match="primary"):
                    copy.thread("t").commit({"n": 2})
            with pytest.raises(StoreUnavailable, match="there is no store"):
                takeback.open(standby.url("nothing"))


# --- migrations


def test_many_processes_make_the_store_at_once(url: str) -> None:
    """One migrator; the others wait, and find it done."""
    calls = [partial(PostgresStorage, url) for _ in range(8)]
    stores = together([*calls])
    assert len({store.info().uid for store in stores}) == 1
    ok(stores[0], new_thread("t"))
    assert head_of(stores[7], "t").version == 0
    for store in stores:
        store.close()


def test_without_advisory_locks_a_row_is_locked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL's kin do not all have them."""
    plain = postgres_server.Server.named

    def lacking(self: Any, sql: dict[str, str]) -> dict[str, str]:
        return plain(self, sql | {"one_migrator": "SELECT pg_no_such_lock(%(key)s)"})

    monkeypatch.setattr(postgres_server.Server, "named", lacking)
    stores = together([partial(PostgresStorage, url) for _ in range(4)])
    assert len({store.info().uid for store in stores}) == 1
    for store in stores:
        store.close()


def test_a_migration_that_fails_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from takeback.storage import postgres_migrate

    good = postgres_migrate.migrations("postgres")
    bad = (len(good) + 1, "CREATE TABLE takeback.half (a int); CREATE TABLE takeback.half (a int);")
    with monkeypatch.context() as patch:
        patch.setattr(postgres_migrate, "migrations", lambda engine: [*good, bad])
        patch.setattr(postgres_migrate, "_TRIES", 1)
        with pytest.raises(StoreError, match="half"):
            PostgresStorage(url)
    assert shared().sql(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema_of(url)}'") == []
    with takeback.open(url) as repo:
        assert repo.info().schema == good[-1][0]


def described(schema: str) -> Any:
    """Every column, index and constraint of a schema, without its name."""
    columns = shared().sql(
        "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name "
        f"FROM information_schema.columns WHERE table_schema = '{schema}' ORDER BY 1, 2"
    )
    indexes = shared().sql(f"SELECT indexdef FROM pg_indexes WHERE schemaname = '{schema}' ORDER BY 1")
    return columns, [str(row[0]).replace(schema, "takeback") for row in indexes]


def test_fresh_equals_migrated(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each migration by itself, as an old store meets them, ends where a new store begins."""
    from takeback.storage import postgres_migrate

    PostgresStorage(url).close()
    old, every = fresh_url(), postgres_migrate.migrations("postgres")
    for count in range(1, len(every) + 1):
        monkeypatch.setattr(postgres_migrate, "migrations", lambda engine, n=count: every[:n])
        PostgresStorage(shared().url(schema_of(old))).close()
    assert described(schema_of(old)) == described(schema_of(url))


def test_every_key_begins_with_the_tenant(store: PostgresStorage, url: str) -> None:
    """A PostgreSQL that is spread over machines shards by it; and no sequence ties writers to one place."""
    schema = schema_of(url)
    indexes = shared().sql(f"SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = '{schema}'")
    for table, index in indexes:
        first = str(index).rpartition("btree (")[2].split(",")[0].split(")")[0]
        assert (table, first) in (("store", "key"), ("tenants", "name")) or first == "tenant", index
    kinds = shared().sql(
        f"SELECT relkind FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'S'"
    )
    assert kinds == []


# --- too long, too full, too many


def test_a_pool_that_is_exhausted(url: str) -> None:
    """Nobody waits for ever for a connection that nobody gives back."""
    store = PostgresStorage(url + "&pool_size=1&pool_timeout=0.1")
    with store.snapshot(), pytest.raises(PoolExhausted, match=r"all 1 connections.*pool_size"):
        ok(store, new_thread("t"))
    ok(store, new_thread("t"))
    store.close()


def test_more_threads_than_connections(url: str) -> None:
    """They wait for one another, and all are served."""
    store = PostgresStorage(url + "&pool_size=2")
    together([partial(ok, store, new_thread(f"t{n}")) for n in range(12)])
    assert len(store.threads(A, takeback.storage.base.ThreadQuery())) == 12
    store.close()


def test_a_server_without_a_connection_left() -> None:
    with Server(max_connections="4", superuser_reserved_connections="0") as server:
        held = [psycopg.connect(server.url(None)) for _ in range(4)]
        with pytest.raises(StoreUnavailable, match=r"max_connections|pool_size"):
            takeback.open(server.url())
        for connection in held:
            connection.close()


def test_a_lock_that_is_held_for_too_long(url: str) -> None:
    """Another transaction holds the thread: it is waited for, then named, and nothing is lost."""
    store = PostgresStorage(url + "&options=-c%20lock_timeout%3D100ms")
    row = new_thread("t")
    ok(store, row)
    with psycopg.connect(shared().url(None)) as other:
        other.execute(f"SELECT 1 FROM {schema_of(url)}.threads FOR UPDATE".encode())
        with pytest.raises(StoreBusy, match="another transaction"):
            ok(store, NewCheckpoint(following(row.first)))
        assert head_of(store, "t") == row.first
    ok(store, NewCheckpoint(following(row.first)))
    store.close()


def test_a_statement_that_takes_too_long(url: str) -> None:
    store = PostgresStorage(url + "&options=-c%20statement_timeout%3D200ms")
    with pytest.raises(psycopg.errors.QueryCanceled):
        store.apply(Batch(A, [Within(lambda connection: connection.execute("SELECT pg_sleep(5)") and [])]))
    slow(url, "SELECT pg_sleep(5)")
    with pytest.raises(StoreBusy, match=r"took too long.*statement_timeout"):
        ok(store, audit("x"))
    assert store.audit(A) == []
    store.close()


def slow(url: str, what: str, table: str = "audit", times: int = 1_000) -> None:
    """Something happens inside the server whenever a row of this table is written, so many times."""
    schema = schema_of(url)
    shared().sql(
        f"CREATE SEQUENCE {schema}.times; "
        f"CREATE FUNCTION {schema}.fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('{schema}.times') <= {times} THEN {what.replace('SELECT', 'PERFORM')}; END IF; "
        "RETURN NEW; END $$; "
        f"CREATE TRIGGER fault BEFORE INSERT ON {schema}.{table} FOR EACH ROW "
        f"EXECUTE FUNCTION {schema}.fault()"
    )


def raising(code: str) -> str:
    return f"RAISE EXCEPTION 'as a test asked' USING ERRCODE = '{code}'"


def test_a_full_disk(store: PostgresStorage, url: str) -> None:
    row = new_thread("t")
    ok(store, row)
    slow(url, raising("53100"), "objects", times=1)
    with pytest.raises(StoreFull, match="no space is left"):
        ok(store, NewCheckpoint(following(row.first)), objects=blobs(b"x"))
    assert head_of(store, "t") == row.first
    ok(store, NewCheckpoint(following(row.first)), objects=blobs(b"x"))


@pytest.mark.parametrize("code", ["40001", "40P01"])
@pytest.mark.parametrize("table", ["checkpoints", "audit"])
def test_what_passes_is_tried_again(store: PostgresStorage, url: str, code: str, table: str) -> None:
    """A deadlock or a serialization failure took the transaction back for certain."""
    row = new_thread("t")
    ok(store, row)
    slow(url, raising(code), table, times=3)
    ok(store, NewCheckpoint(following(row.first)))
    ok(store, audit("once"))
    assert head_of(store, "t").version == 1
    assert [entry.action for entry in store.audit(A)] == ["once"]


def test_what_does_not_pass_is_said(
    store: PostgresStorage, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connections, "PATIENCE", 0.1)
    slow(url, raising("40P01"))
    with pytest.raises(StoreBusy, match="try again"):
        ok(store, audit("never"))


def test_two_tools_that_lock_one_another_out(store: PostgresStorage) -> None:
    """A real deadlock between transactional tools: one goes on, the other's caller is told."""
    table = f"pair{os.getpid()}_{next(_numbers)}"
    shared().sql(f"CREATE TABLE {table} (id int); INSERT INTO {table} VALUES (1), (2)")
    ok(store, audit("the tenant's first write"))
    barrier = threading.Barrier(2)

    def crosswise(first: int) -> Any:
        def work(connection: Any) -> list[Row]:
            connection.execute(f"UPDATE {table} SET id = id WHERE id = {first}")
            barrier.wait()
            connection.execute(f"UPDATE {table} SET id = id WHERE id = {3 - first}")
            return [audit(f"by {first}")]

        try:
            store.apply(Batch(A, [Within(work)]))
        except psycopg.errors.DeadlockDetected:
            return "deadlock"
        return "done"

    assert sorted(together([partial(crosswise, 1), partial(crosswise, 2)])) == ["deadlock", "done"]
    assert len(store.audit(A)) == 2


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_a_stricter_isolation_changes_nothing(url: str, level: str) -> None:
    """Where a server is set to it, races end as they do elsewhere: one winner, and the others are told."""
    store = PostgresStorage(
        url + "&options=-c%20default_transaction_isolation%3D" + level.replace(" ", r"%5C%20")
    )
    row = new_thread("t")
    ok(store, row)
    head = row.first
    for _ in range(3):
        tries = [following(head, actor=f"writer {n}") for n in range(6)]
        answers = together([partial(store.apply, Batch(A, [NewCheckpoint(c)])) for c in tries])
        (head,) = [c for c, answer in zip(tries, answers, strict=True) if answer is None]
    together([partial(ok, store, ledger(row.uid, None, cell(b"%d" % n)), audit(f"{n}")) for n in range(6)])
    assert [c.seq for c in store.cells(A, family=row.uid)] == [1, 2, 3, 4, 5, 6]
    store.close()


# --- tools, texts, forks


def test_a_tool_that_swallows_an_error_is_found_out(store: PostgresStorage) -> None:
    """PostgreSQL would take its commit for a rollback, and say nothing."""

    def work(connection: Any) -> list[Row]:
        with contextlib.suppress(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        return []

    with pytest.raises(StoreError, match=r"failed, and the tool went on.*savepoint"):
        store.apply(Batch(A, [audit("never"), Within(work)]))
    assert store.audit(A) == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_tool_may_not_end_the_transaction(store: PostgresStorage, end: str) -> None:
    def work(connection: Any) -> list[Row]:
        getattr(connection, end)()
        return []

    with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
        store.apply(Batch(A, [audit("never"), Within(work)]))
    assert store.audit(A) == []


def test_a_tools_own_error_reaches_its_caller(store: PostgresStorage) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        store.apply(Batch(A, [Within(lambda connection: connection.execute("SELECT * FROM nowhere") and [])]))
    ok(store, audit("goes on"))


def test_a_write_inside_a_write_is_refused(store: PostgresStorage) -> None:
    """It would wait for locks that its own thread of execution holds."""

    def work(connection: Any) -> list[Row]:
        ok(store, audit("inner"))
        return []

    with pytest.raises(BadRequest, match="inside another write"):
        store.apply(Batch(A, [Within(work)]))
    ok(store, audit("goes on"))


def test_text_that_the_server_cannot_hold(store: PostgresStorage) -> None:
    with pytest.raises(Unstorable, match="NUL"):
        ok(store, new_thread("t", agent="a\0b"))


def test_a_handle_is_not_carried_over_a_fork(store: PostgresStorage) -> None:
    """Nor does the child's end close what is the parent's."""
    ok(store, new_thread("t"))

    def work(child: Child) -> None:
        for use in (lambda: head_of(store, "t"), lambda: ok(store, audit("x")), store.info):
            with pytest.raises(ForkedProcess):
                use()
        store.close()
        child.say("refused")

    assert in_child(work).said == ["refused"]
    assert head_of(store, "t").version == 0


def test_a_handle_that_was_closed(url: str) -> None:
    store = PostgresStorage(url)
    store.close()
    with pytest.raises(StoreClosed):
        store.info()


# --- durability, and what doctor is told


@pytest.mark.parametrize(
    ("server", "asked", "is_set"),
    [("on", "full", "on"), ("off", "full", "on"), ("local", "full", "local"), ("on", "relaxed", "off")],
)
def test_a_commit_is_durable_unless_asked_otherwise(url: str, server: str, asked: str, is_set: str) -> None:
    """What the server's owner chose stays, as long as a commit that has returned is on the disk."""
    store = PostgresStorage(url + f"&options=-c%20synchronous_commit%3D{server}", durability=asked)
    details = store.info().details
    assert (details["synchronous_commit"], store.info().durability) == (is_set, asked)
    assert details["fsync"] == "off"  # the server of the tests; said, because no client can change it
    store.close()


def test_damage_is_told(store: PostgresStorage, url: str) -> None:
    assert store.damage() == []
    shared().sql(
        "UPDATE pg_index SET indisvalid = false "
        f"WHERE indexrelid = '{schema_of(url)}.checkpoints_merges'::regclass"
    )
    assert store.damage() == ["the index checkpoints_merges is not valid"]


def test_a_checkpoint_never_changes(store: PostgresStorage, url: str) -> None:
    ok(store, new_thread("t"))
    with pytest.raises(psycopg.errors.RaiseException, match="never changes"):
        shared().sql(f"UPDATE {schema_of(url)}.checkpoints SET kind = 'other'")


def test_an_hour_behind(url: str) -> None:
    """A writer whose clock was set back: order and times are the store's, and the raw clock shows."""
    hour, now = 3_600_000_000, time.time_ns() // 1000
    with takeback.open(url, clock=lambda: now) as repo, takeback.open(url, clock=lambda: now - hour) as late:
        repo.thread("t", initial={"n": 0})
        late.thread("t").commit({"n": 1})
        repo.thread("t").commit({"n": 2})
        late.thread("second", initial={})
        times = [(c.time_us, c.clock_us) for c in repo.thread("t").history(newest_first=False)]
        assert times == [(now, now), (now, now - hour), (now, now)]
        assert [info.name for info in repo.threads()] == ["second", "t"]
        assert next(iter(repo.verify("t"))).ok


def test_every_error_of_the_server_is_ours(store: PostgresStorage) -> None:
    """Whatever it says reaches nobody as the driver's own."""
    for name in ("UniqueViolation", "InternalError_", "DataCorrupted", "OutOfMemory", "SyntaxError"):
        with pytest.raises(errors.TakebackError), postgres_server.translated("here"):
            raise getattr(psycopg.errors, name)("said")
    with pytest.raises(errors.StoreCorrupt), postgres_server.translated("here"):
        raise psycopg.errors.DataCorrupted("said")


def test_a_cut_while_opening_is_an_error_that_names_the_server(url: str) -> None:
    with Proxy(shared().socket) as proxy:
        proxy.arm("gone", 0)
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            takeback.open(proxy.url(schema_of(url)))


Calls = Callable[[], Any]
