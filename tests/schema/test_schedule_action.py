"""schedule_action: what it creates and what it refuses; and the life of a one-shot."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.schema.calls import (
    acquire,
    call,
    claim_due,
    create,
    finish,
    holding,
    one,
    refused,
    row,
    seconds_ahead,
)

SLACK = 20
"""Seconds that a slow machine may lie between a function's clock and ours."""

HOUR = timedelta(hours=1)
AT = datetime(2026, 12, 24, 18, tzinfo=UTC)


def state(conn: psycopg.Connection, function_name: str = "job") -> str:
    text = "select state from public.refresh_status where function_name = %s"
    return str(one(conn, text, [function_name]))


def test_a_one_shot_is_due_immediately_unless_it_says_when(conn: psycopg.Connection) -> None:
    answer = create(conn, args={"to": "Ada"})

    made = row(conn)
    assert answer.created
    assert answer.next_run_at == one(conn, "select next_run_at from public.refresh_schedule")
    assert (made["action"], made["args"], made["every"], made["once"]) == ("work", {"to": "Ada"}, None, True)
    assert -SLACK < seconds_ahead(conn, "next_run_at") <= 0
    assert (made["fence"], made["run_count"], made["completed_at"], made["paused_at"]) == (0, 0, None, None)

    create(conn, "in an hour", delay=HOUR)
    assert 3600 - SLACK < seconds_ahead(conn, "next_run_at", "in an hour") <= 3600
    assert create(conn, "at a time", at=AT).next_run_at == AT
    create(conn, "long ago", at=AT - timedelta(days=10_000), args=None)
    assert row(conn, "long ago")["args"] == {}

    assert [claim_due(conn, "work").function_name for _ in range(3)] == ["long ago", "job", None]


def test_one_with_a_cadence_comes_back(conn: psycopg.Connection) -> None:
    create(conn, every="10m..15m", delay=HOUR)
    made = row(conn)
    assert (made["every"], made["once"]) == ("10m..15m", False)
    request = uuid4()

    finish(conn, request, acquire(conn, request, force=True).fence, delay=timedelta(minutes=12))

    assert (row(conn)["completed_at"], state(conn)) == (None, "pending")


def test_a_one_shot_is_pending_then_dispatching_then_completed(conn: psycopg.Connection) -> None:
    create(conn)
    assert state(conn) == "pending"
    request = uuid4()
    claim = claim_due(conn, "work", request_id=request)
    assert (claim.function_name, state(conn)) == ("job", "dispatching")

    finish(conn, request, claim.fence)

    assert state(conn) == "completed"
    assert claim_due(conn, "work").reason == "not_due"
    assert acquire(conn, uuid4(), force=True).reason == "completed"


def test_a_one_shot_that_fails_is_pending_again_after_the_delay(conn: psycopg.Connection) -> None:
    create(conn)
    for status, delay in (("failed", HOUR), ("interrupted", timedelta(0))):
        request = uuid4()
        finish(conn, request, acquire(conn, request, force=True).fence, status, delay=delay)
        assert state(conn) == "pending"
        assert delay.total_seconds() - SLACK < seconds_ahead(conn, "next_run_at") <= delay.total_seconds()
    request = uuid4()

    claim = claim_due(conn, "work", request_id=request)
    assert (claim.acquired, claim.failures) == (True, 1)
    finish(conn, request, claim.fence)
    assert state(conn) == "completed"


MISTAKES: dict[str, dict[str, Any]] = {
    "needs a name": {"function_name": " "},
    "schedule needs a name": {"function_name": None},
    "needs an action": {"action": ""},
    "schedule needs an action": {"action": None},
    "name of a schedule has at most": {"function_name": "ä" * 501},
    "name of an action has at most": {"action": "a" * 1001},
    "not both": {"at": AT, "delay": HOUR},
    "infinity is not a time to run at": {"at": "infinity"},
    "not a time to run at": {"at": "20000-01-01"},
    "must not be negative": {"delay": timedelta(seconds=-1)},
    "at most 36500 days": {"delay": timedelta(days=36501)},
    '"now and then" is not a cadence': {"every": "now and then"},
    '"" is not a cadence': {"every": ""},
    '"10m..5m" is the wrong way round: write 5m..10m': {"every": "10m..5m"},
    '"10m..now" is not a cadence': {"every": "10m..now"},
    r"args are an object, not \[1\]": {"args": Jsonb([1])},
    "args are an object, not null": {"args": Jsonb(None)},
}


def test_what_makes_no_sense_is_refused_in_one_sentence(conn: psycopg.Connection) -> None:
    for sentence, arguments in MISTAKES.items():
        with pytest.raises(psycopg.Error, match=sentence) as caught:
            create(conn, **arguments)
        assert caught.value.sqlstate == "22023"
        assert "\n" not in str(caught.value.diag.message_primary)

    assert one(conn, "select count(*) from public.refresh_schedule") == 0


def test_a_name_that_is_taken_is_refused_and_nothing_changes(conn: psycopg.Connection) -> None:
    create(conn, args={"a": 1})
    before = row(conn)

    with pytest.raises(
        psycopg.Error,
        match='there is already a schedule named "job": delete it, choose another name, or replace it',
    ) as caught:
        create(conn, action="other", delay=HOUR)

    assert caught.value.sqlstate == "CL003"
    assert row(conn) == before
    with refused("CL003"):
        create(conn, replace=None)


def test_of_many_creators_at_the_same_time_one_creates_and_the_others_learn_of_it(
    dsn: str, conn: psycopg.Connection
) -> None:
    creators = 8
    barrier = Barrier(creators)

    def create_together(number: int) -> str | None:
        with psycopg.connect(dsn, autocommit=True) as own:
            barrier.wait(30)
            try:
                assert create(own, args={"by": number}).created
            except psycopg.Error as error:
                return error.sqlstate
            return None

    with ThreadPoolExecutor(creators) as threads:
        told = list(threads.map(create_together, range(creators)))

    assert sorted(told, key=str) == ["CL003"] * (creators - 1) + [None]
    assert row(conn)["args"] == {"by": told.index(None)}


CREATE = "select public.schedule_action(p_function_name => 'job', p_action => 'work')"


def test_creating_a_row_beside_an_open_transaction_waits_for_its_end(dsn: str, conn: psycopg.Connection) -> None:
    """Committed: the name is taken. Rolled back: it is free. And who only ensures the row does not wait at all."""
    for end, told in (("rollback", None), ("commit", "CL003")):
        with holding(dsn, CREATE) as first, ThreadPoolExecutor(1) as threads:
            assert call(conn, "ensure_schedule", function_name="job")[0] == "locked"
            with psycopg.connect(dsn, autocommit=True) as second:
                future = threads.submit(second.execute, CREATE)
                wait_for_a_lock(conn, second)
                first.execute(end)
                caught = future.exception(30)
        assert getattr(caught, "sqlstate", None) == told
        conn.execute("delete from public.refresh_schedule")


def wait_for_a_lock(conn: psycopg.Connection, waiter: psycopg.Connection) -> None:
    """Until that connection waits for somebody's lock."""
    waits = "select cardinality(pg_blocking_pids(%s)) > 0"
    while not one(conn, waits, [waiter.info.backend_pid]):
        pass
