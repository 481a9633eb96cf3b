"""A task that a job starts can end its run at most: neither the process nor the other runs in it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.faults.profile import one_in
from tests.integration.conftest import Room
from tests.integration.test_loop import QUICK, schedule, working


async def gathers(exits: Callable[[], Any]) -> None:
    await asyncio.gather(exits(), asyncio.sleep(0.01))


async def groups(exits: Callable[[], Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(exits(), name="mine")


async def awaits(exits: Callable[[], Any]) -> None:
    await asyncio.create_task(exits())


async def nests(exits: Callable[[], Any]) -> None:
    await asyncio.create_task(gathers(exits))


async def exits_when_cancelled(exits: Callable[[], Any]) -> None:
    async def sleeps() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await exits()

    task = asyncio.create_task(sleeps())
    await asyncio.sleep(0)
    task.cancel()
    await task


WAYS = (gathers, groups, awaits, nests, exits_when_cancelled)


async def beside_another(room: Room, job: Callable[[Run], Any]) -> list[Outcome]:
    async def slow(run: Run) -> None:
        await asyncio.sleep(0.2)

    database, settings = Database(room.dsn), load({})
    jobs = {"tick": job, "slow": slow}
    outcomes = await asyncio.gather(
        *(run_once(Job.of(job, settings, name=name), Hit(), database, settings) for name, job in jobs.items())
    )
    await database.close()
    return outcomes


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", one_in(2, [SystemExit, KeyboardInterrupt]))
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_task_of_a_job_cannot_end_the_process(
    room: Room, way: Callable[..., Any], error: type[BaseException], new_loop: Any
) -> None:
    async def exits() -> None:
        raise error

    async def job(run: Run) -> None:
        await way(exits)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        ended, other = runner.run(beside_another(room, job))
    assert (ended.failed, other.status) == (FailReason.FAILED, Status.SUCCESS)
    assert room.row("last_status, locked_by, failures") == ("failed", None, 1)


def test_tasks_of_a_job_behave_as_ever(room: Room) -> None:
    """Results, names, cancellation before the first step, and the factory that was there before."""
    made: list[Any] = []

    def factory(loop: Any, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coro)
        return asyncio.Task(coro, loop=loop, **options)

    async def one() -> int:
        return 1

    async def job(run: Run) -> None:
        task = asyncio.create_task(one(), name="mine")
        assert (task.get_name(), await task) == ("mine", 1)
        assert "one" in repr(task)
        early = asyncio.create_task(one())
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        # Among others: the run beside this one makes tasks on the same loop.
        assert early.get_coro() in made

    async def main() -> list[Outcome]:
        asyncio.get_running_loop().set_task_factory(factory)
        return await beside_another(room, job)

    outcome, other = asyncio.run(main())
    assert outcome.status is Status.SUCCESS, outcome.error
    assert other.status is Status.SUCCESS


def test_what_is_no_task_of_a_job_is_left_as_it_is(room: Room) -> None:
    async def nothing(run: Run) -> None: ...

    async def exits() -> None:
        raise SystemExit(7)

    async def main() -> None:
        await beside_another(room, nothing)
        await asyncio.create_task(exits())

    with pytest.raises(SystemExit):
        asyncio.run(main())


def test_a_worker_goes_on_after_a_task_that_exits(room: Room) -> None:
    schedule(room, "a", "b")

    async def exits() -> None:
        raise SystemExit(3)

    async def job(run: Run) -> None:
        if run.function == "a":
            await asyncio.gather(exits())
        await asyncio.sleep(0.2)

    async def main() -> None:
        ended: set[str] = set()

        def both(outcome: Outcome | None) -> bool:
            if outcome is not None:
                ended.add(f"{outcome.function} {outcome.status}")
            return len(ended) == 2

        async with working(room.dsn, job, concurrency=2) as worker:
            await asyncio.wait_for(worker.until(both), QUICK)
        assert ended == {"a failed", "b success"}

    asyncio.run(main())
