"""Guards that the tests of the schema do not cover: each was found by a mutant that survived."""

from uuid import uuid4

import psycopg

from tests.schema.calls import acquire, call, claim_due, expire, finish, holding, recover, refused, row, run, schedule

NOW = "next_run_at = '2026-01-01'"


def test_a_finished_run_is_told_only_under_its_own_name(conn: psycopg.Connection) -> None:
    schedule(conn)
    schedule(conn, "other")
    request = uuid4()
    fence = acquire(conn, request).fence
    finish(conn, request, fence)
    with refused("CL001"):
        finish(conn, request, fence, function_name="other")
    assert row(conn, "other")["run_count"] == 0


def test_a_dispatcher_gets_past_busy_rows_of_the_same_time(dsn: str, conn: psycopg.Connection) -> None:
    for name in ("first", "second", "third"):
        schedule(conn, name, f"action = 'work', {NOW}")
    busy = "select from public.refresh_schedule where function_name in ('first', 'second') for update"
    with holding(dsn, busy):
        assert claim_due(conn, "work").function_name == "third"


def test_recovering_leaves_ended_runs_as_they_are(conn: psycopg.Connection) -> None:
    schedule(conn)
    ended = uuid4()
    finish(conn, ended, acquire(conn, ended).fence)
    before = run(conn, ended)
    acquire(conn, uuid4())
    expire(conn)
    assert recover(conn) == 1
    assert run(conn, ended) == before


def test_deleting_leaves_ended_runs_as_they_are(conn: psycopg.Connection) -> None:
    schedule(conn)
    ended = uuid4()
    finish(conn, ended, acquire(conn, ended).fence)
    before = run(conn, ended)
    call(conn, "delete_refresh", function_name="job")
    assert run(conn, ended) == before


def test_unlocking_leaves_the_runs_of_others_open(conn: psycopg.Connection) -> None:
    schedule(conn)
    schedule(conn, "other")
    acquire(conn, uuid4())
    bystander = uuid4()
    acquire(conn, bystander, "other")
    assert call(conn, "unlock_refresh", function_name="job").unlocked
    assert run(conn, bystander)["status"] == "running"
