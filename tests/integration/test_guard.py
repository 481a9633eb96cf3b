"""The connection of a fenced block: psycopg's own in every use, except that the block alone ends its transaction."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from cronlease import Run
from cronlease.db.connection import Database
from cronlease.job import Hit, Job
from cronlease.outcome import FailReason, Outcome, Status
from cronlease.run.execution import run_once
from cronlease.settings import load
from tests.faults.profile import one_in
from tests.integration.conftest import Room
from tests.proxy import proxied


@pytest.fixture(autouse=True)
def _table(room: Room) -> None:
    room.query("create table effect (n int)")


def effects(room: Room) -> list[int]:
    return [n for (n,) in room.query("select n from effect order by n")]


def plain(room: Room, does: Callable[[Any], None], *, block: str = "commit") -> Outcome:
    def job(run: Run) -> None:
        with getattr(run, block)() as conn:
            does(conn)

    return room.enter(job, force=True)


def on_loop(room: Room, does: Callable[[Any], Any], *, block: str = "commit") -> Outcome:
    async def job(run: Run) -> None:
        async with getattr(run, block)() as conn:
            await does(conn)

    return room.enter(job, force=True)


def test_a_plain_connection_does_all_that_psycopg_does(room: Room) -> None:
    def does(conn: Any) -> None:
        assert isinstance(conn, psycopg.Connection)
        assert not conn.autocommit
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        with conn.cursor(row_factory=dict_row) as cursor:
            assert isinstance(cursor, psycopg.Cursor)
            cursor.executemany("insert into effect values (%s)", [(1,), (2,)])
            assert cursor.execute("select n from effect order by n").fetchone() == {"n": 1}
            assert [row["n"] for row in cursor.stream("select n from effect order by n")] == [1, 2]
            with cursor.copy("copy effect from stdin") as copy:
                copy.write_row((3,))
        with conn.cursor("named") as cursor:
            assert cursor.execute("select n from effect order by n").fetchall() == [(1,), (2,), (3,)]
        with conn.pipeline():
            conn.execute("insert into effect values (4)")
            with conn.transaction():
                conn.execute(sql.SQL("insert into {} values (5)").format(sql.Identifier("effect")))
        conn.cursor_factory = psycopg.ClientCursor
        cursor = conn.execute(b"insert into effect values (%s); select 'commit'", [6])
        assert isinstance(cursor, psycopg.ClientCursor)
        conn.row_factory = dict_row
        assert conn.execute("select 1 as one").fetchone() == {"one": 1}
        conn.execute("notify somebody")
        psycopg.types.TypeInfo.fetch(conn, "int4")

    assert plain(room, does).status is Status.SUCCESS
    assert effects(room) == [1, 2, 3, 4, 5, 6]


def test_an_async_connection_does_all_that_psycopg_does(room: Room) -> None:
    async def does(conn: Any) -> None:
        assert isinstance(conn, psycopg.AsyncConnection)
        async with conn.cursor(row_factory=dict_row) as cursor:
            await cursor.executemany("insert into effect values (%s)", [(1,), (2,)])
            assert [row["n"] async for row in cursor.stream("select n from effect order by n")] == [1, 2]
            async with cursor.copy("copy effect from stdin") as copy:
                await copy.write_row((3,))
        async with conn.cursor("named") as cursor:
            await cursor.execute("select n from effect order by n")
            assert [row async for row in cursor] == [(1,), (2,), (3,)]
        async with conn.pipeline():
            await conn.execute("insert into effect values (4)")
            async with conn.transaction():
                await conn.execute("insert into effect values (5)")
        conn.row_factory, conn.cursor_factory = dict_row, psycopg.AsyncClientCursor
        assert await (await conn.execute("select 1 as one")).fetchone() == {"one": 1}

    assert on_loop(room, does).status is Status.SUCCESS
    assert effects(room) == [1, 2, 3, 4, 5]


def rolls_back(transaction: Any) -> None:
    raise psycopg.Rollback(transaction)


def test_savepoints_undo_a_part_of_a_block(room: Room) -> None:
    def does(conn: Any) -> None:
        conn.execute("insert into effect values (1)")
        with pytest.raises(psycopg.errors.UndefinedTable), conn.transaction():
            conn.execute("insert into nowhere values (1)")
        with conn.transaction(force_rollback=True):
            conn.execute("insert into effect values (2)")
        with conn.transaction("mine") as mine, conn.transaction():
            conn.execute("insert into effect values (3)")
            rolls_back(mine)
        conn.execute("savepoint a; insert into effect values (4); rollback to a; release a")
        with conn.transaction():
            conn.execute("insert into effect values (5)")

    assert plain(room, does).status is Status.SUCCESS
    assert effects(room) == [1, 5]


def test_what_a_job_sets_on_its_connection_does_not_reach_the_next(room: Room) -> None:
    async def job(run: Run) -> None:
        for lend in (run.connection, run.transaction):
            async with lend() as lent:
                conn: psycopg.AsyncConnection[Any] = lent
                assert conn.row_factory is not dict_row
                conn.row_factory, conn.cursor_factory = dict_row, psycopg.AsyncClientCursor
                assert await (await conn.execute("select 1 as one")).fetchone() == {"one": 1}

    assert room.enter(job).status is Status.SUCCESS


def test_the_connection_of_a_block_that_was_left_is_of_no_use(room: Room) -> None:
    """In the pool it may be in another run's block by then."""

    async def job(run: Run) -> None:
        async with run.transaction() as old:
            cursor = old.cursor()
        async with run.commit():
            for use in (old.execute, cursor.execute):
                with pytest.raises(psycopg.ProgrammingError, match="was left"):
                    await use("insert into effect values (1)")
            with pytest.raises(psycopg.ProgrammingError, match="was left"):
                await old.commit()
            await old.close()

    assert room.enter(job).status is Status.SUCCESS
    assert effects(room) == []


