"""What a person does to a schedule: pause, resume, unlock and delete it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.schema.calls import (
    acquire,
    assert_lease,
    call,
    claim_due,
    expire,
    finish,
    holding,
    make_due,
    one,
    recover,
    refused,
    renew,
    row,
    run,
    runs,
    schedule,
    seconds_ahead,
)

VERBS = ("pause_refresh", "resume_refresh", "unlock_refresh", "delete_refresh")


def pause(conn: psycopg.Connection, reason: str | None = None) -> bool:
    return bool(call(conn, "pause_refresh", function_name="job", reason=reason)[0])


def resume(conn: psycopg.Connection) -> bool:
    return bool(call(conn, "resume_refresh", function_name="job")[0])


def test_an_unknown_name_is_the_same_error_as_in_a_claim(conn: psycopg.Connection) -> None:
    schedule(conn)
    with pytest.raises(psycopg.Error) as claimed:
        acquire(conn, uuid4(), "jobb")
    for verb in VERBS:
        with pytest.raises(psycopg.Error) as caught:
            call(conn, verb, function_name="jobb")
        assert (caught.value.sqlstate, str(caught.value.diag.message_primary)) == (
            "CL002",
            claimed.value.diag.message_primary,
        )
    assert one(conn, "select count(*) from public.refresh_schedule") == 1


@pytest.mark.thorough
def test_none_of_them_waits_longer_than_two_seconds(dsn: str, conn: psycopg.Connection) -> None:
    """Nor who creates a schedule beside an open transaction that creates it."""
    for verb in VERBS:
        schedule(conn, verb)
    creation = "insert into public.refresh_schedule (function_name, action) values ('new', 'work')"
    given = {verb: {"function_name": verb} for verb in VERBS}
    given["schedule_action"] = {"function_name": "new", "action": "work"}

    def told(verb: str) -> str | None:
        with psycopg.connect(dsn, autocommit=True, options="-c statement_timeout=10s") as own:
            with pytest.raises(psycopg.Error) as caught:
                call(own, verb, **given[verb])
            return caught.value.sqlstate

    with (
        holding(dsn, "select from public.refresh_schedule for update"),
        holding(dsn, creation),
        ThreadPoolExecutor(len(given)) as threads,
    ):
        answers = dict(zip(given, threads.map(told, given), strict=True))
    waited = ("pause_refresh", "resume_refresh", "unlock_refresh", "schedule_action")
    assert answers == {**dict.fromkeys(waited, "55P03"), "delete_refresh": "CL004"}


def test_a_paused_row_does_not_run_until_it_is_resumed(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert pause(conn, "the feed is moving")
    paused = row(conn)
    assert (paused["paused_at"] is None, paused["paused_reason"]) == (False, "the feed is moving")
    assert acquire(conn, uuid4()).reason == "paused"
    assert claim_due(conn, "job").reason == "not_due"

    assert resume(conn)
    assert (row(conn)["paused_at"], row(conn)["paused_reason"]) == (None, None)
    assert not resume(conn)
    assert claim_due(conn, "job").function_name == "job"


def test_pausing_again_keeps_the_time_and_takes_a_new_reason(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert pause(conn, "one")
    since = row(conn)["paused_at"]

    assert not pause(conn)
    assert row(conn)["paused_reason"] == "one"
    assert not pause(conn, "two")
    assert (row(conn)["paused_at"], row(conn)["paused_reason"]) == (since, "two")


def test_a_run_goes_on_and_finishes_though_its_row_is_paused(conn: psycopg.Connection) -> None:
    schedule(conn)
    request = uuid4()
    fence = acquire(conn, request).fence

    pause(conn)

    assert renew(conn, request, fence) == "renewed"
    assert finish(conn, request, fence).status == "success"
    assert acquire(conn, uuid4()).reason == "paused"


def test_an_unlocked_holder_can_never_write_again(conn: psycopg.Connection) -> None:
    schedule(conn)
    make_due(conn)
    holder = uuid4()
    claim = acquire(conn, holder)
    due = row(conn)["next_run_at"]

    answer = call(conn, "unlock_refresh", function_name="job")

    assert (answer.unlocked, answer.locked_by, answer.locked_until) == (True, str(holder), claim.locked_until)
    after, closed = row(conn), run(conn, holder)
    assert (after["locked_by"], after["locked_until"], after["next_run_at"]) == (None, None, due)
    assert (after["abandoned"], after["last_status"]) == (0, "abandoned")
    assert (closed["status"], closed["error"]) == ("abandoned", "the lease was broken by an operator")
    assert closed["finished_at"] is not None
    for write in (assert_lease, finish):
        with refused("CL001"):
            write(conn, holder, claim.fence)
    assert renew(conn, holder, claim.fence) == "lost"

    successor = uuid4()
    assert acquire(conn, successor).fence == claim.fence + 1
    assert row(conn)["abandoned"] == 0, "broken by a person is no crash"
    with refused("CL001"):
        finish(conn, holder, claim.fence)
    assert finish(conn, successor, claim.fence + 1).status == "success"


def test_unlocking_names_who_holds_it_and_can_be_meant_for_one_holder(conn: psycopg.Connection) -> None:
    schedule(conn)
    assert call(conn, "unlock_refresh", function_name="job") == (False, None, None)
    holder = uuid4()
    claim = acquire(conn, holder)
    before = row(conn)

    other = call(conn, "unlock_refresh", function_name="job", request_id=uuid4())
    assert other == (False, str(holder), claim.locked_until)
    assert row(conn) == before
    assert call(conn, "unlock_refresh", function_name="job", request_id=holder).unlocked
    assert not call(conn, "unlock_refresh", function_name="job", request_id=holder).unlocked


def test_a_lease_that_ran_out_or_never_ends_is_unlocked_too(conn: psycopg.Connection) -> None:
    schedule(conn, "job", "locked_by = 'somebody', locked_until = 'infinity'")
    assert call(conn, "unlock_refresh", function_name="job") == (True, "somebody", None)
    dead = uuid4()
    acquire(conn, dead)
    expire(conn)

    assert call(conn, "unlock_refresh", function_name="job").unlocked
    assert (run(conn, dead)["status"], row(conn)["abandoned"], recover(conn)) == ("abandoned", 0, 0)


def test_a_schedule_at_rest_is_deleted_and_its_history_stays(conn: psycopg.Connection) -> None:
    schedule(conn)
    schedule(conn, "other")
    finished, dead = uuid4(), uuid4()
    finish(conn, finished, acquire(conn, finished).fence)
    acquire(conn, dead)
    expire(conn)

    assert call(conn, "delete_refresh", function_name="job")[0] is True

    assert one(conn, "select array_agg(function_name) from public.refresh_schedule") == ["other"]
    assert (run(conn, finished)["status"], run(conn, dead)["status"], runs(conn)) == ("success", "abandoned", 2)
    with refused("CL002"):
        acquire(conn, uuid4())


def test_a_running_schedule_is_not_deleted(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    holder = uuid4()
    fence = acquire(conn, holder).fence
    with pytest.raises(psycopg.Error, match=r'"job" is running until .*: wait for it, or unlock it') as caught:
        call(conn, "delete_refresh", function_name="job")
    assert caught.value.sqlstate == "CL004"

    expire(conn)
    lock = "select public.assert_lease(p_function_name => 'job', p_request_id => %s, p_fence => %s)"
    with holding(dsn, lock, [holder, fence]), refused("CL004"):
        # Its lease is over, but its holder is writing.
        call(conn, "delete_refresh", function_name="job")

    assert finish(conn, holder, fence, delay=timedelta(hours=1)).status == "success"
    assert seconds_ahead(conn, "next_run_at") > 0
    assert call(conn, "delete_refresh", function_name="job")[0]


def test_a_schedule_locked_forever_is_reported_as_running_without_a_time(conn: psycopg.Connection) -> None:
    schedule(conn, "job", "locked_by = 'somebody', locked_until = 'infinity'")
    with pytest.raises(psycopg.Error, match='"job" is running: wait for it, or unlock it'):
        call(conn, "delete_refresh", function_name="job")
