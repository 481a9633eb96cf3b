"""One typed function per SQL function that a run needs, with the same name; schedule.py has the operator's.

A query is data: whoever has a connection sends it. The wall itself is in schema/functions: every race is closed
there, none here.

Every parameter is sent with its type. The server chooses among functions of one name by the types of their arguments,
so an untyped parameter would let somebody else's function be called in the place of ours.
"""

import functools
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from cronlease.outcome import Counts, Status

T = TypeVar("T")

_TYPES = {
    "p_function_name": "text",
    "p_request_id": "uuid",
    "p_parent_request_id": "uuid",
    "p_fence": "bigint",
    "p_lease": "interval",
    "p_leases": "interval[]",
    "p_backoff": "interval",
    "p_backoffs": "interval[]",
    "p_max_run": "interval",
    "p_delay": "interval",
    "p_retention": "interval",
    "p_older_than": "interval",
    "p_at": "timestamptz",
    "p_force": "boolean",
    "p_replace": "boolean",
    "p_trigger": "text",
    "p_job_name": "text",
    "p_schedule_time": "text",
    "p_action": "text",
    "p_actions": "text[]",
    "p_args": "jsonb",
    "p_with_args": "boolean",
    "p_every": "text",
    "p_reason": "text",
    "p_status": "text",
    "p_error": "text",
    "p_fetched": "bigint",
    "p_inserted": "bigint",
    "p_updated": "bigint",
    "p_unchanged": "bigint",
    "p_closed": "bigint",
}


class Query(NamedTuple, Generic[T]):
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
    # Only the dispatcher's claim says these: which row it got, or how long until there is one to get.
    function_name: str | None = None
    due_in: timedelta | None = None


class Finish(NamedTuple):
    status: Status
    next_run_at: datetime | None


class Due(NamedTuple):
    """What is due now, and what of it is not ours to run: its action is not registered here."""

    due: int
    unknown: int
    unknown_names: list[str]


def acquire_refresh_lock(
    function_name: str,
    request_id: UUID,
    lease: timedelta,
    *,
    max_run: timedelta | None = None,
    force: bool = False,
    trigger: str = "manual",
    job_name: str | None = None,
    schedule_time: str | None = None,
    args: Mapping[str, Any] | None = None,
    backoff: timedelta = timedelta(minutes=30),
    actions: Collection[str] | None = None,
    parent: UUID | None = None,
) -> Query[Claim]:
    """What a hit did not say is left to the function's defaults: a plain hit sends five parameters."""
    params: dict[str, Any] = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_lease": lease,
        "p_backoff": backoff,
    }
    if max_run is not None:
        params["p_max_run"] = max_run
    if trigger != "manual":
        params |= {"p_trigger": trigger, "p_job_name": job_name, "p_schedule_time": schedule_time}
    if force:
        params["p_force"] = True
    if args:
        params["p_args"] = json.dumps(args)
    if actions is not None:
        params["p_actions"] = _array(tuple(actions))
    if parent is not None:
        params["p_parent_request_id"] = parent
    return Query(call("acquire_refresh_lock", tuple(params)), params, _read_claim)


def claim_due_refresh(
    request_id: UUID,
    actions: Sequence[str],
    leases: Sequence[timedelta],
    backoffs: Sequence[timedelta],
    *,
    trigger: str,
    max_run: timedelta | None = None,
    parent: UUID | None = None,
) -> Query[Claim]:
    """Leases and backoffs run parallel to the actions."""
    params: dict[str, Any] = {
        "p_request_id": request_id,
        "p_actions": _array(tuple(actions)),
        "p_leases": _array(tuple(map(interval, leases))),
        "p_backoffs": _array(tuple(map(interval, backoffs))),
        "p_trigger": trigger,
    }
    if max_run is not None:
        params["p_max_run"] = max_run
    if parent is not None:
        params["p_parent_request_id"] = parent
    return Query(call("claim_due_refresh", tuple(params), _DUE_CLAIM), params, _read_due_claim)


def due_refreshes(actions: Collection[str]) -> Query[Due]:
    params = {"p_actions": _array(tuple(actions))}
    return Query(call("due_refreshes", tuple(params)), params, lambda row: Due(row[0], row[1], row[2] or []))


def ensure_schedule(function_name: str) -> Query[str]:
    """Answers created, exists or locked."""
    params = {"p_function_name": function_name}
    return Query(call("ensure_schedule", tuple(params)), params, lambda row: str(row[0]))


