"""How a run's end is written down, and what is answered. Three rungs: finish, release, expiry.

Whether a commit happened is asked, never guessed: finish answers what it recorded for this request before.
"""

import asyncio
import logging
from typing import Any

from cronlease.db.connection import within
from cronlease.db.functions import Finish, release_refresh_lock
from cronlease.db.queries import Query
from cronlease.errors import (
    CommitUnknown,
    ConnectionLost,
    Contended,
    DatabaseTrouble,
    LeaseLost,
    SaysAll,
    TimeIsUp,
    Unreachable,
)
from cronlease.observe import telemetry
from cronlease.observe.logs import log
from cronlease.observe.redact import LONGEST_STORED, storable, text_of
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.run.attempt import release
from cronlease.run.ends import ends_of
from cronlease.run.record import Record

_ACTIONS = {
    FailReason.FAILED: "run_failed",
    FailReason.DEADLINE: "run_deadline",
    FailReason.LEASE_LOST: "run_lease_lost",
    FailReason.COMMIT_UNKNOWN: "run_commit_unknown",
    FailReason.INTERRUPTED: "run_interrupted",
}
_STATUSES = {
    FailReason.LEASE_LOST: Status.ABANDONED,
    FailReason.COMMIT_UNKNOWN: None,
    FailReason.INTERRUPTED: Status.INTERRUPTED,
}
# How often an end that needs no commit of its own is sent.
_TRIES = 2
# Between two tries to reach a database that refuses connections: enough for one that restarts quickly.
_PAUSES_SECONDS = (0.1, 0.3, 0.8)


