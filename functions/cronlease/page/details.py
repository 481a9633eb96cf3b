"""The page of one schedule: what read_refresh_schedule answers, as the template shows it. Pure."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.explain.format import without_status
from cronlease.explain.plan import NEXT_SLOT, cadence_of, next_slots
from cronlease.explain.rows import Details, Schedule, with_times
from cronlease.explain.sentences import sentences
from cronlease.outcome import Counts
from cronlease.page.chart import Chart, chart

# How a sentence about the next run begins.
_NEXT = "It is due", "It is not due", "It will not", "It cannot", "It is stopped", "It runs at each", "No function"
# What a form did: the word in the address it leads to, and its sentence.
SAID = {
    "ran": "It ran: the newest run below says how.",
    "failed": "It ran, but did not end well: the newest run below says why.",
    "paused": "It is paused. A run in progress may finish.",
    "already_paused": "It was paused already; a reason given now replaces the old one.",
    "resumed": "It may run again.",
    "not_paused": "It was not paused.",
    "unlocked": "The lease is broken: the run that had it can never write again.",
    "not_locked": "Nobody held the lease.",
    "held_by_another": "Another run holds the lease by now, and was left alone. Check again before you unlock.",
    "skipped_locked": "It did not run: another run holds the lease.",
    "skipped_breaker_open": "It did not run: its breaker is open. Resume it, or wait for the probe.",
    "skipped_paused": "It did not run: it is paused.",
    "skipped_completed": "It did not run: it runs only once, and has completed.",
    "skipped_schedule_read_error": "It did not run: the schedule could not be read. The log says why.",
    "skipped_shutting_down": "It did not run: this process is shutting down. Try again.",
    "skipped_unknown_action": "It did not run: no function of this process is its action.",
    "skipped_spawned": "It did not run: this process was started by a run.",
}


class Coming(NamedTuple):
    """The next slots if the cadence has any, else the one planned time; and the cadence in words."""

    times: list[datetime]
    cadence: str


class Shown(NamedTuple):
    now: datetime
    schedule: Schedule
    # The sentence of explain that matters most, and the others.
    lead: str
    sentences: list[str]
    coming: Coming
    args: str | None
    # Rows of refresh_runs, with `seconds` and `counts`.
    runs: list[dict[str, Any]]
    chart: Chart | None
    # Rows of refresh_operations.
    operations: list[dict[str, Any]]
    may_operate: bool
    can_run: bool


def of(details: Details, *, may_operate: bool, can_run: bool) -> Shown:
    explained = sentences(details)
    lead = _lead(details, explained)
    runs = [_past(run) for run in details.as_json["runs"]]
    args = details.schedule.args
    return Shown(
        details.now,
        details.schedule,
        lead,
        [sentence for sentence in explained if sentence != lead and not sentence.startswith(NEXT_SLOT)],
        coming(details.schedule, details.now),
        json.dumps(args, indent=2, ensure_ascii=False) if args else None,
        runs,
        chart([(run["status"], run["seconds"]) for run in reversed(runs)]),
        [with_times(each) for each in details.as_json["operations"]],
        may_operate,
        can_run,
    )


def _lead(details: Details, explained: list[str]) -> str:
    """The sentence that says that it is running, or whether and when it will."""
    starts = ("It is running",) if details.schedule.health == "running" else _NEXT
    return next((sentence for sentence in explained if sentence.startswith(starts)), explained[-1])


def _past(row: dict[str, Any]) -> dict[str, Any]:
    run = {"slot": None, "attempt": None, **with_times(row)}
    return {
        **run,
        "seconds": (run["finished_at"] - run["started_at"]).total_seconds() if run["finished_at"] else None,
        "counts": ", ".join(f"{name} {run[name]}" for name in Counts._fields if run[name] is not None),
        "error": without_status(run["status"], run["error"]),
    }


def coming(row: Schedule, now: datetime) -> Coming:
    is_at_rest = row.completed_at is not None or row.paused_at is not None
    planned = [row.next_run_at] if row.next_run_at is not None and not is_at_rest else []
    try:
        cadence = cadence_of(row)
    except ValueError as error:
        return Coming(planned, str(error))
    if row.once:
        return Coming(planned, "once")
    if cadence is None:
        return Coming(planned, "the function's own")
    if cadence.text == "hit":
        return Coming([], "at each hit: the trigger decides when")
    if cadence.has_slots:
        return Coming([] if is_at_rest else next_slots(row, cadence, now), cadence.text)
    return Coming(planned, f"{cadence.text}, counted from the end of each run")
