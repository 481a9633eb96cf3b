"""The one way in: every real run goes through `execute`, whichever trigger started it.

claim -> work under a heartbeat -> finish.
"""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID, uuid4

from cronlease.db.connection import Database
from cronlease.db.functions import Claim, acquire_refresh_lock
from cronlease.db.queries import Query
from cronlease.job import Hit, Job
from cronlease.observe import telemetry
from cronlease.outcome import Outcome
from cronlease.process import spawn_guard
from cronlease.run.attempt import Attempt, claim, skip
from cronlease.run.finish import Finisher
from cronlease.run.record import Record
from cronlease.run.run import Run
from cronlease.run.supervise import supervise
from cronlease.settings import Settings


class Executed(NamedTuple):
    """What the claim was answered, and the outcome of the run where it was granted."""

    claimed: Claim
    outcome: Outcome | None = None


async def run_once(
    job: Job,
    hit: Hit,
    database: Database,
    settings: Settings,
    *,
    request_id: UUID | None = None,
    name: str | None = None,
    jobs: Mapping[str, Job] | None = None,
) -> Outcome:
    """One hit at a schedule, the job's own or the named one: claims the lease and runs, or skips. What runs is the
    row's action, one of the jobs. Never raises for what a run can do wrong."""
    function, jobs = name or job.name, jobs or {job.name: job}
    attempt = Attempt(function, request_id or uuid4(), hit.trigger, job.limits, time.monotonic())
    query = acquire_refresh_lock(
        function,
        attempt.request_id,
        job.limits.lease,
        max_run=job.limits.max_run,
        force=hit.force,
        trigger=hit.trigger,
        job_name=hit.job_name,
        schedule_time=hit.schedule_time,
        args=hit.args,
        backoff=job.backoff.band.high,
        actions=jobs,
        parent=spawn_guard.parent(),
    )
    rows = (job.name,) if function == job.name and job.has_row else ()
    claimed, outcome = await execute(attempt, query, rows, jobs, database, settings)
    return outcome or skip(attempt, claimed, job.name)


async def execute(
    attempt: Attempt,
    query: Query[Claim],
    rows: Sequence[str],
    jobs: Mapping[str, Job],
    database: Database,
    settings: Settings,
) -> Executed:
    """Claims by that query and, where the claim is granted, runs its action, one of the jobs, to its written end."""
    claimed = await claim(attempt, query, database, settings, rows)
    if not claimed.acquired:
        return Executed(claimed)
    assert claimed.action is not None, "a claim that was granted names its action"
    job = jobs[claimed.action]
    if claimed.function_name is not None:
        # A dispatcher learns only now whose lease it has.
        attempt = attempt._replace(function=claimed.function_name, limits=job.limits)
    with telemetry.hit(attempt.function, attempt.request_id, attempt.trigger, attempt.asked_at, claimed) as span:
        return Executed(claimed, span.ends(await _run(attempt, job, claimed, database, settings)))


async def _run(attempt: Attempt, job: Job, claimed: Claim, database: Database, settings: Settings) -> Outcome:
    record = Record(attempt, job, claimed, database)
    run = Run(job.name, claimed.args or {}, record)
    check_ins = None
    if settings.ping_url is not None:
        from cronlease.observe.ping import CheckIns

        check_ins = CheckIns(settings.ping_url, run.function, run.request_id, run.http_headers())
    error = await supervise(job.function, run, record)
    outcome = await Finisher(record).finish(error)
    if check_ins is not None:
        await check_ins.end(outcome)
    return outcome
