"""What people do to a schedule: one typed function per SQL function, as in functions.py."""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from cronlease.db.queries import Query, call, first


class Lock(NamedTuple):
    """What unlock_refresh answers: the lease as it was."""

    unlocked: bool
    locked_by: str | None
    locked_until: datetime | None


def pause_refresh(function_name: str, reason: str | None = None, *, actor: str | None = None) -> Query[bool]:
    """Answers False if it was paused already."""
    params = {"p_function_name": function_name, "p_reason": reason, "p_actor": actor}
    return call("pause_refresh", params, first)


def resume_refresh(function_name: str, *, actor: str | None = None) -> Query[bool]:
    """Answers False if it was not paused."""
    return call("resume_refresh", {"p_function_name": function_name, "p_actor": actor}, first)


def delete_refresh(function_name: str, *, actor: str | None = None) -> Query[bool]:
    return call("delete_refresh", {"p_function_name": function_name, "p_actor": actor}, first)


def unlock_refresh(
    function_name: str, request_id: UUID | None = None, *, actor: str | None = None, reason: str | None = None
) -> Query[Lock]:
    """With a request ID, only if that request holds the lease."""
    params = {"p_function_name": function_name, "p_request_id": request_id, "p_actor": actor, "p_reason": reason}
    return call("unlock_refresh", params, Lock._make)


def record_refresh_operation(
    function_name: str, operation: str, *, actor: str, reason: str | None = None, request_id: UUID | None = None
) -> Query[None]:
    """For what no other function records: a run that somebody forced."""
    params = {
        "p_function_name": function_name,
        "p_operation": operation,
        "p_actor": actor,
        "p_reason": reason,
        "p_request_id": request_id,
    }
    return call("record_refresh_operation", params, lambda _: None)


def recover_stale_dispatches(older_than: timedelta) -> Query[int]:
    """Answers how many leases it cleared."""
    return call("recover_stale_dispatches", {"p_older_than": older_than}, first)
