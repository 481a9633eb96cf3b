"""A schedule that is replaced, or deleted and made again: what it keeps, and that no old run can write."""

from datetime import UTC, timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.schema.calls import (
    acquire,
    call,
    create,
    expire,
    finish,
    holding,
    one,
    refused,
    row,
    run,
    runs,
    schedule,
    seconds_ahead,
)

SLACK = 20
"""Seconds that a slow machine may lie between a function's clock and ours."""

HOUR = timedelta(hours=1)


def test_a_replacement_keeps_the_history_the_fence_and_the_pause_and_nothing_else(conn: psycopg.Connection) -> None:
    create(conn, args={"a": 1})
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence, "failed", error="no answer")
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence, "success", error="one of two")
    call(conn, "pause_refresh", function_name="job", reason="by hand")
    before = row(conn)
    assert (before["completed_at"] is None, before["last_error"]) == (False, "one of two")

    answer = create(conn, action="other", args={"b": 2}, every="10m", delay=HOUR, replace=True)

    after = row(conn)
    assert (answer.created, answer.next_run_at.timestamp()) == (
        False,
        one(conn, "select extract(epoch from next_run_at)::float8 from public.refresh_schedule"),
    )
    assert 3600 - SLACK < seconds_ahead(conn, "next_run_at") <= 3600
    changed = {name for name in after if after[name] != before[name]}
    planned = {"next_run_at", "slot_at", "planned_from", "planned_at", "late_at"}
    assert changed == {"action", "args", "every", "once", "completed_at", "last_error", *planned}
    assert (after["action"], after["args"], after["every"], after["once"]) == ("other", {"b": 2}, "10m", False)
    assert (after["completed_at"], after["last_error"], after["failures"]) == (None, None, 0)
    assert (after["fence"], after["run_count"], after["paused_reason"], runs(conn)) == (2, 2, "by hand", 2)


def test_a_replacement_forgets_failures_and_abandoned_runs(conn: psycopg.Connection) -> None:
    schedule(conn, "job", "failures = 4, abandoned = 5")

    create(conn, replace=True)

    assert (row(conn)["failures"], row(conn)["abandoned"]) == (0, 0)
    assert create(conn, "new", replace=True).created, "nothing to replace is nothing to refuse"


def test_a_running_schedule_is_not_replaced(dsn: str, conn: psycopg.Connection) -> None:
    create(conn)
    request = uuid4()
    claim = acquire(conn, request)
    before = row(conn)
    until = claim.locked_until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    with pytest.raises(psycopg.Error, match=f'"job" is running until {until}: wait for it, or unlock it') as caught:
        create(conn, action="other", replace=True)
    assert caught.value.sqlstate == "CL004"

    conn.execute("set statement_timeout = '1s'")
    expire(conn)
    lock = "select public.assert_lease(p_function_name => 'job', p_request_id => %s, p_fence => %s)"
    with holding(dsn, lock, [request, claim.fence]), refused("CL004"):
        # Its lease is over, but its holder is writing.
        create(conn, action="other", replace=True)
    assert row(conn) | {"locked_until": None} == before | {"locked_until": None}
    assert finish(conn, request, claim.fence).status == "success"


def test_replacing_what_never_finished_closes_it_for_good(conn: psycopg.Connection) -> None:
    create(conn)
    dead = uuid4()
    fence = acquire(conn, dead).fence
    expire(conn)

    create(conn, replace=True)

    after, closed = row(conn), run(conn, dead)
    assert (after["locked_by"], after["locked_until"], after["last_status"]) == (None, None, "abandoned")
    assert (closed["status"], closed["error"]) == ("abandoned", "the run never finished: its schedule was replaced")
    with refused("CL001"):
        finish(conn, dead, fence)
    assert acquire(conn, uuid4()).fence == fence + 1
    assert row(conn)["abandoned"] == 0


def test_a_schedule_that_was_deleted_and_comes_back_goes_on_counting(conn: psycopg.Connection) -> None:
    """P17: no old holder can match its fence."""
    create(conn)
    old = uuid4()
    fence = acquire(conn, old).fence
    expire(conn)
    assert call(conn, "delete_refresh", function_name="job")[0]

    create(conn)

    assert row(conn)["fence"] == fence
    new = acquire(conn, uuid4())
    assert new.fence == fence + 1
    with refused("CL001"):
        finish(conn, old, fence)
    assert (run(conn, old)["status"], runs(conn)) == ("abandoned", 2)
