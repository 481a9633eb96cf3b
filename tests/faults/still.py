"""A process with a run for each place of a fenced transaction where its client can stand still; they go round there
until the process is stopped. Writes one line for each run: what became of it."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.run.execution import run_once
from cronlease.settings import load

LARGE = "select repeat('x', 1000) from generate_series(1, 10000000)"
PAUSE_SECONDS = 0.05


def idle(conn: Any) -> None:
    while True:
        conn.execute("select 1")
        time.sleep(PAUSE_SECONDS)


def copy_in(conn: Any) -> None:
    with conn.cursor().copy("copy effect from stdin") as copy:
        while True:
            copy.write_row(["copied", None])
            time.sleep(PAUSE_SECONDS)


def copy_out(conn: Any) -> None:
    with conn.cursor().copy(f"copy ({LARGE}) to stdout") as copy:
        for _ in copy:
            time.sleep(PAUSE_SECONDS)


def read(conn: Any) -> None:
    for _ in conn.cursor().stream(LARGE):
        time.sleep(PAUSE_SECONDS)


def statement(conn: Any) -> None:
    conn.execute("select pg_sleep(60)")


PLACES: dict[str, Callable[[Any], None]] = {
    place.__name__: place for place in (idle, copy_in, copy_out, read, statement)
}


def job(place: Callable[[Any], None]) -> Callable[[Run], None]:
    def stand_still(run: Run) -> None:
        with run.commit() as conn:
            conn.execute("insert into effect values (%s, %s)", [run.function, run.request_id])
            place(conn)

    return stand_still


async def main() -> None:
    settings = load()
    database = Database(os.environ["DATABASE_URL"], pooler=settings.pooler)
    jobs = [Job.of(job(place), settings, name=name) for name, place in PLACES.items()]
    for outcome in await asyncio.gather(*(run_once(each, Hit(), database, settings) for each in jobs)):
        print(json.dumps(outcome.as_json()), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
