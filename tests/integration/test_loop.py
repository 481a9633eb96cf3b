"""The resident loop on a real database: what it runs, when it looks again, and that nothing ends it but stop."""

import asyncio
import os
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cronlease import Run
from cronlease.cli.database import EmbeddedDatabase
from cronlease.db.connection import Database
from cronlease.db.functions import Due
from cronlease.db.queries import Query
from cronlease.embedded.server import EmbeddedPostgres
from cronlease.job import Job
from cronlease.outcome import FailReason, Outcome, SkipReason, Status
from cronlease.settings import load
from cronlease.triggers.dispatch import Dispatcher, Taken
from cronlease.triggers.worker import Worker
from tests.integration.conftest import Room, Step, step, wait_until
from tests.proxy import proxied

QUICK = 15.0


class Watched(Worker):
    """Shows what each look of its loop and each of its runs came to."""

    def __init__(self, *given: Any, **how: Any) -> None:
        super().__init__(*given, **how, on_outcome=lambda outcome: self.steps.put_nowait(outcome))
        self.steps = asyncio.Queue[Outcome | None]()

    async def look(self) -> Taken:
        taken = await super().look()
        if not taken.runs:
            self.steps.put_nowait(taken.outcome)
        return taken

    async def until(self, condition: Callable[[Outcome | None], bool]) -> None:
        async with asyncio.timeout(QUICK):
            while not condition(await self.steps.get()):
                pass


@asynccontextmanager
async def worker_of(
    dsn: str,
    function: Callable[[Run], Any],
    *,
    kind: type[Watched] = Watched,
    concurrency: int = 1,
    lease: str = "5m",
) -> AsyncIterator[Watched]:
    """A worker whose one action is the function."""
    settings = load({"CRONLEASE_DISPATCH_PAUSE": "0s", "CRONLEASE_LEASE": lease})
    database = Database(dsn)
    jobs = {"act": Job.of(function, settings, name="act", has_row=False)}
    try:
        yield kind(jobs, database, settings, concurrency=concurrency)
    finally:
        await database.close()


@asynccontextmanager
async def working(dsn: str, function: Callable[[Run], Any], **how: Any) -> AsyncIterator[Watched]:
    """The same at work until the block ends."""
    async with worker_of(dsn, function, **how) as worker:
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await asyncio.wait_for(task, QUICK)


def schedule(room: Room, *names: str, delay: str = "0s") -> None:
    listed = "{" + ",".join(names) + "}"
    room.query(f"select schedule_action(n, 'act', p_delay => interval '{delay}') from unnest('{listed}'::text[]) n")


def runs(room: Room) -> list[tuple[str, str]]:
    return room.query("select function_name, status from refresh_runs order by started_at, function_name")


async def nothing(run: Run) -> None: ...


def test_the_first_step_is_taken_immediately_and_the_next_one_when_a_row_is_due(room: Room) -> None:
    schedule(room, "overdue")
    schedule(room, "soon", delay="0.5 s")

    async def main() -> None:
        ran = asyncio.Queue[str]()

        async def tell(run: Run) -> None:
            ran.put_nowait(run.function)

        async with working(room.dsn, tell):
            assert await asyncio.wait_for(ran.get(), QUICK) == "overdue"
            assert await asyncio.wait_for(ran.get(), QUICK) == "soon"

    asyncio.run(main())
    assert runs(room) == [("overdue", "success"), ("soon", "success")]
    assert room.query("select distinct trigger from refresh_runs") == [("worker",)]


def test_of_rows_that_may_kill_the_process_one_runs_at_a_time_beside_the_others(room: Room) -> None:
    doubted, healthy = ["a", "b", "c"], ["d", "e"]
    schedule(room, *doubted, *healthy)
    room.query(f"update refresh_schedule set abandoned = 2 where function_name = any ('{{{','.join(doubted)}}}')")

    async def main() -> None:
        under_way, together, ran, all_ran = set[str](), list[set[str]](), list[str](), asyncio.Event()

        async def act(run: Run) -> None:
            under_way.add(run.function)
            # A second one of them would begin meanwhile; the others are under way all the time.
            await (asyncio.sleep(0.05) if run.function in doubted else asyncio.wait_for(all_ran.wait(), QUICK))
            together.append(set(under_way))
            ran.append(run.function)
            under_way.discard(run.function)
            if len(ran) == len(doubted):
                all_ran.set()

        async with working(room.dsn, act, concurrency=8) as worker:
            for _ in range(5):
                await worker.until(lambda outcome: outcome is not None)
        assert sorted(ran[:3]) == doubted
        assert max(len(names.intersection(doubted)) for names in together) == 1

    asyncio.run(main())
    assert sorted(runs(room)) == [(name, "success") for name in doubted + healthy]


