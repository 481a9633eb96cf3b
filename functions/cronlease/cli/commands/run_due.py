"""`cronlease run-due`: runs what is due, for a crontab or a timer."""

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import click

from cronlease.cadence import Cadence
from cronlease.cli import options, output
from cronlease.cli.commands.run import watched
from cronlease.cli.source import Source, load_jobs, refuse_to_make_its_tables
from cronlease.cli.status_rows import read_overview
from cronlease.cli.toolbox import Toolbox
from cronlease.db.conninfo import connect_sync, place_of
from cronlease.embedded.cluster import default_data_dir
from cronlease.embedded.filelock import FileLock
from cronlease.errors import DatabaseTrouble
from cronlease.explain.format import counted
from cronlease.explain.rows import Schedule
from cronlease.job import Job
from cronlease.observe.logs import log
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.settings import Settings
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.report import Report

_BUSY = "Schedule already running, skipping."
_RUNNING = "running what is due"
_MOST_READ = 1000


@click.command("run-due")
@options.source
@options.concurrency
@options.as_json
@click.pass_obj
def run_due_command(toolbox: Toolbox, source: Source, concurrency: int, as_json: bool) -> None:
    """Run what is due, the oldest first.

    Runs one schedule after another, unless --concurrency is given. If another run-due is at work on this machine, it
    says so and ends. The exit status is 1 when a run failed or the schedule could not be read, else 0.
    """
    if spawn_guard.is_spawned():
        output.spawned("run-due", Report(reason=SkipReason.SPAWNED).as_json(), in_json=as_json)
        return
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    # The lock comes last, so it is free again while an embedded server still waits for others that use it.
    with toolbox.database_url() as url, process_lock(settings) as is_alone:
        if not is_alone:
            output.answer({**Report(reason=SkipReason.LOCKED).as_json(), "hint": _BUSY}, _BUSY, in_json=as_json)
            return
        refuse_to_make_its_tables(source, jobs, url)
        report = loop.run(_run(jobs, url, settings, concurrency, as_json))
        _print(report, [] if report.reason else _unreadable(url), as_json)
    if report.failed or report.reason is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


@contextmanager
def process_lock(settings: Settings) -> Iterator[bool]:
    """One run-due at a time on one machine. Only a courtesy: what keeps two runs apart is the lease in the database.
    False while another process holds the lock for the same database and schema. True as well where the lock file
    cannot be written."""
    place = place_of(settings.database_url or "") if settings.has_database else "embedded"
    if settings.schema != "public":
        place = f"{place} {settings.schema}"
    short = hashlib.sha256(place.encode()).hexdigest()[:12]
    directory = default_data_dir()
    lock, is_free = None, True
    try:
        # As root, PostgreSQL runs as another account, which must be able to enter the directory.
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        directory.mkdir(mode=0o755 if is_root else 0o700, parents=True, exist_ok=True)
        lock = FileLock.take(directory / f"run-due-{short}.lock")
        is_free = lock is not None
    except OSError as error:
        log(logging.WARNING, f"Going on without the lock file in {directory}: {error}", action="no_lock_file")
    try:
        yield is_free
    finally:
        if lock is not None:
            lock.release()


def _print(report: Report, unreadable: list[str], as_json: bool) -> None:
    document = report.as_json()
    document["skipped"] += [{"function": name, "reason": SkipReason.SCHEDULE_READ_ERROR} for name in unreadable]
    output.answer(document, _summary(report), in_json=as_json)
    if report.failed and not as_json and not output.shows_where():
        click.echo(f"  {output.WHERE}")
    if unreadable and not as_json:
        output.text(f"These cannot run, their column every or cron holds no cadence: {', '.join(unreadable)}")
        click.echo("  `cronlease explain NAME` says how to fix it")


async def _run(jobs: Mapping[str, Job], url: str, settings: Settings, concurrency: int, as_json: bool) -> Report:
    def print_outcome(outcome: Outcome) -> None:
        progress.hide()
        if not as_json:
            output.outcome(outcome, in_json=False, one_of_many=True)
        progress.show(_RUNNING)

    async with watched(url, settings, _RUNNING) as (database, progress):
        return await Dispatcher(jobs, database, settings).run_due(print_outcome, concurrency=concurrency)


def _unreadable(url: str) -> list[str]:
    """Schedules that no claim takes, because their cadence does not say when they would be due again."""
    try:
        with closing(connect_sync(url)) as conn:
            schedules = read_overview(conn, _MOST_READ).schedules
    except DatabaseTrouble:
        return []
    return [row.function_name for row, _ in schedules if row.completed_at is None and not _is_readable(row)]


def _is_readable(row: Schedule) -> bool:
    try:
        Cadence.of_row(row.every, row.cron, row.time_zone)
    except ValueError:
        return False
    return True


def _summary(report: Report) -> str:
    summary = f"{len(report.ran)} ran, {len(report.failed)} failed"
    if report.reason is SkipReason.SCHEDULE_READ_ERROR:
        return f"{summary}; then the schedule could not be read: the log says why"
    if report.reason is not None:
        return f"{summary}; then it ended: {report.reason}"
    if report.due is None:
        return f"{summary}; what is still due could not be read"
    summary += f", {report.due.due} still due"
    if report.due.unknown:
        more = "" if report.due.unknown == len(report.due.unknown_names) else ", ..."
        of = counted(report.due.unknown, "schedule")
        names = ", ".join(report.due.unknown_names)
        summary += f"; left alone, their actions are not declared here: {of} ({names}{more})"
    return summary
