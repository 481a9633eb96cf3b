"""`cronlease emulate`: its options, and which of them contradict each other."""

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cronlease.cli import options
from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Number(click.FloatRange):
    """Rejects NaN, which FloatRange lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


_CHANCE = Number(0, 1)
_JOB_OPTIONS: dict[str, Decorator] = {
    "hit_every": options.length(
        "--hit-every", text="Hit it that often, in our time; 2s when nothing else says when."
    ),
    "schedule": click.option(
        "--schedule", metavar="CRON", help='Hit it by a cron expression, such as "*/5 * * * *".'
    ),
    "time_zone": click.option("--time-zone", default="Etc/UTC", show_default=True, help="Of --schedule."),
    "attempt_deadline": options.length(
        "--attempt-deadline", default="3m", text="When an attempt is given up, from 15s to 30m."
    ),
    "retry_count": click.option(
        "--retry-count", type=click.IntRange(0, 5), default=0, show_default=True, help="Retries of a slot."
    ),
    "max_retry_duration": options.length(
        "--max-retry-duration", default="0s", text="Retry at least so long after the first attempt."
    ),
    "min_backoff": options.length("--min-backoff", default="5s", text="Before the first retry."),
    "max_backoff": options.length("--max-backoff", default="1h", text="Before any retry."),
    "max_doublings": click.option(
        "--max-doublings", type=click.IntRange(0, 16), default=5, show_default=True, help="Then it grows linearly."
    ),
}
# What would be ignored without a schedule, without a retry, or with --once.
_OF_A_SCHEDULE = {
    "speed": "--speed is for a schedule: pass --schedule CRON or --jobs FILE with it",
    "time_zone": "--time-zone is for a schedule: pass --schedule CRON with it",
    "asleep": "--asleep is for a schedule: pass --schedule CRON or --jobs FILE with it",
    "starting": "--starting is for a schedule: pass --schedule CRON or --jobs FILE with it",
}
_OF_A_RETRY = {"min_backoff", "max_backoff", "max_doublings"}
_OF_MANY_HITS = {"retry_count", "max_retry_duration", "lasting", *_OF_A_RETRY}
_FAULT_OPTIONS: dict[str, Decorator] = {
    "duplicate": click.option(
        "--duplicate", type=_CHANCE, metavar="P", help="Deliver a slot twice, with that chance."
    ),
    "drop_response": click.option(
        "--drop-response", type=_CHANCE, metavar="P", help="Hang up before the answer, with that chance."
    ),
    "late": click.option("--late", type=_CHANCE, metavar="P", help="Hold a hit back for a while, with that chance."),
    "overlap": click.option("--overlap", is_flag=True, help="Hit while another hit is under way, each time."),
    "kill_every": options.length("--kill-every", text="SIGKILL a worker that often."),
    "pause_every": options.length(
        "--pause-every", text="SIGSTOP a worker until the lease is out, then let it go on."
    ),
    "sigterm_every": options.length("--sigterm-every", text="SIGTERM a worker that often."),
    "db_restart_every": options.length(
        "--db-restart-every", text="Crash the embedded PostgreSQL and start it again."
    ),
}


def _starting(_ctx: click.Context, _: click.Parameter, text: str | None) -> datetime | None:
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment is not None and moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} is no time with a zone: write 2026-03-29T01:50+01:00")
    return moment


def _all_of(decorators: dict[str, Decorator]) -> Decorator:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators.values()):
            function = decorator(function)
        return function

    return decorate


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
@click.option("--jobs", type=click.Path(path_type=Path), help="Hit it as this jobs.json says.")
@_all_of(_JOB_OPTIONS)
@click.option("--speed", type=Number(1, 100_000), default=1, show_default=True, help="Compress time.")
@options.length("--asleep", text="After three slots, no hit for so long of the schedule's time.")
@click.option(
    "--starting",
    metavar="TIME",
    callback=_starting,
    help="When the schedule's time begins, such as 2026-03-29T01:50+01:00, the day of a change of clocks.",
)
@click.option(
    "--oidc", is_flag=True, help="Send ID tokens that are signed here, and let nobody else in: needs cronlease[oidc]."
)
@click.option("--chaos", is_flag=True, help="All that can go wrong does; what is said beside it wins.")
@_all_of(_FAULT_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON per hit, and the verdict as the last one.")
def emulate_command(**given: Any) -> None:
    """Run it all on this machine: database, sample feeds, the function, and a scheduler that hits it.

    At the end it holds what callers were told against the history in the database: the exit status is 1 when a
    promise was broken, when it could not start, or when --chaos saw too few runs to prove anything. The function's
    lease, cadence and backoff are shortened, those of its decorator, too; what the environment says is kept. With
    --schedule or --jobs they are as much shorter as --speed says.
    """
    _check(given)
    from cronlease.cli.emulation import run

    if status := run(given):
        raise click.exceptions.Exit(status)


def _check(given: dict[str, Any]) -> None:
    """Raises the sentence for the first two that contradict each other."""
    ctx = click.get_current_context()
    written = {name for name in given if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    if not given["source"].path.is_file():
        raise UsageError(
            one_line(f"there is no file {given['source'].path.absolute()}: pass --source path/to/main.py")
        )
    if given["setup"] is not None and not given["setup"].is_file():
        raise UsageError(one_line(f"there is no file {given['setup'].absolute()}: pass --setup path/to/my.sql"))
    if given["jobs"] and (also := written & _JOB_OPTIONS.keys()):
        raise click.UsageError(f"--jobs says that already: leave {_flag(min(also))} out")
    if given["schedule"] and given["hit_every"]:
        raise click.UsageError("--schedule or --hit-every: one of them says when it is hit")
    if given["hit_every"] == timedelta():
        raise click.UsageError("--hit-every 0s is no pause at all: write 100ms as 0.1s")
    if not (given["jobs"] or given["schedule"]) and (lost := written & _OF_A_SCHEDULE.keys()):
        raise click.UsageError(_OF_A_SCHEDULE[min(lost)])
    if given["once"] and (given["chaos"] or written & _FAULT_OPTIONS.keys()):
        raise click.UsageError("--once is one hit in peace: leave the faults out")
    if given["once"] and (lost := written & _OF_MANY_HITS):
        raise click.UsageError(f"--once is one hit and no more: leave {_flag(min(lost))} out")
    if not (given["retry_count"] or given["max_retry_duration"]) and (lost := written & _OF_A_RETRY):
        raise click.UsageError(f"{_flag(min(lost))} is for retries: pass --retry-count N with it")


def _flag(name: str) -> str:
    return "--for" if name == "lasting" else f"--{name.replace('_', '-')}"
