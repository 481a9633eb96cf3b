"""Turns the options of `cronlease emulate` into a run of the emulator. Imported only then, for its HTTP client."""

import contextlib
import io
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.source import NotASource, Source, chosen_job, load_jobs, refuse_to_make_its_tables
from cronlease.cli.table import lines, one_line, terminal_width
from cronlease.emulator import jobs as timed_jobs
from cronlease.emulator.cadence_fit import misfit
from cronlease.emulator.emulate import emulate, emulate_once
from cronlease.emulator.environment import Target
from cronlease.emulator.extensions import extensions_for
from cronlease.emulator.external_database import Refused
from cronlease.emulator.faults import CHAOS, Faults
from cronlease.emulator.jobs import Plan, Retry
from cronlease.emulator.show import Screen
from cronlease.emulator.start import TROUBLES, NeverStarted, Options
from cronlease.emulator.verdict import Scope
from cronlease.job import Job
from cronlease.observe.redact import redact
from cronlease.process.emulated import CAPPED, EMULATED, Times
from cronlease.settings import load
from cronlease.slots import Cron


def run(given: dict[str, Any]) -> int:
    """Returns the exit status. Raises one sentence if it cannot start or go on."""
    source: Source = given["source"]
    try:
        options = _options(source, given)
        if given["once"]:
            source.announce()
        if sys.stderr.isatty():
            # Not a bar, which has a thread: processes are about to be forked.
            _warn(f"starting the database{', the feeds' if options.target.extensions else ''} and the function ...")
        if given["once"]:
            return emulate_once(options, bar("waiting for the answer"), _warn)
        return emulate(options, Screen(click.echo, lines, terminal_width, as_json=given["as_json"]), _warn)
    except Refused as error:
        raise UsageError(str(error)) from error
    except TROUBLES as error:
        if isinstance(error, NeverStarted):
            _blame_the_file(source, error)
        raise click.ClickException(str(error)) from error


def _options(source: Source, given: dict[str, Any]) -> Options:
    jobs = _jobs(source, given["target"])
    if (settings := load()).has_database:
        refuse_to_make_its_tables(source, jobs, settings.database_url or "")
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
        # A second worker, to take over from a run that is stopped.
        workers=2 if faults.hurt_processes else 1,
        oidc=given["oidc"],
        actions=tuple(sorted({*scope.functions, *scope.actions})),
        extensions=extensions_for(scope.functions),
    )
    return Options(
        target,
        plan,
        scope,
        port=given["port"],
        faults=faults,
        all_that_can_be=given["chaos"],
        seconds=given["lasting"].total_seconds() if given["lasting"] is not None else None,
        unfit=_unfit(jobs.get(function), plan),
    )


def _unfit(job: Job | None, plan: Plan) -> str | None:
    """Why the function's own cadence does not fit a real schedule of hits; None if it fits."""
    hits = [each.when for each in plan.jobs if isinstance(each.when, Cron)]
    if job is None or not hits:
        return None
    unfit = misfit(job.cadence, hits, datetime.now(UTC), job.late)
    return None if unfit is None else f"{unfit.problem}; {unfit.fix}"


def _warn(sentence: str) -> None:
    click.echo(one_line(redact(sentence)), err=True)


def _jobs(source: Source, target: str | None) -> Mapping[str, Job]:
    """What the file declares; raises one sentence if a hit cannot run the target. Empty if a target is given but the
    file cannot be run in this process: it may need what only the function's environment has."""
    try:
        # What the file prints will be in the function's log.
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
    """The function's own times, without those that come from the environment: the emulator sets others there."""
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
    """Raises what is wrong with the file, if anything: that says more than how its process ended."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            load_jobs(source)
    except UsageError as wrong:
        raise UsageError(f"{wrong.message}; {error.log_is_kept}") from wrong


def _scope(plan: Plan, target: str, jobs: Mapping[str, Job]) -> Scope:
    """The target alone; if run-due is hit, everything that the file declares."""
    if all(job.path == "/" for job in plan.jobs):
        return Scope([target], [])
    return Scope([target, *(name for name, job in jobs.items() if job.has_row)], [target, *jobs])


def _plan(given: dict[str, Any], target: str) -> Plan:
    retry = Retry(
        given["retry_count"],
        given["max_retry_duration"].total_seconds(),
        given["min_backoff"].total_seconds(),
        given["max_backoff"].total_seconds(),
        given["max_doublings"],
    )
    deadline, speed = given["attempt_deadline"].total_seconds(), given["speed"]
    try:
        if given["jobs"]:
            return timed_jobs.from_file(given["jobs"], target, speed)
        if given["schedule"]:
            return timed_jobs.scheduled(
                target, Cron.parse(given["schedule"], given["time_zone"]), deadline, retry, speed
            )
        every = given["hit_every"] or timedelta(seconds=0.5 if given["chaos"] else 2)
        plan = timed_jobs.demo(target, every, deadline, retry, chaos=given["chaos"])
        if load().has_database:
            # A configured database has real rows: the deployed function would follow shortened times for an hour.
            plan.environment.clear()
        elif given["once"]:
            # A single hit needs no shortened times, and a failure costs its real backoff.
            del plan.environment[EMULATED]
        return plan
    except ValueError as error:
        raise UsageError(str(error)) from error


def _faults(given: dict[str, Any]) -> Faults:
    chosen = {name: given[name] for name in Faults._fields if given[name] is not None and given[name] is not False}
    chosen |= {name: value.total_seconds() for name, value in chosen.items() if isinstance(value, timedelta)}
    return (CHAOS if given["chaos"] else Faults())._replace(**chosen)
