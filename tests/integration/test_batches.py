"""Many runs of one process: claimed together, kept by one heartbeat, ended together, and no run harms another."""

import asyncio
import threading
import time

import psycopg
import pytest

from cronlease import Run
from cronlease.outcome import FailReason, Status
from cronlease.run import ends
from tests.integration.conftest import Room, wait_until
from tests.integration.test_loop import QUICK, runs, schedule, working
from tests.proxy import proxied

LANES = 8
NAMES = [f"row-{number}" for number in range(LANES)]


class Together:
    """A job that goes on when so many of it have begun, and is told to end by the test."""

    def __init__(self, number: int = LANES) -> None:
        self._number = number
        self.begun: list[Run] = []
        self.all = asyncio.Event()
        self.may_end = asyncio.Event()

    async def job(self, run: Run) -> None:
        self.begun.append(run)
        if len(self.begun) >= self._number:
            self.all.set()
        await self.may_end.wait()


def test_rows_are_claimed_together_and_their_ends_are_written_in_one_commit(room: Room) -> None:
    schedule(room, *NAMES)

    async def main() -> None:
        jobs = Together()
        async with working(room.dsn, jobs.job, concurrency=LANES):
            await asyncio.wait_for(jobs.all.wait(), QUICK)
            claimed = room.query("select count(distinct xmin::text) from refresh_runs")
            # The worker takes rows for half of its lanes at a time.
            assert claimed == [(2,)]
            jobs.may_end.set()
            await asyncio.to_thread(wait_until, lambda: len(runs(room)) == LANES and not running(room))

    asyncio.run(main())
    assert sorted(runs(room)) == [(name, "success") for name in NAMES]
    assert room.query("select count(distinct xmin::text) from refresh_runs") == [(1,)]


def running(room: Room) -> bool:
    return bool(room.query("select 1 from refresh_runs where status = 'running'"))


@pytest.mark.thorough
def test_one_heartbeat_keeps_all_leases_and_a_busy_or_lost_one_harms_no_other(room: Room) -> None:
    schedule(room, *NAMES)

    before = set(threading.enumerate())

    async def main() -> dict[str, FailReason | None]:
        jobs = Together()
        ended: dict[str, FailReason | None] = {}
        async with working(room.dsn, jobs.job, concurrency=LANES, lease="3s") as worker:
            await asyncio.wait_for(jobs.all.wait(), QUICK)
            beating = [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
            assert len(set(beating) - before) == 1
            room.query("update refresh_schedule set locked_by = 'somebody', fence = 9 where function_name = 'row-0'")
            with psycopg.connect(room.dsn) as busy:
                busy.execute("select from refresh_schedule where function_name = 'row-1' for update")
                await asyncio.sleep(4.5)
            held = room.query("select function_name from refresh_schedule where locked_until > clock_timestamp()")
            assert {name for (name,) in held} >= set(NAMES[2:])
            jobs.may_end.set()
            async with asyncio.timeout(QUICK):
                while len(ended) < LANES:
                    if (outcome := await worker.steps.get()) is not None:
                        ended[outcome.function] = outcome.failed
        return ended

    ended = asyncio.run(main())
    assert ended == {name: FailReason.LEASE_LOST if name == "row-0" else None for name in NAMES}


def test_the_heartbeats_thread_ends_soon_after_the_last_lease(room: Room) -> None:
    async def nothing(run: Run) -> None: ...

    before = set(threading.enumerate())
    assert room.enter(nothing).status is Status.SUCCESS
    wait_until(lambda: set(threading.enumerate()) <= before, 10)


def test_a_row_whose_end_cannot_be_written_harms_no_other(room: Room) -> None:
    schedule(room, *NAMES)
    room.query("update refresh_schedule set run_count = 9223372036854775807 where function_name = 'row-3'")

    async def main() -> None:
        jobs = Together()
        async with working(room.dsn, jobs.job, concurrency=LANES):
            await asyncio.wait_for(jobs.all.wait(), QUICK)
            jobs.may_end.set()
            await asyncio.to_thread(wait_until, lambda: not running(room))

    asyncio.run(main())
    ended = dict(runs(room))
    assert ended.pop("row-3") == "failed"
    assert ended == dict.fromkeys([name for name in NAMES if name != "row-3"], "success")
    assert room.query("select count(*) from refresh_schedule where locked_by is not null") == [(0,)]


def test_an_end_waits_for_no_other_where_no_other_run_is_in_progress(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "_GATHERED_SECONDS", 30.0)

    async def nothing(run: Run) -> None: ...

    began = time.monotonic()
    assert room.enter(nothing).status is Status.SUCCESS
    assert time.monotonic() - began < 20


def test_a_row_that_somebody_has_locked_at_the_end_delays_no_other(room: Room) -> None:
    """Its lease is shorter than the wait for the row, so whoever waited with it would lose theirs."""
    schedule(room, *NAMES)

    async def main() -> None:
        jobs = Together()
        async with working(room.dsn, jobs.job, concurrency=LANES, lease="1s"):
            await asyncio.wait_for(jobs.all.wait(), QUICK)
            with psycopg.connect(room.dsn) as busy:
                busy.execute("select from refresh_schedule where function_name = 'row-3' for update")
                jobs.may_end.set()
                ended = "select count(*) from refresh_runs where status = 'success'"
                await asyncio.to_thread(wait_until, lambda: room.query(ended) == [(LANES - 1,)])

    asyncio.run(main())
    assert [pair for pair in runs(room) if pair[0] != "row-3"] == [
        (name, "success") for name, _ in runs(room) if name != "row-3"
    ]


def test_an_end_whose_answer_is_lost_is_written_as_what_it_was(room: Room) -> None:
    """The job succeeded, and nothing else was to be committed with its end: that is not a failure."""
    with proxied(room.dsn) as proxy:

        async def job(run: Run) -> None:
            proxy.cut()

        outcome = Room(proxy.dsn).enter(job)
    assert outcome.status is Status.SUCCESS
    assert room.runs() == ["success"]
