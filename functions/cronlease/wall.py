"""One typed function per SQL function, with the same name. A query is data: whoever has a connection sends it.

The wall itself is in schema/functions: every race is closed there, none here.
"""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from cronlease.outcome import Counts, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query(Generic[T]):
    """One call of one SQL function, and how its row is read."""

    text: str
    params: Mapping[str, Any]
    read: Callable[[tuple[Any, ...]], T]


class Claim(NamedTuple):
    acquired: bool
    reason: str | None
    fence: int | None
    locked_by: str | None
    locked_until: datetime | None
    next_run_at: datetime | None
    action: str | None
    args: dict[str, Any] | None
    every: str | None
    failures: int | None


class Finish(NamedTuple):
    status: Status
    next_run_at: datetime | None


def acquire_refresh_lock(
    function_name: str,
    request_id: UUID,
    lease: timedelta,
    *,
    force: bool = False,
    trigger: str = "manual",
    job_name: str | None = None,
    schedule_time: str | None = None,
    args: Mapping[str, Any] | None = None,
    backoff: timedelta = timedelta(minutes=30),
) -> Query[Claim]:
    """What a hit did not say is left to the function's defaults: a plain hit sends four parameters."""
    params: dict[str, Any] = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_lease": lease,
        "p_backoff": backoff,
    }
    if trigger != "manual":
        params |= {"p_trigger": trigger, "p_job_name": job_name, "p_schedule_time": schedule_time}
    if force:
        params["p_force"] = True
    if args:
        params["p_args"] = json.dumps(args)
    return Query(_acquire_text(tuple(params)), params, Claim._make)


@functools.cache
def _acquire_text(names: tuple[str, ...]) -> str:
    given = ", ".join(f"{name} => %({name})s{'::jsonb' if name == 'p_args' else ''}" for name in names)
    return f"select * from public.acquire_refresh_lock({given})"  # noqa: S608 (the names are this module's)


def ensure_schedule(function_name: str) -> Query[str]:
    """Answers created, exists or locked."""
    return Query(
        "select public.ensure_schedule(p_function_name => %(name)s)",
        {"name": function_name},
        lambda row: str(row[0]),
    )


def renew_refresh_lock(function_name: str, request_id: UUID, fence: int, lease: timedelta) -> Query[str]:
    """Answers renewed, busy or lost."""
    return Query(
        "select public.renew_refresh_lock(p_function_name => %(name)s, p_request_id => %(id)s,"
        " p_fence => %(fence)s, p_lease => %(lease)s)",
        {"name": function_name, "id": request_id, "fence": fence, "lease": lease},
        lambda row: str(row[0]),
    )


def assert_lease(function_name: str, request_id: UUID, fence: int) -> Query[None]:
    return Query(
        "select public.assert_lease(p_function_name => %(name)s, p_request_id => %(id)s, p_fence => %(fence)s)",
        {"name": function_name, "id": request_id, "fence": fence},
        lambda _: None,
    )


def finish_refresh_run(
    function_name: str,
    request_id: UUID,
    fence: int,
    status: Status,
    delay: timedelta,
    *,
    error: str | None,
    counts: Counts,
    retention: timedelta,
) -> Query[Finish]:
    return Query(
        "select * from public.finish_refresh_run(p_function_name => %(name)s, p_request_id => %(id)s,"
        " p_fence => %(fence)s, p_status => %(status)s, p_delay => %(delay)s, p_error => %(error)s,"
        " p_fetched => %(fetched)s, p_inserted => %(inserted)s, p_updated => %(updated)s,"
        " p_unchanged => %(unchanged)s, p_closed => %(closed)s, p_retention => %(retention)s)",
        {
            "name": function_name,
            "id": request_id,
            "fence": fence,
            "status": status.value,
            "delay": delay,
            "error": error,
            "retention": retention,
            **counts.as_json(),
        },
        lambda row: Finish(Status(row[0]), row[1]),
    )


def release_refresh_lock(function_name: str, request_id: UUID) -> Query[bool]:
    return Query(
        "select public.release_refresh_lock(p_function_name => %(name)s, p_request_id => %(id)s)",
        {"name": function_name, "id": request_id},
        lambda row: bool(row[0]),
    )


def read_refresh_status() -> Query[dict[str, Any]]:
    return Query("select public.read_refresh_status()", {}, lambda row: dict(row[0]))
