import asyncio
import logging
import threading
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from freezegun import freeze_time

from cronlease import LeaseLost, Run
from cronlease.db.connection import Database
from cronlease.db.functions import ensure_schedule
from cronlease.outcome import FailReason, SkipReason, Status
from tests.integration.conftest import Room


async def nothing(run: Run) -> None:
    run.report(fetched=0)


def never(run: Run) -> None:
    raise AssertionError("the job must not be touched")


def test_the_first_hit_runs_and_the_second_is_not_due(room: Room) -> None:
    first = room.enter(nothing)
    assert (first.status, first.failed, first.skipped) == (Status.SUCCESS, None, None)
    second = room.enter(never)
    assert second.skipped is SkipReason.NOT_DUE
    assert second.next_run_at == first.next_run_at == room.row("next_run_at")[0]
    assert room.runs() == ["success"]


def test_a_success_moves_the_next_run_into_the_band(room: Room) -> None:
    before = datetime.now(UTC)
    outcome = room.enter(nothing, every="10m..15m")
    assert outcome.next_run_at is not None
    ahead = outcome.next_run_at - before
    assert timedelta(minutes=10) <= ahead <= timedelta(minutes=15, seconds=10)


def test_the_rows_own_band_overrides_the_environment(room: Room) -> None:
    room.enter(nothing)
    room.query("update refresh_schedule set every = '2d..3d'")
    outcome = room.enter(nothing, force=True, every="10m..15m")
    assert outcome.next_run_at is not None
    assert outcome.next_run_at > datetime.now(UTC) + timedelta(days=1, hours=23)


def test_a_failure_costs_backoff_and_keeps_its_error(room: Room) -> None:
    async def fail(run: Run) -> None:
        raise ValueError("the feed is a lie")

    before = datetime.now(UTC)
    outcome = room.enter(fail)
    assert (outcome.status, outcome.failed, outcome.http_status) == (Status.FAILED, FailReason.FAILED, 500)
    assert outcome.error == "ValueError: the feed is a lie"
    assert outcome.next_run_at is not None
    assert timedelta(minutes=20) <= outcome.next_run_at - before <= timedelta(minutes=40, seconds=10)
    status, error, failures, holder = room.row("last_status, last_error, failures, locked_by")
    assert (status, error, failures, holder) == ("failed", "ValueError: the feed is a lie", 1, None)
    assert room.enter(fail, force=True).failed is FailReason.FAILED
    assert room.row("failures")[0] == 2
    assert room.enter(nothing, force=True).status is Status.SUCCESS
    assert room.row("failures, last_error") == (0, None)


def test_growth_multiplies_the_backoff_of_repeated_failures(room: Room) -> None:
    def fail(run: Run) -> None:
        raise ValueError

    growing = {"backoff": "10m", "backoff_growth": "3", "backoff_cap": "1h"}
    for minutes in (10, 30, 60, 60):
        before = datetime.now(UTC)
        outcome = room.enter(fail, force=True, **growing)
        assert outcome.next_run_at is not None
        assert abs(outcome.next_run_at - before - timedelta(minutes=minutes)) < timedelta(seconds=20)