def test_a_row_that_was_locked_or_busy_is_taken_at_the_next_step(room: Room) -> None:
    schedule(room, "a")
    room.query("select acquire_refresh_lock('a', gen_random_uuid(), p_lease => '1 hour')")

    async def main() -> None:
        async with worker_of(room.dsn, nothing) as worker:
            locked = await step(worker)
            assert locked.outcome is None
            assert locked.due_in is not None
            assert timedelta(minutes=59) < locked.due_in <= timedelta(hours=1)
            room.query("select unlock_refresh('a')")
            with psycopg.connect(room.dsn) as busy:
                busy.execute("select from refresh_schedule for update")
                assert await step(worker) == Step(None, timedelta(0))
            taken = await step(worker)
            assert taken.outcome is not None
            assert taken.outcome.status is Status.SUCCESS

    asyncio.run(main())


def test_a_row_that_failed_is_taken_again_when_its_backoff_is_over(room: Room) -> None:
    schedule(room, "a")
    failing = True

    async def fail_first(run: Run) -> None:
        if failing:
            raise ValueError("not yet")

    async def main() -> None:
        nonlocal failing
        async with worker_of(room.dsn, fail_first) as worker:
            failed = await step(worker)
            assert failed.outcome is not None
            assert failed.outcome.failed is FailReason.FAILED
            backing_off = await step(worker)
            assert backing_off.outcome is None
            assert backing_off.due_in is not None
            assert backing_off.due_in > timedelta(minutes=19)
            room.query("update refresh_schedule set next_run_at = now()")
            failing = False
            again = await step(worker)
            assert again.outcome is not None
            assert again.outcome.status is Status.SUCCESS

    asyncio.run(main())
    assert runs(room) == [("a", "failed"), ("a", "success")]


def test_the_database_may_go_away_and_come_back(room: Room) -> None:
    schedule(room, "before")
    schedule(room, "after", delay="0.5 s")

    async def main() -> None:
        with proxied(room.dsn) as proxy:
            async with working(proxy.dsn, nothing) as worker:
                await worker.until(lambda outcome: outcome is not None and outcome.function == "before")
                proxy.refusing = True
                proxy.cut()
                await worker.until(
                    lambda outcome: outcome is not None and outcome.skipped is SkipReason.SCHEDULE_READ_ERROR
                )
                proxy.refusing = False
                await worker.until(lambda outcome: outcome is not None and outcome.function == "after")

    asyncio.run(main())
    assert runs(room) == [("before", "success"), ("after", "success")]


