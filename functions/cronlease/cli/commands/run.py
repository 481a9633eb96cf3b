"""`cronlease schedule run NAME`: one hit at a schedule, from here."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from cronlease.cli import options, output, rows
from cronlease.cli.progress import bar
from cronlease.cli.source import Source, load_jobs
from cronlease.cli.table import one_line
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

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox


@click.command("run")
@options.name
@click.option("--force", is_flag=True, help="Even if it is not due; never while it runs, is paused or completed.")
@options.args
@options.source
@options.as_json
@click.pass_obj
def run_command(
    toolbox: "Toolbox", name: str, force: bool, args: dict[str, Any], source: Source, as_json: bool
) -> None:
    """Run NAME here, if it is due and free.

    What --args says goes on top of the schedule's own. The exit status is 1 when the run failed or the schedule
    could not be read, else 0.
    """
    if spawn_guard.is_spawned():
        outcome = Outcome(name, uuid4(), skipped=SkipReason.SPAWNED, hint=spawn_guard.HINT)
        output.spawned(name, outcome.as_json(), in_json=as_json)
        return
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    with toolbox.database_url() as url:
        job = _job_of(url, name, jobs, source)
        run_here(job, Hit(force=force, args=args), url, settings, name, jobs, in_json=as_json)


def _job_of(url: str, name: str, jobs: Mapping[str, Job], source: Source) -> Job:
    """The function that the schedule's action names; one that has a row of its own may still have to be given it."""
    conn = connect_sync(url)
    try:
        with rows.explaining_unknown(conn, name):
            try:
                action = rows.read_details(conn, name).schedule.action
            except UnknownSchedule:
                if name not in jobs or not jobs[name].has_row:
                    raise
                action = name
    finally:
        conn.close()
    if action not in jobs:
        sentence = f'the action "{action}" of "{name}" is no function of {source.name}: pass --source'
        raise click.ClickException(one_line(sentence))
    return jobs[action]


def run_here(
    job: Job, hit: Hit, url: str, settings: Settings, name: str, jobs: Mapping[str, Job], *, in_json: bool
) -> None:
    """One hit in this process; prints the outcome. The exit status is 1 when it failed or could not be decided."""
    outcome = loop.run(_run(job, hit, url, settings, name, jobs))
    output.outcome(outcome, in_json=in_json)
    if outcome.failed is not None or outcome.skipped is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


async def _run(job: Job, hit: Hit, url: str, settings: Settings, name: str, jobs: Mapping[str, Job]) -> Outcome:
    database = Database(url, pooler=settings.pooler)
    try:
        with bar(f"{name} is running") as progress:
            watcher.set(progress.tell)
            async with process.guarding(settings.drain_seconds, told=partial(output.announce_stop, settings)):
                return await run_by_hand(job, hit, database, settings, actor=actor(), name=name, jobs=jobs)
    finally:
        await database.close()
