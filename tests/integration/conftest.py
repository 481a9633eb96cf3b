"""A room is one schedule in a real database: `enter` runs one hit of a job, as a trigger would."""

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg
import pytest

from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.outcome import Outcome
from cronlease.run.execution import run_once
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from cronlease.triggers.worker import Worker

NAME = "tick"


class Room:
    """One function's schedule in one database, and hits at it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    async def hit(self, job: Callable[[Any], Any], *, force: bool = False, **environment: str) -> Outcome:
        return await self.hit_as(Hit(force=force), job, **environment)

    async def hit_as(self, hit: Hit, job: Callable[[Any], Any], **environment: str) -> Outcome:
        settings = load({f"CRONLEASE_{name.upper()}": value for name, value in environment.items()})
        database = Database(self.dsn, pooler=settings.pooler)
        try:
            return await run_once(Job.of(job, settings, name=NAME), hit, database, settings)
        finally:
            await database.close()

    def enter(self, job: Callable[[Any], Any], *, force: bool = False, **environment: str) -> Outcome:
        return asyncio.run(self.hit(job, force=force, **environment))

    def row(self, columns: str = "*") -> Any:
        return self.query(f"select {columns} from refresh_schedule where function_name = '{NAME}'")[0]

    def runs(self) -> list[str]:
        return [row[0] for row in self.query("select status from refresh_runs order by fence")]

    def query(self, text: str) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            cursor = conn.execute(text)
            return cursor.fetchall() if cursor.description else []

    def take_over(self) -> None:
        """Somebody else claims the row after its lease has run out, and holds it."""
        self.query("update refresh_schedule set locked_until = clock_timestamp() - interval '1 s'")
        (claimed,) = self.query(f"select acquired from acquire_refresh_lock('{NAME}', gen_random_uuid())")
        assert claimed[0]


@pytest.fixture
def room(dsn: str) -> Room:
    return Room(dsn)


def wait_until(condition: Callable[[], bool], seconds: float = 15) -> None:
    """Polls until the condition is true, and fails if that takes too long."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        pause.wait(0.02)


class Step(NamedTuple):
    """The result of one look for due rows: the outcome of the run that it claimed, or of the look itself."""

    outcome: Outcome | None
    due_in: timedelta | None = None


async def step(worker: Worker | Dispatcher) -> Step:
    """Looks once, and runs what was claimed to its end."""
    taken = await (worker.look() if isinstance(worker, Worker) else worker.take(1))
    return Step(await taken.runs[0]() if taken.runs else taken.outcome, taken.due_in)
