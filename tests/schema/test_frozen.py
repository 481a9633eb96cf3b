"""A run whose client stands still inside its fenced transaction: who may end its backend, when, and who never."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.conftest import Server
from tests.integration.conftest import wait_until
from tests.schema.calls import (
    JOB,
    acquire,
    assert_lease,
    call,
    claim_due,
    expire,
    holding,
    one,
    refused,
    row,
    run,
    schedule,
    transaction,
)

MARK = "select pg_advisory_xact_lock_shared(public.refresh_lock_key('write'), id) from public.refresh_schedule"


def claimed(conn: psycopg.Connection) -> tuple[UUID, int]:
    """The request and the fence of a run whose lease has run out."""
    schedule(conn)
    request = uuid4()
    fence = acquire(conn, request, lease=timedelta(seconds=2), max_run=timedelta(seconds=10)).fence
    expire(conn)
    return request, fence


def make_overdue(conn: psycopg.Connection) -> None:
    conn.execute("update public.refresh_runs set overdue_at = clock_timestamp() where status = 'running'")


@pytest.fixture
def logins(server: Server) -> Iterator[tuple[str, str]]:
    """Two logins. Name it before the database, so that they are dropped after."""
    names = (f"cronlease_test_{uuid4().hex[:12]}", f"cronlease_test_{uuid4().hex[:12]}")
    with psycopg.connect(server.admin, autocommit=True) as admin:
        for name in names:
            admin.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
        yield names
        for name in names:
            admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def as_login(dsn: str, name: str) -> str:
    return make_conninfo(dsn, user=name, password="secret")


@contextmanager
def frozen(dsn: str, held: tuple[UUID, int]) -> Iterator[psycopg.Connection]:
    """A connection whose fenced transaction stays open."""
    with psycopg.connect(dsn, autocommit=True) as holder, transaction_of(holder):
        assert_lease(holder, *held)
        yield holder


@contextmanager
def transaction_of(conn: psycopg.Connection) -> Iterator[None]:
    conn.execute("begin")
    yield
    if not conn.broken:
        conn.execute("rollback")


def lives(conn: psycopg.Connection, pid: int) -> bool:
    return bool(one(conn, "select exists (select from pg_stat_activity where pid = %s)", [pid]))


def has_ended(conn: psycopg.Connection, holder: psycopg.Connection) -> None:
    wait_until(lambda: not lives(conn, holder.info.backend_pid), 3)
    with pytest.raises(psycopg.OperationalError):
        holder.execute("select 1")


def test_a_run_is_overdue_after_its_max_run_and_its_lease(conn: psycopg.Connection) -> None:
    request, _ = claimed(conn)
    assert one(conn, "select overdue_at - started_at from public.refresh_runs") == timedelta(seconds=12)
    assert run(conn, request)["overdue_at"] is not None
    schedule(conn, "old")
    assert acquire(conn, old := uuid4(), "old").acquired
    assert run(conn, old)["overdue_at"] is None, "a revision that does not say how long it may run"


@pytest.mark.parametrize("dispatched", [False, True])
def test_an_overdue_holder_is_ended_and_the_next_claim_takes_over(
    dsn: str, conn: psycopg.Connection, dispatched: bool
) -> None:
    held = claimed(conn)
    conn.execute("set statement_timeout = '1s'")

    def claim() -> tuple[bool, str | None]:
        answer = claim_due(conn) if dispatched else acquire(conn, uuid4())
        return answer.acquired, answer.reason

    with frozen(dsn, held) as holder:
        assert claim() == (False, "locked")
        # It may still be at work. Asked of the backend itself: a signal that is on its way is obeyed before that.
        holder.execute("select 1")
        make_overdue(conn)
        assert claim() == (False, "locked"), "it waits for nothing"
        has_ended(conn, holder)
        assert claim() == (True, None)
    assert run(conn, held[0])["status"] == "abandoned"


def test_a_run_that_did_not_say_how_long_it_takes_is_never_ended(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    held = (request := uuid4()), acquire(conn, request).fence
    expire(conn)
    with frozen(dsn, held) as holder:
        conn.execute("update public.refresh_runs set started_at = started_at - interval '1 year'")
        skipped = acquire(conn, uuid4())
        assert (skipped.reason, skipped.locked_until) == ("locked", None), "its lease ended before"
        assert claim_due(conn).reason == "locked"
        holder.execute("select 1")


def test_only_the_backend_that_has_the_row_is_ended(dsn: str, conn: psycopg.Connection) -> None:
    """Not one that has taken the same advisory lock, nor one that locks the row without the fence."""
    claimed(conn)
    make_overdue(conn)
    lock = "select from public.refresh_schedule for no key update"
    both = f"{MARK} for key share"
    with holding(dsn, lock) as operator, holding(dsn, MARK) as stranger, holding(dsn, both) as reader:
        assert acquire(conn, uuid4()).reason == "locked"
        assert claim_due(conn).reason == "locked"
        for innocent in (operator, stranger, reader):
            innocent.execute("select 1")


def test_the_holder_of_another_request_is_left_alone(dsn: str, conn: psycopg.Connection) -> None:
    held = claimed(conn)
    with frozen(dsn, held) as holder:
        ended = call(conn, "end_refresh_holder", function_name=JOB, locked_by=str(uuid4()))
        assert ended[0] is None
        assert call(conn, "unlock_refresh", function_name="job", request_id=held[0]).unlocked
        has_ended(conn, holder)


def test_unlocking_ends_the_holder_at_any_time(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    held = (request := uuid4()), acquire(conn, request).fence
    with frozen(dsn, held) as holder:
        assert call(conn, "unlock_refresh", function_name=JOB).unlocked
        has_ended(conn, holder)
    assert row(conn)["locked_by"] is None
    assert run(conn, request)["status"] == "abandoned"


def test_a_fence_waits_for_no_mark(dsn: str, conn: psycopg.Connection) -> None:
    held = claimed(conn)
    conn.execute("set statement_timeout = '1s'")
    with holding(dsn, MARK.replace("_shared", "")), transaction(conn):
        assert_lease(conn, *held)


def test_a_role_ends_its_own_backends_and_says_who_must_end_those_of_others(
    logins: tuple[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    migrate(dsn, roles=True)
    for name in logins:
        conn.execute(sql.SQL("grant cronlease_runner to {}").format(sql.Identifier(name)))
    ours, theirs = (as_login(dsn, name) for name in logins)
    held = claimed(conn)
    make_overdue(conn)
    with frozen(ours, held) as holder, psycopg.connect(theirs, autocommit=True) as stranger:
        warned: list[str] = []
        stranger.add_notice_handler(lambda notice: warned.append(notice.message_primary or ""))
        for answer in (acquire(stranger, uuid4()), claim_due(stranger)):
            assert answer.reason == "locked"
            ending = f"run `select pg_terminate_backend({holder.info.backend_pid})` as {logins[0]} or as a superuser"
            assert warned.pop().endswith(ending)
        holder.execute("select 1")

        with psycopg.connect(ours, autocommit=True) as same:
            assert claim_due(same).reason == "locked"
            has_ended(conn, holder)
            assert claim_due(same).acquired


def test_unlocking_says_who_must_end_what_it_may_not(
    logins: tuple[str, str], dsn: str, conn: psycopg.Connection
) -> None:
    held = claimed(conn)
    name = sql.Identifier(logins[0])
    for grant in (
        "grant usage on schema public to {}",
        "grant select, update on refresh_schedule, refresh_runs, refresh_holders to {}",
        "grant execute on all functions in schema public to {}",
    ):
        conn.execute(sql.SQL(grant).format(name))
    with frozen(dsn, held) as holder, psycopg.connect(as_login(dsn, logins[0]), autocommit=True) as operator:
        with refused("55006") as caught:
            call(operator, "unlock_refresh", function_name=JOB)
        assert f"pg_terminate_backend({holder.info.backend_pid})" in str(caught.value)
        holder.execute("select 1")