def test_an_exception_in_a_step_is_logged_and_the_loop_goes_on(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    schedule(room, "a")
    stumbled = False

    class Stumbling(Watched):
        async def look(self) -> Taken:
            nonlocal stumbled
            if not stumbled:
                stumbled = True
                raise RuntimeError("nobody thought of that")
            return await super().look()

    async def main() -> None:
        ran = asyncio.Event()

        async def tell(run: Run) -> None:
            ran.set()

        async with working(room.dsn, tell, kind=Stumbling):
            await asyncio.wait_for(ran.wait(), QUICK)

    asyncio.run(main())
    assert [getattr(record, "cronlease_fields", {}).get("action") for record in caplog.records][:1] == ["step_failed"]
    assert runs(room) == [("a", "success")]


def test_a_row_of_an_unknown_action_is_named_once(
    room: Room, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.query("select schedule_action(n, 'theirs') from unnest(array['a', 'b']) n")
    asked = 0
    still_due = Dispatcher._still_due

    async def counted(self: Dispatcher) -> Due | None:
        nonlocal asked
        asked += 1
        return await still_due(self)

    monkeypatch.setattr(Dispatcher, "_still_due", counted)

    async def main() -> None:
        async with worker_of(room.dsn, nothing) as worker:
            await step(worker)
            await step(worker)
            assert asked == 1, "it asks every 30 s"
            monkeypatch.setattr("cronlease.triggers.worker._NAME_EVERY", 0.0)
            worker._dispatcher._name_at = 0.0
            room.query("select schedule_action('c', 'theirs')")
            await step(worker)
            await step(worker)
            assert asked == 3

    asyncio.run(main())
    named = [record for record in caplog.records if "unknown_action" in str(vars(record).get("cronlease_fields"))]
    fields = [vars(record)["cronlease_fields"] for record in named]
    assert [(each["action"], each["function"]) for each in fields] == [("run_skipped", name) for name in "abc"]
    assert {record.levelname for record in named} == {"WARNING"}
    assert runs(room) == []


def test_two_rows_run_in_parallel_where_that_is_asked_for(room: Room) -> None:
    schedule(room, "a", "b")

    async def main() -> None:
        both = asyncio.Barrier(2)
        met = asyncio.Event()

        async def meet(run: Run) -> None:
            await both.wait()
            met.set()

        async with working(room.dsn, meet, concurrency=2):
            await asyncio.wait_for(met.wait(), QUICK)

    asyncio.run(main())
    assert sorted(runs(room)) == [("a", "success"), ("b", "success")]


def test_several_workers_share_the_rows_and_run_each_once(room: Room) -> None:
    names = [f"row-{number}" for number in range(60)]
    schedule(room, *names)

    async def main() -> Counter[str]:
        ran: Counter[str] = Counter()
        done = asyncio.Event()

        async def count(run: Run) -> None:
            ran[run.function] += 1
            if len(ran) == len(names):
                done.set()

        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(working(room.dsn, count, concurrency=2))
            await asyncio.wait_for(done.wait(), QUICK)
        return ran

    assert asyncio.run(main()) == Counter(names)
    assert sorted(runs(room)) == sorted((name, "success") for name in names)


def test_stop_lets_a_run_finish_and_starts_no_other(room: Room) -> None:
    schedule(room, "a", "b")

    async def main() -> None:
        began, may_end = asyncio.Event(), asyncio.Event()

        async def linger(run: Run) -> None:
            began.set()
            await may_end.wait()

        async with worker_of(room.dsn, linger) as worker:
            task = asyncio.create_task(worker.run())
            await asyncio.wait_for(began.wait(), QUICK)
            telling = threading.Thread(target=worker.stop)
            telling.start()
            telling.join()
            assert not task.done()
            may_end.set()
            await asyncio.wait_for(task, QUICK)

    asyncio.run(main())
    assert runs(room) == [("a", "success")]


def test_a_sleeping_worker_stops_immediately_and_one_stopped_before_it_began_does_nothing(room: Room) -> None:
    async def main() -> None:
        async with working(room.dsn, nothing) as worker:
            await worker.until(lambda outcome: outcome is None)
        schedule(room, "a")
        await asyncio.wait_for(worker.run(), QUICK)

    asyncio.run(main())
    assert runs(room) == []


@pytest.mark.thorough
def test_the_embedded_server_is_started_again_when_whoever_had_started_it_has_ended() -> None:
    with tempfile.TemporaryDirectory(prefix="cronlease-test-") as base:
        Path(base).chmod(0o755)
        place = Path(base) / "postgres"
        first = EmbeddedPostgres.start(place, fsync=False)
        asks = Query[int]("select pg_backend_pid()", {}, lambda row: int(row[0]))

        async def main() -> None:
            database = EmbeddedDatabase(place, first.dsn)
            before = await database.ask(asks)
            assert await database.ask(asks) == before
            first.stop()
            assert await database.ask(asks) != before
            await database.close()

        asyncio.run(main())
        second = EmbeddedPostgres.start(place)
        assert (second.owned, second.pid != first.pid) == (False, True)
        os.kill(second.pid, signal.SIGINT)
        wait_until(lambda: not second.running)
