from datetime import UTC, datetime
from uuid import uuid4

from cronlease.outcome import Counts, FailReason, Outcome, SkipReason, Status

MOMENT = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_the_reasons_are_the_closed_set_of_the_contract() -> None:
    assert {reason.value for reason in SkipReason} == {
        "locked",
        "not_due",
        "schedule_read_error",
        "paused",
        "completed",
        "duplicate",
        "breaker_open",
        "shutting_down",
        "spawned",
        "unknown_action",
    }


def test_a_success_answers_every_field_of_the_contract() -> None:
    request_id = uuid4()
    outcome = Outcome(
        "f", request_id, status=Status.SUCCESS, counts=Counts(120, 3, 1, 116, 2), next_run_at=MOMENT, duration_ms=812
    )
    assert outcome.http_status == 200
    assert outcome.as_json() == {
        "ok": True,
        "skipped": False,
        "reason": None,
        "function": "f",
        "request_id": str(request_id),
        "status": "success",
        "fetched": 120,
        "inserted": 3,
        "updated": 1,
        "unchanged": 116,
        "closed": 2,
        "next_run_at": "2026-11-16T12:00:00+00:00",
        "duration_ms": 812,
    }


def test_a_skip_is_ok_and_says_when_it_will_pass() -> None:
    locked = Outcome("f", uuid4(), skipped=SkipReason.LOCKED, locked_until=MOMENT).as_json()
    assert (locked["ok"], locked["skipped"], locked["reason"]) == (True, True, "locked")
    assert locked["locked_until"] == "2026-11-16T12:00:00+00:00"
    assert "locked_until" not in Outcome("f", uuid4(), skipped=SkipReason.LOCKED).as_json()
    not_due = Outcome("f", uuid4(), skipped=SkipReason.NOT_DUE, next_run_at=MOMENT, hint="h").as_json()
    assert not_due["next_run_at"] == "2026-11-16T12:00:00+00:00"
    assert not_due["hint"] == "h"
    assert "status" not in not_due


def test_what_went_wrong_has_its_own_http_status() -> None:
    codes = {reason: Outcome("f", uuid4(), failed=reason, error="e").http_status for reason in FailReason}
    assert codes == {
        FailReason.FAILED: 500,
        FailReason.DEADLINE: 500,
        FailReason.COMMIT_UNKNOWN: 500,
        FailReason.LEASE_LOST: 409,
        FailReason.INTERRUPTED: 503,
    }
    body = Outcome("f", uuid4(), status=Status.FAILED, failed=FailReason.FAILED, error="e").as_json()
    assert (body["ok"], body["skipped"], body["status"], body["reason"], body["error"]) == (
        False,
        False,
        "failed",
        "failed",
        "e",
    )
