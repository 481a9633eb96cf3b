"""When the emulator hits: cron at both changes of clocks, retries, and time that runs faster."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from freezegun import freeze_time

from cronlease.emulator.jobs import Retry, from_file
from cronlease.emulator.scheduler import Clock, next_slot
from cronlease.slots import Beat, Coming, Cron

BERLIN, NEW_YORK, LORD_HOWE, UTC_ZONE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Etc/UTC"
# From here the next slots, each with its offset. Berlin jumps from 02:00 to 03:00 on 29 March 2026 and shows the hour
# from 02:00 twice on 25 October; New York does on 8 March and, from 01:00, on 1 November; Lord Howe moves by half an
# hour.
CHANGES = [
    # A time that is left out comes when the clocks have jumped, and only that day.
    ("30 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["29T03:00+02:00", "30T02:30+02:00"]),
    ("0 2 * * *", BERLIN, "2026-03-28T12:00+01:00", ["29T03:00+02:00", "30T02:00+02:00"]),
    ("30 2 * * *", NEW_YORK, "2026-03-07T12:00-05:00", ["08T03:00-04:00", "09T02:30-04:00"]),
    # Several that are left out come as one, also where one of their own is due then.
    ("0,20,40 2-3 * * *", BERLIN, "2026-03-29T00:00+01:00", ["29T03:00+02:00", "29T03:20+02:00", "29T03:40+02:00"]),
    # A time that there are two of comes once, the first time.
    ("30 2 * * *", BERLIN, "2026-10-24T12:00+02:00", ["25T02:30+02:00", "26T02:30+01:00"]),
    ("30 1 * * *", NEW_YORK, "2026-10-31T12:00-04:00", ["01T01:30-04:00", "02T01:30-05:00"]),
    # Asked in the second of the two hours, it is past already.
    ("30 2 * * *", BERLIN, "2026-10-25T02:10+01:00", ["26T02:30+01:00"]),
    ("30 2 * * *", BERLIN, "2026-10-25T02:40+01:00", ["26T02:30+01:00"]),
    # What recurs goes by elapsed time: no hour without it, and in autumn both hours have it.
    ("*/30 * * * *", BERLIN, "2026-03-29T01:29+01:00", ["29T01:30+01:00", "29T03:00+02:00", "29T03:30+02:00"]),
    (
        "*/30 * * * *",
        BERLIN,
        "2026-10-25T02:29+02:00",
        ["25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00", "25T03:00+01:00"],
    ),
    ("0 * * * *", BERLIN, "2026-10-25T01:30+02:00", ["25T02:00+02:00", "25T02:00+01:00", "25T03:00+01:00"]),
    ("0 * * * *", BERLIN, "2026-03-29T00:30+01:00", ["29T01:00+01:00", "29T03:00+02:00", "29T04:00+02:00"]),
    ("15 2 * * *", LORD_HOWE, "2026-10-03T12:00+10:30", ["04T02:30+11:00", "05T02:15+11:00"]),
    # No clocks change there.
    ("30 2 * * *", UTC_ZONE, "2026-03-28T12:00+00:00", ["29T02:30+00:00", "30T02:30+00:00"]),
    ("0 9 * * 7", UTC_ZONE, "2026-03-28T12:00+00:00", ["29T09:00+00:00"]),
    ("0 9 * APR mon-fri", UTC_ZONE, "2026-03-31T12:00+00:00", ["01T09:00+00:00", "02T09:00+00:00", "03T09:00+00:00"]),
]


def written(moment: datetime, cron: Cron) -> str:
    return moment.astimezone(cron.zone).isoformat(timespec="minutes").split("-", 2)[2]


@pytest.mark.parametrize(("expression", "zone", "start", "expected"), CHANGES)
def test_a_change_of_clocks_neither_loses_nor_doubles_a_fixed_time(
    expression: str, zone: str, start: str, expected: list[str]
) -> None:
    cron, moment, found = Cron.parse(expression, zone), datetime.fromisoformat(start), []
    for _ in expected:
        moment = cron.after(moment)
        found.append(written(moment, cron))
    assert found == expected


@pytest.mark.parametrize(
    ("expression", "zone"), [(expression, zone) for expression, zone, *_ in CHANGES if zone != UTC_ZONE]
)
def test_over_a_year_slots_only_go_forward(expression: str, zone: str) -> None:
    cron, moment = Cron.parse(expression, zone), datetime(2026, 1, 1, tzinfo=UTC)
    slots = [moment := cron.after(moment) for _ in range(400)]
    assert all(earlier < later for earlier, later in pairwise(slots))
    # Found from the slot before or from any moment in between: the same.
    assert all(cron.after(later - timedelta(seconds=1)) == later for later in slots)


@pytest.mark.parametrize(
    ("expression", "zone", "words"),
    [
        ("*/5 * * *", UTC_ZONE, "it has 4 fields"),
        ("0 */5 * * * *", UTC_ZONE, "it has 6 fields"),
        ("@daily", UTC_ZONE, "it has 1 fields"),
        ("61 * * * *", UTC_ZONE, "bad minute"),
        ("0 0 30 2 *", UTC_ZONE, "bad day-of-month"),
        ("0 0 L * *", UTC_ZONE, "numbers, names, and the signs"),
        ("0 0 * * MON#2", UTC_ZONE, "numbers, names, and the signs"),
        ("0 0 * * *", "Mars/Crater", "'Mars/Crater' is not a time zone"),
        ("0 0 * * *", "/etc/passwd", "is not a time zone"),
    ],
)
def test_an_invalid_schedule_is_one_sentence(expression: str, zone: str, words: str) -> None:
    with pytest.raises(ValueError, match="write") as told:
        Cron.parse(expression, zone)
    assert words in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (Retry(min_backoff=10, max_backoff=300, max_doublings=3), [10, 20, 40, 80, 160, 240, 300, 300]),
        (Retry(min_backoff=5, max_backoff=3600, max_doublings=5), [5, 10, 20, 40, 80, 160, 320, 480]),
        (Retry(min_backoff=5, max_backoff=3600, max_doublings=0), [5, 10, 15, 20]),
        (Retry(min_backoff=1, max_backoff=1, max_doublings=16), [1, 1, 1]),
        (Retry(min_backoff=60, max_backoff=10, max_doublings=2), [10, 10]),
    ],
)
def test_a_backoff_doubles_then_grows_evenly_up_to_the_longest(retry: Retry, waits: list[float]) -> None:
    assert [retry.backoff(number) for number in range(1, len(waits) + 1)] == waits


@pytest.mark.parametrize(
    ("count", "duration", "retries", "elapsed", "again"),
    [
        (0, 0, 0, 0.0, False),
        (3, 0, 2, 9999.0, True),
        (3, 0, 3, 0.0, False),
        (0, 60, 7, 59.0, True),
        (0, 60, 7, 61.0, False),
        # With both, until both are reached.
        (3, 60, 5, 30.0, True),
        (3, 60, 2, 90.0, True),
        (3, 60, 3, 60.0, False),
    ],
)
def test_it_is_retried_until_both_limits_are_reached(
    count: int, duration: float, retries: int, elapsed: float, again: bool
) -> None:
    assert Retry(count=count, max_duration=duration).again(retries, elapsed) is again


def test_sixty_times_as_fast_a_minute_takes_a_second() -> None:
    with freeze_time("2026-11-16T09:30:00Z") as frozen:
        clock = Clock(60)
        assert clock.until(datetime(2026, 11, 16, 9, 35, tzinfo=UTC)) == 5
        frozen.tick(4)
        assert clock.now() == datetime(2026, 11, 16, 9, 34, tzinfo=UTC)
        assert clock.until(datetime(2026, 11, 16, 9, 35, tzinfo=UTC)) == 1
        frozen.tick(4)
        assert clock.until(datetime(2026, 11, 16, 9, 35, tzinfo=UTC)) == 0
        assert clock.real(180) == 3


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize("slots", [Cron.parse("*/5 * * * *", UTC_ZONE), Beat(NOON, timedelta(minutes=5))])
@pytest.mark.parametrize(
    ("minutes", "retried", "following"),
    [(1, False, 5), (6, False, 5), (17, False, 15), (1, True, 5), (6, True, 10), (17, True, 20)],
)
def test_a_late_run_delays_the_next_and_retries_cost_slots(
    slots: Coming, minutes: float, retried: bool, following: float
) -> None:
    now = NOON + timedelta(minutes=minutes)
    assert next_slot(slots, NOON, now, retried=retried) == NOON + timedelta(minutes=following)


JOBS = Path(__file__).parents[2] / "functions" / "jobs.json"


def test_the_jobs_that_are_deployed_can_be_emulated() -> None:
    plan = from_file(JOBS, "refresh_opening_signals", speed=60)
    said = json.loads(JOBS.read_text())
    assert [job.name for job in plan.jobs] == list(said["jobs"])
    for job in plan.jobs:
        given = said["jobs"][job.name]
        assert isinstance(job.when, Cron)
        assert (job.path, job.when.expression) == (given["path"], given["schedule"])
        assert f"{job.attempt_deadline:g}s" == given["attempt_deadline"]
        assert job.retry.count == given["retry"]["count"]
        assert f"{job.retry.max_backoff:g}s" == given["retry"]["max_backoff"]
    assert plan.environment == {
        "CRONLEASE_LEASE": "5s",
        "CRONLEASE_EVERY": "10s..15s",
        "CRONLEASE_BACKOFF": "20s..40s",
        "CRONLEASE_MAX_RUN": "4.75s",
        "CRONLEASE_EMULATED": "60",
    }
    at_our_speed = from_file(JOBS, "refresh_opening_signals", speed=1).environment
    assert (at_our_speed["CRONLEASE_LEASE"], at_our_speed["CRONLEASE_EVERY"]) == ("5m", "10m..15m")
    assert "CRONLEASE_EMULATED" not in at_our_speed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schedule": "* * *"}, "it has 3 fields"),
        ({"attempt_deadline": "5s"}, "write 15s to 30m"),
        ({"retry": {}}, "'count' is missing"),
        ({"function": "another"}, 'no job for the function "refresh_opening_signals": it has jobs for another$'),
        ({"attempt_deadline": "soon"}, "not a duration"),
    ],
)
def test_impossible_jobs_are_one_sentence(tmp_path: Path, change: dict[str, object], words: str) -> None:
    job = json.loads(JOBS.read_text())["jobs"]["run-due"]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"functions": {}, "jobs": {"one": {**job, **change}}}))
    with pytest.raises(ValueError, match=words) as told:
        from_file(file, "refresh_opening_signals", speed=1)
    assert str(file) in str(told.value)


@pytest.mark.parametrize("text", ["{", "[]", '{"jobs": {}}', '{"functions": {}, "jobs": [1]}'])
def test_a_file_that_has_no_jobs_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"{file} is not JSON, line 1, column 2: " if text == "{" else str(file)):
        from_file(file, "tick", speed=1)
    with pytest.raises(ValueError, match="cannot be read"):
        from_file(tmp_path / "nowhere.json", "tick", speed=1)
