"""Beats, crons and hits on a real database: which slot a run serves, what was missed, and what comes next.

Time is moved by ageing rows: a cron of every minute, or of every hour, is the same after a whole number of them.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.emulator.verdict import Scope
from cronlease.job import Hit, Job
from cronlease.outcome import FailReason, Outcome, SkipReason, Status
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.report import Report
from tests.integration.conftest import NAME, Room

MINUTELY = {"cron": "* * * * *"}
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
TIMES = ("next_run_at", "slot_at", "last_slot_at", "last_success_slot_at", "planned_at", "last_run_at")
SLACK = timedelta(seconds=30)


class Diary:
    """A job that writes down what its runs knew."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.fails = False

    async def __call__(self, run: Run) -> None:
        known = {name: getattr(run, name) for name in ("slot", "window", "attempt", "missed", "saved")}
        self.runs.append(known)
        if self.fails:
            raise ValueError("as told")

    @property
    def last(self) -> dict[str, Any]:
        return self.runs[-1]


@pytest.fixture
def diary() -> Diary:
    return Diary()


def enter(room: Room, diary: Diary, hit: Hit | None = None, /, **environment: str) -> Outcome:
    async def job(run: Run) -> None:
        await diary(run)

    return asyncio.run(room.hit_as(hit or Hit(), job, **environment))


def run_due(room: Room, diary: Diary, **environment: str) -> Report:
    settings = load({f"CRONLEASE_{name.upper()}": value for name, value in environment.items()})

    async def job(run: Run) -> None:
        await diary(run)

    async def dispatch() -> Report:
        database = Database(room.dsn)
        try:
            return await Dispatcher({NAME: Job.of(job, settings, name=NAME)}, database, settings).run_due()
        finally:
            await database.close()

    return asyncio.run(dispatch())


FORCED = Hit(force=True)


def age(room: Room, length: timedelta) -> None:
    """As if all that is in the row had happened so much earlier."""
    moved = ", ".join(f"{name} = {name} - interval '{length.total_seconds()} s'" for name in TIMES)
    room.query(f"update refresh_schedule set {moved}")
    room.query(
        f"update refresh_runs set slot = slot - interval '{length.total_seconds()} s',"
        f" started_at = started_at - interval '{length.total_seconds()} s'"
    )


def slots_with_success(room: Room) -> list[datetime]:
    return [row[0] for row in room.query("select slot from refresh_runs where status = 'success' order by slot")]


def test_a_beat_is_counted_from_its_first_run_and_not_from_the_end_of_each(room: Room, diary: Diary) -> None:
    first = enter(room, diary, every="6h")
    anchor = diary.last["slot"]
    assert first.slot == anchor
    assert abs(datetime.now(UTC) - anchor) < SLACK
    assert first.next_run_at == anchor + 6 * HOUR
    assert enter(room, diary, every="6h").skipped is SkipReason.NOT_DUE
    age(room, 6 * HOUR - timedelta(seconds=20))
    anchor -= 6 * HOUR - timedelta(seconds=20)
    early = enter(room, diary, every="6h")
    assert (early.slot, early.next_run_at) == (anchor + 6 * HOUR, anchor + 12 * HOUR), "a little early is in time"
    assert enter(room, diary, every="6h").skipped is SkipReason.NOT_DUE, "its slot is not left due"
    assert diary.last["window"] == (anchor, anchor + 6 * HOUR)


def test_a_cron_is_planned_by_the_first_hit_and_a_slot_that_has_just_come_runs(room: Room, diary: Diary) -> None:
    outcome = enter(room, diary, **MINUTELY)
    assert outcome.status is Status.SUCCESS
    assert outcome.slot is not None
    assert timedelta(0) <= datetime.now(UTC) - outcome.slot < MINUTE + SLACK
    assert (diary.last["missed"], diary.last["window"]) == (0, (None, outcome.slot))
    assert outcome.next_run_at == outcome.slot + MINUTE
    rare = datetime.now(UTC) + timedelta(days=40)
    room.query("delete from refresh_schedule")
    later = enter(room, diary, cron=f"0 0 {min(rare.day, 28)} {rare.month} *")
    assert later.skipped is SkipReason.NOT_DUE
    assert later.next_run_at is not None
    assert room.row("slot_at, planned_from")[0] == later.next_run_at


