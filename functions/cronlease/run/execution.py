"""The one way in: every real run goes through `execute`, whichever trigger started it.

claim -> work under a heartbeat -> finish.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from cronlease.db.connection import Database, within
from cronlease.db.functions import Claim, acquire_refresh_lock
from cronlease.db.plans import Rules, serve_refresh_slot
from cronlease.db.queries import Query
from cronlease.errors import DatabaseTrouble, LeaseLost
from cronlease.job import Hit, Job
from cronlease.observe import telemetry
from cronlease.observe.logs import log
from cronlease.outcome import FailReason, Outcome
from cronlease.process import spawn_guard
from cronlease.run.attempt import Attempt, UnreadableCadence, claim, skip
from cronlease.run.finish import Finisher
from cronlease.run.plan import Plan, Row
from cronlease.run.record import Record
from cronlease.run.run import Run
from cronlease.run.supervise import supervise
from cronlease.settings import Settings

# The slot that a run is to serve, for tests of jobs.
given_slot: ContextVar[datetime | None] = ContextVar("given_slot", default=None)


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
        # A row of another name may have another action: what that one's cadence is shows only in its claim.
        rules=job_rules(job) if function == job.name else None,
        delivery=hit.delivery,
        delivery_at=hit.delivery_at,
    )
    rows = (job,) if function == job.name and job.has_row else ()
    claimed, outcome = await execute(attempt, query, rows, jobs, database, settings, force=hit.force)
    return outcome or skip(attempt, claimed, job.name)


async def execute(
    attempt: Attempt,
    query: Query[Claim],
    rows: Sequence[Job],
    jobs: Mapping[str, Job],
    database: Database,
    settings: Settings,
    *,
    force: bool = False,
) -> Executed:
    """Claims by that query and, where the claim is granted, runs its action, one of the jobs, to its written end."""
    claimed = await claim(attempt, query, database, settings, rows, lambda details: plan_of(details, jobs))
    if not claimed.acquired:
        return Executed(claimed)
    assert claimed.action is not None, "a claim that was granted names its action"
    job = jobs[claimed.action]
    if claimed.function_name is not None:
        # A dispatcher learns only now whose lease it has.
        attempt = attempt._replace(function=claimed.function_name, limits=job.limits)
    with telemetry.hit(attempt.function, attempt.request_id, attempt.trigger, attempt.asked_at, claimed) as span:
        return Executed(claimed, span.ends(await _run(attempt, job, claimed, database, settings, force)))


def job_rules(job: Job) -> Rules:
    """What SQL has to know of a job to decide about a row that says nothing itself."""
    return Rules(job.cadence.text, job.attempts, job.late)


def plan_of(details: dict[str, Any], jobs: Mapping[str, Job]) -> Query[bool] | None:
    """How a row that needs it is planned. Raises UnreadableCadence."""
    row = Row.read(details)
    job = jobs.get(row.action)
    if job is None:
        return None
    try:
        plan = Plan.of(row, job)
    except ValueError as error:
        raise UnreadableCadence(str(error)) from error
    if plan.instead_of is not None:
        _say_followed(row, plan)
    return plan.query()


_followed: set[tuple[str, str, str]] = set()


def _say_followed(row: Row, plan: Plan) -> None:
    """Once for each pair: two revisions may share the row for an hour, and each hit would say so."""
    pair = (row.function_name, str(plan.instead_of), plan.cadence.text)
    if pair not in _followed:
        _followed.add(pair)
        log(
            logging.WARNING,
            f"{row.function_name} is planned by {plan.cadence}, which replaced {plan.instead_of} of this revision"
            " less than an hour ago: this revision follows it for now",
            action="cadence_followed",
            function=row.function_name,
        )


async def _run(
    attempt: Attempt, job: Job, claimed: Claim, database: Database, settings: Settings, force: bool
) -> Outcome:
    record = Record(attempt, job, claimed, database, force=force)
    if record.plan.instead_of is not None:
        _say_followed(record.plan.row, record.plan)
    run = Run(job.name, claimed.args or {}, record)
    check_ins = None
    if settings.ping_url is not None:
        from cronlease.observe.ping import CheckIns

        check_ins = CheckIns(settings.ping_url, run.function, run.request_id, run.http_headers())
    if settings.alert_url and record.plan.row.abandoned:
        # Before the job: what killed its process may do so again.
        await tell(record.database, settings)
    error = await _serve(record) or await supervise(job.function, run, record)
    outcome = await Finisher(record).finish(error)
    endings = [] if check_ins is None else [check_ins.end(outcome)]
    if outcome.failed is not FailReason.INTERRUPTED:
        endings.append(tell(record.database, settings))
    await asyncio.gather(*endings)
    return outcome


async def tell(database: Database, settings: Settings) -> None:
    """Looks for what is to be told of any schedule, and tells it; nothing where nobody is to be told."""
    if settings.alert_url:
        from cronlease.run.alerts import deliver

        await deliver(database, settings)


async def _serve(record: Record) -> BaseException | None:
    """Writes down which slot is served and what was missed, before the job starts, where the claim could not know it.
    The error of a run that must not start."""
    told = given_slot.get()
    if told is not None:
        record.served = record.served._replace(slot=told, since=record.plan.row.last_success_slot_at)
    served, lease = record.served, record.lease
    if served.slot is None or (told is None and served.slot == record.plan.row.slot_at and not served.missed):
        return None
    if served.missed:
        log(
            logging.WARNING,
            f"{served.missed} slots of {lease.function} went by without a run, the first of them"
            f" {served.first_missed:%Y-%m-%dT%H:%M:%SZ}",
            action="slots_missed",
            missed=served.missed,
            first_missed=served.first_missed,
            **record.attempt.who,
        )
    query = serve_refresh_slot(lease.function, lease.request_id, lease.fence, served.slot, served.missed)
    try:
        attempt = await within(lease.limits.acquire, record.database.ask(query))
    except (DatabaseTrouble, TimeoutError) as error:
        return error if isinstance(error, LeaseLost) else RuntimeError(f"its slot could not be written: {error}")
    record.served = served._replace(attempt=max(1, attempt))
    return None
