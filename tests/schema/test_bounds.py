"""What SQL takes is bounded: args, leases, delays and retention (D7, D11)."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.schema.calls import JOB, acquire, call, create, finish, one, refused, renew, runs, schedule, seconds_ahead

DAY = timedelta(days=1)
DAY_SECONDS = 86_400
SLACK = 20


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# Just too much of each, and just not.
ARGS = {
    "too large": ({"text": "x" * 1_000_000}, {"text": "x" * 999_000}),
    "too deep": ({"deep": nested(200)}, {"deep": nested(199)}),
    "too long a number": ({"number": 10**300}, {"number": 10**299, "negative": -(10**299)}),
    "too long a negative number": ({"list": [{"number": -(10**300)}]}, {"text": "9" * 5000}),
}


@pytest.mark.parametrize(("bad", "good"), ARGS.values(), ids=ARGS)
def test_args_that_a_client_could_not_read_are_refused_where_rows_are_made(
    conn: psycopg.Connection, bad: dict[str, Any], good: dict[str, Any]
) -> None:
    create(conn, "created", args=good)
    call(conn, "ensure_schedule", function_name="ensured", args=good)
    with refused("22023"):
        create(conn, "refused", args=bad)
    with refused("22023"):
        call(conn, "ensure_schedule", function_name="refused", args=bad)
    schedule(conn)
    with refused("22023"):
        acquire(conn, uuid4(), args=bad)
    assert runs(conn) == 0
    assert acquire(conn, uuid4(), args=good).args == good


def test_a_lease_is_at_most_a_day(conn: psycopg.Connection) -> None:
    schedule(conn)
    with refused("22023"):
        acquire(conn, uuid4(), lease=DAY + timedelta(seconds=1))
    request = uuid4()
    fence = acquire(conn, request, lease=DAY).fence
    assert renew(conn, request, fence, DAY) == "renewed"
    with refused("22023"):
        renew(conn, request, fence, DAY * 365_000)
    assert seconds_ahead(conn, "locked_until") <= DAY_SECONDS


@pytest.mark.parametrize("max_run", [timedelta(seconds=-1), DAY * 3651])
def test_a_max_run_is_neither_negative_nor_endless(conn: psycopg.Connection, max_run: timedelta) -> None:
    schedule(conn)
    with refused("22023"):
        acquire(conn, uuid4(), max_run=max_run)


@pytest.mark.parametrize(("status", "days"), [("failed", 400), ("success", 3650)])
def test_a_delay_out_of_bounds_is_cut_and_the_end_is_written(
    conn: psycopg.Connection, status: str, days: int
) -> None:
    schedule(conn)
    request = uuid4()
    fence = acquire(conn, request).fence
    assert finish(conn, request, fence, status, delay=DAY * 365_000).status == status
    assert days * DAY_SECONDS - SLACK < seconds_ahead(conn, "next_run_at") <= days * DAY_SECONDS


def test_a_backoff_in_advance_is_cut_too(conn: psycopg.Connection) -> None:
    schedule(conn, changes="abandoned = 5")
    assert acquire(conn, uuid4(), backoff=DAY * 365_000).acquired
    assert 400 * DAY_SECONDS - SLACK < seconds_ahead(conn, "next_run_at") <= 400 * DAY_SECONDS


@pytest.mark.parametrize("retention", [-DAY, timedelta(0), timedelta(minutes=59)])
def test_an_hour_of_history_is_kept_whatever_is_asked(conn: psycopg.Connection, retention: timedelta) -> None:
    schedule(conn)
    for minutes in (61, 58, 0):
        request = uuid4()
        fence = acquire(conn, request, force=True).fence
        conn.execute(
            "update refresh_runs set started_at = started_at - %s * interval '1 min' where request_id = %s",
            [minutes, request],
        )
        finish(conn, request, fence, retention=retention)
    assert runs(conn) == 2


def test_the_args_of_runs_are_left_out_where_the_caller_says_so(conn: psycopg.Connection) -> None:
    schedule(conn)
    acquire(conn, uuid4(), args={"secret": 1})
    (document,) = call(conn, "read_refresh_status")
    assert document["runs"][0]["args"] == {"secret": 1}
    (document,) = call(conn, "read_refresh_status", with_args=False)
    assert "args" not in document["runs"][0]
    assert document["runs"][0]["function_name"] == JOB


def test_a_lease_can_be_released_by_its_request_alone(conn: psycopg.Connection) -> None:
    schedule(conn)
    schedule(conn, "other")
    request, another = uuid4(), uuid4()
    acquire(conn, request)
    acquire(conn, another, "other")
    by_request = "select release_refresh_lock(null, %s)"
    assert one(conn, by_request, [uuid4()]) is False
    assert one(conn, by_request, [request]) is True
    assert one(conn, "select array_agg(locked_by) from refresh_schedule where locked_by is not null") == [
        str(another)
    ]
