"""`cronlease schedule run NAME`: one hit at a schedule, from here."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any

import click

from cronlease.cli import options, output, rows
from cronlease.cli.progress import Bar, bar
from cronlease.cli.source import Source, load_jobs
from cronlease.cli.toolbox import Toolbox
from cronlease.db.connection import Database
from cronlease.db.conninfo import connect_sync
from cronlease.errors import UnknownSchedule
from cronlease.job import Hit, Job
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.process.person import actor
from cronlease.process.shutdown import process
from cronlease.run.by_hand import run_by_hand
from cronlease.run.run import watcher
from cronlease.settings import Settings
from cronlease.triggers.database import opened


@click.command("run")
@options.name
@options.force
@options.args
@options.source
@options.as_json
@click.pass_obj
def run_command(
    toolbox: Toolbox, name: str, force: bool, args: dict[str, Any], source: Source, as_json: bool
) -> None:
    """Run NAME here, if it is due and free.

    --args adds to the schedule's own args and wins over them. The exit status is 1 when the run failed or the
    schedule could not be read, else 0.
    """
    if spawn_guard.is_spawned():
        output.spawned(name, in_json=as_json)
        return
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    with toolbox.database_url() as url:
        job = _job_of(url, name, jobs, source)
        run_here(job, Hit(force=force, args=args), url, settings, name, jobs, in_json=as_json)


def _job_of(url: str, name: str, jobs: Mapping[str, Job], source: Source) -> Job:
    """The function that is the schedule's action. A function's own row may not exist yet: its first run makes it."""
    with closing(connect_sync(url)) as conn, rows.explaining_unknown(conn, name):
        try:
            action = rows.read_details(conn, name).schedule.action
        except UnknownSchedule:
            if name not in jobs or not jobs[name].has_row:
                raise
            action = name
    if action not in jobs:
        raise click.ClickException(
            f'the action "{action}" of "{name}" is not a function of {source.name}: pass --source'
        )
    return jobs[action]


def run_here(
    job: Job, hit: Hit, url: str, settings: Settings, name: str, jobs: Mapping[str, Job], *, in_json: bool
) -> None:
    """One hit in this process; prints the outcome. The exit status is 1 when it failed or could not be decided."""

    async def run() -> Outcome:
        async with watched(url, settings, f"{name} is running") as (database, _):
            return await run_by_hand(job, hit, database, settings, actor=actor(), name=name, jobs=jobs)

    outcome = loop.run(run())
    output.outcome(outcome, in_json=in_json)
    if outcome.failed is not None or outcome.skipped is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


@asynccontextmanager
async def watched(url: str, settings: Settings, description: str) -> AsyncIterator[tuple[Database, Bar]]:
    """A database for runs in this process, and a bar that shows their progress. SIGTERM and Ctrl-C drain them."""
    async with opened(url, settings) as database:
        with bar(description) as progress:
            watcher.set(progress.tell)
            async with process.guarding(settings.drain_seconds, on_stop=partial(output.announce_stop, settings)):
                yield database, progress
