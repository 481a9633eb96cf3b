"""From a hit to a claim: the one round trip, and what the very first run needs before it.

Fails closed: whatever goes wrong here is a skip with a reason and a log line, never a run.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from cronlease.db.connection import Database
from cronlease.db.conninfo import advised
from cronlease.db.functions import Claim, ensure_schedule, release_refresh_lock
from cronlease.db.queries import Query
from cronlease.errors import (
    Ambiguous,
    ConnectionLost,
    Contended,
    DatabaseTrouble,
    NotPermitted,
    SchemaMissing,
    UnknownSchedule,
    Unreachable,
    Unreadable,
)
from cronlease.observe.logs import log
from cronlease.outcome import SkipReason
from cronlease.process.shutdown import process
from cronlease.settings import Settings

T = TypeVar("T")

_LOCKED = Claim(False, SkipReason.LOCKED, *[None] * 8)
_UNREADABLE = Claim(False, SkipReason.SCHEDULE_READ_ERROR, *[None] * 8)
_LAST_LOOK_SECONDS = 0.1
_RELEASE_AFTER_SECONDS = (0.0, 1.0, 4.0)
_MOST_GIVING_BACK = 100
_giving_back: set[asyncio.Task[None]] = set()
_OWNER = "run `cronlease migrate` as the owner of the schema"


async def claim(
    function: str,
    request_id: UUID,
    query: Query[Claim],
    database: Database,
    settings: Settings,
    timeout: timedelta,
    rows: Sequence[str],
) -> Claim:
    """Asks for the lease, creating the schema and these rows where they are missing; a reason says why not."""
    try:
        asked_at = time.monotonic()
        claimed = await _quickly(query, database, timeout)
        if claimed is None:
            left = timeout - timedelta(seconds=time.monotonic() - asked_at)
            claimed = await within(left, _acquire(query, database, settings, rows))
        if claimed.reason != SkipReason.SCHEDULE_READ_ERROR:
            return claimed
        why = "its `every` is not a band such as 10m..15m: mend the row in refresh_schedule"
    except Contended:
        # Under a stricter isolation level the loser of the race is told by an error; the winner runs.
        return _LOCKED
    except asyncio.CancelledError:
        _give_back(function, request_id, database, timeout)
        raise
    except TimeoutError:
        _give_back(function, request_id, database, timeout)
        why = f"the database did not answer within {timeout.total_seconds():g} s: check that it is up and reachable"
    except SchemaMissing as trouble:
        why = f"{trouble}: {_OWNER}"
    except NotPermitted as trouble:
        why = f"{trouble}: grant this role cronlease_runner (schema/roles.sql), or {_OWNER} where there is none yet"
    except Unreachable as trouble:
        why = advised(trouble)
    except Ambiguous as trouble:
        why = f"{trouble}: drop the function that is not ours, and `revoke create on schema public from public`"
    except (ConnectionLost, Unreadable) as trouble:
        _give_back(function, request_id, database, timeout)
        why = str(trouble)
        if isinstance(trouble, Unreadable):
            why += "; mend the args and the times of its row in refresh_schedule"
    except DatabaseTrouble as trouble:
        why = str(trouble)
    say_unreadable(function, request_id, why)
    return _UNREADABLE


def say_unreadable(function: str, request_id: UUID, why: str) -> None:
    """The one ERROR line of a hit that could not read its schedule: why, and what to do."""
    log(
        logging.ERROR,
        f"Skipped, the schedule could not be read: {why}",
        action="run_skipped",
        reason=SkipReason.SCHEDULE_READ_ERROR.value,
        function=function,
        request_id=str(request_id),
    )


def _give_back(function: str, request_id: UUID, database: Database, timeout: timedelta) -> None:
    """The database may have granted a lease whose answer nobody could use: releases it in the background."""
    if len(_giving_back) < _MOST_GIVING_BACK:
        task = asyncio.ensure_future(_release(function, request_id, database, timeout))
        _giving_back.add(task)
        task.add_done_callback(_giving_back.discard)


async def _release(function: str, request_id: UUID, database: Database, timeout: timedelta) -> None:
    """Asks more than once: the claim itself may still be on its way. Where even that fails the lease runs out."""
    with process.work():
        for pause in _RELEASE_AFTER_SECONDS:
            await process.pause(pause)
            with suppress(DatabaseTrouble, TimeoutError):
                if await within(timeout, database.ask(release_refresh_lock(None, request_id))):
                    log(
                        logging.WARNING,
                        f"Released a lease of {function} that was granted to a hit which could not use it",
                        action="claim_released",
                        function=function,
                        request_id=str(request_id),
                    )
                    return


async def _quickly(query: Query[Claim], database: Database, timeout: timedelta) -> Claim | None:
    """The answer on an open connection, which settles nearly every hit; None where it takes more."""
    try:
        return await database.ask_idle(query, timeout.total_seconds())
    except (SchemaMissing, UnknownSchedule):
        return None


async def _acquire(query: Query[Claim], database: Database, settings: Settings, rows: Sequence[str]) -> Claim:
    """The long way: opens a connection, tries again on a new one, creates what a first run needs."""
    try:
        return await database.ask(query)
    except SchemaMissing:
        if settings.migrate == "never":
            raise
        await _create_schema(database)
    except UnknownSchedule:
        if not rows:
            raise
    for row in rows:
        if await database.ask(ensure_schedule(row)) == "locked":
            # Another hit is creating the row and will claim it.
            return _LOCKED
    return await database.ask(query)


async def _create_schema(database: Database) -> None:
    from cronlease.db.migration.migrate import MigrationError, create_if_absent

    try:
        await asyncio.to_thread(create_if_absent, database.url, _note)
    except MigrationError as error:
        raise SchemaMissing(str(error).partition(": run ")[0]) from None


def _note(note: str) -> None:
    log(logging.WARNING, f"The schema was applied: {note}", action="schema_applied")


async def within(timeout: timedelta, work: Coroutine[Any, Any, T]) -> T:
    """The result, or TimeoutError on time: cancelling a query on a dead network can itself take long, so that
    is not waited for."""
    task = asyncio.ensure_future(work)
    done: set[asyncio.Task[T]] = set()
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout.total_seconds())
        if not done:
            # A process that was paused finds the answer and the end of its time there at once: the answer counts.
            done, _ = await asyncio.wait({task}, timeout=_LAST_LOOK_SECONDS)
    finally:
        if not done:
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())
    if not done:
        raise TimeoutError
    return task.result()
