"""Rows whose action the asker does not know: left alone, counted, named, and in nobody's way."""

from uuid import uuid4

import psycopg

from tests.schema.calls import (
    AHEAD,
    HELD,
    PASSED_OVER,
    acquire,
    call,
    change,
    claimed_names,
    due_for,
    expire,
    physical_row,
    row,
    runs,
    schedule,
)


def test_a_row_of_an_unknown_action_is_left_alone_and_counted_and_blocks_nobody(conn: psycopg.Connection) -> None:
    for number in range(25):
        due_for(conn, f"theirs {number:02}", 1000 - number, "unheard of")
    due_for(conn, "ours", 1)
    before = row(conn, "theirs 00"), physical_row(conn, "theirs 00")

    counted = call(conn, "due_refreshes", actions=["work", "more"])
    assert (counted.due, counted.unknown) == (1, 25)
    assert counted.unknown_names == [f"theirs {number:02}" for number in range(20)], "the oldest"
    assert claimed_names(conn, "work", "more") == ["ours"]
    assert (row(conn, "theirs 00"), physical_row(conn, "theirs 00")) == before
    assert call(conn, "due_refreshes", actions=["work"]) == (0, 25, counted.unknown_names)
    assert call(conn, "due_refreshes") == (25, 0, [])


def test_what_is_counted_as_due_is_what_a_claim_would_take(conn: psycopg.Connection) -> None:
    for name, changes in PASSED_OVER.items():
        schedule(conn, name, f"action = 'work', {changes}")
        schedule(conn, f"{name}, theirs", f"action = 'unheard of', {changes}")
    schedule(conn, "its holder died", f"action = 'work', {HELD}")
    expire(conn, "its holder died")
    due_for(conn, "due", 1)

    assert call(conn, "due_refreshes", actions=["work"])[:2] == (2, 1), "theirs may have another idea of a cadence"
    assert sorted(claimed_names(conn, "work")) == ["due", "its holder died"]
    assert call(conn, "due_refreshes", actions=["work"]).due == 0


def test_a_hit_for_an_unknown_action_is_skipped_after_every_other_reason(conn: psycopg.Connection) -> None:
    schedule(conn, "job", "action = 'unheard of'")
    before = row(conn), physical_row(conn)

    answer = acquire(conn, uuid4(), actions=["work"])
    assert (answer.acquired, answer.reason, answer.fence, answer.action) == (False, "unknown_action", None, None)
    assert acquire(conn, uuid4(), actions=[], force=True).reason == "unknown_action"
    assert (row(conn), physical_row(conn), runs(conn)) == (*before, 0)

    for changes, reason in (
        (AHEAD, "not_due"),
        (HELD, "locked"),
        (PASSED_OVER["paused"], "paused"),
        (PASSED_OVER["completed"], "completed"),
    ):
        change(conn, changes)
        assert acquire(conn, uuid4(), actions=["work"]).reason == reason
    change(
        conn, f"once = false, completed_at = null, paused_at = null, locked_by = null, locked_until = null, {AHEAD}"
    )
    assert acquire(conn, uuid4(), actions=["work", "unheard of"]).reason == "not_due"
    assert acquire(conn, uuid4(), actions=["work", "unheard of"], force=True).acquired


def test_the_action_is_looked_at_again_under_the_row_lock(conn: psycopg.Connection) -> None:
    """What lies between the plain read and the row lock is made to change the action."""
    schedule(conn)
    conn.execute(
        """
        create or replace function public.is_band(p_text text) returns boolean
        language plpgsql
        as $$
        begin
          update public.refresh_schedule set action = 'another';
          return true;
        end
        $$
        """
    )

    answer = acquire(conn, uuid4(), actions=["job"])

    assert (answer.acquired, answer.reason) == (False, "unknown_action")
    assert (row(conn)["action"], row(conn)["fence"], runs(conn)) == ("another", 0, 0)
