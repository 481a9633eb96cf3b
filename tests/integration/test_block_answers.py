"""The answer about a job's blocks is true: which block, why it did not commit, and what stands."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from cronlease import Run
from cronlease.outcome import FailReason, Outcome, Status
from tests.integration.conftest import Room

STANDS = "what the job committed by itself stands"
INSERT = "insert into effect values (1)"


@pytest.fixture(autouse=True)
def _table(room: Room) -> None:
    room.query("create table effect (n int)")


def effects(room: Room) -> list[int]:
    return [n for (n,) in room.query("select n from effect")]


def failed(room: Room, job: Callable[[Run], Any]) -> str:
    """The error of a run that failed; its lease is free, and the row has the same error."""
    outcome = room.enter(job, force=True)
    assert outcome.failed is FailReason.FAILED, outcome
    assert room.row("locked_by, last_status, last_error") == (None, "failed", outcome.error)
    return str(outcome.error)


kept: list[Any] = []


@pytest.mark.parametrize("block", ["commit", "transaction"])
def test_a_job_that_returns_with_an_open_block_fails_and_frees_its_lease(room: Room, block: str) -> None:
    async def opens(run: Run) -> AsyncIterator[None]:
        async with getattr(run, block)() as conn:
            await conn.execute(INSERT)
            yield

    async def job(run: Run) -> None:
        kept.append(opens(run))
        await anext(kept[-1])

    assert failed(room, job) == (
        f"RuntimeError: the job returned while run.{block}() was still open: leave the block first"
    )
    assert effects(room) == []


@pytest.mark.parametrize("block", ["commit", "transaction"])
def test_a_plain_job_that_returns_with_an_open_block_fails_and_frees_its_lease(room: Room, block: str) -> None:
    def opens(run: Run) -> Iterator[None]:
        with getattr(run, block)() as conn:
            conn.execute(INSERT)
            yield

    def job(run: Run) -> None:
        kept.append(opens(run))
        next(kept[-1])

    assert f"the job returned while run.{block}() was still open" in failed(room, job)
    assert effects(room) == []


@pytest.mark.parametrize("block", ["commit", "transaction"])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_block_whose_generator_goes_with_the_job_fails_the_run(room: Room, block: str, is_async: bool) -> None:
    async def opens(run: Run) -> AsyncIterator[None]:
        async with getattr(run, block)() as conn:
            await conn.execute(INSERT)
            yield

    def opens_plainly(run: Run) -> Iterator[None]:
        with getattr(run, block)() as conn:
            conn.execute(INSERT)
            yield

    async def job(run: Run) -> None:
        await anext(opens(run))

    def plain_job(run: Run) -> None:
        next(opens_plainly(run))

    error = failed(room, job if is_async else plain_job)
    assert f"run.{block}()" in error
    assert "open" in error
    assert effects(room) == []


def test_an_error_of_a_job_with_an_open_block_is_its_own(room: Room) -> None:
    def opens(run: Run) -> Iterator[None]:
        with run.commit():
            yield

    def job(run: Run) -> None:
        kept.append(opens(run))
        next(kept[-1])
        raise ValueError("no luck")

    assert failed(room, job) == "ValueError: no luck"


@pytest.mark.parametrize("block", ["commit", "transaction"])
@pytest.mark.parametrize("text", ["commit; begin", "commit"])
def test_an_error_after_a_raw_commit_says_what_stands(room: Room, block: str, text: str) -> None:
    def job(run: Run) -> None:
        with getattr(run, block)() as conn:
            conn.execute(INSERT)
            conn.pgconn.exec_(text.encode())
            raise ValueError("no luck" * 2000)

    error = failed(room, job)
    assert error.startswith("ValueError: no luck")
    assert error.endswith(STANDS)
    assert effects(room) == [1]


@pytest.mark.parametrize("block", ["commit", "transaction"])
def test_a_block_left_outside_fails_the_run_though_the_job_catches_it(room: Room, block: str) -> None:
    def job(run: Run) -> None:
        with suppress(Exception), getattr(run, block)() as conn:
            conn.execute(INSERT)
            conn.pgconn.exec_(b"commit; begin")

    error = failed(room, job)
    assert f"run.{block}() was left outside the transaction" in error
    assert error.endswith(STANDS)
    assert effects(room) == [1]


def test_a_raw_commit_in_a_pipeline_is_told(room: Room) -> None:
    def job(run: Run) -> None:
        with run.commit() as conn, conn.pipeline():
            conn.execute(INSERT)
            conn.pgconn.send_query_params(b"commit", None)

    assert failed(room, job).endswith(STANDS)
    assert effects(room) == [1]


@pytest.mark.parametrize("way", ["rollback and chain", "rollback", "reset"])
def test_without_a_commit_nothing_is_said_to_stand(room: Room, way: str) -> None:
    def job(run: Run) -> None:
        with run.commit() as conn:
            conn.execute(INSERT)
            if way == "reset":
                conn.pgconn.reset()
            else:
                conn.pgconn.exec_(way.encode())

    error = failed(room, job)
    assert "run.commit() was left outside the transaction" in error
    assert STANDS not in error
    assert effects(room) == []


def never_entered(run: Run) -> None:
    run.commit()


def raised_inside(run: Run) -> None:
    with suppress(ValueError), run.commit():
        raise ValueError("no luck")


def not_left(run: Run) -> None:
    with suppress(Exception), run.commit() as conn, suppress(psycopg.Error):
        conn.execute("select 1/0")


def not_entered(run: Run) -> None:
    with run.transaction(), suppress(RuntimeError), run.commit():
        pass


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (never_entered, "it was never entered"),
        (raised_inside, "its block raised, ValueError: no luck"),
        (not_left, "it could not be left, "),
        (not_entered, "it could not be entered, RuntimeError: run.commit() and run.transaction() do not nest"),
    ],
)
def test_a_job_that_goes_on_without_its_commit_learns_why_it_did_not_commit(
    room: Room, job: Callable[[Run], None], why: str
) -> None:
    assert f"run.commit() did not commit, and the job went on: {why}" in failed(room, job)


def test_a_run_that_lost_its_lease_answers_for_its_blocks_only(room: Room) -> None:
    def job(run: Run) -> None:
        room.take_over()
        room.query(INSERT)

    outcome: Outcome = room.enter(job)
    assert outcome.status is Status.ABANDONED
    assert outcome.error == "this run lost its lease: nothing was written in its blocks"
    assert effects(room) == [1]


@pytest.mark.parametrize(
    ("statement", "setting"),
    [
        ("set role pg_monitor", "role"),
        ("set client_encoding to sql_ascii", "client_encoding"),
        ("set datestyle to german", "datestyle"),
    ],
)
def test_a_block_that_fails_for_a_changed_setting_names_it(room: Room, statement: str, setting: str) -> None:
    def job(run: Run) -> None:
        with run.commit() as conn:
            conn.execute(INSERT)
            conn.execute(statement)

    error = failed(room, job)
    assert f"; the job changed {setting} of its session in run.commit(): reset it" in error
    assert effects(room) == []


@pytest.mark.parametrize("is_async", [True, False])
def test_a_block_whose_connection_was_finished_is_left_all_the_same(room: Room, is_async: bool) -> None:
    async def job(run: Run) -> None:
        with suppress(Exception):
            async with run.transaction() as conn:
                conn.pgconn.finish()
        async with run.commit() as conn:
            await conn.execute(INSERT)

    def plain_job(run: Run) -> None:
        with suppress(Exception), run.transaction() as conn:
            conn.pgconn.finish()
        with run.commit() as conn:
            conn.execute(INSERT)

    outcome = room.enter(job if is_async else plain_job)
    assert outcome.status is Status.SUCCESS, outcome.error
    assert effects(room) == [1]
