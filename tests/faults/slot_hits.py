"""A process of its own that hits one schedule as often as it is told, a line at a time, and says how each hit ended.
For test_slots.py. The first line of input is its settings."""

import asyncio
import json
import random
import sys
from typing import Any

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.run.execution import run_once
from cronlease.settings import load


async def sometimes(run: Run) -> None:
    """Fails now and then, so that a slot has to be tried again."""
    await asyncio.sleep(random.random() * 0.003)
    if random.random() < 0.3:
        raise ValueError("a bad moment")


async def one(job: Job, hit: Hit, database: Database, settings: Any, leaving: float) -> str:
    """One hit, whose caller may leave before it is answered."""
    await asyncio.sleep(random.random() * 0.05)
    answering = asyncio.ensure_future(run_once(job, hit, database, settings))
    if random.random() < leaving:
        await asyncio.wait({answering}, timeout=random.random() * 0.005)
        answering.cancel()
    try:
        outcome = await answering
    except asyncio.CancelledError:
        return "left"
    return str(outcome.skipped or outcome.failed or outcome.status)


async def main() -> None:
    given = json.loads(sys.stdin.readline())
    settings = load({"CRONLEASE_LOG_LEVEL": "ERROR", **given["environment"]})
    job, database = Job.of(sometimes, settings, name="job"), Database(given["dsn"])
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        told = json.loads(line)
        hit = Hit("test", delivery=told["delivery"])
        hits = (one(job, hit, database, settings, told.get("leaving", 0)) for _ in range(told["hits"]))
        ended = await asyncio.gather(*hits)
        print(json.dumps(ended), flush=True)
    await database.close()


asyncio.run(main())
