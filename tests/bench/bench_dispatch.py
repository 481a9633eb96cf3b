"""How fast due empty actions are drained: one dispatcher, eight of them, and the queues of the field, in one run.

    pip install -r tests/bench/requirements.txt && python -m tests.bench.bench_dispatch --rows 20000 --processes 8

Every dispatcher is a process. Each of ours takes one row at a time, and each row is a lease, a fence and a line of
history; pgqueuer takes ten jobs a time, procrastinate one. What matters first is the column `twice or never`.
"""

import argparse
import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.db.migration.migrate import migrate
from cronlease.job import Job
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher
from tests.bench.side_by_side import Bench, database


class Contender(NamedTuple):
    """How its rows are made, how one process drains them until none is left, and how many were not done once."""

    fill: Callable[[str, int], None]
    drain: Callable[[str], Any]
    wrong: str


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


async def drain_ours(dsn: str) -> None:
    async def nothing(run: Run) -> None: ...

    settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_LOG_LEVEL": "ERROR"})
    database = Database(dsn)
    job = Job.of(nothing, settings, name="nothing", has_row=False)
    dispatcher = Dispatcher({"nothing": job}, database, settings)
    while (await dispatcher.run_due()).ran:
        pass
    await database.close()


def procrastinate_app(dsn: str) -> Any:
    procrastinate = import_module("procrastinate")
    # It warns of an app that lives in the main module; here it has to.
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn, min_size=1, max_size=4))

    async def nothing(number: int) -> None: ...

    return app, app.task(name="nothing")(nothing)


def fill_procrastinate(dsn: str, rows: int) -> None:
    async def fill() -> None:
        app, nothing = procrastinate_app(dsn)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
            for start in range(0, rows, 1000):
                await nothing.batch_defer_async(*({"number": n} for n in range(start, min(start + 1000, rows))))

    asyncio.run(fill())


async def drain_procrastinate(dsn: str) -> None:
    app, _ = procrastinate_app(dsn)
    async with app.open_async():
        await app.run_worker_async(wait=False, listen_notify=False, install_signal_handlers=False)


def fill_pgqueuer(dsn: str, rows: int) -> None:
    driver, queue = import_module("pgqueuer.db"), import_module("pgqueuer.queries")

    async def fill() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            queries = queue.Queries(driver.PsycopgDriver(conn))
            await queries.install()
            for start in range(0, rows, 1000):
                count = min(1000, rows - start)
                await queries.enqueue(["nothing"] * count, [None] * count, [0] * count)

    asyncio.run(fill())


async def drain_pgqueuer(dsn: str) -> None:
    async def nothing(job: Any) -> None: ...

    driver, types = import_module("pgqueuer.db"), import_module("pgqueuer.types")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        queuer = import_module("pgqueuer").PgQueuer(driver.PsycopgDriver(conn))
        queuer.entrypoint("nothing")(nothing)
        await queuer.run(mode=types.QueueExecutionMode.drain)


CONTENDERS = {
    "ours": Contender(
        fill_ours,
        drain_ours,
        "select %(rows)s - count(*) filter (where n = 1) from"
        " (select count(*) n from public.refresh_runs where status = 'success' group by function_name) runs",
    ),
    "procrastinate": Contender(
        fill_procrastinate,
        drain_procrastinate,
        "select %(rows)s - count(*) filter (where status = 'succeeded' and attempts = 1) from procrastinate_jobs",
    ),
    "pgqueuer": Contender(
        fill_pgqueuer,
        drain_pgqueuer,
        "select %(rows)s - count(*) filter (where n = 1) from"
        " (select count(*) n from pgqueuer_log where status = 'successful' group by job_id) jobs",
    ),
}


@contextlib.contextmanager
def fresh(bench: Bench, name: str) -> Iterator[str]:
    with bench.connect() as admin:
        admin.execute(f'create database "{name}"')
    yield make_conninfo(bench.url, dbname=name)
    with bench.connect() as admin:
        admin.execute(f'drop database "{name}" with (force)')


def run(bench: Bench, name: str, rows: int, processes: int) -> tuple[float, int]:
    """Seconds until all is drained, and how many rows were not done exactly once."""
    contender = CONTENDERS[name]
    with fresh(bench, f"{name} {processes}") as dsn:
        contender.fill(dsn, rows)
        command = [sys.executable, "-m", "tests.bench.bench_dispatch", "--drain", name, dsn]
        began = time.perf_counter()
        children = [subprocess.Popen(command) for _ in range(processes)]
        assert [child.wait() for child in children] == [0] * processes, f"{name} failed"
        seconds = time.perf_counter() - began
        with psycopg.connect(dsn) as conn:
            row = conn.execute(contender.wrong, {"rows": rows}).fetchone()
        assert row is not None
        return seconds, int(row[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--drain", nargs=2, metavar=("CONTENDER", "DSN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.drain:
        name, dsn = options.drain
        asyncio.run(CONTENDERS[name].drain(dsn))
        return
    with database(None) as bench:
        print(
            f"{options.rows} empty actions\n{'':26}{'seconds':>9}{'actions/s':>11}{'ratio':>7}{'twice or never':>16}"
        )
        base = 0.0
        for processes in (1, options.processes):
            for name in CONTENDERS:
                seconds, wrong = run(bench, name, options.rows, processes)
                base = base or seconds
                label = f"{name}, {processes} process{'es' if processes > 1 else ''}"
                print(
                    f"{label:26}{seconds:>9.1f}{options.rows / seconds:>11.0f}{base / seconds:>7.2f}{wrong:>16}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
