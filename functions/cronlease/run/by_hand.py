"""A run that a person asked for: like any other, with a record of who asked."""

import logging
from collections.abc import Mapping
from uuid import UUID

from cronlease.db.connection import Database
from cronlease.db.operations import record_refresh_operation
from cronlease.errors import DatabaseTrouble
from cronlease.job import Hit, Job
from cronlease.observe import logs
from cronlease.outcome import Outcome
from cronlease.run.execution import run_once
from cronlease.settings import Settings


async def run_by_hand(
    job: Job,
    hit: Hit,
    database: Database,
    settings: Settings,
    *,
    actor: str,
    request_id: UUID | None = None,
    name: str | None = None,
    jobs: Mapping[str, Job] | None = None,
) -> Outcome:
    """The same as run_once. A forced run is recorded when it has ended; if that fails, the log says so."""
    outcome = await run_once(job, hit, database, settings, request_id=request_id, name=name, jobs=jobs)
    if hit.force and outcome.skipped is None:
        query = record_refresh_operation(outcome.function, "run", actor=actor, request_id=outcome.request_id)
        try:
            await database.ask(query)
        except DatabaseTrouble as trouble:
            sentence = f"Who forced {outcome.function} could not be recorded: {trouble}"
            logs.log(logging.WARNING, sentence, action="operation_not_recorded", function=outcome.function)
    return outcome
