"""One try at a schedule: claims the lease in one round trip, or skips with a reason, a hint and one line in the log.

Fails closed: whatever goes wrong here is a skip, never a run.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from cronlease import registry
from cronlease.cadence import HIT
from cronlease.db.connection import Database, within
from cronlease.db.conninfo import advised
from cronlease.db.functions import Claim, ensure_schedule, release_refresh_lock
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
    UnknownSchedule,
    Unreachable,
    Unreadable,
)
from cronlease.job import Job
from cronlease.observe import telemetry
from cronlease.observe.logs import log, logger
from cronlease.outcome import Outcome, SkipReason
from cronlease.process import spawn_guard
from cronlease.process.shutdown import process
from cronlease.settings import Limits, Settings

_LOCKED = Claim(False, SkipReason.LOCKED, *[None] * 8)
_UNREADABLE = Claim(False, SkipReason.SCHEDULE_READ_ERROR, *[None] * 8)
_OWNER = "run `cronlease migrate` as the owner of the schema"
# Asked again after each: the row of a cadence that has changed may be due, and then be too late.
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
    SkipReason.BREAKER_OPEN: 'too many runs failed in a row: a probe runs then; send {"force": true} to run now',
    SkipReason.SPAWNED: spawn_guard.HINT,
    SkipReason.SHUTTING_DOWN: "this instance is ending: the next hit reaches another one",
    SkipReason.UNKNOWN_ACTION: "the row's action is no function of this deployment: deploy one that has it",
}


class UnreadableCadence(ValueError):
    """The row's own cadence means no time: a person must correct it."""


class Attempt(NamedTuple):
    """Who asks for a run, under which request, within which limits and since when (on the monotonic clock)."""

    function: str
    request_id: UUID
    trigger: str
    limits: Limits
    asked_at: float
    # When the time of whoever asks is over: a run that is not done by then is interrupted, which is not a failure.
    stop_at: float = math.inf

    @property
    def who(self) -> dict[str, str]:
        """For a log line."""
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
    """Asks for the lease, creating the schema and the rows of these jobs where they are missing; a reason says why
    not. Where the row is to be planned, `planned` answers how, and the hit asks again. Raises NameTaken."""
    timeout = attempt.limits.acquire
    try:
        claimed = _LOCKED
        for _ in range(_MOST_PLANS):
            idle = await _ask_idle(query, database, timeout)
            left = timeout - timedelta(seconds=time.monotonic() - attempt.asked_at)
            if idle is None:
                claimed = await within(left, _ask_or_create(query, database, settings, rows))
            else:
                claimed = idle
            if claimed.acquired or claimed.details is None or (plan := planned(claimed.details)) is None:
                break
            # Written or not, because another hit was quicker: the row has a new plan.
            await within(left, database.ask(plan))
        if claimed.reason != SkipReason.SCHEDULE_READ_ERROR:
            return claimed
        why = (
            "its cadence is neither a band such as 10m..15m nor a cron, or its args are not readable (a warning says"
            " why): correct the row in refresh_schedule"
        )
    except UnreadableCadence as error:
        why = f"{error}; correct the row in refresh_schedule"
    except Contended:
        # Under a stricter isolation level the loser of the race is told by an error; the winner runs.
        return _LOCKED
    except asyncio.CancelledError:
        _release_in_the_background(attempt, database)
        raise
    except TimeoutError:
        _release_in_the_background(attempt, database)
        why = f"the database did not answer within {timeout.total_seconds():g} s: check that it is up and reachable"
    except (ConnectionLost, Unreadable) as error:
        _release_in_the_background(attempt, database)
        why = _advice(error)
    except NameTaken:
        # A mistake of whoever chose the name: no schedule to wait for.
        raise
    except DatabaseTrouble as error:
        why = _advice(error)
    log_unreadable(attempt.function, attempt.request_id, why)
    return _UNREADABLE


def skip_unasked(function: str, request_id: UUID, reason: SkipReason) -> Outcome:
    """A skip that needs no look at the schedule: what a run itself has started, or a process that is ending."""
    return telemetry.skipped(_skipped(function, request_id, Claim(False, reason, *[None] * 8)))


