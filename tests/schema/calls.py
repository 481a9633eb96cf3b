"""The SQL functions as the tests call them, and schedule rows to call them on. Knows nothing of cronlease's Python.

Time is moved by ageing rows only. Rows are read as JSON: each value, infinite times too, can be compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

JOB = "job"
LEASE = timedelta(minutes=5)
WAITS = "select exists (select from pg_locks where not granted and pid = %s)"

AHEAD = "next_run_at = clock_timestamp() + interval '1 hour'"
HELD = "locked_by = 'somebody', locked_until = clock_timestamp() + interval '10 minutes'"
PASSED_OVER = {
    "paused": "paused_at = clock_timestamp()",
    "completed": "once = true, completed_at = clock_timestamp()",
    "held": HELD,
    "its cadence is no band": "every = 'now and then'",
    "not due": AHEAD,
    "never": "next_run_at = 'infinity'",
}
"""What is so about a row that no claim takes -> the changes that make it so."""


def call(conn: psycopg.Connection, function: str, **arguments: Any) -> Any:
    """The one row that the function answers; an argument `lease` is sent by name, as p_lease."""
    return next(iter(call_all(conn, function, **arguments)), None)


def call_all(conn: psycopg.Connection, function: str, **arguments: Any) -> list[Any]:
    """The rows that it answers."""
    given = {f"p_{name}": Jsonb(value) if isinstance(value, dict) else value for name, value in arguments.items()}
    query = sql.SQL("select * from public.{}({})").format(
        sql.Identifier(function),
        sql.SQL(", ").join(sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in given),
    )
    return conn.cursor(row_factory=namedtuple_row).execute(query, given).fetchall()


def acquire(conn: psycopg.Connection, request_id: UUID, function_name: str = JOB, **more: Any) -> Any:
    return call(conn, "acquire_refresh_lock", function_name=function_name, request_id=request_id, **more)


def claim_due(conn: psycopg.Connection, *actions: str, request_id: UUID | None = None, **more: Any) -> Any:
    """A claim of whatever is due of these actions, or of any; by a request of its own."""
    return call(
        conn,
        "claim_due_refresh",
        request_id=request_id or uuid4(),
        actions=list(actions) if actions else None,
        **more,
    )


def claim_many(conn: psycopg.Connection, requests: list[UUID], *actions: str, **more: Any) -> list[Any]:
    """The rows that claim_due_refreshes answers to these requests."""
    given = {"request_ids": requests, "actions": list(actions) if actions else None, **more}
    return call_all(conn, "claim_due_refreshes", **given)


def finish_many(conn: psycopg.Connection, *ends: dict[str, Any]) -> list[Any]:
    return call_all(conn, "finish_refresh_runs", ends=Jsonb(list(ends)))


def create(
    conn: psycopg.Connection, function_name: str | None = JOB, action: str | None = "work", **more: Any
) -> Any:
    return call(conn, "schedule_action", function_name=function_name, action=action, **more)


def finish(
    conn: psycopg.Connection,
    request_id: UUID,
    fence: int,
    status: str | None = "success",
    function_name: str = JOB,
    **more: Any,
) -> Any:
    return call(
        conn,
        "finish_refresh_run",
        function_name=function_name,
        request_id=request_id,
        fence=fence,
        status=status,
        **more,
    )


def renew(conn: psycopg.Connection, request_id: UUID, fence: int, lease: timedelta = LEASE) -> str:
    answer = call(conn, "renew_refresh_lock", function_name=JOB, request_id=request_id, fence=fence, lease=lease)
    return str(answer[0])


def assert_lease(conn: psycopg.Connection, request_id: UUID, fence: int) -> None:
    call(conn, "assert_lease", function_name=JOB, request_id=request_id, fence=fence)


def release(conn: psycopg.Connection, request_id: UUID) -> bool:
    return bool(call(conn, "release_refresh_lock", function_name=JOB, request_id=request_id)[0])


def recover(conn: psycopg.Connection, older_than: timedelta = timedelta(0)) -> int:
    return int(call(conn, "recover_stale_dispatches", older_than=older_than)[0])


def schedule(conn: psycopg.Connection, function_name: str = JOB, changes: str = "") -> None:
    """A schedule row, due now and free, and then as `changes` (the right side of an update's set) says."""
    conn.execute(
        "insert into public.refresh_schedule (function_name, action) values (%(name)s, %(name)s)",
        {"name": function_name},
    )
    if changes:
        change(conn, changes, function_name)


def due_for(conn: psycopg.Connection, name: str, seconds: int, action: str = "work") -> None:
    """A schedule row that has been due for so long."""
    schedule(conn, name, f"action = '{action}', next_run_at = clock_timestamp() - {seconds} * interval '1 second'")


def claimed_names(conn: psycopg.Connection, *actions: str) -> list[str]:
    """What one dispatcher is given until nothing is left."""
    names = []
    while (claim := claim_due(conn, *actions)).acquired:
        names.append(claim.function_name)
    assert claim.reason == "not_due"
    return names


def change(conn: psycopg.Connection, changes: str, function_name: str = JOB) -> None:
    conn.execute(f"update public.refresh_schedule set {changes} where function_name = %s", [function_name])


def expire(conn: psycopg.Connection, function_name: str = JOB) -> None:
    """The lease ran out a second ago."""
    change(conn, "locked_until = clock_timestamp() - interval '1 second'", function_name)


def make_due(conn: psycopg.Connection, function_name: str = JOB) -> None:
    change(conn, "next_run_at = clock_timestamp() - interval '1 second'", function_name)


def row(conn: psycopg.Connection, function_name: str = JOB) -> dict[str, Any]:
    text = "select to_jsonb(s) from public.refresh_schedule s where function_name = %s"
    return dict(one(conn, text, [function_name]))


def physical_row(conn: psycopg.Connection, function_name: str = JOB) -> Any:
    """Where the row's version lies and who wrote or locked it: another one after any write or row lock."""
    text = "select (ctid, xmin, xmax)::text from public.refresh_schedule where function_name = %s"
    return one(conn, text, [function_name])


def run(conn: psycopg.Connection, request_id: UUID) -> dict[str, Any]:
    return dict(one(conn, "select to_jsonb(r) from public.refresh_runs r where request_id = %s", [request_id]))


def runs(conn: psycopg.Connection) -> int:
    return int(one(conn, "select count(*) from public.refresh_runs"))


def seconds_ahead(conn: psycopg.Connection, column: str, function_name: str = JOB) -> float:
    """How far a time of the row lies ahead of the database's clock."""
    text = f"select extract(epoch from {column} - clock_timestamp()) from public.refresh_schedule"
    return float(one(conn, f"{text} where function_name = %s", [function_name]))


def one(conn: psycopg.Connection, text: str, params: Any = None) -> Any:
    """The first value of the first row; there must be one."""
    found = conn.execute(text, params).fetchone()
    assert found is not None, f"no row: {text}"
    return found[0]


@contextmanager
def refused(sqlstate: str) -> Iterator[pytest.ExceptionInfo[psycopg.Error]]:
    """The block ends in an error of the database with that SQLSTATE."""
    with pytest.raises(psycopg.Error) as caught:
        yield caught
    assert caught.value.sqlstate == sqlstate, caught.value


@contextmanager
def holding(dsn: str, text: str, params: Any = None) -> Iterator[psycopg.Connection]:
    """Another connection whose transaction did that statement and stays open; rolled back unless it was ended."""
    with psycopg.connect(dsn) as other:
        other.execute(text, params)
        yield other
        other.rollback()


@contextmanager
def transaction(conn: psycopg.Connection, how: str = "") -> Iterator[None]:
    """An explicit transaction on an autocommit connection, rolled back at the end."""
    conn.execute(f"begin {how}")
    try:
        yield
    finally:
        conn.execute("rollback")
