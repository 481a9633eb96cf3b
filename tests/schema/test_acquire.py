"""acquire_refresh_lock where it grants: what a claim writes, whom it replaces, and what a repeated request gets."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.schema.calls import (
    JOB,
    LEASE,
    WAITS,
    acquire,
    call,
    change,
    expire,
    finish,
    holding,
    make_due,
    one,
    recover,
    refused,
    release,
    row,
    run,
    runs,
    schedule,
    seconds_ahead,
)

SLACK = 20
"""Seconds that a slow machine may lie between a function's clock and ours."""


def abandon(conn: psycopg.Connection, times: int) -> None:
    """That many runs in a row start and never finish."""
    for _ in range(times):
        assert acquire(conn, uuid4()).acquired
        expire(conn)
        make_due(conn)


def test_the_first_claim_of_a_row_is_granted(conn: psycopg.Connection) -> None:
    schedule(conn)
    request = uuid4()

    claim = acquire(conn, request)

    assert claim.acquired
    assert claim.reason is None
    assert claim.fence == 1
    assert claim.locked_by == str(request)
    assert claim.action == JOB
    assert claim.args == {}
    assert claim.every is None
    assert claim.failures == 0
    after = row(conn)
    assert (after["fence"], after["locked_by"]) == (1, str(request))
    assert claim.locked_until.timestamp() == one(
        conn, "select extract(epoch from locked_until)::float8 from public.refresh_schedule"
    )


def test_the_lease_lasts_as_long_as_asked_and_five_minutes_by_default(conn: psycopg.Connection) -> None:
    schedule(conn)
    acquire(conn, uuid4())
    assert LEASE.total_seconds() - SLACK < seconds_ahead(conn, "locked_until") <= LEASE.total_seconds()

    schedule(conn, "longer")
    acquire(conn, uuid4(), "longer", lease=timedelta(hours=2))
    assert 7200 - SLACK < seconds_ahead(conn, "locked_until", "longer") <= 7200


def test_a_claim_answers_what_the_row_says(conn: psycopg.Connection) -> None:
    schedule(conn, changes="action = 'other', every = '10m..15m', failures = 3, args = '{\"a\": 1}'")

    claim = acquire(conn, uuid4())

    assert (claim.action, claim.every, claim.failures, claim.args) == ("other", "10m..15m", 3, {"a": 1})


def test_a_lease_must_be_longer_than_zero(conn: psycopg.Connection) -> None:
    schedule(conn)
    before = row(conn)

    for lease in (timedelta(0), timedelta(seconds=-1), None):
        with refused("22023"):
            acquire(conn, uuid4(), lease=lease)

    assert row(conn) == before
    assert runs(conn) == 0


def test_a_claim_without_a_request_or_a_trigger_is_refused_in_a_sentence(conn: psycopg.Connection) -> None:
    schedule(conn)

    with refused("22023"):
        call(conn, "acquire_refresh_lock", function_name=JOB, request_id=None)
    for function in ("acquire_refresh_lock", "claim_due_refresh"):
        named = {"function_name": JOB} if function == "acquire_refresh_lock" else {}
        with refused("22023"):
            call(conn, function, request_id=uuid4(), trigger=None, **named)

    assert runs(conn) == 0


def test_an_unknown_name_is_an_error_and_never_inserts(conn: psycopg.Connection) -> None:
    schedule(conn)

    with refused("CL002"):
        acquire(conn, uuid4(), "jobb")
    with pytest.raises(psycopg.Error, match='"jobb"'):
        acquire(conn, uuid4(), "jobb", force=True)

    assert one(conn, "select array_agg(function_name) from public.refresh_schedule") == [JOB]
    assert runs(conn) == 0


def test_a_claim_records_its_run(conn: psycopg.Connection) -> None:
    schedule(conn, changes="action = 'other'")
    request, parent = uuid4(), uuid4()

    acquire(
        conn,
        request,
        trigger="cloud_scheduler",
        job_name="projects/p/locations/l/jobs/Ä",
        schedule_time="not a time: kept as it was sent",
        parent_request_id=parent,
    )

    recorded = run(conn, request)
    started = recorded.pop("started_at")
    assert abs(one(conn, "select extract(epoch from clock_timestamp() - %s::timestamptz)", [started])) < SLACK
    assert {name: value for name, value in recorded.items() if value is not None} == {
        "request_id": str(request),
        "function_name": JOB,
        "action": "other",
        "args": {},
        "fence": 1,
        "attempt": 1,
        "trigger": "cloud_scheduler",
        "job_name": "projects/p/locations/l/jobs/Ä",
        "schedule_time": "not a time: kept as it was sent",
        "parent_request_id": str(parent),
        "status": "running",
    }


def test_a_run_is_manual_unless_said_otherwise(conn: psycopg.Connection) -> None:
    schedule(conn)
    request = uuid4()

    acquire(conn, request)

    recorded = run(conn, request)
    assert (recorded["trigger"], recorded["job_name"], recorded["schedule_time"]) == ("manual", None, None)


