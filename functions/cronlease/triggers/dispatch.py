"""Run-due: takes what is due, the oldest first, one after another. Any number may do so at once.

Which row is whose is decided in the database (claim_due_refresh); here is only when to stop.
"""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from cronlease.db.connection import Database, within
from cronlease.db.functions import Due, claim_due_refresh, due_refreshes, prune_refresh_history
from cronlease.db.plans import unplanned_refreshes
from cronlease.errors import DatabaseTrouble
from cronlease.job import Job
from cronlease.observe import telemetry
from cronlease.outcome import FailReason, Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.attempt import Attempt, UnreadableCadence, ensure_row, log_unreadable
from cronlease.run.execution import Executed, execute, job_rules, plan_of, tell
from cronlease.settings import Settings

RUN_DUE = "run-due"
# A row is started only while the longest run so far would fit this many times into what is left.
_ROOM_FOR_ANOTHER = 1.5
# Seconds between two looks for rows that are to be planned. The rows of a run are planned at its end.
_PLAN_EVERY = 5.0


class Dispatched(NamedTuple):
    """One look for something due: what became of it, or how long until there is something, where that is known."""

    outcome: Outcome | None
    due_in: timedelta | None = None


class Report(NamedTuple):
    """What one run-due did. The reason is there when it could not even look, or not to the end."""

    ran: tuple[Outcome, ...] = ()
    failed: tuple[Outcome, ...] = ()
    interrupted: tuple[Outcome, ...] = ()
    due: Due | None = None
    reason: SkipReason | None = None

    @property
    def http_status(self) -> int:
        """A failed run answers 500 here, too: the platform's alerting must see it."""
        return 500 if self.failed else 200

    def as_json(self) -> dict[str, Any]:
        unknown = self.due.unknown_names if self.due else []
        body: dict[str, Any] = {
            "ok": not self.failed,
            "ran": [_brief(outcome) for outcome in self.ran],
            "skipped": [
                *(_brief(outcome) for outcome in self.interrupted),
                *({"function": name, "reason": SkipReason.UNKNOWN_ACTION} for name in unknown),
            ],
            "failed": [_brief(outcome) for outcome in self.failed],
            "remaining": self.due.due if self.due else None,
            "reason": self.reason,
        }
        if self.due and self.due.unknown > len(unknown):
            body["unknown_actions"] = self.due.unknown
        if self.reason is SkipReason.SPAWNED:
            body["hint"] = spawn_guard.HINT
        return body


def _brief(outcome: Outcome) -> dict[str, Any]:
    kept = ("function", "request_id", "status", "reason", "error", "next_run_at", "duration_ms")
    return {name: value for name, value in outcome.as_json().items() if name in kept and value is not None}


class _Tally:
    """The outcomes of one run-due, sorted as they come."""

    def __init__(self, on_outcome: Callable[[Outcome], None]) -> None:
        self.names: set[str] = set()
        self._on_outcome = on_outcome
        self._ran: list[Outcome] = []
        self._failed: list[Outcome] = []
        self._interrupted: list[Outcome] = []

    def record(self, outcome: Outcome) -> None:
        if outcome.failed is None:
            self._ran.append(outcome)
        else:
            (self._interrupted if outcome.failed is FailReason.INTERRUPTED else self._failed).append(outcome)
        self._on_outcome(outcome)
        self.names.add(outcome.function)

    def report(self, *, due: Due | None = None, reason: SkipReason | None = None) -> Report:
        return Report(tuple(self._ran), tuple(self._failed), tuple(self._interrupted), due, reason)