def skip(attempt: Attempt, claimed: Claim, action: str) -> Outcome:
    """The outcome of a hit that was not granted its claim."""
    who = attempt.function, attempt.request_id
    with telemetry.hit(*who, attempt.trigger, attempt.asked_at, claimed, action) as span:
        return span.ends(_skipped(*who, claimed))


def _skipped(function: str, request_id: UUID, claimed: Claim) -> Outcome:
    reason = SkipReason(claimed.reason or SkipReason.SCHEDULE_READ_ERROR)
    level = _LEVELS.get(reason, logging.INFO)
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


def _advice(error: DatabaseTrouble) -> str:
    """What the error says, and what to do about it."""
    match error:
        case SchemaMissing():
            return f"{error}: {_OWNER}"
        case NotPermitted():
            role = f"{in_schema('cronlease_runner')} (`cronlease migrate --roles` makes it)"
            return f"{error}: grant this role {role}, or {_OWNER} where there is none yet"
        case Unreachable():
            return advised(error)
        case Ambiguous():
            revoke = in_schema("revoke create on schema public from public")
            return f"{error}: drop the function that is not ours, and `{revoke}`"
        case Unreadable():
            return f"{error}; correct the args and the times of its row in refresh_schedule"
        case _:
            return str(error)


async def _ask_idle(query: Query[Claim], database: Database, timeout: timedelta) -> Claim | None:
    """The answer on an open connection, which settles nearly every hit; None where it takes more."""
    try:
        return await database.ask_idle(query, timeout.total_seconds())
    except (SchemaMissing, UnknownSchedule):
        return None


async def _ask_or_create(query: Query[Claim], database: Database, settings: Settings, rows: Sequence[Job]) -> Claim:
    """The long way: opens a connection, tries again on a new one, creates what a first run needs."""
    try:
        return await database.ask(query)
    except SchemaMissing:
        if settings.migrate == "never":
            raise
        await _create_schema(database, {*(job.name for job in rows), *registry.jobs()})
    except UnknownSchedule:
        if not rows:
            raise
        if settings.migrate != "never":
            await _create_schema(database, [job.name for job in rows], only_what_is_brought=True)
    for row in rows:
        if await database.ask(ensure_row(row)) == "locked":
            # Another hit is creating the row and will claim it.
            return _LOCKED
    return await database.ask(query)


def ensure_row(job: Job) -> Query[str]:
    """Creates the row of a function that has one of its own; one whose trigger owns the schedule is marked so."""
    return ensure_schedule(job.name, HIT if job.cadence.text == HIT else None)


async def _create_schema(database: Database, actions: Collection[str], *, only_what_is_brought: bool = False) -> None:
    """What these actions need. A schedule that has no row yet may lack its tables, too."""
    from cronlease.db.migration.migrate import MigrationError, create_for, create_if_absent
    from cronlease.db.migration.packages import of_actions

    def note(text: str) -> None:
        log(logging.WARNING, f"The schema was applied: {text}", action="schema_applied")

    try:
        if only_what_is_brought:
            await asyncio.to_thread(create_for, database.url, actions, note)
        else:
            await asyncio.to_thread(create_if_absent, database.url, note, of_actions(actions))
    except MigrationError as error:
        raise SchemaMissing(str(error).partition(": run ")[0]) from None


def _release_in_the_background(attempt: Attempt, database: Database) -> None:
    """The database may have granted a lease whose answer nobody could use."""
    if len(_releases) < _MOST_RELEASES:
        task = asyncio.ensure_future(_release(attempt, database))
        _releases.add(task)
        task.add_done_callback(_releases.discard)


async def _release(attempt: Attempt, database: Database) -> None:
    """Asks more than once: the claim itself may still be on its way. Where even that fails the lease runs out."""
    with process.work():
        for pause in _RELEASE_AFTER_SECONDS:
            await process.pause(pause)
            with suppress(DatabaseTrouble, TimeoutError):
                query = release_refresh_lock(None, attempt.request_id)
                if await within(attempt.limits.acquire, database.ask(query)):
                    log(
                        logging.WARNING,
                        f"Released a lease of {attempt.function} that was granted to a hit which could not use it",
                        action="claim_released",
                        **attempt.who,
                    )
                    return