def test_a_hits_args_override_the_rows_key_by_key_for_that_run(conn: psycopg.Connection) -> None:
    schedule(conn, changes="""args = '{"a": 1, "b": {"deep": true}}'""")
    request = uuid4()

    claim = acquire(conn, request, args={"b": 2, "c": None})

    merged = {"a": 1, "b": 2, "c": None}
    assert claim.args == merged
    assert run(conn, request)["args"] == merged
    assert row(conn)["args"] == {"a": 1, "b": {"deep": True}}


def test_force_claims_before_the_row_is_due(conn: psycopg.Connection) -> None:
    schedule(conn, changes="next_run_at = clock_timestamp() + interval '1 hour'")

    assert acquire(conn, uuid4(), force=True).acquired


def test_the_same_request_asking_again_gets_the_same_run(conn: psycopg.Connection) -> None:
    schedule(conn, changes="""args = '{"a": 1}', every = '10m', failures = 2""")
    request = uuid4()
    first = acquire(conn, request, args={"b": 2})
    change(conn, "locked_until = clock_timestamp() + interval '1 minute'")
    recorded = run(conn, request)

    # The args were lost on the way: the recorded ones count.
    again = acquire(conn, request)

    assert again.acquired
    assert again.locked_until >= first.locked_until
    assert again._replace(locked_until=None) == first._replace(locked_until=None)
    assert seconds_ahead(conn, "locked_until") > LEASE.total_seconds() - SLACK
    assert runs(conn) == 1
    assert run(conn, request) == recorded


@pytest.mark.parametrize("force", [False, True])
def test_a_request_that_asks_again_while_its_first_claim_is_on_its_way_gets_the_same_run(
    dsn: str, conn: psycopg.Connection, force: bool
) -> None:
    """The client lost its connection, and the server has not noticed: it commits while the second question waits."""
    schedule(conn)
    request = uuid4()
    claim = "select public.acquire_refresh_lock(p_function_name => %s, p_request_id => %s)"
    with holding(dsn, claim, [JOB, request]) as first, ThreadPoolExecutor() as threads:
        assert acquire(conn, uuid4(), force=force).reason == "locked", "nobody else waits"
        again = threads.submit(acquire, conn, request, force=force)
        while not one(first, WAITS, [conn.info.backend_pid]):
            assert not again.done(), again.result()
        first.commit()
        assert (again.result().acquired, again.result().fence) == (True, 1)
    assert runs(conn) == 1


def test_a_request_that_asks_again_waits_for_a_lock_that_is_about_to_be_free(
    dsn: str, conn: psycopg.Connection
) -> None:
    """A commit lets go of its locks one by one, after its rows can be seen."""
    schedule(conn)
    request = uuid4()
    acquire(conn, request)
    lock = "select pg_advisory_xact_lock(public.refresh_lock_key('claim'), id) from public.refresh_schedule"
    with holding(dsn, lock) as first, ThreadPoolExecutor() as threads:
        again = threads.submit(acquire, conn, request)
        while not one(first, WAITS, [conn.info.backend_pid]):
            assert not again.done(), again.result()
        first.commit()
        assert (again.result().acquired, again.result().fence) == (True, 1)


def test_the_same_request_may_ask_again_after_its_lease_ran_out_unless_it_was_replaced(
    conn: psycopg.Connection,
) -> None:
    schedule(conn)
    request = uuid4()
    first = acquire(conn, request)
    expire(conn)

    again = acquire(conn, request)

    assert (again.acquired, again.fence) == (True, first.fence)
    assert row(conn)["abandoned"] == 0

    expire(conn)
    assert acquire(conn, uuid4()).acquired
    assert acquire(conn, request).reason == "locked"


def test_a_request_that_has_had_its_run_gets_no_second_one(conn: psycopg.Connection) -> None:
    schedule(conn)
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence)
    make_due(conn)
    before = row(conn)

    again = acquire(conn, request)

    assert (again.acquired, again.reason) == (False, "locked")
    assert (row(conn), runs(conn)) == (before, 1)


def test_an_expired_lease_is_taken_over_and_its_run_closed_as_abandoned(conn: psycopg.Connection) -> None:
    schedule(conn)
    schedule(conn, "other")
    dead, bystander, successor = uuid4(), uuid4(), uuid4()
    first = acquire(conn, dead)
    acquire(conn, bystander, "other")
    expire(conn)

    second = acquire(conn, successor)

    assert second.acquired
    assert second.fence == first.fence + 1
    assert second.locked_by == row(conn)["locked_by"] == str(successor)
    closed = run(conn, dead)
    assert closed["status"] == "abandoned"
    assert closed["finished_at"] is not None
    assert "never finished" in closed["error"]
    assert row(conn)["abandoned"] == 1
    assert run(conn, successor)["status"] == "running"
    assert run(conn, bystander)["status"] == "running"
    assert row(conn, "other")["abandoned"] == 0


