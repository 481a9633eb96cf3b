"""Claim and finish against two raw updates of the row: four commits with fsync, client and backend on one core."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import uvloop

from cronlease.db.ask import ask_sync
from cronlease.db.connection import Database
from cronlease.db.functions import Claim, Finish, acquire_refresh_lock, finish_refresh_run
from cronlease.db.queries import Query
from cronlease.outcome import Counts, Status
from tests.bench import command
from tests.bench.side_by_side import NAME, Bench, Cost, Measure, alternate, compare, measured, pinned, show
from tests.bench.table import Row

CLAIM = (
    "update public.refresh_schedule set locked_by = %s, locked_until = clock_timestamp() + interval '5 minutes',"
    " fence = fence + 1 where function_name = %s"
)
FINISH = (
    "update public.refresh_schedule set locked_by = null, locked_until = null,"
    " next_run_at = clock_timestamp() + interval '10 minutes', last_run_at = clock_timestamp(), last_status = %s"
    " where function_name = %s"
)
QUICK = {"rounds": 4, "times": 10}
BASE, OURS, GOAL = "two raw updates", "claim and finish", ">= 0.75"
LEASE, DELAY, RETENTION = timedelta(minutes=5), timedelta(minutes=10), timedelta(days=30)


def claim(request_id: UUID) -> Query[Claim]:
    return acquire_refresh_lock(NAME, request_id, LEASE, force=True)


def finish(request_id: UUID, claimed: Claim) -> Query[Finish]:
    assert claimed.fence is not None, claimed
    counts = Counts(120, 3, 1, 116, 2)
    return finish_refresh_run(
        NAME, request_id, claimed.fence, Status.SUCCESS, DELAY, error=None, counts=counts, retention=RETENTION
    )


def row(where: str, found: dict[str, list[Cost]]) -> Row:
    show(f"{where}, pairs per second", found, BASE, as_rate=True)
    return compare(f"claim and finish {where}", found, OURS, BASE, GOAL, rate="pairs/s")


def on_a_plain_connection(bench: Bench, rounds: int, times: int) -> Row:
    with bench.connect() as conn:

        def two_updates() -> None:
            conn.execute(CLAIM, [str(uuid4()), NAME])
            conn.execute(FINISH, ["success", NAME])

        def claim_and_finish() -> None:
            request_id = uuid4()
            ask_sync(conn, finish(request_id, ask_sync(conn, claim(request_id))))

        backend = [conn.info.backend_pid]
        variants = {BASE: measured(two_updates, times, backend), OURS: measured(claim_and_finish, times, backend)}
        return row("on a plain connection", alternate(variants, rounds))


def on_the_pool(bench: Bench, rounds: int, times: int) -> Row:
    """As run_once does it; one after another, so the pool always hands out the same connection."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pool = Database(bench.url)

        async def two_updates() -> None:
            async with pool.connection() as conn:
                await conn.execute(CLAIM, [str(uuid4()), NAME])
            async with pool.connection() as conn:
                await conn.execute(FINISH, ["success", NAME])

        async def claim_and_finish() -> None:
            request_id = uuid4()
            await pool.ask(finish(request_id, await pool.ask(claim(request_id))))

        async def backend() -> int:
            async with pool.connection() as conn:
                return conn.info.backend_pid

        def repeated(step: Callable[[], Coroutine[Any, Any, None]]) -> Measure:
            async def repeat() -> None:
                for _ in range(times):
                    await step()

            measure = measured(lambda: runner.run(repeat()), 1, backends)
            return lambda: Cost._make(seconds / times for seconds in measure())

        backends = [runner.run(backend())]
        variants = {BASE: repeated(two_updates), OURS: repeated(claim_and_finish)}
        found = alternate(variants, rounds)
        runner.run(pool.close())
        return row("on the pool", found)


def rows(*, rounds: int = 60, times: int = 25) -> Iterator[Row]:
    """`times` is how many pairs of commits are in a round."""
    with pinned() as bench:
        yield on_the_pool(bench, rounds, times)
        yield on_a_plain_connection(bench, rounds, times)


if __name__ == "__main__":
    command.run(rows, QUICK)
