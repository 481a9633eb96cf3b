"""The schedules at a glance, as `status` shows them: a row of cells for each. Pure but for the one question."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cronlease.cli.brief import short, sparkline, took
from cronlease.cli.format import beside
from cronlease.cli.rows import Schedule, read_schedule
from cronlease.db.connection import ask_sync
from cronlease.db.functions import Query

if TYPE_CHECKING:
    from psycopg import Connection

HEADING = ("name", "state", "holder", "lease left", "next run", "durations", "last result", "error")
# On a narrow terminal those go that a glance can do without.
SPARE = ("holder", "durations", "lease left")
_RECENT = 12
_ORDER = {"dispatching": 0, "stale": 0, "pending": 1, "paused": 2, "completed": 3}


class Glance(NamedTuple):
    """What the database said, and what time it was there."""

    now: datetime
    schedules: list[tuple[Schedule, list[float]]]
    as_json: dict[str, Any]
    # As many as were asked for: there may be more of them.
    is_full: bool = False

    def cells(self, now: datetime) -> list[tuple[Schedule, tuple[str, ...]]]:
        """What runs first, then what is due next, what has completed last."""
        return [(row, _cells(row, seconds, now)) for row, seconds in sorted(self.schedules, key=_place)]


def look(conn: "Connection[Any]", limit: int) -> Glance:
    text = Path(__file__).with_name("status.sql").read_text("utf-8")
    found = ask_sync(conn, Query(text, {"limit": limit}, lambda row: dict(row[0])))
    schedules = []
    for row in found["schedules"]:
        fields = {name: value for name, value in row.items() if name != "seconds"}
        schedules.append((read_schedule(fields), [float(each) for each in row["seconds"][-_RECENT:]]))
    return Glance(datetime.fromisoformat(found["now"]), schedules, found, len(schedules) == limit)


def _place(found: tuple[Schedule, list[float]]) -> tuple[int, float, str]:
    row = found[0]
    return _ORDER[row.state], row.next_run_at.timestamp() if row.next_run_at else 0, row.function_name


def _cells(row: Schedule, seconds: list[float], now: datetime) -> tuple[str, ...]:
    return (
        row.function_name,
        row.state,
        # The beginning tells two apart, and finds it in the log.
        (row.locked_by or "")[:8],
        _lease_left(row, now),
        _next(row, now),
        f"{sparkline(seconds)} {took(seconds[-1])}" if seconds else "",
        _last(row, now),
        beside(row.last_status, row.last_error),
    )


def _lease_left(row: Schedule, now: datetime) -> str:
    if row.locked_until is None:
        return ""
    return short(row.locked_until - now) if row.locked_until > now else "ran out"


def _next(row: Schedule, now: datetime) -> str:
    if row.state in ("completed", "paused"):
        return ""
    if row.state == "dispatching" and row.locked_until and row.locked_until > now:
        return "running"
    if row.next_run_at is None:
        return "due now" if row.due else "never"
    if row.next_run_at > now:
        return f"in {short(row.next_run_at - now)}"
    late = now - row.next_run_at
    return "due now" if late.total_seconds() < 1 else f"due for {short(late)}"


def _last(row: Schedule, now: datetime) -> str:
    if row.last_status is None:
        return ""
    when = f" {short(now - row.last_run_at)} ago" if row.last_run_at and row.last_run_at <= now else ""
    failures = f" ×{row.failures}," if row.failures > 1 else ""
    return f"{row.last_status}{failures}{when}"
