"""THE ROOM. Every real run of anything goes through run_once, whichever door the hit came in by.

claim -> work under a heartbeat -> finish. What a job sees of it is a Run.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from cronlease.cadence import Backoff, Every
from cronlease.claim import claim
from cronlease.database import Database
from cronlease.ending import Ending
from cronlease.lease import Lease
from cronlease.logs import log, logger, storable
from cronlease.outcome import Counts, Outcome, SkipReason, Status
from cronlease.settings import Limits, Settings
from cronlease.supervise import supervise
from cronlease.transaction import Transaction
from cronlease.wall import Claim, Finish, Query, acquire_refresh_lock, finish_refresh_run

# The system's own: nothing to seed, nothing two forked workers could share.
_random = random.SystemRandom()
_SKIP_LEVELS = {SkipReason.NOT_DUE: logging.DEBUG, SkipReason.PAUSED: logging.WARNING}


class Job(NamedTuple):
    """A registered function with its times: its decorator's, or the environment's where that says nothing."""

    name: str
    function: Callable[[Any], Any]
    limits: Limits
    every: Every
    backoff: Backoff
    retention: timedelta

    @classmethod
    def of(
        cls,
        function: Callable[[Any], Any],
        settings: Settings,
        *,
        name: str | None = None,
        lease: timedelta | None = None,
        every: Every | None = None,
        backoff: Every | None = None,
    ) -> "Job":
        """Raises SettingsError when the function's own times do not fit the settings."""
        settings.check(lease, backoff)
        return cls(
            name or function.__name__,
            function,
            settings.limits(lease),
            every or settings.every,
            settings.backoff_rule(backoff),
            settings.retention,
        )


class Hit(NamedTuple):
    """What a caller asked for, and who it says it is. Never decides whether to run, except by force."""

    trigger: str = "manual"
    job_name: str | None = None
    schedule_time: str | None = None
    force: bool = False
    args: Mapping[str, Any] = MappingProxyType({})


class Run:
    """One real run, as its job sees it."""

    def __init__(self, job: Job, lease: Lease, claimed: Claim, database: Database) -> None:
        self.function = lease.function
        self.request_id = lease.request_id
        self.fence = lease.fence
        self.lease = lease.limits.lease
        self.args: dict[str, Any] = claimed.args or {}
        self.counts = Counts()
        self.hint: str | None = None
        self.finished: Finish | None = None
        self.entered_commit = False
        self._lease = lease
        self._database = database
        self._retention = job.retention
        self._every = Every.parse(claimed.every) if claimed.every else job.every
        self._backoff = job.backoff
        self._failures = claimed.failures or 0
        self.left_out: str | None = None

    def commit(self) -> Transaction:
        """The fenced transaction that ends the run: what is written in it and the next run time commit together,
        or neither does. Entered at most once; `async with` gives an async connection, `with` a plain one."""
        if self.entered_commit:
            raise RuntimeError("run.commit() is entered at most once: use run.transaction() for earlier pieces")
        self.entered_commit = True
        return Transaction(self._database, self._lease, self.success, self._finished)

    def transaction(self) -> Transaction:
        """A fenced transaction for a piece of the work; leaving it commits the piece and renews the lease."""
        return Transaction(self._database, self._lease)

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """A pooled connection in autocommit mode, not fenced: for reading and for staging only."""
        return self._database.connection()

    def check(self) -> None:
        """Raises LeaseLost or TimeIsUp when this run can no longer commit."""
        self._lease.check()

    def report(
        self,
        *,
        fetched: int | None = None,
        inserted: int | None = None,
        updated: int | None = None,
        unchanged: int | None = None,
        closed: int | None = None,
        hint: str | None = None,
    ) -> None:
        """Counts for the answer and the history, and a hint for whoever reads the answer; what is not given stays."""
        given = Counts(fetched, inserted, updated, unchanged, closed)._asdict()
        counts = {name: count for name, count in given.items() if count is not None}
        for name, count in counts.items():
            if type(count) is not int or not 0 <= count < 2**63:
                raise TypeError(f"run.report({name}=...) takes a whole number from 0, not {count!r}")
        if not isinstance(hint, str | None):
            raise TypeError("run.report(hint=...) takes a text")
        self.counts = self.counts._replace(**counts)
        self.hint = hint or self.hint

    def partial(self, reason: str) -> None:
        """The run will end as partial: it did its work except for what reason names."""
        if not isinstance(reason, str) or not reason.strip():
            raise TypeError("run.partial(...) takes a text that says what was left out")
        self.left_out = storable(reason)

    def backoff(self, failures: int) -> timedelta:
        """What that many failures in a row cost by this function's rule, for parts of a job that fail alone."""
        return self._backoff.draw(failures, _random)

    def success(self) -> Query[Finish]:
        status = Status.PARTIAL if self.left_out else Status.SUCCESS
        return self._finish(status, self._every.draw(_random), self.left_out)

    def failure(self, error: str) -> Query[Finish]:
        return self._finish(Status.FAILED, self.backoff(self._failures + 1), error)

    def _finish(self, status: Status, delay: timedelta, error: str | None) -> Query[Finish]:
        return finish_refresh_run(
            self.function,
            self.request_id,
            self.fence,
            status,
            delay,
            error=error and storable(error),
            counts=self.counts,
            retention=self._retention,
        )

    def _finished(self, finish: Finish) -> None:
        self.finished = finish


async def run_once(
    job: Job, hit: Hit, database: Database, settings: Settings, *, request_id: UUID | None = None
) -> Outcome:
    """One hit: claims the lease and runs the job, or skips. Never raises for what a run can do wrong."""
    request_id = request_id or uuid4()
    asked_at = time.monotonic()
    limits = job.limits
    query = acquire_refresh_lock(
        job.name,
        request_id,
        limits.lease,
        force=hit.force,
        trigger=hit.trigger,
        job_name=hit.job_name,
        schedule_time=hit.schedule_time,
        args=hit.args,
        backoff=job.backoff.band.high,
    )
    claimed = await claim(job.name, request_id, query, database, settings, limits.acquire)
    if not claimed.acquired or claimed.fence is None:
        return _skip(job.name, request_id, claimed)
    lease = Lease(job.name, request_id, claimed.fence, limits, asked_at)
    run = Run(job, lease, claimed, database)
    error = await supervise(job.function, run, lease, database)
    return await Ending(run, lease, database, asked_at).of(error)


def _skip(function: str, request_id: UUID, claimed: Claim) -> Outcome:
    reason = SkipReason(claimed.reason or SkipReason.SCHEDULE_READ_ERROR)
    level = _SKIP_LEVELS.get(reason, logging.INFO)
    if reason is not SkipReason.SCHEDULE_READ_ERROR and logger.isEnabledFor(level):
        who = {"locked_by": claimed.locked_by, "locked_until": claimed.locked_until}
        log(
            level,
            f"Skipped {function}: {reason.value}",
            action="run_skipped",
            reason=reason.value,
            function=function,
            request_id=str(request_id),
            **(who if reason is SkipReason.LOCKED else {}),
        )
    return Outcome(
        function,
        request_id,
        skipped=reason,
        locked_until=claimed.locked_until,
        next_run_at=claimed.next_run_at,
        hint='send {"force": true} to run now' if reason is SkipReason.NOT_DUE else None,
    )
