"""Claiming the next due row among a thousand schedules and among a million, side by side on one server.

In each half of the rows is due and of an action nobody here knows; the known ones are due a few at a time.
"""

import argparse
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from cronlease.db.migration.migrate import migrate
from tests.bench.side_by_side import Bench, Measure, alternate, cores, database, measured, pin, show

ACTIONS = [f"work {number}" for number in range(5)]
CLAIM = "select acquired, function_name, fence from public.claim_due_refresh(p_request_id => %s, p_actions => %s)"
FINISH = (
    "select public.finish_refresh_run(p_function_name => %s, p_request_id => %s, p_fence => %s,"
    " p_status => 'success', p_delay => interval '1 hour')"
)
FILL = """
    insert into public.refresh_schedule (function_name, action, args, every, next_run_at)
    select
      'row ' || i,
      case when i %% 2 = 0 then 'unheard of' else 'work ' || i / 2 %% 5 end,
      '{}',
      '10m..15m',
      clock_timestamp() + case when i %% 2 = 0 then -1 else 100 end * interval '1 day' * random()
    from generate_series(1, %s) i
"""
MAKE_DUE = """
    update public.refresh_schedule
    set next_run_at = clock_timestamp() - random() * interval '1 hour'
    where id in (select (random() * %s)::integer / 2 * 2 + 1 from generate_series(1, %s))
"""


def filled(bench: Bench, rows: int) -> psycopg.Connection[Any]:
    """A database of its own with so many schedules in it."""
    name = f"rows_{rows}"
    with bench.connect() as admin:
        admin.execute(f"create database {name}")
    url = make_conninfo(bench.url, dbname=name)
    migrate(url)
    conn = psycopg.connect(url, autocommit=True, prepare_threshold=1)
    conn.execute(FILL, [rows])
    conn.execute("vacuum analyze public.refresh_schedule")
    return conn


def drain(conn: psycopg.Connection[Any], rows: int, times: int) -> Measure:
    """Some rows come due, outside the measure, and each is claimed and finished, inside of it."""

    def claim_and_finish() -> None:
        request = uuid4()
        acquired, name, fence = conn.execute(CLAIM, [request, ACTIONS]).fetchone() or (False, None, None)
        if acquired:
            conn.execute(FINISH, [name, request, fence])

    inner = measured(claim_and_finish, times, [conn.info.backend_pid])

    def measure() -> Any:
        conn.execute(MAKE_DUE, [rows - 2, times * 2])
        return inner()

    return measure


def ask_in_vain(conn: psycopg.Connection[Any], times: int) -> Measure:
    return measured(
        lambda: conn.execute(CLAIM, [uuid4(), ["never heard of either"]]).fetchone(), times, [conn.info.backend_pid]
    )


def run(bench: Bench, sizes: list[int], rounds: int) -> None:
    tables = {f"{rows:,} rows": (filled(bench, rows), rows) for rows in sizes}
    base = next(iter(tables))
    goals = dict.fromkeys(list(tables)[1:], "flat: <= 2.0")
    found = alternate({name: drain(conn, rows, 20) for name, (conn, rows) in tables.items()}, rounds)
    show("claim and finish", found, base, goals)
    found = alternate({name: ask_in_vain(conn, 50) for name, (conn, _) in tables.items()}, rounds)
    show("nothing is due", found, base, goals)
    for conn, _ in tables.values():
        conn.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    core = cores()[-1] if cores() else None
    with database(core) as bench:
        pin(0, core)
        print(f"client and backend on core {core}, {given.rounds} rounds")
        run(bench, [1000, given.rows], given.rounds)


if __name__ == "__main__":
    main()
