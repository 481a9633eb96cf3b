"""Schedules as the command line reads them: the rows of refresh_status and refresh_runs, with times as times."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cronlease.cli.backends import Backend, blocking_backends
from cronlease.cli.questions import questions_of
from cronlease.cli.table import one_line
from cronlease.errors import UnknownSchedule

if TYPE_CHECKING:
    from psycopg import Connection

_ask = questions_of(__file__)
_TIMES = {"next_run_at", "last_run_at", "locked_until", "completed_at", "paused_at", "started_at", "finished_at"}
_TIMES |= {"slot_at", "last_slot_at", "last_success_slot_at", "planned_at"}


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


def read_details(conn: "Connection[Any]", name: str, *, runs: int = 5) -> Details:
    """Raises UnknownSchedule."""
    document = _ask(conn, "read_schedule", name=name, runs=runs)
    if document["schedule"] is None:
        raise UnknownSchedule(name)
    past = [PastRun(**{field: _value(field, run[field]) for field in PastRun._fields}) for run in document["runs"]]
    now, schedule = datetime.fromisoformat(document["now"]), to_schedule(document["schedule"])
    return Details(now, schedule, past, document, blocking_backends(conn, name))


def list_schedules(
    conn: "Connection[Any]", state: str | None, limit: int
) -> tuple[datetime, list[Schedule], list[Any]]:
    """The database's time, the schedules, and the same as the database wrote them."""
    document = _ask(conn, "list_schedules", state=state, limit=limit)
    rows = document["schedules"]
    return datetime.fromisoformat(document["now"]), list(map(to_schedule, rows)), rows


@contextmanager
def explaining_unknown(conn: "Connection[Any]", name: str) -> Iterator[None]:
    """An unknown name in the block ends the verb with a sentence that suggests a similar one."""
    try:
        yield
    except UnknownSchedule:
        near = difflib.get_close_matches(name, _ask(conn, "schedule_names"), n=1)
        hint = f'did you mean "{near[0]}"?' if near else "`cronlease schedule list` shows those there are"
        raise click.ClickException(one_line(f'there is no schedule named "{name}": {hint}')) from None


def to_schedule(row: dict[str, Any]) -> Schedule:
    known = Schedule._fields
    return Schedule(**{name: _value(name, value) for name, value in row.items() if name in known})


def _value(name: str, value: Any) -> Any:
    if name not in _TIMES or value is None:
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        # Infinity, or a year that no clock will show.
        return None
