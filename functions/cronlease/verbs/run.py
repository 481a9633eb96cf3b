"""`cronlease schedule run NAME`: one hit at a schedule, from here."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from cronlease import cascade, lifecycle
from cronlease.conninfo import connect_plain
from cronlease.database import Database
from cronlease.job import Hit, Job
from cronlease.lifecycle import process
from cronlease.outcome import Outcome, SkipReason
from cronlease.run import run_once, watcher
from cronlease.settings import Settings
from cronlease.trouble import UnknownSchedule
from cronlease.verbs import options, rows, show
from cronlease.verbs.bar import bar
from cronlease.verbs.source import Source, load_jobs
from cronlease.verbs.table import shown

if TYPE_CHECKING:
    from cronlease.cli import Toolbox


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
    if cascade.is_spawned():
        outcome = Outcome(name, uuid4(), skipped=SkipReason.SPAWNED, hint=cascade.HINT)
        show.spawned(name, outcome.as_json(), in_json=as_json)
        return
    settings = toolbox.settings()
    show.configure_logs(settings)
    jobs = load_jobs(source, say=not as_json)
    hit = Hit(force=force, args=args)
    with toolbox.database_url() as url:
        job = _job_of(url, name, jobs, source)
        outcome = lifecycle.run(run_here(job, hit, url, settings, name, jobs))
        show.outcome(outcome, in_json=as_json)
    if outcome.failed is not None or outcome.skipped is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


def _job_of(url: str, name: str, jobs: Mapping[str, Job], source: Source) -> Job:
    """The function that the schedule's action names; one that has a row of its own may still have to be given it."""
    conn = connect_plain(url)
    try:
        with rows.known(conn, name):
            try:
                action = rows.look(conn, name).schedule.action
            except UnknownSchedule:
                if name not in jobs or not jobs[name].has_row:
                    raise
                action = name
    finally:
        conn.close()
    if action not in jobs:
        sentence = f'the action "{action}" of "{name}" is no function of {source.name}: pass --source'
        raise click.ClickException(shown(sentence))
    return jobs[action]


async def run_here(job: Job, hit: Hit, url: str, settings: Settings, name: str, jobs: Mapping[str, Job]) -> Outcome:
    """One hit in this process, which may be told to stop meanwhile."""
    database = Database(url, pooler=settings.pooler)
    try:
        with bar(f"{name} is running") as shown:
            watcher.set(shown.tell)
            async with process.guarding(settings.drain_seconds, told=partial(show.told_to_stop, settings)):
                return await run_once(job, hit, database, settings, name=name, jobs=jobs)
    finally:
        await database.close()
