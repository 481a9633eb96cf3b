"""claim_due_refresh: which row it takes, what it leaves alone, and what a repeated request gets."""

from datetime import timedelta
from uuid import uuid4

import psycopg

from tests.schema.calls import (
    LEASE,
    PASSED_OVER,
    acquire,
    call,
    claim_due,
    claimed_names,
    due_for,
    expire,
    finish,
    make_due,
    physical_row,
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


def test_the_oldest_due_row_is_claimed_first_whatever_its_action(conn: psycopg.Connection) -> None:
    for name, seconds, action in (("b", 20, "one"), ("d", 5, "one"), ("a", 30, "two"), ("c", 10, "two")):
        due_for(conn, name, seconds, action)
    schedule(conn, "never ran", "action = 'two'")
    schedule(conn, "never ran either", "action = 'one'")

    assert claimed_names(conn, "one", "two") == ["never ran", "never ran either", "a", "b", "c", "d"]


def test_a_claim_says_what_acquire_says_and_which_row_it_is(conn: psycopg.Connection) -> None:
    schedule(conn, "mail Ada", """action = 'mail', args = '{"to": "Ada"}', every = '10m..15m', failures = 3""")
    request, parent = uuid4(), uuid4()

    claim = claim_due(conn, "mail", request_id=request, parent_request_id=parent)

    assert (claim.acquired, claim.reason, claim.fence, claim.function_name) == (True, None, 1, "mail Ada")
    assert (claim.action, claim.args, claim.every, claim.failures) == ("mail", {"to": "Ada"}, "10m..15m", 3)
    assert (claim.locked_by, claim.due_in) == (str(request), None)
    assert row(conn, "mail Ada")["locked_by"] == str(request)
    recorded = run(conn, request)
    assert (recorded["function_name"], recorded["trigger"], recorded["status"]) == ("mail Ada", "run_due", "running")
    assert recorded["parent_request_id"] == str(parent)
    assert finish(conn, request, claim.fence, function_name="mail Ada").status == "success"


def test_acquire_and_claim_answer_the_same_columns_in_the_same_order(conn: psycopg.Connection) -> None:
    schedule(conn)

    acquired, claimed = acquire(conn, uuid4())._fields, claim_due(conn)._fields

    assert claimed == (*acquired, "function_name", "due_in")


def test_rows_that_may_not_run_are_passed_over(conn: psycopg.Connection) -> None:
    for name, changes in PASSED_OVER.items():
        schedule(conn, name, f"action = 'work', {changes}")
    due_for(conn, "due", 1)
    before = {name: physical_row(conn, name) for name in PASSED_OVER}

    assert claimed_names(conn, "work") == ["due"]
    assert claimed_names(conn) == []
    assert {name: physical_row(conn, name) for name in PASSED_OVER} == before, "none was written or locked"


def test_an_empty_array_of_actions_means_none_and_null_means_any(conn: psycopg.Connection) -> None:
    due_for(conn, "due", 1)

    assert call(conn, "claim_due_refresh", request_id=uuid4(), actions=[]).reason == "not_due"
    assert claimed_names(conn) == ["due"]


def test_the_same_request_asking_again_gets_the_same_row(conn: psycopg.Connection) -> None:
    due_for(conn, "first", 20)
    due_for(conn, "second", 10)
    request = uuid4()
    first = claim_due(conn, "work", request_id=request)

    again = claim_due(conn, "work", request_id=request)

    assert again._replace(locked_until=None) == first._replace(locked_until=None)
    assert again.locked_until > first.locked_until
    assert (runs(conn), row(conn, "second")["fence"]) == (1, 0)


def test_a_request_that_had_its_run_never_gets_another(conn: psycopg.Connection) -> None:
    """Finished, released, taken over, or of a schedule that is gone: a request is one run."""
    due_for(conn, "first", 20)
    due_for(conn, "second", 10)
    finished, replaced = uuid4(), uuid4()
    finish(conn, finished, claim_due(conn, "work", request_id=finished).fence, function_name="first")
    assert claim_due(conn, "work", request_id=replaced).function_name == "second"
    expire(conn, "second")
    assert claim_due(conn, "work").function_name == "second"
    make_due(conn, "first")
    schedule(conn)
    released = uuid4()
    acquire(conn, released)
    assert release(conn, released)
    schedule(conn, "gone")
    gone = uuid4()
    finish(conn, gone, acquire(conn, gone, "gone").fence, function_name="gone")
    conn.execute("delete from refresh_schedule where function_name = 'gone'")

    for request in (finished, replaced, released, gone):
        answer = claim_due(conn, "work", request_id=request)
        assert (answer.acquired, answer.reason, answer.function_name) == (False, "locked", None)

    assert claim_due(conn, "work").function_name == "first"


def test_each_action_has_its_own_lease_and_backoff(conn: psycopg.Connection) -> None:
    for name in ("short", "long", "other"):
        schedule(conn, name, "abandoned = 3")
    minutes = {"short": 1, "long": 60, "other": None}
    given = [minute and timedelta(minutes=minute) for minute in minutes.values()]

    for _ in minutes:
        claim_due(conn, *minutes, leases=given, backoffs=given, lease=2 * LEASE, backoff=LEASE)

    for name, lease, backoff in (("short", 60, 60), ("long", 3600, 3600), ("other", 600, 300)):
        assert lease - SLACK < seconds_ahead(conn, "locked_until", name) <= lease, name
        assert backoff - SLACK < seconds_ahead(conn, "next_run_at", name) <= backoff, name


def test_a_lease_that_is_not_longer_than_zero_is_refused(conn: psycopg.Connection) -> None:
    due_for(conn, "due", 1)

    with refused("22023"):
        claim_due(conn, "work", lease=timedelta(0))
    with refused("22023"):
        claim_due(conn, "work", leases=[timedelta(0)])

    assert (runs(conn), row(conn, "due")["fence"]) == (0, 0)


def test_what_was_abandoned_is_claimed_again_and_closed(conn: psycopg.Connection) -> None:
    due_for(conn, "due", 1)
    dead = uuid4()
    assert claim_due(conn, "work", request_id=dead).acquired
    assert claim_due(conn, "work").reason == "not_due"
    expire(conn, "due")

    claim = claim_due(conn, "work")

    assert (claim.function_name, claim.fence) == ("due", 2)
    assert (run(conn, dead)["status"], row(conn, "due")["abandoned"]) == ("abandoned", 1)
    with refused("CL001"):
        finish(conn, dead, 1, function_name="due")
