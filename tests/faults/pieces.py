"""A process of its own that works through a job of many pieces, going on where the run before it was killed. For
test_slots.py. Arguments: the database, and how many pieces."""

import asyncio
import sys

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.run.execution import run_once
from cronlease.settings import load


async def main(dsn: str, pieces: int) -> None:
    async def job(run: Run) -> None:
        for piece in range(run.saved or 0, pieces):
            async with run.transaction() as conn:
                await conn.execute("insert into pieces (piece) values (%s)", [piece])
                run.save(piece + 1)
            print(piece, flush=True)

    settings, database = load({"CRONLEASE_LOG_LEVEL": "ERROR"}), Database(dsn)
    outcome = await run_once(Job.of(job, settings, name="pieces"), Hit(force=True), database, settings)
    await database.close()
    print(outcome.skipped or outcome.failed or outcome.status, flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
