"""What can be said to `cronlease emulate`, and what contradicts what."""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click

from cronlease.cli import options
from cronlease.cli.errors import UsageError
from cronlease.cli.table import one_line

F = TypeVar("F", bound=Callable[..., Any])


class Number(click.FloatRange):
    """One that is within the range, which what is no number is not outside of."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


_CHANCE = Number(0, 1)
JOB_OPTIONS = [
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
_OF_A_SCHEDULE = {
    "speed": "--speed is for a schedule: pass --schedule CRON or --jobs FILE with it",
    "time_zone": "--time-zone is for a schedule: pass --schedule CRON with it",
}
_OF_A_RETRY = {"min_backoff", "max_backoff", "max_doublings"}
_OF_MANY_HITS = {"retry_count", "max_retry_duration", "lasting", *_OF_A_RETRY}
FAULT_OPTIONS = [
    click.option("--duplicate", type=_CHANCE, metavar="P", help="Deliver a slot twice, with that chance."),
    click.option("--drop-response", type=_CHANCE, metavar="P", help="Hang up before the answer, with that chance."),
    click.option("--late", type=_CHANCE, metavar="P", help="Hold a hit back for a while, with that chance."),
    click.option("--overlap", is_flag=True, help="Hit while another hit is under way, each time."),
    options.length("--kill-every", text="SIGKILL a worker that often."),
    options.length("--pause-every", text="SIGSTOP a worker until the lease is out, then let it go on."),
    options.length("--sigterm-every", text="SIGTERM a worker that often."),
    options.length("--db-restart-every", text="Crash the embedded PostgreSQL and start it again."),
]


def all_of(decorators: list[Callable[[F], F]]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def check(given: dict[str, Any]) -> None:
    """Raises the sentence for the first two that contradict each other."""
    ctx = click.get_current_context()
    written = {name for name in given if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE}
    if not given["source"].path.is_file():
        raise UsageError(
            one_line(f"there is no file {given['source'].path.absolute()}: pass --source path/to/main.py")
        )
    if given["setup"] is not None and not given["setup"].is_file():
        raise UsageError(one_line(f"there is no file {given['setup'].absolute()}: pass --setup path/to/my.sql"))
    if given["jobs"] and (also := written & _JOB_NAMES):
        raise click.UsageError(f"--jobs says that already: leave {_flag(min(also))} out")
    if given["schedule"] and given["hit_every"]:
        raise click.UsageError("--schedule or --hit-every: one of them says when it is hit")
    if given["hit_every"] == timedelta():
        raise click.UsageError("--hit-every 0s is no pause at all: write 100ms as 0.1s")
    if not (given["jobs"] or given["schedule"]) and (lost := written & _OF_A_SCHEDULE.keys()):
        raise click.UsageError(_OF_A_SCHEDULE[min(lost)])
    if given["once"] and (given["chaos"] or written & set(fault_names())):
        raise click.UsageError("--once is one hit in peace: leave the faults out")
    if given["once"] and (lost := written & _OF_MANY_HITS):
        raise click.UsageError(f"--once is one hit and no more: leave {_flag(min(lost))} out")
    if not (given["retry_count"] or given["max_retry_duration"]) and (lost := written & _OF_A_RETRY):
        raise click.UsageError(f"{_flag(min(lost))} is for retries: pass --retry-count N with it")


def _flag(name: str) -> str:
    return "--for" if name == "lasting" else f"--{name.replace('_', '-')}"


def fault_names() -> tuple[str, ...]:
    from cronlease.emulator.faults import Faults

    return Faults._fields
