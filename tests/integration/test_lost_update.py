"""Looking for a lost update: an unprotected read, a pause, a write, by eight workers at the same time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.outcome import Status
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.integration.conftest import Room

WORKERS = 8
ADDED_BY_EACH = 12


async def add_one(conn: psycopg.AsyncConnection, source: random.Random) -> None:
    """As wrong as it can be written: nothing in it keeps two of them apart."""
    cursor = await conn.execute("select n from counter")
    row = await cursor.fetchone()
    assert row is not None
    await asyncio.sleep(source.uniform(0.001, 0.006))
    await conn.execute("update counter set n = %s", [row[0] + 1])


def all_at_once(worker: Callable[[random.Random], Awaitable[int]]) -> int:
    with ThreadPoolExecutor(WORKERS) as pool:
        seeded = [random.Random(seed) for seed in range(WORKERS)]
        return sum(pool.map(lambda source: asyncio.run(worker(source)), seeded))  # type: ignore[arg-type]


def test_no_update_is_lost_under_the_lease(room: Room) -> None:
    room.query("create table counter (n int); insert into counter values (0)")

    async def worker(source: random.Random) -> int:
        async def job(run: Run) -> None:
            async with run.connection() as conn:
                await add_one(conn, source)

        database, settings = Database(room.dsn), load({"CRONLEASE_EVERY": "0s"})
        added = 0
        while added < ADDED_BY_EACH:
            outcome = await run_once(Job.of(job, settings, name="tick"), Hit(), database, settings)
            added += outcome.status is Status.SUCCESS
            await asyncio.sleep(source.uniform(0, 0.004))
        await database.close()
        return added

    added = all_at_once(worker)
    assert added == WORKERS * ADDED_BY_EACH
    assert room.query("select n from counter") == [(added,)]


def test_without_the_lease_the_same_work_loses_some(room: Room) -> None:
    room.query("create table counter (n int); insert into counter values (0)")

    async def worker(source: random.Random) -> int:
        async with await psycopg.AsyncConnection.connect(room.dsn, autocommit=True) as conn:
            for _ in range(ADDED_BY_EACH):
                await add_one(conn, source)
        return ADDED_BY_EACH

    added = all_at_once(worker)
    assert room.query("select n from counter")[0][0] < added
