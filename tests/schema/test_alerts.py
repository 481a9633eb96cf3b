"""Alerts in SQL: what is told of a schedule, once for each incident, and who delivers it, in order."""

from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.schema.alerts import end, kinds, look, settle, told
from tests.schema.calls import (
    acquire,
    call,
    change,
    create,
    expire,
    finish,
    holding,
    one,
    recover,
    row,
    schedule,
    seconds_ahead,
)

HOUR = timedelta(hours=1)
LATE = "next_run_at = clock_timestamp() - interval '1 hour', late_at = clock_timestamp() - interval '1 minute'"


def pending(conn: psycopg.Connection) -> int:
    return int(one(conn, "select count(*) from public.refresh_alerts"))


def be_abandoned(conn: psycopg.Connection) -> None:
    acquire(conn, uuid4(), force=True)
    expire(conn)


def test_a_schedule_that_fails_is_alerted_once_and_once_when_it_is_well_again(conn: psycopg.Connection) -> None:
    schedule(conn)
    for status in ("success", "failed", "failed", "interrupted", "failed"):
        end(conn, status, error="no answer")
    found = look(conn, holder=(holder := uuid4()))
    assert [(each["kind"], each["times"], each["error"]) for each in found] == [("failing", 1, "no answer")]
    first = found[0]
    settle(conn, holder, delivered=[first["id"]])
    assert row(conn)["incident_at"] == first["since"]
    for status in ("partial", "success"):
        end(conn, status)
    assert [(each["kind"], each["since"]) for each in look(conn)] == [("recovered", first["since"])]
    assert (row(conn)["told"], row(conn)["incident_at"]) == ([], None)


def test_an_alert_about_an_open_breaker_has_the_time_of_its_probe(conn: psycopg.Connection) -> None:
    schedule(conn)
    for _ in range(4):
        end(conn, pause_after=2, probe=HOUR)
    found = look(conn)
    assert [each["kind"] for each in found] == ["failing", "breaker_open"]
    assert found[1]["times"] == 2
    assert found[1]["due_at"] is not None
    end(conn, "success")
    schedule(conn, "hasty")
    end(conn, function_name="hasty", pause_after=1, probe=HOUR, addresses=["there"])
    assert kinds(conn, "there") == ["breaker_open"], "that it opens says that it fails"


def test_a_failed_run_of_a_process_without_an_address_is_alerted_by_the_next_that_has_one(
    conn: psycopg.Connection,
) -> None:
    schedule(conn)
    end(conn, addresses=None)
    end(conn, addresses=[])
    assert (pending(conn), row(conn)["told"]) == (0, [])
    end(conn)
    assert [(each["kind"], each["times"]) for each in look(conn)] == [("failing", 3)]
    end(conn, "success", addresses=None)
    assert row(conn)["told"] == ["failing"]
    end(conn, "success")
    assert row(conn)["told"] == []


def test_a_new_address_gets_no_old_news(conn: psycopg.Connection) -> None:
    schedule(conn)
    end(conn)
    assert kinds(conn, "there") == []
    end(conn, "success", addresses=["here", "there"])
    assert kinds(conn, "there") == ["recovered"]
    assert kinds(conn, "here") == ["failing", "recovered"]


@pytest.mark.parametrize("found_by", ["claim", "recovery"])
def test_runs_that_never_finish_are_alerted_once_until_one_succeeds(conn: psycopg.Connection, found_by: str) -> None:
    schedule(conn)
    be_abandoned(conn)
    assert kinds(conn) == []
    if found_by == "recovery":
        recover(conn)
    else:
        be_abandoned(conn)
    found = look(conn, holder=(holder := uuid4()))
    assert [(each["kind"], each["times"]) for each in found] == [("abandoned", 1)]
    assert found[0]["error"].startswith("the run never finished")
    settle(conn, holder, delivered=[found[0]["id"]])
    be_abandoned(conn)
    assert kinds(conn) == []
    end(conn, "success")
    assert kinds(conn) == ["recovered"]


def test_an_abandoned_run_without_an_alert_is_alerted_with_the_end_of_the_next(conn: psycopg.Connection) -> None:
    schedule(conn)
    be_abandoned(conn)
    end(conn)
    assert kinds(conn) == ["abandoned", "failing"]


def test_a_lease_that_an_operator_broke_or_a_hit_gave_back_is_nothing_to_tell(conn: psycopg.Connection) -> None:
    schedule(conn)
    acquire(conn, uuid4())
    call(conn, "unlock_refresh", function_name="job")
    assert kinds(conn) == []
    schedule(conn, "other")
    acquire(conn, request := uuid4(), "other")
    call(conn, "release_refresh_lock", function_name=None, request_id=request)
    assert (row(conn, "other")["abandoned"], kinds(conn)) == (1, [])


def test_a_claim_that_nobody_used_causes_no_alert_at_the_next_end(conn: psycopg.Connection) -> None:
    schedule(conn)
    acquire(conn, request := uuid4())
    call(conn, "release_refresh_lock", function_name=None, request_id=request)
    end(conn, "success")
    assert kinds(conn) == []


