"""The room on a real database: `enter` runs one hit of a job, as a trigger would."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.outcome import Outcome
from cronlease.run.execution import run_once
from cronlease.settings import load

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
    """Waits for a condition; the only waiting the tests do."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        pause.wait(0.02)
