"""The queues of the field and ours: how each fills its table and how one process drains it.

    python -m tests.bench.contenders NAME DSN [write]

drains as one process of bench_dispatch: it says `ready`, waits until its standard input ends, and says at the end how
much memory it had at most, in MB.
"""

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.db.migration.migrate import migrate
from cronlease.job import Job
from cronlease.observe.logs import configure
from cronlease.settings import load
from cronlease.triggers.dispatch import Taken
from cronlease.triggers.worker import Worker
from tests.bench.side_by_side import resident

# How many actions a process of ours runs at the same time.
LANES = 200
# How many connections the jobs of a process have for their writes.
CONNECTIONS = 6
WRITTEN = "create table written (number integer)"
WRITE = "insert into written values (1)"


class Contender(NamedTuple):
    """How its rows are made, how one process drains them until none is left, each with a write or without, and two
    figures from its tables: how many were not done exactly once, and the time at which the last one was done."""

    fill: Callable[[str, int], None]
    drain: Callable[[str, bool], Any]
    figures: str


def fill_ours(dsn: str, rows: int) -> None:
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "insert into public.refresh_schedule (function_name, action, once, next_run_at)"
            " select 'row ' || n, 'nothing', true, clock_timestamp() - random() * interval '1 hour'"
            " from generate_series(1, %s) n",
            [rows],
        )
        conn.execute("vacuum analyze public.refresh_schedule")


class Draining(Worker):
    """Ends when nothing is due and nothing runs."""

    async def look(self) -> Taken:
        taken = await super().look()
        if not taken.runs and taken.due_in != timedelta(0) and self._free == LANES:
            self.stop()
        return taken


async def drain_ours(dsn: str, writes: bool) -> None:
    async def nothing(run: Run) -> None: ...

    async def write(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute(WRITE)

    settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_LOG_LEVEL": "ERROR"})
    configure(settings.log_level)
    database = Database(dsn)
    job = Job.of(write if writes else nothing, settings, name="nothing", has_row=False)
    await Draining({"nothing": job}, database, settings, concurrency=LANES).run()
    await database.close()


@contextlib.asynccontextmanager
async def writing(dsn: str) -> AsyncIterator[Callable[[], Awaitable[object]]]:
    """How a job of a peer writes its row: in a commit of its own, on one of as many connections as our jobs have."""
    async with contextlib.AsyncExitStack() as stack:
        free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            connecting = psycopg.AsyncConnection.connect(dsn, autocommit=True)
            free.put_nowait(await stack.enter_async_context(await connecting))

        async def write() -> None:
            conn = await free.get()
            try:
                await conn.execute(WRITE)
            finally:
                free.put_nowait(conn)

        yield write


def procrastinate_app(dsn: str, write: Callable[[], Awaitable[object]] | None = None) -> Any:
    procrastinate = import_module("procrastinate")
    # It warns of an app that lives in the main module; here it has to.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=4))

    async def nothing(number: int) -> None:
        if write is not None:
            await write()

    return app, app.task(name="nothing")(nothing)


def fill_procrastinate(dsn: str, rows: int) -> None:
    async def fill() -> None:
        app, nothing = procrastinate_app(dsn)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for start in range(0, rows, 1000):
                await nothing.batch_defer_async(*({"number": n} for n in range(start, min(start + 1000, rows))))

    asyncio.run(fill())


async def drain_procrastinate(dsn: str, writes: bool) -> None:
    async with writing(dsn) as write:
        app, _ = procrastinate_app(dsn, write if writes else None)
        async with app.open_async():
            await app.run_worker_async(wait=False, listen_notify=False, install_signal_handlers=False)


@contextlib.asynccontextmanager
async def pgqueuer_driver(dsn: str) -> AsyncIterator[Any]:
    """On asyncpg: on psycopg it waits for notifications, up to a second, on the connection that its queries need.
    That makes no difference to empty jobs, but it does to jobs that write."""
    names = {"host": "host", "port": "port", "user": "user", "password": "password", "dbname": "database"}
    given = {names[name]: value for name, value in conninfo_to_dict(dsn).items() if name in names}
    conn = await import_module("asyncpg").connect(**given)
    try:
        yield import_module("pgqueuer.db").AsyncpgDriver(conn)
    finally:
        await conn.close()


def fill_pgqueuer(dsn: str, rows: int) -> None:
    async def fill() -> None:
        async with pgqueuer_driver(dsn) as driver:
            queries = import_module("pgqueuer.queries").Queries(driver)
            await queries.install()
            for start in range(0, rows, 1000):
                count = min(1000, rows - start)
                await queries.enqueue(["nothing"] * count, [None] * count, [0] * count)

    asyncio.run(fill())


async def drain_pgqueuer(dsn: str, writes: bool) -> None:
    types = import_module("pgqueuer.types")
    async with pgqueuer_driver(dsn) as driver, writing(dsn) as write:

        async def nothing(job: Any) -> None:
            if writes:
                await write()

        queuer = import_module("pgqueuer").PgQueuer(driver)
        queuer.entrypoint("nothing")(nothing)
        await queuer.run(mode=types.QueueExecutionMode.drain)


CONTENDERS = {
    "ours": Contender(
        fill_ours,
        drain_ours,
        "select %(rows)s - count(*) filter (where n = 1), max(last) from"
        " (select count(*) n, extract(epoch from max(finished_at)) last"
        " from public.refresh_runs where status = 'success' group by function_name) runs",
    ),
    "procrastinate": Contender(
        fill_procrastinate,
        drain_procrastinate,
        "select %(rows)s - count(*) filter (where status = 'succeeded' and attempts = 1),"
        " (select extract(epoch from max(at)) from procrastinate_events where type = 'succeeded')"
        " from procrastinate_jobs",
    ),
    "pgqueuer": Contender(
        fill_pgqueuer,
        drain_pgqueuer,
        "select %(rows)s - count(*) filter (where n = 1), max(last) from"
        " (select count(*) n, extract(epoch from max(created)) last"
        " from pgqueuer_log where status = 'successful' group by job_id) jobs",
    ),
}


def main(name: str, dsn: str, *write: str) -> None:
    if name != "ours":
        import_module(name)
    print("ready", flush=True)
    sys.stdin.read()
    asyncio.run(CONTENDERS[name].drain(dsn, bool(write)))
    print(resident("VmHWM"))


if __name__ == "__main__":
    main(*sys.argv[1:])
