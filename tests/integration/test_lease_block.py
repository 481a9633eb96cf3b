"""cronlease.lease(): a block of code as a real run, on a real database."""

import asyncio
import sys
import threading
import time
from datetime import UTC
from typing import Any

import pytest

import cronlease
from cronlease.errors import LeaseLost, TimeIsUp
from cronlease.process.shutdown import process
from tests.integration.conftest import NAME, Room, wait_until


@pytest.fixture
def room(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("DATABASE_URL", dsn)
    room = Room(dsn)
    room.query("create table effect (request_id uuid)")
    return room


async def write(run: cronlease.Run) -> None:
    async with run.commit() as conn:
        await conn.execute("insert into effect values (%s)", [run.request_id])
        run.report(inserted=1)


def test_a_block_is_a_run_and_free_means_go(room: Room) -> None:
    async def twice() -> None:
        for _ in range(2):
            async with cronlease.lease(NAME, lease="5m") as run:
                assert (run.function, run.lease.total_seconds()) == (NAME, 300)
                await write(run)

    asyncio.run(twice())
    with cronlease.lease(NAME) as run, run.commit() as conn:
        conn.execute("insert into effect values (%s)", [run.request_id])
    with cronlease.lease(NAME):
        pass
    assert room.query("select trigger, status, inserted from refresh_runs order by fence") == [
        ("lease", "success", 1),
        ("lease", "success", 1),
        ("lease", "success", None),
        ("lease", "success", None),
    ]
    assert room.query("select count(*) from effect") == [(3,)]


def test_whoever_does_not_get_the_lease_is_skipped_with_the_reason(room: Room) -> None:
    async def nested() -> None:
        async with cronlease.lease(NAME):
            with pytest.raises(cronlease.Skipped, match=f"{NAME} was skipped, locked") as skipped:
                async with cronlease.lease(NAME):
                    raise AssertionError("never entered")
            assert skipped.value.reason is cronlease.SkipReason.LOCKED

    asyncio.run(nested())

    def plain() -> None:
        with cronlease.lease(NAME, every="1h"):
            pass

    plain()
    with pytest.raises(cronlease.Skipped) as skipped:
        plain()
    assert skipped.value.reason == "not_due"
    assert skipped.value.outcome.next_run_at is not None
    # Without a cadence free means go, whatever was planned before.
    with cronlease.lease(NAME):
        pass
    assert room.runs() == ["success", "success", "success"]


@pytest.mark.parametrize(
    ("name", "when", "says"),
    [
        (None, {}, "a lease needs a name"),
        (" ", {}, "a lease needs a name"),
        ("a\0b", {}, "no control characters"),
        (NAME, {"lease": "0s"}, "lease is 0s: a lease is at least 1s"),
        (NAME, {"lease": 5}, "5 is not a duration: write 90s"),
        (NAME, {"every": 6}, "every is 6: write it as a text"),
        (NAME, {"cron": 5}, "cron is 5: write it as a text"),
    ],
)
def test_what_cannot_be_a_lease_is_refused_with_a_sentence(name: Any, when: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        cronlease.lease(name, **when)


def test_without_a_database_or_under_a_run_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me@127.0.0.1:1/db")
    with pytest.raises(cronlease.Skipped, match="schedule_read_error"), cronlease.lease(NAME):
        pass
    monkeypatch.setenv("CRONLEASE_SPAWNED", "1")
    with pytest.raises(cronlease.Skipped, match="spawned"), cronlease.lease(NAME):
        pass


def test_an_error_of_the_block_fails_the_run_and_goes_on(room: Room) -> None:
    async def failing() -> None:
        async with cronlease.lease(NAME) as run, run.commit() as conn:
            await conn.execute("insert into effect values (%s)", [run.request_id])
            raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        asyncio.run(failing())
    with pytest.raises(SystemExit), cronlease.lease(NAME):
        sys.exit(3)
    texts = room.query("select status, error from refresh_runs order by fence")
    assert texts[0] == ("failed", "ValueError: no luck")
    assert texts[1][0] == "failed"
    assert room.query("select 1 from effect") == []
    # Free means go, after a failure too.
    with cronlease.lease(NAME):
        pass


def test_an_async_block_that_lost_its_lease_is_cancelled_and_cannot_write(room: Room) -> None:
    seen: list[str] = []

    async def losing() -> None:
        async with cronlease.lease(NAME, lease="1s") as run:
            await asyncio.to_thread(room.take_over)
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                seen.append("cancelled")
                with pytest.raises(LeaseLost):
                    run.check()
                raise

    async def caller() -> None:
        with pytest.raises(LeaseLost, match="nothing was written"):
            await losing()
        # The cancellation was the block's: its caller goes on.
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(caller())
    assert seen == ["cancelled"]
    assert room.query("select status from refresh_runs order by fence") == [("abandoned",), ("running",)]


def is_lost(run: cronlease.Run) -> bool:
    try:
        run.check()
    except LeaseLost:
        return True
    return False


def test_a_plain_block_learns_it_from_check_and_cannot_write(room: Room) -> None:
    def losing() -> None:
        with cronlease.lease(NAME, lease="1s") as run:
            room.take_over()
            # Nothing can cancel a thread; the run is given up meanwhile, and the fence holds.
            wait_until(lambda: is_lost(run))
            with pytest.raises(LeaseLost), run.commit():
                raise AssertionError("never entered")

    with pytest.raises(LeaseLost):
        losing()
    assert room.query("select 1 from effect") == []


def test_a_block_that_takes_too_long_is_ended(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRONLEASE_MAX_RUN", "1s")

    async def slow() -> None:
        async with cronlease.lease(NAME), asyncio.timeout(20):
            await asyncio.Event().wait()

    with pytest.raises(TimeIsUp, match="longer than 1 s"):
        asyncio.run(slow())
    assert room.runs() == ["failed"]


def test_a_block_is_interrupted_when_the_process_drains(room: Room) -> None:
    async def draining() -> None:
        async with cronlease.lease(NAME):
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(process.drain(0)))
            await asyncio.sleep(30)

    with pytest.raises(TimeIsUp, match="interrupted"):
        asyncio.run(draining())
    assert room.runs() == ["interrupted"]


def test_a_caller_who_is_cancelled_leaves_no_lease_behind(room: Room) -> None:
    async def cancelled() -> None:
        entered = asyncio.Event()

        async def block() -> None:
            async with cronlease.lease(NAME):
                entered.set()
                await asyncio.sleep(30)

        task = asyncio.ensure_future(block())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert room.runs() == ["failed"]
    assert room.row("locked_by") == (None,)


def test_a_lease_has_a_cadence_as_a_decorator_has(room: Room) -> None:
    with cronlease.lease(NAME, cron="0 0 1 1 *", time_zone="Europe/Berlin", force=True):
        pass
    with (
        pytest.raises(cronlease.Skipped) as skipped,
        cronlease.lease(NAME, cron="0 0 1 1 *", time_zone="Europe/Berlin"),
    ):
        pass
    assert str(skipped.value) == f"{NAME} was skipped, not_due: pass force=True to run now"
    planned = skipped.value.outcome.next_run_at
    assert planned is not None
    assert (planned.astimezone(UTC).month, planned.astimezone(UTC).day, planned.astimezone(UTC).hour) == (12, 31, 23)
    with pytest.raises(ValueError, match="both given"):
        cronlease.lease(NAME, every="1h", cron="0 0 * * *")
    with pytest.raises(ValueError, match="for a cron"):
        cronlease.lease(NAME, time_zone="UTC")


@pytest.mark.parametrize("when", [{"every": "6h"}, {"every": "6h..7h"}, {"cron": "0 0 1 1 *"}])
def test_the_name_of_a_function_s_schedule_is_refused_and_its_plan_stands(room: Room, when: dict[str, Any]) -> None:
    room.enter(lambda run: None, **when)
    before = room.row("planned_from, next_run_at, fence")
    for force in (False, True):
        with (
            pytest.raises(ValueError, match=r"is the schedule of a function: choose another name$"),
            cronlease.lease(NAME, force=force),
        ):
            raise AssertionError("never entered")
    assert room.row("planned_from, next_run_at, fence") == before
    for _ in range(2):
        with cronlease.lease("own", **when, force=True):
            pass
        with cronlease.lease("own"):
            pass
    assert room.query("select planned_from from refresh_schedule where function_name = 'own'") == [("hit",)]


def test_run_due_leaves_a_lease_without_a_cadence_alone(room: Room) -> None:
    with cronlease.lease(NAME):
        pass
    assert room.query("select due, unknown from due_refreshes(array['other'])") == [(0, 0)]
    assert room.row("planned_from") == ("hit",)


def test_a_lease_is_entered_once(room: Room) -> None:
    held = cronlease.lease(NAME)
    with held:
        pass
    with pytest.raises(RuntimeError, match="entered once"), held:
        pass
    with pytest.raises(ValueError, match="needs a name"):
        cronlease.lease(" ")


def test_many_threads_ask_and_one_at_a_time_has_it(room: Room) -> None:
    inside, most, skipped = 0, 0, 0
    lock = threading.Lock()

    def contend() -> None:
        nonlocal inside, most, skipped
        try:
            with cronlease.lease(NAME):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.1)
                with lock:
                    inside -= 1
        except cronlease.Skipped:
            with lock:
                skipped += 1

    threads = [threading.Thread(target=contend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(room.runs()) + skipped == 6
