"""`cronlease emulate`: its options, and which of them contradict each other."""

import math
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from cronlease.cli import options
from cronlease.cli.errors import UsageError
from cronlease.emulator.faults import Faults


class Number(click.FloatRange):
    """Rejects NaN, which FloatRange lets through."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if math.isnan(number := super().convert(value, param, ctx)):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


_CHANCE = Number(0, 1)
# Options that would be ignored without a schedule, without a retry, with --once, or with --jobs.
_OF_A_SCHEDULE = {"speed", "time_zone", "asleep", "starting"}
_OF_A_RETRY = {"min_backoff", "max_backoff", "max_doublings"}
_OF_RETRIES = {"retry_count", "max_retry_duration", *_OF_A_RETRY}
_OF_MANY_HITS = {"lasting", *_OF_RETRIES}
_OF_A_JOB = {"hit_every", "schedule", "time_zone", "attempt_deadline", *_OF_RETRIES}


def _starting(_ctx: click.Context, _: click.Parameter, text: str | None) -> datetime | None:
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment is not None and moment.tzinfo is None:
        raise click.BadParameter(f"{text!r} is not a time with a zone: write 2026-03-29T01:50+01:00")
    return moment


@click.command("emulate", short_help="Run it all on this machine, with a scheduler that hits it.")
@options.source
@options.target
@click.option(
    "--setup",
    type=click.Path(path_type=Path),
    help="Run this SQL file in the database before each start.",
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="The port on loopback.")
@options.length("--for", "lasting", text="Stop after this long.")
@click.option("--once", is_flag=True, help="One hit; prints its answer, and exits with 1 when that is not ok.")
@click.option("--jobs", type=click.Path(path_type=Path), help="Hit it as this jobs.json says.")
@options.length("--hit-every", text="How often to hit it, in real time; by default 2s, with --chaos 0.5s.")
@click.option("--schedule", metavar="CRON", help='Hit it by a cron expression, such as "*/5 * * * *".')
@click.option("--time-zone", default="Etc/UTC", show_default=True, help="The zone of --schedule.")
@options.length("--attempt-deadline", default="3m", text="Give an attempt up after this long, from 15s to 30m.")
@click.option("--retry-count", type=click.IntRange(0, 5), default=0, show_default=True, help="Retries per slot.")
@options.length("--max-retry-duration", default="0s", text="Retry for at least this long after the first attempt.")
@options.length("--min-backoff", default="5s", text="Shortest pause before a retry.")
@options.length("--max-backoff", default="1h", text="Longest pause before a retry.")
@click.option(
    "--max-doublings",
    type=click.IntRange(0, 16),
    default=5,
    show_default=True,
    help="Doublings of the pause before it grows linearly.",
)
@click.option("--speed", type=Number(1, 100_000), default=1, show_default=True, help="Compress time.")
@options.length("--asleep", text="After three slots, send no hit for this long, in the schedule's time.")
@click.option(
    "--starting",
    metavar="TIME",
    callback=_starting,
    help="When the schedule's time begins, such as 2026-03-29T01:50+01:00, the night the clocks change.",
)
@click.option(
    "--oidc", is_flag=True, help="Send ID tokens signed here, and refuse other callers: needs cronlease[oidc]."
)
@click.option("--chaos", is_flag=True, help="Turn every fault on; other options override it.")
@click.option("--duplicate", type=_CHANCE, metavar="P", help="Chance to deliver a slot twice.")
@click.option("--drop-response", type=_CHANCE, metavar="P", help="Chance to hang up before the answer.")
@click.option("--late", type=_CHANCE, metavar="P", help="Chance to hold a hit back for a while.")
@click.option("--overlap", is_flag=True, help="Send each hit while another is under way.")
@options.length("--kill-every", text="How often to SIGKILL a worker.")
@options.length("--pause-every", text="How often to SIGSTOP a worker until its lease runs out.")
@options.length("--sigterm-every", text="How often to SIGTERM a worker.")
@options.length("--db-restart-every", text="How often to crash the embedded PostgreSQL and restart it.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON per hit, and the verdict as the last one.")
def emulate_command(**given: Any) -> None:
    """Run it all on this machine: database, sample feeds, the function, and a scheduler that hits it.

    At the end it compares the answers that callers got with the history in the database. The exit status is 1 when a
    promise was broken, when it could not start, or when --chaos saw too few runs to prove anything. The function's
    lease, cadence and backoff are shortened, even those of its decorator, but not those set in the environment, and
    none in a configured database. With --schedule or --jobs they are shortened by --speed.
    """
    _check(given)
    from cronlease.cli.emulation import run

    if status := run(given):
        raise click.exceptions.Exit(status)


def _check(given: dict[str, Any]) -> None:
    """Raises a sentence about the first two options that contradict each other."""
    written = set(filter(options.given_by_hand, given))
    if not given["source"].path.is_file():
        raise UsageError(f"there is no file {given['source'].path.absolute()}: pass --source path/to/main.py")
    if given["setup"] is not None and not given["setup"].is_file():
        raise UsageError(f"there is no file {given['setup'].absolute()}: pass --setup path/to/my.sql")
    if given["jobs"] and (also := written & _OF_A_JOB):
        raise click.UsageError(f"--jobs says that already: leave {_flag(min(also))} out")
    if given["schedule"] and given["hit_every"]:
        raise click.UsageError("--schedule and --hit-every exclude each other: each says when to hit")
    if given["hit_every"] == timedelta():
        raise click.UsageError("--hit-every 0s leaves no pause: write 0.1s, for example")
    if not (given["jobs"] or given["schedule"]) and (ignored := written & _OF_A_SCHEDULE):
        or_jobs = "" if min(ignored) == "time_zone" else " or --jobs FILE"
        raise click.UsageError(f"{_flag(min(ignored))} is for a schedule: pass --schedule CRON{or_jobs} with it")
    if given["once"] and (given["chaos"] or written.intersection(Faults._fields)):
        raise click.UsageError("--once is one hit without faults: leave them out")
    if given["once"] and (ignored := written & _OF_MANY_HITS):
        raise click.UsageError(f"--once is a single hit: leave {_flag(min(ignored))} out")
    if not (given["retry_count"] or given["max_retry_duration"]) and (ignored := written & _OF_A_RETRY):
        raise click.UsageError(f"{_flag(min(ignored))} is for retries: pass --retry-count N with it")


def _flag(name: str) -> str:
    return "--for" if name == "lasting" else f"--{name.replace('_', '-')}"
