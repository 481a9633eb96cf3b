"""`cronlease.lease()`: any block of code as a real run, with history, fence and heartbeat.

The run is an ordinary one. Its job only waits for the block, which goes on in the task or the thread of its owner.
"""

import asyncio
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import timedelta
from types import TracebackType
from typing import Any
from uuid import uuid4

from cronlease.cadence import HIT, Cadence, Every, duration
from cronlease.errors import LeaseLost, TimeIsUp, Unreachable
from cronlease.job import Hit, Job, cadence_of, check_new_name
from cronlease.observe import logs
from cronlease.outcome import FailReason, Outcome, RunFailed, Skipped, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.attempt import log_unreadable, skip_unasked
from cronlease.run.execution import run_once
from cronlease.run.run import Run
from cronlease.settings import Settings, load
from cronlease.triggers.database import database_url, opened

_NOTHING = Every(timedelta(0), timedelta(0))


def lease(
    name: str,
    *,
    lease: str | None = None,
    every: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
    force: bool = False,
) -> "Held":
    """A block that is a run, `async with` or `with`; it gives the Run:

        async with cronlease.lease("import", lease="5m") as run:
            ...
            async with run.commit() as conn: ...

    Raises Skipped without running the block if it does not get the lease. Without `every` or `cron` it is due
    whenever it is free, and the name of a function's schedule is refused, a ValueError. When the lease is lost or the
    time is up, an async block is cancelled, and a plain one learns of it from run.check(); leaving either then raises
    LeaseLost or TimeIsUp. A block's own error fails the run and is passed on."""
    return Held(name, load(), force=force, lease=lease, every=every, cron=cron, time_zone=time_zone)


def job_of(
    name: str,
    function: Any,
    settings: Settings,
    *,
    lease: str | None,
    every: str | None,
    cron: str | None,
    time_zone: str | None,
) -> Job:
    """A job that is declared nowhere, with a row of its name. Raises ValueError, one sentence. Without a cadence
    it may run whenever it is free, even after a failure; run-due and the worker leave such a row alone."""
    try:
        check_new_name(name)
    except ValueError as error:
        raise ValueError(f"a lease needs a name, and {name!r} is not one: {error}") from None
    cadence = cadence_of(settings, every, cron, time_zone)
    return Job.of(
        function,
        settings,
        name=name,
        lease=None if lease is None else duration(lease),
        every=cadence or Cadence.parse(HIT),
        backoff=_NOTHING if cadence is None else None,
    )


def hit_of(trigger: str, job: Job, *, force: bool) -> Hit:
    """Without a cadence nothing is too early, whatever a command or block of that name had planned before."""
    return Hit(trigger, force=force or job.cadence.text == HIT)


class Held:
    """One block, entered once."""

    def __init__(self, name: str, settings: Settings, *, force: bool, **when: Any) -> None:
        self._settings = settings
        self._job = job_of(name, self._hold, settings, **when)
        self._hit = hit_of("lease", self._job, force=force)
        # Set in this order, by the run, which may have a loop of its own, and by the block.
        self._entered: Future[Run] = Future()
        self._left: Future[BaseException | None] = Future()
        self._ended: Future[Outcome] = Future()
        self._owner: asyncio.Task[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    async def __aenter__(self) -> Run:
        url = self._begin()
        self._owner = asyncio.current_task()
        self._task = asyncio.ensure_future(self._execute(url))
        either: set[asyncio.Future[Any]] = {self._task, asyncio.wrap_future(self._entered)}
        try:
            await asyncio.wait(either, return_when=FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            # A run that was granted in this moment ends; a lease not granted yet is no longer asked for.
            self._left.set_result(error)
            if not self._entered.done():
                self._task.cancel()
            raise
        return self._granted()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None, "entered before"
        assert self._owner is not None, "entered before"
        self._left.set_result(error)
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            # Our own cancellation, on its way when the block was left.
            if not self._stopped or self._owner.uncancel():
                raise
            await asyncio.shield(self._task)
        else:
            if self._stopped:
                self._owner.uncancel()
        self._conclude(error)

    def __enter__(self) -> Run:
        url = self._begin()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._execute(url)), name=f"lease {self._job.name}", daemon=True
        )
        self._thread.start()
        either: list[Future[Any]] = [self._entered, self._ended]
        try:
            wait(either, return_when=FIRST_COMPLETED)
        except BaseException as error:
            # Ctrl-C: a run that is granted now must not wait for a block that never comes.
            self._left.set_result(error)
            raise
        return self._granted()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set_result(error)
        self._ended.result()
        self._conclude(error)

    def _begin(self) -> str:
        """Where the database is. Raises Skipped if that is clear without asking it."""
        if self._owner is not None or self._thread is not None:
            raise RuntimeError("a lease is entered once: call cronlease.lease() again")
        logs.configure(self._settings.log_level)
        reason = SkipReason.SHUTTING_DOWN if process.draining else SkipReason.SPAWNED
        if process.draining or spawn_guard.is_spawned():
            raise Skipped(skip_unasked(self._job.name, uuid4(), reason))
        try:
            return database_url(self._settings)
        except Unreachable as trouble:
            request_id = uuid4()
            log_unreadable(self._job.name, request_id, str(trouble))
            reason = SkipReason.SCHEDULE_READ_ERROR
            raise Skipped(Outcome(self._job.name, request_id, skipped=reason, hint=str(trouble))) from None

    async def _execute(self, url: str) -> None:
        try:
            with process.work():
                async with opened(url, self._settings) as database:
                    outcome = await run_once(self._job, self._hit, database, self._settings)
            self._ended.set_result(outcome)
        except Exception as error:
            self._ended.set_exception(error)

    async def _hold(self, run: Run) -> None:
        """The job: it ends as the block does. Cancelled, it lets the block end first, within the job's grace."""
        self._entered.set_result(run)
        left = asyncio.wrap_future(self._left)
        try:
            error = await asyncio.shield(left)
        except asyncio.CancelledError:
            if not self._left.done():
                self._stopped = True
                if self._owner is not None:
                    self._owner.cancel()
                await asyncio.shield(left)
            raise
        if error is not None:
            raise error

    def _granted(self) -> Run:
        if self._entered.done():
            return self._entered.result()
        outcome = self._ended.result()
        if outcome.hint is not None:
            # Whoever reads it has called Python, not HTTP.
            outcome = outcome._replace(hint=outcome.hint.replace('send {"force": true}', "pass force=True"))
        raise Skipped(outcome)

    def _conclude(self, error: BaseException | None) -> None:
        """Raises what went wrong with the run, unless the block raises its own error."""
        outcome = self._ended.result()
        ours = error is None or (self._stopped and isinstance(error, asyncio.CancelledError))
        if outcome.failed is None or not ours:
            return
        if outcome.failed is FailReason.LEASE_LOST:
            raise LeaseLost(outcome.error) from error
        if outcome.failed in (FailReason.DEADLINE, FailReason.INTERRUPTED):
            raise TimeIsUp(outcome.error) from error
        raise RunFailed(outcome) from error
