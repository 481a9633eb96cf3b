"""`schedule_action`, for jobs, on their own connection: in the transaction of `run.commit()` the new schedule and its
data commit together. Not imported before it is used."""

from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from cronlease import arguments
from cronlease.cadence import HIT, Cadence, duration
from cronlease.db.ask import ask_in_savepoint
from cronlease.db.queries import Query, call

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection


class When(TypedDict, total=False):
    """When an action runs: once, unless `every` is a band such as 10m..15m or a beat such as 6h, or `cron` gives the
    times in `time_zone`. It is first due now, unless `delay` (such as 2h) or `at` says otherwise. Missed slots are
    run once; with missed="skip" no slot is run later than `late`. A slot gets `attempts` runs. After `pause_after`
    failed runs in a row only a probe runs, `probe` later. `late_alert` is how late a run may be before an alert says
    so."""

    args: Mapping[str, Any]
    delay: timedelta | str
    at: datetime
    every: str
    cron: str
    time_zone: str
    missed: str
    late: timedelta | str
    attempts: int
    late_alert: timedelta | str
    pause_after: int
    probe: timedelta | str
    replace: bool


@overload
def schedule_action(conn: "Connection[Any]", name: str, action: str, **when: Unpack[When]) -> datetime | None: ...


@overload
def schedule_action(
    conn: "AsyncConnection[Any]", name: str, action: str, **when: Unpack[When]
) -> Awaitable[datetime | None]: ...


def schedule_action(
    conn: Any, name: str, action: str, **when: Unpack[When]
) -> datetime | Awaitable[datetime | None] | None:
    """Schedules the registered action under a name of its own, in whatever transaction the connection is in. Returns
    when it is first due, awaitable on an async connection; None for a cron, which is planned by whoever looks first.
    Raises ValueError for an invalid schedule, AlreadyThere if the name is taken and `replace` is not set,
    StillRunning if the schedule to replace is running; the transaction can go on after any of them."""
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
        "p_every": every if every is None else every_text(every),
        "p_replace": when.get("replace", False),
    }
    params |= _cadence(when)
    query: Query[datetime | None] = call("schedule_action", params, lambda row: row[1])
    return ask_in_savepoint(conn, query)


def every_text(every: str) -> str:
    """The text that the column holds. Raises ValueError for anything but a band or a beat."""
    cadence = Cadence.parse(every)
    if cadence.text == HIT:
        raise ValueError(
            '"hit" is for a function with a trigger of its own: a schedule row needs a cadence such as 10m..15m'
        )
    if cadence.cron is not None:
        raise ValueError(f"{every!r} is a cron: pass it as cron, and its zone as time_zone")
    return cadence.text


def _cadence(when: When) -> dict[str, Any]:
    """An older database does not know these arguments: each is sent only if it is given. Raises ValueError."""
    late, late_alert, probe = when.get("late"), when.get("late_alert"), when.get("probe")
    if cron := when.get("cron"):
        Cadence.of_cron(cron, when.get("time_zone"))
    given = {
        "p_cron": cron,
        "p_time_zone": when.get("time_zone"),
        "p_missed": when.get("missed"),
        "p_late": duration(late) if isinstance(late, str) else late,
        "p_attempts": when.get("attempts"),
        "p_late_alert": duration(late_alert) if isinstance(late_alert, str) else late_alert,
        "p_pause_after": when.get("pause_after"),
        "p_probe": duration(probe) if isinstance(probe, str) else probe,
    }
    return {name: value for name, value in given.items() if value is not None}


def _stored(args: Mapping[str, Any]) -> str:
    try:
        return arguments.encode(args)
    except ValueError as error:
        raise ValueError(f"args cannot be stored as JSON: {error}") from None
