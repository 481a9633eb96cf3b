"""claim_due_refresh where nothing is due: how long until something is."""

from datetime import timedelta
from uuid import uuid4

import psycopg

from tests.schema.calls import (
    AHEAD,
    HELD,
    PASSED_OVER,
    call,
    change,
    claim_due,
    one,
    schedule,
)

SLACK = 20
"""Seconds that a slow machine may lie between a function's clock and ours."""


def test_when_nothing_is_due_the_claim_says_how_long_it_will_be(conn: psycopg.Connection) -> None:
    nothing = claim_due(conn, "work")
    assert (nothing.reason, nothing.due_in, nothing.next_run_at) == ("not_due", None, None)
    schedule(conn, "theirs", "action = 'unheard of', next_run_at = clock_timestamp() + interval '1 minute'")
    for name in ("paused", "completed", "its cadence is no band", "never"):
        schedule(conn, name, "action = 'work', next_run_at = clock_timestamp() + interval '1 minute'")
        change(conn, PASSED_OVER[name], name)
    assert claim_due(conn, "work").due_in is None
    assert call(conn, "claim_due_refresh", request_id=uuid4(), actions=["more"]).due_in is None

    schedule(conn, "in two hours", "action = 'more', next_run_at = clock_timestamp() + interval '2 hours'")
    schedule(conn, "in an hour", f"action = 'work', {AHEAD}")
    for _ in range(2):
        coming = claim_due(conn, "work", "more")
        assert timedelta(hours=1) - timedelta(seconds=SLACK) < coming.due_in <= timedelta(hours=1)
        assert coming.next_run_at == one(
            conn, "select next_run_at from public.refresh_schedule where function_name = 'in an hour'"
        )
    assert claim_due(conn, "more").due_in > timedelta(hours=1)
    assert claim_due(conn).due_in < timedelta(minutes=1), "of any action"


def test_a_row_that_runs_is_due_again_when_its_lease_ends_or_its_time_comes(conn: psycopg.Connection) -> None:
    slack = timedelta(seconds=SLACK)
    schedule(conn, "theirs", "locked_by = 'somebody', locked_until = clock_timestamp() + interval '1 minute'")
    schedule(conn, "held", f"action = 'work', {HELD}")
    assert timedelta(minutes=10) - slack < claim_due(conn, "work").due_in <= timedelta(minutes=10)

    change(conn, AHEAD, "held")
    assert timedelta(hours=1) - slack < claim_due(conn, "work").due_in <= timedelta(hours=1)

    change(conn, "next_run_at = null, locked_until = 'infinity'", "held")
    assert claim_due(conn, "work").due_in is None, "a lease for ever ends never"


def test_a_time_that_no_client_can_read_is_returned_as_null(conn: psycopg.Connection) -> None:
    schedule(conn, "far", "action = 'work', next_run_at = '20000-01-01'")
    schedule(conn, "for ever ago", "action = 'work', next_run_at = '-infinity'")

    claim = claim_due(conn, "work")
    assert (claim.function_name, claim.next_run_at) == ("for ever ago", None)
    coming = claim_due(conn, "work")
    assert coming.reason == "not_due"
    assert coming.next_run_at == one(
        conn, "select locked_until from public.refresh_schedule where function_name = 'for ever ago'"
    )
