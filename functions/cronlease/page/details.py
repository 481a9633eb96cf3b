"""One schedule: what read_refresh_schedule answers, as the template shows it. Pure."""

import json
from datetime import datetime
from typing import Any, NamedTuple

from cronlease.explain.format import without_status
from cronlease.explain.plan import NEXT_SLOT
from cronlease.explain.rows import Details, Schedule, value_of
from cronlease.explain.sentences import sentences
from cronlease.page.chart import Chart, chart
from cronlease.page.coming import Coming, coming

_COUNTS = ("fetched", "inserted", "updated", "unchanged", "closed")
# What a form did: the word in the address that it leads to, and the sentence for it.
SAID = {
    "ran": "It ran: the newest run below says how.",
    "failed": "It ran and did not end well: the newest run below says why.",
    "paused": "It is paused. A run in progress may finish.",
    "already_paused": "It was paused already; the reason is the new one if one was given.",
    "resumed": "It may run again.",
    "not_paused": "It was not paused.",
    "unlocked": "The lease is broken: the run that had it can never write again.",
    "not_locked": "Nobody held the lease.",
    "held_by_another": "Another run holds the lease by now, and was left alone. Look again before you unlock.",
    "skipped_locked": "It did not run: another run holds the lease.",
    "skipped_breaker_open": "It did not run: its breaker is open. Resume it, or wait for the probe.",
    "skipped_paused": "It did not run: it is paused.",
    "skipped_completed": "It did not run: it was to run once, and has.",
    "skipped_schedule_read_error": "It did not run: the schedule could not be read. The log says why.",
    "skipped_shutting_down": "It did not run: this process is shutting down. Try again.",
    "skipped_unknown_action": "It did not run: no function here is its action.",
    "skipped_spawned": "It did not run: this process was started by a run.",
}


class Past(NamedTuple):
    started_at: datetime
    status: str
    seconds: float | None
    trigger: str
    counts: str
    slot: datetime | None
    attempt: int | None
    request_id: str
    error: str


class Operation(NamedTuple):
    done_at: datetime
    actor: str
    operation: str
    reason: str


class Shown(NamedTuple):
    now: datetime
    schedule: Schedule
    # What explain says of the moment, and the rest of it.
    lead: str
    sentences: list[str]
    coming: Coming
    args: str | None
    runs: list[Past]
    chart: Chart | None
    operations: list[Operation]
    may_operate: bool
    can_run: bool


def of(found: Details, *, may_operate: bool, can_run: bool) -> Shown:
    told = sentences(found)
    lead = _lead(found, told)
    runs = [_past(run) for run in found.as_json["runs"]]
    args = found.schedule.args
    return Shown(
        found.now,
        found.schedule,
        lead,
        [sentence for sentence in told if sentence != lead and not sentence.startswith(NEXT_SLOT)],
        coming(found.schedule, found.now),
        json.dumps(args, indent=2, ensure_ascii=False) if args else None,
        runs,
        chart([(run.status, run.seconds) for run in reversed(runs)]),
        [_operation(each) for each in found.as_json["operations"]],
        may_operate,
        can_run,
    )


def _lead(found: Details, told: list[str]) -> str:
    """That it runs now, or whether and when it will."""
    if found.schedule.health == "running":
        return next((sentence for sentence in told if sentence.startswith("It is running")), told[-1])
    return next((sentence for sentence in told if sentence.startswith(_STARTS)), told[-1])


_STARTS = (
    "It is due",
    "It is not due",
    "It will not",
    "It cannot",
    "It is stopped",
    "It runs at each",
    "No function",
)


def _past(run: dict[str, Any]) -> Past:
    started, finished = (value_of(name, run[name]) for name in ("started_at", "finished_at"))
    counts = [f"{name} {run[name]}" for name in _COUNTS if run[name] is not None]
    return Past(
        started,
        run["status"],
        (finished - started).total_seconds() if finished else None,
        run["trigger"],
        ", ".join(counts),
        value_of("slot", run.get("slot")),
        run.get("attempt"),
        run["request_id"],
        without_status(run["status"], run["error"]),
    )


def _operation(row: dict[str, Any]) -> Operation:
    return Operation(value_of("done_at", row["done_at"]), row["actor"], row["operation"], row["reason"] or "")
