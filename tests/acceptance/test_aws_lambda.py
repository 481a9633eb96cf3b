"""Invocations as Lambda makes them: the real runtime client, awslambdaric, polls a runtime API on loopback."""

from pathlib import Path

import pytest

from tests.acceptance.lambda_runtime import on_lambda
from tests.integration.conftest import Room

HANDLERS = "tests.acceptance.on_lambda"
RULE = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "Scheduled Event",
    "source": "aws.events",
    "account": "123456789012",
    "time": "2026-10-08T16:53:06Z",
    "region": "us-east-1",
    "resources": ["arn:aws:events:us-east-1:123456789012:rule/my-scheduled-rule"],
    "detail": {},
}
SCHEDULE = "arn:aws:scheduler:us-east-1:123456789012:schedule/default/tick"


@pytest.fixture
def room(dsn: str) -> Room:
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


def test_an_invocation_is_a_hit_and_a_failed_run_is_a_failed_invocation(room: Room, tmp_path: Path) -> None:
    with on_lambda(room.dsn, f"{HANDLERS}.tick", tmp_path) as runtime:
        kind, ran = runtime.invoke(RULE)
        assert (kind, ran["status"], ran["function"]) == ("response", "success", "tick")
        kind, skipped = runtime.invoke(RULE)
        assert (kind, skipped["reason"]) == ("response", "not_due")
        scheduled = {"schedule_arn": SCHEDULE, "scheduled_time": "2026-10-08T18:00:00+02:00", "force": True}
        assert runtime.invoke({**scheduled, "args": {"sleep": 0}})[1]["status"] == "success"
        kind, failed = runtime.invoke({**scheduled, "args": {"fail": "no luck"}})
        assert (kind, failed["errorType"]) == ("error", "RunFailed")
        assert "ValueError: no luck" in failed["errorMessage"]
        kind, refused = runtime.invoke({"speed": 9})
        assert (kind, refused["errorType"], "'speed' is not a field" in refused["errorMessage"]) == (
            "error",
            "ValueError",
            True,
        )
    assert room.query("select trigger, job_name, schedule_time, status from refresh_runs order by fence") == [
        ("eventbridge", RULE["resources"][0], "2026-10-08T16:53:06Z", "success"),  # type: ignore[index]
        ("eventbridge", SCHEDULE, "2026-10-08T18:00:00+02:00", "success"),
        ("eventbridge", SCHEDULE, "2026-10-08T18:00:00+02:00", "failed"),
    ]


@pytest.mark.parametrize("handler", ["tick", "tock"])
def test_the_end_of_a_run_is_written_before_the_invocation_s_time_is_up(
    room: Room, tmp_path: Path, handler: str
) -> None:
    """Also of a plain function, which cannot be cancelled."""
    with on_lambda(room.dsn, f"{HANDLERS}.{handler}", tmp_path) as runtime:
        # The imports are no part of an invocation's time.
        assert runtime.invoke({"force": True})[0] == "response"
        kind, cut_off = runtime.invoke({"force": True, "args": {"sleep": 30}}, seconds=8)
        assert (kind, "deadline" in cut_off["errorMessage"]) == ("error", True)
    ((status, took, free),) = room.query(
        "select r.status, extract(epoch from finished_at - started_at)::float, locked_by is null from refresh_runs r"
        " join refresh_schedule s using (function_name) order by r.fence desc limit 1"
    )
    assert (status, free) == ("failed", True)
    assert took < 8