def renew_refresh_lock(function_name: str, request_id: UUID, fence: int, lease: timedelta) -> Query[str]:
    """Answers renewed, busy or lost."""
    params = {"p_function_name": function_name, "p_request_id": request_id, "p_fence": fence, "p_lease": lease}
    return Query(call("renew_refresh_lock", tuple(params)), params, lambda row: str(row[0]))


def assert_lease(function_name: str, request_id: UUID, fence: int) -> Query[str]:
    """Answers the ID of the transaction that has locked the row, for only_in."""
    params = {"p_function_name": function_name, "p_request_id": request_id, "p_fence": fence}
    text = call("assert_lease", tuple(params), "pg_catalog.pg_current_xact_id()::pg_catalog.text")
    return Query(text, params, lambda row: str(row[0]))


def only_in(transaction: str, query: Query[T]) -> Query[T]:
    """The same query, which shows its fence only in the transaction of that ID: in any other one the row's lock is
    gone, and without a fence the lease is not ours."""
    shown = (
        "case when pg_catalog.pg_current_xact_id_if_assigned() = %(p_transaction)s::pg_catalog.xid8"
        " then %(p_fence)s::pg_catalog.int8 end"
    )
    assert "%(p_fence)s" in query.text, "the query has a fence to show"
    text = query.text.replace("%(p_fence)s", f"({shown})")
    return query._replace(text=text, params={**query.params, "p_transaction": transaction})


def any_committed(transactions: Collection[str]) -> Query[bool]:
    """Whether one of the transactions with these IDs was committed."""
    return Query(
        "select coalesce(pg_catalog.bool_or(pg_catalog.pg_xact_status(id) = 'committed'), false)"
        " from pg_catalog.unnest(%(ids)s::pg_catalog.xid8[]) id",
        {"ids": "{" + ",".join(transactions) + "}"},
        lambda row: bool(row[0]),
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
    params: dict[str, Any] = {
        "p_function_name": function_name,
        "p_request_id": request_id,
        "p_fence": fence,
        "p_status": status.value,
        "p_delay": delay,
        "p_retention": retention,
    }
    if error is not None:
        params["p_error"] = error
    params |= {f"p_{name}": count for name, count in counts._asdict().items() if count is not None}
    text = call("finish_refresh_run", tuple(params))
    return Query(text, params, lambda row: Finish(Status(row[0]), row[1]))


def release_refresh_lock(function_name: str | None, request_id: UUID) -> Query[bool]:
    """Without a name: whichever row the request has claimed."""
    params = {"p_function_name": function_name, "p_request_id": request_id}
    return Query(call("release_refresh_lock", tuple(params)), params, lambda row: bool(row[0]))


def prune_refresh_history(retention: timedelta) -> Query[int]:
    """Deletes what is older; answers how many rows."""
    params = {"p_retention": retention}
    return Query(call("prune_refresh_history", tuple(params)), params, lambda row: int(row[0]))


def read_refresh_status(*, args: bool = True) -> Query[dict[str, Any]]:
    """Args: those of the runs, too, which are not for every eye."""
    params = {"p_with_args": args}
    return Query(call("read_refresh_status", tuple(params)), params, lambda row: dict(row[0]))


# The interval is asked for in seconds: how one is written depends on the session's IntervalStyle.
_DUE_CLAIM = ", ".join(
    "extract(epoch from due_in)::double precision" if name == "due_in" else name for name in Claim._fields
)


@functools.cache
def call(function: str, names: tuple[str, ...], columns: str = "*") -> str:
    """The call with just these arguments; a short one is quicker to send, and the defaults stay in one place."""
    given = ", ".join(f"{name} => %({name})s::{_TYPES[name]}" for name in names)
    return f"select {columns} from public.{function}({given})"  # noqa: S608 (the names are this module's own)


def _read_claim(row: tuple[Any, ...]) -> Claim:
    return Claim(*row)


def _read_due_claim(row: tuple[Any, ...]) -> Claim:
    claim = Claim(*row)
    return claim if row[-1] is None else claim._replace(due_in=timedelta(seconds=row[-1]))


@functools.cache
def _array(texts: tuple[str, ...]) -> str:
    """As Postgres writes an array; the type is the argument's."""
    quoted = ['"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts]
    return "{" + ",".join(quoted) + "}"


def interval(length: timedelta) -> str:
    """As every version reads it: PostgreSQL 14 takes no number over 2^31, which is 36 minutes in microseconds."""
    seconds, rest = divmod(length, timedelta(seconds=1))
    return f"{seconds} s {rest.microseconds} us"
