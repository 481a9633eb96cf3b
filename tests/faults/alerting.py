"""A process that runs what it is told to, for the test of alerts: a line of JSON for each run, and one for its end.

The limits of a delivery are shorter than in the product, so that hundreds of them fit into a test.
"""

import asyncio
import json
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.observe import alert
from cronlease.run import alerts
from cronlease.run.execution import run_once
from cronlease.settings import load

AWAITED, ANSWERED = 0.3, 3.0


async def work(run: Run) -> None:
    if run.args["fail"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if run.args["fail"]:
        raise ValueError(f"incident {run.args['incident']}")


async def main() -> None:
    alerts._AWAITED, alert._ANSWER_SECONDS = timedelta(seconds=AWAITED), ANSWERED
    settings = load()
    database = Database(settings.database_url or "")
    job = Job.of(work, settings, name="work", has_row=False)
    told: set[asyncio.Task[None]] = set()

    async def run(order: dict[str, Any]) -> None:
        hit = Hit(force=True, args={"fail": order["fail"], "incident": order["incident"]})
        outcome = await run_once(job, hit, database, settings, name=order["row"])
        sys.stdout.write(json.dumps({"order": order["order"], **outcome.as_json()}, default=str) + "\n")
        sys.stdout.flush()

    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.ensure_future(run(json.loads(line)))
        told.add(task)
        task.add_done_callback(told.discard)
    while told or alerts._deliveries:
        await asyncio.wait({*told, *alerts._deliveries})
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
