"""What changes between a claim's plain read and its lock on the row: it looks again, and reads the clock after that.

A table lock that readers do not notice keeps the claim in between for as long as the other one likes.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg

from tests.schema.calls import (
    AHEAD,
    HELD,
    acquire,
    call,
    change,
    claim_due,
    due_for,
    one,
    row,
    runs,
    schedule,
)

GATE = "lock table public.refresh_schedule in exclusive mode"
WAITS = "select exists (select from pg_locks where pid = %s and not granted)"
FREE = "locked_by = null, locked_until = null, next_run_at = null, paused_at = null, every = null, action = 'job'"
LEASE = timedelta(minutes=1)
MEANWHILE = {
    "locked": f"{HELD}, fence = fence + 1",
    "not_due": AHEAD,
    "paused": "paused_at = clock_timestamp()",
    "schedule_read_error": "every = 'now and then'",
    "unknown_action": "action = 'another'",
}
"""The answer of a claim -> what another one did to the row in between."""


def in_between(
    dsn: str, ask: Callable[[psycopg.Connection], Any], meanwhile: str, gate: str = GATE
) -> tuple[Any, datetime]:
    """The answer to one who asks, though the row changes after it was read; and when it could be locked."""
    with (
        psycopg.connect(dsn, autocommit=True) as caller,
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(dsn) as other,
    ):
        other.execute(gate)
        asking = thread.submit(ask, caller)
        deadline = time.monotonic() + 10
        while not one(other, WAITS, [caller.info.backend_pid]):
            assert time.monotonic() < deadline, "the claim never came to the lock"
            assert not asking.done(), asking.result()
        if meanwhile:
            other.execute(f"update public.refresh_schedule set {meanwhile} where function_name = 'job'")
        freed_at: datetime = one(other, "select clock_timestamp()")
        other.commit()
        return asking.result(10), freed_at


def test_a_claim_looks_again_once_it_has_the_row(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)
    for reason, meanwhile in MEANWHILE.items():
        change(conn, FREE)
        answer, _ = in_between(dsn, lambda caller: acquire(caller, uuid4(), actions=["job"]), meanwhile)
        assert (answer.acquired, answer.reason, answer.fence) == (False, reason, None)
    assert runs(conn) == 0


def test_a_lease_is_counted_from_when_the_row_was_had(dsn: str, conn: psycopg.Connection) -> None:
    """P16 again: also where what the claim waited for was the table."""
    schedule(conn)
    claim, freed_at = in_between(dsn, lambda caller: acquire(caller, uuid4(), lease=LEASE), "")
    assert claim.locked_until >= freed_at + LEASE


def test_a_dispatcher_passes_a_row_whose_action_became_another(dsn: str, conn: psycopg.Connection) -> None:
    """It was read as one that this dispatcher has."""
    schedule(conn)
    due_for(conn, "next", 1)
    claim, _ = in_between(dsn, lambda caller: claim_due(caller, "job", "work"), "action = 'another'")
    assert (claim.function_name, row(conn)["fence"]) == ("next", 0)


def test_a_deletion_looks_again_once_it_has_the_row(dsn: str, conn: psycopg.Connection) -> None:
    schedule(conn)

    def delete(caller: psycopg.Connection) -> str | None:
        try:
            caller.execute("select public.delete_refresh(p_function_name => 'job')")
        except psycopg.Error as error:
            return error.sqlstate
        return None

    refusal, _ = in_between(dsn, delete, MEANWHILE["locked"])
    assert (refusal, row(conn)["fence"]) == ("CL004", 1)


def test_ensuring_a_row_beside_an_insert_answers_as_that_ended(dsn: str) -> None:
    insert = "insert into public.refresh_schedule (function_name, action) values ('job', 'job')"
    answer, _ = in_between(dsn, lambda caller: call(caller, "ensure_schedule", function_name="job")[0], "", insert)
    assert answer == "exists"