class Finisher:
    """Writes the end of one run, once."""

    def __init__(self, record: Record) -> None:
        self._attempt = record.attempt
        self._lease = record.lease
        self._record = record
        self._blocks = record.blocks
        self._database = record.database

    async def finish(self, error: BaseException | None) -> Outcome:
        """The outcome of a job that returned (None) or raised."""
        if self._record.end is not None:
            if error is not None:
                log(
                    logging.ERROR,
                    f"The job failed after its run was committed: {text_of(error)}",
                    action="job_failed_late",
                    cause=error,
                    **self._attempt.who,
                )
            return self._success(self._record.end)
        error = error or self._silent_failure()
        if error is None:
            return await self._succeed()
        if isinstance(error, CommitUnknown):
            return await self._unknown(error)
        if self._lease.interrupted and not isinstance(error, LeaseLost):
            text = "interrupted: the process was told to stop, or had no more time, before the run was done"
            return await self._fail(FailReason.INTERRUPTED, text, None)
        # Only a job that we cancelled ended because of its lease or its time; an error of its own is its failure.
        # If the lease may be gone, too, the fence decides whether the end can still be written.
        cancelled = isinstance(error, asyncio.CancelledError)
        overdue = isinstance(error, TimeIsUp) or (cancelled and self._lease.overdue)
        if isinstance(error, LeaseLost) or (cancelled and self._lease.lost and not overdue):
            return await self._lost()
        if overdue:
            limit = self._lease.limits.max_run.total_seconds()
            return await self._fail(FailReason.DEADLINE, f"deadline: the run took longer than {limit:g} s", None)
        return await self._fail(FailReason.FAILED, text_of(error), error)

    def _silent_failure(self) -> BaseException | None:
        """What went wrong with the blocks of a job that returned as if all were well."""
        blocks = self._blocks
        if blocks.abandoned is not None:
            return RuntimeError(blocks.abandoned)
        if self._record.entered_commit:
            return RuntimeError(f"run.commit() did not commit, and the job went on: {blocks.uncommitted}")
        if blocks.broken is not None:
            return RuntimeError(
                f"{blocks.broken} was left outside the transaction that it opened, and the job went on"
            )
        return None

    async def _succeed(self) -> Outcome:
        trouble: Exception = TimeoutError()
        for _ in range(_TRIES):
            try:
                return self._success(await self._write(self._record.success()))
            except LeaseLost:
                return await self._lost()
            except (ConnectionLost, Unreachable, TimeoutError) as lost:
                # Asked again, SQL answers what it has recorded: nothing else was to be committed with this end.
                trouble = lost
            except Exception as error:
                return await self._fail(FailReason.FAILED, f"the end of the run could not be written: {error}", None)
        return await self._unknown(CommitUnknown(str(trouble) or "no answer"))

    async def _unknown(self, error: CommitUnknown) -> Outcome:
        """The commit's answer was lost. Finishes as failed: if it did happen, SQL says so and changes nothing."""
        try:
            finish = await self._write(self._record.failure(f"the commit was not confirmed: {error}"))
        except LeaseLost:
            return await self._lost()
        except (DatabaseTrouble, TimeoutError) as trouble:
            # Where the commit happened there is nothing left to release.
            release(self._attempt, self._database)
            why = str(trouble) or "no answer"
            text = f"the end of the run was sent, its answer was lost, and asking again failed: {why}"
            return self._not_ok(FailReason.COMMIT_UNKNOWN, None, text, error)
        if finish.status in (Status.SUCCESS, Status.PARTIAL):
            return self._success(finish)
        what = "the commit did not happen"
        if not self._record.entered_commit:
            what = "the commit of run.transaction() was not confirmed, so that piece may or may not be written"
        return self._not_ok(FailReason.FAILED, finish, f"{what}: {error}", error)

    async def _fail(self, reason: FailReason, text: str, error: BaseException | None) -> Outcome:
        finish = None
        stands = await self._own_commits()
        text = storable(text)[: LONGEST_STORED - len(stands)] + stands
        try:
            interrupted = reason is FailReason.INTERRUPTED
            finish = await self._write(self._record.interruption(text) if interrupted else self._record.failure(text))
        except LeaseLost:
            return await self._lost()
        except Exception as trouble:
            # Whatever went wrong: a run that is over must not keep its lease.
            await self._release(trouble)
        if finish is not None and finish.status in (Status.SUCCESS, Status.PARTIAL):
            # Its commit was on the way when the run was given up.
            return self._success(finish)
        return self._not_ok(reason, finish, text, error)

    async def _own_commits(self) -> str:
        try:
            return await within(self._lease.limits.acquire, self._blocks.own_commits(self._database))
        except (DatabaseTrouble, TimeoutError):
            # The error itself still has to be written.
            return ""

    async def _release(self, trouble: Exception) -> None:
        """The second rung. The third happens by itself: the lease runs out."""
        query = release_refresh_lock(self._attempt.function, self._attempt.request_id)
        then = "the lease was released instead"
        try:
            await within(self._lease.limits.acquire, self._database.ask_fresh(query))
        except Exception as worse:
            then = f"releasing the lease failed too ({str(worse) or 'no answer'}), so it will run out by itself"
        log(
            logging.ERROR,
            f"The end of the run could not be written ({str(trouble) or 'no answer'}): {then}",
            action="run_finish_failed",
            **self._attempt.who,
        )

    async def _write(self, query: Query[Finish]) -> Finish:
        """Tries once more when the row is busy, because our own lost transaction may not be rolled back yet, and a
        few times when nothing could be sent."""
        limit = self._lease.limits.acquire
        ends = ends_of(self._database)
        pauses = list(_PAUSES_SECONDS)
        was_busy = False
        with telemetry.span("finish"):
            while True:
                try:
                    return await ends.write(query, self._database, limit)
                except Contended:
                    if was_busy:
                        raise
                    was_busy = True
                except Unreachable:
                    if not pauses:
                        raise
                    await asyncio.sleep(pauses.pop(0))

    def _success(self, finish: Finish) -> Outcome:
        record, attempt = self._record, self._attempt
        duration_ms = attempt.duration_ms
        log(
            logging.INFO,
            f"Ran {attempt.function}: {finish.status.value}",
            action="run_finished",
            status=finish.status.value,
            error=record.left_out,
            **attempt.who,
            **record.counts._asdict(),
            next_run_at=finish.next_run_at,
            duration_ms=duration_ms,
            **_place(record),
        )
        return Outcome(
            attempt.function,
            attempt.request_id,
            status=finish.status,
            error=record.left_out,
            counts=record.counts,
            next_run_at=finish.next_run_at,
            duration_ms=duration_ms,
            hint=record.hint and storable(record.hint),
            **_place(record),
        )

    async def _lost(self) -> Outcome:
        try:
            stands = await within(self._lease.limits.acquire, self._blocks.stands(self._database))
        except (DatabaseTrouble, TimeoutError):
            stands = "the database does not answer, so what it wrote is unknown"
        return self._not_ok(FailReason.LEASE_LOST, None, f"this run lost its lease: {stands}", None)

    def _not_ok(self, reason: FailReason, finish: Finish | None, text: str, error: BaseException | None) -> Outcome:
        attempt = self._attempt
        mild = reason in (FailReason.LEASE_LOST, FailReason.INTERRUPTED)
        level = logging.WARNING if mild else logging.ERROR
        log(
            level,
            f"{attempt.function} did not end well: {text}",
            action=_ACTIONS[reason],
            cause=None if isinstance(error, SaysAll) else error,
            **self._attempt.who,
        )
        return Outcome(
            attempt.function,
            attempt.request_id,
            status=_STATUSES.get(reason, Status.FAILED),
            failed=reason,
            error=storable(text),
            counts=self._record.counts,
            next_run_at=finish.next_run_at if finish else None,
            duration_ms=attempt.duration_ms,
            **_place(self._record),
        )


def _place(record: Record) -> dict[str, Any]:
    """The slot that was served and what was missed, for the answer and the log; usually empty."""
    served = record.served
    place = {"slot": served.slot, "missed": served.missed, "first_missed": served.first_missed}
    return {name: value for name, value in place.items() if value}
