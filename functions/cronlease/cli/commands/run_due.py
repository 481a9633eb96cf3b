"""`cronlease run-due`: runs what is due, for a crontab or a timer."""

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import click

from cronlease.cadence import Cadence
from cronlease.cli import options, output
from cronlease.cli.process_lock import process_lock
from cronlease.cli.progress import bar
from cronlease.cli.rows import Schedule
from cronlease.cli.source import Source, load_jobs
from cronlease.cli.status_rows import read_overview
from cronlease.db.connection import Database
from cronlease.db.conninfo import connect_sync
from cronlease.errors import DatabaseTrouble
from cronlease.explain.format import counted
from cronlease.job import Job
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.run import watcher
from cronlease.settings import Settings
from cronlease.triggers.dispatch import Dispatcher, Report

if TYPE_CHECKING:
    from cronlease.cli.main import Toolbox

_BUSY = "Schedule already running, skipping."
_RUNNING = "running what is due"
_MOST_READ = 1000


@click.command("run-due")
@options.source
@options.as_json
@click.pass_obj
def run_due_command(toolbox: "Toolbox", source: Source, as_json: bool) -> None:
    """Run what is due, one after another, the oldest first.

    On one machine a second one says so and ends. The exit status is 1 when a run failed or the schedule could not be
    read, else 0.
    """
    if spawn_guard.is_spawned():
        output.spawned("run-due", Report(reason=SkipReason.SPAWNED).as_json(), in_json=as_json)
        return
    settings = toolbox.settings()
    output.configure_logs(settings)
    jobs = load_jobs(source, announce=not as_json)
    # The lock is let go first: an embedded server may have to wait for who else uses it.
    with toolbox.database_url() as url, process_lock(settings) as alone:
        if not alone:
            output.answer({**Report(reason=SkipReason.LOCKED).as_json(), "hint": _BUSY}, _BUSY, in_json=as_json)
            return
        report = loop.run(_run(jobs, url, settings, _print_nothing if as_json else _print_outcome))
        _print(report, [] if report.reason else _unreadable(url), as_json)
    if report.failed or report.reason is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


def _print(report: Report, unreadable: list[str], as_json: bool) -> None:
    document = report.as_json()
    document["skipped"] += [{"function": name, "reason": SkipReason.SCHEDULE_READ_ERROR} for name in unreadable]
    output.answer(document, _summary(report), in_json=as_json)
    if report.failed and not as_json and not output.shows_where():
        click.echo(f"  {output.WHERE}")
    if unreadable and not as_json:
        output.text(f"These cannot run, what is in the column every or cron is no cadence: {', '.join(unreadable)}")
        click.echo("  `cronlease explain NAME` says what mends it")


async def _run(
    jobs: Mapping[str, Job], url: str, settings: Settings, on_outcome: Callable[[Outcome], None]
) -> Report:
    database = Database(url, pooler=settings.pooler)

    def ended(outcome: Outcome) -> None:
        progress.hide()
        on_outcome(outcome)
        progress.show(_RUNNING)

    try:
        with bar(_RUNNING) as progress:
            watcher.set(progress.tell)
            async with process.guarding(settings.drain_seconds, told=partial(output.announce_stop, settings)):
                return await Dispatcher(jobs, database, settings).run_due(ended)
    finally:
        await database.close()


def _unreadable(url: str) -> list[str]:
    """Schedules that are due and that no claim takes, because nobody knows when they would be due again."""
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


def _print_outcome(outcome: Outcome) -> None:
    output.outcome(outcome, in_json=False, one_of_many=True)


def _print_nothing(_: Outcome) -> None: ...


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
        summary += (
            f"; left alone, their actions are not declared here: {of} ({', '.join(report.due.unknown_names)}{more})"
        )
    return summary
