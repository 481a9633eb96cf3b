"""Claim and finish, the status, and pruning with a hundred thousand runs of history and with millions, side by side.

    python -m tests.bench.bench_history [--runs 5000000]

Half of the runs belong to a thousand schedules that are still there, half to one-shots that are gone.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.bench.side_by_side import Bench, alternate, cores, database, measured, pin, show

SCHEDULES = """
    insert into public.refresh_schedule (function_name, action, next_run_at, fence)
    select 'row ' || i, 'work', clock_timestamp() + interval '1 day', 10000000
    from generate_series(1, 1000) i
"""
RUNS = """
    insert into public.refresh_runs
      (request_id, function_name, action, fence, trigger, started_at, finished_at, status)
    select
      gen_random_uuid(),
      case when i %% 2 = 0 then 'row ' || i / 2 %% 1000 + 1 else 'gone ' || i end,
      'work',
      i,
      'run_due',
      clock_timestamp() - interval '20 days' * (1 - i / %s::float8),
      clock_timestamp(),
      'success'
    from generate_series(1, %s) i
"""
CLAIM = "select fence from public.acquire_refresh_lock(p_function_name => %s, p_request_id => %s, p_force => true)"
FINISH = (
    "select public.finish_refresh_run(p_function_name => %s, p_request_id => %s, p_fence => %s,"
    " p_status => 'success', p_delay => interval '1 day')"
)
STATUS = "select public.read_refresh_status()"
PRUNE_NOTHING = "select public.prune_refresh_history(p_retention => '30 days')"
PRUNE_SOME = "select public.prune_refresh_history(p_retention => '19 days 12 hours', p_limit => 10)"


def filled(bench: Bench, runs: int) -> psycopg.Connection[Any]:
    """A database of its own with so many runs of history in it."""
    name = f"runs_{runs}"
    with bench.connect() as admin:
        admin.execute(f"create database {name}")
    url = make_conninfo(bench.url, dbname=name)
    migrate(url)
    conn = psycopg.connect(url, autocommit=True, prepare_threshold=1)
    conn.execute(SCHEDULES)
    conn.execute(RUNS, [runs, runs])
    conn.execute("vacuum analyze public.refresh_runs")
    conn.execute("vacuum analyze public.refresh_schedule")
    return conn


def claim_and_finish(conn: psycopg.Connection[Any]) -> None:
    request = uuid4()
    row = conn.execute(CLAIM, ["row 7", request]).fetchone()
    assert row is not None
    conn.execute(FINISH, ["row 7", request, row[0]])


def run(bench: Bench, sizes: list[int], rounds: int) -> None:
    tables = {f"{runs:,} runs": filled(bench, runs) for runs in sizes}
    base = next(iter(tables))
    goals = dict.fromkeys(list(tables)[1:], "flat: <= 1.2")
    questions: dict[str, tuple[Callable[[psycopg.Connection[Any]], object], int]] = {
        "claim and finish": (claim_and_finish, 20),
        "the status": (lambda conn: conn.execute(STATUS).fetchone(), 5),
        "pruning where nothing is old": (lambda conn: conn.execute(PRUNE_NOTHING).fetchone(), 20),
        "pruning ten runs": (lambda conn: conn.execute(PRUNE_SOME).fetchone(), 2),
    }
    for title, (ask, times) in questions.items():
        measures = {
            name: measured(partial(ask, conn), times, [conn.info.backend_pid]) for name, conn in tables.items()
        }
        show(title, alternate(measures, rounds), base, goals)
    for conn in tables.values():
        conn.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5_000_000)
    given = parser.parse_args()
    core = cores()[-1] if cores() else None
    with database(core) as bench:
        pin(0, core)
        print(f"client and backend on core {core}, {given.rounds} rounds")
        run(bench, [100_000, given.runs], given.rounds)


if __name__ == "__main__":
    main()
