"""Why a schedule did or did not run, and when it will, in plain sentences. Pure."""

import shlex
from collections.abc import Collection
from datetime import datetime

from cronlease.cadence import HIT
from cronlease.explain import plan
from cronlease.explain.backends import description, how_to_end
from cronlease.explain.format import at, how_to_replace, how_to_resume, in_words, relative, times, without_status
from cronlease.explain.rows import Details, PastRun, Schedule

# From this many abandoned runs in a row on, a claim costs a backoff in advance (take_refresh_lock).
_ABANDONED_COSTS_FROM = 3
_ENDS = {
    "success": "succeeded",
    "partial": "did only a part of its work",
    "failed": "failed",
    "interrupted": "was interrupted",
    "abandoned": "was abandoned",
}
# Triggers of leases: rows taken by code or a command line, without a function as their action.
_LEASES = {"exec": "`cronlease exec`", "lease": "`cronlease.lease()`"}


def sentences(details: Details, known: Collection[str] | None = None, source: str = "") -> list[str]:
    """What it is, what happened last, whether it is running, and when it will run next, or why not. `known` are the
    actions of the source, if there is one."""
    running = holder(details)
    return [
        _what(details, known),
        _last(details),
        *([running] if running else []),
        *_strangers(details),
        *_left_open(details),
        *_next(details, known, source),
        *_plan(details),
    ]


def _plan(details: Details) -> list[str]:
    row = details.schedule
    return plan.sentences(row, details.now) if row.completed_at is None and row.every_is_readable else []


def _lease(details: Details, known: Collection[str] | None) -> str | None:
    """What takes it, if its last run was a lease and it has no function as its action."""
    row = details.schedule
    if row.action != row.function_name or row.action in (known or ()) or not details.runs:
        return None
    return _LEASES.get(details.runs[0].trigger)


def _what(details: Details, known: Collection[str] | None) -> str:
    row = details.schedule
    if taken_by := _lease(details, known):
        when = "whenever it is free" if row.planned_from == HIT else f"when it is due, by {row.planned_from}"
        return f'"{row.function_name}" is a lease, taken by {taken_by} {when}.'
    return f'"{row.function_name}" runs the action "{row.action}" {plan.in_words(row)}.'


def _last(details: Details) -> str:
    row, now = details.schedule, details.now
    ended = next((run for run in details.runs if run.finished_at is not None), None)
    if ended is not None:
        return _ended(ended, now)
    if row.last_run_at is not None:
        what = _ENDS.get(row.last_status or "", f"ended as {row.last_status}")
        why = _because(without_status(row.last_status, row.last_error))
        return f"Its last run {what} {relative(row.last_run_at, now)}{why}."
    return "No run of it has ended yet." if row.run_count == 0 else "Its runs are older than the history."


def _ended(run: PastRun, now: datetime) -> str:
    assert run.finished_at is not None, "only a run that has ended"
    what = _ENDS.get(run.status, f"ended as {run.status}")
    took = in_words(run.finished_at - run.started_at)
    why = _because(without_status(run.status, run.error))
    return f"Its last run {what} {relative(run.finished_at, now)}, after {took}{why}."


def _because(error: str | None) -> str:
    return f": {error.strip().rstrip('.')}" if error and error.strip() else ""


def holder(details: Details) -> str | None:
    """Who has the lease, since when and until when; None if nobody has it."""
    row, now = details.schedule, details.now
    if row.locked_by is None:
        return None
    run = next((run for run in details.runs if run.request_id == row.locked_by), None)
    since = f" since {at(run.started_at)} ({relative(run.started_at, now)})" if run else ""
    if _ran_out(row):
        ended = f" {relative(row.locked_until, now)}" if row.locked_until else ""
        writing = next((each for each in details.backends if each.holds_row), None)
        if row.paused_at is not None:
            # No hit reaches it: none takes over, and none ends what has it locked.
            then = " before the run finished: `cronlease recover --all` clears it"
            if writing is not None:
                writing = writing._replace(overdue_at=None)
                then = f", but its transaction is still open: {description(writing)}; {how_to_end(writing)}"
            return f"Request {row.locked_by} has had the lease{since}, and it ran out{ended}{then}."
        if writing is not None:
            return (
                f"Request {row.locked_by} has had the lease{since}, and it ran out{ended}, but its transaction is"
                f" still open, and until it ends every hit is skipped as locked: {description(writing)};"
                f" {how_to_end(writing)}."
            )
        return (
            f"Request {row.locked_by} has had the lease{since}, and it ran out{ended} before the run finished:"
            " the next hit takes over, and `cronlease recover --all` clears it now."
        )
    until = f"until {at(row.locked_until)} ({relative(row.locked_until, now)})" if row.locked_until else "without end"
    return f"It is running now: request {row.locked_by} has had the lease{since}, {until} unless it is renewed."


def _ran_out(row: Schedule) -> bool:
    return row.locked_by is not None and row.state != "dispatching"


def _strangers(details: Details) -> list[str]:
    """Sessions that hold the lock every claim takes first: a job's own transaction, or somebody else's."""
    return [
        f"Every hit is skipped as locked, because the advisory lock of a claim is held by {description(each)};"
        f" {how_to_end(each)}."
        for each in details.backends
        if each.holds == "claim"
    ] + [
        f"Every hit is skipped as locked, because its row is locked by {description(each)}; {how_to_end(each)}."
        for each in details.backends
        if each.holds == "prepared" and not _ran_out(details.schedule)
    ]


