"""`cronlease exec NAME -- command`: any command as a run."""

import asyncio
import contextlib
import os
import signal
import sys
from datetime import timedelta
from typing import Any
from uuid import uuid4

import click

from cronlease.cli import options, output
from cronlease.cli.errors import UsageError
from cronlease.cli.toolbox import Toolbox
from cronlease.embedded.child import end_with_parent
from cronlease.errors import NameTaken, SaysAll
from cronlease.job import Hit, Job
from cronlease.outcome import FailReason, Outcome, SkipReason
from cronlease.process import loop, spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.attempt import skip_unasked
from cronlease.run.execution import run_once
from cronlease.run.run import Run
from cronlease.settings import Settings
from cronlease.triggers.database import opened
from cronlease.triggers.lease import hit_of, job_of

# The command's share of the job's grace, so that it is gone before its run is given up.
_SHARE_OF_GRACE = 0.8
# What it gets instead while the process is ending.
_LAST_SECONDS = 0.5
_NOT_FOUND, _NOT_PERMITTED, _SIGNALLED = 127, 126, 128


def _lease(ctx: click.Context, _: click.Parameter, text: str | None) -> str | None:
    """The text as it is. An error names the option."""
    toolbox: Toolbox = ctx.obj
    if text is not None:
        toolbox.duration(text)
    return text


@click.command("exec", short_help="Run a command as NAME, if that is due and free.")
@options.new_name
@click.option(
    "--lease",
    metavar="90s|5m|2h|1d",
    callback=_lease,
    help="Renewed while the command runs; by default CRONLEASE_LEASE.",
)
@click.option("--every", metavar="CADENCE", help="A band such as 10m..15m, or a beat such as 6h; else whenever free.")
@options.cron
@options.time_zone
@click.option("--force", is_flag=True, help="Run it even if it is not due, but never while it runs or is paused.")
@click.option(
    "--skip-status", type=click.IntRange(0, 255), default=0, show_default=True, help="Exit status of a skip."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def exec_command(
    toolbox: Toolbox, /, name: str, force: bool, skip_status: int, command: tuple[str, ...], **when: Any
) -> None:
    """Run a command as NAME, if that is due and free: on however many machines it is started, one runs it.

    Write the command after --, so that its options are its own. The exit status is the command's; a skip says why
    and exits with 0. The command gets SIGTERM, and SIGKILL if that does not help, when its lease is lost, when
    CRONLEASE_MAX_RUN is over, and when exec itself is stopped: the run is then interrupted, and due again. With
    CRONLEASE_NAME, CRONLEASE_REQUEST_ID and CRONLEASE_FENCE from its environment, its own SQL can call assert_lease
    at the start of a transaction, which then cannot commit after the lease is lost.
    """
    settings = toolbox.settings()
    output.configure_logs(settings, quiet=("run_failed",))
    child = Command(command)
    try:
        job = job_of(name, child.run, settings, **when)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if spawn_guard.is_spawned():
        outcome = skip_unasked(name, uuid4(), SkipReason.SPAWNED)
    else:
        with toolbox.database_url() as url:
            if not settings.has_database:
                # The command could not guess the address of the embedded one.
                child.env = {"DATABASE_URL": url}
            child.grace = job.limits.grace
            try:
                outcome = loop.run(_run(job, hit_of("exec", job, force=force), child, url, settings))
            except NameTaken as error:
                raise UsageError(str(error)) from None
    _end(outcome, child, skip_status)


async def _run(job: Job, hit: Hit, child: "Command", url: str, settings: Settings) -> Outcome:
    async with opened(url, settings) as database:

        def stop() -> None:
            output.announce_stop(settings)
            child.stop()

        async with process.guarding(settings.drain_seconds, on_stop=stop):
            return await run_once(job, hit, database, settings)


def _end(outcome: Outcome, child: "Command", skip_status: int) -> None:
    """On standard error: standard output is the command's own."""
    if outcome.skipped is not None or outcome.failed is not None:
        output.text(output.outcome_line(outcome.as_json()), err=True)
    if outcome.skipped is not None:
        raise click.exceptions.Exit(1 if outcome.skipped is SkipReason.SCHEDULE_READ_ERROR else skip_status)
    if outcome.failed is not None:
        # A command that was stopped and exits with 0 has not done its work: 143, as in a shell.
        interrupted = outcome.failed is FailReason.INTERRUPTED
        raise click.exceptions.Exit(child.status or (_status(-signal.SIGTERM) if interrupted else 1))


class CommandFailed(SaysAll):
    """The command ended with a status other than 0."""


class Command:
    """A child process with our standard streams and a process group of its own, so that its own children get our
    signals, too. On a terminal it has no group of its own: the terminal would treat it as a background job."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._leads = not sys.stdin.isatty() and hasattr(os, "killpg")
        self._process: asyncio.subprocess.Process | None = None
        self.env: dict[str, str] = {}
        self.grace = timedelta(0)
        self.status = 0
        self._was_stopped = False

    async def run(self, run: Run) -> None:
        """The job. When it is cancelled, it ends the command first."""
        self._process = await self._start(run)
        if process.draining:
            # The signal came while it was starting.
            self.stop()
        try:
            code = await self._process.wait()
            if process.draining and (code or self._was_stopped):
                # It ended because it was stopped: whatever its status, that is neither its failure nor a success.
                process.hurry()
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.status = _status(await self._end(self._process))
            raise
        self.status = _status(code)
        if code:
            how = f"by signal {-code}" if code < 0 else f"with status {code}"
            raise CommandFailed(f"the command ended {how}")

    def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._was_stopped = True
            self._signal(self._process, signal.SIGTERM)

    async def _start(self, run: Run) -> asyncio.subprocess.Process:
        options: dict[str, Any] = {"process_group": 0} if self._leads else {}
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                env={**run.child_env(), **self.env},
                preexec_fn=end_with_parent(signal.SIGTERM),
                **options,
            )
        except FileNotFoundError:
            self.status = _NOT_FOUND
            raise CommandFailed(f"there is no command {self._command[0]!r}") from None
        except OSError as error:
            self.status = _NOT_PERMITTED
            raise CommandFailed(f"{self._command[0]!r} cannot be started: {error.strerror}") from None

    async def _end(self, child: asyncio.subprocess.Process) -> int:
        """Ends it within the grace of the job. While the process drains, it has already had its time."""
        self.stop()
        seconds = _LAST_SECONDS if process.draining else self.grace.total_seconds() * _SHARE_OF_GRACE
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), seconds)
        if self._leads or child.returncode is None:
            # The group may outlive its leader.
            self._signal(child, getattr(signal, "SIGKILL", signal.SIGTERM))
        return await child.wait()

    def _signal(self, child: asyncio.subprocess.Process, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._leads:
                os.killpg(child.pid, number)
            else:
                child.send_signal(number)


def _status(code: int) -> int:
    """The exit status a shell would show."""
    return code if code >= 0 else _SIGNALLED - code