def test_a_late_schedule_is_alerted_once_by_whoever_looks(conn: psycopg.Connection) -> None:
    schedule(conn, changes=LATE)
    schedule(conn, "free", "late_at = clock_timestamp() + interval '1 hour'")
    assert (told(conn), told(conn)) == ([("job", "late")], [])
    end(conn, "failed")
    end(conn, "success")
    assert kinds(conn) == ["failing", "recovered"]


@pytest.mark.parametrize(
    "because",
    [
        "paused_at = clock_timestamp()",
        "once = true, completed_at = clock_timestamp()",
        "breaker_until = clock_timestamp() - interval '1 minute'",
        "locked_by = 'somebody', locked_until = clock_timestamp() + interval '1 minute'",
        "next_run_at = clock_timestamp() + interval '1 minute'",
        "late_at = null",
        "told = '{late}'",
    ],
)
def test_nothing_is_late_that_is_not_to_run(conn: psycopg.Connection, because: str) -> None:
    schedule(conn, changes=LATE)
    change(conn, because)
    assert kinds(conn) == []
    if "told" not in because:
        assert call(conn, "read_refresh_health")[0]["late"] == []


def test_what_is_late_and_busy_is_left_to_the_next_look(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn, changes=LATE)
    with holding(dsn, "select from public.refresh_schedule for no key update"):
        assert kinds(conn) == []
    assert kinds(conn) == ["late"]


@pytest.mark.parametrize(
    ("cadence", "more", "minutes"),
    [
        ("10m..15m", {}, 15 + 30),
        ("1m..2m", {}, 15 + 10),
        ("6h", {}, 15 + 12 * 60),
        ("10m..15m", {"late_after": HOUR}, 15 + 60),
        ("hit", {}, None),
        ("hit", {"late_after": HOUR}, 60),
        ("0 9 * * * UTC", {}, None),
    ],
)
def test_how_late_is_late(conn: psycopg.Connection, cadence: str, more: dict[str, Any], minutes: int | None) -> None:
    """The next run is due in a quarter of an hour, as the cadence or its next slot says."""
    schedule(conn, changes=f"planned_from = '{cadence}', next_run_at = clock_timestamp()")
    request, delay = uuid4(), timedelta(minutes=15)
    slot = one(conn, "select clock_timestamp() + interval '15 minutes'") if ".." not in cadence else None
    plan: dict[str, Any] = {"planned_from": cadence, "slot_at": None if cadence == "hit" else slot}
    change(conn, "slot_at = next_run_at")
    finish(conn, request, acquire(conn, request).fence, delay=delay, **plan, **more)
    if minutes is None:
        assert row(conn)["late_at"] is None
    else:
        assert minutes * 60 - 20 < seconds_ahead(conn, "late_at") <= minutes * 60
    change(conn, "late_alert = interval '5 minutes'")
    finish(conn, (again := uuid4()), acquire(conn, again, force=True).fence, "failed", delay=delay, **plan, **more)
    ahead = 5 if cadence == "hit" else 20
    assert ahead * 60 - 20 < seconds_ahead(conn, "late_at") <= ahead * 60


def test_a_new_row_is_late_when_its_first_run_is(conn: psycopg.Connection) -> None:
    create(conn, "once", delay=HOUR)
    create(conn, "band", every="10m..15m", delay=HOUR)
    create(conn, "own", delay=HOUR, late_alert=timedelta(minutes=1))
    create(conn, "cron", cron="0 9 * * *")
    seconds = {name: seconds_ahead(conn, "late_at", name) for name in ("once", "band", "own")}
    assert {name: round(each / 60) for name, each in seconds.items()} == {"once": 70, "band": 90, "own": 61}
    assert row(conn, "cron")["late_at"] is None
    plan = {"planned_from": None, "next_run_at": None, "cadence": "0 9 * * * UTC", "late_after": 2 * HOUR}
    slot = one(conn, "select clock_timestamp() + interval '1 hour'")
    assert call(conn, "plan_refresh", function_name="cron", slot_at=slot, **plan)[0]
    assert round(seconds_ahead(conn, "late_at", "cron") / 60) == 180


def test_the_time_of_a_pause_does_not_make_it_late(conn: psycopg.Connection) -> None:
    schedule(conn, changes="next_run_at = clock_timestamp() - interval '2 hours'")
    change(conn, "late_at = next_run_at + interval '1 hour', paused_at = next_run_at - interval '1 minute'")
    call(conn, "resume_refresh", function_name="job")
    assert kinds(conn) == []
    assert 3600 < seconds_ahead(conn, "late_at") <= 3661


