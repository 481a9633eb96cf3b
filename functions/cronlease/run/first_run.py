"""What a first run needs and does not find: the schema, the tables of its job, the row of its schedule."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from cronlease import registry
from cronlease.cadence import HIT
from cronlease.db.connection import Database
from cronlease.db.functions import Claim, ensure_schedule
from cronlease.db.queries import Query
from cronlease.errors import Contended, SchemaMissing, UnknownSchedule
from cronlease.job import Job
from cronlease.observe.logs import log
from cronlease.settings import Settings


async def ask_or_create(query: Query[Claim], database: Database, settings: Settings, rows: Sequence[Job]) -> Claim:
    """Asks, and creates what is missing. Raises Contended where another hit creates the row: that one wins."""
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
            raise Contended(f"another hit is creating the row of {row.name!r}, and will claim it")
    return await database.ask(query)


def ensure_row(job: Job) -> Query[str]:
    """Creates the row of a function that has one, marked with `hit` if the trigger owns the schedule."""
    return ensure_schedule(job.name, HIT if job.cadence.text == HIT else None)


async def _create_schema(database: Database, actions: Collection[str], *, only_what_is_brought: bool = False) -> None:
    """Creates what these actions need. A schedule that has no row yet may lack its tables, too."""
    from cronlease.db.migration.migrate import create_for, create_if_absent
    from cronlease.db.migration.packages import MigrationError, of_actions

    def note(text: str) -> None:
        log(logging.WARNING, f"The schema was applied: {text}", action="schema_applied")

    try:
        if only_what_is_brought:
            await asyncio.to_thread(create_for, database.url, actions, note)
        else:
            await asyncio.to_thread(create_if_absent, database.url, note, of_actions(actions))
    except MigrationError as error:
        raise SchemaMissing(str(error).partition(": run ")[0]) from None