class Dispatcher:
    """Looks for what is due among rows whose action is one of the jobs."""

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
        self._plan_at = 0.0
        self._unreadable: set[tuple[str, str]] = set()

    async def one(self, *, trigger: str = "run_due", stop_at: float = math.inf) -> Dispatched:
        """Claims the oldest due row and runs it; not done at stop_at, on the monotonic clock, it is interrupted, and
        due at once. Never raises for what a run or a database can do wrong."""
        await self._plan_rows()
        attempt = Attempt(RUN_DUE, uuid4(), trigger, self._limits, time.monotonic(), stop_at)
        claimed, outcome = await self._execute(attempt)
        if claimed.reason == SkipReason.SCHEDULE_READ_ERROR:
            with telemetry.hit(RUN_DUE, attempt.request_id, trigger, attempt.asked_at, claimed) as span:
                unreadable = Outcome(RUN_DUE, attempt.request_id, skipped=SkipReason.SCHEDULE_READ_ERROR)
                return Dispatched(span.ends(unreadable))
        if await self._create_missing_rows() and outcome is None:
            await self._plan_rows()
            claimed, outcome = await self._execute(attempt)
        return Dispatched(outcome, claimed.due_in)

    async def run_due(self, on_outcome: Callable[[Outcome], None] = lambda _: None) -> Report:
        """Runs what is due until nothing is, or until another run might not end in time."""
        budget = self._settings.limits().max_run.total_seconds()
        pause = self._settings.dispatch_pause.total_seconds()
        ends_at, longest = time.monotonic() + budget, 0.0
        tally = _Tally(on_outcome)
        while ends_at - time.monotonic() > longest * _ROOM_FOR_ANOTHER:
            if process.draining:
                return tally.report(reason=SkipReason.SHUTTING_DOWN)
            started = time.monotonic()
            # The first has all of its own time: one that never ends must fail, or it would always be the first.
            outcome, _ = await self.one(stop_at=ends_at if tally.names else math.inf)
            if outcome is None:
                break
            if outcome.skipped is not None:
                return tally.report(reason=outcome.skipped)
            is_repeat = outcome.function in tally.names
            tally.record(outcome)
            if is_repeat:
                # It is due again, and the oldest: all that was due when we began has had its turn.
                break
            longest = max(longest, time.monotonic() - started)
            await process.pause(pause)
        await self.prune()
        await self.tell()
        return tally.report(due=await self._still_due())

    async def prune(self, every: float = 0) -> None:
        """Deletes a bounded part of the history past its retention; again only after so many seconds."""
        if time.monotonic() < self._prune_at:
            return
        self._prune_at = time.monotonic() + every
        with suppress(DatabaseTrouble, TimeoutError):
            # The next claim says what is wrong with the database.
            query = prune_refresh_history(self._settings.retention)
            await within(self._limits.acquire, self._database.ask(query))

    async def tell(self, every: float = 0) -> None:
        """Looks for late schedules and alerts that are not delivered; again only after so many seconds."""
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + every
            await tell(self._database, self._settings)

    async def _execute(self, attempt: Attempt) -> Executed:
        jobs = self._jobs.values()
        query = claim_due_refresh(
            attempt.request_id,
            tuple(self._jobs),
            [job.limits.lease for job in jobs],
            [job.backoff.band.high for job in jobs],
            trigger=attempt.trigger,
            max_run=self._limits.max_run,
            parent=spawn_guard.parent(),
            rules=self._rules,
        )
        return await execute(attempt, query, self._own_rows, self._jobs, self._database, self._settings)

    async def _create_missing_rows(self) -> bool:
        """Whether a scheduled function had no row yet and has one now; looked at once. After a claim, which makes the
        schema where there is none and says what is wrong with a database."""
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
        """Plans what must be before it may run, and what somebody edited; looked at every few seconds. A row whose
        cadence cannot be read is named once and keeps no other from its plan."""
        if time.monotonic() < self._plan_at:
            return
        self._plan_at = time.monotonic() + _PLAN_EVERY
        # What is wrong with the database the claim says, which comes next.
        with suppress(DatabaseTrouble, TimeoutError):
            query = unplanned_refreshes(self._jobs, self._rules)
            for details in await within(self._limits.acquire, self._database.ask(query)):
                try:
                    plan = plan_of(details, self._jobs)
                except UnreadableCadence as error:
                    self._name_unreadable(details["function_name"], str(error))
                    continue
                if plan is not None:
                    await within(self._limits.acquire, self._database.ask(plan))

    def _name_unreadable(self, name: str, why: str) -> None:
        if (name, why) not in self._unreadable:
            self._unreadable.add((name, why))
            log_unreadable(name, uuid4(), f"{why}; correct the row in refresh_schedule")

    async def _still_due(self) -> Due | None:
        try:
            return await within(self._limits.acquire, self._database.ask(due_refreshes(self._jobs, self._rules)))
        except (DatabaseTrouble, TimeoutError):
            return None
