"""`cronlease emulate`: reads the options; everything else is the emulator's."""

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cronlease.logs import redact
from cronlease.verbs import options
from cronlease.verbs.bar import bar
from cronlease.verbs.mistake import Mistake
from cronlease.verbs.source import chosen_job, load_jobs, shipped
from cronlease.verbs.table import shown

if TYPE_CHECKING:
    from cronlease.emulator.faults import Faults
    from cronlease.emulator.jobs import Plan

F = TypeVar("F", bound=Callable[..., Any])

_SHIPPED = "refresh_opening_signals"
_CHANCE = click.FloatRange(0, 1)
_JOB_OPTIONS = [
    options.length("--hit-every", text="Hit it that often, in our time; 2s when nothing else says when."),
    click.option("--schedule", metavar="CRON", help='Hit it by a cron expression, such as "*/5 * * * *".'),
    click.option("--time-zone", default="Etc/UTC", show_default=True, help="Of --schedule."),
    options.length("--attempt-deadline", default="3m", text="When an attempt is given up, from 15s to 30m."),
    click.option("--retry-count", type=click.IntRange(0, 5), default=0, show_default=True, help="Retries of a slot."),
    options.length("--max-retry-duration", default="0s", text="Retry at least so long after the first attempt."),
    options.length("--min-backoff", default="5s", text="Before the first retry."),
    options.length("--max-backoff", default="1h", text="Before any retry."),
    click.option(
        "--max-doublings", type=click.IntRange(0, 16), default=5, show_default=True, help="Then it grows linearly."
    ),
]
_JOB_NAMES = {
    "hit_every",
    "schedule",
    "time_zone",
    "attempt_deadline",
    "retry_count",
    "max_retry_duration",
    "min_backoff",
    "max_backoff",
    "max_doublings",
}
# What would be ignored without a schedule, without a retry, or with --once.
_OF_A_SCHEDULE = {"time_zone", "speed"}
_OF_A_RETRY = {"min_backoff", "max_backoff", "max_doublings"}
_OF_MANY_HITS = {"retry_count", "max_retry_duration", "lasting", *_OF_A_RETRY}
_FAULT_OPTIONS = [
    click.option("--duplicate", type=_CHANCE, metavar="P", help="Deliver a slot twice, with that chance."),
    click.option("--drop-response", type=_CHANCE, metavar="P", help="Hang up before the answer, with that chance."),
    click.option("--late", type=_CHANCE, metavar="P", help="Hold a hit back for a while, with that chance."),
    click.option("--overlap", is_flag=True, help="Do not wait for an answer before the next hit."),
    options.length("--kill-every", text="SIGKILL a worker that often."),
    options.length("--pause-every", text="SIGSTOP a worker until the lease is out, then let it go on."),
    options.length("--sigterm-every", text="SIGTERM a worker that often."),
    options.length("--db-restart-every", text="Crash the embedded PostgreSQL and start it again."),
]


