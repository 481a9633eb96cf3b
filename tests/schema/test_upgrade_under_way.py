"""A database of version 0.1 is upgraded while runs and hits are under way: none of them fails or waits long."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cronlease.db.migration import migrate as migrate_module
from cronlease.db.migration import replace as replace_module
from cronlease.db.migration.migrate import migrate
from cronlease.db.migration.packages import MigrationError
from cronlease.db.migration.schema_files import SchemaFile
from cronlease.db.migration.table_locks import lock_tables
from tests.faults.profile import one_in
from tests.integration.conftest import wait_until
from tests.schema.calls import one
from tests.schema.test_upgrade_version import ACQUIRE, CLAIM_DUE, DUMP, OF_A_RUN, OTHERS, RUNNING

RENEW, FENCE, FINISH, RELEASE = (text for text, _ in OF_A_RUN)
CALLS = {text.partition("(")[0].rpartition(".")[2]: text for text in (ACQUIRE[0], CLAIM_DUE[0], *OTHERS)}
CALLS |= {"renew_refresh_lock": RENEW, "assert_lease": FENCE, "finish_refresh_run": FINISH}
CALLS["release_refresh_lock"] = RELEASE
RUN = {"name": "running", "id": RUNNING, "fence": 1}
WAITING = (
    "select count(*) from pg_locks where database = (select oid from pg_database where datname = current_database())"
)
SET_ASIDE = "select count(*) from pg_proc where proname like '%\\_set\\_aside\\_by\\_migrate'"


@pytest.fixture
def old_dsn(empty_dsn: str) -> str:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(DUMP)
    return empty_dsn


@contextmanager
def migrating(dsn: str) -> Iterator[Future[list[str]]]:
    """In a thread, whose future is done when the block ends."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(migrate, dsn)


def wait_for_waiters(conn: psycopg.Connection[Any], number: int) -> None:
    wait_until(lambda: bool(one(conn, f"{WAITING} and not granted") >= number))


def test_a_run_ends_its_transaction_while_migrate_waits_for_its_tables(old_dsn: str) -> None:
    with (
        psycopg.connect(old_dsn) as run,
        psycopg.connect(old_dsn, autocommit=True) as conn,
        migrating_after(run, old_dsn) as migration,
    ):
        wait_for_waiters(conn, 1)
        # Its next table: it must not be migrate's already.
        ended = run.execute(FINISH, RUN).fetchone()
        run.commit()
        assert ended is not None
        assert ended[0] == "partial"
        assert "0013_time" in migration.result(30)
        assert one(conn, "select status from refresh_runs where request_id = %s", [RUNNING]) == "partial"


@contextmanager
def migrating_after(run: psycopg.Connection[Any], dsn: str) -> Iterator[Future[list[str]]]:
    """The run has fenced its row, and has as long for a lock as version 0.1 gives it."""
    run.execute("set lock_timeout = '2s'")
    run.execute(FENCE, RUN)
    with migrating(dsn) as migration:
        yield migration


@pytest.mark.thorough
def test_hits_go_on_while_migrate_waits_for_a_long_run(old_dsn: str) -> None:
    with (
        psycopg.connect(old_dsn) as run,
        psycopg.connect(old_dsn, autocommit=True) as hits,
        migrating_after(run, old_dsn) as migration,
    ):
        hits.execute("set lock_timeout = '1s'")
        wait_for_waiters(hits, 1)
        ends_at, answered = time.monotonic() + 2, 0
        while time.monotonic() < ends_at:
            hits.execute(ACQUIRE[0], {"name": "running", "id": uuid4()})
            answered += 1
        assert answered > 10
        assert not migration.done()
        run.rollback()
        assert "0013_time" in migration.result(30)


def test_tables_that_stay_in_use_are_given_up_and_nothing_is_changed(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cronlease.db.migration.table_locks._ALL_TRIES", 0.5)
    with psycopg.connect(old_dsn) as run:
        run.execute(FENCE, RUN)
        with pytest.raises(MigrationError, match="the schema is in use"):
            migrate(old_dsn)
        assert one(run, "select count(*) from cronlease_migrations") == 8


@pytest.mark.parametrize("name", one_in(4, CALLS))
def test_a_call_that_waits_for_the_tables_is_answered_when_they_have_changed(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It has entered a function of version 0.1, which migrate replaces meanwhile."""
    locked, go_on = threading.Event(), threading.Event()

    def lock_and_wait(conn: Any, names: list[str]) -> None:
        lock_tables(conn, names)
        locked.set()
        assert go_on.wait(30)

    monkeypatch.setattr(migrate_module, "lock_tables", lock_and_wait)
    with (
        psycopg.connect(old_dsn, autocommit=True) as caller,
        psycopg.connect(old_dsn, autocommit=True) as conn,
        ThreadPoolExecutor(1) as pool,
        migrating(old_dsn) as migration,
    ):
        assert locked.wait(30)
        call = pool.submit(lambda: caller.execute(CALLS[name], RUN).fetchone())
        try:
            wait_for_waiters(conn, 1)
        finally:
            go_on.set()
        assert call.result(30) is not None
        assert migration.result(30)
        assert one(conn, SET_ASIDE) == 0, "and then it is gone"


def test_only_views_are_replaced_while_the_tables_are_locked(old_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes several round trips, and hits wait meanwhile."""
    replaced: list[SchemaFile] = []

    def forget_and_lock(conn: Any, names: list[str]) -> None:
        assert len(replaced) > 50
        replaced.clear()
        lock_tables(conn, names)

    def note_and_replace(conn: Any, file: SchemaFile, *, adopting: bool) -> None:
        replaced.append(file)
        replace_module.replace(conn, file, adopting=adopting)

    monkeypatch.setattr(migrate_module, "lock_tables", forget_and_lock)
    monkeypatch.setattr(migrate_module, "replace", note_and_replace)
    migrate(old_dsn)
    assert {file.is_view for file in replaced} == {True}


def test_what_a_migrate_that_was_killed_has_set_aside_goes_with_the_next(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed, psycopg.connect(old_dsn, autocommit=True) as conn:
        killed.setattr(migrate_module, "drop_set_aside", lambda *_, **__: None)
        migrate(old_dsn)
        assert one(conn, SET_ASIDE) > 3
    assert migrate(old_dsn) == []
    with psycopg.connect(old_dsn) as conn:
        assert one(conn, SET_ASIDE) == 0


def test_a_view_on_an_older_signature_is_named_before_anything_is_changed(old_dsn: str) -> None:
    with psycopg.connect(old_dsn, autocommit=True) as conn:
        conn.execute("create view theirs as select public.read_refresh_status()")
        with pytest.raises(MigrationError, match="other objects depend on it"):
            migrate(old_dsn)
        assert one(conn, "select count(*) from cronlease_migrations") == 8


@pytest.mark.thorough
def test_an_older_signature_is_kept_while_somebody_may_be_in_it(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace_module, "_LONGEST_CALL", 30)
    with (
        psycopg.connect(old_dsn, autocommit=True) as caller,
        psycopg.connect(old_dsn, autocommit=True) as conn,
        ThreadPoolExecutor(1) as pool,
    ):
        sleeping = pool.submit(lambda: caller.execute("select pg_sleep(3)"))
        wait_until(lambda: caller.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE)
        with migrating(old_dsn) as migration:
            wait_until(lambda: bool(one(conn, SET_ASIDE) > 3))
            assert not sleeping.done()
            migration.result(30)
            assert sleeping.done()
        assert one(conn, SET_ASIDE) == 0
