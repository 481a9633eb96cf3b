"""One try at a schedule: claims the lease in one round trip, or skips with a reason, a hint and one line in the log.

Fails closed: whatever goes wrong here is a skip, never a run.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from cronlease.db.batches import release_refresh_locks
from cronlease.db.connection import Database, within
from cronlease.db.conninfo import advised
from cronlease.db.functions import Claim
from cronlease.db.queries import Query
from cronlease.db.schema import in_schema
from cronlease.errors import (
    Ambiguous,
    ConnectionLost,
    Contended,
    DatabaseTrouble,
    NameTaken,
    NotPermitted,
    SchemaMissing,
    Unreachable,
    Unreadable,
)
from cronlease.job import Job
from cronlease.observe import telemetry
from cronlease.observe.logs import log, log_often, logger
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.run.first_run import ask_or_create
from cronlease.settings import Limits, Settings

_LOCKED = Claim(False, SkipReason.LOCKED, *[None] * 8)
_OWNER = "run `cronlease migrate` as the owner of the schema"
# The hit asks again after each plan: a row with a new cadence may turn out to be due, and then to be too late.
_MOST_PLANS = 4
_RELEASE_AFTER_SECONDS = (0.0, 1.0, 4.0)
_MOST_RELEASES = 100
_releases: set[asyncio.Task[None]] = set()
_LEVELS = {
    SkipReason.NOT_DUE: logging.DEBUG,
    SkipReason.DUPLICATE: logging.DEBUG,
    SkipReason.PAUSED: logging.WARNING,
    SkipReason.BREAKER_OPEN: logging.WARNING,
    SkipReason.UNKNOWN_ACTION: logging.WARNING,
}
_HINTS = {
    SkipReason.NOT_DUE: 'send {"force": true} to run now',
    SkipReason.BREAKER_OPEN: (
        'too many runs failed in a row: a probe runs at next_run_at; send {"force": true} to run now'
    ),
    SkipReason.SPAWNED: spawn_guard.HINT,
    SkipReason.SHUTTING_DOWN: "this instance is ending: the next hit reaches another one",
    SkipReason.UNKNOWN_ACTION: "this deployment has no function for the row's action: deploy one that has it",
}


class UnreadableCadence(ValueError):
    """The row's own cadence cannot be read: a person must correct it."""


class Attempt(NamedTuple):
    """Who asks for a run, under which request, within which limits and since when (on the monotonic clock)."""

    function: str
    request_id: UUID
    trigger: str
    limits: Limits
    asked_at: float
    # When the caller's time is over: a run that is not done by then is interrupted, which is not a failure.
    stop_at: float = math.inf
    # The requests that ask together with this one, each for a row of its own.
    others: tuple[UUID, ...] = ()

    @property
    def who(self) -> dict[str, str]:
        """Fields for a log line."""
        return {"function": self.function, "request_id": str(self.request_id)}

    @property
    def duration_ms(self) -> int:
        return round((time.monotonic() - self.asked_at) * 1000)


async def claim(
    attempt: Attempt,
    query: Query[Claim],
    database: Database,
    settings: Settings,
    rows: Sequence[Job],
    planned: Callable[[dict[str, Any]], Query[bool] | None],
) -> Claim:
    """Asks for the lease, as `ask_for_lease` does, within the time limit for that."""
    try:
        return await within(attempt.limits.acquire, ask_for_lease(attempt, query, database, settings, rows, planned))
    except TimeoutError:
        return timed_out(attempt, database)
    except asyncio.CancelledError:
        release(attempt, database)
        raise


async def ask_for_lease(
    attempt: Attempt,
    query: Query[Claim],
    database: Database,
    settings: Settings,
    rows: Sequence[Job],
    planned: Callable[[dict[str, Any]], Query[bool] | None],
) -> Claim:
    """Asks for the lease, creating the schema and the rows of these jobs where they are missing; a reason says why
    it is not granted. If the row needs a plan, `planned` answers the query for it, and the hit asks again. The
    caller limits the time. Raises NameTaken."""
    try:
        claimed = _LOCKED
        for _ in range(_MOST_PLANS):
            claimed = await ask_or_create(query, database, settings, rows)
            if claimed.acquired or claimed.details is None or (plan := planned(claimed.details)) is None:
                break
            # The row has a new plan, even where another hit was quicker and ours was not written.
            await database.ask(plan)
        if claimed.reason != SkipReason.SCHEDULE_READ_ERROR:
            return claimed
        why = (
            "its cadence is neither a band such as 10m..15m nor a cron, or its args cannot be read (a warning says"
            " why): correct the row in refresh_schedule"
        )
    except UnreadableCadence as error:
        why = f"{error}; correct the row in refresh_schedule"
    except Contended:
        # Under a stricter isolation level the loser of the race gets an error; the winner runs.
        return _LOCKED
    except (ConnectionLost, Unreadable) as error:
        release(attempt, database)
        why = _advice(error)
    except NameTaken:
        # The caller chose a name that is taken: waiting for the schedule would not help.
        raise
    except DatabaseTrouble as error:
        why = _advice(error)
    return _unreadable(why)