def test_each_address_has_its_own_order_and_one_deliverer_at_a_time(conn: psycopg.Connection) -> None:
    schedule(conn)
    for status in ("failed", "success", "failed"):
        end(conn, status, addresses=["here", "there"])
    mine, yours = uuid4(), uuid4()
    first = look(conn, holder=mine, limit=2)
    assert [(each["kind"], each["address"]) for each in first] == [("failing", "here"), ("recovered", "here")]
    assert [each["address"] for each in look(conn, "here", "there", holder=yours)] == ["there"] * 3
    settle(conn, mine, delivered=[first[0]["id"]], unsent=[first[1]["id"]])
    assert [each["kind"] for each in look(conn)] == ["recovered", "failing"]


def test_what_failed_waits_longer_each_time_and_all_behind_it_wait_too(conn: psycopg.Connection) -> None:
    schedule(conn)
    for status in ("failed", "success"):
        end(conn, status)
    waits = []
    for _ in range(3):
        found = look(conn, holder=(holder := uuid4()))
        assert [each["kind"] for each in found] == ["failing", "recovered"]
        settle(conn, holder, failed=[found[0]["id"]], unsent=[found[1]["id"]])
        assert look(conn) == []
        waits.append(one(conn, "select extract(epoch from max(held_until) - clock_timestamp()) from refresh_alerts"))
        conn.execute("update public.refresh_alerts set held_until = clock_timestamp()")
    assert [round(wait / 10) for wait in waits] == [1, 2, 4]
    conn.execute("update public.refresh_alerts set tries = 1000")
    settle(conn, holder, failed=[found[0]["id"]])
    assert one(conn, "select max(held_until) <= clock_timestamp() + interval '10 minutes' from refresh_alerts")


def test_a_deliverer_that_died_is_followed_by_another_and_changes_nothing_of_theirs(conn: psycopg.Connection) -> None:
    schedule(conn)
    end(conn)
    found = look(conn, holder=(dead := uuid4()))
    assert ([each["tries"] for each in found], look(conn)) == ([1], [])
    conn.execute("update public.refresh_alerts set held_until = clock_timestamp()")
    again = look(conn, holder=uuid4())
    assert [(each["id"], each["tries"]) for each in again] == [(found[0]["id"], 2)]
    settle(conn, dead, unsent=[found[0]["id"]])
    settle(conn, dead, failed=[found[0]["id"]])
    assert one(conn, "select held_until > clock_timestamp() + interval '20 seconds' from public.refresh_alerts")
    assert look(conn) == []


def test_what_nobody_could_deliver_within_a_day_is_dropped(conn: psycopg.Connection) -> None:
    schedule(conn)
    end(conn, addresses=["gone", "here"])
    conn.execute("update public.refresh_alerts set created_at = created_at - interval '25 hours'")
    assert look(conn) == []
    assert pending(conn) == 0


def test_many_that_look_at_the_same_time_alert_and_deliver_once(dsn: str, conn: psycopg.Connection) -> None:
    for number in range(20):
        schedule(conn, f"job {number}", LATE)
    with ExitStack() as stack:
        others = [stack.enter_context(psycopg.connect(dsn)) for _ in range(4)]
        # Nobody commits before all have looked.
        found = [look(other, limit=100) for other in others]
        for other in others:
            other.commit()
    assert [len(each) for each in found] == [20, 0, 0, 0]
    assert look(conn) == []


def test_two_that_look_at_the_same_time_do_not_split_alerts_that_have_an_order(
    dsn: str, conn: psycopg.Connection
) -> None:
    schedule(conn)
    for status in ("failed", "success"):
        end(conn, status)
    with psycopg.connect(dsn) as other:
        assert [each["kind"] for each in look(other, limit=1)] == ["failing"]
        assert look(conn) == [], "what comes after it waits"
        other.rollback()


def test_an_alert_that_cannot_be_written_does_not_keep_a_run_from_ending(conn: psycopg.Connection) -> None:
    schedule(conn)
    conn.execute("alter table public.refresh_alerts add constraint full_up check (false) not valid")
    try:
        assert end(conn).status == "failed"
    finally:
        conn.execute("alter table public.refresh_alerts drop constraint full_up")
    assert (row(conn)["failures"], row(conn)["told"]) == (1, [])
    end(conn)
    assert kinds(conn) == ["failing"]


def test_alerts_commit_with_the_end_of_the_run_or_not_at_all(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    with psycopg.connect(dsn) as other:
        end(other)
        other.rollback()
    assert (pending(conn), row(conn)["told"]) == (0, [])


def test_health_names_what_is_late_failing_and_stopped(conn: psycopg.Connection) -> None:
    assert call(conn, "read_refresh_health")[0] == {"late": [], "failing": [], "breaker_open": []}
    schedule(conn, "late", LATE)
    schedule(conn, "failing", "failures = 3")
    schedule(conn, "shaky", "failures = 2")
    schedule(conn, "open", "failures = 9, breaker_until = clock_timestamp()")
    schedule(conn, "paused", "failures = 9, paused_at = clock_timestamp()")
    assert call(conn, "read_refresh_health")[0] == {
        "late": ["late"],
        "failing": ["failing"],
        "breaker_open": ["open"],
    }
    assert one(conn, "select state from public.refresh_status where function_name = 'late'") == "late"