def test_data_and_schedule_commit_together(room: Room) -> None:
    room.query("create table effect (n int)")

    async def job(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("insert into effect values (1)")
            run.report(fetched=1, inserted=1)
            assert room.query("select * from effect") == []
        run.report(hint="done")

    outcome = room.enter(job)
    assert outcome.status is Status.SUCCESS
    assert (outcome.counts.fetched, outcome.counts.inserted, outcome.hint) == (1, 1, "done")
    assert room.query("select * from effect") == [(1,)]
    assert room.query("select fetched, inserted, status from refresh_runs") == [(1, 1, "success")]


def test_a_plain_job_commits_with_a_plain_connection(room: Room) -> None:
    room.query("create table effect (n int)")

    def job(run: Run) -> None:
        assert threading.current_thread() is not threading.main_thread()
        run.check()
        with run.transaction() as conn:
            conn.execute("insert into effect values (1)")
        with run.commit() as conn:
            conn.execute("insert into effect values (2)")
        run.report(inserted=2)

    assert room.enter(job).status is Status.SUCCESS
    assert room.query("select * from effect") == [(1,), (2,)]


def test_an_error_inside_commit_rolls_everything_back(room: Room) -> None:
    room.query("create table effect (n int)")

    async def job(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("insert into effect values (1)")
            await conn.execute("insert into nowhere values (1)")

    outcome = room.enter(job)
    assert outcome.failed is FailReason.FAILED
    assert outcome.error is not None
    assert "nowhere" in outcome.error
    assert room.query("select * from effect") == []
    assert room.row("last_status, locked_by") == ("failed", None)


def test_a_swallowed_error_inside_commit_is_still_a_failure(room: Room) -> None:
    async def job(run: Run) -> None:
        try:
            async with run.commit():
                raise ValueError("hidden")
        except ValueError:
            pass

    outcome = room.enter(job)
    assert outcome.failed is FailReason.FAILED
    assert room.runs() == ["failed"]


def test_commit_is_entered_at_most_once(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.commit():
            pass
        with pytest.raises(RuntimeError, match="at most once"):
            run.commit()

    assert room.enter(job).status is Status.SUCCESS


def test_a_job_that_takes_all_connections_it_can_get_leaves_some_for_hits(room: Room) -> None:
    async def greedy() -> None:
        database = Database(room.dsn)
        async with AsyncExitStack() as stack:
            for _ in range(6):
                await stack.enter_async_context(database.lent())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stack.enter_async_context(database.lent()), 0.1)
            assert await asyncio.gather(*(database.ask(ensure_schedule(name)) for name in "ab")) == ["created"] * 2
        await database.close()

    asyncio.run(greedy())


def test_fenced_blocks_do_not_nest_and_say_so_immediately(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.commit(), run.transaction():
            pass

    outcome = room.enter(job)
    assert outcome.error is not None
    assert "do not nest" in outcome.error


def test_each_piece_of_a_long_job_is_committed_and_renews_the_lease(room: Room) -> None:
    room.query("create table effect (n int)")
    leases: list[Any] = []

    async def job(run: Run) -> None:
        for n in range(3):
            async with run.transaction() as conn:
                await conn.execute("insert into effect values (%s)", [n])
            leases.append(room.row("locked_until")[0])
        assert len(room.query("select * from effect")) == 3
        raise ValueError("too bad, but the pieces stay")

    assert room.enter(job).failed is FailReason.FAILED
    assert leases == sorted(set(leases))
    assert len(room.query("select * from effect")) == 3


def test_an_error_after_the_commit_does_not_undo_the_run(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    async def job(run: Run) -> None:
        async with run.commit():
            pass
        raise ValueError("late")

    assert room.enter(job).status is Status.SUCCESS
    assert room.runs() == ["success"]
    assert "failed after its run was committed" in caplog.text


def test_a_run_that_was_replaced_cannot_write(room: Room) -> None:
    room.query("create table effect (n int)")

    async def job(run: Run) -> None:
        room.take_over()
        async with run.commit() as conn:
            await conn.execute("insert into effect values (1)")

    room.enter(nothing)
    moved = room.row("next_run_at")[0]
    room.query("update refresh_schedule set next_run_at = null")
    outcome = room.enter(job)
    assert (outcome.failed, outcome.http_status) == (FailReason.LEASE_LOST, 409)
    assert room.query("select * from effect") == []
    assert room.runs() == ["success", "abandoned", "running"]
    assert room.row("next_run_at")[0] is None
    assert moved is not None


def test_a_replaced_run_that_never_touches_the_database_ends_as_lease_lost_too(room: Room) -> None:
    async def job(run: Run) -> None:
        room.take_over()

    assert room.enter(job).failed is FailReason.LEASE_LOST
    assert room.runs() == ["abandoned", "running"]


def test_late_but_not_replaced_may_commit(room: Room) -> None:
    async def job(run: Run) -> None:
        room.query("update refresh_schedule set locked_until = clock_timestamp() - interval '1 h'")
        async with run.commit():
            pass

    assert room.enter(job).status is Status.SUCCESS


def test_hits_answer_locked_while_the_data_transaction_is_open(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.commit():
            # Even with an expired lease: the row lock is the exclusion now.
            answers = await asyncio.gather(*(room.hit(never, force=True) for _ in range(10)))
            assert {answer.skipped for answer in answers} == {SkipReason.LOCKED}

    assert room.enter(job).status is Status.SUCCESS


@pytest.mark.parametrize(
    ("column", "reason"), [("paused_at", SkipReason.PAUSED), ("completed_at", SkipReason.COMPLETED)]
)
def test_force_never_passes_paused_or_completed(room: Room, column: str, reason: SkipReason) -> None:
    room.enter(nothing)
    room.query(f"update refresh_schedule set once = true, {column} = clock_timestamp()")
    assert room.enter(never, force=True).skipped is reason


def test_every_skip_logs_one_line(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "cronlease")
    room.enter(nothing)
    lines: dict[str, tuple[int, Any]] = {}

    def skip(**kwargs: Any) -> None:
        caplog.clear()
        outcome = room.enter(never, **kwargs)
        (record,) = caplog.records
        assert outcome.skipped is not None
        fields = record.cronlease_fields  # type: ignore[attr-defined]
        assert fields["action"] == "run_skipped"
        lines[outcome.skipped.value] = (record.levelno, fields)

    skip()
    room.query("update refresh_schedule set paused_at = clock_timestamp()")
    skip()
    room.query("update refresh_schedule set paused_at = null, every = 'sometimes', next_run_at = null")
    skip()
    room.query(
        "update refresh_schedule set locked_by = 'somebody', locked_until = clock_timestamp() + interval '1 h'"
    )
    skip()
    assert {reason: level for reason, (level, _) in lines.items()} == {
        "not_due": logging.DEBUG,
        "paused": logging.WARNING,
        "schedule_read_error": logging.ERROR,
        "locked": logging.INFO,
    }
    assert lines["locked"][1]["locked_by"] == "somebody"
    assert lines["locked"][1]["locked_until"] is not None


def test_a_partial_run_is_ok_and_says_what_was_left_out(room: Room) -> None:
    async def job(run: Run) -> None:
        run.partial("source acme: 404")
        async with run.commit():
            pass

    outcome = room.enter(job)
    assert (outcome.status, outcome.http_status, outcome.as_json()["ok"]) == (Status.PARTIAL, 200, True)
    assert outcome.as_json()["error"] == "source acme: 404"
    assert room.row("last_status, last_error, failures") == ("partial", "source acme: 404", 0)


def test_the_arguments_of_a_hit_override_those_of_the_row_for_that_run(room: Room) -> None:
    from cronlease.db.connection import Database
    from cronlease.job import Hit, Job
    from cronlease.run.execution import run_once
    from cronlease.settings import load

    room.enter(nothing)
    room.query("""update refresh_schedule set args = '{"a": 1, "b": 1}', next_run_at = null""")
    seen: list[dict[str, Any]] = []

    async def job(run: Run) -> None:
        seen.append(run.args)

    async def hit() -> None:
        database = Database(room.dsn)
        settings = load({})
        await run_once(Job.of(job, settings, name="tick"), Hit(args={"b": 2}), database, settings)
        await database.close()

    asyncio.run(hit())
    assert seen == [{"a": 1, "b": 2}]
    assert room.row("args")[0] == {"a": 1, "b": 1}


def test_lease_lost_is_a_public_name_a_job_can_catch(room: Room) -> None:
    caught = []

    async def job(run: Run) -> None:
        room.take_over()
        try:
            async with run.commit():
                raise AssertionError("the fence must come first")
        except LeaseLost as lost:
            caught.append(lost)
            raise

    assert room.enter(job).failed is FailReason.LEASE_LOST
    assert len(caught) == 1


def test_a_job_may_use_a_nested_transaction(room: Room) -> None:
    room.query("create table effect (n int primary key)")

    async def job(run: Run) -> None:
        async with run.commit() as conn:
            await conn.execute("insert into effect values (1)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                async with conn.transaction():
                    await conn.execute("insert into effect values (1)")

    assert room.enter(job).status is Status.SUCCESS
    assert room.query("select * from effect") == [(1,)]


@pytest.mark.parametrize("caller_believes", ["1999-12-31", "2099-01-01"])
def test_only_the_databases_clock_decides(room: Room, caller_believes: str) -> None:
    with freeze_time(caller_believes, ignore=["psycopg", "psycopg_pool"], real_asyncio=True):
        first, second = room.enter(nothing), room.enter(never)
    assert first.status is Status.SUCCESS
    assert first.next_run_at is not None
    assert timedelta(minutes=9) < first.next_run_at - datetime.now(UTC) <= timedelta(minutes=15)
    assert second.skipped is SkipReason.NOT_DUE
    room.query("update refresh_schedule set next_run_at = clock_timestamp() - interval '1 s'")
    with freeze_time(caller_believes, ignore=["psycopg", "psycopg_pool"], real_asyncio=True):
        assert room.enter(nothing).status is Status.SUCCESS