def timed_out(attempt: Attempt, database: Database) -> Claim:
    """The answer when the database gave none in time: it may still grant the lease, which is then released."""
    release(attempt, database)
    limit = attempt.limits.acquire.total_seconds()
    return _unreadable(f"the database did not answer within {limit:g} s: check that it is up and reachable")


def _unreadable(why: str) -> Claim:
    return _LOCKED._replace(reason=SkipReason.SCHEDULE_READ_ERROR, trouble=why)


def skip_unasked(function: str, request_id: UUID, reason: SkipReason) -> Outcome:
    """A skip without a question: the hit comes from one of our own runs, or the process is stopping."""
    return telemetry.skipped(_skipped(function, request_id, Claim(False, reason, *[None] * 8)))


def skip(attempt: Attempt, claimed: Claim, action: str) -> Outcome:
    """The outcome of a hit that was not granted the lease."""
    who = attempt.function, attempt.request_id
    with telemetry.hit(*who, attempt.trigger, attempt.asked_at, claimed, action) as span:
        return span.ends(_skipped(*who, claimed))


def _skipped(function: str, request_id: UUID, claimed: Claim) -> Outcome:
    reason = SkipReason(claimed.reason or SkipReason.SCHEDULE_READ_ERROR)
    level = _LEVELS.get(reason, logging.INFO)
    if claimed.trouble is not None:
        log_unreadable(function, request_id, claimed.trouble)
    elif logger.isEnabledFor(level):
        who = {"locked_by": claimed.locked_by, "locked_until": claimed.locked_until}
        log_often(
            level,
            f"Skipped {function}: {reason.value}",
            action="run_skipped",
            request_id=str(request_id),
            reason=reason.value,
            function=function,
            **(who if reason is SkipReason.LOCKED else {}),
        )
    return Outcome(
        function,
        request_id,
        skipped=reason,
        locked_until=claimed.locked_until,
        next_run_at=claimed.next_run_at,
        hint=_HINTS.get(reason),
    )


def log_unreadable(function: str, request_id: UUID, why: str) -> None:
    """The one ERROR line of a hit that could not read its schedule: why, and what to do."""
    log(
        logging.ERROR,
        f"Skipped, the schedule could not be read: {why}",
        action="run_skipped",
        reason=SkipReason.SCHEDULE_READ_ERROR.value,
        function=function,
        request_id=str(request_id),
    )


def log_unknown(function: str) -> None:
    """The WARNING line of a row that was left alone, because its action is not in this deployment."""
    reason = SkipReason.UNKNOWN_ACTION
    log(
        _LEVELS[reason],
        f"Skipped {function}: {_HINTS[reason]}",
        action="run_skipped",
        reason=reason.value,
        function=function,
    )


def _advice(error: DatabaseTrouble) -> str:
    """What the error says, and what to do about it."""
    match error:
        case SchemaMissing():
            return f"{error}: {_OWNER}"
        case NotPermitted():
            role = f"{in_schema('cronlease_runner')} (`cronlease migrate --roles` makes it)"
            return f"{error}: grant this role {role}, or {_OWNER} if it has no tables yet"
        case Unreachable():
            return advised(error)
        case Ambiguous():
            revoke = in_schema("revoke create on schema public from public")
            return f"{error}: drop the one that is not cronlease's, and `{revoke}`"
        case Unreadable():
            return f"{error}; correct the args and the times of its row in refresh_schedule"
        case _:
            return str(error)


def release(attempt: Attempt, database: Database) -> asyncio.Task[None] | None:
    """Frees, in the background, a lease that was granted, or may have been, to a hit that cannot use it."""
    if len(_releases) >= _MOST_RELEASES:
        return None
    task = asyncio.ensure_future(_release(attempt, database))
    _releases.add(task)
    task.add_done_callback(_releases.discard)
    return task


async def _release(attempt: Attempt, database: Database) -> None:
    """Asks more than once: the claim itself may still be on its way. If even that fails, the lease runs out."""
    with process.work():
        for pause in _RELEASE_AFTER_SECONDS:
            await process.pause(pause)
            with suppress(DatabaseTrouble, TimeoutError):
                query = release_refresh_locks([attempt.request_id, *attempt.others])
                if await within(attempt.limits.acquire, database.ask(query)):
                    log(
                        logging.WARNING,
                        f"Released a lease of {attempt.function} that was granted to a hit that could not use it",
                        action="claim_released",
                        **attempt.who,
                    )
                    return
