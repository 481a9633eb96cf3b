"""Claiming the next due row among a thousand schedules and among a million, side by side on one server.

In each half of the rows is due and of an action nobody here knows; the known ones are due a few at a time.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psycopg

from tests.bench import command
from tests.bench.side_by_side import Measure, alternate, compare, measured, pinned, show
from tests.bench.table import Row

QUICK = {"rounds": 4, "schedules": 20_000}
SMALL = 1000
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
    from generate_series(1, %(size)s) i
"""
MAKE_DUE = """
    update public.refresh_schedule
    set next_run_at = clock_timestamp() - random() * interval '1 hour'
    where id in (select (random() * %s)::integer / 2 * 2 + 1 from generate_series(1, %s))
"""


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


def rows(*, rounds: int = 30, schedules: int = 1_000_000) -> Iterator[Row]:
    with pinned() as bench, ExitStack() as stack:
        tables = {
            f"{size:,} rows": (stack.enter_context(bench.filled(f"rows_{size}", FILL, size=size)), size)
            for size in (SMALL, schedules)
        }
        measures = {
            "claim and finish": {name: drain(conn, size, 20) for name, (conn, size) in tables.items()},
            "nothing is due": {name: ask_in_vain(conn, 50) for name, (conn, _) in tables.items()},
        }
        base, large = tables
        for title, variants in measures.items():
            found = alternate(variants, rounds)
            show(title, found, base)
            yield compare(f"{title} among {large}", found, large, base, "<= 2.0")


if __name__ == "__main__":
    command.run(rows, QUICK)
