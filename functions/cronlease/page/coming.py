"""When a schedule runs next: its next slots where its cadence has any, else the one time that is planned. Pure."""

from datetime import datetime, timedelta
from typing import NamedTuple

from cronlease.cadence import duration
from cronlease.explain.rows import Schedule
from cronlease.slots import Beat, Cron, Slots
from cronlease.slots import coming as next_slots

_SHOWN = 5


class Coming(NamedTuple):
    """The times, the first one first, and what is so about the cadence."""

    times: list[datetime]
    cadence: str


def coming(row: Schedule, now: datetime) -> Coming:
    if row.once:
        return Coming(_planned(row), "once")
    text = row.every if row.cron is None else f"{row.cron} {row.time_zone or 'UTC'}"
    text = text or row.planned_from or ""
    if text == "hit":
        return Coming([], "at each hit: its trigger decides when")
    if row.completed_at is not None or row.paused_at is not None:
        return Coming([], text)
    slots = _slots(text, row)
    if slots is None:
        return Coming(_planned(row), f"{text}, counted from the end of each run" if text else "its function's own")
    # A slot that is being retried is not over.
    planned = [moment for moment in _planned(row) if moment <= now]
    return Coming([*planned, *next_slots(slots, now, _SHOWN - len(planned))], text)


def _planned(row: Schedule) -> list[datetime]:
    return [row.next_run_at] if row.next_run_at is not None and row.completed_at is None else []


def _slots(text: str, row: Schedule) -> Slots | None:
    """None for a band, and for what cannot be read."""
    anchor = row.slot_at or row.next_run_at
    try:
        if " " in text:
            expression, _, zone = text.rpartition(" ")
            return Cron.parse(expression, zone)
        beat = duration(text) if text and ".." not in text else timedelta()
        return Beat(anchor, beat) if beat and anchor else None
    except ValueError:
        return None