def _all(decorators: list[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


@click.command("emulate", short_help="Run it all on this machine, and a scheduler that hits it.")
@options.source
@click.option(
    "--target",
    envvar="FUNCTION_TARGET",
    show_envvar=True,
    default=_SHIPPED,
    show_default=True,
    help="The function in it.",
)
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Where it listens, on loopback."
)
@options.length("--for", "lasting", text="Stop by itself after that long.")
@click.option("--once", is_flag=True, help="One hit; prints its answer, and exits with 1 when that is not ok.")
@click.option("--jobs", type=click.Path(path_type=Path), help="Hit it as this deploy/jobs.json says.")
@_all(_JOB_OPTIONS)
@click.option("--speed", type=click.FloatRange(1, 100_000), default=1, show_default=True, help="Compress time.")
@click.option("--oidc", is_flag=True, help="Send ID tokens that are signed here, and let nobody else in.")
@click.option("--chaos", is_flag=True, help="All that can go wrong does; what is said beside it wins.")
@_all(_FAULT_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON per hit, and the verdict as the last one.")
def emulate_command(**given: Any) -> None:
    """Run it all on this machine: database, sample feeds, the function, and a scheduler that hits it.

    At the end it holds what callers were told against the history in the database: the exit status is 1 when a
    promise was broken, or when it could not start. --speed is for --schedule and --jobs: the function's lease,
    cadence and backoff are then as much shorter, unless the environment says them.
    """
    from cronlease.emulator.emulate import TROUBLES, NeverStarted, Options, emulate, once
    from cronlease.emulator.show import Screen

    _check(given)
    told = Options(
        source=given["source"] or shipped(),
        target=given["target"],
        plan=_plan(given),
        port=given["port"],
        faults=_faults(given),
        all_that_can_be=given["chaos"],
        seconds=_seconds(given["lasting"]) if given["lasting"] is not None else None,
        oidc=given["oidc"],
        openings=given["target"] == _SHIPPED,
    )
    if sys.stderr.isatty():
        # Not a bar: what is started now is forked, and a bar has a thread.
        click.echo("starting the database, the feeds and the function ...", err=True)
    try:
        if given["once"]:
            status = once(told, click.echo, bar("waiting for the answer"))
        else:
            status = emulate(told, Screen(click.echo, as_json=given["as_json"]))
    except NeverStarted as error:
        # Only now, because it runs the file in this process, too.
        chosen_job(load_jobs(given["source"]), given["source"], given["target"])
        raise click.ClickException(shown(redact(str(error)))) from error
    except TROUBLES as error:
        raise click.ClickException(shown(redact(str(error)))) from error
    if status:
        raise click.exceptions.Exit(status)


def _check(given: dict[str, Any]) -> None:
    ctx = click.get_current_context()
    said = {name for name in given if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    if given["source"] is not None and not given["source"].is_file():
        raise Mistake(shown(f"there is no file {given['source'].absolute()}: pass --source path/to/main.py"))
    if given["jobs"] and (also := said & _JOB_NAMES):
        raise click.UsageError(f"--jobs says that already: leave {_flag(min(also))} out")
    if given["schedule"] and given["hit_every"]:
        raise click.UsageError("--schedule or --hit-every: one of them says when it is hit")
    if given["hit_every"] == timedelta():
        raise click.UsageError("--hit-every 0s is no pause at all: write 100ms as 0.1s")
    if not (given["jobs"] or given["schedule"]) and (lost := said & _OF_A_SCHEDULE):
        raise click.UsageError(f"{_flag(min(lost))} is for a schedule: pass --schedule CRON or --jobs FILE with it")
    if given["once"] and (given["chaos"] or said & set(_fault_names())):
        raise click.UsageError("--once is one hit in peace: leave the faults out")
    if given["once"] and (lost := said & _OF_MANY_HITS):
        raise click.UsageError(f"--once is one hit and no more: leave {_flag(min(lost))} out")
    if not (given["retry_count"] or given["max_retry_duration"]) and (lost := said & _OF_A_RETRY):
        raise click.UsageError(f"{_flag(min(lost))} is for retries: pass --retry-count N with it")


def _flag(name: str) -> str:
    return "--for" if name == "lasting" else f"--{name.replace('_', '-')}"


def _plan(given: dict[str, Any]) -> "Plan":
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
    target, deadline, speed = given["target"], _seconds(given["attempt_deadline"]), given["speed"]
    try:
        if given["jobs"]:
            return jobs.from_file(given["jobs"], target, speed)
        if given["schedule"]:
            return jobs.scheduled(target, Cron.parse(given["schedule"], given["time_zone"]), deadline, retry, speed)
        every = given["hit_every"] or timedelta(seconds=0.5 if given["chaos"] else 2)
        return jobs.demo(target, every, deadline, retry, chaos=given["chaos"])
    except ValueError as error:
        raise Mistake(str(error)) from error


def _faults(given: dict[str, Any]) -> "Faults":
    from cronlease.emulator.faults import CHAOS, Faults

    said = {name: given[name] for name in _fault_names() if given[name] is not None and given[name] is not False}
    said |= {name: _seconds(value) for name, value in said.items() if isinstance(value, timedelta)}
    return (CHAOS if given["chaos"] else Faults())._replace(**said)


def _fault_names() -> tuple[str, ...]:
    from cronlease.emulator.faults import Faults

    return Faults._fields


def _seconds(length: timedelta) -> float:
    return length.total_seconds()
