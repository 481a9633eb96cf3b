"""`cronlease emulate`: reads the options; everything else is the emulator's."""

import contextlib
import io
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cronlease.cli import options
from cronlease.cli.commands.emulate_options import FAULT_OPTIONS, JOB_OPTIONS, Number, all_of, check, fault_names
from cronlease.cli.errors import UsageError
from cronlease.cli.progress import bar
from cronlease.cli.source import NotASource, Source, chosen_job, load_jobs
from cronlease.cli.table import lines, one_line, terminal_width
from cronlease.observe.logs import redact
from cronlease.settings import load

if TYPE_CHECKING:
    from cronlease.emulated_times import Times
    from cronlease.emulator.faults import Faults
    from cronlease.emulator.jobs import Plan
    from cronlease.emulator.start import NeverStarted, Options
    from cronlease.emulator.verdict import Scope
    from cronlease.job import Job

_SHIPPED = "refresh_opening_signals"


@click.command("emulate", short_help="Run it all on this machine, and a scheduler that hits it.")
@options.source
@options.target
@click.option(
    "--setup", type=click.Path(path_type=Path), help="Run this SQL file in the database before each start, as it is."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Where it listens, on loopback."
)
@options.length("--for", "lasting", text="Stop by itself after that long.")
@click.option("--once", is_flag=True, help="One hit; prints its answer, and exits with 1 when that is not ok.")
@click.option("--jobs", type=click.Path(path_type=Path), help="Hit it as this deploy/jobs.json says.")
@all_of(JOB_OPTIONS)
@click.option("--speed", type=Number(1, 100_000), default=1, show_default=True, help="Compress time.")
@click.option(
    "--oidc", is_flag=True, help="Send ID tokens that are signed here, and let nobody else in: needs cronlease[oidc]."
)
@click.option("--chaos", is_flag=True, help="All that can go wrong does; what is said beside it wins.")
@all_of(FAULT_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON per hit, and the verdict as the last one.")
def emulate_command(**given: Any) -> None:
    """Run it all on this machine: database, sample feeds, the function, and a scheduler that hits it.

    At the end it holds what callers were told against the history in the database: the exit status is 1 when a
    promise was broken, when it could not start, or when --chaos saw too few runs to prove anything. The function's
    lease, cadence and backoff are shortened, those of its decorator, too; what the environment says is kept. With
    --schedule or --jobs they are as much shorter as --speed says.
    """
    from cronlease.emulator.external_database import Refused
    from cronlease.emulator.start import TROUBLES, NeverStarted

    check(given)
    source: Source = given["source"]
    emulated = _emulated(source, given)
    if given["once"]:
        source.announce()
    if sys.stderr.isatty():
        # Not a bar: what is started now is forked, and a bar has a thread.
        _warn(f"starting the database{', the feeds' if emulated.target.reads_feeds else ''} and the function ...")
    try:
        status = _run(emulated, once=given["once"], as_json=given["as_json"])
    except Refused as error:
        raise UsageError(one_line(redact(str(error)))) from error
    except NeverStarted as error:
        _blame_the_file(given["source"], error)
        raise click.ClickException(one_line(redact(str(error)))) from error
    except TROUBLES as error:
        raise click.ClickException(one_line(redact(str(error)))) from error
    if status:
        raise click.exceptions.Exit(status)


def _emulated(source: Source, given: dict[str, Any]) -> "Options":
    from cronlease.emulator.environment import Target
    from cronlease.emulator.start import Options

    jobs = _jobs(source, given["target"])
    function = given["target"] or chosen_job(jobs, source, None).name
    plan, faults = _plan(given, function), _faults(given)
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
        reads_feeds=_SHIPPED in scope.functions,
    )
    return Options(
        target,
        plan,
        scope,
        port=given["port"],
        faults=faults,
        all_that_can_be=given["chaos"],
        seconds=_seconds(given["lasting"]) if given["lasting"] is not None else None,
    )


def _run(emulated: "Options", *, once: bool, as_json: bool) -> int:
    if once:
        from cronlease.emulator.once import once as hit_once

        return hit_once(emulated, click.echo, bar("waiting for the answer"), _warn)
    from cronlease.emulator.emulate import emulate
    from cronlease.emulator.show import Screen

    return emulate(emulated, Screen(click.echo, lines, terminal_width, as_json=as_json), _warn)


def _warn(sentence: str) -> None:
    click.echo(one_line(redact(sentence)), err=True)


def _jobs(source: Source, target: str | None) -> Mapping[str, "Job"]:
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


def _declared(job: "Job | None", plan: "Plan") -> "Times":
    """The function's own times. Those that may be the environment's are left out where that has others here."""
    from cronlease.emulated_times import CAPPED, EMULATED, Times

    if job is None:
        return Times()
    settings = load()
    lease, every, backoff = job.limits.lease, job.every, job.backoff.band
    if plan.environment.get(EMULATED) == CAPPED:
        return Times(lease, every, backoff)
    return Times(
        None if lease == settings.lease else lease,
        None if every == settings.every else every,
        None if backoff == settings.backoff else backoff,
    )


def _blame_the_file(source: Source, error: "NeverStarted") -> None:
    """Raises what is wrong with it, which says more than how its process ended."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            load_jobs(source)
    except UsageError as wrong:
        raise UsageError(f"{wrong.message}; {one_line(error.log_is_kept)}") from wrong


def _scope(plan: "Plan", target: str, jobs: Mapping[str, "Job"]) -> "Scope":
    """The target alone, or where run-due is hit everything that the file declares."""
    from cronlease.emulator.verdict import Scope

    if all(job.path == "/" for job in plan.jobs):
        return Scope([target], [])
    return Scope([target, *(name for name, job in jobs.items() if job.has_row)], [target, *jobs])


def _plan(given: dict[str, Any], target: str) -> "Plan":
    from cronlease.emulated_times import EMULATED
    from cronlease.emulator import jobs
    from cronlease.emulator.cron import Cron
    from cronlease.emulator.retry import Retry

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
            return jobs.from_file(given["jobs"], target, speed)
        if given["schedule"]:
            return jobs.scheduled(target, Cron.parse(given["schedule"], given["time_zone"]), deadline, retry, speed)
        every = given["hit_every"] or timedelta(seconds=0.5 if given["chaos"] else 2)
        plan = jobs.demo(target, every, deadline, retry, chaos=given["chaos"])
        if given["once"]:
            # A single hit needs no shorter times, and a backoff that it costs is a real one.
            del plan.environment[EMULATED]
        return plan
    except ValueError as error:
        raise UsageError(str(error)) from error


def _faults(given: dict[str, Any]) -> "Faults":
    from cronlease.emulator.faults import CHAOS, Faults

    faults = {name: given[name] for name in fault_names() if given[name] is not None and given[name] is not False}
    faults |= {name: _seconds(value) for name, value in faults.items() if isinstance(value, timedelta)}
    return (CHAOS if given["chaos"] else Faults())._replace(**faults)


def _seconds(length: timedelta) -> float:
    return length.total_seconds()
