"""The one way in: every real run goes through here, whichever trigger started it.

claim -> work under a heartbeat -> finish.
"""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from cronlease.db.connection import Database
from cronlease.db.functions import Claim, acquire_refresh_lock
from cronlease.job import Hit, Job
from cronlease.observe import telemetry
from cronlease.outcome import Outcome
from cronlease.process import spawn_guard
from cronlease.run.attempt import claim
from cronlease.run.finish import Ending
from cronlease.run.lease import Lease
from cronlease.run.run import Run
from cronlease.run.skip import skip
from cronlease.run.supervise import supervise
from cronlease.settings import Settings

if TYPE_CHECKING:
    from cronlease.observe.ping import CheckIns


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
    request_id = request_id or uuid4()
    asked_at = time.monotonic()
    limits, jobs, function = job.limits, jobs or {job.name: job}, name or job.name
    query = acquire_refresh_lock(
        function,
        request_id,
        limits.lease,
        max_run=limits.max_run,
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
    claimed = await claim(function, request_id, query, database, settings, limits.acquire, rows)
    with telemetry.hit(function, request_id, hit.trigger, asked_at, claimed, job.name) as told:
        if not claimed.acquired:
            return told.ends(skip(function, request_id, claimed))
        # Another action's function, perhaps, but the lease is the one that was asked for.
        job = jobs.get(claimed.action or "", job)._replace(limits=limits)
        return told.ends(await run_claimed(job, function, request_id, claimed, database, settings, asked_at))


async def run_claimed(
    job: Job,
    function: str,
    request_id: UUID,
    claimed: Claim,
    database: Database,
    settings: Settings,
    asked_at: float,
    stop_at: float = math.inf,
) -> Outcome:
    """The run of a claim that was granted: work under a heartbeat, then the end, written once. What is not done at
    stop_at, on the monotonic clock, is interrupted."""
    assert claimed.fence is not None, "a claim that was granted has a fence"
    lease = Lease(function, request_id, claimed.fence, job.limits, asked_at)
    lease.stop_at = stop_at
    run = Run(job, lease, claimed, database)
    check_ins = _check_ins(settings, run)
    error = await supervise(job.function, run, lease, database)
    outcome = await Ending(run, lease, database, asked_at).of(error)
    if check_ins is not None:
        await check_ins.end(outcome)
    return outcome


def _check_ins(settings: Settings, run: Run) -> "CheckIns | None":
    if settings.ping_url is None:
        return None
    from cronlease.observe.ping import CheckIns

    return CheckIns(settings.ping_url, run.function, run.request_id, run.http_headers())
