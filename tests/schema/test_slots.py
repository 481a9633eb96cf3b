"""Slots in SQL: early hits, plans, attempts, deliveries, and what a finish without a plan leaves behind.

Which slot is next is computed elsewhere; here a slot is any given time. Time is moved by ageing rows.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.schema.calls import (
    JOB,
    acquire,
    call,
    change,
    claim_due,
    create,
    expire,
    finish,
    one,
    physical_row,
    recover,
    refused,
    renew,
    row,
    run,
    schedule,
    seconds_ahead,
)

CRON = "0 9 * * * UTC"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def slot(conn: psycopg.Connection, seconds: float) -> datetime:
    """A time so many seconds from now, on the database's clock."""
    ahead = one(conn, "select clock_timestamp() + %s * interval '1 second'", [seconds])
    assert isinstance(ahead, datetime)
    return ahead


def planned(conn: psycopg.Connection, seconds: float, planned_from: str = CRON, more: str = "") -> None:
    """A row whose next slot is so many seconds ahead."""
    at = f"clock_timestamp() + {seconds} * interval '1 second'"
    schedule(conn, JOB, f"planned_from = '{planned_from}', next_run_at = {at} {more}")
    change(conn, "slot_at = next_run_at")


def ended(
    conn: psycopg.Connection, status: str = "success", *, claim: dict[str, Any] | None = None, **more: Any
) -> UUID:
    """A run of the row that ended so."""
    request = uuid4()
    claimed = acquire(conn, request, **(claim or {}))
    assert claimed.acquired, claimed.reason
    finish(conn, request, claimed.fence, status, **more)
    return request


@pytest.mark.parametrize(
    ("planned_from", "ahead", "comes"),
    [(CRON, 4, True), (CRON, 20, False), ("6h", 25, True), ("6h", 45, False), ("1m", 4, True), ("1m", 20, False)],
)
def test_a_hit_may_come_a_little_early_and_a_dispatcher_never(
    conn: psycopg.Connection, planned_from: str, ahead: int, comes: bool
) -> None:
    planned(conn, ahead, planned_from)
    assert not claim_due(conn).acquired
    assert not acquire(conn, uuid4()).acquired, "version 0.1 does not ask for it"
    before = physical_row(conn)
    assert acquire(conn, uuid4(), early=True).acquired is comes
    assert (physical_row(conn) == before) is not comes


def test_a_retry_waits_for_its_time_and_is_not_early(conn: psycopg.Connection) -> None:
    planned(conn, 3)
    change(conn, "slot_at = next_run_at - interval '1 hour'")
    assert acquire(conn, uuid4(), early=True).reason == "not_due"


