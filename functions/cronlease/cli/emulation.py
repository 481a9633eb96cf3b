"""From the options of `cronlease emulate` to the emulator. Imported when it starts: it needs an HTTP client."""

import contextlib
import io
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.source import NotASource, Source, chosen_job, load_jobs
from cronlease.cli.table import lines, one_line, terminal_width
from cronlease.emulator import jobs as timed_jobs
from cronlease.emulator.brought import Brought, brought_for
from cronlease.emulator.emulate import emulate
from cronlease.emulator.environment import Target
from cronlease.emulator.external_database import Refused
from cronlease.emulator.faults import CHAOS, Faults
from cronlease.emulator.fit import misfit
from cronlease.emulator.function import EmulatorError
from cronlease.emulator.jobs import Plan
from cronlease.emulator.once import once
from cronlease.emulator.retry import Retry
from cronlease.emulator.show import Screen
from cronlease.emulator.start import TROUBLES, NeverStarted, Options
from cronlease.emulator.verdict import Scope
from cronlease.job import Job
from cronlease.observe.redact import redact
from cronlease.process.emulated import CAPPED, EMULATED, Times
from cronlease.settings import load
from cronlease.slots import Cron


def run(given: dict[str, Any]) -> int:
    """Answers the exit status. Raises one sentence where it cannot start or go on."""
    source: Source = given["source"]
    options = _options(source, given)
    if given["once"]:
        source.announce()
    if sys.stderr.isatty():
        # Not a bar: what is started now is forked, and a bar has a thread.
        _warn(f"starting the database{', the feeds' if options.target.brought else ''} and the function ...")
    try:
        if given["once"]:
            return once(options, click.echo, bar("waiting for the answer"), _warn)
        return emulate(options, Screen(click.echo, lines, terminal_width, as_json=given["as_json"]), _warn)
    except Refused as error:
        raise UsageError(one_line(redact(str(error)))) from error
    except NeverStarted as error:
        _blame_the_file(source, error)
        raise click.ClickException(one_line(redact(str(error)))) from error
    except TROUBLES as error:
        raise click.ClickException(one_line(redact(str(error)))) from error


def _options(source: Source, given: dict[str, Any]) -> Options:
    jobs = _jobs(source, given["target"])
    function = given["target"] or chosen_job(jobs, source, None).name
    plan = _plan(given, function)._replace(first=given["starting"], asleep=given["asleep"])
    faults = _faults(given)
    scope = _scope(plan, function, jobs)
    target = Target(
        source.path.absolute(),
        function,
        f"{function} of {source.name}",
        _declared(jobs.get(function), plan),
        plan.environment,
        given["setup"],
        # With a single worker nobody could take over from a run that is stopped.
        workers=2 if faults.hurt_processes else 1,
        oidc=given["oidc"],
        actions=tuple(sorted({*scope.functions, *scope.actions})),
        brought=_brought(scope),
    )
    return Options(
        target,
        plan,
        scope,
        port=given["port"],
        faults=faults,
        all_that_can_be=given["chaos"],
        seconds=_seconds(given["lasting"]) if given["lasting"] is not None else None,
        unfit=_unfit(jobs.get(function), plan),
    )


def _unfit(job: Job | None, plan: Plan) -> str | None:
    """Where the hits are a real schedule: they, and the cadence as its function declares it."""
    hits = [each.when for each in plan.jobs if isinstance(each.when, Cron)]
    if job is None or not hits:
        return None
    found = misfit(job.cadence, hits, datetime.now(UTC), job.late)
    return None if found is None else f"{found.said}; {found.fix}"


def _brought(scope: Scope) -> tuple[Brought, ...]:
    try:
        return brought_for(scope.functions)
    except EmulatorError as error:
        raise click.ClickException(one_line(redact(str(error)))) from error


def _warn(sentence: str) -> None:
    click.echo(one_line(redact(sentence)), err=True)


def _jobs(source: Source, target: str | None) -> Mapping[str, Job]:
    """What the file declares; one sentence where the target is nothing that a hit can run. Empty where a target is
    given and the file cannot be run in this process: it may need what only the function's environment has."""
    try:
        # What the file prints is in the function's log.
        with contextlib.redirect_stderr(io.StringIO()):
            jobs = load_jobs(source)
    except NotASource:
        raise
    except UsageError as error:
        if target and isinstance(error.__cause__, ValueError):
            return {}
        raise
    except SystemExit:
        if target is None:
            raise
        return {}
    chosen_job(jobs, source, target)
    return jobs


def _declared(job: Job | None, plan: Plan) -> Times:
    """The function's own times. Those that may be the environment's are left out where that has others here."""
    if job is None:
        return Times()
    settings = load()
    lease, every, backoff = job.limits.lease, job.cadence, job.backoff.band
    if plan.environment.get(EMULATED) == CAPPED:
        return Times(lease, every, backoff)
    return Times(
        None if lease == settings.lease else lease,
        None if every == settings.cadence() else every,
        None if backoff == settings.backoff else backoff,
    )


def _blame_the_file(source: Source, error: NeverStarted) -> None:
    """Raises what is wrong with it, which says more than how its process ended."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            load_jobs(source)
    except UsageError as wrong:
        raise UsageError(f"{wrong.message}; {one_line(error.log_is_kept)}") from wrong


def _scope(plan: Plan, target: str, jobs: Mapping[str, Job]) -> Scope:
    """The target alone, or where run-due is hit everything that the file declares."""
    if all(job.path == "/" for job in plan.jobs):
        return Scope([target], [])
    return Scope([target, *(name for name, job in jobs.items() if job.has_row)], [target, *jobs])


def _plan(given: dict[str, Any], target: str) -> Plan:
    retry = Retry(
        given["retry_count"],
        _seconds(given["max_retry_duration"]),
        _seconds(given["min_backoff"]),
        _seconds(given["max_backoff"]),
        given["max_doublings"],
    )
    deadline, speed = _seconds(given["attempt_deadline"]), given["speed"]
    try:
        if given["jobs"]:
            return timed_jobs.from_file(given["jobs"], target, speed)
        if given["schedule"]:
            return timed_jobs.scheduled(
                target, Cron.parse(given["schedule"], given["time_zone"]), deadline, retry, speed
            )
        every = given["hit_every"] or timedelta(seconds=0.5 if given["chaos"] else 2)
        plan = timed_jobs.demo(target, every, deadline, retry, chaos=given["chaos"])
        if given["once"]:
            # A single hit needs no shorter times, and a backoff that it costs is a real one.
            del plan.environment[EMULATED]
        return plan
    except ValueError as error:
        raise UsageError(str(error)) from error


def _faults(given: dict[str, Any]) -> Faults:
    chosen = {name: given[name] for name in Faults._fields if given[name] is not None and given[name] is not False}
    chosen |= {name: _seconds(value) for name, value in chosen.items() if isinstance(value, timedelta)}
    return (CHAOS if given["chaos"] else Faults())._replace(**chosen)


def _seconds(length: timedelta) -> float:
    return length.total_seconds()
