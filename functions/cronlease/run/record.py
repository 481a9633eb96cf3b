"""What one run has to report, and the question that ends it."""

import random
from datetime import timedelta

from cronlease.cadence import Every
from cronlease.db.functions import Claim, Finish, finish_refresh_run
from cronlease.db.queries import Query
from cronlease.job import Job
from cronlease.observe.redact import storable
from cronlease.outcome import Counts, Status
from cronlease.run.lease import Lease

# The system's own: nothing to seed, nothing two forked workers could share.
_random = random.SystemRandom()


class Record:
    """Counts, hint and what was left out, as the job reports them; and the run's end, once it is written."""

    def __init__(self, job: Job, claimed: Claim, lease: Lease) -> None:
        self.counts = Counts()
        self.hint: str | None = None
        self.left_out: str | None = None
        self.entered_commit = False
        self.end: Finish | None = None
        self._lease = lease
        self._every = Every.parse(claimed.every) if claimed.every else job.every
        self._backoff = job.backoff
        self._failures = claimed.failures or 0
        self._retention = job.retention

    def ended(self, end: Finish) -> None:
        self.end = end

    def backoff(self, failures: int) -> timedelta:
        return self._backoff.draw(failures, _random)

    def success(self) -> Query[Finish]:
        status = Status.PARTIAL if self.left_out else Status.SUCCESS
        return self._finish(status, self._every.draw(_random), self.left_out)

    def failure(self, error: str) -> Query[Finish]:
        return self._finish(Status.FAILED, self.backoff(self._failures + 1), error)

    def interruption(self, error: str) -> Query[Finish]:
        """Not a failure, and due immediately."""
        return self._finish(Status.INTERRUPTED, timedelta(0), error)

    def _finish(self, status: Status, delay: timedelta, error: str | None) -> Query[Finish]:
        return finish_refresh_run(
            self._lease.function,
            self._lease.request_id,
            self._lease.fence,
            status,
            delay,
            error=error and storable(error),
            counts=self.counts,
            retention=self._retention,
        )
