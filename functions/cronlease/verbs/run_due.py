"""`cronlease run-due`: the run-due door for a crontab or a timer."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cronlease import cascade
from cronlease.database import Database
from cronlease.dispatch import Dispatcher, Report
from cronlease.job import Job
from cronlease.lifecycle import process
from cronlease.outcome import Outcome, SkipReason
from cronlease.settings import Settings
from cronlease.verbs import options, show
from cronlease.verbs.only_one import only_one
from cronlease.verbs.source import load_jobs
from cronlease.verbs.words import counted

if TYPE_CHECKING:
    from cronlease.cli import Toolbox

_BUSY = "Schedule already running, skipping."


@click.command("run-due")
@options.source
@options.as_json
@click.pass_obj
def run_due_command(toolbox: "Toolbox", source: Path | None, as_json: bool) -> None:
    """Run what is due, one after another, the oldest first.

    On one machine a second one says so and ends. The exit status is 1 when a run failed or the schedule could not be
    read, else 0.
    """
    if cascade.is_spawned():
        show.spawned("run-due", Report(reason=SkipReason.SPAWNED).as_json(), in_json=as_json)
        return
    settings = toolbox.settings()
    show.configure_logs(settings)
    jobs = load_jobs(source)
    # The URL is read inside, too: one that cannot be read is one sentence there.
    with toolbox.troubles(), only_one(settings) as alone:
        if not alone:
            show.say({**Report(reason=SkipReason.LOCKED).as_json(), "hint": _BUSY}, _BUSY, in_json=as_json)
            return
        with toolbox.database_url() as url:
            report = asyncio.run(_run_due(jobs, url, settings, _quiet if as_json else _tell))
    show.say(report.as_json(), _summary(report), in_json=as_json)
    if report.failed or report.reason is SkipReason.SCHEDULE_READ_ERROR:
        raise click.exceptions.Exit(1)


async def _run_due(
    jobs: Mapping[str, Job], url: str, settings: Settings, on_outcome: Callable[[Outcome], None]
) -> Report:
    database = Database(url, pooler=settings.pooler)
    try:
        async with process.guarding(settings.drain_seconds):
            return await Dispatcher(jobs, database, settings).run_due(on_outcome)
    finally:
        await database.close()


def _tell(outcome: Outcome) -> None:
    show.outcome(outcome, in_json=False)


def _quiet(_: Outcome) -> None: ...


def _summary(report: Report) -> str:
    said = f"{len(report.ran)} ran, {len(report.failed)} failed"
    if report.reason is SkipReason.SCHEDULE_READ_ERROR:
        return f"{said}; then the schedule could not be read: the log says why"
    if report.reason is not None:
        return f"{said}; then it ended: {report.reason}"
    if report.due is None:
        return f"{said}; what is still due could not be read"
    said += f", {report.due.due} still due"
    if report.due.unknown:
        more = "" if report.due.unknown == len(report.due.unknown_names) else ", ..."
        of = counted(report.due.unknown, "schedule")
        said += (
            f"; left alone, their actions are not declared here: {of} ({', '.join(report.due.unknown_names)}{more})"
        )
    return said