@pytest.mark.parametrize("kind", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
def test_a_cursor_that_the_job_makes_itself_is_watched_too(room: Room, kind: Any) -> None:
    def does(conn: Any) -> None:
        with pytest.raises(psycopg.ProgrammingError, match="`commit` is refused"):
            kind(conn).execute("select 1; commit")
        kind(conn).execute("insert into effect values (1)")

    assert plain(room, does).status is Status.SUCCESS
    assert effects(room) == [1]


def test_a_block_in_a_block_of_the_connection_itself_is_refused(room: Room) -> None:
    """`with conn:` commits and closes."""

    def does(conn: Any) -> None:
        with conn:
            conn.execute("insert into effect values (1)")

    outcome = plain(room, does)
    assert outcome.failed is FailReason.FAILED
    assert "run.commit()" in str(outcome.error)
    assert effects(room) == []


def test_postgres_itself_refuses_a_commit_in_a_procedure_or_a_do_block(room: Room) -> None:
    room.query("create procedure ends() language plpgsql as $$ begin commit; end $$")

    def does(conn: Any) -> None:
        for text in ("call ends()", "do $$ begin commit; end $$", "do $$ begin rollback; end $$"):
            with pytest.raises(psycopg.errors.InvalidTransactionTermination), conn.transaction():
                conn.execute(text)
        conn.execute("insert into effect values (1)")

    assert plain(room, does).status is Status.SUCCESS
    assert effects(room) == [1]


def test_a_commit_that_was_prepared_outside_of_the_block_is_refused_in_it(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.connection() as conn:
            await conn.execute("begin")
            await conn.execute("commit", prepare=True)
        async with run.commit() as conn:
            with pytest.raises(psycopg.ProgrammingError, match="`commit` is refused"):
                await conn.execute("commit")

    assert room.enter(job).status is Status.SUCCESS


@pytest.mark.parametrize("block", ["commit", "transaction"])
@pytest.mark.parametrize("texts", [["commit"], ["commit", "begin"], ["commit; begin"], ["rollback; begin"]])
@pytest.mark.parametrize("run_it", [plain, on_loop])
def test_a_block_left_outside_its_transaction_fails_the_run(
    room: Room, block: str, texts: list[str], run_it: Any
) -> None:
    def ends(conn: Any) -> None:
        conn.pgconn.exec_(b"insert into effect values (1)")
        for text in texts:
            conn.pgconn.exec_(text.encode())
        conn.pgconn.exec_(b"insert into effect values (2)")

    async def ends_too(conn: Any) -> None:
        ends(conn)

    outcome = run_it(room, ends if run_it is plain else ends_too, block=block)
    assert outcome.failed is FailReason.FAILED
    assert f"run.{block}() was left outside the transaction" in str(outcome.error)
    stands = "what the job committed by itself stands"
    assert (stands if "commit" in texts[0] else "the transaction of the block was rolled back") in str(outcome.error)
    assert (stands in str(outcome.error)) is ("commit" in texts[0])
    assert effects(room) == ([1, 2] if texts == ["commit"] else [1] if "commit" in texts[0] else [])
    assert room.row("last_status, locked_by") == ("failed", None)


def test_a_connection_says_immediately_that_its_transaction_is_over(room: Room) -> None:
    def does(conn: Any) -> None:
        conn.pgconn.exec_(b"commit")
        with pytest.raises(psycopg.ProgrammingError, match="was ended by something else"), conn.transaction():
            pass
        conn.execute("insert into effect values (1)")

    outcome = plain(room, does)
    assert "was ended by something other than the block" in str(outcome.error)
    assert effects(room) == []


@pytest.mark.parametrize("error", [None, ValueError("no luck")])
def test_a_lost_lease_never_hides_what_the_job_committed_itself(room: Room, error: Exception | None) -> None:
    def does(conn: Any) -> None:
        conn.pgconn.exec_(b"insert into effect values (1); commit; begin")
        room.take_over()
        conn.pgconn.exec_(b"insert into effect values (2)")
        if error is not None:
            raise error

    outcome = plain(room, does)
    assert outcome.failed is FailReason.LEASE_LOST
    assert "what the job committed by itself, outside of its blocks, stands" in str(outcome.error)
    assert effects(room) == [1]


def test_a_piece_whose_renewal_is_refused_is_not_committed(room: Room) -> None:
    """It was ended and begun again on the raw connection, and somebody else has the lease."""

    def does(conn: Any) -> None:
        conn.pgconn.exec_(b"commit; begin")
        room.take_over()
        conn.pgconn.exec_(b"insert into effect values (1)")

    assert plain(room, does, block="transaction").failed is FailReason.LEASE_LOST
    assert effects(room) == []


def test_a_lost_lease_says_that_earlier_pieces_stand(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.transaction() as conn:
            await conn.execute("insert into effect values (1)")
        room.take_over()
        async with run.commit() as conn:
            await conn.execute("insert into effect values (2)")

    outcome = room.enter(job)
    assert outcome.failed is FailReason.LEASE_LOST
    assert "what it had committed in run.transaction() stands" in str(outcome.error)
    assert effects(room) == [1]


def test_a_piece_whose_commit_is_not_confirmed_is_not_said_to_be_undone(room: Room) -> None:
    room.query("select ensure_schedule('tick')")
    with proxied(room.dsn) as proxy:

        def job(run: Run) -> None:
            with run.transaction() as conn:
                conn.execute("insert into effect values (1)")
                proxy.lose(b"commit", "reply")

        outcome = Room(proxy.dsn).enter(job)
    assert outcome.failed is FailReason.FAILED
    assert "that piece may or may not be written" in str(outcome.error)
    assert effects(room) == [1]


def test_a_lost_lease_does_not_answer_for_writes_that_were_not_fenced(room: Room) -> None:
    async def job(run: Run) -> None:
        async with run.connection() as conn:
            await conn.execute("insert into effect values (1)")
        room.take_over()

    outcome = room.enter(job)
    assert outcome.failed is FailReason.LEASE_LOST
    assert str(outcome.error).endswith("nothing was written in its blocks"), outcome.error
    assert "nothing" in str(outcome.error)
    assert effects(room) == [1]


def test_a_plain_job_has_a_connection_too(room: Room) -> None:
    def job(run: Run) -> None:
        with run.connection() as conn:
            assert isinstance(conn, psycopg.Connection)
            conn.execute("insert into effect values (1)")
            assert effects(room) == [1]
            with run.commit() as fenced:
                fenced.execute("insert into effect values (2)")
            conn.close()
            conn.close()

    assert room.enter(job).status is Status.SUCCESS
    assert effects(room) == [1, 2]


def test_jobs_never_get_the_connections_that_hits_and_ends_need(room: Room) -> None:
    """Twelve runs that hold a block each: six are in it, hits are answered, and every run ends."""
    inside, most = 0, 0
    entered = asyncio.Event()

    async def job(run: Run) -> None:
        nonlocal inside, most
        async with run.commit() as conn:
            inside += 1
            most = max(most, inside)
            if inside == 6:
                entered.set()
            await conn.execute("select pg_sleep(0.1)")
            inside -= 1
        raise ValueError("late")

    async def hits() -> list[Status | None]:
        database, settings = Database(room.dsn), load({})
        jobs = [Job.of(job, settings, name=f"job {number}") for number in range(12)]
        runs = [asyncio.ensure_future(run_once(each, Hit(), database, settings)) for each in jobs]
        await asyncio.wait_for(entered.wait(), 10)
        async with asyncio.timeout(0.5):
            await run_once(jobs[0], Hit(), database, settings)
        statuses = [outcome.status for outcome in await asyncio.gather(*runs)]
        await database.close()
        return statuses

    assert asyncio.run(hits()) == [Status.SUCCESS] * 12
    assert most == 6


def test_the_end_of_a_run_waits_for_neither_jobs_nor_hits(room: Room) -> None:
    async def fail(run: Run) -> None:
        taken.set()
        await full.wait()
        raise ValueError("no luck")

    async def hits() -> Outcome:
        database, settings = Database(room.dsn), load({"CRONLEASE_ACQUIRE_TIMEOUT": "2s"})
        running = asyncio.ensure_future(run_once(Job.of(fail, settings, name="tick"), Hit(), database, settings))
        await taken.wait()
        async with AsyncExitStack() as stack:
            for take in [database.lent] * 4 + [database.connection] * 3:
                await stack.enter_async_context(take())
            full.set()
            outcome = await asyncio.wait_for(running, 20)
        await database.close()
        return outcome

    taken, full = asyncio.Event(), asyncio.Event()
    assert asyncio.run(hits()).next_run_at is not None
    assert room.row("last_status, locked_by") == ("failed", None)


def test_a_job_that_holds_a_connection_waits_for_another_only_so_long(room: Room) -> None:
    """Six runs, each in its block, each asking for one more: nobody could ever go on."""
    entered = 0

    async def job(run: Run) -> None:
        nonlocal entered
        async with run.commit():
            entered += 1
            while entered < 6:
                await asyncio.sleep(0.01)
            async with run.connection():
                pass

    async def hits() -> list[Outcome]:
        database, settings = Database(room.dsn), load({"CRONLEASE_ACQUIRE_TIMEOUT": "1s"})
        jobs = [Job.of(job, settings, name=f"job {number}") for number in range(6)]
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*(run_once(each, Hit(), database, settings) for each in jobs))
        await database.close()
        return outcomes

    outcomes = asyncio.run(hits())
    failed = [outcome.error for outcome in outcomes if outcome.status is Status.FAILED]
    assert failed
    assert all("leave its block before entering the next" in str(error) for error in failed)


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    "error", one_in(2, [SystemExit(0), KeyboardInterrupt(), Exits(), StopIteration(), GeneratorExit()])
)
@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_cannot_end_the_process(room: Room, error: BaseException, is_async: bool) -> None:
    def exits(run: Run) -> None:
        raise error

    async def exits_on_loop(run: Run) -> None:
        raise error

    async def slow(run: Run) -> None:
        await asyncio.sleep(0.3)

    async def hits() -> list[Outcome]:
        database, settings = Database(room.dsn), load({})
        jobs = {"tick": exits_on_loop if is_async else exits, "slow": slow}
        outcomes = await asyncio.gather(
            *(run_once(Job.of(job, settings, name=name), Hit(), database, settings) for name, job in jobs.items())
        )
        await database.close()
        return outcomes

    ended, other = asyncio.run(hits())
    assert (ended.failed, other.status) == (FailReason.FAILED, Status.SUCCESS)
    assert room.row("last_status, locked_by, failures") == ("failed", None, 1)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_that_cannot_be_supervised_does_not_run(room: Room, is_async: bool) -> None:
    ran: list[Run] = []

    async def job_on_loop(run: Run) -> None:
        ran.append(run)

    async def nothing(run: Run) -> None:
        pass

    async def hits() -> Outcome:
        import threading

        database, settings = Database(room.dsn), load({})
        await run_once(Job.of(nothing, settings, name="tick"), Hit(), database, settings)
        await database.close()
        # Another one: the heartbeat of the first run is still there, and could supervise a second.
        database = Database(room.dsn)
        job = Job.of(job_on_loop if is_async else ran.append, settings, name="tick")
        # More than there is to be had: no thread can be started any more.
        before = threading.stack_size(2**62)
        try:
            return await run_once(job, Hit(force=True), database, settings)
        finally:
            threading.stack_size(before)
            await database.close()

    outcome = asyncio.run(hits())
    assert outcome.failed is FailReason.FAILED
    assert "the job was not started" in str(outcome.error)
    assert ran == []
    assert room.row("last_status, locked_by") == ("failed", None)