def test_a_lease_is_over_and_a_row_is_due_at_its_very_moment(conn: psycopg.Connection) -> None:
    """The only way to hit the very moment is to ask the function that decides."""
    schedule(conn, changes="locked_by = 'somebody', locked_until = '2026-01-01T00:00:00Z'")
    schedule(conn, "later", "next_run_at = '2026-01-01T00:00:00Z'")
    text = """
        select public.refresh_skip_reason(s, %s, false, '2026-01-01T00:00:00Z'::timestamptz + %s)
        from public.refresh_schedule s
        where function_name = %s
    """
    moments = [timedelta(microseconds=-1), timedelta(0)]

    assert [one(conn, text, [uuid4(), moment, JOB]) for moment in moments] == ["locked", None]
    assert [one(conn, text, [uuid4(), moment, "later"]) for moment in moments] == ["not_due", None]


def test_the_third_abandonment_in_a_row_costs_a_backoff_at_the_claim(conn: psycopg.Connection) -> None:
    schedule(conn)
    backoff = timedelta(hours=1)
    abandon(conn, 2)
    third = acquire(conn, uuid4(), backoff=backoff)
    assert third.acquired
    assert seconds_ahead(conn, "next_run_at") < 0, "two abandoned runs cost nothing yet"
    expire(conn)

    fourth = acquire(conn, uuid4(), backoff=backoff)

    assert fourth.acquired
    assert row(conn)["abandoned"] == 3
    assert 3600 - SLACK < seconds_ahead(conn, "next_run_at") <= 3600
    assert (
        abs(fourth.next_run_at.timestamp() - one(conn, "select extract(epoch from clock_timestamp())::float8")) > 3000
    )
    expire(conn)
    assert acquire(conn, uuid4()).reason == "not_due", "the run that kills its process is not started at every hit"


def test_abandoned_runs_count_whoever_noticed_them(conn: psycopg.Connection) -> None:
    """Recovered, released or taken over: the third in a row costs the backoff all the same."""
    schedule(conn)
    abandon(conn, 1)
    acquire(conn, uuid4())
    expire(conn)
    assert recover(conn) == 1
    released = uuid4()
    acquire(conn, released)
    assert release(conn, released)

    acquire(conn, uuid4(), backoff=timedelta(hours=1))

    assert row(conn)["abandoned"] == 3
    assert seconds_ahead(conn, "next_run_at") > 3600 - SLACK


def test_the_same_request_asking_again_is_granted_though_its_first_claim_moved_next_run_at(
    conn: psycopg.Connection,
) -> None:
    schedule(conn)
    abandon(conn, 3)
    request = uuid4()
    first = acquire(conn, request)
    assert seconds_ahead(conn, "next_run_at") > 0

    again = acquire(conn, request)

    assert (again.acquired, again.reason, again.fence) == (True, None, first.fence)


def test_a_run_that_finishes_ends_the_row_of_abandoned_ones(conn: psycopg.Connection) -> None:
    schedule(conn)
    for status in ("success", "partial", "failed", "interrupted"):
        make_due(conn)
        abandon(conn, 3)
        request = uuid4()
        claim = acquire(conn, request)

        finish(conn, request, claim.fence, status, delay=timedelta(minutes=1))

        assert row(conn)["abandoned"] == 0
        assert 60 - SLACK < seconds_ahead(conn, "next_run_at") <= 60, "finish overwrites what the claim moved"


def test_a_claim_of_a_row_with_an_infinite_time_can_be_read_by_a_client(conn: psycopg.Connection) -> None:
    for next_run_at in ("infinity", "-infinity"):
        schedule(conn, next_run_at, f"next_run_at = '{next_run_at}'")

        claim = acquire(conn, uuid4(), next_run_at, force=True)

        assert claim.acquired
        assert claim.next_run_at is None


def test_a_one_shot_is_claimed_like_any_other_until_it_completes(conn: psycopg.Connection) -> None:
    schedule(conn, changes="once = true")
    request = uuid4()
    claim = acquire(conn, request)
    assert claim.acquired

    finish(conn, request, claim.fence)

    assert row(conn)["completed_at"] is not None
    assert acquire(conn, uuid4()).reason == "completed"
    assert acquire(conn, uuid4(), force=True).reason == "completed"


def test_at_most_one_run_of_a_function_is_open(conn: psycopg.Connection) -> None:
    schedule(conn)
    abandon(conn, 4)

    statuses = conn.execute("select status, count(*) from public.refresh_runs group by status").fetchall()

    assert dict(statuses) == {"abandoned": 3, "running": 1}


def test_the_request_id_is_a_uuid_of_any_kind(conn: psycopg.Connection) -> None:
    schedule(conn)

    assert acquire(conn, UUID(int=0)).locked_by == "00000000-0000-0000-0000-000000000000"
