"""Schedules as the command line reads them: the rows of refresh_status and refresh_runs, with times as times."""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from cronlease.cli.backends import Backend, in_the_way
from cronlease.cli.table import shown
from cronlease.db.connection import ask_sync
from cronlease.db.functions import Query
from cronlease.errors import UnknownSchedule

if TYPE_CHECKING:
    from psycopg import Connection

_TIMES = {"next_run_at", "last_run_at", "locked_until", "completed_at", "paused_at", "started_at", "finished_at"}


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


class PastRun(NamedTuple):
    """What of refresh_runs is shown; one that is still running has no end."""

    request_id: str
    status: str
    trigger: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None


class Look(NamedTuple):
    """One schedule, its newest runs, the backends in its way and what time it was in the database; `as_json` is all
    that the database said of the schedule."""

    now: datetime
    schedule: Schedule
    runs: list[PastRun]
    as_json: dict[str, Any]
    backends: list[Backend]


def look(conn: "Connection[Any]", name: str, *, runs: int = 5) -> Look:
    """Raises UnknownSchedule."""
    found = ask_sync(conn, _query("schedule", {"name": name, "runs": runs}))
    if found["schedule"] is None:
        raise UnknownSchedule(name)
    past = [PastRun(**{field: _read(field, run[field]) for field in PastRun._fields}) for run in found["runs"]]
    now, schedule = datetime.fromisoformat(found["now"]), read_schedule(found["schedule"])
    return Look(now, schedule, past, found, in_the_way(conn, name))


def listed(conn: "Connection[Any]", state: str | None, limit: int) -> tuple[datetime, list[Schedule], list[Any]]:
    """What time it is, the schedules, and the same as the database wrote them."""
    found = ask_sync(conn, _query("schedules", {"state": state, "limit": limit}))
    return datetime.fromisoformat(found["now"]), list(map(read_schedule, found["schedules"])), found["schedules"]


@contextmanager
def known(conn: "Connection[Any]", name: str) -> Iterator[None]:
    """An unknown name in the block ends the verb with a sentence that says which one may have been meant."""
    try:
        yield
    except UnknownSchedule:
        names: list[str] = ask_sync(conn, _query("names", {}))
        near = difflib.get_close_matches(name, names, n=1)
        hint = f'did you mean "{near[0]}"?' if near else "`cronlease schedule list` shows those there are"
        raise click.ClickException(shown(f'there is no schedule named "{name}": {hint}')) from None


def read_schedule(row: dict[str, Any]) -> Schedule:
    return Schedule(**{name: _read(name, value) for name, value in row.items()})


def _read(name: str, value: Any) -> Any:
    if name not in _TIMES or value is None:
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        # Infinity, or a year that no clock will show.
        return None


def _query(file: str, params: dict[str, Any]) -> Query[Any]:
    """One of the questions beside this module: each answers one document."""
    return Query(Path(__file__).with_name(f"{file}.sql").read_text("utf-8"), params, lambda row: row[0])
