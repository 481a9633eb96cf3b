"""When a schedule runs next: its next slots where its cadence has any, else the one time that is planned. Pure."""

from datetime import datetime
from typing import NamedTuple

from cronlease.explain.plan import cadence_of, next_slots
from cronlease.explain.rows import Schedule


class Coming(NamedTuple):
    """The times, the first one first, and what is so about the cadence."""

    times: list[datetime]
    cadence: str


def coming(row: Schedule, now: datetime) -> Coming:
    rests = row.completed_at is not None or row.paused_at is not None
    planned = [row.next_run_at] if row.next_run_at is not None and not rests else []
    try:
        cadence = cadence_of(row)
    except ValueError as error:
        return Coming(planned, str(error))
    if row.once:
        return Coming(planned, "once")
    if cadence is None:
        return Coming(planned, "its function's own")
    if cadence.text == "hit":
        return Coming([], "at each hit: its trigger decides when")
    if cadence.has_slots:
        return Coming([] if rests else next_slots(row, cadence, now), cadence.text)
    return Coming(planned, f"{cadence.text}, counted from the end of each run")
