"""Run-due: runs what is due, the oldest first, one at a time unless told otherwise. Any number of processes may do so
at the same time.

The database decides which row is whose (claim_due_refreshes); this module only decides when to stop.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from cronlease.db.batches import claim_due_refreshes
from cronlease.db.connection import Database, within
from cronlease.db.functions import Claim, Due, due_refreshes, prune_refresh_history
from cronlease.db.plans import unplanned_refreshes
from cronlease.errors import DatabaseTrouble
from cronlease.job import Job
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.attempt import Attempt, UnreadableCadence, claim, log_unknown, log_unreadable, skip
from cronlease.run.execution import job_rules, plan_of, run_claimed, tell
from cronlease.run.first_run import ensure_row
from cronlease.settings import Settings
from cronlease.triggers.report import Report, Tally

RUN_DUE = "run-due"
# A row is started only while the longest run so far would fit this many times into what is left.
_ROOM_FOR_ANOTHER = 1.5
# Seconds between two checks for rows that need a plan. A row that has run is planned at the end of its run.
_PLAN_EVERY = 5.0


class Taken(NamedTuple):
    """What one claim took: the runs, each to be started once, or how long until something is due, if that is known.
    The outcome is set if the claim itself failed."""

    runs: tuple[Callable[[], Coroutine[Any, Any, Outcome]], ...] = ()
    due_in: timedelta | None = None
    outcome: Outcome | None = None


async def _all_of(runs: Iterable[Callable[[], Awaitable[Outcome]]], record: Callable[[Outcome], None]) -> None:
    """Runs them at the same time, to their ends: what one of them raises is raised when all are over."""

    async def lane(run: Callable[[], Awaitable[Outcome]]) -> None:
        record(await run())

    for error in await asyncio.gather(*map(lane, runs), return_exceptions=True):
        if error is not None:
            raise error


class Dispatcher:
    """Finds what is due among the rows whose action is one of the jobs."""

    def __init__(self, jobs: Mapping[str, Job], database: Database, settings: Settings) -> None:
        self._jobs = jobs
        self._database = database
        self._settings = settings
        self._limits = settings.limits()
        self._rules = [job_rules(job) for job in jobs.values()]
        self._own_rows = [job for job in jobs.values() if job.has_row]
        self._rows_are_there = False
        self._prune_at = 0.0
        self._tell_at = 0.0
        self._name_at = 0.0
        self._plan_at = 0.0
        self._unreadable: set[tuple[str, str]] = set()
        self._unknown: set[str] = set()
        # A run that may kill this process is under way: a second one would make two rows die of one.
        self._in_doubt = False

    async def take(self, number: int, *, trigger: str = "run_due", stop_at: float = math.inf) -> Taken:
        """Claims the oldest due rows, at most that number, in one query. A run that is not done at stop_at, on the
        monotonic clock, is interrupted, and due again immediately. Never raises for what a database can do wrong."""
        await self._plan_rows()
        taken = await self._claim(number, trigger, stop_at)
        if taken.outcome is None and await self._create_missing_rows() and not taken.runs:
            await self._plan_rows()
            taken = await self._claim(number, trigger, stop_at)
        return taken

    async def run_due(
        self, on_outcome: Callable[[Outcome], None] = lambda _: None, *, concurrency: int = 1
    ) -> Report:
        """Runs what is due, `concurrency` at a time, until nothing is or another run might not end in time."""
        budget = self._settings.limits().max_run.total_seconds()
        pause = self._settings.dispatch_pause.total_seconds()
        ends_at, longest = time.monotonic() + budget, 0.0
        tally = Tally(on_outcome)
        while ends_at - time.monotonic() > longest * _ROOM_FOR_ANOTHER:
            if process.draining:
                return tally.report(reason=SkipReason.SHUTTING_DOWN)
            started = time.monotonic()
            # The first runs have all of their own time: one that never ends must fail, or it would always be the
            # first.
            taken = await self.take(concurrency, stop_at=ends_at if tally.names else math.inf)
            if taken.outcome is not None:
                return tally.report(reason=taken.outcome.skipped)
            if not taken.runs:
                break
            await _all_of(taken.runs, tally.record)
            if tally.repeats:
                # One is due again, and is the oldest: all that was due when we began has had its turn.
                break
            longest = max(longest, time.monotonic() - started)
            await process.pause(pause)
        await self.prune()
        await self.tell()
        return tally.report(due=await self._still_due())

    async def prune(self, every: float = 0) -> None:
        """Deletes a bounded part of the history past its retention; not again within `every` seconds."""
        if time.monotonic() < self._prune_at:
            return
        self._prune_at = time.monotonic() + every
        with suppress(DatabaseTrouble, TimeoutError):
            # The next claim says what is wrong with the database.
            query = prune_refresh_history(self._settings.retention)
            await within(self._limits.acquire, self._database.ask(query))

    async def tell(self, every: float = 0) -> None:
        """Finds late schedules and delivers pending alerts; not again within `every` seconds."""
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + every
            await tell(self._database, self._settings)

    async def name_unknown(self, every: float) -> None:
        """Logs the names of due rows whose action is not one of the jobs, each once; not again within `every`
        seconds."""
        if time.monotonic() < self._name_at:
            return
        self._name_at = time.monotonic() + every
        due = await self._still_due()
        for name in due.unknown_names if due else ():
            if name not in self._unknown:
                self._unknown.add(name)
                log_unknown(name)

    async def _claim(self, number: int, trigger: str, stop_at: float) -> Taken:
        jobs = self._jobs.values()
        first, *others = (uuid4() for _ in range(number))
        attempt = Attempt(RUN_DUE, first, trigger, self._limits, time.monotonic(), stop_at, tuple(others))
        query = claim_due_refreshes(
            (first, *others),
            tuple(self._jobs),
            [job.limits.lease for job in jobs],
            [job.backoff.band.high for job in jobs],
            trigger=trigger,
            max_run=self._limits.max_run,
            parent=spawn_guard.parent(),
            rules=self._rules,
            in_doubt=not self._in_doubt,
        )
        claimed = await claim(attempt, query, self._database, self._settings, self._own_rows, lambda _: None)
        if claimed.reason == SkipReason.SCHEDULE_READ_ERROR:
            return Taken(outcome=skip(attempt, claimed, RUN_DUE))
        claims = claimed.claims or ()
        # From here on, not only when it starts: the next claim may come before that.
        self._in_doubt = self._in_doubt or any(each.in_doubt for each in claims)
        return Taken(tuple(partial(self._run, attempt, each) for each in claims), due_in=claimed.due_in)

    async def _run(self, attempt: Attempt, claimed: Claim) -> Outcome:
        attempt = attempt._replace(request_id=UUID(claimed.locked_by), others=())
        try:
            return await run_claimed(attempt, claimed, self._jobs, self._database, self._settings)
        finally:
            if claimed.in_doubt:
                self._in_doubt = False

    async def _create_missing_rows(self) -> bool:
        """Whether a scheduled function had no row yet and has one now; checked only once. Comes after a claim, which
        creates a missing schema and says what is wrong with a database."""
        if self._rows_are_there:
            return False
        made = False
        try:
            for job in self._own_rows:
                made |= await within(self._limits.acquire, self._database.ask(ensure_row(job))) == "created"
        except (DatabaseTrouble, TimeoutError):
            # The next claim will say why.
            return False
        self._rows_are_there = True
        if made:
            self._plan_at = 0.0
        return made

    async def _plan_rows(self) -> None:
        """Plans the rows that may not run without a plan, and those that somebody edited; checks every few seconds. A
        row whose cadence cannot be read is logged once, and keeps no other from its plan."""
        if time.monotonic() < self._plan_at:
            return
        self._plan_at = time.monotonic() + _PLAN_EVERY
        # The claim, which comes next, says what is wrong with the database.
        with suppress(DatabaseTrouble, TimeoutError):
            query = unplanned_refreshes(self._jobs, self._rules)
            for details in await within(self._limits.acquire, self._database.ask(query)):
                try:
                    plan = plan_of(details, self._jobs)
                except UnreadableCadence as error:
                    self._log_unreadable_once(details["function_name"], str(error))
                    continue
                if plan is not None:
                    await within(self._limits.acquire, self._database.ask(plan))

    def _log_unreadable_once(self, name: str, why: str) -> None:
        if (name, why) not in self._unreadable:
            self._unreadable.add((name, why))
            log_unreadable(name, uuid4(), f"{why}; correct the row in refresh_schedule")

    async def _still_due(self) -> Due | None:
        try:
            return await within(self._limits.acquire, self._database.ask(due_refreshes(self._jobs, self._rules)))
        except (DatabaseTrouble, TimeoutError):
            return None
