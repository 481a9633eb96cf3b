"""The schedules as `status` shows them: a row of cells for each. Pure, except for read_overview."""

from datetime import datetime
from typing import Any, NamedTuple

from cronlease.db.conninfo import SyncConnection
from cronlease.db.questions import Questions
from cronlease.explain.format import short, sparkline, took, without_status
from cronlease.explain.rows import Schedule, to_schedule

HEADING = ("name", "state", "holder", "lease left", "next run", "durations", "last result", "error")
# Dropped first on a narrow terminal.
SPARE = ("holder", "durations", "lease left")
_RECENT = 12
_ask = Questions(__file__)
_ORDER = {"dispatching": 0, "stale": 0, "late": 1, "pending": 1, "breaker_open": 1, "paused": 2, "completed": 3}


class Overview(NamedTuple):
    """What the database answered, and when by its clock."""

    now: datetime
    schedules: list[tuple[Schedule, list[float]]]
    as_json: dict[str, Any]
    # The limit was reached: there may be more.
    is_full: bool = False

    def cells(self, now: datetime) -> list[tuple[Schedule, tuple[str, ...]]]:
        """Running schedules first, then by when they are due; completed ones last."""
        return [(row, _cells(row, seconds, now)) for row, seconds in sorted(self.schedules, key=_place)]


def read_overview(conn: SyncConnection, limit: int) -> Overview:
    document = _ask(conn, "read_overview", limit=limit)
    schedules = [(to_schedule(row), list(map(float, row["seconds"][-_RECENT:]))) for row in document["schedules"]]
    return Overview(datetime.fromisoformat(document["now"]), schedules, document, len(schedules) == limit)


def _place(schedule: tuple[Schedule, list[float]]) -> tuple[int, float, str]:
    row = schedule[0]
    return _ORDER[row.state], row.next_run_at.timestamp() if row.next_run_at else 0, row.function_name


def _cells(row: Schedule, seconds: list[float], now: datetime) -> tuple[str, ...]:
    return (
        row.function_name,
        row.state,
        # Enough to tell two apart, and to find the run in the log.
        (row.locked_by or "")[:8],
        _lease_left(row, now),
        _next(row, now),
        f"{sparkline(seconds)} {took(seconds[-1])}" if seconds else "",
        _last(row, now),
        without_status(row.last_status, row.last_error),
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
        if row.planned_from == "hit" and not row.every:
            return "at each hit"
        waits = "not planned yet" if row.cron or " " in (row.planned_from or "") else "never"
        return "due now" if row.due else waits
    if row.breaker_until is not None and row.next_run_at > now:
        return f"probe in {short(row.next_run_at - now)}"
    if row.next_run_at > now:
        # A retry of a slot that has passed.
        of = f", slot {row.slot_at:%d %H:%M:%S}" if row.slot_at and row.slot_at < row.next_run_at else ""
        return f"in {short(row.next_run_at - now)}{of}"
    late = now - row.next_run_at
    return "due now" if late.total_seconds() < 1 else f"due for {short(late)}"


def _last(row: Schedule, now: datetime) -> str:
    if row.last_status is None:
        return ""
    when = f" {short(now - row.last_run_at)} ago" if row.last_run_at and row.last_run_at <= now else ""
    failures = f" ×{row.failures}," if row.failures > 1 else ""
    return f"{row.last_status}{failures}{when}"