def _left_open(details: Details) -> list[str]:
    """Runs whose lease was freed, but whose end could not be written."""
    if details.schedule.locked_by is not None:
        return []
    return [
        f"Request {run.request_id} is still recorded as running since {at(run.started_at)}"
        f" ({relative(run.started_at, details.now)}), without a lease: the next run closes it as abandoned, and"
        " `cronlease recover --all` does so now."
        for run in details.runs
        if run.status == "running"
    ]


def _next(details: Details, known: Collection[str] | None, source: str) -> list[str]:
    row, now = details.schedule, details.now
    name = shlex.quote(row.function_name)
    if row.completed_at is not None:
        return [
            f"It will not run again: it runs only once, and completed {relative(row.completed_at, now)};"
            f" `cronlease schedule create {name} --replace ...` schedules it again."
        ]
    if row.paused_at is not None:
        going = " The run in progress may finish." if row.state == "dispatching" else ""
        return [
            f"It will not run: it was paused {relative(row.paused_at, now)}{_because(row.paused_reason)};"
            f" {how_to_resume(row.function_name)}.{going}"
        ]
    if not row.every_is_readable:
        return [
            f'It cannot run: "{row.cron or row.every}" is not a cadence such as 10m..15m;'
            f" {how_to_replace(row.function_name, '--every 10m..15m')} fixes it."
        ]
    if row.state == "dispatching":
        return ["Until that run ends, every hit is skipped as locked; its end decides when the next one is due."]
    if not row.args_are_readable:
        why = f" ({row.args['unreadable']})" if row.args else ""
        fix = how_to_replace(row.function_name, "--args '{}'")
        return [f"It cannot run: its args cannot be read{why}; {fix} fixes it."]
    taken_by = _lease(details, known)
    if known is not None and row.action not in known and not taken_by:
        return [f'No function of {source} is the action "{row.action}": it waits for a deployment that has one.']
    if row.due and details.backends:
        return ["It is due, but no hit can run it before that has ended.", *_counts(row)]
    if row.breaker_until is not None:
        return [_stopped(row, now)]
    return [_free(row, now, taken_by), *_counts(row)] if taken_by else _due(row, now, name)


def _free(row: Schedule, now: datetime, taken_by: str) -> str:
    if row.planned_from == HIT or row.due:
        return f"It is free: the next {taken_by} of that name runs; run-due and worker leave it alone."
    until = f" until {at(row.next_run_at)}, {relative(row.next_run_at, now)}" if row.next_run_at else ""
    return f"It is not due{until}: after that, the next {taken_by} of that name runs; a forced one runs now."


def _stopped(row: Schedule, now: datetime) -> str:
    """What an open breaker lets through, and when."""
    assert row.breaker_until is not None, "its breaker is open"
    probe = "now: the next hit, run-due or worker runs it as the probe"
    if row.breaker_until > now:
        probe = f"{at(row.breaker_until)}, {relative(row.breaker_until, now)}, when one run is let through as a probe"
    return (
        f"It is stopped by its breaker after failing {times(row.failures)}{_in_a_row(row.failures)}, until {probe};"
        f" {how_to_resume(row.function_name)} now."
    )


def _due(row: Schedule, now: datetime, name: str) -> list[str]:
    if row.due:
        late = f" since {at(row.next_run_at)} ({relative(row.next_run_at, now)})" if row.next_run_at else ""
        return [f"It is due{late}: the next hit, run-due or worker runs it.", *_overdue(row), *_counts(row)]
    if plan.is_unplanned(row):
        # The plan says that it cannot run.
        return (
            []
            if plan.is_unreadable(row)
            else ["It is not due: the next hit, run-due or worker that sees it plans its next slot."]
        )
    if row.next_run_at is None and row.planned_from == HIT:
        return ["It runs at each hit of its trigger, once for each delivery; run-due and worker leave it alone."]
    if row.next_run_at is None:
        return ["It is not due at any time on the calendar."]
    why = ""
    if row.failures:
        why = f": that is the backoff after failing {times(row.failures)}{_in_a_row(row.failures)}"
    elif row.abandoned >= _ABANDONED_COSTS_FROM:
        why = f": that is the backoff after its runs were abandoned {times(row.abandoned)} in a row"
    when = f"in {in_words(row.next_run_at - now)}"
    return [
        f"It is not due until {at(row.next_run_at)}, {when}{why};"
        f" `cronlease schedule run {name} --force` runs it now."
    ]


def _overdue(row: Schedule) -> list[str]:
    return ["It is late: check that its trigger still works."] if row.state == "late" else []


def _counts(row: Schedule) -> list[str]:
    """What has gone wrong before, although it is due."""
    counts = []
    if row.failures:
        counts.append(f"It has failed {times(row.failures)}{_in_a_row(row.failures)}.")
    if row.abandoned:
        costs = "after the third in a row, each further one costs a backoff"
        if row.abandoned >= _ABANDONED_COSTS_FROM:
            costs = "the next run pays a backoff in advance, in case it is abandoned, too"
        counts.append(f"Its runs were abandoned {times(row.abandoned)}{_in_a_row(row.abandoned)}; {costs}.")
    return counts


def _in_a_row(count: int) -> str:
    return " in a row" if count > 1 else ""
