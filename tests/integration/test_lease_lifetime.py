"""How a lease is kept, lost and ended while a job is at work."""

import asyncio
import threading
import time

import pytest

from cronlease import LeaseLost, Run, TimeIsUp
from cronlease.outcome import FailReason, SkipReason, Status
from tests.integration.conftest import Room, wait_until
from tests.proxy import proxied


async def nothing(run: Run) -> None:
    pass


def renewals(room: Room, seen: set[object]) -> int:
    seen.add(room.row("locked_until")[0])
    return len(seen)


def test_the_heartbeat_renews_while_an_async_job_waits(room: Room) -> None:
    async def job(run: Run) -> None:
        seen: set[object] = set()
        while renewals(room, seen) < 4:
            await asyncio.sleep(0.02)

    assert room.enter(job, lease="1s").status is Status.SUCCESS


def test_a_blocked_event_loop_does_not_stop_the_heartbeat(room: Room) -> None:
    async def job(run: Run) -> None:
        seen: set[object] = set()
        wait_until(lambda: renewals(room, seen) >= 4)

    assert room.enter(job, lease="1s").status is Status.SUCCESS


def test_hits_are_locked_out_for_as_long_as_the_job_works(room: Room) -> None:
    async def job(run: Run) -> None:
        ends = time.monotonic() + 2.5
        while time.monotonic() < ends:
            assert (await room.hit(nothing, force=True)).skipped is SkipReason.LOCKED
            await asyncio.sleep(0.1)

    assert room.enter(job, lease="1s").status is Status.SUCCESS
    assert room.runs() == ["success"]


def test_a_lost_lease_cancels_an_async_job_at_its_next_await(room: Room) -> None:
    ended: list[str] = []

    async def job(run: Run) -> None:
        room.take_over()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    started = time.monotonic()
    assert room.enter(job, lease="1s").failed is FailReason.LEASE_LOST
    assert ended == ["cancelled"]
    assert time.monotonic() - started < 10
    assert room.runs() == ["abandoned", "running"]


def test_a_plain_job_learns_from_check_that_its_lease_is_lost(room: Room) -> None:
    learned: list[type[BaseException]] = []

    def job(run: Run) -> None:
        room.take_over()

        def lost() -> bool:
            try:
                run.check()
            except LeaseLost as error:
                learned.append(type(error))
                return True
            return False

        wait_until(lost)
        run.check()

    assert room.enter(job, lease="1s").failed is FailReason.LEASE_LOST
    assert learned == [LeaseLost]


def test_max_run_ends_a_job_that_never_returns(room: Room) -> None:
    async def job(run: Run) -> None:
        await asyncio.Event().wait()

    outcome = room.enter(job, lease="1s", max_run="2s")
    assert (outcome.failed, outcome.status, outcome.http_status) == (FailReason.DEADLINE, Status.FAILED, 500)
    assert room.row("locked_by, last_status, failures") == (None, "failed", 1)
    assert "deadline" in room.row("last_error")[0]


@pytest.mark.thorough
def test_max_run_frees_the_lease_of_a_thread_that_cannot_be_cancelled(room: Room) -> None:
    gone, done = threading.Event(), threading.Event()
    late: list[BaseException] = []

    def job(run: Run) -> None:
        gone.wait(30)
        try:
            with run.commit() as conn:
                conn.execute("create table too_late ()")
        except (LeaseLost, TimeIsUp) as error:
            late.append(error)
        finally:
            done.set()

    outcome = room.enter(job, lease="1s", max_run="2s")
    assert outcome.failed is FailReason.DEADLINE
    assert room.row("locked_by")[0] is None
    assert room.enter(nothing, force=True).status is Status.SUCCESS
    gone.set()
    assert done.wait(10)
    assert len(late) == 1
    assert room.query("select to_regclass('too_late')") == [(None,)]


@pytest.mark.thorough
def test_max_run_ends_the_renewals_of_a_blocked_event_loop(room: Room) -> None:
    taken: list[bool] = []

    async def job(run: Run) -> None:
        def take() -> bool:
            (claimed,) = room.query("select acquired from acquire_refresh_lock('tick', gen_random_uuid())")
            return bool(claimed[0])

        wait_until(take)
        taken.append(True)

    outcome = room.enter(job, lease="1s", max_run="2s")
    assert taken == [True]
    assert outcome.failed is not None
    assert room.runs() == ["abandoned", "running"]


def test_a_run_ends_itself_before_its_lease_when_the_database_falls_silent(room: Room) -> None:
    with proxied(room.dsn) as proxy:
        through = Room(proxy.dsn)

        async def job(run: Run) -> None:
            proxy.silent = True
            await asyncio.sleep(60)

        started = time.monotonic()
        outcome = through.enter(job, lease="2s")
        assert outcome.failed is FailReason.LEASE_LOST
        assert time.monotonic() - started < 8
    wait_until(lambda: room.enter(nothing).status is Status.SUCCESS)


def test_a_busy_row_is_not_a_lost_lease(room: Room) -> None:
    """Somebody's psql locks the row for longer than the lease; the run waits it out and ends well."""
    import psycopg

    async def job(run: Run) -> None:
        with psycopg.connect(room.dsn) as conn:
            conn.execute("select from refresh_schedule for update")
            await asyncio.sleep(2.5)
            conn.rollback()
        async with run.commit():
            pass

    assert room.enter(job, lease="1s").status is Status.SUCCESS
    assert room.runs() == ["success"]


def test_a_data_transaction_may_outlast_the_lease(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("select pg_sleep(1.5)")
            assert (await room.hit(nothing, force=True)).skipped is SkipReason.LOCKED

    assert room.enter(job, lease="1s").status is Status.SUCCESS