def test_however_many_slots_went_by_one_run_serves_the_latest_and_counts_the_others(
    room: Room, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    first = enter(room, diary, **MINUTELY).slot
    assert first is not None
    age(room, 6 * MINUTE)
    first -= 6 * MINUTE
    with caplog.at_level(logging.WARNING, logger="cronlease"):
        outcome = enter(room, diary, **MINUTELY)
    assert outcome.slot is not None
    assert outcome.missed == diary.last["missed"] == (outcome.slot - first) // MINUTE - 1 >= 5
    assert outcome.first_missed == first + MINUTE
    assert outcome.as_json()["first_missed"] == (first + MINUTE).isoformat()
    assert f"the first at {first + MINUTE:%Y-%m-%dT%H:%M:%SZ}" in caplog.text
    assert diary.last["window"] == (first, outcome.slot)
    assert room.query("select missed, slot from refresh_runs order by fence desc limit 1") == [
        (outcome.missed, outcome.slot)
    ]
    age(room, MINUTE)
    following = enter(room, diary, **MINUTELY)
    assert following.slot is not None
    assert following.missed == (following.slot - outcome.slot) // MINUTE, "each is counted once"


def test_with_missed_skip_a_slot_that_is_too_late_is_not_run_and_counted_on_the_next(
    room: Room, diary: Diary
) -> None:
    """Slots of an hour, each aged to half an hour ago: too late for ten minutes."""
    now = datetime.now(UTC)
    half = {"cron": f"{(now.minute - 30) % 60} * * * *", "missed": "skip", "late": "10m"}
    assert enter(room, diary, **half).skipped is SkipReason.NOT_DUE
    age(room, 3 * HOUR)
    skipped = enter(room, diary, **half)
    assert skipped.skipped is SkipReason.NOT_DUE
    assert skipped.next_run_at is not None
    assert skipped.next_run_at > now, "what was too late is passed over in the same hit"
    assert diary.runs == []
    just = {**half, "cron": f"{now.minute} * * * *"}
    room.query("delete from refresh_schedule")
    enter(room, diary, **just)
    age(room, 3 * HOUR)
    assert enter(room, diary, **just).status is Status.SUCCESS, "the latest is not too late"
    assert diary.last["missed"] in (2, 3)


def test_a_slot_gets_its_attempts_and_counts_as_missed_after_them(room: Room, diary: Diary) -> None:
    daily = {"cron": f"{datetime.now(UTC).minute} * * * *", "attempts": "2", "backoff": "1m"}
    diary.fails = True
    first = enter(room, diary, **daily)
    slot = diary.last["slot"]
    assert (first.failed, diary.last["attempt"]) == (FailReason.FAILED, 1)
    assert room.row("slot_at, attempt") == (slot, 1)
    room.query("update refresh_schedule set next_run_at = clock_timestamp()")
    second = enter(room, diary, **daily)
    assert (diary.last["attempt"], diary.last["slot"]) == (2, slot)
    assert second.next_run_at == slot + HOUR, "out of attempts: it goes on with the next slot"
    age(room, HOUR)
    diary.fails = False
    third = enter(room, diary, **daily)
    assert (third.missed, third.first_missed, diary.last["attempt"]) == (1, slot - HOUR, 1)
    assert diary.last["window"] == (None, slot)


def test_forced_runs_leave_the_slot_where_it_is(room: Room, diary: Diary) -> None:
    enter(room, diary, every="6h")
    before = room.row(", ".join(TIMES[:4]) + ", attempt")
    for fails in (False, True, False):
        diary.fails = fails
        assert enter(room, diary, FORCED, every="6h").skipped is None
        assert (diary.last["slot"], diary.last["attempt"]) == (None, 1)
    assert room.row(", ".join(TIMES[:4]) + ", attempt") == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_somebody_made_due_by_hand_uses_up_no_slot(room: Room, diary: Diary, fails: bool) -> None:
    first = enter(room, diary, every="6h").slot
    assert first is not None
    before = room.row(", ".join(TIMES[:4]) + ", attempt")
    room.query("update refresh_schedule set next_run_at = clock_timestamp()")
    diary.fails = fails
    assert enter(room, diary, every="6h").skipped is None
    assert diary.last["slot"] is None
    assert room.query("select slot from refresh_runs order by fence desc limit 1") == [(None,)]
    assert room.row(", ".join(TIMES[:4]) + ", attempt") == before, "the slot is still to come, and due next"
    diary.fails = False
    age(room, 6 * HOUR)
    assert enter(room, diary, every="6h").slot == first
    assert diary.last["window"] == (first - 6 * HOUR, first)


def test_a_changed_cadence_never_replays_the_past_and_never_starves(room: Room, diary: Diary) -> None:
    enter(room, diary, every="300d")
    age(room, timedelta(days=30))
    outcome = enter(room, diary, every="1h")
    assert outcome.skipped is SkipReason.NOT_DUE
    assert outcome.next_run_at is not None
    assert outcome.next_run_at - datetime.now(UTC) <= HOUR
    ran = enter(room, diary, cron=f"{datetime.now(UTC).minute} * * * *")
    assert (ran.status, ran.missed) == (Status.SUCCESS, 0)
    band = enter(room, diary, every="10m..15m")
    assert band.skipped is SkipReason.NOT_DUE
    assert band.next_run_at is not None
    assert 9 * MINUTE < band.next_run_at - datetime.now(UTC) <= 15 * MINUTE
    assert enter(room, diary, every="hit").status is Status.SUCCESS
    assert room.row("planned_from, planned_before") == ("hit", "10m..15m")


def test_a_row_that_is_due_by_its_stored_plan_runs_under_any_cadence(room: Room, diary: Diary) -> None:
    slot = enter(room, diary, **MINUTELY).slot
    assert slot is not None
    age(room, 2 * MINUTE)
    outcome = enter(room, diary, cron="0 0 1 1 *")
    assert (outcome.status, outcome.slot) == (Status.SUCCESS, diary.last["slot"])
    assert outcome.next_run_at is not None
    assert (outcome.next_run_at.month, outcome.next_run_at.day) == (1, 1)


@pytest.mark.thorough
def test_two_revisions_with_different_crons_do_not_keep_replanning_each_other(
    room: Room, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    """Fifty hits, in turn: every slot of one of them runs, none twice."""
    minute = datetime.now(UTC).minute
    revisions = [{"cron": "* * * * *"}, {"cron": f"{(minute + 30) % 60} * * * *"}]
    # The younger revision has replaced the older one's plan.
    assert enter(room, diary, **revisions[1]).skipped is SkipReason.NOT_DUE
    assert enter(room, diary, **revisions[0]).status is Status.SUCCESS
    with caplog.at_level(logging.WARNING, logger="cronlease"):
        for number in range(50):
            if number % 2:
                age(room, MINUTE)
                room.query("update refresh_schedule set planned_at = clock_timestamp() - interval '50 minutes'")
            enter(room, diary, **revisions[number % 2])
    followed = [record for record in caplog.records if "less than an hour ago" in record.message]
    assert len(followed) == 1
    assert all(said in followed[0].message for said in ("* * * * * UTC", f"{(minute + 30) % 60} * * * * UTC"))
    slots = slots_with_success(room)
    assert len(slots) == len(set(slots)) >= 24
    # A slot that went by while the test itself took its time is counted.
    counted = room.query("select sum(missed) from refresh_runs")[0][0] or 0
    assert (slots[-1] - slots[0]) // MINUTE == len(slots) - 1 + counted
    room.query("update refresh_schedule set planned_at = clock_timestamp() - interval '2 hours'")
    assert enter(room, diary, **revisions[1]).skipped is SkipReason.NOT_DUE
    assert room.row("planned_from")[0].startswith(str((minute + 30) % 60)), "after an hour it takes the row back"


@pytest.mark.parametrize(("own", "between"), [("2h..3h", "6h..9h"), ("2h", "6h"), ("2h..3h", "hit")])
def test_an_emulator_that_starts_follows_no_cadence_of_an_earlier_one(
    room: Room, diary: Diary, own: str, between: str
) -> None:
    for every in (own, between, own):
        Scope([NAME], []).make_due(room.dsn)
        enter(room, diary, every=every)
        assert room.row("planned_from") == (every,)


@pytest.mark.parametrize("before", [{"every": "6h"}, MINUTELY])
def test_a_schedule_that_its_trigger_took_over_is_run_by_hits_and_not_by_run_due(
    room: Room, diary: Diary, before: dict[str, str]
) -> None:
    enter(room, diary, **before)
    enter(room, diary, every="hit")
    for _ in range(2):
        assert enter(room, diary, **before).status is Status.SUCCESS, "it follows the plan, which is due at each hit"
    assert room.row("planned_from, next_run_at") == ("hit", None)
    assert run_due(room, diary, **before).ran == ()
    room.query("update refresh_schedule set planned_at = clock_timestamp() - interval '2 hours'")
    report = run_due(room, diary, **before)
    assert len(report.ran) <= 1, "after an hour it is planned anew, not stormed"
    assert room.row("planned_from")[0].startswith(next(iter(before.values())))
    assert room.row("next_run_at")[0] is not None


def test_a_hit_runs_each_delivery_once_and_a_failed_one_again_immediately(room: Room, diary: Diary) -> None:
    at = datetime.now(UTC)
    hit = Hit("cloud_scheduler", "nightly", delivery=f"nightly {at:%H:%M}", delivery_at=at)
    diary.fails = True
    assert enter(room, diary, hit, every="hit").failed is FailReason.FAILED
    diary.fails = False
    again = enter(room, diary, hit, every="hit")
    assert (again.status, again.next_run_at, diary.last["attempt"]) == (Status.SUCCESS, None, 2)
    assert enter(room, diary, hit, every="hit").skipped is SkipReason.DUPLICATE
    assert enter(room, diary, every="hit").status is Status.SUCCESS, "without a delivery it just runs"
    ahead = hit._replace(delivery_at=at + HOUR)
    assert enter(room, diary, ahead, every="hit").status is Status.SUCCESS, "a button in a console"
    assert room.row("planned_from")[0] == "hit"


def test_a_hit_that_failed_waits_for_its_backoff_where_one_was_given(room: Room, diary: Diary) -> None:
    diary.fails = True
    enter(room, diary, every="hit", backoff="1h")
    assert enter(room, diary, every="hit", backoff="1h").skipped is SkipReason.NOT_DUE


def test_a_cron_that_means_no_time_is_an_error_of_its_row(
    room: Room, diary: Diary, caplog: pytest.LogCaptureFixture
) -> None:
    enter(room, diary)
    room.query("update refresh_schedule set cron = '99 9 * * *', next_run_at = null")
    assert enter(room, diary).skipped is SkipReason.SCHEDULE_READ_ERROR
    assert "'99 9 * * *' is not a cron expression (bad minute)" in caplog.text
    assert len(diary.runs) == 1


def test_a_row_edited_into_a_cron_that_means_no_time_runs_its_plan_and_then_waits(room: Room, diary: Diary) -> None:
    enter(room, diary, **MINUTELY)
    room.query("update refresh_schedule set cron = '99 9 * * *'")
    age(room, MINUTE)
    assert enter(room, diary).status is Status.SUCCESS
    assert room.row("next_run_at")[0] is None
    assert enter(room, diary).skipped is SkipReason.SCHEDULE_READ_ERROR


def test_a_run_finds_what_the_unfinished_one_before_it_saved(room: Room, diary: Diary) -> None:
    async def saves(run: Run) -> None:
        async with run.transaction():
            run.save({"page": 3})
        with suppress(ZeroDivisionError):
            async with run.transaction():
                run.save({"page": 4})
                raise ZeroDivisionError
        raise ValueError("here it ends")

    room.enter(saves, force=True)
    enter(room, diary, FORCED)
    assert diary.last["saved"] == {"page": 3}, "what was rolled back was not saved"
    enter(room, diary, FORCED)
    assert diary.last["saved"] is None, "a success clears it"


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [({1, 2}, TypeError, "a value that JSON can hold"), ("x" * 70_000, ValueError, "at most 65536 bytes")],
)
def test_what_cannot_be_saved_is_said(room: Room, value: Any, error: type[Exception], says: str) -> None:
    async def saves(run: Run) -> None:
        with pytest.raises(RuntimeError, match=r"belongs inside run\.transaction"):
            run.save(1)
        async with run.transaction():
            with pytest.raises(error, match=says):
                run.save(value)

    assert room.enter(saves).status is Status.SUCCESS


def test_a_database_that_was_down_over_five_slots_under_both_rules(room: Room, diary: Diary) -> None:
    """What a database that is down does to a schedule: nothing moves while time goes on."""
    both: list[dict[str, str]] = [{}, {"missed": "skip", "late": "1m"}]
    for rules in both:
        room.query("delete from refresh_schedule")
        first = enter(room, diary, **MINUTELY, **rules).slot
        assert first is not None
        age(room, 6 * MINUTE)
        runs = len(diary.runs)
        outcome = enter(room, diary, **MINUTELY, **rules)
        assert outcome.slot is not None
        assert (len(diary.runs) - runs, outcome.missed in (5, 6)) == (1, True)


def claimed_by_0_1(conn: psycopg.Connection) -> bool:
    """A run as version 0.1 asks for it and ends it, with its band of ten minutes."""
    row = conn.execute(
        "select acquired, fence, locked_by from public.acquire_refresh_lock(p_function_name => %s,"
        " p_request_id => gen_random_uuid(), p_lease => '5 minutes', p_backoff => '30 minutes')",
        [NAME],
    ).fetchone()
    assert row is not None
    if row[0]:
        conn.execute(
            "select public.finish_refresh_run(p_function_name => %s, p_request_id => %s, p_fence => %s,"
            " p_status => 'success', p_delay => '10 minutes')",
            [NAME, row[2], row[1]],
        )
    return bool(row[0])


@pytest.mark.parametrize("cadence", [MINUTELY, {"every": "1m"}, {"every": "10m..15m"}])
def test_a_rehearsed_rollback_to_version_0_1_and_back(room: Room, diary: Diary, cadence: dict[str, str]) -> None:
    assert enter(room, diary, **cadence).status is Status.SUCCESS
    age(room, 15 * MINUTE if ".." in cadence.get("every", "") else MINUTE)
    with psycopg.connect(room.dsn, autocommit=True) as older:
        assert claimed_by_0_1(older), "what is due by its plan is due for it, too"
        assert not claimed_by_0_1(older)
        age(room, 15 * MINUTE)
        # A cron waits for one who can plan it.
        assert claimed_by_0_1(older) is ("cron" not in cadence)
    age(room, 15 * MINUTE)
    assert enter(room, diary, **cadence).status is Status.SUCCESS
    slots = [slot for slot in slots_with_success(room) if slot is not None]
    assert len(slots) == len(set(slots)), "no slot had two runs"
