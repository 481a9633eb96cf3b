"""What one run knows of itself: its lease, what its job reports, what its blocks hold and have written, and the
question that ends it. Decides nothing."""

import random
from datetime import timedelta
from typing import Any

from cronlease.cadence import HIT
from cronlease.db.ask import cut
from cronlease.db.connection import Database
from cronlease.db.functions import Claim, Finish, any_committed, finish_refresh_run
from cronlease.db.queries import Query
from cronlease.job import Job
from cronlease.observe.redact import storable
from cronlease.outcome import Counts, Status
from cronlease.run.attempt import Attempt
from cronlease.run.lease import Lease
from cronlease.run.plan import Plan, Row, Served
from cronlease.settings import Limits

# The system's own: nothing to seed, nothing two forked workers could share.
_random = random.SystemRandom()


class Blocks:
    """The connections that one run has, and the ends of its fenced transactions."""

    def __init__(self) -> None:
        # Connections that the job has right now: a job that holds one must not wait for the next without a limit.
        self.held = 0
        # The connection of the fenced transaction that is open, and its block as the job wrote it.
        self.fenced: Any = None
        self.open: str | None = None
        # Pieces that run.transaction() has committed.
        self.pieces = 0
        # The block, as the job wrote it, that was left outside the transaction that it opened.
        self.broken: str | None = None
        # Why a block was never left, as a sentence: its job returned, or its generator was closed.
        self.abandoned: str | None = None
        # Why run.commit() did not commit, as the rest of a sentence.
        self.uncommitted = "it was never entered"
        # Transactions that were opened and are not known to be committed by us.
        self.unsettled: set[str] = set()
        # The answer to a commit of ours was lost.
        self.unconfirmed = False

    def cut(self) -> None:
        """Ends the open transaction of a job that was given up or has returned: nothing of it is committed, and the
        row is free for the end of the run."""
        if self.fenced is not None:
            cut(self.fenced)

    def patience(self, limits: Limits) -> float | None:
        """How many seconds the job may wait for a connection. No limit if it holds none; else so short that the
        server does not end its transaction, which is idle meanwhile."""
        if not self.held:
            return None
        return min(limits.acquire, limits.idle_in_transaction / 2).total_seconds()

    async def stands(self, database: Database) -> str:
        """What a run that lost its lease has committed, as the rest of a sentence. May raise as a query does."""
        committed = await self._any_committed(database)
        if committed and not self.unconfirmed:
            return "what the job committed by itself, outside of its blocks, stands"
        if self.pieces or committed:
            return "what it had committed in run.transaction() stands, and its blocks wrote nothing after that"
        return "nothing was written in its blocks"

    async def own_commits(self, database: Database) -> str:
        """The end of a failed run's error, if its job ended a block's transaction by itself: whether that was
        committed. Usually empty. May raise as a query does."""
        if not self.unconfirmed and await self._any_committed(database):
            return "; what the job committed by itself stands"
        return "; the transaction of the block was rolled back" if self.broken else ""

    async def _any_committed(self, database: Database) -> bool:
        """Whether any transaction was committed that we do not know to be committed."""
        return bool(self.unsettled) and await database.ask_at_the_end(any_committed(self.unsettled))


class Record:
    """One run: who asked, its lease, blocks and database; counts, hint and what was left out, as the job reports
    them; its place in time; and its end, once that is written."""

    def __init__(
        self, attempt: Attempt, job: Job, claimed: Claim, database: Database, *, force: bool = False
    ) -> None:
        assert claimed.fence is not None, "a claim that was granted has a fence"
        self.attempt = attempt
        self.blocks = Blocks()
        self.lease = Lease(attempt, claimed.fence)
        self.database = database
        self.counts = Counts()
        self.hint: str | None = None
        self.left_out: str | None = None
        self.entered_commit = False
        self.end: Finish | None = None
        assert claimed.details is not None, "a claim that was granted comes with its row"
        self.plan = Plan.of_claim(Row.read(claimed.details), job)
        self.served: Served = self.plan.served(force=force)
        # What run.save(...) was given in the open block, as JSON.
        self.to_save: str | None = None
        self._force = force
        self._retries_immediately = self.plan.cadence.text == HIT and not job.backoff_given
        self._backoff = job.backoff
        self._failures = claimed.failures or 0
        self._retention = job.retention
        self._watch = job.watch

    def backoff(self, failures: int) -> timedelta:
        return self._backoff.draw(failures, _random)

    def success(self) -> Query[Finish]:
        status = Status.PARTIAL if self.left_out else Status.SUCCESS
        band = self.plan.cadence.band
        return self._finish(status, band.draw(_random) if band else timedelta(0), self.left_out)

    def failure(self, error: str) -> Query[Finish]:
        delay = timedelta(0) if self._retries_immediately else self.backoff(self._failures + 1)
        return self._finish(Status.FAILED, delay, error)

    def interruption(self, error: str) -> Query[Finish]:
        """Not a failure, and due immediately."""
        return self._finish(Status.INTERRUPTED, timedelta(0), error)

    def _finish(self, status: Status, delay: timedelta, error: str | None) -> Query[Finish]:
        following = self.plan.following(self.served)
        return finish_refresh_run(
            self.lease.function,
            self.lease.request_id,
            self.lease.fence,
            status,
            delay,
            error=error and storable(error),
            counts=self.counts,
            retention=self._retention,
            rules=self.plan.rules,
            slot_at=None if self._force else following,
            watch=self._watch._replace(late_after=self.plan.late_after(following)),
        )
