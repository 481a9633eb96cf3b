"""The breaker in SQL: after so many failed runs in a row only a probe is let through, until one succeeds."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.schema.alerts import end, kinds
from tests.schema.calls import (
    acquire,
    call,
    change,
    claim_due,
    create,
    finish,
    make_due,
    one,
    refused,
    row,
    run,
    schedule,
    seconds_ahead,
)

HOUR = timedelta(hours=1)
RULE: dict[str, Any] = {"pause_after": 3, "probe": HOUR}
PASSED = "breaker_until = breaker_until - interval '2 hours', next_run_at = next_run_at - interval '2 hours'"


def opened(conn: psycopg.Connection, changes: str = "") -> None:
    """A row of the one job whose breaker has opened."""
    schedule(conn, changes=changes)
    for _ in range(3):
        end(conn, **RULE)
    assert row(conn)["breaker_until"] is not None


def is_open(conn: psycopg.Connection) -> bool:
    return row(conn)["breaker_until"] is not None


def test_it_opens_with_the_last_of_so_many_failed_runs_in_a_row(conn: psycopg.Connection) -> None:
    schedule(conn)
    seen = []
    for status in ("failed", "failed", "success", "failed", "interrupted", "failed", "failed"):
        answer = end(conn, status, **RULE)
        seen.append(is_open(conn))
    assert seen == [False] * 6 + [True]
    after = row(conn)
    assert after["next_run_at"] == after["breaker_until"]
    assert answer.next_run_at.timestamp() == one(
        conn, "select extract(epoch from breaker_until)::float8 from public.refresh_schedule"
    )
    assert 3590 < seconds_ahead(conn, "breaker_until") <= 3600


def test_a_rows_own_rule_comes_before_the_callers_and_works_without_one(conn: psycopg.Connection) -> None:
    schedule(conn, changes="pause_after = 2, probe = '2 hours'")
    end(conn, pause_after=1, probe=HOUR)
    assert not is_open(conn)
    end(conn)
    assert 7190 < seconds_ahead(conn, "breaker_until") <= 7200
    schedule(conn, "without")
    for _ in range(20):
        end(conn, function_name="without", probe=HOUR)
    assert row(conn, "without")["breaker_until"] is None, "it is off by default"


def test_a_hit_is_skipped_and_learns_when_the_probe_is(conn: psycopg.Connection) -> None:
    opened(conn)
    skipped = acquire(conn, uuid4(), early=True)
    assert (skipped.acquired, skipped.reason) == (False, "breaker_open")
    assert 3590 < one(conn, "select extract(epoch from %s - clock_timestamp())", [skipped.next_run_at]) <= 3600


def test_version_0_1_is_answered_not_due_with_the_time_of_the_probe(conn: psycopg.Connection) -> None:
    opened(conn)
    change(conn, "next_run_at = null")
    skipped = acquire(conn, uuid4())
    assert (skipped.acquired, skipped.reason, skipped.next_run_at is None) == (False, "not_due", False)
    assert 3590 < one(conn, "select extract(epoch from %s - clock_timestamp())", [skipped.next_run_at]) <= 3600


@pytest.mark.parametrize("next_run_at", ["null", "clock_timestamp()", "clock_timestamp() - interval '1 day'"])
def test_it_stays_open_whatever_somebody_makes_of_the_next_run(conn: psycopg.Connection, next_run_at: str) -> None:
    opened(conn)
    change(conn, f"next_run_at = {next_run_at}")
    assert acquire(conn, uuid4(), early=True).reason == "breaker_open"
    claimed = claim_due(conn, "job")
    assert (claimed.acquired, claimed.reason) == (False, "not_due")
    assert call(conn, "due_refreshes", actions=["job"]).due == 0
    assert one(conn, "select jsonb_build_array(state, due) from public.refresh_status") == ["breaker_open", False]


@pytest.mark.parametrize("dispatched", [False, True])
def test_one_probe_is_let_through_and_its_end_decides(conn: psycopg.Connection, dispatched: bool) -> None:
    opened(conn)
    change(conn, PASSED)
    assert one(conn, "select jsonb_build_array(state, due) from public.refresh_status") == ["breaker_open", True]
    assert call(conn, "due_refreshes", actions=["job"]).due == 1
    request = uuid4()
    claim = claim_due(conn, "job", request_id=request) if dispatched else acquire(conn, request, early=True)
    assert claim.acquired
    assert acquire(conn, uuid4(), early=True).reason == "locked"
    assert claim_due(conn, "job").acquired is False
    finish(conn, request, claim.fence, "failed", **RULE)
    assert 3590 < seconds_ahead(conn, "breaker_until") <= 3600
    assert row(conn)["failures"] == 4

    change(conn, PASSED)
    request = uuid4()
    finish(conn, request, acquire(conn, request, early=True).fence, "success", delay=HOUR, **RULE)
    assert not is_open(conn)
    assert row(conn)["failures"] == 0
    assert acquire(conn, uuid4(), early=True).reason == "not_due"


def test_an_interrupted_probe_comes_again(conn: psycopg.Connection) -> None:
    opened(conn)
    change(conn, PASSED)
    before = row(conn)["breaker_until"]
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence, "interrupted", **RULE)
    assert row(conn)["breaker_until"] == before
    assert acquire(conn, uuid4()).acquired


def test_force_passes_it_and_the_end_of_that_run_counts(conn: psycopg.Connection) -> None:
    opened(conn)
    end(conn, "success", delay=HOUR, **RULE)
    assert not is_open(conn)


def test_a_caller_that_does_not_know_the_breaker_does_not_close_it_by_failing(conn: psycopg.Connection) -> None:
    opened(conn)
    change(conn, PASSED)
    end(conn)
    assert is_open(conn)
    assert 6 * 3600 - 10 < seconds_ahead(conn, "breaker_until") <= 6 * 3600
    end(conn, probe=HOUR)
    assert not is_open(conn), "who knows of it and has it off closes it"


def test_an_open_breaker_keeps_the_slot_and_gives_the_probe_all_attempts(conn: psycopg.Connection) -> None:
    schedule(conn, changes="planned_from = '6h', next_run_at = clock_timestamp() - interval '1 minute', failures = 2")
    change(conn, "slot_at = next_run_at, attempt = 2")
    slot = row(conn)["slot_at"]
    request = uuid4()
    coming = one(conn, "select slot_at + interval '6 hours' from public.refresh_schedule")
    plan: dict[str, Any] = {"planned_from": "6h", "slot_at": coming}
    finish(conn, request, acquire(conn, request).fence, "failed", delay=HOUR, **plan, **RULE)
    after = row(conn)
    assert (after["slot_at"], after["attempt"], after["next_run_at"]) == (slot, 0, after["breaker_until"])
    assert run(conn, request)["slot"] == slot

    change(conn, PASSED)
    request = uuid4()
    finish(conn, request, acquire(conn, request, early=True).fence, "success", **plan, **RULE)
    assert run(conn, request)["slot"] == slot, "the probe serves the slot that is due"
    assert one(conn, "select next_run_at = %s and slot_at = %s from public.refresh_schedule", [coming, coming])


def test_a_forced_success_gives_back_what_the_breaker_has_put_off(conn: psycopg.Connection) -> None:
    schedule(conn, changes="planned_from = '6h', next_run_at = clock_timestamp(), failures = 2")
    change(conn, "slot_at = next_run_at")
    coming = one(conn, "select slot_at + interval '6 hours' from public.refresh_schedule")
    plan: dict[str, Any] = {"planned_from": "6h", "slot_at": coming}
    request = uuid4()
    finish(conn, request, acquire(conn, request).fence, "failed", **plan, **RULE)
    assert is_open(conn)
    end(conn, "success", **plan, **RULE)
    assert not is_open(conn)
    assert acquire(conn, uuid4(), early=True).acquired, "its slot has had no success yet"


def test_a_forced_failure_that_opens_it_leaves_a_later_slot(conn: psycopg.Connection) -> None:
    schedule(conn, changes="planned_from = '6h', next_run_at = clock_timestamp() + interval '5 hours', failures = 2")
    change(conn, "slot_at = next_run_at")
    before = row(conn)
    end(conn, planned_from="6h", **RULE)
    assert is_open(conn)
    assert (row(conn)["next_run_at"], row(conn)["slot_at"]) == (before["next_run_at"], before["slot_at"])


def test_a_one_shot_that_is_out_of_attempts_is_paused_and_not_stopped_by_a_breaker(conn: psycopg.Connection) -> None:
    create(conn, "once", attempts=3)
    for _ in range(3):
        make_due(conn, "once")
        request = uuid4()
        finish(conn, request, acquire(conn, request, "once").fence, "failed", "once", **RULE)
    assert (row(conn, "once")["paused_at"] is None, row(conn, "once")["breaker_until"]) == (False, None)
    create(conn, "often")
    for _ in range(3):
        make_due(conn, "often")
        request = uuid4()
        finish(conn, request, acquire(conn, request, "often").fence, "failed", "often", **RULE)
    assert (row(conn, "often")["paused_at"], row(conn, "often")["breaker_until"] is None) == (None, False)


def test_resume_closes_it_and_it_is_due(conn: psycopg.Connection) -> None:
    opened(conn)
    assert call(conn, "resume_refresh", function_name="job")[0] is True
    assert not is_open(conn)
    assert acquire(conn, uuid4(), early=True).acquired
    assert call(conn, "resume_refresh", function_name="job")[0] is False


def test_resume_ends_a_pause_and_an_open_breaker_together(conn: psycopg.Connection) -> None:
    opened(conn)
    call(conn, "pause_refresh", function_name="job")
    assert acquire(conn, uuid4(), early=True, force=True).reason == "paused"
    assert call(conn, "resume_refresh", function_name="job")[0] is True
    assert (row(conn)["paused_at"], row(conn)["breaker_until"]) == (None, None)


def test_once_closed_by_hand_it_opens_again_with_the_next_failure_and_says_so(conn: psycopg.Connection) -> None:
    opened(conn)
    assert kinds(conn) == ["failing", "breaker_open"]
    call(conn, "resume_refresh", function_name="job")
    end(conn, **RULE)
    assert is_open(conn)
    assert kinds(conn) == ["breaker_open"]


def test_a_failure_is_not_alerted_again_where_the_rule_is_taken_off(conn: psycopg.Connection) -> None:
    schedule(conn)
    end(conn, pause_after=1, probe=HOUR)
    assert kinds(conn) == ["breaker_open"]
    end(conn, probe=HOUR)
    assert not is_open(conn)
    assert kinds(conn) == []


def test_a_new_plan_does_not_bring_the_probe_forward(conn: psycopg.Connection) -> None:
    opened(conn)
    before = row(conn)
    plan = {"planned_from": None, "next_run_at": before["next_run_at"], "cadence": "10m..15m"}
    assert call(conn, "plan_refresh", function_name="job", delay=timedelta(minutes=10), **plan)[0]
    assert row(conn)["next_run_at"] == before["breaker_until"]


def test_a_replacement_begins_with_a_closed_breaker_and_the_rule_that_is_said_now(conn: psycopg.Connection) -> None:
    opened(conn)
    create(conn, every="10m..15m", pause_after=7, probe=HOUR, late_alert=HOUR, replace=True)
    after = row(conn)
    assert (after["breaker_until"], after["incident_at"], after["told"]) == (None, None, [])
    assert (after["pause_after"], after["probe"], after["late_alert"]) == (7, "01:00:00", "01:00:00")


@pytest.mark.parametrize("wrong", [{"pause_after": 0}, {"probe": timedelta(0)}, {"late_alert": timedelta(0)}])
def test_a_rule_that_means_nothing_is_refused(conn: psycopg.Connection, wrong: dict[str, Any]) -> None:
    with refused("22023"):
        create(conn, every="10m..15m", **wrong)
