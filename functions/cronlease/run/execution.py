"""The one way in: every real run goes through `run_claimed`, whichever trigger started it.

claim -> work under a heartbeat -> finish.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import Any
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
from cronlease.process.shutdown import process
from cronlease.run.attempt import Attempt, UnreadableCadence, ask_for_lease, claim, release, skip, timed_out
from cronlease.run.plan import Plan, Row
from cronlease.run.question import Ask, share
from cronlease.run.record import Record
from cronlease.run.run import Run
from cronlease.settings import Settings

# The slot that a run has to serve: set by tests of jobs.
given_slot: ContextVar[datetime | None] = ContextVar("given_slot", default=None)

# Runs of hits. The event loop itself keeps only weak references to its tasks.
_runs: set[asyncio.Task[Outcome]] = set()


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
    """One hit at a schedule, the job's own or the named one: claims the lease and runs, or skips. The row's action,
    one of `jobs`, is what runs. Never raises for anything that goes wrong in a run."""
    function, jobs = name or job.name, jobs or {job.name: job}
    attempt = Attempt(function, request_id or uuid4(), hit.trigger, job.limits, time.monotonic())
    rows = (job,) if function == job.name and job.has_row else ()

    planned = partial(plan_of, jobs=jobs)
    if hit.force or hit.args:
        claimed = await claim(attempt, _question(attempt, job, hit, jobs), database, settings, rows, planned)
    else:
        # Hits like this one all ask the same, so they may share a question.
        ask = Ask(
            attempt,
            lambda: ask_for_lease(attempt, _question(attempt, job, hit, jobs), database, settings, rows, planned),
            lambda: timed_out(attempt, database),
            lambda: release(attempt, database),
        )
        claimed = await share((database, function, hit.trigger, hit.delivery), ask)
    if not claimed.acquired:
        return skip(attempt, claimed, job.name)
    return await _to_its_end(run_claimed(attempt, claimed, jobs, database, settings, force=hit.force))


def _question(attempt: Attempt, job: Job, hit: Hit, jobs: Mapping[str, Job]) -> Query[Claim]:
    return acquire_refresh_lock(
        attempt.function,
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
        # A row of another name may have another action, whose cadence is known only from the claim.
        rules=job_rules(job) if attempt.function == job.name else None,
        delivery=hit.delivery,
        delivery_at=hit.delivery_at,
    )


async def _to_its_end(run: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Some hosts cancel a hit whose caller has hung up. The run goes on all the same, as it does under a server that
    does not notice: cancelled, it would keep its lease until that runs out."""

    async def at_work() -> Outcome:
        with process.work():
            return await run

    task = asyncio.get_running_loop().create_task(at_work())
    _runs.add(task)
    task.add_done_callback(_runs.discard)
    return await asyncio.shield(task)


async def run_claimed(
    attempt: Attempt,
    claimed: Claim,
    jobs: Mapping[str, Job],
    database: Database,
    settings: Settings,
    *,
    force: bool = False,
) -> Outcome:
    """Runs the action of a granted claim, one of `jobs`, until its end is written."""
    assert claimed.action is not None, "a claim that was granted names its action"
    job = jobs[claimed.action]
    if claimed.function_name is not None:
        # A dispatcher learns only now whose lease it has.
        attempt = attempt._replace(function=claimed.function_name, limits=job.limits)
    with telemetry.hit(attempt.function, attempt.request_id, attempt.trigger, attempt.asked_at, claimed) as span:
        return span.ends(await _run(attempt, job, claimed, database, settings, force))


def job_rules(job: Job) -> Rules:
    """The job's rules, which SQL applies where the row has none of its own."""
    return Rules(job.cadence.text, job.attempts, job.late)


def plan_of(details: dict[str, Any], jobs: Mapping[str, Job]) -> Query[bool] | None:
    """The query that plans the row; None where this process has nothing to plan. Raises UnreadableCadence."""
    row = Row.read(details)
    job = jobs.get(row.action)
    if job is None:
        return None
    try:
        plan = Plan.of(row, job)
    except ValueError as error:
        raise UnreadableCadence(str(error)) from error
    if plan.instead_of is not None:
        _log_followed(row, plan)
    return plan.query()


_followed: set[tuple[str, str, str]] = set()


def _log_followed(row: Row, plan: Plan) -> None:
    """Logs it once for each pair: two revisions may share the row for an hour, and every hit would repeat it."""
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
    # Imported before the job runs, which may leave us no file to open; most hits are skips and start without them.
    from cronlease.run.finish import Finisher
    from cronlease.run.supervise import supervise

    record = Record(attempt, job, claimed, database, force=force)
    if record.plan.instead_of is not None:
        _log_followed(record.plan.row, record.plan)
    run = Run(job.name, claimed.args or {}, record)
    check_ins = None
    if settings.ping_url is not None:
        from cronlease.observe.ping import CheckIns

        check_ins = CheckIns(settings.ping_url, run.function, run.request_id, run.http_headers())
    if settings.alert_url and record.plan.row.abandoned:
        # Before the job starts: whatever killed its last process may kill this one, too.
        await tell(record.database, settings)
    error = await _serve(record) or await supervise(job.function, run, record)
    outcome = await Finisher(record).finish(error)
    endings = [] if check_ins is None else [check_ins.end(outcome)]
    if outcome.failed is not FailReason.INTERRUPTED:
        endings.append(tell(record.database, settings))
    await asyncio.gather(*endings)
    return outcome


async def tell(database: Database, settings: Settings) -> None:
    """Delivers the pending alerts of all schedules; does nothing where no address is set."""
    if settings.alert_url:
        from cronlease.run.alerts import deliver

        await deliver(database, settings)


async def _serve(record: Record) -> BaseException | None:
    """Records which slot is served and what was missed, before the job starts, where the claim could not know it.
    Returns the error of a run that must not start."""
    given = given_slot.get()
    if given is not None:
        record.served = record.served._replace(slot=given, since=record.plan.row.last_success_slot_at)
    served, lease = record.served, record.lease
    if served.slot is None or (given is None and served.slot == record.plan.row.slot_at and not served.missed):
        return None
    if served.missed:
        log(
            logging.WARNING,
            f"{lease.function} missed {served.missed} slot{'s' if served.missed > 1 else ''}, the first at"
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
