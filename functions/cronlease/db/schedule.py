"""What a person or a job does to schedules: one typed function per SQL function, with the same name.

`schedule_action` is for jobs, on a connection of theirs: in the transaction of `run.commit()` the new schedule and
the data it belongs to commit together. The others are queries for the command line. Not imported by a hit.
"""

from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, overload
from uuid import UUID

from cronlease import arguments
from cronlease.cadence import Every, duration
from cronlease.db.connection import ask_in_savepoint
from cronlease.db.functions import Query, call

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class Lock(NamedTuple):
    """What unlocking found."""

    unlocked: bool
    locked_by: str | None
    locked_until: datetime | None


class When(TypedDict, total=False):
    """Once, unless `every` is a band such as 10m..15m; due at once, unless `delay` (such as 2h) or `at` says when."""

    args: Mapping[str, Any]
    delay: timedelta | str
    at: datetime
    every: str
    replace: bool


@overload
def schedule_action(conn: "Connection[Any]", name: str, action: str, **when: Unpack[When]) -> datetime: ...


@overload
def schedule_action(
    conn: "AsyncConnection[Any]", name: str, action: str, **when: Unpack[When]
) -> Awaitable[datetime]: ...


def schedule_action(conn: Any, name: str, action: str, **when: Unpack[When]) -> datetime | Awaitable[datetime]:
    """Schedules the registered action under a name of its own, in whatever transaction the connection is in. Answers
    when it is first due, to be awaited on an async connection. Raises ValueError for what cannot be a schedule,
    AlreadyThere where the name is taken and not to be replaced, StillRunning where what is to be replaced runs; the
    transaction can go on after either."""
    at, delay, every = when.get("at"), when.get("delay"), when.get("every")
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        raise ValueError("at is a datetime with a time zone: write datetime(..., tzinfo=timezone.utc)")
    if not isinstance(delay, timedelta | str | None):
        raise ValueError('delay is a timedelta, or a text such as "2h"')
    params: dict[str, Any] = {
        "p_function_name": name,
        "p_action": action,
        "p_args": _stored(when.get("args", {})),
        "p_delay": duration(delay) if isinstance(delay, str) else delay,
        "p_at": at,
        "p_every": every if every is None else str(Every.parse(every)),
        "p_replace": when.get("replace", False),
    }
    query: Query[datetime] = _query("schedule_action", params, lambda row: row[1])
    return ask_in_savepoint(conn, query)


def pause_refresh(function_name: str, reason: str | None = None) -> Query[bool]:
    """False: it was paused already."""
    return _query("pause_refresh", {"p_function_name": function_name, "p_reason": reason}, _first)


def resume_refresh(function_name: str) -> Query[bool]:
    """False: it was not paused."""
    return _query("resume_refresh", {"p_function_name": function_name}, _first)


def delete_refresh(function_name: str) -> Query[bool]:
    return _query("delete_refresh", {"p_function_name": function_name}, _first)


def unlock_refresh(function_name: str, request_id: UUID | None = None) -> Query[Lock]:
    """With a request ID only where that one holds it."""
    params = {"p_function_name": function_name, "p_request_id": request_id}
    return _query("unlock_refresh", params, Lock._make)


def recover_stale_dispatches(older_than: timedelta) -> Query[int]:
    """Answers how many leases it cleared."""
    return _query("recover_stale_dispatches", {"p_older_than": older_than}, _first)


def _stored(args: Mapping[str, Any]) -> str:
    try:
        return arguments.encode(args)
    except ValueError as error:
        raise ValueError(f"args cannot be stored as JSON: {error}") from None


def _query(function: str, params: dict[str, Any], read: Any) -> Query[Any]:
    return Query(call(function, tuple(params)), params, read)


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]
