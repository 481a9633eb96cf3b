"""`cronlease worker`: the resident loop as a process."""

import logging
from collections.abc import Mapping

import click

from cronlease.cli import options, output
from cronlease.cli.source import Source, load_jobs, refuse_to_make_its_tables
from cronlease.cli.toolbox import Toolbox
from cronlease.db.connection import POOL_SIZE, Database
from cronlease.db.conninfo import conninfo_of
from cronlease.job import Job
from cronlease.observe import logs
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.process.shutdown import process
from cronlease.settings import Settings
from cronlease.triggers.worker import Worker

# A run may stage on one connection and commit on another. Above the maximum, jobs share the connections: of many
# parallel runs, few are in a block at any moment.
_CONNECTIONS_PER_RUN = 4
_MOST_CONNECTIONS = 32


@click.command("worker")
@options.source
@options.concurrency
@click.option("--json", "as_json", is_flag=True, help="A line of JSON per run on standard output.")
@click.pass_obj
def worker_command(toolbox: Toolbox, source: Source, concurrency: int, as_json: bool) -> None:
    """Run what is due, whenever it is due, until stopped.

    Any number may share a database. SIGTERM or Ctrl-C gives the runs in progress CRONLEASE_DRAIN_SECONDS to finish,
    interrupts the others, which are then due immediately, and ends with exit status 0; a second signal does not wait.
    """
    if spawn_guard.is_spawned():
        document = {"ok": True, "skipped": True, "reason": SkipReason.SPAWNED, "hint": spawn_guard.HINT}
        output.spawned("worker", document, in_json=as_json)
        return
    settings = toolbox.settings()
    logs.configure(settings.log_level)
    jobs = load_jobs(source)
    with toolbox.database_url(stays=True) as url:
        # A database that is down may come up; an address that cannot be read never will.
        conninfo_of(url)
        refuse_to_make_its_tables(source, jobs, url)
        loop.run(_work(jobs, source, url, settings, concurrency, as_json))


async def _work(
    jobs: Mapping[str, Job], source: Source, url: str, settings: Settings, concurrency: int, as_json: bool
) -> None:
    def print_outcome(outcome: Outcome) -> None:
        # For a person, the log already has a line per run.
        if as_json:
            output.as_json(outcome.as_json())

    size = max(POOL_SIZE, min(concurrency * _CONNECTIONS_PER_RUN, _MOST_CONNECTIONS))
    database = _database(url, settings, size=size)
    worker = Worker(jobs, database, settings, concurrency=concurrency, on_outcome=print_outcome)
    names = ", ".join(jobs)
    async with process.guarding(settings.drain_seconds, on_stop=worker.stop):
        logs.log(
            logging.INFO,
            f"The worker looks for what is due of {names}; source: {source.described}",
            action="worker_started",
        )
        try:
            await worker.run()
        finally:
            await database.close()
    logs.log(logging.INFO, "The worker has stopped", action="worker_stopped")


def _database(url: str, settings: Settings, *, size: int) -> Database:
    if settings.has_database:
        return Database(url, pooler=settings.pooler, size=size)
    from cronlease.cli.database import EmbeddedDatabase
    from cronlease.embedded.cluster import default_data_dir

    return EmbeddedDatabase(default_data_dir() / "postgres", url, pooler=settings.pooler, size=size)
