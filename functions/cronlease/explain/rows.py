"""Rows of refresh_status and refresh_runs as values, for the command line and the page."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.db.functions import read_refresh_schedule
from cronlease.db.queries import Query
from cronlease.explain.backends import Backend, statement, to_backends


class Schedule(NamedTuple):
    """A row of refresh_status."""

    function_name: str
    state: str
    due: bool
    action: str
    next_run_at: datetime | None = None
    last_run_at: datetime | None = None
    last_status: str | None = None
    last_error: str | None = None
    run_count: int = 0
    failures: int = 0
    abandoned: int = 0
    locked_by: str | None = None
    locked_until: datetime | None = None
    fence: int = 0
    every: str | None = None
    once: bool = False
    completed_at: datetime | None = None
    paused_at: datetime | None = None
    paused_reason: str | None = None
    args: dict[str, Any] | None = None
    every_is_readable: bool = True
    args_are_readable: bool = True
    cron: str | None = None
    time_zone: str | None = None
    missed: str | None = None
    late: str | None = None
    attempts: int | None = None
    attempt: int = 0
    slot_at: datetime | None = None
    last_slot_at: datetime | None = None
    last_success_slot_at: datetime | None = None
    planned_from: str | None = None
    planned_at: datetime | None = None
    planned_before: str | None = None
    late_at: datetime | None = None
    late_alert: str | None = None
    pause_after: int | None = None
    probe: str | None = None
    breaker_until: datetime | None = None
    incident_at: datetime | None = None
    health: str = "ok"


class PastRun(NamedTuple):
    """The columns of refresh_runs that are shown; a run in progress has no finished_at."""

    request_id: str
    status: str
    trigger: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None


class Details(NamedTuple):
    """One schedule, its newest runs, the backends that block it and the database's time; `as_json` is the database's
    whole answer about the schedule."""

    now: datetime
    schedule: Schedule
    runs: list[PastRun]
    as_json: dict[str, Any]
    backends: list[Backend]


def read_details(name: str, runs: int, *, args: bool = True, backends: bool = True) -> Query[Details | None]:
    """All of it in one query; None if there is no such schedule. The caller's role sees some of the backends, or all;
    one that may not ask for them leaves them out."""
    query = read_refresh_schedule(name, runs, args=args)
    if not backends:
        return query._replace(read=lambda row: _details(row[0], []))  # type: ignore[arg-type, return-value]
    text = f"select answer.*, ({statement()}) from ({query.text}) answer"  # noqa: S608 (both are our own)
    return Query(text, {**query.params, "name": name}, lambda row: _details(row[0], row[1]))


def _details(document: dict[str, Any], backends: list[dict[str, Any]]) -> Details | None:
    if not document["schedule"]:
        return None
    past = [PastRun(**_only(PastRun._fields, run)) for run in document["runs"]]
    now, schedule = datetime.fromisoformat(document["now"]), to_schedule(document["schedule"])
    return Details(now, schedule, past, document, to_backends(backends))


def to_schedule(row: Mapping[str, Any]) -> Schedule:
    return Schedule(**_only(Schedule._fields, row))


def _only(fields: Collection[str], row: Mapping[str, Any]) -> dict[str, Any]:
    """Ignores columns that only a newer schema has."""
    return {name: value for name, value in with_times(row).items() if name in fields}


def with_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its times as datetimes. A column's name says whether it is one."""
    return {name: _moment(value) if _is_time(name, value) else value for name, value in row.items()}


def _is_time(name: str, value: Any) -> bool:
    return isinstance(value, str) and (name == "slot" or name.endswith(("_at", "_until")))


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # Infinity, or a year beyond what Python can hold.
        return None
