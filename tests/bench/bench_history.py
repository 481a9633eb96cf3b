"""Claim and finish, the status, and pruning with a hundred thousand runs of history and with millions, side by side.

    python -m tests.bench.bench_history [--runs 5000000]

Half of the runs belong to a thousand schedules that are still there, half to one-shots that are gone.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from uuid import uuid4

import psycopg

from tests.bench import command
from tests.bench.side_by_side import alternate, compare, measured, pinned, show
from tests.bench.table import Row

QUICK = {"rounds": 4, "runs": 200_000}
SMALL = 100_000
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
      clock_timestamp() - interval '20 days' * (1 - i / %(size)s::float8),
      clock_timestamp(),
      'success'
    from generate_series(1, %(size)s) i
"""
CLAIM = "select fence from public.acquire_refresh_lock(p_function_name => %s, p_request_id => %s, p_force => true)"
FINISH = (
    "select public.finish_refresh_run(p_function_name => %s, p_request_id => %s, p_fence => %s,"
    " p_status => 'success', p_delay => interval '1 day')"
)
STATUS = "select public.read_refresh_status()"
PRUNE_NOTHING = "select public.prune_refresh_history(p_retention => '30 days')"
PRUNE_SOME = "select public.prune_refresh_history(p_retention => '19 days 12 hours', p_limit => 10)"


def claim_and_finish(conn: psycopg.Connection[Any]) -> None:
    request = uuid4()
    row = conn.execute(CLAIM, ["row 7", request]).fetchone()
    assert row is not None
    conn.execute(FINISH, ["row 7", request, row[0]])


QUESTIONS: dict[str, tuple[Callable[[psycopg.Connection[Any]], object], int]] = {
    "claim and finish": (claim_and_finish, 20),
    "the status": (lambda conn: conn.execute(STATUS).fetchone(), 5),
    "pruning where nothing is old": (lambda conn: conn.execute(PRUNE_NOTHING).fetchone(), 20),
    "pruning ten runs": (lambda conn: conn.execute(PRUNE_SOME).fetchone(), 2),
}


def rows(*, rounds: int = 30, runs: int = 5_000_000) -> Iterator[Row]:
    with pinned() as bench, ExitStack() as stack:
        tables = {
            f"{size:,} runs": stack.enter_context(bench.filled(f"runs_{size}", SCHEDULES, RUNS, size=size))
            for size in (SMALL, runs)
        }
        base, large = tables
        for title, (ask, times) in QUESTIONS.items():
            measures = {
                name: measured(partial(ask, conn), times, [conn.info.backend_pid]) for name, conn in tables.items()
            }
            found = alternate(measures, rounds)
            show(title, found, base)
            yield compare(f"{title}, {large} of history", found, large, base, "<= 1.2")


if __name__ == "__main__":
    command.run(rows, QUICK)
