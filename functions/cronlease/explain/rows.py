"""Schedules as the command line and the page read them: refresh_status and refresh_runs, with times as times."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.errors import UnknownSchedule
from cronlease.explain.backends import Backend

_TIMES = {"next_run_at", "last_run_at", "locked_until", "completed_at", "paused_at", "started_at", "finished_at"}
_TIMES |= {"slot_at", "last_slot_at", "last_success_slot_at", "planned_at", "late_at", "breaker_until", "incident_at"}
_TIMES |= {"slot", "done_at"}


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
    """What of refresh_runs is shown; one that is still running has no end."""

    request_id: str
    status: str
    trigger: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None


class Details(NamedTuple):
    """One schedule, its newest runs, the backends in its way and the database's time; `as_json` is all that the
    database answered about the schedule."""

    now: datetime
    schedule: Schedule
    runs: list[PastRun]
    as_json: dict[str, Any]
    backends: list[Backend]


def to_details(name: str, document: dict[str, Any], backends: list[Backend]) -> Details:
    """Of what read_refresh_schedule answers. Raises UnknownSchedule."""
    if document["schedule"] is None:
        raise UnknownSchedule(name)
    past = [PastRun(**{field: value_of(field, run[field]) for field in PastRun._fields}) for run in document["runs"]]
    now, schedule = datetime.fromisoformat(document["now"]), to_schedule(document["schedule"])
    return Details(now, schedule, past, document, backends)


def to_schedule(row: Mapping[str, Any]) -> Schedule:
    """Leaves out columns that a newer schema has."""
    return Schedule(**{name: value_of(name, row[name]) for name in Schedule._fields if name in row})


def value_of(name: str, value: Any) -> Any:
    """A column as Python has it: times are times."""
    if name not in _TIMES or value is None:
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        # Infinity, or a year that no clock will show.
        return None