def test_a_cron_that_nobody_has_planned_is_not_due_and_a_beat_is(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert acquire(conn, uuid4(), cadence=CRON).reason == "not_due"
    assert claim_due(conn, JOB, cadences=[CRON]).reason == "not_due"
    assert call(conn, "due_refreshes", actions=[JOB], cadences=[CRON]).due == 0
    assert acquire(conn, uuid4(), cadence="6h").acquired


def test_a_plan_is_written_only_over_the_plan_it_was_made_from(conn: psycopg.Connection) -> None:
    planned(conn, 600, "6h")
    at = row(conn)["next_run_at"]
    later = slot(conn, 900)
    new = {"function_name": JOB, "cadence": CRON, "slot_at": later}
    assert not call(conn, "plan_refresh", planned_from="1h", next_run_at=at, **new)[0]
    assert not call(conn, "plan_refresh", planned_from="6h", next_run_at=later, **new)[0]
    assert call(conn, "plan_refresh", planned_from="6h", next_run_at=at, **new)[0]
    assert not call(conn, "plan_refresh", planned_from="6h", next_run_at=at, **new)[0], "it is planned by now"
    found = row(conn)
    assert (found["planned_from"], found["planned_before"]) == (CRON, "6h")
    assert found["slot_at"] == found["next_run_at"]
    assert 880 < seconds_ahead(conn, "next_run_at") <= 900
    assert seconds_ahead(conn, "planned_at") <= 0


def test_a_row_that_runs_is_not_planned(conn: psycopg.Connection) -> None:
    planned(conn, -1, "6h")
    at, request = row(conn)["next_run_at"], uuid4()
    acquire(conn, request)
    new = {"function_name": JOB, "planned_from": "6h", "next_run_at": at, "cadence": CRON, "slot_at": slot(conn, 9)}
    assert not call(conn, "plan_refresh", **new)[0]


def test_a_delay_counts_from_the_end_of_the_last_run(conn: psycopg.Connection) -> None:
    planned(conn, 3600, more=", last_run_at = clock_timestamp() - interval '10 minutes'")
    at = row(conn)["next_run_at"]
    plan = {"function_name": JOB, "planned_from": CRON, "next_run_at": at, "cadence": "15m..15m"}
    assert call(conn, "plan_refresh", delay=15 * MINUTE, **plan)[0]
    assert 280 < seconds_ahead(conn, "next_run_at") <= 300
    assert row(conn)["slot_at"] is None


def test_a_finish_with_a_plan_goes_on_with_the_next_slot(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    served, following = row(conn)["slot_at"], slot(conn, 600)
    request = ended(conn, planned_from=CRON, slot_at=following)
    found = row(conn)
    assert (run(conn, request)["slot"], run(conn, request)["attempt"]) == (served, 1)
    assert (found["last_slot_at"], found["last_success_slot_at"], found["attempt"]) == (served, served, 0)
    assert found["slot_at"] == found["next_run_at"]
    assert 580 < seconds_ahead(conn, "slot_at") <= 600


def test_a_failed_slot_is_tried_again_after_the_backoff_until_it_is_out_of_attempts(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    served, following = row(conn)["slot_at"], slot(conn, 86400)
    for attempt in (1, 2):
        request = ended(conn, "failed", delay=MINUTE, planned_from=CRON, slot_at=following)
        assert run(conn, request)["attempt"] == attempt
        assert row(conn)["slot_at"] == served
        assert 40 < seconds_ahead(conn, "next_run_at") <= 60
        change(conn, "next_run_at = clock_timestamp()")
    ended(conn, "failed", delay=MINUTE, planned_from=CRON, slot_at=following)
    found = row(conn)
    assert 86300 < seconds_ahead(conn, "slot_at") <= 86400
    assert (found["attempt"], found["last_slot_at"], found["last_success_slot_at"]) == (0, served, None)


def test_an_abandoned_run_counts_and_the_slot_that_is_out_of_attempts_waits_for_a_plan(
    conn: psycopg.Connection,
) -> None:
    planned(conn, -1)
    for _ in range(2):
        assert acquire(conn, uuid4(), attempts=2, backoff=timedelta(0)).acquired
        expire(conn)
    assert acquire(conn, uuid4(), attempts=2).reason == "not_due"
    assert claim_due(conn, JOB, most_attempts=[2]).reason == "not_due"
    (plan,) = one(conn, "select public.unplanned_refreshes(p_actions => '{job}', p_most_attempts => '{2}')")
    assert (plan["function_name"], plan["attempt"]) == (JOB, 2)


def test_an_interrupted_run_does_not_count_as_an_attempt(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    for _ in range(5):
        ended(conn, "interrupted", planned_from=CRON, slot_at=slot(conn, 600))
    assert (row(conn)["attempt"], row(conn)["slot_at"] == row(conn)["next_run_at"]) == (0, True)


def test_a_retry_that_would_fall_after_the_next_slot_gives_the_slot_up(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    ended(conn, "failed", delay=HOUR, planned_from=CRON, slot_at=slot(conn, 600))
    assert 580 < seconds_ahead(conn, "slot_at") <= 600
    assert row(conn)["slot_at"] == row(conn)["next_run_at"]


def test_a_retry_that_would_be_too_late_gives_the_slot_up(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    ended(conn, "failed", delay=20 * MINUTE, planned_from=CRON, slot_at=slot(conn, 86400), late=10 * MINUTE)
    assert 86300 < seconds_ahead(conn, "slot_at") <= 86400


def test_a_slot_that_is_too_late_is_not_run(conn: psycopg.Connection) -> None:
    planned(conn, -700)
    assert acquire(conn, uuid4(), late=10 * MINUTE).reason == "not_due"
    change(conn, "missed = 'once'")
    assert acquire(conn, uuid4(), late=10 * MINUTE).acquired, "the row's own rule comes first"


def test_a_forced_run_leaves_the_slot_where_it_is(conn: psycopg.Connection) -> None:
    planned(conn, 600)
    before = row(conn)
    for status, more in (("success", {}), ("failed", {"delay": HOUR}), ("success", {"planned_from": CRON})):
        request = ended(conn, status, claim={"force": True}, **more)
        assert (run(conn, request)["slot"], run(conn, request)["attempt"]) == (None, None)
        after = row(conn)
        for name in ("next_run_at", "slot_at", "attempt", "last_slot_at", "planned_from", "planned_at"):
            assert after[name] == before[name], name


def test_without_a_plan_a_cron_waits_unplanned_and_a_beat_keeps_its_anchor(conn: psycopg.Connection) -> None:
    planned(conn, -1)
    ended(conn, delay=HOUR)
    assert (row(conn)["next_run_at"], row(conn)["slot_at"]) == (None, None)
    assert acquire(conn, uuid4()).reason == "not_due"
    change(conn, "planned_from = '6h', next_run_at = clock_timestamp(), slot_at = clock_timestamp() - interval '1 s'")
    anchor = row(conn)["slot_at"]
    ended(conn, delay=6 * HOUR)
    assert row(conn)["slot_at"] == anchor
    assert seconds_ahead(conn, "next_run_at") > 21000
    change(conn, "next_run_at = clock_timestamp()")
    request = uuid4()
    assert acquire(conn, request).acquired
    assert run(conn, request)["slot"] is None, "that slot has had its success"


def test_a_later_slot_and_what_was_missed_are_recorded_by_the_holder_alone(conn: psycopg.Connection) -> None:
    planned(conn, -600)
    request, later = uuid4(), slot(conn, -5)
    fence = acquire(conn, request).fence
    change(conn, "attempt = 2")
    served = {"function_name": JOB, "request_id": request, "slot_at": later, "missed_count": 4}
    with refused("CL001"):
        call(conn, "serve_refresh_slot", fence=fence + 1, **served)
    assert call(conn, "serve_refresh_slot", fence=fence, **served)[0] == 1, "another slot begins to count anew"
    recorded = run(conn, request)
    assert (recorded["missed"], recorded["attempt"]) == (4, 1)
    assert recorded["slot"] == row(conn)["slot_at"] == row(conn)["last_slot_at"]


def test_a_delivery_that_had_its_success_is_a_duplicate_where_the_trigger_owns_the_schedule(
    conn: psycopg.Connection,
) -> None:
    schedule(conn)
    hit: dict[str, Any] = {"cadence": "hit", "delivery": "nightly 2026-11-18T09:00:00Z"}
    ended(conn, "failed", claim=hit, planned_from="hit")
    ended(conn, "success", claim=hit, planned_from="hit")
    assert row(conn)["planned_from"] == "hit"
    before = physical_row(conn)
    assert acquire(conn, uuid4(), **hit).reason == "duplicate"
    assert acquire(conn, uuid4(), force=True, **hit).reason == "duplicate"
    assert physical_row(conn) == before
    ended(conn, claim={**hit, "delivery": "nightly 2026-11-18T10:00:00Z"}, planned_from="hit")
    ended(conn, claim={"cadence": "hit"}, planned_from="hit")
    assert acquire(conn, uuid4(), cadence="10m..15m", delivery=hit["delivery"]).acquired, "only for such a trigger"


def test_a_delivery_that_had_its_success_is_a_duplicate_and_takes_no_lock(conn: psycopg.Connection) -> None:
    schedule(conn)
    hit: dict[str, Any] = {"cadence": "hit", "delivery": "nightly"}
    ended(conn, "success", claim=hit, planned_from="hit")
    with conn.transaction():
        assert acquire(conn, uuid4(), **hit).reason == "duplicate"
        text = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        assert one(conn, text) == 0


def test_a_delivery_from_the_future_is_a_manual_run_and_uses_up_nothing(conn: psycopg.Connection) -> None:
    schedule(conn)
    hit: dict[str, Any] = {"cadence": "hit", "delivery": "nightly"}
    for _ in range(2):
        request = ended(conn, claim={**hit, "delivery_at": slot(conn, 60)}, planned_from="hit")
        assert run(conn, request)["delivery"] is None
    ended(conn, claim={**hit, "delivery_at": slot(conn, 4)}, planned_from="hit")
    assert acquire(conn, uuid4(), **hit).reason == "duplicate"


def test_dispatchers_leave_a_row_alone_whose_trigger_owns_the_schedule(conn: psycopg.Connection) -> None:
    assert call(conn, "ensure_schedule", function_name=JOB, planned_from="hit")[0] == "created"
    assert not claim_due(conn).acquired
    assert not claim_due(conn, JOB).acquired
    assert not claim_due(conn, JOB, cadences=["6h"]).acquired, "another revision's cadence does not make it due"
    assert call(conn, "due_refreshes", actions=[JOB]).due == 0
    assert call(conn, "due_refreshes", actions=[JOB], cadences=["6h"]).due == 0
    schedule(conn, "new")
    assert not claim_due(conn, "new", cadences=["hit"]).acquired, "its function says so before it was ever hit"
    assert claim_due(conn, "new").acquired
    assert not one(conn, "select due from public.refresh_status where function_name = 'job'")


def test_a_one_shot_that_is_out_of_attempts_is_paused_and_a_person_can_resume_it(conn: psycopg.Connection) -> None:
    create(conn, attempts=2)
    ended(conn, "failed")
    assert row(conn)["paused_at"] is None
    ended(conn, "failed")
    assert "out of attempts: 2" in row(conn)["paused_reason"]
    assert acquire(conn, uuid4()).reason == "paused"
    call(conn, "resume_refresh", function_name=JOB)
    # Its process dies from now on: nobody is left to pause it.
    for _ in range(2):
        assert acquire(conn, uuid4(), backoff=timedelta(0)).acquired
        expire(conn)
    assert acquire(conn, uuid4()).reason == "not_due"
    at = row(conn)["next_run_at"]
    assert call(conn, "plan_refresh", function_name=JOB, planned_from=None, next_run_at=at, cadence=None)[0]
    assert "out of attempts: 2" in row(conn)["paused_reason"]
    assert one(conn, "select state from public.refresh_status where function_name = 'job'") == "paused"
    assert call(conn, "read_refresh_schedule", function_name=JOB)[0]["schedule"]["health"] == "paused"
    assert recover(conn) == 1
    assert (row(conn)["locked_by"], row(conn)["paused_at"] is None) == (None, False)


def test_one_shots_have_any_number_of_attempts_unless_said(conn: psycopg.Connection) -> None:
    create(conn)
    for _ in range(5):
        ended(conn, "failed")
    assert row(conn)["attempt"] == 5


def test_what_a_run_saves_is_there_until_a_success(conn: psycopg.Connection) -> None:
    schedule(conn)
    request = uuid4()
    fence = acquire(conn, request).fence
    call(
        conn, "renew_refresh_lock", function_name=JOB, request_id=request, fence=fence, lease=MINUTE, saved={"at": 3}
    )
    assert renew(conn, request, fence) == "renewed"
    finish(conn, request, fence, "failed")
    assert row(conn)["saved"] == {"at": 3}
    ended(conn, "interrupted")
    assert row(conn)["saved"] == {"at": 3}
    ended(conn, "partial")
    assert row(conn)["saved"] is None


def test_the_details_of_a_claim_come_with_it_and_with_a_skip_only_where_a_plan_is_needed(
    conn: psycopg.Connection,
) -> None:
    text = (
        "select c.reason, public.refresh_details(p_function_name => 'job', p_acquired => c.acquired,"
        " p_reason => c.reason, p_cadence => %(cadence)s)"
        " from public.acquire_refresh_lock(p_function_name => 'job', p_request_id => %(id)s,"
        " p_cadence => %(cadence)s) c"
    )
    planned(conn, 600, "10m..15m")
    assert conn.execute(text, {"cadence": "10m..15m", "id": uuid4()}).fetchone() == ("not_due", None)
    found = conn.execute(text, {"cadence": CRON, "id": uuid4()}).fetchone()
    assert found is not None
    assert (found[0], found[1]["planned_from"]) == ("not_due", "10m..15m")
    change(conn, "next_run_at = clock_timestamp(), slot_at = null")
    found = conn.execute(text, {"cadence": CRON, "id": uuid4()}).fetchone()
    assert found is not None
    assert (found[0], found[1]["attempt"]) == (None, 1), "read after the claim"


def test_rows_that_somebody_edited_are_found_for_the_planner(conn: psycopg.Connection) -> None:
    create(conn, "cron", cron="0 9 * * *", time_zone="Europe/Berlin")
    create(conn, "beat", every="6h", delay=HOUR)
    create(conn, "band", every="10m..15m", delay=HOUR)
    create(conn, "shot", delay=HOUR)
    text = "select public.unplanned_refreshes(p_actions => '{work}', p_cadences => '{1h}')"
    assert [each["function_name"] for each in one(conn, text)] == ["cron"]
    change(conn, "every = '1h'", "beat")
    change(conn, "every = '1h..2h'", "band")
    assert {each["function_name"] for each in one(conn, text)} == {"cron", "beat", "band"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"every": "hit"}, "trigger of its own"),
        ({"cron": "0 9 * *"}, "is not a cron expression"),
        ({"cron": "0 9 * * *", "every": "6h"}, "not both"),
        ({"cron": "0 9 * * *", "delay": HOUR}, "leave out the time and the delay"),
        ({"cron": "0 9 * * *", "time_zone": "Mars/Crater"}, "not a time zone"),
        ({"time_zone": "UTC"}, "is for a cron"),
        ({"every": "6h", "missed": "twice"}, "once or skip"),
        ({"every": "6h", "missed": "skip"}, "give both"),
        ({"every": "6h", "late": HOUR}, "give both"),
        ({"every": "6h", "attempts": 0}, "at least one attempt"),
        ({"every": "6h..7h", "attempts": 2}, "6h..7h has none: leave them out"),
        ({"every": "6h..7h", "missed": "skip", "late": HOUR}, "6h..7h has none: leave out missed and late"),
    ],
)
def test_what_cannot_be_a_cadence_is_refused_in_a_sentence(
    conn: psycopg.Connection, more: dict[str, Any], says: str
) -> None:
    with refused("22023") as caught:
        create(conn, **more)
    assert says in str(caught.value)


def test_an_unreadable_cron_stops_its_row_and_no_other(conn: psycopg.Connection) -> None:
    schedule(conn, "bad", "cron = 'every morning', next_run_at = clock_timestamp() - interval '1 h', action = 'work'")
    schedule(conn, "good", "next_run_at = clock_timestamp() - interval '1 s', action = 'work'")
    assert acquire(conn, uuid4(), "bad").reason == "schedule_read_error"
    assert claim_due(conn, "work").function_name == "good"


def test_the_end_of_a_run_moves_no_entry_of_an_index(conn: psycopg.Connection) -> None:
    """HOT: the new version of the run lies on its page, and the index of deliveries is not touched."""
    schedule(conn)
    request = uuid4()
    claim = acquire(conn, request, cadence="hit", delivery="one")
    finish(conn, request, claim.fence)
    conn.execute("select pg_stat_force_next_flush()") if conn.info.server_version >= 150000 else None
    indexed = one(
        conn,
        "select array_agg(a.attname::text) from pg_index i"
        " join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)"
        " where i.indrelid = 'public.refresh_runs'::regclass",
    )
    assert {"status", "finished_at", "missed", "slot", "attempt"}.isdisjoint(indexed)
