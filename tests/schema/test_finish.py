"""finish_refresh_run: what the end of a run writes, who may write it, and that it may be asked twice."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.schema.calls import (
    acquire,
    expire,
    finish,
    holding,
    make_due,
    one,
    physical_row,
    recover,
    refused,
    release,
    row,
    run,
    schedule,
    seconds_ahead,
    transaction,
)

HOUR = timedelta(hours=1)
SLACK = 20
"""Seconds that a slow machine may lie between a function's clock and ours."""

ROW_LOCK = "select from public.refresh_schedule where function_name = 'job' for update"


@pytest.fixture
def held(conn: psycopg.Connection) -> tuple[UUID, int]:
    """The request and the fence that hold the lease of the job."""
    schedule(conn)
    request = uuid4()
    return request, acquire(conn, request).fence


def is_recent(conn: psycopg.Connection, time: str) -> bool:
    return abs(float(one(conn, "select extract(epoch from clock_timestamp() - %s::timestamptz)", [time]))) < SLACK


def test_finish_frees_the_lease_and_moves_the_next_run_by_the_delay(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    answer = finish(conn, *held, delay=HOUR)

    after = row(conn)
    assert (after["locked_by"], after["locked_until"]) == (None, None)
    assert answer.status == after["last_status"] == "success"
    assert 3600 - SLACK < seconds_ahead(conn, "next_run_at") <= 3600
    assert answer.next_run_at == one(conn, "select next_run_at from public.refresh_schedule")
    assert is_recent(conn, after["last_run_at"])
    assert after["run_count"] == 1
    assert acquire(conn, uuid4()).reason == "not_due"


def test_finish_closes_the_run_with_its_counts(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    counts: dict[str, Any] = {"fetched": 120, "inserted": 3, "updated": 1, "unchanged": 2**40, "closed": 0}

    finish(conn, *held, "partial", delay=HOUR, error="one source of two", **counts)

    recorded = run(conn, held[0])
    assert {name: recorded[name] for name in counts} == counts
    assert (recorded["status"], recorded["error"]) == ("partial", "one source of two")
    assert recorded["next_run_at"] == row(conn)["next_run_at"]
    assert recorded["finished_at"] == row(conn)["last_run_at"]
    assert row(conn)["last_error"] == "one source of two"


def test_failures_in_a_row_are_counted(conn: psycopg.Connection) -> None:
    for status, failures in (("success", 0), ("partial", 0), ("failed", 3), ("interrupted", 2)):
        schedule(conn, status, "failures = 2, last_error = 'the one before'")
        request = uuid4()

        finish(conn, request, acquire(conn, request, status).fence, status, status)

        after = row(conn, status)
        assert (after["failures"], after["last_status"], after["last_error"]) == (failures, status, None)


def test_an_interrupted_run_is_due_immediately_and_keeps_its_place(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    make_due(conn)
    before = row(conn)["next_run_at"]

    finish(conn, *held, "interrupted", delay=HOUR)

    assert row(conn)["next_run_at"] == before
    assert acquire(conn, uuid4()).acquired


def test_a_forced_run_that_is_interrupted_is_due_immediately(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    finish(conn, *held, "success", delay=HOUR)
    request = uuid4()
    fence = acquire(conn, request, force=True).fence

    finish(conn, request, fence, "interrupted")

    assert seconds_ahead(conn, "next_run_at") <= 0
    assert acquire(conn, uuid4()).acquired


def test_a_delay_below_zero_is_none(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    finish(conn, *held, "success", delay=-HOUR)

    assert -5 < seconds_ahead(conn, "next_run_at") <= 0


def test_a_run_ends_in_one_of_four_ways(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    before = row(conn), run(conn, held[0])

    for status in ("done", "running", "abandoned", "SUCCESS", "", None):
        with refused("22023"):
            finish(conn, *held, status)

    assert (row(conn), run(conn, held[0])) == before


def test_only_the_holder_may_finish(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    request, fence = held
    schedule(conn, "other")
    before = row(conn), row(conn, "other"), run(conn, request)

    for wrong in ((uuid4(), fence), (request, fence + 1), (request, fence - 1)):
        with refused("CL001"):
            finish(conn, *wrong)
    with refused("CL001"):
        finish(conn, request, fence, function_name="other")
    with refused("CL001"):
        finish(conn, request, fence, function_name="nobody")

    assert (row(conn), row(conn, "other"), run(conn, request)) == before


def test_a_replaced_runs_data_rolls_back_with_its_finish(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    conn.execute("create table public.effects (effect text)")
    expire(conn)
    successor = uuid4()
    fence = acquire(conn, successor).fence
    before = row(conn), physical_row(conn), run(conn, held[0])

    with refused("CL001"), conn.transaction():
        conn.execute("insert into public.effects values ('stale')")
        finish(conn, *held, delay=HOUR)

    assert one(conn, "select count(*) from public.effects") == 0
    assert (row(conn), physical_row(conn), run(conn, held[0])) == before
    with conn.transaction():
        conn.execute("insert into public.effects values ('good')")
        finish(conn, successor, fence)
    assert one(conn, "select array_agg(effect) from public.effects") == ["good"]


def test_a_run_that_is_late_but_not_replaced_may_finish(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    expire(conn)

    assert finish(conn, *held).status == "success"
    assert run(conn, held[0])["status"] == "success"


def test_a_run_that_was_closed_as_abandoned_cannot_finish(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    expire(conn)
    assert recover(conn) == 1
    before = row(conn), run(conn, held[0])

    for status in ("success", "failed"):
        with refused("CL001"):
            finish(conn, *held, status)

    assert (row(conn), run(conn, held[0])) == before
    assert run(conn, held[0])["status"] == "abandoned"


def test_a_run_that_released_its_lock_cannot_finish(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    assert release(conn, held[0])

    with refused("CL001"):
        finish(conn, *held)


def test_a_second_finish_answers_what_was_recorded_and_changes_nothing(conn: psycopg.Connection) -> None:
    for name in ("success", "partial", "failed", "interrupted"):
        schedule(conn, name)
        request = uuid4()
        fence = acquire(conn, request, name).fence
        first = finish(conn, request, fence, name, name, delay=HOUR, error="why", fetched=7)
        assert first.status == name
        before = row(conn, name), physical_row(conn, name), run(conn, request)

        with transaction(conn):
            for again in ("success", "failed"):
                assert finish(conn, request, fence, again, name, delay=timedelta(0)) == first
            assert one(conn, "select pg_current_xact_id_if_assigned()") is None
        assert (row(conn, name), physical_row(conn, name), run(conn, request)) == before
        with refused("CL001"):
            finish(conn, request, fence + 1, name, name)


def test_a_second_finish_does_not_disturb_the_run_that_came_after(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    first = finish(conn, *held)
    successor = uuid4()
    assert acquire(conn, successor).acquired
    before = row(conn), run(conn, successor)

    assert finish(conn, *held, "failed") == first

    assert (row(conn), run(conn, successor)) == before


def test_a_finish_that_rolled_back_did_not_happen(conn: psycopg.Connection, held: tuple[UUID, int]) -> None:
    before = row(conn), run(conn, held[0])
    with transaction(conn):
        finish(conn, *held)
    assert (row(conn), run(conn, held[0])) == before
    assert finish(conn, *held, "failed").status == "failed"


def test_finish_deletes_at_most_a_hundred_old_runs_of_its_own_function(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    old_runs = """
        insert into public.refresh_runs
          (request_id, function_name, action, fence, trigger, started_at, finished_at, status)
        select gen_random_uuid(), %(name)s, %(name)s, %(last)s - i, 'manual', moment.at, moment.at, 'success'
        from generate_series(1, %(count)s) i,
          lateral (select clock_timestamp() - %(days)s * interval '1 day' - i * interval '1 hour' as at) moment
    """
    conn.execute(old_runs, {"name": "job", "count": 5, "days": 29, "last": 0})
    conn.execute(old_runs, {"name": "job", "count": 150, "days": 31, "last": -5})
    conn.execute(old_runs, {"name": "other", "count": 7, "days": 400, "last": 0})
    kept = "select count(*) from public.refresh_runs where function_name = %s"
    oldest = "select extract(day from clock_timestamp() - min(started_at)) from public.refresh_runs"

    finish(conn, *held)

    assert one(conn, kept, ["job"]) == 1 + 5 + 50
    assert one(conn, f"{oldest} where function_name = 'job'") == 31 + 2, "the oldest went first: fifty hours remain"
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence)
    assert one(conn, kept, ["job"]) == 2 + 5
    assert one(conn, kept, ["other"]) == 7

    last = uuid4()
    finish(conn, last, acquire(conn, last).fence, retention=timedelta(days=1))
    assert one(conn, kept, ["job"]) == 3


def test_a_run_older_than_the_retention_keeps_its_own_record(
    conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    conn.execute("update public.refresh_runs set started_at = started_at - interval '2 days'")

    finish(conn, *held, retention=timedelta(days=1))

    assert run(conn, held[0])["status"] == "success"


def test_a_one_shot_that_succeeds_is_completed(conn: psycopg.Connection) -> None:
    for name in ("success", "partial"):
        schedule(conn, name, "once = true")
        request = uuid4()
        fence = acquire(conn, request, name).fence

        answer = finish(conn, request, fence, name, name, delay=HOUR)

        after = row(conn, name)
        assert is_recent(conn, after["completed_at"])
        assert (after["next_run_at"], answer.next_run_at, run(conn, request)["next_run_at"]) == (None, None, None)
        assert finish(conn, request, fence, "failed", name).status == name, "asked again, it stays completed"
        assert row(conn, name) == after
    assert one(conn, "select array_agg(state) from public.refresh_status") == ["completed", "completed"]


def test_a_one_shot_that_does_not_succeed_is_pending_again(conn: psycopg.Connection) -> None:
    for name in ("failed", "interrupted"):
        schedule(conn, name, "once = true")
        request = uuid4()

        finish(conn, request, acquire(conn, request, name).fence, name, name, delay=HOUR)

        assert row(conn, name)["completed_at"] is None
    assert one(conn, "select array_agg(state) from public.refresh_status") == ["pending", "pending"]
    assert acquire(conn, uuid4(), "failed").reason == "not_due"
    assert acquire(conn, uuid4(), "interrupted").acquired
    make_due(conn, "failed")
    assert acquire(conn, uuid4(), "failed").acquired


def test_whoever_does_not_hold_the_lease_is_told_without_waiting_for_the_row(
    dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    request, fence = held
    with holding(dsn, ROW_LOCK):
        for wrong in ((uuid4(), fence), (request, fence + 1), (request, fence - 1)):
            with refused("CL001"):
                finish(conn, *wrong)


def test_the_next_run_counts_from_the_moment_the_row_could_be_had(
    dsn: str, conn: psycopg.Connection, held: tuple[UUID, int]
) -> None:
    """A finish that had to wait for the row reads the clock after that, not before."""
    waiting = "select exists (select from pg_locks where pid = %s and not granted)"
    with (
        psycopg.connect(dsn, autocommit=True) as finisher,
        ThreadPoolExecutor(1) as thread,
        holding(dsn, ROW_LOCK) as blocker,
    ):
        finishing = thread.submit(finish, finisher, *held, delay=HOUR)
        deadline = time.monotonic() + 10
        while not one(conn, waiting, [finisher.info.backend_pid]):
            assert not finishing.done(), "the finish did not wait"
            assert time.monotonic() < deadline, "the finish never waited"
        freed_at = one(conn, "select clock_timestamp()")
        blocker.rollback()
        answer = finishing.result(10)

    assert answer.next_run_at >= freed_at + HOUR
